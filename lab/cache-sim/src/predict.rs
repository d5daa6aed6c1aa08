use crate::{
    Error,
    agave::Rule,
    cache::Counts,
    cost::{Fit, Observed},
    interval::Range,
    policy::Setting,
    run::{InitialContent, Outcome, Simulation, all},
    trace::Trace,
};
use serde::Serialize;

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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    pub entries: u64,
    pub misses: Range,
    pub reloads: Range,
    pub evictions: Range,
    pub insertions: Range,
    /// Program cache time in replay, summed over threads, with the uncertainty of the costs;
    /// `None` without costs.
    pub seconds: Option<Range>,
    /// Uncompiled code of the programs in the cache at the end; `None` if the trace has no sizes.
    pub code_bytes: Option<Range>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    pub sizes: Vec<Size>,
    /// Sizes at which the cache's content at the start decides.
    pub unknown: Vec<u64>,
}

pub fn predict(plan: &Plan, mut done: impl FnMut(u64)) -> Result<Curve, Error> {
    if plan.seeds < 2 || plan.sizes.is_empty() {
        return Err(Error::Request(
            "a prediction needs a size and at least 2 seeds".to_owned(),
        ));
    }
    let mut curve = Curve::default();
    let mut start_unknown = None;
    for entries in plan.sizes.iter().copied() {
        let from_full = match plan.begin {
            RecordingStart::ValidatorStart => None,
            RecordingStart::Slot(_) => {
                Some(mean_misses(&outcomes(plan, entries, InitialContent::Full)?))
            }
        };
        let from_empty = outcomes(plan, entries, InitialContent::Empty)?;
        let Some(size) = size(plan, entries, &from_empty) else {
            continue;
        };
        let empty = size.misses.mean;
        match from_full.filter(|full| depends_on_start(empty, *full)) {
            Some(full) => {
                curve.unknown.push(entries);
                start_unknown.get_or_insert(Error::StartUnknown {
                    entries,
                    empty,
                    full,
                });
            }
            None => curve.sizes.push(size),
        }
        done(entries);
    }
    match start_unknown {
        Some(error) if curve.sizes.is_empty() => Err(error),
        _ => Ok(curve),
    }
}

/// The sum of all simulated runs for each slot.
fn by_slot(plan: &Plan, entries: u64) -> Result<Vec<(u64, Counts)>, Error> {
    let mut sums: Vec<(u64, Counts)> = Vec::new();
    for seed in 0..plan.seeds {
        let mut index = 0;
        simulation(plan, entries, seed, InitialContent::Empty).run(|slot, counts| {
            match sums.get_mut(index) {
                Some((_, sum)) => *sum += counts,
                None => sums.push((slot, counts)),
            }
            index += 1;
        })?;
    }
    Ok(sums)
}

/// (slot, mean loads, mean loaded bytes), for [`crate::cost::fit`].
pub fn loaded(plan: &Plan, entries: u64) -> Result<Vec<(u64, f64, f64)>, Error> {
    let runs = plan.seeds.max(1) as f64;
    Ok(by_slot(plan, entries)?
        .into_iter()
        .map(|(slot, sum)| {
            (
                slot,
                sum.loads as f64 / runs,
                sum.loaded_bytes as f64 / runs,
            )
        })
        .collect())
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
    all(
        &(0..plan.seeds)
            .map(|seed| simulation(plan, entries, seed, start))
            .collect::<Vec<_>>(),
        plan.threads,
    )
}

fn mean_misses(runs: &[Outcome]) -> f64 {
    runs.iter().map(|run| run.counts.misses as f64).sum::<f64>() / runs.len().max(1) as f64
}

/// Whether the difference is too large; a difference of one miss is not.
fn depends_on_start(empty: f64, full: f64) -> bool {
    (empty - full).abs() > (MAX_START_DIFFERENCE * empty.max(full)).max(1.0)
}

fn size(plan: &Plan, entries: u64, runs: &[Outcome]) -> Option<Size> {
    let of = |number: fn(&Outcome) -> u64| {
        let values: Vec<f64> = runs.iter().map(|run| number(run) as f64).collect();
        Range::of_runs(&values)
    };
    let time_us = plan.fit.and_then(|fit| {
        let times: Vec<f64> = runs
            .iter()
            .enumerate()
            .map(|(at, run)| fit.resample(at).time_us(plan.trace, &run.counts))
            .collect();
        let best: f64 = runs
            .iter()
            .map(|run| fit.model.time_us(plan.trace, &run.counts))
            .sum();
        Range::of_runs(&times).map(|range| range.centred(best / times.len() as f64))
    });
    let mut programs = plan.trace.programs().iter();
    let code_bytes =
        of(|run| run.bytes).filter(|_| programs.any(|program| program.bytes.is_some()));
    Some(Size {
        entries,
        misses: of(|run| run.counts.misses)?,
        reloads: of(|run| run.counts.reloads)?,
        evictions: of(|run| run.counts.evictions)?,
        insertions: of(|run| run.counts.insertions)?,
        seconds: time_us.map(|time| time.scaled(1e-6)),
        code_bytes,
    })
}

