//! The tables of samples: which reading goes into which column.

use super::Column;
use faultline_metrics::metrics::{
    cgroup, daemon, host, memory, pools, process, recorded, validator,
};

/// Declares tables: a column's name, its metric and the values of the metric's labels, in the order of the file.
macro_rules! columns {
    ($($(#[$doc:meta])* $table:ident { $($name:ident = $chapter:ident::$metric:ident $($label:literal)*;)* })*) => {
        $(
            $(#[$doc])*
            pub(crate) static $table: &[Column] = &[$(Column {
                name: stringify!($name),
                metric: &$chapter::$metric,
                labels: &[$($label),*],
            }),*];
        )*
    };
}

columns! {
    PROCESS {
        resident_anon_bytes = process::RESIDENT "anon";
        resident_file_bytes = process::RESIDENT "file";
        resident_shmem_bytes = process::RESIDENT "shmem";
        virtual_bytes = process::VIRTUAL;
        swap_bytes = process::SWAP;
        page_table_bytes = process::PAGE_TABLES;
        major_faults = process::PAGE_FAULTS "major";
        minor_faults = process::PAGE_FAULTS "minor";
        cpu_user_seconds = process::CPU "user";
        cpu_system_seconds = process::CPU "system";
        threads = process::THREADS;
        open_fds = process::OPEN_FDS;
        max_fds = process::MAX_FDS;
        io_read_bytes = process::IO_BYTES "read";
        io_write_bytes = process::IO_BYTES "write";
        block_io_delay_seconds = process::BLOCK_IO_DELAY;
        voluntary_switches = process::CONTEXT_SWITCHES "voluntary";
        involuntary_switches = process::CONTEXT_SWITCHES "involuntary";
        oom_score = process::OOM_SCORE;
        oom_score_adj = process::OOM_SCORE_ADJ;
    }

    CGROUP {
        effective_limit_bytes = memory::EFFECTIVE_LIMIT;
        unreclaimable_bytes = memory::UNRECLAIMABLE;
        others_parent_bytes = memory::LEVEL_OTHERS "1";
        others_machine_bytes = memory::LEVEL_OTHERS "machine";
        swap_headroom_bytes = memory::SWAP_HEADROOM;
        usage_bytes = cgroup::USAGE;
        peak_bytes = cgroup::PEAK;
        limit_max_bytes = cgroup::LIMIT "max";
        limit_high_bytes = cgroup::LIMIT "high";
        limit_swap_max_bytes = cgroup::LIMIT "swap_max";
        swap_bytes = cgroup::SWAP;
        anon_bytes = cgroup::STAT "anon";
        file_bytes = cgroup::STAT "file";
        file_mapped_bytes = cgroup::STAT "file_mapped";
        shmem_bytes = cgroup::STAT "shmem";
        swapcached_bytes = cgroup::STAT "swapcached";
        kernel_bytes = cgroup::STAT "kernel";
        kernel_stack_bytes = cgroup::STAT "kernel_stack";
        pagetables_bytes = cgroup::STAT "pagetables";
        percpu_bytes = cgroup::STAT "percpu";
        sock_bytes = cgroup::STAT "sock";
        vmalloc_bytes = cgroup::STAT "vmalloc";
        slab_bytes = cgroup::STAT "slab";
        slab_reclaimable_bytes = cgroup::STAT "slab_reclaimable";
        slab_unreclaimable_bytes = cgroup::STAT "slab_unreclaimable";
        unevictable_bytes = cgroup::STAT "unevictable";
        events_low = cgroup::EVENTS "low";
        events_high = cgroup::EVENTS "high";
        events_max = cgroup::EVENTS "max";
        events_oom = cgroup::EVENTS "oom";
        events_oom_kill = cgroup::EVENTS "oom_kill";
        refaults_anon = cgroup::REFAULTS "anon";
        refaults_file = cgroup::REFAULTS "file";
        major_faults = cgroup::PAGE_FAULTS "major";
        minor_faults = cgroup::PAGE_FAULTS "minor";
        scan_kswapd_pages = cgroup::RECLAIM "scan" "kswapd";
        scan_direct_pages = cgroup::RECLAIM "scan" "direct";
        steal_kswapd_pages = cgroup::RECLAIM "steal" "kswapd";
        steal_direct_pages = cgroup::RECLAIM "steal" "direct";
        pressure_cpu_some_seconds = cgroup::PRESSURE "cpu" "some";
        pressure_cpu_full_seconds = cgroup::PRESSURE "cpu" "full";
        pressure_memory_some_seconds = cgroup::PRESSURE "memory" "some";
        pressure_memory_full_seconds = cgroup::PRESSURE "memory" "full";
        pressure_io_some_seconds = cgroup::PRESSURE "io" "some";
        pressure_io_full_seconds = cgroup::PRESSURE "io" "full";
        cpu_throttled_seconds = cgroup::CPU_THROTTLED;
    }

    HOST {
        memory_total_bytes = host::MEMORY "total";
        memory_available_bytes = host::MEMORY "available";
        memory_free_bytes = host::MEMORY "free";
        memory_cached_bytes = host::MEMORY "cached";
        memory_dirty_bytes = host::MEMORY "dirty";
        swap_total_bytes = host::MEMORY "swap_total";
        swap_free_bytes = host::MEMORY "swap_free";
        major_faults = host::PAGE_FAULTS "major";
        minor_faults = host::PAGE_FAULTS "minor";
        swap_in_pages = host::SWAP_PAGES "in";
        swap_out_pages = host::SWAP_PAGES "out";
        oom_kills = host::OOM_KILLS;
        pressure_cpu_some_seconds = host::PRESSURE "cpu" "some";
        pressure_cpu_full_seconds = host::PRESSURE "cpu" "full";
        pressure_memory_some_seconds = host::PRESSURE "memory" "some";
        pressure_memory_full_seconds = host::PRESSURE "memory" "full";
        pressure_io_some_seconds = host::PRESSURE "io" "some";
        pressure_io_full_seconds = host::PRESSURE "io" "full";
        max_maps = host::MAX_MAPS;
    }

    VALIDATOR {
        transactions = validator::TRANSACTIONS;
        bank_transactions = validator::BANK_TRANSACTIONS;
        block_transactions_leader = validator::BLOCK_TRANSACTIONS "true";
        block_transactions_other = validator::BLOCK_TRANSACTIONS "false";
        block_transactions_unknown = validator::BLOCK_TRANSACTIONS "unknown";
        rooted_transactions = validator::ROOTED_TRANSACTIONS;
        replayed_transactions = validator::REPLAYED_TRANSACTIONS;
        slot_processed = validator::SLOT "processed";
        slot_confirmed = validator::SLOT "confirmed";
        slot_finalized = validator::SLOT "finalized";
        slot_root = validator::SLOT "root";
        slot_optimistic = validator::SLOT "optimistic";
        slot_shred = validator::SLOT "shred";
        slots_behind = validator::SLOTS_BEHIND;
        healthy = validator::HEALTHY;
        kept_up = validator::KEPT_UP;
        evidence_slot = recorded::PHASE_EVIDENCE "slot";
        evidence_tip = recorded::PHASE_EVIDENCE "tip";
        evidence_stopped = recorded::PHASE_EVIDENCE "stopped";
        zero_tps_seconds = validator::ZERO_TPS;
        tps_unknown_seconds = validator::TPS_UNKNOWN;
        own_slots = validator::OWN_SLOTS;
        cache_hits = validator::CACHE_HITS;
        cache_misses = validator::CACHE_MISSES;
        cache_evictions = validator::CACHE_EVICTIONS;
        cache_reloads = validator::CACHE_RELOADS;
        cache_insertions = validator::CACHE_INSERTIONS;
        cache_lost_insertions = validator::CACHE_LOST_INSERTIONS;
        cache_replacements = validator::CACHE_REPLACEMENTS;
        cache_one_hit_wonders = validator::CACHE_ONE_HIT_WONDERS;
        cache_prunes_orphan = validator::CACHE_PRUNES_ORPHAN;
        cache_prunes_environment = validator::CACHE_PRUNES_ENVIRONMENT;
        cache_prunes_stale = validator::CACHE_PRUNES_STALE;
        cache_empty_entries = validator::CACHE_EMPTY_ENTRIES;
        cache_loaded_entries = validator::CACHE_LOADED;
        cache_capacity_configured = validator::CACHE_CAPACITY "configured";
        cache_capacity_observed = validator::CACHE_CAPACITY "observed";
        cache_shrink_target_configured = validator::CACHE_SHRINK_TARGET "configured";
        cache_shrink_target_observed = validator::CACHE_SHRINK_TARGET "observed";
        load_register_syscalls_seconds = validator::PROGRAM_LOAD "register_syscalls";
        load_elf_seconds = validator::PROGRAM_LOAD "load_elf";
        load_verify_seconds = validator::PROGRAM_LOAD "verify";
        load_jit_seconds = validator::PROGRAM_LOAD "jit";
        heap_allocated_bytes = validator::HEAP "allocated";
        heap_active_bytes = validator::HEAP "active";
        heap_resident_bytes = validator::HEAP "resident";
        heap_retained_bytes = validator::HEAP "retained";
        heap_dirty_bytes = validator::HEAP "dirty";
        read_cache_hits = validator::READ_CACHE_HITS;
        read_cache_misses = validator::READ_CACHE_MISSES;
        read_cache_evictions = validator::READ_CACHE_EVICTIONS;
        read_cache_load_seconds = validator::READ_CACHE_TIME "load";
        read_cache_store_seconds = validator::READ_CACHE_TIME "store";
        read_cache_evict_seconds = validator::READ_CACHE_TIME "evict";
        read_cache_entries = validator::READ_CACHE_ENTRIES;
        read_cache_bytes = validator::READ_CACHE_BYTES;
        write_cache_bytes = validator::WRITE_CACHE_BYTES;
        write_cache_flushes = validator::WRITE_CACHE_FLUSHES;
        write_cache_flush_seconds = validator::WRITE_CACHE_FLUSH_TIME;
        write_cache_flushed_bytes = validator::WRITE_CACHE_FLUSHED;
        accounts_loaded_write_cache = validator::ACCOUNTS_LOADED "write_cache";
        accounts_loaded_read_cache = validator::ACCOUNTS_LOADED "read_cache";
        accounts_loaded_storage = validator::ACCOUNTS_LOADED "storage";
        jobs_clean = validator::ACCOUNTS_JOBS "clean";
        jobs_shrink = validator::ACCOUNTS_JOBS "shrink";
        jobs_squash_ancient = validator::ACCOUNTS_JOBS "squash_ancient";
        jobs_flush = validator::ACCOUNTS_JOBS "flush";
        jobs_hash = validator::ACCOUNTS_JOBS "hash";
        job_clean_seconds = validator::ACCOUNTS_JOB_TIME "clean";
        job_shrink_seconds = validator::ACCOUNTS_JOB_TIME "shrink";
        job_squash_ancient_seconds = validator::ACCOUNTS_JOB_TIME "squash_ancient";
        job_flush_seconds = validator::ACCOUNTS_JOB_TIME "flush";
        job_hash_seconds = validator::ACCOUNTS_JOB_TIME "hash";
        index_entries = validator::INDEX_ENTRIES;
        index_in_memory_entries = validator::INDEX_IN_MEMORY;
        index_capacity_entries = validator::INDEX_CAPACITY;
        index_bytes = validator::INDEX_BYTES;
        index_lookups_found = validator::INDEX_LOOKUPS "found";
        index_lookups_missing = validator::INDEX_LOOKUPS "missing";
        index_disk_lookups_found = validator::INDEX_DISK_LOOKUPS "found";
        index_disk_lookups_missing = validator::INDEX_DISK_LOOKUPS "missing";
        index_disk_found_seconds = validator::INDEX_DISK_TIME "found";
        index_disk_missing_seconds = validator::INDEX_DISK_TIME "missing";
        index_disk_index_bytes = validator::INDEX_DISK_BYTES "index";
        index_disk_data_bytes = validator::INDEX_DISK_BYTES "data";
        index_bins_scanned = validator::INDEX_BINS_SCANNED;
        index_scan_seconds = validator::INDEX_SCAN_TIME;
        storages = validator::STORAGES;
        repair_requests_shred = validator::REPAIR_REQUESTS "shred";
        repair_requests_highest_shred = validator::REPAIR_REQUESTS "highest_shred";
        repair_requests_orphan = validator::REPAIR_REQUESTS "orphan";
        shreds_repaired = validator::SHREDS_REPAIRED;
        shreds_recovered = validator::SHREDS_RECOVERED;
        udp_receive_buffer_errors = validator::UDP_BUFFER_ERRORS "receive";
        udp_send_buffer_errors = validator::UDP_BUFFER_ERRORS "send";
    }

    DAEMON {
        ticks = daemon::TICKS;
        missed_ticks = daemon::MISSED_TICKS;
        clock_steps = daemon::CLOCK_STEPS;
        up_target = daemon::SOURCE_UP "target";
        up_process = daemon::SOURCE_UP "process";
        up_threads = daemon::SOURCE_UP "threads";
        up_cgroup = daemon::SOURCE_UP "cgroup";
        up_host = daemon::SOURCE_UP "host";
        up_datapoints = daemon::SOURCE_UP "datapoints";
        up_log = daemon::SOURCE_UP "log";
        up_rpc = daemon::SOURCE_UP "rpc";
        up_admin_rpc = daemon::SOURCE_UP "admin_rpc";
        up_conclusions = daemon::SOURCE_UP "conclusions";
        up_recorder = daemon::SOURCE_UP "recorder";
        up_daemon = daemon::SOURCE_UP "daemon";
        target_duration_seconds = daemon::SOURCE_DURATION "target";
        process_duration_seconds = daemon::SOURCE_DURATION "process";
        threads_duration_seconds = daemon::SOURCE_DURATION "threads";
        cgroup_duration_seconds = daemon::SOURCE_DURATION "cgroup";
        host_duration_seconds = daemon::SOURCE_DURATION "host";
        datapoints_duration_seconds = daemon::SOURCE_DURATION "datapoints";
        log_duration_seconds = daemon::SOURCE_DURATION "log";
        rpc_duration_seconds = daemon::SOURCE_DURATION "rpc";
        admin_rpc_duration_seconds = daemon::SOURCE_DURATION "admin_rpc";
        conclusions_duration_seconds = daemon::SOURCE_DURATION "conclusions";
        recorder_duration_seconds = daemon::SOURCE_DURATION "recorder";
        daemon_duration_seconds = daemon::SOURCE_DURATION "daemon";
        lines_used = daemon::INGEST_LINES "used";
        lines_ignored = daemon::INGEST_LINES "ignored";
        lines_bad = daemon::INGEST_LINES "bad";
        lines_foreign = daemon::INGEST_LINES "foreign";
        lines_duplicate = daemon::INGEST_LINES "duplicate";
        ingest_bytes = daemon::INGEST_BYTES;
        ingest_connections = daemon::INGEST_CONNECTIONS;
        last_push_timestamp_seconds = daemon::LAST_PUSH;
        pushes_missed = daemon::PUSHES_MISSED;
        points_lost = daemon::POINTS_LOST;
        pushes_filtered = daemon::PUSHES_FILTERED;
        forward_sent_bytes = daemon::FORWARD_BYTES "sent";
        forward_lost_bytes = daemon::FORWARD_BYTES "lost";
        forward_refused_bytes = daemon::FORWARD_BYTES "refused";
        forward_queue_bytes = daemon::FORWARD_QUEUE;
        datapoint_overflow = daemon::DATAPOINT_OVERFLOW;
        pools_folded = daemon::POOLS_FOLDED;
        record_rows = daemon::RECORDER_ROWS "record";
        record_dropped = daemon::RECORDER_DROPPED "record";
        flight_rows = daemon::RECORDER_ROWS "flight";
        flight_dropped = daemon::RECORDER_DROPPED "flight";
        cpu_seconds = daemon::SELF_CPU;
        resident_bytes = daemon::SELF_RESIDENT;
        virtual_bytes = daemon::SELF_VIRTUAL;
        open_fds = daemon::SELF_OPEN_FDS;
    }

    /// Of `pool_sample`: the pool's name is the first label.
    POOL {
        threads = pools::THREADS;
        major_faults = pools::PAGE_FAULTS "major";
        minor_faults = pools::PAGE_FAULTS "minor";
        cpu_user_seconds = pools::CPU "user";
        cpu_system_seconds = pools::CPU "system";
        run_queue_seconds = pools::RUN_QUEUE;
        block_io_delay_seconds = pools::BLOCK_IO_DELAY;
    }

    /// Of `device_sample`: the device's name is the first label.
    DEVICE {
        read_bytes = cgroup::IO_BYTES "read";
        write_bytes = cgroup::IO_BYTES "write";
    }
}
