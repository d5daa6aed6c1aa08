//! Searches the least memory in one run: which headroom over what cannot be reclaimed is enough to keep up.
//!
//! A state machine without a host: readings with their times go in, limits and lines of the journal come out. The limit
//! follows the unreclaimable memory, so it never asks for what cannot be given; only page cache is squeezed.
//!
//! Dwells without a limit come first and then every fourth time, as the reference. The others try one headroom each: down
//! step by step to the first failure, then as [`faultline_stats::staircase`] says, at last both ends of the interval three
//! times each at double length.

mod aim;
mod answer;
mod approach;
mod dwell;
mod evidence;
mod growth;
mod messages;
mod reference;

pub use answer::{Answer, Confirmed, Memory, Outcome};
pub use evidence::{Evidence, Verdict};
pub use messages::{Act, Line, Reading, Replayed};

use crate::plan::Search;
use aim::Aim;
use approach::{Approach, page};
use dwell::Dwell;
use faultline_stats::staircase::{self, Next, Staircase, Wanted};
use growth::Growth;
use reference::References;
use std::time::Duration;

/// More slots behind, and the limit is lifted at once.
const LOST: u64 = 20;
/// More stall of memory in percent (`full`, 10 s), and the limit is lifted at once.
const STALLED: f64 = 20.0;
/// A limit that depends on what was not read for so long is lifted.
const BLIND: Duration = Duration::from_secs(5);
/// Why, if the recorder is at work all the while.
const SILENT: &str = "the validator has stopped answering";
/// Why a dwell has failed that the validator did not outlive.
pub(crate) const ENDED: &str = "the validator ended";
/// References before anything is tried.
const REFERENCES: usize = 2;
/// Dwells from one reference to the next.
const BETWEEN: usize = 3;
/// Void dwells in a row that end the search.
const VOIDS: usize = 5;
/// Most dwells of the staircase.
const DWELLS: usize = 50;
/// So many times `settle`, and an approach is over as it is; and a recovery, of `settle` and `dwell`.
const PATIENCE: u32 = 4;
/// A recovery may take so long in any case.
const RECOVERED: Duration = Duration::from_secs(60);
/// A group with so much of its limit in use is full: page cache fills it.
const FULL: f64 = 0.97;
/// Refaults may be so many times those of a reference, and a few more, where the page cache has come back.
const REFAULTS: f64 = 1.2;
const REFAULTS_MORE: f64 = 10.0;

#[derive(Debug)]
enum Stage {
    /// On the way to the tip; since when it is there.
    Starting(Option<Duration>),
    /// Without a limit, until it is as before.
    Recovering(Duration),
    /// On the way to a limit, from this time on.
    Approaching(Aim, Duration, Dwell),
    Dwelling(Aim, Dwell),
    Over,
}

/// One search.
#[derive(Debug)]
pub struct Machine {
    rules: Search,
    at_tip: u64,
    hard: bool,
    staircase: Staircase,
    references: References,
    growth: Growth,
    approach: Approach,
    stage: Stage,
    /// The first reading, and after the start the first at the tip.
    began: Option<Duration>,
    /// Highest unreclaimable memory before it had been at the tip for `settle`.
    start: u64,
    since_reference: usize,
    voids: usize,
    again: Option<Aim>,
}

impl Machine {
    /// A search by these rules, of a validator that is at the tip when at most `at_tip` slots behind. A limit is `hard` if a
    /// write into a full group fails, as with cgroup version 1, where a validator ends itself then. `None` for rules that no
    /// plan can have.
    pub fn new(rules: Search, at_tip: u64, hard: bool) -> Option<Self> {
        let wanted = Wanted {
            from: rules.from as f64,
            width: rules.width,
            most: DWELLS,
        };
        Some(Machine {
            staircase: Staircase::new(wanted)?,
            approach: Approach::new(rules.settle),
            rules,
            at_tip: at_tip.min(LOST),
            hard,
            references: References::default(),
            growth: Growth::default(),
            stage: Stage::Starting(None),
            began: None,
            start: 0,
            since_reference: 0,
            voids: 0,
            again: None,
        })
    }

