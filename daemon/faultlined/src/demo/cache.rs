//! The demo's program cache at a given size, as far as the recorded load tells it.

/// Programs that the recorded load calls. With 512 entries a real node evicted and reloaded them
/// all the time, with 1,024 never (`docs/sample-report`).
const PROGRAMS: u64 = 640;
/// Program cache time that such a node still had with 1,024 entries.
const REMAINING_PERCENT: u64 = 15;

/// Capacity in entries. The validator evicts from 90 % on.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheSize(pub(super) u64);

impl CacheSize {
    /// The value of a point's field at this size; `None` as `recorded`, which has the point's
    /// fields.
    pub(super) fn value(
        self,
        point: &str,
        key: &str,
        recorded: impl Fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let level = self.0.saturating_mul(9).div_ceil(10);
        let fits = level >= PROGRAMS;
        match (point, key) {
            ("loaded-programs-cache-stats", "water_level") => Some(level.min(PROGRAMS)),
            ("loaded-programs-cache-stats", "misses" | "evictions" | "reloads" | "insertions") => {
                fits.then_some(0)
            }
            ("replay-slot-stats", key) if fits => {
                let spent = recorded("program_cache_us")?;
                let remaining = spent * REMAINING_PERCENT / 100;
                match key {
                    "program_cache_us" => Some(remaining),
                    "replay_total_elapsed" => {
                        Some(recorded(key)?.saturating_sub(spent - remaining))
                    }
                    _ => key
                        .starts_with("execute_details_create_executor_")
                        .then_some(0),
                }
            }
            _ => None,
        }
    }
}
