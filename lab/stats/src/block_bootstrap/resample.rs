//! Resampling of block sums. The cost of a resample does not grow with the length of the series.

use super::{
    Estimate, IntervalPlan, Method, Reliability,
    length::{Dependence, measure_dependence},
};
use crate::{
    distribution::{normal_quantile, t_quantile},
    summary::largest_magnitude,
};
use itertools::Itertools;

/// A resample with more blocks would cost more. Longer blocks do not harm a mean.
pub const MAX_BLOCKS: usize = 256;
/// Positions at which blocks begin, spread evenly. A shorter series has the largest power of two up
/// to its length.
const MAX_BLOCK_STARTS: usize = 1024;
/// With fewer values, intervals cover less than they state: see lab/stats/README.md.
const MIN_INDEPENDENT_VALUES: f64 = 100.0;
/// With fewer values, dependence cannot be measured: independent values would often seem to drift.
const MIN_VALUES_FOR_DRIFT: usize = 25;
pub const MIN_BLOCKS: usize = 12;
/// An interval depends on single blocks if fewer contribute to the variance.
const MIN_CONTRIBUTING_BLOCKS: f64 = 10.0;

/// An interval, at the plan's level, of a statistic in a resample minus the statistic in the
/// series.
pub struct DeviationInterval {
    pub low: f64,
    pub high: f64,
    precision: Precision,
    /// Moments 2 to 4 of the block sums, which are in units of `unit`.
    moments: [f64; 3],
    unit: f64,
    /// Mean over all samples. For a mean, a value counts 1 and a missing value 0.
    mean_denominator: f64,
}

/// Source of the fields of an [`Estimate`] that describe its error.
pub struct Precision {
    pub dependence: Dependence,
    pub long_run_variance: f64,
    pub method: Method,
    pub block_length: usize,
    /// Including missing values.
    pub n: usize,
    pub few_blocks_contribute: bool,
}

impl DeviationInterval {
    /// `influence` sums to 0: it is `x - m` for the mean `m`, `y - R x` for a ratio `R` of sums.
    /// The deviation is the mean influence of a resample divided by `mean_denominator`. If no
    /// influence is above `noise`, all come from rounding and count as 0.
    pub fn of(influence: &[f64], mean_denominator: f64, noise: f64, plan: &IntervalPlan) -> Self {
        // Squares of scaled influences neither overflow nor vanish.
        let unit = largest_magnitude(influence);
        let varies = unit > noise && unit.is_finite();
        let scaled = influence
            .iter()
            .map(|v| if varies { v / unit } else { 0.0 })
            .collect_vec();
        let dependence = measure_dependence(&scaled);
        let block_length = choose_block_length(&dependence, influence.len());
        let mut deviation_interval = Self {
            low: 0.0,
            high: 0.0,
            precision: Precision {
                dependence,
                long_run_variance: dependence.long_run_variance,
                method: Method::None,
                block_length,
                n: influence.len(),
                few_blocks_contribute: false,
            },
            moments: [0.0; 3],
            unit,
            mean_denominator,
        };
        if varies {
            deviation_interval.resample(&scaled, plan);
        }
        deviation_interval
    }

    fn resample(&mut self, influence: &[f64], plan: &IntervalPlan) {
        let precision = &mut self.precision;
        let sums = block_sums(influence, precision.block_length);
        let blocks = precision.n / precision.block_length;
        let block_length = precision.block_length as f64;
        let tail = (1.0 - plan.level) / 2.0;
        self.moments = moments(&sums);
        precision.few_blocks_contribute =
            contributing_blocks(blocks, self.moments, 0.0) < MIN_CONTRIBUTING_BLOCKS;
        precision.long_run_variance = precision
            .dependence
            .long_run_variance
            .max(self.moments[0] / block_length);
        let standard_error = (precision.long_run_variance / precision.n as f64).sqrt();
        let (low, high) = if blocks < MIN_BLOCKS {
            precision.method = Method::BlockMeans;
            let half_width =
                t_quantile(1.0 - tail, (blocks - 1) as f64).unwrap_or(0.0) * standard_error;
            (-half_width, half_width)
        } else {
            let (mut means, mut t_values) = draw_resamples(&sums, blocks, plan);
            let infinite_t_values = t_values.iter().filter(|t| t.is_infinite()).count();
            if infinite_t_values as f64 > tail / 2.0 * t_values.len() as f64 {
                precision.method = Method::BlockBootstrapBasic;
                let scale =
                    (blocks as f64 * block_length / precision.n as f64).sqrt() / block_length;
                let (low, high) = tail_quantiles(&mut means, tail);
                (low * scale, high * scale)
            } else {
                precision.method = Method::BlockBootstrapT;
                let (low, high) = tail_quantiles(&mut t_values, tail);
                (low * standard_error, high * standard_error)
            }
        };
        let scale = self.unit / self.mean_denominator;
        (self.low, self.high) = (low * scale, high * scale);
    }

