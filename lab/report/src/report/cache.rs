//! The program cache (Figures 11, 12 and 13 of the study, see `docs/PAPER.md`).

use super::{
    measured_run::{MeasuredRun, MeasuredRuns, RunPart},
    model::{BarSeries, Bars, Chart, Section},
    section_builder::{NumberColumn, SectionBuilder, averaging_caption},
    timeline::line_of_points,
};
use crate::{
    measure::{Span, WindowNumbers, cache_us_by_time, cache_us_per_slot, point_values, prune_us},
    run::{Run, Signal},
};
use faultline_stats::{
    smooth::moving_average,
    summary::{Summary, mean},
};

const AVERAGED_SLOTS: usize = 25;

macro_rules! cache_quantity {
    ($title:literal, $decimals:literal, $field:ident, sum) => {
        ($title, $decimals, |_, numbers| {
            (numbers.cache.$field.n > 0).then_some(numbers.cache.$field.sum)
        })
    };
    ($title:literal, $decimals:literal, $field:ident, count) => {
        ($title, $decimals, |_, numbers| {
            Some((numbers.cache.$field.n + numbers.cache.$field.missing) as f64)
        })
    };
    ($title:literal, $decimals:literal, $field:ident, $statistic:ident) => {
        ($title, $decimals, |_, numbers| {
            numbers.cache.$field.$statistic
        })
    };
}

const COUNTS: &[NumberColumn] = &[
    cache_quantity!("Misses (sum)", 0, misses, sum),
    cache_quantity!("Misses (mean)", 4, misses, mean),
    cache_quantity!("Misses (max)", 0, misses, max),
    cache_quantity!("Evictions (sum)", 0, evictions, sum),
    cache_quantity!("Evictions (mean)", 4, evictions, mean),
    cache_quantity!("Evictions (max)", 0, evictions, max),
    cache_quantity!("Reloads (sum)", 0, reloads, sum),
    cache_quantity!("Insertions (sum)", 0, insertions, sum),
    // Includes points without a value.
    cache_quantity!("Batches", 0, misses, count),
];

const TIMES: &[NumberColumn] = &[
    cache_quantity!("Time (sum) [µs]", 0, time_us, sum),
    cache_quantity!("Time (mean) [µs]", 2, time_us, mean),
    cache_quantity!("Time (max) [µs]", 0, time_us, max),
    cache_quantity!("Loading (sum) [µs]", 0, loading_us, sum),
    cache_quantity!("Loading (mean) [µs]", 2, loading_us, mean),
    cache_quantity!("Replayed slots", 0, time_us, count),
    ("Time per recorded second [ms/s]", 3, |_, numbers| {
        let seconds = numbers.window.seconds();
        (numbers.cache.time_us.n > 0 && seconds > 0.0)
            .then(|| numbers.cache.time_us.sum / 1e3 / seconds)
    }),
];

const STUDY_PRUNE: &[NumberColumn] = &[
    cache_quantity!("elapsed_ms (sum) [ms]", 0, set_root_ms, sum),
    cache_quantity!("elapsed_ms (mean) [ms]", 3, set_root_ms, mean),
    cache_quantity!("elapsed_ms (max) [ms]", 0, set_root_ms, max),
    cache_quantity!("Roots", 0, set_root_ms, count),
];

const PRUNE_AND_EVICTION: &[NumberColumn] = &[
    cache_quantity!("Prune (sum) [ms]", 1, prune_ms, sum),
    cache_quantity!("Prune (mean) [ms]", 4, prune_ms, mean),
    cache_quantity!("Prune (max) [ms]", 3, prune_ms, max),
    ("Roots", 0, |_, numbers| {
        (numbers.cache.prune_ms.n > 0).then_some(numbers.cache.prune_ms.n as f64)
    }),
    cache_quantity!("Eviction (sum) [ms]", 1, evict_ms, sum),
    cache_quantity!("Passes", 0, evict_passes, sum),
    ("Eviction per pass [ms]", 4, |_, numbers| {
        mean_per_pass(numbers, &numbers.cache.evict_ms)
    }),
    ("Entries examined per pass", 1, |_, numbers| {
        mean_per_pass(numbers, &numbers.cache.evict_examined)
    }),
];

fn mean_per_pass(numbers: &WindowNumbers, summary: &Summary) -> Option<f64> {
    let passes = numbers.cache.evict_passes.sum;
    (passes > 0.0).then(|| summary.sum / passes)
}

