//! Figures over time.

use super::{
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Band, Chart, Line, Mark, Timeline, rounded},
};
use crate::{
    measure::{PhaseSpan, Span, lifecycle::is_gap},
    run::{ClockStep, Event, Run, Signal, value_text},
};
use itertools::{Itertools, chain};
use serde_json::Value;

const MAX_POINTS: usize = 2000;

const MIN_POINTS: usize = 400;

const STALL: &str = "stall";

/// Kind of event, and name of its mark. Phases and gaps are bands instead.
const MARKED_EVENTS: &[(&str, &str)] = &[
    ("start", "process followed"),
    ("at_tip", "at tip"),
    ("behind", "behind"),
    ("stall", STALL),
    ("oom_kill", "killed: out of memory"),
    ("exit", "exit"),
    ("restart", "restart"),
    ("mark", "mark"),
];

pub const AFTER_THE_END: &str = "after the end";

/// Points of the validator at most this far apart stay connected across a gap of the daemon.
/// Usually they are at most about 1 s apart: one for each slot or second of TPS.
const MAX_CONNECTED_SECONDS: f64 = 2.0;

const MAX_MARKS: usize = 60;

fn empty_line(run: &MeasuredRun, name: &str) -> Line {
    Line {
        name: name.to_owned(),
        run: run.id.clone(),
        ..Line::default()
    }
}

fn push_point(line: &mut Line, x: f64, y: Option<f64>) {
    line.x.push(x);
    line.y.push(y);
}

/// A line with one value per tick. It breaks at gaps.
pub fn line_of_ticks(run: &MeasuredRun, name: &str, values: &[Option<f64>]) -> Line {
    let ticks = &run.recording.ticks;
    let mut line = empty_line(run, name);
    for (index, (tick, value)) in ticks.iter().zip(values).enumerate() {
        let before = index.checked_sub(1).and_then(|before| ticks.get(before));
        if let Some(before) = before.filter(|before| is_gap(&run.recording, before, tick)) {
            push_point(&mut line, f64::midpoint(before.at, tick.at), None);
        }
        push_point(&mut line, tick.at, *value);
    }
    line
}

pub fn line_of_signal(run: &MeasuredRun, name: &str, signal: Signal) -> Line {
    line_of_ticks(run, name, run.recording.signal(signal))
}

/// A line of points with their times. It breaks at gaps and where no process was followed.
pub fn line_of_points(
    run: &MeasuredRun,
    points: impl IntoIterator<Item = (f64, Option<f64>)>,
) -> Line {
    let mut unrecorded = unrecorded_spans(&run.recording).into_iter().peekable();
    let mut line = empty_line(run, "");
    for (at, value) in points {
        if let Some(before) = line.x.last().copied() {
            while unrecorded.next_if(|span| span.to <= before).is_some() {}
            let is_broken = unrecorded.peek().is_some_and(|span| span.from < at);
            if is_broken && at - before > MAX_CONNECTED_SECONDS {
                push_point(&mut line, f64::midpoint(before, at), None);
            }
        }
        push_point(&mut line, at, value);
    }
    line
}

/// The gaps, and the times without a process. Spans that touch are merged.
fn unrecorded_spans(recording: &Run) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (before, after) in recording.tick_pairs() {
        let is_same_process = before.process.is_some() && after.process == before.process;
        if is_same_process && !is_gap(recording, before, after) {
            continue;
        }
        match spans.last_mut().filter(|last| last.to >= before.at) {
            Some(last) => last.to = after.at,
            None => spans.push(Span {
                from: before.at,
                to: after.at,
            }),
        }
    }
    spans
}

/// The time axis starts at the first tick of a single run, but with several runs at the first
/// executed transaction of each.
pub fn timeline(
    runs: &MeasuredRuns,
    y_label: &str,
    unit: &str,
    lines: impl Fn(&MeasuredRun) -> Vec<Line>,
) -> Option<Chart> {
    let is_single = runs.single_run().is_some();
    let max_points = if is_single {
        MAX_POINTS
    } else {
        (2 * MAX_POINTS / runs.all.len().max(1)).clamp(MIN_POINTS, MAX_POINTS)
    };
    let mut chart = Timeline {
        y_label: y_label.to_owned(),
        unit: unit.to_owned(),
        ..Timeline::default()
    };
    for run in &runs.all {
        let origin = if is_single {
            0.0
        } else {
            run.since_first_transaction.window.from
        };
        for mut line in lines(run) {
            let from = line.x.partition_point(|x| *x < origin);
            line.y.drain(..from);
            line.x = line.x.split_off(from).iter().map(|x| x - origin).collect();
            line.name = match line.name.as_str() {
                "" => run.name.clone(),
                name if is_single => name.to_owned(),
                name => format!("{}: {name}", run.name),
            };
            if line.y.iter().any(Option::is_some) {
                chart.series.push(line.thinned(max_points));
            }
        }
        chart.bands.extend(bands(run, origin));
        chart.marks.extend(marks(run, origin, is_single));
    }
    let x_label = if is_single || runs.has_no_validator() {
        "Time since the first sample"
    } else {
        "Time since the run's first transaction"
    };
    chart.x_label = x_label.to_owned();
    (!chart.series.is_empty()).then_some(Chart::Timeline(chart))
}

