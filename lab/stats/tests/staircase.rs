//! A search for a threshold: against a posterior that is computed otherwise, and how often its interval holds the threshold.
//! More searches: `cargo bench -p faultline-stats --bench staircase -- 10000`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

#[path = "common/searches.rs"]
mod searches;

use faultline_stats::staircase::{Next, Outcome, SearchConfig, Staircase};
use searches::{Searches, Thing, searches};

/// Of each kind of thing.
const MANY: usize = 250;

/// The ends and the median of the posterior, likelihood by likelihood over a fine grid of thresholds.
fn witness(from: f64, trials: &[(f64, bool)]) -> [f64; 3] {
    let thresholds: Vec<f64> = (0..2200)
        .map(|i| (from.ln() - 4.005) + 0.002 * f64::from(i))
        .collect();
    let scales = [0.03, 0.04, 0.05, 0.065, 0.085, 0.12, 0.16];
    let lapses = [0.0, 0.02, 0.05];
    let mut below = Vec::new();
    let mut sum = 0.0;
    for threshold in &thresholds {
        for scale in &scales {
            for lapse in &lapses {
                let chance = |(h, passed): &(f64, bool)| {
                    let fails =
                        lapse + (1.0 - 2.0 * lapse) / (1.0 + ((h.ln() - threshold) / scale).exp());
                    if *passed { 1.0 - fails } else { fails }
                };
                sum += trials.iter().map(chance).product::<f64>();
            }
        }
        below.push(sum);
    }
    [0.05, 0.5, 0.95].map(|share| {
        let at = below
            .iter()
            .position(|below| *below >= share * sum)
            .expect("a quantile");
        thresholds[at].exp()
    })
}

#[test]
fn the_search_interval_is_the_posterior_interval() {
    let cases: [&[(f64, bool)]; 4] = [
        &[(1000.0, true), (920.0, true), (846.0, false)],
        &[
            (1000.0, true),
            (920.0, false),
            (960.0, true),
            (930.0, false),
            (945.0, true),
            (938.0, true),
        ],
        &[
            (1000.0, true),
            (920.0, false),
            (960.0, false),
            (985.0, true),
            (940.0, true),
            (950.0, false),
        ],
        &[
            (500.0, true),
            (400.0, true),
            (350.0, false),
            (370.0, false),
            (385.0, true),
            (300.0, false),
            (377.0, true),
        ],
    ];
    for trials in cases {
        let mut staircase = Staircase::new(SearchConfig {
            first_value: 1000.0,
            max_width: 0.1,
            max_trials: 40,
        })
        .expect("a search");
        trials
            .iter()
            .for_each(|(h, passed)| staircase.add_trial(*h, *passed));
        let interval = staircase.interval();
        let wanted = witness(1000.0, trials);
        for (found, wanted) in [interval.low, interval.middle, interval.high]
            .into_iter()
            .zip(wanted)
        {
            // Its thresholds are coarser.
            assert!(
                (found / wanted - 1.0).abs() < 0.006,
                "{interval:?}, {wanted:?}, {trials:?}"
            );
        }
    }
}

/// 10,000 searches in all: each noise and scale, without and with lapses, each with a seed of its own.
fn over(noises: &[f64], scales: &[f64]) -> Vec<(Thing, Searches)> {
    let mut all = Vec::new();
    for noise in noises {
        for scale in scales {
            for lapses in [0.0, 0.03] {
                let thing = Thing {
                    noise: *noise,
                    scale: *scale,
                    lapses,
                    floor: None,
                };
                let seed = (1e6 * noise + 1e4 * scale + 100.0 * lapses) as u64;
                all.push((thing, searches(&thing, MANY, seed)));
            }
        }
    }
    all
}

fn sum(all: &[(Thing, Searches)]) -> Searches {
    let mut sum = Searches::default();
    all.iter().for_each(|(_, one)| sum.add(one));
    sum
}

