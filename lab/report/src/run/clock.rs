//! One time axis for a recording, even if the wall clock was set.
//!
//! Within a session it is the daemon's monotonic clock; between sessions the wall clock minus all
//! steps so far. Times of points are converted to the clock before its first step.

use super::ClockStep;
use faultline_recording::{SessionRow, TickRow};
use std::collections::BTreeMap;
use std::time::Duration;

/// The clocks are read one after the other, so a smaller difference is no step.
const LEAST: i64 = 1_000_000_000;

/// A push has points up to this old, and a busy daemon writes a little late.
const LATE: i64 = 15_000_000_000;

pub(super) struct Clock {
    pub(super) origin: i64,
    /// By session; added to the uptime, gives Unix time by the clock before its first step.
    offsets: BTreeMap<i64, i64>,
    stretches: Vec<ClockPeriod>,
}

#[derive(Debug, Clone, Copy)]
struct ClockPeriod {
    /// First and last tick, in nanoseconds of the axis.
    from: i64,
    to: i64,
    /// Wall clock minus axis.
    ahead: i64,
}

impl Clock {
    pub(super) fn new(sessions: &[SessionRow], ticks: &[TickRow]) -> Self {
        let started = sessions.first().map(|session| nanoseconds(session.started));
        let origin = ticks
            .first()
            .map(|tick| tick.unix_ns)
            .or(started)
            .unwrap_or(0);
        let mut clock = Clock {
            origin,
            offsets: BTreeMap::new(),
            stretches: Vec::new(),
        };
        for (index, tick) in ticks.iter().enumerate() {
            let ahead = clock.stretches.last().map_or(0, |stretch| stretch.ahead);
            let offset = tick.unix_ns.saturating_sub(tick.uptime_ns);
            let base = *clock
                .offsets
                .entry(tick.session)
                .or_insert(offset.saturating_sub(ahead));
            let at = base.saturating_add(tick.uptime_ns).saturating_sub(origin);
            let (now, after) = (offset.saturating_sub(base), ticks.get(index + 1));
            // A single deviating tick was read while the daemon was delayed.
            let lasts = after.is_none_or(|after| {
                let later = after
                    .unix_ns
                    .saturating_sub(after.uptime_ns)
                    .saturating_sub(offset);
                after.session != tick.session || later.abs() < LEAST
            });
            match clock.stretches.last_mut() {
                Some(last) if now.saturating_sub(last.ahead).abs() < LEAST || !lasts => {
                    last.to = at
                }
                _ => clock.stretches.push(ClockPeriod {
                    from: at,
                    to: at,
                    ahead: now,
                }),
            }
        }
        clock
    }

    /// In seconds; by the wall clock in a session without ticks.
    pub(super) fn at(&self, session: i64, uptime_ns: i64, unix_ns: i64) -> f64 {
        let unix = self
            .offsets
            .get(&session)
            .map_or(unix_ns, |offset| offset.saturating_add(uptime_ns));
        unix.saturating_sub(self.origin) as f64 / 1e9
    }

    pub(super) fn on_axis(&self, tick: &TickRow) -> i64 {
        let base = self.offsets.get(&tick.session).copied().unwrap_or_default();
        base.saturating_add(tick.uptime_ns)
            .saturating_sub(self.origin)
    }

    pub(super) fn steps(&self) -> Vec<ClockStep> {
        let pairs = self.stretches.iter().zip(self.stretches.iter().skip(1));
        let step = |(before, after): (&ClockPeriod, &ClockPeriod)| ClockStep {
            at: after.from as f64 / 1e9,
            seconds: after.ahead.saturating_sub(before.ahead) as f64 / 1e9,
        };
        pairs.map(step).collect()
    }

    pub(super) fn was_set(&self) -> bool {
        self.stretches.len() > 1
    }

    /// To the clock before its first step. `seen` is the axis time of writing: it resolves times
    /// that occur twice after a step backwards.
    pub(super) fn settled(&self, unix_ns: i64, seen: Option<i64>) -> i64 {
        let on_axis = |stretch: &ClockPeriod| {
            unix_ns
                .saturating_sub(stretch.ahead)
                .saturating_sub(self.origin)
        };
        let away = |stretch: &ClockPeriod| {
            let at = on_axis(stretch);
            let outside = stretch
                .from
                .saturating_sub(at)
                .max(at.saturating_sub(stretch.to))
                .saturating_sub(LATE)
                .max(0);
            let late = seen.map_or(0, |seen| {
                at.saturating_sub(seen).max(seen.saturating_sub(at))
            });
            (outside, late)
        };
        let best = self.stretches.iter().min_by_key(|stretch| away(stretch));
        best.map_or(unix_ns, |stretch| unix_ns.saturating_sub(stretch.ahead))
    }
}

pub(super) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
