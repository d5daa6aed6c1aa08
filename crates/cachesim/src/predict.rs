//! What one recorded run says of other sizes.

mod self_test;

use crate::agave::Rule;
use crate::cost::Fit;
use crate::error::Error;
use crate::interval::Interval;
use crate::policy::Setting;
use crate::run::{BySlot, Outcome, Simulation, Start, all};
use crate::trace::Trace;

pub use self_test::{Bias, Block, SelfTest, self_test};

/// From an empty and from a full cache, misses may differ by so much.
const STARTS_AGREE: f64 = 0.01;
/// Of the time of replay: a larger cache that saves less than this is not worth it.
const WORTH_IT: f64 = 0.01;

/// Where the recording begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the validator's start: the cache is empty. The trace has the replay of the start too.
    ValidatorStart,
    /// Later, with this slot. The trace's slots before it warm the cache.
    Slot(u64),
}

/// What is to be predicted.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// What was looked up.
    pub trace: &'a Trace,
    /// Of the validator's version.
    pub rule: Rule,
    /// Entries, in ascending order.
    pub sizes: &'a [u64],
    /// Simulated runs of each size, at least 2.
    pub seeds: u64,
    pub seed: u64,
    /// Runs at the same time.
    pub threads: usize,
    /// Where the recording begins.
    pub begin: Begin,
    /// Time to compile each program, by number.
    pub compile_us: &'a [u64],
    /// What things cost; without it no time is predicted.
    pub fit: Option<&'a Fit>,
}

/// What is predicted of one size, for the recorded slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub entries: u64,
    /// Lookups that find nothing usable.
    pub misses: Interval,
    pub insertions: Interval,
    pub reloads: Interval,
    pub evictions: Interval,
    pub loads: Interval,
    /// Time of the program cache, microseconds, with the costs' own uncertainty; `None` without costs.
    pub time_us: Option<Interval>,
    /// Mean number of programs in the cache at the end.
    pub resident: f64,
    /// Size of their code, of programs with a known size.
    pub resident_bytes: Interval,
}

/// A size of which nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unknown {
    pub entries: u64,
    /// Mean misses from an empty cache.
    pub empty: f64,
    /// Mean misses from a full one.
    pub full: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// In ascending order of size.
    pub points: Vec<Point>,
    /// Sizes at which what the cache held at the begin decides.
    pub unknown: Vec<Unknown>,
}

/// Predicts each size.
///
/// # Errors
/// [`Error::StartUnknown`] if of no size anything can be said, [`Error::Request`] of an impossible plan.
pub fn predict(plan: &Plan) -> Result<Curve, Error> {
    if plan.seeds < 2 || plan.sizes.is_empty() {
        return Err(Error::Request(
            "a prediction needs a size and at least 2 seeds".to_owned(),
        ));
    }
    let mut curve = Curve {
        points: Vec::new(),
        unknown: Vec::new(),
    };
    let empty = outcomes(plan, Start::Empty)?;
    let full = if plan.begin == Begin::ValidatorStart {
        None
    } else {
        Some(outcomes(plan, Start::Full)?)
    };
    let per_size = plan.seeds as usize;
    for (index, (entries, runs)) in plan.sizes.iter().zip(empty.chunks(per_size)).enumerate() {
        let Some(point) = point(plan, *entries, runs) else {
            continue;
        };
        let from_full = full
            .iter()
            .flat_map(|full| full.chunks(per_size).nth(index))
            .next();
        match from_full
            .map(mean_misses)
            .filter(|full| differ(point.misses.mean, *full))
        {
            Some(full) => curve.unknown.push(Unknown {
                entries: *entries,
                empty: point.misses.mean,
                full,
            }),
            None => curve.points.push(point),
        }
    }
    match curve.unknown.first() {
        Some(first) if curve.points.is_empty() => Err(Error::StartUnknown {
            entries: first.entries,
            empty: first.empty,
            full: first.full,
        }),
        _ => Ok(curve),
    }
}

