use super::{
    Span,
    lifecycle::{Lifecycle, is_gap},
};
use crate::run::{Point, Run, Signal, Tick};
use faultline_agave::points::SlotPeaks;
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

const SECOND_NS: i64 = 1_000_000_000;

/// The daemon counts a second as zero no earlier than this many seconds later.
const MIN_SETTLE_SECONDS: i64 = 3;

/// The daemon counts a second as unknown at the next push, at most this many seconds later.
const MAX_SETTLE_SECONDS: i64 = 14;

/// A point this many seconds outside the recording has a wrong time.
const MAX_POINT_OFFSET_SECONDS: f64 = 3600.0;

/// Later seconds are left out: about four months.
const MAX_RUN_SECONDS: f64 = 1e7;

#[derive(Debug, Clone, Copy)]
pub struct Second {
    /// Since the run's origin.
    pub at: f64,
    /// Seconds since 1970.
    pub unix: i64,
    /// Transactions; `None` without data.
    pub count: Option<u64>,
    /// Whether transactions were executed. A slot that is replayed again may add none to `count`.
    pub had_execution: bool,
}

impl Second {
    pub fn transactions(&self) -> Option<f64> {
        self.count.map(|count| count as f64)
    }
}

/// Transactions by second. The seconds of each process begin with its first execution.
#[derive(Debug)]
pub struct Tps {
    /// Seconds between the end of a process and the first execution of the next one are left out.
    pub seconds: Vec<Second>,
    /// Whether the recording distinguishes zero and unknown seconds. If not, all count as zero.
    pub distinguishes_zeros: bool,
}

impl Tps {
    pub fn counts(&self, span: Span) -> Vec<Option<f64>> {
        self.within(span).map(Second::transactions).collect()
    }

    pub fn within(&self, span: Span) -> impl Iterator<Item = &Second> {
        self.seconds
            .iter()
            .filter(move |second| span.includes(second.at))
    }
}

pub fn tps(run: &Run, lifecycle: &Lifecycle) -> Tps {
    let counts = counts_by_second(run);
    let distinguishes_zeros = run
        .signal(Signal::ZeroTpsSeconds)
        .iter()
        .any(Option::is_some);
    let mut seconds: Vec<Second> = Vec::new();
    for (from, until) in process_spans(run) {
        let Some(first) = counts.range(from..until).next().map(|(&second, _)| second) else {
            continue;
        };
        let Some(last) = last_known_second(run, from, until) else {
            continue;
        };
        let last = lifecycle.last_process_end.map_or(last, |ended| {
            // The second in which the run ended counts only if it has transactions.
            let end = second_of(run, ended);
            last.min(end - i64::from(!counts.contains_key(&end)))
        });
        seconds.extend((first..=last.max(first)).map(|unix| {
            let count = counts.get(&unix).copied();
            Second {
                at: run.at(unix * SECOND_NS),
                unix,
                count: count.or(Some(0)),
                had_execution: count.is_some(),
            }
        }));
    }
    if distinguishes_zeros {
        mark_unknown(run, &mut seconds);
    }
    mark_gaps(run, &lifecycle.gaps, &mut seconds);
    Tps {
        seconds,
        distinguishes_zeros,
    }
}

/// The transactions of each Unix second in which some were executed. They are `transaction_count`
/// of `cost_tracker_stats`, which every frozen bank reports. If this datapoint is missing, they are
/// `total_transactions` of `replay-slot-stats`, which lacks the node's own slots.
fn counts_by_second(run: &Run) -> BTreeMap<i64, u64> {
    let (costs, replay) = (&run.points.costs, &run.points.replay);
    let replay = replay
        .iter()
        .filter(|_| costs.is_empty())
        .map(|point| (point.time_unix_ns, point.slot, point.total_transactions));
    let costs = costs
        .iter()
        .map(|point| (point.time_unix_ns, point.bank_slot, point.transaction_count));
    let plausible_range = plausible_range(run);
    let mut counts = BTreeMap::<i64, u64>::new();
    let spans = process_spans(run);
    let mut peaks = vec![SlotPeaks::default(); spans.len()];
    for (time, slot, count) in costs.chain(replay) {
        let is_known = |count: &u64| *count > 0 && plausible_range.includes(run.at(time));
        let Some(count) = count.filter(is_known) else {
            continue;
        };
        let second = time.div_euclid(SECOND_NS);
        let process = spans.partition_point(|(_, until)| *until <= second);
        let added = match (slot, peaks.get_mut(process)) {
            (Some(slot), Some(peaks)) => peaks.add(slot, count),
            _ => count,
        };
        let sum = counts.entry(second).or_default();
        *sum = sum.saturating_add(added);
    }
    counts
}

