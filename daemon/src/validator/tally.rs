//! Sums of one sender's points. Deltas add up. A level keeps the last received value: a point with
//! a wrong time must not hide later ones.

mod totals;

use faultline_agave::points::{AccountsActive, CacheTimes, KnownPoint, ProgramCache, ReplaySlot};
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Histogram, Metric, Reading, TIME_BOUNDS, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use totals::Totals;

/// Maximum delta of a push: a larger one is not a count, and larger sums would lose precision as
/// floats.
const MOST: u64 = 1 << 53;

pub(super) fn delta(field: Option<u64>) -> u64 {
    field.filter(|count| *count <= MOST).unwrap_or(0)
}

/// Saturates: a sum never falls.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

type Field<T> = fn(&T) -> Option<u64>;

const CACHE: [(&Metric, Field<ProgramCache>); 12] = [
    (&v::CACHE_HITS, |c| c.hits),
    (&v::CACHE_MISSES, |c| c.misses),
    (&v::CACHE_EVICTIONS, |c| c.evictions),
    (&v::CACHE_RELOADS, |c| c.reloads),
    (&v::CACHE_INSERTIONS, |c| c.insertions),
    (&v::CACHE_LOST_INSERTIONS, |c| c.lost_insertions),
    (&v::CACHE_REPLACEMENTS, |c| c.replacements),
    (&v::CACHE_ONE_HIT_WONDERS, |c| c.one_hit_wonders),
    (&v::CACHE_PRUNES_ORPHAN, |c| c.prunes_orphan),
    (&v::CACHE_PRUNES_ENVIRONMENT, |c| c.prunes_environment),
    (&v::CACHE_EMPTY_ENTRIES, |c| c.empty_entries),
    (&v::CACHE_PRUNES_STALE, |c| c.prunes_stale),
];

/// The last of [`CACHE`] exists since 4.4.0 only: absent until it was seen.
const ALWAYS_THERE: usize = CACHE.len() - 1;

const STAGES: [(&str, Field<ReplaySlot>); 4] = [
    ("register_syscalls", |r| r.register_syscalls_us),
    ("load_elf", |r| r.load_elf_us),
    ("verify", |r| r.verify_code_us),
    ("jit", |r| r.jit_compile_us),
];

const PARTS: [(&str, Field<ReplaySlot>); 5] = [
    ("total", |r| r.replay_total_elapsed_us),
    ("load", |r| r.load_us),
    ("execute", |r| r.execute_us),
    ("store", |r| r.store_us),
    ("program_cache", |r| r.program_cache_us),
];

/// Eviction passes that determine the shrink target: a wrong level is dropped after as many correct
/// ones.
const EVICTIONS_SEEN: usize = 256;

/// The block's producer, from the tags of `cost_tracker_stats`.
const LEADER: [&str; 3] = ["true", "false", "unknown"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    LoadedEntries,
    HeapAllocated,
    HeapActive,
    HeapResident,
    HeapRetained,
    HeapDirty,
    ReadCacheEntries,
    ReadCacheBytes,
    WriteCacheBytes,
    IndexEntries,
    IndexInMemory,
    IndexCapacity,
    IndexBytes,
    IndexDiskIndex,
    IndexDiskData,
    Storages,
}

const LEVELS: [(&Metric, Option<&str>); 16] = [
    (&v::CACHE_LOADED, None),
    (&v::HEAP, Some("allocated")),
    (&v::HEAP, Some("active")),
    (&v::HEAP, Some("resident")),
    (&v::HEAP, Some("retained")),
    (&v::HEAP, Some("dirty")),
    (&v::READ_CACHE_ENTRIES, None),
    (&v::READ_CACHE_BYTES, None),
    (&v::WRITE_CACHE_BYTES, None),
    (&v::INDEX_ENTRIES, None),
    (&v::INDEX_IN_MEMORY, None),
    (&v::INDEX_CAPACITY, None),
    (&v::INDEX_BYTES, None),
    (&v::INDEX_DISK_BYTES, Some("index")),
    (&v::INDEX_DISK_BYTES, Some("data")),
    (&v::STORAGES, None),
];

#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    cache: [u64; CACHE.len()],
    saw_stale: bool,
    /// The water levels of the last evictions: the lowest is one above the shrink target.
    evicting: VecDeque<u64>,
    cache_time: Histogram,
    /// Only an instrumented build reports it.
    prune: Option<Histogram>,
    parts: [Histogram; PARTS.len()],
    stages_us: [u64; STAGES.len()],
    block_transactions: [Option<u64>; LEADER.len()],
    rooted: u64,
    replayed: u64,
    own_slots: u64,
    read_cache: [u64; 3],
    levels: [Option<u64>; LEVELS.len()],
    totals: Totals,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            cache: [0; CACHE.len()],
            saw_stale: false,
            evicting: VecDeque::new(),
            cache_time: Histogram::new(&TIME_BOUNDS),
            prune: None,
            parts: std::array::from_fn(|_| Histogram::new(&TIME_BOUNDS)),
            stages_us: [0; STAGES.len()],
            block_transactions: [None; LEADER.len()],
            rooted: 0,
            replayed: 0,
            own_slots: 0,
            read_cache: [0; 3],
            levels: [None; LEVELS.len()],
            totals: Totals::default(),
        }
    }
}

