//! One time axis for a recording, even if the wall clock was set.
//!
//! Within a session it is the daemon's monotonic clock; between sessions the wall clock minus all
//! steps so far. Times of points are converted to the clock before its first step.

use super::ClockStep;
use faultline_recording::{SessionRow, TickRow};
use itertools::Itertools;
use std::{collections::BTreeMap, time::Duration};

/// In nanoseconds. The clocks are read one after the other, so a smaller difference is no step.
const MIN_STEP_NS: i64 = 1_000_000_000;

/// In nanoseconds. Points may be this old when they are written: a push has points of some seconds,
/// and a busy daemon writes late.
const MAX_POINT_AGE_NS: i64 = 15_000_000_000;

pub struct Clock {
    pub origin: i64,
    /// By session. Uptime plus offset is Unix time by the clock before its first step.
    offsets: BTreeMap<i64, i64>,
    periods: Vec<ClockPeriod>,
}

#[derive(Debug, Clone, Copy)]
struct ClockPeriod {
    /// First and last tick, in nanoseconds of the axis.
    from: i64,
    to: i64,
    /// Wall clock minus axis.
    wall_ahead_ns: i64,
}

impl Clock {
    pub fn new(sessions: &[SessionRow], ticks: &[TickRow]) -> Self {
        let started = sessions.first().map(|session| nanoseconds(session.started));
        let origin = ticks
            .first()
            .map(|tick| tick.unix_ns)
            .or(started)
            .unwrap_or(0);
        let mut clock = Clock {
            origin,
            offsets: BTreeMap::new(),
            periods: Vec::new(),
        };
        for (index, tick) in ticks.iter().enumerate() {
            let wall_ahead_ns = clock
                .periods
                .last()
                .map_or(0, |period| period.wall_ahead_ns);
            let offset = tick.unix_ns.saturating_sub(tick.uptime_ns);
            let base = *clock
                .offsets
                .entry(tick.session)
                .or_insert(offset.saturating_sub(wall_ahead_ns));
            let at = base.saturating_add(tick.uptime_ns).saturating_sub(origin);
            let (now, after) = (offset.saturating_sub(base), ticks.get(index + 1));
            // A single deviating tick was read while the daemon was delayed.
            let is_lasting = after.is_none_or(|after| {
                let later = after
                    .unix_ns
                    .saturating_sub(after.uptime_ns)
                    .saturating_sub(offset);
                after.session != tick.session || later.abs() < MIN_STEP_NS
            });
            match clock.periods.last_mut() {
                Some(last)
                    if now.saturating_sub(last.wall_ahead_ns).abs() < MIN_STEP_NS
                        || !is_lasting =>
                {
                    last.to = at
                }
                _ => clock.periods.push(ClockPeriod {
                    from: at,
                    to: at,
                    wall_ahead_ns: now,
                }),
            }
        }
        clock
    }

    /// In seconds; by the wall clock in a session without ticks.
    pub fn at(&self, session: i64, uptime_ns: i64, unix_ns: i64) -> f64 {
        let unix = self
            .offsets
            .get(&session)
            .map_or(unix_ns, |offset| offset.saturating_add(uptime_ns));
        unix.saturating_sub(self.origin) as f64 / 1e9
    }

    pub fn on_axis(&self, tick: &TickRow) -> i64 {
        let base = self.offsets.get(&tick.session).copied().unwrap_or_default();
        base.saturating_add(tick.uptime_ns)
            .saturating_sub(self.origin)
    }

    pub fn steps(&self) -> Vec<ClockStep> {
        let pairs = self.periods.iter().tuple_windows();
        let step = |(before, after): (&ClockPeriod, &ClockPeriod)| ClockStep {
            at: after.from as f64 / 1e9,
            seconds: after.wall_ahead_ns.saturating_sub(before.wall_ahead_ns) as f64 / 1e9,
        };
        pairs.map(step).collect()
    }

    /// Converts a Unix time to the clock before its first step. `written_at` is the axis time of writing:
    /// it resolves times that occur twice after a step backwards.
    pub fn by_first_clock(&self, unix_ns: i64, written_at: Option<i64>) -> i64 {
        let on_axis = |period: &ClockPeriod| {
            unix_ns
                .saturating_sub(period.wall_ahead_ns)
                .saturating_sub(self.origin)
        };
        let distance = |period: &ClockPeriod| {
            let at = on_axis(period);
            let outside = period
                .from
                .saturating_sub(at)
                .max(at.saturating_sub(period.to))
                .saturating_sub(MAX_POINT_AGE_NS)
                .max(0);
            let late = written_at.map_or(0, |written_at| {
                at.saturating_sub(written_at)
                    .max(written_at.saturating_sub(at))
            });
            (outside, late)
        };
        let best = self.periods.iter().min_by_key(|period| distance(period));
        best.map_or(unix_ns, |period| {
            unix_ns.saturating_sub(period.wall_ahead_ns)
        })
    }
}

pub fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
