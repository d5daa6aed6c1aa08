//! How sure one run is of its own numbers: confidence intervals from samples that depend on one another.

mod length;
mod resample;

use crate::summary::{present, quantile_sorted, sorted, total};
use resample::Deviations;
use serde::Serialize;

/// What is below this share of the numbers it comes from is the rounding of zero.
const ROUNDING: f64 = 1e-14;

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    /// Confidence, between 0 and 1.
    pub level: f64,
    /// Resamples; at least 1,000, and 10,000 unless there is a reason.
    pub resamples: usize,
    /// Of the generator: the same seed gives the same interval.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            level: 0.95,
            resamples: 10_000,
            seed: 1,
        }
    }
}

/// A number with its confidence interval. The interval covers what this one run, going on like this, would have come to; it
/// knows nothing of how runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The number itself, computed from all values.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence that was asked for, between 0 and 1.
    pub level: f64,
    /// How the interval was made.
    pub method: Method,
    /// Values that are there.
    pub n: usize,
    /// How many independent values would tell as much, at most `n`.
    pub n_eff: f64,
    /// Samples in a block.
    pub block_length: usize,
    /// Whether the interval keeps its promise.
    pub reliable: Reliability,
}

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Studentised circular block bootstrap.
    BlockBootstrapT,
    /// Any of the others for the share of values up to the quantile, then read off the order statistics.
    OrderStatistics,
    /// Percentile circular block bootstrap, where too few blocks have anything in them to studentise.
    BlockBootstrapPercentile,
    /// Student's t of the means of fewer than twelve blocks: too few to resample.
    BlockMeans,
    /// Any of the block methods for an amount or a share whose interval would have reached below zero (a share: or above
    /// one). The standard error then follows the amount, as its root, over the interval (Wilson's score), so that no end can
    /// leave the range.
    Score,
    /// There is no spread to make one from: both ends are the value.
    None,
}

/// Whether an interval keeps its promise, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Checked by simulation: intervals for 95 % cover 93 to 97 %.
    Reliable,
    /// The run is short beside how long its samples remember: it covers less than it says.
    TooShort {
        /// Independent values that the run is worth.
        n_eff: f64,
    },
    /// What is counted happened in too few stretches of the run.
    TooRare,
    /// The series drifts, or remembers longer than can be told: there may be no mean to estimate.
    Drifts,
    /// Every value is the same, so that nothing shows how far off it may be.
    Constant,
}

impl Reliability {
    /// Whether the interval keeps its promise.
    pub fn is_reliable(&self) -> bool {
        *self == Reliability::Reliable
    }
}

/// The [`mean`] of amounts, none of which can be negative (counts, times, bytes): neither can their interval.
/// Where [`mean`] would reach below zero, the ends are those of [`Method::Score`]. `None` as there.
pub fn amount(values: &[Option<f64>], plan: &Plan) -> Option<Estimate> {
    Some(mean(values, plan)?.of_amount())
}

/// The [`mean`] of values from 0 to 1: a share. Where [`mean`] would reach out of that range, the ends are those of
/// [`Method::Score`]. `None` as there.
pub fn share(values: &[Option<f64>], plan: &Plan) -> Option<Estimate> {
    let estimate = mean(values, plan)?;
    let inside = estimate.low >= 0.0 && estimate.high <= 1.0;
    if inside || estimate.value <= 0.0 || estimate.value >= 1.0 {
        return Some(estimate);
    }
    let (value, method) = (estimate.value, Method::Score);
    let (low, high) = (
        score(value, estimate.low - value),
        score(value, estimate.high - value),
    );
    Some(Estimate {
        low,
        high,
        method,
        ..estimate
    })
}

/// The mean of a series in the order of time. Missing values keep their place. `None` of fewer than two values.
pub fn mean(values: &[Option<f64>], plan: &Plan) -> Option<Estimate> {
    let there = present(values);
    if there.len() < 2 {
        return None;
    }
    let n = there.len();
    let mean = total(&there) / n as f64;
    let influence: Vec<f64> = values
        .iter()
        .map(|v| v.filter(|v| v.is_finite()).map_or(0.0, |v| v - mean))
        .collect();
    let weight = n as f64 / values.len() as f64;
    Some(around(
        mean,
        (n, weight),
        &influence,
        ROUNDING * mean.abs(),
        plan,
    ))
}

/// The ratio of two sums (events per slot, time per transaction), in the order of time: `sum of above / sum of below` over the
/// moments at which both are there. A ratio of sums, since a mean of ratios gives short moments too much weight. Where nothing
/// above is negative, the interval does not reach below zero, as of [`amount`]. `None` of fewer than two moments, of different
/// lengths, or if the sum below is not positive.
pub fn ratio_of_sums(
    above: &[Option<f64>],
    below: &[Option<f64>],
    plan: &Plan,
) -> Option<Estimate> {
    if above.len() != below.len() {
        return None;
    }
    let pair = |(a, b): (&Option<f64>, &Option<f64>)| {
        Some(((*a)?, (*b)?)).filter(|(a, b)| a.is_finite() && b.is_finite())
    };
    let pairs: Vec<Option<(f64, f64)>> = above.iter().zip(below).map(pair).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().flatten().copied().unzip();
    let sum = total(&b);
    if a.len() < 2 || sum.is_nan() || sum <= 0.0 {
        return None;
    }
    let ratio = total(&a) / sum;
    let influence: Vec<f64> = pairs
        .iter()
        .map(|p| p.map_or(0.0, |(a, b)| a - ratio * b))
        .collect();
    let largest = a.iter().fold(0.0_f64, |largest, a| largest.max(a.abs()));
    let estimate = around(
        ratio,
        (a.len(), sum / above.len() as f64),
        &influence,
        ROUNDING * largest,
        plan,
    );
    Some(if a.iter().any(|a| *a < 0.0) {
        estimate
    } else {
        estimate.of_amount()
    })
}