impl Tally {
    pub fn add(&mut self, known: &KnownPoint) {
        match known {
            KnownPoint::ProgramCache(cache) => self.add_cache(cache),
            KnownPoint::ReplaySlot(replay) => self.add_replay(replay),
            KnownPoint::SetRoot(root) => add(&mut self.rooted, delta(root.tx_count)),
            KnownPoint::CostTracker(cost) => {
                let leader = match cost.is_leader {
                    Some(true) => 0,
                    Some(false) => 1,
                    None => 2,
                };
                if let Some(sum) = self.block_transactions.get_mut(leader) {
                    *sum = Some(
                        sum.unwrap_or(0)
                            .saturating_add(delta(cost.transaction_count)),
                    );
                }
            }
            other => {
                if let KnownPoint::CacheTimes(times) = other {
                    self.add_prune(times);
                }
                self.totals.add(other);
                self.add_levels(other);
            }
        }
    }

    /// A background job of the accounts database began or ended at `time`, received at the uptime
    /// `received_at`.
    pub fn add_job(&mut self, active: &AccountsActive, time: i64, received_at: Duration) {
        self.totals.job(active, time, received_at);
    }

    fn add_cache(&mut self, cache: &ProgramCache) {
        for (sum, (_, field)) in self.cache.iter_mut().zip(CACHE) {
            add(sum, delta(field(cache)));
        }
        self.saw_stale |= cache.prunes_stale.is_some();
        if cache.evictions.is_some_and(|evictions| evictions > 0) {
            self.evicting.extend(cache.loaded_entries());
            let surplus = self.evicting.len().saturating_sub(EVICTIONS_SEEN);
            self.evicting.drain(..surplus);
        }
        self.level(Level::LoadedEntries, cache.loaded_entries());
    }

    /// Each root is set with one prune.
    fn add_prune(&mut self, times: &CacheTimes) {
        if times.prunes.is_some_and(|prunes| prunes > 0) {
            observe_us(
                self.prune
                    .get_or_insert_with(|| Histogram::new(&TIME_BOUNDS)),
                times.prune_us,
            );
        }
    }

    fn add_replay(&mut self, replay: &ReplaySlot) {
        if replay.is_own_slot() == Some(true) {
            self.own_slots += 1;
            return;
        }
        add(&mut self.replayed, delta(replay.total_transactions));
        for (sum, (_, field)) in self.stages_us.iter_mut().zip(STAGES) {
            add(sum, delta(field(replay)));
        }
        for (histogram, (_, field)) in self.parts.iter_mut().zip(PARTS) {
            observe_us(histogram, field(replay));
        }
        observe_us(&mut self.cache_time, replay.program_cache_us);
    }

    fn add_levels(&mut self, known: &KnownPoint) {
        match known {
            KnownPoint::Jemalloc(heap) => {
                self.level(Level::HeapAllocated, heap.allocated_bytes);
                self.level(Level::HeapActive, heap.active_bytes);
                self.level(Level::HeapResident, heap.resident_bytes);
                self.level(Level::HeapRetained, heap.retained_bytes);
                self.level(Level::HeapDirty, heap.dirty_bytes);
            }
            KnownPoint::ReadCache(cache) => {
                for (sum, field) in
                    self.read_cache
                        .iter_mut()
                        .zip([cache.hits, cache.misses, cache.evicts])
                {
                    add(sum, delta(field));
                }
                self.level(Level::ReadCacheEntries, cache.entries);
                self.level(Level::ReadCacheBytes, cache.data_size_bytes);
            }
            KnownPoint::AccountsCacheSize(cache) => {
                self.level(Level::WriteCacheBytes, cache.total_size_bytes)
            }
            KnownPoint::AccountsIndex(index) | KnownPoint::AccountsIndexStartup(index) => {
                self.level(Level::IndexEntries, index.count);
                self.level(Level::IndexInMemory, index.count_in_mem);
                self.level(Level::IndexCapacity, index.capacity_in_mem);
                self.level(Level::IndexBytes, index.estimate_mem_bytes);
                self.level(Level::IndexDiskIndex, index.disk_index_bytes);
                self.level(Level::IndexDiskData, index.disk_data_bytes);
            }
            KnownPoint::AccountsDbStores(stores) => self.level(Level::Storages, stores.total_count),
            _ => {}
        }
    }

    fn level(&mut self, level: Level, value: Option<u64>) {
        if let (Some(_), Some(cell)) = (value, self.levels.get_mut(level as usize)) {
            *cell = value;
        }
    }

