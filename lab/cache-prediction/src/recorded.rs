use anyhow::{Context, Result, bail, ensure};
use faultline_agave::{identify::option_values, version::Version};
use faultline_cache_sim::{cost::RecordedSlot, trace::SlotKind};
use faultline_recording::{ProcessRow, ProgramCachePoint, Recording, ReplaySlotPoint};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

/// Phases of a validator after its startup. The cache is no longer empty.
const PHASES_AFTER_STARTUP: [&str; 4] = ["catching_up", "at_tip", "behind", "gone"];
const ENTRIES_VARIABLE: &str = "AGAVE_PROGRAM_CACHE_ENTRIES";

/// Between start times of one process: the clock may be set between two sessions.
const MAX_START_DIFFERENCE: Duration = Duration::from_secs(60);

/// Facts of a recording that predictions need.
pub struct Recorded {
    pub version: Option<String>,
    /// Size of the cache, if the validator's environment set it.
    pub entries: Option<u64>,
    /// Whether the recording began at the validator's start, when the cache was empty.
    pub from_start: bool,
    /// Slots with counters of the cache and of the replay, in order.
    pub slots_with_counters: Vec<RecordedSlot>,
    /// Transactions of all replayed slots.
    pub transactions_by_slot: BTreeMap<u64, u64>,
    /// Slots of the blocks that the validator produced.
    pub own_slots: BTreeSet<u64>,
    /// Replay time, summed over threads. `None` if a part of it is unknown. An unknown
    /// `filter_executable_us` counts as 0.
    pub replay_us: Option<f64>,
    /// From `--expected-genesis-hash`. It identifies the cluster. `None` without this option.
    pub genesis_hash: Option<String>,
    pub has_full_rpc_api: bool,
    /// Slots of the demo belong to no cluster.
    pub is_demo: bool,
}

