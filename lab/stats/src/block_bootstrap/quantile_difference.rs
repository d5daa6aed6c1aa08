use super::{
    Estimate, IntervalPlan, QuantileIndicator, Reliability,
    halves::{CLEAR_MEAN_IN_SDS, block_length, drift_threshold_in_sds, outer_quantiles},
    resample::JointDeviations,
    wilson_share,
};
use crate::{
    correlation::ranks,
    summary::{ascending, quantile_sorted},
};
use std::iter::zip;

/// The `p`-quantile of `other` minus that of `reference`. Both are measured at the same times, and
/// resamples draw the same blocks of both. The share of values below each quantile is resampled.
/// The sorted values convert its deviations to deviations of the quantile (Woodruff 1952), so
/// values beyond the quantile cannot widen the interval. `None` with fewer than two values in a
/// series, different lengths, or a `p` that is not between 0 and 1.
pub fn difference_of_quantiles(
    reference: &[f64],
    other: &[f64],
    p: f64,
    plan: &IntervalPlan,
) -> Option<Estimate> {
    let n = reference.len();
    if n < 2 || other.len() != n || !(p > 0.0 && p < 1.0) {
        return None;
    }
    let [a, b] = &[reference, other].map(|series| ascending(series.to_vec()));
    let (value_a, value_b) = (quantile_sorted(a, p)?, quantile_sorted(b, p)?);
    let indicators = [
        QuantileIndicator::with_share_closest_to(a, value_a, p),
        QuantileIndicator::with_share_closest_to(b, value_b, p),
    ];
    // The block length comes from the ranks of all values: the few beyond a quantile do not show
    // how long dependence lasts.
    let ranks = rank_difference(reference, other);
    let joint = JointDeviations::of(
        [
            &indicators[0].influences(reference),
            &indicators[1].influences(other),
        ],
        block_length([ranks.as_slice()]),
        plan,
    );
    // If `deviation` more values are below the series' quantile, the resample's quantile is that of
    // the series at about `p - deviation`. `wilson_share` computes this share with the standard
    // error that holds there.
    let quantile_at = |sorted: &[f64], deviation: f64| {
        quantile_sorted(sorted, wilson_share(p, -deviation)).unwrap_or(f64::NAN)
    };
    let [deviations_a, deviations_b] = &joint.deviations;
    // Common deviations of both series should cancel, but gaps between sorted values are random and
    // would not. So the common part is multiplied by the mean slope of each series, and the sorted
    // values convert only the rest.
    let (common, common_width) = common_part(deviations_a, deviations_b);
    let slope = |sorted| {
        if common_width > 0.0 {
            (quantile_at(sorted, common_width) - quantile_at(sorted, -common_width))
                / (2.0 * common_width)
        } else {
            0.0
        }
    };
    let slope_difference = slope(b) - slope(a);
    let deviations = zip(deviations_a, deviations_b).zip(&common);
    let differences = ascending(
        deviations
            .map(|((deviation_a, deviation_b), common)| {
                quantile_at(b, deviation_b - common) - quantile_at(a, deviation_a - common)
                    + slope_difference * common
            })
            .collect(),
    );
    let value = value_b - value_a;
    let mut estimate = joint.precision.estimate_without_ends(value, n, plan);
    let tail = (1.0 - plan.level) / 2.0;
    estimate.low = quantile_sorted(&differences, tail)?.min(value);
    estimate.high = quantile_sorted(&differences, 1.0 - tail)?.max(value);
    if estimate.reliability == Reliability::Reliable {
        let n_eff = estimate.n_eff;
        // An end of the interval would be outside the range of the values.
        let exceeds_sample = |deviations: &Vec<f64>| {
            let (low, high) = outer_quantiles(deviations, tail);
            (p + low) * (n as f64) < 1.0 || (1.0 - p - high) * (n as f64) < 1.0
        };
        if joint.deviations.iter().any(exceeds_sample) {
            estimate.reliability = Reliability::TooShort { n_eff };
        // The threshold is this high if drift is significant at 10 %, or cannot be tested because
        // dependence exceeds the series.
        } else if drift_threshold_in_sds(&ranks).is_some_and(|sds| sds >= CLEAR_MEAN_IN_SDS) {
            estimate.reliability = Reliability::Drifts;
        }
    }
    Some(estimate)
}

fn rank_difference(reference: &[f64], other: &[f64]) -> Vec<f64> {
    let [a, b] = [reference, other].map(ranks);
    zip(a, b).map(|(a, b)| b - a).collect()
}

/// The common part of the deviations `a` and `b`, and twice its standard deviation. The common part
/// is `r / 2 (a + b)`, where `r` is their correlation, or 0 if that is negative.
fn common_part(a: &[f64], b: &[f64]) -> (Vec<f64>, f64) {
    let product = |a: &[f64], b: &[f64]| zip(a, b).map(|(a, b)| a * b).sum::<f64>();
    let correlation = product(a, b) / (product(a, a) * product(b, b)).sqrt();
    // `max` turns NaN into 0.
    let weight = correlation.max(0.0) / 2.0;
    let common = Vec::from_iter(zip(a, b).map(|(a, b)| weight * (a + b)));
    let width = 2.0 * (product(&common, &common) / common.len() as f64).sqrt();
    (common, width)
}
