//! Reads the log of a replay. A program that exits loses its last push, but its log is complete.
//!
//! `loaded-programs-cache-stats` names the slot whose child was created. A replay creates one bank
//! after the other, so the counts belong to that slot. The last slot has no counts. The snapshot's
//! bank is frozen at load and left out.

use super::judge::cache::CacheTotals;
use faultline_agave::{
    log::{LogLine, LogSplitter, Progress},
    points::{KnownPoint, ProgramCache},
};
use faultline_report::run::{Replayed, ReplayedSlot};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Maximum number of slots; a cluster has about 216,000 per day.
const MAX_SLOTS: usize = 2_000_000;

/// Maximum length of a line: the final timing line names every program of the last slot.
const MAX_LINE_BYTES: usize = 4 << 20;

pub fn read(path: &Path) -> io::Result<Replayed> {
    log(path).map(|log| log.replayed)
}

/// Cache counts of a program that exits before it has pushed its points.
pub fn cache_totals(path: &Path) -> io::Result<CacheTotals> {
    log(path).map(|log| log.cache_totals)
}

fn log(path: &Path) -> io::Result<Log> {
    let mut file = File::open(path)?;
    let mut log = Log::default();
    let mut splitter = LogSplitter::with_max_line(MAX_LINE_BYTES);
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => splitter.feed(chunk.get(..count).unwrap_or_default(), |line| {
                log.take(line.unwrap_or_default())
            }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    splitter.finish(|line| log.take(line.unwrap_or_default()));
    Ok(log)
}

#[derive(Default)]
struct Log {
    replayed: Replayed,
    index_of_slot: HashMap<u64, usize>,
    /// Freezing of the previous bank, or start of the replay.
    before: Option<i64>,
    cache_totals: CacheTotals,
}

impl Log {
    fn take(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else {
            return;
        };
        let line = LogLine::parse(line);
        if let Some(frozen) = line.frozen() {
            let slot = ReplayedSlot {
                slot: frozen.slot,
                contents: frozen.hash.map(fingerprint),
                signatures: frozen.signatures,
                ..ReplayedSlot::default()
            };
            self.frozen(slot, line.time_ns);
        } else if let Some(Progress::ReplayBegins) = line.progress() {
            self.start_replay(line.time_ns);
        } else if let Some(timings) = line.replay_timings() {
            self.replayed.program_cache_us = timings.program_cache_us;
        } else if let Some(Ok(point)) = line.point()
            && let Some(Ok(KnownPoint::ProgramCache(counts))) = KnownPoint::parse(&point)
        {
            self.add_counts(&counts);
        }
    }

    /// Drops earlier banks: they were not replayed, or have no result.
    fn start_replay(&mut self, at: Option<i64>) {
        self.index_of_slot.clear();
        self.replayed = Replayed::default();
        self.before = at;
    }

    /// A slot that is replayed again keeps its first line.
    fn frozen(&mut self, slot: ReplayedSlot, at: Option<i64>) {
        if self.index_of_slot.contains_key(&slot.slot) {
            return;
        }
        let before = std::mem::replace(&mut self.before, at);
        let slots = &mut self.replayed.slots;
        if slots.len() >= MAX_SLOTS {
            self.replayed.left_out += 1;
            return;
        }
        let elapsed = before
            .zip(at)
            .map(|(before, at)| at.saturating_sub(before) as f64 / 1e6);
        self.index_of_slot.insert(slot.slot, slots.len());
        slots.push(ReplayedSlot {
            elapsed_ms: elapsed.filter(|elapsed| *elapsed >= 0.0),
            ..slot
        });
    }

    /// A slot with two children, on a fork, is reported twice.
    fn add_counts(&mut self, counts: &ProgramCache) {
        self.cache_totals
            .add(counts.water_level, counts.insertions, counts.evictions);
        let index = counts.slot.and_then(|slot| self.index_of_slot.get(&slot));
        let Some(slot) = index.and_then(|index| self.replayed.slots.get_mut(*index)) else {
            return;
        };
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more
                .map(|more| sum.unwrap_or_default().saturating_add(more))
                .or(*sum);
        };
        add(&mut slot.misses, counts.misses);
        add(&mut slot.reloads, counts.reloads);
        add(&mut slot.evictions, counts.evictions);
        add(&mut slot.insertions, counts.insertions);
    }
}

/// FNV-1a: bank hashes are already uniform.
fn fingerprint(hash: &str) -> u64 {
    hash.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Unknown values are empty.
pub fn csv(replayed: &Replayed) -> String {
    let mut text = String::from("slot,elapsed_ms,signatures,misses,reloads,evictions,insertions\n");
    for slot in &replayed.slots {
        let number =
            |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let elapsed = slot
            .elapsed_ms
            .map(|ms| format!("{ms:.6}"))
            .unwrap_or_default();
        let counts = [
            slot.signatures,
            slot.misses,
            slot.reloads,
            slot.evictions,
            slot.insertions,
        ]
        .map(number);
        text.push_str(&format!("{},{elapsed},{}\n", slot.slot, counts.join(",")));
    }
    text
}

#[cfg(test)]
mod tests;
