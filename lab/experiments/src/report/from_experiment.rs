//! Outcomes override what the recording shows.

use crate::outcome::{Ending, Outcome};
use crate::plan::{Arm, Kind};
use faultline_report::run::ExperimentOutcome;
use faultline_runner::isolation::{End, Evidence};

pub(crate) fn of_ending(ending: &Ending, arm: Option<&Arm>, kind: Kind) -> ExperimentOutcome {
    let (kept_up, why) = answer(&ending.outcome, kind);
    ExperimentOutcome {
        replay: kind == Kind::Replay,
        kept_up,
        why,
        end: words(&ending.outcome, kind),
        evidence: evidence(&ending.evidence),
        stopped_unix_ns: ending.stopped_unix_ns,
        oom: ending.outcome == Outcome::OutOfMemory,
        limit: arm.and_then(|arm| arm.memory_max.or(arm.memory_high)),
        io_some: ending
            .evidence
            .pressure
            .get("io")
            .map(|io| io.some_us as f64 / 1e6),
    }
}

/// Whether the run kept up, and why. `None` if the recording decides, or if unknown.
fn answer(outcome: &Outcome, kind: Kind) -> (Option<bool>, String) {
    let no = |why: &str| (Some(false), why.to_owned());
    match outcome {
        Outcome::Completed if kind == Kind::Replay => {
            (Some(true), "all of its work was done".to_owned())
        }
        Outcome::Completed | Outcome::Failed { .. } | Outcome::Interrupted { .. } => {
            (None, String::new())
        }
        Outcome::OutOfMemory => no("the kernel's OOM killer killed it"),
        Outcome::Exited { code } => (
            Some(false),
            format!("it ended by itself with code {code} before its time"),
        ),
        // A foreign signal says nothing about the arm.
        Outcome::Killed { .. } => (None, String::new()),
        Outcome::NeverExecuted => no("it executed nothing within the time the plan gives"),
        Outcome::NoProgress => no("it had no new slot for as long as the plan waits"),
        Outcome::NotAtTip => no("it was not at the tip within the time the plan gives"),
    }
}

pub(crate) fn words(outcome: &Outcome, kind: Kind) -> String {
    match outcome {
        Outcome::Completed if kind == Kind::Replay => "all of its work was done".to_owned(),
        Outcome::Completed => "ran its whole time".to_owned(),
        Outcome::OutOfMemory => "killed by the kernel's OOM killer".to_owned(),
        Outcome::Exited { code } => format!("ended by itself with code {code}"),
        Outcome::Killed { signal } => {
            format!("ended by signal {signal}, which was not this program's")
        }
        Outcome::NeverExecuted => "ended by the plan: nothing was executed in time".to_owned(),
        Outcome::NoProgress => "ended by the plan: no new slot for too long".to_owned(),
        Outcome::NotAtTip => "ended by the plan: not at the tip in time".to_owned(),
        Outcome::Failed { why } => format!("failed: {why}"),
        Outcome::Interrupted { why } => format!("interrupted: {why}"),
    }
}

fn evidence(evidence: &Evidence) -> String {
    let mut parts = Vec::new();
    match evidence.end {
        Some(End::Code(code)) => parts.push(format!("exit code {code}")),
        Some(End::Signal(signal)) => parts.push(format!("signal {signal}")),
        None => {}
    }
    parts.extend(
        evidence
            .result
            .as_ref()
            .map(|result| format!("systemd says {result}")),
    );
    parts.extend(
        evidence
            .memory_events
            .iter()
            .map(|(name, count)| format!("{name} {count}")),
    );
    parts.join(", ")
}
