//! The course of a run: phases, gaps, when it first executed, when it was at the tip, how it ended.

use crate::run::{Run, Tick, Told};
use std::ops::Range;

/// Ticks further apart than this many intervals are a gap: nothing is known in between.
const GAP_INTERVALS: f64 = 2.5;

/// Kept up: at the tip for this share of the time since it was first there.
pub const KEPT_UP: f64 = 0.99;

/// A validator that runs this long without reaching the tip has not kept up; the study's caught up within two hours.
pub const CATCH_UP_LIMIT: f64 = 7200.0;

/// A stretch of time, in seconds since the run's origin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    /// From.
    pub from: f64,
    /// To.
    pub to: f64,
}

impl Span {
    /// How long, in seconds.
    pub fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    /// Whether a moment lies in it, both ends included.
    pub fn holds(self, at: f64) -> bool {
        at >= self.from && at <= self.to
    }
}

/// A phase of the validator, as long as it lasted without a break.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// When.
    pub span: Span,
    /// As the daemon names it; `unknown` where it told none.
    pub name: String,
    /// Its ticks, by their place in [`Run::ticks`].
    pub ticks: Range<usize>,
}

/// Whether the validator kept up with the tip, with the reason in words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptUp {
    /// `None` if it cannot be told.
    pub answer: Option<bool>,
    /// Why.
    pub why: String,
    /// Share of the time at the tip since it was first there; `None` if it never was.
    pub share: Option<f64>,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// In words.
    pub how: String,
    /// Which line of the recording says so.
    pub evidence: String,
    /// The kernel killed the validator for want of memory at least once.
    pub oom: bool,
}

/// The course of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// In order; gaps lie between them.
    pub phases: Vec<Phase>,
    /// Time of which nothing was recorded.
    pub gaps: Vec<Span>,
    /// The first tick at the tip.
    pub at_tip: Option<f64>,
    /// Whether it kept up.
    pub kept_up: KeptUp,
    /// How it ended.
    pub end: End,
    /// Processes after the first.
    pub restarts: usize,
    /// Whether anything of a validator was seen: a point of its own, its version, or a phase that only a validator has.
    pub validator: bool,
}

/// Follows a run from its first tick to its last.
pub fn course(run: &Run) -> Course {
    let gaps = gaps(run);
    let phases = phases(run);
    let at_tip = run.ticks.iter().find(|tick| is(tick, "at_tip")).map(|tick| tick.at);
    let validator = validator(run, &phases);
    let mut end = end(run, if validator || run.processes.is_empty() { "validator" } else { "process" });
    // The recording cannot always tell a kill from one elsewhere on the host.
    end.oom = run.told.as_ref().map_or(end.oom, |told| told.oom);
    let kept_up = kept_up(run, at_tip, &end);
    let course =
        Course { phases, gaps, at_tip, kept_up, end, restarts: run.processes.len().saturating_sub(1), validator };
    match &run.told {
        Some(told) => overruled(course, told),
        None => course,
    }
}

/// An experiment watched from outside: what it says of the end holds over what the recording could see of it.
fn overruled(mut course: Course, told: &Told) -> Course {
    if let Some(answer) = told.kept_up {
        course.kept_up.answer = Some(answer);
        course.kept_up.why.clone_from(&told.why);
    }
    if !told.end.is_empty() {
        course.end.how.clone_from(&told.end);
        course.end.evidence.clone_from(&told.evidence);
    }
    course
}

/// Phases that the daemon gives to any process.
const OF_ANY: [&str; 4] = ["absent", "initializing", "gone", "unknown"];

fn validator(run: &Run, phases: &[Phase]) -> bool {
    let points = &run.points;
    let silent =
        points.cache.is_empty() && points.replay.is_empty() && points.costs.is_empty() && points.roots.is_empty();
    !silent
        || !run.replayed.slots.is_empty()
        || !run.facts.versions.is_empty()
        || phases.iter().any(|phase| !OF_ANY.contains(&phase.name.as_str()))
}

/// Whether nothing is known between two neighbouring ticks.
pub fn broken(run: &Run, before: &Tick, after: &Tick) -> bool {
    before.session != after.session || after.at - before.at > GAP_INTERVALS * run.interval()
}

fn is(tick: &Tick, phase: &str) -> bool {
    tick.phase.as_deref() == Some(phase)
}

fn gaps(run: &Run) -> Vec<Span> {
    let pairs = run.ticks.iter().zip(run.ticks.iter().skip(1));
    pairs
        .filter(|(before, after)| broken(run, before, after))
        .map(|(before, after)| Span { from: before.at, to: after.at })
        .collect()
}

