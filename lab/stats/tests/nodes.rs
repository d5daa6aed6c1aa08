//! Two nodes whose latencies are known: intervals of their differences cover, and two alike ones are seldom told apart. The
//! tables of the README: `cargo test --release -p faultline-stats --test nodes -- --ignored --nocapture`.

#[path = "common/nodes.rs"]
mod nodes;
#[path = "common/random.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod random;

use nodes::{Effort, Latency, Share, means, p95, ratios};

const ROUNDS: usize = 1000;
/// Of each simulation; the standard error of a share of 5 % is then 0.7 %.
const TIMES: u64 = 1000;

/// What an interval of 95 % has to cover, in percent.
const COVERAGE: std::ops::RangeInclusive<f64> = 93.0..=97.5;

#[test]
fn p95_comparison_of_stalling_nodes_is_as_good_as_a_bootstrap() {
    let effort = Effort {
        times: TIMES,
        plain: 200,
    };
    // Each with an effect that a plain bootstrap finds about as often as not.
    for (latency, factor) in [
        (Latency::Normal, 1.02),
        (Latency::Stalls, 1.02),
        (Latency::Pareto(3.0), 1.2),
    ] {
        let found = p95(latency, ROUNDS, factor, effort);
        let covers = found.covers.percent();
        assert!(COVERAGE.contains(&covers), "{latency:?} {found:?}");
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
    assert_eq!(found.excludes.percent(), 100.0, "{found:?}");
}

#[test]
fn the_p95_interval_of_dependent_rounds_has_nominal_coverage() {
    let effort = Effort {
        times: TIMES,
        plain: 0,
    };
    for (latency, rounds) in [
        (Latency::LongStalls, ROUNDS),
        (Latency::Autocorrelated(0.5), ROUNDS),
        (Latency::Autocorrelated(0.9), ROUNDS),
        (Latency::Autocorrelated(0.9), 3 * ROUNDS),
    ] {
        let found = p95(latency, rounds, 1.04, effort);
        let covers = found.covers.percent();
        assert!(COVERAGE.contains(&covers), "{latency:?} {found:?}");
        // What seldom calls itself reliable does so by luck.
        if found.reliable.percent() > 50.0 {
            let covers = found.reliable_covers.percent();
            assert!(COVERAGE.contains(&covers), "{latency:?} {found:?}");
        }
    }
}

#[test]
fn two_equal_nodes_are_rarely_called_different_for_any_latencies() {
    for latency in Latency::STEADY {
        are_seldom_told_apart(latency);
    }
}

#[test]
fn two_equal_drifting_nodes_are_rarely_called_different() {
    for latency in Latency::DRIFTING {
        are_seldom_told_apart(latency);
    }
}

/// No exemption, and no allowance for the error of the simulation.
fn are_seldom_told_apart(latency: Latency) {
    let effort = Effort {
        times: TIMES,
        plain: 0,
    };
    for found in [
        means(latency, ROUNDS / 10, 1.0, effort),
        means(latency, ROUNDS, 1.0, effort),
        p95(latency, ROUNDS, 1.0, effort),
        ratios(latency, ROUNDS / 10, 1.0, effort),
    ] {
        assert!(found.shown.percent() <= 6.0, "{latency:?} {found:?}");
    }
}

#[test]
fn a_50_percent_slower_node_is_detected_despite_stalls() {
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
#[ignore = "prints the first table of the README, in minutes"]
#[expect(clippy::print_stdout, reason = "prints its findings")]
fn print_table_of_p95() {
    let effort = Effort {
        times: TIMES,
        plain: 200,
    };
    println!("| latency | rounds | covers | reliable | these cover | found | by a bootstrap |");
    for (latency, factor) in [
        (Latency::Normal, 1.02),
        (Latency::Stalls, 1.02),
        (Latency::LongStalls, 1.04),
        (Latency::Pareto(3.0), 1.2),
        (Latency::Pareto(1.5), 1.5),
        (Latency::Autocorrelated(0.5), 1.04),
        (Latency::Autocorrelated(0.9), 1.04),
    ] {
        for rounds in [ROUNDS / 10, ROUNDS, 3 * ROUNDS] {
            let found = p95(latency, rounds, factor, effort);
            let shares = [
                found.covers,
                found.reliable,
                found.reliable_covers,
                found.excludes,
                found.plain,
            ];
            println!("{}", row(latency, rounds, &shares));
        }
    }
}

#[test]
#[ignore = "prints the second table of the README, in minutes"]
#[expect(clippy::print_stdout, reason = "prints its findings")]
fn print_table_of_means() {
    let effort = Effort {
        times: TIMES,
        plain: 200,
    };
    println!(
        "| latency | rounds | alike: shown | by a bootstrap | by ratio | 2 % | 50 % | by ratio |"
    );
    let all = [
        &Latency::STEADY[..],
        &Latency::DRIFTING,
        &Latency::BARELY_DRIFTING,
    ];
    for latency in all.into_iter().flatten().copied() {
        for rounds in [30, ROUNDS / 10, 300, ROUNDS] {
            let [alike, little, slower] =
                [1.0, 1.02, 1.5].map(|factor| means(latency, rounds, factor, effort));
            let [same, worse] = [1.0, 1.5].map(|factor| ratios(latency, rounds, factor, effort));
            let shares = [
                alike.shown,
                alike.plain,
                same.shown,
                little.shown,
                slower.shown,
                worse.shown,
            ];
            println!("{}", row(latency, rounds, &shares));
        }
    }
}

fn row(latency: Latency, rounds: usize, shares: &[Share]) -> String {
    let cells = shares.iter().map(|share| match share.percent() {
        none if none.is_nan() => " - |".to_owned(),
        percent => format!(" {percent:.1} |"),
    });
    format!(
        "| {} | {rounds} |{}",
        latency.name(),
        cells.collect::<String>()
    )
}
