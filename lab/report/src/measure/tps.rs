use super::{
    Span,
    lifecycle::{Lifecycle, is_gap},
};
use crate::run::{ClockStep, Run, Signal, Tick};
use faultline_agave::points::SlotPeaks;
use std::collections::{BTreeMap, BTreeSet};

const SECOND: i64 = 1_000_000_000;

/// The daemon counts unknown seconds at the next push, at most this many seconds later.
const MAX_SETTLE_SECONDS: i64 = 14;

/// A point this many seconds outside the recording has a wrong time.
const MAX_POINT_OFFSET: f64 = 3600.0;

/// Later seconds are left out: about four months.
const MAX_RUN_SECONDS: f64 = 1e7;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    pub at: f64,
    pub count: Option<u64>,
    /// Also by slots that were replayed again and add nothing to `count`.
    pub executed: bool,
}

/// Each process counts from its first execution on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tps {
    /// Time between a process and the first execution of the next one is left out.
    pub seconds: Vec<Second>,
    /// Whether zero and unknown seconds can be told apart; if not, all count as zero.
    pub distinguishes_zeros: bool,
}

impl Tps {
    /// The transactions of each second within a span.
    pub fn counts(&self, span: Span) -> Vec<Option<f64>> {
        self.within(span)
            .map(|second| second.count.map(|count| count as f64))
            .collect()
    }

    pub fn within(&self, span: Span) -> impl Iterator<Item = &Second> {
        self.seconds
            .iter()
            .filter(move |second| span.includes(second.at))
    }
}

pub fn tps(run: &Run, lifecycle: &Lifecycle) -> Tps {
    let counts = counts(run);
    let distinguishes_zeros = run.signal(Signal::ZeroTps).iter().any(Option::is_some);
    let mut seconds: Vec<(i64, Option<u64>)> = Vec::new();
    for (from, until) in processes(run) {
        let Some(first) = counts.range(from..until).next().map(|(&second, _)| second) else {
            continue;
        };
        let Some(last) = last_known(run, from, until) else {
            continue;
        };
        let last = lifecycle.ended.map_or(last, |ended| {
            // The second in which the run ended counts only if it has transactions.
            let end = second_of(run, ended);
            last.min(end - i64::from(!counts.contains_key(&end)))
        });
        seconds.extend(
            (first..=last.max(first))
                .map(|second| (second, Some(counts.get(&second).copied().unwrap_or(0)))),
        );
    }
    if distinguishes_zeros {
        mark_unknown(run, &counts, &mut seconds);
    }
    mark_gaps(run, &lifecycle.gaps, &mut seconds);
    let seconds = seconds
        .into_iter()
        .map(|(second, count)| Second {
            at: run.at(second * SECOND),
            count,
            executed: counts.contains_key(&second),
        })
        .collect();
    Tps {
        seconds,
        distinguishes_zeros,
    }
}

/// The transactions of each Unix second in which some were executed: `transaction_count` of
/// `cost_tracker_stats`, of every frozen bank. Without it, `total_transactions` of
/// `replay-slot-stats`, without own slots.
fn counts(run: &Run) -> BTreeMap<i64, u64> {
    let (costs, replay) = (&run.points.costs, &run.points.replay);
    let replay = replay.iter().filter(|_| costs.is_empty());
    let replay = replay.map(|point| (point.time_unix_ns, point.slot, point.total_transactions));
    let costs = costs.iter();
    let costs = costs.map(|point| (point.time_unix_ns, point.bank_slot, point.transaction_count));
    let plausible_range = plausible_range(run);
    let mut counts = BTreeMap::<i64, u64>::new();
    let mut of_processes: Vec<(i64, SlotPeaks)> = processes(run)
        .into_iter()
        .map(|(_, until)| (until, SlotPeaks::default()))
        .collect();
    for (time, slot, count) in costs.chain(replay) {
        let is_known = |count: &u64| *count > 0 && plausible_range.includes(run.at(time));
        let Some(count) = count.filter(is_known) else {
            continue;
        };
        let second = time.div_euclid(SECOND);
        let process = of_processes.partition_point(|(until, _)| *until <= second);
        let added = match (slot, of_processes.get_mut(process)) {
            (Some(slot), Some((_, peaks))) => peaks.add(slot, count),
            _ => count,
        };
        let sum = counts.entry(second).or_default();
        *sum = sum.saturating_add(added);
    }
    counts
}

fn plausible_range(run: &Run) -> Span {
    Span {
        from: -MAX_POINT_OFFSET,
        to: run.end().min(MAX_RUN_SECONDS) + MAX_POINT_OFFSET,
    }
}

