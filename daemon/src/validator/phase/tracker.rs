//! The phase over time.
//!
//! While the validator starts, the admin socket tells the phase (or, without a right on it, the log). Once its services run,
//! the distance to the tip does: at the tip when at most `at_tip_slots` behind for `at_tip_for`, behind when more than
//! `behind_slots` behind for `behind_for` after that, catching up before it was first there.
//!
//! Time counts for a phase once the next evidence has come. Without evidence for [`PATIENCE`] ([`SLOW_PATIENCE`] where only
//! pushes tell the slot) the phase is unknown, and so is the time from the last evidence on. When evidence comes back, what it
//! shows decides that time: beyond `behind_slots` the validator was behind, and so it was if it makes up more than
//! `at_tip_slots` within seconds, or if it stays beyond `at_tip_slots` for [`UNDECIDED`]. After a pause its first answers may not
//! know the new tip yet, so that being near counts after [`SETTLE`] only, and from the end of a catch-up ([`AFTER_PAUSE`]).
//!
//! A validator that has not yet told how far it is, is initializing, for however long: a start searches and downloads for many
//! minutes without a push, and without a right on the admin socket nothing else is heard of it.

use super::Phase;
use crate::config;
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Reading, Stamp};
use std::time::Duration;

/// Kept up: at the tip for this share of the time since it was first there.
const KEPT_UP: f64 = 0.99;

/// The slot of a running validator advances about every 0.4 s. Without that for this long, its phase is unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// At the tip, a slot that does not advance for this long is a stall.
const STALL: Duration = Duration::from_secs(15);

/// Both where only pushes tell the slot: they come every 10 s, and later from a busy validator.
pub const SLOW_PATIENCE: Duration = Duration::from_secs(25);

/// The same while it starts: phases of a start may say nothing for a while.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Once evidence is back, a validator that is near the tip for this long is taken to have been there.
const SETTLE: Duration = Duration::from_secs(8);

/// Between the two thresholds both phases can be right for one that was at the tip before the pause: it may not have been farther
/// away in the pause either. After this long without coming near, it is taken to have been behind.
const UNDECIDED: Duration = Duration::from_secs(30);

/// So long after a pause, an answer in which the slot comes on faster than a cluster begins the time near the tip anew. Not for ever:
/// test clusters with short slots are always so fast.
const AFTER_PAUSE: Duration = Duration::from_secs(30);

/// Time between two ticks in which the daemon itself did not run; more with longer intervals.
const ASLEEP: Duration = Duration::from_secs(5);

/// What is known of the validator at one tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    /// A process is followed.
    pub alive: bool,
    /// The kernel says that the process is stopped or its cgroup frozen: whatever was heard before, it does nothing now.
    pub stopped: bool,
    /// The phase of its start, from the admin socket or the log.
    pub start: Option<Phase>,
    /// It says that services run, or answers JSON-RPC, which it does only then.
    pub running: bool,
    /// Slots behind the tip.
    pub behind: Option<u64>,
    /// Slots by which it came on faster than a cluster: it was so far behind a moment ago.
    pub made_up: u64,
    /// Just now its slot came on faster than a cluster makes them: it is catching up, and may not know the tip yet.
    pub hurries: bool,
    /// When it was heard of last, whatever it said.
    pub at: Option<Stamp>,
    /// When its own slot advanced last; `None` until it has told one.
    pub advanced: Option<Stamp>,
    /// When its own slot was last seen to keep pace with a cluster.
    pub paced: Option<Stamp>,
    /// When the tip advanced last, as the validator knows it.
    pub tip_advanced: Option<Stamp>,
    /// Only pushes tell its slot.
    pub pushes_only: bool,
}

impl Evidence {
    /// Whether it tells how far it is.
    fn tells_phase(self) -> bool {
        self.start.is_some() || self.running || self.behind.is_some()
    }

    /// When the newest evidence of the phase was heard. Once a validator has told its slot: when that kept pace and the
    /// tip advanced with it, or either of them while it is more than `near` slots behind. Before: whatever it said.
    fn newest(self, near: u64) -> Option<Stamp> {
        if self.start.is_some() || self.advanced.is_none() {
            return self.at;
        }
        match self.tip_advanced {
            Some(_) if self.behind.is_some_and(|behind| behind > near) => {
                self.advanced.max(self.tip_advanced)
            }
            Some(_) => self.paced.min(self.tip_advanced),
            None => self.paced,
        }
    }

    /// How long it may be old.
    fn patience(self) -> Duration {
        if self.pushes_only {
            SLOW_PATIENCE
        } else {
            PATIENCE
        }
    }

    /// Whether the own slot has stood still for too long; `None` if none was told.
    fn stands_still(self, now: Stamp) -> Option<bool> {
        let long = if self.pushes_only {
            SLOW_PATIENCE
        } else {
            STALL
        };
        self.advanced.map(|at| now.since(at) >= long)
    }
}

