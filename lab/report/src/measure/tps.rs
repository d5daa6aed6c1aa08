use super::{
    Span,
    lifecycle::{Lifecycle, is_gap},
};
use crate::run::{Point, Run, Signal, Tick};
use faultline_agave::points::SlotPeaks;
use itertools::{Itertools, chain};
use std::collections::{BTreeMap, BTreeSet};

const SECOND_NS: i64 = 1_000_000_000;

/// The daemon waits at least this long after a second before it counts zero transactions for it.
const MIN_SETTLE_SECONDS: i64 = 3;

/// At the validator's next push, the daemon counts all seconds without datapoints as unknown: at
/// most this long after the last of them.
const MAX_SETTLE_SECONDS: i64 = 14;

/// A point further than this outside the recording has a wrong time.
const MAX_POINT_OFFSET_SECONDS: f64 = 3600.0;

/// Later seconds of a run are left out. About four months.
const MAX_RUN_SECONDS: f64 = 1e7;

#[derive(Debug, Clone, Copy)]
pub struct Second {
    /// Since the run's origin.
    pub at: f64,
    /// Seconds since 1970.
    pub unix: i64,
    /// `None` without data.
    pub transactions: Option<u64>,
    /// Whether transactions were executed. Those of a slot that is replayed again may add none to
    /// `transactions`.
    pub had_execution: bool,
}

impl Second {
    pub fn transactions_f64(&self) -> Option<f64> {
        self.transactions.map(|count| count as f64)
    }
}

#[derive(Debug)]
pub struct Tps {
    /// Seconds of each process, from its first executed transaction to its end.
    pub seconds: Vec<Second>,
    /// Whether the daemon counted zero and unknown seconds. If not, every second without a point is
    /// unknown.
    pub distinguishes_zeros: bool,
}

impl Tps {
    pub fn counts(&self, span: Span) -> Vec<Option<f64>> {
        self.within(span).map(Second::transactions_f64).collect()
    }

    pub fn within(&self, span: Span) -> impl Iterator<Item = &Second> {
        self.seconds
            .iter()
            .filter(move |second| span.includes(second.at))
    }
}

pub fn tps(recording: &Run, lifecycle: &Lifecycle) -> Tps {
    let counts = counts_by_second(recording);
    let distinguishes_zeros = recording
        .signal(Signal::ZeroTpsSeconds)
        .iter()
        .any(Option::is_some);
    let mut seconds = Vec::new();
    for (from, until) in process_spans(recording) {
        let first = counts.range(from..until).next();
        let last_known = last_known_second(recording, from, until);
        let (Some((&first, _)), Some(last_known)) = (first, last_known) else {
            continue;
        };
        let last_known = lifecycle.last_process_end.map_or(last_known, |ended| {
            // The second in which the run ended counts only with transactions.
            let end = second_of(recording, ended);
            last_known.min(end - i64::from(!counts.contains_key(&end)))
        });
        // The next push may still have been due. If it was overdue, these seconds are unknown.
        let last = recording
            .ticks
            .iter()
            .filter(|tick| tick.process.is_some() && tick.at < MAX_RUN_SECONDS)
            .map(|tick| second_of(recording, tick.at))
            .rfind(|last| *last < until && last - last_known > MAX_SETTLE_SECONDS)
            .unwrap_or(last_known);
        seconds.extend((first..=last.max(first)).map(|unix| {
            let count = counts.get(&unix).copied();
            Second {
                at: recording.at(unix * SECOND_NS),
                unix,
                transactions: count.or((unix <= last_known).then_some(0)),
                had_execution: count.is_some(),
            }
        }));
    }
    let gaps: &[Span] = if distinguishes_zeros {
        mark_unknown(recording, &mut seconds);
        &lifecycle.gaps
    } else {
        &[Span::ALWAYS]
    };
    mark_gaps(recording, gaps, &mut seconds);
    Tps {
        seconds,
        distinguishes_zeros,
    }
}

