//! The lab's only clock.

#![expect(clippy::disallowed_methods, reason = "this is the lab's clock")]

use std::time::SystemTime;

/// Now, by the system's clock.
pub fn now() -> SystemTime {
    SystemTime::now()
}
