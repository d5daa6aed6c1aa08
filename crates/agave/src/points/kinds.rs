//! The known datapoints, one table each.

use super::fields::{Datapoint, FieldValue, FromField, datapoint};

datapoint! {
    /// Deltas since the previous report, by all users of the process's one cache: replay, block production, simulation.
    /// Sum every point; forks and parallel banks may report the same slot twice.
    ProgramCache {
        /// The parent slot of the bank whose creation reported.
        slot: u64 = "slot",
        /// Not comparable across versions: before 4.4.0 it counts builtins and earlier finds as well.
        hits: u64 = "hits",
        /// Programs absent, unloaded, or built for another environment at the first look. At least the compilations.
        misses: u64 = "misses",
        /// Entries an eviction pass unloaded.
        evictions: u64 = "evictions",
        /// Unloaded entries compiled again: the best sign of thrashing.
        reloads: u64 = "reloads",
        /// New entries: first loads, deployments, tombstones, recompilations for a new epoch.
        insertions: u64 = "insertions",
        /// Loaded, but no longer visible on their own fork.
        lost_insertions: u64 = "lost_insertions",
        /// Replacements that should not happen.
        replacements: u64 = "replace_entry",
        /// Evicted entries used once.
        one_hit_wonders: u64 = "one_hit_wonders",
        /// Tombstones and unloaded entries dropped for age. Since 4.4.0.
        prunes_stale: u64 = "prunes_stale",
        /// Entries dropped because the root moved.
        prunes_orphan: u64 = "prunes_orphan",
        /// Entries dropped because the runtime environment changed with the epoch.
        prunes_environment: u64 = "prunes_environment",
        /// Program ids left without a version by pruning.
        empty_entries: u64 = "empty_entries",
        /// Compiled entries at the start of an eviction pass; 0 in a report without one, so only a non-zero value says
        /// how many there are: see [`ProgramCache::loaded_entries`].
        water_level: u64 = "water_level",
    }
}

impl ProgramCache {
    /// Compiled entries when the last eviction pass began. `None` if this report saw no pass.
    pub fn loaded_entries(&self) -> Option<u64> {
        self.water_level.filter(|&level| level != 0)
    }
}

datapoint! {
    /// One completed bank. Times are microseconds; those of the execution are sums over threads and may exceed the slot's.
    /// All counts and execution times are 0 for the node's own leader slots.
    ReplaySlot {
        /// The bank's slot.
        slot: u64 = "slot",
        /// In entries, votes and failures included.
        total_transactions: u64 = "total_transactions",
        /// Entries replayed, ticks included.
        total_entries: u64 = "total_entries",
        total_shreds: u64 = "total_shreds",
        /// From the bank's creation to its completion, waiting included.
        replay_total_elapsed_us: u64 = "replay_total_elapsed",
        bank_complete_us: u64 = "bank_complete_time_us",
        /// Only with the unified scheduler.
        confirmation_without_replay_us: u64 = "confirmation_without_replay_us",
        /// Only with the unified scheduler.
        task_submission_us: u64 = "task_submission_us",
        /// Only with the blockstore processor.
        confirmation_us: u64 = "confirmation_time_us",
        /// Lookups, waiting for another thread's compilation, own compilation. Before 2.1 also `filter_executable`.
        program_cache_us: u64 = "program_cache_us",
        /// Finding the programs of a transaction. Since 2.1.
        filter_executable_us: u64 = "filter_executable_us",
        load_us: u64 = "load_us",
        execute_us: u64 = "execute_us",
        store_us: u64 = "store_us",
        register_syscalls_us: u64 = "execute_details_create_executor_register_syscalls_us",
        /// Compilation: reading the ELF file.
        load_elf_us: u64 = "execute_details_create_executor_load_elf_us",
        verify_code_us: u64 = "execute_details_create_executor_verify_code_us",
        /// Compilation: generating machine code.
        jit_compile_us: u64 = "execute_details_create_executor_jit_compile_us",
    }
}

impl ReplaySlot {
    /// Whether this node produced the slot itself: then nothing was replayed and every time but the total is 0. A
    /// replayed slot has at least its tick entries. `None` if the point does not tell.
    pub fn is_own_slot(&self) -> Option<bool> {
        Some(self.total_transactions? == 0 && self.total_entries? == 0 && self.total_shreds? == 0)
    }
}

datapoint! {
    /// The root moved from one slot to another.
    SetRoot {
        slot: u64 = "slot",
        /// Transactions between the two roots, votes and failures included.
        tx_count: u64 = "tx_count",
        /// How long it took.
        elapsed_ms: u64 = "elapsed_ms",
        total_banks: u64 = "total_banks",
        dropped_banks: u64 = "dropped_banks_len",
    }
}

