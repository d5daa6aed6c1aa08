//! How often the interval of a search holds the threshold: the numbers in the README come from here.
#![expect(clippy::print_stdout, reason = "prints its findings")]
#![expect(clippy::expect_used, reason = "a simulation that cannot begin ends")]

#[path = "../tests/common/searches.rs"]
mod searches;

use searches::{Thing, searches};

fn main() {
    let many: usize = std::env::args()
        .skip(1)
        .find_map(|a| a.parse().ok())
        .unwrap_or(500);
    println!("noise scale lapses  found noisy other  covers  trials failures off");
    for noise in [0.01, 0.02, 0.04, 0.06, 0.08, 0.12] {
        for scale in [0.01, 0.02, 0.04, 0.08] {
            for lapses in [0.0, 0.03] {
                let s = searches(
                    &Thing {
                        noise,
                        scale,
                        lapses,
                        floor: None,
                    },
                    many,
                    7,
                );
                let share = |n: usize| 100.0 * n as f64 / s.all as f64;
                println!(
                    "{:4.0} % {:4.0} % {:4.0} %  {:5.1} {:5.1} {:5.1}  {:5.1}  {:5.1} {:5.1} {:5.2}",
                    100.0 * noise,
                    100.0 * scale,
                    100.0 * lapses,
                    share(s.found),
                    share(s.noisy),
                    share(s.other),
                    100.0 * s.coverage(),
                    s.trials as f64 / s.all as f64,
                    s.failures as f64 / s.all as f64,
                    100.0 * s.off / s.found as f64
                );
            }
        }
    }
}
