//! What a validator was while no slot of it advanced: nothing is known then, and what comes next tells.
//!
//! Where no phase was recorded after one at the tip, and where no slot advances, what comes next decides what that time was.
//! The phase that was recorded with a tick may still be "at the tip" for seconds, and in older recordings for minutes, after the
//! validator has stopped. Its slots tell: from the last one that advanced on, time counts as what the next evidence shows.

use super::span::Span;
use crate::run::{Run, Signal, Tick};
use std::ops::Range;
use std::sync::Arc;

/// Slots come every 0.4 s, pushes every 10 s: a validator none of whose slots advanced for this long, in seconds, is not known
/// to be where it was.
pub const SILENT: f64 = 15.0;

/// As the daemon has it unless it is configured otherwise: at most so many slots behind, for so many seconds.
const AT_TIP_SLOTS: f64 = 32.0;
const AT_TIP_FOR: f64 = 60.0;

/// What is known at a tick this long after a slot advanced, in seconds, is about that slot.
const FRESH: f64 = 2.0;

/// Slots that a cluster makes in a second.
const SLOTS_PER_SECOND: f64 = 2.5;

/// A validator that kept up has made at least this share of them.
const ACCORDINGLY: f64 = 0.5;

const AT_TIP: &str = "at_tip";
const BEHIND: &str = "behind";

/// What time without an advancing slot counts as. The later one holds where two overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Was {
    /// It was at the tip again with as many slots more as that time makes: only the news were missing.
    AtTip,
    /// Its process or the recording ended first, or nothing shows that it had fallen behind.
    Unknown,
    /// It was behind when it was heard of again.
    Behind,
}

/// A time at the tip in which no slot advanced, and which does not count as at the tip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// From the last slot before it to the first one after it, or to the end.
    pub span: Span,
    /// What it counts as.
    pub was: Was,
}

/// The phases of a run, and why they are not those that were recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// One a tick; `None` where it is not known.
    pub phases: Vec<Option<Arc<str>>>,
    /// In order.
    pub stalls: Vec<Stall>,
}

/// Looks at every process by itself, and at each session by itself: another daemon finds the phase anew.
pub(super) fn resolve(run: &Run) -> Resolved {
    let mut resolved = Resolved {
        phases: run.ticks.iter().map(|tick| tick.phase.clone()).collect(),
        stalls: Vec::new(),
    };
    let mut from = 0;
    for life in run
        .ticks
        .chunk_by(|a, b| (a.session, a.process) == (b.session, b.process))
    {
        let ticks = from..from + life.len();
        from = ticks.end;
        if life.iter().all(|tick| tick.process.is_some()) {
            Life::new(run, ticks).resolve(&mut resolved);
        }
    }
    resolved
}

/// One process in one session.
struct Life<'r> {
    run: &'r Run,
    ticks: Range<usize>,
    /// When a slot advanced, and to which, in order.
    advances: Vec<(f64, f64)>,
    /// Stretches without one that are too long.
    silent: Vec<Span>,
    /// Of each tick the phase that was recorded, or last before it if its own was not known any more.
    last: Vec<Option<&'r str>>,
}

impl<'r> Life<'r> {
    fn new(run: &'r Run, ticks: Range<usize>) -> Self {
        let end = run.ticks.get(ticks.end - 1).map_or(0.0, |tick| tick.at);
        let mut life = Life {
            run,
            ticks,
            advances: Vec::new(),
            silent: Vec::new(),
            last: Vec::new(),
        };
        life.advances = life.find_advances(end);
        let ends = life.advances.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let stretches = life
            .advances
            .iter()
            .zip(ends)
            .map(|((from, _), to)| Span { from: *from, to });
        life.silent = stretches.filter(|span| span.seconds() >= SILENT).collect();
        let mut last = None;
        for tick in life.at() {
            last = tick.phase.as_deref().or(last);
            life.last.push(last);
        }
        life
    }

    /// Where no phase was recorded, from the last slot before that on: shorter ones than those without a slot are among them.
    fn untold(&self) -> Vec<Span> {
        let (ticks, mut found, mut from) = (self.at(), Vec::new(), 0);
        for stretch in ticks.chunk_by(|a, b| a.phase.is_none() == b.phase.is_none()) {
            let (first, next) = (from, from + stretch.len());
            from = next;
            let Some(begins) = stretch
                .first()
                .filter(|tick| tick.phase.is_none())
                .map(|tick| tick.at)
            else {
                continue;
            };
            let before = self.advances.partition_point(|(at, _)| *at <= begins);
            let Some((at, _)) = before
                .checked_sub(1)
                .and_then(|last| self.advances.get(last))
            else {
                continue;
            };
            let to = ticks
                .get(next)
                .or(ticks.last())
                .map_or(begins, |tick| tick.at);
            let span = Span { from: *at, to };
            if first > 0
                && !self
                    .silent
                    .iter()
                    .any(|silent| span.from < silent.to && span.to > silent.from)
            {
                found.push(span);
            }
        }
        found
    }

