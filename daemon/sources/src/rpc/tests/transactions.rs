use crate::rpc::{MAX_PROCESSES, TransactionCounter};
use faultline_kernel::ProcessId;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn process(pid: u32) -> ProcessId {
    ProcessId {
        pid,
        start_ticks: 7,
    }
}

fn total_of(seen: &[(u32, u64)]) -> Option<u64> {
    let mut counter = TransactionCounter::default();
    seen.iter()
        .for_each(|&(pid, count)| counter.record(process(pid), count));
    counter.total
}

#[test]
fn the_first_transaction_count_is_the_baseline() {
    assert_eq!(total_of(&[]), None);
    assert_eq!(total_of(&[(1, 1_000_000)]), Some(0));
    assert_eq!(total_of(&[(1, 1_000_000), (1, 1_000_030)]), Some(30));
}

#[test]
fn a_fork_switch_to_a_lower_count_counts_nothing_twice() {
    assert_eq!(
        total_of(&[(1, 100), (1, 150), (1, 120), (1, 150), (1, 160)]),
        Some(60)
    );
}

#[test]
fn a_restart_from_an_older_or_a_newer_snapshot_adds_nothing() {
    assert_eq!(total_of(&[(1, 100), (1, 150), (2, 90), (2, 95)]), Some(55));
    assert_eq!(
        total_of(&[(1, 100), (1, 150), (2, 9_000), (2, 9_001)]),
        Some(51)
    );
}

#[test]
fn memory_is_bounded() {
    let mut counter = TransactionCounter::default();
    (0..1000).for_each(|pid| counter.record(process(pid), 5));
    assert_eq!(
        (counter.highest_counts.len(), counter.total),
        (MAX_PROCESSES, Some(0))
    );
}

proptest! {
    #[test]
    fn the_transaction_total_sums_each_processs_growth(
        seen in prop::collection::vec((0..4_u32, 0..1000_u64), 0..60)
    ) {
        let mut bounds = BTreeMap::new();
        for &(pid, count) in &seen {
            let (_, highest) = bounds.entry(pid).or_insert((count, count));
            *highest = count.max(*highest);
        }
        let growth: u64 = bounds.values().map(|(first, highest)| highest - first).sum();
        prop_assert_eq!(total_of(&seen).unwrap_or(0), growth);
    }

    #[test]
    fn the_transaction_total_never_decreases_or_overflows(seen in prop::collection::vec((0..40_u32, any::<u64>()), 0..200)) {
        let mut counter = TransactionCounter::default();
        let mut before = None;
        for (pid, count) in seen {
            counter.record(process(pid), count);
            prop_assert!(counter.total >= before);
            before = counter.total;
        }
    }
}
