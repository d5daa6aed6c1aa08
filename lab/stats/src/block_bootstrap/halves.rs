//! A confidence interval for a mean (Hartigan 1969). A random half has each block of samples with
//! probability 1/2. The ends of the interval are quantiles of the means of random halves.
//!
//! `T` is the sum of all blocks. `R` is the same sum, but blocks outside the half have the opposite
//! sign. The sum of the half is `(T + R) / 2`, so it is at most 0 if `R <= -T`. If two arms are
//! alike and their order is random, the signs of blocks are random. Then `T` is distributed like
//! `R`, even for heavy tails. So the share of halves with a sum of at most 0 is a one-sided
//! p-value.

use super::{
    Estimate, IntervalPlan, Method, Reliability,
    length::measure_dependence,
    resample::{MAX_BLOCKS, MIN_BLOCKS},
};
use crate::{
    correlation::ranks,
    summary::{ascending, largest_magnitude, mean_and_variance, total},
};
use itertools::Itertools;

/// With fewer differences, intervals cover less than they state: see lab/stats/README.md.
const MIN_INDEPENDENT_DIFFERENCES: f64 = 20.0;
/// With fewer deciding blocks ([`deciding_blocks`]), a difference depends on single blocks.
const MIN_DECIDING_BLOCKS: f64 = 6.0;
/// A mean this far from 0 is clear: reliable despite few values (in standard deviations of values)
/// or despite drift (in units of [`sd_of_segment_means`]).
pub const CLEAR_MEAN_IN_SDS: f64 = 5.0;
/// A mean this far from 0 is clear despite possible drift, in units of [`sd_of_segment_means`].
const POSSIBLE_DRIFT_IN_SDS: f64 = 2.5;
/// The means of this many segments of a series show how much drift can move its mean.
const SEGMENTS: usize = 8;
/// A shorter series is not split into segments when its dependence is measured.
const MIN_LENGTH_FOR_SEGMENTS: usize = 100;
/// Critical values of Anderson and Darling's statistic (1954) at 10 % and 25 %.
const CRITICAL_AT_10_PERCENT: f64 = 1.933;
const CRITICAL_AT_25_PERCENT: f64 = 1.248;

/// Random halves of the blocks of a run. All series of the run use the same halves.
pub struct RandomHalves {
    /// Index of the first sample of each block, then the number of samples.
    block_bounds: Vec<usize>,
    /// For each half, one bit for each block.
    halves: Vec<[u8; MAX_BLOCKS / 8]>,
}

impl RandomHalves {
    pub fn new(n: usize, block_length: usize, plan: &IntervalPlan) -> Self {
        // Fewer than `MIN_BLOCKS` blocks have too few different halves.
        let block_length = block_length.clamp(1, (n / MIN_BLOCKS).max(1));
        let blocks = (n / block_length).clamp(1, MAX_BLOCKS);
        let block_bounds = (0..=blocks).map(|index| index * n / blocks).collect();
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let mut random_half = || {
            let mut half = [0; MAX_BLOCKS / 8];
            while half.iter().all(|bits| *bits == 0) {
                random.fill(&mut half);
                for (group, bits) in half.iter_mut().enumerate() {
                    let bits_in_group = blocks.saturating_sub(8 * group).min(8);
                    *bits &= ((1_u16 << bits_in_group) - 1) as u8;
                }
            }
            half
        };
        let halves = (0..plan.resamples.max(1000))
            .map(|_| random_half())
            .collect();
        Self {
            block_bounds,
            halves,
        }
    }

    pub fn blocks(&self) -> usize {
        self.block_bounds.len() - 1
    }

    pub fn means(&self, series: &[f64]) -> Vec<f64> {
        let sums = subset_sums(&self.block_sums(series));
        let lengths = self
            .block_bounds
            .windows(2)
            .map(|bounds| (bounds[1] - bounds[0]) as f64)
            .collect_vec();
        let lengths = subset_sums(&lengths);
        let sum_of_half = |sums_by_group: &[[f64; 256]], half: &[u8]| -> f64 {
            sums_by_group
                .iter()
                .zip(half)
                .map(|(sums, bits)| sums[usize::from(*bits)])
                .sum()
        };
        self.halves
            .iter()
            .map(|half| sum_of_half(&sums, half) / sum_of_half(&lengths, half))
            .collect()
    }

