//! `faultline cache check`: compares predictions from one run with other recorded runs.

use crate::{
    args::CheckArgs,
    predicted_run::{PredictedRuns, range_text},
};
use anyhow::{Result, ensure};
use faultline_cache_prediction::{
    prediction::{Prepared, Range, SelfTestRun, mean_load},
    recorded::Recorded,
    trace_file::{self, path_of},
};
use faultline_cache_sim::{
    Setting, Simulation, Trace,
    cost::{Fit, Observed, compile_times},
    predict::{COUNTERS, CounterSpec, Coverage, is_close, off_percent},
    run::InitialContent,
};
use faultline_common::{files::AtPath, output::json};
use faultline_text::{count, counted, number, table};
use serde::Serialize;
use std::{collections::BTreeMap, ops::RangeInclusive, path::Path};

/// If common slots have at least this percentage of the other run's transactions, only they are
/// compared.
const MIN_COMMON_PERCENT: f64 = 50.0;
/// Another cluster has the same slot numbers and, by chance, many equal transaction counts. On one
/// cluster at least this percentage of common slots are equal; forks differ.
const MIN_EQUAL_PERCENT: usize = 90;
/// This value uses the mean load time of the other run itself, so it is shown but not judged.
const OWN_COSTS: &str = "at its own costs, ms";
/// Outside of this range scaled predictions are wrong: first uses of programs do not grow with the
/// load.
const RELIABLE_SCALES: RangeInclusive<f64> = 0.8..=1.25;

#[derive(Debug, Serialize)]
struct CheckReport {
    run: String,
    entries: u64,
    /// Whether slots that both runs replayed are compared; otherwise whole runs, scaled by their
    /// transactions.
    same_slots: bool,
    /// Whether the other run's lookups are simulated, from the trace next to it.
    own_blocks: bool,
    /// For whole runs: transactions with programs of the other run, relative to the first.
    times: Option<f64>,
    slots: usize,
    us_of_a_load: Option<(f64, f64)>,
    counters: Vec<CounterCheck>,
}

#[derive(Debug, Serialize)]
struct CounterCheck {
    name: &'static str,
    recorded: f64,
    predicted: Range,
    off_percent: Option<f64>,
    inside: bool,
    within: bool,
}

/// The exit code is 1 if a counter is off by too much.
pub fn run(args: &CheckArgs) -> Result<(String, u8)> {
    let prepared = Prepared::read(&args.run, &args.source)?;
    let tested = prepared.test()?;
    let mut runs = Vec::new();
    for other in &args.others {
        runs.push(compare(&prepared, &tested, other).at(other)?);
    }
    let all = || {
        runs.iter()
            .flat_map(|run| &run.counters)
            .filter(|counter| counter.name != OWN_COSTS)
    };
    let text = if args.json {
        json(&runs)?
    } else {
        let inside = all().filter(|counter| counter.inside).count();
        let pages: Vec<String> = runs.iter().map(page).collect();
        format!(
            "{}\n{inside} of {} values are inside their interval.\n",
            pages.join("\n"),
            all().count()
        )
    };
    Ok((text, u8::from(!all().all(|counter| counter.within))))
}

fn compare(prepared: &Prepared, tested: &SelfTestRun, other: &Path) -> Result<CheckReport> {
    let recorded = Recorded::read(other)?;
    if let (Some(theirs), ours) = (recorded.agave(), &prepared.version) {
        ensure!(
            theirs == *ours,
            "it is of version {theirs}, and predictions are for {ours}"
        );
    }
    let entries = recorded.entries.unwrap_or(prepared.rule.capacity);
    let (own, common) = comparison_basis(prepared, &recorded, other)?;
    let trace = own.as_ref().unwrap_or(&prepared.trace);
    // Without common slots and without a trace of the other run, whole runs are compared.
    let (compared_slots, simulated_slots) = match &common {
        Some(common) => (common, common),
        None => (&recorded.observed, &prepared.recorded.observed),
    };
    // Another trace numbers its programs differently.
    let model = tested
        .fit
        .as_ref()
        .map_or_else(|| mean_load(&recorded.observed), |fit| fit.model);
    let own_us = own.as_ref().map(|own| compile_times(own, &model));
    let times = common
        .is_none()
        .then(|| calls(trace, compared_slots, simulated_slots));
    let simulation = Simulation {
        trace,
        setting: Setting::agave(prepared.rule, entries),
        start: InitialContent::Empty,
        first_slot: 0,
        compile_us: own_us.as_ref().unwrap_or(&tested.compile_us),
        seed: 0,
    };
    let slots = simulated_slots.iter().map(|o| o.slot).collect();
    let predicted = PredictedRuns::of(&simulation, &slots, prepared.seeds, times)?;
    let mut counters = counts(compared_slots, &predicted);
    let us_of_a_load = us_of_a_load(&prepared.recorded.observed).zip(us_of_a_load(compared_slots));
    if let Some(fit) = &tested.fit {
        counters.extend(cache_times(
            compared_slots,
            &predicted,
            (fit, trace),
            us_of_a_load,
        ));
    }
    Ok(CheckReport {
        run: other.display().to_string(),
        entries,
        same_slots: own.is_none() && common.is_some(),
        own_blocks: own.is_some(),
        times,
        slots: compared_slots.len(),
        us_of_a_load,
        counters,
    })
}