fn phases(run: &Run) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut before: Option<&Tick> = None;
    for (index, tick) in run.ticks.iter().enumerate() {
        let name = tick.phase.as_deref().unwrap_or("unknown");
        let whole = before.is_some_and(|before| !broken(run, before, tick));
        before = Some(tick);
        if let Some(last) = phases.last_mut().filter(|_| whole) {
            last.span.to = tick.at;
            if last.name == name {
                last.ticks.end = index + 1;
                continue;
            }
        }
        let span = Span { from: tick.at, to: tick.at };
        phases.push(Phase { span, name: name.to_owned(), ticks: index..index + 1 });
    }
    phases
}

fn kept_up(run: &Run, at_tip: Option<f64>, end: &End) -> KeptUp {
    let share = at_tip.and_then(|from| share_at_tip(run, from));
    let no = |why: &str| KeptUp { answer: Some(false), why: why.to_owned(), share };
    if end.oom {
        return no("the kernel killed it for want of memory");
    }
    let told = run.ticks.iter().any(|tick| tick.phase.is_some());
    let ran = time_in(run, |tick| is(tick, "catching_up"));
    match (at_tip, share) {
        (Some(_), Some(share)) if share >= KEPT_UP && run.salvaged.is_some() => KeptUp {
            answer: None,
            why: format!("at the tip for {:.1} % of the time that was saved of a damaged recording", 100.0 * share),
            share: Some(share),
        },
        (Some(_), Some(share)) if share >= KEPT_UP => KeptUp {
            answer: Some(true),
            why: format!("at the tip for {:.1} % of the time since it was first there", 100.0 * share),
            share: Some(share),
        },
        (Some(_), Some(share)) => {
            no(&format!("at the tip for only {:.1} % of the time since it was first there", 100.0 * share))
        }
        (Some(_), None) => KeptUp { answer: None, why: "was at the tip at the last tick only".to_owned(), share },
        (None, _) if ran > CATCH_UP_LIMIT => no("ran for more than two hours and was never at the tip"),
        (None, _) if ran > 0.0 => {
            KeptUp { answer: None, why: "was still catching up when the recording ended".to_owned(), share }
        }
        (None, _) if told => {
            KeptUp { answer: None, why: "never ran so far that its distance to the tip was known".to_owned(), share }
        }
        (None, _) => KeptUp { answer: None, why: "no phase was recorded".to_owned(), share },
    }
}

/// Of the time since `from` in which a process was followed or was to be restarted, and which was recorded.
fn share_at_tip(run: &Run, from: f64) -> Option<f64> {
    let last = run.ticks.iter().rposition(|tick| tick.process.is_some())?;
    let followed = &run.ticks[..=last];
    let (mut near, mut all) = (0.0, 0.0);
    for (before, after) in followed.iter().zip(followed.iter().skip(1)) {
        if before.at < from || broken(run, before, after) {
            continue;
        }
        all += after.at - before.at;
        if is(before, "at_tip") {
            near += after.at - before.at;
        }
    }
    (all > 0.0).then(|| near / all)
}

/// Recorded time after ticks of which something holds, in seconds.
pub fn time_in(run: &Run, holds: impl Fn(&Tick) -> bool) -> f64 {
    let pairs = run.ticks.iter().zip(run.ticks.iter().skip(1));
    pairs
        .filter(|(before, after)| holds(before) && !broken(run, before, after))
        .map(|(before, after)| after.at - before.at)
        .sum()
}

fn end(run: &Run, what: &str) -> End {
    let last = |kind: &str| run.events.iter().rev().find(|event| event.kind == kind);
    let oom = run.events.iter().any(|event| event.kind == "oom_kill");
    let running = run.ticks.last().is_some_and(|tick| tick.process.is_some());
    let cite = |kind: &str| {
        last(kind).map_or_else(String::new, |event| match event.detail.as_str() {
            "" => format!("event {kind} at {:.0} s", event.at),
            detail => format!("event {kind} at {:.0} s: {detail}", event.at),
        })
    };
    let (how, evidence) = if run.ticks.is_empty() {
        ("nothing was recorded".to_owned(), String::new())
    } else if !running && last("oom_kill").is_some() {
        ("killed by the kernel for want of memory".to_owned(), cite("oom_kill"))
    } else if !running && last("exit").is_some() {
        (format!("the {what} ended"), cite("exit"))
    } else if !running && run.processes.is_empty() {
        ("no process was ever followed".to_owned(), String::new())
    } else if !running {
        (format!("the {what} was gone"), "the last tick follows no process".to_owned())
    } else if let Some(from) = &run.salvaged {
        (
            "not known: what was saved of a damaged recording ends here".to_owned(),
            format!("the recording was salvaged from {from}"),
        )
    } else if run.finished {
        (format!("the recording was ended while the {what} ran"), cite("daemon_stop"))
    } else {
        (
            format!("the recording is still being written, or was cut off, while the {what} ran"),
            "the file was not ended in order".to_owned(),
        )
    };
    End { how, evidence, oom }
}
