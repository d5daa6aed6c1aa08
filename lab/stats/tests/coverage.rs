//! Intervals cover as often as they say, and where they do not they say so. More, with more replications: `cargo bench -p
//! faultline-stats --bench coverage`.

#[path = "common/random.rs"]
mod random;
#[path = "common/simulation.rs"]
#[expect(dead_code, reason = "the benchmark uses the rest")]
mod simulation;

use simulation::{Case, Coverage, Process, RUN, What, coverage};

/// Replications: the standard error of a coverage of 95 % is 0.5 %.
const REPLICATIONS: usize = 2000;

/// Replications of what the three named cases are no proof for: the standard error is 1 %.
const FEWER: usize = 500;

fn simulate(process: Process, n: usize, what: What, replications: usize) -> Coverage {
    let c = coverage(&Case { process, n, what }, replications, 7);
    println!("{} {} {n}: {c:?}", process.name(), what.name());
    c
}

#[track_caller]
fn holds(process: Process, n: usize, what: What, replications: usize) {
    let c = simulate(process, n, what, replications);
    // Fewer replications find a good interval outside of 93 to 97 % by chance.
    let slack = if replications < REPLICATIONS {
        2.0 * (0.95 * 0.05 / replications as f64).sqrt()
    } else {
        0.0
    };
    assert!(
        (0.93 - slack..=0.97 + slack).contains(&c.covers),
        "covers {:.1} %",
        100.0 * c.covers
    );
    assert!(
        c.reliable > 0.9,
        "calls itself reliable {:.1} % of the time",
        100.0 * c.reliable
    );
}

#[test]
fn the_mean_interval_of_independent_samples_has_nominal_coverage() {
    holds(Process::Autoregression(0.0), RUN, What::Mean, REPLICATIONS);
}

#[test]
fn the_mean_interval_with_rho_a_half_has_nominal_coverage() {
    holds(Process::Autoregression(0.5), RUN, What::Mean, REPLICATIONS);
}

#[test]
fn the_mean_interval_with_rho_nine_tenths_has_nominal_coverage() {
    holds(Process::Autoregression(0.9), RUN, What::Mean, REPLICATIONS);
}

#[test]
fn the_mean_interval_with_minutes_of_autocorrelation_has_nominal_coverage() {
    holds(Process::Autoregression(0.99), RUN, What::Mean, FEWER);
}

#[test]
fn the_mean_interval_of_a_run_with_gaps_has_nominal_coverage() {
    holds(Process::Autoregression(0.9), RUN, What::MeanWithGaps, FEWER);
}

#[test]
fn a_ratio_of_sums_interval_has_nominal_coverage() {
    holds(Process::Autoregression(0.9), RUN, What::RatioOfSums, FEWER);
}

#[test]
fn the_p95_interval_of_a_run_has_nominal_coverage() {
    holds(
        Process::Autoregression(0.9),
        RUN,
        What::Quantile(0.95),
        FEWER,
    );
    holds(Process::LogNormal(0.5), RUN, What::Quantile(0.95), FEWER);
}

#[test]
fn the_mean_interval_of_overdispersed_or_long_tailed_data_has_nominal_coverage() {
    holds(Process::Counts(0.85, 0.2, 1.0), RUN, What::Mean, FEWER);
    holds(Process::Counts(5.0, 0.5, 20.0), RUN, What::Mean, FEWER);
    holds(Process::LogNormal(0.5), RUN, What::Mean, FEWER);
}

#[test]
fn an_hour_with_rho_nine_tenths_has_nominal_coverage() {
    holds(Process::Autoregression(0.9), 3600, What::Mean, REPLICATIONS);
}

/// It would not cover: so it must not call itself reliable.
#[test]
fn a_200_sample_run_with_rho_nine_tenths_is_too_short() {
    let c = simulate(Process::Autoregression(0.9), 200, What::Mean, REPLICATIONS);
    assert!(
        c.covers < 0.93,
        "covers {:.1} %: no reason to call it short",
        100.0 * c.covers
    );
    assert!(
        c.reliable < 0.01,
        "calls itself reliable {:.1} % of the time",
        100.0 * c.reliable
    );
}

#[test]
fn a_run_with_15_minutes_autocorrelation_is_too_short() {
    let c = simulate(Process::Autoregression(0.999), RUN, What::Mean, 300);
    assert!(c.reliable < 0.01, "{c:?}");
}

#[test]
fn rare_count_bursts_in_an_hour_are_reported_as_too_rare() {
    let c = simulate(
        Process::Counts(0.02, 0.05, 10.0),
        3600,
        What::Mean,
        REPLICATIONS,
    );
    assert!(c.covers < 0.93 && c.reliable < 0.2, "{c:?}");
}
