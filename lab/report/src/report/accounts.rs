//! The accounts caches, analysed like the program cache.

use super::{
    cells::{GIB, gib, number_or, row, table},
    faults::{averaging_window, smoothed_rates},
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Block, Chart, Curve, Curves, Section},
    section_builder::{NumberColumn, SectionBuilder},
    timeline::{line_of_signal, line_of_ticks},
};
use crate::{
    measure::{WindowNumbers, replay_points, signal_rates, values_within},
    run::Signal,
};
use faultline_stats::summary::{self, Summary};
use faultline_text::counted;
use itertools::Itertools;

/// If the misses per slot of two arms differ by less, the cost of a miss is not computed.
const MIN_MISS_DIFFERENCE: f64 = 1.0;

const MIB: f64 = 1_048_576.0;

macro_rules! increase {
    ($title:literal, $decimals:literal, $signal:ident) => {
        ($title, $decimals, |run, numbers| {
            increase(run, numbers, Signal::$signal)
        })
    };
}

/// The mean or the maximum of a gauge in a part of the run, divided by `$scale`.
macro_rules! gauge {
    ($title:literal, $decimals:literal, $signal:ident, $statistic:ident, $scale:expr) => {
        ($title, $decimals, |run, numbers| {
            gauge(run, numbers, Signal::$signal)
                .$statistic
                .map(|value| value / $scale)
        })
    };
}

const READ_CACHE: &[NumberColumn] = &[
    increase!("Hits", 0, ReadCacheHits),
    increase!("Misses", 0, ReadCacheMisses),
    ("Hit ratio [%]", 3, read_cache_hit_percent),
    increase!("Evictions", 0, ReadCacheEvictions),
    ("Misses per slot", 3, misses_per_slot),
    ("Evictions per slot", 3, |run, numbers| {
        per_slot(run, numbers, Signal::ReadCacheEvictions)
    }),
    ("Time of a lookup [µs]", 3, |run, numbers| {
        let lookups = increase(run, numbers, Signal::ReadCacheHits)?
            + increase(run, numbers, Signal::ReadCacheMisses)?;
        ratio(
            1e6 * increase(run, numbers, Signal::ReadCacheLookupTime)?,
            lookups,
        )
    }),
    gauge!("Accounts, mean", 0, ReadCacheEntries, mean, 1.0),
    gauge!("Size, mean [MiB]", 3, ReadCacheBytes, mean, MIB),
    gauge!("Size, max [MiB]", 3, ReadCacheBytes, max, MIB),
    ("Account load time per slot [µs]", 1, load_time_per_slot),
];

const LOAD_SOURCES: &[NumberColumn] = &[
    increase!("From the write cache", 0, LoadedWriteCache),
    increase!("From the read cache", 0, LoadedReadCache),
    increase!("From files", 0, LoadedStorage),
    ("Share from files [%]", 3, |run, numbers| {
        let other_sources = &[Signal::LoadedWriteCache, Signal::LoadedReadCache];
        percent_of_increases(run, numbers, Signal::LoadedStorage, other_sources)
    }),
];

const WRITE_CACHE: &[NumberColumn] = &[
    gauge!("Size, mean [MiB]", 3, WriteCacheBytes, mean, MIB),
    gauge!("Size, max [MiB]", 3, WriteCacheBytes, max, MIB),
    increase!("Flushes", 0, Flushes),
    increase!("Time flushing [s]", 3, FlushTime),
    ("Flushed [MiB]", 3, |run, numbers| {
        increase(run, numbers, Signal::FlushedBytes).map(|bytes| bytes / MIB)
    }),
];

const INDEX: &[NumberColumn] = &[
    gauge!("Accounts, max", 0, IndexEntries, max, 1.0),
    gauge!("In memory, mean", 0, IndexInMemory, mean, 1.0),
    gauge!("Memory, max [GiB]", 3, IndexBytes, max, GIB),
    ("On disk, max [GiB]", 3, |_, numbers| {
        numbers.gauges.index_on_disk.max.map(gib)
    }),
    ("Accesses found in memory [%]", 3, |run, numbers| {
        percent_of_increases(
            run,
            numbers,
            Signal::IndexFoundInMemory,
            &[Signal::IndexNotInMemory],
        )
    }),
    increase!("Found on disk", 0, DiskFound),
    ("Time of one found on disk [µs]", 3, |run, numbers| {
        ratio(
            1e6 * increase(run, numbers, Signal::DiskFoundTime)?,
            increase(run, numbers, Signal::DiskFound)?,
        )
    }),
    increase!("Time scanning [s]", 3, IndexScanTime),
];

const JOBS: &[NumberColumn] = &[
    increase!("Clean [s]", 3, JobClean),
    increase!("Shrink [s]", 3, JobShrink),
    increase!("Squash ancient [s]", 3, JobSquash),
    increase!("Flush [s]", 3, JobFlush),
];

