//! Point tables: one row for each datapoint that is stored completely.

use std::time::Duration;

pub(crate) trait Field: Sized {
    /// `None` for a value beyond 2^63, which no count reaches.
    fn store(&self) -> Option<i64>;
    /// `None` for a value that cannot have been stored.
    fn restore(stored: i64) -> Option<Self>;
}

impl Field for u64 {
    fn store(&self) -> Option<i64> {
        i64::try_from(*self).ok()
    }

    fn restore(stored: i64) -> Option<Self> {
        u64::try_from(stored).ok()
    }
}

impl Field for bool {
    fn store(&self) -> Option<i64> {
        Some(i64::from(*self))
    }

    fn restore(stored: i64) -> Option<Self> {
        Some(stored != 0)
    }
}

pub(crate) trait PointTable: Sized {
    const TABLE: &'static str;
    const TABLE_ABOUT: &'static str;
    const FIELDS: &'static [&'static str];
    const ABOUT: &'static [&'static str];
    fn time_unix_ns(&self) -> i64;
    fn received(&self) -> Duration;
    /// In the order of `FIELDS`.
    fn store(&self, each: &mut dyn FnMut(Option<i64>));
    /// `next` returns the fields in the order of `FIELDS`.
    fn restore(
        time_unix_ns: i64,
        received: Duration,
        next: &mut dyn FnMut() -> rusqlite::Result<Option<i64>>,
    ) -> rusqlite::Result<Self>;
}

macro_rules! point {
    ($(#[doc = $about:literal])* $name:ident in $table:literal { $(#[doc = $doc:literal] $field:ident: $type:ty,)* }) => {
        $(#[doc = $about])*
        ///
        /// A field is `None` if the point did not have it.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $name {
            /// The validator's own time, in ns since 1970.
            pub time_unix_ns: i64,
            /// When the daemon received it, since 1970.
            pub received: Duration,
            $(#[doc = $doc] pub $field: Option<$type>,)*
        }

        impl PointTable for $name {
            const TABLE: &'static str = $table;
            const TABLE_ABOUT: &'static str = concat!($($about),*);
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
            const ABOUT: &'static [&'static str] = &[$($doc),*];

            fn time_unix_ns(&self) -> i64 {
                self.time_unix_ns
            }

            fn received(&self) -> Duration {
                self.received
            }

            fn store(&self, each: &mut dyn FnMut(Option<i64>)) {
                $(each(self.$field.as_ref().and_then(Field::store));)*
            }

            fn restore(
                time_unix_ns: i64,
                received: Duration,
                next: &mut dyn FnMut() -> rusqlite::Result<Option<i64>>,
            ) -> rusqlite::Result<Self> {
                Ok($name { time_unix_ns, received, $($field: next()?.and_then(<$type as Field>::restore),)* })
            }
        }
    };
}

point! {
    /// `loaded-programs-cache-stats`: deltas since the previous point.
    ProgramCachePoint in "program_cache_point" {
        /// The parent slot of the bank whose creation reported.
        slot: u64,
        /// Inflated before 4.4.0.
        hits: u64,
        /// Programs not usable at the first look.
        misses: u64,
        /// Entries an eviction pass unloaded.
        evictions: u64,
        /// Unloaded entries compiled again.
        reloads: u64,
        /// New entries.
        insertions: u64,
        /// Loaded, but no longer visible on their own fork.
        lost_insertions: u64,
        /// Replacements that should not happen.
        replacements: u64,
        /// Evicted entries used once.
        one_hit_wonders: u64,
        /// Entries dropped for age. Since 4.4.0.
        prunes_stale: u64,
        /// Entries dropped because the root moved.
        prunes_orphan: u64,
        /// Entries dropped because the runtime environment changed.
        prunes_environment: u64,
        /// Program ids left without a version by pruning.
        empty_entries: u64,
        /// Compiled entries at the start of an eviction pass; 0 in a point without one.
        water_level: u64,
    }
}

point! {
    /// `replay-slot-stats`: one completed bank, times in microseconds.
    ReplaySlotPoint in "replay_slot_point" {
        /// The bank's slot.
        slot: u64,
        /// In entries, votes and failures included.
        total_transactions: u64,
        /// Entries replayed, ticks included.
        total_entries: u64,
        /// Shreds replayed.
        total_shreds: u64,
        /// From the bank's creation to its completion, waiting included.
        replay_total_elapsed_us: u64,
        /// Completing the bank.
        bank_complete_us: u64,
        /// Only with the unified scheduler.
        confirmation_without_replay_us: u64,
        /// Only with the unified scheduler.
        task_submission_us: u64,
        /// Only with the blockstore processor.
        confirmation_us: u64,
        /// Program cache, summed over threads. Before 2.1 also `filter_executable`.
        program_cache_us: u64,
        /// Finding the programs of a transaction. Since 2.1.
        filter_executable_us: u64,
        /// Loading accounts.
        load_us: u64,
        /// Executing.
        execute_us: u64,
        /// Storing accounts.
        store_us: u64,
        /// Compilation: registering syscalls.
        register_syscalls_us: u64,
        /// Compilation: reading the ELF file.
        load_elf_us: u64,
        /// Compilation: verifying.
        verify_code_us: u64,
        /// Compilation: generating machine code.
        jit_compile_us: u64,
    }
}

point! {
    /// `bank-forks_set_root`: the root moved.
    SetRootPoint in "set_root_point" {
        /// The new root.
        slot: u64,
        /// Transactions between the two roots.
        tx_count: u64,
        /// How long it took.
        elapsed_ms: u64,
        /// Live banks before.
        total_banks: u64,
        /// Banks dropped.
        dropped_banks: u64,
    }
}

point! {
    /// `program-cache-times`: what the program cache did since the root before; only of an instrumented build.
    CacheTimesPoint in "cache_times_point" {
        /// The new root.
        slot: u64,
        /// Pruning.
        prune_us: u64,
        /// How often. At a root with 0, `prune_us` is not the time of a prune.
        prunes: u64,
        /// Eviction passes, by all threads.
        evict_us: u64,
        /// How many.
        evict_passes: u64,
        /// Entries that they looked at.
        evict_examined: u64,
    }
}

point! {
    /// `cost_tracker_stats`: a frozen bank with at least one transaction.
    CostTrackerPoint in "cost_tracker_point" {
        /// The bank's slot.
        bank_slot: u64,
        /// In the block, votes included.
        transaction_count: u64,
        /// Compute units.
        block_cost: u64,
        /// Compute units of votes. Until 3.x.
        vote_cost: u64,
        /// Whether this node produced the block. Since 3.0.
        is_leader: bool,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    ProgramCache(ProgramCachePoint),
    ReplaySlot(ReplaySlotPoint),
    SetRoot(SetRootPoint),
    CacheTimes(CacheTimesPoint),
    CostTracker(CostTrackerPoint),
}