const CAPACITY: &[NumberColumn] = &[
    ("Configured [entries]", 0, |run, _| {
        last_capacity(&run.recording, Signal::ProgramCacheCapacityConfigured)
    }),
    ("Observed [entries]", 0, |run, _| {
        last_capacity(&run.recording, Signal::ProgramCacheCapacityObserved)
    }),
    ("Most loaded at a pass [entries]", 0, |run, _| {
        let points = run.recording.points.cache.iter();
        let levels = points.filter_map(|point| point.water_level);
        let max = levels.max().filter(|level| *level > 0)?;
        Some(max as f64)
    }),
];

pub fn section(runs: &MeasuredRuns) -> Section {
    let mut section = SectionBuilder::new(runs, MeasuredRun::why_no_datapoints);
    let note = "A batch is one point of loaded-programs-cache-stats: what all users of the cache did between the creation of two \
                banks, about one slot. The study calls this an execution batch, but its sums divided by its means imply 102,000 to \
                111,000 batches in 12 hours, one per slot. Points of own leader slots cannot be distinguished and are included. In an \
                offline replay, a batch is a slot. Hits are left out: before 4.4.0 they are not a count of hits.";
    section.add_table("cache", "Program cache: misses and evictions", note, COUNTS);
    let note = "Means and maxima are over replayed slots with transactions. Time: program_cache_us of replay-slot-stats, summed over \
                threads, so it can exceed the slot's wall time. It includes lookups, waiting for another thread's compilation, and own \
                compilation. Loading: the part of it in register_syscalls, load_elf, verify_code and jit_compile. Own leader slots are \
                left out: the validator reports no time for them. An offline replay has only the total time.";
    let note = format!("{note}{}", executable_filtering_sentence(runs));
    section.add_table("cache-time", "Program cache: time", &note, TIMES);
    section.add_table_of_part(
        RunPart::FromTip,
        "cache-at-tip",
        "Program cache at the tip: misses and evictions",
        "",
        COUNTS,
    );
    section.add_table_of_part(
        RunPart::FromTip,
        "cache-time-at-tip",
        "Program cache at the tip: time",
        "",
        TIMES,
    );
    add_prune_tables(&mut section);
    let note = "Configured: by version, or by the daemon's configuration. Observed: from the level at which eviction passes begin.";
    section.add_table_of_part(
        RunPart::WholeRun,
        "cache-capacity",
        "Capacity",
        note,
        CAPACITY,
    );
    add_timeline(&mut section);
    add_bars(&mut section);
    add_histograms(&mut section);
    section.build("cache", "Program cache")
}

fn add_timeline(section: &mut SectionBuilder<'_>) {
    let slots = |run: &MeasuredRun| run.since_first_transaction.replay_ms.len();
    let size = section
        .runs
        .averaging_window_for_shortest_run(AVERAGED_SLOTS, slots);
    let caption = averaging_caption(size, "replayed slot", "replayed slots") + ".";
    section.add_timeline(
        "cache-time-over-time",
        "Program cache time per slot over time",
        &caption,
        ("Program cache time (ms)", "ms"),
        |run| {
            let (at, us): (Vec<f64>, Vec<Option<f64>>) =
                cache_us_by_time(&run.recording, run.whole_run.window).unzip();
            let ms = moving_average(&us, size)
                .into_iter()
                .map(|us| us.map(|us| us / 1e3));
            vec![line_of_points(run, at.into_iter().zip(ms))]
        },
    );
}

fn add_prune_tables(section: &mut SectionBuilder<'_>) {
    let note = "What the study calls prune time is program_cache_prune_ms of bank-forks_set_root. In every version from 2.0.5 to \
                4.4.0 that field repeats elapsed_ms, the time of moving the root: stock builds report no time of pruning. \
                elapsed_ms is given for comparison with the study's table, not as a prune time.";
    section.add_table(
        "prune-study",
        "Prune time as the study defines it",
        note,
        STUDY_PRUNE,
    );
    let mut all = section.runs.all.iter();
    if all.any(|run| !run.recording.points.cache_times.is_empty()) {
        let note = "From program-cache-times. Builds by scripts/install-agave --instrumented report it at each root. Prune: the time of \
                    the prune; a root without a prune does not count. Eviction: the time of all eviction passes since the previous root, \
                    also of those that evicted nothing. Both exclude the wait for the cache's lock.";
        section.add_table("prune", "Prune and eviction time", note, PRUNE_AND_EVICTION);
    }
}

