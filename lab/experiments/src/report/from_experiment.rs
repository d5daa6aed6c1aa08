//! Outcomes override what the recording shows.

use crate::{
    outcome::{Ending, Outcome},
    plan::{Arm, Kind},
};
use faultline_report::run::ExperimentOutcome;
use faultline_runner::isolation::{End, Evidence};
use itertools::Itertools;

pub fn of_ending(ending: &Ending, arm: Option<&Arm>, kind: Kind) -> ExperimentOutcome {
    let why = why(&ending.outcome, kind);
    ExperimentOutcome {
        replay: kind == Kind::Replay,
        success: (!why.is_empty()).then_some(ending.outcome == Outcome::Completed),
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

/// Why the run kept up or not. Empty if the recording decides, or if it is unknown.
fn why(outcome: &Outcome, kind: Kind) -> String {
    let why = match outcome {
        Outcome::Completed if kind == Kind::Replay => "all of its work was done",
        Outcome::OutOfMemory => "the kernel's OOM killer killed it",
        Outcome::Exited { code } => {
            return format!("it ended by itself with code {code} before its time");
        }
        Outcome::NeverExecuted => "it executed nothing within the time the plan gives",
        Outcome::NoProgress => "it had no new slot for as long as the plan waits",
        Outcome::NotAtTip => "it was not at the tip within the time the plan gives",
        // A foreign signal proves nothing about the arm.
        Outcome::Completed
        | Outcome::Killed { .. }
        | Outcome::Failed { .. }
        | Outcome::Interrupted { .. } => "",
    };
    why.to_owned()
}

pub fn words(outcome: &Outcome, kind: Kind) -> String {
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
    let end = evidence.end.map(|end| match end {
        End::Code(code) => format!("exit code {code}"),
        End::Signal(signal) => format!("signal {signal}"),
    });
    let result = evidence.result.iter();
    let events = evidence.memory_events.iter();
    end.into_iter()
        .chain(result.map(|result| format!("systemd says {result}")))
        .chain(events.map(|(name, count)| format!("{name} {count}")))
        .join(", ")
}
