
/// How long pruning and eviction of the program cache take, which stock builds do not report.
pub mod cache_times {
    use std::{sync::atomic::{AtomicU64, Ordering::Relaxed}, time::Instant};

    static PRUNE_US: AtomicU64 = AtomicU64::new(0);
    static PRUNES: AtomicU64 = AtomicU64::new(0);
    static EVICT_US: AtomicU64 = AtomicU64::new(0);
    static EVICT_PASSES: AtomicU64 = AtomicU64::new(0);
    static EVICT_EXAMINED: AtomicU64 = AtomicU64::new(0);

    /// Adds the time until it is dropped.
    pub(crate) struct Timer {
        began: Instant,
        us: &'static AtomicU64,
        times: &'static AtomicU64,
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.us.fetch_add(us, Relaxed);
            self.times.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn prune() -> Timer {
        Timer { began: Instant::now(), us: &PRUNE_US, times: &PRUNES }
    }

    pub(crate) fn evict() -> Timer {
        Timer { began: Instant::now(), us: &EVICT_US, times: &EVICT_PASSES }
    }

    /// Entries that an eviction pass looked at.
    pub(crate) fn examined(entries: usize) {
        EVICT_EXAMINED.fetch_add(entries as u64, Relaxed);
    }

    /// What was added since the last call: time of pruning, prunes, time of eviction, passes, entries examined.
    pub fn take() -> [i64; 5] {
        [&PRUNE_US, &PRUNES, &EVICT_US, &EVICT_PASSES, &EVICT_EXAMINED].map(|sum| sum.swap(0, Relaxed) as i64)
    }
}
