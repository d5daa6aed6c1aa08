use std::collections::{HashMap, VecDeque};

/// Covers 14 minutes with slots of 0.2 s. An older slot counts as a new one.
const MAX_SLOTS: usize = 4096;

/// The highest count of each slot. The points of a slot come again if its block or an ancestor is
/// replaced. A sum over slots must not fall, so it adds only what exceeds the highest count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotPeaks {
    peaks: HashMap<u64, u64>,
    /// By their first count.
    slots: VecDeque<u64>,
}

impl SlotPeaks {
    /// Returns the part of `count` that the sum lacks.
    pub fn add(&mut self, slot: u64, count: u64) -> u64 {
        if let Some(peak) = self.peaks.get_mut(&slot) {
            let excess = count.saturating_sub(*peak);
            *peak = count.max(*peak);
            return excess;
        }
        self.peaks.insert(slot, count);
        self.slots.push_back(slot);
        if self.slots.len() > MAX_SLOTS
            && let Some(oldest) = self.slots.pop_front()
        {
            self.peaks.remove(&oldest);
        }
        count
    }

    /// Adds the slots of another sum. Returns the part of that sum that this one has already.
    pub fn merge(&mut self, other: &SlotPeaks) -> u64 {
        let counts = other.slots.iter().filter_map(|slot| {
            let count = *other.peaks.get(slot)?;
            Some(count - self.add(*slot, count))
        });
        counts.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_adds_what_exceeds_its_highest_count() {
        let mut peaks = SlotPeaks::default();
        let counts = [(7, 5), (8, 3), (7, 4), (7, 9), (7, 5), (8, 3)];
        let added = counts.map(|(slot, count)| peaks.add(slot, count));
        assert_eq!(added, [5, 3, 0, 4, 0, 0]);
    }

    #[test]
    fn merging_returns_what_both_counted() {
        let (mut one, mut two) = (SlotPeaks::default(), SlotPeaks::default());
        one.add(7, 5);
        one.add(8, 3);
        two.add(8, 4);
        two.add(9, u64::MAX);
        assert_eq!(one.merge(&two), 3);
        assert_eq!(one.add(8, 5), 1);
        assert_eq!(one.merge(&two), u64::MAX);
    }

    #[test]
    fn a_slot_far_back_counts_as_new_with_bounded_memory() {
        let mut peaks = SlotPeaks::default();
        assert_eq!(peaks.add(u64::MAX, 1), 1, "a wrong slot hides no other");
        for slot in 0..MAX_SLOTS as u64 {
            assert_eq!(peaks.add(slot, 2), 2);
        }
        assert_eq!(peaks.add(0, 2), 0);
        assert_eq!(peaks.add(u64::MAX, 1), 1);
        assert_eq!(peaks.add(0, 2), 2);
        assert_eq!(peaks.peaks.len(), MAX_SLOTS);
        assert_eq!(peaks.slots.len(), MAX_SLOTS);
    }
}
