//! A search for a threshold: against a posterior that is computed otherwise, and how often its interval holds the threshold.
//! More searches: `cargo bench -p faultline-stats --bench staircase -- 10000`.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

#[path = "common/searches.rs"]
mod searches;

use faultline_stats::staircase::{Staircase, Wanted};
use searches::{Searches, Thing, searches};

/// Of each kind of thing.
const MANY: usize = 70;

/// The ends and the median of the posterior, likelihood by likelihood over a fine grid of thresholds.
fn witness(from: f64, trials: &[(f64, bool)]) -> [f64; 3] {
    let thresholds: Vec<f64> = (0..2200).map(|i| (from.ln() - 4.005) + 0.002 * f64::from(i)).collect();
    let slopes = [0.01, 0.016, 0.025, 0.04, 0.063, 0.1, 0.16];
    let lapses = [0.0, 0.02, 0.05];
    let mut below = Vec::new();
    let mut sum = 0.0;
    for threshold in &thresholds {
        for slope in &slopes {
            for lapse in &lapses {
                let chance = |(h, kept_up): &(f64, bool)| {
                    let fails = lapse + (1.0 - 2.0 * lapse) / (1.0 + ((h.ln() - threshold) / slope).exp());
                    if *kept_up { 1.0 - fails } else { fails }
                };
                sum += trials.iter().map(chance).product::<f64>();
            }
        }
        below.push(sum);
    }
    [0.05, 0.5, 0.95].map(|share| {
        let at = below.iter().position(|below| *below >= share * sum).expect("a quantile");
        thresholds[at].exp()
    })
}

#[test]
fn the_interval_is_that_of_the_posterior() {
    let cases: [&[(f64, bool)]; 4] = [
        &[(1000.0, true), (920.0, true), (846.0, false)],
        &[(1000.0, true), (920.0, false), (960.0, true), (930.0, false), (945.0, true), (938.0, true)],
        &[(1000.0, true), (920.0, false), (960.0, false), (985.0, true), (940.0, true), (950.0, false)],
        &[(500.0, true), (400.0, true), (350.0, false), (370.0, false), (385.0, true), (300.0, false), (377.0, true)],
    ];
    for trials in cases {
        let mut staircase = Staircase::new(Wanted { from: 1000.0, width: 0.1, most: 40 }).expect("a search");
        trials.iter().for_each(|(h, kept_up)| staircase.take(*h, *kept_up));
        let interval = staircase.interval();
        let wanted = witness(1000.0, trials);
        for (found, wanted) in [interval.low, interval.middle, interval.high].into_iter().zip(wanted) {
            // Its thresholds are coarser.
            assert!((found / wanted - 1.0).abs() < 0.006, "{interval:?}, {wanted:?}, {trials:?}");
        }
    }
}

/// Over noise and slopes; a seed for each.
fn over(noises: &[f64], slopes: &[f64]) -> Searches {
    let mut all = Searches::default();
    for (seed, noise) in (1..).zip(noises) {
        for (more, slope) in (1..).zip(slopes) {
            for lapses in [0.0, 0.03] {
                let thing = Thing { noise: *noise, slope: *slope, lapses };
                all.add(&searches(&thing, MANY, 100 * seed + more));
            }
        }
    }
    all
}

#[test]
fn the_interval_holds_the_threshold_in_nine_of_ten_searches() {
    let all = over(&[0.01, 0.02, 0.03, 0.04], &[0.01, 0.02]);
    assert!(all.found > all.all * 7 / 10, "{all:?}");
    // Its standard error is 1 %.
    assert!(all.coverage() >= 0.9, "{:.3} of {all:?}", all.coverage());
    assert!(all.off / (all.found as f64) < 0.03, "{all:?}");
    assert!(all.trials < all.all * 32, "{all:?}");
}

#[test]
fn up_to_a_noise_of_eight_percent_too_and_where_noise_is_too_large_it_says_so() {
    let all = over(&[0.01, 0.04, 0.06, 0.08], &[0.02]);
    assert!(all.coverage() >= 0.9, "{:.3} of {all:?}", all.coverage());
    let all = over(&[0.08], &[0.06]);
    assert!(all.noisy > all.all / 3, "{all:?}");
}