/// For Unix seconds in which transactions were executed: `transaction_count` of
/// `cost_tracker_stats`, which every frozen bank reports. Without this datapoint,
/// `total_transactions` of `replay-slot-stats`, which lacks the node's own slots.
fn counts_by_second(recording: &Run) -> BTreeMap<i64, u64> {
    let (costs, replay) = (&recording.points.costs, &recording.points.replay);
    let replay = replay
        .iter()
        .filter(|_| costs.is_empty())
        .map(|point| (point.time_unix_ns, point.slot, point.total_transactions));
    let costs = costs
        .iter()
        .map(|point| (point.time_unix_ns, point.bank_slot, point.transaction_count));
    let plausible_range = plausible_range(recording);
    let mut counts = BTreeMap::<i64, u64>::new();
    let spans = process_spans(recording);
    let mut highest_counts = vec![SlotPeaks::default(); spans.len()];
    for (time, slot, count) in costs.chain(replay) {
        let is_plausible = |count: &u64| *count > 0 && plausible_range.includes(recording.at(time));
        let Some(count) = count.filter(is_plausible) else {
            continue;
        };
        let second = time.div_euclid(SECOND_NS);
        let process = spans.partition_point(|(_, until)| *until <= second);
        let added = match (slot, highest_counts.get_mut(process)) {
            (Some(slot), Some(highest)) => highest.add(slot, count),
            _ => count,
        };
        let sum = counts.entry(second).or_default();
        *sum = sum.saturating_add(added);
    }
    counts
}

fn plausible_range(recording: &Run) -> Span {
    Span {
        from: -MAX_POINT_OFFSET_SECONDS,
        to: recording.end_seconds().min(MAX_RUN_SECONDS) + MAX_POINT_OFFSET_SECONDS,
    }
}

fn second_of(recording: &Run, at: f64) -> i64 {
    recording.steady_unix_ns(at).div_euclid(SECOND_NS)
}

/// For each process, its first Unix second, and that of the next process. The first begins and the
/// last ends without a bound.
fn process_spans(recording: &Run) -> Vec<(i64, i64)> {
    let later = recording.processes.iter().skip(1);
    let starts = later.map(|process| second_of(recording, process.first_seen_at));
    chain!([i64::MIN], starts, [i64::MAX])
        .tuple_windows()
        .collect()
}

/// The last Unix second for which anything is known, from `from` to before `until`.
fn last_known_second(recording: &Run, from: i64, until: i64) -> Option<i64> {
    let plausible_range = plausible_range(recording);
    let within = |time: &i64| {
        (from..until).contains(&time.div_euclid(SECOND_NS))
            && plausible_range.includes(recording.at(*time))
    };
    let last = point_times(recording)
        .filter(within)
        .max()?
        .div_euclid(SECOND_NS);
    let until = until.min(second_of(recording, plausible_range.to));
    counter_increases(recording, Signal::ZeroTpsSeconds)
        .into_iter()
        .map(|(second, ..)| second - MIN_SETTLE_SECONDS)
        .filter(|second| (from..until).contains(second))
        .chain([last])
        .max()
}

/// (Unix second, increase, whether a gap precedes it), without increases across
/// sessions: a new daemon counts from 0.
fn counter_increases(recording: &Run, signal: Signal) -> Vec<(i64, u64, bool)> {
    let mut increases = Vec::new();
    let mut before: Option<(&Tick, f64)> = None;
    for (tick, value) in recording.ticks.iter().zip(recording.signal(signal)) {
        let Some(value) = *value else { continue };
        if let Some((earlier, last)) = before
            && earlier.session == tick.session
            && value > last
        {
            increases.push((
                second_of(recording, tick.at),
                (value - last).round() as u64,
                is_gap(recording, earlier, tick),
            ));
        }
        before = Some((tick, value));
    }
    increases
}

/// Sets as many zero seconds to `None` as the daemon counted as unknown.
fn mark_unknown(recording: &Run, seconds: &mut [Second]) {
    let follows_clock_step = |until| {
        recording.clock_steps.iter().any(|step| {
            let passed = until - second_of(recording, step.at);
            (0..=2 * MAX_SETTLE_SECONDS).contains(&passed)
        })
    };
    for (until, unknown_seconds, is_across_gap) in
        counter_increases(recording, Signal::UnknownTpsSeconds)
    {
        // After a clock step, it is not known which seconds the increase stands for.
        if is_across_gap || follows_clock_step(until) {
            continue;
        }
        let from = until
            .saturating_sub(i64::try_from(unknown_seconds).unwrap_or(i64::MAX))
            .saturating_sub(MAX_SETTLE_SECONDS);
        let begin = seconds.partition_point(|second| second.unix < from);
        seconds[begin..]
            .iter_mut()
            .take_while(|second| second.unix <= until)
            .filter(|second| second.transactions == Some(0) && !second.had_execution)
            .take(unknown_seconds as usize)
            .for_each(|second| second.transactions = None);
    }
}

