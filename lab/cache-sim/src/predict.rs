//! Predicts counters and times of a run at other cache sizes, and tests the prediction at the
//! recorded size.

use crate::{
    Error, Result,
    agave::CacheRules,
    cache::Counts,
    cost::{Fit, RecordedSlot},
    interval::PredictiveInterval,
    policy::Setting,
    run::{InitialContent, Outcome, Simulation, run_all},
    trace::Trace,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Relative difference between the misses of runs from an empty and from a full cache.
const MAX_START_DIFFERENCE: f64 = 0.01;
/// Share of the replay time, for [`Curve::enough_entries`].
const MIN_SAVING: f64 = 0.01;

pub struct PredictionPlan<'a> {
    pub trace: &'a Trace,
    pub rules: CacheRules,
    pub sizes: &'a [u64],
    /// Runs of each size, at least 2, with different seeds.
    pub simulated_run_count: u64,
    pub base_seed: u64,
    pub threads: usize,
    /// The first recorded slot. Earlier slots of the trace only warm the cache.
    pub first_slot: u64,
    /// Whether the cache was empty before the trace: the recording began at the validator's start.
    pub starts_empty: bool,
    /// By program number.
    pub compile_us: &'a [u64],
    pub fit: Option<&'a Fit>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizePrediction {
    pub entries: u64,
    pub misses: PredictiveInterval,
    pub reloads: PredictiveInterval,
    pub evictions: PredictiveInterval,
    pub insertions: PredictiveInterval,
    /// Program cache time in replay, summed over threads, with the uncertainty of the costs;
    /// `None` without costs.
    pub seconds: Option<PredictiveInterval>,
    /// Uncompiled code of the programs in the cache at the end; `None` if the trace has no sizes.
    pub code_bytes: Option<PredictiveInterval>,
}

/// Predictions by size.
#[derive(Debug, Default, PartialEq)]
pub struct Curve {
    pub sizes: Vec<SizePrediction>,
    /// These are not in `sizes`, because misses depend on the cache's unknown content at the start.
    pub sizes_with_unknown_start: Vec<u64>,
}

/// Fails with [`Error::StartUnknown`] if no size can be predicted.
pub fn predict(plan: &PredictionPlan, mut on_size_done: impl FnMut(u64)) -> Result<Curve> {
    if plan.simulated_run_count < 2 || plan.sizes.is_empty() {
        return Err(Error::CannotSimulate(
            "a prediction needs a size and at least 2 seeds".to_owned(),
        ));
    }
    let mut curve = Curve::default();
    let mut start_unknown = None;
    for entries in plan.sizes.iter().copied() {
        let misses_from_full = if plan.starts_empty {
            None
        } else {
            let runs = outcomes(plan, entries, InitialContent::Full)?;
            let misses: f64 = runs.iter().map(|run| run.counts.misses as f64).sum();
            Some(misses / runs.len().max(1) as f64)
        };
        let outcomes_from_empty = outcomes(plan, entries, InitialContent::Empty)?;
        let Some(size) = predicted_size(plan, entries, &outcomes_from_empty) else {
            continue;
        };
        let empty = size.misses.mean;
        // A difference of one miss is accepted.
        let depends_on_start =
            |full: &f64| (empty - full).abs() > (MAX_START_DIFFERENCE * empty.max(*full)).max(1.0);
        match misses_from_full.filter(depends_on_start) {
            Some(full) => {
                curve.sizes_with_unknown_start.push(entries);
                start_unknown.get_or_insert(Error::StartUnknown {
                    entries,
                    empty,
                    full,
                });
            }
            None => curve.sizes.push(size),
        }
        on_size_done(entries);
    }
    match start_unknown {
        Some(error) if curve.sizes.is_empty() => Err(error),
        _ => Ok(curve),
    }
}

