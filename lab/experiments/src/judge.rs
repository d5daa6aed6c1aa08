//! Derives outcomes from evidence, without access to the host.

pub mod cache;
pub mod gaps;

use super::{
    outcome::Outcome,
    plan::{Kind, Stop},
};
use faultline_runner::isolation::{End, Evidence};
use faultline_text::time;

/// A shell returns 128 plus the signal of its child.
const SHELL_SIGNAL_BASE: i32 = 128;
const TIMEOUT: &str = "timeout";
const OOM_KILL: &str = "oom-kill";

#[derive(Debug, Default)]
pub struct EndFacts {
    /// Why the runner stopped it: [`Outcome::Completed`] if its time was up. `None` if the run
    /// ended by itself.
    pub why: Option<Outcome>,
    pub before: Evidence,
    pub after: Evidence,
    /// Its first process exited and left others in the cgroup.
    pub left: bool,
}

const DAEMONISED: &str = "its command ended with exit code 0 while what it had started was still running: a start-up \
                          script has to stay until the validator ends (`exec` it, or `wait` for it)";

/// Also reads the events of the cgroup: a shell may survive its OOM-killed child.
pub fn killed_for_memory(evidence: &Evidence) -> bool {
    evidence
        .memory_events
        .get("oom_kill")
        .is_some_and(|kills| *kills > 0)
        || evidence.result.as_deref() == Some(OOM_KILL)
}

pub fn outcome(kind: Kind, stop: &Stop, facts: &EndFacts) -> (Outcome, Vec<String>) {
    let mut notes = Vec::new();
    if killed_for_memory(&facts.before) {
        return (Outcome::OutOfMemory, notes);
    }
    if let Some(why) = &facts.why {
        if killed_for_memory(&facts.after) {
            notes.push("it was OOM-killed while it was being ended".to_owned());
        }
        if (why, kind) == (&Outcome::Completed, Kind::Replay) {
            let why = format!(
                "its work was not done within {}: give it a longer `stop.duration`",
                time(stop.duration)
            );
            return (Outcome::Failed { why }, notes);
        }
        return (why.clone(), notes);
    }
    if killed_for_memory(&facts.after) {
        return (Outcome::OutOfMemory, notes);
    }
    if facts.after.result.as_deref() == Some(TIMEOUT) {
        let why = "systemd ended it: it has lived longer than any run of this plan may".to_owned();
        return (Outcome::Failed { why }, notes);
    }
    // The exit code is probably that of a start script.
    if facts.left && kind == Kind::Validator && facts.after.end == Some(End::Code(0)) {
        let why = DAEMONISED.to_owned();
        return (Outcome::Failed { why }, notes);
    }
    if facts.left {
        notes.push(
            "its first process ended and left others running, which were ended as well".to_owned(),
        );
    }
    let outcome = match facts.after.end {
        Some(End::Code(0)) if kind == Kind::Replay => Outcome::Completed,
        Some(End::Code(code)) => {
            if code > SHELL_SIGNAL_BASE {
                let signal = code - SHELL_SIGNAL_BASE;
                notes.push(format!(
                    "a shell says {code} when signal {signal} has ended its child"
                ));
            }
            Outcome::Exited { code }
        }
        Some(End::Signal(signal)) => Outcome::Killed { signal },
        None => Outcome::Failed {
            why: "it is gone, and the system does not say how it ended".to_owned(),
        },
    };
    (outcome, notes)
}

#[cfg(test)]
mod tests;