/// The other run's trace, if the slots differ; and the slots that the other run and the simulated
/// trace have, or `None` if whole runs are compared.
fn comparison_basis(
    prepared: &Prepared,
    recorded: &Recorded,
    other: &Path,
) -> Result<(Option<Trace>, Option<Vec<Observed>>)> {
    let theirs = transactions(&recorded.observed);
    ensure!(
        theirs > 0.0,
        "it has no slot with counters of the program cache and of its replay"
    );
    let common = common_slots(prepared, recorded);
    if 100.0 * transactions(&common) / theirs >= MIN_COMMON_PERCENT {
        return Ok((None, Some(common)));
    }
    let own = own_trace(recorded, other)?;
    let common = own
        .as_ref()
        .map(|own| within(own, recorded.observed.iter()));
    Ok((own, common))
}

fn counts(recorded: &[Observed], predicted: &PredictedRuns) -> Vec<CounterCheck> {
    let counter = |(name, number, of): CounterSpec| {
        let recorded = recorded.iter().map(|o| number(o) as f64).sum::<f64>();
        let predicted = predicted.range(|counts, _| of(counts) as f64, 1.0)?;
        let inside = predicted.low.round() <= recorded && recorded <= predicted.high.round();
        Some(CounterCheck {
            inside,
            ..compared(name, recorded, predicted)
        })
    };
    COUNTERS.into_iter().filter_map(counter).collect()
}

/// The cache's time with the costs of the first run, and with these scaled to the other run's load
/// times.
fn cache_times(
    recorded: &[Observed],
    predicted: &PredictedRuns,
    (fit, trace): (&Fit, &Trace),
    us_of_a_load: Option<(f64, f64)>,
) -> Vec<CounterCheck> {
    let Some(us) = recorded.iter().map(|o| o.cache_us).sum::<Option<u64>>() else {
        return Vec::new();
    };
    let model = |run: Option<usize>| run.map_or(&fit.model, |run| fit.resample(run));
    let time = |name, scale: f64| {
        let range = predicted.range(|counts, at| model(at).time_us(trace, counts), scale * 1e-3)?;
        Some(compared(name, us as f64 * 1e-3, range))
    };
    let slower = us_of_a_load
        .filter(|(first, _)| *first > 0.0)
        .map(|(first, other)| other / first);
    let own = slower.and_then(|slower| time(OWN_COSTS, slower));
    time("cache time, ms", 1.0).into_iter().chain(own).collect()
}

fn us_of_a_load(observed: &[Observed]) -> Option<f64> {
    let us = observed
        .iter()
        .map(|o| o.compile_us.map(|us| us as f64))
        .sum::<Option<f64>>()?;
    let loads: f64 = observed
        .iter()
        .map(|o| o.insertions as f64 + o.reloads as f64)
        .sum();
    (loads > 0.0).then(|| us / loads)
}

/// Transactions with programs of the other run, relative to the first. Votes cannot be told apart,
/// so each slot counts as many transactions without programs as a slot of the trace.
fn calls(trace: &Trace, other: &[Observed], known: &[Observed]) -> f64 {
    let in_trace = within(trace, known.iter());
    let calls: f64 = in_trace
        .iter()
        .filter_map(|o| trace.slot_index(o.slot))
        .map(|at| trace.calls_of(at).len() as f64)
        .sum();
    let all = transactions(&in_trace);
    let votes = (all - calls) / (in_trace.len() as f64).max(1.0);
    let theirs = transactions(other) - votes * other.len() as f64;
    if theirs > 0.0 && calls > 0.0 {
        theirs / calls
    } else {
        transactions(other) / all.max(1.0)
    }
}

