use super::super::*;

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
    assert_eq!(peaks.add(u64::MAX, 1), 1);
    for slot in 0..MAX_SLOTS as u64 {
        assert_eq!(peaks.add(slot, 2), 2, "a wrong slot hides no other");
    }
    assert_eq!(peaks.add(0, 2), 0);
    assert_eq!(peaks.add(u64::MAX, 1), 1);
    assert_eq!(peaks.add(MAX_SLOTS as u64, 1), 1);
    assert_eq!(peaks.add(0, 2), 2);
    assert_eq!(peaks.peaks.len(), MAX_SLOTS);
}
