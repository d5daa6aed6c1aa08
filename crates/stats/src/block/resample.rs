//! The resampling itself, of sums of blocks: its cost does not grow with the length of the series.

use super::length::{Memory, memory};
use super::{Estimate, Method, Plan, Reliability};
use crate::distribution::{normal_quantile, t_quantile};

/// Blocks that one resample draws at most; longer blocks than need be do no harm to a mean, only more draws cost more.
pub(super) const MOST_BLOCKS: usize = 256;
/// Places at which blocks begin, spread evenly over the series; of a shorter series the largest power of two that it has.
const PLACES: usize = 1024;
/// Independent values below which intervals cover less than they say: see the README's table.
const INDEPENDENT: f64 = 100.0;
/// Values below which their dependence cannot be told: independent ones would often seem to drift.
const FEW_VALUES: usize = 25;
/// Blocks below which resamples are too much alike.
pub(super) const FEW_BLOCKS: usize = 12;
/// Blocks that make up the variance below which an interval hangs on single ones.
const BUSY_BLOCKS: f64 = 10.0;

/// How far a mean may be from what it estimates.
pub(super) struct Deviations {
    /// Lower end of the deviation, usually negative.
    pub(super) low: f64,
    pub(super) high: f64,
    spread: Spread,
    /// Mean powers of the sums of blocks, from the second on, in units of `unit`.
    moments: [f64; 3],
    unit: f64,
    weight: f64,
}

/// What a series says about the spread of its mean.
pub(super) struct Spread {
    pub(super) memory: Memory,
    /// Variance of the mean times the number of samples.
    pub(super) long_run: f64,
    pub(super) method: Method,
    /// Samples in a block.
    pub(super) block: usize,
    pub(super) n: usize,
    /// Whether few blocks make up the variance.
    pub(super) rare: bool,
}

impl Deviations {
    /// Of the mean of `influence`, which sums to 0, divided by `weight`. Influences that are nowhere above `noise` are the
    /// rounding of zeros.
    pub(super) fn of(influence: &[f64], weight: f64, noise: f64, plan: &Plan) -> Deviations {
        // In units of the largest, squares neither overflow nor vanish.
        let unit = influence
            .iter()
            .fold(0.0_f64, |largest, v| largest.max(v.abs()));
        let varies = unit > noise && unit.is_finite();
        let scaled: Vec<f64> = influence
            .iter()
            .map(|v| if varies { v / unit } else { 0.0 })
            .collect();
        let memory = memory(&scaled);
        let block = block_length(&memory, influence.len());
        let spread = Spread {
            memory,
            long_run: memory.long_run,
            method: Method::None,
            block,
            n: influence.len(),
            rare: false,
        };
        let mut deviations = Deviations {
            low: 0.0,
            high: 0.0,
            spread,
            moments: [0.0; 3],
            unit,
            weight,
        };
        if varies {
            deviations.resample(&scaled, plan);
        }
        deviations
    }

    fn resample(&mut self, influence: &[f64], plan: &Plan) {
        let spread = &mut self.spread;
        let sums = block_sums(influence, spread.block);
        let (blocks, block) = (spread.n / spread.block, spread.block as f64);
        let tail = (1.0 - plan.level) / 2.0;
        let moment = |power| sums.iter().map(|s| s.powi(power)).sum::<f64>() / sums.len() as f64;
        self.moments = [2, 3, 4].map(moment);
        spread.rare = participation(blocks, self.moments, 0.0) < BUSY_BLOCKS;
        spread.long_run = spread.memory.long_run.max(self.moments[0] / block);
        let error = (spread.long_run / spread.n as f64).sqrt();
        let (low, high) = if blocks < FEW_BLOCKS {
            spread.method = Method::BlockMeans;
            let reach = t_quantile(1.0 - tail, (blocks - 1) as f64).unwrap_or(0.0) * error;
            (-reach, reach)
        } else {
            let (mut means, mut ts) = draw(&sums, blocks, plan);
            let lone = ts.iter().filter(|t| t.is_infinite()).count();
            if lone as f64 > tail / 2.0 * ts.len() as f64 {
                spread.method = Method::BlockBootstrapPercentile;
                let scale = (blocks as f64 * block / spread.n as f64).sqrt() / block;
                let (low, high) = ends(&mut means, tail);
                (low * scale, high * scale)
            } else {
                spread.method = Method::BlockBootstrapT;
                let (low, high) = ends(&mut ts, tail);
                (low * error, high * error)
            }
        };
        let scale = self.unit / self.weight;
        (self.low, self.high) = (low * scale, high * scale);
    }

    /// An estimate without its interval.
    pub(super) fn estimate(&self, value: f64, n: usize, plan: &Plan) -> Estimate {
        self.spread.estimate(value, n, plan)
    }

    /// Counts as evidence how far blocks are from what is `distance` below the value, not from the value: a value that every
    /// block shows to be far from a bound does not hang on a few of them.
    pub(super) fn against(mut self, distance: f64) -> Deviations {
        let spread = &mut self.spread;
        let distance = distance * self.weight / self.unit;
        let shift = distance * spread.block as f64;
        let blocks = spread.n / spread.block;
        spread.rare = participation(blocks, self.moments, shift) < BUSY_BLOCKS;
        self
    }
}

impl Spread {
    /// An estimate without its interval.
    pub(super) fn estimate(&self, value: f64, n: usize, plan: &Plan) -> Estimate {
        let worth = self.n as f64 * self.memory.variance / self.long_run;
        let n_eff = if worth.is_finite() {
            worth.clamp(1.0, n as f64)
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
            block_length: self.block,
            reliable: self.reliability(n_eff),
        }
    }

