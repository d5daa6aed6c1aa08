//! "The study" is the paper "Maxing Out the SVM" (2025): `docs/PAPER.md`.

use super::{
    Span, max_tick_step,
    timeline::{Stall, Timeline, timeline},
};
use crate::run::{Event, Run, Signal, Tick};
use faultline_phase::{Phase, TipTime, phase_name};
use faultline_text::{duration, utc};
use std::{ops::Range, time::Duration};

#[derive(Debug)]
pub struct PhaseSpan {
    pub span: Span,
    pub name: String,
    /// Indices into [`Run::ticks`].
    pub ticks: Range<usize>,
}

#[derive(Debug, Default)]
pub struct Success {
    /// Whether the validator kept up with the cluster, or an offline replay did all of its work.
    pub passed: Option<bool>,
    pub why: String,
    /// Share of time at the tip since the first tick there.
    pub tip_share: Option<f64>,
}

#[derive(Debug, Default)]
pub struct End {
    /// `killed by the kernel's OOM killer`.
    pub how: String,
    /// `at 80 s: process 7 (agave-validator) ended: oom kill`.
    pub evidence: String,
    /// By the journal of the experiment. Without an experiment, any OOM kill in the recording
    /// counts: a recording cannot always distinguish a kill of the validator from one elsewhere on
    /// the host.
    pub was_oom_killed: bool,
}

#[derive(Debug)]
pub struct Lifecycle {
    /// Includes phases after the end of the run.
    pub phases: Vec<PhaseSpan>,
    /// The phase from each tick to the next; `None` if not known.
    pub phase_by_tick: Vec<Option<Phase>>,
    pub stalls: Vec<Stall>,
    /// Median slot time.
    pub slot_seconds: Option<f64>,
    pub gaps: Vec<Span>,
    pub first_at_tip: Option<f64>,
    /// When the process came near the tip and then stayed near it until `first_at_tip`.
    pub near_tip_since: Option<f64>,
    pub success: Success,
    pub end: End,
    /// End of the last process; `None` if the recording did not see it.
    pub last_process_end: Option<f64>,
    /// Last moment of the run. Normally it is just below `last_process_end`, because a [`Span`]
    /// includes its ends. If the last tick with a process is before a gap, it is that tick. If no end
    /// was recorded, it is the last tick.
    pub run_end: f64,
    pub restarts: usize,
    /// Whether the recording has anything that only a validator has.
    pub has_validator: bool,
}

pub fn lifecycle(recording: &Run) -> Lifecycle {
    let Timeline {
        phases: phase_by_tick,
        stalls,
        slot_seconds,
    } = timeline(recording);
    let phases = phase_spans(recording, &phase_by_tick);
    let (last_process_end, run_end) = process_and_run_end(recording)
        .map_or((None, recording.end_seconds()), |(at, run_end)| {
            (Some(at), run_end)
        });
    let has_validator = has_validator(recording, &phases);
    let noun = if has_validator || recording.processes.is_empty() {
        "validator"
    } else {
        "process"
    };
    let tip_tick = phase_by_tick
        .iter()
        .position(|phase| *phase == Some(Phase::AtTip));
    let mut lifecycle = Lifecycle {
        phases,
        phase_by_tick,
        stalls,
        slot_seconds,
        gaps: gaps(recording),
        first_at_tip: tip_tick.and_then(|tick| Some(recording.ticks.get(tick)?.at)),
        near_tip_since: tip_tick.and_then(|tick| near_tip_since(recording, tick)),
        success: Success::default(),
        end: end(recording, noun, last_process_end),
        last_process_end,
        run_end,
        restarts: recording.processes.len().saturating_sub(1),
        has_validator,
    };
    lifecycle.success = success(recording, &lifecycle);
    if lifecycle.end.was_oom_killed {
        lifecycle.success.passed = Some(false);
        lifecycle.success.why = "it was killed by the kernel's OOM killer".to_owned();
    }
    if let Some(experiment) = &recording.experiment_outcome {
        if let Some(passed) = experiment.success {
            lifecycle.success.passed = Some(passed);
            lifecycle.success.why.clone_from(&experiment.success_reason);
        }
        if !experiment.end_text.is_empty() {
            lifecycle.end.how.clone_from(&experiment.end_text);
            lifecycle.end.evidence.clone_from(&experiment.end_evidence);
        }
    }
    lifecycle
}

