//! Page faults (the study's Figures 8 and 9), thread pools, refaults and pressure.

use super::arm_table::{Head, Quantity, quantity, tables};
use super::cells::{figure, number, table};
use super::classes::histogram;
use super::model::{BarSeries, Bars, Block, Cell, Chart, Section, Table};
use super::subject::Part;
use super::subject::{Subject, Subjects};
use super::timeline::{Trace, timeline};
use crate::measure::{PoolFaults, pool_faults, rates, within};
use crate::run::Signal;
use faultline_agave::threads::purpose;
use faultline_stats::smooth::{Window, moving_average};

const SMOOTHED: usize = 100;

const MOST_POOLS: usize = 15;

const DRAWN_POOLS: usize = 8;

type Values = for<'s> fn(&'s Subject<'_>) -> &'s [Option<f64>];

const RATES: &[Quantity] = &[
    quantity("Major faults", "", 0, |_, n| {
        (n.major.seconds > 0.0).then_some(n.major.increase)
    }),
    quantity("Major mean", "/s", 3, |_, n| n.major.mean()),
    quantity("Major max", "/s", 1, |_, n| n.major.rates.max),
    quantity("Minor faults", "", 0, |_, n| {
        (n.minor.seconds > 0.0).then_some(n.minor.increase)
    }),
    quantity("Minor mean", "/s", 1, |_, n| n.minor.mean()),
    quantity("Minor max", "/s", 1, |_, n| n.minor.rates.max),
];

const PRESSURE: &[Quantity] = &[
    quantity("File refaults", "/s", 3, |_, n| n.refault_file.mean()),
    quantity("Anonymous refaults", "/s", 3, |_, n| n.refault_anon.mean()),
    quantity("Some waited for memory", "%", 3, |_, n| {
        n.memory_some.mean().map(|share| 100.0 * share)
    }),
    quantity("All waited for memory", "%", 3, |_, n| {
        n.memory_full.mean().map(|share| 100.0 * share)
    }),
    quantity("Some waited for I/O", "%", 3, |_, n| {
        n.io_some.mean().map(|share| 100.0 * share)
    }),
    quantity("All waited for I/O", "%", 3, |_, n| {
        n.io_full.mean().map(|share| 100.0 * share)
    }),
    quantity("Machine: some waited for memory", "%", 3, |_, n| {
        n.host_memory_some.mean().map(|share| 100.0 * share)
    }),
    quantity("Machine: some waited for I/O", "%", 3, |_, n| {
        n.host_io_some.mean().map(|share| 100.0 * share)
    }),
];