datapoint! {
    /// A frozen bank with at least one transaction, replayed or own. Forks count twice.
    CostTracker {
        /// The bank's slot.
        bank_slot: u64 = "bank_slot",
        /// In the block, votes included.
        transaction_count: u64 = "transaction_count",
        block_cost: u64 = "block_cost",
        /// Compute units of votes. Until 3.x.
        vote_cost: u64 = "vote_cost",
    }
    tags {
        /// Whether this node produced the block. Since 3.0.
        is_leader = "is_leader",
    }
}

datapoint! {
    BankFrozen {
        /// Its slot.
        slot: u64 = "slot",
    }
}

datapoint! {
    /// A slot the cluster confirmed optimistically, as heard from gossip votes, also on nodes that do not vote.
    OptimisticSlot {
        /// The slot.
        slot: u64 = "slot",
    }
}

datapoint! {
    /// A slot whose shreds are all here.
    ShredInsertIsFull {
        /// The slot.
        slot: u64 = "slot",
        /// From the first shred to the last, in ms.
        total_time_ms: u64 = "total_time_ms",
        /// Shreds that repair brought.
        num_repaired: u64 = "num_repaired",
        /// Shreds that erasure coding recovered.
        num_recovered: u64 = "num_recovered",
    }
}

datapoint! {
    /// The metrics agent about the push this point ends.
    AgentStats {
        /// Points in the push.
        points_written: u64 = "points_written",
        num_points: u64 = "num_points",
        /// Points dropped for exceeding the agent's rate limit.
        points_lost: u64 = "points_lost",
        /// Points waiting when the push was cut.
        points_buffered: u64 = "points_buffered",
        /// Whole seconds since the previous push.
        secs_since_last_write: u64 = "secs_since_last_write",
    }
}

datapoint! {
    /// Start-up is complete.
    ValidatorNew {
        /// The identity's public key.
        id: String = "id",
        /// For [`Version::parse`](crate::version::Version::parse).
        version: String = "version",
        /// Agave's number of the cluster type: 0 testnet, 1 mainnet-beta, 2 devnet, 3 development.
        cluster_type: u64 = "cluster_type",
        /// How long the start took.
        elapsed_ms: u64 = "elapsed_ms",
        /// Whether it waited for a cluster restart.
        waited_for_supermajority: bool = "waited_for_supermajority",
        /// The cluster's shred version.
        shred_version: u64 = "shred_version",
    }
}

datapoint! {
    /// The identity was set while the validator ran. Pushed under the new one.
    SetIdentity {
        /// The public key before. 4.2 tells it.
        old_id: String = "old_id",
        /// The public key now. Nodes that do not tell the old one call it `id`.
        new_id: String = "new_id" | "id",
        /// For [`Version::parse`](crate::version::Version::parse).
        version: String = "version",
    }
}

datapoint! {
    /// What the program cache did since the root before. Only of a build by `scripts/install-agave --instrumented`.
    CacheTimes {
        slot: u64 = "slot",
        prune_us: u64 = "prune_us",
        prunes: u64 = "prunes",
        /// Eviction passes, by all threads.
        evict_us: u64 = "evict_us",
        evict_passes: u64 = "evict_passes",
        /// Entries that they looked at.
        evict_examined: u64 = "evict_examined",
    }
}

datapoint! {
    /// A background job of the accounts database began or ended: how many of its kind run now. One field a point.
    AccountsActive {
        /// Cleaning of old versions.
        clean: u64 = "clean",
        /// Shrinking of files that are mostly dead.
        shrink: u64 = "shrink",
        /// Squashing of old files into one.
        squash_ancient: u64 = "squash_ancient",
        /// Flushing of the write cache.
        flush: u64 = "flush",
        /// Calculation of the accounts hash. Until 2.3.
        hash: u64 = "hash",
    }
}

datapoint! {
    /// A vote of this node.
    TowerVote {
        /// The slot voted for.
        latest: u64 = "latest",
        root: u64 = "root",
    }
}

datapoint! {
    /// What the cluster has committed, as this node sees it.
    BlockCommitmentCache {
        highest_super_majority_root: u64 = "highest-super-majority-root",
        highest_confirmed_slot: u64 = "highest-confirmed-slot",
    }
}

datapoint! {
    /// The event loop of Alpenglow's voting, every 10 s. It waits for the end of the migration. Since 4.2.2.
    EventHandlerStats {
        /// Events that were ignored.
        ignored: u64 = "ignored",
    }
}

datapoint! {
    /// A root has activated the feature of Alpenglow, some thousand slots before the migration. Once, live. Since 4.2.2.
    MigrationStarted {
        /// From this slot on blocks hold only votes.
        migration_slot: u64 = "migration_slot",
    }
}

datapoint! {
    /// Alpenglow runs. Once, live. Since 4.2.2.
    MigrationComplete {
        /// The last slot before Alpenglow.
        genesis_slot: u64 = "genesis_slot",
    }
}
