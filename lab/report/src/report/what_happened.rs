use super::{
    cells::{self, count, gib, missing, number_cell, number_or, row, table, text_cell, text_or},
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Block, Cell, Section, Table},
    timeline::AFTER_THE_END,
};
use crate::{
    measure::{PhaseSpan, Span, rss, signal_rates},
    run::Signal,
};
use faultline_phase::phase_name;
use faultline_stats::summary::summary;
use faultline_text::{duration_f64, number, utc};
use itertools::chain;

/// In each table of stalls, events and gaps.
const MAX_ROWS_PER_RUN: usize = 200;

/// In the table of phases.
const MAX_PHASES: usize = 100;

pub fn section(runs: &MeasuredRuns) -> Section {
    let sentences = runs
        .single_run()
        .map(|run| Block::Text(lifecycle_sentences(run)));
    let phases = (!runs.has_no_validator()).then(|| phase_table(runs));
    let tables = [stall_table(runs), event_table(runs), gap_table(runs)]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .map(Block::Table);
    let blocks = chain!(sentences, [outcome_table(runs)], phases, tables);
    cells::section("what-happened", "What happened", blocks.collect())
}

pub fn lifecycle_sentences(run: &MeasuredRun) -> String {
    let lifecycle = &run.lifecycle;
    let mut sentences = match run.recording.processes.as_slice() {
        [] => "No process was followed.".to_owned(),
        [process] => format!(
            "Process {} was found {}.",
            process.pid,
            after_first_sample(process.first_seen_at)
        ),
        [first, rest @ ..] => {
            let others = match rest.len() {
                1 => "another one".to_owned(),
                n => format!("{} others", number(n as f64, 0)),
            };
            let (pid, after) = (first.pid, after_first_sample(first.first_seen_at));
            format!("Process {pid} was found {after}, and {others} after it.")
        }
    };
    if !lifecycle.has_validator && !run.recording.processes.is_empty() {
        return sentences + &without_validator(run);
    }
    if run.recording.is_offline_replay() {
        return sentences
            + &outcome_sentence(run, "did all of its work", "did not do all of its work");
    }
    sentences += &match run.execution_window {
        Some(window) => format!(
            " It first executed a transaction {}.",
            after_first_sample(window.from)
        ),
        None => " No executed transaction was recorded.".to_owned(),
    };
    sentences += &match (lifecycle.first_at_tip, run.catch_up()) {
        (Some(at), Some(catch_up)) => {
            format!(
                " It caught up {} after its first transaction, and first counted as at the tip {}.",
                duration_f64(catch_up),
                after_first_sample(at)
            )
        }
        (Some(at), None) => format!(" It was first at the tip {}.", after_first_sample(at)),
        (None, _) => " It was never seen at the tip.".to_owned(),
    };
    sentences + &outcome_sentence(run, "kept up", "did not keep up")
}

fn outcome_sentence(run: &MeasuredRun, did: &str, did_not: &str) -> String {
    let success = &run.lifecycle.success;
    let verdict = match success.passed {
        Some(true) => format!("It {did}"),
        Some(false) => format!("It {did_not}"),
        None => format!("Whether it {did} is not known"),
    };
    format!(" {verdict}: {}. {}", success.why, end_sentence(run))
}

fn without_validator(run: &MeasuredRun) -> String {
    let problems = run.recording.target_problems.join("; ");
    let reported = match problems.as_str() {
        "" => String::new(),
        problems => format!(" The recorder reported: {problems}."),
    };
    let end = end_sentence(run);
    format!(" Nothing of a validator was seen.{reported} {end}")
}

fn end_sentence(run: &MeasuredRun) -> String {
    let lifecycle = &run.lifecycle;
    let mut sentences = format!(
        "In the end, after {}: {}.",
        duration_f64(lifecycle.last_process_end.unwrap_or(lifecycle.run_end)),
        lifecycle.end.how
    );
    let after_end = run.recording.end_seconds() - lifecycle.run_end;
    let interval = run
        .recording
        .sessions
        .last()
        .filter(|session| session.interval_seconds > 0.0)
        .map_or(1.0, |session| session.interval_seconds);
    if lifecycle.last_process_end.is_some() && after_end > 2.0 * interval {
        sentences += &format!(
            " The recording continued for {}; that time is drawn but not counted.",
            duration_f64(after_end)
        );
    }
    sentences
}

fn after_first_sample(seconds: f64) -> String {
    if seconds <= 0.0 {
        "at the first sample".to_owned()
    } else {
        format!("{} after the first sample", duration_f64(seconds))
    }
}

/// Columns that only a validator has: from the first transaction to the share of time at the tip.
const VALIDATOR_COLUMNS: std::ops::Range<usize> = 4..8;

