//! Confidence intervals of one run, whose samples depend on one another. A block is a stretch of
//! successive samples. The block bootstrap draws random blocks of the run with replacement.

mod halves;
mod length;
mod quantile_difference;
mod reliability;
mod resample;

use crate::{
    distribution::normal_quantile,
    summary::{finite_values, largest_magnitude, quantile_sorted, sorted, total},
};
pub(crate) use halves::{
    HalfMeans, RandomHalves, block_length, drift_threshold_in_sds, outer_quantiles,
    sd_of_segment_means,
};
use itertools::Itertools;
pub(crate) use quantile_difference::difference_of_quantiles;
pub use reliability::Reliability;
use resample::DeviationInterval;
use serde::Serialize;

/// A result below this share of its inputs is rounding noise and counts as 0.
const ROUNDING_SHARE: f64 = 1e-14;

const MIN_RESAMPLES_PER_TAIL: f64 = 20.0;
const MAX_RESAMPLES: f64 = 1e6;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalPlan {
    pub level: f64,
    /// At least 1,000.
    pub resamples: usize,
    pub seed: u64,
}

impl Default for IntervalPlan {
    fn default() -> Self {
        Self {
            level: 0.95,
            resamples: 10_000,
            seed: 1,
        }
    }
}

impl IntervalPlan {
    /// The plan for one of `comparisons` intervals that together have this plan's level
    /// (Bonferroni).
    pub fn for_one_of(self, comparisons: usize) -> Self {
        let level = 1.0 - (1.0 - self.level) / comparisons.max(1) as f64;
        let needed = (MIN_RESAMPLES_PER_TAIL * 2.0 / (1.0 - level)).min(MAX_RESAMPLES);
        let resamples = self.resamples.max(needed as usize);
        Self {
            level,
            resamples,
            ..self
        }
    }
}

/// The interval is for the value that this run would have if it went on forever. It does not cover
/// differences between runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub level: f64,
    pub method: Method,
    pub n: usize,
    /// Number of independent values that would give the same standard error, at most `n`.
    pub n_eff: f64,
    /// Number of samples in a block.
    pub block_length: usize,
    #[serde(rename = "reliable")]
    pub reliability: Reliability,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Studentized circular block bootstrap.
    BlockBootstrapT,
    /// The ends are quantiles at the ends of an interval of the share of values below the quantile
    /// (Woodruff 1952).
    OrderStatistics,
    /// Circular block bootstrap, if too few blocks are non-zero to studentize. The ends are the
    /// value minus quantiles of its deviation in resamples (basic ends).
    #[serde(rename = "block_bootstrap_percentile")]
    BlockBootstrapBasic,
    /// Student's t of the means of blocks. Fewer than twelve blocks are too few to resample.
    BlockMeans,
    /// Replaces an interval of another method that reaches below zero or, for a share, above one.
    /// It uses the standard error at each end, not at the value (Wilson's score). The standard
    /// error of an amount is assumed to be proportional to the amount's square root.
    Score,
    /// Quantiles of the means of random halves of the blocks, for differences. The sign of a
    /// difference is assumed to be random if there is no effect.
    RandomHalves,
    /// All values are the same: both ends are the value.
    None,
}

/// The [`mean`] of amounts that cannot be negative, with [`Method::Score`] if its interval would
/// reach below zero.
pub fn mean_of_amounts(values: &[Option<f64>], plan: &IntervalPlan) -> Option<Estimate> {
    Some(mean(values, plan)?.non_negative())
}

/// The [`mean`] of values from 0 to 1, with [`Method::Score`] if its interval would leave that
/// range.
pub fn mean_of_shares(values: &[Option<f64>], plan: &IntervalPlan) -> Option<Estimate> {
    let estimate = mean(values, plan)?;
    let inside = estimate.low >= 0.0 && estimate.high <= 1.0;
    if inside || estimate.value <= 0.0 || estimate.value >= 1.0 {
        return Some(estimate);
    }
    let value = estimate.value;
    Some(Estimate {
        low: wilson_share(value, estimate.low - value),
        high: wilson_share(value, estimate.high - value),
        method: Method::Score,
        ..estimate
    })
}

/// Missing values stay in the series as gaps, so all blocks span the same time. `None` with fewer
/// than two values.
pub fn mean(values: &[Option<f64>], plan: &IntervalPlan) -> Option<Estimate> {
    let (mean, n, deviation_interval) = mean_and_deviation_interval(values, plan)?;
    Some(deviation_interval.estimate(mean, n, plan))
}

fn mean_and_deviation_interval(
    values: &[Option<f64>],
    plan: &IntervalPlan,
) -> Option<(f64, usize, DeviationInterval)> {
    let finite = finite_values(values);
    if finite.len() < 2 {
        return None;
    }
    let n = finite.len();
    let mean = total(&finite) / n as f64;
    let influence = values
        .iter()
        .map(|v| v.filter(|v| v.is_finite()).map_or(0.0, |v| v - mean))
        .collect_vec();
    let mean_denominator = n as f64 / values.len() as f64;
    let noise = ROUNDING_SHARE * mean.abs();
    let deviation_interval = DeviationInterval::of(&influence, mean_denominator, noise, plan);
    Some((mean, n, deviation_interval))
}

