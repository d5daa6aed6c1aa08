//! The accounts caches, analysed like the study's program cache.

use super::arm_table::{Head, Quantity, quantity, tables};
use super::cells::{GIB, figure, number, table};
use super::model::{Block, Cell, Chart, Curve, Curves, Section, Table};
use super::subject::{Part, Subject, Subjects};
use super::timeline::{Trace, timeline};
use crate::measure::{Numbers, combine, growth, rates, replayed, within};
use crate::run::Signal;
use faultline_stats::smooth::{Window, moving_average};
use faultline_stats::summary::{self, Summary};

const SMOOTHED: usize = 100;

/// Arms whose misses per slot differ by less show nothing about the cost of a miss.
const FEWEST_MISSES: f64 = 1.0;

const MIB: f64 = 1_048_576.0;

const READ_CACHE: &[Quantity] = &[
    quantity("Hits", "", 0, |s, n| increase(s, n, Signal::ReadCacheHits)),
    quantity("Misses", "", 0, |s, n| {
        increase(s, n, Signal::ReadCacheMisses)
    }),
    quantity("Hit ratio", "%", 3, hit_ratio),
    quantity("Evictions", "", 0, |s, n| {
        increase(s, n, Signal::ReadCacheEvictions)
    }),
    quantity("Misses per slot", "", 3, misses_per_slot),
    quantity("Evictions per slot", "", 3, |s, n| {
        per_slot(s, n, Signal::ReadCacheEvictions)
    }),
    quantity("Time of a lookup", "µs", 3, |s, n| {
        let lookups =
            increase(s, n, Signal::ReadCacheHits)? + increase(s, n, Signal::ReadCacheMisses)?;
        ratio(1e6 * increase(s, n, Signal::ReadCacheLoad)?, lookups)
    }),
    quantity("Accounts, mean", "", 0, |s, n| {
        level(s, n, Signal::ReadCacheEntries).mean
    }),
    quantity("Size, mean", "MiB", 3, |s, n| {
        level(s, n, Signal::ReadCacheBytes)
            .mean
            .map(|bytes| bytes / MIB)
    }),
    quantity("Size, max", "MiB", 3, |s, n| {
        level(s, n, Signal::ReadCacheBytes)
            .max
            .map(|bytes| bytes / MIB)
    }),
    quantity("Account load time per slot", "µs", 1, load_time_per_slot),
];

const LOADS: &[Quantity] = &[
    quantity("From the write cache", "", 0, |s, n| {
        increase(s, n, Signal::LoadedWriteCache)
    }),
    quantity("From the read cache", "", 0, |s, n| {
        increase(s, n, Signal::LoadedReadCache)
    }),
    quantity("From files", "", 0, |s, n| {
        increase(s, n, Signal::LoadedStorage)
    }),
    quantity("Share from files", "%", 3, |s, n| {
        let [write, read, files] = [
            Signal::LoadedWriteCache,
            Signal::LoadedReadCache,
            Signal::LoadedStorage,
        ]
        .map(|signal| increase(s, n, signal));
        ratio(100.0 * files?, write? + read? + files?)
    }),
];

const WRITE_CACHE: &[Quantity] = &[
    quantity("Size, mean", "MiB", 3, |s, n| {
        level(s, n, Signal::WriteCacheBytes)
            .mean
            .map(|bytes| bytes / MIB)
    }),
    quantity("Size, max", "MiB", 3, |s, n| {
        level(s, n, Signal::WriteCacheBytes)
            .max
            .map(|bytes| bytes / MIB)
    }),
    quantity("Flushes", "", 0, |s, n| increase(s, n, Signal::Flushes)),
    quantity("Time flushing", "s", 3, |s, n| {
        increase(s, n, Signal::FlushTime)
    }),
    quantity("Flushed", "MiB", 3, |s, n| {
        increase(s, n, Signal::FlushedBytes).map(|bytes| bytes / MIB)
    }),
];

const INDEX: &[Quantity] = &[
    quantity("Accounts, max", "", 0, |s, n| {
        level(s, n, Signal::IndexEntries).max
    }),
    quantity("In memory, mean", "", 0, |s, n| {
        level(s, n, Signal::IndexInMemory).mean
    }),
    quantity("Memory, max", "GiB", 3, |s, n| {
        level(s, n, Signal::IndexBytes).max.map(|bytes| bytes / GIB)
    }),
    quantity("On disk, max", "GiB", 3, |s, n| {
        let [index, data] =
            [Signal::IndexDiskIndex, Signal::IndexDiskData].map(|signal| level(s, n, signal).max);
        Some((index? + data?) / GIB)
    }),
    quantity("Accesses found in memory", "%", 3, |s, n| {
        let [found, missing] =
            [Signal::IndexFound, Signal::IndexMissing].map(|signal| increase(s, n, signal));
        ratio(100.0 * found?, found? + missing?)
    }),
    quantity("Found on disk", "", 0, |s, n| {
        increase(s, n, Signal::DiskFound)
    }),
    quantity("Time of one found on disk", "µs", 3, |s, n| {
        ratio(
            1e6 * increase(s, n, Signal::DiskFoundTime)?,
            increase(s, n, Signal::DiskFound)?,
        )
    }),
    quantity("Time scanning", "s", 3, |s, n| {
        increase(s, n, Signal::IndexScanTime)
    }),
];

