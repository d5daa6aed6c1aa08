//! Two nodes that answer the same requests, round by round, with latencies whose truth is known.

use super::random::Random;
use faultline_stats::{
    IntervalPlan, block_bootstrap,
    paired::{Pairs, join},
};

/// How latencies come about, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub enum Latency {
    /// 10 ms and a normal deviation of 1 ms.
    Normal,
    /// [`Latency::Normal`], and 0.5 % of requests take 20 ms longer.
    Stalls,
    /// As [`Latency::Stalls`], but a stall lasts for four rounds on average.
    LongStalls,
    /// Pareto with this exponent, from 5 ms on.
    Pareto(f64),
    /// 10 ms and an autoregression of variance 1 with this coefficient, of each node on its own.
    Autocorrelated(f64),
    /// [`Latency::Stalls`] times a load that both nodes share, which doubles during the run.
    SharedDrift,
    /// [`Latency::Stalls`], and a drift of each node on its own.
    OwnDrift(Drift),
}

/// How the level of a node changes by itself, by so many milliseconds.
#[derive(Debug, Clone, Copy)]
pub enum Drift {
    /// A random walk, with a step of this standard deviation in each round.
    Walk(f64),
    /// Half of a wave of this amplitude, which begins anywhere.
    Wave(f64),
    /// A step up or down at any time.
    Step(f64),
    /// A straight line up or down; this is the standard deviation of where it ends.
    Trend(f64),
    /// At most so much at the beginning, which fades away.
    WarmUp(f64),
}

impl Latency {
    /// Latencies that do not drift, or that drift alike.
    pub const STEADY: [Self; 8] = [
        Self::Normal,
        Self::Stalls,
        Self::LongStalls,
        Self::Pareto(1.5),
        Self::Pareto(3.0),
        Self::Autocorrelated(0.5),
        Self::Autocorrelated(0.9),
        Self::SharedDrift,
    ];
    pub const DRIFTING: [Self; 8] = [
        Self::OwnDrift(Drift::Walk(0.05)),
        Self::OwnDrift(Drift::Walk(0.02)),
        Self::Autocorrelated(0.99),
        Self::OwnDrift(Drift::Wave(1.0)),
        Self::OwnDrift(Drift::Wave(0.3)),
        Self::OwnDrift(Drift::Step(1.0)),
        Self::OwnDrift(Drift::Trend(1.0)),
        Self::OwnDrift(Drift::WarmUp(1.0)),
    ];
    /// Drifts about as large as the error of a mean.
    pub const BARELY_DRIFTING: [Self; 2] = [
        Self::OwnDrift(Drift::Step(0.3)),
        Self::OwnDrift(Drift::Trend(0.3)),
    ];

    pub fn name(self) -> String {
        match self {
            Self::Normal => "normal".to_owned(),
            Self::Stalls => "stalls of 0.5 %".to_owned(),
            Self::LongStalls => "stalls of four rounds".to_owned(),
            Self::Pareto(exponent) => format!("Pareto, exponent {exponent}"),
            Self::Autocorrelated(rho) => format!("AR(1), rho {rho}"),
            Self::SharedDrift => "stalls, load doubles".to_owned(),
            Self::OwnDrift(Drift::Walk(step)) => format!("stalls, own walk {step}"),
            Self::OwnDrift(Drift::Wave(size)) => format!("stalls, own wave {size}"),
            Self::OwnDrift(Drift::Step(size)) => format!("stalls, own step {size}"),
            Self::OwnDrift(Drift::Trend(size)) => format!("stalls, own trend {size}"),
            Self::OwnDrift(Drift::WarmUp(size)) => format!("stalls, own warm-up {size}"),
        }
    }

