//! The captured load, and small traces.
#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

use std::{collections::BTreeMap, fs, path::Path};

use faultline_agave::{
    line::{LineSplitter, Point},
    points::KnownPoint,
};
use faultline_cache_sim::{
    Trace,
    cost::RecordedSlot,
    file,
    trace::{Meta, Program, SetInterner, Slot, SlotKind, Source, TransactionCall},
};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name),
    )
    .unwrap()
}

/// What the follower with 512 entries executed.
pub fn load() -> Trace {
    file::read(fixture("load.trace").as_slice()).unwrap()
}

/// What a follower reported, by slot.
pub fn observed(name: &str) -> Vec<RecordedSlot> {
    let mut slots: BTreeMap<u64, RecordedSlot> = BTreeMap::new();
    let mut splitter = LineSplitter::new();
    splitter.feed(&fixture(name), |line| {
        match KnownPoint::parse(&Point::parse(line.unwrap()).unwrap())
            .unwrap()
            .unwrap()
        {
            KnownPoint::ProgramCache(stats) => {
                let slot = slots.entry(stats.slot.unwrap()).or_default();
                slot.misses += stats.misses.unwrap();
                slot.evictions += stats.evictions.unwrap();
                slot.reloads += stats.reloads.unwrap();
                slot.insertions += stats.insertions.unwrap();
            }
            KnownPoint::ReplaySlot(replay) => {
                let slot = slots.entry(replay.slot.unwrap()).or_default();
                slot.transactions = replay.total_transactions.unwrap();
                slot.cache_us = replay.program_cache_us;
                let parts = [
                    replay.register_syscalls_us,
                    replay.load_elf_us,
                    replay.verify_code_us,
                    replay.jit_compile_us,
                ];
                slot.compile_us = parts.into_iter().sum();
            }
            other => unreachable!("{other:?}"),
        }
    });
    slots
        .into_iter()
        .map(|(slot, observed)| RecordedSlot { slot, ..observed })
        .collect()
}

/// A trace of lines with a slot and programs.
pub fn plain(text: &str) -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    let (mut set_interner, mut slots) = (
        SetInterner::default(),
        BTreeMap::<u64, Vec<TransactionCall>>::new(),
    );
    for line in text.lines() {
        let (slot, programs) = line.trim().split_once(' ').unwrap();
        let programs: Vec<u32> = programs
            .split_whitespace()
            .map(|program| program.parse().unwrap())
            .collect();
        let highest = *programs.iter().max().unwrap();
        while trace.programs().len() <= highest as usize {
            let program = Program {
                address: None,
                loader: None,
                bytes: None,
                has_code: true,
            };
            trace.add_program(program).unwrap();
        }
        let set = set_interner.intern(&mut trace, &programs).unwrap();
        let calls = slots.entry(slot.parse().unwrap()).or_default();
        calls.push(TransactionCall::new(set, false).unwrap());
    }
    for (slot, calls) in slots {
        let header = Slot {
            slot,
            parent: trace.slots().last().map_or(slot - 1, |last| last.slot),
            transactions: calls.len() as u64,
            kind: SlotKind::Replayed,
        };
        trace.add_slot(header, &calls).unwrap();
    }
    trace
}
