use crate::metric::section;

section! {
    "Thread pools",
    "Threads with the same name up to their number form a pool (`solScHandler00`, `solScHandler01`: pool `solScHandler`). Read every few ticks (`threads.interval`). Threads are read first, then the process, so that the pools together with the pool `exited` (the process minus the sum of the living, never falling) equal the process's page faults exactly. Minor faults of threads that ran for less than a millisecond since their last reading are up to a minute late. The CPU time of all pools together is the process's, to within the time of the reading, its clock ticks, and what idle threads used since they were read. When that is over 10 ms and over 1 % of what the process used since the last sample, all threads are read at once, otherwise every minute; the delays of such threads are as late. The split into user and system is an estimate from clock ticks, as the kernel's own. Delays of a thread between its last sample and its exit are not counted. At most 150 pools; the rest is the pool `other`.";
    THREADS = Gauge, Count, "agave_thread_pool_threads" ["pool"]
        "Living threads of the pool."
        from "/proc/PID/task";
    PAGE_FAULTS = Counter, Count, "agave_thread_pool_page_faults_total" ["pool", "type"]
        "Page faults by pool: who is faulting."
        from "majflt and minflt of /proc/PID/task/TID/stat";
    CPU = Counter, Seconds, "agave_thread_pool_cpu_seconds_total" ["pool", "mode"]
        "CPU time by pool."
        from "first field of /proc/PID/task/TID/schedstat, split as utime and stime of /proc/PID/task/TID/stat; the pool exited: the process minus the others";
    RUN_QUEUE = Counter, Seconds, "agave_thread_pool_run_queue_seconds_total" ["pool"]
        "Time the pool's threads were ready to run and waited for a CPU."
        from "second field of /proc/PID/task/TID/schedstat";
    BLOCK_IO_DELAY = Counter, Seconds, "agave_thread_pool_block_io_delay_seconds_total" ["pool"]
        "Time the pool's threads waited for block I/O."
        from "delayacct_blkio_ticks of /proc/PID/task/TID/stat; absent unless kernel.task_delayacct was 1 when the validator started";
}
