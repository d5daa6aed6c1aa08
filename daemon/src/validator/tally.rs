//! The sums of one sender's points. Deltas add up; of levels the newest by the validator's own time stays.

use faultline_agave::points::{Known, ProgramCache, ReplaySlot};
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Histogram, Metric, Reading, TIME_BOUNDS, Value};
use std::sync::Arc;

/// No delta of a push is more: what is, is no count, and sums of such could not be told apart by who reads them as floats.
const MOST: u64 = 1 << 53;

/// A delta as it is summed: 0 if it is absent or no count.
pub(super) fn delta(field: Option<u64>) -> u64 {
    field.filter(|count| *count <= MOST).unwrap_or(0)
}

/// A sum never falls, whatever is added to it.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Reads one field of a datapoint.
type Field<T> = fn(&T) -> Option<u64>;

/// Fields of `loaded-programs-cache-stats` that are summed.
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

/// Stages of loading a program.
const STAGES: [(&str, Field<ReplaySlot>); 4] = [
    ("register_syscalls", |r| r.register_syscalls_us),
    ("load_elf", |r| r.load_elf_us),
    ("verify", |r| r.verify_code_us),
    ("jit", |r| r.jit_compile_us),
];

/// Parts of replaying a slot.
const PARTS: [(&str, Field<ReplaySlot>); 5] = [
    ("total", |r| r.replay_total_elapsed_us),
    ("load", |r| r.load_us),
    ("execute", |r| r.execute_us),
    ("store", |r| r.store_us),
    ("program_cache", |r| r.program_cache_us),
];

/// Who made the block, as `cost_tracker_stats` tags it.
const LEADER: [&str; 3] = ["true", "false", "unknown"];

/// Levels, in the order of [`LEVELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    LoadedEntries,
    HeapAllocated,
    HeapActive,
    HeapResident,
    HeapRetained,
    HeapDirty,
    ReadCacheBytes,
    WriteCacheBytes,
    IndexEntries,
    IndexBytes,
    Storages,
}

/// How each level is exported.
const LEVELS: [(&Metric, Option<&str>); 11] = [
    (&v::CACHE_LOADED, None),
    (&v::HEAP, Some("allocated")),
    (&v::HEAP, Some("active")),
    (&v::HEAP, Some("resident")),
    (&v::HEAP, Some("retained")),
    (&v::HEAP, Some("dirty")),
    (&v::READ_CACHE_BYTES, None),
    (&v::WRITE_CACHE_BYTES, None),
    (&v::INDEX_ENTRIES, None),
    (&v::INDEX_BYTES, None),
    (&v::STORAGES, None),
];

/// The newest slot of each kind that datapoints tell of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// Newest frozen bank.
    pub frozen: Option<u64>,
    /// Newest root.
    pub root: Option<u64>,
    /// Newest slot the cluster confirmed.
    pub optimistic: Option<u64>,
    /// Newest slot received whole.
    pub shred: Option<u64>,
}

impl Slots {
    /// The tip minus the own slot; `None` until both are known. Zero if the own slot leads.
    pub fn behind(&self) -> Option<u64> {
        let tip = self.optimistic.max(self.shred)?;
        Some(tip.saturating_sub(self.frozen?))
    }

    fn merge(&mut self, other: &Slots) {
        self.frozen = self.frozen.max(other.frozen);
        self.root = self.root.max(other.root);
        self.optimistic = self.optimistic.max(other.optimistic);
        self.shred = self.shred.max(other.shred);
    }
}

/// Sums, histograms and levels of one sender.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    cache: [u64; CACHE.len()],
    saw_stale: bool,
    cache_points: u64,
    /// The lowest water level at which an eviction pass evicted: one above the shrink target.
    evicting_from: Option<u64>,
    cache_time: Histogram,
    parts: [Histogram; PARTS.len()],
    stages_us: [u64; STAGES.len()],
    block_transactions: [Option<u64>; LEADER.len()],
    rooted: u64,
    replayed: u64,
    own_slots: u64,
    read_cache: [u64; 3],
    /// (validator's time, value).
    levels: [Option<(i64, u64)>; LEVELS.len()],
    /// Newest slots.
    pub slots: Slots,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            cache: [0; CACHE.len()],
            saw_stale: false,
            cache_points: 0,
            evicting_from: None,
            cache_time: Histogram::new(&TIME_BOUNDS),
            parts: std::array::from_fn(|_| Histogram::new(&TIME_BOUNDS)),
            stages_us: [0; STAGES.len()],
            block_transactions: [None; LEADER.len()],
            rooted: 0,
            replayed: 0,
            own_slots: 0,
            read_cache: [0; 3],
            levels: [None; LEVELS.len()],
            slots: Slots::default(),
        }
    }
}

