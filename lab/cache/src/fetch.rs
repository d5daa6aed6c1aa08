//! `faultline cache fetch`: fetches the blocks of a recording's slots from any node.

use crate::{
    args::FetchArgs,
    block::{Block, BlockResponse},
    owners::ProgramIndex,
};
use anyhow::{Context, Result, bail, ensure};
use faultline_cache_prediction::{
    recorded::Recorded,
    trace_file::{self, TraceFile, trace_path},
};
use faultline_cache_sim::trace::{Meta, Source};
use faultline_client::rpc::{RetryPolicy, Rpc, RpcError};
use faultline_common::progress::Progress;
use faultline_text::{bytes, count, counted};
use itertools::Itertools;
use serde_json::json;
use std::{path::Path, time::Duration};

/// The waits add up to about 1 min, or 5 min if the node never begins to answer.
pub const RETRIES: RetryPolicy = RetryPolicy {
    max_tries: 8,
    first_wait: Duration::from_millis(500),
    answer_timeout: Duration::from_secs(30),
};
/// Slots before a recording that began after the validator's start: half an hour at 0.4 s per slot.
const DEFAULT_WARMUP_SLOTS: u64 = 5_000;
/// Errors for slots without a block: "skipped", and "skipped, or missing in long-term storage".
const SKIPPED: [i64; 2] = [-32007, -32009];
/// Errors for blocks that the node lacks: "not available", and "cleaned up".
const NOT_AVAILABLE: [i64; 2] = [-32004, -32001];
/// After this many compared blocks, the command decides whether the node belongs to another
/// cluster.
const BLOCKS_TO_COMPARE: u64 = 20;

/// After an error, the blocks added so far stay in the trace.
pub fn fetch(args: &FetchArgs, retry_policy: RetryPolicy) -> Result<(String, u8)> {
    let recorded = Recorded::read(&args.run)?;
    recorded.refuse_demo(&args.run)?;
    let rpc = Rpc::new(
        args.rpc.as_deref().context("--rpc is missing")?,
        args.ca.as_deref(),
        retry_policy,
    )?;
    let cluster: String = rpc
        .call("getGenesisHash", &json!([]))?
        .context("getGenesisHash: the result is null")?;
    ensure!(
        crate::address::parse(&cluster).is_some(),
        "getGenesisHash: the answer is not a hash"
    );
    recorded.require_cluster(&cluster)?;
    let finalized: u64 = rpc
        .call("getSlot", &json!([{"commitment": "finalized"}]))?
        .context("getSlot: the result is null")?;
    let path = trace_path(&args.run, args.out.as_deref());
    let version = recorded.version.clone().unwrap_or_default();
    let trace_file = TraceFile::open(
        &path,
        Meta {
            source: Source::Blocks,
            cluster,
            version,
        },
    )?;
    let mut slots = warmup_slots(args, &recorded, &rpc)?;
    let fetched = trace_file.trace.slots();
    let before_trace =
        slots.partition_point(|slot| fetched.first().is_some_and(|first| *slot < first.slot));
    slots.extend(recorded.transactions_by_slot.keys());
    let last = fetched.last().map(|slot| slot.slot);
    slots.retain(|slot| last.is_none_or(|last| *slot > last));
    let unfinalized = slots.iter().filter(|slot| **slot > finalized).count();
    slots.retain(|slot| *slot <= finalized);
    let mut fetcher = Fetcher {
        program_index: ProgramIndex::of(&trace_file.trace),
        trace_file,
        rpc: &rpc,
        recorded: &recorded,
        skipped: 0,
        unavailable: 0,
        compared: 0,
        different: 0,
    };
    fetcher.fetch_all(&slots, usize::from(args.requests))?;
    Ok((fetcher.summary(&path, unfinalized, before_trace), 0))
}

fn warmup_slots(args: &FetchArgs, recorded: &Recorded, rpc: &Rpc) -> Result<Vec<u64>> {
    let before = args.before.unwrap_or(if recorded.from_start {
        0
    } else {
        DEFAULT_WARMUP_SLOTS
    });
    let first = recorded.transactions_by_slot.keys().next();
    let Some(first) = first.filter(|_| before > 0) else {
        return Ok(Vec::new());
    };
    let from = first.saturating_sub(before);
    let to = first.saturating_sub(1);
    let slots = rpc.call::<Vec<u64>>("getBlocks", &json!([from, to, {"commitment": "finalized"}]));
    let mut slots = slots?.context("getBlocks: the result is null")?;
    slots.retain(|slot| (from..*first).contains(slot));
    slots.sort_unstable();
    slots.dedup();
    Ok(slots)
}

struct Fetcher<'a> {
    rpc: &'a Rpc,
    recorded: &'a Recorded,
    trace_file: TraceFile,
    program_index: ProgramIndex,
    skipped: u64,
    unavailable: u64,
    /// Blocks whose number of transactions was compared with the recorded number.
    compared: u64,
    /// Compared blocks whose number differs.
    different: u64,
}

