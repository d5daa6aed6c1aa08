use super::{
    Second, Span, Tps, combine, counter_id, is_own_slot, point_values, points_within,
    replay_points, values_within, with_transactions,
};
use crate::run::{OfflineReplaySlot, Pool, Run, Signal};
use faultline_recording::{CacheTimesPoint, ProgramCachePoint, ReplaySlotPoint};
use faultline_stats::{
    rate::Rates,
    summary::{MeansAndPeaks, Summary, mean_without_peaks, quantile_if_enough, summary},
};
use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
};

/// In bytes.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLevels {
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
    /// Of the level with the effective limit.
    pub unreclaimable: Summary,
    /// Effective limit minus unreclaimable memory.
    pub headroom: Summary,
}

#[derive(Debug, Clone, Copy)]
pub struct TpsNumbers {
    /// Seconds with data.
    pub known: usize,
    /// Known seconds without a transaction; `None` if the recording does not distinguish them from
    /// unknown seconds.
    pub zero: Option<usize>,
    /// Seconds without data; `None` as for `zero`.
    pub unknown: Option<usize>,
    /// Over known seconds including zeros, with and without the study's outlier rule.
    pub over_known_seconds: Option<MeansAndPeaks>,
    /// Over the seconds with transactions.
    pub active: Option<MeansAndPeaks>,
    /// The study's samples: transactions of a slot divided by the thread time of their execution.
    pub per_thread_second: Option<MeansAndPeaks>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct CacheNumbers {
    /// Per point of `loaded-programs-cache-stats`.
    pub misses: Summary,
    pub evictions: Summary,
    pub reloads: Summary,
    pub insertions: Summary,
    /// Per replayed slot with transactions, summed over threads.
    pub time_us: Summary,
    /// The part of `time_us` that loaded programs.
    pub loading_us: Summary,
    /// `elapsed_ms` of `bank-forks_set_root`. The study reports a copy of this field as prune time.
    pub set_root_ms: Summary,
    /// Per root with a prune. This field and the three after it need an instrumented build.
    pub prune_ms: Summary,
    pub evict_passes: Summary,
    pub evict_ms: Summary,
    pub evict_examined: Summary,
    /// Whether `time_us` includes the filtering of executables, as in versions up to 2.0.
    pub includes_filter: bool,
}

/// What was measured within a time window of a run.
#[derive(Debug)]
pub struct WindowNumbers {
    pub window: Span,
    pub tps: TpsNumbers,
    pub levels: MemoryLevels,
    pub major_faults: Rates,
    pub minor_faults: Rates,
    /// Cores in use: CPU seconds per second.
    pub cpu_cores: Option<f64>,
    pub cache: CacheNumbers,
    /// Per replayed slot in order of time.
    pub replay_ms: Vec<Option<f64>>,
    /// Slots produced by this node; excluded from all times.
    pub own_slots: usize,
    /// At each tick.
    pub slots_behind: Vec<Option<f64>>,
}

impl WindowNumbers {
    /// In ms; `None` with too few slots.
    pub fn replay_quantile(&self, p: f64) -> Option<f64> {
        quantile_if_enough(&self.replay_ms, p)
    }
}

pub fn numbers(run: &Run, seconds: &Tps, window: Span) -> WindowNumbers {
    let rates = |signal| super::signal_rates(run, signal, window);
    let (cpu_user, cpu_system) = (
        rates(Signal::CpuUser).mean(),
        rates(Signal::CpuSystem).mean(),
    );
    WindowNumbers {
        window,
        tps: tps(run, seconds, window),
        levels: levels(run, window),
        major_faults: rates(Signal::MajorFaults),
        minor_faults: rates(Signal::MinorFaults),
        cpu_cores: cpu_user.zip(cpu_system).map(|(user, system)| user + system),
        cache: if run.replayed.slots.is_empty() {
            cache(run, window)
        } else {
            logged_cache(run)
        },
        replay_ms: replay_ms(run, window),
        own_slots: points_within(run, &run.points.replay, window)
            .filter(|point| is_own_slot(point) == Some(true))
            .count(),
        slots_behind: values_within(run, run.signal(Signal::Behind), window),
    }
}

fn levels(run: &Run, window: Span) -> MemoryLevels {
    let level = |values: &[Option<f64>]| summary(&values_within(run, values, window));
    let of_signal = |signal| level(run.signal(signal));
    let rss = &super::rss(run);
    let (limit, unreclaimable) = (run.signal(Signal::Limit), run.signal(Signal::Unreclaimable));
    let vsz = run.signal(Signal::Virtual);
    MemoryLevels {
        rss: level(rss),
        vsz: level(vsz),
        anon: of_signal(Signal::RssAnon),
        file: of_signal(Signal::RssFile),
        shmem: of_signal(Signal::RssShmem),
        swap: of_signal(Signal::Swap),
        vsz_less_rss: level(&combine(vsz, rss, f64::sub)),
        rss_and_vsz: level(&combine(vsz, rss, f64::add)),
        unreclaimable: level(unreclaimable),
        headroom: level(&combine(limit, unreclaimable, f64::sub)),
    }
}

fn tps(run: &Run, all: &Tps, window: Span) -> TpsNumbers {
    let counts = all.counts(window);
    let known: Vec<Option<f64>> = counts.iter().copied().filter(Option::is_some).collect();
    let active: Vec<Option<f64>> = all
        .within(window)
        .filter(|second| second.had_execution)
        .map(Second::transactions)
        .collect();
    let zero = known.len() - active.len();
    let unknown = counts.len() - known.len();
    let per_thread_second: Vec<Option<f64>> = replay_points(run, window).map(thread_tps).collect();
    TpsNumbers {
        known: known.len(),
        zero: all.distinguishes_zeros.then_some(zero),
        unknown: all.distinguishes_zeros.then_some(unknown),
        over_known_seconds: mean_without_peaks(&known),
        active: mean_without_peaks(&active),
        per_thread_second: mean_without_peaks(&per_thread_second),
    }
}

fn thread_tps(point: &ReplaySlotPoint) -> Option<f64> {
    let (count, us) = (point.total_transactions?, point.execute_us?);
    (count > 0 && us > 0).then(|| count as f64 * 1e6 / us as f64)
}

fn cache(run: &Run, window: Span) -> CacheNumbers {
    let points = &run.points;
    let counted = |count: fn(&ProgramCachePoint) -> Option<u64>| {
        summary(&point_values(run, &points.cache, window, count, 1.0))
    };
    let timed = |number: fn(&CacheTimesPoint) -> Option<u64>, unit: f64| {
        summary(&point_values(
            run,
            &points.cache_times,
            window,
            number,
            unit,
        ))
    };
    let slots = || with_transactions(run, window);
    let loading = |point: &ReplaySlotPoint| -> Option<f64> {
        let stages = [
            point.register_syscalls_us,
            point.load_elf_us,
            point.verify_code_us,
            point.jit_compile_us,
        ];
        stages.iter().map(|us| us.map(|us| us as f64)).sum()
    };
    let set_root = point_values(run, &points.roots, window, |point| point.elapsed_ms, 1.0);
    CacheNumbers {
        misses: counted(|point| point.misses),
        evictions: counted(|point| point.evictions),
        reloads: counted(|point| point.reloads),
        insertions: counted(|point| point.insertions),
        time_us: summary(&cache_us_per_slot(run, window)),
        loading_us: summary(&slots().map(loading).collect::<Vec<_>>()),
        set_root_ms: summary(&set_root),
        prune_ms: timed(prune_us, 1e-3),
        evict_passes: timed(|point| point.evict_passes, 1.0),
        evict_ms: timed(|point| point.evict_us, 1e-3),
        evict_examined: timed(|point| point.evict_examined, 1.0),
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

fn replay_ms(run: &Run, window: Span) -> Vec<Option<f64>> {
    let logged = &run.replayed.slots;
    if !logged.is_empty() {
        return logged.iter().map(|slot| slot.elapsed_ms).collect();
    }
    replay_points(run, window)
        .map(|point| point.replay_total_elapsed_us.map(|us| us as f64 / 1e3))
        .collect()
}

/// A replay's log has every slot and the total time in the cache.
fn logged_cache(run: &Run) -> CacheNumbers {
    let slots = &run.replayed.slots;
    let column = |count: fn(&OfflineReplaySlot) -> Option<u64>| {
        let counts = slots.iter().map(|slot| Some(count(slot)? as f64));
        summary(&counts.collect::<Vec<_>>())
    };
    let time = run.replayed.program_cache_us.map(|us| us as f64);
    CacheNumbers {
        misses: column(|slot| slot.misses),
        evictions: column(|slot| slot.evictions),
        reloads: column(|slot| slot.reloads),
        insertions: column(|slot| slot.insertions),
        time_us: Summary {
            n: if time.is_some() { slots.len() } else { 0 },
            sum: time.unwrap_or_default(),
            mean: time.map(|us| us / slots.len().max(1) as f64),
            ..Summary::default()
        },
        ..CacheNumbers::default()
    }
}

/// Per replayed slot with transactions, in order of time, in µs.
pub fn cache_us_per_slot(run: &Run, window: Span) -> Vec<Option<f64>> {
    timed_cache_us_per_slot(run, window)
        .map(|(_, us)| us)
        .collect()
}

/// [`cache_us_per_slot`] with the times of the datapoints.
pub fn timed_cache_us_per_slot(
    run: &Run,
    window: Span,
) -> impl Iterator<Item = (f64, Option<f64>)> {
    with_transactions(run, window).map(|point| {
        let us = point.program_cache_us;
        (run.at(point.time_unix_ns), us.map(|us| us as f64))
    })
}

#[derive(Debug)]
pub struct ThreadPoolUse {
    pub name: String,
    /// At the end of the window; `None` if the pool no longer exists.
    pub threads: Option<f64>,
    pub major: Option<f64>,
    pub minor: Option<f64>,
    /// CPU seconds.
    pub cpu: Option<f64>,
}

impl ThreadPoolUse {
    pub fn faults(&self) -> f64 {
        self.major.unwrap_or(0.0) + self.minor.unwrap_or(0.0)
    }
}

pub fn thread_pool_use(run: &Run, window: Span) -> Vec<ThreadPoolUse> {
    let first_ticks = first_ticks(run);
    let mut pools: Vec<ThreadPoolUse> = run
        .pools
        .iter()
        .map(|pool| pool_growth(run, pool, window, &first_ticks))
        .collect();
    pools.sort_by(|a, b| {
        b.faults()
            .total_cmp(&a.faults())
            .then_with(|| a.name.cmp(&b.name))
    });
    pools
}

/// First tick with pool data, by process. The counters of a pool that appears later began at zero.
fn first_ticks(run: &Run) -> BTreeMap<u64, usize> {
    let mut first_ticks = BTreeMap::new();
    for row in run.pools.iter().flat_map(|pool| &pool.rows) {
        if let Some(tick) = run.ticks.get(row.tick) {
            let first = first_ticks.entry(counter_id(tick)).or_insert(row.tick);
            *first = (*first).min(row.tick);
        }
    }
    first_ticks
}

fn pool_growth(
    run: &Run,
    pool: &Pool,
    window: Span,
    first_ticks: &BTreeMap<u64, usize>,
) -> ThreadPoolUse {
    let (mut threads, mut sums) = (None, [None; 3]);
    let mut previous: Option<(u64, [Option<f64>; 3])> = None;
    for row in &pool.rows {
        let Some(tick) = run.ticks.get(row.tick) else {
            continue;
        };
        let (counter_id, totals) = (
            counter_id(tick),
            [row.major_faults, row.minor_faults, row.cpu_seconds],
        );
        let earlier = match previous {
            Some((previous_id, totals)) if previous_id == counter_id => totals,
            _ if first_ticks.get(&counter_id) == Some(&row.tick) => [None; 3],
            _ => [Some(0.0); 3],
        };
        previous = Some((counter_id, totals));
        if tick.at > window.to {
            break;
        }
        // A row is valid until the next row of the pool: the counters did not change in between.
        threads = row.threads;
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
