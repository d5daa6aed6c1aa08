//! Decides when a run is over.

use super::{
    outcome::Outcome,
    plan::{CountedFrom, Kind, Plan, Stop},
};
use faultline_common::clock::from_nanoseconds;
use faultline_recording::Progress;
use std::{mem, time::Duration};

/// Older points have a wrong time: pushes come every ten seconds.
const LATE_POINT: Duration = Duration::from_secs(60);
/// If nothing was recorded for this long, or for this many intervals, rules about missing progress
/// do not apply: a busy disk can delay a recorder.
const MIN_STALE: Duration = Duration::from_secs(10);
const STALE_INTERVALS: u32 = 5;
/// A run that ends later than planned by more than this, or by a share of its length, is too long.
const MAX_LATE: Duration = Duration::from_secs(10);
const LATE_SHARE: u32 = 20;
/// A recorder without output for this multiple of the stale time is dead.
const SILENT_FACTOR: u32 = 12;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// By the monotonic clock.
    pub uptime: Duration,
    pub unix_ns: i64,
}

#[derive(Debug)]
pub struct Watch {
    kind: Kind,
    rules: Stop,
    is_search: bool,
    stale: Duration,
    pub(crate) began: Now,
    first_executed: Option<Duration>,
    slot: Option<(u64, Duration)>,
    at_tip: bool,
    phase: Option<String>,
    /// Uptime in nanoseconds of the newest tick, and when it was first seen.
    tick: Option<(i64, Duration)>,
    last_sampled: Duration,
    /// Delay of the poll that saw the end of its time, from that end or from the previous poll,
    /// whichever is later.
    end_delay: Duration,
    /// A stalled recording was reported.
    reported: bool,
}

impl Watch {
    /// `interval` is the tick interval of its recording.
    pub fn begin(plan: &Plan, interval: Duration, now: Now) -> Self {
        Watch {
            kind: plan.workload.kind,
            rules: plan.stop.clone(),
            is_search: plan.search.is_some(),
            stale: MIN_STALE.max(interval * STALE_INTERVALS),
            began: now,
            first_executed: None,
            slot: None,
            at_tip: false,
            phase: None,
            tick: None,
            last_sampled: now.uptime,
            end_delay: Duration::ZERO,
            reported: false,
        }
    }

    /// Returns why the runner has to end the run: [`Outcome::Completed`] if its time is up. `seen` is
    /// `None` if the recording is unreadable.
    pub fn sample(&mut self, now: Now, seen: Option<&Progress>) -> Option<Outcome> {
        let before = mem::replace(&mut self.last_sampled, now.uptime);
        if let Some(seen) = seen {
            self.take(now, seen);
        }
        // A finished run may wait for others of its turn.
        if let Some(due) = self
            .counted_from()
            .and_then(|from| from.checked_add(self.rules.duration))
        {
            self.end_delay = self
                .end_delay
                .max(now.uptime.saturating_sub(due.max(before)));
        }
        self.decide(now.uptime)
    }

    /// The delay of the end, if it is so long that the runner itself was stalled.
    pub fn excessive_delay(&self) -> Option<Duration> {
        Some(self.end_delay)
            .filter(|end_delay| *end_delay > MAX_LATE.max(self.rules.duration / LATE_SHARE))
    }

    fn take(&mut self, now: Now, seen: &Progress) {
        if let (None, Some(first)) = (self.first_executed, seen.first_transaction_unix_ns) {
            let age = from_nanoseconds(now.unix_ns.saturating_sub(first));
            let age = if age > LATE_POINT {
                Duration::ZERO
            } else {
                age
            };
            self.first_executed = Some(now.uptime.saturating_sub(age).max(self.began.uptime));
        }
        if let Some(slot) = seen
            .newest_slot
            .filter(|slot| self.slot.is_none_or(|(newest, _)| *slot > newest))
        {
            self.slot = Some((slot, now.uptime));
        }
        self.at_tip |= seen.at_tip;
        if let Some(tick) = &seen.last_tick {
            self.phase = tick.phase.as_deref().map(str::to_owned);
            if self.tick.is_none_or(|(last, _)| last != tick.uptime_ns) {
                self.tick = Some((tick.uptime_ns, now.uptime));
            }
        }
    }

    fn decide(&self, now: Duration) -> Option<Outcome> {
        let since = |from: Duration| now.saturating_sub(from);
        let over =
            |from: Duration, most: Option<Duration>| most.is_some_and(|most| since(from) >= most);
        if !self.is_search
            && self
                .counted_from()
                .is_some_and(|from| since(from) >= self.rules.duration)
        {
            return Some(Outcome::Completed);
        }
        if self.kind == Kind::Replay || self.time_since_growth() >= self.stale {
            return None;
        }
        match self.first_executed {
            None if over(self.began.uptime, self.rules.first_transaction_within) => {
                return Some(Outcome::NeverExecuted);
            }
            Some(first) if !self.at_tip && over(first, self.rules.at_tip_within) => {
                return Some(Outcome::NotAtTip);
            }
            _ => {}
        }
        self.slot
            .filter(|(_, at)| over(*at, self.rules.no_progress_for))
            .map(|_| Outcome::NoProgress)
    }

    fn counted_from(&self) -> Option<Duration> {
        match (self.kind, self.rules.counted_from) {
            (Kind::Validator, CountedFrom::FirstTransaction) => self.first_executed,
            (Kind::Replay, _) | (_, CountedFrom::Start) => Some(self.began.uptime),
        }
    }

    /// Time without growth, if it has just become too long; once per silence.
    pub fn newly_silent(&mut self) -> Option<Duration> {
        let time_since_growth = self.time_since_growth();
        let reported = mem::replace(&mut self.reported, time_since_growth >= self.stale);
        (self.reported && !reported).then_some(time_since_growth)
    }

    /// Time without growth of the recording.
    pub fn silent(&self) -> Option<Duration> {
        Some(self.time_since_growth())
            .filter(|time_since_growth| *time_since_growth >= self.stale * SILENT_FACTOR)
    }

    fn time_since_growth(&self) -> Duration {
        self.last_sampled
            .saturating_sub(self.tick.map_or(self.began.uptime, |(_, at)| at))
    }

    /// `42 % of 12 h, at_tip, slot 1234`.
    pub fn phase_words(&self) -> String {
        let share = self
            .counted_from()
            .map(|from| self.last_sampled.saturating_sub(from).as_secs_f64());
        let whole = self.rules.duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let counted = match share {
            Some(seconds) => {
                format!(
                    "{:.0} % of {}",
                    (100.0 * seconds / whole).min(100.0),
                    faultline_text::time(self.rules.duration)
                )
            }
            None => "no transaction executed yet".to_owned(),
        };
        let phase = self.phase.as_ref().map(|phase| format!(", {phase}"));
        let slot = self.slot.map(|(slot, _)| format!(", slot {slot}"));
        counted + &phase.unwrap_or_default() + &slot.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