impl Fetcher<'_> {
    fn fetch_all(&mut self, slots: &[u64], requests: usize) -> Result<()> {
        let mut progress = Progress::new(slots.len() as u64, "slots");
        let mut done = 0;
        for chunk in slots.chunks(requests.max(1)) {
            let fetched = std::thread::scope(|scope| {
                let threads = chunk
                    .iter()
                    .map(|slot| scope.spawn(|| fetch_block(self.rpc, *slot)))
                    .collect_vec();
                threads
                    .into_iter()
                    .map(|thread| thread.join().ok())
                    .collect_vec()
            });
            let mut blocks = Vec::new();
            for (slot, fetched) in chunk.iter().zip(fetched) {
                let fetched = fetched.context("a request ended without an answer")?;
                match fetched.with_context(|| {
                    format!("slot {slot}: run the same command again to continue")
                })? {
                    FetchedSlot::Block(block) => blocks.push(block),
                    FetchedSlot::Skipped => self.skipped += 1,
                    FetchedSlot::Unavailable => self.unavailable += 1,
                }
            }
            self.add_blocks(&blocks)?;
            done += chunk.len() as u64;
            let (requests, read) = self.rpc.requests_and_bytes();
            progress.show(
                done,
                &format!(", {}, {}", counted(requests as f64, "request"), bytes(read)),
            );
        }
        Ok(())
    }

    fn add_blocks(&mut self, blocks: &[Block]) -> Result<()> {
        self.program_index
            .resolve_programs(self.rpc, blocks, &mut self.trace_file.trace)?;
        for block in blocks {
            self.compare(block)?;
            self.program_index.add_block(
                block,
                self.recorded.slot_kind(block.slot),
                &mut self.trace_file,
            )?;
            // In the file, a slot's changes follow the slot.
            self.trace_file.write()?;
        }
        Ok(())
    }

    /// Fails if most of the first blocks differ.
    fn compare(&mut self, block: &Block) -> Result<()> {
        let Some(recorded) = self.recorded.transactions_by_slot.get(&block.slot) else {
            return Ok(());
        };
        self.compared += 1;
        self.different += u64::from(*recorded != block.transactions.len() as u64);
        if self.compared == BLOCKS_TO_COMPARE && self.different * 2 > BLOCKS_TO_COMPARE {
            let slot = block.slot;
            let fetched = block.transactions.len();
            bail!(
                "slot {slot} has {fetched} transactions at this node and {recorded} in the recording: is it another cluster?"
            );
        }
        Ok(())
    }

    fn summary(&self, path: &Path, unfinalized: usize, before_trace: usize) -> String {
        let (requests, read) = self.rpc.requests_and_bytes();
        let mut lines = vec![format!(
            "this command sent {} requests and read {}",
            count(requests),
            bytes(read)
        )];
        let mut add_line = |number: u64, noun: &str, text: &str| {
            lines.extend((number > 0).then(|| format!("{} {text}", counted(number as f64, noun))))
        };
        add_line(
            self.skipped,
            "slot",
            "skipped by the cluster: the validator replayed blocks of abandoned forks",
        );
        add_line(
            self.unavailable,
            "slot",
            "not available at this node: try another node, with --out for a new file",
        );
        add_line(
            self.different,
            "slot",
            "with a different number of transactions at this node than in the recording",
        );
        add_line(
            self.program_index.unresolved,
            "account",
            "of unknown kind, because deleted: programs among them are not in the trace",
        );
        add_line(
            unfinalized as u64,
            "slot",
            "not finalized yet: run the same command again to continue",
        );
        add_line(
            before_trace as u64,
            "slot",
            "left out before the first slot of the trace, which only grows at its end: use --out for a new file",
        );
        trace_file::summary(path, &self.trace_file.trace, self.recorded, lines)
    }
}

enum FetchedSlot {
    Block(Block),
    Skipped,
    Unavailable,
}

fn fetch_block(rpc: &Rpc, slot: u64) -> Result<FetchedSlot, RpcError> {
    let options = json!({
        "encoding": "json", "transactionDetails": "accounts", "maxSupportedTransactionVersion": 0, "rewards": false,
        "commitment": "finalized",
    });
    match rpc.call::<BlockResponse>("getBlock", &json!([slot, options])) {
        Ok(Some(answer)) => Block::new(slot, answer)
            .map(FetchedSlot::Block)
            .map_err(RpcError::Failed),
        Ok(None) => Ok(FetchedSlot::Unavailable),
        Err(RpcError::Refused { code, .. }) if SKIPPED.contains(&code) => Ok(FetchedSlot::Skipped),
        Err(RpcError::Refused { code, .. }) if NOT_AVAILABLE.contains(&code) => {
            Ok(FetchedSlot::Unavailable)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
