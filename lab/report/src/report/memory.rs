//! Memory, limit and headroom: Figures 6, 7 and 10 of the study, see `docs/PAPER.md`.

use super::{
    cells::{figure, gib, missing, number_cell, number_or, row, table, text_cell},
    measured_run::{MeasuredRun, MeasuredRuns, RunPart},
    model::{Block, Chart, Matrix, Section},
    section_builder::{NumberColumn, SectionBuilder},
    sufficient_memory,
    timeline::{line_of_signal, line_of_ticks},
};
use crate::{
    measure::{Span, rss, signal_rates, values_within},
    run::{BindingLevel, Signal},
};
use faultline_stats::correlation;

macro_rules! gib {
    ($title:literal, $gauge:ident, $statistic:ident) => {
        (concat!($title, " [GiB]"), 3, |_, numbers| {
            numbers.gauges.$gauge.$statistic.map(gib)
        })
    };
}

const RSS_AND_VSZ: &[NumberColumn] = &[
    gib!("RSS min", rss, min),
    gib!("RSS max", rss, max),
    gib!("RSS mean", rss, mean),
    gib!("VSZ min", vsz, min),
    gib!("VSZ max", vsz, max),
    gib!("VSZ mean", vsz, mean),
];

const MEMORY_KINDS: &[NumberColumn] = &[
    gib!("Anonymous mean", anon, mean),
    gib!("Anonymous max", anon, max),
    gib!("File mean", file, mean),
    gib!("File max", file, max),
    gib!("Shared mean", shmem, mean),
    gib!("Swapped out mean", swap, mean),
    gib!("Swapped out max", swap, max),
];

const STUDY_SWAP_AND_TOTAL: &[NumberColumn] = &[
    gib!("VSZ - RSS mean (study: swap)", vsz_less_rss, mean),
    gib!("Swapped out mean", swap, mean),
    gib!("RSS + VSZ mean (study: total)", rss_and_vsz, mean),
    ("RSS + swapped out, mean [GiB]", 3, |_, numbers| {
        Some(gib(numbers.gauges.rss.mean? + numbers.gauges.swap.mean?))
    }),
];

const HEADROOM: &[NumberColumn] = &[
    ("Limit [GiB]", 3, |run, _| run.limit().map(gib)),
    gib!("Unreclaimable mean", unreclaimable, mean),
    gib!("Unreclaimable max", unreclaimable, max),
    gib!("Headroom min", headroom, min),
    gib!("Headroom mean", headroom, mean),
    (
        "Smallest headroom, share of the limit [%]",
        1,
        |_, numbers| Some(100.0 * (1.0 - numbers.gauges.unreclaimable_share.max?)),
    ),
];

pub fn section(runs: &MeasuredRuns) -> Section {
    let mut section = SectionBuilder::new(runs, MeasuredRun::why_no_samples);
    let rss_note = "GiB is 2^30 bytes. RSS: RssAnon, RssFile and RssShmem of /proc/PID/status. VSZ: vsize of /proc/PID/stat, address \
               space and not memory. One value per sample.";
    section.add_table("memory", "RSS and VSZ", rss_note, RSS_AND_VSZ);
    let note = "The study's table begins with the start of the process, so its minima are those of a program that has just started (0.016 GB).";
    if !runs.has_no_validator() {
        section.add_table_of_part(
            RunPart::WholeRun,
            "memory-from-start",
            "RSS and VSZ from the start on",
            note,
            RSS_AND_VSZ,
        );
    }
    section.add_table_of_part(
        RunPart::FromTip,
        "memory-at-tip",
        "RSS and VSZ at the tip",
        rss_note,
        RSS_AND_VSZ,
    );
    let note = "Anonymous memory is demand: without swap it cannot be dropped. File memory is page cache that the process maps; \
                the kernel takes it back when it needs to. GiB is 2^30 bytes.";
    section.add_table(
        "memory-kinds",
        "Anonymous against file memory",
        note,
        MEMORY_KINDS,
    );
    let note = "The study takes VSZ less RSS for swap, and RSS plus VSZ for the total. VSZ counts address space that was never \
                touched, mapped files most of all, and contains RSS already; so neither is memory. Swap is VmSwap of \
                /proc/PID/status. GiB is 2^30 bytes.";
    section.add_table(
        "memory-study",
        "Swap and total as the study defines them",
        note,
        STUDY_SWAP_AND_TOTAL,
    );
    let note = "Limit: in an experiment the planned one, otherwise the most frequent of the level with the least headroom. \
                Unreclaimable: memory of that level that the kernel cannot drop without swap, other cgroups included. Headroom: limit \
                minus unreclaimable at each sample. GiB is 2^30 bytes.";
    section.add_table("headroom", "Headroom and the limit", note, HEADROOM);
    section.add([table_of_binding_levels(runs)]);
    section.add(sufficient_memory::blocks(runs));
    add_timelines(&mut section);
    let figures = runs
        .all
        .iter()
        .filter_map(|run| correlation_figure(runs, run));
    section.add(figures);
    section.build("memory", "Memory")
}

