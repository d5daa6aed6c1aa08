use crate::metric::section;

section! {
    "cgroup",
    "The cgroup of the followed process, version 2, or version 1 if the host has no memory controller in version 2. Page cache fills a cgroup up to its limit by design, so usage near the limit is normal. Counters are those of the kernel for this cgroup. In another cgroup, also of a successor, they continue without that cgroup's earlier counts.";
    USAGE = Gauge, Bytes, "agave_cgroup_memory_usage_bytes" []
        "Memory charged to the cgroup, page cache included."
        from "memory.current; v1 memory.usage_in_bytes";
    PEAK = Gauge, Bytes, "agave_cgroup_memory_peak_bytes" []
        "Peak memory usage since the cgroup was created."
        from "memory.peak (Linux 5.19); v1 memory.max_usage_in_bytes";
    LIMIT = Gauge, Bytes, "agave_cgroup_memory_limit_bytes" ["limit"]
        "The cgroup's own limits; a limit that is not set is absent."
        from "memory.max, memory.high, memory.swap.max; v1 memory.limit_in_bytes, and for swap_max memory.memsw.limit_in_bytes minus that; read every 15 s, at each tick while the usage is above the known max or high, and on v1 when hierarchical_memory_limit or hierarchical_memsw_limit of memory.stat changes";
    SWAP = Gauge, Bytes, "agave_cgroup_memory_swap_bytes" []
        "Swap charged to the cgroup."
        from "memory.swap.current; v1 total_swap of memory.stat";
    STAT = Gauge, Bytes, "agave_cgroup_memory_stat_bytes" ["type"]
        "The cgroup's memory by type."
        from "memory.stat; v1 its total_ values under names of v2, and memory.kmem.usage_in_bytes as kernel";
    EVENTS = Counter, Count, "agave_cgroup_memory_events_total" ["event"]
        "Memory events: low (reclaimed although below memory.low), high and max (the limit of that name was reached), oom (reclaim at the limit did not help), oom_kill (a process was killed)."
        from "memory.events; v1 failcnt as max and oom_kill of memory.oom_control (Linux 4.13)";
    REFAULTS = Counter, Count, "agave_cgroup_memory_refaults_total" ["type"]
        "Pages read back after they were reclaimed: many mean that the working set does not fit."
        from "workingset_refault_anon, workingset_refault_file of memory.stat (Linux 5.9; before, workingset_refault as file)";
    PAGE_FAULTS = Counter, Count, "agave_cgroup_memory_page_faults_total" ["type"]
        "Page faults of all processes of the cgroup."
        from "pgfault minus pgmajfault, and pgmajfault, of memory.stat";
    RECLAIM = Counter, Count, "agave_cgroup_memory_reclaim_pages_total" ["op", "by"]
        "Pages scanned and reclaimed (steal) by kswapd and by the allocating tasks themselves (direct)."
        from "pgscan_kswapd, pgscan_direct, pgsteal_kswapd, pgsteal_direct of memory.stat (Linux 6.0)";
    PRESSURE = Counter, Seconds, "agave_cgroup_pressure_stalled_seconds_total" ["resource", "kind"]
        "Time in which some or all (full) tasks of the cgroup were stalled waiting for the resource."
        from "cpu.pressure, memory.pressure, io.pressure (version 2, PSI on)";
    IO_BYTES = Counter, Bytes, "agave_cgroup_io_bytes_total" ["device", "direction"]
        "Bytes the cgroup read from and wrote to each block device."
        from "io.stat; v1 blkio.throttle.io_service_bytes, without buffered writes";
    FROZEN = Gauge, Flag, "agave_cgroup_frozen" []
        "1 while a freezer of the cgroup or of an ancestor stops all processes of the cgroup. agave_process_state is then sleeping (version 2) or disk_sleep (version 1)."
        from "frozen of cgroup.events (version 2, Linux 5.2); v1 freezer.state; 1 if either is frozen";
    CPU_THROTTLED = Counter, Seconds, "agave_cgroup_cpu_throttled_seconds_total" []
        "Time throttled by the cgroup's own CPU quota, summed over CPUs."
        from "throttled_usec of cpu.stat; v1 throttled_time";
}
