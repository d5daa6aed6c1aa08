//! Reads the log of an offline replay (`agave-ledger-tool verify`). The process exits before it
//! pushes its last data points, but its log has them.
//!
//! The process writes a `loaded-programs-cache-stats` point when it creates a bank. The point names
//! the slot of the bank's parent, and has the counts since the previous point. A replay creates one
//! bank after the other, so these counts belong to the parent. The last slot has no child and so no
//! counts. The bank of the snapshot is frozen before the replay begins, and is left out.

use super::judge::ProgramCacheTotals;
use faultline_agave::{
    log::{FrozenBank, LogLine, LogSplitter, Progress},
    points::{KnownPoint, ProgramCache},
};
use faultline_common::files::open_regular;
use faultline_report::run::{OfflineReplay, OfflineReplaySlot};
use itertools::{Itertools, chain};
use std::{
    collections::HashMap,
    io::{self, Read},
    mem,
    path::Path,
};

/// Maximum number of slots; a cluster has about 216,000 per day.
const MAX_SLOTS: usize = 2_000_000;

/// Maximum length of a line: the final timing line names every on-chain program of the last slot.
const MAX_LINE_BYTES: usize = 4 << 20;

pub fn read(path: &Path) -> io::Result<ReplayLog> {
    let mut file = open_regular(path)?;
    let mut log = ReplayLog::default();
    let mut splitter = LogSplitter::with_max_line(MAX_LINE_BYTES);
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => splitter.feed(chunk.get(..count).unwrap_or_default(), |line| {
                log.add_line(line.unwrap_or_default())
            }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    splitter.finish(|line| log.add_line(line.unwrap_or_default()));
    Ok(log)
}

#[derive(Default)]
pub struct ReplayLog {
    pub offline_replay: OfflineReplay,
    /// Totals of the whole log, including points before the replay.
    pub program_cache_totals: ProgramCacheTotals,
    index_of_slot: HashMap<u64, usize>,
    /// When the previous bank was frozen, or the replay began.
    last_frozen_ns: Option<i64>,
}

impl ReplayLog {
    fn add_line(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else {
            return;
        };
        let line = LogLine::parse(line);
        if let Some(bank) = line.frozen_bank() {
            self.add_bank(&bank, line.time_ns);
        } else if let Some(Progress::ReplayBegins) = line.progress() {
            // Earlier banks are of the snapshot, or of an earlier replay in the same log.
            self.index_of_slot.clear();
            self.offline_replay = OfflineReplay::default();
            self.last_frozen_ns = line.time_ns;
        } else if let Some(timings) = line.replay_timings() {
            self.offline_replay.program_cache_us = timings.program_cache_us;
        } else if let Some(Ok(point)) = line.point()
            && let Some(Ok(KnownPoint::ProgramCache(counts))) = KnownPoint::parse(&point)
        {
            self.add_counts(&counts);
        }
    }

    /// If a slot is replayed again, its first line counts.
    fn add_bank(&mut self, bank: &FrozenBank<'_>, frozen_ns: Option<i64>) {
        if self.index_of_slot.contains_key(&bank.slot) {
            return;
        }
        let previous_ns = mem::replace(&mut self.last_frozen_ns, frozen_ns);
        let slots = &mut self.offline_replay.slots;
        if slots.len() >= MAX_SLOTS {
            self.offline_replay.left_out += 1;
            return;
        }
        let elapsed_ms = previous_ns
            .zip(frozen_ns)
            .map(|(previous, frozen)| frozen.saturating_sub(previous) as f64 / 1e6);
        self.index_of_slot.insert(bank.slot, slots.len());
        slots.push(OfflineReplaySlot {
            slot: bank.slot,
            elapsed_ms: elapsed_ms.filter(|ms| *ms >= 0.0),
            bank_fingerprint: bank.hash.map(fingerprint),
            signatures: bank.signatures,
            ..OfflineReplaySlot::default()
        });
    }

    /// Adds up counts, because a slot with two children, at a fork, is reported twice. The totals
    /// have the highest water level.
    fn add_counts(&mut self, counts: &ProgramCache) {
        self.program_cache_totals
            .add(counts.water_level, counts.insertions, counts.evictions);
        let index = counts.slot.and_then(|slot| self.index_of_slot.get(&slot));
        let Some(slot) = index.and_then(|index| self.offline_replay.slots.get_mut(*index)) else {
            return;
        };
        for (sum, count) in [
            (&mut slot.misses, counts.misses),
            (&mut slot.reloads, counts.reloads),
            (&mut slot.evictions, counts.evictions),
            (&mut slot.insertions, counts.insertions),
        ] {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
    }
}

/// FNV-1a is sufficient, because bank hashes are already uniform.
fn fingerprint(hash: &str) -> u64 {
    hash.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A table of the replayed slots. Unknown values are empty.
pub fn csv(replayed: &OfflineReplay) -> String {
    let mut text = String::from("slot,elapsed_ms,signatures,misses,reloads,evictions,insertions\n");
    for slot in &replayed.slots {
        let elapsed = slot.elapsed_ms.map(|ms| format!("{ms:.6}"));
        let counts = [
            slot.signatures,
            slot.misses,
            slot.reloads,
            slot.evictions,
            slot.insertions,
        ]
        .map(|count| count.map(|count| count.to_string()));
        let values = chain!([elapsed], counts).map(Option::unwrap_or_default);
        text += &format!("{},{}\n", slot.slot, values.format(","));
    }
    text
}

#[cfg(test)]
mod tests;
