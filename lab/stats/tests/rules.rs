//! Rules that no formula has: gaps, resets, ends, limits, words.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::{
    IntervalPlan, Reliability,
    block_bootstrap::{self, Method},
    bracket::{Contradiction, Replicate, bracket},
    caveat::{counts_hits_as_before_4_4, find_separate_arms, reliability_text},
    histogram,
    rate::{Reading, rates},
    smooth::moving_average,
    summary,
};

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

fn readings(of: &[(f64, Option<f64>, u64)]) -> Vec<Reading> {
    of.iter()
        .map(|(at, total, epoch)| Reading {
            at: *at,
            total: *total,
            incarnation: *epoch,
        })
        .collect()
}

#[test]
fn a_rate_is_the_increase_per_elapsed_second() {
    let found = rates(
        &readings(&[
            (0.0, Some(100.0), 1),
            (1.0, Some(150.0), 1),
            (3.0, Some(150.0), 1),
        ]),
        2.5,
    );
    assert_eq!(found.per_second, [None, Some(50.0), Some(0.0)]);
    assert_eq!((found.increase, found.seconds), (50.0, 3.0));
}

#[test]
fn a_counter_reset_has_no_rate_instead_of_a_negative_one() {
    let found = rates(
        &readings(&[
            (0.0, Some(100.0), 1),
            (1.0, Some(7.0), 1),
            (2.0, Some(9.0), 1),
        ]),
        1.5,
    );
    assert_eq!(found.per_second, [None, None, Some(2.0)]);
    assert_eq!((found.increase, found.seconds), (2.0, 1.0));
}

#[test]
fn no_rate_is_computed_across_a_process_change() {
    let found = rates(
        &readings(&[
            (0.0, Some(100.0), 1),
            (1.0, Some(500.0), 2),
            (2.0, Some(510.0), 2),
        ]),
        1.5,
    );
    assert_eq!(found.per_second, [None, None, Some(10.0)]);
}

#[test]
fn an_increase_across_a_gap_does_not_count() {
    let found = rates(
        &readings(&[
            (0.0, Some(0.0), 1),
            (1.0, Some(1.0), 1),
            (60.0, Some(90.0), 1),
            (61.0, Some(91.0), 1),
        ]),
        1.5,
    );
    assert_eq!(found.per_second, [None, Some(1.0), None, Some(1.0)]);
    assert_eq!((found.increase, found.seconds), (2.0, 2.0));
}

#[test]
fn a_missing_sample_makes_the_next_interval_longer() {
    let of = [(0.0, Some(0.0), 1), (1.0, None, 1), (2.0, Some(4.0), 1)];
    assert_eq!(rates(&readings(&of), 1.5).per_second, [None, None, None]);
    assert_eq!(
        rates(&readings(&of), 2.5).per_second,
        [None, None, Some(2.0)]
    );
}

#[test]
fn a_stopped_clock_produces_no_rate() {
    let found = rates(
        &readings(&[
            (5.0, Some(0.0), 1),
            (5.0, Some(1.0), 1),
            (4.0, Some(2.0), 1),
        ]),
        1.5,
    );
    assert_eq!(found.per_second, [None, None, None]);
    assert_eq!(found.seconds, 0.0);
}

#[test]
fn a_centred_average_keeps_gaps_and_shrinks_at_the_ends() {
    let values = [Some(1.0), Some(2.0), None, Some(6.0), Some(8.0)];
    let found = moving_average(&values, 3);
    assert_eq!(found, [Some(1.5), Some(1.5), None, Some(7.0), Some(7.0)]);
}

#[test]
fn the_studys_mean_excludes_values_above_three_times_the_mean() {
    // The mean of all is 5.5; 40 is above 16.5. A second pass would leave out 8 as well.
    let found =
        summary::means_and_peaks(&some(&[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0, 40.0]))
            .unwrap();
    assert_eq!(
        (
            found.mean_with_peaks,
            found.peaks,
            found.non_peaks,
            found.max
        ),
        (5.5, 1, 9, 40.0)
    );
    assert_eq!(found.mean_without_peaks, 15.0 / 9.0);
    let exactly = summary::means_and_peaks(&some(&[0.0, 0.0, 3.0])).unwrap();
    assert_eq!(
        (exactly.peaks, exactly.mean_without_peaks),
        (0, 1.0),
        "at three times it stays"
    );
}

#[test]
fn empty_data_has_no_statistics() {
    assert_eq!(
        summary::summary(&[None, Some(f64::NAN)]),
        summary::Summary {
            missing: 2,
            ..Default::default()
        }
    );
    assert_eq!(summary::quantile(&[None], 0.5), None);
    assert_eq!(summary::means_and_peaks(&[]), None);
    assert_eq!(
        block_bootstrap::mean(&[Some(1.0), None], &IntervalPlan::default()),
        None
    );
    assert!(histogram::freedman_diaconis_edges(&[None], 1.0, 10).is_empty());
}

