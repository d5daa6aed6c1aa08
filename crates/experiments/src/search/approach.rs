//! The limit from second to second: from above and in small steps, since one large step reclaims more than it has to; and
//! what lifts it at once.

use super::{Act, BLIND, LOST, Reading, SILENT, STALLED};
use std::collections::VecDeque;
use std::time::Duration;

/// From limit to limit.
const SECOND: Duration = Duration::from_secs(1);
/// A limit that holds is asked for again only after so long: moving it is work for PID 1 under systemd.
const AGAIN: Duration = Duration::from_secs(10);
/// A limit that is too low by more than this part of the headroom does not wait for its second.
const RAISED: u64 = 32;
/// A limit is at most lowered to so much of the last one.
const LOWERED: f64 = 0.94;
/// The next step waits until no more than this share of the limit is in use above it.
const OVER: f64 = 1.005;
/// So much of the limit in use, and the kernel does not hold it: version 1 may refuse one, and `memory.high` may be exceeded.
const EXCEEDED: f64 = 1.02;
/// A limit is lowered by at most so much at once: whoever lowers it, PID 1 under systemd, reclaims what is above it meanwhile.
const STEP: u64 = 1 << 30;
/// Stalls are averaged over this time, ...
const STALLS: Duration = Duration::from_secs(10);
/// ... and over this at least.
const SHORTEST: Duration = Duration::from_secs(2);
/// Refaults are counted over this time, or over `settle` if that is less.
const WINDOW: Duration = Duration::from_secs(10);
/// The kernel counts memory in pages, and cuts limits down to them.
const PAGE: u64 = 4096;

/// The limit that holds, and the last seconds.
#[derive(Debug)]
pub(super) struct Approach {
    window: Duration,
    limit: Option<u64>,
    headroom: Option<u64>,
    set: Duration,
    /// When the limit was last moved a whole step down: where it follows memory, it is not on its way any more.
    lowered: Option<Duration>,
    /// When unreclaimable memory and slots behind were last read.
    seen: Option<Duration>,
    /// When something else was missing than slots behind in a fresh tick, if anything was: since then only it is silent.
    last_answer: Duration,
    /// The last second of unreclaimable memory.
    unreclaimable: VecDeque<(Duration, u64)>,
    /// The largest rise of it within a second, at the tip.
    burst: u64,
    refaults: VecDeque<(Duration, u64)>,
    /// When, and the stalls until then: since there is a limit, or since there is none.
    stalls: VecDeque<(Duration, Duration)>,
}

impl Approach {
    pub(super) fn new(settle: Duration) -> Self {
        Approach {
            window: WINDOW.min(settle),
            limit: None,
            headroom: None,
            set: Duration::ZERO,
            lowered: None,
            seen: None,
            last_answer: Duration::ZERO,
            unreclaimable: VecDeque::new(),
            burst: 0,
            refaults: VecDeque::new(),
            stalls: VecDeque::new(),
        }
    }

