//! Slots of the cluster and their costs: functions of the slot, the cache's capacity and the [`Truth`].

use super::Truth;
use std::time::Duration;

/// Slot 0: the first of January 2026, in seconds since 1970.
const GENESIS: u64 = 1_767_225_600;

/// The cluster's newest slot at a time since 1970.
pub fn tip(truth: &Truth, unix: Duration) -> u64 {
    let since = unix
        .saturating_sub(Duration::from_secs(GENESIS))
        .as_millis();
    u64::try_from(since * u128::from(truth.slots_per_second) / 1000).unwrap_or(u64::MAX)
}

/// Contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotContents {
    /// Transactions, votes included.
    pub transactions: u64,
    /// Entries, ticks included.
    pub entries: u64,
    pub shreds: u64,
}

/// Derived from the slot's number only.
pub fn contents(slot: u64) -> SlotContents {
    let transactions = 20 + mixed(slot) % 41;
    SlotContents {
        transactions,
        entries: 64 + transactions,
        shreds: 30 + transactions / 4,
    }
}

/// Compiled programs after an eviction pass: 90 % of the capacity.
pub fn shrink_target(capacity: u64) -> u64 {
    capacity * 90 / 100
}

/// Changes of the program cache in a slot: fields of `loaded-programs-cache-stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cache {
    /// Programs that were not loaded.
    pub misses: u64,
    /// Programs that were evicted.
    pub evictions: u64,
    /// Programs that were loaded again.
    pub reloads: u64,
    /// Programs that were loaded for the first time.
    pub insertions: u64,
    /// Compiled programs when the last eviction pass began; 0 without one.
    pub water_level: u64,
}

/// Changes in a slot once every program has been called.
pub fn steady(truth: &Truth, capacity: u64, slot: u64) -> Cache {
    let target = shrink_target(capacity);
    let absent = truth.programs.saturating_sub(target);
    let until = |slot: u64| slot * truth.calls_per_slot * absent / truth.programs.max(1);
    let missed = until(slot) - until(slot.saturating_sub(1));
    let water_level = if missed > 0 { target + 1 } else { 0 };
    Cache {
        misses: missed,
        evictions: missed,
        reloads: missed,
        insertions: 0,
        water_level,
    }
}

/// The program cache of one process, from its start on.
#[derive(Debug, Clone)]
pub struct ProgramCache {
    capacity: u64,
    called: u64,
}

impl ProgramCache {
    /// Empty.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            called: 0,
        }
    }

    /// Replays the next slot and returns its changes.
    pub fn slot(&mut self, truth: &Truth, slot: u64) -> Cache {
        if self.called >= truth.programs {
            return steady(truth, self.capacity, slot);
        }
        let new = truth
            .first_calls_per_slot
            .clamp(1, truth.programs - self.called);
        let target = shrink_target(self.capacity);
        let loaded = self.called.min(target) + new;
        self.called += new;
        Cache {
            misses: new,
            insertions: new,
            evictions: loaded.saturating_sub(target),
            reloads: 0,
            water_level: loaded.min(target + 1),
        }
    }
}

/// Times of a slot in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// `program_cache_us`.
    pub cache: u64,
    /// The part of `cache` that loaded programs.
    pub loading: u64,
    /// `execute_us`.
    pub execute: u64,
    /// `replay_total_elapsed`.
    pub total: u64,
}

/// Times of a slot with these changes of the cache.
pub fn cost(truth: &Truth, slot: u64, cache: Cache) -> Cost {
    let factor = (1000 + truth.slower_permille) * (1000 + truth.place_slower_permille) / 1000;
    let width = 2 * truth.noise_permille + 1;
    let noise = 1000 + mixed(slot ^ truth.noise_seed.wrapping_mul(0x9e37_79b9)) % width
        - truth.noise_permille.min(1000);
    let scaled = |us: u64| us * factor * noise / 1_000_000;
    let loading = cache.reloads * truth.load_us + cache.insertions * truth.first_load_us;
    let lookups = truth.calls_per_slot * truth.lookup_us;
    let execute = contents(slot).transactions * 60;
    Cost {
        cache: scaled(lookups + loading),
        loading: scaled(loading),
        execute: scaled(execute),
        total: scaled(2000 + execute + lookups + loading),
    }
}

/// A pseudorandom number that depends only on `number` (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_is_large_enough_misses_each_program_once() {
        let truth = Truth::default();
        let mut cache = ProgramCache::new(1024);
        let all: Vec<Cache> = (1000..1100).map(|slot| cache.slot(&truth, slot)).collect();
        let sum = |of: fn(&Cache) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!((sum(|c| c.misses), sum(|c| c.insertions)), (640, 640));
        assert_eq!((sum(|c| c.evictions), sum(|c| c.reloads)), (0, 0));
        assert_eq!(all.iter().map(|c| c.water_level).max(), Some(640));
    }

    #[test]
    fn a_too_small_cache_stays_at_nine_tenths_and_reloads_evicted_programs() {
        let truth = Truth::default();
        let mut cache = ProgramCache::new(512);
        let all: Vec<Cache> = (64_000..64_000 + 16 + 640)
            .map(|slot| cache.slot(&truth, slot))
            .collect();
        let sum = |of: fn(&Cache) -> u64| all.iter().map(of).sum::<u64>();
        // 180 of 640 programs are not there, of 16 calls in each of 640 slots.
        assert_eq!(sum(|c| c.reloads), 16 * 180);
        assert_eq!(sum(|c| c.misses), 640 + 16 * 180);
        assert_eq!(sum(|c| c.evictions), 180 + 16 * 180);
        assert_eq!(
            sum(|c| c.insertions) + sum(|c| c.reloads) - sum(|c| c.evictions),
            460
        );
        assert_eq!(all.iter().map(|c| c.water_level).max(), Some(461));
    }

    #[test]
    fn all_instances_see_the_same_slots_and_slowdown_scales_every_time() {
        let (truth, slow) = (
            Truth::default(),
            Truth {
                slower_permille: 250,
                ..Truth::default()
            },
        );
        for slot in 5000..5100 {
            let cache = steady(&truth, 512, slot);
            let (one, other) = (cost(&truth, slot, cache), cost(&slow, slot, cache));
            assert_eq!(other.total, one.total * 1250 / 1000);
            assert_eq!(contents(slot), contents(slot));
        }
    }

    #[test]
    fn simulated_noise_has_its_configured_width_and_no_bias() {
        let noisy = Truth {
            noise_permille: 100,
            noise_seed: 3,
            ..Truth::default()
        };
        let cache = steady(&noisy, 1024, 1);
        let ratio = |slot| {
            cost(&noisy, slot, cache).total as f64
                / cost(&Truth::default(), slot, cache).total as f64
        };
        let ratios: Vec<f64> = (0..10_000).map(ratio).collect();
        assert!(ratios.iter().all(|ratio| (0.899..1.101).contains(ratio)));
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
    }

    #[test]
    fn simulated_slots_are_derived_from_the_clock() {
        let truth = Truth {
            slots_per_second: 20,
            ..Truth::default()
        };
        assert_eq!(tip(&truth, Duration::from_secs(GENESIS)), 0);
        assert_eq!(
            tip(&truth, Duration::from_millis(1000 * GENESIS + 1049)),
            20
        );
        assert_eq!(
            tip(&truth, Duration::from_millis(1000 * GENESIS + 1050)),
            21
        );
    }
}