fn outcome_table(runs: &MeasuredRuns) -> Block {
    let has_no_validator = runs.has_no_validator();
    let note = if has_no_validator {
        "Times count from the first sample. Ended after: when the last process was gone. What was recorded later is drawn, \
             but not counted. Gaps: time between samples more than 2.5 intervals apart, or between two sessions of the daemon."
    } else {
        "Times count from the first sample. Ended after: when the last process was gone. The run ends with it: what was \
             recorded later is drawn, but not counted. First transaction: the first second with a transaction in cost_tracker_stats (or \
             replay-slot-stats). Catch-up time: from the first transaction until the distance to the tip was small and stayed so. \
             The phase “at tip” begins once the distance has stayed small for phase.at_tip_for (by default a minute). At the tip: the \
             share of the recorded time, from the first sample at the tip on, in which the validator was at the tip; the time of restarts counts. \
             Kept up: this share is at least 99 %, and the validator was not OOM-killed; not known if time without data could change the \
             answer. A run with more than two hours in the phase “catching up” that was never at the tip did not keep up. In an experiment, its \
             own answer replaces this rule. Gaps: time between samples more than 2.5 intervals apart, or between two sessions of \
             the daemon."
    };
    let mut outcome = table(
        "outcome",
        "What became of each run",
        &[
            "Run",
            "Begun",
            "Recorded for [s]",
            "Ended after [s]",
            "First transaction after [s]",
            "Catch-up time [s]",
            "Kept up",
            "At the tip [%]",
            "Restarts",
            "Gaps [s]",
            "End",
            "Evidence",
        ],
        note,
    );
    outcome.rows = runs.all.iter().map(outcome_row).collect();
    if has_no_validator {
        outcome.columns.drain(VALIDATOR_COLUMNS);
        for row in &mut outcome.rows {
            row.drain(VALIDATOR_COLUMNS);
        }
    }
    Block::Table(outcome)
}

fn outcome_row(run: &MeasuredRun) -> Vec<Cell> {
    let lifecycle = &run.lifecycle;
    let success = match lifecycle.success.passed {
        Some(true) => text_cell("yes"),
        Some(false) => Cell::Text(format!("no: {}", lifecycle.success.why)),
        None => missing(&lifecycle.success.why),
    };
    let first_transaction = run.execution_window.map(|window| window.from.max(0.0));
    let tip_share = lifecycle.success.tip_share.map(|share| 100.0 * share);
    let gaps = lifecycle
        .gaps_before_run_end()
        .map(|gap| gap.seconds())
        .sum();
    let cells = [
        text_or(run.begun().as_deref(), "nothing was recorded"),
        number_cell(run.recording.end_seconds(), 0),
        number_or(lifecycle.last_process_end, 0, "no end was recorded"),
        number_or(first_transaction, 0, "no transaction was recorded"),
        number_or(
            run.catch_up(),
            0,
            "no executed transaction, or never at the tip",
        ),
        success,
        number_or(tip_share, 2, "never at the tip"),
        count(lifecycle.restarts),
        number_cell(gaps, 0),
        text_cell(&lifecycle.end.how),
        text_or(Some(&lifecycle.end.evidence), "no event recorded"),
    ];
    row(&run.name, cells)
}

fn phase_table(runs: &MeasuredRuns) -> Block {
    let mut phases = table(
        "phases",
        "Phases",
        &[
            "Run",
            "Phase",
            "From [s]",
            "To [s]",
            "Duration [s]",
            "Share [%]",
            "TPS [/s]",
            "RSS mean [GiB]",
            "RSS max [GiB]",
            "Major faults [/s]",
            "Minor faults [/s]",
        ],
        "In order, by the same rules as in the daemon. A phase ends where the next phase or a gap begins. Time counts as \
         behind, too, if the slot did not advance for 15 s while the tip did. Unknown is time without evidence. Share: of the \
         time from the first sample to the end of the run. TPS: transactions divided by the known seconds that begin in the \
         phase; those of a process count from its first transaction on. Faults: their number divided by the recorded seconds. GiB is 2^30 bytes.",
    );
    for run in &runs.all {
        let lifecycle = &run.lifecycle;
        let is_listed = |phase: &&PhaseSpan| {
            phase.span.seconds() > 0.0
                || lifecycle
                    .last_process_end
                    .is_none_or(|ended| phase.span.to < ended)
        };
        let listed = lifecycle.phases.iter().filter(is_listed);
        let rss = rss(&run.recording);
        add_rows(&mut phases, run, MAX_PHASES, listed, |phase| {
            phase_cells(run, &rss, phase)
        });
    }
    Block::Table(phases)
}

