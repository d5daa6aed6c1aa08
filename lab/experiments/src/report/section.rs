use super::{
    CountedRun, Experiment,
    headline::{ended_by_rule, invalid, of_ending, words},
};
use crate::{
    journal::{Attempt, JournalState, RunAttempt},
    outcome::{Outcome, Validity},
    plan::{Kind, Order, Plan},
    schedule::{Scheduled, Turn},
};
use faultline_pages::{
    cells::{self, GIB, count, known, missing, number, table, text, without_missing},
    model::{Block, Cell, Section, Table},
};
use faultline_text::{counted, moment};
use itertools::Itertools;

const MAX_ROWS: usize = 1000;
const NO_END: &str = "no end is written down";
const CUT_OFF: &str = "no end is written down: it runs, or was cut off";

pub fn section(experiment: &Experiment, counted: &[CountedRun<'_>]) -> Section {
    let mut blocks = vec![
        Block::Text(origin(experiment)),
        Block::Table(arms(&experiment.plan, counted)),
    ];
    if experiment.plan.search.is_some() {
        // A search has one arm without settings, so there is no table of arms.
        blocks.truncate(1);
    }
    if !counted.is_empty() {
        blocks.push(Block::Table(by_run(experiment, counted)));
    }
    blocks.push(Block::Table(schedule(experiment)));
    blocks.extend(attempts(experiment).map(Block::Table));
    blocks.extend(notes(counted).map(Block::Table));
    cells::section("experiment", "The experiment", blocks)
}

fn origin(experiment: &Experiment) -> String {
    let Experiment {
        plan,
        journal_state,
        ..
    } = experiment;
    let runs = journal_state.scheduled().count();
    let order = match plan.order {
        Order::Abba => "forwards and backwards in turn".to_owned(),
        Order::LatinSquare => "each replicate beginning with the next arm".to_owned(),
        Order::Random => {
            format!("drawn by lot with seed {}", journal_state.planned.as_ref().map_or(plan.seed, |begun| begun.seed))
        }
        Order::Sequential => {
            "one arm after the other, as the plan forces: whatever changed meanwhile looks like an effect".to_owned()
        }
    };
    let mut sentences = match (&plan.search, runs) {
        (None, _) => format!(
            "The plan has {} of {}, order: {order}.",
            counted(runs as f64, "run"),
            counted(plan.arms.len() as f64, "arm")
        ),
        (Some(_), 1) => "One run was planned, which searches the least memory.".to_owned(),
        (Some(_), _) => format!(
            "{runs} runs were planned, one after the other; each searches the least memory."
        ),
    };
    if let Some(twice) = plan
        .concurrent
        .and_then(|concurrent| plan.arms.get(concurrent.twice))
    {
        sentences.push_str(&format!(
            " The runs of a turn are made at the same time; {} runs twice in each.",
            twice.name
        ));
    }
    if let Some(begun) = &journal_state.planned {
        sentences.push_str(&format!(
            " Groups were made by {}; the plan's SHA-256 is {}.",
            begun.launcher, begun.plan
        ));
    }
    sentences.push_str(&blocks(journal_state));
    if journal_state.runner_starts > 1 {
        sentences.push_str(&format!(
            " The runner was started {} times.",
            journal_state.runner_starts
        ));
    }
    if plan.workload.kind == Kind::Replay {
        sentences.push_str(
            " The folder slots next to this page has what each run's log says about every slot.",
        );
    }
    sentences.push_str(if journal_state.finished {
        " It is finished."
    } else {
        " It is not finished."
    });
    sentences
}

/// Empty without blocks.
fn blocks(journal_state: &JournalState) -> String {
    let attempts = journal_state
        .attempts
        .values()
        .flatten()
        .filter(|one| one.origin.is_some());
    match attempts.map(|one| &one.host).sorted().dedup().join(", ") {
        hosts if hosts.is_empty() => hosts,
        hosts => format!(" Each replicate ran on one host as a block: {hosts}."),
    }
}

fn arms(plan: &Plan, counted: &[CountedRun<'_>]) -> Table {
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
    let note = "Every run that counts, in one of the columns after Count, by its outcome; runs that are left out as invalid are counted \
                there as well. Ended by a rule: nothing executed, no new slot, or not at the tip in time. A OOM kill is a \
                result and not repeated.";
    let mut listed = table("arms", "What became of each arm", &columns, note);
    for arm in &plan.arms {
        let of = |which: fn(&CountedRun<'_>) -> bool| {
            let runs = counted.iter().filter(|one| one.scheduled.arm == arm.name);
            count(runs.filter(|one| which(one)).count())
        };
        listed.rows.push(vec![
            Cell::Text(arm.name.clone()),
            number(
                arm.memory_max.map(|limit| limit as f64 / GIB),
                3,
                "no limit in the plan",
            ),
            number(arm.cache_entries.map(f64::from), 0, "not set by the plan"),
            of(|_| true),
            of(|one| one.ending.outcome == Outcome::Completed),
            of(|one| one.ending.outcome == Outcome::OutOfMemory),
            of(|one| matches!(one.ending.outcome, Outcome::Exited { .. })),
            of(|one| matches!(one.ending.outcome, Outcome::Killed { .. })),
            of(|one| ended_by_rule(&one.ending.outcome)),
            of(invalid),
        ]);
    }
    without_missing(listed)
}

fn by_run(experiment: &Experiment, counted: &[CountedRun<'_>]) -> Table {
    let columns = [
        "Run",
        "Number",
        "Turn",
        "Attempt",
        "Lane",
        "Outcome",
        "As its arm says",
        "Memory at most [GiB]",
        "Memory limit [GiB]",
        "OOM kills",
        "Page cache left [GiB]",
        "Waited for I/O [s]",
        "Evidence",
    ];
    let note = "From the group's own files, read after the last process of the run had ended: memory.peak and memory.events (of cgroup \
                version 1 their like), and what systemd says where it made the group. Page cache left: what was still charged to the group \
                then. Waited for I/O: some task of the group, by the \
                kernel's pressure stall information. GiB is 2^30 bytes.";
    let mut listed = table("runs", "Outcome and evidence of each run", &columns, note);
    listed.rows = counted.iter().map(|one| run_row(experiment, one)).collect();
    without_missing(listed)
}

fn run_row(experiment: &Experiment, one: &CountedRun<'_>) -> Vec<Cell> {
    let evidence = &one.ending.evidence;
    let gib = |bytes: Option<u64>| {
        number(
            bytes.map(|bytes| bytes as f64 / GIB),
            3,
            "not reported by the kernel",
        )
    };
    let arm = experiment.plan.arm(&one.scheduled.arm);
    let limit = arm.and_then(|arm| arm.memory_max);
    let validity = match &one.ending.validity {
        Validity::Valid => "yes".to_owned(),
        Validity::Unproven(why) => format!("not proven: {why}"),
        Validity::Invalid(why) => format!("no, left out: {why}"),
    };
    let kills = evidence
        .memory_events
        .get("oom_kill")
        .map(|count| *count as f64);
    let from_experiment = of_ending(one.ending, None, experiment.plan.workload.kind);
    vec![
        Cell::Text(one.name()),
        known(f64::from(one.scheduled.run), 0),
        known(f64::from(one.turn), 0),
        known(f64::from(one.attempt), 0),
        Cell::Text(one.scheduled.lane.clone()),
        Cell::Text(words(&one.ending.outcome, experiment.plan.workload.kind)),
        Cell::Text(validity),
        gib(evidence.memory_peak),
        number(
            limit.map(|limit| limit as f64 / GIB),
            3,
            "no limit in the plan",
        ),
        number(kills, 0, "not reported by the kernel"),
        gib(evidence.file),
        number(from_experiment.io_some, 1, "not reported by the kernel"),
        text(Some(&from_experiment.evidence), "none"),
    ]
}

fn notes(counted: &[CountedRun<'_>]) -> Option<Table> {
    let note = "In the runner's words: the host, what was cleared and restored, how much of the files was left in the page cache.";
    let mut listed = table("notes", "What the runner noted", &["Run", "Note"], note);
    for one in counted {
        listed.rows.extend(
            one.ending
                .notes
                .iter()
                .map(|note| vec![Cell::Text(one.name()), Cell::Text(note.clone())]),
        );
    }
    (!listed.rows.is_empty()).then_some(listed)
}

/// With the attempt that counts, or the newest.
fn schedule(experiment: &Experiment) -> Table {
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
        .map(|(turn, scheduled)| schedule_row(experiment, turn, scheduled))
        .collect();
    listed
}

fn schedule_row(experiment: &Experiment, turn: &Turn, scheduled: &Scheduled) -> Vec<Cell> {
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
fn attempts(experiment: &Experiment) -> Option<Table> {
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