fn near_tip_since(recording: &Run, tip_tick: usize) -> Option<f64> {
    let tick = recording.ticks.get(tip_tick)?;
    let max_behind = recording.phase_rules(tick).at_tip_slots as f64;
    let near = recording
        .ticks
        .iter()
        .zip(recording.signal(Signal::Behind))
        .take(tip_tick + 1)
        .rev()
        .take_while(|(earlier, _)| earlier.process == tick.process)
        .filter_map(|(earlier, behind)| Some((earlier.at, (*behind)?)))
        .take_while(|(_, behind)| *behind <= max_behind);
    Some(near.last().map_or(tick.at, |(at, _)| at))
}

/// All other phases show that the process is a validator.
const PHASES_OF_ANY_PROCESS: [&str; 4] = ["absent", "initializing", "gone", "unknown"];

fn has_validator(recording: &Run, phases: &[PhaseSpan]) -> bool {
    recording.points.has_standard_points()
        || !recording.offline_replay.slots.is_empty()
        || !recording.facts.versions.is_empty()
        || phases
            .iter()
            .any(|phase| !PHASES_OF_ANY_PROCESS.contains(&phase.name.as_str()))
}

/// The daemon restarted or missed ticks between two ticks.
pub fn is_gap(recording: &Run, before: &Tick, after: &Tick) -> bool {
    before.session != after.session
        || after.at - before.at > max_tick_step(recording, before.session)
}

/// `None` if a process runs at the last tick, or none ever ran.
fn process_and_run_end(recording: &Run) -> Option<(f64, f64)> {
    let last = recording
        .ticks
        .iter()
        .rposition(|tick| tick.process.is_some())?;
    let (alive, gone) = (recording.ticks.get(last)?, recording.ticks.get(last + 1)?);
    if is_gap(recording, alive, gone) {
        return Some((alive.at, alive.at));
    }
    let event = recording.events.iter().rfind(|event| {
        matches!(event.kind.as_str(), "exit" | "oom_kill")
            && event.at > alive.at
            && event.at <= gone.at
    });
    let at = event.map_or(gone.at, |event| event.at);
    Some((at, at.next_down()))
}

fn gaps(recording: &Run) -> Vec<Span> {
    let gap = |(before, after)| {
        is_gap(recording, before, after).then_some(Span {
            from: before.at,
            to: after.at,
        })
    };
    recording.tick_pairs().filter_map(gap).collect()
}

fn phase_spans(recording: &Run, phase_by_tick: &[Option<Phase>]) -> Vec<PhaseSpan> {
    let mut phases: Vec<PhaseSpan> = Vec::new();
    let mut before = None;
    for (index, (tick, phase)) in recording.ticks.iter().zip(phase_by_tick).enumerate() {
        let name = phase_name(*phase);
        let is_continuous = before.is_some_and(|before| !is_gap(recording, before, tick));
        before = Some(tick);
        if let Some(last) = phases.last_mut().filter(|_| is_continuous) {
            last.span.to = tick.at;
            if last.name == name {
                last.ticks.end = index + 1;
                continue;
            }
        }
        phases.push(PhaseSpan {
            span: Span {
                from: tick.at,
                to: tick.at,
            },
            name: name.to_owned(),
            ticks: index..index + 1,
        });
    }
    phases
}

impl Lifecycle {
    /// In seconds. A phase lasts from its tick to the next one.
    pub fn time_in(&self, recording: &Run, phase: Phase, window: Span) -> f64 {
        recording
            .tick_pairs()
            .zip(&self.phase_by_tick)
            .filter(|((before, after), known)| {
                **known == Some(phase)
                    && window.includes(before.at)
                    && !is_gap(recording, before, after)
            })
            .map(|((before, after), _)| after.at - before.at)
            .sum()
    }

    pub fn gaps_before_run_end(&self) -> impl Iterator<Item = &Span> {
        self.gaps.iter().filter(|gap| gap.from < self.run_end)
    }
}

