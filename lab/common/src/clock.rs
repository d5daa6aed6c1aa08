//! The lab's only clock.

#![expect(clippy::disallowed_methods, reason = "this is the lab's clock")]

use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

pub fn now() -> SystemTime {
    SystemTime::now()
}

pub fn since_1970() -> Duration {
    now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

pub fn unix_ns() -> i64 {
    nanoseconds(since_1970())
}

pub fn nanoseconds(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

pub fn from_nanoseconds(number: i64) -> Duration {
    Duration::from_nanos(u64::try_from(number).unwrap_or(0))
}

/// Time since the first call in this process. It never jumps.
pub fn uptime() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