    pub fn series(self, rounds: usize, random: &mut Random) -> Vec<f64> {
        if let Self::OwnDrift(drift) = self {
            let levels = drift.levels(rounds, random);
            let latencies = Self::Stalls.series(rounds, random).into_iter();
            return latencies.zip(levels).map(|(a, b)| a + b).collect();
        }
        let mut level = random.normal();
        let mut stalled = false;
        let one = |round: usize| match self {
            Self::Normal => 10.0 + random.normal(),
            Self::Stalls | Self::OwnDrift(_) => {
                10.0 + random.normal() + stall(random.uniform() < 0.005)
            }
            Self::LongStalls => {
                stalled = random.uniform() < if stalled { 0.75 } else { 0.00126 };
                10.0 + random.normal() + stall(stalled)
            }
            Self::Pareto(exponent) => 5.0 * (1.0 - random.uniform()).powf(-1.0 / exponent),
            Self::Autocorrelated(rho) => {
                level = rho * level + (1.0 - rho * rho).sqrt() * random.normal();
                10.0 + level
            }
            Self::SharedDrift => {
                let load = 1.0 + round as f64 / rounds as f64;
                load * (10.0 + random.normal() + stall(random.uniform() < 0.005))
            }
        };
        (0..rounds).map(one).collect()
    }

    /// Two nodes, the second of which takes so many times as long.
    pub fn pairs(self, rounds: usize, factor: f64, random: &mut Random) -> Pairs {
        let numbered = |series: Vec<f64>, factor: f64| {
            let values = series.into_iter().map(move |value| factor * value);
            (0_u64..).zip(values).collect::<Vec<_>>()
        };
        let reference = self.series(rounds, random);
        let other = self.series(rounds, random);
        join(numbered(reference, 1.0), numbered(other, factor))
    }
}

impl Drift {
    fn levels(self, rounds: usize, random: &mut Random) -> Vec<f64> {
        let (start, size) = (random.uniform(), random.normal());
        let mut walked = 0.0;
        let one = |round: usize| {
            let passed = round as f64 / rounds as f64;
            match self {
                Self::Walk(step) => {
                    walked += step * random.normal();
                    walked
                }
                Self::Wave(amplitude) => {
                    amplitude * (std::f64::consts::TAU * (start + 0.5 * passed)).sin()
                }
                Self::Step(step) if passed >= start => step.copysign(size),
                Self::Step(_) => 0.0,
                Self::Trend(end) => end * size * passed,
                Self::WarmUp(most) => most * start * (-5.0 * passed).exp(),
            }
        };
        (0..rounds).map(one).collect()
    }
}

fn stall(stalled: bool) -> f64 {
    if stalled { 20.0 } else { 0.0 }
}

/// A share of simulated comparisons, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    yes: u32,
    of: u32,
}

impl Share {
    fn add(&mut self, yes: bool) {
        self.yes += u32::from(yes);
        self.of += 1;
    }

    pub fn percent(self) -> f64 {
        100.0 * f64::from(self.yes) / f64::from(self.of)
    }
}

/// What many simulated comparisons came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shares {
    /// The interval covers the true difference.
    pub covers: Share,
    /// The interval leaves out that there is no difference.
    pub excludes: Share,
    /// The plain percentile bootstrap of single rounds does.
    pub plain: Share,
    /// A difference is shown.
    pub shown: Share,
    /// The interval calls itself reliable.
    pub reliable: Share,
    /// An interval that does so covers the true difference.
    pub reliable_covers: Share,
}

/// How often a simulation is repeated, and how often a plain bootstrap resamples each; 0 leaves that out.
#[derive(Clone, Copy)]
pub struct Effort {
    pub times: u64,
    pub plain: usize,
}

/// The difference of two nodes' p95, the second of which takes `factor` times as long.
pub fn p95(latency: Latency, rounds: usize, factor: f64, effort: Effort) -> Shares {
    let truth = (factor - 1.0) * true_p95(latency);
    let mut random = Random::new(rounds as u64);
    let mut shares = Shares::default();
    for seed in 0..effort.times {
        let pairs = latency.pairs(rounds, factor, &mut random);
        let Some(found) = pairs.quantile_difference(0.95, &plan(seed)) else {
            continue;
        };
        let covers = found.low <= truth && truth <= found.high;
        shares.covers.add(covers);
        shares.reliable.add(found.reliability.is_reliable());
        if found.reliability.is_reliable() {
            shares.reliable_covers.add(covers);
        }
        shares.excludes.add(found.low > 0.0 || found.high < 0.0);
        shares
            .shown
            .add(found.decision(0.0..=0.0).established().is_some());
        let p95 = |values: &mut [f64]| quantile(values, 0.95);
        shares
            .plain
            .add(plain(&pairs, effort.plain, p95, &mut random));
    }
    shares
}

