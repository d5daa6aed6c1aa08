//! `faultline cache check`: predictions from one run against what other runs recorded.

use crate::args::CheckArgs;
use crate::prediction::Range;
use crate::prepared::{Prepared, Tested};
use crate::recorded::Recorded;
use anyhow::{Context, ensure};
use faultline_cachesim::cost::{Model, Observed};
use faultline_cachesim::interval::Interval;
use faultline_cachesim::run::Start;
use faultline_cachesim::{Counts, Setting, Simulation};
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
    let of_trace: BTreeSet<u64> = prepared.trace.slots().iter().map(|slot| slot.slot).collect();
    let common: Vec<Observed> = recorded.observed.iter().filter(|o| of_trace.contains(&o.slot)).copied().collect();
    let (both, theirs) = (transactions(&common), transactions(&recorded.observed));
    ensure!(theirs > 0.0, "it has no slot with counters of the program cache and of its replay");
    let same_slots = 100.0 * both / theirs >= LEAST_COMMON;
    // Otherwise the same kind of load is assumed, and whole runs are compared.
    let (compared_slots, simulated_slots) =
        if same_slots { (&common, &common) } else { (&recorded.observed, &prepared.recorded.observed) };
    let scale = transactions(compared_slots) / transactions(simulated_slots).max(1.0);
    let slots: BTreeSet<u64> = simulated_slots.iter().map(|o| o.slot).collect();
    let runs = simulated(prepared, tested, entries, &slots, seeds)?;
    let recorded = |number: fn(&Observed) -> u64| compared_slots.iter().map(|o| number(o) as f64).sum::<f64>();
    let counter = |name, recorded, number: fn(&Counts) -> u64| {
        let values: Vec<f64> = runs.iter().map(|counts| number(counts) as f64).collect();
        compared(name, recorded, &values, scale)
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
        let values: Vec<f64> =
            runs.iter().enumerate().map(|(at, counts)| model(at).time_us(&prepared.trace, counts)).collect();
        counters.push(compared("cache time, ms", us as f64 * 1e-3, &values, scale * 1e-3));
    }
    let counters = counters.into_iter().flatten().collect();
    Ok(Said { run: other.display().to_string(), entries, same_slots, slots: compared_slots.len(), counters })
}

fn transactions(observed: &[Observed]) -> f64 {
    observed.iter().map(|o| o.transactions as f64).sum()
}

/// What simulated runs of this size do in these slots.
fn simulated(
    prepared: &Prepared,
    tested: &Tested,
    entries: u64,
    slots: &BTreeSet<u64>,
    seeds: u64,
) -> anyhow::Result<Vec<Counts>> {
    let setting = Setting::agave(prepared.rule, entries);
    let (trace, compile_us) = (&prepared.trace, tested.compile_us.as_slice());
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
        if said.same_slots {
            "of both runs"
        } else {
            "of other blocks; predictions scaled by the number of transactions"
        },
        table(&["counter", "recorded", "predicted", "off by %", "interval"], said.counters.iter().map(row).collect())
    )
}