const JOBS: &[Quantity] = &[
    quantity("Clean", "s", 3, |s, n| increase(s, n, Signal::JobClean)),
    quantity("Shrink", "s", 3, |s, n| increase(s, n, Signal::JobShrink)),
    quantity("Squash ancient", "s", 3, |s, n| {
        increase(s, n, Signal::JobSquash)
    }),
    quantity("Flush", "s", 3, |s, n| increase(s, n, Signal::JobFlush)),
];

/// `None` if no run has data of the read cache.
pub(crate) fn section(subjects: &Subjects<'_>) -> Option<Section> {
    let known = |subject: &Subject<'_>| {
        subject
            .run
            .signal(Signal::ReadCacheHits)
            .iter()
            .flatten()
            .any(|hits| *hits > 0.0)
    };
    if !subjects.all.iter().any(known) {
        return None;
    }
    let mut blocks = read_cache(subjects);
    blocks.extend(loads_and_stores(subjects));
    Some(Section {
        id: "accounts".to_owned(),
        title: "Accounts".to_owned(),
        blocks,
    })
}

fn head<'h>(id: &'h str, title: &'h str, part: Part, note: &'h str) -> Head<'h> {
    Head {
        id,
        title,
        note,
        part,
        why: |subject| match subject.no_points() {
            "" => "not reported by this version",
            why => why,
        },
    }
}

fn read_cache(subjects: &Subjects<'_>) -> Vec<Block> {
    let note = "From accounts_db_store_timings: accounts that were not in the write cache and were looked up in the read cache. Time of \
                a lookup: of hits and misses, without the read from files that follows a miss. Account load time: load_us of \
                replay-slot-stats, summed over threads, mean over replayed slots.";
    let mut blocks = tables(
        subjects,
        &head("read-cache", "Accounts read cache", Part::Usual, note),
        READ_CACHE,
    );
    blocks.extend(tables(
        subjects,
        &head(
            "read-cache-at-tip",
            "Accounts read cache at the tip",
            Part::Steady,
            note,
        ),
        READ_CACHE,
    ));
    blocks.extend(cost_of_a_miss(subjects));
    blocks.extend(size_against_hits(subjects));
    blocks.extend(over_time(subjects));
    blocks
}

fn loads_and_stores(subjects: &Subjects<'_>) -> Vec<Block> {
    let note = "Accounts loaded by all users, from accounts_db_load_accounts (since Agave 4.1).";
    let mut blocks = tables(
        subjects,
        &head(
            "accounts-loaded",
            "Where accounts are loaded from",
            Part::Usual,
            note,
        ),
        LOADS,
    );
    let note = "Accounts of recent slots, flushed to files once they are rooted. Bytes flushed since Agave 2.3.";
    blocks.extend(tables(
        subjects,
        &head("write-cache", "Accounts write cache", Part::Usual, note),
        WRITE_CACHE,
    ));
    let note = "From accounts_index, which comes every 10 s. Memory: entries times their size as the validator estimates it, since \
                3.1 with unused capacity. What is on disk is the bucket map; without one, what is missing in memory are accounts that do \
                not exist. Accesses are lookups and stores, and since 4.1 writing through to disk, so that they do not compare between \
                runs with and without an index on disk.";
    blocks.extend(tables(
        subjects,
        &head("accounts-index", "Accounts index", Part::Usual, note),
        INDEX,
    ));
    let note = "From accounts_db_active; a job counts when it ends.";
    blocks.extend(tables(
        subjects,
        &head(
            "accounts-jobs",
            "Background jobs of the accounts",
            Part::Usual,
            note,
        ),
        JOBS,
    ));
    blocks
}

fn increase(subject: &Subject<'_>, numbers: &Numbers, signal: Signal) -> Option<f64> {
    let growth = growth(subject.run, signal, numbers.window);
    (growth.seconds > 0.0).then_some(growth.increase)
}

