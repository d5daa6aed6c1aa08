use super::{Span, points_within};
use crate::run::Run;
use faultline_recording::ReplaySlotPoint;
use std::collections::BTreeMap;

/// Whether this node produced the slot; its times then mean nothing. `None` if unknown.
pub fn is_own(point: &ReplaySlotPoint) -> Option<bool> {
    Some(point.total_transactions? == 0 && point.total_entries? == 0 && point.total_shreds? == 0)
}

/// In order of time; each replay of a slot counts. With an unknown producer, a slot counts if it
/// has transactions.
pub fn replayed(run: &Run, window: Span) -> impl Iterator<Item = &ReplaySlotPoint> {
    let points = points_within(run, &run.points.replay, window);
    points.filter(|point| match is_own(point) {
        Some(own) => !own,
        None => point.total_transactions.is_some_and(|count| count > 0),
    })
}

/// Points of replayed slots with transactions.
pub fn with_transactions(run: &Run, window: Span) -> impl Iterator<Item = &ReplaySlotPoint> {
    replayed(run, window).filter(|point| point.total_transactions.is_some_and(|count| count > 0))
}

/// In ms; the last replay of a slot counts. For a fixed range, the time from bank to bank.
pub fn slots(run: &Run, window: Span) -> Vec<(u64, f64)> {
    if !run.replayed.slots.is_empty() {
        return run
            .replayed
            .slots
            .iter()
            .filter_map(|slot| Some((slot.slot, slot.elapsed_ms?)))
            .collect();
    }
    let points = replayed(run, window);
    points
        .filter_map(|point| Some((point.slot?, point.replay_total_elapsed_us? as f64 / 1e3)))
        .collect()
}

/// In ms, for slots with transactions; the last replay of a slot counts.
pub fn cache_slots(run: &Run, window: Span) -> Vec<(u64, f64)> {
    let points = with_transactions(run, window);
    points
        .filter_map(|point| Some((point.slot?, point.program_cache_us? as f64 / 1e3)))
        .collect()
}

/// Transactions, entries and shreds, or the bank's fingerprint: distinguishes equal slot numbers.
pub type SlotContents = BTreeMap<u64, [Option<u64>; 3]>;

pub fn contents(run: &Run, window: Span) -> SlotContents {
    if !run.replayed.slots.is_empty() {
        return run
            .replayed
            .slots
            .iter()
            .map(|slot| (slot.slot, [slot.contents, slot.signatures, None]))
            .collect();
    }
    let points = replayed(run, window);
    points
        .filter_map(|point| {
            Some((
                point.slot?,
                [
                    point.total_transactions,
                    point.total_entries,
                    point.total_shreds,
                ],
            ))
        })
        .collect()
}
