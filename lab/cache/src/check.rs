//! `faultline cache check`: predicts the counters of other runs from the first run, and compares
//! them with the recorded counters.

use crate::{
    args::CheckArgs,
    predicted_run::{PredictedRuns, interval_text, number_or_dash},
};
use anyhow::{Result, ensure};
use faultline_cache_prediction::{
    prediction::{Calibration, PredictionInput, PredictiveInterval, mean_load_model},
    recorded::Recorded,
    trace_file::{self, trace_path},
};
use faultline_cache_sim::{
    Setting, Simulation, Trace,
    cost::{Fit, RecordedSlot, compile_times},
    predict::{COUNTERS, CounterSpec, Coverage, bias_percent, is_close},
    run::InitialContent,
};
use faultline_common::{files::AtPath, output::json};
use faultline_text::{count, counted, number, table};
use itertools::Itertools;
use serde::Serialize;
use std::{ops::RangeInclusive, path::Path};

/// If common slots have at least this percentage of the other run's transactions, only common slots
/// are compared.
const MIN_COMMON_PERCENT: f64 = 50.0;
/// Two clusters may have the same slot numbers and, by chance, many equal transaction counts. Two
/// runs are taken to be of one cluster if at least this percentage of their shared slots have equal
/// counts. The rest may be of different forks.
const MIN_EQUAL_PERCENT: usize = 90;
/// The predicted time, scaled to the mean load time of the other run. It is shown but not judged,
/// because it uses a result of the run that it predicts.
const AT_OTHER_LOAD_TIME: &str = "at its own costs, ms";
/// Outside of this range scaled predictions are wrong, because first uses of programs are not
/// proportional to the number of transactions.
const RELIABLE_SCALES: RangeInclusive<f64> = 0.8..=1.25;

#[derive(Serialize)]
struct CheckReport {
    run: String,
    #[serde(rename = "entries")]
    cache_capacity: u64,
    /// Whether slots that both runs replayed are compared. If neither this nor `uses_other_trace`
    /// is true, whole runs are compared.
    same_slots: bool,
    #[serde(rename = "own_blocks")]
    uses_other_trace: bool,
    /// The other run's transactions with programs, divided by the first run's. `None` unless whole
    /// runs are compared.
    #[serde(rename = "times")]
    transaction_ratio: Option<f64>,
    slots: usize,
    /// Mean compile time in the first run and in the other run.
    #[serde(rename = "us_of_a_load")]
    us_per_load: Option<(f64, f64)>,
    counters: Vec<ValueCheck>,
}

#[derive(Serialize)]
struct ValueCheck {
    name: &'static str,
    recorded: f64,
    predicted: PredictiveInterval,
    #[serde(rename = "off_percent")]
    bias_percent: Option<f64>,
    #[serde(rename = "inside")]
    is_in_interval: bool,
    #[serde(rename = "within")]
    is_close: bool,
}

pub fn run(args: &CheckArgs) -> Result<(String, u8)> {
    let input = PredictionInput::read(&args.run, &args.input)?;
    let calibration = input.calibrate()?;
    ensure!(
        calibration.passes_self_test(),
        "{}: it fails its self-test, so nothing is predicted from it: `faultline cache predict` shows the reasons",
        args.run.display()
    );
    let mut runs = Vec::new();
    for other in &args.others {
        runs.push(compare(&input, &calibration, other).at(other)?);
    }
    let judged = || {
        runs.iter()
            .flat_map(|run| &run.counters)
            .filter(|value| value.name != AT_OTHER_LOAD_TIME)
    };
    let text = if args.json {
        json(&runs)?
    } else {
        let inside = judged().filter(|value| value.is_in_interval).count();
        format!(
            "{}\n{inside} of {} values are inside their interval.\n",
            runs.iter().map(CheckReport::text).join("\n"),
            judged().count()
        )
    };
    Ok((text, u8::from(!judged().all(|value| value.is_close))))
}

