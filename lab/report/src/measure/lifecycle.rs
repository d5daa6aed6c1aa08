mod success;

use super::{
    Span, max_tick_step,
    timeline::{Stall, Timeline, timeline},
};
use crate::run::{Run, Signal, Tick};
use faultline_phase::{Phase, phase_name};
use std::ops::Range;

#[derive(Debug)]
pub struct PhaseSpan {
    pub span: Span,
    pub name: String,
    /// Indices into [`Run::ticks`].
    pub ticks: Range<usize>,
}

#[derive(Debug, Default)]
pub struct Success {
    pub answer: Option<bool>,
    pub why: String,
    /// Time share at the tip since the first tick there; `None` without that tick.
    pub share: Option<f64>,
}

#[derive(Debug, Default)]
pub struct End {
    pub how: String,
    pub evidence: String,
    pub oom: bool,
}

#[derive(Debug, Default)]
pub struct Lifecycle {
    /// Includes phases after the end of the run.
    pub phases: Vec<PhaseSpan>,
    /// The phase from each tick to the next; `None` without evidence.
    pub phase_of: Vec<Option<Phase>>,
    pub stalls: Vec<Stall>,
    /// Median slot time.
    pub slot_seconds: Option<f64>,
    pub gaps: Vec<Span>,
    /// The first tick at the tip.
    pub at_tip: Option<f64>,
    /// Since when the distance was small, until [`at_tip`](Self::at_tip) confirmed it.
    pub near_tip: Option<f64>,
    pub success: Success,
    pub end: End,
    /// End of the last process; `None` if the recording did not see it.
    pub ended: Option<f64>,
    /// The end of the run, or the last tick.
    pub until: f64,
    pub restarts: usize,
    /// Whether anything of a validator was recorded.
    pub has_validator: bool,
}

pub fn lifecycle(run: &Run) -> Lifecycle {
    let Timeline {
        phases: phase_of,
        stalls,
        slot_seconds,
    } = timeline(run);
    let phases = phases(run, &phase_of);
    let (ended, until) = ended(run).map_or((None, run.end()), |(at, until)| (Some(at), until));
    let has_validator = has_validator(run, &phases);
    let noun = match has_validator || run.processes.is_empty() {
        true => "validator",
        false => "process",
    };
    let first_at_tip = phase_of
        .iter()
        .position(|phase| *phase == Some(Phase::AtTip));
    let mut lifecycle = Lifecycle {
        phases,
        phase_of,
        stalls,
        slot_seconds,
        gaps: gaps(run),
        at_tip: first_at_tip.and_then(|tick| Some(run.ticks.get(tick)?.at)),
        near_tip: first_at_tip.and_then(|tick| near_tip(run, tick)),
        success: Success::default(),
        end: end(run, noun),
        ended,
        until,
        restarts: run.processes.len().saturating_sub(1),
        has_validator,
    };
    lifecycle.success = success::success(run, &lifecycle);
    if let Some(experiment) = &run.from_experiment {
        if let Some(answer) = experiment.success {
            lifecycle.success.answer = Some(answer);
            lifecycle.success.why.clone_from(&experiment.why);
        }
        if !experiment.end.is_empty() {
            lifecycle.end.how.clone_from(&experiment.end);
            lifecycle.end.evidence.clone_from(&experiment.evidence);
        }
    }
    lifecycle
}

/// Since when the process was near the tip, up to its first tick `at_tip`.
fn near_tip(run: &Run, at_tip: usize) -> Option<f64> {
    let tick = run.ticks.get(at_tip)?;
    let max_behind = run.rules(tick).at_tip_slots as f64;
    let near = run
        .ticks
        .iter()
        .zip(run.signal(Signal::Behind))
        .take(at_tip + 1)
        .rev()
        .take_while(|(earlier, _)| earlier.process == tick.process)
        .filter_map(|(earlier, behind)| Some((earlier.at, (*behind)?)))
        .take_while(|(_, behind)| *behind <= max_behind);
    Some(near.last().map_or(tick.at, |(at, _)| at))
}

/// Phases that any process can have. Others show that it is a validator.
const PHASES_OF_ANY_PROCESS: [&str; 4] = ["absent", "initializing", "gone", "unknown"];

