use crate::metric::section;

section! {
    "Process",
    "Read from /proc on every tick. Series end with the process, except agave_up and the counts of restarts and ends. After a restart, counters begin again at the zero of the kernel, as a scraper expects. `smaps`, `smaps_rollup`, `maps` and `numa_maps` are never read: they hold the lock that the validator's page faults and mappings wait for.";
    UP = Gauge, Flag, "agave_up" []
        "1 while the validator, or only a wrapper of it, is followed; else 0."
        from "the search for the target";
    TARGET_INFO = Info, Flag, "agave_target_info" ["exe", "comm", "version", "client", "cluster", "identity", "cgroup", "experiment", "arm", "run"]
        "What is being followed; a label is empty while its value is unknown."
        from "/proc/PID, JSON-RPC, admin socket, datapoint validator-new, configuration";
    START_TIME = Gauge, Seconds, "agave_process_start_time_seconds" []
        "When the validator process started, in seconds since 1970."
        from "starttime of /proc/PID/stat plus btime of /proc/stat, which is read again after the clock was set";
    RESTARTS = Counter, Count, "agave_process_restarts_total" ["reason"]
        "Times the followed process was replaced by another one since the daemon started."
        from "change of (pid, start time); oom_kill if the process ended within a minute after the cgroup's oom_kill count rose (the host's, if that is unreadable), exit if a pidfd reported the exit, unknown otherwise and after an exec";
    ENDS = Counter, Count, "agave_process_ends_total" ["reason"]
        "Exits of the followed process since the daemon started, including an exec of a program that is not followed; with or without a successor."
        from "as agave_process_restarts_total, which counts once the next process is found";
    STATE = Gauge, Flag, "agave_process_state" ["state"]
        "State of the process's main thread at the tick: 1 for its state, 0 for the others. Other threads may run while the main thread sleeps or is a zombie; a stop signal stops all threads. While a cgroup freezer stops the process, the state is sleeping (cgroup version 2) or disk_sleep (version 1)."
        from "state of /proc/PID/stat: R running, S sleeping, D disk_sleep (uninterruptible), T stopped, t tracing_stop, Z zombie, X dead, I idle; absent for any other letter";
    RESIDENT = Gauge, Bytes, "agave_process_resident_memory_bytes" ["type"]
        "Resident memory (RSS) by type: anon is demand, file is page cache mapped by the process, shmem is tmpfs and shared memory."
        from "RssAnon, RssFile, RssShmem of /proc/PID/status (Linux 4.5)";
    VIRTUAL = Gauge, Bytes, "agave_process_virtual_memory_bytes" []
        "Virtual memory size (VSZ): address space, not memory."
        from "vsize of /proc/PID/stat; absent once the main thread has exited, although other threads may run: the file then has 0";
    SWAP = Gauge, Bytes, "agave_process_swap_bytes" []
        "Anonymous memory of the process that is swapped out."
        from "VmSwap of /proc/PID/status";
    PAGE_TABLES = Gauge, Bytes, "agave_process_page_table_bytes" []
        "Memory used by the process's page tables."
        from "VmPTE of /proc/PID/status";
    PAGE_FAULTS = Counter, Count, "agave_process_page_faults_total" ["type"]
        "Page faults of the process, including threads that have exited: a major fault waited for a disk, a minor one did not."
        from "majflt and minflt of /proc/PID/stat";
    CPU = Counter, Seconds, "agave_process_cpu_seconds_total" ["mode"]
        "CPU time of the process, including threads that have exited."
        from "utime and stime of /proc/PID/stat, in clock ticks of 10 ms";
    THREADS = Gauge, Count, "agave_process_threads" []
        "Threads of the process."
        from "num_threads of /proc/PID/stat";
    OPEN_FDS = Gauge, Count, "agave_process_open_fds" []
        "Open file descriptors of the process."
        from "st_size of /proc/PID/fd, read every 5 s (Linux 6.2, absent before; no right is required): the folder is never listed";
    MAX_FDS = Gauge, Count, "agave_process_max_fds" []
        "The process's soft limit of open file descriptors; absent when unlimited."
        from "Max open files of /proc/PID/limits, read every 5 s";
    IO_BYTES = Counter, Bytes, "agave_process_io_bytes_total" ["direction"]
        "Bytes the process read from block devices, and wrote: directly, or by making pages dirty."
        from "read_bytes and write_bytes of /proc/PID/io (needs the same user and capabilities, or CAP_SYS_PTRACE)";
    BLOCK_IO_DELAY = Counter, Seconds, "agave_process_block_io_delay_seconds_total" []
        "Time the process's threads waited for block I/O. A thread's time between its last sample and its exit is not counted."
        from "delayacct_blkio_ticks of /proc/PID/task/TID/stat, summed over threads; absent before Linux 5.14, while kernel.task_delayacct is 0, or while all are 0: set it to 1 before the validator starts";
    CONTEXT_SWITCHES = Counter, Count, "agave_process_context_switches_total" ["type"]
        "Context switches of the process's threads. Those of a thread between its last sample and its exit are not counted."
        from "ctxt_switches of /proc/PID/task/TID/status, summed over threads, read less often than the rest (threads.switches_interval)";
    OOM_SCORE = Gauge, Count, "agave_process_oom_score" []
        "How likely the kernel is to kill the process when memory runs out (0 to 2000)."
        from "/proc/PID/oom_score, read every 5 s";
    OOM_SCORE_ADJ = Gauge, Count, "agave_process_oom_score_adj" []
        "The adjustment that is set for the kernel's OOM score of the process (-1000 to 1000)."
        from "/proc/PID/oom_score_adj, read every 5 s";
}
