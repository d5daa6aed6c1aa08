use crate::metric::section;

section! {
    "Thread pools",
    "Threads whose names differ only in a number form a pool (`solScHandler00`, `solScHandler01`: pool `solScHandler`). They are read every few ticks (`threads.interval`), before the process. The pool `exited` never falls. At a complete reading it is the process minus the other pools. So the page faults of all pools equal those of the process exactly after each complete reading. A complete reading comes every minute, and earlier after a major fault. Between them, minor faults are missing: those of threads that ended, and of threads that seemed idle, or ran for less than a millisecond, since their last reading. They are up to a minute late, and the pool `exited` then grows in one step. The CPU time of all pools may differ from that of the process by the duration of the reading, a clock tick, and what idle threads used since they were read. If the difference exceeds 10 ms and 1 % of what the process used since the last sample, all threads are read immediately, otherwise every minute. Delays of idle threads are up to a minute late. The split into user and system time is an estimate from clock ticks, like that of the kernel. Delays of a thread between its last sample and its exit are not counted. There are at most 150 pools; the pool `other` has the rest.";
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
        from "delayacct_blkio_ticks of /proc/PID/task/TID/stat; absent before Linux 5.14, while kernel.task_delayacct is 0, or while all are 0: set it to 1 before the validator starts";
}
