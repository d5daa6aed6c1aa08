//! One time axis for a recording, even if the wall clock was set.
//!
//! Within a session, the axis is the daemon's monotonic clock (`uptime`). Between sessions, it is
//! the wall clock minus all steps so far. Datapoints are not moved to the axis: their Unix times are
//! converted to those of a wall clock without steps.

use super::{ClockStep, Points};
use faultline_recording::{Cell, Error, Recording, SessionRow, TickRow};
use itertools::Itertools;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The clocks are read one after the other, so a smaller difference is no step.
const MIN_STEP_NS: u64 = 1_000_000_000;

/// Datapoints may be this old when they are written: a push has datapoints of several seconds, and
/// a busy daemon writes late.
const MAX_POINT_AGE_NS: i64 = 15_000_000_000;

pub struct TimeAxis {
    pub origin_unix_ns: i64,
    /// By session. Uptime plus offset is the Unix time of a wall clock without steps.
    offsets: BTreeMap<i64, i64>,
    periods: Vec<ClockPeriod>,
}

/// Consecutive ticks without a step of the wall clock.
struct ClockPeriod {
    /// First and last tick, on the axis.
    from_ns: i64,
    to_ns: i64,
    /// Sum of the wall clock's steps up to this period.
    wall_ahead_ns: i64,
}

impl TimeAxis {
    pub fn new(sessions: &[SessionRow], ticks: &[TickRow]) -> Self {
        let started = sessions.first().map(|session| nanoseconds(session.started));
        let first_tick = ticks.first().map(|tick| tick.unix_ns);
        let mut axis = Self {
            origin_unix_ns: first_tick.or(started).unwrap_or(0),
            offsets: BTreeMap::new(),
            periods: Vec::new(),
        };
        let wall_minus_uptime = |tick: &TickRow| tick.unix_ns.saturating_sub(tick.uptime_ns);
        for (index, tick) in ticks.iter().enumerate() {
            let last = axis.periods.last();
            let last_ahead_ns = last.map_or(0, |period| period.wall_ahead_ns);
            let offset = wall_minus_uptime(tick);
            let session_offset = *axis
                .offsets
                .entry(tick.session)
                .or_insert(offset.saturating_sub(last_ahead_ns));
            let axis_ns = axis.axis_nanoseconds(tick.session, tick.uptime_ns, tick.unix_ns);
            let wall_ahead_ns = offset.saturating_sub(session_offset);
            // If a single tick deviates, the daemon was delayed between reading the two clocks.
            let is_lasting = ticks.get(index + 1).is_none_or(|next| {
                next.session != tick.session
                    || wall_minus_uptime(next).abs_diff(offset) < MIN_STEP_NS
            });
            match axis.periods.last_mut() {
                Some(last)
                    if wall_ahead_ns.abs_diff(last.wall_ahead_ns) < MIN_STEP_NS || !is_lasting =>
                {
                    last.to_ns = axis_ns
                }
                _ => axis.periods.push(ClockPeriod {
                    from_ns: axis_ns,
                    to_ns: axis_ns,
                    wall_ahead_ns,
                }),
            }
        }
        axis
    }

    /// In a session without ticks, the result comes from the wall clock.
    fn axis_nanoseconds(&self, session: i64, uptime_ns: i64, unix_ns: i64) -> i64 {
        self.offsets
            .get(&session)
            .map_or(unix_ns, |offset| offset.saturating_add(uptime_ns))
            .saturating_sub(self.origin_unix_ns)
    }

    pub fn axis_seconds(&self, session: i64, uptime_ns: i64, unix_ns: i64) -> f64 {
        self.axis_nanoseconds(session, uptime_ns, unix_ns) as f64 / 1e9
    }

    pub fn steps(&self) -> Vec<ClockStep> {
        let step = |(before, after): (&ClockPeriod, &ClockPeriod)| ClockStep {
            at: after.from_ns as f64 / 1e9,
            seconds: after.wall_ahead_ns.saturating_sub(before.wall_ahead_ns) as f64 / 1e9,
        };
        self.periods.iter().tuple_windows().map(step).collect()
    }

    /// The time without steps of the wall clock. A time occurs twice if the clock stepped back:
    /// then `written_at`, the axis time of the write, decides.
    pub fn without_clock_steps(&self, unix_ns: i64, written_at: Option<i64>) -> i64 {
        let distance = |period: &&ClockPeriod| {
            let axis_ns = unix_ns
                .saturating_sub(period.wall_ahead_ns)
                .saturating_sub(self.origin_unix_ns);
            // The end needs the tolerance, too: the clock steps between two ticks, so a point can be
            // later than the last tick before the step.
            let beyond_tolerance_ns = period
                .from_ns
                .saturating_sub(axis_ns)
                .max(axis_ns.saturating_sub(period.to_ns))
                .saturating_sub(MAX_POINT_AGE_NS)
                .max(0);
            let from_writing = written_at.map_or(0, |written_at| axis_ns.abs_diff(written_at));
            (beyond_tolerance_ns, from_writing)
        };
        let best = self.periods.iter().min_by_key(distance);
        unix_ns.saturating_sub(best.map_or(0, |period| period.wall_ahead_ns))
    }

    /// Datapoints with their times converted, in order of time.
    pub fn points(&self, recording: &Recording, ticks: &[TickRow]) -> Result<Points, Error> {
        let mut points = Points {
            cache: recording.program_cache_points()?,
            replay: recording.replay_slot_points()?,
            roots: recording.set_root_points()?,
            cache_times: recording.cache_times_points()?,
            costs: recording.cost_tracker_points()?,
        };
        if self.periods.len() < 2 {
            return Ok(points);
        }
        let tick_times = ticks
            .iter()
            .map(|row| {
                (
                    row.id,
                    self.axis_nanoseconds(row.session, row.uptime_ns, row.unix_ns),
                )
            })
            .collect();
        macro_rules! remove_clock_steps {
            ($points:expr, $table:literal) => {
                let write_times = write_times(recording, $table, &tick_times)?;
                for (point, written_at) in $points.iter_mut().zip(write_times) {
                    point.time_unix_ns = self.without_clock_steps(point.time_unix_ns, written_at);
                }
                $points.sort_by_key(|point| point.time_unix_ns);
            };
        }
        remove_clock_steps!(points.cache, "program_cache_point");
        remove_clock_steps!(points.replay, "replay_slot_point");
        remove_clock_steps!(points.roots, "set_root_point");
        remove_clock_steps!(points.cache_times, "cache_times_point");
        remove_clock_steps!(points.costs, "cost_tracker_point");
        Ok(points)
    }
}

/// In nanoseconds of the axis, in the order of the points' timestamps.
fn write_times(
    recording: &Recording,
    table: &str,
    tick_times: &HashMap<i64, i64>,
) -> Result<impl Iterator<Item = Option<i64>>, Error> {
    const CHUNK_ROWS: usize = 4096;
    let mut rows = Vec::new();
    recording.rows(table, CHUNK_ROWS, |chunk| {
        rows.extend(chunk.iter().filter_map(|row| match row.as_slice() {
            [_, Cell::Integer(tick), Cell::Integer(time), ..] => {
                Some((*time, tick_times.get(tick).copied()))
            }
            [_, _, Cell::Integer(time), ..] => Some((*time, None)),
            _ => None,
        }));
        Ok::<(), Error>(())
    })?;
    rows.sort_by_key(|(time, _)| *time);
    Ok(rows.into_iter().map(|(_, written_at)| written_at))
}

pub fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
