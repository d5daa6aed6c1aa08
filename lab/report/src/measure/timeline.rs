use super::Span;
use crate::run::{Run, Signal, Tick};
use faultline_phase::{Phase, PhaseEvidence, Process, STALL_AFTER, Stage, Tracker};
use faultline_stats::summary::quantile;
use itertools::Itertools;
use std::{ops::Range, time::Duration};

#[derive(Debug, Clone, Copy)]
pub struct Stall {
    pub span: Span,
    /// `Behind`, or `None` if the phase is not known.
    pub phase: Option<Phase>,
}

#[derive(Debug, Default)]
pub struct Timeline {
    /// One per tick.
    pub phases: Vec<Option<Phase>>,
    pub stalls: Vec<Stall>,
    /// Median slot time.
    pub slot_seconds: Option<f64>,
}

/// Tracks each session separately, because a new daemon determines the phase anew.
pub(crate) fn timeline(recording: &Run) -> Timeline {
    let mut timeline = Timeline {
        phases: recording.ticks.iter().map(recorded_phase).collect(),
        ..Timeline::default()
    };
    let mut tracker_slot_times = Vec::new();
    for ticks in chunks(&recording.ticks, |tick| tick.session) {
        track_session(
            recording,
            ticks,
            &mut timeline.phases,
            &mut tracker_slot_times,
        );
    }
    timeline.slot_seconds =
        slot_seconds(recording, &timeline.phases).or(quantile(&tracker_slot_times, 0.5));
    timeline.stalls = stalls(recording, &timeline.phases);
    timeline
}

/// Ranges of ticks with the same key.
fn chunks<K: PartialEq>(ticks: &[Tick], key: fn(&Tick) -> K) -> impl Iterator<Item = Range<usize>> {
    let mut next = 0;
    let chunks = ticks.chunk_by(move |a, b| key(a) == key(b));
    chunks.map(move |chunk| {
        let start = next;
        next += chunk.len();
        start..next
    })
}

const SLOT_TIME_SPAN_SECONDS: f64 = 30.0;

/// The median over spans at the tip. The tracker's slot times are too short: they include the end
/// of the catch-up, when the known tip advances faster.
fn slot_seconds(recording: &Run, phases: &[Option<Phase>]) -> Option<f64> {
    let at_tip = recording
        .ticks
        .iter()
        .zip(phases)
        .zip(recording.signal(Signal::PhaseEvidenceTip))
        .filter(|((_, phase), _)| **phase == Some(Phase::AtTip))
        .filter_map(|((tick, _), tip)| Some((tick, (*tip)?)))
        .collect_vec();
    let is_continuous = |(a, _): &(&Tick, f64), (b, _): &(&Tick, f64)| {
        a.session == b.session && b.at - a.at <= STALL_AFTER.as_secs_f64()
    };
    let times = at_tip
        .chunk_by(is_continuous)
        .flat_map(slot_times_of_spans)
        .map(Some)
        .collect_vec();
    quantile(&times, 0.5)
}

/// `ticks` are (tick, slot of the tip).
fn slot_times_of_spans(ticks: &[(&Tick, f64)]) -> Vec<f64> {
    let ([(first, _), ..], [.., (last, _)]) = (ticks, ticks) else {
        return Vec::new();
    };
    let seconds = last.at - first.at;
    let spans = (seconds / SLOT_TIME_SPAN_SECONDS).floor();
    if spans < 1.0 {
        return Vec::new();
    }
    (0..=spans as usize)
        .map(|end| first.at + end as f64 * seconds / spans)
        .filter_map(|end| ticks.get(ticks.partition_point(|(tick, _)| tick.at < end - 1e-6)))
        .tuple_windows()
        .map(|((from, from_tip), (to, to_tip))| (to.at - from.at, to_tip - from_tip))
        .filter(|(_, slots)| *slots > 0.0)
        .map(|(seconds, slots)| seconds / slots)
        .collect()
}

