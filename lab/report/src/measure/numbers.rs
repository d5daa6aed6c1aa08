//! "The study" is the paper "Maxing Out the SVM" (2025): `docs/PAPER.md`.

use super::{
    Second, Span, Tps, combine, counter_incarnation, is_own_slot, point_values, points_within,
    replay_points, replay_points_with_transactions, values_within,
};
use crate::run::{OfflineReplaySlot, Run, Signal, ThreadPool};
use faultline_recording::{CacheTimesPoint, ProgramCachePoint, ReplaySlotPoint};
use faultline_stats::{
    rate::Rates,
    summary::{MeansAndPeaks, Summary, means_and_peaks, quantile_if_enough, summary},
};
use itertools::{Itertools, chain};
use std::{
    collections::HashMap,
    ops::{Add, Div, Sub},
};

/// In bytes, except for the share.
#[derive(Debug, Clone, Copy)]
pub struct MemoryGauges {
    pub rss: Summary,
    pub vsz: Summary,
    pub anon: Summary,
    pub file: Summary,
    pub shmem: Summary,
    pub swap: Summary,
    /// VSZ minus RSS: the study's measure of swap.
    pub vsz_less_rss: Summary,
    /// RSS plus VSZ: the study's total.
    pub rss_and_vsz: Summary,
    /// Memory of the cgroup, machine or NUMA nodes with the effective limit.
    pub unreclaimable: Summary,
    /// Effective limit minus unreclaimable memory.
    pub headroom: Summary,
    /// Share of the effective limit of the same tick.
    pub unreclaimable_share: Summary,
    /// Both files of the accounts index.
    pub index_on_disk: Summary,
}

