//! Reads the trace file of a validator built by `scripts/install-agave --trace`.
//! docs/CACHE-TRACE.md describes the lines. The file numbers programs and threads before their
//! first use.

use crate::address;
use anyhow::{Context, Result, bail, ensure};
use faultline_cache_sim::trace::{ChangeKind, Loader, Program};
use std::{
    collections::BTreeMap,
    io::{BufRead, Read},
    str::{FromStr, Split},
};

type Words<'a> = Split<'a, char>;

/// Longer than any line: the longest is a batch of 64 transactions with 256 accounts each.
const MAX_LINE_BYTES: u64 = 1 << 18;
const MAX_BATCH_TRANSACTIONS: u32 = 64;
/// Bytes of a program's accounts without its code, by loader.
const OVERHEAD_V3: u64 = 36 + 45;
const OVERHEAD_V4: u64 = 48;

#[derive(Debug, Default)]
pub struct ValidatorTrace {
    /// `agave-validator` or `agave-ledger-tool`.
    pub executable: String,
    pub version: String,
    pub programs: Vec<Program>,
    pub slots: BTreeMap<u64, SlotLookups>,
    /// (slot, program, microseconds), of programs with code.
    pub loads: Vec<(u64, u32, u64)>,
    /// Batches by thread pool. A pool has the name of its threads without their numbers.
    pub batches_by_pool: BTreeMap<String, u64>,
    pub evictions: u64,
    /// Lines that the validator could not write in time.
    pub dropped_lines: u64,
    /// By number of the thread.
    pool_by_thread: Vec<String>,
    /// By program: (a cache entry with code was seen, a cache entry without code was seen).
    seen_with_and_without_code: Vec<(bool, bool)>,
}

#[derive(Debug, Default)]
pub struct SlotLookups {
    /// For each batch with lookups: its programs, each with the number of transactions that use it.
    batches_with_programs: Vec<Vec<(u32, u32)>>,
    /// Number of [`SlotLookups::calls`].
    call_count: u32,
    /// All batches, also those without programs.
    pub batches: u64,
    pub misses: u64,
    /// (calls before the change, program, kind).
    pub changes: Vec<(u32, u32, ChangeKind)>,
}

impl SlotLookups {
    /// A call has the programs of one transaction. The trace does not say which transactions of a
    /// batch use a program: transaction `n` (from 1) gets the programs with at least `n` uses.
    /// Calls are not stored, because a short line can contain many.
    pub fn calls(&self) -> impl Iterator<Item = Vec<u32>> {
        self.batches_with_programs.iter().flat_map(|batch| {
            (1..=most_uses(batch)).map(move |min_uses| {
                let used = batch.iter().filter(|(_, uses)| *uses >= min_uses);
                used.map(|(program, _)| *program).collect()
            })
        })
    }
}

fn most_uses(batch: &[(u32, u32)]) -> u32 {
    batch.iter().map(|(_, uses)| *uses).max().unwrap_or(0)
}

impl ValidatorTrace {
    /// Ignores an incomplete last line: it was being written.
    pub fn read(mut input: impl BufRead) -> Result<Self> {
        let mut trace = Self::default();
        let mut line = Vec::new();
        let mut line_number = 0_u64;
        loop {
            line.clear();
            line_number += 1;
            input
                .by_ref()
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                ensure!(
                    (line.len() as u64) < MAX_LINE_BYTES,
                    "line {line_number} is longer than {MAX_LINE_BYTES} bytes"
                );
                ensure!(line_number > 1, "the file has no complete line");
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let shown =
                || faultline_text::clean(&text.trim_end().chars().take(80).collect::<String>());
            trace
                .parse_line(text.trim_end(), line_number == 1)
                .with_context(|| format!("line {line_number}, {:?}", shown()))?;
        }
        for (program, (with_code, without_code)) in trace
            .programs
            .iter_mut()
            .zip(&trace.seen_with_and_without_code)
        {
            program.has_code = *with_code || !without_code;
        }
        Ok(trace)
    }