fn bands(run: &MeasuredRun, origin: f64) -> Vec<Band> {
    let lifecycle = &run.lifecycle;
    let after_end = lifecycle.last_process_end.map(|from| {
        let to = run.recording.end_seconds();
        (Span { from, to }, AFTER_THE_END)
    });
    // The phase `absent` has no meaning for a process that is no validator.
    let is_known = |name: &str| name != "unknown" && (name != "absent" || lifecycle.has_validator);
    let of_run = |phase: &&PhaseSpan| {
        is_known(&phase.name)
            && lifecycle
                .last_process_end
                .is_none_or(|ended| phase.span.from < ended)
    };
    let phases = lifecycle
        .phases
        .iter()
        .filter(of_run)
        .map(|phase| (phase.span, phase.name.as_str()));
    let gaps = lifecycle.gaps.iter().map(|gap| (*gap, "gap"));
    let drawn = chain!(phases, after_end, gaps).filter(|(span, _)| span.to > span.from.max(origin));
    let bands = drawn.map(|(span, name)| Band {
        from: (span.from - origin).max(0.0),
        to: span.to - origin,
        name: name.replace('_', " "),
        run: run.id.clone(),
    });
    bands.collect()
}

fn marks(run: &MeasuredRun, origin: f64, is_single: bool) -> Vec<Mark> {
    let mark = |at, name| Mark {
        at: rounded(at - origin, 2),
        name,
        run: run.id.clone(),
    };
    // With several runs, the axis starts at this time.
    let first_transaction = run
        .execution_window
        .filter(|_| is_single)
        .map(|window| mark(window.from.max(0.0), "first transaction".to_owned()));
    // A stall has a mark at its start. The daemon detected it later, so its event gets no mark.
    let stalls = &run.lifecycle.stalls;
    let is_marked_at_stall_start = |event: &Event| {
        event.kind == "stall" && stalls.iter().any(|stall| stall.span.includes(event.at))
    };
    let events = run.recording.events.iter().filter_map(|event| {
        let (kind, name) = MARKED_EVENTS.iter().find(|(kind, _)| *kind == event.kind)?;
        let name = match *kind {
            "mark" => mark_name(&event.detail),
            _ => (*name).to_owned(),
        };
        (!is_marked_at_stall_start(event)).then(|| mark(event.at, name))
    });
    let stalls = stalls
        .iter()
        .map(|stall| mark(stall.span.from, STALL.to_owned()));
    let steps = run
        .recording
        .clock_steps
        .iter()
        .map(|step| mark(step.at, format!("clock {}", clock_step(step))));
    let mut marks = chain!(first_transaction, events, stalls, steps)
        .filter(|mark| is_single || mark.at >= 0.0)
        .collect_vec();
    let omitted = marks.len().saturating_sub(MAX_MARKS);
    marks.truncate(MAX_MARKS);
    if omitted > 0
        && let Some(last) = marks.last_mut()
    {
        last.name += &format!(" (+{omitted} not drawn)");
    }
    marks
}

/// The name of a manual mark: `{"name": "..."}`, or plain text.
fn mark_name(detail: &Value) -> String {
    let name = detail.get("name").filter(|name| name.is_string());
    let name: String = value_text(name.unwrap_or(detail))
        .chars()
        .filter(|c| !c.is_control())
        .take(40)
        .collect();
    if name.is_empty() {
        return "mark".to_owned();
    }
    name
}

/// `set forward by 1 h`, `set back by 12.5 s`.
pub fn clock_step(step: &ClockStep) -> String {
    let direction = if step.seconds < 0.0 {
        "back"
    } else {
        "forward"
    };
    let duration = faultline_text::duration_f64(step.seconds.abs());
    format!("set {direction} by {duration}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_stats::block_bootstrap::IntervalPlan;

    #[test]
    fn the_last_mark_says_how_many_are_not_drawn() {
        let last_mark = |count: usize| {
            let event = Event {
                kind: "restart".to_owned(),
                ..Event::default()
            };
            let recording = Run {
                events: vec![event; count],
                ..Run::default()
            };
            let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
            let mut marks = marks(&runs.all[0], 0.0, true);
            (marks.len(), marks.pop().unwrap().name)
        };
        assert_eq!(last_mark(60), (60, "restart".to_owned()));
        let cut = "restart (+10 not drawn)".to_owned();
        assert_eq!(last_mark(70), (60, cut));
    }

    #[test]
    fn a_clock_step_names_its_direction_and_duration() {
        let set = |seconds| clock_step(&ClockStep { at: 0.0, seconds });
        assert_eq!(
            [set(3600.0), set(-120.0), set(-12.5)],
            [
                "set forward by 1 h",
                "set back by 2 min",
                "set back by 12.5 s"
            ]
        );
    }
}