fn table_of_binding_levels(runs: &MeasuredRuns) -> Block {
    let note = "The level with the least headroom. A number is a cgroup: 0 is the validator's own, 1 its parent. Others \
                max: the largest unreclaimable memory at that level outside of the \
                validator's own cgroup, over the whole run. Recordings of older versions have no levels. Their limit is the \
                smallest of all. Their unreclaimable memory is the sum of anonymous, shared and kernel memory, which can be too low.";
    let mut table = table(
        "binding-level",
        "Which limit is met first",
        &["Run", "Level", "Share of the time [%]", "Others max [GiB]"],
        note,
    );
    for run in &runs.all {
        let levels = &run.recording.binding_levels;
        if levels.is_empty() {
            let cells = [
                text_cell("not known, or recorded by an older version"),
                missing("not recorded"),
                missing("not recorded"),
            ];
            table.rows.push(row(&run.name, cells));
        }
        for level in levels {
            let others = match level.level.as_str() {
                "1" => run.recording.signal(Signal::OthersParent),
                "machine" => run.recording.signal(Signal::OthersMachine),
                _ => &[],
            };
            let max_others = others.iter().copied().flatten().reduce(f64::max);
            let cells = [
                text_cell(&level_title(level)),
                number_cell(100.0 * level.share, 0),
                number_or(max_others.map(gib), 3, "not known at this level"),
            ];
            table.rows.push(row(&run.name, cells));
        }
    }
    Block::Table(table)
}

fn level_title(level: &BindingLevel) -> String {
    match level.level.as_str() {
        "machine" => "the machine".to_owned(),
        "numa" => format!("NUMA {}", level.path),
        "above" => format!("a limit above {}", level.path),
        // The number of a level.
        number_and_suffix => match number_and_suffix.strip_suffix("_swap") {
            Some(number) => format!("{number}: memory and swap of {}", level.path),
            None => format!("{number_and_suffix}: {}", level.path),
        },
    }
}

fn add_timelines(section: &mut SectionBuilder<'_>) {
    let caption_end = "Values at each sample. A long run is divided into parts. The smallest \
                       and the largest value of each part are drawn, so no peak is lost.";
    // The page draws bytes as GiB.
    let axis = ("Memory (GiB)", "B");
    section.add_timeline(
        "rss-over-time",
        "Resident memory over time",
        &format!("RSS. {caption_end}"),
        axis,
        |run| vec![line_of_ticks(run, "", &rss(&run.recording))],
    );
    let mut add = |id, title, caption, signals: &[(&str, Signal)]| {
        let caption = format!("{caption} {caption_end}");
        section.add_timeline(id, title, &caption, axis, |run| {
            signals
                .iter()
                .map(|(name, signal)| line_of_signal(run, name, *signal))
                .collect()
        });
    };
    add(
        "vsz-over-time",
        "Virtual memory over time",
        "VSZ: address space.",
        &[("", Signal::Virtual)],
    );
    add(
        "anon-and-file",
        "Anonymous against file memory over time",
        "RssAnon and RssFile.",
        &[("anonymous", Signal::RssAnon), ("file", Signal::RssFile)],
    );
    add(
        "headroom-over-time",
        "What cannot be reclaimed, and the limit",
        "When the first reaches the second, the kernel must swap or kill.",
        &[
            ("unreclaimable", Signal::Unreclaimable),
            ("limit", Signal::Limit),
        ],
    );
}

fn correlation_figure(runs: &MeasuredRuns, run: &MeasuredRun) -> Option<Block> {
    let recording = &run.recording;
    let [major, minor] = [Signal::MajorFaults, Signal::MinorFaults]
        .map(|signal| signal_rates(recording, signal, Span::ALWAYS).per_second);
    let vsz = recording.signal(Signal::Virtual);
    // The study's figure has this order.
    let values = [&rss(recording), vsz, &major, &minor];
    let values =
        values.map(|values| values_within(recording, values, run.since_first_transaction.window));
    let values = correlation::matrix(&values.each_ref().map(Vec::as_slice));
    if values.iter().flatten().all(Option::is_none) {
        return None;
    }
    let (id, title_suffix) = match runs.single_run() {
        Some(_) => ("correlation".to_owned(), String::new()),
        None => (format!("correlation-{}", run.id), format!(": {}", run.name)),
    };
    Some(figure(
        &id,
        &format!("Correlation of memory and faults{title_suffix}"),
        "Pearson's correlation over samples from the first executed transaction on; faults are rates per second. A constant \
         has no correlation. Values that grow over a recording correlate with everything that grows: no cause follows from this.",
        Chart::Matrix(Matrix {
            names: ["RSS", "VSZ", "Major faults", "Minor faults"]
                .map(str::to_owned)
                .to_vec(),
            values,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Run, Tick};
    use faultline_stats::IntervalPlan;

    #[test]
    fn smallest_share_of_headroom_is_by_the_limit_of_the_same_sample() {
        let mut run = Run {
            ticks: [0.0, 1.0, 2.0]
                .map(|at| Tick {
                    at,
                    session: 1,
                    process: None,
                    phase: None,
                })
                .to_vec(),
            signals: vec![vec![None; 3]; Signal::ALL.len()],
            ..Run::default()
        };
        // 20 % of the limit in the second sample, and at least 50 % in others.
        run.signals[Signal::Limit as usize] = vec![Some(20e9), Some(10e9), Some(20e9)];
        run.signals[Signal::Unreclaimable as usize] = vec![Some(8e9), Some(8e9), Some(10e9)];
        let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        let (_, _, share) = HEADROOM.last().unwrap();
        let share = share(&runs.all[0], &runs.all[0].whole_run).unwrap();
        assert!((share - 20.0).abs() < 1e-9, "{share}");
    }
}