/// The `p`-quantile (definition: [`crate::summary::quantile`]) of a series in the order of time. `None` of fewer than two
/// values or if `p` is not between 0 and 1.
pub fn quantile(values: &[Option<f64>], p: f64, plan: &Plan) -> Option<Estimate> {
    let sorted = sorted(values);
    let n = sorted.len();
    if n < 2 || p <= 0.0 || p >= 1.0 {
        return None;
    }
    let value = quantile_sorted(&sorted, p)?;
    let below = Below::nearest(&sorted, value, p);
    let influence: Vec<f64> = values
        .iter()
        .map(|v| {
            v.filter(|v| v.is_finite())
                .map_or(0.0, |v| below.influence(v))
        })
        .collect();
    let deviations = Deviations::of(&influence, n as f64 / values.len() as f64, 0.0, plan);
    let (low, high) = (score(p, deviations.low), score(p, deviations.high));
    let outside = low * (n as f64) < 1.0 || (1.0 - high) * (n as f64) < 1.0;
    let mut estimate = deviations.estimate(value, n, plan);
    estimate.low = quantile_sorted(&sorted, low)?.min(value);
    estimate.high = quantile_sorted(&sorted, high)?.max(value);
    if estimate.method != Method::None {
        estimate.method = Method::OrderStatistics;
    }
    if outside && estimate.reliable.is_reliable() {
        estimate.reliable = Reliability::TooShort {
            n_eff: estimate.n_eff,
        };
    }
    Some(estimate)
}

/// The share `f` that is as many standard errors from `p` as `deviation` is, with the error that `f` itself would have (Wilson
/// 1927): `f - p = deviation sqrt(f (1 - f) / (p (1 - p)))`. Within 0 and 1.
fn score(p: f64, deviation: f64) -> f64 {
    let c = deviation * deviation / (p * (1.0 - p));
    let reach = (c * (c + 4.0 * p * (1.0 - p))).sqrt();
    (2.0 * p + c + reach.copysign(deviation)) / (2.0 * (1.0 + c))
}

impl Estimate {
    /// Of something that cannot be negative: an interval that reaches below zero becomes one that does not.
    fn of_amount(self) -> Estimate {
        if self.low >= 0.0 || self.value <= 0.0 {
            return self;
        }
        let (low, high) = amount_ends(self.value, self.value - self.low, self.high - self.value);
        Estimate {
            low,
            high,
            method: Method::Score,
            ..self
        }
    }
}

/// The amounts `m` that are so far from a positive `value`, with the error that `m` itself would have if variances grow with
/// the mean: `value - m = below sqrt(m / value)` and `m - value = above sqrt(m / value)`. Both are above 0.
pub(crate) fn amount_ends(value: f64, below: f64, above: f64) -> (f64, f64) {
    let factor = |deviation: f64| {
        let share = deviation.max(0.0) / value;
        1.0 + share * share / 2.0 + share * (1.0 + share * share / 4.0).sqrt()
    };
    (value / factor(below), value * factor(above))
}

/// The values that count as lower than a quantile. Where many are equal to it, either these count or they do not.
pub(crate) struct Below {
    value: f64,
    equal: bool,
    /// Share of the values that count as lower.
    share: f64,
}

impl Below {
    /// Whichever has a share nearer to `p`, of those that are neither none nor all.
    pub(crate) fn nearest(sorted: &[f64], value: f64, p: f64) -> Below {
        let share = |place: usize| place as f64 / sorted.len() as f64;
        let lower = share(sorted.partition_point(|v| *v < value));
        let up_to = share(sorted.partition_point(|v| *v <= value));
        let equal = lower <= 0.0 || (up_to < 1.0 && (up_to - p).abs() <= (lower - p).abs());
        Below {
            value,
            equal,
            share: if equal { up_to } else { lower },
        }
    }

    /// How far one value moves the share, which is 0 on average.
    pub(crate) fn influence(&self, value: f64) -> f64 {
        let counts = if self.equal {
            value <= self.value
        } else {
            value < self.value
        };
        if counts {
            1.0 - self.share
        } else {
            -self.share
        }
    }
}

/// The interval of a number that is, near enough, the mean of its influences over the time that has a value: `there` is how
/// many values there are and how much one place is worth.
pub(crate) fn around(
    value: f64,
    there: (usize, f64),
    influence: &[f64],
    noise: f64,
    plan: &Plan,
) -> Estimate {
    let deviations = Deviations::of(influence, there.1, noise, plan);
    let mut estimate = deviations.estimate(value, there.0, plan);
    (estimate.low, estimate.high) = (value - deviations.high, value - deviations.low);
    estimate
}