impl Curve {
    /// The smallest size at which no larger one saves 1 % of the replay time. `replay_us` is the
    /// replay time at the size `recorded`, summed over threads like the cache's time. `None`
    /// without times, or if `recorded` is not one of the sizes.
    pub fn knee(&self, recorded: u64, replay_us: f64) -> Option<u64> {
        let time = |size: &Size| Some(size.seconds?.mean);
        let at_recorded = time(self.sizes.iter().find(|size| size.entries == recorded)?)?;
        let is_enough = |at: usize, size: &Size| {
            let own = time(size)?;
            let replay = replay_us * 1e-6 - at_recorded + own;
            let best = self
                .sizes
                .iter()
                .skip(at + 1)
                .filter_map(time)
                .fold(own, f64::min);
            Some(own - best < MIN_SAVING * replay)
        };
        let mut sizes = self.sizes.iter().enumerate();
        sizes
            .find(|(at, size)| is_enough(*at, size) == Some(true))
            .map(|(_, size)| size.entries)
    }
}

/// A larger bias than this, in percent, forbids extrapolation.
const MAX_BIAS_PERCENT: f64 = 10.0;
/// Below this number of recorded events, the difference counts instead of the percentage.
const FEW_EVENTS: f64 = 100.0;
/// Allowed difference of few events.
const MAX_DIFFERENCE: f64 = 10.0;

/// Name in the validator's datapoint, recorded value, simulated value.
pub type CounterSpec = (&'static str, fn(&Observed) -> u64, fn(&Counts) -> u64);

pub const COUNTERS: [CounterSpec; 4] = [
    ("misses", |o| o.misses, |c| c.misses),
    ("evictions", |o| o.evictions, |c| c.evictions),
    ("reloads", |o| o.reloads, |c| c.reloads),
    ("insertions", |o| o.insertions, |c| c.insertions),
];

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counter {
    pub name: &'static str,
    pub recorded: u64,
    pub predicted: f64,
    /// Relative to the recorded value; `None` if that is 0.
    pub bias_percent: Option<f64>,
}

impl Counter {
    pub fn is_close(&self) -> bool {
        is_close(self.recorded as f64, self.predicted)
    }
}

/// `None` if nothing was recorded.
pub fn off_percent(recorded: f64, predicted: f64) -> Option<f64> {
    (recorded > 0.0).then(|| 100.0 * (predicted - recorded) / recorded)
}

/// Whether a counter is predicted well enough: within 10 %, or within 10 events if fewer than 100
/// were recorded.
pub fn is_close(recorded: f64, predicted: f64) -> bool {
    if recorded < FEW_EVENTS {
        return (predicted - recorded).abs() <= MAX_DIFFERENCE;
    }
    off_percent(recorded, predicted).is_some_and(|percent| percent.abs() <= MAX_BIAS_PERCENT)
}

/// Simulates the recorded size and compares it with the recording, for the slots of both. The
/// caller sums datapoints of the same slot.
pub fn self_test(plan: &Plan, entries: u64, observed: &[Observed]) -> Result<Vec<Counter>, Error> {
    let simulated = by_slot(plan, entries)?;
    let found = |o: &Observed| {
        simulated
            .binary_search_by_key(&o.slot, |(slot, _)| *slot)
            .ok()
    };
    let pairs: Vec<(&Observed, &Counts)> = observed
        .iter()
        .filter_map(|o| Some((o, &simulated[found(o)?].1)))
        .collect();
    let runs = plan.seeds.max(1) as f64;
    let counter = |(name, recorded, predicted): CounterSpec| {
        let recorded = pairs
            .iter()
            .fold(0, |sum: u64, (o, _)| sum.saturating_add(recorded(o)));
        let predicted = pairs.iter().map(|(_, c)| predicted(c)).sum::<u64>() as f64 / runs;
        Counter {
            name,
            recorded,
            predicted,
            bias_percent: off_percent(recorded as f64, predicted),
        }
    };
    Ok(COUNTERS.map(counter).to_vec())
}

/// Minimum for predictions, in percent.
pub const MIN_COVERAGE_PERCENT: f64 = 98.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    pub covered: u64,
    pub recorded: u64,
    pub missing: Vec<u64>,
}

impl Coverage {
    /// `recorded` has (slot, transactions), in any order.
    pub fn of(trace: &Trace, recorded: &[(u64, u64)]) -> Self {
        let mut coverage = Coverage {
            covered: 0,
            recorded: 0,
            missing: Vec::new(),
        };
        for (slot, transactions) in recorded {
            coverage.recorded = coverage.recorded.saturating_add(*transactions);
            if trace.slot_index(*slot).is_some() {
                coverage.covered = coverage.covered.saturating_add(*transactions);
            } else {
                coverage.missing.push(*slot);
            }
        }
        coverage.missing.sort_unstable();
        coverage
    }

    /// `None` if no transactions were recorded.
    pub fn percent(&self) -> Option<f64> {
        (self.recorded > 0).then(|| 100.0 * self.covered as f64 / self.recorded as f64)
    }

    /// Fails below [`MIN_COVERAGE_PERCENT`], or if no transactions were recorded.
    pub fn require(&self) -> Result<(), Error> {
        let percent = self.percent().unwrap_or(0.0);
        if percent >= MIN_COVERAGE_PERCENT {
            return Ok(());
        }
        let first = self.missing.first().copied().unwrap_or(0);
        Err(Error::Coverage {
            percent,
            least: MIN_COVERAGE_PERCENT,
            missing: self.missing.len(),
            first,
        })
    }
}