/// The phase over time.
#[derive(Debug, Clone)]
pub struct Tracker {
    config: config::Phase,
    /// Between two ticks, at most, while the daemon runs.
    longest_tick: Duration,
    /// The one known last.
    phase: Phase,
    /// Whether that is still known.
    known: bool,
    /// The process that is followed has told how far it is.
    told: bool,
    stalled: Option<bool>,
    /// When the newest evidence was heard.
    evidence_at: Option<Stamp>,
    /// The tick that took it.
    renewed: Stamp,
    /// Time since then: it belongs to no phase yet.
    open: Duration,
    /// Since when evidence is back, while the phase is unknown.
    back_since: Option<Stamp>,
    /// When evidence came back last.
    woke: Option<Stamp>,
    seconds: [Duration; Phase::ALL.len()],
    last: Option<Stamp>,
    near_since: Option<Stamp>,
    far_since: Option<Stamp>,
    kept: Option<TipTime>,
}

/// The time since the current process was first at the tip.
#[derive(Debug, Clone, Copy, Default)]
struct TipTime {
    at_tip: Duration,
    elsewhere: Duration,
}

impl TipTime {
    /// `None` while it depends on the time of which nothing is known.
    fn up(self, unknown: Duration) -> Option<bool> {
        let all = KEPT_UP * (self.at_tip + self.elsewhere + unknown).as_secs_f64();
        match (
            self.at_tip.as_secs_f64() >= all,
            (self.at_tip + unknown).as_secs_f64() >= all,
        ) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }

    fn spend(&mut self, phase: Phase, time: Duration) {
        *if phase == Phase::AtTip {
            &mut self.at_tip
        } else {
            &mut self.elsewhere
        } += time;
    }
}

impl Tracker {
    /// Nothing found yet. `interval` is the time from tick to tick.
    pub fn new(config: config::Phase, interval: Duration) -> Self {
        Tracker {
            config,
            longest_tick: ASLEEP.max(interval.saturating_mul(3)),
            phase: Phase::Absent,
            known: true,
            told: false,
            stalled: None,
            evidence_at: None,
            renewed: Stamp::default(),
            open: Duration::ZERO,
            back_since: None,
            woke: None,
            seconds: [Duration::ZERO; Phase::ALL.len()],
            last: None,
            near_since: None,
            far_since: None,
            kept: None,
        }
    }

    /// Other thresholds from now on.
    pub fn configure(&mut self, config: config::Phase) {
        self.config = config;
    }

    /// The phase; `None` if the evidence is too old to tell.
    pub fn phase(&self) -> Option<Phase> {
        self.known.then_some(self.phase)
    }

    /// Whether it was at the tip and its slot has not advanced for [`STALL`]; `None` for one that is not at the tip.
    pub fn stalled(&self) -> Option<bool> {
        self.stalled
    }

    /// Whether the validator was at the tip for 99 % of the time since this process was first there; `None` before, and
    /// while it depends on time in which nothing was known.
    pub fn kept_up(&self) -> Option<bool> {
        let mut kept = self.kept?;
        if self.known {
            kept.spend(self.phase, self.open);
            return kept.up(Duration::ZERO);
        }
        kept.up(self.open)
    }

    /// Another process is followed: what was known of the old one is void.
    pub fn restart(&mut self) {
        self.forget();
        if self.phase != Phase::Absent {
            self.phase = Phase::Initializing;
        }
    }

    fn forget(&mut self) {
        (self.near_since, self.far_since, self.back_since, self.kept) = (None, None, None, None);
        self.woke = None;
        (self.told, self.known, self.evidence_at, self.stalled) = (false, true, None, None);
    }

    /// Takes what is known at `now`; true if the phase changed.
    pub fn tick(&mut self, now: Stamp, evidence: Evidence) -> bool {
        let before = self.phase();
        let passed = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.last = Some(now);
        self.open += passed;
        if evidence.alive {
            self.told |= evidence.tells_phase();
            self.live(now, evidence, passed > self.longest_tick);
        } else {
            self.end(now);
        }
        self.phase() != before
    }

    /// The process is not there. Time up to its end belongs to its last phase if that was known, else to none.
    fn end(&mut self, now: Stamp) {
        if self.known {
            self.spend(self.phase);
        }
        self.forget();
        (self.open, self.renewed) = (Duration::ZERO, now);
        self.phase = if self.phase == Phase::Absent {
            Phase::Absent
        } else {
            Phase::Gone
        };
    }