#[derive(Debug, Clone, Copy)]
pub struct TpsNumbers {
    /// Seconds with data.
    pub known_seconds: usize,
    /// Known seconds without a transaction; `None` if the recording cannot tell them from unknown
    /// ones.
    pub zero_seconds: Option<usize>,
    /// Seconds without data; `None` if no transaction was recorded and nothing was counted.
    pub unknown_seconds: Option<usize>,
    /// Over the known seconds, zeros included. The study leaves out the peaks.
    pub over_known_seconds: Option<MeansAndPeaks>,
    /// Over the seconds with transactions.
    pub over_active_seconds: Option<MeansAndPeaks>,
    /// The study's samples: transactions of a slot divided by the thread time of their execution.
    pub per_thread_second: Option<MeansAndPeaks>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct CacheNumbers {
    /// Per point of `loaded-programs-cache-stats`, or per slot of an offline replay.
    pub misses: Summary,
    pub evictions: Summary,
    pub reloads: Summary,
    pub insertions: Summary,
    /// Per replayed slot with transactions, summed over threads. Only `n`, `sum` and `mean` are set
    /// for an offline replay, over all slots.
    pub time_us: Summary,
    /// The part of `time_us` that loaded programs.
    pub loading_us: Summary,
    /// `elapsed_ms` of `bank-forks_set_root`. The study's prune time is `program_cache_prune_ms`
    /// of this datapoint, which has the same value.
    pub set_root_ms: Summary,
    /// Per root with a prune. This field and the three after it need an instrumented build.
    pub prune_ms: Summary,
    pub evict_passes: Summary,
    pub evict_ms: Summary,
    pub evict_examined: Summary,
    /// Whether `time_us` includes the filtering of executables, as in versions up to 2.0.
    pub includes_filter: bool,
}

#[derive(Debug)]
pub struct WindowNumbers {
    pub window: Span,
    pub tps: TpsNumbers,
    pub gauges: MemoryGauges,
    pub major_faults: Rates,
    pub minor_faults: Rates,
    /// CPU seconds per second.
    pub cpu_cores: Option<f64>,
    pub cache: CacheNumbers,
    /// Per replayed slot in order of time.
    pub replay_ms: Vec<Option<f64>>,
    /// Slots that this node produced. No replay time includes them.
    pub own_slots: usize,
    /// At each tick of the window.
    pub slots_behind: Vec<Option<f64>>,
}

impl WindowNumbers {
    /// In ms; `None` with too few slots.
    pub fn replay_quantile(&self, p: f64) -> Option<f64> {
        quantile_if_enough(&self.replay_ms, p)
    }
}

pub fn numbers(recording: &Run, tps: &Tps, window: Span) -> WindowNumbers {
    let rates = |signal| super::signal_rates(recording, signal, window);
    let cpu_cores = [Signal::CpuUser, Signal::CpuSystem].map(|signal| rates(signal).mean());
    WindowNumbers {
        window,
        tps: tps_numbers(recording, tps, window),
        gauges: memory_gauges(recording, window),
        major_faults: rates(Signal::MajorFaults),
        minor_faults: rates(Signal::MinorFaults),
        cpu_cores: cpu_cores.into_iter().sum(),
        cache: if recording.offline_replay.slots.is_empty() {
            cache(recording, window)
        } else {
            offline_replay_cache(recording)
        },
        replay_ms: replay_ms(recording, window),
        own_slots: points_within(recording, &recording.points.replay, window)
            .filter(|point| is_own_slot(point) == Some(true))
            .count(),
        slots_behind: values_within(recording, recording.signal(Signal::Behind), window),
    }
}

fn memory_gauges(recording: &Run, window: Span) -> MemoryGauges {
    let gauge = |values| summary(&values_within(recording, values, window));
    let of_signal = |signal| gauge(recording.signal(signal));
    let rss = &super::rss(recording);
    let (limit, unreclaimable) = (
        recording.signal(Signal::Limit),
        recording.signal(Signal::Unreclaimable),
    );
    let vsz = recording.signal(Signal::Virtual);
    MemoryGauges {
        rss: gauge(rss),
        vsz: gauge(vsz),
        anon: of_signal(Signal::RssAnon),
        file: of_signal(Signal::RssFile),
        shmem: of_signal(Signal::RssShmem),
        swap: of_signal(Signal::Swap),
        vsz_less_rss: gauge(&combine(vsz, rss, f64::sub)),
        rss_and_vsz: gauge(&combine(vsz, rss, f64::add)),
        unreclaimable: gauge(unreclaimable),
        headroom: gauge(&combine(limit, unreclaimable, f64::sub)),
        unreclaimable_share: gauge(&combine(unreclaimable, limit, f64::div)),
        index_on_disk: gauge(&combine(
            recording.signal(Signal::IndexDiskIndex),
            recording.signal(Signal::IndexDiskData),
            f64::add,
        )),
    }
}

fn tps_numbers(recording: &Run, tps: &Tps, window: Span) -> TpsNumbers {
    let counts = tps.counts(window);
    let known = counts.iter().copied().filter(Option::is_some).collect_vec();
    let active = tps
        .within(window)
        .filter(|second| second.had_execution)
        .map(Second::transactions_f64)
        .collect_vec();
    let zero = known.len() - active.len();
    let unknown = counts.len() - known.len();
    let per_thread_second = replay_points(recording, window)
        .map(|point| {
            let (count, us) = (point.total_transactions?, point.execute_us?);
            (count > 0 && us > 0).then(|| count as f64 * 1e6 / us as f64)
        })
        .collect_vec();
    TpsNumbers {
        known_seconds: known.len(),
        zero_seconds: tps.distinguishes_zeros.then_some(zero),
        unknown_seconds: (tps.distinguishes_zeros || !counts.is_empty()).then_some(unknown),
        over_known_seconds: means_and_peaks(&known),
        over_active_seconds: means_and_peaks(&active),
        per_thread_second: means_and_peaks(&per_thread_second),
    }
}

fn cache(recording: &Run, window: Span) -> CacheNumbers {
    let points = &recording.points;
    let of_points = |count: fn(&ProgramCachePoint) -> Option<u64>| {
        summary(&point_values(recording, &points.cache, window, count, 1.0))
    };
    let of_cache_times = |number: fn(&CacheTimesPoint) -> Option<u64>, unit: f64| {
        summary(&point_values(
            recording,
            &points.cache_times,
            window,
            number,
            unit,
        ))
    };
    let slots = || replay_points_with_transactions(recording, window);
    let loading = |point: &ReplaySlotPoint| {
        let stages = [
            point.register_syscalls_us,
            point.load_elf_us,
            point.verify_code_us,
            point.jit_compile_us,
        ];
        stages.iter().map(|us| us.map(|us| us as f64)).sum()
    };
    let set_root = point_values(
        recording,
        &points.roots,
        window,
        |point| point.elapsed_ms,
        1.0,
    );
    CacheNumbers {
        misses: of_points(|point| point.misses),
        evictions: of_points(|point| point.evictions),
        reloads: of_points(|point| point.reloads),
        insertions: of_points(|point| point.insertions),
        time_us: summary(&cache_us_per_slot(recording, window)),
        loading_us: summary(&slots().map(loading).collect_vec()),
        set_root_ms: summary(&set_root),
        prune_ms: of_cache_times(prune_us, 1e-3),
        evict_passes: of_cache_times(|point| point.evict_passes, 1.0),
        evict_ms: of_cache_times(|point| point.evict_us, 1e-3),
        evict_examined: of_cache_times(|point| point.evict_examined, 1.0),
        includes_filter: slots()
            .next()
            .is_some_and(|point| point.filter_executable_us.is_none()),
    }
}

/// In µs; `None` for a root without a prune, as in the daemon's histogram.
pub fn prune_us(point: &CacheTimesPoint) -> Option<u64> {
    point
        .prune_us
        .filter(|_| point.prunes.is_some_and(|prunes| prunes > 0))
}

fn replay_ms(recording: &Run, window: Span) -> Vec<Option<f64>> {
    let offline_slots = &recording.offline_replay.slots;
    if !offline_slots.is_empty() {
        return offline_slots.iter().map(|slot| slot.elapsed_ms).collect();
    }
    replay_points(recording, window)
        .map(|point| point.replay_total_elapsed_us.map(|us| us as f64 / 1e3))
        .collect()
}

/// The log has counts by slot, but only a total of the time in the cache.
fn offline_replay_cache(recording: &Run) -> CacheNumbers {
    let replay = &recording.offline_replay;
    let slots = &replay.slots;
    let column = |count: fn(&OfflineReplaySlot) -> Option<u64>| {
        let counts = slots.iter().map(|slot| Some(count(slot)? as f64));
        summary(&counts.collect_vec())
    };
    let time = replay.program_cache_us.map(|us| us as f64);
    // The total includes slots that were not read.
    let timed_slots = slots.len() + replay.left_out;
    CacheNumbers {
        misses: column(|slot| slot.misses),
        evictions: column(|slot| slot.evictions),
        reloads: column(|slot| slot.reloads),
        insertions: column(|slot| slot.insertions),
        time_us: Summary {
            n: if time.is_some() { timed_slots } else { 0 },
            sum: time.unwrap_or_default(),
            mean: time.map(|us| us / timed_slots.max(1) as f64),
            ..Summary::default()
        },
        ..CacheNumbers::default()
    }
}

/// Per replayed slot with transactions, in order of time, in µs.
pub fn cache_us_per_slot(recording: &Run, window: Span) -> Vec<Option<f64>> {
    cache_us_by_time(recording, window)
        .map(|(_, us)| us)
        .collect()
}

/// [`cache_us_per_slot`], each value with the time of its datapoint.
pub fn cache_us_by_time(recording: &Run, window: Span) -> impl Iterator<Item = (f64, Option<f64>)> {
    replay_points_with_transactions(recording, window).map(|point| {
        let us = point.program_cache_us;
        (recording.at(point.time_unix_ns), us.map(|us| us as f64))
    })
}

#[derive(Debug)]
pub struct ThreadPoolUse {
    pub name: String,
    /// The most in the window, of the last process in the last session: a process that ends loses
    /// its threads first. `None` if only an earlier process had the pool.
    pub threads: Option<f64>,
    pub major: Option<f64>,
    pub minor: Option<f64>,
    /// Seconds.
    pub cpu: Option<f64>,
}

impl ThreadPoolUse {
    pub fn faults(&self) -> f64 {
        self.major.unwrap_or(0.0) + self.minor.unwrap_or(0.0)
    }
}

pub fn thread_pool_use(recording: &Run, window: Span) -> Vec<ThreadPoolUse> {
    let first_tick_indices = first_tick_indices(recording, window);
    let mut pools = recording
        .thread_pools
        .iter()
        .map(|pool| use_of_pool(recording, pool, window, &first_tick_indices))
        .collect_vec();
    pools.sort_by(|a, b| {
        b.faults()
            .total_cmp(&a.faults())
            .then_with(|| a.name.cmp(&b.name))
    });
    pools
}

/// After the first reading of the pools in the window. Each incarnation begins anew, as its counts
/// do. A pool that does not change has no later row.
pub fn thread_pool_seconds(recording: &Run, window: Span) -> f64 {
    let first_tick_indices = first_tick_indices(recording, window);
    { recording.tick_pairs().enumerate() }
        .filter_map(|(index, (before, after))| {
            let incarnation = counter_incarnation(after);
            let is_counted = *first_tick_indices.get(&incarnation)? <= index
                && counter_incarnation(before) == incarnation
                && window.includes(after.at);
            is_counted.then_some(after.at - before.at)
        })
        .sum()
}

/// The first tick with pool data in the window, by incarnation: what was counted before it may be
/// from before the window. The counters of a later pool began at zero.
fn first_tick_indices(recording: &Run, window: Span) -> HashMap<u64, usize> {
    let rows = recording.thread_pools.iter().flat_map(|pool| &pool.rows);
    let by_incarnation = rows.filter_map(|row| {
        let tick = recording.ticks.get(row.tick_index)?;
        window
            .includes(tick.at)
            .then_some((counter_incarnation(tick), row.tick_index))
    });
    by_incarnation.into_grouping_map().min()
}

fn use_of_pool(
    recording: &Run,
    pool: &ThreadPool,
    window: Span,
    first_tick_indices: &HashMap<u64, usize>,
) -> ThreadPoolUse {
    let (mut threads, mut sums) = (None, [None; 3]);
    let mut previous = None;
    // Each process writes a row of every pool that it has.
    let last_first_tick = first_tick_indices.values().max();
    for row in &pool.rows {
        let Some(tick) = recording.ticks.get(row.tick_index) else {
            continue;
        };
        let (incarnation, totals) = (
            counter_incarnation(tick),
            [row.major_faults, row.minor_faults, row.cpu_seconds],
        );
        let first_tick = first_tick_indices.get(&incarnation);
        let earlier = match previous {
            _ if first_tick == Some(&row.tick_index) => [None; 3],
            Some((previous_incarnation, totals)) if previous_incarnation == incarnation => totals,
            _ => [Some(0.0); 3],
        };
        previous = Some((incarnation, totals));
        if tick.at > window.to {
            break;
        }
        // Counters do not change until the next row of the pool.
        let earlier_threads = threads.filter(|_| tick.at >= window.from);
        let threads_now = row.threads.filter(|_| first_tick == last_first_tick);
        threads = chain!(threads_now, earlier_threads).reduce(f64::max);
        for ((sum, earlier), total) in sums.iter_mut().zip(earlier).zip(totals) {
            let Some(total) = total else { continue };
            let sum = sum.get_or_insert(0.0);
            if let Some(earlier) = earlier.filter(|one| tick.at >= window.from && total >= *one) {
                *sum = *sum + total - earlier;
            }
        }
    }
    let [major, minor, cpu] = sums;
    ThreadPoolUse {
        name: pool.name.clone(),
        threads,
        major,
        minor,
        cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{OfflineReplay, ThreadPoolRow, Tick};

    /// Tick, threads, minor faults.
    type PoolRow = (usize, f64, f64);

    /// Of one process that is read every five seconds.
    fn uses(from: f64, pools: &[(&str, &[PoolRow])]) -> Vec<ThreadPoolUse> {
        let row = |&(tick_index, threads, minor): &PoolRow| ThreadPoolRow {
            tick_index,
            threads: Some(threads),
            major_faults: Some(0.0),
            minor_faults: Some(minor),
            cpu_seconds: None,
        };
        let tick = |index| Tick {
            at: 5.0 * f64::from(index),
            process: Some(1),
            ..Tick::default()
        };
        let thread_pools = pools.iter().map(|(name, rows)| ThreadPool {
            name: (*name).to_owned(),
            rows: rows.iter().map(row).collect(),
        });
        let recording = Run {
            thread_pools: thread_pools.collect(),
            ticks: (0..4).map(tick).collect(),
            ..Run::default()
        };
        thread_pool_use(&recording, Span { from, to: 15.0 })
    }

    #[test]
    fn faults_before_the_first_reading_in_the_window_do_not_count() {
        let pools = uses(
            3.0,
            &[
                (
                    "solReplay",
                    &[(0, 1.0, 100.0), (1, 1.0, 200.0), (2, 1.0, 260.0)],
                ),
                ("appears", &[(2, 1.0, 30.0)]),
                ("unchanged at 5 s", &[(0, 1.0, 50.0), (3, 1.0, 55.0)]),
            ],
        );
        let found = pools.iter().map(|pool| pool.minor);
        assert_eq!(found.collect_vec(), [60.0, 30.0, 5.0].map(Some));
    }

    #[test]
    fn threads_are_the_most_in_the_window_also_if_the_process_ended() {
        let pools = uses(
            8.0,
            &[
                ("ends", &[(0, 4.0, 0.0), (3, 0.0, 9.0)]),
                ("shrinks", &[(0, 9.0, 0.0), (1, 4.0, 0.0), (2, 3.0, 5.0)]),
            ],
        );
        let found = pools.iter().map(|pool| pool.threads);
        assert_eq!(found.collect_vec(), [Some(4.0), Some(4.0)]);
    }

    #[test]
    fn threads_of_an_earlier_process_are_gone() {
        let tick = |(at, process)| Tick {
            at,
            session: 1,
            process: Some(process),
            ..Tick::default()
        };
        let pool = |name: &str, tick_indices: &[usize]| ThreadPool {
            name: name.to_owned(),
            rows: { tick_indices.iter() }
                .map(|tick_index| ThreadPoolRow {
                    tick_index: *tick_index,
                    threads: Some(4.0),
                    major_faults: Some(*tick_index as f64),
                    minor_faults: Some(0.0),
                    cpu_seconds: Some(0.0),
                })
                .collect(),
        };
        let recording = Run {
            ticks: [(0.0, 1), (1.0, 1), (2.0, 2)].map(tick).to_vec(),
            thread_pools: vec![pool("solReplay", &[0, 1]), pool("solRpc", &[0, 2])],
            ..Run::default()
        };
        let threads_until = |to| {
            let pools = thread_pool_use(&recording, Span { from: 0.0, to });
            pools.iter().map(|pool| pool.threads).collect_vec()
        };
        assert_eq!(threads_until(1.0), [Some(4.0), Some(4.0)]);
        assert_eq!(threads_until(2.0), [None, Some(4.0)]);
    }

    #[test]
    fn time_of_pools_goes_on_without_a_change_and_not_between_processes() {
        let tick = |second: u32| Tick {
            at: f64::from(second),
            session: i64::from(second >= 40) + 1,
            process: Some(i64::from(second >= 60)),
            ..Tick::default()
        };
        let row = |tick_index| ThreadPoolRow {
            tick_index,
            threads: Some(1.0),
            major_faults: Some(0.0),
            minor_faults: Some(tick_index as f64),
            cpu_seconds: None,
        };
        let seconds = |rows: &[usize], to| {
            let recording = Run {
                ticks: (0..100).map(tick).collect(),
                thread_pools: vec![ThreadPool {
                    name: "solReplay".to_owned(),
                    rows: rows.iter().copied().map(row).collect(),
                }],
                ..Run::default()
            };
            thread_pool_seconds(&recording, Span { from: 3.0, to })
        };
        assert_eq!(seconds(&[0, 5, 10], 20.0), 15.0);
        // Of two sessions, and of two processes.
        assert_eq!(seconds(&[5, 45, 65], 99.0), 34.0 + 14.0 + 34.0);
    }

    #[test]
    fn the_mean_cache_time_of_an_offline_replay_is_over_all_slots() {
        let recording = Run {
            offline_replay: OfflineReplay {
                slots: vec![OfflineReplaySlot::default(); 2],
                program_cache_us: Some(60),
                left_out: 1,
            },
            ..Run::default()
        };
        let time = offline_replay_cache(&recording).time_us;
        assert_eq!((time.n, time.mean), (3, Some(20.0)));
    }

    #[test]
    fn a_root_without_a_prune_has_no_prune_time() {
        let of = |prunes| {
            prune_us(&CacheTimesPoint {
                prune_us: Some(7),
                prunes,
                ..CacheTimesPoint::default()
            })
        };
        assert_eq!([Some(2), Some(0), None].map(of), [Some(7), None, None]);
    }
}