/// `noun` is `validator` or `process`.
fn end(recording: &Run, noun: &str, last_process_end: Option<f64>) -> End {
    let last_event = |kind, from| {
        let is_wanted = |event: &&Event| event.kind == kind && Some(event.at) >= from;
        let event = recording.events.iter().rfind(is_wanted)?;
        Some(format!("at {:.0} s: {}", event.at, event.sentence()))
    };
    // Earlier ends are of processes before the last one.
    let oom_kill = last_event("oom_kill", last_process_end);
    let experiment = recording.experiment_outcome.as_ref();
    let was_oom_killed = experiment.map_or(last_event("oom_kill", None).is_some(), |experiment| {
        experiment.was_oom_killed
    });
    let is_running = recording
        .ticks
        .last()
        .is_some_and(|tick| tick.process.is_some());
    let (how, evidence) = if recording.ticks.is_empty() {
        ("nothing was recorded".to_owned(), None)
    } else if is_running && let Some(from) = &recording.salvaged {
        (
            "not known: the recording was damaged, and its salvaged part ends here".to_owned(),
            Some(format!("the recording was salvaged from {from}")),
        )
    } else if is_running && recording.finished {
        (
            format!("the recording was ended while the {noun} ran"),
            last_event("daemon_stop", None),
        )
    } else if is_running {
        (
            format!("the recording is still being written, or was cut off, while the {noun} ran"),
            Some("no end of the last session was recorded".to_owned()),
        )
    } else if oom_kill.is_some() {
        ("killed by the kernel's OOM killer".to_owned(), oom_kill)
    } else if let Some(exit) = last_event("exit", last_process_end) {
        (format!("the {noun} ended"), Some(exit))
    } else if recording.processes.is_empty() {
        ("no process was ever followed".to_owned(), None)
    } else {
        (
            format!("the {noun} was gone"),
            Some("the last sample has no process".to_owned()),
        )
    };
    End {
        how,
        evidence: evidence.unwrap_or_default(),
        was_oom_killed,
    }
}

/// A validator that catches up for longer has not kept up. In the study, catching up took up to two
/// hours.
const CATCH_UP_LIMIT_SECONDS: f64 = 7200.0;

/// Ignores OOM kills. `passed` is `None` if a gap in the data could change it.
fn success(recording: &Run, lifecycle: &Lifecycle) -> Success {
    let from = lifecycle.first_at_tip;
    let Some(time) = from.and_then(|from| tip_time(recording, lifecycle, from)) else {
        return success_without_tip_time(recording, lifecycle);
    };
    let all = (time.at_tip + time.not_at_tip + time.unknown).as_secs_f64();
    let [share, unknown] = [time.at_tip, time.unknown].map(|part| part.as_secs_f64() / all);
    let measured = time.kept_up();
    // The lost part of a recording may show that the run did not keep up.
    let is_unproven = recording.salvaged.is_some() && measured == Some(true);
    let passed = measured.filter(|_| !is_unproven);
    let only = if passed == Some(false) { "only " } else { "" };
    let part = if is_unproven {
        "in the salvaged part of a damaged recording"
    } else {
        "since it was first there"
    };
    let percent = |share| format!("{:.1} %", 100.0 * share);
    let mut why = format!("at the tip for {only}{} of the time {part}", percent(share));
    if unknown > 0.0 {
        why += &format!(
            "; the phase is not known in {} of this time",
            percent(unknown)
        );
    }
    if let Some(stalls) = stalls_text(recording, &lifecycle.stalls) {
        why += &format!("; {stalls}");
    }
    Success {
        passed,
        why,
        tip_share: Some(share),
    }
}

/// For a run that was never at the tip, or that has no usable samples after it was first there.
fn success_without_tip_time(recording: &Run, lifecycle: &Lifecycle) -> Success {
    let is_known = lifecycle.phase_by_tick.iter().any(Option::is_some);
    let catching_up_seconds = lifecycle.time_in(recording, Phase::CatchingUp, Span::ALWAYS);
    let (passed, why) = match lifecycle.first_at_tip {
        Some(_) => (None, "it was at the tip, but no usable samples follow"),
        None if catching_up_seconds > CATCH_UP_LIMIT_SECONDS => (
            Some(false),
            "it ran for more than two hours and was never at the tip",
        ),
        None if catching_up_seconds > 0.0 && lifecycle.last_process_end.is_some() => {
            (None, "it was still catching up when it ended")
        }
        None if catching_up_seconds > 0.0 => {
            (None, "it was still catching up when the recording ended")
        }
        None if is_known => (None, "its distance to the tip was never known"),
        None => (None, "no phase that this version knows was recorded"),
    };
    Success {
        passed,
        why: why.to_owned(),
        ..Success::default()
    }
}