    fn parse_line(&mut self, text: &str, is_first: bool) -> Result<()> {
        let words = &mut text.split(' ');
        let kind = words.next().unwrap_or_default();
        if is_first != (kind == "trace") {
            ensure!(
                !is_first,
                "a validator with AGAVE_PROGRAM_CACHE_TRACE writes another first line: `trace` is missing"
            );
            bail!(
                "a second process wrote to the same file, and its cache began empty: each process needs its own file"
            );
        }
        match kind {
            "trace" => self.parse_header(words)?,
            "program" => self.parse_new_program(words)?,
            "thread" => {
                expect_number(words, self.pool_by_thread.len(), "the number of the thread")?;
                let name = words.next().context("the thread has no name")?;
                self.pool_by_thread.push(faultline_text::clean(
                    name.trim_end_matches(|c: char| c.is_ascii_digit()),
                ));
            }
            "look" => self.parse_lookup(words)?,
            "load" => self.parse_load(words)?,
            "change" => self.parse_change(words)?,
            "evict" => {
                self.parse_slot_and_pool(words)?;
                self.parse_program(words)?;
                self.evictions += 1;
            }
            "dropped" => {
                self.dropped_lines = self
                    .dropped_lines
                    .saturating_add(next_number(words, "how many")?)
            }
            _ => bail!("no line of this kind is known"),
        }
        ensure!(
            words.next().is_none(),
            "there are more words than a line of this kind has"
        );
        Ok(())
    }

    fn parse_header(&mut self, words: &mut Words<'_>) -> Result<()> {
        ensure!(
            words.next() == Some("1"),
            "the format has another version than 1"
        );
        words
            .next()
            .context("no name of the executable that wrote the file")?
            .clone_into(&mut self.executable);
        words
            .next()
            .context("no version")?
            .clone_into(&mut self.version);
        Ok(())
    }

    fn parse_new_program(&mut self, words: &mut Words<'_>) -> Result<()> {
        expect_number(words, self.programs.len(), "the number of the program")?;
        let address = words.next().and_then(address::parse);
        self.programs.push(Program {
            address: Some(address.context("no public key")?),
            loader: None,
            bytes: None,
            has_code: true,
        });
        self.seen_with_and_without_code.push((false, false));
        Ok(())
    }

    fn parse_lookup(&mut self, words: &mut Words<'_>) -> Result<()> {
        let (slot, pool) = self.parse_slot_and_pool(words)?;
        let mut programs = Vec::new();
        let mut misses = 0;
        for word in words {
            let (word, is_missing) = word
                .strip_prefix('-')
                .map_or((word, false), |rest| (rest, true));
            let (program, uses) = word.split_once('*').unwrap_or((word, "1"));
            let program = self.parse_program(&mut program.split(' '))?;
            let uses: u32 = uses
                .parse()
                .ok()
                .filter(|uses| *uses <= MAX_BATCH_TRANSACTIONS)
                .with_context(|| {
                    format!("the uses are not a number up to {MAX_BATCH_TRANSACTIONS}")
                })?;
            programs.push((program, uses.max(1)));
            misses += u64::from(is_missing);
        }
        *self.batches_by_pool.entry(pool).or_default() += 1;
        let lookups = self.slots.entry(slot).or_default();
        lookups.batches += 1;
        lookups.misses += misses;
        let calls = lookups.call_count.checked_add(most_uses(&programs));
        lookups.call_count = calls.context("too many calls")?;
        if !programs.is_empty() {
            programs.shrink_to_fit();
            lookups.batches_with_programs.push(programs);
        }
        Ok(())
    }

    fn parse_load(&mut self, words: &mut Words<'_>) -> Result<()> {
        let (slot, _) = self.parse_slot_and_pool(words)?;
        let program = self.parse_program(words)?;
        let us = next_number(words, "microseconds")?;
        if self.parse_entry(program, words)? {
            self.loads.push((slot, program, us));
        }
        Ok(())
    }

