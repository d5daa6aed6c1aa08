//! The lab's only clock.

#![expect(clippy::disallowed_methods, reason = "this is the lab's clock")]

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// Now, by the system's clock.
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Time since the first call, by a clock that never jumps.
pub fn uptime() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
