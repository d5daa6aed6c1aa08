//! Slots and their times come from the datapoints of a live validator ([`Run::points`]), or from
//! the log of an offline replay ([`Run::offline_replay`]).

pub mod lifecycle;
mod numbers;
pub mod timeline;
mod tps;

pub use lifecycle::{End, Lifecycle, PhaseSpan, Success};
pub use numbers::{
    CacheNumbers, MemoryGauges, ThreadPoolUse, TpsNumbers, WindowNumbers, cache_us_by_time,
    cache_us_per_slot, numbers, prune_us, thread_pool_seconds, thread_pool_use,
};
pub(crate) use timeline::timeline;
pub use tps::{Second, Tps};

use crate::run::{Point, Run, Signal, Tick};
use faultline_recording::ReplaySlotPoint;
use faultline_stats::rate::{self, Rates, Reading};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Seconds since [`Run::origin_unix_ns`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    pub from: f64,
    pub to: f64,
}

impl Span {
    pub const ALWAYS: Self = Self {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    pub fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    pub fn includes(self, at: f64) -> bool {
        at >= self.from && at <= self.to
    }
}

#[derive(Debug)]
pub struct Measured {
    pub lifecycle: Lifecycle,
    pub tps: Tps,
    /// From the origin to the end of the last process. Without a recorded end, to the last tick or
    /// second of TPS, whichever is later.
    pub all: Span,
    /// From the first second with a transaction; `None` without one.
    pub execution_window: Option<Span>,
    /// From the first tick at the tip; `None` without one.
    pub from_tip: Option<Span>,
}

pub fn measure(recording: &Run) -> Measured {
    let lifecycle = lifecycle::lifecycle(recording);
    let tps = tps::tps(recording, &lifecycle);
    // A run ends with its last process. Later ticks are drawn but not counted.
    let end = match tps.seconds.last() {
        Some(last) if lifecycle.last_process_end.is_none() => lifecycle.run_end.max(last.at + 1.0),
        _ => lifecycle.run_end,
    };
    let until_end = |from| Span { from, to: end };
    Measured {
        all: until_end(0.0),
        execution_window: tps.seconds.first().map(|first| until_end(first.at)),
        from_tip: lifecycle.first_at_tip.map(until_end),
        lifecycle,
        tps,
    }
}

pub fn signal_rates(recording: &Run, signal: Signal, window: Span) -> Rates {
    let ticks = recording
        .ticks
        .iter()
        .zip(recording.signal(signal))
        .filter(|(tick, _)| window.includes(tick.at));
    let mut all = Rates::default();
    for (session, ticks) in &ticks.chunk_by(|(tick, _)| tick.session) {
        let readings = ticks
            .map(|(tick, total)| Reading {
                at: tick.at,
                total: *total,
                incarnation: counter_incarnation(tick),
            })
            .collect_vec();
        let rates = rate::rates(&readings, max_tick_step(recording, session));
        all.per_second.extend(rates.per_second);
        all.increase += rates.increase;
        all.seconds += rates.seconds;
    }
    all
}

/// A new process may start new counters. The increase between two sessions is not known.
fn counter_incarnation(tick: &Tick) -> u64 {
    (tick.session as u64) << 32 | (tick.process.unwrap_or(0) as u64 & 0xffff_ffff)
}

/// In seconds: a longer step between two readings of a session (one run of the recording daemon) is
/// a gap.
pub(crate) fn max_tick_step(recording: &Run, session: i64) -> f64 {
    match recording.session(session) {
        Some(session) if session.interval_seconds > 0.0 => 2.5 * session.interval_seconds,
        _ => 2.5,
    }
}

/// Anonymous, file and shared, in bytes.
pub(crate) fn rss(recording: &Run) -> Vec<Option<f64>> {
    let columns =
        [Signal::RssAnon, Signal::RssFile, Signal::RssShmem].map(|kind| recording.signal(kind));
    let sum = |index| columns.iter().map(|column| *column.get(index)?).sum();
    (0..columns[0].len()).map(sum).collect()
}

pub(crate) fn points_within<'p, P: Point>(
    recording: &Run,
    points: &'p [P],
    span: Span,
) -> impl Iterator<Item = &'p P> {
    points
        .iter()
        .filter(move |point| span.includes(recording.at(point.steady_unix_ns())))
}

pub(crate) fn point_values<P: Point>(
    recording: &Run,
    points: &[P],
    span: Span,
    value_of: impl Fn(&P) -> Option<u64>,
    scale: f64,
) -> Vec<Option<f64>> {
    points_within(recording, points, span)
        .map(|point| value_of(point).map(|value| value as f64 * scale))
        .collect()
}

