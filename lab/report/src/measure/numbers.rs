use super::{
    Second, Span, Tps, column, combine, counter_id, is_own, points_within, replayed,
    with_transactions, within,
};
use crate::run::{Pool, ReplayedSlot, Run, Signal};
use faultline_recording::{CacheTimesPoint, ProgramCachePoint, ReplaySlotPoint};
use faultline_stats::{
    rate::Rates,
    summary::{MeanWithoutPeaks, Summary, mean_without_peaks, quantile_if_enough, summary},
};
use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
};

/// In bytes.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
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
    /// Known seconds without a transaction; `None` if they cannot be told from unknown ones.
    pub zero: Option<usize>,
    /// Seconds without data; `None` as for `zero`.
    pub unknown: Option<usize>,
    /// Over known seconds including zeros, with and without the study's outlier rule.
    pub all_known: Option<MeanWithoutPeaks>,
    /// Over the seconds with transactions.
    pub active: Option<MeanWithoutPeaks>,
    /// The study's samples: transactions of a slot by the thread time of its execution.
    pub by_thread_time: Option<MeanWithoutPeaks>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Cache {
    /// Per point of `loaded-programs-cache-stats`.
    pub misses: Summary,
    pub evictions: Summary,
    pub reloads: Summary,
    pub insertions: Summary,
    /// Per replayed slot with transactions, in µs, summed over threads.
    pub time: Summary,
    /// The part of `time` that loaded programs, in µs.
    pub loading: Summary,
    /// `elapsed_ms` of `bank-forks_set_root`, which the study's prune time repeats; in ms.
    pub set_root: Summary,
    /// Per root with a prune, in ms. This and the fields below need an instrumented build.
    pub prune: Summary,
    pub evict_passes: Summary,
    pub evict: Summary,
    pub evict_examined: Summary,
    /// The time includes the filtering of executables, as up to 2.0.
    pub with_filter: bool,
}

#[derive(Debug)]
pub struct Numbers {
    pub window: Span,
    pub tps: TpsNumbers,
    pub levels: Levels,
    pub major: Rates,
    pub minor: Rates,
    /// Cores in use: CPU seconds per second.
    pub cpu: Option<f64>,
    pub cache: Cache,
    /// Per replayed slot in order of time, in ms.
    pub replay: Vec<Option<f64>>,
    /// Slots produced by this node; excluded from all times.
    pub own_slots: usize,
    /// Slots behind the tip, at each tick.
    pub behind: Vec<Option<f64>>,
}

impl Numbers {
    /// In ms; `None` with too few slots.
    pub fn replay_quantile(&self, p: f64) -> Option<f64> {
        quantile_if_enough(&self.replay, p)
    }
}

pub fn numbers(run: &Run, seconds: &Tps, window: Span) -> Numbers {
    let growth = |signal| super::growth(run, signal, window);
    let (cpu_user, cpu_system) = (
        growth(Signal::CpuUser).mean(),
        growth(Signal::CpuSystem).mean(),
    );
    Numbers {
        window,
        tps: tps(run, seconds, window),
        levels: levels(run, window),
        major: growth(Signal::Major),
        minor: growth(Signal::Minor),
        cpu: cpu_user.zip(cpu_system).map(|(user, system)| user + system),
        cache: if run.replayed.slots.is_empty() {
            cache(run, window)
        } else {
            logged_cache(run)
        },
        replay: replay(run, window),
        own_slots: points_within(run, &run.points.replay, window)
            .filter(|point| is_own(point) == Some(true))
            .count(),
        behind: within(run, run.signal(Signal::Behind), window),
    }
}