/// A row for each item, up to `max_rows`. The note says how many are left out.
fn add_rows<T, C: IntoIterator<Item = Cell>>(
    table: &mut Table,
    run: &MeasuredRun,
    max_rows: usize,
    mut items: impl Iterator<Item = T>,
    cells: impl Fn(T) -> C,
) {
    let shown = items.by_ref().take(max_rows);
    table
        .rows
        .extend(shown.map(|item| row(&run.name, cells(item))));
    let left_out = items.count();
    if left_out > 0 {
        let more = number(left_out as f64, 0);
        table.note += &format!(" {}: {more} more are left out.", run.name);
    }
}

fn phase_cells(run: &MeasuredRun, rss: &[Option<f64>], phase: &PhaseSpan) -> [Cell; 10] {
    let lifecycle = &run.lifecycle;
    let span = phase.span;
    let is_after_end = lifecycle
        .last_process_end
        .is_some_and(|ended| span.from >= ended);
    let rss = summary(rss.get(phase.ticks.clone()).unwrap_or_default());
    let faults = |signal| signal_rates(&run.recording, signal, span).mean();
    // The next phase begins at the end of the span, so this end is left out.
    let to = span.to.next_down();
    let tps = summary(&run.tps.counts(Span { to, ..span }));
    let why = run.why_no_samples();
    let name = if is_after_end {
        AFTER_THE_END.to_owned()
    } else {
        phase.name.replace('_', " ")
    };
    let share_of_run =
        (lifecycle.run_end > 0.0).then(|| 100.0 * span.seconds() / lifecycle.run_end);
    let [from, to, length] = span_cells(span);
    [
        Cell::Text(name),
        from,
        to,
        length,
        if is_after_end {
            missing("this time is no part of the run")
        } else {
            number_or(share_of_run, 1, "the run has only one sample")
        },
        number_or(
            tps.mean,
            1,
            "no transaction was executed yet, or there is no data",
        ),
        number_or(rss.mean.map(gib), 3, why),
        number_or(rss.max.map(gib), 3, why),
        number_or(faults(Signal::MajorFaults), 3, why),
        number_or(faults(Signal::MinorFaults), 1, why),
    ]
}

fn stall_table(runs: &MeasuredRuns) -> Table {
    let mut stalls = table(
        "stalls",
        "Stalls at the tip",
        &[
            "Run",
            "From [s]",
            "To [s]",
            "Duration [s]",
            "Began [UTC]",
            "Counts as",
        ],
        "Periods of at least 15 s at the tip without a new slot: neither as the processed slot of a sample, nor as a bank in the \
         validator's datapoints. A period lasts from the last slot before it to the first slot after it, or to the end of the \
         process. Behind: the tip advanced meanwhile, and the validator counts as behind until it is near the tip again. Unknown: \
         no evidence.",
    );
    for run in &runs.all {
        let all = run.lifecycle.stalls.iter();
        add_rows(&mut stalls, run, MAX_ROWS_PER_RUN, all, |stall| {
            let began = utc(run.recording.steady_unix_ns(stall.span.from));
            let phase = text_cell(phase_name(stall.phase));
            chain!(span_cells(stall.span), [Cell::Text(began), phase])
        });
    }
    stalls
}

fn span_cells(span: Span) -> [Cell; 3] {
    [span.from, span.to, span.seconds()].map(|seconds| number_cell(seconds, 1))
}

fn event_table(runs: &MeasuredRuns) -> Table {
    let mut events = table(
        "events",
        "Events",
        &["Run", "At [s]", "Event", "Detail"],
        "Changes of phase are in the table of phases.",
    );
    for run in &runs.all {
        let listed = run.recording.events.iter();
        let listed = listed.filter(|event| event.kind != "phase");
        add_rows(&mut events, run, MAX_ROWS_PER_RUN, listed, |event| {
            [
                number_cell(event.at, 1),
                Cell::Text(event.kind.replace('_', " ")),
                Cell::Text(event.sentence()),
            ]
        });
    }
    events
}

fn gap_table(runs: &MeasuredRuns) -> Table {
    let mut gaps = table(
        "gaps",
        "Gaps",
        &["Run", "From [s]", "To [s]", "Duration [s]"],
        "Nothing was recorded in this time. No rate and no value is computed for it.",
    );
    for run in &runs.all {
        let all = run.lifecycle.gaps.iter().copied();
        add_rows(&mut gaps, run, MAX_ROWS_PER_RUN, all, span_cells);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Run, Tick};
    use faultline_stats::block_bootstrap::IntervalPlan;

    #[test]
    fn the_note_counts_gaps_that_the_table_leaves_out() {
        let recording = Run {
            ticks: (0..=MAX_ROWS_PER_RUN + 3)
                .map(|index| Tick {
                    at: 10.0 * index as f64,
                    ..Tick::default()
                })
                .collect(),
            ..Run::default()
        };
        let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
        let gaps = gap_table(&runs);
        assert_eq!(gaps.rows.len(), MAX_ROWS_PER_RUN);
        assert!(
            gaps.note.ends_with(": 3 more are left out."),
            "{}",
            gaps.note
        );
    }
}