    pub fn estimate(&self, value: f64, n: usize, plan: &IntervalPlan) -> Estimate {
        let mut estimate = self.precision.estimate_without_ends(value, n, plan);
        (estimate.low, estimate.high) = (value - self.high, value - self.low);
        estimate
    }

    /// Recomputes `few_blocks_contribute` from the distances of blocks to a margin, which lies
    /// `distance` below the value. Blocks that are all far from the margin contribute alike.
    pub fn with_reliability_at_margin(mut self, distance: f64) -> Self {
        let precision = &mut self.precision;
        let distance = distance * self.mean_denominator / self.unit;
        let shift = distance * precision.block_length as f64;
        let blocks = precision.n / precision.block_length;
        precision.few_blocks_contribute =
            contributing_blocks(blocks, self.moments, shift) < MIN_CONTRIBUTING_BLOCKS;
        self
    }
}

impl Precision {
    pub fn estimate_without_ends(&self, value: f64, n: usize, plan: &IntervalPlan) -> Estimate {
        let independent_values = self.n as f64 * self.dependence.variance / self.long_run_variance;
        let n_eff = if independent_values.is_finite() {
            independent_values.clamp(1.0, n as f64)
        } else {
            n as f64
        };
        Estimate {
            value,
            low: value,
            high: value,
            level: plan.level,
            method: self.method,
            n,
            n_eff,
            block_length: self.block_length,
            reliability: self.reliability(n_eff),
        }
    }

    fn reliability(&self, n_eff: f64) -> Reliability {
        if self.method == Method::None {
            Reliability::Constant
        } else if self.dependence.exceeds_series && self.n >= MIN_VALUES_FOR_DRIFT {
            Reliability::Drifts
        } else if n_eff < MIN_INDEPENDENT_VALUES {
            Reliability::TooShort { n_eff }
        } else if self.few_blocks_contribute {
            Reliability::TooRare
        } else {
            Reliability::Reliable
        }
    }
}

fn moments(sums: &[f64]) -> [f64; 3] {
    [2, 3, 4].map(|power| sums.iter().map(|s| s.powi(power)).sum::<f64>() / sums.len() as f64)
}

fn choose_block_length(dependence: &Dependence, n: usize) -> usize {
    (dependence.best_block_length.ceil() as usize)
        .max(n.div_ceil(MAX_BLOCKS))
        .clamp(1, (n / 2).max(1))
}

/// Effective number of blocks that contribute to the mean square of the block sums plus `shift`:
/// `blocks m2^2 / m4`, with moments `m2` and `m4` of the shifted sums (Kish 1965). The unshifted
/// sums have mean 0 and the given moments 2 to 4.
fn contributing_blocks(blocks: usize, [second, third, fourth]: [f64; 3], shift: f64) -> f64 {
    let m2 = second + shift * shift;
    let m4 = fourth + 4.0 * third * shift + 6.0 * second * shift * shift + shift.powi(4);
    blocks as f64 * m2 * m2 / m4
}

/// Deviations of the means of two series. Each resample draws the same blocks of both.
pub struct JointDeviations {
    /// For each series, the deviations in all resamples.
    pub deviations: [Vec<f64>; 2],
    /// Precision of the difference of the means.
    pub precision: Precision,
}

