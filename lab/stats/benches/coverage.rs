//! How often intervals cover, on series whose truth is known: the numbers in the README come from here.
#![expect(clippy::print_stdout, reason = "prints its findings")]

#[path = "../tests/common/random.rs"]
mod random;
#[path = "../tests/common/simulation.rs"]
mod simulation;

use simulation::{Case, coverage};

fn main() {
    let replications: u32 = std::env::args()
        .skip(1)
        .find_map(|a| a.parse().ok())
        .unwrap_or(2000);
    let error = 100.0 * (0.95 * 0.05 / f64::from(replications)).sqrt();
    println!("{replications} replications; standard error of a coverage of 95 %: {error:.2} %");
    let heads = [
        "n",
        "what",
        "covers",
        "below",
        "above",
        "reliable",
        "covers if",
    ];
    print!("{:44}", "series");
    heads.iter().for_each(|head| print!(" {head:>9}"));
    println!();
    for case in Case::all() {
        let c = coverage(&case, replications as usize, 7);
        print!(
            "{:44} {:>9} {:>9}",
            case.process.name(),
            case.n,
            case.what.name()
        );
        for share in [c.covers, c.below, c.above, c.reliable, c.covers_if_reliable] {
            print!(" {:>9.1}", 100.0 * share);
        }
        println!();
    }
}