    /// Takes a reading, later than the last one.
    pub fn poll(&mut self, reading: &Reading) -> Vec<Act> {
        let began = *self.began.get_or_insert(reading.at);
        let mut acts = Vec::new();
        let danger = self.approach.watch(reading);
        let late = reading.at.saturating_sub(began) >= self.rules.most;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => {}
            _ if late => self.end(self.out_of_time(), &mut acts),
            Stage::Starting(since) => self.starting(since, reading, &mut acts),
            Stage::Recovering(since) => self.recovering(since, reading, &mut acts),
            Stage::Approaching(aim, since, mut dwell) => {
                dwell.take(reading);
                dwell.stalls(self.approach.stalled());
                self.approaching((aim, since, dwell), danger, reading, &mut acts);
            }
            Stage::Dwelling(aim, mut dwell) => {
                dwell.take(reading);
                dwell.stalls(self.approach.stalled());
                dwell.exceeds(self.approach.is_exceeded(reading));
                self.dwelling(aim, dwell, danger, reading, &mut acts);
            }
        }
        acts
    }

    /// The interval so far, in bytes of headroom, once anything failed; for people who watch.
    pub fn bracket(&self) -> staircase::Interval {
        self.staircase.interval()
    }

    /// Takes that the validator has ended by itself: nothing is tried any more. The line of the dwell that was cut short, if it was
    /// under a limit.
    pub fn validator_ended(&mut self) -> Option<Line> {
        let (Stage::Approaching(aim, _, dwell) | Stage::Dwelling(aim, dwell)) =
            std::mem::replace(&mut self.stage, Stage::Over)
        else {
            return None;
        };
        let headroom = aim.headroom().filter(|_| self.approach.limit().is_some())?;
        let (_, evidence) = dwell.verdict(self.at_tip, &self.references, Some(ENDED));
        let evidence = Box::new(Evidence {
            why: vec![ENDED.to_owned()],
            ..evidence
        });
        let confirms = matches!(aim, Aim::Confirm { .. });
        Some(Line::Dwell {
            headroom: Some(headroom),
            confirms,
            verdict: Verdict::Failed,
            evidence,
        })
    }

    fn starting(&mut self, since: Option<Duration>, reading: &Reading, acts: &mut Vec<Act>) {
        let near = reading.behind.is_some_and(|behind| behind <= self.at_tip);
        // Also where it is near: who has just begun to follow knows an old tip, and is near that.
        self.start = self.start.max(reading.unreclaimable.unwrap_or(0));
        let since = near.then(|| since.unwrap_or(reading.at));
        self.stage = Stage::Starting(since);
        if since.is_some_and(|since| reading.at.saturating_sub(since) >= self.rules.settle) {
            self.began = Some(reading.at);
            self.approach.begin();
            self.next(reading, acts);
        }
    }

    fn recovering(&mut self, since: Duration, reading: &Reading, acts: &mut Vec<Act>) {
        let waited = reading.at.saturating_sub(since);
        let patience = ((self.rules.settle + self.rules.dwell) * PATIENCE).max(RECOVERED);
        let calm = self.references.refaults().is_none_or(|usual| {
            self.approach
                .refaults()
                .is_some_and(|now| now <= usual * REFAULTS + REFAULTS_MORE)
        });
        if waited >= self.rules.settle && self.is_near(reading) && calm {
            self.next(reading, acts);
        } else if waited > patience && self.is_near(reading) {
            // More is read from the disk than before, whatever the limit: that is usual from now on.
            self.again = Some(Aim::Reference);
            self.next(reading, acts);
        } else if waited > patience {
            let why = format!(
                "it has not recovered without a limit for {}",
                faultline_text::time(waited)
            );
            self.end(Outcome::Inconclusive { why }, acts);
        } else {
            self.stage = Stage::Recovering(since);
        }
    }

    fn approaching(
        &mut self,
        (aim, since, dwell): (Aim, Duration, Dwell),
        danger: Option<&'static str>,
        reading: &Reading,
        acts: &mut Vec<Act>,
    ) {
        if aim.headroom().is_some() && danger.is_some() {
            return self.conclude(aim, dwell, danger, reading, acts);
        }
        let there = self.approach.step(aim.headroom(), reading, acts);
        let waited = reading.at.saturating_sub(since);
        let full = match (self.approach.limit(), reading.memory) {
            (None, _) => true,
            (Some(limit), Some(memory)) => {
                memory as f64 >= FULL * limit as f64 && !self.approach.is_exceeded(reading)
            }
            (Some(_), None) => false,
        };
        let settled = waited >= self.rules.settle;
        // On the way down it waits for nothing but the next step.
        let still = reading
            .at
            .saturating_sub(self.approach.lowered().unwrap_or(since).max(since));
        let patient = still < self.rules.settle * PATIENCE;
        if settled && there && full && self.is_near(reading) {
            self.dwell(aim, reading);
        } else if patient || reading.behind.is_none() {
            self.stage = Stage::Approaching(aim, since, dwell);
        } else if reading.behind.is_some_and(|behind| behind <= self.at_tip) {
            // A group that never fills its limit, or a tip that others are behind of as well.
            self.dwell(aim, reading);
        } else {
            self.conclude(
                aim,
                dwell,
                Some("it fell behind on the way to its limit"),
                reading,
                acts,
            );
        }
    }

    fn dwell(&mut self, aim: Aim, reading: &Reading) {
        let length = self.rules.dwell
            * if matches!(aim, Aim::Confirm { .. }) {
                2
            } else {
                1
            };
        self.stage = Stage::Dwelling(aim, Dwell::begin(reading, length));
    }

    fn dwelling(
        &mut self,
        aim: Aim,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
        acts: &mut Vec<Act>,
    ) {
        let danger = danger.filter(|_| aim.headroom().is_some());
        self.growth.take(reading);
        let failed = aim.headroom().is_some() && dwell.has_failed(&self.references);
        if danger.is_some() || dwell.is_over() || failed {
            return self.conclude(aim, dwell, danger, reading, acts);
        }
        self.approach.step(aim.headroom(), reading, acts);
        self.stage = Stage::Dwelling(aim, dwell);
    }

    fn conclude(
        &mut self,
        aim: Aim,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
        acts: &mut Vec<Act>,
    ) {
        let limited = self.approach.limit().is_some();
        // Before anything else, be it written down or not.
        if let Some(danger) = danger {
            self.approach.lift(acts);
            if limited {
                acts.push(Act::Line(Line::Limit {
                    headroom: None,
                    why: danger.to_owned(),
                }));
            }
        }
        let (verdict, evidence) = match aim {
            Aim::Reference => dwell.reference(self.at_tip, &self.references, danger),
            _ => dwell.verdict(self.at_tip, &self.references, danger),
        };
        if aim == Aim::Reference && verdict == Verdict::KeptUp {
            self.references.take(&evidence);
        }
        let confirms = matches!(aim, Aim::Confirm { .. });
        let line = Line::Dwell {
            headroom: aim.headroom(),
            confirms,
            verdict,
            evidence: Box::new(evidence),
        };
        acts.push(Act::Line(line));
        self.count(aim, verdict);
        if self.voids >= VOIDS {
            let why = format!(
                "{VOIDS} dwells in a row show nothing: the host or the cluster disturbed them"
            );
            return self.end(Outcome::Inconclusive { why }, acts);
        }
        if verdict == Verdict::KeptUp
            || (verdict == Verdict::Void && limited && danger.is_none() && self.is_near(reading))
        {
            return self.next(reading, acts);
        }
        self.lift("to recover", acts);
        self.stage = Stage::Recovering(reading.at);
    }

    fn count(&mut self, aim: Aim, verdict: Verdict) {
        self.again = None;
        if verdict == Verdict::Void {
            self.voids += 1;
            self.again = Some(aim);
            return;
        }
        self.voids = 0;
        self.since_reference += 1;
        let kept_up = verdict == Verdict::KeptUp;
        match aim {
            Aim::Reference => self.since_reference = 0,
            Aim::Probe(headroom) => self.staircase.take(headroom as f64, kept_up),
            Aim::Confirm { headroom, high } => {
                self.staircase.confirm(headroom as f64, high, kept_up)
            }
        }
    }

    /// Begins the next dwell, or ends the search.
    fn next(&mut self, reading: &Reading, acts: &mut Vec<Act>) {
        let floor = self.floor();
        let aim = match self
            .again
            .take()
            .filter(|aim| aim.headroom().is_none_or(|headroom| headroom > floor))
        {
            Some(aim) => aim,
            None => match self.choose(reading, acts) {
                Err(outcome) => return self.end(outcome, acts),
                Ok(_) if self.references.len() < REFERENCES || self.since_reference >= BETWEEN => {
                    Aim::Reference
                }
                Ok(aim) => aim,
            },
        };
        match aim.headroom() {
            None if self.approach.limit().is_some() => {
                // What a limit took has to come back first.
                self.lift("for a reference", acts);
                self.again = Some(aim);
                self.stage = Stage::Recovering(reading.at);
                return;
            }
            // It has been without a limit, and near the tip, for long enough.
            None => return self.dwell(aim, reading),
            headroom => {
                let why = if matches!(aim, Aim::Confirm { .. }) {
                    "to confirm"
                } else {
                    "to try"
                };
                acts.push(Act::Line(Line::Limit {
                    headroom,
                    why: why.to_owned(),
                }));
            }
        }
        self.stage = Stage::Approaching(aim, reading.at, Dwell::begin(reading, self.rules.dwell));
    }

    fn choose(&mut self, reading: &Reading, acts: &mut Vec<Act>) -> Result<Aim, Outcome> {
        let floor = self.floor();
        self.staircase.floor(floor as f64);
        loop {
            let aim = match self.staircase.next_trial() {
                Next::Try(headroom) => Aim::Probe(page(headroom as u64)),
                Next::Confirm { h, high } => Aim::Confirm {
                    headroom: page(h as u64),
                    high,
                },
                Next::Over(staircase::Outcome::Found(interval)) => {
                    return Err(Outcome::found(&interval));
                }
                Next::Over(staircase::Outcome::Noisy) => return Err(Outcome::Noisy),
                Next::Over(staircase::Outcome::AboveStart) => return Err(Outcome::AboveStart),
                Next::Over(staircase::Outcome::NeverFailed { lowest }) => {
                    return Err(Outcome::NeverFailed {
                        lowest: page(lowest as u64),
                    });
                }
            };
            let Aim::Confirm {
                headroom,
                high: false,
            } = aim
            else {
                return Ok(aim);
            };
            if headroom > floor {
                return Ok(aim);
            }
            acts.push(Act::Line(Line::untried(
                headroom,
                floor / 2,
                reading.unreclaimable,
            )));
            self.count(aim, Verdict::Failed);
        }
    }

    /// No headroom up to here is tried under a hard limit: the limit would be lifted when memory rises so again, if that is in
    /// time, and what is full by then cannot write.
    fn floor(&self) -> u64 {
        if self.hard {
            self.approach.burst().saturating_mul(2)
        } else {
            0
        }
    }

    /// Whether it is as near to the tip as without a limit.
    fn is_near(&self, reading: &Reading) -> bool {
        reading
            .behind
            .is_some_and(|behind| behind <= self.references.behind().unwrap_or(self.at_tip))
    }

    fn out_of_time(&self) -> Outcome {
        match self.staircase.narrow_interval() {
            Some(interval) => Outcome::unconfirmed(&interval),
            None => Outcome::OutOfTime,
        }
    }

    fn lift(&mut self, why: &str, acts: &mut Vec<Act>) {
        if self.approach.limit().is_some() {
            acts.push(Act::Line(Line::Limit {
                headroom: None,
                why: why.to_owned(),
            }));
        }
        self.approach.lift(acts);
    }

    fn end(&mut self, outcome: Outcome, acts: &mut Vec<Act>) {
        self.lift("the search is over", acts);
        self.stage = Stage::Over;
        let confirmed = self
            .staircase
            .confirmed()
            .map(|ends| ends.at(|bytes| page(bytes as u64)));
        let answer = Answer::new(
            outcome,
            confirmed,
            self.start,
            &self.growth,
            self.rules.horizon,
        );
        acts.push(Act::Over(Box::new(answer)));
    }
}

#[cfg(test)]
mod tests;