    /// Variance of the mean times the number of samples, from the sums of blocks.
    fn variance_by_blocks(&self, deviations: &[f64]) -> f64 {
        let sums = self.block_sums(deviations);
        let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
        let blocks = self.blocks() as f64;
        squares / deviations.len() as f64 * blocks / (blocks - 1.0)
    }

    fn block_sums(&self, series: &[f64]) -> Vec<f64> {
        self.block_bounds
            .windows(2)
            .map(|bounds| series[bounds[0]..bounds[1]].iter().sum())
            .collect()
    }
}

/// Sums of every subset of each group of eight values. The index has a bit for each value.
fn subset_sums(values: &[f64]) -> Vec<[f64; 256]> {
    values
        .chunks(8)
        .map(|group| {
            let mut sums = [0.0; 256];
            for bits in 1..256_usize {
                sums[bits] = sums[bits & (bits - 1)]
                    + group.get(bits.trailing_zeros() as usize).unwrap_or(&0.0);
            }
            sums
        })
        .collect()
}

pub struct HalfMeans {
    pub estimate: Estimate,
    /// Two-sided p-value of the hypothesis that the mean is 0; `None` if all values are the same.
    pub p: Option<f64>,
    /// The mean of each half. Its distance from the mean of the series is multiplied by `widening`.
    pub means: Vec<f64>,
    /// At least 1. It accounts for the dependence between neighboring blocks.
    pub widening: f64,
}

/// One block length for all series of a run, in samples: the longest that a series needs. A series
/// needs 1.5 times the block length that is best to estimate its variance.
pub fn block_length<'a>(series: impl IntoIterator<Item = &'a [f64]>) -> usize {
    series
        .into_iter()
        .map(|series| {
            let longer = 1.5 * measure_dependence(&scaled_deviations(series).1).best_block_length;
            (longer as usize)
                .max(series.len().div_ceil(MAX_BLOCKS))
                .max(1)
        })
        .max()
        .unwrap_or(1)
}

/// The mean, the deviations divided by a scale, and that scale: the largest deviation, or infinity
/// for a constant series. So squares neither overflow nor vanish.
fn scaled_deviations(series: &[f64]) -> (f64, Vec<f64>, f64) {
    let mean = total(series) / series.len() as f64;
    let mut deviations = series.iter().map(|v| v - mean).collect_vec();
    let scale = match largest_magnitude(&deviations) {
        scale if scale > 1e-14 * mean.abs() => scale,
        _ => f64::INFINITY,
    };
    deviations.iter_mut().for_each(|v| *v /= scale);
    (mean, deviations, scale)
}

impl HalfMeans {
    /// `threshold_in_sds`: see [`drift_threshold_in_sds`]. `None` with fewer than two values.
    pub fn of(
        series: &[f64],
        halves: &RandomHalves,
        threshold_in_sds: Option<f64>,
        plan: &IntervalPlan,
    ) -> Option<Self> {
        let n = series.len();
        if n < 2 {
            return None;
        }
        let (mean, deviations, scale) = scaled_deviations(series);
        let dependence = measure_dependence(&deviations);
        let blocks = halves.blocks() as f64;
        let variance_by_blocks = halves.variance_by_blocks(&deviations);
        let varies = scale.is_finite();
        let long_run_variance = dependence.long_run_variance.max(variance_by_blocks);
        let widening = if variance_by_blocks > 0.0 {
            (long_run_variance / variance_by_blocks).sqrt()
        } else {
            1.0
        };
        let widened = |half| mean + widening * (half - mean);
        let means = halves.means(series).into_iter().map(widened).collect_vec();
        let (low, high) = outer_quantiles(&means, (1.0 - plan.level) / 2.0);
        let n_eff = (n as f64 * dependence.variance / long_run_variance.max(f64::MIN_POSITIVE))
            .clamp(1.0, n as f64);
        let mean_exceeds = |distance| mean.abs() > distance * scale;
        let is_within_drift = |sds| !mean_exceeds(sds * sd_of_segment_means(&deviations));
        let is_clear = mean_exceeds(CLEAR_MEAN_IN_SDS * dependence.variance.sqrt());
        // All blocks have the same sign by chance with this probability.
        let has_too_few_blocks = 0.5_f64.powf(blocks - 1.0) > 1.0 - plan.level;
        let reliability = if !varies {
            Reliability::Constant
        } else if has_too_few_blocks || (n_eff < MIN_INDEPENDENT_DIFFERENCES && !is_clear) {
            Reliability::TooShort { n_eff }
        } else if threshold_in_sds.is_some_and(is_within_drift) {
            Reliability::Drifts
        } else if deciding_blocks(&halves.block_sums(series))
            < MIN_DECIDING_BLOCKS.min(blocks / 4.0)
        {
            Reliability::TooRare
        } else {
            Reliability::Reliable
        };
        let estimate = Estimate {
            value: mean,
            low,
            high,
            level: plan.level,
            method: if varies {
                Method::RandomHalves
            } else {
                Method::None
            },
            n,
            n_eff,
            block_length: n / halves.blocks(),
            reliability,
        };
        let p = varies.then(|| p_of_zero_mean(&means));
        Some(Self {
            estimate,
            p,
            means,
            widening,
        })
    }
}

