//! Decides when a run is over.

use super::{
    outcome::Outcome,
    plan::{CountedFrom, Plan, StopRules, WorkloadKind},
};
use faultline_common::clock::from_nanoseconds;
use faultline_recording::Progress;
use std::{mem, time::Duration};

/// A first transaction older than this at the previous sample has a wrong time: the validator pushes
/// metrics every ten seconds.
const MAX_FIRST_TRANSACTION_AGE: Duration = Duration::from_secs(60);
/// Without a new sample of the recorder for this time and for `STALE_INTERVALS`, rules about
/// missing progress do not apply: a busy disk can delay the recorder.
const MIN_STALE_TIME: Duration = Duration::from_secs(10);
const STALE_INTERVALS: u32 = 5;
/// A run is too long if its end is late by more than this and by more than 1/20 of its planned
/// length.
const MAX_END_DELAY: Duration = Duration::from_secs(10);
const END_DELAY_DIVISOR: u32 = 20;
/// After this multiple of `Watch::stale_after` without a new sample, the recorder counts as dead.
const DEAD_RECORDER_FACTOR: u32 = 12;

#[derive(Clone, Copy)]
pub struct Timestamp {
    pub uptime: Duration,
    pub unix_ns: i64,
}

/// Times are those of the monotonic clock.
pub struct Watch {
    kind: WorkloadKind,
    rules: StopRules,
    /// A search itself decides when it ends.
    is_search: bool,
    stale_after: Duration,
    pub(crate) began: Timestamp,
    first_transaction_at: Option<Duration>,
    /// With the time at which it was first seen.
    newest_slot: Option<(u64, Duration)>,
    has_reached_tip: bool,
    phase: Option<String>,
    /// Uptime in nanoseconds of the recorder's sample, and when it was first seen.
    newest_tick: Option<(i64, Duration)>,
    sampled_at: Duration,
    /// Longest time between two calls of [`Watch::sample`] after the planned end.
    end_delay: Duration,
    silence_reported: bool,
}

impl Watch {
    pub fn begin(plan: &Plan, now: Timestamp) -> Self {
        Self {
            kind: plan.workload.kind,
            rules: plan.stop.clone(),
            is_search: plan.memory_search.is_some(),
            stale_after: MIN_STALE_TIME.max(plan.recorder.interval * STALE_INTERVALS),
            began: now,
            first_transaction_at: None,
            newest_slot: None,
            has_reached_tip: false,
            phase: None,
            newest_tick: None,
            sampled_at: now.uptime,
            end_delay: Duration::ZERO,
            silence_reported: false,
        }
    }

    /// Returns why the runner has to end the run: [`Outcome::Completed`] if its time is up.
    /// `progress` is `None` if the recording is unreadable.
    pub fn sample(&mut self, now: Timestamp, progress: Option<&Progress>) -> Option<Outcome> {
        let last_sampled_at = mem::replace(&mut self.sampled_at, now.uptime);
        if let Some(progress) = progress {
            self.update(now, last_sampled_at, progress);
        }
        // Only the time between two samples is a delay. A run that is over may wait for concurrent
        // runs, but its samples go on.
        if let Some(due) = self
            .counted_from()
            .and_then(|from| from.checked_add(self.rules.duration))
        {
            self.end_delay = self
                .end_delay
                .max(now.uptime.saturating_sub(due.max(last_sampled_at)));
        }
        self.decide(now.uptime)
    }

    /// `Some` if the runner itself must have stalled.
    pub fn excessive_delay(&self) -> Option<Duration> {
        let max_delay = MAX_END_DELAY.max(self.rules.duration / END_DELAY_DIVISOR);
        (self.end_delay > max_delay).then_some(self.end_delay)
    }

