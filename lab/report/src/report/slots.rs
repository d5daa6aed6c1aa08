//! The time to replay a slot, and the distance to the tip.

use super::{
    cells::{estimate_or, row, table, text_cell},
    measured_run::{ESTIMATED_METRICS, MeasuredRun, MeasuredRuns},
    model::{Block, Section},
    section_builder::{NumberColumn, SectionBuilder},
    timeline::{line_of_points, line_of_signal},
};
use crate::{measure::replay_points, run::Signal};
use faultline_stats::{Estimate, caveat::reliability_text, summary};
use itertools::izip;

const REPLAY: &[NumberColumn] = &[
    ("Median [ms]", 1, |_, numbers| numbers.replay_quantile(0.5)),
    ("p95 [ms]", 1, |_, numbers| numbers.replay_quantile(0.95)),
    ("p99 [ms]", 1, |_, numbers| numbers.replay_quantile(0.99)),
    ("Max [ms]", 1, |_, numbers| numbers.replay_quantile(1.0)),
    ("Mean [ms]", 2, |_, numbers| {
        summary::summary(&numbers.replay_ms).mean
    }),
    ("Slots replayed", 0, |_, numbers| {
        Some(numbers.replay_ms.len() as f64)
    }),
    ("Own slots left out", 0, |_, numbers| {
        Some(numbers.own_slots as f64)
    }),
];

const BEHIND: &[NumberColumn] = &[
    ("Median [slots]", 0, |_, numbers| {
        summary::quantile(&numbers.slots_behind, 0.5)
    }),
    ("p95 [slots]", 0, |_, numbers| {
        summary::quantile_if_enough(&numbers.slots_behind, 0.95)
    }),
    ("Max [slots]", 0, |_, numbers| {
        summary::quantile(&numbers.slots_behind, 1.0)
    }),
    ("Known at [samples]", 0, |_, numbers| {
        Some(numbers.slots_behind.iter().flatten().count() as f64)
    }),
];

pub fn section(runs: &MeasuredRuns) -> Section {
    let mut section = SectionBuilder::new(runs, MeasuredRun::why_no_quantile);
    let note = "replay_total_elapsed of replay-slot-stats, from the bank's creation to its completion, waiting included. In an offline \
                replay: from the freezing of the previous bank to that of this one. A slot that is replayed again is another sample. \
                Slots that the node produced itself are left out: their datapoints have no transactions, entries, shreds or times. A \
                p95 needs 20 slots and a p99 needs 100, so that at least one slot is above it.";
    section.add_tables_with_tip("replay", "Replay time per slot", note, REPLAY);
    section.add([confidence_intervals(runs)]);
    section.add(unreliable_confidence_intervals(runs));
    section.missing_reason = |_| "the distance to the tip was known at too few samples";
    let note = "Slots between the tip of the cluster and this validator, at each sample for which both are known.";
    section.add_table("behind", "Slots behind the tip", note, BEHIND);
    add_figures(&mut section);
    section.build("slots", "Replay and the distance to the tip")
}

fn add_figures(section: &mut SectionBuilder<'_>) {
    let caption =
        "At each sample for which the distance is known. The start shows the catching up.";
    section.add_timeline(
        "behind-over-time",
        "Slots behind the tip over time",
        caption,
        ("Slots behind the tip", ""),
        |run| vec![line_of_signal(run, "", Signal::Behind)],
    );
    let caption = "Each replayed slot, at the time of its datapoint. A long run is divided into parts, and \
                    the smallest and the largest value of each part are drawn.";
    section.add_timeline(
        "replay-over-time",
        "Replay time per slot over time",
        caption,
        ("Replay time (ms)", "ms"),
        |run| {
            let times = replay_points(&run.recording, run.whole_run.window).map(|point| {
                let ms = point.replay_total_elapsed_us.map(|us| us as f64 / 1e3);
                (run.recording.at(point.time_unix_ns), ms)
            });
            vec![line_of_points(run, times)]
        },
    );
    let caption = "From the first executed transaction on. The classes end at the 99.5 % quantile of all runs.";
    section.add_histogram(
        "replay-histogram",
        "How often each replay time occurred",
        caption,
        ("Replay time (ms)", "Slots", 0.995),
        |run| run.since_first_transaction.replay_ms.clone(),
    );
}

fn unreliable_confidence_intervals(runs: &MeasuredRuns) -> Option<Block> {
    let note = "About the table above. Independent values: how many there effectively are, because neighboring values are alike.";
    let mut table = table(
        "within-run-limits",
        "Which of these confidence intervals cannot be fully trusted",
        &["Run", "What", "Why"],
        note,
    );
    for run in &runs.all {
        let rows = run.unreliable_estimates().map(|(metric, reliability)| {
            row(
                &run.name,
                [metric, &reliability_text(reliability)].map(text_cell),
            )
        });
        table.rows.extend(rows);
    }
    (!table.rows.is_empty()).then_some(Block::Table(table))
}

fn confidence_intervals(runs: &MeasuredRuns) -> Block {
    let [replay, tps, misses, time] = ESTIMATED_METRICS;
    let note = "95 % intervals by block bootstrap, for a longer run under the same conditions. They do not include how runs differ, so \
                they compare no arms. TPS, misses and cache time cannot be negative. If the bootstrap's interval would reach below 0, \
                Wilson's score replaces it: the standard error is proportional to the root of the mean, so both ends are higher. If an \
                interval covers too little, a further table says why.";
    let mut table = table(
        "within-run",
        "How sure each run is of its own numbers",
        &[
            ("Run", ""),
            (replay, "ms"),
            (tps, "/s"),
            (misses, ""),
            (time, "µs"),
        ],
        note,
    );
    for run in &runs.all {
        let no_points = run.why_no_datapoints();
        let reasons = [run.why_no_quantile(), no_points, no_points, no_points];
        let cells =
            izip!(&run.estimates, [1, 1, 4, 1], reasons).map(|(estimate, decimals, reason)| {
                estimate_or(
                    estimate.as_ref().map(Estimate::value_and_ends),
                    decimals,
                    reason,
                )
            });
        table.rows.push(row(&run.name, cells));
    }
    Block::Table(table)
}
