use super::{
    Second, Span, Tps, column, points_within, replay::with_transactions, replayed, within,
};
use crate::run::{ReplayedSlot, Run, Signal};
use faultline_recording::{CacheTimesPoint, ProgramCachePoint, ReplaySlotPoint};
use faultline_stats::{
    rate::Rates,
    summary::{self, MeanWithoutPeaks, Summary},
};

/// In bytes, over the ticks of a part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

#[derive(Debug, Clone, Default, PartialEq)]
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
    /// In ms; `None` with fewer slots than [`min_values_for`](summary::min_values_for).
    pub fn replay_quantile(&self, p: f64) -> Option<f64> {
        summary::quantile_if_enough(&self.replay, p)
    }
}

pub fn numbers(run: &Run, seconds: &Tps, window: Span) -> Numbers {
    let growth = |signal| super::growth(run, signal, window);
    let cpu = [Signal::CpuUser, Signal::CpuSystem].map(|signal| growth(signal).mean());
    let points = points_within(run, &run.points.replay, window);
    Numbers {
        window,
        tps: tps(run, seconds, window),
        levels: levels(run, window),
        major: growth(Signal::Major),
        minor: growth(Signal::Minor),
        cpu: cpu[0].zip(cpu[1]).map(|(user, system)| user + system),
        cache: if run.replayed.slots.is_empty() {
            cache(run, window)
        } else {
            logged_cache(run)
        },
        replay: replay(run, window),
        own_slots: points
            .filter(|point| super::is_own(point) == Some(true))
            .count(),
        behind: within(run, run.signal(Signal::Behind), window),
    }
}

fn levels(run: &Run, window: Span) -> Levels {
    let of = |values: &[Option<f64>]| summary::summary(&within(run, values, window));
    let rss = &super::rss(run);
    let (limit, unreclaimable) = (run.signal(Signal::Limit), run.signal(Signal::Unreclaimable));
    let vsz = run.signal(Signal::Virtual);
    Levels {
        rss: of(rss),
        vsz: of(vsz),
        anon: of(run.signal(Signal::RssAnon)),
        file: of(run.signal(Signal::RssFile)),
        shmem: of(run.signal(Signal::RssShmem)),
        swap: of(run.signal(Signal::Swap)),
        vsz_less_rss: of(&super::combine(vsz, rss, |vsz, rss| vsz - rss)),
        rss_and_vsz: of(&super::combine(vsz, rss, |vsz, rss| vsz + rss)),
        unreclaimable: of(unreclaimable),
        headroom: of(&super::combine(limit, unreclaimable, |limit, used| {
            limit - used
        })),
    }
}

fn tps(run: &Run, all: &Tps, window: Span) -> TpsNumbers {
    let seconds = || all.within(window);
    let count = |second: &Second| second.count.map(|count| count as f64);
    let known: Vec<Option<f64>> = seconds().map(count).filter(Option::is_some).collect();
    let executed = seconds().filter(|second| second.executed);
    let active: Vec<Option<f64>> = executed.map(count).collect();
    let zero = known.len() - active.len();
    let unknown = seconds().count() - known.len();
    let by_thread_time: Vec<Option<f64>> = replayed(run, window).map(thread_tps).collect();
    TpsNumbers {
        known: known.len(),
        zero: all.distinguishes_zeros.then_some(zero),
        unknown: all.distinguishes_zeros.then_some(unknown),
        all_known: summary::mean_without_peaks(&known),
        active: summary::mean_without_peaks(&active),
        by_thread_time: summary::mean_without_peaks(&by_thread_time),
    }
}

fn thread_tps(point: &ReplaySlotPoint) -> Option<f64> {
    let (count, us) = (point.total_transactions?, point.execute_us?);
    (count > 0 && us > 0).then(|| count as f64 * 1e6 / us as f64)
}

fn cache(run: &Run, window: Span) -> Cache {
    let points = &run.points;
    let counted = |of: fn(&ProgramCachePoint) -> Option<u64>| {
        summary::summary(&column(run, &points.cache, window, of, 1.0))
    };
    let timed = |of: fn(&CacheTimesPoint) -> Option<u64>, unit: f64| {
        summary::summary(&column(run, &points.cache_times, window, of, unit))
    };
    let slots = || with_transactions(run, window);
    let loading = |point: &ReplaySlotPoint| {
        let stages = [
            point.register_syscalls_us,
            point.load_elf_us,
            point.verify_code_us,
            point.jit_compile_us,
        ];
        stages
            .iter()
            .map(|us| us.map(|us| us as f64))
            .sum::<Option<f64>>()
    };
    let set_root = column(run, &points.roots, window, |point| point.elapsed_ms, 1.0);
    Cache {
        misses: counted(|point| point.misses),
        evictions: counted(|point| point.evictions),
        reloads: counted(|point| point.reloads),
        insertions: counted(|point| point.insertions),
        time: summary::summary(&cache_times(run, window)),
        loading: summary::summary(&slots().map(loading).collect::<Vec<_>>()),
        set_root: summary::summary(&set_root),
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
    let column = |of: fn(&ReplayedSlot) -> Option<u64>| {
        let counts = slots.iter().map(|slot| Some(of(slot)? as f64));
        summary::summary(&counts.collect::<Vec<_>>())
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
pub fn cache_times(run: &Run, window: Span) -> Vec<Option<f64>> {
    let moments = cache_moments(run, window);
    moments.map(|(_, us)| us).collect()
}

/// [`cache_times`] with the time of each.
pub fn cache_moments(run: &Run, window: Span) -> impl Iterator<Item = (f64, Option<f64>)> {
    with_transactions(run, window).map(|point| {
        let us = point.program_cache_us;
        (run.at(point.time_unix_ns), us.map(|us| us as f64))
    })
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
