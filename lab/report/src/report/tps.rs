//! Transactions per second: Figures 3 and 4 of the study, see `docs/PAPER.md`.

use super::{
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Block, Section},
    section_builder::{NumberColumn, SectionBuilder, averaging_caption},
    timeline::line_of_points,
};
use crate::measure::Second;
use faultline_stats::smooth::moving_average;
use itertools::Itertools;

/// Minimum width of the moving average if no run is short: about the time between two pushes of
/// datapoints.
const MIN_WINDOW_SECONDS: usize = 10;

/// If runs are long, this many windows of the moving average cover the longest one.
const WINDOWS_PER_LONGEST_RUN: usize = 720;

macro_rules! tps {
    ($title:literal, $decimals:literal, $seconds:ident, $statistic:ident) => {
        ($title, $decimals, |_, numbers| {
            numbers.tps.$seconds.map(|tps| tps.$statistic)
        })
    };
}

const TPS: &[NumberColumn] = &[
    tps!(
        "Avg TPS (3x rule) [/s]",
        2,
        over_known_seconds,
        mean_without_peaks
    ),
    tps!("Avg TPS (all) [/s]", 2, over_known_seconds, mean_with_peaks),
    tps!(
        "Avg TPS (3x rule, zeros left out) [/s]",
        2,
        over_active_seconds,
        mean_without_peaks
    ),
    ("0 TPS time [s]", 0, |_, numbers| {
        numbers.tps.zero_seconds.map(|zero| zero as f64)
    }),
    ("Unknown [s]", 0, |_, numbers| {
        numbers.tps.unknown_seconds.map(|unknown| unknown as f64)
    }),
    tps!("Max TPS [/s]", 0, over_known_seconds, max),
    ("Left out by the 3x rule [s]", 0, |_, numbers| {
        numbers.tps.over_known_seconds.map(|tps| tps.peaks as f64)
    }),
    ("Seconds known [s]", 0, |_, numbers| {
        Some(numbers.tps.known_seconds as f64)
    }),
];

const STUDY_TPS: &[NumberColumn] = &[
    tps!(
        "Avg (3x rule) [/s]",
        2,
        per_thread_second,
        mean_without_peaks
    ),
    tps!("Avg (all) [/s]", 2, per_thread_second, mean_with_peaks),
    tps!("Max [/s]", 2, per_thread_second, max),
    ("Slots", 0, |_, numbers| {
        numbers
            .tps
            .per_thread_second
            .map(|tps| (tps.non_peaks + tps.peaks) as f64)
    }),
    tps!(
        "Avg TPS of the table above (all) [/s]",
        2,
        over_known_seconds,
        mean_with_peaks
    ),
];

pub fn section(runs: &MeasuredRuns) -> Section {
    let mut section = SectionBuilder::new(runs, why_missing);
    section.add(runs_without_costs(runs));
    let note = "A sample is one second of the validator's own clock: the transactions of all banks that were frozen in this second \
                (transaction_count of cost_tracker_stats), on every fork, with votes, failed and own transactions. If a slot is \
                replayed again with another block, only the transactions beyond those already counted for the slot are added. 3x rule: \
                samples above three times the average of all samples are left out of the average, once, but not of the \
                maximum. 0 TPS time: seconds that pushes or the log cover, without an executed transaction. Unknown: other \
                seconds without one (in older recordings, without a datapoint); they are in no average. Up to 14 s after the last \
                datapoint may be in no column: the next push was not yet due.";
    section.add_tables_with_tip("tps", "Transactions per second", note, TPS);
    let note = "What the study's scripts compute: total_transactions divided by execute_us of a replay-slot-stats point, one \
                sample per slot. execute_us is summed over threads, so this is transactions per second of one thread's time: it rises \
                when slots are executed by fewer threads and says nothing of idle time. Not to be used as throughput.";
    section.add_table("tps-study", "TPS as the study defines it", note, STUDY_TPS);
    let caption = "Seconds by their number of transactions, from the first executed transaction on. The classes end at the 99.9 % quantile of all \
                   runs; seconds above are counted as above and not drawn. Unknown seconds are in no class.";
    section.add_histogram(
        "tps-distribution",
        "How often each TPS occurred",
        caption,
        ("TPS (/s)", "Seconds", 0.999),
        |run| run.tps.counts(run.since_first_transaction.window),
    );
    add_figure_over_time(&mut section);
    section.build("tps", "Transactions per second")
}

fn why_missing(run: &MeasuredRun) -> &'static str {
    if !run.tps.seconds.is_empty() && !run.tps.distinguishes_zeros {
        return "not recorded, or zero cannot be distinguished from unknown";
    }
    run.why_no_datapoints()
}

fn runs_without_costs(runs: &MeasuredRuns) -> Option<Block> {
    let without_costs =
        |run: &&MeasuredRun| run.recording.points.costs.is_empty() && !run.tps.seconds.is_empty();
    let names = runs
        .all
        .iter()
        .filter(without_costs)
        .map(|run| &run.name)
        .join(", ");
    (!names.is_empty()).then(|| Block::Text(format!(
        "{names}: no cost_tracker_stats was recorded, so transactions are those of replay-slot-stats, without own slots."
    )))
}

/// `size` is in seconds. No average crosses the pause of a restart, so none mixes two processes.
fn moving_averages(seconds: &[Second], size: usize) -> impl Iterator<Item = (f64, Option<f64>)> {
    seconds
        .chunk_by(|before, after| after.at - before.at < 1.5)
        .flat_map(move |contiguous| {
            let counts = contiguous.iter().map(Second::transactions_f64);
            let averages = moving_average(&counts.collect_vec(), size);
            contiguous.iter().map(|second| second.at).zip(averages)
        })
}

fn add_figure_over_time(section: &mut SectionBuilder<'_>) {
    let count_seconds = |run: &MeasuredRun| run.tps.seconds.len();
    let longest = section.runs.all.iter().map(count_seconds).max();
    let max_size = (longest.unwrap_or(0) / WINDOWS_PER_LONGEST_RUN).max(MIN_WINDOW_SECONDS);
    let size = section
        .runs
        .averaging_window_for_shortest_run(max_size, count_seconds);
    let caption = averaging_caption(
        size,
        "second of the validator's clock",
        "seconds of the validator's clock",
    ) + ". The line breaks where the transactions are not known.";
    section.add_timeline(
        "tps-over-time",
        "Transactions per second over time",
        &caption,
        ("TPS (/s)", "/s"),
        |run| {
            let averages = moving_averages(&run.tps.seconds, size);
            vec![line_of_points(run, averages)]
        },
    );
}
