//! The time that the release's statistics read: it moves only when a scenario moves it.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use crate::cluster::{MIGRATION_SLOT, SLOT_NANOS};

/// 21 October 2026, 00:16:40 UTC.
const MIGRATION: Duration = Duration::from_secs(1_792_541_800);

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(MIGRATION) };
}

/// Moves to some microseconds after a slot's begin.
pub fn set(slot: u64, micros: u64) {
    let nanos = u128::from(SLOT_NANOS) * u128::from(slot.abs_diff(MIGRATION_SLOT));
    let distance = Duration::from_nanos(u64::try_from(nanos).expect("584 years"));
    let begin = if slot < MIGRATION_SLOT {
        MIGRATION - distance
    } else {
        MIGRATION + distance
    };
    NOW.set(begin + Duration::from_micros(micros));
}

pub fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + since_1970()
}

pub fn since_1970() -> Duration {
    NOW.get()
}

#[derive(Debug, Clone, Copy)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(since_1970())
    }

    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// As many slots take so long.
pub fn nanos(slots: u64) -> Duration {
    Duration::from_nanos(SLOT_NANOS * slots)
}
