use itertools::Itertools;

#[derive(Debug)]
pub struct OwnLeaderSchedule {
    pub epoch: u64,
    /// The first slot after the epoch.
    end_slot: u64,
    slots: Vec<u64>,
}

/// Consecutive slots without an own leader slot, at or after a given slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestartWindow {
    /// Slots from the given slot to the first of the window.
    pub offset: u64,
    pub slots: u64,
}

impl OwnLeaderSchedule {
    /// `indices` count from the epoch's first slot.
    pub fn new(epoch: u64, first: u64, length: u64, indices: &[u32]) -> Self {
        let slots = indices
            .iter()
            .map(|index| first.saturating_add((*index).into()));
        Self {
            epoch,
            end_slot: first.saturating_add(length),
            slots: slots.sorted_unstable().collect(),
        }
    }

    pub fn assigned(&self) -> u64 {
        self.slots.len() as u64
    }

    /// 0 if `slot` is an own leader slot. `None` if none is left.
    pub fn slots_to_next(&self, slot: u64) -> Option<u64> {
        Some(self.slots_from(slot).first()?.saturating_sub(slot))
    }

    /// The longest window from `slot` on, and the first of equal ones. `None` if every remaining
    /// slot is an own leader slot.
    pub fn longest_window(&self, slot: u64) -> Option<RestartWindow> {
        let mut longest: Option<RestartWindow> = None;
        let mut window_start = slot;
        for next in self.slots_from(slot).iter().copied().chain([self.end_slot]) {
            let window = RestartWindow {
                offset: window_start.saturating_sub(slot),
                slots: next.saturating_sub(window_start),
            };
            if window.slots > longest.map_or(0, |known| known.slots) {
                longest = Some(window);
            }
            window_start = next.saturating_add(1);
        }
        longest
    }

    fn slots_from(&self, slot: u64) -> &[u64] {
        let at = self.slots.partition_point(|own| *own < slot);
        self.slots.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(offset: u64, slots: u64) -> Option<RestartWindow> {
        Some(RestartWindow { offset, slots })
    }

    #[test]
    fn the_longest_leader_free_window_is_found_anywhere() {
        // Slots 1000 to 1099; leader slots 1010 to 1013, 1050, 1051.
        let schedule = OwnLeaderSchedule::new(5, 1000, 100, &[51, 10, 11, 12, 13, 50]);
        assert_eq!(schedule.assigned(), 6);
        assert_eq!(
            schedule.longest_window(1000),
            window(52, 48),
            "the end of the epoch"
        );
        assert_eq!(
            (
                schedule.slots_to_next(1000),
                schedule.slots_to_next(1012),
                schedule.slots_to_next(1014)
            ),
            (Some(10), Some(0), Some(36))
        );
        assert_eq!(
            (schedule.slots_to_next(1052), schedule.longest_window(1052)),
            (None, window(0, 48))
        );
        assert_eq!(schedule.longest_window(1100), None);
        let early = OwnLeaderSchedule::new(5, 1000, 60, &[10, 50]);
        assert_eq!(
            early.longest_window(1005),
            window(6, 39),
            "between two leader slots"
        );
        assert_eq!(
            early.longest_window(1010),
            window(1, 39),
            "from the end of the present one on"
        );
    }

    #[test]
    fn without_leader_slots_the_window_is_the_remaining_epoch() {
        let none = OwnLeaderSchedule::new(0, 0, 32, &[]);
        assert_eq!(
            (none.slots_to_next(3), none.longest_window(3)),
            (None, window(0, 29))
        );
        let all = OwnLeaderSchedule::new(0, 0, 4, &[0, 1, 2, 3]);
        assert_eq!(
            (all.slots_to_next(2), all.longest_window(2)),
            (Some(0), None)
        );
    }
}