pub(crate) fn section(subjects: &Subjects<'_>) -> Section {
    let why: fn(&Subject<'_>) -> &'static str = |subject| subject.no_samples();
    let head = |id, title, part, note| Head {
        id,
        title,
        note,
        part,
        why,
    };
    let note = "From majflt and minflt of /proc/PID/stat. Mean: all faults by all recorded seconds. Max: between two ticks. Faults \
                in gaps are left out of all of them.";
    let mut blocks = tables(
        subjects,
        &head("faults", "Page faults", Part::Usual, note),
        RATES,
    );
    blocks.extend(tables(
        subjects,
        &head(
            "faults-at-tip",
            "Page faults at the tip",
            Part::Steady,
            note,
        ),
        RATES,
    ));
    blocks.extend(smoothed(subjects));
    blocks.extend(histograms(subjects));
    blocks.extend(who(subjects));
    let note = "Refaults: pages read back soon after they were reclaimed, so the working set does not fit. Waiting: pressure stall \
                information of the cgroup (version 2 has it) and of the machine, as a share of the time; some: at least one task, \
                all: no task could run.";
    blocks.extend(tables(
        subjects,
        &head("pressure", "Refaults and pressure", Part::Usual, note),
        PRESSURE,
    ));
    blocks.extend(pressure_over_time(subjects));
    Section {
        id: "faults".to_owned(),
        title: "Page faults and memory pressure".to_owned(),
        blocks,
    }
}

fn smoothed(subjects: &Subjects<'_>) -> Vec<Block> {
    let caption = "Moving average over 100 samples, centred; at the ends, and around gaps, over those that there are.";
    let draw = |id: &str, title: &str, values: Values| {
        let chart = timeline(subjects, "Faults (/s)", "/s", |subject| {
            vec![Trace::ticks(
                subject,
                "",
                &moving_average(values(subject), Window::Centred(SMOOTHED)),
            )]
        })?;
        Some(figure(id, title, caption, chart))
    };
    [
        draw(
            "major-faults-over-time",
            "Major faults over time, smoothed",
            |subject| &subject.measured.series.major,
        ),
        draw(
            "minor-faults-over-time",
            "Minor faults over time, smoothed",
            |subject| &subject.measured.series.minor,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn histograms(subjects: &Subjects<'_>) -> Vec<Block> {
    let caption = "Rates between two ticks, from the first execution on. The classes end at the 99 % quantile of all runs; what is \
                   above is counted and not drawn.";
    let draw = |id: &str, title: &str, label: &str, values: Values| {
        let chart = histogram(subjects, label, "Ticks", 0.99, |subject| {
            within(subject.run, values(subject), subject.usual.window)
        })?;
        Some(figure(id, title, caption, chart))
    };
    [
        draw(
            "major-faults-histogram",
            "How often each rate of major faults occurred",
            "Major faults (/s)",
            |subject| &subject.measured.series.major,
        ),
        draw(
            "minor-faults-histogram",
            "How often each rate of minor faults occurred",
            "Minor faults (/s)",
            |subject| &subject.measured.series.minor,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn who(subjects: &Subjects<'_>) -> Vec<Block> {
    let pools: Vec<(&Subject<'_>, Vec<PoolFaults>)> = subjects
        .all
        .iter()
        .map(|subject| (subject, pool_faults(subject.run, subject.usual.window)))
        .collect();
    if pools.iter().all(|(_, pools)| pools.is_empty()) {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(pool_table(&pools))];
    blocks.extend(pool_bars(
        &pools,
        "pools-major",
        "Who takes major faults",
        "Major faults (/s)",
        |pool| pool.major,
    ));
    blocks.extend(pool_bars(
        &pools,
        "pools-minor",
        "Who takes minor faults",
        "Minor faults (/s)",
        |pool| pool.minor,
    ));
    blocks
}

fn pool_table(pools: &[(&Subject<'_>, Vec<PoolFaults>)]) -> Table {
    let mut listed = table(
        "pools",
        "Who faults: thread pools",
        &[
            ("Run", ""),
            ("Pool", ""),
            ("What it does", ""),
            ("Threads", ""),
            ("Major faults", ""),
            ("Minor faults", ""),
            ("Share of all faults", "%"),
            ("CPU", "s"),
        ],
        "From the first execution on, the 15 pools of each run with most faults. Threads with the same name up to their number \
         form a pool; the pool called exited holds what ended threads took unseen.",
    );
    for (subject, pools) in pools {
        let all: f64 = pools.iter().map(faults).sum();
        for pool in pools.iter().take(MOST_POOLS) {
            let why = "not read";
            listed.rows.push(vec![
                Cell::Text(subject.name.clone()),
                Cell::Text(pool.name.clone()),
                Cell::Text(purpose(&pool.name).unwrap_or_default().to_owned()),
                number(pool.threads, 0, why),
                number(pool.major, 0, why),
                number(pool.minor, 0, why),
                number(
                    (all > 0.0).then(|| 100.0 * faults(pool) / all),
                    2,
                    "no fault at all",
                ),
                number(pool.cpu, 1, why),
            ]);
        }
    }
    listed
}

fn faults(pool: &PoolFaults) -> f64 {
    pool.major.unwrap_or(0.0) + pool.minor.unwrap_or(0.0)
}

fn pool_bars(
    pools: &[(&Subject<'_>, Vec<PoolFaults>)],
    id: &str,
    title: &str,
    y_label: &str,
    of: fn(&PoolFaults) -> Option<f64>,
) -> Option<Block> {
    let mut most: Vec<(String, f64)> = Vec::new();
    for pool in pools.iter().flat_map(|(_, pools)| pools) {
        let Some(value) = of(pool).filter(|value| *value > 0.0) else {
            continue;
        };
        match most.iter_mut().find(|(name, _)| *name == pool.name) {
            Some((_, sum)) => *sum += value,
            None => most.push((pool.name.clone(), value)),
        }
    }
    most.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    most.truncate(DRAWN_POOLS);
    let categories: Vec<String> = most.into_iter().map(|(name, _)| name).collect();
    let series: Vec<BarSeries> = pools
        .iter()
        .map(|(subject, pools)| bars_of(subject, pools, &categories, of))
        .collect();
    (!categories.is_empty()).then(|| {
        let caption = "Faults of each pool by the seconds from the first execution on; the pools with most of them.";
        figure(id, title, caption, Chart::Bars(Bars { y_label: y_label.to_owned(), categories, series, log: false }))
    })
}

fn bars_of(
    subject: &Subject<'_>,
    pools: &[PoolFaults],
    categories: &[String],
    of: fn(&PoolFaults) -> Option<f64>,
) -> BarSeries {
    let seconds = subject.usual.window.seconds();
    let value = |name: &String| {
        let faults = pools.iter().find(|pool| pool.name == *name).and_then(of)?;
        (seconds > 0.0).then(|| (faults / seconds, None))
    };
    BarSeries {
        name: subject.name.clone(),
        values: categories.iter().map(value).collect(),
    }
}

fn pressure_over_time(subjects: &Subjects<'_>) -> Vec<Block> {
    let caption = "Moving average over 100 samples, centred.";
    let smooth = |subject: &Subject<'_>, name, signal, scale: f64| {
        let rates: Vec<_> = rates(subject.run, signal)
            .per_second
            .iter()
            .map(|rate| rate.map(|rate| rate * scale))
            .collect();
        Trace::ticks(
            subject,
            name,
            &moving_average(&rates, Window::Centred(SMOOTHED)),
        )
    };
    let refaults = timeline(subjects, "Refaults (/s)", "/s", |subject| {
        vec![
            smooth(subject, "file", Signal::RefaultFile, 1.0),
            smooth(subject, "anonymous", Signal::RefaultAnon, 1.0),
        ]
    });
    let stalls = timeline(subjects, "Time stalled (%)", "%", |subject| {
        let own = subject
            .run
            .signal(Signal::MemorySome)
            .iter()
            .any(Option::is_some);
        let signals: &[(&str, Signal)] = if own {
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
            .map(|(name, signal)| smooth(subject, name, *signal, 100.0))
            .collect()
    });
    [
        refaults.map(|chart| figure("refaults-over-time", "Refaults over time", caption, chart)),
        stalls.map(|chart| {
            figure(
                "pressure-over-time",
                "Waiting for memory and I/O over time",
                caption,
                chart,
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
