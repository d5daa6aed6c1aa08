//! The resampling itself, of sums of blocks: its cost does not grow with the length of the series.

use super::length::{Memory, memory};
use super::{Estimate, Method, Plan, Reliability};
use crate::distribution::t_quantile;

/// Blocks that one resample draws at most; longer blocks than need be do no harm to a mean, only more draws cost more.
const MOST_BLOCKS: usize = 256;
/// Places at which blocks begin, spread evenly over the series; of a shorter series the largest power of two that it has.
const PLACES: usize = 1024;
/// Independent values below which intervals cover less than they say: see the README's table.
const INDEPENDENT: f64 = 100.0;
/// Blocks below which resamples are too much alike.
const FEW_BLOCKS: usize = 12;
/// Blocks that make up the variance below which an interval hangs on single ones.
const BUSY_BLOCKS: f64 = 10.0;

/// How far a mean may be from what it estimates.
pub(super) struct Deviations {
    /// Lower end of the deviation, usually negative.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
    method: Method,
    memory: Memory,
    long_run: f64,
    block: usize,
    n: usize,
    rare: bool,
}

impl Deviations {
    /// Of the mean of `influence`, which sums to 0, divided by `weight`. Influences that are nowhere above `noise` are the
    /// rounding of zeros.
    pub(super) fn of(influence: &[f64], weight: f64, noise: f64, plan: &Plan) -> Deviations {
        let n = influence.len();
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
        let block = (memory.block.ceil() as usize)
            .max(n.div_ceil(MOST_BLOCKS))
            .clamp(1, (n / 2).max(1));
        let (low, high, method, long_run) = (0.0, 0.0, Method::None, memory.long_run);
        let mut deviations = Deviations {
            low,
            high,
            method,
            memory,
            long_run,
            block,
            n,
            rare: false,
        };
        if varies {
            deviations.resample(&scaled, plan);
            (deviations.low, deviations.high) = (
                deviations.low * unit / weight,
                deviations.high * unit / weight,
            );
        }
        deviations
    }

    fn resample(&mut self, influence: &[f64], plan: &Plan) {
        let sums = block_sums(influence, self.block);
        let (blocks, block) = (self.n / self.block, self.block as f64);
        let tail = (1.0 - plan.level) / 2.0;
        let moment = |power| sums.iter().map(|s| s.powi(power)).sum::<f64>() / sums.len() as f64;
        let busy = blocks as f64 * moment(2).powi(2) / moment(4);
        self.long_run = self.memory.long_run.max(moment(2) / block);
        let error = (self.long_run / self.n as f64).sqrt();
        if blocks < FEW_BLOCKS {
            let reach = t_quantile(1.0 - tail, (blocks - 1) as f64).unwrap_or(0.0) * error;
            (self.low, self.high, self.method) = (-reach, reach, Method::BlockMeans);
            return;
        }
        let (mut means, mut ts) = draw(&sums, blocks, plan);
        let lone = ts.iter().filter(|t| t.is_infinite()).count();
        if lone as f64 > tail / 2.0 * ts.len() as f64 {
            let scale = (blocks as f64 * block / self.n as f64).sqrt() / block;
            let (low, high) = ends(&mut means, tail);
            (self.low, self.high) = (low * scale, high * scale);
            self.method = Method::BlockBootstrapPercentile;
            self.rare = true;
        } else {
            let (low, high) = ends(&mut ts, tail);
            (self.low, self.high) = (low * error, high * error);
            self.method = Method::BlockBootstrapT;
            self.rare = busy < BUSY_BLOCKS;
        }
    }

    /// An estimate without its interval.
    pub(super) fn estimate(&self, value: f64, n: usize, plan: &Plan) -> Estimate {
        let worth = self.n as f64 * self.memory.variance / self.long_run;
        let n_eff = if worth.is_finite() {
            worth.clamp(1.0, n as f64)
        } else {
            n as f64
        };
        let reliable = if self.method == Method::None {
            Reliability::Constant
        } else if self.memory.beyond {
            Reliability::Drifts
        } else if n_eff < INDEPENDENT {
            Reliability::TooShort { n_eff }
        } else if self.rare {
            Reliability::TooRare
        } else {
            Reliability::Reliable
        };
        let (level, method, block_length) = (plan.level, self.method, self.block);
        Estimate {
            value,
            low: value,
            high: value,
            level,
            method,
            n,
            n_eff,
            block_length,
            reliable,
        }
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
    let one = |place: usize| {
        let from = place * n / places;
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
