//! The lab's only clock.

#![expect(clippy::disallowed_methods, reason = "this is the lab's clock")]

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