fn second_of(run: &Run, at: f64) -> i64 {
    run.origin_unix_ns
        .saturating_add((at * 1e9) as i64)
        .div_euclid(SECOND)
}

fn processes(run: &Run) -> Vec<(i64, i64)> {
    let mut starts: Vec<i64> = run
        .processes
        .iter()
        .skip(1)
        .map(|process| second_of(run, process.seen))
        .collect();
    starts.insert(0, i64::MIN);
    let ends = starts.iter().skip(1).copied().chain([i64::MAX]);
    starts.iter().copied().zip(ends).collect()
}

/// The last Unix second of which anything is known, for the process of `from` to `until`.
fn last_known(run: &Run, from: i64, until: i64) -> Option<i64> {
    let plausible_range = plausible_range(run);
    let within = |time: &i64| {
        let second = time.div_euclid(SECOND);
        second >= from && second < until && plausible_range.includes(run.at(*time))
    };
    let last = times(run).filter(within).max()?.div_euclid(SECOND);
    let decided_seconds = counter_increases(run, Signal::ZeroTps)
        .into_iter()
        .map(|(second, ..)| second - 3);
    let latest = second_of(run, plausible_range.to);
    Some(
        decided_seconds
            .filter(|&second| second >= from && second < until.min(latest))
            .max()
            .map_or(last, |second| second.max(last)),
    )
}

/// Unix second, increase, and whether across a gap. Steps across sessions are left out.
fn counter_increases(run: &Run, signal: Signal) -> Vec<(i64, u64, bool)> {
    let mut increases = Vec::new();
    let mut before: Option<(&Tick, f64)> = None;
    for (tick, value) in run.ticks.iter().zip(run.signal(signal)) {
        let Some(value) = *value else { continue };
        if let Some((earlier, last)) = before
            && earlier.session == tick.session
            && value > last
        {
            increases.push((
                second_of(run, tick.at),
                (value - last).round() as u64,
                is_gap(run, earlier, tick),
            ));
        }
        before = Some((tick, value));
    }
    increases
}

/// Marks as many seconds without data as the daemon counted.
fn mark_unknown(run: &Run, counts: &BTreeMap<i64, u64>, seconds: &mut [(i64, Option<u64>)]) {
    // Growth after a clock step belongs to no known time.
    let follows_clock_step = |until: i64| {
        let after = |step: &ClockStep| until - second_of(run, step.at);
        run.clock_steps
            .iter()
            .any(|step| (0..=2 * MAX_SETTLE_SECONDS).contains(&after(step)))
    };
    let grown = counter_increases(run, Signal::UnknownTps)
        .into_iter()
        .filter(|(until, _, across)| !across && !follows_clock_step(*until));
    for (until, count, _) in grown {
        let from = until
            .saturating_sub(i64::try_from(count).unwrap_or(i64::MAX))
            .saturating_sub(MAX_SETTLE_SECONDS);
        let begin = seconds.partition_point(|(second, _)| *second < from);
        let empty = seconds[begin..]
            .iter_mut()
            .take_while(|(second, _)| *second <= until);
        for (_, known) in empty
            .filter(|(second, known)| *known == Some(0) && !counts.contains_key(second))
            .take(count as usize)
        {
            *known = None;
        }
    }
}

/// Seconds in a gap are unknown unless they have a point. So are the seconds right before it, whose
/// push would have arrived within it.
fn mark_gaps(run: &Run, gaps: &[Span], seconds: &mut [(i64, Option<u64>)]) {
    if gaps.is_empty() {
        return;
    }
    let seen: BTreeSet<i64> = times(run).map(|time| time.div_euclid(SECOND)).collect();
    let at = |second: i64| run.at(second.saturating_mul(SECOND));
    for gap in gaps {
        let first = seconds.partition_point(|(second, _)| at(*second) < gap.from);
        let end = seconds.partition_point(|(second, _)| at(*second) <= gap.to);
        let settled = gap.from - MAX_SETTLE_SECONDS as f64;
        let before = seconds[..first].iter().rev();
        let before =
            before.take_while(|(second, _)| at(*second) >= settled && !seen.contains(second));
        let first = first - before.count();
        for (second, known) in &mut seconds[first..end] {
            if *known == Some(0) && !seen.contains(second) {
                *known = None;
            }
        }
    }
}

fn times(run: &Run) -> impl Iterator<Item = i64> {
    let points = &run.points;
    (points.costs.iter().map(|point| point.time_unix_ns))
        .chain(points.replay.iter().map(|point| point.time_unix_ns))
        .chain(points.cache.iter().map(|point| point.time_unix_ns))
        .chain(points.roots.iter().map(|point| point.time_unix_ns))
}