/// The mean of a later run divided by that of an earlier run, with the interval of
/// [`ratio_of_intervals`]. The values are amounts and form no pairs. The reliability is that of the
/// claim that the ratio is above `1 + margin`, or below `1 - margin` for a decrease. `None` with
/// fewer than two values in a run, with a negative amount, or if a mean is 0.
pub fn ratio_of_means(
    before: &[Option<f64>],
    after: &[Option<f64>],
    margin: f64,
    plan: &IntervalPlan,
) -> Option<Estimate> {
    let runs = [finite_values(before), finite_values(after)];
    if runs.iter().flatten().any(|value| *value < 0.0) {
        return None;
    }
    let (mean_before, n_before, deviation_interval_before) =
        mean_and_deviation_interval(before, plan)?;
    let (mean_after, n_after, deviation_interval_after) = mean_and_deviation_interval(after, plan)?;
    let margin_ratio = if mean_after < mean_before {
        1.0 - margin
    } else {
        1.0 + margin
    };
    // Reliability depends on the distance of each mean from the margin.
    let before = deviation_interval_before
        .with_reliability_at_margin(mean_before - mean_after / margin_ratio)
        .estimate(mean_before, n_before, plan)
        .non_negative();
    let after = deviation_interval_after
        .with_reliability_at_margin(mean_after - mean_before * margin_ratio)
        .estimate(mean_after, n_after, plan)
        .non_negative();
    let [value, low, high] =
        ratio_of_intervals(before.value_and_ends(), after.value_and_ends(), 1)?;
    let less_reliable = if before.reliability.is_reliable() {
        after
    } else {
        before
    };
    let [segment_sd_before, segment_sd_after] =
        runs.each_ref().map(|series| sd_of_segment_means(series));
    let segment_sd = (segment_sd_before * margin_ratio).hypot(segment_sd_after);
    let threshold_in_sds = runs
        .iter()
        .filter_map(|series| drift_threshold_in_sds(series))
        .reduce(f64::max);
    let reliability = if threshold_in_sds
        .is_some_and(|sds| (mean_after - mean_before * margin_ratio).abs() < sds * segment_sd)
    {
        Reliability::Drifts
    } else {
        Reliability::of_ratio(
            before.reliability,
            after.reliability,
            [value, low, high],
            margin,
        )
    };
    Some(Estimate {
        value,
        low,
        high,
        n: n_before.min(n_after),
        n_eff: before.n_eff.min(after.n_eff),
        reliability,
        ..less_reliable
    })
}

/// The ratio of independent positive numbers, by logarithms (MOVER: Zou and Donner 2008). `before`
/// and `after` are a value and the ends of its 95 % interval. The result's ends are adjusted for
/// `comparisons` (Bonferroni). `None` if a number is outside its interval, or an interval is not
/// positive.
pub fn ratio_of_intervals(
    before: [f64; 3],
    after: [f64; 3],
    comparisons: usize,
) -> Option<[f64; 3]> {
    let is_valid = |[value, low, high]: [f64; 3]| low > 0.0 && low <= value && value <= high;
    if !is_valid(before) || !is_valid(after) {
        return None;
    }
    let ([a, a_low, a_high], [b, b_low, b_high]) = (before.map(f64::ln), after.map(f64::ln));
    let tail = 0.025;
    let widening = normal_quantile(tail / comparisons.max(1) as f64) / normal_quantile(tail);
    let low = b - a - widening * (b - b_low).hypot(a_high - a);
    let high = b - a + widening * (b_high - b).hypot(a - a_low);
    Some([b - a, low, high].map(f64::exp))
}

/// Sum of numerators divided by sum of denominators, over samples that have both. A mean of ratios
/// would weight small denominators too much. If no numerator is negative, the interval does not
/// reach below zero. `None` with fewer than two such samples, with different lengths, or if the sum
/// of the denominators is not positive.
pub fn ratio_of_sums(
    numerators: &[Option<f64>],
    denominators: &[Option<f64>],
    plan: &IntervalPlan,
) -> Option<Estimate> {
    if numerators.len() != denominators.len() {
        return None;
    }
    let pairs = numerators
        .iter()
        .zip(denominators)
        .map(|(a, b)| Some(((*a)?, (*b)?)).filter(|(a, b)| a.is_finite() && b.is_finite()))
        .collect_vec();
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().flatten().copied().unzip();
    let sum = total(&b);
    if a.len() < 2 || sum.is_nan() || sum <= 0.0 {
        return None;
    }
    let ratio = total(&a) / sum;
    let influence = pairs
        .iter()
        .map(|p| p.map_or(0.0, |(a, b)| a - ratio * b))
        .collect_vec();
    let mean_denominator = sum / numerators.len() as f64;
    let noise = ROUNDING_SHARE * largest_magnitude(&a);
    let deviation_interval = DeviationInterval::of(&influence, mean_denominator, noise, plan);
    let estimate = deviation_interval.estimate(ratio, a.len(), plan);
    Some(if a.iter().any(|a| *a < 0.0) {
        estimate
    } else {
        estimate.non_negative()
    })
}

