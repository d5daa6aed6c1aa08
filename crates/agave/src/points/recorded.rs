//! The datapoints that recordings keep whole.

/// Gives `$types` every datapoint that recordings keep whole, with its name and its table there,
/// then `$more`: `$types` makes a type of each. One line declares a field for the parser, the
/// recording's column and its reader; the first line of its comment says in docs/RECORDING.md what
/// the column is.
#[macro_export]
macro_rules! recorded_datapoints {
    ($types:ident $($more:tt)*) => {
        $types! {
            /// `loaded-programs-cache-stats`: deltas since the previous point.
            /// By all users of the process's one cache: replay, block production, simulation. Sum
            /// every point; forks and parallel banks may report the same slot twice.
            "loaded-programs-cache-stats" => ProgramCache in "program_cache_point" {
                /// The parent slot of the bank whose creation reported.
                slot: u64 = "slot",
                /// Inflated before 4.4.0.
                /// Then it counts builtins and earlier finds as well.
                hits: u64 = "hits",
                /// Programs not usable at the first look.
                /// They are absent, unloaded, or built for another environment. At least the
                /// compilations.
                misses: u64 = "misses",
                /// Entries an eviction pass unloaded.
                evictions: u64 = "evictions",
                /// Unloaded entries compiled again.
                /// The best sign of thrashing.
                reloads: u64 = "reloads",
                /// New entries.
                /// First loads, deployments, tombstones, recompilations for a new epoch.
                insertions: u64 = "insertions",
                /// Loaded, but no longer visible on their own fork.
                lost_insertions: u64 = "lost_insertions",
                /// Replacements that should not happen.
                replacements: u64 = "replace_entry",
                /// Evicted entries used once.
                one_hit_wonders: u64 = "one_hit_wonders",
                /// Entries dropped for age. Since 4.4.0.
                prunes_stale: u64 = "prunes_stale",
                /// Entries dropped because the root moved.
                prunes_orphan: u64 = "prunes_orphan",
                /// Entries dropped because the runtime environment changed.
                prunes_environment: u64 = "prunes_environment",
                /// Program ids left without a version by pruning.
                empty_entries: u64 = "empty_entries",
                /// Compiled entries at the start of an eviction pass; 0 in a point without one.
                /// Only a non-zero value says how many there are.
                water_level: u64 = "water_level",
            }

            /// `replay-slot-stats`: one completed bank, times in microseconds.
            /// A slot may come again with another bank: each is work. Times of the execution are
            /// sums over threads and may exceed the slot's. All counts and execution times are 0
            /// for the node's own leader slots.
            "replay-slot-stats" => ReplaySlot in "replay_slot_point" {
                /// The bank's slot.
                slot: u64 = "slot",
                /// In entries, votes and failures included.
                total_transactions: u64 = "total_transactions",
                /// Entries replayed, ticks included.
                total_entries: u64 = "total_entries",
                /// Shreds replayed.
                total_shreds: u64 = "total_shreds",
                /// From the bank's creation to its completion, waiting included.
                replay_total_elapsed_us: u64 = "replay_total_elapsed",
                /// Completing the bank.
                bank_complete_us: u64 = "bank_complete_time_us",
                /// Only with the unified scheduler.
                confirmation_without_replay_us: u64 = "confirmation_without_replay_us",
                /// Only with the unified scheduler.
                task_submission_us: u64 = "task_submission_us",
                /// Only with the blockstore processor.
                confirmation_us: u64 = "confirmation_time_us",
                /// Program cache, summed over threads. Before 2.1 also `filter_executable`.
                /// Lookups, waiting for another thread's compilation, own compilation.
                program_cache_us: u64 = "program_cache_us",
                /// Finding the programs of a transaction. Since 2.1.
                filter_executable_us: u64 = "filter_executable_us",
                /// Loading accounts.
                load_us: u64 = "load_us",
                /// Executing.
                execute_us: u64 = "execute_us",
                /// Storing accounts.
                store_us: u64 = "store_us",
                /// Compilation: registering syscalls.
                register_syscalls_us: u64 = "execute_details_create_executor_register_syscalls_us",
                /// Compilation: reading the ELF file.
                load_elf_us: u64 = "execute_details_create_executor_load_elf_us",
                /// Compilation: verifying.
                verify_code_us: u64 = "execute_details_create_executor_verify_code_us",
                /// Compilation: generating machine code.
                jit_compile_us: u64 = "execute_details_create_executor_jit_compile_us",
            }

            /// `bank-forks_set_root`: the root moved.
            "bank-forks_set_root" => SetRoot in "set_root_point" {
                /// The new root.
                slot: u64 = "slot",
                /// Transactions between the two roots.
                /// Votes and failures included.
                tx_count: u64 = "tx_count",
                /// How long it took.
                elapsed_ms: u64 = "elapsed_ms",
                /// Live banks before.
                total_banks: u64 = "total_banks",
                /// Banks dropped.
                dropped_banks: u64 = "dropped_banks_len",
            }

            /// `cost_tracker_stats`: a frozen bank with at least one transaction.
            /// Replayed or own. A slot may come again with another bank: add only what exceeds its
            /// highest count.
            "cost_tracker_stats" => CostTracker in "cost_tracker_point" {
                /// The bank's slot.
                bank_slot: u64 = "bank_slot",
                /// In the block, votes included.
                transaction_count: u64 = "transaction_count",
                /// Compute units.
                block_cost: u64 = "block_cost",
                /// Compute units of votes. Until 3.x.
                vote_cost: u64 = "vote_cost",
                /// Whether this node produced the block. Since 3.0.
                is_leader: bool = "is_leader",
            }

            /// `program-cache-times`: what the program cache did since the root before; only of an instrumented build.
            /// Such a build is made by `scripts/install-agave --instrumented`.
            "program-cache-times" => CacheTimes in "cache_times_point" {
                /// The new root.
                slot: u64 = "slot",
                /// Pruning.
                prune_us: u64 = "prune_us",
                /// How often. At a root with 0, `prune_us` is not the time of a prune.
                prunes: u64 = "prunes",
                /// Eviction passes, by all threads.
                evict_us: u64 = "evict_us",
                /// How many.
                evict_passes: u64 = "evict_passes",
                /// Entries that they looked at.
                evict_examined: u64 = "evict_examined",
            }
            $($more)*
        }
    };
}
