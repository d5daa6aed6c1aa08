use super::Experiment;
use super::from_experiment::words;
use crate::journal::{Attempt, RunAttempt};
use crate::schedule::{Scheduled, Turn};
use faultline_pages::cells::{count, known, missing, table};
use faultline_pages::model::{Cell, Table};
use faultline_text::moment;

const MAX_ROWS: usize = 1000;
const NO_END: &str = "no end is written down";
const CUT_OFF: &str = "no end is written down: it runs, or was cut off";

/// With the attempt that counts, or the newest.
pub(crate) fn schedule(experiment: &Experiment) -> Table {
    let columns = [
        "Run",
        "Turn",
        "Arm",
        "Replicate",
        "Lane",
        "Begun",
        "Ended",
        "Took",
        "Attempts",
        "Outcome",
    ];
    let note = "In the order that was decided before the first run. Begun and ended: of the newest attempt, from the first step (host, \
                clearing, restoring, cooling) to the last line about it.";
    let mut listed = table("schedule", "The schedule as it happened", &columns, note);
    let all = experiment.journal_state.scheduled();
    listed.rows = all
        .take(MAX_ROWS)
        .map(|(turn, scheduled)| row(experiment, turn, scheduled))
        .collect();
    listed
}

fn row(experiment: &Experiment, turn: &Turn, scheduled: &Scheduled) -> Vec<Cell> {
    let attempts = experiment.journal_state.attempts_of(turn);
    let newest = attempts.last();
    let run_attempt = newest.and_then(|newest| newest.runs.get(&scheduled.run));
    let begun = newest.map(|newest| begun(newest, run_attempt));
    let ended = run_attempt.and_then(|run_attempt| run_attempt.ended.as_ref());
    let outcome = match (newest, ended) {
        (_, Some((ending, _))) => words(&ending.outcome, experiment.plan.workload.kind),
        (Some(_), None) => CUT_OFF.to_owned(),
        (None, _) => "not begun".to_owned(),
    };
    let not_begun = || missing("not begun");
    let no_end = || missing(NO_END);
    vec![
        known(f64::from(scheduled.run), 0),
        known(f64::from(turn.number), 0),
        Cell::Text(scheduled.arm_name("A/A")),
        known(f64::from(scheduled.replicate), 0),
        Cell::Text(scheduled.lane.clone()),
        begun.map_or_else(not_begun, |begun| Cell::Text(moment(begun))),
        ended.map_or_else(no_end, |(_, ended)| Cell::Text(moment(*ended))),
        begun.zip(ended).map_or_else(no_end, |(begun, (_, ended))| {
            Cell::Text(faultline_text::seconds(
                ended.saturating_sub(begun) as f64 / 1e9,
            ))
        }),
        count(attempts.len()),
        Cell::Text(outcome),
    ]
}

fn begun(attempt: &Attempt, run_attempt: Option<&RunAttempt>) -> i64 {
    run_attempt
        .and_then(|run_attempt| run_attempt.steps.first())
        .map_or(attempt.unix_ns, |(_, begun)| *begun)
}

/// Attempts that do not count.
pub(crate) fn attempts(experiment: &Experiment) -> Option<Table> {
    let columns = ["Run", "Attempt", "Begun", "Ended", "Why it does not count"];
    let note = "These were repeated, with all runs of their turn. An attempt without an end was cut off with its runner.";
    let mut listed = table("attempts", "Attempts that do not count", &columns, note);
    for turn in &experiment.journal_state.turns {
        for attempt in experiment.journal_state.attempts_of(turn) {
            let counts = turn
                .runs
                .iter()
                .all(|scheduled| attempt.result(scheduled.run).is_some());
            if counts {
                continue;
            }
            for scheduled in &turn.runs {
                listed.rows.extend(
                    attempt.runs.get(&scheduled.run).map(|run_attempt| {
                        attempt_row(experiment, scheduled, attempt, run_attempt)
                    }),
                );
            }
        }
    }
    listed.rows.truncate(MAX_ROWS);
    (!listed.rows.is_empty()).then_some(listed)
}

fn attempt_row(
    experiment: &Experiment,
    scheduled: &Scheduled,
    attempt: &Attempt,
    run_attempt: &RunAttempt,
) -> Vec<Cell> {
    let kind = experiment.plan.workload.kind;
    let why = match (&run_attempt.ended, &run_attempt.void_reason) {
        (Some((ending, _)), Some(why)) => {
            format!("{why}; this one {}", words(&ending.outcome, kind))
        }
        (Some((ending, _)), None) if ending.outcome.is_result() => format!(
            "another run of the turn has no result; this one {}",
            words(&ending.outcome, kind)
        ),
        (Some((ending, _)), None) => words(&ending.outcome, kind),
        (None, _) => CUT_OFF.to_owned(),
    };
    let ended = run_attempt
        .ended
        .as_ref()
        .map(|(_, ended)| Cell::Text(moment(*ended)));
    vec![
        Cell::Text(format!(
            "{} ({}, run {})",
            scheduled.run, scheduled.arm, scheduled.replicate
        )),
        known(f64::from(attempt.number), 0),
        Cell::Text(moment(begun(attempt, Some(run_attempt)))),
        ended.unwrap_or_else(|| missing(NO_END)),
        Cell::Text(why),
    ]
}