fn compare(
    input: &PredictionInput,
    calibration: &Calibration,
    other: &Path,
) -> Result<CheckReport> {
    let other_recorded = Recorded::read(other)?;
    if let Some(other_version) = other_recorded.agave_version() {
        let version = &input.version;
        ensure!(
            other_version == *version,
            "it is of version {other_version}, and predictions are for {version}"
        );
    }
    let cache_capacity = other_recorded.entries.unwrap_or(input.rules.stock_entries);
    let (other_trace, slots_to_compare) = comparison_basis(input, &other_recorded, other)?;
    let trace = other_trace.as_ref().unwrap_or(&input.trace);
    let first_run = &input.recorded.slots_with_counters;
    let other_run = &other_recorded.slots_with_counters;
    let (other_slots, simulated_slots) = match &slots_to_compare {
        Some(slots) => (slots, slots),
        None => (other_run, first_run),
    };
    // The other trace numbers programs differently, so its compile times are indexed differently.
    let fit = calibration.fit.as_ref();
    let model = fit.map_or_else(|| mean_load_model(other_run), |fit| fit.model);
    let other_compile_us = other_trace
        .as_ref()
        .map(|trace| compile_times(trace, &model));
    let ratio = slots_to_compare
        .is_none()
        .then(|| transaction_ratio(trace, other_slots, simulated_slots));
    let simulation = Simulation {
        trace,
        setting: Setting::agave(input.rules, cache_capacity),
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: other_compile_us.as_ref().unwrap_or(&calibration.compile_us),
        seed: 0,
    };
    let slots = simulated_slots.iter().map(|slot| slot.slot).collect();
    let predicted = PredictedRuns::of(&simulation, &slots, input.simulated_run_count, ratio)?;
    let mut counters = counter_checks(other_slots, &predicted);
    let us_per_load = mean_us_per_load(first_run).zip(mean_us_per_load(other_slots));
    if let Some(fit) = fit {
        let checks = cache_time_checks(other_slots, &predicted, (fit, trace), us_per_load);
        counters.extend(checks);
    }
    Ok(CheckReport {
        run: other.display().to_string(),
        cache_capacity,
        same_slots: other_trace.is_none() && slots_to_compare.is_some(),
        uses_other_trace: other_trace.is_some(),
        transaction_ratio: ratio,
        slots: other_slots.len(),
        us_per_load,
        counters,
    })
}

/// Returns the other run's trace (only if too few slots are common), and the slots to compare
/// (`None`: whole runs).
fn comparison_basis(
    input: &PredictionInput,
    other_recorded: &Recorded,
    other: &Path,
) -> Result<(Option<Trace>, Option<Vec<RecordedSlot>>)> {
    let transactions = total_transactions(&other_recorded.slots_with_counters);
    ensure!(
        transactions > 0.0,
        "no slot has both counters of the program cache and counters of the replay"
    );
    let common = common_slots(input, other_recorded);
    if 100.0 * total_transactions(&common) / transactions >= MIN_COMMON_PERCENT {
        return Ok((None, Some(common)));
    }
    let other_trace = read_other_trace(other_recorded, other)?;
    let common = other_trace
        .as_ref()
        .map(|trace| slots_in_trace(trace, other_recorded.slots_with_counters.iter()));
    Ok((other_trace, common))
}

fn counter_checks(slots: &[RecordedSlot], predicted: &PredictedRuns) -> Vec<ValueCheck> {
    let counter = |(name, recorded_value, simulated_value): CounterSpec| {
        let recorded = slots
            .iter()
            .map(|slot| recorded_value(slot) as f64)
            .sum::<f64>();
        let predicted = predicted.interval(|counts, _| simulated_value(counts) as f64, 1.0)?;
        let is_in_interval =
            predicted.low.round() <= recorded && recorded <= predicted.high.round();
        Some(ValueCheck {
            is_in_interval,
            ..value_check(name, recorded, predicted)
        })
    };
    COUNTERS.into_iter().filter_map(counter).collect()
}

/// Compares the cache's time with two predictions: at the costs of the first run, and at these
/// costs scaled to the load times of the other run.
fn cache_time_checks(
    slots: &[RecordedSlot],
    predicted: &PredictedRuns,
    (fit, trace): (&Fit, &Trace),
    us_per_load: Option<(f64, f64)>,
) -> Vec<ValueCheck> {
    let Some(recorded_us) = slots.iter().map(|slot| slot.cache_us).sum::<Option<u64>>() else {
        return Vec::new();
    };
    let model = |resample: Option<usize>| {
        resample.map_or(&fit.model, |resample| fit.resampled_model(resample))
    };
    let time_check = |name, time_factor: f64| {
        let interval = predicted.interval(
            |counts, resample| model(resample).time_us(trace, counts),
            time_factor * 1e-3,
        )?;
        Some(value_check(name, recorded_us as f64 * 1e-3, interval))
    };
    let slowdown = us_per_load
        .filter(|(first, _)| *first > 0.0)
        .map(|(first, other)| other / first);
    let at_other_load_time = slowdown.and_then(|slowdown| time_check(AT_OTHER_LOAD_TIME, slowdown));
    time_check("cache time, ms", 1.0)
        .into_iter()
        .chain(at_other_load_time)
        .collect()
}

fn mean_us_per_load(slots: &[RecordedSlot]) -> Option<f64> {
    let us = slots
        .iter()
        .map(|slot| slot.compile_us.map(|us| us as f64))
        .sum::<Option<f64>>()?;
    let loads: f64 = slots
        .iter()
        .map(|slot| slot.insertions as f64 + slot.reloads as f64)
        .sum();
    (loads > 0.0).then(|| us / loads)
}

/// The other run's transactions with programs (all but votes), divided by the first run's. Assumes
/// equal numbers of votes per slot.
fn transaction_ratio(trace: &Trace, other: &[RecordedSlot], first: &[RecordedSlot]) -> f64 {
    let in_trace = slots_in_trace(trace, first.iter());
    let program_transactions: f64 = in_trace
        .iter()
        .filter_map(|slot| trace.slot_index(slot.slot))
        .map(|index| trace.transactions_of(index).len() as f64)
        .sum();
    let all = total_transactions(&in_trace);
    let votes_per_slot = (all - program_transactions) / (in_trace.len() as f64).max(1.0);
    let other_program_transactions =
        total_transactions(other) - votes_per_slot * other.len() as f64;
    if other_program_transactions > 0.0 && program_transactions > 0.0 {
        other_program_transactions / program_transactions
    } else {
        total_transactions(other) / all.max(1.0)
    }
}

