use super::Span;
use crate::run::{Run, Signal, Tick};
use faultline_phase::{Evidence, Interval, Phase, Process, STALL_AFTER, Stage, Tracker};
use faultline_stats::summary::quantile;
use std::{ops::Range, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    pub span: Span,
    pub phase: Option<Phase>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// One per tick.
    pub phases: Vec<Option<Phase>>,
    pub stalls: Vec<Stall>,
    /// Median slot time.
    pub slot_seconds: Option<f64>,
}

/// Each session separately: a new daemon determines the phase anew.
pub(crate) fn timeline(run: &Run) -> Timeline {
    let mut timeline = Timeline {
        phases: run.ticks.iter().map(recorded_phase).collect(),
        stalls: Vec::new(),
        slot_seconds: None,
    };
    let (mut from, mut slot_times) = (0, Vec::new());
    for session in run.ticks.chunk_by(|a, b| a.session == b.session) {
        let ticks = from..from + session.len();
        from = ticks.end;
        track_session(run, ticks.clone(), &mut timeline.phases, &mut slot_times);
    }
    timeline.slot_seconds = slot_seconds(run, &timeline.phases).or(quantile(&slot_times, 0.5));
    timeline.stalls = stalls(run, &timeline.phases);
    timeline
}

/// Seconds at the tip that give one slot time.
const SLOT_TIME_SPAN: f64 = 30.0;

/// The median over spans at the tip. The tracker's own values hold the end of the catch-up, when
/// the tip that it hears of advances faster.
fn slot_seconds(run: &Run, phases: &[Option<Phase>]) -> Option<f64> {
    let tip = run.signal(Signal::EvidenceTip);
    let known = run.ticks.iter().zip(phases).zip(tip);
    let at_tip: Vec<(&Tick, f64)> = known
        .filter(|((_, phase), _)| **phase == Some(Phase::AtTip))
        .filter_map(|((tick, _), tip)| Some((tick, (*tip)?)))
        .collect();
    let is_gap =
        |a: &Tick, b: &Tick| a.session != b.session || b.at - a.at > STALL_AFTER.as_secs_f64();
    let stretches = at_tip.chunk_by(|(a, _), (b, _)| !is_gap(a, b));
    let times: Vec<Option<f64>> = stretches
        .flat_map(slot_times_of_stretch)
        .map(Some)
        .collect();
    quantile(&times, 0.5)
}

fn slot_times_of_stretch(stretch: &[(&Tick, f64)]) -> Vec<f64> {
    let ([(first, _), ..], [.., (last, _)]) = (stretch, stretch) else {
        return Vec::new();
    };
    let seconds = last.at - first.at;
    let spans = (seconds / SLOT_TIME_SPAN).floor();
    let ends = (0..=spans as usize).map(|end| first.at + end as f64 * seconds / spans.max(1.0));
    let ends: Vec<_> = ends
        .filter_map(|end| stretch.get(stretch.partition_point(|(tick, _)| tick.at < end - 1e-6)))
        .collect();
    let spans = ends.windows(2).filter(|_| spans >= 1.0);
    let advances = spans.map(|span| (span[1].0.at - span[0].0.at, span[1].1 - span[0].1));
    let advances = advances.filter(|(_, slots)| *slots > 0.0);
    advances.map(|(seconds, slots)| seconds / slots).collect()
}

fn recorded_phase(tick: &Tick) -> Option<Phase> {
    Phase::named(tick.phase.as_deref()?)
}

fn track_session(
    run: &Run,
    ticks: Range<usize>,
    phases: &mut [Option<Phase>],
    slot_times: &mut Vec<Option<f64>>,
) {
    let Some(first) = run.ticks.get(ticks.start) else {
        return;
    };
    let mut tracker = Tracker::new(run.rules(first));
    let has_evidence = |index: &usize| value(run, Signal::EvidenceStopped, *index).is_some();
    let source = if ticks.clone().any(|index| has_evidence(&index)) {
        evidence_at
    } else {
        older_evidence
    };
    let at = |tick: &Tick| Duration::from_nanos(((tick.at - first.at) * 1e9).round() as u64);
    let mut process = None;
    let mut intervals: Vec<Interval> = Vec::new();
    let has_phase = |index: &usize| run.ticks.get(*index).and_then(recorded_phase).is_some();
    let Some(begins) = ticks.clone().find(has_phase) else {
        return;
    };
    let tracked = run.ticks.iter().enumerate().take(ticks.end).skip(begins);
    for (index, tick) in tracked {
        let evidence = match tick.process {
            Some(_) => source(run, index, tick),
            None => Some(Evidence::default()),
        };
        let Some(evidence) = evidence else { continue };
        if tick.process.is_some() && tick.process != process {
            tracker.restart();
        }
        process = tick.process;
        // The tracker cannot measure this slot time again: the daemon measured it before the
        // recording began, or with the health, which is not recorded.
        let recorded_slot_time = run.slot_times.get(&index);
        if let Some(slot_time) = recorded_slot_time
            && (index == begins || evidence.tip.is_none())
        {
            tracker.set_slot_time(*slot_time);
        }
        let stage = match (index == begins, recorded_phase(tick)) {
            (true, Some(phase)) => Some(Stage::Reported(phase)),
            _ => evidence.stage,
        };
        intervals.extend(tracker.tick(at(tick), &Evidence { stage, ..evidence }));
        slot_times.push(tracker.slot_time().map(|time| time.as_secs_f64()));
    }
    let last = tracker.phase();
    intervals.extend(tracker.finish());
    let (mut intervals, mut before) = (intervals.iter().peekable(), None);
    for index in ticks {
        let Some(tick) = run.ticks.get(index).filter(|tick| tick.process.is_some()) else {
            continue;
        };
        while let Some(interval) = intervals.next_if(|interval| interval.to <= at(tick)) {
            before = interval.phase;
        }
        if let Some(phase) = phases.get_mut(index) {
            *phase = match intervals.peek() {
                Some(interval) if interval.from <= at(tick) => interval.phase,
                Some(_) => before,
                None => last,
            };
        }
    }
}