fn has_validator(run: &Run, phases: &[PhaseSpan]) -> bool {
    !run.points.is_empty()
        || !run.replayed.slots.is_empty()
        || !run.facts.versions.is_empty()
        || phases
            .iter()
            .any(|phase| !PHASES_OF_ANY_PROCESS.contains(&phase.name.as_str()))
}

pub fn is_gap(run: &Run, before: &Tick, after: &Tick) -> bool {
    before.session != after.session || after.at - before.at > max_tick_step(run)
}

/// When the last process was gone, and the last moment that still counts. `None` if a process runs
/// at the last tick, or none ever ran.
fn ended(run: &Run) -> Option<(f64, f64)> {
    let last = run.ticks.iter().rposition(|tick| tick.process.is_some())?;
    let (alive, gone) = (run.ticks.get(last)?, run.ticks.get(last + 1)?);
    if is_gap(run, alive, gone) {
        return Some((alive.at, alive.at));
    }
    let mut events = run.events.iter().rev();
    let event = events.find(|event| {
        matches!(event.kind.as_str(), "exit" | "oom_kill")
            && event.at > alive.at
            && event.at <= gone.at
    });
    let at = event.map_or(gone.at, |event| event.at);
    Some((at, at.next_down()))
}

fn gaps(run: &Run) -> Vec<Span> {
    run.tick_pairs()
        .filter(|(before, after)| is_gap(run, before, after))
        .map(|(before, after)| Span {
            from: before.at,
            to: after.at,
        })
        .collect()
}

fn phases(run: &Run, phase_of: &[Option<Phase>]) -> Vec<PhaseSpan> {
    let mut phases: Vec<PhaseSpan> = Vec::new();
    let mut before: Option<&Tick> = None;
    for (index, (tick, phase)) in run.ticks.iter().zip(phase_of).enumerate() {
        let name = phase_name(*phase);
        let is_continuous = before.is_some_and(|before| !is_gap(run, before, tick));
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
    pub fn time_in(&self, run: &Run, phase: Phase, window: Span) -> f64 {
        run.tick_pairs()
            .zip(&self.phase_of)
            .filter(|((before, after), known)| {
                **known == Some(phase) && window.includes(before.at) && !is_gap(run, before, after)
            })
            .map(|((before, after), _)| after.at - before.at)
            .sum()
    }

    pub fn gaps_of_the_run(&self) -> impl Iterator<Item = &Span> {
        self.gaps.iter().filter(|gap| gap.from < self.until)
    }
}

/// `noun` is `validator` or `process`.
fn end(run: &Run, noun: &str) -> End {
    let last_event = |kind: &str| {
        let event = run.events.iter().rev().find(|event| event.kind == kind)?;
        Some(format!("at {:.0} s: {}", event.at, event.sentence()))
    };
    let oom_kill = last_event("oom_kill");
    // A recording cannot always tell an OOM kill from one elsewhere on the host.
    let experiment = run.from_experiment.as_ref();
    let oom = experiment.map_or(oom_kill.is_some(), |experiment| experiment.oom);
    let running = run.ticks.last().is_some_and(|tick| tick.process.is_some());
    let (how, evidence) = if run.ticks.is_empty() {
        ("nothing was recorded".to_owned(), None)
    } else if running && let Some(from) = &run.salvaged {
        (
            "not known: what was saved of a damaged recording ends here".to_owned(),
            Some(format!("the recording was salvaged from {from}")),
        )
    } else if running && run.finished {
        (
            format!("the recording was ended while the {noun} ran"),
            last_event("daemon_stop"),
        )
    } else if running {
        (
            format!("the recording is still being written, or was cut off, while the {noun} ran"),
            Some("the file was not ended in order".to_owned()),
        )
    } else if oom_kill.is_some() {
        ("killed by the kernel's OOM killer".to_owned(), oom_kill)
    } else if let Some(exit) = last_event("exit") {
        (format!("the {noun} ended"), Some(exit))
    } else if run.processes.is_empty() {
        ("no process was ever followed".to_owned(), None)
    } else {
        (
            format!("the {noun} was gone"),
            Some("the last tick follows no process".to_owned()),
        )
    };
    End {
        how,
        evidence: evidence.unwrap_or_default(),
        oom,
    }
}