    fn reliability(&self, n_eff: f64) -> Reliability {
        if self.method == Method::None {
            Reliability::Constant
        } else if self.memory.beyond && self.n >= FEW_VALUES {
            Reliability::Drifts
        } else if n_eff < INDEPENDENT {
            Reliability::TooShort { n_eff }
        } else if self.rare {
            Reliability::TooRare
        } else {
            Reliability::Reliable
        }
    }
}

/// Samples in a block of a run of `n`.
fn block_length(memory: &Memory, n: usize) -> usize {
    (memory.block.ceil() as usize)
        .max(n.div_ceil(MOST_BLOCKS))
        .clamp(1, (n / 2).max(1))
}

/// How many of so many blocks, whose sums have these moments, make up the mean square of sums that are `shift` larger.
fn participation(blocks: usize, [second, third, fourth]: [f64; 3], shift: f64) -> f64 {
    let square = second + shift * shift;
    let power = fourth + 4.0 * third * shift + 6.0 * second * shift * shift + shift.powi(4);
    blocks as f64 * square * square / power
}

/// How far the means of two series may be from what they estimate, resample by resample: each draws the same blocks of both.
pub(super) struct Joint {
    pub(super) deviations: [Vec<f64>; 2],
    /// Of the difference of the two.
    pub(super) spread: Spread,
}

impl Joint {
    /// Of series that sum to 0, in blocks of at least so many samples.
    pub(super) fn of(series: [&[f64]; 2], least_block: usize, plan: &Plan) -> Joint {
        // What both share cancels in their difference, so block and spread are those of the difference.
        let difference: Vec<f64> = series[1]
            .iter()
            .zip(series[0])
            .map(|(b, a)| b - a)
            .collect();
        let (n, memory) = (difference.len(), memory(&difference));
        let block = block_length(&memory, n)
            .max(least_block)
            .min((n / 2).max(1));
        let blocks = n / block;
        let sums = block_sums(&difference, block);
        let moment = |power| sums.iter().map(|s| s.powi(power)).sum::<f64>() / sums.len() as f64;
        let moments = [2, 3, 4].map(moment);
        let varies = moments[0] > 0.0;
        let long_run = memory.long_run.max(moments[0] / block as f64);
        // A variance of few blocks, which lose what reaches over their ends, is not certain.
        let tail = (1.0 - plan.level) / 2.0;
        let uncertain = t_quantile(1.0 - tail, (blocks - 1) as f64 / 2.0).unwrap_or(0.0)
            / normal_quantile(1.0 - tail);
        let long_run = uncertain * uncertain * long_run;
        let error = (long_run / n as f64).sqrt();
        let scale = if varies {
            error / (moments[0] / blocks as f64).sqrt()
        } else {
            0.0
        };
        let deviations = series.map(|series| {
            let (mut means, _) = draw(&block_sums(series, block), blocks, plan);
            means.iter_mut().for_each(|mean| *mean *= scale);
            means
        });
        let method = if varies {
            Method::OrderStatistics
        } else {
            Method::None
        };
        let rare = participation(blocks, moments, 0.0) < BUSY_BLOCKS;
        let spread = Spread {
            memory,
            long_run,
            method,
            block,
            n,
            rare,
        };
        Joint { deviations, spread }
    }
}

/// Sums of blocks that begin at places spread evenly over the series, which is a circle; they have mean 0.
fn block_sums(series: &[f64], block: usize) -> Vec<f64> {
    let n = series.len();
    let mut running = Vec::with_capacity(n + 1);
    let mut sum = 0.0;
    running.push(0.0);
    for value in series {
        sum += value;
        running.push(sum);
    }
    let places = 1_usize << n.clamp(1, PLACES).ilog2();
    let one = |index: usize| {
        let from = index * n / places;
        let to = from + block;
        if to <= n {
            running[to] - running[from]
        } else {
            sum - running[from] + running[to - n]
        }
    };
    let mut sums: Vec<f64> = (0..places).map(one).collect();
    let mean = sums.iter().sum::<f64>() / places as f64;
    sums.iter_mut().for_each(|s| *s -= mean);
    sums
}

/// For each resample of so many blocks: the mean of its sums, and that mean over its own standard error.
fn draw(sums: &[f64], blocks: usize, plan: &Plan) -> (Vec<f64>, Vec<f64>) {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    // There are 2^k places: k of 16 random bits choose one.
    let shift = 16 - sums.len().trailing_zeros().min(16);
    let resamples = plan.resamples.max(1000);
    let size = blocks as f64;
    let (mut means, mut ts) = (Vec::with_capacity(resamples), Vec::with_capacity(resamples));
    for _ in 0..resamples {
        // Four sums at a time do not wait for one another.
        let (mut sum, mut squares) = ([0.0; 4], [0.0; 4]);
        let mut left = blocks;
        while left > 0 {
            let bits = random.u64(..);
            for lane in 0..left.min(4) {
                let value = sums[((bits >> (16 * lane)) as u16 >> shift) as usize];
                sum[lane] += value;
                squares[lane] += value * value;
            }
            left = left.saturating_sub(4);
        }
        let (sum, squares): (f64, f64) = (sum.iter().sum(), squares.iter().sum());
        let mean = sum / size;
        let variance = (squares / size - mean * mean).max(0.0);
        let error = (variance / (size - 1.0).max(1.0)).sqrt();
        means.push(mean);
        ts.push(if error > 1e-9 * mean.abs() {
            mean / error
        } else {
            f64::INFINITY.copysign(mean)
        });
    }
    (means, ts)
}

fn ends(values: &mut [f64], tail: f64) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let at = |p| crate::summary::quantile_sorted(values, p).unwrap_or(0.0);
    (at(tail), at(1.0 - tail))
}
