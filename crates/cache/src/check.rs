//! `faultline cache check`: predictions from one run against what other runs recorded.

use crate::args::CheckArgs;
use crate::prediction::Range;
use crate::prepared::{Prepared, Tested};
use crate::recorded::Recorded;
use crate::trace_file::{self, path_of};
use anyhow::{Context, ensure};
use faultline_cachesim::cost::{Model, Observed, compile_times};
use faultline_cachesim::interval::Interval;
use faultline_cachesim::run::Start;
use faultline_cachesim::trace::Coverage;
use faultline_cachesim::{Counts, Rule, Setting, Simulation, Trace};
use faultline_command::output::json;
use faultline_text::{count, number, table};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// If so many percent of the other run's transactions are in slots of both, only these slots are compared.
const LEAST_COMMON: f64 = 50.0;
/// Off by more percent than this is too much, and below so many by more than this number.
const MOST_OFF: f64 = 10.0;
const FEW: f64 = 100.0;

#[derive(Debug, Serialize)]
struct Said {
    run: String,
    entries: u64,
    /// Whether slots are compared that both runs replayed; otherwise whole runs, scaled by their transactions.
    same_slots: bool,
    /// Whether the other run's own lookups are simulated, from the trace next to it.
    own_blocks: bool,
    /// Slots that are compared.
    slots: usize,
    counters: Vec<Compared>,
}

#[derive(Debug, Serialize)]
struct Compared {
    name: &'static str,
    recorded: f64,
    predicted: Range,
    off_percent: Option<f64>,
    inside: bool,
    within: bool,
}

/// Compares. The exit code is 1 if a counter is off by too much.
///
/// # Errors
/// Recordings or the trace cannot be used.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<(String, u8)> {
    let prepared = Prepared::read(&args.run, &args.source)?;
    let tested = prepared.test()?;
    let mut runs = Vec::new();
    for other in &args.others {
        runs.push(compare(&prepared, &tested, other, args.source.seeds).with_context(|| other.display().to_string())?);
    }
    let all = || runs.iter().flat_map(|run| &run.counters);
    let text = if args.json {
        json(&runs)?
    } else {
        let inside = all().filter(|counter| counter.inside).count();
        let pages: Vec<String> = runs.iter().map(page).collect();
        format!("{}\n{inside} of {} values are inside their interval.\n", pages.join("\n"), all().count())
    };
    Ok((text, u8::from(!all().all(|counter| counter.within))))
}

fn compare(prepared: &Prepared, tested: &Tested, other: &Path, seeds: u64) -> anyhow::Result<Said> {
    let recorded = Recorded::read(other)?;
    if let (Some(theirs), ours) = (recorded.agave(), &prepared.version) {
        ensure!(theirs == *ours, "it is of version {theirs}, and predictions are for {ours}");
    }
    let entries = recorded.entries.unwrap_or(prepared.rule.capacity);
    let theirs = transactions(&recorded.observed);
    ensure!(theirs > 0.0, "it has no slot with counters of the program cache and of its replay");
    let of_both = of_both(prepared, &recorded.observed);
    let same_slots = 100.0 * transactions(&of_both) / theirs >= LEAST_COMMON;
    let own = if same_slots { None } else { own_trace(&recorded, other)? };
    let trace = own.as_ref().unwrap_or(&prepared.trace);
    let common = own.as_ref().map_or(of_both, |own| within(own, recorded.observed.iter()));
    // With neither, the same kind of load is assumed, and whole runs are compared.
    let (compared_slots, simulated_slots) = match same_slots || own.is_some() {
        true => (&common, &common),
        false => (&recorded.observed, &prepared.recorded.observed),
    };
    let scale = transactions(compared_slots) / transactions(simulated_slots).max(1.0);
    let slots: BTreeSet<u64> = simulated_slots.iter().map(|o| o.slot).collect();
    // Programs of another trace have other numbers.
    let times = tested.fit.as_ref().map(|fit| compile_times(trace, &fit.model));
    let compile_us = if own.is_some() { times.as_ref() } else { None }.unwrap_or(&tested.compile_us);
    let runs = simulated((prepared.rule, trace, compile_us), entries, &slots, seeds)?;
    let recorded = |number: fn(&Observed) -> u64| compared_slots.iter().map(|o| number(o) as f64).sum::<f64>();
    let counter = |name, recorded, number: fn(&Counts) -> u64| {
        let values: Vec<f64> = runs.iter().map(|counts| number(counts) as f64).collect();
        // As whole as what was recorded.
        compared(name, recorded, &values, scale).map(|counter| Compared {
            inside: counter.predicted.low.round() <= recorded && recorded <= counter.predicted.high.round(),
            ..counter
        })
    };
    let mut counters = vec![
        counter("misses", recorded(|o| o.misses), |c| c.misses),
        counter("evictions", recorded(|o| o.evictions), |c| c.evictions),
        counter("reloads", recorded(|o| o.reloads), |c| c.reloads),
        counter("insertions", recorded(|o| o.insertions), |c| c.insertions),
    ];
    let times: Option<u64> = compared_slots.iter().map(|o| o.cache_us).sum();
    if let (Some(us), Some(fit)) = (times, &tested.fit) {
        let model = |at: usize| -> &Model { fit.resampled.get(at % fit.resampled.len().max(1)).unwrap_or(&fit.model) };
        let values: Vec<f64> = runs.iter().enumerate().map(|(at, counts)| model(at).time_us(trace, counts)).collect();
        counters.push(compared("cache time, ms", us as f64 * 1e-3, &values, scale * 1e-3));
    }
    let (run, own_blocks, slots) = (other.display().to_string(), own.is_some(), compared_slots.len());
    let counters = counters.into_iter().flatten().collect();
    Ok(Said { run, entries, same_slots, own_blocks, slots, counters })
}

