//! Whatever comes in, nothing panics, and what cannot be otherwise is not.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::{
    IntervalPlan,
    arms::{self, Conclusion},
    block_bootstrap,
    bracket::{Replicate, bracket},
    correlation, histogram, holm, paired,
    rate::{Reading, rates},
    smooth::moving_average,
    summary,
};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        4 => (-1e3..1e3).prop_map(Some),
        2 => (0..4_i32).prop_map(|v| Some(f64::from(v))),
        1 => Just(None),
        1 => any::<f64>().prop_map(Some),
    ]
}

fn series(most: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
    prop::collection::vec(value(), 0..most)
}

fn tame(most: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
    let value = prop_oneof![3 => (-1e3..1e3).prop_map(Some), 1 => (0..3_i32).prop_map(|v| Some(f64::from(v))), 1 => Just(None)];
    prop::collection::vec(value, 0..most)
}

fn runs() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(
        prop_oneof![4 => -1e3..1e3, 1 => (0..3_i32).prop_map(f64::from), 1 => any::<f64>()],
        0..12,
    )
}

fn quick() -> IntervalPlan {
    IntervalPlan {
        resamples: 1000,
        ..IntervalPlan::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn statistics_of_any_series_never_panic(values in series(60), other in series(60), p in any::<f64>(), size in 0_usize..70) {
        let s = summary::summary(&values);
        prop_assert_eq!(s.n + s.missing, values.len());
        let _ = summary::quantile(&values, p);
        let _ = summary::means_and_peaks(&values);
        let edges = histogram::freedman_diaconis_edges(&values, p, size);
        let counted = histogram::count(&values, &edges);
        let all: u64 = counted.counts.iter().sum::<u64>() + counted.above;
        let first = edges.first().filter(|_| edges.len() > 1).copied().unwrap_or(f64::NEG_INFINITY);
        let below = values.iter().flatten().filter(|value| value.is_finite() && **value < first);
        prop_assert_eq!(all as usize + below.count(), s.n, "{:?}", edges);
        prop_assert_eq!(moving_average(&values, size).len(), values.len());
        let _ = correlation::pearson(&values, &other);
        let _ = block_bootstrap::mean(&values, &quick());
        let _ = block_bootstrap::quantile(&values, p, &quick());
        let _ = block_bootstrap::ratio_of_sums(&values, &other, &quick());
    }

    #[test]
    fn an_interval_contains_its_value_and_shifts_with_the_series(values in tame(80), shift in -1e3..1e3_f64) {
        let there: Vec<f64> = values.iter().copied().flatten().collect();
        let Some(mean) = block_bootstrap::mean(&values, &quick()) else {
            prop_assert!(there.len() < 2);
            return Ok(());
        };
        prop_assert!(mean.low <= mean.high && mean.low.is_finite() && mean.high.is_finite(), "{:?}", mean);
        prop_assert!(mean.n_eff >= 1.0 && mean.n_eff <= there.len() as f64);
        let moved: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| 3.0 * v + shift)).collect();
        let moved = block_bootstrap::mean(&moved, &quick()).unwrap();
        let width = mean.high - mean.low;
        // Rounding may decide a tie between two block lengths otherwise.
        let is_same_plan = moved.block_length == mean.block_length;
        prop_assert!(!is_same_plan || (moved.high - moved.low - 3.0 * width).abs() <= 1e-6 * (1.0 + width), "{:?} {:?}", mean, moved);
        let median = block_bootstrap::quantile(&values, 0.5, &quick()).unwrap();
        prop_assert!(median.low <= median.value && median.value <= median.high, "{:?}", median);
    }

    #[test]
    fn an_interval_of_amounts_or_shares_stays_within_their_range(
        values in prop::collection::vec(prop_oneof![2 => Just(None), 4 => Just(Some(0.0)), 4 => (0.0..1e3).prop_map(Some)], 2..60),
    ) {
        let Some(plain) = block_bootstrap::mean(&values, &quick()) else { return Ok(()) };
        let amount = block_bootstrap::mean_of_amounts(&values, &quick()).unwrap();
        prop_assert!(amount.low >= 0.0 && amount.low <= amount.high && amount.high.is_finite(), "{:?}", amount);
        if plain.low >= 0.0 {
            prop_assert_eq!(plain, amount);
        } else if plain.value > 0.0 {
            // Wilson's: the end is as many of its own standard errors away as the plain one was of the mean's.
            let away = (amount.value - amount.low) / (amount.low / amount.value).sqrt();
            prop_assert!((away - (plain.value - plain.low)).abs() <= 1e-6 * away, "{:?} {:?}", plain, amount);
            prop_assert!(amount.low > 0.0 && amount.method == block_bootstrap::Method::Score);
        }
        let one = Some(1.0);
        let ratio = block_bootstrap::ratio_of_sums(&values, &vec![one; values.len()], &quick()).unwrap();
        prop_assert!(ratio.low >= 0.0 && ratio.high >= ratio.low, "{:?}", ratio);
        let lower: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| f64::from(u8::from(v > 500.0)))).collect();
        let share = block_bootstrap::mean_of_shares(&lower, &quick()).unwrap();
        prop_assert!(share.low >= 0.0 && share.low <= share.high && share.high <= 1.0, "{:?}", share);
    }

    #[test]
    fn a_ratio_interval_of_amounts_stays_above_zero(
        a in prop::collection::vec(0.0..100.0_f64, 2..6), b in prop::collection::vec(0.0..100.0_f64, 2..6)
    ) {
        if let Some(ratio) = arms::ratio_of_means(&a, &b, 0.95) {
            prop_assert!(ratio.low >= 0.0 && ratio.low <= ratio.value && ratio.value <= ratio.high, "{:?}", ratio);
        }
        if let Some(together) = paired::nonnegative_mean_over_pairs(&a, 0.95) {
            prop_assert!(together.low >= 0.0 && together.high >= together.value, "{:?}", together);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval(values in tame(80), seed in any::<u64>()) {
        let plan = IntervalPlan { seed, ..quick() };
        prop_assert_eq!(block_bootstrap::mean(&values, &plan), block_bootstrap::mean(&values, &plan));
    }

    #[test]
    fn a_rate_is_never_negative(
        steps in prop::collection::vec((prop_oneof![Just(0.0), Just(1.0), -2.0..10.0_f64], value(), 0_u64..3), 0..60),
        longest in prop_oneof![Just(1.5), any::<f64>()],
    ) {
        let mut at = 0.0;
        let mut readings = Vec::new();
        for (step, total, epoch) in steps {
            at += step;
            readings.push(Reading { at, total, incarnation: epoch });
        }
        let found = rates(&readings, longest);
        prop_assert_eq!(found.per_second.len(), readings.len());
        prop_assert!(found.per_second.iter().flatten().all(|r| *r >= 0.0), "{:?}", found);
        prop_assert!(found.increase >= 0.0 && found.seconds >= 0.0);
    }

    #[test]
    fn comparing_any_runs_never_panics_and_few_conclude_nothing(a in runs(), b in runs(), margin in any::<f64>()) {
        let c = arms::compare(&a, &b, margin);
        let expected = match c.reference.runs.min(c.other.runs) {
            0 => matches!(c.conclusion, Conclusion::NoValues),
            1 => matches!(c.conclusion, Conclusion::Described),
            2 => matches!(c.conclusion, Conclusion::TwoRuns),
            _ => matches!(
                c.conclusion,
                Conclusion::Differs { .. } | Conclusion::Equivalent { .. } | Conclusion::Inconclusive { .. }
            ),
        };
        prop_assert!(expected, "{:?}", c);
    }

    #[test]
    fn swapping_the_arms_inverts_the_comparison(
        a in prop::collection::vec(1.0..100.0_f64, 2..8), b in prop::collection::vec(1.0..100.0_f64, 2..8)
    ) {
        let (ab, ba) = (arms::compare(&a, &b, 0.05), arms::compare(&b, &a, 0.05));
        let close = |x: f64, y: f64| (x - y).abs() <= 1e-9 * (1.0 + x.abs());
        if let (Some(x), Some(y)) = (ab.difference, ba.difference) {
            prop_assert!(close(x.low, -y.high) && close(x.high, -y.low));
        }
        if let (Some(x), Some(y)) = (ab.shift, ba.shift) {
            prop_assert!(close(x.low, -y.high) && close(x.high, -y.low) && close(x.value, -y.value));
        }
        if let (Some(x), Some(y)) = (ab.mann_whitney_p, ba.mann_whitney_p) {
            prop_assert!(close(x, y));
        }
        if let (Some(x), Some(y)) = (ab.ratio, ba.ratio) {
            prop_assert!(close(x.value, 1.0 / y.value));
        }
    }

    #[test]
    fn adjusted_p_values_are_no_smaller_and_keep_their_order(p in prop::collection::vec(prop::option::of(0.0..=1.0_f64), 0..20)) {
        let adjusted = holm::adjust(&p);
        prop_assert_eq!(adjusted.len(), p.len());
        for (i, (raw, found)) in p.iter().zip(&adjusted).enumerate() {
            prop_assert_eq!(raw.is_some(), found.is_some());
            let (Some(raw), Some(found)) = (raw, found) else { continue };
            prop_assert!(found >= raw && *found <= 1.0);
            for (other, adjusted) in p.iter().zip(&adjusted).skip(i) {
                if let (Some(other), Some(adjusted)) = (other, adjusted) {
                    prop_assert!((other < raw) || adjusted >= found || other == raw);
                }
            }
        }
    }

    #[test]
    fn a_bracket_names_only_limits_that_were_tried(
        tried in prop::collection::vec((0_u64..6, prop::option::of(any::<bool>())), 0..20)
    ) {
        let replicates: Vec<Replicate> =
            tried.iter().map(|(limit, passed)| Replicate { limit: *limit, passed: *passed }).collect();
        let found = bracket(&replicates);
        for limit in found.smallest_sufficient.iter().chain(&found.largest_failed) {
            prop_assert!(tried.iter().any(|(tried, _)| tried == limit));
        }
        if let Some(enough) = found.smallest_sufficient {
            prop_assert!(replicates.iter().filter(|r| r.limit == enough).all(|r| r.passed == Some(true)));
        }
        let both = found.smallest_sufficient.zip(found.largest_failed);
        let fits = both.is_none_or(|(enough, failed)| enough > failed);
        prop_assert_eq!(fits, found.contradictions.is_empty());
    }

    #[test]
    fn pairs_are_the_slots_both_runs_have(a in prop::collection::vec((0_u64..40, value()), 0..40), b in prop::collection::vec((0_u64..40, value()), 0..40)) {
        let given = |run: &[(u64, Option<f64>)]| run.iter().filter_map(|(slot, v)| Some((*slot, (*v)?))).collect::<Vec<_>>();
        let pairs = paired::join(given(&a), given(&b));
        prop_assert!(pairs.slots.is_sorted());
        for (i, slot) in pairs.slots.iter().enumerate() {
            let last = |run: &[(u64, f64)]| run.iter().rev().find(|(s, v)| s == slot && v.is_finite()).map(|(_, v)| *v);
            prop_assert_eq!(Some(pairs.reference[i]), last(&given(&a)));
            prop_assert_eq!(Some(pairs.other[i]), last(&given(&b)));
        }
        let _ = pairs.effect(&quick());
        let _ = pairs.quantile_difference(0.95, &quick());
    }
}
