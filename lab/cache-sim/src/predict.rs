mod self_test;

use crate::agave::Rule;
use crate::cost::Fit;
use crate::error::Error;
use crate::interval::Interval;
use crate::policy::Setting;
use crate::run::{BySlot, InitialContent, Outcome, Simulation, all};
use crate::trace::Trace;

pub use self_test::{Bias, SelfTest, is_close, off_percent, self_test};

/// Allowed difference of misses from an empty and from a full cache, as a share.
const MAX_START_DIFFERENCE: f64 = 0.01;
/// The share of the replay time that a larger cache must save.
const MIN_SAVING: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingStart {
    /// At the validator's start, with an empty cache. The trace includes the replay of the start.
    ValidatorStart,
    /// Later, at this slot. The trace's earlier slots warm the cache.
    Slot(u64),
}

impl RecordingStart {
    pub fn first_slot(self) -> u64 {
        match self {
            RecordingStart::ValidatorStart => 0,
            RecordingStart::Slot(slot) => slot,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub trace: &'a Trace,
    pub rule: Rule,
    pub sizes: &'a [u64],
    /// Simulated runs of each size, at least 2.
    pub seeds: u64,
    pub seed: u64,
    pub threads: usize,
    pub begin: RecordingStart,
    /// By program number.
    pub compile_us: &'a [u64],
    pub fit: Option<&'a Fit>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub entries: u64,
    pub misses: Interval,
    pub insertions: Interval,
    pub reloads: Interval,
    pub evictions: Interval,
    pub loads: Interval,
    /// Program cache time with the uncertainty of the costs; `None` without costs.
    pub time_us: Option<Interval>,
    /// Mean entries in the cache at the end.
    pub resident: f64,
    pub resident_bytes: Interval,
}

/// Mean misses from an empty and from a full cache, at a size where they differ too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnknownSize {
    pub entries: u64,
    pub empty: f64,
    pub full: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub points: Vec<Point>,
    /// Sizes at which the cache's content at the start decides.
    pub unknown: Vec<UnknownSize>,
}

pub fn predict(plan: &Plan, mut done: impl FnMut(u64)) -> Result<Curve, Error> {
    if plan.seeds < 2 || plan.sizes.is_empty() {
        return Err(Error::Request(
            "a prediction needs a size and at least 2 seeds".to_owned(),
        ));
    }
    let mut curve = Curve {
        points: Vec::new(),
        unknown: Vec::new(),
    };
    for entries in plan.sizes.iter().copied() {
        let from_full = match plan.begin {
            RecordingStart::ValidatorStart => None,
            RecordingStart::Slot(_) => {
                Some(mean_misses(&outcomes(plan, entries, InitialContent::Full)?))
            }
        };
        let Some(point) = point(
            plan,
            entries,
            &outcomes(plan, entries, InitialContent::Empty)?,
        ) else {
            continue;
        };
        let empty = point.misses.mean;
        match from_full.filter(|full| depends_on_start(empty, *full)) {
            Some(full) => curve.unknown.push(UnknownSize {
                entries,
                empty,
                full,
            }),
            None => curve.points.push(point),
        }
        done(entries);
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

pub fn by_slot(plan: &Plan, entries: u64) -> Result<BySlot, Error> {
    let mut sums = BySlot::default();
    for seed in 0..plan.seeds {
        sums.add(&simulation(plan, entries, seed, InitialContent::Empty))?;
    }
    Ok(sums)
}

fn simulation<'a>(
    plan: &Plan<'a>,
    entries: u64,
    seed: u64,
    start: InitialContent,
) -> Simulation<'a> {
    let setting = Setting::agave(plan.rule, entries);
    let seed = plan.seed.wrapping_add(seed);
    Simulation {
        trace: plan.trace,
        setting,
        start,
        first_slot: plan.begin.first_slot(),
        compile_us: plan.compile_us,
        seed,
    }
}

fn outcomes(plan: &Plan, entries: u64, start: InitialContent) -> Result<Vec<Outcome>, Error> {
    let simulations = (0..plan.seeds).map(|seed| simulation(plan, entries, seed, start));
    all(&simulations.collect::<Vec<_>>(), plan.threads)
}

fn mean_misses(runs: &[Outcome]) -> f64 {
    runs.iter().map(|run| run.counts.misses as f64).sum::<f64>() / runs.len().max(1) as f64
}

/// Whether the difference is too large; a difference of one miss is not.
fn depends_on_start(empty: f64, full: f64) -> bool {
    (empty - full).abs() > (MAX_START_DIFFERENCE * empty.max(full)).max(1.0)
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
    /// The smallest size at which no larger one saves 1 % of the replay time. `replay_us` is the
    /// replay time at the size `recorded`, summed over threads like the cache's time. `None`
    /// without times, or if `recorded` is not one of the sizes.
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
            Some(own - best < MIN_SAVING * replay)
        };
        let mut points = self.points.iter().enumerate();
        points
            .find(|(at, point)| is_enough(*at, point) == Some(true))
            .map(|(_, point)| point.entries)
    }
}