/// For each slot, the sum of the counts of all simulated runs.
fn counts_by_slot(plan: &PredictionPlan, entries: u64) -> Result<Vec<(u64, Counts)>> {
    let mut sums = Vec::new();
    for seed in 0..plan.simulated_run_count {
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
pub fn mean_loads_by_slot(plan: &PredictionPlan, entries: u64) -> Result<Vec<(u64, f64, f64)>> {
    let runs = plan.simulated_run_count.max(1) as f64;
    Ok(counts_by_slot(plan, entries)?
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
    plan: &PredictionPlan<'a>,
    entries: u64,
    seed: u64,
    initial_content: InitialContent,
) -> Simulation<'a> {
    Simulation {
        trace: plan.trace,
        setting: Setting::agave(plan.rules, entries),
        initial_content,
        first_slot: plan.first_slot,
        compile_us: plan.compile_us,
        seed: plan.base_seed.wrapping_add(seed),
    }
}

fn outcomes(
    plan: &PredictionPlan,
    entries: u64,
    initial_content: InitialContent,
) -> Result<Vec<Outcome>> {
    run_all(
        &Vec::from_iter(
            (0..plan.simulated_run_count)
                .map(|seed| simulation(plan, entries, seed, initial_content)),
        ),
        plan.threads,
    )
}

fn predicted_size(plan: &PredictionPlan, entries: u64, runs: &[Outcome]) -> Option<SizePrediction> {
    let interval = |counter: fn(&Outcome) -> u64| {
        let values = Vec::from_iter(runs.iter().map(|run| counter(run) as f64));
        PredictiveInterval::of_runs(&values)
    };
    let time_us = plan.fit.and_then(|fit| {
        let times: Vec<f64> = runs
            .iter()
            .enumerate()
            .map(|(index, run)| fit.resampled_model(index).time_us(plan.trace, &run.counts))
            .collect();
        let total_at_fitted_costs: f64 = runs
            .iter()
            .map(|run| fit.model.time_us(plan.trace, &run.counts))
            .sum();
        PredictiveInterval::of_runs(&times)
            .map(|interval| interval.with_mean(total_at_fitted_costs / times.len() as f64))
    });
    let mut programs = plan.trace.programs().iter();
    let code_bytes =
        interval(|run| run.bytes).filter(|_| programs.any(|program| program.bytes.is_some()));
    Some(SizePrediction {
        entries,
        misses: interval(|run| run.counts.misses)?,
        reloads: interval(|run| run.counts.reloads)?,
        evictions: interval(|run| run.counts.evictions)?,
        insertions: interval(|run| run.counts.insertions)?,
        seconds: time_us.map(|time| time.scaled(1e-6)),
        code_bytes,
    })
}

impl Curve {
    /// The smallest size such that no larger size saves 1 % of the replay time. `replay_us` is the
    /// replay time at `recorded_size`, summed over threads like the cache's time. `None` without
    /// times, or if `recorded_size` is not one of the sizes.
    pub fn enough_entries(&self, recorded_size: u64, replay_us: f64) -> Option<u64> {
        let time = |size: &SizePrediction| Some(size.seconds?.mean);
        let at_recorded = time(
            self.sizes
                .iter()
                .find(|size| size.entries == recorded_size)?,
        )?;
        let is_enough = |index: usize, size: &SizePrediction| {
            let cache_seconds = time(size)?;
            let replay_seconds = replay_us * 1e-6 - at_recorded + cache_seconds;
            let least_seconds = self
                .sizes
                .iter()
                .skip(index + 1)
                .filter_map(time)
                .fold(cache_seconds, f64::min);
            Some(cache_seconds - least_seconds < MIN_SAVING * replay_seconds)
        };
        let mut sizes = self.sizes.iter().enumerate();
        sizes
            .find(|(index, size)| is_enough(*index, size) == Some(true))
            .map(|(_, size)| size.entries)
    }
}

/// With a larger bias, other sizes are not predicted.
const MAX_BIAS_PERCENT: f64 = 10.0;
/// Below this number of recorded events, [`MAX_DIFFERENCE`] applies instead of the percentage.
const FEW_EVENTS: f64 = 100.0;
const MAX_DIFFERENCE: f64 = 10.0;

/// Name in the validator's datapoint, recorded value, simulated value.
pub type CounterSpec = (&'static str, fn(&RecordedSlot) -> u64, fn(&Counts) -> u64);

pub const COUNTERS: [CounterSpec; 4] = [
    ("misses", |slot| slot.misses, |sum| sum.misses),
    ("evictions", |slot| slot.evictions, |sum| sum.evictions),
    ("reloads", |slot| slot.reloads, |sum| sum.reloads),
    ("insertions", |slot| slot.insertions, |sum| sum.insertions),
];

#[derive(Debug, Clone, Serialize)]
pub struct CounterPrediction {
    pub name: &'static str,
    pub recorded: u64,
    pub predicted: f64,
    /// Relative to the recorded value; `None` if this is 0.
    pub bias_percent: Option<f64>,
}

impl CounterPrediction {
    pub fn is_close(&self) -> bool {
        is_close(self.recorded as f64, self.predicted)
    }
}

pub fn bias_percent(recorded: f64, predicted: f64) -> Option<f64> {
    (recorded > 0.0).then(|| 100.0 * (predicted - recorded) / recorded)
}

pub fn is_close(recorded: f64, predicted: f64) -> bool {
    if recorded < FEW_EVENTS {
        return (predicted - recorded).abs() <= MAX_DIFFERENCE;
    }
    bias_percent(recorded, predicted).is_some_and(|percent| percent.abs() <= MAX_BIAS_PERCENT)
}

/// Compares counters of the simulated and the recorded run, over common slots. `recorded` has each
/// slot once. Fails if no slot is common.
pub fn self_test(
    plan: &PredictionPlan,
    entries: u64,
    recorded: &[RecordedSlot],
) -> Result<Vec<CounterPrediction>> {
    let simulated = counts_by_slot(plan, entries)?;
    let pairs: Vec<_> = recorded
        .iter()
        .filter_map(|slot| {
            let index = simulated.binary_search_by_key(&slot.slot, |(number, _)| *number);
            Some((slot, &simulated[index.ok()?].1))
        })
        .collect();
    if pairs.is_empty() {
        return Err(Error::CannotSimulate(
            "the trace has no slot with recorded counters of the program cache".to_owned(),
        ));
    }
    let runs = plan.simulated_run_count.max(1) as f64;
    let counter = |(name, recorded_value, simulated_value): CounterSpec| {
        let recorded = pairs.iter().fold(0, |sum: u64, (slot, _)| {
            sum.saturating_add(recorded_value(slot))
        });
        let simulated: u64 = pairs.iter().map(|(_, sum)| simulated_value(sum)).sum();
        let predicted = simulated as f64 / runs;
        CounterPrediction {
            name,
            recorded,
            predicted,
            bias_percent: bias_percent(recorded as f64, predicted),
        }
    };
    Ok(COUNTERS.map(counter).to_vec())
}

pub const MIN_COVERAGE_PERCENT: f64 = 98.0;

/// How many of a recording's transactions are in the slots of a trace.
#[derive(Default)]
pub struct Coverage {
    pub covered: u64,
    pub recorded: u64,
    pub missing_slots: Vec<u64>,
}

impl Coverage {
    /// `recorded` has the transactions by slot.
    pub fn of(trace: &Trace, recorded: &BTreeMap<u64, u64>) -> Self {
        let mut coverage = Self::default();
        for (slot, transactions) in recorded {
            coverage.recorded = coverage.recorded.saturating_add(*transactions);
            if trace.slot_index(*slot).is_some() {
                coverage.covered = coverage.covered.saturating_add(*transactions);
            } else {
                coverage.missing_slots.push(*slot);
            }
        }
        coverage
    }

    pub fn percent(&self) -> Option<f64> {
        (self.recorded > 0).then(|| 100.0 * self.covered as f64 / self.recorded as f64)
    }

    /// Fails below [`MIN_COVERAGE_PERCENT`], or if no transactions were recorded.
    pub fn require(&self) -> Result<()> {
        let percent = self
            .percent()
            .ok_or_else(|| Error::CannotSimulate("no transactions were recorded".to_owned()))?;
        if percent >= MIN_COVERAGE_PERCENT {
            return Ok(());
        }
        let first = self.missing_slots.first().copied().unwrap_or(0);
        Err(Error::Coverage {
            percent,
            least: MIN_COVERAGE_PERCENT,
            missing: self.missing_slots.len(),
            first,
        })
    }
}