/// What simulated runs of one size do in each slot, added up.
pub fn by_slot(plan: &Plan, entries: u64) -> Result<BySlot, Error> {
    let mut sums = BySlot::default();
    for seed in 0..plan.seeds {
        sums.add(&simulation(plan, entries, seed, Start::Empty))?;
    }
    Ok(sums)
}

fn simulation<'a>(plan: &Plan<'a>, entries: u64, seed: u64, start: Start) -> Simulation<'a> {
    let first_slot = match plan.begin {
        Begin::ValidatorStart => 0,
        Begin::Slot(slot) => slot,
    };
    let setting = Setting::agave(plan.rule, entries);
    let seed = plan.seed.wrapping_add(seed);
    Simulation {
        trace: plan.trace,
        setting,
        start,
        first_slot,
        compile_us: plan.compile_us,
        seed,
    }
}

/// Of all sizes, all seeds of the first before those of the next.
fn outcomes(plan: &Plan, start: Start) -> Result<Vec<Outcome>, Error> {
    let of_size = |entries: &u64| {
        (0..plan.seeds)
            .map(|seed| simulation(plan, *entries, seed, start))
            .collect::<Vec<_>>()
    };
    let simulations: Vec<Simulation> = plan.sizes.iter().flat_map(of_size).collect();
    all(&simulations, plan.threads)
}

fn mean_misses(runs: &[Outcome]) -> f64 {
    runs.iter().map(|run| run.counts.misses as f64).sum::<f64>() / runs.len().max(1) as f64
}

/// By more than is allowed; a miss more or less is nothing.
fn differ(empty: f64, full: f64) -> bool {
    (empty - full).abs() > (STARTS_AGREE * empty.max(full)).max(1.0)
}

fn point(plan: &Plan, entries: u64, runs: &[Outcome]) -> Option<Point> {
    let of = |number: fn(&Outcome) -> u64| {
        let values: Vec<f64> = runs.iter().map(|run| number(run) as f64).collect();
        Interval::of_runs(&values)
    };
    let time_us = plan.fit.and_then(|fit| {
        let model = |at: usize| {
            fit.resampled
                .get(at % fit.resampled.len().max(1))
                .unwrap_or(&fit.model)
        };
        let times: Vec<f64> = runs
            .iter()
            .enumerate()
            .map(|(at, run)| model(at).time_us(plan.trace, &run.counts))
            .collect();
        let best: f64 = runs
            .iter()
            .map(|run| fit.model.time_us(plan.trace, &run.counts))
            .sum();
        Interval::of_runs(&times).map(|interval| interval.centred(best / times.len() as f64))
    });
    Some(Point {
        entries,
        misses: of(|run| run.counts.misses)?,
        insertions: of(|run| run.counts.insertions)?,
        reloads: of(|run| run.counts.reloads)?,
        evictions: of(|run| run.counts.evictions)?,
        loads: of(|run| run.counts.loads)?,
        time_us,
        resident: of(|run| run.entries)?.mean,
        resident_bytes: of(|run| run.bytes)?,
    })
}

impl Curve {
    /// The least size at which no larger one saves 1 % of the time of replay. `replay_us` is what replay took at the size
    /// `recorded`, in the unit of the cache's time: added up over threads. `None` without times, or if `recorded` is not one of
    /// the sizes.
    pub fn knee(&self, recorded: u64, replay_us: f64) -> Option<u64> {
        let time = |point: &Point| Some(point.time_us?.mean);
        let at_recorded = time(self.points.iter().find(|point| point.entries == recorded)?)?;
        let is_enough = |at: usize, point: &Point| {
            let own = time(point)?;
            let replay = replay_us - at_recorded + own;
            let best = self
                .points
                .iter()
                .skip(at + 1)
                .filter_map(time)
                .fold(own, f64::min);
            Some(own - best < WORTH_IT * replay)
        };
        let mut points = self.points.iter().enumerate();
        points
            .find(|(at, point)| is_enough(*at, point) == Some(true))
            .map(|(_, point)| point.entries)
    }
}