fn recorded_phase(tick: &Tick) -> Option<Phase> {
    Phase::named(tick.phase.as_deref()?)
}

fn track_session(
    recording: &Run,
    ticks: Range<usize>,
    phases: &mut [Option<Phase>],
    tracker_slot_times: &mut Vec<Option<f64>>,
) {
    let all_ticks = &recording.ticks;
    let Some(first) = all_ticks.get(ticks.start) else {
        return;
    };
    let mut tracker = Tracker::new(recording.phase_rules(first));
    let has_evidence = |index| value(recording, Signal::PhaseEvidenceStopped, index).is_some();
    let evidence_at = if ticks.clone().any(has_evidence) {
        recorded_evidence
    } else {
        older_evidence
    };
    let elapsed = |tick: &Tick| Duration::from_nanos(((tick.at - first.at) * 1e9).round() as u64);
    let mut process = None;
    let mut phase_intervals = Vec::new();
    let has_phase = |index: &usize| all_ticks.get(*index).and_then(recorded_phase).is_some();
    let Some(start) = ticks.clone().find(has_phase) else {
        return;
    };
    let tracked = all_ticks.iter().enumerate().take(ticks.end).skip(start);
    for (index, tick) in tracked {
        let evidence = match tick.process {
            Some(_) => evidence_at(recording, index, tick),
            None => Some(PhaseEvidence::default()),
        };
        let Some(evidence) = evidence else { continue };
        if tick.process.is_some() && tick.process != process {
            tracker.begin_process();
        }
        process = tick.process;
        // The tracker cannot measure this slot time again. The daemon used data before the first
        // tick, or the slots of a healthy validator without a tip. Health is not recorded.
        if let Some(slot_time) = recording.recorded_slot_durations.get(&index)
            && (index == start || evidence.tip.is_none())
        {
            tracker.set_slot_time(*slot_time);
        }
        // The first recorded phase is the initial phase of the tracker.
        let stage = match (index == start, recorded_phase(tick)) {
            (true, Some(phase)) => Some(Stage::Reported(phase)),
            _ => evidence.stage,
        };
        phase_intervals.extend(tracker.tick(elapsed(tick), &PhaseEvidence { stage, ..evidence }));
        tracker_slot_times.push(tracker.slot_time().map(|time| time.as_secs_f64()));
    }
    let last_phase = tracker.phase();
    phase_intervals.extend(tracker.finish());
    let (mut next_intervals, mut phase_before) = (phase_intervals.iter().peekable(), None);
    for index in ticks {
        let Some(tick) = all_ticks.get(index).filter(|tick| tick.process.is_some()) else {
            continue;
        };
        while let Some(interval) = next_intervals.next_if(|interval| interval.to <= elapsed(tick)) {
            phase_before = interval.phase;
        }
        if let Some(phase) = phases.get_mut(index) {
            *phase = match next_intervals.peek() {
                Some(interval) if interval.from <= elapsed(tick) => interval.phase,
                Some(_) => phase_before,
                None => last_phase,
            };
        }
    }
}

fn value(recording: &Run, signal: Signal, index: usize) -> Option<f64> {
    recording.signal(signal).get(index).copied().flatten()
}

fn slot(recording: &Run, signal: Signal, index: usize) -> Option<u64> {
    value(recording, signal, index).map(|slot| slot as u64)
}

fn recorded_evidence(recording: &Run, index: usize, tick: &Tick) -> Option<PhaseEvidence> {
    Some(PhaseEvidence {
        process: match value(recording, Signal::PhaseEvidenceStopped, index)? {
            0.0 => Process::Alive,
            _ => Process::Stopped,
        },
        stage: recorded_phase(tick).map(|phase| {
            if phase.is_running() {
                Stage::Running
            } else {
                Stage::Reported(phase)
            }
        }),
        slot: slot(recording, Signal::PhaseEvidenceSlot, index),
        tip: slot(recording, Signal::PhaseEvidenceTip, index),
        is_healthy: false,
    })
}

