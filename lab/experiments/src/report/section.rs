//! The chapter of a report about the experiment itself: plan, runs, schedule and attempts. A turn is
//! the runs that execute at the same time. An attempt executes a turn once.

use super::{
    CompletedRun, Experiment,
    headline::{experiment_outcome, is_ended_by_rule, is_invalid, outcome_text},
};
use crate::{
    journal::{Attempt, JournalState, RunAttempt},
    outcome::{Outcome, Validity},
    plan::{Order, Plan, WorkloadKind},
    schedule::{ScheduledRun, Turn},
};
use faultline_pages::{
    cells::{self, GIB, count, number_or, table, text_cell, text_or, without_missing_columns},
    model::{Block, Cell, Section, Table},
};
use faultline_text::{counted, duration_f64, utc};
use itertools::Itertools;

const MAX_ROWS: usize = 1000;
const NO_LIMIT: &str = "no limit in the plan";
const NOT_REPORTED: &str = "not reported by the kernel";
const NO_END: &str = "no end in the journal";
const CUT_OFF: &str = "no end in the journal: it runs, or was cut off";

pub fn section(experiment: &Experiment, completed: &[CompletedRun<'_>]) -> Section {
    let mut blocks = vec![Block::Text(describe_experiment(experiment))];
    // A search has one arm without settings, so there is no table of arms.
    if experiment.plan.memory_search.is_none() {
        blocks.push(Block::Table(arm_table(&experiment.plan, completed)));
    }
    if !completed.is_empty() {
        blocks.push(Block::Table(run_table(experiment, completed)));
    }
    blocks.push(Block::Table(schedule_table(experiment)));
    let tables = [attempt_table(experiment), note_table(completed)];
    let with_rows = tables.into_iter().filter(|table| !table.rows.is_empty());
    blocks.extend(with_rows.map(Block::Table));
    cells::section("experiment", "The experiment", blocks)
}

fn describe_experiment(experiment: &Experiment) -> String {
    let Experiment {
        plan,
        journal_state,
        ..
    } = experiment;
    let runs = journal_state.scheduled().count();
    let planned_seed = journal_state.planned.as_ref().map(|planned| planned.seed);
    let order = match plan.order {
        Order::Abba => "forwards and backwards in turn".to_owned(),
        Order::LatinSquare => "each replicate beginning with the next arm".to_owned(),
        Order::Random => {
            format!("drawn by lot with seed {}", planned_seed.unwrap_or(plan.seed))
        }
        Order::Sequential => {
            "one arm after the other, as the plan forces: a change of the host in the meantime looks like an effect of an arm".to_owned()
        }
    };
    let mut text = match (&plan.memory_search, runs) {
        (None, _) => format!(
            "The plan has {} of {}, order: {order}.",
            counted(runs as f64, "run"),
            counted(plan.arms.len() as f64, "arm")
        ),
        (Some(_), 1) => "One run was planned, which searches the least memory.".to_owned(),
        (Some(_), _) => format!(
            "{} were planned, one after the other; each searches the least memory.",
            counted(runs as f64, "run")
        ),
    };
    if let Some(arm) = plan
        .concurrent
        .and_then(|concurrent| plan.arms.get(concurrent.repeated_arm))
    {
        text += &format!(
            " The runs of a turn execute at the same time; {} runs twice in each turn.",
            arm.name
        );
    }
    if let Some(planned) = &journal_state.planned {
        text += &format!(
            " The launcher {} made the cgroups; the plan's SHA-256 is {}.",
            planned.launcher, planned.plan_digest
        );
    }
    text += &describe_host_blocks(journal_state);
    if journal_state.runner_starts > 1 {
        text += &format!(
            " The runner was started {} times.",
            journal_state.runner_starts
        );
    }
    if plan.workload.kind == WorkloadKind::Replay {
        text += " Unless this page is a single file, the folder slots next to it has the slots in the log of each run that is compared.";
    }
    text + if journal_state.finished {
        " It is finished."
    } else {
        " It is not finished."
    }
}

/// The hosts of host blocks: turns that one host executes with a journal of its own. Empty without
/// host blocks.
fn describe_host_blocks(journal_state: &JournalState) -> String {
    let attempts = journal_state.attempts.values().flatten();
    let hosts = attempts
        // Only attempts of host blocks come from another journal.
        .filter(|attempt| attempt.origin.is_some())
        .map(|attempt| &attempt.host);
    match hosts.sorted().dedup().join(", ") {
        hosts if hosts.is_empty() => hosts,
        hosts => format!(" All runs of a replicate ran on one host. The hosts: {hosts}."),
    }
}

fn gib_cell(bytes: Option<u64>, why_missing: &str) -> Cell {
    number_or(bytes.map(|bytes| bytes as f64 / GIB), 3, why_missing)
}

fn arm_table(plan: &Plan, completed: &[CompletedRun<'_>]) -> Table {
    let columns = [
        "Arm",
        "Memory limit [GiB]",
        "Cache entries",
        "Count [runs]",
        "Ran to the end [runs]",
        "OOM-killed [runs]",
        "Ended by itself [runs]",
        "Foreign signal [runs]",
        "Ended by a rule [runs]",
        "Left out [runs]",
    ];
    let note = "Each run that counts is in the column of its outcome. Left out: how many of these runs are invalid; \
                they are also in the column of their outcome. Ended by a rule: nothing executed, no new slot, or not at \
                the tip in time. An OOM kill is a result and not repeated.";
    let mut listed = table("arms", "What became of each arm", &columns, note);
    for arm in &plan.arms {
        let runs = || completed.iter().filter(|run| run.scheduled.arm == arm.name);
        let ended = |matches: fn(&Outcome) -> bool| {
            count(runs().filter(|run| matches(&run.ending.outcome)).count())
        };
        listed.rows.push(vec![
            text_cell(&arm.name),
            gib_cell(arm.memory_max.or(arm.memory_high), NO_LIMIT),
            number_or(
                arm.program_cache_entries.map(f64::from),
                0,
                "not set by the plan",
            ),
            count(runs().count()),
            ended(|outcome| *outcome == Outcome::Completed),
            ended(|outcome| *outcome == Outcome::OutOfMemory),
            ended(|outcome| matches!(outcome, Outcome::Exited { .. })),
            ended(|outcome| matches!(outcome, Outcome::Killed { .. })),
            ended(is_ended_by_rule),
            count(runs().filter(|run| is_invalid(run)).count()),
        ]);
    }
    without_missing_columns(listed)
}

fn run_table(experiment: &Experiment, completed: &[CompletedRun<'_>]) -> Table {
    let columns = [
        "Run",
        "Number",
        "Turn",
        "Attempt",
        "Lane",
        "Outcome",
        "Had its arm's settings",
        "Peak memory [GiB]",
        "Memory limit [GiB]",
        "OOM kills",
        "Page cache left [GiB]",
        "Waited for I/O [s]",
        "Evidence",
    ];
    let note = "From the files of the cgroup, read after the last process of the run had ended: memory.peak and \
                memory.events (or their equivalents of cgroup version 1), and systemd's result if systemd made the \
                cgroup. Page cache left: what was still charged to the cgroup after the end. Waited for I/O: the time in \
                which some task of the cgroup waited, by the kernel's pressure stall information. GiB is 2^30 bytes.";
    let mut listed = table("runs", "Outcome and evidence of each run", &columns, note);
    listed.rows = completed
        .iter()
        .map(|run| run_row(experiment, run))
        .collect();
    without_missing_columns(listed)
}

fn run_row(experiment: &Experiment, run: &CompletedRun<'_>) -> Vec<Cell> {
    let cgroup_state = &run.ending.cgroup_state;
    let arm = experiment.plan.arm(&run.scheduled.arm);
    let validity = match &run.ending.validity {
        Validity::Valid => "yes".to_owned(),
        Validity::Unproven(why) => format!("not proven: {why}"),
        Validity::Invalid(why) => format!("no, left out: {why}"),
    };
    let kills = cgroup_state.memory_events.get("oom_kill");
    let outcome = experiment_outcome(run.ending, arm, experiment.plan.workload.kind);
    vec![
        Cell::Text(run.name()),
        count(run.scheduled.run as usize),
        count(run.turn as usize),
        count(run.attempt as usize),
        text_cell(&run.scheduled.lane),
        Cell::Text(outcome.end_text),
        Cell::Text(validity),
        gib_cell(cgroup_state.memory_peak, NOT_REPORTED),
        gib_cell(outcome.limit, NO_LIMIT),
        number_or(kills.map(|kills| *kills as f64), 0, NOT_REPORTED),
        gib_cell(cgroup_state.file, NOT_REPORTED),
        number_or(outcome.io_stall_seconds, 1, NOT_REPORTED),
        text_or(Some(&outcome.end_evidence), "none"),
    ]
}

fn note_table(completed: &[CompletedRun<'_>]) -> Table {
    let note = "What the runner wrote about the host, cleared and restored folders, and files that were left in the page cache.";
    let mut listed = table("notes", "What the runner noted", &["Run", "Note"], note);
    for run in completed {
        listed.rows.extend(
            run.ending
                .notes
                .iter()
                .map(|note| vec![Cell::Text(run.name()), text_cell(note)]),
        );
    }
    listed
}

/// Each run with the newest attempt at its turn. If an attempt counts, it is the newest.
fn schedule_table(experiment: &Experiment) -> Table {
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
    let note = "In the order that was decided before the first run. Begun and ended: the times of the newest attempt, \
                from its first step (checking the host, clearing, restoring, dropping the page cache) to its last line in \
                the journal.";
    let mut listed = table("schedule", "The schedule as it happened", &columns, note);
    let scheduled = experiment.journal_state.scheduled();
    listed.rows = scheduled
        .map(|(turn, scheduled)| schedule_row(experiment, turn, scheduled))
        .collect();
    limit_rows(listed)
}

pub fn limit_rows(mut table: Table) -> Table {
    let count = table.rows.len();
    if count > MAX_ROWS {
        table.note += &format!(" The first {MAX_ROWS} of {count}.");
    }
    table.rows.truncate(MAX_ROWS);
    table
}

fn schedule_row(experiment: &Experiment, turn: &Turn, scheduled: &ScheduledRun) -> Vec<Cell> {
    let attempts = experiment.journal_state.attempts_of(turn);
    let newest = attempts.last();
    let run_attempt = newest.and_then(|newest| newest.runs.get(&scheduled.run));
    let begun = newest.map(|newest| begun_unix_ns(newest, run_attempt));
    let ended = run_attempt.and_then(|run_attempt| run_attempt.ended.as_ref());
    let outcome = match (newest, ended) {
        (_, Some((ending, _))) => outcome_text(&ending.outcome, experiment.plan.workload.kind),
        (Some(_), None) => CUT_OFF.to_owned(),
        (None, _) => "not begun".to_owned(),
    };
    let took = begun
        .zip(ended)
        .map(|(begun, (_, ended))| duration_f64(ended.saturating_sub(begun) as f64 / 1e9));
    vec![
        count(scheduled.run as usize),
        count(turn.number as usize),
        Cell::Text(scheduled.arm_name("A/A")),
        count(scheduled.replicate as usize),
        text_cell(&scheduled.lane),
        text_or(begun.map(utc).as_deref(), "not begun"),
        ended_cell(ended.map(|(_, ended)| *ended)),
        text_or(took.as_deref(), NO_END),
        count(attempts.len()),
        Cell::Text(outcome),
    ]
}

fn ended_cell(unix_ns: Option<i64>) -> Cell {
    text_or(unix_ns.map(utc).as_deref(), NO_END)
}

fn begun_unix_ns(attempt: &Attempt, run_attempt: Option<&RunAttempt>) -> i64 {
    run_attempt
        .and_then(|run_attempt| run_attempt.steps.first())
        .map_or(attempt.unix_ns, |(_, begun)| *begun)
}

fn attempt_table(experiment: &Experiment) -> Table {
    let columns = ["Run", "Attempt", "Begun", "Ended", "Why it does not count"];
    let note = "The runner repeats these attempts, with all runs of their turn. An attempt without an end still runs, or was cut off.";
    let mut listed = table("attempts", "Attempts that do not count", &columns, note);
    let kind = experiment.plan.workload.kind;
    for turn in &experiment.journal_state.turns {
        for attempt in experiment
            .journal_state
            .attempts_of(turn)
            .iter()
            .filter(|attempt| !attempt.is_complete(turn))
        {
            for scheduled in &turn.runs {
                if let Some(run_attempt) = attempt.runs.get(&scheduled.run) {
                    let row = attempt_row(kind, scheduled, attempt, run_attempt);
                    listed.rows.push(row);
                }
            }
        }
    }
    limit_rows(listed)
}

fn attempt_row(
    kind: WorkloadKind,
    scheduled: &ScheduledRun,
    attempt: &Attempt,
    run_attempt: &RunAttempt,
) -> Vec<Cell> {
    let ended = run_attempt.ended.as_ref();
    let mut why = CUT_OFF.to_owned();
    if let Some((ending, _)) = ended {
        why = outcome_text(&ending.outcome, kind);
        if let Some(void_reason) = &run_attempt.void_reason {
            why = format!("{void_reason}; this one {why}");
        } else if ending.outcome.is_result() {
            why = format!("another run of the turn has no result; this one {why}");
        }
    }
    vec![
        Cell::Text(format!(
            "{} ({}, replicate {})",
            scheduled.run, scheduled.arm, scheduled.replicate
        )),
        count(attempt.number as usize),
        Cell::Text(utc(begun_unix_ns(attempt, Some(run_attempt)))),
        ended_cell(ended.map(|(_, ended)| *ended)),
        Cell::Text(why),
    ]
}
