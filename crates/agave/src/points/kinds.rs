use super::fields::{Datapoint, FieldValue, FromField, datapoint};

datapoint! {
    /// Deltas since the previous report. Replay, block production and simulation share the
    /// process's one cache. Sum every point; forks and parallel banks may report the same slot
    /// twice.
    ProgramCache {
        /// Parent slot of the bank whose creation sent this report.
        slot: u64 = "slot",
        /// Not comparable across versions: before 4.4.0 it also counts builtins and repeated finds.
        hits: u64 = "hits",
        /// Programs absent, unloaded, or built for another environment at first lookup. At least
        /// the compilations.
        misses: u64 = "misses",
        evictions: u64 = "evictions",
        /// Unloaded entries compiled again: the best sign of thrashing.
        reloads: u64 = "reloads",
        /// New entries: first loads, deployments, tombstones, recompilations for a new epoch.
        insertions: u64 = "insertions",
        lost_insertions: u64 = "lost_insertions",
        replacements: u64 = "replace_entry",
        /// Evicted entries used once.
        one_hit_wonders: u64 = "one_hit_wonders",
        /// Tombstones and unloaded entries dropped for age. Since 4.4.0.
        prunes_stale: u64 = "prunes_stale",
        prunes_orphan: u64 = "prunes_orphan",
        /// Entries dropped because the runtime environment changed with the epoch.
        prunes_environment: u64 = "prunes_environment",
        empty_entries: u64 = "empty_entries",
        /// Compiled entries at the start of an eviction pass. 0 in a report without a pass: see
        /// [`ProgramCache::loaded_entries`].
        water_level: u64 = "water_level",
    }
}

impl ProgramCache {
    /// Compiled entries at the start of the last eviction pass. `None` if this report has no pass.
    pub fn loaded_entries(&self) -> Option<u64> {
        self.water_level.filter(|&level| level != 0)
    }
}

datapoint! {
    /// One completed bank. Times are microseconds. Execution times are sums over threads and may
    /// exceed the slot's. All counts and execution times are 0 for the node's own leader slots.
    ReplaySlot {
        slot: u64 = "slot",
        /// Includes votes and failures.
        total_transactions: u64 = "total_transactions",
        /// Includes ticks.
        total_entries: u64 = "total_entries",
        total_shreds: u64 = "total_shreds",
        /// From the creation of the bank to its completion, waiting included.
        replay_total_elapsed_us: u64 = "replay_total_elapsed",
        bank_complete_us: u64 = "bank_complete_time_us",
        /// Only with the unified scheduler.
        confirmation_without_replay_us: u64 = "confirmation_without_replay_us",
        /// Only with the unified scheduler.
        task_submission_us: u64 = "task_submission_us",
        /// Only with the blockstore processor.
        confirmation_us: u64 = "confirmation_time_us",
        /// Lookups, waits for another thread's compilation, own compilation. Before 2.1 also
        /// `filter_executable`.
        program_cache_us: u64 = "program_cache_us",
        /// Search for the programs of a transaction. Since 2.1.
        filter_executable_us: u64 = "filter_executable_us",
        load_us: u64 = "load_us",
        execute_us: u64 = "execute_us",
        store_us: u64 = "store_us",
        register_syscalls_us: u64 = "execute_details_create_executor_register_syscalls_us",
        load_elf_us: u64 = "execute_details_create_executor_load_elf_us",
        verify_code_us: u64 = "execute_details_create_executor_verify_code_us",
        jit_compile_us: u64 = "execute_details_create_executor_jit_compile_us",
    }
}

impl ReplaySlot {
    /// Whether this node produced the slot. Then nothing was replayed and all times but the total
    /// are 0; a replayed slot has at least its tick entries. `None` if unknown.
    pub fn is_own_slot(&self) -> Option<bool> {
        Some(self.total_transactions? == 0 && self.total_entries? == 0 && self.total_shreds? == 0)
    }
}

datapoint! {
    SetRoot {
        slot: u64 = "slot",
        /// Transactions between the two roots, votes and failures included.
        tx_count: u64 = "tx_count",
        elapsed_ms: u64 = "elapsed_ms",
        total_banks: u64 = "total_banks",
        dropped_banks: u64 = "dropped_banks_len",
    }
}