#[test]
fn a_histogram_bin_includes_its_lower_edge_and_the_last_both_edges() {
    let values = [
        Some(-0.1),
        Some(0.0),
        Some(1.0),
        Some(1.9),
        Some(3.0),
        Some(3.1),
        None,
    ];
    let found = histogram::count(&values, &histogram::linear_edges(0.0, 3.0, 3));
    assert_eq!((found.counts, found.above), (vec![1, 2, 1], 1));
}

#[test]
fn a_long_tail_beyond_the_quantile_counts_as_above() {
    let mut values = some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    values.push(Some(1e6));
    let edges = histogram::freedman_diaconis_edges(&values, 0.8, 50);
    let found = histogram::count(&values, &edges);
    assert!(
        *edges.last().unwrap() < 10.0 && found.above == 2,
        "{edges:?}"
    );
    assert_eq!(
        histogram::freedman_diaconis_edges(&some(&[5.0; 9]), 1.0, 50).len(),
        2,
        "a constant has one class"
    );
}

#[test]
fn a_rare_amounts_interval_stays_above_zero_and_names_its_method() {
    let mut values = vec![Some(0.0); 60];
    values[20] = Some(30.0);
    values[45] = Some(2.0);
    let plain = block_bootstrap::mean(&values, &IntervalPlan::default()).unwrap();
    assert!(plain.low < 0.0, "no reason for another method: {plain:?}");
    let found = block_bootstrap::mean_of_amounts(&values, &IntervalPlan::default()).unwrap();
    assert!(
        found.low > 0.0 && found.high > plain.high && found.value == plain.value,
        "{found:?}"
    );
    assert_eq!(found.method, Method::Score);
}

#[test]
fn a_high_quantile_needs_enough_values_to_have_one_beyond_it() {
    assert_eq!(
        [0.0, 0.5, 0.9, 0.95, 0.99, 1.0].map(summary::min_values_for),
        [1, 1, 10, 20, 100, 1]
    );
    let values = some(&(0..19).map(f64::from).collect::<Vec<_>>());
    assert_eq!(summary::quantile_if_enough(&values, 0.95), None);
    assert_eq!(summary::quantile_if_enough(&values, 0.5), Some(9.0));
    assert_eq!(summary::quantile_if_enough(&values, 1.0), Some(18.0));
    let values = some(&(0..20).map(f64::from).collect::<Vec<_>>());
    assert_eq!(
        summary::quantile_if_enough(&values, 0.95),
        summary::quantile(&values, 0.95)
    );
    assert_eq!(summary::quantile_if_enough(&[], 0.5), None);
}

#[test]
fn a_constant_series_has_no_interval_and_states_why() {
    for value in [0.0, 0.1, 6e11] {
        let found =
            block_bootstrap::mean(&vec![Some(value); 1000], &IntervalPlan::default()).unwrap();
        assert_eq!(
            (found.reliability, found.method),
            (Reliability::Constant, Method::None)
        );
        assert!((found.value - value).abs() <= 1e-15 * value && found.low == found.high);
    }
    let below: Vec<Option<f64>> = (1..1000).map(|v| Some(f64::from(v))).collect();
    let above: Vec<Option<f64>> = below.iter().map(|v| v.map(|v| v / 3.0)).collect();
    let found = block_bootstrap::ratio_of_sums(&above, &below, &IntervalPlan::default()).unwrap();
    assert_eq!(found.reliability, Reliability::Constant, "{found:?}");
}

#[test]
fn a_ramp_is_reported_as_drifting() {
    let ramp: Vec<Option<f64>> = (0..43_200).map(|i| Some(f64::from(i))).collect();
    let found = block_bootstrap::mean(&ramp, &IntervalPlan::default()).unwrap();
    assert_eq!(found.reliability, Reliability::Drifts);
}

#[test]
fn a_single_burst_is_reported_as_too_rare() {
    let mut counts = vec![Some(0.0); 43_200];
    counts[20_000] = Some(134.0);
    let found = block_bootstrap::mean(&counts, &IntervalPlan::default()).unwrap();
    assert_eq!(
        (found.reliability, found.method),
        (Reliability::TooRare, Method::BlockBootstrapBasic)
    );
    assert!(found.low.is_finite() && found.high.is_finite());
}

#[test]
fn a_quantile_of_mostly_zeros_is_zero_with_an_interval() {
    let counts: Vec<Option<f64>> = (0..10_000)
        .map(|i| Some(if i % 50 == 0 { 3.0 } else { 0.0 }))
        .collect();
    let found = block_bootstrap::quantile(&counts, 0.5, &IntervalPlan::default()).unwrap();
    assert_eq!((found.value, found.low, found.high), (0.0, 0.0, 0.0));
    let top = block_bootstrap::quantile(&counts, 0.999, &IntervalPlan::default()).unwrap();
    assert_eq!((top.value, top.high), (3.0, 3.0));
}

