//! `faultline cache fetch --validator-trace`: makes a trace from the validator's own trace file.

use crate::{
    args::FetchArgs,
    validator_trace::{SlotLookups, ValidatorTrace},
};
use anyhow::{Context, Result, ensure};
use faultline_cache_prediction::{
    recorded::Recorded,
    trace_file::{self, TraceFile, trace_path},
};
use faultline_cache_sim::{
    predict::MIN_COVERAGE_PERCENT,
    trace::{MeasuredLoad, Meta, SetInterner, Slot, Source, Trace, TraceChange, TransactionCall},
};
use faultline_common::files::AtPath;
use faultline_text::{count, counted};
use itertools::Itertools;
use std::{collections::BTreeMap, fs::File, io::BufReader, path::Path};

const LEDGER_TOOL: &str = "agave-ledger-tool";

/// Fails if a line is wrong, too many lines were dropped, or no line is a batch.
pub fn run(args: &FetchArgs, source: &Path) -> Result<(String, u8)> {
    let recorded = Recorded::read(&args.run)?;
    let file = File::open(source).at(source)?;
    let validator_trace = ValidatorTrace::read(BufReader::new(file)).at(source)?;
    check_dropped_lines(&validator_trace).at(source)?;
    let trace = convert(&validator_trace, &recorded)?;
    let path = trace_path(&args.run, args.out.as_deref());
    ensure!(
        !path.exists(),
        "{} is there already: remove it, or choose another file with --out",
        path.display()
    );
    let file = TraceFile::create(&path, trace)?;
    Ok((summary(&path, &validator_trace, &file.trace, &recorded), 0))
}

fn check_dropped_lines(validator_trace: &ValidatorTrace) -> Result<()> {
    let batches: u64 = validator_trace
        .slots
        .values()
        .map(|slot_lookups| slot_lookups.batches)
        .sum();
    ensure!(batches > 0, "the file has no batch of transactions");
    let percent =
        100.0 * batches as f64 / batches.saturating_add(validator_trace.dropped_lines) as f64;
    ensure!(
        percent >= MIN_COVERAGE_PERCENT,
        "the validator dropped {} lines that it could not write in time; the file has {} batches of transactions: is the disk busy or full?",
        validator_trace.dropped_lines,
        batches
    );
    Ok(())
}

fn convert(validator_trace: &ValidatorTrace, recorded: &Recorded) -> Result<Trace> {
    let source = if validator_trace.executable == LEDGER_TOOL {
        Source::Replay
    } else {
        Source::Validator
    };
    let mut trace = Trace::new(Meta {
        source,
        cluster: String::new(),
        version: validator_trace.version.clone(),
    });
    for program in &validator_trace.programs {
        trace.add_program(*program)?;
    }
    let transactions = &recorded.transactions_by_slot;
    let empty = SlotLookups::default();
    // Slots after the last recorded one would be predicted but not compared.
    let last = transactions.keys().next_back().copied().unwrap_or(u64::MAX);
    let mut slots = BTreeMap::from_iter(validator_trace.slots.range(..=last));
    for (slot, count) in transactions {
        if *count == 0 {
            slots.entry(slot).or_insert(&empty);
        }
    }
    let mut set_interner = SetInterner::default();
    for (&number, slot_lookups) in slots {
        let slot = Slot {
            slot: number,
            parent: trace
                .slots()
                .last()
                .map_or(number.saturating_sub(1), |last| last.slot),
            transactions: transactions
                .get(&number)
                .copied()
                .unwrap_or(slot_lookups.batches),
            kind: recorded.slot_kind(number),
        };
        add_slot(&mut trace, &mut set_interner, slot, slot_lookups)?;
    }
    for &(slot, program, compile_us) in validator_trace
        .loads
        .iter()
        .filter(|(slot, ..)| *slot <= last)
    {
        trace.add_measured_load(MeasuredLoad {
            slot,
            program,
            compile_us,
        })?;
    }
    Ok(trace)
}

/// Raises the slot's transactions to the number of its calls.
fn add_slot(
    trace: &mut Trace,
    set_interner: &mut SetInterner,
    slot: Slot,
    slot_lookups: &SlotLookups,
) -> Result<()> {
    let mut calls = Vec::new();
    for programs in slot_lookups.calls() {
        let set = set_interner.intern(trace, &programs)?;
        calls
            .push(TransactionCall::new(set, false).context("too many different sets of programs")?);
    }
    let slot_index = u32::try_from(trace.slots().len())?;
    let slot = Slot {
        transactions: slot.transactions.max(calls.len() as u64),
        ..slot
    };
    trace.add_slot(slot, &calls)?;
    for &(position, program, kind) in &slot_lookups.changes {
        trace.add_change(TraceChange {
            slot_index,
            position,
            program,
            kind,
        })?;
    }
    Ok(())
}

fn summary(
    path: &Path,
    validator_trace: &ValidatorTrace,
    trace: &Trace,
    recorded: &Recorded,
) -> String {
    let misses: u64 = validator_trace
        .slots
        .values()
        .map(|slot_lookups| slot_lookups.misses)
        .sum();
    let load_us = validator_trace
        .loads
        .iter()
        .fold(0_u64, |sum, (_, _, us)| sum.saturating_add(*us));
    let mut pools = validator_trace
        .batches_by_pool
        .iter()
        .map(|(pool, batches)| format!("{pool} {}", count(*batches)));
    let mut lines = vec![
        format!(
            "{} {}: {} misses, {} loads in {} ms, {} evictions",
            faultline_text::clean(&validator_trace.executable),
            faultline_text::clean(&validator_trace.version),
            count(misses),
            count(validator_trace.loads.len() as u64),
            count(load_us / 1_000),
            count(validator_trace.evictions)
        ),
        format!("batches by thread pool: {}", pools.join(", ")),
    ];
    lines.extend((validator_trace.dropped_lines > 0).then(|| {
        format!(
            "dropped: {}",
            counted(validator_trace.dropped_lines as f64, "line")
        )
    }));
    trace_file::summary(path, trace, recorded, lines)
}
