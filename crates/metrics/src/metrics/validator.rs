use crate::{TIME_BOUNDS, metric::section};

section! {
    "Validator",
    "From the validator's own datapoints (pushed to the daemon, or read from its log), JSON-RPC and admin socket. The daemon sums deltas that the validator reports: these counters live as long as the daemon and never fall, also not when the validator restarts. Datapoints arrive in batches about every 10 s.";
    TRANSACTIONS = Counter, Count, "agave_transactions_total" []
        "Transactions processed (votes and failed ones included) since the daemon began to count."
        from "growth of getEpochInfo(processed).transactionCount above the highest value of the followed process, so a switch to a fork with a lower count adds nothing";
    BANK_TRANSACTIONS = Gauge, Count, "agave_bank_transactions" []
        "Transactions since genesis in the processed bank; falls at a fork switch, or when a restart loads an older snapshot."
        from "getEpochInfo(processed).transactionCount";
    BLOCK_TRANSACTIONS = Counter, Count, "agave_block_transactions_total" ["leader"]
        "Transactions in blocks, those of forks included. Another block of a replayed slot adds only its excess over the largest earlier one. leader is true if this validator produced the block."
        from "transaction_count of cost_tracker_stats, by its bank_slot; is_leader since 3.0, unknown before"
        of "cost_tracker_stats" by "bank_slot" {
            "transaction_count" where "is_leader" = "true" as "true",
            "transaction_count" where "is_leader" = "false" as "false",
            "transaction_count" where "is_leader" = "" as "unknown"
        };
    ROOTED_TRANSACTIONS = Counter, Count, "agave_rooted_transactions_total" []
        "Transactions that became rooted."
        from "tx_count of bank-forks_set_root"
        initially 0 of "bank-forks_set_root" { "tx_count" };
    REPLAYED_TRANSACTIONS = Counter, Count, "agave_replayed_transactions_total" []
        "Transactions replayed from other validators' blocks. A slot that is replayed again counts again."
        from "total_transactions of replay-slot-stats"
        initially 0 of "replay-slot-stats" { "total_transactions" };
    SLOT = Gauge, Count, "agave_slot" ["kind"]
        "The newest slot of each kind: processed (with Alpenglow the newest that the validator notarized), confirmed, finalized (with Alpenglow the same as confirmed), root, optimistic (confirmed by received votes of the cluster; with Tower only), replayed (Alpenglow only), shred (received; by points, received completely)."
        from "getEpochInfo, getSlot, getMaxShredInsertSlot; bank_frozen (for replayed, and without JSON-RPC for processed), bank-forks_set_root, optimistic_slot, shred_insert_is_full";
    SLOTS_BEHIND = Gauge, Count, "agave_slots_behind" []
        "Slots between the tip of the cluster and this validator; the tip is the newest slot that the validator itself knows. Absent after two polls of JSON-RPC without a report, or 5 s without a new tip; with pushes only, after 25 s."
        from "getMaxShredInsertSlot minus processed slot in one answer (full RPC API); if JSON-RPC does not report it, the larger of optimistic and received slot minus the newest frozen one, as of the last push. ARCHITECTURE says which source decides if they differ";
    SLOT_SECONDS = Gauge, Seconds, "agave_slot_seconds" []
        "How long a slot of the cluster takes: the mean over the last 30 to 65 s near the tip, at first over 5 to 30 s. Absent before; it stays while the validator is behind or reports nothing, and after its restart."
        from "growth of the tip that the validator knows while it is within phase.at_tip_slots; of its processed slot if no source reports the tip and getHealth says ok";
    HEALTHY = Gauge, Flag, "agave_healthy" []
        "1 if the validator calls itself healthy, 0 if not; absent when it does not answer, or does not know how far the cluster is (numSlotsBehind is null). With Tower the validator compares with the newest slot that it stored, so after a start it may say 1 although it is far behind the tip. With Alpenglow the value is absent until it saw a certificate."
        from "getHealth";
    PROBE_TIME = Histogram(&TIME_BOUNDS), Seconds, "agave_rpc_probe_seconds" ["method"]
        "How long JSON-RPC took to answer the probe's request, from sending to the last byte, a new connection included; failures are not counted here. Absent unless probe.enabled."
        from "one request per probe.interval, as a client sends it";
    PROBE_FAILURES = Counter, Count, "agave_rpc_probe_failures_total" ["method", "kind"]
        "Requests of the probe without a good answer: refused (no process listens), timeout, http (another status than 200), error (an error of JSON-RPC), malformed, too_large, connection (it broke). While the validator starts, the probe sends none."
        from "one request per probe.interval; less often after failures";
    PHASE = Gauge, Flag, "agave_phase" ["phase"]
        "1 for the phase the validator is in, 0 for all others. All are 0 while the phase is unknown: the process is stopped or frozen, or no slot has advanced for 10 s (up to 25 s if the slot is reported less often than every 4 s; 60 s without any news during a start). The phase is behind if a validator at the tip was seen not to advance for 15 s while the tip advanced."
        from "startProgress of the admin socket, JSON-RPC, distance to the tip";
    PHASE_SECONDS = Counter, Seconds, "agave_phase_seconds_total" ["phase"]
        "Time spent in each phase since the daemon started. Time counts once later evidence shows which phase it was. A pause in which the slot was seen to stand still while the tip advanced is time behind. Time without any report is in no phase, unless the phase was the same before and after it."
        from "the phase, summed from evidence to evidence";
    CONSENSUS = Gauge, Flag, "agave_consensus" ["protocol"]
        "1 for the consensus that the validator runs: tower, migrating (to Alpenglow: blocks hold only votes and nothing is rooted), alpenglow. Absent while no sign proves a consensus."
        from "the first of these signs: getAgGenesisCert, event_handler_stats, migration-complete (points or log), the migration marker in epochCredits, genesis hash and slot of a known cluster, values in epochCredits that are too large for credits of Tower; for tower or migrating: the account of the feature gate, migration-started; for tower: optimistic_slot, confirmed slots ahead of finalized ones";
    CONSENSUS_SIGN = Info, Flag, "agave_consensus_sign_info" ["sign"]
        "The sign that proved the consensus."
        from "as agave_consensus";
    ALPENGLOW_GENESIS_SLOT = Gauge, Count, "agave_alpenglow_genesis_slot" []
        "The last slot before Alpenglow; 0 where the cluster began with it. Absent while it is not known."
        from "getAgGenesisCert (needs --full-rpc-api), migration-complete, the log, a known cluster";
    MIGRATION_SLOT = Gauge, Count, "agave_migration_slot" []
        "The slot at which the migration to Alpenglow begins: from it on blocks hold only votes. Absent while it is not known."
        from "migration-started, the log, the account of the feature gate (needs --full-rpc-api)";
    KEPT_UP = Gauge, Flag, "agave_kept_up" []
        "1 if the validator was at the tip for 99 % of the time since its process first reached the tip, 0 if not. Absent before, and while the result depends on time in an unknown phase."
        from "the phase, summed from evidence to evidence";
    STALLED = Gauge, Flag, "agave_stalled" []
        "1 if the validator was at the tip and its own slot has not advanced for 15 s (up to 25 s if the slot is reported less often than every 6 s), 0 if it advances; absent if it was not at the tip when its slot advanced last."
        from "the processed slot of JSON-RPC, bank_frozen";
    ZERO_TPS = Counter, Seconds, "agave_zero_tps_seconds_total" []
        "Seconds without a transaction, of those that pushes or the log cover, from the first executed transaction of each process on. A pause of the process counts with the next push."
        from "timestamps of cost_tracker_stats and replay-slot-stats, within the time covered by pushes";
    TPS_UNKNOWN = Counter, Seconds, "agave_tps_unknown_seconds_total" []
        "Seconds that neither a push nor the log covers, or whose transactions the log filter left out, from the first executed transaction of each process on. The time between two processes is in neither counter."
        from "gaps between two points of the datapoint metrics that are longer than secs_since_last_write of the later point";
    OWN_SLOTS = Counter, Count, "agave_own_slots_total" []
        "Blocks this validator made. They are in no replay histogram, unless they are replayed later because a block before them was replaced."
        from "replay-slot-stats with no transactions, no entries and no shreds. A replayed slot without transactions has entries";
    CACHE_HITS = Counter, Count, "agave_program_cache_hits_total" []
        "Program cache hits as the validator counts them. Versions before 4.4.0 count too many: do not compare them with misses."
        from "hits of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "hits" };
    CACHE_MISSES = Counter, Count, "agave_program_cache_misses_total" []
        "Programs that a first lookup did not find usable in the cache; several threads that miss the same program count each."
        from "misses of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "misses" };
    CACHE_EVICTIONS = Counter, Count, "agave_program_cache_evictions_total" []
        "Compiled programs unloaded to free space in the program cache."
        from "evictions of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "evictions" };
    CACHE_RELOADS = Counter, Count, "agave_program_cache_reloads_total" []
        "Programs compiled again after an eviction: the sign that the cache is too small."
        from "reloads of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "reloads" };
    CACHE_INSERTIONS = Counter, Count, "agave_program_cache_insertions_total" []
        "New programs or versions put into the cache."
        from "insertions of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "insertions" };
    CACHE_LOST_INSERTIONS = Counter, Count, "agave_program_cache_lost_insertions_total" []
        "Programs loaded but no longer visible on their fork."
        from "lost_insertions of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "lost_insertions" };
    CACHE_REPLACEMENTS = Counter, Count, "agave_program_cache_replacements_total" []
        "Unexpected replacements in the cache; should stay 0."
        from "replace_entry of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "replace_entry" };
    CACHE_ONE_HIT_WONDERS = Counter, Count, "agave_program_cache_one_hit_wonders_total" []
        "Evicted programs that had been used exactly once."
        from "one_hit_wonders of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "one_hit_wonders" };
    CACHE_PRUNES_ORPHAN = Counter, Count, "agave_program_cache_prunes_orphan_total" []
        "Entries that a new root removed: superseded, or on other forks."
        from "prunes_orphan of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "prunes_orphan" };
    CACHE_PRUNES_ENVIRONMENT = Counter, Count, "agave_program_cache_prunes_environment_total" []
        "Entries removed because the runtime environment changed at an epoch boundary."
        from "prunes_environment of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "prunes_environment" };
    CACHE_PRUNES_STALE = Counter, Count, "agave_program_cache_prunes_stale_total" []
        "Tombstones and unloaded entries removed because unused; absent before Agave 4.4.0."
        from "prunes_stale of loaded-programs-cache-stats, summed"
        of "loaded-programs-cache-stats" { "prunes_stale" };
    CACHE_EMPTY_ENTRIES = Counter, Count, "agave_program_cache_empty_entries_total" []
        "Program ids left without any version after pruning."
        from "empty_entries of loaded-programs-cache-stats, summed"
        initially 0 of "loaded-programs-cache-stats" { "empty_entries" };
    CACHE_LOADED = Gauge, Count, "agave_program_cache_loaded_entries" []
        "Compiled programs in the cache at the last eviction pass; absent before the first."
        from "last non-zero water_level of loaded-programs-cache-stats";
    CACHE_CAPACITY = Gauge, Count, "agave_program_cache_capacity_entries" ["kind"]
        "Capacity of the program cache: configured (by version or configuration), observed (from the level at which eviction passes begin; absent until a pass evicted)."
        from "version table or configuration; observed: the lowest water_level with evictions, less one, is the shrink target (90 % of the capacity)";
    CACHE_SHRINK_TARGET = Gauge, Count, "agave_program_cache_shrink_target_entries" ["kind"]
        "The number of entries to which an eviction pass shrinks the cache: 90 % of the capacity."
        from "the capacity of the same kind, rounded down";
    CACHE_TIME = Histogram(&TIME_BOUNDS), Seconds, "agave_program_cache_time_seconds" ["path"]
        "Program cache time per replayed slot, summed over threads: it can exceed the slot's wall time. A slot that is replayed again counts again."
        from "program_cache_us of replay-slot-stats (2.0: filter_executable included)"
        initially 0 of "replay-slot-stats" { us "program_cache_us" as "replay" };
    PROGRAM_LOAD = Counter, Seconds, "agave_program_load_seconds_total" ["stage"]
        "Time spent loading programs in replay, by stage."
        from "execute_details_create_executor_*_us of replay-slot-stats"
        initially 0 of "replay-slot-stats" {
            us "execute_details_create_executor_register_syscalls_us" as "register_syscalls",
            us "execute_details_create_executor_load_elf_us" as "load_elf",
            us "execute_details_create_executor_verify_code_us" as "verify",
            us "execute_details_create_executor_jit_compile_us" as "jit"
        };
    CACHE_PRUNE = Histogram(&TIME_BOUNDS), Seconds, "agave_program_cache_prune_seconds" []
        "Time of pruning the program cache, once for each new root; only from an instrumented build (scripts/install-agave --instrumented)."
        from "prune_us of program-cache-times; the stock program_cache_prune_ms of bank-forks_set_root is not a prune time in any version and is not used";
    CACHE_EVICTION_PASSES = Counter, Count, "agave_program_cache_eviction_passes_total" []
        "Eviction passes over the program cache, also those that evicted nothing; only from an instrumented build."
        from "evict_passes of program-cache-times, summed"
        of "program-cache-times" { "evict_passes" };
    CACHE_EVICTION_TIME = Counter, Seconds, "agave_program_cache_eviction_seconds_total" []
        "Time of eviction passes over the program cache, summed over threads; only from an instrumented build."
        from "evict_us of program-cache-times, summed"
        of "program-cache-times" { us "evict_us" };
    CACHE_EVICTION_EXAMINED = Counter, Count, "agave_program_cache_eviction_examined_total" []
        "Entries that eviction passes over the program cache looked at; only from an instrumented build."
        from "evict_examined of program-cache-times, summed"
        of "program-cache-times" { "evict_examined" };
    REPLAY_TIME = Histogram(&TIME_BOUNDS), Seconds, "agave_replay_slot_seconds" ["part"]
        "Time per replayed slot: total is wall time including waits for shreds, the parts are summed over threads. A slot that is replayed again counts again."
        from "replay_total_elapsed, load_us, execute_us, store_us, program_cache_us of replay-slot-stats"
        initially 0 of "replay-slot-stats" {
            us "replay_total_elapsed" as "total",
            us "load_us" as "load",
            us "execute_us" as "execute",
            us "store_us" as "store",
            us "program_cache_us" as "program_cache"
        };
    HEAP = Gauge, Bytes, "agave_heap_bytes" ["kind"]
        "The validator's heap as its allocator sees it (Agave 4.x)."
        from "jemalloc_stats"
        of "jemalloc_stats" {
            "allocated_bytes" as "allocated",
            "active_bytes" as "active",
            "resident_bytes" as "resident",
            "retained_bytes" as "retained",
            "dirty_bytes" as "dirty"
        };
    READ_CACHE_HITS = Counter, Count, "agave_read_cache_hits_total" []
        "Accounts found in the read cache."
        from "read_only_accounts_cache_hits of accounts_db_store_timings, summed"
        initially 0 of "accounts_db_store_timings" { "read_only_accounts_cache_hits" };
    READ_CACHE_MISSES = Counter, Count, "agave_read_cache_misses_total" []
        "Accounts not found in the read cache."
        from "read_only_accounts_cache_misses of accounts_db_store_timings, summed"
        initially 0 of "accounts_db_store_timings" { "read_only_accounts_cache_misses" };
    READ_CACHE_EVICTIONS = Counter, Count, "agave_read_cache_evictions_total" []
        "Accounts evicted from the read cache."
        from "read_only_accounts_cache_evicts of accounts_db_store_timings, summed"
        initially 0 of "accounts_db_store_timings" { "read_only_accounts_cache_evicts" };
    READ_CACHE_TIME = Counter, Seconds, "agave_read_cache_seconds_total" ["op"]
        "Time spent in the read cache, summed over threads: load (looking accounts up, found or not), store, evict."
        from "read_only_accounts_cache_load_us and _store_us (since 4.5 _load_ns and _store_ns), _evict_us of accounts_db_store_timings, summed"
        of "accounts_db_store_timings" {
            us "read_only_accounts_cache_load_us" as "load",
            "read_only_accounts_cache_load_ns" as "load",
            us "read_only_accounts_cache_store_us" as "store",
            "read_only_accounts_cache_store_ns" as "store",
            us "read_only_accounts_cache_evict_us" as "evict"
        };
    READ_CACHE_ENTRIES = Gauge, Count, "agave_read_cache_entries" []
        "Accounts in the read cache."
        from "read_only_accounts_cache_entries of accounts_db_store_timings"
        of "accounts_db_store_timings" { "read_only_accounts_cache_entries" };
    READ_CACHE_BYTES = Gauge, Bytes, "agave_read_cache_bytes" []
        "Size of the accounts read cache."
        from "read_only_accounts_cache_data_size of accounts_db_store_timings"
        of "accounts_db_store_timings" { "read_only_accounts_cache_data_size" };
    WRITE_CACHE_BYTES = Gauge, Bytes, "agave_write_cache_bytes" []
        "Size of the accounts write cache."
        from "total_size of accounts_cache_size"
        of "accounts_cache_size" { "total_size" };
    INDEX_ENTRIES = Gauge, Count, "agave_accounts_index_entries" []
        "Entries of the accounts index."
        from "count of accounts_index and accounts_index_startup"
        of "accounts_index" | "accounts_index_startup" { "count" };
    WRITE_CACHE_FLUSHES = Counter, Count, "agave_write_cache_flushes_total" []
        "Times the accounts write cache was flushed to files; absent until the first."
        from "points of accounts_db-flush_accounts_cache"
        of "accounts_db-flush_accounts_cache" { points 1 };
    WRITE_CACHE_FLUSH_TIME = Counter, Seconds, "agave_write_cache_flush_seconds_total" []
        "Time spent flushing rooted slots of the accounts write cache to files."
        from "flush_roots_elapsed of accounts_db-flush_accounts_cache, summed"
        of "accounts_db-flush_accounts_cache" { us "flush_roots_elapsed" };
    WRITE_CACHE_FLUSHED = Counter, Bytes, "agave_write_cache_flushed_bytes_total" []
        "Bytes of accounts flushed from the write cache to files; absent before Agave 2.3."
        from "account_bytes_flushed (since 4.3 account_bytes_stored) of accounts_db-flush_accounts_cache, summed"
        of "accounts_db-flush_accounts_cache" { "account_bytes_flushed", "account_bytes_stored" };
    ACCOUNTS_LOADED = Counter, Count, "agave_accounts_loaded_total" ["from"]
        "Accounts loaded, by where they were found: write_cache, read_cache, storage (read from account files); absent before Agave 4.1."
        from "num_loaded_from_write_cache (and in 4.1 num_loaded_from_index_cache), num_loaded_from_read_cache, num_loaded_from_index_storage of accounts_db_load_accounts, summed"
        of "accounts_db_load_accounts" {
            "num_loaded_from_write_cache" as "write_cache",
            "num_loaded_from_index_cache" as "write_cache",
            "num_loaded_from_read_cache" as "read_cache",
            "num_loaded_from_index_storage" as "storage"
        };
    ACCOUNTS_JOBS = Gauge, Count, "agave_accounts_jobs_running" ["work"]
        "Background jobs of the accounts database that ran when the last push was made: clean, shrink, squash_ancient, flush, hash (until Agave 2.3); absent before the first."
        from "accounts_db_active, which comes when a job begins or ends";
    ACCOUNTS_JOB_TIME = Counter, Seconds, "agave_accounts_job_seconds_total" ["work"]
        "Time in which a background job of the accounts database ran, counted when it ends; absent before the first."
        from "timestamps of accounts_db_active, from a job's beginning to its end";
    INDEX_BYTES = Gauge, Bytes, "agave_accounts_index_bytes" []
        "Estimated memory of the accounts index: entries times their size, since Agave 3.1 with the unused capacity of its hash maps."
        from "estimate_mem_bytes of accounts_index and accounts_index_startup"
        of "accounts_index" | "accounts_index_startup" { "estimate_mem_bytes" };
    INDEX_IN_MEMORY = Gauge, Count, "agave_accounts_index_in_memory_entries" []
        "Entries of the accounts index that are held in memory; the rest is on disk."
        from "count_in_mem of accounts_index and accounts_index_startup"
        of "accounts_index" | "accounts_index_startup" { "count_in_mem" };
    INDEX_CAPACITY = Gauge, Count, "agave_accounts_index_capacity_entries" []
        "Capacity of the accounts index in memory, in entries, before its hash maps grow; absent before Agave 3.1."
        from "capacity_in_mem of accounts_index and accounts_index_startup"
        of "accounts_index" | "accounts_index_startup" { "capacity_in_mem" };
    INDEX_LOOKUPS = Counter, Count, "agave_accounts_index_lookups_total" ["result"]
        "Accesses to the part of the accounts index that is in memory (lookups, stores, and since Agave 4.1 writes to disk), by result: found, missing (the key is on disk, or no account has it). Since 4.1 not comparable between runs with and without an index on disk."
        from "gets_from_mem, gets_missing of accounts_index and accounts_index_startup, summed"
        of "accounts_index" | "accounts_index_startup" {
            "gets_from_mem" as "found",
            "gets_missing" as "missing"
        };
    INDEX_DISK_LOOKUPS = Counter, Count, "agave_accounts_index_disk_lookups_total" ["result"]
        "Lookups in the part of the accounts index that is on disk (the bucket map): found, missing. Absent if the whole index is in memory."
        from "load_disk_found_count, load_disk_missing_count of accounts_index and accounts_index_startup, summed"
        of "accounts_index" | "accounts_index_startup" {
            "load_disk_found_count" as "found",
            "load_disk_missing_count" as "missing"
        };
    INDEX_DISK_TIME = Counter, Seconds, "agave_accounts_index_disk_lookup_seconds_total" ["result"]
        "Time of lookups in the bucket map, summed over threads."
        from "load_disk_found_us, load_disk_missing_us of accounts_index and accounts_index_startup, summed"
        of "accounts_index" | "accounts_index_startup" {
            us "load_disk_found_us" as "found",
            us "load_disk_missing_us" as "missing"
        };
    INDEX_DISK_BYTES = Gauge, Bytes, "agave_accounts_index_disk_bytes" ["file"]
        "Size of the bucket map on disk: index (one entry per account), data (accounts with several versions). Absent if the whole index is in memory."
        from "disk_index_index_file_size and disk_index_data_file_size (since 4.0 disk_index_file_size and disk_data_file_size) of accounts_index"
        of "accounts_index" | "accounts_index_startup" {
            "disk_index_index_file_size" as "index",
            "disk_index_file_size" as "index",
            "disk_index_data_file_size" as "data",
            "disk_data_file_size" as "data"
        };
    INDEX_BINS_SCANNED = Counter, Count, "agave_accounts_index_bins_scanned_total" []
        "Bins of the accounts index that were scanned for entries old enough to leave memory. Absent without an index on disk."
        from "buckets_scanned of accounts_index and accounts_index_startup, summed"
        of "accounts_index" | "accounts_index_startup" { "buckets_scanned" };
    INDEX_SCAN_TIME = Counter, Seconds, "agave_accounts_index_scan_seconds_total" []
        "Time of scans for entries of the accounts index that are old enough to leave memory, summed over threads. Absent without an index on disk."
        from "flush_scan_us (since 4.3 evict_scan_us) of accounts_index and accounts_index_startup, summed"
        of "accounts_index" | "accounts_index_startup" { us "flush_scan_us", us "evict_scan_us" };
    STORAGES = Gauge, Count, "agave_accounts_storages" []
        "Account storage files: about one memory mapping each on mmap versions (before 2.2), one descriptor each after."
        from "total_count of accounts_db-stores"
        of "accounts_db-stores" { "total_count" };
    REPAIR_REQUESTS = Counter, Count, "agave_repair_requests_total" ["kind"]
        "Requests for repair that this validator sent: shred (one that is missing), highest_shred (the end of a slot), orphan (the parents of a slot). Many are a symptom: shreds arrive late or are dropped. Absent until the validator stores shreds."
        from "shred-count, highest-shred-count, orphan-count of repair_service-my_requests, summed; without a point, there was no request"
        of "repair_service-my_requests" {
            "shred-count" as "shred",
            "highest-shred-count" as "highest_shred",
            "orphan-count" as "orphan"
        }
        of "blockstore-insert-shreds" {
            points 0 as "shred",
            points 0 as "highest_shred",
            points 0 as "orphan"
        };
    SHREDS_REPAIRED = Counter, Count, "agave_shreds_repaired_total" []
        "Data shreds that arrived by repair."
        from "num_repair of blockstore-insert-shreds, summed"
        of "blockstore-insert-shreds" { "num_repair" };
    SHREDS_RECOVERED = Counter, Count, "agave_shreds_recovered_total" []
        "Data shreds that erasure coding recovered."
        from "num_recovered_inserted of blockstore-insert-shreds, summed"
        of "blockstore-insert-shreds" { "num_recovered_inserted" };
    UDP_BUFFER_ERRORS = Counter, Count, "agave_udp_buffer_errors_total" ["buffer"]
        "UDP datagrams over IPv4 that the kernel dropped because the receive or send buffer of a socket was full, in the whole network namespace of the validator."
        from "rcvbuf_errors_delta and sndbuf_errors_delta of net-stats-validator, summed; off with --no-os-network-stats-reporting"
        of "net-stats-validator" {
            "rcvbuf_errors_delta" as "receive",
            "sndbuf_errors_delta" as "send"
        };
    DATAPOINT = Gauge, AsReported, "agave_datapoint" ["name", "field"]
        "A level of a datapoint in datapoints.allow. Its tags there are labels, too."
        from "any datapoint; see datapoints.allow in the configuration";
    DATAPOINT_SUM = Counter, AsReported, "agave_datapoint_sum_total" ["name", "field"]
        "The sum of a delta of a datapoint in datapoints.allow. Its tags there are labels, too."
        from "any datapoint; see datapoints.allow in the configuration";
}