#[test]
fn a_low_quantile_of_many_zeros_is_not_a_constant() {
    let counts: Vec<Option<f64>> = (0..10_000)
        .map(|i| Some(f64::from((i * 7919) % 10) - 6.0).map(|v| v.max(0.0)))
        .collect();
    let found = block_bootstrap::quantile(&counts, 0.05, &IntervalPlan::default()).unwrap();
    assert_eq!((found.value, found.low, found.high), (0.0, 0.0, 0.0));
    assert_ne!(found.reliability, Reliability::Constant, "{found:?}");
}

#[test]
fn an_interval_widens_with_autocorrelation() {
    let mut random = fastrand::Rng::with_seed(9);
    let independent: Vec<Option<f64>> = (0..20_000).map(|_| Some(random.f64())).collect();
    let held: Vec<Option<f64>> = (0..20_000).map(|i| independent[i / 25]).collect();
    let width = |values: &[Option<f64>]| {
        block_bootstrap::mean(values, &IntervalPlan::default())
            .map(|e| e.high - e.low)
            .unwrap()
    };
    let ratio = width(&held) / width(&independent);
    assert!(
        (4.0..6.0).contains(&ratio),
        "each value 25 times over: 5 times as wide, found {ratio}"
    );
}

#[test]
fn a_bracket_is_smallest_always_sufficient_and_largest_once_failed_limit() {
    let run = |limit, passed| Replicate { limit, passed };
    let found = bracket(&[
        run(128, Some(false)),
        run(256, Some(true)),
        run(256, Some(false)),
        run(512, Some(true)),
        run(512, Some(true)),
        run(1024, Some(true)),
    ]);
    assert_eq!(
        (found.largest_failed, found.smallest_sufficient),
        (Some(256), Some(512))
    );
    assert!(found.contradictions.is_empty());
    assert_eq!((found.limits[1].passed, found.limits[1].failed), (1, 1));
}

#[test]
fn a_limit_with_an_unknown_replicate_is_not_sufficient() {
    let run = |limit, passed| Replicate { limit, passed };
    let found = bracket(&[run(512, Some(true)), run(512, None), run(1024, Some(true))]);
    assert_eq!(
        (found.largest_failed, found.smallest_sufficient),
        (None, Some(1024))
    );
    assert_eq!(bracket(&[run(512, None)]).smallest_sufficient, None);
}

#[test]
fn a_sufficient_limit_below_a_failed_one_is_a_contradiction() {
    let run = |limit, passed| Replicate { limit, passed };
    let found = bracket(&[
        run(256, Some(true)),
        run(512, Some(false)),
        run(1024, Some(true)),
    ]);
    assert_eq!(
        found.contradictions,
        [Contradiction {
            passing_limit: 256,
            failing_limit: 512
        }]
    );
    assert_eq!(
        (found.smallest_sufficient, found.largest_failed),
        (Some(256), Some(512))
    );
}

#[test]
fn running_all_of_one_arm_first_is_a_caveat() {
    let found =
        find_separate_arms(&[(3.0, "1024"), (1.0, "512"), (2.0, "512"), (4.0, "1024")]).unwrap();
    assert_eq!(found, ("512", "1024"));
    assert_eq!(
        find_separate_arms(&[(1.0, "512"), (2.0, "1024"), (3.0, "1024"), (4.0, "512")]),
        None
    );
    assert_eq!(
        find_separate_arms(&[(1.0, "512"), (2.0, "1024")]),
        None,
        "a single run each is another caveat"
    );
    let single_between = [(1.0, "a"), (2.0, "a"), (3.0, "b"), (4.0, "c"), (5.0, "c")];
    assert_eq!(find_separate_arms(&single_between), Some(("a", "c")));
    let overlapping_both = [
        (1.0, "a"),
        (2.0, "b"),
        (3.0, "a"),
        (4.0, "c"),
        (5.0, "c"),
        (6.0, "b"),
    ];
    assert_eq!(find_separate_arms(&overlapping_both), Some(("a", "c")));
}

#[test]
fn versions_before_4_4_use_the_old_hit_counting() {
    for (version, expected) in [
        ("2.1.14", Some(true)),
        ("4.3.9", Some(true)),
        ("4.4.0", Some(false)),
        ("v4.4.0-beta.1", Some(false)),
        ("5.0", Some(false)),
        ("master", None),
    ] {
        assert_eq!(counts_hits_as_before_4_4(version), expected, "{version}");
    }
}

#[test]
fn why_an_interval_is_unreliable_is_said_in_words() {
    let text = reliability_text(Reliability::TooShort { n_eff: 10.4 });
    assert!(text.contains("10 independent"), "{text}");
}
