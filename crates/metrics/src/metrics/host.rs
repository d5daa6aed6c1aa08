use crate::metric::section;

section! {
    "Host",
    "The whole machine, for context: a validator rarely suffers alone.";
    MEMORY = Gauge, Bytes, "agave_host_memory_bytes" ["kind"]
        "The machine's memory by kind."
        from "MemTotal, MemAvailable, MemFree, Cached, Dirty, SwapTotal, SwapFree of /proc/meminfo";
    PAGE_FAULTS = Counter, Count, "agave_host_page_faults_total" ["type"]
        "Page faults of the whole machine."
        from "pgfault minus pgmajfault, and pgmajfault, of /proc/vmstat";
    SWAP_PAGES = Counter, Count, "agave_host_swap_pages_total" ["direction"]
        "Pages swapped in and out on the whole machine."
        from "pswpin and pswpout of /proc/vmstat";
    OOM_KILLS = Counter, Count, "agave_host_oom_kills_total" []
        "Processes killed on this machine because memory ran out, in whichever cgroup."
        from "oom_kill of /proc/vmstat (Linux 4.13)";
    PRESSURE = Counter, Seconds, "agave_host_pressure_stalled_seconds_total" ["resource", "kind"]
        "Time in which some or all (full) tasks of the machine were stalled waiting for the resource."
        from "/proc/pressure (Linux 4.20, PSI on). The kernel does not define full for the CPU of the machine: newer kernels write 0, which is left out";
    MAX_MAPS = Gauge, Count, "agave_host_max_maps" []
        "How many memory mappings one process may have; mmap versions of the validator need 1,000,000."
        from "/proc/sys/vm/max_map_count, read every 15 s";
    INTERRUPTS = Counter, Count, "agave_host_interrupts_total" ["cpu", "from"]
        "Interrupts that a CPU has handled: of devices, or local (its timer, other CPUs). On the CPU of proof of history or XDP, they take time from that thread."
        from "all lines of /proc/interrupts but ERR and MIS, read every minute if [host] is enabled. Counts begin at 0 with the daemon. A minute is left out if the kernel removed a line or a CPU went offline. An offline CPU is absent";
    SOFTIRQS = Counter, Count, "agave_host_softirqs_total" ["cpu"]
        "Softirqs that a CPU has handled: work that the kernel defers after an interrupt, such as that of received packets."
        from "all lines of /proc/softirqs, read every minute if [host] is enabled. Counts begin at 0 with the daemon. A CPU that was never online is absent";
    SOFTIRQS_BY_TYPE = Counter, Count, "agave_host_softirqs_by_type_total" ["type"]
        "Softirqs of all CPUs by kind: net_rx, net_tx, timer, sched, rcu, block and others."
        from "/proc/softirqs, as agave_host_softirqs_total";
    POH_CPU = Info, Flag, "agave_poh_cpu_info" ["cpu"]
        "The CPU to which the validator pins its proof-of-history thread."
        from "Cpus_allowed_list of the thread solPohTickProd, read every minute if [host] is enabled; absent if the thread may use several CPUs";
}
