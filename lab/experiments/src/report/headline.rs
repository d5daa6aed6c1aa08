//! Sentences about the outcomes of runs. They must also be true if no run has begun, if none was
//! killed, and if the experiment is not finished. A run counts if all runs of the newest attempt at
//! its turn have results. An invalid run did not have the settings of its arm.

use super::{CompletedRun, Experiment};
use crate::{
    outcome::{Ending, Outcome, Validity},
    plan::{Arm, WorkloadKind},
};
use faultline_report::run::ExperimentOutcome;
use faultline_runner::isolation::{CgroupState, End};
use faultline_text::{count, counted};
use itertools::{Itertools, chain};

const MAX_NAMED: usize = 12;

pub struct ArmTally<'e> {
    pub arm: &'e str,
    pub planned: usize,
    pub begun: bool,
    /// Outcomes of the runs that count and are valid. Only these are compared.
    pub outcomes: Vec<&'e Outcome>,
    /// Runs that count but are invalid.
    pub invalid: usize,
}

pub fn tallies<'e>(
    experiment: &'e Experiment,
    completed: &[CompletedRun<'e>],
) -> Vec<ArmTally<'e>> {
    let journal_state = &experiment.journal_state;
    let tally = |arm| {
        let scheduled = || journal_state.scheduled().filter(|(_, run)| run.arm == arm);
        let runs = || completed.iter().filter(|run| run.scheduled.arm == arm);
        let compared = runs().filter(|run| !is_invalid(run));
        ArmTally {
            arm,
            planned: scheduled().count(),
            begun: scheduled().any(|(turn, run)| {
                journal_state
                    .attempts_of(turn)
                    .iter()
                    .any(|attempt| attempt.runs.contains_key(&run.run))
            }),
            outcomes: compared.map(|run| &run.ending.outcome).collect(),
            invalid: runs().filter(|run| is_invalid(run)).count(),
        }
    };
    experiment
        .plan
        .arms
        .iter()
        .map(|arm| tally(&arm.name))
        .collect()
}

pub fn is_invalid(run: &CompletedRun<'_>) -> bool {
    matches!(run.ending.validity, Validity::Invalid(_))
}

