//! What the threads of a simulated validator share.

use super::points::Lines;
use super::{Truth, chain};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the threads share.
#[derive(Debug)]
pub(super) struct State {
    pub(super) identity: String,
    pub(super) rpc_port: Option<u16>,
    /// Since 1970.
    pub(super) started: Duration,
    pub(super) begun: Instant,
    pub(super) truth: Truth,
    pub(super) lines: Mutex<Lines>,
    pub(super) running: AtomicBool,
    /// Its file was read once, or there is none.
    pub(super) loaded: AtomicBool,
    pub(super) slot: AtomicU64,
    pub(super) transactions: AtomicU64,
}

impl State {
    pub(super) fn runs(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    pub(super) fn slot(&self) -> u64 {
        self.slot.load(Ordering::Relaxed)
    }

    pub(super) fn tip(&self) -> u64 {
        chain::tip(&self.truth, unix())
    }

    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Now, since 1970.
pub(super) fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
