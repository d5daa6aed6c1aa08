//! Two nodes whose latencies are known: intervals of their differences cover, and two alike ones are seldom told apart. The
//! tables of the README: `cargo test --release -p faultline-stats --test nodes -- --ignored --nocapture`.

#[path = "common/nodes.rs"]
mod nodes;
#[path = "common/random.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod random;

use nodes::{Effort, Latency, means, p95, ratios};

const ROUNDS: usize = 1000;

/// Two standard errors of a share of 5 % of so many comparisons, in percent.
fn slack(times: u64) -> f64 {
    200.0 * (0.05 * 0.95 / times as f64).sqrt()
}

#[test]
fn the_p95_of_nodes_that_stall_is_compared_as_well_as_by_a_plain_bootstrap() {
    let effort = Effort {
        times: 300,
        plain: 200,
    };
    // Each with an effect that a plain bootstrap finds about as often as not.
    for (latency, factor) in [
        (Latency::Normal, 1.02),
        (Latency::Stalls, 1.02),
        (Latency::Pareto(3.0), 1.2),
    ] {
        let found = p95(latency, ROUNDS, factor, effort);
        let (covers, slack) = (found.covers.percent(), slack(effort.times));
        assert!(
            (93.0 - slack..=97.0 + slack).contains(&covers),
            "{latency:?} {found:?}"
        );
        let power = found.excludes.percent();
        assert!(power > 0.9 * found.plain.percent(), "{latency:?} {found:?}");
    }
    let found = p95(
        Latency::Stalls,
        ROUNDS,
        1.5,
        Effort {
            times: 40,
            plain: 0,
        },
    );
    assert_eq!(found.shown.percent(), 100.0, "{found:?}");
}

#[test]
fn the_p95_of_nodes_whose_rounds_depend_on_one_another_is_covered() {
    let effort = Effort {
        times: 300,
        plain: 0,
    };
    for latency in [Latency::LongStalls, Latency::Autocorrelated(0.5)] {
        let found = p95(latency, ROUNDS, 1.2, effort);
        let (covers, slack) = (found.covers.percent(), slack(effort.times));
        assert!(
            (93.0 - slack..=97.0 + slack).contains(&covers),
            "{latency:?} {found:?}"
        );
    }
}

#[test]
fn two_alike_nodes_are_seldom_told_apart_whatever_their_latencies() {
    let effort = Effort {
        times: 400,
        plain: 0,
    };
    for latency in Latency::ALL {
        let found = means(latency, ROUNDS, 1.0, effort);
        // A walk this slow is seldom seen to drift: the README says how often.
        if !matches!(latency, Latency::OwnDrift(step) if step < 0.05) {
            assert!(
                found.shown.percent() <= 6.0 + slack(effort.times),
                "{latency:?} {found:?}"
            );
        }
        let found = ratios(latency, ROUNDS / 10, 1.0, effort);
        assert!(found.shown.percent() <= 6.0, "{latency:?} {found:?}");
    }
}

#[test]
fn a_node_that_takes_half_as_long_again_is_told_apart_although_it_stalls() {
    let effort = Effort {
        times: 100,
        plain: 0,
    };
    for (rounds, least) in [(100, 75.0), (ROUNDS, 95.0)] {
        let found = means(Latency::Stalls, rounds, 1.5, effort);
        assert!(found.shown.percent() > least, "{rounds} {found:?}");
        let found = ratios(Latency::Stalls, rounds, 1.5, effort);
        assert!(found.shown.percent() > least, "{rounds} {found:?}");
    }
    // Fewer events than decide: the interval may leave 0 out, and nothing is shown.
    let found = means(Latency::Pareto(1.5), 100, 1.0, effort);
    assert!(found.shown.percent() <= found.excludes.percent());
}

#[test]
#[ignore = "prints the tables of the README, in minutes"]
#[expect(clippy::print_stdout, reason = "prints its findings")]
fn tables() {
    let effort = Effort {
        times: 400,
        plain: 200,
    };
    println!(
        "| latency | rounds | difference of p95 covers, % | is found, % | by a plain bootstrap, % |"
    );
    for (latency, factor) in [
        (Latency::Normal, 1.02),
        (Latency::Stalls, 1.02),
        (Latency::LongStalls, 1.04),
        (Latency::Pareto(3.0), 1.2),
        (Latency::Pareto(1.5), 1.5),
        (Latency::Autocorrelated(0.5), 1.04),
        (Latency::Autocorrelated(0.9), 1.04),
    ] {
        for rounds in [100, ROUNDS] {
            let found = p95(latency, rounds, factor, effort);
            println!(
                "| {} | {rounds} | {:.1} | {:.1} | {:.1} |",
                latency.name(),
                found.covers.percent(),
                found.excludes.percent(),
                found.plain.percent()
            );
        }
    }
    println!(
        "| latency | rounds | alike: shown, % | by a plain bootstrap, % | half as long again: shown, % | diff, alike | diff, half as long again |"
    );
    for latency in Latency::ALL {
        for rounds in [30, 100, ROUNDS] {
            let [alike, slower] = [1.0, 1.5].map(|factor| means(latency, rounds, factor, effort));
            let [same, worse] = [1.0, 1.5].map(|factor| ratios(latency, rounds, factor, effort));
            println!(
                "| {} | {rounds} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                latency.name(),
                alike.shown.percent(),
                alike.plain.percent(),
                slower.shown.percent(),
                same.shown.percent(),
                worse.shown.percent()
            );
        }
    }
}
