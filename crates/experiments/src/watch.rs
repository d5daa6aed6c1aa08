//! When a run is over, after what its recording says while it is written.

use super::plan::{CountedFrom, Kind, Plan, Stop};
use faultline_recording::Progress;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point this much older than the look that first sees it has a wrong time: pushes come every ten seconds.
const LATE_POINT: Duration = Duration::from_secs(60);
/// What the recording does not say is not held against a run if nothing was recorded for this long, or for so many
/// intervals: a busy disk can hold a recorder up.
const STALE: Duration = Duration::from_secs(10);
const STALE_INTERVALS: u32 = 5;
/// A run that is ended so much later than the plan says is longer than the others; or this share of its length, where that
/// is more.
const LATE: Duration = Duration::from_secs(10);
const LATE_SHARE: u32 = 20;
/// A recorder that has written nothing for so many times as long writes nothing any more.
const SILENT: u32 = 12;

/// Why a run is ended although its program would go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its time is up.
    TimeUp,
    /// It has executed nothing for too long.
    NeverExecuted,
    /// It has shown no new slot for too long.
    NoProgress,
    /// It is not at the tip after too long.
    NotAtTip,
}

/// The time of one look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// On a clock that never jumps.
    pub uptime: Duration,
    /// Nanoseconds since 1970.
    pub unix_ns: i64,
}

/// A run from its beginning to the decision to end it.
#[derive(Debug, Clone)]
pub struct Watch {
    kind: Kind,
    rules: Stop,
    /// Whether a search ends it when its time is up.
    searches: bool,
    stale: Duration,
    began: Now,
    executing: Option<Duration>,
    slot: Option<(u64, Duration)>,
    at_tip: bool,
    phase: Option<String>,
    /// The newest tick's own time, and when it was first seen.
    tick: Option<(i64, Duration)>,
    latest: Duration,
    /// From when its time was up to the look that saw it; or from the look before, if that was later.
    late: Duration,
    /// Whether it was told that the recording does not grow.
    reported: bool,
}

impl Watch {
    /// Of a run that begins now. `interval` is from tick to tick of its recording.
    pub fn begin(plan: &Plan, interval: Duration, now: Now) -> Self {
        Watch {
            kind: plan.workload.kind,
            rules: plan.stop.clone(),
            searches: plan.search.is_some(),
            stale: STALE.max(interval * STALE_INTERVALS),
            began: now,
            executing: None,
            slot: None,
            at_tip: false,
            phase: None,
            tick: None,
            latest: now.uptime,
            late: Duration::ZERO,
            reported: false,
        }
    }

    /// When it began.
    pub fn began(&self) -> Now {
        self.began
    }

    /// Takes what the recording says now; `None` if it cannot be read at this moment. Whether the run is to be ended.
    pub fn sample(&mut self, now: Now, seen: Option<&Progress>) -> Option<Why> {
        let before = std::mem::replace(&mut self.latest, now.uptime);
        if let Some(seen) = seen {
            self.take(now, seen);
        }
        // One whose time is up may have to wait for others of its turn: then nobody stands still.
        if let Some(due) = self
            .counted_from()
            .and_then(|from| from.checked_add(self.rules.duration))
        {
            self.late = self.late.max(now.uptime.saturating_sub(due.max(before)));
        }
        self.decide(now.uptime)
    }

    /// How much longer than planned it went on since nobody looked, if that is too much: whoever runs it stood still.
    pub fn too_late(&self) -> Option<Duration> {
        Some(self.late).filter(|late| *late > LATE.max(self.rules.duration / LATE_SHARE))
    }

    fn take(&mut self, now: Now, seen: &Progress) {
        if let (None, Some(first)) = (self.executing, seen.first_transaction_unix_ns) {
            let age =
                Duration::from_nanos(u64::try_from(now.unix_ns.saturating_sub(first)).unwrap_or(0));
            let age = if age > LATE_POINT {
                Duration::ZERO
            } else {
                age
            };
            self.executing = Some(now.uptime.saturating_sub(age).max(self.began.uptime));
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

    fn decide(&self, now: Duration) -> Option<Why> {
        let since = |from: Duration| now.saturating_sub(from);
        let over =
            |from: Duration, most: Option<Duration>| most.is_some_and(|most| since(from) >= most);
        if !self.searches
            && self
                .counted_from()
                .is_some_and(|from| since(from) >= self.rules.duration)
        {
            return Some(Why::TimeUp);
        }
        if self.kind == Kind::Replay || self.unheard() >= self.stale {
            return None;
        }
        match self.executing {
            None if over(self.began.uptime, self.rules.first_transaction_within) => {
                return Some(Why::NeverExecuted);
            }
            Some(first) if !self.at_tip && over(first, self.rules.at_tip_within) => {
                return Some(Why::NotAtTip);
            }
            _ => {}
        }
        self.slot
            .filter(|(_, at)| over(*at, self.rules.no_progress_for))
            .map(|_| Why::NoProgress)
    }

    /// From when its length is counted, if that moment has come.
    fn counted_from(&self) -> Option<Duration> {
        match (self.kind, self.rules.counted_from) {
            (Kind::Validator, CountedFrom::FirstTransaction) => self.executing,
            (Kind::Replay, _) | (_, CountedFrom::Start) => Some(self.began.uptime),
        }
    }

    /// For how long the recording has not grown, once each time when that is remarkable.
    pub fn falls_silent(&mut self) -> Option<Duration> {
        let unheard = self.unheard();
        let reported = std::mem::replace(&mut self.reported, unheard >= self.stale);
        (self.reported && !reported).then_some(unheard)
    }

    /// For how long the recording has not grown, if that is too long.
    pub fn silent(&self) -> Option<Duration> {
        Some(self.unheard()).filter(|unheard| *unheard >= self.stale * SILENT)
    }

    /// Since when the recording has not grown.
    fn unheard(&self) -> Duration {
        self.latest
            .saturating_sub(self.tick.map_or(self.began.uptime, |(_, at)| at))
    }

    /// How far it has come, in words: `42 % of 12 h 0 min, at_tip, slot 1234`.
    pub fn phase_words(&self) -> String {
        let share = self
            .counted_from()
            .map(|from| self.latest.saturating_sub(from).as_secs_f64());
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
