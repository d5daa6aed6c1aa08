//! Page faults (Figures 8 and 9 of the study, see `docs/PAPER.md`), thread pools, refaults and
//! pressure.

use super::{
    cells::{number_or, row, table, text_cell},
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{BarSeries, Bars, Block, Chart, Section},
    section_builder::{NumberColumn, SectionBuilder, averaging_caption},
    timeline::line_of_ticks,
};
use crate::{
    measure::{
        Span, ThreadPoolUse, signal_rates, thread_pool_seconds, thread_pool_use, values_within,
    },
    run::Signal,
};
use faultline_agave::threads::purpose;
use faultline_stats::{smooth::moving_average, summary::summary};
use itertools::Itertools;

/// As many as in the study.
const AVERAGED_SAMPLES: usize = 100;

pub fn averaging_window(runs: &MeasuredRuns) -> usize {
    runs.averaging_window_for_shortest_run(AVERAGED_SAMPLES, |run| run.recording.ticks.len())
}

const MAX_TABLE_POOLS: usize = 15;

const MAX_DRAWN_POOLS: usize = 8;

type PoolValue = fn(&ThreadPoolUse) -> Option<f64>;

/// Thread pools with most faults first.
type RunPools<'s> = (&'s MeasuredRun, Vec<ThreadPoolUse>);

const PAGE_FAULTS: &[NumberColumn] = &[
    ("Major faults", 0, |_, numbers| {
        numbers.major_faults.known_increase()
    }),
    ("Major mean [/s]", 3, |_, numbers| {
        numbers.major_faults.mean()
    }),
    ("Major max [/s]", 1, |_, numbers| {
        summary(&numbers.major_faults.per_second).max
    }),
    ("Minor faults", 0, |_, numbers| {
        numbers.minor_faults.known_increase()
    }),
    ("Minor mean [/s]", 1, |_, numbers| {
        numbers.minor_faults.mean()
    }),
    ("Minor max [/s]", 1, |_, numbers| {
        summary(&numbers.minor_faults.per_second).max
    }),
];

/// The mean rate of a counter times a scale: 100 makes percent of a counter of seconds.
macro_rules! mean_growth {
    ($title:literal, $signal:ident, $scale:literal) => {
        ($title, 3, |run, numbers| {
            let mean = signal_rates(&run.recording, Signal::$signal, numbers.window).mean();
            mean.map(|mean| $scale * mean)
        })
    };
}

const PRESSURE: &[NumberColumn] = &[
    mean_growth!("File refaults [/s]", RefaultFile, 1.0),
    mean_growth!("Anonymous refaults [/s]", RefaultAnon, 1.0),
    mean_growth!("Some waited for memory [%]", MemorySome, 100.0),
    mean_growth!("All waited for memory [%]", MemoryFull, 100.0),
    mean_growth!("Some waited for I/O [%]", IoSome, 100.0),
    mean_growth!("All waited for I/O [%]", IoFull, 100.0),
    mean_growth!("Machine: some waited for memory [%]", HostMemorySome, 100.0),
    mean_growth!("Machine: some waited for I/O [%]", HostIoSome, 100.0),
];

pub fn section(runs: &MeasuredRuns) -> Section {
    let mut section = SectionBuilder::new(runs, MeasuredRun::why_no_samples);
    let note = "From majflt and minflt of /proc/PID/stat. Mean: all faults divided by all recorded seconds. Max: between two samples. \
                Faults in gaps are left out of all columns.";
    section.add_tables_with_tip("faults", "Page faults", note, PAGE_FAULTS);
    add_fault_figures(&mut section);
    add_thread_pools(&mut section);
    let note = "Refaults: pages read back soon after they were reclaimed, so the working set does not fit. Waiting: pressure stall \
                information of the cgroup (version 2 has it) and of the machine, as a share of the time; some: at least one task \
                waited, all: all tasks that were not idle waited.";
    section.add_table("pressure", "Refaults and pressure", note, PRESSURE);
    add_pressure_timelines(&mut section);
    section.build("faults", "Page faults and memory pressure")
}

pub fn smoothed_rates(
    run: &MeasuredRun,
    signal: Signal,
    scale: f64,
    size: usize,
) -> Vec<Option<f64>> {
    let scaled = signal_rates(&run.recording, signal, Span::ALWAYS)
        .per_second
        .into_iter()
        .map(|rate| rate.map(|rate| rate * scale))
        .collect_vec();
    moving_average(&scaled, size)
}

fn add_fault_figures(section: &mut SectionBuilder<'_>) {
    let kinds = [
        ("major", "Major", Signal::MajorFaults),
        ("minor", "Minor", Signal::MinorFaults),
    ];
    let size = averaging_window(section.runs);
    let at_gaps = match size {
        1 => "",
        _ => "; over fewer at the ends and around gaps",
    };
    let caption = averaging_caption(size, "sample", "samples") + at_gaps + ".";
    for (kind, capitalized_kind, signal) in kinds {
        let id = format!("{kind}-faults-over-time");
        let title = format!("{capitalized_kind} faults over time, smoothed");
        section.add_timeline(&id, &title, &caption, ("Faults (/s)", "/s"), |run| {
            let rates = smoothed_rates(run, signal, 1.0, size);
            vec![line_of_ticks(run, "", &rates)]
        });
    }
    let caption = "Rates between two samples, from the first executed transaction on. The bins end at the 99 % quantile of all runs. \
                   Rates above it are counted, but not drawn.";
    for (kind, capitalized_kind, signal) in kinds {
        let id = format!("{kind}-faults-histogram");
        let label = format!("{capitalized_kind} faults (/s)");
        let title = format!("How often each rate of {kind} faults occurred");
        section.add_histogram(&id, &title, caption, (&label, "Samples", 0.99), |run| {
            let rates = signal_rates(&run.recording, signal, Span::ALWAYS).per_second;
            values_within(&run.recording, &rates, run.since_first_transaction.window)
        });
    }
}