    fn parse_change(&mut self, words: &mut Words<'_>) -> Result<()> {
        let (slot, _) = self.parse_slot_and_pool(words)?;
        let program = self.parse_program(words)?;
        let kind = if self.parse_entry(program, words)? {
            ChangeKind::Deployed
        } else {
            ChangeKind::Closed
        };
        let lookups = self.slots.entry(slot).or_default();
        lookups.changes.push((lookups.call_count, program, kind));
        Ok(())
    }

    /// Reads loader, size and kind of the program's cache entry. Returns whether it has code.
    fn parse_entry(&mut self, program: u32, words: &mut Words<'_>) -> Result<bool> {
        let loader = match words.next() {
            Some("native") => None,
            Some("v1") => Some(Loader::V1),
            Some("v2") => Some(Loader::V2),
            Some("v3") => Some(Loader::V3),
            Some("v4") => Some(Loader::V4),
            _ => bail!("no loader"),
        };
        let size = match words.next() {
            Some("?") => None,
            Some(word) => Some(word.parse::<u64>().context("no size")?),
            None => bail!("no size"),
        };
        let has_code = match words.next() {
            Some("loaded" | "unloaded") => true,
            Some("closed" | "failed" | "other") => false,
            _ => bail!("the kind of the entry is missing or unknown"),
        };
        let overhead = match loader {
            Some(Loader::V3) => OVERHEAD_V3,
            Some(Loader::V4) => OVERHEAD_V4,
            _ => 0,
        };
        let known = self
            .programs
            .get_mut(program as usize)
            .zip(self.seen_with_and_without_code.get_mut(program as usize));
        let (known, seen) = known.context("the program is unknown")?;
        known.loader = loader.or(known.loader);
        if has_code {
            known.bytes = size
                .and_then(|size| size.checked_sub(overhead))
                .or(known.bytes);
        }
        *(if has_code { &mut seen.0 } else { &mut seen.1 }) = true;
        Ok(has_code)
    }

    fn parse_slot_and_pool(&self, words: &mut Words<'_>) -> Result<(u64, String)> {
        let slot = next_number(words, "a slot")?;
        let thread: usize = next_number(words, "a thread")?;
        Ok((
            slot,
            self.pool_by_thread
                .get(thread)
                .context("the thread is unknown")?
                .clone(),
        ))
    }

    fn parse_program(&self, words: &mut Words<'_>) -> Result<u32> {
        let program: usize = next_number(words, "a program")?;
        ensure!(
            program < self.programs.len(),
            "the program {program} is unknown"
        );
        Ok(u32::try_from(program)?)
    }
}

fn next_number<N: FromStr>(words: &mut Words<'_>, name: &str) -> Result<N> {
    words
        .next()
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("{name}: no number"))
}