fn level(subject: &Subject<'_>, numbers: &Numbers, signal: Signal) -> Summary {
    summary::summary(&within(
        subject.run,
        subject.run.signal(signal),
        numbers.window,
    ))
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn per_slot(subject: &Subject<'_>, numbers: &Numbers, signal: Signal) -> Option<f64> {
    ratio(
        increase(subject, numbers, signal)?,
        replayed(subject.run, numbers.window).count() as f64,
    )
}

pub(crate) fn hit_ratio(subject: &Subject<'_>, numbers: &Numbers) -> Option<f64> {
    let hits = increase(subject, numbers, Signal::ReadCacheHits)?;
    ratio(
        100.0 * hits,
        hits + increase(subject, numbers, Signal::ReadCacheMisses)?,
    )
}

pub(crate) fn misses_per_slot(subject: &Subject<'_>, numbers: &Numbers) -> Option<f64> {
    per_slot(subject, numbers, Signal::ReadCacheMisses)
}

pub(crate) fn index_bytes(subject: &Subject<'_>, numbers: &Numbers) -> Option<f64> {
    level(subject, numbers, Signal::IndexBytes).max
}

/// In µs, summed over threads.
pub(crate) fn load_time_per_slot(subject: &Subject<'_>, numbers: &Numbers) -> Option<f64> {
    let times: Vec<Option<f64>> = replayed(subject.run, numbers.window)
        .map(|point| point.load_us.map(|us| us as f64))
        .collect();
    summary::summary(&times).mean
}

/// The arms' difference of load time per slot, divided by that of misses.
fn cost_of_a_miss(subjects: &Subjects<'_>) -> Option<Block> {
    let mean = |arm: &str, of: fn(&Subject<'_>, &Numbers) -> Option<f64>| {
        let counted = subjects.of(arm).filter(|subject| subjects.counts(subject));
        let values: Vec<Option<f64>> = counted.map(|subject| of(subject, &subject.usual)).collect();
        summary::summary(&values).mean
    };
    let (reference, others) = subjects.against(|arm| mean(arm, misses_per_slot).is_some())?;
    let mut listed = table(
        "read-cache-miss",
        "Cost of a miss of the read cache",
        &[
            ("Arms", ""),
            ("Misses per slot", ""),
            ("Load time per slot", "µs"),
            ("Load time per miss", "µs"),
        ],
        "Differences between the means of two arms, and one divided by the other. Everything else in which the arms differ is in it, too: \
         read it with the interval of the load time in the comparison.",
    );
    for other in others {
        let misses = mean(other, misses_per_slot)
            .zip(mean(reference, misses_per_slot))
            .map(|(a, b)| a - b);
        let time = mean(other, load_time_per_slot)
            .zip(mean(reference, load_time_per_slot))
            .map(|(a, b)| a - b);
        let enough = misses.filter(|misses| misses.abs() >= FEWEST_MISSES);
        let cost = time.zip(enough).map(|(time, misses)| time / misses);
        listed.rows.push(vec![
            Cell::Text(format!("{other} less {reference}")),
            number(misses, 3, "not reported"),
            number(time, 1, "not reported"),
            number(cost, 3, "less than one miss per slot apart"),
        ]);
    }
    let any = |listed: &Table| !listed.rows.is_empty();
    any(&listed).then_some(Block::Table(listed))
}

fn size_against_hits(subjects: &Subjects<'_>) -> Option<Block> {
    let of_run = |subject: &Subject<'_>| {
        let size = level(subject, &subject.usual, Signal::ReadCacheBytes)
            .mean
            .filter(|bytes| *bytes > 0.0)?;
        let point = (size, (hit_ratio(subject, &subject.usual)?, None));
        Some(Curve {
            name: subject.name.clone(),
            run: subject.id.clone(),
            points: vec![point],
            recorded: Some((size, point.1.0)),
        })
    };
    let series: Vec<Curve> = subjects.all.iter().filter_map(of_run).collect();
    let chart = Curves {
        x_label: "Mean size of the read cache".to_owned(),
        y_label: "Hit ratio (%)".to_owned(),
        unit: "B".to_owned(),
        series,
        point: String::new(),
    };
    (chart.series.len() > 1).then(|| {
        let caption = "One point for each run. Runs under other loads cannot be compared by it.";
        figure(
            "read-cache-size",
            "Hit ratio of the read cache against its size",
            caption,
            Chart::Curves(chart),
        )
    })
}

fn over_time(subjects: &Subjects<'_>) -> Vec<Block> {
    let smooth = |subject: &Subject<'_>, signal| {
        moving_average(
            &rates(subject.run, signal).per_second,
            Window::Centred(SMOOTHED),
        )
    };
    let hits = timeline(subjects, "Hit ratio (%)", "", |subject| {
        let [hits, misses] =
            [Signal::ReadCacheHits, Signal::ReadCacheMisses].map(|signal| smooth(subject, signal));
        let all = combine(&hits, &misses, |hits, misses| hits + misses);
        let ratios: Vec<Option<f64>> = hits
            .iter()
            .zip(all)
            .map(|(hits, all)| ratio(100.0 * (*hits)?, all?))
            .collect();
        vec![Trace::ticks(subject, "", &ratios)]
    });
    let sizes = timeline(subjects, "Size (GiB)", "B", |subject| {
        let trace = |name, signal| Trace::ticks(subject, name, subject.run.signal(signal));
        vec![
            trace("read cache", Signal::ReadCacheBytes),
            trace("write cache", Signal::WriteCacheBytes),
            trace("index in memory", Signal::IndexBytes),
        ]
    });
    let caption =
        "Hits by lookups, both averaged over 100 samples: the validator reports every 10 s.";
    [
        hits.map(|chart| {
            figure(
                "read-cache-over-time",
                "Hit ratio of the read cache over time",
                caption,
                chart,
            )
        }),
        sizes.map(|chart| {
            figure(
                "accounts-sizes",
                "Size of the accounts caches over time",
                "As the validator reports them.",
                chart,
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