fn read_other_trace(other_recorded: &Recorded, other: &Path) -> Result<Option<Trace>> {
    let path = trace_path(other, None);
    if !path.exists() {
        return Ok(None);
    }
    let trace = trace_file::read(other, &path, other_recorded)?;
    Coverage::of(&trace, &other_recorded.transactions_by_slot)
        .require()
        .at(&path)?;
    Ok(Some(trace))
}

/// Slots with counters that both runs replayed with equal transaction counts, and that are in the
/// first trace. Empty if the runs are of two clusters.
fn common_slots(input: &PredictionInput, other_recorded: &Recorded) -> Vec<RecordedSlot> {
    let first_run = &input.recorded.transactions_by_slot;
    let (shared, equal) = other_recorded
        .transactions_by_slot
        .iter()
        .filter_map(|(slot, transactions)| Some(first_run.get(slot)? == transactions))
        .fold((0, 0), |(shared, equal), is_equal| {
            (shared + 1, equal + usize::from(is_equal))
        });
    let is_other_cluster = input
        .recorded
        .genesis_hash
        .as_ref()
        .zip(other_recorded.genesis_hash.as_ref())
        .is_some_and(|(a, b)| a != b);
    if is_other_cluster || 100 * equal < MIN_EQUAL_PERCENT * shared {
        return Vec::new();
    }
    slots_in_trace(
        &input.trace,
        other_recorded
            .slots_with_counters
            .iter()
            .filter(|slot| first_run.get(&slot.slot) == Some(&slot.transactions)),
    )
}

fn slots_in_trace<'a>(
    trace: &Trace,
    slots: impl Iterator<Item = &'a RecordedSlot>,
) -> Vec<RecordedSlot> {
    slots
        .filter(|slot| trace.slot_index(slot.slot).is_some())
        .copied()
        .collect()
}

fn total_transactions(slots: &[RecordedSlot]) -> f64 {
    slots.iter().map(|slot| slot.transactions as f64).sum()
}

fn value_check(name: &'static str, recorded: f64, predicted: PredictiveInterval) -> ValueCheck {
    ValueCheck {
        name,
        recorded,
        predicted,
        bias_percent: bias_percent(recorded, predicted.mean),
        is_in_interval: predicted.low <= recorded && recorded <= predicted.high,
        is_close: is_close(recorded, predicted.mean),
    }
}

impl CheckReport {
    fn text(&self) -> String {
        let row = |value: &ValueCheck| {
            vec![
                value.name.to_owned(),
                number(value.recorded, 0),
                interval_text(value.predicted, 0),
                number_or_dash(value.bias_percent, 1),
                if value.is_in_interval {
                    "inside"
                } else {
                    "outside"
                }
                .to_owned(),
            ]
        };
        let load_time_text = self.us_per_load.map(|(first, other)| {
            let slower_percent = number(100.0 * (other / first.max(f64::MIN_POSITIVE) - 1.0), 1);
            format!(
                "compiling a program took {} us in the first run and {} us in this run, a difference of {slower_percent} %\n",
                number(first, 0),
                number(other, 0)
            )
        });
        format!(
            "{}: {} entries, {} {}\n{}{}{}",
            self.run,
            count(self.cache_capacity),
            counted(self.slots as f64, "slot"),
            match (self.same_slots, self.uses_other_trace) {
                (true, _) => "of both runs",
                (false, true) => "of this run, simulated from its own trace",
                (false, false) =>
                    "of this run; predictions are scaled by the number of transactions, and intervals include the variation between blocks",
            },
            table(
                &["value", "recorded", "predicted", "off by %", "interval"],
                self.counters.iter().map(row).collect()
            ),
            self.transaction_ratio.map(scale_text).unwrap_or_default(),
            load_time_text.unwrap_or_default()
        )
    }
}

fn scale_text(transaction_ratio: f64) -> String {
    let text = format!(
        "scaled by {}: this run's transactions with programs, divided by the first run's\n",
        number(transaction_ratio, 2)
    );
    if RELIABLE_SCALES.contains(&transaction_ratio) {
        return text;
    }
    let [lowest, highest] =
        [RELIABLE_SCALES.start(), RELIABLE_SCALES.end()].map(|end| number(*end, 2));
    format!(
        "{text}warning: predictions scaled by less than {lowest} or more than {highest} are wrong, because first uses of programs are not \
         proportional to the number of transactions: compare runs of about the same length, or fetch the trace of the other run\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_different_length_gives_a_warning() {
        let warned =
            [0.79, 0.8, 1.0, 1.25, 1.26].map(|scale| scale_text(scale).contains("warning"));
        assert_eq!(warned, [true, false, false, false, true]);
    }
}
