//! Series whose mean and quantiles are known, and how often intervals from them cover.

use super::random::Random;
use faultline_stats::{Estimate, IntervalPlan, block_bootstrap};

/// How a series comes about.
#[derive(Debug, Clone, Copy)]
pub enum Process {
    /// `x(t) = rho x(t-1) + e(t)` with standard normal `e`, stationary from the first sample on.
    Autoregression(f64),
    /// The exponential of a stationary normal autoregression with variance 1 and this `rho`: a long right tail.
    LogNormal(f64),
    /// Counts that are Poisson given a gamma-distributed rate which is drawn anew after so many samples on average: negative
    /// binomial, over-dispersed and dependent. Mean, shape of the gamma, samples that share a rate.
    Counts(f64, f64, f64),
}

#[derive(Debug, Clone, Copy)]
pub enum What {
    Mean,
    Quantile(f64),
    /// Of what is left when outages of 1 to 60 samples have taken about a tenth away.
    MeanWithGaps,
    /// Half, of a sum that is on average half of the other, sample by sample.
    RatioOfSums,
}

#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub process: Process,
    pub n: usize,
    pub what: What,
}

/// Shares of the replications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coverage {
    /// The interval covers the truth.
    pub covers: f64,
    /// The interval is wholly below the truth.
    pub below: f64,
    /// The interval is wholly above the truth.
    pub above: f64,
    /// The interval calls itself reliable.
    pub reliable: f64,
    /// Of those that call themselves reliable, cover.
    pub covers_if_reliable: f64,
    pub width: f64,
}

/// A run's length: 12 hours of seconds.
pub const RUN: usize = 43_200;

impl Process {
    pub fn name(&self) -> String {
        match self {
            Self::Autoregression(rho) => format!("AR(1), rho {rho}"),
            Self::LogNormal(rho) => format!("log-normal AR(1), rho {rho}"),
            Self::Counts(mean, shape, stays) => {
                format!("counts, mean {mean}, shape {shape}, stays {stays}")
            }
        }
    }

    fn series(&self, n: usize, random: &mut Random) -> Vec<Option<f64>> {
        let mut series = Vec::with_capacity(n);
        match *self {
            Self::Autoregression(rho) | Self::LogNormal(rho) => {
                let spread = (1.0 - rho * rho).sqrt();
                let exponential = matches!(self, Self::LogNormal(_));
                let mut x = random.normal();
                for _ in 0..n {
                    series.push(Some(if exponential { x.exp() } else { x / spread }));
                    x = rho * x + spread * random.normal();
                }
            }
            Self::Counts(mean, shape, stays) => {
                let mut rate = mean / shape * random.gamma(shape);
                for _ in 0..n {
                    series.push(Some(random.poisson(rate)));
                    if random.uniform() < 1.0 / stays {
                        rate = mean / shape * random.gamma(shape);
                    }
                }
            }
        }
        series
    }

    fn truth(&self, what: What) -> f64 {
        match (self, what) {
            (_, What::RatioOfSums) => 0.5,
            (Self::Autoregression(_), What::Mean | What::MeanWithGaps) => 0.0,
            (Self::Autoregression(rho), What::Quantile(p)) => z(p) / (1.0 - rho * rho).sqrt(),
            (Self::LogNormal(_), What::Mean | What::MeanWithGaps) => 0.5_f64.exp(),
            (Self::LogNormal(_), What::Quantile(p)) => z(p).exp(),
            (Self::Counts(mean, ..), What::Mean | What::MeanWithGaps) => *mean,
            (Self::Counts(mean, shape, _), What::Quantile(p)) => {
                negative_binomial(*mean, *shape, p)
            }
        }
    }
}

impl What {
    pub fn name(&self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Quantile(p) => format!("p{:.0}", p * 100.0),
            Self::MeanWithGaps => "mean, gaps".to_owned(),
            Self::RatioOfSums => "ratio".to_owned(),
        }
    }
}