/// Twice the share of means on the rarer side of 0. Both counts are increased by 1, so that the
/// result is above 0 (Davison and Hinkley 1997).
fn p_of_zero_mean(means: &[f64]) -> f64 {
    let count = |on_side: fn(&f64) -> bool| means.iter().filter(|mean| on_side(mean)).count();
    let rarer = count(|mean| *mean <= 0.0).min(count(|mean| *mean >= 0.0));
    (2.0 * (rarer + 1) as f64 / (means.len() + 1) as f64).min(1.0)
}

/// How far from 0 a mean must be so that drift cannot explain it, in units of
/// [`sd_of_segment_means`]. `None` if the series shows no drift. A series drifts if its ranks
/// change over time more than their dependence explains (rank KPSS: Pelagatti and Sen 2013). The
/// statistic is the sum of `S^2 / (i (n - i))` over the long-run variance (weights of Anderson and
/// Darling 1952). `S` sums the first `i` of `n` deviations of ranks.
pub fn drift_threshold_in_sds(series: &[f64]) -> Option<f64> {
    let (_, deviations, scale) = scaled_deviations(&ranks(series));
    // The means of the segments are removed first: otherwise drift would count as dependence.
    let segments = if deviations.len() < MIN_LENGTH_FOR_SEGMENTS {
        1
    } else {
        SEGMENTS
    };
    let segment_length = deviations.len().div_ceil(segments).max(1);
    let dependence = measure_dependence(
        &deviations
            .chunks(segment_length)
            .flat_map(|segment| {
                let mean = segment.iter().sum::<f64>() / segment.len() as f64;
                segment.iter().map(move |value| value - mean)
            })
            .collect_vec(),
    );
    let n = deviations.len();
    let mut sum = 0.0;
    let mut weighted_sum = 0.0;
    for (value, index) in deviations.iter().zip(1..n) {
        sum += value;
        weighted_sum += sum * sum / (index * (n - index)) as f64;
    }
    match weighted_sum / dependence.long_run_variance {
        _ if !scale.is_finite() => None,
        _ if dependence.exceeds_series => Some(CLEAR_MEAN_IN_SDS),
        statistic if statistic > CRITICAL_AT_10_PERCENT => Some(CLEAR_MEAN_IN_SDS),
        statistic if statistic > CRITICAL_AT_25_PERCENT => Some(POSSIBLE_DRIFT_IN_SDS),
        _ => None,
    }
}

pub fn sd_of_segment_means(series: &[f64]) -> f64 {
    let means = series
        .chunks(series.len().div_ceil(SEGMENTS).max(1))
        .map(|segment| segment.iter().sum::<f64>() / segment.len() as f64)
        .collect_vec();
    mean_and_variance(&means).map_or(0.0, |(_, variance)| variance.sqrt())
}

/// Effective number of blocks that are evidence against a mean of 0:
/// `(sum of s^2)^2 / (sum of s^4)`, where `s` are the block sums. It is Kish's effective sample
/// size (1965) for the weights `s^2`.
fn deciding_blocks(sums: &[f64]) -> f64 {
    let moment = |power| sums.iter().map(|sum| sum.powi(power)).sum::<f64>();
    moment(2).powi(2) / moment(4)
}

/// The `tail`- and the `1 - tail`-quantile, each rounded outwards to one of the values.
pub fn outer_quantiles(values: &[f64], tail: f64) -> (f64, f64) {
    let sorted = ascending(values.to_vec());
    let rank = (tail * (sorted.len() + 1) as f64 + 1e-9) as usize;
    let rank = rank
        .saturating_sub(1)
        .min(sorted.len().saturating_sub(1) / 2);
    let value = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    (value(rank), value(sorted.len().saturating_sub(rank + 1)))
}
