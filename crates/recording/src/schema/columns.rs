//! The tables of samples: which reading goes into which column.

use super::Column;
use faultline_metrics::metrics::{
    cgroup, daemon, host, memory, pools, process, recorded, validator,
};

/// Declares tables. Each column has a name, a metric and the values of the metric's labels. The
/// metric is a constant in the module before the braces.
macro_rules! columns {
    ($($(#[$doc:meta])* $table:ident: $($module:ident { $($name:ident = $metric:ident $($label:literal)*;)* })*;)*) => {
        $(
            $(#[$doc])*
            pub static $table: &[Column] = &[$($(Column {
                name: stringify!($name),
                metric: &$module::$metric,
                label_values: &[$($label),*],
            }),*),*];
        )*
    };
}

columns! {
    PROCESS: process {
        resident_anon_bytes = RESIDENT "anon";
        resident_file_bytes = RESIDENT "file";
        resident_shmem_bytes = RESIDENT "shmem";
        virtual_bytes = VIRTUAL;
        swap_bytes = SWAP;
        page_table_bytes = PAGE_TABLES;
        major_faults = PAGE_FAULTS "major";
        minor_faults = PAGE_FAULTS "minor";
        cpu_user_seconds = CPU "user";
        cpu_system_seconds = CPU "system";
        threads = THREADS;
        open_fds = OPEN_FDS;
        max_fds = MAX_FDS;
        io_read_bytes = IO_BYTES "read";
        io_write_bytes = IO_BYTES "write";
        block_io_delay_seconds = BLOCK_IO_DELAY;
        voluntary_switches = CONTEXT_SWITCHES "voluntary";
        involuntary_switches = CONTEXT_SWITCHES "involuntary";
        oom_score = OOM_SCORE;
        oom_score_adj = OOM_SCORE_ADJ;
    };

    CGROUP: memory {
        effective_limit_bytes = EFFECTIVE_LIMIT;
        unreclaimable_bytes = UNRECLAIMABLE;
        others_parent_bytes = LEVEL_OTHERS "1";
        others_machine_bytes = LEVEL_OTHERS "machine";
        swap_headroom_bytes = SWAP_HEADROOM;
    } cgroup {
        usage_bytes = USAGE;
        peak_bytes = PEAK;
        limit_max_bytes = LIMIT "max";
        limit_high_bytes = LIMIT "high";
        limit_swap_max_bytes = LIMIT "swap_max";
        swap_bytes = SWAP;
        anon_bytes = STAT "anon";
        file_bytes = STAT "file";
        file_mapped_bytes = STAT "file_mapped";
        shmem_bytes = STAT "shmem";
        swapcached_bytes = STAT "swapcached";
        kernel_bytes = STAT "kernel";
        kernel_stack_bytes = STAT "kernel_stack";
        pagetables_bytes = STAT "pagetables";
        percpu_bytes = STAT "percpu";
        sock_bytes = STAT "sock";
        vmalloc_bytes = STAT "vmalloc";
        slab_bytes = STAT "slab";
        slab_reclaimable_bytes = STAT "slab_reclaimable";
        slab_unreclaimable_bytes = STAT "slab_unreclaimable";
        unevictable_bytes = STAT "unevictable";
        events_low = EVENTS "low";
        events_high = EVENTS "high";
        events_max = EVENTS "max";
        events_oom = EVENTS "oom";
        events_oom_kill = EVENTS "oom_kill";
        refaults_anon = REFAULTS "anon";
        refaults_file = REFAULTS "file";
        major_faults = PAGE_FAULTS "major";
        minor_faults = PAGE_FAULTS "minor";
        scan_kswapd_pages = RECLAIM "scan" "kswapd";
        scan_direct_pages = RECLAIM "scan" "direct";
        steal_kswapd_pages = RECLAIM "steal" "kswapd";
        steal_direct_pages = RECLAIM "steal" "direct";
        pressure_cpu_some_seconds = PRESSURE "cpu" "some";
        pressure_cpu_full_seconds = PRESSURE "cpu" "full";
        pressure_memory_some_seconds = PRESSURE "memory" "some";
        pressure_memory_full_seconds = PRESSURE "memory" "full";
        pressure_io_some_seconds = PRESSURE "io" "some";
        pressure_io_full_seconds = PRESSURE "io" "full";
        cpu_throttled_seconds = CPU_THROTTLED;
    };

    HOST: host {
        memory_total_bytes = MEMORY "total";
        memory_available_bytes = MEMORY "available";
        memory_free_bytes = MEMORY "free";
        memory_cached_bytes = MEMORY "cached";
        memory_dirty_bytes = MEMORY "dirty";
        swap_total_bytes = MEMORY "swap_total";
        swap_free_bytes = MEMORY "swap_free";
        major_faults = PAGE_FAULTS "major";
        minor_faults = PAGE_FAULTS "minor";
        swap_in_pages = SWAP_PAGES "in";
        swap_out_pages = SWAP_PAGES "out";
        oom_kills = OOM_KILLS;
        pressure_cpu_some_seconds = PRESSURE "cpu" "some";
        pressure_cpu_full_seconds = PRESSURE "cpu" "full";
        pressure_memory_some_seconds = PRESSURE "memory" "some";
        pressure_memory_full_seconds = PRESSURE "memory" "full";
        pressure_io_some_seconds = PRESSURE "io" "some";
        pressure_io_full_seconds = PRESSURE "io" "full";
        max_maps = MAX_MAPS;
    };

    VALIDATOR: validator {
        transactions = TRANSACTIONS;
        bank_transactions = BANK_TRANSACTIONS;
        block_transactions_leader = BLOCK_TRANSACTIONS "true";
        block_transactions_other = BLOCK_TRANSACTIONS "false";
        block_transactions_unknown = BLOCK_TRANSACTIONS "unknown";
        rooted_transactions = ROOTED_TRANSACTIONS;
        replayed_transactions = REPLAYED_TRANSACTIONS;
        slot_processed = SLOT "processed";
        slot_confirmed = SLOT "confirmed";
        slot_finalized = SLOT "finalized";
        slot_root = SLOT "root";
        slot_optimistic = SLOT "optimistic";
        slot_shred = SLOT "shred";
        slots_behind = SLOTS_BEHIND;
        healthy = HEALTHY;
        kept_up = KEPT_UP;
    } recorded {
        evidence_slot = PHASE_EVIDENCE "slot";
        evidence_tip = PHASE_EVIDENCE "tip";
        evidence_stopped = PHASE_EVIDENCE "stopped";
    } validator {
        zero_tps_seconds = ZERO_TPS;
        tps_unknown_seconds = TPS_UNKNOWN;
        own_slots = OWN_SLOTS;
        cache_hits = CACHE_HITS;
        cache_misses = CACHE_MISSES;
        cache_evictions = CACHE_EVICTIONS;
        cache_reloads = CACHE_RELOADS;
        cache_insertions = CACHE_INSERTIONS;
        cache_lost_insertions = CACHE_LOST_INSERTIONS;
        cache_replacements = CACHE_REPLACEMENTS;
        cache_one_hit_wonders = CACHE_ONE_HIT_WONDERS;
        cache_prunes_orphan = CACHE_PRUNES_ORPHAN;
        cache_prunes_environment = CACHE_PRUNES_ENVIRONMENT;
        cache_prunes_stale = CACHE_PRUNES_STALE;
        cache_empty_entries = CACHE_EMPTY_ENTRIES;
        cache_loaded_entries = CACHE_LOADED;
        cache_capacity_configured = CACHE_CAPACITY "configured";
        cache_capacity_observed = CACHE_CAPACITY "observed";
        cache_shrink_target_configured = CACHE_SHRINK_TARGET "configured";
        cache_shrink_target_observed = CACHE_SHRINK_TARGET "observed";
        load_register_syscalls_seconds = PROGRAM_LOAD "register_syscalls";
        load_elf_seconds = PROGRAM_LOAD "load_elf";
        load_verify_seconds = PROGRAM_LOAD "verify";
        load_jit_seconds = PROGRAM_LOAD "jit";
        heap_allocated_bytes = HEAP "allocated";
        heap_active_bytes = HEAP "active";
        heap_resident_bytes = HEAP "resident";
        heap_retained_bytes = HEAP "retained";
        heap_dirty_bytes = HEAP "dirty";
        read_cache_hits = READ_CACHE_HITS;
        read_cache_misses = READ_CACHE_MISSES;
        read_cache_evictions = READ_CACHE_EVICTIONS;
        read_cache_load_seconds = READ_CACHE_TIME "load";
        read_cache_store_seconds = READ_CACHE_TIME "store";
        read_cache_evict_seconds = READ_CACHE_TIME "evict";
        read_cache_entries = READ_CACHE_ENTRIES;
        read_cache_bytes = READ_CACHE_BYTES;
        write_cache_bytes = WRITE_CACHE_BYTES;
        write_cache_flushes = WRITE_CACHE_FLUSHES;
        write_cache_flush_seconds = WRITE_CACHE_FLUSH_TIME;
        write_cache_flushed_bytes = WRITE_CACHE_FLUSHED;
        accounts_loaded_write_cache = ACCOUNTS_LOADED "write_cache";
        accounts_loaded_read_cache = ACCOUNTS_LOADED "read_cache";
        accounts_loaded_storage = ACCOUNTS_LOADED "storage";
        jobs_clean = ACCOUNTS_JOBS "clean";
        jobs_shrink = ACCOUNTS_JOBS "shrink";
        jobs_squash_ancient = ACCOUNTS_JOBS "squash_ancient";
        jobs_flush = ACCOUNTS_JOBS "flush";
        jobs_hash = ACCOUNTS_JOBS "hash";
        job_clean_seconds = ACCOUNTS_JOB_TIME "clean";
        job_shrink_seconds = ACCOUNTS_JOB_TIME "shrink";
        job_squash_ancient_seconds = ACCOUNTS_JOB_TIME "squash_ancient";
        job_flush_seconds = ACCOUNTS_JOB_TIME "flush";
        job_hash_seconds = ACCOUNTS_JOB_TIME "hash";
        index_entries = INDEX_ENTRIES;
        index_in_memory_entries = INDEX_IN_MEMORY;
        index_capacity_entries = INDEX_CAPACITY;
        index_bytes = INDEX_BYTES;
        index_lookups_found = INDEX_LOOKUPS "found";
        index_lookups_missing = INDEX_LOOKUPS "missing";
        index_disk_lookups_found = INDEX_DISK_LOOKUPS "found";
        index_disk_lookups_missing = INDEX_DISK_LOOKUPS "missing";
        index_disk_found_seconds = INDEX_DISK_TIME "found";
        index_disk_missing_seconds = INDEX_DISK_TIME "missing";
        index_disk_index_bytes = INDEX_DISK_BYTES "index";
        index_disk_data_bytes = INDEX_DISK_BYTES "data";
        index_bins_scanned = INDEX_BINS_SCANNED;
        index_scan_seconds = INDEX_SCAN_TIME;
        storages = STORAGES;
        repair_requests_shred = REPAIR_REQUESTS "shred";
        repair_requests_highest_shred = REPAIR_REQUESTS "highest_shred";
        repair_requests_orphan = REPAIR_REQUESTS "orphan";
        shreds_repaired = SHREDS_REPAIRED;
        shreds_recovered = SHREDS_RECOVERED;
        udp_receive_buffer_errors = UDP_BUFFER_ERRORS "receive";
        udp_send_buffer_errors = UDP_BUFFER_ERRORS "send";
    };

    DAEMON: daemon {
        ticks = TICKS;
        missed_ticks = MISSED_TICKS;
        clock_steps = CLOCK_STEPS;
        up_target = SOURCE_UP "target";
        up_process = SOURCE_UP "process";
        up_threads = SOURCE_UP "threads";
        up_cgroup = SOURCE_UP "cgroup";
        up_host = SOURCE_UP "host";
        up_datapoints = SOURCE_UP "datapoints";
        up_log = SOURCE_UP "log";
        up_rpc = SOURCE_UP "rpc";
        up_admin_rpc = SOURCE_UP "admin_rpc";
        up_conclusions = SOURCE_UP "conclusions";
        up_recorder = SOURCE_UP "recorder";
        up_daemon = SOURCE_UP "daemon";
        target_duration_seconds = SOURCE_DURATION "target";
        process_duration_seconds = SOURCE_DURATION "process";
        threads_duration_seconds = SOURCE_DURATION "threads";
        cgroup_duration_seconds = SOURCE_DURATION "cgroup";
        host_duration_seconds = SOURCE_DURATION "host";
        datapoints_duration_seconds = SOURCE_DURATION "datapoints";
        log_duration_seconds = SOURCE_DURATION "log";
        rpc_duration_seconds = SOURCE_DURATION "rpc";
        admin_rpc_duration_seconds = SOURCE_DURATION "admin_rpc";
        conclusions_duration_seconds = SOURCE_DURATION "conclusions";
        recorder_duration_seconds = SOURCE_DURATION "recorder";
        daemon_duration_seconds = SOURCE_DURATION "daemon";
        lines_used = INGEST_LINES "used";
        lines_ignored = INGEST_LINES "ignored";
        lines_bad = INGEST_LINES "bad";
        lines_foreign = INGEST_LINES "foreign";
        lines_duplicate = INGEST_LINES "duplicate";
        ingest_bytes = INGEST_BYTES;
        ingest_connections = INGEST_CONNECTIONS;
        last_push_timestamp_seconds = LAST_PUSH;
        pushes_missed = PUSHES_MISSED;
        points_lost = POINTS_LOST;
        pushes_filtered = PUSHES_FILTERED;
        forward_sent_bytes = FORWARD_BYTES "sent";
        forward_lost_bytes = FORWARD_BYTES "lost";
        forward_refused_bytes = FORWARD_BYTES "refused";
        forward_queue_bytes = FORWARD_QUEUE;
        datapoint_overflow = DATAPOINT_OVERFLOW;
        pools_folded = POOLS_FOLDED;
        record_rows = RECORDER_ROWS "record";
        record_dropped = RECORDER_DROPPED "record";
        flight_rows = RECORDER_ROWS "flight";
        flight_dropped = RECORDER_DROPPED "flight";
        cpu_seconds = SELF_CPU;
        resident_bytes = SELF_RESIDENT;
        virtual_bytes = SELF_VIRTUAL;
        open_fds = SELF_OPEN_FDS;
    };

    /// Table `pool_sample`. The column `pool` replaces the first label of these metrics.
    POOL_COLUMNS: pools {
        threads = THREADS;
        major_faults = PAGE_FAULTS "major";
        minor_faults = PAGE_FAULTS "minor";
        cpu_user_seconds = CPU "user";
        cpu_system_seconds = CPU "system";
        run_queue_seconds = RUN_QUEUE;
        block_io_delay_seconds = BLOCK_IO_DELAY;
    };

    /// Table `device_sample`. The column `device` replaces the first label.
    DEVICE_COLUMNS: cgroup {
        read_bytes = IO_BYTES "read";
        write_bytes = IO_BYTES "write";
    };
}