/// The trace next to the other run, if there is one.
fn own_trace(recorded: &Recorded, other: &Path) -> anyhow::Result<Option<Trace>> {
    let path = path_of(other, None);
    if !path.exists() {
        return Ok(None);
    }
    let trace = trace_file::read(other, &path)?;
    Coverage::of(&trace, &recorded.slots).require().with_context(|| path.display().to_string())?;
    Ok(Some(trace))
}

/// Slots that both runs replayed. Another cluster has slots of the same numbers, and other transactions in them.
fn of_both(prepared: &Prepared, observed: &[Observed]) -> Vec<Observed> {
    let ours: BTreeSet<(u64, u64)> = prepared.recorded.slots.iter().copied().collect();
    within(&prepared.trace, observed.iter().filter(|o| ours.contains(&(o.slot, o.transactions))))
}

/// Those that are in the trace.
fn within<'a>(trace: &Trace, observed: impl Iterator<Item = &'a Observed>) -> Vec<Observed> {
    let slots: BTreeSet<u64> = trace.slots().iter().map(|slot| slot.slot).collect();
    observed.filter(|o| slots.contains(&o.slot)).copied().collect()
}

fn transactions(observed: &[Observed]) -> f64 {
    observed.iter().map(|o| o.transactions as f64).sum()
}

/// What simulated runs of this size do in these slots of the trace.
fn simulated(
    (rule, trace, compile_us): (Rule, &Trace, &[u64]),
    entries: u64,
    slots: &BTreeSet<u64>,
    seeds: u64,
) -> anyhow::Result<Vec<Counts>> {
    let setting = Setting::agave(rule, entries);
    let mut runs = Vec::new();
    for seed in 1..=seeds {
        let mut sum = Counts::default();
        let simulation = Simulation { trace, setting, start: Start::Empty, first_slot: 0, compile_us, seed };
        simulation.run(|slot, counts| {
            if slots.contains(&slot) {
                sum += counts;
            }
        })?;
        runs.push(sum);
    }
    Ok(runs)
}

fn compared(name: &'static str, recorded: f64, values: &[f64], scale: f64) -> Option<Compared> {
    let predicted = Range::of(&Interval::of_runs(values)?, scale);
    let off = predicted.mean - recorded;
    let off_percent = (recorded > 0.0).then(|| 100.0 * off / recorded);
    let within = if recorded < FEW {
        off.abs() <= MOST_OFF
    } else {
        off_percent.is_some_and(|percent| percent.abs() <= MOST_OFF)
    };
    let inside = predicted.low <= recorded && recorded <= predicted.high;
    Some(Compared { name, recorded, predicted, off_percent, inside, within })
}

fn page(said: &Said) -> String {
    let row = |counter: &Compared| {
        vec![
            counter.name.to_owned(),
            number(counter.recorded, 0),
            counter.predicted.text(0),
            counter.off_percent.map_or_else(|| "-".to_owned(), |off| number(off, 1)),
            if counter.inside { "inside" } else { "outside" }.to_owned(),
        ]
    };
    format!(
        "{}: {} entries, {} slots {}\n{}",
        said.run,
        count(said.entries),
        count(said.slots as u64),
        match (said.same_slots, said.own_blocks) {
            (true, _) => "of both runs",
            (false, true) => "of other blocks, by their own trace",
            (false, false) =>
                "of other blocks; predictions scaled by the number of transactions, and intervals are of the draws alone",
        },
        table(&["counter", "recorded", "predicted", "off by %", "interval"], said.counters.iter().map(row).collect())
    )
}