fn levels(run: &Run, window: Span) -> Levels {
    let level = |values: &[Option<f64>]| summary(&within(run, values, window));
    let of_signal = |signal| level(run.signal(signal));
    let rss = &super::rss(run);
    let (limit, unreclaimable) = (run.signal(Signal::Limit), run.signal(Signal::Unreclaimable));
    let vsz = run.signal(Signal::Virtual);
    Levels {
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
    let by_thread_time: Vec<Option<f64>> = replayed(run, window).map(thread_tps).collect();
    TpsNumbers {
        known: known.len(),
        zero: all.distinguishes_zeros.then_some(zero),
        unknown: all.distinguishes_zeros.then_some(unknown),
        all_known: mean_without_peaks(&known),
        active: mean_without_peaks(&active),
        by_thread_time: mean_without_peaks(&by_thread_time),
    }
}

fn thread_tps(point: &ReplaySlotPoint) -> Option<f64> {
    let (count, us) = (point.total_transactions?, point.execute_us?);
    (count > 0 && us > 0).then(|| count as f64 * 1e6 / us as f64)
}

fn cache(run: &Run, window: Span) -> Cache {
    let points = &run.points;
    let counted = |count: fn(&ProgramCachePoint) -> Option<u64>| {
        summary(&column(run, &points.cache, window, count, 1.0))
    };
    let timed = |number: fn(&CacheTimesPoint) -> Option<u64>, unit: f64| {
        summary(&column(run, &points.cache_times, window, number, unit))
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
    let set_root = column(run, &points.roots, window, |point| point.elapsed_ms, 1.0);
    Cache {
        misses: counted(|point| point.misses),
        evictions: counted(|point| point.evictions),
        reloads: counted(|point| point.reloads),
        insertions: counted(|point| point.insertions),
        time: summary(&cache_us_per_slot(run, window)),
        loading: summary(&slots().map(loading).collect::<Vec<_>>()),
        set_root: summary(&set_root),
        prune: timed(prune_us, 1e-3),
        evict_passes: timed(|point| point.evict_passes, 1.0),
        evict: timed(|point| point.evict_us, 1e-3),
        evict_examined: timed(|point| point.evict_examined, 1.0),
        with_filter: slots()
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

fn replay(run: &Run, window: Span) -> Vec<Option<f64>> {
    let logged = &run.replayed.slots;
    if !logged.is_empty() {
        return logged.iter().map(|slot| slot.elapsed_ms).collect();
    }
    replayed(run, window)
        .map(|point| point.replay_total_elapsed_us.map(|us| us as f64 / 1e3))
        .collect()
}

/// A replay's log has every slot and the total time in the cache.
fn logged_cache(run: &Run) -> Cache {
    let slots = &run.replayed.slots;
    let column = |count: fn(&ReplayedSlot) -> Option<u64>| {
        let counts = slots.iter().map(|slot| Some(count(slot)? as f64));
        summary(&counts.collect::<Vec<_>>())
    };
    let time = run.replayed.program_cache_us.map(|us| us as f64);
    Cache {
        misses: column(|slot| slot.misses),
        evictions: column(|slot| slot.evictions),
        reloads: column(|slot| slot.reloads),
        insertions: column(|slot| slot.insertions),
        time: Summary {
            n: if time.is_some() { slots.len() } else { 0 },
            sum: time.unwrap_or_default(),
            mean: time.map(|us| us / slots.len().max(1) as f64),
            ..Summary::default()
        },
        ..Cache::default()
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
pub struct PoolFaults {
    pub name: String,
    /// At the end; `None` if the pool is gone by then.
    pub threads: Option<f64>,
    pub major: Option<f64>,
    pub minor: Option<f64>,
    /// CPU seconds.
    pub cpu: Option<f64>,
}

impl PoolFaults {
    pub fn faults(&self) -> f64 {
        self.major.unwrap_or(0.0) + self.minor.unwrap_or(0.0)
    }
}

pub fn pool_faults(run: &Run, window: Span) -> Vec<PoolFaults> {
    let first_ticks = first_ticks(run);
    let mut pools: Vec<PoolFaults> = run
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

/// First tick of each process with pool data; a pool that appears later began at zero.
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
) -> PoolFaults {
    let (mut threads, mut sums) = (None, [None; 3]);
    let mut previous: Option<(u64, [Option<f64>; 3])> = None;
    for row in &pool.rows {
        let Some(tick) = run.ticks.get(row.tick) else {
            continue;
        };
        let (counter_id, totals) = (counter_id(tick), [row.major, row.minor, row.cpu]);
        let earlier = match previous {
            Some((previous_id, totals)) if previous_id == counter_id => totals,
            _ if first_ticks.get(&counter_id) == Some(&row.tick) => [None; 3],
            _ => [Some(0.0); 3],
        };
        previous = Some((counter_id, totals));
        if tick.at > window.to {
            break;
        }
        // A row holds until the next one: a pool without a new row gained nothing.
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
    PoolFaults {
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
