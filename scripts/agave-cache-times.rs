
/// Measures the times of pruning and eviction of the program cache, which stock builds do not report.
pub mod cache_times {
    use std::{sync::atomic::{AtomicU64, Ordering::Relaxed}, time::Instant};

    static PRUNE_US: AtomicU64 = AtomicU64::new(0);
    static PRUNES: AtomicU64 = AtomicU64::new(0);
    static EVICT_US: AtomicU64 = AtomicU64::new(0);
    static EVICT_PASSES: AtomicU64 = AtomicU64::new(0);
    static EVICT_EXAMINED: AtomicU64 = AtomicU64::new(0);

    /// When dropped, adds its lifetime to `us` and 1 to `count`.
    pub(crate) struct Timer {
        began: Instant,
        us: &'static AtomicU64,
        count: &'static AtomicU64,
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.us.fetch_add(us, Relaxed);
            self.count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn prune() -> Timer {
        Timer { began: Instant::now(), us: &PRUNE_US, count: &PRUNES }
    }

    pub(crate) fn evict() -> Timer {
        Timer { began: Instant::now(), us: &EVICT_US, count: &EVICT_PASSES }
    }

    /// Called once in each eviction pass.
    pub(crate) fn examined(entries: usize) {
        EVICT_EXAMINED.fetch_add(entries as u64, Relaxed);
    }

    /// The sums since the last call, in the order of the statics.
    pub fn take() -> [i64; 5] {
        [&PRUNE_US, &PRUNES, &EVICT_US, &EVICT_PASSES, &EVICT_EXAMINED].map(|sum| sum.swap(0, Relaxed) as i64)
    }
}