fn expect_number(words: &mut Words<'_>, next: usize, name: &str) -> Result<()> {
    let number: usize = next_number(words, name)?;
    ensure!(number == next, "{name} is {number}, and {next} is next");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = [
        "SysvarC1ock11111111111111111111111111111111",
        "BPFLoader2111111111111111111111111111111111",
        "BPFLoaderUpgradeab1e11111111111111111111111",
    ];

    /// The lines after those that number three programs and two threads.
    fn read(lines: &str) -> anyhow::Result<ValidatorTrace> {
        let [a, b, c] = KEYS;
        let begin = "trace 1 agave-validator 2.1.14\nthread 0 solScHandle07\nthread 1 solRpcEl12\n";
        ValidatorTrace::read(
            format!("{begin}program 0 {a}\nprogram 1 {b}\nprogram 2 {c}\n{lines}").as_bytes(),
        )
    }

    fn refused(lines: &str) -> String {
        format!("{:#}", read(lines).unwrap_err())
    }

    #[test]
    fn lookups_loads_and_changes_are_stored_by_slot_in_order() {
        let lines = "look 7 0 -0 2\nload 7 0 0 480 v2 700 loaded\nlook 8 1\nlook 7 1 0\nevict 7 0 0\n\
                     change 7 0 2 v3 1081 loaded\nlook 7 0 2\nload 8 0 1 3 v3 0 closed\n";
        let trace = read(lines).unwrap();
        assert_eq!(
            (trace.executable.as_str(), trace.version.as_str()),
            ("agave-validator", "2.1.14")
        );
        let (seven, eight) = (&trace.slots[&7], &trace.slots[&8]);
        let calls: Vec<_> = seven.calls().collect();
        assert_eq!(calls, [vec![0, 2], vec![0], vec![2]]);
        assert_eq!((seven.batches, seven.misses), (3, 1));
        assert_eq!(seven.changes, [(2, 2, ChangeKind::Deployed)]);
        assert_eq!((eight.calls().count(), eight.batches), (0, 1));
        assert_eq!(
            (trace.loads.as_slice(), trace.evictions),
            ([(7, 0, 480)].as_slice(), 1)
        );
        let about: Vec<_> = trace
            .programs
            .iter()
            .map(|p| (p.loader, p.bytes, p.has_code))
            .collect();
        assert_eq!(
            about,
            [
                (Some(Loader::V2), Some(700), true),
                (Some(Loader::V3), None, false),
                (Some(Loader::V3), Some(1_000), true)
            ]
        );
        let pools: Vec<_> = trace.batches_by_pool.into_iter().collect();
        assert_eq!(
            pools,
            [("solRpcEl".to_owned(), 2), ("solScHandle".to_owned(), 2)]
        );
    }

    #[test]
    fn a_batch_expands_into_one_call_per_use_of_its_programs() {
        let trace = read("look 7 0 0*3 -1 2*2\n").unwrap();
        let calls: Vec<_> = trace.slots[&7].calls().collect();
        assert_eq!(calls, [vec![0, 1, 2], vec![0, 2], vec![0]]);
        assert_eq!((trace.slots[&7].batches, trace.slots[&7].misses), (1, 1));
    }

    #[test]
    fn a_partial_last_line_is_skipped_and_dropped_lines_counted() {
        let trace = read("look 7 0 0\ndropped 3\ndropped 2\nlook 7 0 1").unwrap();
        assert_eq!((trace.slots[&7].call_count, trace.dropped_lines), (1, 5));
    }

    #[test]
    fn a_trace_line_no_validator_writes_is_refused_with_its_number() {
        for (lines, what) in [
            (
                "look 7 0 3\n",
                "line 7, \"look 7 0 3\": the program 3 is unknown",
            ),
            ("look 7 2 0\n", "the thread is unknown"),
            ("look x 0 0\n", "a slot: no number"),
            ("look 7 0 0*x\n", "the uses are not a number up to 64"),
            ("look 7 0 0*65\n", "the uses are not a number up to 64"),
            (
                "program 5 x\n",
                "the number of the program is 5, and 3 is next",
            ),
            ("program 3 0OIl\n", "no public key"),
            ("load 7 0 0 480 v9 700 loaded\n", "no loader"),
            (
                "load 7 0 0 480 v2 700\n",
                "the kind of the entry is missing or unknown",
            ),
            ("evict 7 0 0 0\n", "more words"),
            ("drop 7\n", "no line of this kind"),
            (
                "trace 1 agave-validator 2.1.14\n",
                "a second process wrote to the same file",
            ),
        ] {
            let message = refused(lines);
            assert!(message.contains(what), "{message}");
        }
        let other =
            |text: &str| format!("{:#}", ValidatorTrace::read(text.as_bytes()).unwrap_err());
        assert!(
            other("").contains("no complete line")
                && other("SQLite format 3\n").contains("`trace` is missing")
        );
        assert!(other("trace 2 a b\n").contains("another version than 1"));
        assert!(other(&"x".repeat(1 << 18)).contains("longer than"));
    }
}