    /// Of the same validator.
    pub fn merge(&mut self, other: &Tally) {
        add_all(&mut self.cache, &other.cache);
        add_all(&mut self.stages_us, &other.stages_us);
        add_all(&mut self.read_cache, &other.read_cache);
        self.saw_stale |= other.saw_stale;
        let capacity = EVICTIONS_SEEN.saturating_sub(self.evicting.len());
        self.evicting.extend(other.evicting.iter().take(capacity));
        self.cache_time.merge(&other.cache_time);
        if let Some(theirs) = &other.prune {
            self.prune
                .get_or_insert_with(|| Histogram::new(&TIME_BOUNDS))
                .merge(theirs);
        }
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self
            .block_transactions
            .iter_mut()
            .zip(other.block_transactions)
        {
            *mine = if mine.is_none() {
                theirs
            } else {
                mine.map(|sum| sum.saturating_add(theirs.unwrap_or(0)))
            };
        }
        add(&mut self.rooted, other.rooted);
        add(&mut self.replayed, other.replayed);
        self.own_slots += other.own_slots;
        for (mine, theirs) in self.levels.iter_mut().zip(other.levels) {
            *mine = mine.or(theirs);
        }
        self.totals.merge(&other.totals);
    }

    /// Levels belong to the process that ended; sums stay.
    pub fn forget_levels(&mut self) {
        self.levels = [None; LEVELS.len()];
        self.evicting.clear();
        self.totals.forget_jobs();
    }

    /// Counters start at 0; levels only while `fresh`.
    pub fn readings(&self, fresh: bool, out: &mut Vec<Reading>) {
        for (i, ((metric, _), sum)) in CACHE.iter().zip(self.cache).enumerate() {
            if i < ALWAYS_THERE || self.saw_stale {
                out.push(Reading::counter(metric, [], sum));
            }
        }
        out.push(histogram(&v::CACHE_TIME, "replay", &self.cache_time));
        if let Some(prune) = &self.prune {
            out.push(Reading::new(
                &v::CACHE_PRUNE,
                [],
                Value::Histogram(Arc::new(prune.clone())),
            ));
        }
        for ((part, _), sums) in PARTS.iter().zip(&self.parts) {
            out.push(histogram(&v::REPLAY_TIME, part, sums));
        }
        for ((stage, _), us) in STAGES.iter().zip(self.stages_us) {
            out.push(Reading::real(
                &v::PROGRAM_LOAD,
                [(*stage).into()],
                us as f64 / 1e6,
            ));
        }
        for (leader, sum) in LEADER.into_iter().zip(self.block_transactions) {
            out.extend(
                sum.map(|sum| Reading::counter(&v::BLOCK_TRANSACTIONS, [leader.into()], sum)),
            );
        }
        out.push(Reading::counter(&v::ROOTED_TRANSACTIONS, [], self.rooted));
        out.push(Reading::counter(
            &v::REPLAYED_TRANSACTIONS,
            [],
            self.replayed,
        ));
        out.push(Reading::counter(&v::OWN_SLOTS, [], self.own_slots));
        let read_cache = [
            &v::READ_CACHE_HITS,
            &v::READ_CACHE_MISSES,
            &v::READ_CACHE_EVICTIONS,
        ];
        out.extend(
            read_cache
                .into_iter()
                .zip(self.read_cache)
                .map(|(metric, sum)| Reading::counter(metric, [], sum)),
        );
        self.totals.readings(fresh, out);
        if fresh {
            self.level_readings(out);
        }
    }

    fn level_readings(&self, out: &mut Vec<Reading>) {
        for ((metric, label), level) in LEVELS.into_iter().zip(self.levels) {
            let Some(value) = level else { continue };
            out.push(match label {
                Some(label) => Reading::whole(metric, [label.into()], value),
                None => Reading::whole(metric, [], value),
            });
        }
        if let Some(target) = self.observed_shrink_target() {
            // The target is 90 % of the capacity, rounded down.
            out.push(Reading::whole(
                &v::CACHE_CAPACITY,
                ["observed".into()],
                target.saturating_mul(10).div_ceil(9),
            ));
            out.push(Reading::whole(
                &v::CACHE_SHRINK_TARGET,
                ["observed".into()],
                target,
            ));
        }
    }

    /// The size to which evictions shrink the cache, as observed; `None` before an eviction.
    pub fn observed_shrink_target(&self) -> Option<u64> {
        self.evicting
            .iter()
            .min()
            .map(|level| level.saturating_sub(1))
    }
}

fn observe_us(histogram: &mut Histogram, us: Option<u64>) {
    if let Some(us) = us.filter(|us| *us <= MOST) {
        histogram.observe(us as f64 / 1e6);
    }
}

fn histogram(metric: &'static Metric, label: &'static str, sums: &Histogram) -> Reading {
    Reading::new(
        metric,
        [label.into()],
        Value::Histogram(Arc::new(sums.clone())),
    )
}

fn add_all<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        add(mine, *theirs);
    }
}