    fn at(&self) -> &'r [Tick] {
        self.run.ticks.get(self.ticks.clone()).unwrap_or_default()
    }

    /// Of the processed slot, tick by tick, and of the banks that the validator tells of with times of its own. A slot advances
    /// if it is higher than the one before: a wrong one that was far too high holds nothing up for long.
    fn find_advances(&self, end: f64) -> Vec<(f64, f64)> {
        let begin = self.at().first().map_or(0.0, |tick| tick.at);
        let processed = self
            .run
            .signal(Signal::Processed)
            .get(self.ticks.clone())
            .unwrap_or_default();
        let told = self
            .at()
            .iter()
            .zip(processed)
            .filter_map(|(tick, slot)| Some((tick.at, (*slot)?)));
        let of_points = |points: &mut dyn Iterator<Item = (i64, Option<u64>)>| -> Vec<(f64, f64)> {
            let known = points.filter_map(|(time, slot)| Some((self.run.at(time), slot? as f64)));
            rising(known.filter(|(at, _)| *at >= begin && *at <= end))
        };
        let points = &self.run.points;
        let mut advances = rising(told);
        advances.extend(of_points(
            &mut points
                .costs
                .iter()
                .map(|point| (point.time_unix_ns, point.bank_slot)),
        ));
        advances.extend(of_points(
            &mut points
                .replay
                .iter()
                .map(|point| (point.time_unix_ns, point.slot)),
        ));
        advances.sort_by(|a, b| a.0.total_cmp(&b.0));
        advances
    }

    fn resolve(&self, resolved: &mut Resolved) {
        let mut found: Vec<(Was, Range<usize>)> = Vec::new();
        for span in self.silent.iter().copied().chain(self.untold()) {
            let (was, until) = self.outcome(span);
            let place = |at: f64| self.ticks.start + self.at().partition_point(|tick| tick.at < at);
            let (first, to) = (place(span.from), place(span.to));
            // Who was not at the tip may stand still: that is another matter.
            let at_tip = (first..to).any(|index| self.before(index) == Some(AT_TIP));
            if at_tip && was != Was::AtTip && span.seconds() >= SILENT {
                resolved.stalls.push(Stall { span, was });
            }
            found.push((was, first..until));
        }
        resolved
            .stalls
            .sort_by(|a, b| a.span.from.total_cmp(&b.span.from));
        found.sort_by_key(|(was, _)| *was);
        for (was, ticks) in found {
            for index in ticks.filter(|index| self.is_open(*index, was)) {
                if let Some(phase) = resolved.phases.get_mut(index) {
                    *phase = match was {
                        Was::AtTip => Some(AT_TIP.into()),
                        Was::Behind => Some(BEHIND.into()),
                        Was::Unknown => None,
                    };
                }
            }
        }
    }

    /// The phase that was recorded with a tick, or last before it.
    fn before(&self, index: usize) -> Option<&'r str> {
        self.last
            .get(index.checked_sub(self.ticks.start)?)
            .copied()
            .flatten()
    }

    /// Whether what a time counts as decides a tick of it: one at the tip, or between two at which it was behind.
    fn is_open(&self, index: usize, was: Was) -> bool {
        let untold = self
            .run
            .ticks
            .get(index)
            .is_some_and(|tick| tick.phase.is_none());
        match self.before(index) {
            Some(AT_TIP) => true,
            Some(BEHIND) => untold && was == Was::Behind,
            _ => false,
        }
    }

    /// What a silent stretch counts as, and before which tick that ends.
    fn outcome(&self, silent: Span) -> (Was, usize) {
        let behind = self.run.signal(Signal::Behind);
        let known = self.slot(silent.from);
        let place = |at: f64| self.ticks.start + self.at().partition_point(|tick| tick.at < at);
        let (begins, first) = (place(silent.from), place(silent.to));
        let is_far = |slots: &Option<f64>| slots.is_some_and(|slots| slots > AT_TIP_SLOTS);
        // What is believed for a while stays small: what is large was just heard.
        let mut far = behind
            .get(begins..first)
            .unwrap_or_default()
            .iter()
            .any(is_far);
        let mut near_since = None;
        let fresh = FRESH.max(self.run.interval());
        for index in first..self.ticks.end {
            let Some(tick) = self.run.ticks.get(index) else {
                break;
            };
            if self
                .silent
                .iter()
                .any(|other| tick.at > other.from + fresh && tick.at < other.to)
            {
                near_since = None;
                continue;
            }
            if tick.phase.as_deref().is_some_and(|phase| phase != AT_TIP) {
                return (Was::Behind, index);
            }
            let distance = behind.get(index).copied().flatten();
            if is_far(&distance) {
                (far, near_since) = (true, None);
                continue;
            }
            let was = if far { Was::Behind } else { Was::AtTip };
            let due = ACCORDINGLY * SLOTS_PER_SECOND * (tick.at - silent.from);
            let is_near = tick.phase.is_some() || distance.is_some();
            if is_near
                && known
                    .zip(self.slot(tick.at))
                    .is_some_and(|(before, now)| now - before >= due)
            {
                return (was, index);
            }
            near_since = near_since.or(distance.map(|_| tick.at));
            if near_since.is_some_and(|since| tick.at - since >= AT_TIP_FOR) {
                return (was.max(Was::Unknown), index);
            }
        }
        (if far { Was::Behind } else { Was::Unknown }, self.ticks.end)
    }

    /// The slot it had reached at a moment.
    fn slot(&self, at: f64) -> Option<f64> {
        let until = self
            .advances
            .partition_point(|(advanced, _)| *advanced <= at);
        self.advances
            .get(until.checked_sub(1)?)
            .map(|(_, slot)| *slot)
    }
}

/// The first of these slots, and each that is higher than the one before.
fn rising(slots: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut before: Option<f64> = None;
    slots
        .filter(|(_, slot)| before.replace(*slot).is_none_or(|before| *slot > before))
        .collect()
}