/// `None` if the experiment is finished.
pub fn unfinished_count(tallies: &[ArmTally<'_>]) -> Option<String> {
    let planned = tallies.iter().map(|tally| tally.planned).sum();
    let counted = tallies.iter().map(ArmTally::counted).sum();
    (counted < planned).then(|| format!("{} count so far", of_runs_text(counted, planned)))
}

/// How many runs of each arm ended early, and by what. `None` if none did.
pub fn early_end_sentences(tallies: &[ArmTally<'_>], kind: WorkloadKind) -> Option<String> {
    let arms_sentence = |label: &str, matches: fn(&Outcome) -> bool| {
        let arms = arms_with(tallies, |tally| {
            let outcomes = tally.outcomes.iter();
            let count = outcomes.filter(|outcome| matches(outcome)).count();
            (count, tally.outcomes.len())
        });
        sentence(label, &arms)
    };
    let early = [
        arms_sentence("OOM-killed", |outcome| *outcome == Outcome::OutOfMemory),
        arms_sentence("Ended by itself", |outcome| {
            matches!(outcome, Outcome::Exited { .. })
        }),
        arms_sentence("Ended by a rule of the plan", is_ended_by_rule),
        arms_sentence("Ended by a foreign signal", |outcome| {
            matches!(outcome, Outcome::Killed { .. })
        }),
    ];
    if early.iter().all(Option::is_none) {
        return None;
    }
    let (done, did) = match kind {
        WorkloadKind::Replay => ("Did all of its work", "did all of its work"),
        WorkloadKind::Validator => ("Ran its whole time", "ran its whole time"),
    };
    let completed_sentence = arms_sentence(done, |outcome| *outcome == Outcome::Completed);
    let invalid_runs = arms_with(tallies, |tally| (tally.invalid, tally.counted()));
    let is_complete = unfinished_count(tallies).is_none() && invalid_runs.is_empty();
    let no_success =
        (completed_sentence.is_none() && is_complete).then(|| format!("No run {did}."));
    let without_runs = tallies
        .iter()
        .filter(|tally| tally.counted() == 0)
        .map(|tally| tally.arm.to_owned())
        .collect_vec();
    let rest = [
        completed_sentence,
        no_success,
        sentence("Left out as invalid", &invalid_runs),
        sentence("Without a run that counts", &without_runs),
    ];
    Some(chain!(early, rest).flatten().join(" "))
}

/// Names each arm with its `runs`, a part of all, unless the part is 0.
fn arms_with(
    tallies: &[ArmTally<'_>],
    runs: impl Fn(&ArmTally<'_>) -> (usize, usize),
) -> Vec<String> {
    let arms = tallies.iter().filter_map(|tally| {
        let (part, all) = runs(tally);
        (part > 0).then(|| format!("{} ({})", tally.arm, of_runs_text(part, all)))
    });
    arms.collect()
}

fn sentence(label: &str, arms: &[String]) -> Option<String> {
    (!arms.is_empty()).then(|| format!("{label}: {}.", join_first(arms, ", ", MAX_NAMED)))
}

/// `a; b and 2 more`.
pub fn join_first(items: &[String], separator: &str, max: usize) -> String {
    let named = items.iter().take(max).join(separator);
    match items.len().saturating_sub(max) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Whether a rule of the plan's `[stop]` ended a run.
pub fn is_ended_by_rule(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::NeverExecuted | Outcome::NoProgress | Outcome::NotAtTip
    )
}

/// For an arm without a run to compare, or whose compared runs all ended early.
pub fn no_completed_run_sentence(tally: &ArmTally<'_>, kind: WorkloadKind) -> Option<String> {
    let arm = tally.arm;
    if tally.outcomes.is_empty() {
        return Some(match (tally.invalid, tally.begun) {
            (0, false) => format!("{arm} has not been run yet."),
            (0, true) => format!("{arm} has no run that counts yet."),
            (invalid, _) => {
                format!(
                    "{arm} is not compared: {} left out as invalid.",
                    runs_text(invalid)
                )
            }
        });
    }
    if tally.outcomes.contains(&&Outcome::Completed) {
        return None;
    }
    let outcomes = tally.outcomes.iter();
    let mut ends = outcomes.map(|outcome| outcome_text(outcome, kind)).unique();
    let success = if kind == WorkloadKind::Replay {
        "do all of its work"
    } else {
        "run its whole time"
    };
    let in_any = match tally.outcomes.len() {
        1 => String::new(),
        count => format!(" in any of its {}", runs_text(count)),
    };
    Some(format!(
        "{arm} did not {success}{in_any}: {}.",
        ends.join("; ")
    ))
}

impl ArmTally<'_> {
    pub fn counted(&self) -> usize {
        self.outcomes.len() + self.invalid
    }
}

fn runs_text(count: usize) -> String {
    counted(count as f64, "run")
}

fn of_runs_text(part: usize, all: usize) -> String {
    format!("{} of {}", count(part as u64), runs_text(all))
}

/// Returns the outcome by the journal. The report prefers it to what the recording shows.
pub fn experiment_outcome(
    ending: &Ending,
    arm: Option<&Arm>,
    kind: WorkloadKind,
) -> ExperimentOutcome {
    let why = verdict_reason(&ending.outcome, kind);
    ExperimentOutcome {
        is_offline_replay: kind == WorkloadKind::Replay,
        success: (!why.is_empty()).then_some(ending.outcome == Outcome::Completed),
        success_reason: why,
        end_text: outcome_text(&ending.outcome, kind),
        end_evidence: cgroup_state_text(&ending.cgroup_state),
        stopped_unix_ns: ending.stopped_unix_ns,
        was_oom_killed: ending.outcome == Outcome::OutOfMemory,
        limit: arm.and_then(|arm| arm.memory_max.or(arm.memory_high)),
        io_stall_seconds: ending
            .cgroup_state
            .pressure
            .get("io")
            .map(|io| io.some_us as f64 / 1e6),
    }
}

/// Why the run succeeded or failed, as far as the journal knows. Empty if it does not decide.
fn verdict_reason(outcome: &Outcome, kind: WorkloadKind) -> String {
    let why = match outcome {
        Outcome::Completed if kind == WorkloadKind::Replay => "all of its work was done",
        Outcome::OutOfMemory => "it was killed by the kernel's OOM killer",
        Outcome::Exited { code } => {
            return format!("it ended by itself with code {code} before its time");
        }
        Outcome::NeverExecuted => "it executed nothing within the time the plan gives",
        Outcome::NoProgress => "it had no new slot for as long as the plan waits",
        Outcome::NotAtTip => "it was not at the tip within the time the plan gives",
        // The recording decides about a completed validator run. A signal that the runner did not
        // send proves nothing about the arm.
        Outcome::Completed
        | Outcome::Killed { .. }
        | Outcome::Failed { .. }
        | Outcome::Interrupted { .. } => "",
    };
    why.to_owned()
}

pub fn outcome_text(outcome: &Outcome, kind: WorkloadKind) -> String {
    match outcome {
        Outcome::Completed if kind == WorkloadKind::Replay => "all of its work was done".to_owned(),
        Outcome::Completed => "ran its whole time".to_owned(),
        Outcome::OutOfMemory => "killed by the kernel's OOM killer".to_owned(),
        Outcome::Exited { code } => format!("ended by itself with code {code}"),
        Outcome::Killed { signal } => {
            format!("ended by signal {signal}, which the runner did not send")
        }
        Outcome::NeverExecuted => "ended by the plan: nothing was executed in time".to_owned(),
        Outcome::NoProgress => "ended by the plan: no new slot for too long".to_owned(),
        Outcome::NotAtTip => "ended by the plan: not at the tip in time".to_owned(),
        Outcome::Failed { why } => format!("failed: {why}"),
        Outcome::Interrupted { why } => format!("interrupted: {why}"),
    }
}

fn cgroup_state_text(cgroup_state: &CgroupState) -> String {
    let end = cgroup_state.end.map(|end| match end {
        End::Code(code) => format!("exit code {code}"),
        End::Signal(signal) => format!("signal {signal}"),
    });
    let result = cgroup_state.result.as_ref();
    let events = cgroup_state.memory_events.iter();
    chain!(
        end,
        result.map(|result| format!("systemd says {result}")),
        events.map(|(name, count)| format!("{name} {count}"))
    )
    .join(", ")
}

#[cfg(test)]
mod tests;