/// A second without a point is unknown if it is in a gap, or right before one: its push would have
/// arrived within the gap.
fn mark_gaps(recording: &Run, gaps: &[Span], seconds: &mut [Second]) {
    if gaps.is_empty() {
        return;
    }
    let with_points: BTreeSet<i64> = point_times(recording)
        .map(|time| time.div_euclid(SECOND_NS))
        .collect();
    for gap in gaps {
        let first = seconds.partition_point(|second| second.at < gap.from);
        let end = seconds.partition_point(|second| second.at <= gap.to);
        let settled_until = gap.from - MAX_SETTLE_SECONDS as f64;
        let before = seconds[..first].iter().rev();
        let before = before
            .take_while(|second| second.at >= settled_until && !with_points.contains(&second.unix));
        let first = first - before.count();
        for second in &mut seconds[first..end] {
            if second.transactions == Some(0) && !with_points.contains(&second.unix) {
                second.transactions = None;
            }
        }
    }
}

fn point_times(recording: &Run) -> impl Iterator<Item = i64> {
    let points = &recording.points;
    chain!(
        points.costs.iter().map(|point| point.time_unix_ns),
        points.replay.iter().map(Point::steady_unix_ns),
        points.cache.iter().map(Point::steady_unix_ns),
        points.roots.iter().map(Point::steady_unix_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        measure::{Measured, measure, numbers},
        run::Process,
    };
    use faultline_recording::CostTrackerPoint;
    use std::ops::Range;

    /// One tick and 100 transactions per second, from second 1000 on. Each process is (its ticks,
    /// its points); a tick without a process follows the last.
    fn recording(processes: &[(Range<i64>, Range<i64>)], has_counters: bool) -> Run {
        let mut run = Run {
            origin_unix_ns: 1000 * SECOND_NS,
            signals: vec![Vec::new(); Signal::ALL.len()],
            ..Run::default()
        };
        for (id, (ticks, points)) in (0..).zip(processes) {
            run.processes.push(Process {
                first_seen_at: ticks.start as f64,
                ..Process::default()
            });
            run.ticks.extend(ticks.clone().map(|at| Tick {
                at: at as f64 + 0.9,
                process: Some(id),
                ..Tick::default()
            }));
            run.points
                .costs
                .extend(points.clone().map(|at| CostTrackerPoint {
                    time_unix_ns: (1000 + at) * SECOND_NS,
                    transaction_count: Some(100),
                    ..CostTrackerPoint::default()
                }));
        }
        run.ticks.push(Tick {
            at: run.end_seconds() + 1.0,
            ..Tick::default()
        });
        for signal in [Signal::ZeroTpsSeconds, Signal::UnknownTpsSeconds] {
            run.signals[signal as usize] = vec![has_counters.then_some(0.0); run.ticks.len()];
        }
        run
    }

    /// Known, zero and unknown seconds, and the mean of the known ones.
    fn of(run: &Run) -> (usize, Option<usize>, Option<usize>, f64) {
        let Measured { tps, all, .. } = measure(run);
        let tps = numbers(run, &tps, all).tps;
        let mean = tps
            .over_known_seconds
            .map_or(0.0, |tps| tps.mean_with_peaks);
        (
            tps.known_seconds,
            tps.zero_seconds,
            tps.unknown_seconds,
            mean,
        )
    }

    #[test]
    fn seconds_after_the_last_datapoint_are_unknown_if_a_push_is_missing() {
        for (processes, unknown) in [
            // The next push may still come.
            (vec![(0..34, 0..20)], 0),
            // The process hangs, and then ends.
            (vec![(0..98, 0..20)], 78),
            (vec![(0..98, 0..20), (120..140, 120..140)], 78),
        ] {
            let mut run = recording(&processes, true);
            let known = 20 * processes.len();
            assert_eq!(of(&run), (known, Some(0), Some(unknown), 100.0));
            // The recording ends while the process runs.
            run.ticks.pop();
            assert_eq!(of(&run), (known, Some(0), Some(unknown), 100.0));
        }
    }

    #[test]
    fn without_counters_seconds_without_a_datapoint_are_in_no_average() {
        let mut run = recording(&[(0..60, 0..60)], false);
        run.points
            .costs
            .retain(|point| !(1020..1050).contains(&(point.time_unix_ns / SECOND_NS)));
        assert_eq!(of(&run), (30, None, Some(30), 100.0));
        // A bank without transactions.
        run.points.costs[5].transaction_count = Some(0);
        assert_eq!(of(&run), (30, None, Some(30), 2900.0 / 30.0));
    }
}