fn executable_filtering_sentence(runs: &MeasuredRuns) -> &'static str {
    let any_run = |includes_filtering| {
        runs.all.iter().any(|run| {
            let cache = &run.since_first_transaction.cache;
            cache.time_us.n > 0 && cache.includes_filter == includes_filtering
        })
    };
    match (any_run(true), any_run(false)) {
        (true, true) => {
            " In runs of 2.0, the time includes the filtering of executables; in the other runs, it does not."
        }
        (true, false) => " The time includes the filtering of executables, as 2.0 counts it.",
        _ => "",
    }
}

/// In entries.
pub fn last_capacity(run: &Run, signal: Signal) -> Option<f64> {
    run.signal(signal).iter().rev().find_map(|value| *value)
}

type NamedSummary = (&'static str, fn(&WindowNumbers) -> &Summary);

fn add_bars(section: &mut SectionBuilder<'_>) {
    let runs = section.runs;
    let mut add = |id, title, label: &str, scale, summaries: &[NamedSummary]| {
        let series = summaries.iter().map(|(name, summary)| {
            let values = runs.arms.iter().map(|arm| {
                let means: Option<Vec<f64>> = runs
                    .counted_runs_of(arm)
                    .map(|run| summary(&run.since_first_transaction).mean)
                    .collect();
                Some((scale * mean(&means?)?, None))
            });
            BarSeries {
                name: (*name).to_owned(),
                values: values.collect(),
            }
        });
        let chart = Bars {
            y_label: label.to_owned(),
            categories: runs.arms.clone(),
            series: series.collect(),
            log: false,
        };
        let is_drawn = chart
            .series
            .iter()
            .flat_map(|series| &series.values)
            .any(Option::is_some);
        let caption = "Means by arm. For an arm with several runs, the mean of the runs' means.";
        section.add_figure(id, title, caption, is_drawn.then_some(Chart::Bars(chart)));
    };
    add(
        "cache-per-batch",
        "Misses and evictions per batch",
        "Per batch",
        1.0,
        &[
            ("misses", |numbers| &numbers.cache.misses),
            ("evictions", |numbers| &numbers.cache.evictions),
        ],
    );
    add(
        "cache-time-per-batch",
        "Program cache time per slot",
        "Time (ms)",
        1e-3,
        &[("time in the program cache", |numbers| {
            &numbers.cache.time_us
        })],
    );
}

fn add_histograms(section: &mut SectionBuilder<'_>) {
    let caption = "From the first executed transaction on. The bins end at the 99.5 % quantile of all runs, where the study cuts its \
                   graphs for legibility. Values above it are counted, but not drawn.";
    let mut add = |id, title, x_label, y_label, values: fn(&Run, Span) -> Vec<Option<f64>>| {
        section.add_histogram(id, title, caption, (x_label, y_label, 0.995), |run| {
            values(&run.recording, run.since_first_transaction.window)
        });
    };
    add(
        "prune-histogram",
        "Time of pruning the program cache",
        "Time (ms)",
        "Roots",
        |run, window| point_values(run, &run.points.cache_times, window, prune_us, 1e-3),
    );
    add(
        "misses-histogram",
        "Misses per batch",
        "Misses",
        "Batches",
        |run, window| point_values(run, &run.points.cache, window, |point| point.misses, 1.0),
    );
    add(
        "evictions-histogram",
        "Evictions per batch",
        "Evictions",
        "Batches",
        |run, window| point_values(run, &run.points.cache, window, |point| point.evictions, 1.0),
    );
    add(
        "cache-time-histogram",
        "Program cache time per slot",
        "Time (ms)",
        "Replayed slots",
        |run, window| {
            cache_us_per_slot(run, window)
                .into_iter()
                .map(|us| us.map(|us| us / 1e3))
                .collect()
        },
    );
    add(
        "prune-study-histogram",
        "Time of moving the root, the study's prune time",
        "elapsed_ms (ms)",
        "Roots",
        |run, window| {
            point_values(
                run,
                &run.points.roots,
                window,
                |point| point.elapsed_ms,
                1.0,
            )
        },
    );
}
