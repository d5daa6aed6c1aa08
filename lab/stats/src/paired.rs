//! Compares two runs that processed the same slots, so the effect of the workload cancels out.
//!
//! The interval of their difference covers only the fluctuation within the runs. Two runs are one
//! replicate of each arm, so their difference is described, not tested. Successive common slots
//! count as neighbors in time.

use crate::{
    arms::{Interval, RUNS_FOR_A_TEST},
    block_bootstrap::{self, Estimate, HalfMeans, IntervalPlan, RandomHalves, amount_ends},
    decision::Decision,
    distribution::{t_above, t_quantile},
    summary::{finite, largest_magnitude, mean_and_variance, total, varies},
};
use itertools::Itertools;
use std::{collections::BTreeMap, iter::zip};

#[derive(Default)]
pub struct Pairs {
    pub slots: Vec<u64>,
    pub reference: Vec<f64>,
    pub other: Vec<f64>,
    pub only_reference: usize,
    pub only_other: usize,
}

#[derive(Debug, PartialEq)]
pub struct Effect {
    pub slots: usize,
    pub mean_difference: Estimate,
    pub median_difference: Estimate,
    /// Sum of the other run divided by sum of the reference; `None` if the reference's sum is not
    /// positive.
    pub ratio_of_sums: Option<Estimate>,
    /// Share of slots at which the other run is lower. Slots with equal values count half.
    pub share_lower: Estimate,
}

/// Difference of the means on the same slots. The interval comes from the means of random halves of
/// blocks of slots (Hartigan 1969). If the runs differ by a constant and their order is random, the
/// interval is exact even for heavy tails.
pub struct MeanDifference {
    pub difference: Estimate,
    /// Mean of the other run divided by mean of the reference; `None` if the reference's mean is
    /// not clearly above 0.
    pub ratio: Option<Interval>,
    /// Two-sided p-value of the hypothesis of equal means; `None` if all differences are the same.
    pub p: Option<f64>,
    pub decision: Decision,
}

/// If a run has a slot several times, its last value counts. Values that are not finite are
/// missing.
pub fn join(
    reference: impl IntoIterator<Item = (u64, f64)>,
    other: impl IntoIterator<Item = (u64, f64)>,
) -> Pairs {
    let reference = BTreeMap::from_iter(reference.into_iter().filter(|(_, v)| v.is_finite()));
    let other = BTreeMap::from_iter(other.into_iter().filter(|(_, v)| v.is_finite()));
    let mut pairs = Pairs::default();
    for (slot, a) in &reference {
        if let Some(b) = other.get(slot) {
            pairs.slots.push(*slot);
            pairs.reference.push(*a);
            pairs.other.push(*b);
        }
    }
    pairs.only_reference = reference.len() - pairs.slots.len();
    pairs.only_other = other.len() - pairs.slots.len();
    pairs
}

/// Mean of one value per pair of runs, with Student's interval, which covers the variation between
/// runs. `None` with fewer than two pairs, or a `level` that is not between 0 and 1.
pub fn mean_over_pairs(values: &[f64], level: f64) -> Option<Interval> {
    let values = finite(values);
    let (value, variance) = mean_and_variance(&values)?;
    let count = values.len() as f64;
    let half_width =
        t_quantile(f64::midpoint(1.0, level), count - 1.0)? * (variance / count).sqrt();
    Some(Interval {
        value,
        low: value - half_width,
        high: value + half_width,
        level,
    })
}

/// [`mean_over_pairs`] of amounts that cannot be negative, such as ratios of times. If Student's
/// interval would reach below zero, each end has the standard error of that end
/// ([`block_bootstrap::Method::Score`]).
pub fn nonnegative_mean_over_pairs(values: &[f64], level: f64) -> Option<Interval> {
    let interval = mean_over_pairs(values, level)?;
    if interval.low >= 0.0 || interval.value <= 0.0 || values.iter().any(|value| *value < 0.0) {
        return Some(interval);
    }
    let Interval {
        value, low, high, ..
    } = interval;
    let (low, high) = amount_ends(value, value - low, high - value);
    Some(Interval {
        low,
        high,
        ..interval
    })
}

#[derive(Debug, Clone)]
pub struct RatioTest {
    pub pairs: usize,
    pub ratio: Interval,
    /// P-value of the hypothesis that the ratio is 1: [`student_p`] of the logarithms.
    pub p: Option<f64>,
}