fn add_thread_pools(section: &mut SectionBuilder<'_>) {
    let pools = section
        .runs
        .all
        .iter()
        .map(|run| {
            let window = run.since_first_transaction.window;
            (run, thread_pool_use(&run.recording, window))
        })
        .collect_vec();
    if pools.iter().all(|(_, pools)| pools.is_empty()) {
        return;
    }
    section.add([pool_table(&pools)]);
    let kinds: [(&str, &str, PoolValue); 2] = [
        ("major", "Major faults (/s)", |pool| pool.major),
        ("minor", "Minor faults (/s)", |pool| pool.minor),
    ];
    for (kind, label, value) in kinds {
        let (id, title) = (format!("pools-{kind}"), format!("Who takes {kind} faults"));
        let caption = "Faults of each pool, divided by the seconds of each process from the first reading of its threads after the \
                       first executed transaction. The figure shows the pools with most faults.";
        section.add_figure(&id, &title, caption, pool_bars(&pools, label, value));
    }
}

fn pool_table(pools: &[RunPools<'_>]) -> Block {
    let mut table = table(
        "pools",
        "Who faults: thread pools",
        &[
            "Run",
            "Pool",
            "What it does",
            "Threads",
            "Major faults",
            "Minor faults",
            "Share of all faults [%]",
            "CPU [s]",
        ],
        "The 15 pools of each run with most faults. Faults and CPU time are those between the first and the last reading of the threads \
         after the first executed transaction. Share: of the faults of all pools in this time. Threads: the most of the last process. \
         Threads with the same name up to their number form a pool. The pool \"exited\" is the usage of ended threads that is in no sample \
         of their pools. It has no number of threads.",
    );
    for (run, pools) in pools {
        let all_faults: f64 = pools.iter().map(ThreadPoolUse::faults).sum();
        for pool in pools.iter().take(MAX_TABLE_POOLS) {
            let why = "not read";
            let share = (all_faults > 0.0).then(|| 100.0 * pool.faults() / all_faults);
            let cells = [
                text_cell(&pool.name),
                text_cell(purpose(&pool.name).unwrap_or_default()),
                number_or(pool.threads, 0, "not of the last process"),
                number_or(pool.major, 0, why),
                number_or(pool.minor, 0, why),
                number_or(share, 2, "no fault at all"),
                number_or(pool.cpu, 1, why),
            ];
            table.rows.push(row(&run.name, cells));
        }
    }
    Block::Table(table)
}

fn pool_bars(pools: &[RunPools<'_>], label: &str, value: PoolValue) -> Option<Chart> {
    let faults = pools
        .iter()
        .flat_map(|(_, pools)| pools)
        .filter_map(|pool| {
            let faults = value(pool).filter(|faults| *faults > 0.0)?;
            Some((pool.name.clone(), faults))
        });
    let largest_pools = faults
        .into_grouping_map()
        .sum()
        .into_iter()
        .sorted_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let categories = largest_pools
        .map(|(name, _)| name)
        .take(MAX_DRAWN_POOLS)
        .collect_vec();
    let series = pools.iter().map(|(run, pools)| {
        let window = run.since_first_transaction.window;
        let seconds = thread_pool_seconds(&run.recording, window);
        let rate = |name: &String| {
            let faults = pools
                .iter()
                .find(|pool| pool.name == *name)
                .and_then(value)?;
            (seconds > 0.0).then(|| (faults / seconds, None))
        };
        BarSeries {
            name: run.name.clone(),
            values: categories.iter().map(rate).collect(),
        }
    });
    let series = series.collect();
    (!categories.is_empty()).then(|| {
        Chart::Bars(Bars {
            y_label: label.to_owned(),
            categories,
            series,
            log: false,
        })
    })
}

fn add_pressure_timelines(section: &mut SectionBuilder<'_>) {
    let size = averaging_window(section.runs);
    let caption = averaging_caption(size, "sample", "samples") + ".";
    let smooth = |run: &MeasuredRun, name, signal, scale| {
        line_of_ticks(run, name, &smoothed_rates(run, signal, scale, size))
    };
    section.add_timeline(
        "refaults-over-time",
        "Refaults over time",
        &caption,
        ("Refaults (/s)", "/s"),
        |run| {
            vec![
                smooth(run, "file", Signal::RefaultFile, 1.0),
                smooth(run, "anonymous", Signal::RefaultAnon, 1.0),
            ]
        },
    );
    section.add_timeline(
        "pressure-over-time",
        "Waiting for memory and I/O over time",
        &caption,
        ("Time stalled (%)", "%"),
        |run| {
            let of_cgroup = run.recording.signal(Signal::MemorySome);
            let signals: &[(&str, Signal)] = if of_cgroup.iter().any(Option::is_some) {
                &[
                    ("memory, some", Signal::MemorySome),
                    ("memory, all", Signal::MemoryFull),
                    ("I/O, some", Signal::IoSome),
                ]
            } else {
                &[
                    ("machine: memory, some", Signal::HostMemorySome),
                    ("machine: I/O, some", Signal::HostIoSome),
                ]
            };
            signals
                .iter()
                .map(|(name, signal)| smooth(run, name, *signal, 100.0))
                .collect()
        },
    );
}