/// Recorded time from `from` to the last tick with a process, up to a requested stop. It includes
/// restarts. `None` if there is none.
fn tip_time(recording: &Run, lifecycle: &Lifecycle, from: f64) -> Option<TipTime> {
    let experiment = recording.experiment_outcome.as_ref();
    let stop = experiment.and_then(|experiment| Some(recording.at(experiment.stopped_unix_ns?)));
    let runs_before_stop =
        |tick: &Tick| tick.process.is_some() && stop.is_none_or(|stop| tick.at <= stop);
    let last = recording.ticks.iter().rposition(runs_before_stop)?;
    let until_last = recording
        .ticks
        .get(..=last)?
        .iter()
        .zip(&lifecycle.phase_by_tick);
    let mut time = TipTime::default();
    for ((before, phase), after) in
        until_last.zip(recording.ticks.get(1..=last).unwrap_or_default())
    {
        let passed = Duration::try_from_secs_f64(after.at - before.at).unwrap_or_default();
        // The daemon's rule for time at the tip tolerates longer steps than `is_gap`.
        let is_phase_gap = recording.phase_rules(before).is_gap(passed);
        if before.at >= from && before.session == after.session && !is_phase_gap {
            time.add(*phase, passed);
        }
    }
    (time != TipTime::default()).then_some(time)
}

fn stalls_text(recording: &Run, stalls: &[Stall]) -> Option<String> {
    let longest = stalls
        .iter()
        .max_by(|a, b| a.span.seconds().total_cmp(&b.span.seconds()))?;
    let more = match stalls.len() {
        1 => String::new(),
        2 => "; there was 1 other stall".to_owned(),
        n => format!("; there were {} other stalls", n - 1),
    };
    let start = utc(recording.steady_unix_ns(longest.span.from));
    let time_of_day: String = start.chars().skip("2025-01-31 ".len()).collect();
    let length = Duration::try_from_secs_f64(longest.span.seconds().round()).unwrap_or_default();
    Some(format!(
        "its slot did not advance for {} from {time_of_day} on{more}",
        duration(length)
    ))
}

#[cfg(test)]
mod tests {
    use crate::{
        measure::lifecycle::lifecycle,
        run::{Event, ExperimentOutcome, Process, Run, Session, Tick},
    };

    /// A run that is at the tip for 80 s. Then a stop is requested, and the process ends 20 s
    /// later, in an unknown phase.
    fn slow_to_end(experiment_outcome: Option<ExperimentOutcome>) -> Run {
        let tick = |second: u32| Tick {
            at: f64::from(second),
            process: (second < 100).then_some(0),
            phase: (second < 80).then(|| "at_tip".into()),
            ..Tick::default()
        };
        let sessions = vec![Session {
            interval_seconds: 1.0,
            ..Session::default()
        }];
        Run {
            ticks: (0..=101).map(tick).collect(),
            sessions,
            experiment_outcome,
            ..Run::default()
        }
    }

    #[test]
    fn the_end_is_of_the_last_process() {
        let mut recording = slow_to_end(None);
        let event = |at, kind: &str| Event {
            at,
            kind: kind.to_owned(),
            ..Event::default()
        };
        recording.events = vec![event(40.0, "oom_kill"), event(100.0, "exit")];
        let how = |recording: &Run| lifecycle(recording).end.how;
        assert_eq!(how(&recording), "the validator ended");
        assert!(lifecycle(&recording).end.was_oom_killed);
        recording.events.reverse();
        for event in &mut recording.events {
            event.at = 140.0 - event.at;
        }
        assert_eq!(how(&recording), "killed by the kernel's OOM killer");
        recording.events.truncate(1);
        recording.processes = vec![Process::default()];
        assert_eq!(how(&recording), "the validator was gone");
    }

    #[test]
    fn shutdown_time_after_a_stop_request_does_not_count() {
        assert_eq!(lifecycle(&slow_to_end(None)).success.passed, None);
        let experiment_outcome = ExperimentOutcome {
            stopped_unix_ns: Some(79_500_000_000),
            ..ExperimentOutcome::default()
        };
        let success = lifecycle(&slow_to_end(Some(experiment_outcome))).success;
        assert_eq!(
            (success.passed, success.tip_share),
            (Some(true), Some(1.0)),
            "{}",
            success.why
        );
    }
}