fn own_trace(recorded: &Recorded, other: &Path) -> Result<Option<Trace>> {
    let path = path_of(other, None);
    if !path.exists() {
        return Ok(None);
    }
    let trace = trace_file::read(other, &path)?;
    Coverage::of(&trace, &recorded.slots).require().at(&path)?;
    Ok(Some(trace))
}

/// Slots that both runs replayed; empty if the runs are of two clusters.
fn common_slots(prepared: &Prepared, recorded: &Recorded) -> Vec<Observed> {
    let ours: BTreeMap<u64, u64> = prepared.recorded.slots.iter().copied().collect();
    let (shared, equal) = recorded
        .slots
        .iter()
        .map(|(slot, transactions)| (ours.get(slot), transactions))
        .fold((0, 0), |(shared, equal), (ours, transactions)| match ours {
            Some(ours) => (shared + 1, equal + usize::from(ours == transactions)),
            None => (shared, equal),
        });
    let other_genesis = prepared
        .recorded
        .genesis
        .as_ref()
        .zip(recorded.genesis.as_ref())
        .is_some_and(|(a, b)| a != b);
    if other_genesis || 100 * equal < MIN_EQUAL_PERCENT * shared {
        return Vec::new();
    }
    within(
        &prepared.trace,
        recorded
            .observed
            .iter()
            .filter(|o| ours.get(&o.slot) == Some(&o.transactions)),
    )
}

fn within<'a>(trace: &Trace, observed: impl Iterator<Item = &'a Observed>) -> Vec<Observed> {
    observed
        .filter(|o| trace.slot_index(o.slot).is_some())
        .copied()
        .collect()
}

fn transactions(observed: &[Observed]) -> f64 {
    observed.iter().map(|o| o.transactions as f64).sum()
}

fn compared(name: &'static str, recorded: f64, predicted: Range) -> CounterCheck {
    let off_percent = off_percent(recorded, predicted.mean);
    let within = is_close(recorded, predicted.mean);
    let inside = predicted.low <= recorded && recorded <= predicted.high;
    CounterCheck {
        name,
        recorded,
        predicted,
        off_percent,
        inside,
        within,
    }
}

fn page(report: &CheckReport) -> String {
    let row = |counter: &CounterCheck| {
        vec![
            counter.name.to_owned(),
            number(counter.recorded, 0),
            range_text(counter.predicted, 0),
            counter
                .off_percent
                .map_or_else(|| "-".to_owned(), |off| number(off, 1)),
            if counter.inside { "inside" } else { "outside" }.to_owned(),
        ]
    };
    let load = report.us_of_a_load.map(|(first, here)| {
        let slower = number(100.0 * (here / first.max(f64::MIN_POSITIVE) - 1.0), 1);
        format!(
            "a load took {} us in the first run and {} us in this one ({slower} %)\n",
            number(first, 0),
            number(here, 0)
        )
    });
    format!(
        "{}: {} entries, {} {}\n{}{}{}",
        report.run,
        count(report.entries),
        counted(report.slots as f64, "slot"),
        match (report.same_slots, report.own_blocks) {
            (true, _) => "of both runs",
            (false, true) => "of other blocks, by their own trace",
            (false, false) =>
                "of other blocks; predictions scaled by the number of transactions; intervals cover how blocks differ",
        },
        table(
            &["counter", "recorded", "predicted", "off by %", "interval"],
            report.counters.iter().map(row).collect()
        ),
        report.times.map(scaled).unwrap_or_default(),
        load.unwrap_or_default()
    )
}

fn scaled(times: f64) -> String {
    let scaled = format!(
        "scaled by {}, the ratio of the transactions with programs\n",
        number(times, 2)
    );
    if RELIABLE_SCALES.contains(&times) {
        return scaled;
    }
    let least_most = [RELIABLE_SCALES.start(), RELIABLE_SCALES.end()].map(|end| number(*end, 2));
    format!(
        "{scaled}warning: predictions scaled by less than {} or more than {} are wrong, because first uses of programs do not grow \
         with the load: compare runs of about the same length, or fetch the trace of the other run\n",
        least_most[0], least_most[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_different_length_gives_a_warning() {
        let warned = [0.79, 0.8, 1.0, 1.25, 1.26].map(|times| scaled(times).contains("warning"));
        assert_eq!(warned, [true, false, false, false, true]);
    }
}