datapoint! {
    /// A frozen bank with at least one transaction, replayed or own. Forks count twice.
    CostTracker {
        bank_slot: u64 = "bank_slot",
        /// Includes votes.
        transaction_count: u64 = "transaction_count",
        block_cost: u64 = "block_cost",
        /// Compute units. Until 3.x.
        vote_cost: u64 = "vote_cost",
    }
    tags {
        /// Whether this node produced the block. Since 3.0.
        is_leader = "is_leader",
    }
}

datapoint! {
    BankFrozen {
        slot: u64 = "slot",
    }
}

datapoint! {
    /// A slot that the cluster confirmed optimistically, from gossip votes; also on nodes that do
    /// not vote.
    OptimisticSlot {
        slot: u64 = "slot",
    }
}

datapoint! {
    ShredInsertIsFull {
        slot: u64 = "slot",
        /// From the first shred to the last, in ms.
        total_time_ms: u64 = "total_time_ms",
        num_repaired: u64 = "num_repaired",
        num_recovered: u64 = "num_recovered",
    }
}

datapoint! {
    AgentStats {
        points_written: u64 = "points_written",
        num_points: u64 = "num_points",
        points_lost: u64 = "points_lost",
        points_buffered: u64 = "points_buffered",
        secs_since_last_write: u64 = "secs_since_last_write",
    }
}

datapoint! {
    ValidatorNew {
        id: String = "id",
        version: String = "version",
        /// 0 testnet, 1 mainnet-beta, 2 devnet, 3 development.
        cluster_type: u64 = "cluster_type",
        elapsed_ms: u64 = "elapsed_ms",
        waited_for_supermajority: bool = "waited_for_supermajority",
        shred_version: u64 = "shred_version",
    }
}

datapoint! {
    /// The identity was changed at run time. Pushed under the new one.
    SetIdentity {
        /// Reported by 4.2.
        old_id: String = "old_id",
        /// Versions without `old_id` name it `id`.
        new_id: String = "new_id" | "id",
        version: String = "version",
    }
}

datapoint! {
    /// The program cache since the previous root. Only from a build by `scripts/install-agave
    /// --instrumented`.
    CacheTimes {
        slot: u64 = "slot",
        prune_us: u64 = "prune_us",
        prunes: u64 = "prunes",
        evict_us: u64 = "evict_us",
        evict_passes: u64 = "evict_passes",
        evict_examined: u64 = "evict_examined",
    }
}

datapoint! {
    /// This process's heap. 4.x; off with `--no-os-memory-stats-reporting`.
    JemallocStats {
        allocated_bytes: u64 = "allocated_bytes",
        active_bytes: u64 = "active_bytes",
        resident_bytes: u64 = "resident_bytes",
        /// Unmapped, address space retained.
        retained_bytes: u64 = "retained_bytes",
        dirty_bytes: u64 = "dirty_bytes",
    }
}

datapoint! {
    /// Repair requests of this node: deltas, every 2 s; no point if there were none.
    RepairRequests {
        shred: u64 = "shred-count",
        highest_shred: u64 = "highest-shred-count",
        orphan: u64 = "orphan-count",
    }
}

datapoint! {
    /// Shreds inserted into the blockstore: deltas, every 2 s.
    InsertedShreds {
        repaired: u64 = "num_repair",
        recovered: u64 = "num_recovered_inserted",
    }
}

datapoint! {
    /// UDP of the validator's network namespace: deltas, every 2 s; off with `--no-os-network-stats-reporting`.
    NetStats {
        receive_buffer_errors: u64 = "rcvbuf_errors_delta",
        send_buffer_errors: u64 = "sndbuf_errors_delta",
    }
}

datapoint! {
    TowerVote {
        latest: u64 = "latest",
        root: u64 = "root",
    }
}

datapoint! {
    BlockCommitmentCache {
        highest_super_majority_root: u64 = "highest-super-majority-root",
        highest_confirmed_slot: u64 = "highest-confirmed-slot",
    }
}

datapoint! {
    /// The event loop of Alpenglow's voting, every 10 s. It waits for the end of the migration. Since 4.2.2.
    EventHandlerStats {
        ignored: u64 = "ignored",
    }
}

datapoint! {
    /// A root has activated the Alpenglow feature, some thousand slots before the migration. Once,
    /// live. Since 4.2.2.
    MigrationStarted {
        /// From this slot on blocks hold only votes.
        migration_slot: u64 = "migration_slot",
    }
}

datapoint! {
    /// Alpenglow runs. Once, live. Since 4.2.2.
    MigrationComplete {
        genesis_slot: u64 = "genesis_slot",
    }
}