/// Two-sided p-value of Student's test of a mean of 0. `None` with fewer than [`RUNS_FOR_A_TEST`]
/// values, or if all are equal.
pub fn student_p(values: &[f64]) -> Option<f64> {
    let values = finite(values);
    if values.len() < RUNS_FOR_A_TEST || !varies(&values, largest_magnitude(&values)) {
        return None;
    }
    let (mean, variance) = mean_and_variance(&values)?;
    let count = values.len() as f64;
    let above = t_above(mean.abs() / (variance / count).sqrt(), count - 1.0)?;
    Some((2.0 * above).min(1.0))
}

/// Tests from logarithms of ratios whether the ratio is 1. Ignores values that are not finite.
/// `None` with fewer than two values.
pub fn ratio_test(logarithms: &[f64], level: f64) -> Option<RatioTest> {
    let values = finite(logarithms);
    let mean = mean_over_pairs(&values, level)?;
    let [value, low, high] = mean.value_and_ends().map(f64::exp);
    Some(RatioTest {
        pairs: values.len(),
        ratio: Interval {
            value,
            low,
            high,
            level,
        },
        p: student_p(&values),
    })
}

impl Pairs {
    pub fn effect(&self, plan: &IntervalPlan) -> Option<Effect> {
        let differences = as_some(&self.differences());
        let lower = zip(&self.reference, &self.other)
            .map(|(a, b)| {
                Some(if b < a {
                    1.0
                } else if b == a {
                    0.5
                } else {
                    0.0
                })
            })
            .collect_vec();
        Some(Effect {
            slots: self.slots.len(),
            mean_difference: block_bootstrap::mean(&differences, plan)?,
            median_difference: block_bootstrap::quantile(&differences, 0.5, plan)?,
            ratio_of_sums: block_bootstrap::ratio_of_sums(
                &as_some(&self.other),
                &as_some(&self.reference),
                plan,
            ),
            share_lower: block_bootstrap::mean_of_shares(&lower, plan)?,
        })
    }

    /// The other run's `p`-quantile minus the reference's, over the same slots. This is not the
    /// quantile of the differences. `None` with fewer than two slots, or if `p` is not between 0
    /// and 1.
    pub fn quantile_difference(&self, p: f64, plan: &IntervalPlan) -> Option<Estimate> {
        block_bootstrap::difference_of_quantiles(&self.reference, &self.other, p, plan)
    }

    fn differences(&self) -> Vec<f64> {
        zip(&self.reference, &self.other)
            .map(|(a, b)| b - a)
            .collect()
    }

    /// `None` with fewer than two slots.
    pub fn mean_difference(&self, plan: &IntervalPlan) -> Option<MeanDifference> {
        let differences = self.differences();
        let block_length = block_bootstrap::block_length([differences.as_slice()]);
        let halves = RandomHalves::new(differences.len(), block_length, plan);
        // If both runs drift by the same factor, their difference drifts, but not the relative
        // difference.
        let relative_difference =
            |(a, b): (&f64, &f64)| (b - a) / (a.abs() + b.abs()).max(f64::MIN_POSITIVE);
        let relative_differences = zip(&self.reference, &self.other)
            .map(relative_difference)
            .collect_vec();
        let half_means = HalfMeans::of(
            &differences,
            &halves,
            block_bootstrap::drift_threshold_in_sds(&relative_differences),
            plan,
        )?;
        Some(MeanDifference {
            difference: half_means.estimate,
            ratio: self.ratio(&halves, &half_means, plan),
            p: half_means.p,
            decision: half_means.estimate.decision(0.0..=0.0),
        })
    }

    /// Both means come from the same random halves as the difference, so the interval contains 1 if
    /// that of the difference contains 0.
    fn ratio(
        &self,
        halves: &RandomHalves,
        half_means: &HalfMeans,
        plan: &IntervalPlan,
    ) -> Option<Interval> {
        let mean = total(&self.reference) / self.reference.len() as f64;
        let ratios: Option<Vec<f64>> = zip(halves.means(&self.reference), &half_means.means)
            .map(|(reference, difference)| {
                let reference = mean + half_means.widening * (reference - mean);
                (reference > 0.0).then(|| 1.0 + difference / reference)
            })
            .collect();
        let (low, high) = block_bootstrap::outer_quantiles(&ratios?, (1.0 - plan.level) / 2.0);
        Some(Interval {
            value: 1.0 + half_means.estimate.value / mean,
            low,
            high,
            level: plan.level,
        })
    }
}

fn as_some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}