/// For older recordings. A repeated slot is new evidence only if JSON-RPC answered.
fn older_evidence(recording: &Run, index: usize, tick: &Tick) -> Option<PhaseEvidence> {
    let before = index
        .checked_sub(1)
        .and_then(|before| slot(recording, Signal::Processed, before));
    let processed = slot(recording, Signal::Processed, index).filter(|slot| {
        Some(*slot) != before || value(recording, Signal::RpcUp, index).is_none_or(|up| up > 0.0)
    });
    let behind = slot(recording, Signal::Behind, index);
    Some(PhaseEvidence {
        process: match recording.is_suspended.get(index) {
            Some(true) => Process::Stopped,
            _ => Process::Alive,
        },
        stage: recorded_phase(tick).map(Stage::Reported),
        slot: processed,
        tip: processed
            .zip(behind)
            .map(|(slot, behind)| slot.saturating_add(behind)),
        is_healthy: false,
    })
}

/// Periods of at least [`STALL_AFTER`] without slot progress. The process was at the tip in one of
/// the three ticks before, and its phase within is `Behind` or unknown.
fn stalls(recording: &Run, phases: &[Option<Phase>]) -> Vec<Stall> {
    let mut stalls = Vec::new();
    for ticks in chunks(&recording.ticks, |tick| (tick.session, tick.process)) {
        let process_ticks = recording.ticks.get(ticks.clone()).unwrap_or_default();
        let Some(last) = process_ticks.last().filter(|tick| tick.process.is_some()) else {
            continue;
        };
        let tick_index =
            |at: f64| ticks.start + process_ticks.partition_point(|tick| tick.at <= at);
        let mut advance_times = advance_times(recording, ticks.clone());
        advance_times.push(last.at);
        for (from, to) in advance_times.into_iter().tuple_windows() {
            let span = Span { from, to };
            if span.seconds() < STALL_AFTER.as_secs_f64() {
                continue;
            }
            let first_tick = tick_index(from);
            let before = phases.get(first_tick.saturating_sub(3).max(ticks.start)..first_tick);
            let within = phases.get(first_tick..tick_index(to)).unwrap_or_default();
            let phase = [Some(Phase::Behind), None]
                .into_iter()
                .find(|phase| within.contains(phase));
            if before.is_some_and(|before| before.contains(&Some(Phase::AtTip)))
                && let Some(phase) = phase
            {
                stalls.push(Stall { span, phase });
            }
        }
    }
    stalls
}

/// Times at which the slot rose above the previous one, not above the highest: one slot far too
/// high would hide later advances.
fn advance_times(recording: &Run, ticks: Range<usize>) -> Vec<f64> {
    let process_ticks = recording.ticks.get(ticks.clone()).unwrap_or_default();
    let bounds = process_ticks.first().zip(process_ticks.last());
    let processed = recording
        .signal(Signal::Processed)
        .get(ticks)
        .unwrap_or_default();
    let by_tick = process_ticks
        .iter()
        .zip(processed)
        .filter_map(|(tick, slot)| Some((tick.at, (*slot)?)));
    let bank_slot = |(time, slot)| {
        let ((first, last), at) = (bounds?, recording.at(time));
        (first.at..=last.at)
            .contains(&at)
            .then_some((at, slot? as f64))
    };
    let (costs, replay) = (
        recording.points.costs.iter(),
        recording.points.replay.iter(),
    );
    let costs = costs.map(|point| (point.time_unix_ns, point.bank_slot));
    let replay = replay.map(|point| (point.time_unix_ns, point.slot));
    let mut advance_times = rise_times(by_tick);
    advance_times.extend(rise_times(costs.filter_map(bank_slot)));
    advance_times.extend(rise_times(replay.filter_map(bank_slot)));
    advance_times.sort_by(f64::total_cmp);
    advance_times
}

fn rise_times(slots: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut before = None;
    slots
        .filter(|(_, slot)| before.replace(*slot).is_none_or(|before| *slot > before))
        .map(|(at, _)| at)
        .collect()
}