impl Tally {
    /// Adds one point. `time` is the validator's own, in Unix nanoseconds.
    pub fn add(&mut self, known: &Known, time: i64) {
        match known {
            Known::ProgramCache(cache) => self.add_cache(cache, time),
            Known::ReplaySlot(replay) => self.add_replay(replay),
            Known::SetRoot(root) => {
                add(&mut self.rooted, delta(root.tx_count));
                self.slots.root = self.slots.root.max(root.slot);
            }
            Known::CostTracker(cost) => {
                let leader = match cost.is_leader {
                    Some(true) => 0,
                    Some(false) => 1,
                    None => 2,
                };
                if let Some(sum) = self.block_transactions.get_mut(leader) {
                    *sum = Some(sum.unwrap_or(0).saturating_add(delta(cost.transaction_count)));
                }
            }
            Known::BankFrozen(bank) => self.slots.frozen = self.slots.frozen.max(bank.slot),
            Known::OptimisticSlot(slot) => self.slots.optimistic = self.slots.optimistic.max(slot.slot),
            Known::ShredInsertIsFull(slot) => self.slots.shred = self.slots.shred.max(slot.slot),
            other => self.add_levels(other, time),
        }
    }

    fn add_cache(&mut self, cache: &ProgramCache, time: i64) {
        self.cache_points += 1;
        for (sum, (_, field)) in self.cache.iter_mut().zip(CACHE) {
            add(sum, delta(field(cache)));
        }
        self.saw_stale |= cache.prunes_stale.is_some();
        if cache.evictions.is_some_and(|evictions| evictions > 0) {
            self.evicting_from = lower(self.evicting_from, cache.loaded_entries());
        }
        self.level(Level::LoadedEntries, time, cache.loaded_entries());
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

    fn add_levels(&mut self, known: &Known, time: i64) {
        match known {
            Known::Jemalloc(heap) => {
                self.level(Level::HeapAllocated, time, heap.allocated_bytes);
                self.level(Level::HeapActive, time, heap.active_bytes);
                self.level(Level::HeapResident, time, heap.resident_bytes);
                self.level(Level::HeapRetained, time, heap.retained_bytes);
                self.level(Level::HeapDirty, time, heap.dirty_bytes);
            }
            Known::ReadCache(cache) => {
                for (sum, field) in self.read_cache.iter_mut().zip([cache.hits, cache.misses, cache.evicts]) {
                    add(sum, delta(field));
                }
                self.level(Level::ReadCacheBytes, time, cache.data_size_bytes);
            }
            Known::AccountsCacheSize(cache) => self.level(Level::WriteCacheBytes, time, cache.total_size_bytes),
            Known::AccountsIndex(index) | Known::AccountsIndexStartup(index) => {
                self.level(Level::IndexEntries, time, index.count);
                self.level(Level::IndexBytes, time, index.estimate_mem_bytes);
            }
            Known::AccountsDbStores(stores) => self.level(Level::Storages, time, stores.total_count),
            _ => {}
        }
    }

    fn level(&mut self, level: Level, time: i64, value: Option<u64>) {
        let (Some(value), Some(place)) = (value, self.levels.get_mut(level as usize)) else { return };
        if place.is_none_or(|(newest, _)| time >= newest) {
            *place = Some((time, value));
        }
    }

    /// How many program cache points were added.
    pub fn cache_points(&self) -> u64 {
        self.cache_points
    }

    /// Adds what another tally of the same validator summed.
    pub fn merge(&mut self, other: &Tally) {
        add_all(&mut self.cache, &other.cache);
        add_all(&mut self.stages_us, &other.stages_us);
        add_all(&mut self.read_cache, &other.read_cache);
        self.saw_stale |= other.saw_stale;
        self.cache_points += other.cache_points;
        self.evicting_from = lower(self.evicting_from, other.evicting_from);
        self.cache_time.merge(&other.cache_time);
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.block_transactions.iter_mut().zip(other.block_transactions) {
            *mine = if mine.is_none() { theirs } else { mine.map(|sum| sum.saturating_add(theirs.unwrap_or(0))) };
        }
        add(&mut self.rooted, other.rooted);
        add(&mut self.replayed, other.replayed);
        self.own_slots += other.own_slots;
        for (mine, theirs) in self.levels.iter_mut().zip(other.levels) {
            *mine = (*mine).max(theirs);
        }
        self.slots.merge(&other.slots);
    }

    /// Forgets what describes the process that ended: levels and slots. Sums stay.
    pub fn forget_levels(&mut self) {
        self.levels = [None; LEVELS.len()];
        self.evicting_from = None;
        self.slots = Slots::default();
    }

    /// Everything but slots. Counters are there from the start, at 0; levels only while `fresh`.
    pub fn readings(&self, fresh: bool, out: &mut Vec<Reading>) {
        for (i, ((metric, _), sum)) in CACHE.iter().zip(self.cache).enumerate() {
            if i < ALWAYS_THERE || self.saw_stale {
                out.push(Reading::counter(metric, [], sum));
            }
        }
        out.push(histogram(&v::CACHE_TIME, "replay", &self.cache_time));
        for ((part, _), sums) in PARTS.iter().zip(&self.parts) {
            out.push(histogram(&v::REPLAY_TIME, part, sums));
        }
        for ((stage, _), us) in STAGES.iter().zip(self.stages_us) {
            out.push(Reading::real(&v::PROGRAM_LOAD, [(*stage).into()], us as f64 / 1e6));
        }
        for (leader, sum) in LEADER.into_iter().zip(self.block_transactions) {
            out.extend(sum.map(|sum| Reading::counter(&v::BLOCK_TRANSACTIONS, [leader.into()], sum)));
        }
        out.push(Reading::counter(&v::ROOTED_TRANSACTIONS, [], self.rooted));
        out.push(Reading::counter(&v::REPLAYED_TRANSACTIONS, [], self.replayed));
        out.push(Reading::counter(&v::OWN_SLOTS, [], self.own_slots));
        let read_cache = [&v::READ_CACHE_HITS, &v::READ_CACHE_MISSES, &v::READ_CACHE_EVICTIONS];
        out.extend(read_cache.into_iter().zip(self.read_cache).map(|(metric, sum)| Reading::counter(metric, [], sum)));
        if fresh {
            self.level_readings(out);
        }
    }

    fn level_readings(&self, out: &mut Vec<Reading>) {
        for ((metric, label), level) in LEVELS.into_iter().zip(self.levels) {
            let Some((_, value)) = level else { continue };
            out.push(match label {
                Some(label) => Reading::whole(metric, [label.into()], value),
                None => Reading::whole(metric, [], value),
            });
        }
        if let Some(target) = self.observed_shrink_target() {
            // The target is 90 % of the capacity, rounded down.
            out.push(Reading::whole(&v::CACHE_CAPACITY, ["observed".into()], target.saturating_mul(10).div_ceil(9)));
            out.push(Reading::whole(&v::CACHE_SHRINK_TARGET, ["observed".into()], target));
        }
    }

    /// What eviction passes shrink the cache to, as observed; `None` until one evicted.
    pub fn observed_shrink_target(&self) -> Option<u64> {
        self.evicting_from.map(|level| level.saturating_sub(1))
    }
}

/// The lower of those that are known.
fn lower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

fn observe_us(histogram: &mut Histogram, us: Option<u64>) {
    if let Some(us) = us.filter(|us| *us <= MOST) {
        histogram.observe(us as f64 / 1e6);
    }
}

fn histogram(metric: &'static Metric, label: &'static str, sums: &Histogram) -> Reading {
    Reading::new(metric, [label.into()], Value::Histogram(Arc::new(sums.clone())))
}

fn add_all<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        add(mine, *theirs);
    }
}