fn plausible_range(run: &Run) -> Span {
    Span {
        from: -MAX_POINT_OFFSET_SECONDS,
        to: run.end_seconds().min(MAX_RUN_SECONDS) + MAX_POINT_OFFSET_SECONDS,
    }
}

fn second_of(run: &Run, at: f64) -> i64 {
    run.origin_unix_ns
        .saturating_add((at * 1e9) as i64)
        .div_euclid(SECOND_NS)
}

/// For each process, the first Unix second, and the first second of the next process.
fn process_spans(run: &Run) -> Vec<(i64, i64)> {
    let later = run.processes.iter().skip(1);
    let starts = later.map(|process| second_of(run, process.first_seen_at));
    std::iter::once(i64::MIN)
        .chain(starts)
        .chain([i64::MAX])
        .tuple_windows()
        .collect()
}

/// The last Unix second from `from` to before `until` for which anything is known.
fn last_known_second(run: &Run, from: i64, until: i64) -> Option<i64> {
    let plausible_range = plausible_range(run);
    let within = |time: &i64| {
        (from..until).contains(&time.div_euclid(SECOND_NS))
            && plausible_range.includes(run.at(*time))
    };
    let last = point_times(run).filter(within).max()?.div_euclid(SECOND_NS);
    let until = until.min(second_of(run, plausible_range.to));
    counter_increases(run, Signal::ZeroTpsSeconds)
        .into_iter()
        .map(|(second, ..)| second - MIN_SETTLE_SECONDS)
        .filter(|second| (from..until).contains(second))
        .chain([last])
        .max()
}

/// (Unix second, increase, whether across a gap). Increases across sessions are left out.
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
fn mark_unknown(run: &Run, seconds: &mut [Second]) {
    let follows_clock_step = |until: i64| {
        run.clock_steps.iter().any(|step| {
            let passed = until - second_of(run, step.at);
            (0..=2 * MAX_SETTLE_SECONDS).contains(&passed)
        })
    };
    for (until, count, is_across_gap) in counter_increases(run, Signal::UnknownTpsSeconds) {
        // After a clock step, it is not known which seconds the growth counts.
        if is_across_gap || follows_clock_step(until) {
            continue;
        }
        let from = until
            .saturating_sub(i64::try_from(count).unwrap_or(i64::MAX))
            .saturating_sub(MAX_SETTLE_SECONDS);
        let begin = seconds.partition_point(|second| second.unix < from);
        seconds[begin..]
            .iter_mut()
            .take_while(|second| second.unix <= until)
            .filter(|second| second.count == Some(0) && !second.had_execution)
            .take(count as usize)
            .for_each(|second| second.count = None);
    }
}

/// Seconds in a gap are unknown unless they have a point. The seconds right before a gap are
/// unknown, too, because their push would have arrived within the gap.
fn mark_gaps(run: &Run, gaps: &[Span], seconds: &mut [Second]) {
    if gaps.is_empty() {
        return;
    }
    let with_points: BTreeSet<i64> = point_times(run)
        .map(|time| time.div_euclid(SECOND_NS))
        .collect();
    for gap in gaps {
        let first = seconds.partition_point(|second| second.at < gap.from);
        let end = seconds.partition_point(|second| second.at <= gap.to);
        let settled = gap.from - MAX_SETTLE_SECONDS as f64;
        let before = seconds[..first].iter().rev();
        let before =
            before.take_while(|second| second.at >= settled && !with_points.contains(&second.unix));
        let first = first - before.count();
        for second in &mut seconds[first..end] {
            if second.count == Some(0) && !with_points.contains(&second.unix) {
                second.count = None;
            }
        }
    }
}

fn point_times(run: &Run) -> impl Iterator<Item = i64> {
    let points = &run.points;
    (points.costs.iter().map(|point| point.time_unix_ns))
        .chain(points.replay.iter().map(Point::time_unix_ns))
        .chain(points.cache.iter().map(Point::time_unix_ns))
        .chain(points.roots.iter().map(Point::time_unix_ns))
}