    fn live(&mut self, now: Stamp, evidence: Evidence, asleep: bool) {
        // Nothing told yet: what was last known stands, and needs no evidence.
        // Up to `behind_slots` a validator at the tip stays there: to be so far behind is no evidence of being elsewhere.
        let at_tip = self.phase == Phase::AtTip;
        let newest = evidence.newest(if at_tip {
            self.config.behind_slots
        } else {
            self.config.at_tip_slots
        });
        let news = !self.told || newest > self.evidence_at;
        self.evidence_at = self.evidence_at.max(newest);
        if asleep || (evidence.stopped && self.told) {
            self.lose();
        } else if news {
            self.renew(now, evidence);
        } else {
            let patience = if self.phase.runs() {
                evidence.patience()
            } else {
                START_PATIENCE
            };
            if now.since(self.renewed) >= patience {
                self.lose();
            }
        }
        self.stalled = evidence
            .stands_still(now)
            .filter(|_| self.phase == Phase::AtTip);
        if self.known && self.phase == Phase::AtTip && self.kept.is_none() {
            self.kept = Some(TipTime::default());
        }
    }

    /// The evidence is too old: from it on, nothing is known.
    fn lose(&mut self) {
        self.known = false;
        (self.near_since, self.far_since, self.back_since) = (None, None, None);
    }

    /// There is new evidence.
    fn renew(&mut self, now: Stamp, evidence: Evidence) {
        self.renewed = now;
        if self.known {
            self.spend(self.phase);
            self.phase = self.next(now, evidence);
            return;
        }
        let back_since = *self.back_since.get_or_insert(now);
        self.woke = Some(back_since);
        let long = now.since(back_since);
        let was_at_tip = self.phase == Phase::AtTip;
        let next = self.next(now, evidence);
        let near = self.config.at_tip_slots;
        let sure = if was_at_tip {
            self.config.behind_slots
        } else {
            near
        };
        let is_beyond = |slots| evidence.behind.is_some_and(|behind| behind > slots);
        let is_far = next.runs() && (evidence.made_up > near || is_beyond(near));
        let wait = if !next.runs() || evidence.made_up > near || is_beyond(sure) {
            Duration::ZERO
        } else if is_far {
            UNDECIDED
        } else {
            SETTLE
        };
        if long >= wait {
            let next = if is_far && next == Phase::AtTip {
                Phase::Behind
            } else {
                next
            };
            (self.phase, self.known, self.back_since) = (next, true, None);
            self.spend(next);
        }
    }

    /// Gives the open time to a phase.
    fn spend(&mut self, phase: Phase) {
        let time = std::mem::take(&mut self.open);
        if let Some(seconds) = self.seconds.get_mut(phase as usize) {
            *seconds += time;
        }
        if let Some(kept) = &mut self.kept {
            kept.spend(phase, time);
        }
    }

    fn next(&mut self, now: Stamp, evidence: Evidence) -> Phase {
        if let Some(start) = evidence.start {
            (self.near_since, self.far_since) = (None, None);
            return start;
        }
        // Only a validator whose services run hears of a tip.
        if !evidence.running && evidence.behind.is_none() && !self.phase.runs() {
            // Started, but it tells nothing: what was last heard stands.
            return match self.phase {
                Phase::Absent | Phase::Gone => Phase::Initializing,
                phase => phase,
            };
        }
        self.of_distance(now, evidence)
    }

    /// Of a validator whose services run. Without a distance, what was last known stands.
    fn of_distance(&mut self, now: Stamp, evidence: Evidence) -> Phase {
        let current = if self.phase.runs() {
            self.phase
        } else {
            Phase::CatchingUp
        };
        let Some(behind) = evidence.behind else {
            return current;
        };
        // Who comes on faster than a cluster was catching up until now.
        let is_after_pause = self.woke.is_some_and(|woke| now.since(woke) < AFTER_PAUSE);
        let near_since = self
            .near_since
            .filter(|_| !(evidence.hurries && is_after_pause))
            .unwrap_or(now);
        self.near_since = (behind <= self.config.at_tip_slots).then_some(near_since);
        self.far_since = (behind > self.config.behind_slots).then(|| self.far_since.unwrap_or(now));
        let lasts = |since: Option<Stamp>, long: Duration| {
            since.is_some_and(|since| now.since(since) >= long)
        };
        match current {
            Phase::AtTip if lasts(self.far_since, self.config.behind_for) => Phase::Behind,
            Phase::CatchingUp | Phase::Behind if lasts(self.near_since, self.config.at_tip_for) => {
                Phase::AtTip
            }
            phase => phase,
        }
    }

    /// The phase, and the time spent in each.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        for (phase, seconds) in Phase::ALL.into_iter().zip(self.seconds) {
            out.push(Reading::flag(
                &v::PHASE,
                [phase.name().into()],
                Some(phase) == self.phase(),
            ));
            out.push(Reading::real(
                &v::PHASE_SECONDS,
                [phase.name().into()],
                seconds.as_secs_f64(),
            ));
        }
        out.extend(
            self.kept_up()
                .map(|kept| Reading::flag(&v::KEPT_UP, [], kept)),
        );
        out.extend(
            self.stalled()
                .map(|stalled| Reading::flag(&v::STALLED, [], stalled)),
        );
    }
}