    fn update(&mut self, now: Timestamp, last_sampled_at: Duration, progress: &Progress) {
        if let (None, Some(unix_ns)) = (
            self.first_transaction_at,
            progress.first_transaction_unix_ns,
        ) {
            let age = from_nanoseconds(now.unix_ns.saturating_sub(unix_ns));
            let since_last_sample = now.uptime.saturating_sub(last_sampled_at);
            let age = if age > MAX_FIRST_TRANSACTION_AGE + since_last_sample {
                Duration::ZERO
            } else {
                age
            };
            self.first_transaction_at = Some(now.uptime.saturating_sub(age).max(self.began.uptime));
        }
        if progress.newest_slot > self.newest_slot.map(|(slot, _)| slot) {
            self.newest_slot = progress.newest_slot.map(|slot| (slot, now.uptime));
        }
        self.has_reached_tip |= progress.has_reached_tip;
        if let Some(tick) = &progress.last_tick {
            self.phase = tick.phase.as_deref().map(str::to_owned);
            if self
                .newest_tick
                .is_none_or(|(newest, _)| newest != tick.uptime_ns)
            {
                self.newest_tick = Some((tick.uptime_ns, now.uptime));
            }
        }
    }

    fn decide(&self, now: Duration) -> Option<Outcome> {
        let is_over = |from: Duration, length: Option<Duration>| {
            length.is_some_and(|length| now.saturating_sub(from) >= length)
        };
        let rules = &self.rules;
        if let Some(from) = self.counted_from()
            && !self.is_search
            && is_over(from, Some(rules.duration))
        {
            return Some(Outcome::Completed);
        }
        if self.kind == WorkloadKind::Replay || self.time_since_tick() >= self.stale_after {
            return None;
        }
        match (self.first_transaction_at, self.newest_slot) {
            (None, _) if is_over(self.began.uptime, rules.first_transaction_within) => {
                Some(Outcome::NeverExecuted)
            }
            (Some(first), _) if !self.has_reached_tip && is_over(first, rules.at_tip_within) => {
                Some(Outcome::NotAtTip)
            }
            (_, Some((_, seen_at))) if is_over(seen_at, rules.no_progress_for) => {
                Some(Outcome::NoProgress)
            }
            _ => None,
        }
    }

    fn counted_from(&self) -> Option<Duration> {
        match (self.kind, self.rules.counted_from) {
            (WorkloadKind::Validator, CountedFrom::FirstTransaction) => self.first_transaction_at,
            (WorkloadKind::Replay, _) | (_, CountedFrom::Start) => Some(self.began.uptime),
        }
    }

    /// Time without a new sample. Returned once, when it has become too long.
    pub fn take_new_silence(&mut self) -> Option<Duration> {
        let silence = self.time_since_tick();
        let is_stale = silence >= self.stale_after;
        let was_reported = mem::replace(&mut self.silence_reported, is_stale);
        (is_stale && !was_reported).then_some(silence)
    }

    pub fn silence_of_dead_recorder(&self) -> Option<Duration> {
        let silence = self.time_since_tick();
        (silence >= self.stale_after * DEAD_RECORDER_FACTOR).then_some(silence)
    }

    fn time_since_tick(&self) -> Duration {
        self.sampled_at.saturating_sub(
            self.newest_tick
                .map_or(self.began.uptime, |(_, seen_at)| seen_at),
        )
    }

    /// `42 % of 12 h, phase at_tip, slot 1234`.
    pub fn progress_text(&self) -> String {
        let mut text = match self.counted_from() {
            Some(from) => {
                let seconds = self.sampled_at.saturating_sub(from).as_secs_f64();
                let length = self.rules.duration;
                let planned = length.as_secs_f64().max(f64::MIN_POSITIVE);
                format!(
                    "{:.0} % of {}",
                    (100.0 * seconds / planned).min(100.0),
                    faultline_text::duration(length)
                )
            }
            None => "no transaction executed yet".to_owned(),
        };
        text.extend(self.phase.as_ref().map(|phase| format!(", phase {phase}")));
        text.extend(self.newest_slot.map(|(slot, _)| format!(", slot {slot}")));
        text
    }
}

#[cfg(test)]
mod tests;