/// `None` if no run has a hit in the read cache.
pub fn section(runs: &MeasuredRuns) -> Option<Section> {
    let mut hits = runs
        .all
        .iter()
        .flat_map(|run| run.recording.signal(Signal::ReadCacheHits));
    if !hits.any(|hits| hits.is_some_and(|hits| hits > 0.0)) {
        return None;
    }
    let mut section = SectionBuilder::new(runs, MeasuredRun::why_no_datapoints);
    let note = "From accounts_db_store_timings: accounts that were not in the write cache and were looked up in the read cache. Time of \
                a lookup: of hits and misses, without the read from files that follows a miss. Account load time: load_us of \
                replay-slot-stats, summed over threads, mean over replayed slots.";
    section.add_tables_with_tip("read-cache", "Accounts read cache", note, READ_CACHE);
    section.add(cost_of_a_miss(runs));
    let caption = "One point for each run. Compare only runs under the same load.";
    let chart = chart_size_against_hits(runs);
    section.add_figure(
        "read-cache-size",
        "Hit ratio of the read cache against its size",
        caption,
        chart,
    );
    add_timelines(&mut section);
    let note = "Accounts loaded by all users, from accounts_db_load_accounts (since Agave 4.1).";
    section.add_table(
        "accounts-loaded",
        "Where accounts are loaded from",
        note,
        LOAD_SOURCES,
    );
    let note = "Accounts of recent slots, flushed to files once they are rooted. Agave 2.3 and later report the bytes flushed.";
    section.add_table("write-cache", "Accounts write cache", note, WRITE_CACHE);
    let note = "From accounts_index, which comes every 10 s. Memory: the validator's estimate, entries times their size; since 3.1 \
                it includes unused capacity. The bucket map is the part on disk. Without a bucket map, the whole index is in memory: an \
                account that is not found there does not exist. Accesses are lookups and stores. Since 4.1, accesses include \
                write-throughs to disk, so they cannot be compared between runs with and without an index on disk.";
    section.add_table("accounts-index", "Accounts index", note, INDEX);
    let note = "From accounts_db_active; a job counts when it ends.";
    section.add_table(
        "accounts-jobs",
        "Background jobs of the accounts",
        note,
        JOBS,
    );
    Some(section.build("accounts", "Accounts"))
}

fn increase(run: &MeasuredRun, numbers: &WindowNumbers, signal: Signal) -> Option<f64> {
    signal_rates(&run.recording, signal, numbers.window).known_increase()
}