impl Recorded {
    /// Fails without datapoints of the program cache or the replay, and for several validators.
    pub fn read(path: &Path) -> Result<Self> {
        let recording = Recording::open(path)?;
        let shown = path.display();
        let cache = counters_by_slot(&recording.program_cache_points()?);
        let replay = recording.replay_slot_points()?;
        if cache.is_empty() || replay.is_empty() {
            let missing = if cache.is_empty() {
                "loaded-programs-cache-stats"
            } else {
                "replay-slot-stats"
            };
            bail!(
                "{shown} has no datapoints {missing}, so nothing of the program cache can be predicted from it: \
                 was SOLANA_METRICS_CONFIG of the validator set to the daemon's address?"
            );
        }
        let manifest = manifest(&recording, path)?;
        let entries = manifest["environment"]["values"][ENTRIES_VARIABLE]
            .as_str()
            .map(|text| text.trim().parse())
            .transpose()
            .with_context(|| format!("{shown}: {ENTRIES_VARIABLE} of the validator"))?;
        let sessions = recording.sessions()?;
        let ticks = recording.ticks()?;
        let phase = ticks
            .iter()
            .find_map(|tick| tick.process.and(tick.phase.as_deref()));
        let arguments: Vec<&str> = manifest["arguments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|argument| argument.as_str())
            .collect();
        Ok(Self {
            version: manifest["validator"]["version"].as_str().map(str::to_owned),
            entries,
            from_start: phase.is_some_and(|phase| !PHASES_AFTER_STARTUP.contains(&phase)),
            slots_with_counters: join_replays(&cache, &replay),
            transactions_by_slot: replay
                .iter()
                .filter_map(|point| Some((point.slot?, point.total_transactions?)))
                .collect(),
            own_slots: recording
                .cost_tracker_points()?
                .iter()
                .filter_map(|point| point.bank_slot.filter(|_| point.is_leader == Some(true)))
                .collect(),
            replay_us: replay_us(&replay),
            genesis_hash: expected_genesis(&arguments),
            has_full_rpc_api: arguments.contains(&"--full-rpc-api"),
            is_demo: { sessions.iter() }.any(|session| session.manifest["demo"] == true),
        })
    }

    pub fn refuse_demo(&self, path: &Path) -> Result<()> {
        ensure!(
            !self.is_demo,
            "{} is a recording of the demo: no node has the blocks of its slots; record a validator",
            path.display()
        );
        Ok(())
    }

    /// Fails if the validator expected another genesis hash. An empty `hash` is unknown.
    pub fn require_cluster(&self, hash: &str) -> Result<()> {
        let expected = self.genesis_hash.as_deref().unwrap_or(hash);
        ensure!(
            hash.is_empty() || hash == expected,
            "the blocks are of the cluster with the genesis hash {}, and the recorded validator expected {}",
            faultline_text::clean(hash),
            faultline_text::clean(expected)
        );
        Ok(())
    }

    pub fn slot_kind(&self, slot: u64) -> SlotKind {
        if self.own_slots.contains(&slot) {
            SlotKind::Own
        } else {
            SlotKind::Replayed
        }
    }

    /// For Frankendancer, the version of the embedded Agave.
    pub fn agave_version(&self) -> Option<String> {
        Some(agave_version(self.version.as_deref()?))
    }
}

/// The manifest of the validator, or else of the last process. Null if there is no process.
fn manifest(recording: &Recording, path: &Path) -> Result<Value> {
    let processes = recording.processes()?;
    let is_validator = |process: &&ProcessRow| process.manifest["validator"].is_object();
    let validators = Vec::from_iter(processes.iter().filter(is_validator));
    let restarts = count_restarts(&validators);
    ensure!(
        restarts == 0,
        "{} has {} validator processes, and the cache begins anew with each: record one",
        path.display(),
        restarts + 1
    );
    Ok(validators
        .last()
        .copied()
        .or(processes.last())
        .map(|process| process.manifest.clone())
        .unwrap_or_default())
}

/// Each session has a row of its process. In a container, two processes may have the same pid.
fn count_restarts(processes: &[&ProcessRow]) -> usize {
    let pairs = processes.windows(2).filter(|pair| {
        let starts = pair[0].started.zip(pair[1].started);
        pair[0].pid != pair[1].pid
            || starts.is_some_and(|(a, b)| a.abs_diff(b) > MAX_START_DIFFERENCE)
    });
    pairs.count()
}

fn expected_genesis(arguments: &[&str]) -> Option<String> {
    let values = option_values(arguments, &["--expected-genesis-hash"]);
    Some(values.first()?.to_str()?.to_owned())
}

/// Only the number of a version. An invalid text stays unchanged, so that a later error has it.
pub fn agave_version(version: &str) -> String {
    match Version::parse(version) {
        Ok(parsed) => {
            let (major, minor, patch) = parsed.agave_number();
            format!("{major}.{minor}.{patch}")
        }
        Err(_) => version.to_owned(),
    }
}

/// Sums the points of each slot. Leaves out points that lack the slot or any counter.
fn counters_by_slot(points: &[ProgramCachePoint]) -> BTreeMap<u64, RecordedSlot> {
    let mut slots: BTreeMap<u64, RecordedSlot> = BTreeMap::new();
    for point in points {
        let counters = || {
            Some((
                point.slot?,
                point.misses?,
                point.evictions?,
                point.reloads?,
                point.insertions?,
            ))
        };
        let Some((slot, misses, evictions, reloads, insertions)) = counters() else {
            continue;
        };
        let sum = slots.entry(slot).or_default();
        sum.misses = sum.misses.saturating_add(misses);
        sum.evictions = sum.evictions.saturating_add(evictions);
        sum.reloads = sum.reloads.saturating_add(reloads);
        sum.insertions = sum.insertions.saturating_add(insertions);
    }
    slots
}

/// Joins a slot's cache counters with the sums of its replays. Leaves out slots that lack either.
fn join_replays(
    cache: &BTreeMap<u64, RecordedSlot>,
    replay: &[ReplaySlotPoint],
) -> Vec<RecordedSlot> {
    let mut slots: BTreeMap<u64, RecordedSlot> = BTreeMap::new();
    for point in replay {
        let replayed_slot = || {
            let slot = point.slot?;
            let counters = cache.get(&slot)?;
            let parts = [
                point.register_syscalls_us,
                point.load_elf_us,
                point.verify_code_us,
                point.jit_compile_us,
            ];
            Some(RecordedSlot {
                slot,
                transactions: point.total_transactions?,
                compile_us: parts.into_iter().sum(),
                cache_us: point.program_cache_us,
                ..*counters
            })
        };
        let Some(replayed) = replayed_slot() else {
            continue;
        };
        let add_replay = |sum: &mut RecordedSlot| {
            let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
            sum.transactions = sum.transactions.saturating_add(replayed.transactions);
            sum.compile_us = add(sum.compile_us, replayed.compile_us);
            sum.cache_us = add(sum.cache_us, replayed.cache_us);
        };
        slots
            .entry(replayed.slot)
            .and_modify(add_replay)
            .or_insert(replayed);
    }
    slots.into_values().collect()
}

fn replay_us(replay: &[ReplaySlotPoint]) -> Option<f64> {
    replay
        .iter()
        .map(|point| {
            let filter_us = point.filter_executable_us.unwrap_or(0);
            Some(
                [
                    point.program_cache_us?,
                    point.load_us?,
                    point.execute_us?,
                    point.store_us?,
                    filter_us,
                ]
                .iter()
                .map(|part| *part as f64)
                .sum::<f64>(),
            )
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_of_one_slot_are_summed() {
        let cache = ProgramCachePoint {
            slot: Some(7),
            misses: Some(4),
            evictions: Some(0),
            reloads: Some(1),
            insertions: Some(3),
            ..ProgramCachePoint::default()
        };
        let replay = ReplaySlotPoint {
            slot: Some(7),
            total_transactions: Some(800),
            program_cache_us: Some(90),
            register_syscalls_us: Some(1),
            load_elf_us: Some(2),
            verify_code_us: Some(3),
            jit_compile_us: Some(4),
            ..ReplaySlotPoint::default()
        };
        let cache = counters_by_slot(&[cache.clone(), cache]);
        let twice = join_replays(&cache, &[replay.clone(), replay]);
        let expected = RecordedSlot {
            slot: 7,
            transactions: 1600,
            misses: 8,
            evictions: 0,
            reloads: 2,
            insertions: 6,
            compile_us: Some(20),
            cache_us: Some(180),
        };
        assert_eq!(twice, [expected]);
    }

    #[test]
    fn a_process_with_the_same_pid_and_another_start_is_a_restart() {
        let process = |pid, started: Option<u64>| ProcessRow {
            id: 1,
            session: 1,
            pid,
            started: started.map(Duration::from_secs),
            seen: Duration::ZERO,
            manifest: Value::Null,
        };
        for (first, second, restarts) in [
            (process(1, Some(1_000)), process(1, Some(1_010)), 0),
            (process(1, Some(1_000)), process(1, None), 0),
            (process(1, Some(1_000)), process(1, Some(1_100)), 1),
            (process(1, Some(1_000)), process(2, Some(1_000)), 1),
        ] {
            assert_eq!(
                count_restarts(&[&first, &second]),
                restarts,
                "{first:?} {second:?}"
            );
        }
    }

    #[test]
    fn the_expected_genesis_hash_is_found_in_both_spellings() {
        let of = |arguments: &[&str]| expected_genesis(arguments);
        assert_eq!(
            of(&["x", "--expected-genesis-hash", "a", "y"]).as_deref(),
            Some("a")
        );
        assert_eq!(of(&["--expected-genesis-hash=b"]).as_deref(), Some("b"));
        assert_eq!(of(&["--ledger", "l"]), None);
    }
}
