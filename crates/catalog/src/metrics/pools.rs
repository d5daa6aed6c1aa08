//! The validator's threads, summed by pool.

use crate::metric::section;

section! {
    "Thread pools", "Threads with the same name up to their number form a pool (`solScHandler00`, `solScHandler01`: pool `solScHandler`). Read every few ticks (`threads.interval`). Threads are read first, then the process, so that the pools together with the pool `exited` (the process minus the sum of the living, never falling) equal the process's page faults exactly. CPU by mode is rescaled per thread by the kernel and only approximate. Delays lose what a thread gained after its last sample. At most 150 pools; the rest is the pool `other`.";
    THREADS = Gauge, Count, "agave_thread_pool_threads" ["pool"] "Living threads of the pool.", from "/proc/PID/task";
    PAGE_FAULTS = Counter, Count, "agave_thread_pool_page_faults_total" ["pool", "type"] "Page faults by pool: who is faulting.", from "majflt and minflt of /proc/PID/task/TID/stat";
    CPU = Counter, Seconds, "agave_thread_pool_cpu_seconds_total" ["pool", "mode"] "CPU time by pool.", from "utime and stime of /proc/PID/task/TID/stat";
    RUN_QUEUE = Counter, Seconds, "agave_thread_pool_run_queue_seconds_total" ["pool"] "Time the pool's threads were ready to run and waited for a CPU.", from "second field of /proc/PID/task/TID/schedstat";
    BLOCK_IO_DELAY = Counter, Seconds, "agave_thread_pool_block_io_delay_seconds_total" ["pool"] "Time the pool's threads waited for block I/O.", from "delayacct_blkio_ticks of /proc/PID/task/TID/stat; absent unless kernel.task_delayacct was 1 when the validator started";
}
