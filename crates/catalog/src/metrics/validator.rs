//! What the validator says of itself.

use crate::TIME_BOUNDS;
use crate::metric::section;

section! {
    "Validator", "From the validator's own datapoints (pushed to the daemon, or read from its log), JSON-RPC and admin socket. Deltas that the validator reports and resets are summed: these counters live as long as the daemon and never fall, a restart of the validator included. Datapoints arrive in batches about every 10 s.";
    TRANSACTIONS = Counter, Count, "agave_transactions_total" [] "Transactions processed (votes and failed ones included) since the daemon began to count.", from "growth of getEpochInfo(processed).transactionCount above the highest value seen within one process: a fork switch backwards adds nothing twice";
    BANK_TRANSACTIONS = Gauge, Count, "agave_bank_transactions" [] "Transactions since genesis in the processed bank; falls when a restart loads an older snapshot.", from "getEpochInfo(processed).transactionCount";
    BLOCK_TRANSACTIONS = Counter, Count, "agave_block_transactions_total" ["leader"] "Transactions in frozen banks, forks counted each; leader tells whether this validator made the block.", from "transaction_count of cost_tracker_stats; is_leader since 3.0, unknown before";
    ROOTED_TRANSACTIONS = Counter, Count, "agave_rooted_transactions_total" [] "Transactions that became rooted.", from "tx_count of bank-forks_set_root";
    REPLAYED_TRANSACTIONS = Counter, Count, "agave_replayed_transactions_total" [] "Transactions replayed from other validators' blocks.", from "total_transactions of replay-slot-stats";
    SLOT = Gauge, Count, "agave_slot" ["kind"] "The newest slot of each kind: processed, confirmed, finalized, root, optimistic (cluster-confirmed as heard in votes), shred (fully received).", from "getSlot at three commitments; bank_frozen, bank-forks_set_root, optimistic_slot, shred_insert_is_full";
    SLOTS_BEHIND = Gauge, Count, "agave_slots_behind" [] "Slots between the tip of the cluster and this validator; absent unless tip and own slot are known from one source at one moment.", from "getMaxShredInsertSlot minus processed slot (full RPC API), else the larger of optimistic and received slot minus the newest frozen one in one push";
    HEALTHY = Gauge, Flag, "agave_healthy" [] "1 if the validator calls itself healthy, 0 if not; absent when it does not answer.", from "getHealth";
    PHASE = Gauge, Flag, "agave_phase" ["phase"] "1 for the phase the validator is in, 0 for all others. All are 0 while a living validator that told how far it is has been silent for a minute or two: the phase is then not known.", from "startProgress of the admin socket, JSON-RPC, distance to the tip";
    PHASE_SECONDS = Counter, Seconds, "agave_phase_seconds_total" ["phase"] "Time spent in each phase since the daemon started. Time in which the phase was not known is in none.", from "the phase, summed tick by tick";
    KEPT_UP = Gauge, Flag, "agave_kept_up" [] "1 if the validator was at the tip for 99 % of the time since this process was first there, 0 if not; absent before, and while time of which nothing is known could decide it.", from "the phase, summed tick by tick";
    ZERO_TPS = Counter, Seconds, "agave_zero_tps_seconds_total" [] "Seconds, from the first execution on, whose datapoints arrived and carry no transaction.", from "timestamps of cost_tracker_stats, within the time covered by pushes";
    TPS_UNKNOWN = Counter, Seconds, "agave_tps_unknown_seconds_total" [] "Seconds, from the first execution on, of which no datapoints arrived.", from "gaps between metrics points";
    OWN_SLOTS = Counter, Count, "agave_own_slots_total" [] "Slots this validator led: they are in no replay histogram.", from "replay-slot-stats with no transactions, no entries and no shreds: an empty replayed slot has entries";
    CACHE_HITS = Counter, Count, "agave_program_cache_hits_total" [] "Program cache hits as the validator counts them; before 4.4.0 inflated and not to be set against misses.", from "hits of loaded-programs-cache-stats, summed";
    CACHE_MISSES = Counter, Count, "agave_program_cache_misses_total" [] "Programs not usable in the cache at the first look; several threads that miss the same program count each.", from "misses of loaded-programs-cache-stats, summed";
    CACHE_EVICTIONS = Counter, Count, "agave_program_cache_evictions_total" [] "Compiled programs unloaded to make room.", from "evictions of loaded-programs-cache-stats, summed";
    CACHE_RELOADS = Counter, Count, "agave_program_cache_reloads_total" [] "Programs compiled again after an eviction: the sign that the cache is too small.", from "reloads of loaded-programs-cache-stats, summed";
    CACHE_INSERTIONS = Counter, Count, "agave_program_cache_insertions_total" [] "New programs or versions put into the cache.", from "insertions of loaded-programs-cache-stats, summed";
    CACHE_LOST_INSERTIONS = Counter, Count, "agave_program_cache_lost_insertions_total" [] "Programs loaded but no longer visible on their fork.", from "lost_insertions of loaded-programs-cache-stats, summed";
    CACHE_REPLACEMENTS = Counter, Count, "agave_program_cache_replacements_total" [] "Unexpected replacements in the cache; should stay 0.", from "replace_entry of loaded-programs-cache-stats, summed";
    CACHE_ONE_HIT_WONDERS = Counter, Count, "agave_program_cache_one_hit_wonders_total" [] "Evicted programs that had been used exactly once.", from "one_hit_wonders of loaded-programs-cache-stats, summed";
    CACHE_PRUNES_ORPHAN = Counter, Count, "agave_program_cache_prunes_orphan_total" [] "Entries removed when the root moved past them.", from "prunes_orphan of loaded-programs-cache-stats, summed";
    CACHE_PRUNES_ENVIRONMENT = Counter, Count, "agave_program_cache_prunes_environment_total" [] "Entries removed because the runtime environment changed at an epoch boundary.", from "prunes_environment of loaded-programs-cache-stats, summed";
    CACHE_PRUNES_STALE = Counter, Count, "agave_program_cache_prunes_stale_total" [] "Tombstones and unloaded entries removed because unused; absent before Agave 4.4.0.", from "prunes_stale of loaded-programs-cache-stats, summed";
    CACHE_EMPTY_ENTRIES = Counter, Count, "agave_program_cache_empty_entries_total" [] "Program ids left without any version after pruning.", from "empty_entries of loaded-programs-cache-stats, summed";
    CACHE_LOADED = Gauge, Count, "agave_program_cache_loaded_entries" [] "Compiled programs in the cache at the last eviction pass; absent until there was one.", from "last non-zero water_level of loaded-programs-cache-stats";
    CACHE_CAPACITY = Gauge, Count, "agave_program_cache_capacity_entries" ["kind"] "Capacity of the program cache: configured (by version, or as configuration says), observed (from the level at which eviction passes begin; absent until one evicted).", from "version table or configuration; the lowest water_level that came with evictions is one above the shrink target";
    CACHE_SHRINK_TARGET = Gauge, Count, "agave_program_cache_shrink_target_entries" ["kind"] "The level an eviction pass shrinks the cache to: 90 % of the capacity.", from "the capacity of the same kind, rounded down";
    CACHE_TIME = Histogram(&TIME_BOUNDS), Seconds, "agave_program_cache_time_seconds" ["path"] "Program cache time per replayed slot, summed over threads: it can exceed the slot's wall time.", from "program_cache_us of replay-slot-stats (2.0: filter_executable included)";
    PROGRAM_LOAD = Counter, Seconds, "agave_program_load_seconds_total" ["stage"] "Time spent loading programs in replay, by stage.", from "execute_details_create_executor_*_us of replay-slot-stats";
    CACHE_PRUNE = Histogram(&TIME_BOUNDS), Seconds, "agave_program_cache_prune_seconds" [] "Time of pruning the program cache; only from an instrumented build.", from "the stock program_cache_prune_ms of bank-forks_set_root is not a prune time in any version and is not used";
    REPLAY_TIME = Histogram(&TIME_BOUNDS), Seconds, "agave_replay_slot_seconds" ["part"] "Time per replayed slot: total is wall time of the replay, the parts are summed over threads.", from "replay_total_elapsed, load_us, execute_us, store_us, program_cache_us of replay-slot-stats";
    HEAP = Gauge, Bytes, "agave_heap_bytes" ["kind"] "The validator's heap as its allocator sees it (Agave 4.x).", from "jemalloc_stats";
    READ_CACHE_HITS = Counter, Count, "agave_read_cache_hits_total" [] "Accounts found in the read cache.", from "read_only_accounts_cache_hits of accounts_db_store_timings, summed";
    READ_CACHE_MISSES = Counter, Count, "agave_read_cache_misses_total" [] "Accounts not found in the read cache.", from "read_only_accounts_cache_misses of accounts_db_store_timings, summed";
    READ_CACHE_EVICTIONS = Counter, Count, "agave_read_cache_evictions_total" [] "Accounts dropped from the read cache to make room.", from "read_only_accounts_cache_evicts of accounts_db_store_timings, summed";
    READ_CACHE_BYTES = Gauge, Bytes, "agave_read_cache_bytes" [] "Size of the accounts read cache.", from "read_only_accounts_cache_data_size of accounts_db_store_timings";
    WRITE_CACHE_BYTES = Gauge, Bytes, "agave_write_cache_bytes" [] "Size of the accounts write cache.", from "total_size of accounts_cache_size";
    INDEX_ENTRIES = Gauge, Count, "agave_accounts_index_entries" [] "Entries of the accounts index.", from "count of accounts_index and accounts_index_startup";
    INDEX_BYTES = Gauge, Bytes, "agave_accounts_index_bytes" [] "Estimated memory of the accounts index, hash map overhead excluded.", from "estimate_mem_bytes of accounts_index and accounts_index_startup";
    STORAGES = Gauge, Count, "agave_accounts_storages" [] "Account storage files: about one memory mapping each on mmap versions (before 2.2), one descriptor each after.", from "total_count of accounts_db-stores";
    DATAPOINT = Gauge, AsReported, "agave_datapoint" ["name", "field"] "A level from a datapoint that the configuration allows by name.", from "any datapoint; see datapoints.allow in the configuration";
    DATAPOINT_SUM = Counter, AsReported, "agave_datapoint_sum_total" ["name", "field"] "The sum of a delta from a datapoint that the configuration allows by name.", from "any datapoint; see datapoints.allow in the configuration";
}