pub fn combine(
    a: &[Option<f64>],
    b: &[Option<f64>],
    with: impl Fn(f64, f64) -> f64,
) -> Vec<Option<f64>> {
    a.iter()
        .zip(b)
        .map(|(a, b)| Some(with((*a)?, (*b)?)))
        .collect()
}

pub fn values_within(recording: &Run, values: &[Option<f64>], window: Span) -> Vec<Option<f64>> {
    recording
        .ticks
        .iter()
        .zip(values)
        .filter(|(tick, _)| window.includes(tick.at))
        .map(|(_, value)| *value)
        .collect()
}

/// Whether this node produced the slot: its totals are then 0, and its replay times mean nothing.
pub fn is_own_slot(point: &ReplaySlotPoint) -> Option<bool> {
    Some(point.total_transactions? == 0 && point.total_entries? == 0 && point.total_shreds? == 0)
}

/// Replays of slots that other nodes produced, by time. If the producer is unknown, slots with
/// transactions are included.
pub fn replay_points(recording: &Run, window: Span) -> impl Iterator<Item = &ReplaySlotPoint> {
    points_within(recording, &recording.points.replay, window)
        .filter(|point| !is_own_slot(point).unwrap_or(!has_transactions(point)))
}

fn replay_points_with_transactions(
    recording: &Run,
    window: Span,
) -> impl Iterator<Item = &ReplaySlotPoint> {
    replay_points(recording, window).filter(|point| has_transactions(point))
}

fn has_transactions(point: &ReplaySlotPoint) -> bool {
    point.total_transactions.is_some_and(|count| count > 0)
}

/// (slot, milliseconds) of every replay, by time. An offline replay ignores `window`: its times are
/// those between successive banks in its log.
pub fn replay_ms_by_slot(recording: &Run, window: Span) -> Vec<(u64, f64)> {
    let offline_slots = recording
        .offline_replay
        .slots
        .iter()
        .filter_map(|slot| Some((slot.slot, slot.elapsed_ms?)));
    replay_points(recording, window)
        .filter(|_| recording.offline_replay.slots.is_empty())
        .filter_map(|point| Some((point.slot?, point.replay_total_elapsed_us? as f64 / 1e3)))
        .chain(offline_slots)
        .collect()
}

/// (slot, milliseconds in the program cache) of every replay with transactions, by time.
pub fn cache_ms_by_slot(recording: &Run, window: Span) -> Vec<(u64, f64)> {
    replay_points_with_transactions(recording, window)
        .filter_map(|point| Some((point.slot?, point.program_cache_us? as f64 / 1e3)))
        .collect()
}

/// By slot: transactions, entries and shreds; for an offline replay, bank hash and signatures. Two
/// runs replayed the same block if these are equal.
pub type SlotContents = BTreeMap<u64, [Option<u64>; 3]>;

pub fn slot_contents(recording: &Run, window: Span) -> SlotContents {
    let offline_slots = recording
        .offline_replay
        .slots
        .iter()
        .map(|slot| (slot.slot, [slot.bank_fingerprint, slot.signatures, None]));
    replay_points(recording, window)
        .filter(|_| recording.offline_replay.slots.is_empty())
        .filter_map(|point| {
            let (transactions, entries) = (point.total_transactions, point.total_entries);
            Some((point.slot?, [transactions, entries, point.total_shreds]))
        })
        .chain(offline_slots)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Session;

    #[test]
    fn a_session_with_a_longer_interval_has_no_gaps() {
        let session = |id, interval_seconds| Session {
            id,
            interval_seconds,
            ..Session::default()
        };
        let tick = |(session, at)| Tick {
            session,
            at,
            process: Some(1),
            ..Tick::default()
        };
        let ticks = [
            (1, 0.0),
            (1, 1.0),
            (1, 11.0),
            (2, 20.0),
            (2, 30.0),
            (2, 40.0),
        ]
        .map(tick);
        let mut signals = vec![Vec::new(); Signal::ALL.len()];
        signals[Signal::MajorFaults as usize] = ticks.iter().map(|tick| Some(tick.at)).collect();
        let recording = Run {
            sessions: vec![session(1, 1.0), session(2, 10.0)],
            ticks: ticks.to_vec(),
            signals,
            ..Run::default()
        };
        let rates = signal_rates(&recording, Signal::MajorFaults, Span::ALWAYS);
        let of_step = [None, Some(1.0), None, None, Some(1.0), Some(1.0)];
        assert_eq!(
            (rates.per_second.as_slice(), rates.seconds),
            (&of_step[..], 21.0)
        );
        let gaps = lifecycle::lifecycle(&recording).gaps;
        let bounds = gaps.iter().map(|gap| (gap.from, gap.to));
        assert_eq!(bounds.collect_vec(), [(1.0, 11.0), (11.0, 20.0)]);
    }
}
