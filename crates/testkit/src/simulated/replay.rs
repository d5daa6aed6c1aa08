//! Which slots are replayed when, and their times.

use super::{
    ALPENGLOW_CAPACITY, CACHE_VARIABLE, STOCK_CAPACITY, Truth, cgroup,
    chain::{self, Cost, ProgramCache},
    points::Replayed,
    working_set::WorkingSet,
};
use std::time::Duration;

/// Progress of replay.
#[derive(Debug)]
pub struct Replay {
    pub slot: u64,
    /// Replayed share of the next slot.
    next_slot_share: f64,
    cache: ProgramCache,
    /// The memory limit is below `keeps_up_from_mib`.
    lacks_memory: bool,
    /// With `working_set_percent`: its pages alone decide the speed.
    pub working_set: Option<WorkingSet>,
}

impl Replay {
    /// Begins `behind_at_start` slots behind the tip.
    pub fn new(truth: &Truth, tip: u64) -> Self {
        let given = std::env::var(CACHE_VARIABLE)
            .ok()
            .and_then(|entries| entries.parse().ok());
        let stock = if truth.alpenglow {
            ALPENGLOW_CAPACITY
        } else {
            STOCK_CAPACITY
        };
        let capacity = given
            .filter(|_| !truth.ignores_cache_switch)
            .unwrap_or(stock);
        let limit = cgroup::memory_limit().unwrap_or(u64::MAX);
        Self {
            slot: tip.saturating_sub(truth.behind_at_start),
            next_slot_share: 0.0,
            cache: ProgramCache::new(capacity),
            lacks_memory: limit >> 20 < truth.keeps_up_from_mib,
            working_set: None,
        }
    }

    /// Replays for the time `passed` since the last call, `lived` after the start of the services.
    ///
    /// # Errors
    /// The file of its working set cannot be read.
    pub fn advance(
        &mut self,
        truth: &Truth,
        tip: u64,
        lived: Duration,
        passed: Duration,
    ) -> std::io::Result<Vec<Replayed>> {
        if let Some(working_set) = &mut self.working_set {
            let done = working_set.advance(truth, self.slot, tip, passed)?;
            self.slot = done.last().map_or(self.slot, |(slot, _)| *slot);
            let timed = |(slot, us)| {
                let replayed = self.replay(truth, slot);
                Replayed {
                    cost: Cost {
                        total: us,
                        ..replayed.cost
                    },
                    ..replayed
                }
            };
            return Ok(done.into_iter().map(timed).collect());
        }
        let falls_behind =
            self.lacks_memory && lived >= Duration::from_millis(truth.squeezed_after_ms);
        let percent = if falls_behind {
            truth.squeezed_percent
        } else {
            truth.catch_up_percent
        };
        let cluster = passed.as_secs_f64() * truth.slots_per_second as f64;
        let able = self.next_slot_share + cluster * percent as f64 / 100.0;
        let ready = tip.saturating_sub(self.slot);
        let many = ready.min(able as u64);
        // At the tip, unused time is lost.
        self.next_slot_share = if many == ready {
            0.0
        } else {
            able - many as f64
        };
        let first = self.slot + 1;
        self.slot += many;
        Ok((first..=self.slot)
            .map(|slot| self.replay(truth, slot))
            .collect())
    }

    fn replay(&mut self, truth: &Truth, slot: u64) -> Replayed {
        let cache = self.cache.slot(truth, slot);
        Replayed {
            slot,
            contents: chain::contents(slot),
            cache,
            cost: chain::cost(truth, slot, cache),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Slots behind the tip after each of so many seconds.
    fn behind(truth: &Truth, lacks_memory: bool, seconds: u64) -> Vec<u64> {
        let mut replay = Replay {
            lacks_memory,
            ..Replay::new(truth, 100_000)
        };
        let steps = (1..=seconds * 50).map(|step| {
            let lived = STEP * u32::try_from(step).unwrap();
            let tip = 100_000 + step * truth.slots_per_second / 50;
            replay.advance(truth, tip, lived, STEP).unwrap();
            tip - replay.slot
        });
        steps
            .collect::<Vec<_>>()
            .chunks(50)
            .filter_map(|second| second.last().copied())
            .collect()
    }

    #[test]
    fn the_simulated_validator_catches_up_and_stays_at_the_tip() {
        let truth = Truth {
            behind_at_start: 150,
            ..Truth::default()
        };
        let behind = behind(&truth, false, 4);
        assert_eq!(behind.last(), Some(&0), "{behind:?}");
        assert!((74..=76).contains(&behind[0]), "{behind:?}");
    }

    #[test]
    fn at_100_percent_catch_up_speed_the_distance_behind_is_constant() {
        let truth = Truth {
            behind_at_start: 150,
            catch_up_percent: 100,
            ..Truth::default()
        };
        let behind = behind(&truth, false, 30);
        assert!(
            behind.iter().all(|behind| (149..=151).contains(behind)),
            "{behind:?}"
        );
    }

    #[test]
    fn without_enough_memory_the_simulated_validator_falls_behind() {
        let truth = Truth {
            squeezed_after_ms: 2000,
            squeezed_percent: 20,
            ..Truth::default()
        };
        let behind = behind(&truth, true, 7);
        assert_eq!(behind[..1], [0]);
        assert!((99..=101).contains(&behind[6]), "{behind:?}");
    }

    #[test]
    fn every_slot_is_replayed_once_and_in_order() {
        let truth = Truth {
            behind_at_start: 40,
            ..Truth::default()
        };
        let mut replay = Replay::new(&truth, 1000);
        let all: Vec<u64> = (1..=100)
            .flat_map(|step| replay.advance(&truth, 1000 + step / 2, STEP, STEP).unwrap())
            .map(|replayed| replayed.slot)
            .collect();
        assert_eq!(all, (961..=1050).collect::<Vec<u64>>());
    }
}