/// 5,500 of them.
#[test]
fn the_reported_interval_contains_the_threshold_in_nine_of_ten_searches() {
    let steep = over(&[0.01, 0.02, 0.04], &[0.01, 0.02]);
    let all = [
        steep.clone(),
        over(&[0.06, 0.08], &[0.01, 0.02]),
        over(&[0.04], &[0.04]),
    ]
    .concat();
    assert_eq!(sum(&all).all, 22 * MANY);
    for (thing, one) in &all {
        // The standard error of few is large.
        let slack = 1.65 * (0.09 / one.found.max(1) as f64).sqrt();
        assert!(
            one.coverage() >= 0.9 - slack,
            "{:.3} of {thing:?}: {one:?}",
            one.coverage()
        );
        assert!(one.found > one.all / 3, "{thing:?}: {one:?}");
    }
    for pair in all.chunks(2) {
        let one = sum(pair);
        assert!(
            one.coverage() >= 0.9,
            "{:.3} of {:?}: {one:?}",
            one.coverage(),
            pair[0].0
        );
    }
    let one = sum(&steep);
    assert!(one.found > one.all * 9 / 10, "{one:?}");
    assert!(
        one.off / (one.found as f64) < 0.02 && one.trials < one.all * 40,
        "{one:?}"
    );
}

/// 4,500 of them.
#[test]
fn excessive_noise_is_reported_and_wrong_limits_are_under_10_percent() {
    let all = [
        over(&[0.08, 0.12], &[0.06, 0.08]),
        over(&[0.16], &[0.02, 0.08]),
        over(&[0.02, 0.06, 0.2], &[0.12]),
    ]
    .concat();
    assert_eq!(sum(&all).all, 18 * MANY);
    for pair in all.chunks(2) {
        let (thing, one) = (pair[0].0, sum(pair));
        assert!(one.noisy > one.all * 6 / 10, "{thing:?}: {one:?}");
        assert!(one.found - one.covers < one.all / 10, "{thing:?}: {one:?}");
    }
}

/// Where a floor is below the threshold, near it or above it: 1,800 searches more.
#[test]
fn a_search_range_above_a_floor_contains_the_smallest_sufficient_limit() {
    for floor in [0.8, 0.95, 1.0, 1.05, 1.1] {
        let mut all = Searches::default();
        for noise in [0.01, 0.04, 0.08] {
            for scale in [0.01, 0.04] {
                let thing = Thing {
                    noise,
                    scale,
                    lapses: 0.0,
                    floor: Some(floor),
                };
                all.add(&searches(
                    &thing,
                    60,
                    (1e6 * noise + 1e4 * scale + 100.0 * floor) as u64,
                ));
            }
        }
        assert!(
            all.coverage() >= 0.9,
            "{:.3} at {floor}: {all:?}",
            all.coverage()
        );
        // Others begin below their floor.
        let decides = floor >= 1.0;
        assert!(
            !decides || all.found > all.all * 9 / 10 && all.trials < all.all * 22,
            "{floor}: {all:?}"
        );
    }
}

#[test]
fn a_floor_rising_above_the_confirmed_range_starts_a_new_range() {
    let mut staircase = Staircase::new(SearchConfig {
        first_value: 1000.0,
        max_width: 0.1,
        max_trials: 40,
    })
    .expect("a search");
    staircase.raise_floor(400.0);
    let (mut risen, mut confirmed) = (false, Vec::new());
    let outcome = loop {
        match staircase.next_trial() {
            Next::Try(h) => staircase.add_trial(h, true),
            Next::Confirm {
                value: h,
                is_upper: true,
            } if !risen => {
                // What failed here shows a floor above it.
                staircase.add_end_trial(h, true, false);
                staircase.raise_floor(500.0);
                risen = true;
            }
            Next::Confirm {
                value: h,
                is_upper: high,
            } => {
                staircase.add_end_trial(h, high, high);
                confirmed.push((h, high));
            }
            Next::Over(outcome) => break outcome,
        }
    };
    let Outcome::Found(interval) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        risen && confirmed.len() == 6 && confirmed.iter().all(|(h, _)| *h >= 500.0),
        "{confirmed:?}"
    );
    assert!(
        interval.low == 500.0 && interval.high >= 525.0 && interval.width() <= 0.1,
        "{interval:?}"
    );
}