/// The difference of two nodes' means.
pub fn means(latency: Latency, rounds: usize, factor: f64, effort: Effort) -> Shares {
    let truth = (factor - 1.0) * true_mean(latency);
    let mut random = Random::new(rounds as u64 + 1);
    let mut shares = Shares::default();
    for seed in 0..effort.times {
        let pairs = latency.pairs(rounds, factor, &mut random);
        let Some(found) = pairs.mean_difference(&plan(seed)) else {
            continue;
        };
        let difference = found.difference;
        shares
            .covers
            .add(difference.low <= truth && truth <= difference.high);
        shares
            .excludes
            .add(difference.low > 0.0 || difference.high < 0.0);
        shares.shown.add(found.decision.established().is_some());
        let mean = |values: &mut [f64]| values.iter().sum::<f64>() / values.len() as f64;
        shares
            .plain
            .add(plain(&pairs, effort.plain, mean, &mut random));
    }
    shares
}

/// The ratio of the means of two runs that have no pairs, against a margin of 5 %.
pub fn ratios(latency: Latency, rounds: usize, factor: f64, effort: Effort) -> Shares {
    let mut random = Random::new(rounds as u64 + 2);
    let mut shares = Shares::default();
    let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    for seed in 0..effort.times {
        let pairs = latency.pairs(rounds, factor, &mut random);
        let (before, after) = (some(&pairs.reference), some(&pairs.other));
        let Some(found) = block_bootstrap::ratio_of_means(&before, &after, 0.05, &plan(seed))
        else {
            continue;
        };
        shares
            .covers
            .add(found.low <= factor && factor <= found.high);
        shares.excludes.add(found.low > 1.0 || found.high < 1.0);
        shares
            .shown
            .add(found.decision(0.95..=1.05).established().is_some());
    }
    shares
}

fn plan(seed: u64) -> IntervalPlan {
    IntervalPlan {
        resamples: 1000,
        seed,
        ..IntervalPlan::default()
    }
}

/// The p95 of a node, by a long run.
fn true_p95(latency: Latency) -> f64 {
    let mut values = latency.series(2_000_000, &mut Random::new(99));
    quantile(&mut values, 0.95)
}

fn true_mean(latency: Latency) -> f64 {
    match latency {
        Latency::Normal | Latency::Autocorrelated(_) => 10.0,
        Latency::Stalls | Latency::LongStalls | Latency::OwnDrift(_) => 10.1,
        Latency::SharedDrift => 15.15,
        Latency::Pareto(exponent) => 5.0 * exponent / (exponent - 1.0),
    }
}

/// Whether the percentile bootstrap of single rounds, which takes them for independent, leaves 0 out.
fn plain(
    pairs: &Pairs,
    resamples: usize,
    of: impl Fn(&mut [f64]) -> f64,
    random: &mut Random,
) -> bool {
    let n = pairs.slots.len();
    let mut one = || {
        let drawn: Vec<usize> = (0..n)
            .map(|_| (random.uniform() * n as f64) as usize)
            .collect();
        let of_drawn = |series: &[f64]| {
            of(&mut drawn
                .iter()
                .map(|place| series[*place])
                .collect::<Vec<f64>>())
        };
        of_drawn(&pairs.other) - of_drawn(&pairs.reference)
    };
    let mut differences: Vec<f64> = (0..resamples).map(|_| one()).collect();
    resamples > 0
        && (quantile(&mut differences, 0.025) > 0.0 || quantile(&mut differences, 0.975) < 0.0)
}

fn quantile(values: &mut [f64], p: f64) -> f64 {
    let place = ((values.len() - 1) as f64 * p).round() as usize;
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}