fn value(run: &Run, signal: Signal, index: usize) -> Option<f64> {
    run.signal(signal).get(index).copied().flatten()
}

fn slot(run: &Run, signal: Signal, index: usize) -> Option<u64> {
    value(run, signal, index).map(|slot| slot as u64)
}

fn evidence_at(run: &Run, index: usize, tick: &Tick) -> Option<Evidence> {
    Some(Evidence {
        process: match value(run, Signal::EvidenceStopped, index)? {
            0.0 => Process::Alive,
            _ => Process::Stopped,
        },
        stage: recorded_phase(tick).map(|phase| match phase.runs() {
            true => Stage::Running,
            false => Stage::Reported(phase),
        }),
        slot: slot(run, Signal::EvidenceSlot, index),
        tip: slot(run, Signal::EvidenceTip, index),
        is_healthy: false,
    })
}

/// For older recordings. A repeated slot is new evidence only if JSON-RPC answered.
fn older_evidence(run: &Run, index: usize, tick: &Tick) -> Option<Evidence> {
    let before = index
        .checked_sub(1)
        .and_then(|before| slot(run, Signal::Processed, before));
    let is_reported = |slot: &u64| {
        Some(*slot) != before || value(run, Signal::RpcUp, index).is_none_or(|up| up > 0.0)
    };
    let processed = slot(run, Signal::Processed, index).filter(is_reported);
    let behind = slot(run, Signal::Behind, index);
    Some(Evidence {
        process: if run.stopped.get(index) == Some(&true) {
            Process::Stopped
        } else {
            Process::Alive
        },
        stage: recorded_phase(tick).map(Stage::Reported),
        slot: processed,
        tip: processed
            .zip(behind)
            .map(|(slot, behind)| slot.saturating_add(behind)),
        is_healthy: false,
    })
}

/// Periods after the tip without slot progress for [`STALL_AFTER`].
fn stalls(run: &Run, phases: &[Option<Phase>]) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let mut from = 0;
    for process_ticks in run
        .ticks
        .chunk_by(|a, b| (a.session, a.process) == (b.session, b.process))
    {
        let ticks = from..from + process_ticks.len();
        from = ticks.end;
        let Some(last) = process_ticks.last().filter(|tick| tick.process.is_some()) else {
            continue;
        };
        let advance_times = advance_times(run, ticks.clone());
        let ends = advance_times.iter().copied().skip(1).chain([last.at]);
        let spans = advance_times
            .iter()
            .zip(ends)
            .map(|(from, to)| Span { from: *from, to });
        for span in spans.filter(|span| span.seconds() >= STALL_AFTER.as_secs_f64()) {
            let tick_index =
                |at: f64| ticks.start + process_ticks.partition_point(|tick| tick.at <= at);
            let begins = tick_index(span.from);
            let before = begins.saturating_sub(3).max(ticks.start)..begins;
            let within = phases.get(begins..tick_index(span.to)).unwrap_or_default();
            let was_at_tip = phases
                .get(before)
                .is_some_and(|before| before.contains(&Some(Phase::AtTip)));
            let phase = [Some(Phase::Behind), None]
                .into_iter()
                .find(|phase| within.contains(phase));
            stalls.extend(
                phase
                    .filter(|_| was_at_tip)
                    .map(|phase| Stall { span, phase }),
            );
        }
    }
    stalls
}

/// Times at which the slot rose above the previous one, not above the highest one: a slot that is
/// far too high then hides little.
fn advance_times(run: &Run, ticks: Range<usize>) -> Vec<f64> {
    let process_ticks = run.ticks.get(ticks.clone()).unwrap_or_default();
    let bounds = process_ticks.first().zip(process_ticks.last());
    let processed = run.signal(Signal::Processed).get(ticks).unwrap_or_default();
    let by_tick = process_ticks.iter().zip(processed);
    let mut advance_times =
        rise_times(by_tick.filter_map(|(tick, slot)| Some((tick.at, (*slot)?))));
    let is_within = |at: f64| bounds.is_some_and(|(first, last)| at >= first.at && at <= last.at);
    let of_bank = |(time, slot): (i64, Option<u64>)| {
        let at = run.at(time);
        Some((at, slot? as f64)).filter(|_| is_within(at))
    };
    let (costs, replay) = (&run.points.costs, &run.points.replay);
    let costs = costs
        .iter()
        .map(|point| (point.time_unix_ns, point.bank_slot));
    advance_times.extend(rise_times(costs.filter_map(of_bank)));
    let replay = replay.iter().map(|point| (point.time_unix_ns, point.slot));
    advance_times.extend(rise_times(replay.filter_map(of_bank)));
    advance_times.sort_by(f64::total_cmp);
    advance_times
}

fn rise_times(slots: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut before: Option<f64> = None;
    let higher =
        slots.filter(|(_, slot)| before.replace(*slot).is_none_or(|before| *slot > before));
    higher.map(|(at, _)| at).collect()
}
