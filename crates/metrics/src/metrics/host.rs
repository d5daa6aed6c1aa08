use crate::metric::section;

section! {
    "Host", "The whole machine, for context: a validator rarely suffers alone.";
    MEMORY = Gauge, Bytes, "agave_host_memory_bytes" ["kind"] "The machine's memory by kind.", from "MemTotal, MemAvailable, MemFree, Cached, Dirty, SwapTotal, SwapFree of /proc/meminfo";
    PAGE_FAULTS = Counter, Count, "agave_host_page_faults_total" ["type"] "Page faults of the whole machine.", from "pgfault minus pgmajfault, and pgmajfault, of /proc/vmstat";
    SWAP_PAGES = Counter, Count, "agave_host_swap_pages_total" ["direction"] "Pages swapped in and out on the whole machine.", from "pswpin and pswpout of /proc/vmstat";
    OOM_KILLS = Counter, Count, "agave_host_oom_kills_total" [] "Processes killed on this machine because memory ran out, in whichever cgroup.", from "oom_kill of /proc/vmstat (Linux 4.13)";
    PRESSURE = Counter, Seconds, "agave_host_pressure_stalled_seconds_total" ["resource", "kind"] "Time in which some or all (full) tasks of the machine were stalled waiting for the resource.", from "/proc/pressure (Linux 4.20, PSI on)";
    MAX_MAPS = Gauge, Count, "agave_host_max_maps" [] "How many memory mappings one process may have; mmap versions of the validator need 1,000,000.", from "/proc/sys/vm/max_map_count, read every 15 s";
}