impl JointDeviations {
    /// Each series must sum to 0.
    pub fn of(series: [&[f64]; 2], min_block_length: usize, plan: &IntervalPlan) -> Self {
        // Common parts cancel in the difference, so block length and precision come from it.
        let difference = series[1]
            .iter()
            .zip(series[0])
            .map(|(b, a)| b - a)
            .collect_vec();
        let n = difference.len();
        let dependence = measure_dependence(&difference);
        let block_length = choose_block_length(&dependence, n)
            .max(min_block_length)
            .min((n / 2).max(1));
        let blocks = n / block_length;
        let sums = block_sums(&difference, block_length);
        let moments = moments(&sums);
        let varies = moments[0] > 0.0;
        let long_run_variance = dependence
            .long_run_variance
            .max(moments[0] / block_length as f64);
        // A variance from few blocks is uncertain, because dependence across the ends of blocks is
        // lost.
        let tail = (1.0 - plan.level) / 2.0;
        let t_factor = t_quantile(1.0 - tail, (blocks - 1) as f64 / 2.0).unwrap_or(0.0)
            / normal_quantile(1.0 - tail);
        let long_run_variance = t_factor * t_factor * long_run_variance;
        let standard_error = (long_run_variance / n as f64).sqrt();
        let scale = if varies {
            standard_error / (moments[0] / blocks as f64).sqrt()
        } else {
            0.0
        };
        let deviations = series.map(|series| {
            let (mut means, _) = draw_resamples(&block_sums(series, block_length), blocks, plan);
            means.iter_mut().for_each(|mean| *mean *= scale);
            means
        });
        let method = if varies {
            Method::OrderStatistics
        } else {
            Method::None
        };
        Self {
            deviations,
            precision: Precision {
                dependence,
                long_run_variance,
                method,
                block_length,
                n,
                few_blocks_contribute: contributing_blocks(blocks, moments, 0.0)
                    < MIN_CONTRIBUTING_BLOCKS,
            },
        }
    }
}

/// Sums of the blocks that begin at evenly spread positions, minus the mean of the sums. A block
/// that exceeds the end of the series continues at its beginning (circular blocks: Politis and
/// Romano 1992).
fn block_sums(series: &[f64], block_length: usize) -> Vec<f64> {
    let n = series.len();
    let mut running = Vec::with_capacity(n + 1);
    let mut sum = 0.0;
    running.push(0.0);
    for value in series {
        sum += value;
        running.push(sum);
    }
    let block_starts = 1_usize << n.clamp(1, MAX_BLOCK_STARTS).ilog2();
    let mut sums = (0..block_starts)
        .map(|index| {
            let from = index * n / block_starts;
            let to = from + block_length;
            if to <= n {
                running[to] - running[from]
            } else {
                sum - running[from] + running[to - n]
            }
        })
        .collect_vec();
    let mean = sums.iter().sum::<f64>() / block_starts as f64;
    sums.iter_mut().for_each(|s| *s -= mean);
    sums
}

/// For each resample: the mean of its block sums, and that mean over the standard error from the
/// same sums.
fn draw_resamples(sums: &[f64], blocks: usize, plan: &IntervalPlan) -> (Vec<f64>, Vec<f64>) {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    // There are 2^k block starts: k of 16 random bits choose one.
    let shift = 16 - sums.len().trailing_zeros().min(16);
    let resamples = plan.resamples.max(1000);
    let size = blocks as f64;
    let mut means = Vec::with_capacity(resamples);
    let mut t_values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        // Four separate sums let the processor add in parallel.
        let mut sum = [0.0; 4];
        let mut squares = [0.0; 4];
        let mut remaining = blocks;
        while remaining > 0 {
            let bits = random.u64(..);
            for lane in 0..remaining.min(4) {
                let value = sums[((bits >> (16 * lane)) as u16 >> shift) as usize];
                sum[lane] += value;
                squares[lane] += value * value;
            }
            remaining = remaining.saturating_sub(4);
        }
        let (sum, squares): (f64, f64) = (sum.iter().sum(), squares.iter().sum());
        let mean = sum / size;
        let variance = (squares / size - mean * mean).max(0.0);
        let standard_error = (variance / (size - 1.0).max(1.0)).sqrt();
        means.push(mean);
        t_values.push(if standard_error > 1e-9 * mean.abs() {
            mean / standard_error
        } else {
            f64::INFINITY.copysign(mean)
        });
    }
    (means, t_values)
}

fn tail_quantiles(values: &mut [f64], tail: f64) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let quantile = |p| crate::summary::quantile_sorted(values, p).unwrap_or(0.0);
    (quantile(tail), quantile(1.0 - tail))
}