fn gauge(run: &MeasuredRun, numbers: &WindowNumbers, signal: Signal) -> Summary {
    let recording = &run.recording;
    summary::summary(&values_within(
        recording,
        recording.signal(signal),
        numbers.window,
    ))
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn per_slot(run: &MeasuredRun, numbers: &WindowNumbers, signal: Signal) -> Option<f64> {
    ratio(
        increase(run, numbers, signal)?,
        replay_points(&run.recording, numbers.window).count() as f64,
    )
}

fn percent_of_increases(
    run: &MeasuredRun,
    numbers: &WindowNumbers,
    part: Signal,
    others: &[Signal],
) -> Option<f64> {
    let part = increase(run, numbers, part)?;
    let others = others.iter().map(|signal| increase(run, numbers, *signal));
    ratio(100.0 * part, part + others.sum::<Option<f64>>()?)
}

pub fn read_cache_hit_percent(run: &MeasuredRun, numbers: &WindowNumbers) -> Option<f64> {
    let misses = &[Signal::ReadCacheMisses];
    percent_of_increases(run, numbers, Signal::ReadCacheHits, misses)
}

pub fn misses_per_slot(run: &MeasuredRun, numbers: &WindowNumbers) -> Option<f64> {
    per_slot(run, numbers, Signal::ReadCacheMisses)
}

pub fn index_bytes(run: &MeasuredRun, numbers: &WindowNumbers) -> Option<f64> {
    gauge(run, numbers, Signal::IndexBytes).max
}

/// The mean, in µs summed over threads.
pub fn load_time_per_slot(run: &MeasuredRun, numbers: &WindowNumbers) -> Option<f64> {
    let times = replay_points(&run.recording, numbers.window)
        .map(|point| point.load_us.map(|us| us as f64));
    summary::summary(&times.collect_vec()).mean
}

/// Difference of two arms' load times per slot, divided by that of their misses per slot.
fn cost_of_a_miss(runs: &MeasuredRuns) -> Option<Block> {
    let mean = |arm: &str, value: fn(&MeasuredRun, &WindowNumbers) -> Option<f64>| {
        let values = runs
            .counted_runs_of(arm)
            .map(|run| value(run, &run.since_first_transaction));
        summary::summary(&values.collect_vec()).mean
    };
    let can_be_reference = |arm: &str| mean(arm, misses_per_slot).is_some();
    let (reference, others) = runs.reference_and_others(can_be_reference)?;
    let mut table = table(
        "read-cache-miss",
        "Cost of a miss of the read cache",
        &[
            "Arms",
            "Misses per slot",
            "Load time per slot [µs]",
            "Load time per miss [µs]",
        ],
        "Differences between the means of two arms. The last column is the difference of the load time divided by the difference of \
         the misses. The quotient includes everything else in which the arms differ: read it with the interval of the load time in the \
         comparison.",
    );
    for other in others {
        let difference = |value| Some(mean(other, value)? - mean(reference, value)?);
        let (misses, time) = (difference(misses_per_slot), difference(load_time_per_slot));
        let large_difference = misses.filter(|misses| misses.abs() >= MIN_MISS_DIFFERENCE);
        let cost = time.zip(large_difference);
        let cells = [
            number_or(misses, 3, "not reported"),
            number_or(time, 1, "not reported"),
            number_or(
                cost.map(|(time, misses)| time / misses),
                3,
                "not reported, or less than one miss per slot apart",
            ),
        ];
        table
            .rows
            .push(row(&format!("{other} less {reference}"), cells));
    }
    (!table.rows.is_empty()).then_some(Block::Table(table))
}

fn chart_size_against_hits(runs: &MeasuredRuns) -> Option<Chart> {
    let series = runs.all.iter().filter_map(|run| {
        let numbers = &run.since_first_transaction;
        let size = gauge(run, numbers, Signal::ReadCacheBytes)
            .mean
            .filter(|bytes| *bytes > 0.0)?;
        let hit_percent = read_cache_hit_percent(run, numbers)?;
        Some(Curve {
            name: run.name.clone(),
            run: run.id.clone(),
            // A curve of one point, which is also its marker.
            points: vec![(size, (hit_percent, None))],
            highlight: Some((size, hit_percent)),
        })
    });
    let chart = Curves {
        x_label: "Mean size of the read cache".to_owned(),
        y_label: "Hit ratio (%)".to_owned(),
        unit: "B".to_owned(),
        series: series.collect(),
        ..Curves::default()
    };
    (chart.series.len() > 1).then_some(Chart::Curves(chart))
}

fn add_timelines(section: &mut SectionBuilder<'_>) {
    let samples = averaging_window(section.runs);
    let caption = format!(
        "Hits divided by lookups, both averaged over {}: the validator reports every 10 s.",
        counted(samples as f64, "sample")
    );
    section.add_timeline(
        "read-cache-over-time",
        "Hit ratio of the read cache over time",
        &caption,
        ("Hit ratio (%)", ""),
        |run| {
            let [hits, misses] = [Signal::ReadCacheHits, Signal::ReadCacheMisses]
                .map(|signal| smoothed_rates(run, signal, 1.0, samples));
            let ratios = hits.iter().zip(misses).map(|(hits, misses)| {
                let hits = (*hits)?;
                ratio(100.0 * hits, hits + misses?)
            });
            vec![line_of_ticks(run, "", &ratios.collect_vec())]
        },
    );
    section.add_timeline(
        "accounts-sizes",
        "Size of the accounts caches over time",
        "As the validator reports them.",
        ("Size (GiB)", "B"),
        |run| {
            vec![
                line_of_signal(run, "read cache", Signal::ReadCacheBytes),
                line_of_signal(run, "write cache", Signal::WriteCacheBytes),
                line_of_signal(run, "index in memory", Signal::IndexBytes),
            ]
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Run, Tick};
    use faultline_stats::IntervalPlan;

    #[test]
    fn the_largest_index_on_disk_is_of_one_sample() {
        let tick = |at| Tick {
            at,
            ..Tick::default()
        };
        let mut run = Run {
            ticks: [0.0, 1.0, 2.0].map(tick).to_vec(),
            signals: vec![vec![None; 3]; Signal::ALL.len()],
            ..Run::default()
        };
        let sizes = |sizes: [f64; 3]| sizes.map(|gib| Some(gib * GIB)).to_vec();
        run.signals[Signal::IndexDiskIndex as usize] = sizes([1.0, 3.0, 2.0]);
        run.signals[Signal::IndexDiskData as usize] = sizes([5.0, 1.0, 2.0]);
        let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        let mut columns = INDEX.iter();
        let on_disk = columns.find(|(title, ..)| title.starts_with("On disk"));
        let (_, _, max) = on_disk.unwrap();
        assert_eq!(max(&runs.all[0], &runs.all[0].whole_run), Some(6.0));
    }
}
