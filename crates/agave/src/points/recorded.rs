//! The datapoints that a recording stores, with the fields that it stores.

/// Calls the macro `$types` with the declarations below, followed by `$more`.
///
/// A declaration has the datapoint's name, its Rust type, its table in a recording and its fields.
/// The parser, the table's columns and their reader are generated from it. The first line of a
/// field's comment is the column's description in docs/RECORDING.md.
#[macro_export]
macro_rules! recorded_datapoints {
    ($types:ident $($more:tt)*) => {
        $types! {
            /// `loaded-programs-cache-stats`: deltas since the previous point.
            /// They include replay, block production and simulation, which share one cache. Forks and
            /// parallel banks may report a slot twice: sum all points.
            "loaded-programs-cache-stats" => ProgramCache in "program_cache_point" {
                /// The parent slot of the bank whose creation caused the report.
                slot: u64,
                /// Lookups of a usable program; too high before 4.4.0.
                /// Before 4.4.0 it also counts builtins, and hits of earlier lookups in a batch.
                hits: u64,
                /// Lookups of a program that was not usable.
                /// It is absent, unloaded, or compiled for another environment. Several threads may miss
                /// a program that only one compiles. Deployments and new epochs compile without a miss.
                misses: u64,
                /// Entries that an eviction pass unloaded.
                evictions: u64,
                /// Unloaded entries that were compiled again.
                /// The best sign of a cache that is too small.
                reloads: u64,
                /// New entries.
                /// By first loads, deployments, tombstones (entries without code) and new epochs.
                insertions: u64,
                /// Entries that were loaded, but are not visible on their own fork.
                lost_insertions: u64,
                /// Unexpected replacements of an entry: an error of the validator.
                replacements: u64 = "replace_entry",
                /// Evicted entries that were used only once.
                one_hit_wonders: u64,
                /// Entries without code that were dropped because nothing used them for long. Since 4.4.0.
                prunes_stale: u64,
                /// Entries dropped because the root moved.
                prunes_orphan: u64,
                /// Entries dropped because the runtime environment changed.
                prunes_environment: u64,
                /// Programs of which pruning left no entry.
                empty_entries: u64,
                /// Compiled entries at the start of an eviction pass; 0 without such a pass.
                water_level: u64,
            }

            /// `replay-slot-stats`: one completed bank, times in microseconds.
            /// A slot may be replayed several times, with a bank and a point each. Execution times
            /// are sums over threads, so they may exceed the slot's time. In a slot that this node
            /// led, counts and execution times are 0.
            "replay-slot-stats" => ReplaySlot in "replay_slot_point" {
                /// The bank's slot.
                slot: u64,
                /// Transactions, including votes and failed ones.
                total_transactions: u64,
                /// Entries of the ledger, including ticks.
                total_entries: u64,
                /// Shreds of the slot.
                total_shreds: u64,
                /// From the bank's creation to its completion, including waits.
                replay_total_elapsed_us: u64 = "replay_total_elapsed",
                /// Completion of the bank.
                bank_complete_us: u64 = "bank_complete_time_us",
                /// Confirmation without replay; only with the unified scheduler.
                confirmation_without_replay_us: u64,
                /// Submission of tasks; only with the unified scheduler.
                task_submission_us: u64,
                /// Confirmation; only with the blockstore processor.
                confirmation_us: u64 = "confirmation_time_us",
                /// Program cache: lookups, compilation, waits for compilation. Before 2.1 also `filter_executable`.
                program_cache_us: u64,
                /// Search for the programs of a transaction. Since 2.1.
                filter_executable_us: u64,
                /// Loads of accounts.
                load_us: u64,
                /// Execution.
                execute_us: u64,
                /// Stores of accounts.
                store_us: u64,
                /// Compilation: registration of syscalls.
                register_syscalls_us: u64 = "execute_details_create_executor_register_syscalls_us",
                /// Compilation: reading the ELF file.
                load_elf_us: u64 = "execute_details_create_executor_load_elf_us",
                /// Compilation: verification.
                verify_code_us: u64 = "execute_details_create_executor_verify_code_us",
                /// Compilation: generation of machine code.
                jit_compile_us: u64 = "execute_details_create_executor_jit_compile_us",
            }

            /// `bank-forks_set_root`: the root advanced.
            "bank-forks_set_root" => SetRoot in "set_root_point" {
                /// The new root.
                slot: u64,
                /// Transactions between the two roots.
                /// Including votes and failed transactions.
                tx_count: u64,
                /// Duration of the root's update.
                elapsed_ms: u64,
                /// Banks in memory before the update.
                total_banks: u64,
                /// Banks that the update dropped.
                dropped_banks: u64 = "dropped_banks_len",
            }

            /// `cost_tracker_stats`: a frozen bank with at least one transaction.
            /// This node replayed or produced the bank. A slot may have several banks: a sum over slots
            /// adds the highest count of each slot.
            "cost_tracker_stats" => CostTracker in "cost_tracker_point" {
                /// The bank's slot.
                bank_slot: u64,
                /// Transactions in the block, including votes.
                transaction_count: u64,
                /// Compute units of the block.
                block_cost: u64,
                /// Compute units of votes. Until 3.x.
                vote_cost: u64,
                /// Whether this node produced the block. Since 3.0.
                is_leader: bool,
            }

            /// `program-cache-times`: work of the program cache since the previous root; only of an instrumented build.
            /// `scripts/install-agave --instrumented` makes such a build.
            "program-cache-times" => CacheTimes in "cache_times_point" {
                /// The new root.
                slot: u64,
                /// Time of prunes.
                prune_us: u64,
                /// Number of prunes. If it is 0, `prune_us` is not the time of a prune.
                prunes: u64,
                /// Time of eviction passes, summed over threads.
                evict_us: u64,
                /// Number of eviction passes.
                evict_passes: u64,
                /// Entries that eviction passes examined.
                evict_examined: u64,
            }
            $($more)*
        }
    };
}