/// The `p`-quantile ([`crate::summary::quantile`]) of a series in the order of time. `None` with
/// fewer than two values, or if `p` is not between 0 and 1.
pub fn quantile(values: &[Option<f64>], p: f64, plan: &IntervalPlan) -> Option<Estimate> {
    let sorted = sorted(values);
    let n = sorted.len();
    if n < 2 || p <= 0.0 || p >= 1.0 {
        return None;
    }
    let value = quantile_sorted(&sorted, p)?;
    let indicator = QuantileIndicator::with_share_closest_to(&sorted, value, p);
    let influence = values
        .iter()
        .map(|v| {
            v.filter(|v| v.is_finite())
                .map_or(0.0, |v| indicator.influence(v))
        })
        .collect_vec();
    let mean_denominator = n as f64 / values.len() as f64;
    // No influence is rounding noise: a constant series has influences of exactly 0.
    let deviation_interval = DeviationInterval::of(&influence, mean_denominator, 0.0, plan);
    let low = wilson_share(p, deviation_interval.low);
    let high = wilson_share(p, deviation_interval.high);
    let outside = low * (n as f64) < 1.0 || (1.0 - high) * (n as f64) < 1.0;
    let mut estimate = deviation_interval.estimate(value, n, plan);
    estimate.low = quantile_sorted(&sorted, low)?.min(value);
    estimate.high = quantile_sorted(&sorted, high)?.max(value);
    if estimate.method != Method::None {
        estimate.method = Method::OrderStatistics;
    }
    if outside && estimate.reliability.is_reliable() {
        estimate.reliability = Reliability::TooShort {
            n_eff: estimate.n_eff,
        };
    }
    Some(estimate)
}

/// The share `f`, within 0 and 1, with `f - p = deviation sqrt(f (1 - f) / (p (1 - p)))` (Wilson
/// 1927). The root converts the standard error at `p` to that at `f`.
fn wilson_share(p: f64, deviation: f64) -> f64 {
    let relative_square = deviation * deviation / (p * (1.0 - p));
    let half_width = (relative_square * (relative_square + 4.0 * p * (1.0 - p))).sqrt();
    (2.0 * p + relative_square + half_width.copysign(deviation)) / (2.0 * (1.0 + relative_square))
}

impl Estimate {
    pub fn value_and_ends(&self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }

    /// Replaces an interval of an amount that reaches below zero.
    fn non_negative(self) -> Self {
        if self.low >= 0.0 || self.value <= 0.0 {
            return self;
        }
        let (low, high) = amount_ends(self.value, self.value - self.low, self.high - self.value);
        Self {
            low,
            high,
            method: Method::Score,
            ..self
        }
    }
}

/// Ends `m`, above 0, of an interval around a positive `value`. They solve
/// `value - m = below sqrt(m / value)` and `m - value = above sqrt(m / value)`. So the standard
/// error at `m` is the one at `value` times `sqrt(m / value)`.
pub(crate) fn amount_ends(value: f64, below: f64, above: f64) -> (f64, f64) {
    let factor = |deviation: f64| {
        let relative = deviation.max(0.0) / value;
        1.0 + relative * relative / 2.0 + relative * (1.0 + relative * relative / 4.0).sqrt()
    };
    (value / factor(below), value * factor(above))
}

/// The indicator of a value is 1 if the value counts as below a quantile, else 0. Either all or
/// none of the values equal to the quantile count as below.
pub(crate) struct QuantileIndicator {
    quantile: f64,
    includes_equal: bool,
    /// Share of values that count as below the quantile.
    share: f64,
}

impl QuantileIndicator {
    /// Counts equal values if the share of values below is then closer to `p`. The share is not 0,
    /// and is 1 only if all values are equal.
    pub fn with_share_closest_to(sorted: &[f64], quantile: f64, p: f64) -> Self {
        let share = |index| index as f64 / sorted.len() as f64;
        let below = share(sorted.partition_point(|v| *v < quantile));
        let up_to = share(sorted.partition_point(|v| *v <= quantile));
        let includes_equal =
            below <= 0.0 || (up_to < 1.0 && (up_to - p).abs() <= (below - p).abs());
        Self {
            quantile,
            includes_equal,
            share: if includes_equal { up_to } else { below },
        }
    }

    /// The influence of a value on the share: its indicator minus `share`.
    pub fn influence(&self, value: f64) -> f64 {
        let counts = value < self.quantile || self.includes_equal && value == self.quantile;
        f64::from(counts) - self.share
    }

    pub fn influences(&self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| self.influence(*value)).collect()
    }
}