/// Simulates. Each case has its own random numbers.
pub fn coverage(case: &Case, replications: usize, seed: u64) -> Coverage {
    let truth = case.process.truth(case.what);
    let seed = seed
        ^ (case.process.name() + &case.what.name())
            .bytes()
            .fold(case.n as u64, |h, b| h.wrapping_mul(31) + u64::from(b));
    let mut random = Random::new(seed);
    let mut c = Coverage::default();
    let one = 1.0 / replications as f64;
    for replication in 0..replications {
        let series = case.process.series(case.n, &mut random);
        let plan = IntervalPlan {
            resamples: 1000,
            seed: seed.wrapping_add(replication as u64),
            ..IntervalPlan::default()
        };
        let estimate: Option<Estimate> = match case.what {
            What::Mean => block_bootstrap::mean(&series, &plan),
            What::Quantile(p) => block_bootstrap::quantile(&series, p, &plan),
            What::MeanWithGaps => block_bootstrap::mean(&gaps(series, &mut random), &plan),
            What::RatioOfSums => {
                let below: Vec<Option<f64>> =
                    series.iter().map(|v| v.map(|v| 4.0 + v.abs())).collect();
                let above: Vec<Option<f64>> = below
                    .iter()
                    .map(|b| b.map(|b| 0.5 * b + random.normal()))
                    .collect();
                block_bootstrap::ratio_of_sums(&above, &below, &plan)
            }
        };
        let Some(estimate) = estimate else { continue };
        let covers = estimate.low <= truth && truth <= estimate.high;
        c.covers += if covers { one } else { 0.0 };
        c.below += if estimate.high < truth { one } else { 0.0 };
        c.above += if estimate.low > truth { one } else { 0.0 };
        c.width += one * (estimate.high - estimate.low);
        if estimate.reliability.is_reliable() {
            c.reliable += one;
            c.covers_if_reliable += if covers { one } else { 0.0 };
        }
    }
    c.covers_if_reliable /= c.reliable;
    c
}

fn gaps(mut series: Vec<Option<f64>>, random: &mut Random) -> Vec<Option<f64>> {
    let outages = series.len() / 300;
    for _ in 0..outages {
        let from = (random.uniform() * series.len() as f64) as usize;
        let length = 1 + (random.uniform() * 60.0) as usize;
        series
            .iter_mut()
            .skip(from)
            .take(length)
            .for_each(|v| *v = None);
    }
    series
}

impl Case {
    /// All that the README lists.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        let case = |process, n, what| Self { process, n, what };
        for n in [RUN, 10_800, 3600, 1000, 200] {
            for rho in [0.0, 0.5, 0.9] {
                cases.push(case(Process::Autoregression(rho), n, What::Mean));
            }
        }
        for n in [RUN, 3600] {
            for rho in [0.0, 0.9] {
                cases.push(case(Process::Autoregression(rho), n, What::Quantile(0.95)));
            }
            cases.push(case(Process::LogNormal(0.5), n, What::Mean));
            cases.push(case(Process::LogNormal(0.5), n, What::Quantile(0.95)));
            for process in [
                Process::Counts(0.85, 0.2, 1.0),
                Process::Counts(0.02, 0.05, 10.0),
                Process::Counts(5.0, 0.5, 20.0),
            ] {
                cases.push(case(process, n, What::Mean));
            }
        }
        cases.push(case(Process::Autoregression(0.9), RUN, What::MeanWithGaps));
        cases.push(case(Process::Autoregression(0.9), RUN, What::RatioOfSums));
        cases.push(case(Process::Autoregression(0.99), RUN, What::Mean));
        cases.push(case(Process::Autoregression(0.999), RUN, What::Mean));
        cases
    }
}

/// Quantiles of the standard normal, from tables: of 0.5 and 0.95.
fn z(p: f64) -> f64 {
    if p == 0.5 {
        0.0
    } else if p == 0.95 {
        1.644_853_626_951_472_2
    } else {
        f64::NAN
    }
}

fn negative_binomial(mean: f64, shape: f64, p: f64) -> f64 {
    let q = mean / (mean + shape);
    let (mut k, mut probability) = (0.0, (1.0 - q).powf(shape));
    let mut below = probability;
    while below < p {
        probability *= (k + shape) / (k + 1.0) * q;
        k += 1.0;
        below += probability;
    }
    k
}
