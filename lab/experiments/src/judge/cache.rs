//! Checks the cache's capacity, because a stock binary ignores the variable silently.

use crate::outcome::Validity;
use faultline_recording::ProgramCachePoint;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheTotals {
    pub points: u64,
    /// Most compiled entries at the start of an eviction pass. A pass follows each load of a
    /// program, even if nothing is evicted.
    pub water_level: u64,
    /// Like `water_level`, but only of points with evictions.
    pub water_level_evicting: u64,
    pub insertions: u64,
    /// By eviction passes.
    pub evictions: u64,
}

impl CacheTotals {
    pub fn of(points: &[ProgramCachePoint]) -> Self {
        let mut totals = CacheTotals::default();
        for point in points {
            totals.add(point.water_level, point.insertions, point.evictions);
        }
        totals
    }

    pub(crate) fn add(
        &mut self,
        water_level: Option<u64>,
        insertions: Option<u64>,
        evictions: Option<u64>,
    ) {
        let [level, insertions, evictions] =
            [water_level, insertions, evictions].map(Option::unwrap_or_default);
        self.points += 1;
        self.water_level = self.water_level.max(level);
        if evictions > 0 {
            self.water_level_evicting = self.water_level_evicting.max(level);
        }
        self.insertions = self.insertions.saturating_add(insertions);
        self.evictions = self.evictions.saturating_add(evictions);
    }
}

/// A pass evicts down to this percentage of the capacity.
const EVICTION_TARGET_PERCENT: u64 = 90;
/// Concurrent batches can exceed the target by this many entries.
const BATCH_OVERSHOOT: u64 = 32;

/// Whether the run behaved like a cache of `entries`. A pass that evicts begins at nine tenths of
/// the capacity or slightly above. Without evictions, all sufficient capacities behave alike.
pub fn validity(entries: u32, cache_totals: &CacheTotals) -> Validity {
    let target = u64::from(entries) * EVICTION_TARGET_PERCENT / 100;
    let message = format!(
        "the highest water level is {}, with {} insertions and {} evictions",
        cache_totals.water_level, cache_totals.insertions, cache_totals.evictions
    );
    if cache_totals.points == 0 {
        Validity::Unproven("nothing was recorded of the program cache".to_owned())
    } else if cache_totals.water_level > u64::from(entries).max(target + BATCH_OVERSHOOT) {
        Validity::Invalid(format!(
            "the program cache was larger than {entries} entries: {message}"
        ))
    } else if cache_totals.evictions > 0 && cache_totals.water_level_evicting == 0 {
        Validity::Unproven(format!(
            "the program cache's capacity is unknown: {message}"
        ))
    } else if cache_totals.evictions > 0 && cache_totals.water_level_evicting < target {
        Validity::Invalid(format!(
            "the program cache was smaller than {entries} entries: {message}"
        ))
    } else if cache_totals.evictions == 0
        && cache_totals.water_level == 0
        && cache_totals.insertions > target
    {
        Validity::Unproven(format!(
            "the program cache's capacity is unknown: {message}"
        ))
    } else {
        Validity::Valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a cache of so many entries shows when so many programs are called by turns.
    fn cache(capacity: u64, programs: u64) -> CacheTotals {
        let target = capacity * 90 / 100;
        let mut points = Vec::new();
        let mut loaded: u64 = 0;
        for load in 0..4 * programs {
            // Each program is called again after all others, and is gone by then if they do not fit.
            if load >= programs && programs <= target {
                break;
            }
            loaded += 1;
            let evictions = loaded.saturating_sub(target);
            points.push(ProgramCachePoint {
                water_level: Some(loaded),
                evictions: Some(evictions),
                insertions: Some(u64::from(load < programs)),
                ..ProgramCachePoint::default()
            });
            loaded -= evictions;
        }
        CacheTotals::of(&points)
    }

    #[test]
    fn a_cache_of_the_planned_capacity_is_valid_with_or_without_overflow() {
        for (entries, programs) in [
            (512, 640),
            (512, 100),
            (1024, 640),
            (1024, 2000),
            (20, 50),
            (256, 640),
        ] {
            assert_eq!(
                validity(entries, &cache(u64::from(entries), programs)),
                Validity::Valid,
                "{entries} {programs}"
            );
        }
    }

    #[test]
    fn a_stock_cache_size_invalidates_a_run_where_it_matters() {
        let is_invalid = |entries, programs| {
            matches!(
                validity(entries, &cache(512, programs)),
                Validity::Invalid(_)
            )
        };
        // Too small, too large, and no difference: all entries fit into either.
        assert!(is_invalid(1024, 640));
        assert!(is_invalid(256, 640));
        assert!(!is_invalid(1024, 300) && !is_invalid(512, 640));
    }

    #[test]
    fn unrecorded_cache_data_gives_no_validity() {
        let unproven = |cache_totals: CacheTotals| {
            matches!(validity(512, &cache_totals), Validity::Unproven(_))
        };
        assert!(unproven(CacheTotals::default()));
        assert!(unproven(CacheTotals {
            points: 5,
            insertions: 600,
            ..CacheTotals::default()
        }));
        assert!(unproven(CacheTotals {
            points: 5,
            insertions: 600,
            evictions: 1,
            ..CacheTotals::default()
        }));
        assert_eq!(
            validity(
                512,
                &CacheTotals {
                    points: 5,
                    insertions: 9,
                    ..CacheTotals::default()
                }
            ),
            Validity::Valid
        );
    }
}