    /// When the limit was last moved a whole step down; `None` if it was not.
    pub(super) fn lowered(&self) -> Option<Duration> {
        self.lowered
    }

    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Takes a reading; why the limit has to be lifted, if there is one and it has.
    pub(super) fn watch(&mut self, reading: &Reading) -> Option<&'static str> {
        keep(
            &mut self.unreclaimable,
            SECOND,
            reading.at,
            reading.unreclaimable,
        );
        keep(
            &mut self.refaults,
            self.window,
            reading.at,
            reading.refaults,
        );
        self.stalls
            .extend(reading.stalled.map(|stalled| (reading.at, stalled)));
        while self
            .stalls
            .get(1)
            .is_some_and(|(then, _)| reading.at.saturating_sub(*then) >= STALLS)
        {
            self.stalls.pop_front();
        }
        if reading.unreclaimable.is_some() && reading.behind.is_some() || self.seen.is_none() {
            self.seen = Some(reading.at);
        }
        if !reading.is_silent() {
            self.last_answer = reading.at;
        }
        let least = self.unreclaimable.iter().map(|(_, bytes)| *bytes).min();
        let risen = reading
            .unreclaimable
            .zip(least)
            .map(|(now, least)| now.saturating_sub(least));
        self.burst = self.burst.max(risen.unwrap_or(0));
        self.limit?;
        if reading.out_of_memory {
            Some("the group is out of memory")
        } else if reading.behind.is_some_and(|behind| behind > LOST) {
            Some("it is too far behind")
        } else if self.stalled().is_some_and(|full| full > STALLED) {
            Some("it waits for memory too long")
        } else if risen
            .zip(self.headroom)
            .is_some_and(|(risen, headroom)| risen > headroom / 2)
        {
            Some("unreclaimable memory rose by half of the headroom within a second")
        } else if self
            .seen
            .is_some_and(|seen| reading.at.saturating_sub(seen) > BLIND)
        {
            let silent = reading.at.saturating_sub(self.last_answer) > BLIND;
            Some(if silent {
                SILENT
            } else {
                "its memory or its distance to the tip could not be read"
            })
        } else {
            None
        }
    }

    /// What rose before the tip is forgotten.
    pub(super) fn begin(&mut self) {
        (self.burst, self.unreclaimable) = (0, VecDeque::new());
    }

    /// The largest rise of unreclaimable memory within a second, at the tip.
    pub(super) fn burst(&self) -> u64 {
        self.burst
    }

    /// Lowers the limit once a second at most, and raises it at every look that asks for much more; whether it is where it is to
    /// be. One that does not move is asked for again each second while something else holds, else every ten.
    pub(super) fn step(
        &mut self,
        headroom: Option<u64>,
        reading: &Reading,
        acts: &mut Vec<Act>,
    ) -> bool {
        let Some(headroom) = headroom else {
            if self.limit.is_some() {
                self.lift(acts);
            }
            return true;
        };
        let (Some(unreclaimable), Some(memory)) = (reading.unreclaimable, reading.memory) else {
            return false;
        };
        let target = page(unreclaimable.saturating_add(headroom));
        self.headroom = Some(headroom);
        if self.limit.is_none() {
            // What was stalled or silent without it is not its doing.
            self.stalls.clear();
            (self.seen, self.last_answer) = (Some(reading.at), reading.at);
        }
        let next = match self.limit {
            None => target.max(page(memory)),
            Some(limit) if target > limit.saturating_add(headroom / RAISED) => target,
            Some(limit) if reading.at.saturating_sub(self.set) < SECOND => return limit == target,
            Some(limit) if target >= limit => target,
            // What was asked for before has not been reclaimed yet.
            Some(limit) if memory as f64 > OVER * limit as f64 => limit,
            Some(limit) => {
                let step = page((limit as f64 * (1.0 - LOWERED)) as u64).min(STEP);
                let next = limit.saturating_sub(step);
                if next > target {
                    self.lowered = Some(reading.at);
                }
                target.max(next)
            }
        };
        if self.limit == Some(next)
            && reading.applied_limit == self.limit
            && reading.at.saturating_sub(self.set) < AGAIN
        {
            return next == target;
        }
        self.limit = Some(next);
        self.set = reading.at;
        acts.push(Act::Limit(self.limit));
        next == target
    }

    /// Whether memory is above where the limit is to be, be it on its way or refused.
    pub(super) fn is_exceeded(&self, reading: &Reading) -> bool {
        let target = reading
            .unreclaimable
            .zip(self.headroom)
            .map(|(applied_limit, headroom)| applied_limit.saturating_add(headroom));
        target
            .zip(reading.memory)
            .is_some_and(|(target, memory)| memory as f64 > EXCEEDED * target as f64)
    }

    /// Lifts the limit; said again, it is lifted again.
    pub(super) fn lift(&mut self, acts: &mut Vec<Act>) {
        if self.limit.is_some() {
            acts.push(Act::Limit(None));
        }
        (self.limit, self.headroom, self.lowered) = (None, None, None);
        self.stalls.clear();
    }

    /// Share of the last seconds that all tasks waited for memory, in percent.
    pub(super) fn stalled(&self) -> Option<f64> {
        let ((then, before), (now, stalled)) = (self.stalls.front()?, self.stalls.back()?);
        let passed = now
            .checked_sub(*then)
            .filter(|passed| *passed >= SHORTEST)?;
        Some(100.0 * stalled.saturating_sub(*before).as_secs_f64() / passed.as_secs_f64())
    }

    /// Refaults a second, over the last seconds.
    pub(super) fn refaults(&self) -> Option<f64> {
        let ((first, before), (last, now)) = (self.refaults.front()?, self.refaults.back()?);
        let seconds = last.checked_sub(*first)?.as_secs_f64();
        (seconds > 0.0).then(|| now.saturating_sub(*before) as f64 / seconds)
    }
}

/// Adds a value, and removes what is older than `window`.
fn keep(
    values: &mut VecDeque<(Duration, u64)>,
    window: Duration,
    at: Duration,
    value: Option<u64>,
) {
    values.extend(value.map(|value| (at, value)));
    while values
        .front()
        .is_some_and(|(then, _)| at.saturating_sub(*then) > window)
    {
        values.pop_front();
    }
}

/// In whole pages.
pub(super) fn page(bytes: u64) -> u64 {
    bytes / PAGE * PAGE
}
