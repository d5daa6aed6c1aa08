//! Searches the minimum headroom over unreclaimable memory in one run.
//!
//! A state machine without a host: readings go in, limits and journal lines come out. The limit
//! follows unreclaimable memory, so only page cache is squeezed. References are dwells without a
//! limit: at the beginning, then every fourth dwell. The others try one headroom each: stepwise
//! down to the first failure, then by [`faultline_stats::staircase`]. Finally, both ends are tried
//! three times each at double length.

mod answer;
mod approach;
mod dwell;
mod growth;
mod messages;

pub use answer::{Answer, Confirmed, Memory, Outcome};
pub use messages::{Action, DwellResult, Evidence, Line, Reading, Replayed, Verdict};

use crate::plan::Search;
use approach::{Approach, page};
use dwell::{Dwell, References};
use faultline_stats::staircase::{self, Next, SearchConfig, Staircase};
use growth::Growth;
use std::time::Duration;

/// With more slots behind, the limit is lifted.
const MAX_SLOTS_BEHIND: u64 = 20;
/// With more stall in percent (`full`, 10 s), the limit is lifted.
const STALLED: f64 = 20.0;
/// Without data for this long, the limit is lifted.
const MAX_DATA_AGE: Duration = Duration::from_secs(5);
/// The reason if the recorder still works.
const SILENT: &str = "the validator has stopped answering";
/// The reason if this happens during a dwell.
pub(crate) const ENDED: &str = "the validator ended";
/// Before the first trial.
const REFERENCES: usize = 2;
const REFERENCE_INTERVAL: usize = 3;
/// Consecutive ones end the search.
const VOIDS: usize = 5;
const DWELLS: usize = 50;
/// Multiples of `settle` for an approach, of `settle` plus `dwell` for a recovery.
const TIMEOUT_FACTOR: u32 = 4;
const RECOVERED: Duration = Duration::from_secs(60);
/// From this share of its limit on, a cgroup counts as full of page cache.
const FULL: f64 = 0.97;
/// Refaults after a recovery may be this multiple of a reference's, plus `REFAULTS_MORE`.
const REFAULTS: f64 = 1.2;
const REFAULTS_MORE: f64 = 10.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DwellPurpose {
    Reference,
    Probe(u64),
    Confirm { headroom: u64, high: bool },
}

impl DwellPurpose {
    fn confirms(self) -> bool {
        matches!(self, DwellPurpose::Confirm { .. })
    }

    /// In bytes; `None` without a limit.
    fn headroom(self) -> Option<u64> {
        match self {
            DwellPurpose::Reference => None,
            DwellPurpose::Probe(headroom) | DwellPurpose::Confirm { headroom, .. } => {
                Some(headroom)
            }
        }
    }
}

#[derive(Debug)]
enum Stage {
    /// Since when the validator has been near the tip.
    Starting(Option<Duration>),
    /// Without a limit, until the state is as before.
    Recovering(Duration),
    Approaching(DwellPurpose, Duration, Dwell),
    Dwelling(DwellPurpose, Dwell),
    Over,
}

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
    /// After the start, the first reading at the tip.
    began: Option<Duration>,
    /// Peak unreclaimable memory until the validator was at the tip for `settle`.
    start: u64,
    since_reference: usize,
    voids: usize,
    again: Option<DwellPurpose>,
    acts: Vec<Action>,
}

impl Machine {
    /// At most `at_tip` slots behind is at the tip. A limit is `hard` if a write into a full cgroup
    /// fails: with cgroup v1, a validator then exits. `None` for invalid rules.
    pub fn new(rules: Search, at_tip: u64, hard: bool) -> Option<Self> {
        let wanted = SearchConfig {
            from: rules.from as f64,
            width: rules.width,
            most: DWELLS,
        };
        Some(Machine {
            staircase: Staircase::new(wanted)?,
            approach: Approach::new(rules.settle),
            rules,
            at_tip: at_tip.min(MAX_SLOTS_BEHIND),
            hard,
            references: References::default(),
            growth: Growth::default(),
            stage: Stage::Starting(None),
            began: None,
            start: 0,
            since_reference: 0,
            voids: 0,
            again: None,
            acts: Vec::new(),
        })
    }

    /// Readings must be in order.
    pub fn poll(&mut self, reading: &Reading) -> Vec<Action> {
        let began = *self.began.get_or_insert(reading.at);
        let danger = self.approach.watch(reading);
        let late = reading.at.saturating_sub(began) >= self.rules.most;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => {}
            _ if late => self.end(self.out_of_time()),
            Stage::Starting(since) => self.starting(since, reading),
            Stage::Recovering(since) => self.recovering(since, reading),
            Stage::Approaching(aim, since, mut dwell) => {
                dwell.take(reading);
                dwell.stalls(self.approach.stalled());
                self.approaching((aim, since, dwell), danger, reading);
            }
            Stage::Dwelling(aim, mut dwell) => {
                dwell.take(reading);
                dwell.stalls(self.approach.stalled());
                dwell.exceeds(self.approach.is_exceeded(reading));
                self.dwelling(aim, dwell, danger, reading);
            }
        }
        std::mem::take(&mut self.acts)
    }

    /// In bytes of headroom, for display.
    pub fn bracket(&self) -> staircase::Interval {
        self.staircase.interval()
    }

    /// Returns the line of the interrupted dwell, if it was under a limit.
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
        Some(Line::Dwell(DwellResult {
            headroom: Some(headroom),
            confirms: aim.confirms(),
            verdict: Verdict::Failed,
            evidence,
        }))
    }

    fn starting(&mut self, since: Option<Duration>, reading: &Reading) {
        let near = reading.behind.is_some_and(|behind| behind <= self.at_tip);
        // Also near the tip: a validator that just began knows an old tip.
        self.start = self.start.max(reading.unreclaimable.unwrap_or(0));
        let since = near.then(|| since.unwrap_or(reading.at));
        self.stage = Stage::Starting(since);
        if since.is_some_and(|since| reading.at.saturating_sub(since) >= self.rules.settle) {
            self.began = Some(reading.at);
            self.approach.begin();
            self.next(reading);
        }
    }

    fn recovering(&mut self, since: Duration, reading: &Reading) {
        let waited = reading.at.saturating_sub(since);
        let patience = ((self.rules.settle + self.rules.dwell) * TIMEOUT_FACTOR).max(RECOVERED);
        let calm = self.references.refaults().is_none_or(|usual| {
            self.approach
                .refaults()
                .is_some_and(|now| now <= usual * REFAULTS + REFAULTS_MORE)
        });
        if waited >= self.rules.settle && self.is_near(reading) && calm {
            self.next(reading);
        } else if waited > patience && self.is_near(reading) {
            // Disk reads rose independently of the limit, so a new reference is needed.
            self.again = Some(DwellPurpose::Reference);
            self.next(reading);
        } else if waited > patience {
            let why = format!(
                "it has not recovered without a limit for {}",
                faultline_text::time(waited)
            );
            self.end(Outcome::Inconclusive { why });
        } else {
            self.stage = Stage::Recovering(since);
        }
    }

    fn approaching(
        &mut self,
        (aim, since, dwell): (DwellPurpose, Duration, Dwell),
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        if aim.headroom().is_some() && danger.is_some() {
            return self.conclude(aim, dwell, danger, reading);
        }
        let there = self.approach.step(aim.headroom(), reading, &mut self.acts);
        let waited = reading.at.saturating_sub(since);
        let full = match (self.approach.limit(), reading.memory) {
            (None, _) => true,
            (Some(limit), Some(memory)) => {
                memory as f64 >= FULL * limit as f64 && !self.approach.is_exceeded(reading)
            }
            (Some(_), None) => false,
        };
        let settled = waited >= self.rules.settle;
        // On the way down only the next step is due.
        let still = reading
            .at
            .saturating_sub(self.approach.lowered().unwrap_or(since).max(since));
        let patient = still < self.rules.settle * TIMEOUT_FACTOR;
        if settled && there && full && self.is_near(reading) {
            self.dwell(aim, reading);
        } else if patient || reading.behind.is_none() {
            self.stage = Stage::Approaching(aim, since, dwell);
        } else if reading.behind.is_some_and(|behind| behind <= self.at_tip) {
            // The cgroup never fills, or the whole cluster is behind.
            self.dwell(aim, reading);
        } else {
            self.conclude(
                aim,
                dwell,
                Some("it fell behind on the way to its limit"),
                reading,
            );
        }
    }

    fn dwell(&mut self, aim: DwellPurpose, reading: &Reading) {
        let length = self.rules.dwell * if aim.confirms() { 2 } else { 1 };
        self.stage = Stage::Dwelling(aim, Dwell::begin(reading, length));
    }

    fn dwelling(
        &mut self,
        aim: DwellPurpose,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        let danger = danger.filter(|_| aim.headroom().is_some());
        self.growth.take(reading);
        let failed = aim.headroom().is_some() && dwell.has_failed(&self.references);
        if danger.is_some() || dwell.is_over() || failed {
            return self.conclude(aim, dwell, danger, reading);
        }
        self.approach.step(aim.headroom(), reading, &mut self.acts);
        self.stage = Stage::Dwelling(aim, dwell);
    }

    fn conclude(
        &mut self,
        aim: DwellPurpose,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        let limited = self.approach.limit().is_some();
        // The limit is lifted before anything is journaled.
        if let Some(danger) = danger {
            self.approach.lift(&mut self.acts);
            if limited {
                self.journal_limit(None, danger);
            }
        }
        let (verdict, evidence) = match aim {
            DwellPurpose::Reference => dwell.reference(self.at_tip, &self.references, danger),
            _ => dwell.verdict(self.at_tip, &self.references, danger),
        };
        if aim == DwellPurpose::Reference && verdict == Verdict::KeptUp {
            self.references.take(&evidence);
        }
        self.acts.push(Action::Line(Line::Dwell(DwellResult {
            headroom: aim.headroom(),
            confirms: aim.confirms(),
            verdict,
            evidence: Box::new(evidence),
        })));
        self.count(aim, verdict);
        if self.voids >= VOIDS {
            let why = format!(
                "{VOIDS} dwells in a row show nothing: the host or the cluster disturbed them"
            );
            return self.end(Outcome::Inconclusive { why });
        }
        if verdict == Verdict::KeptUp
            || (verdict == Verdict::Void && limited && danger.is_none() && self.is_near(reading))
        {
            return self.next(reading);
        }
        self.lift("to recover");
        self.stage = Stage::Recovering(reading.at);
    }

    fn count(&mut self, aim: DwellPurpose, verdict: Verdict) {
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
            DwellPurpose::Reference => self.since_reference = 0,
            DwellPurpose::Probe(headroom) => self.staircase.take(headroom as f64, kept_up),
            DwellPurpose::Confirm { headroom, high } => {
                self.staircase.confirm(headroom as f64, high, kept_up)
            }
        }
    }

    fn next(&mut self, reading: &Reading) {
        let floor = self.floor();
        let aim = match self
            .again
            .take()
            .filter(|aim| aim.headroom().is_none_or(|headroom| headroom > floor))
        {
            Some(aim) => aim,
            None => match self.choose(reading) {
                Err(outcome) => return self.end(outcome),
                Ok(_)
                    if self.references.len() < REFERENCES
                        || self.since_reference >= REFERENCE_INTERVAL =>
                {
                    DwellPurpose::Reference
                }
                Ok(aim) => aim,
            },
        };
        match aim.headroom() {
            None if self.approach.limit().is_some() => {
                // The page cache has to recover first.
                self.lift("for a reference");
                self.again = Some(aim);
                self.stage = Stage::Recovering(reading.at);
                return;
            }
            None => return self.dwell(aim, reading),
            headroom => {
                let why = if aim.confirms() {
                    "to confirm"
                } else {
                    "to try"
                };
                self.journal_limit(headroom, why);
            }
        }
        self.stage = Stage::Approaching(aim, reading.at, Dwell::begin(reading, self.rules.dwell));
    }

    fn choose(&mut self, reading: &Reading) -> Result<DwellPurpose, Outcome> {
        let floor = self.floor();
        self.staircase.floor(floor as f64);
        loop {
            let aim = match self.staircase.next_trial() {
                Next::Try(headroom) => DwellPurpose::Probe(page(headroom as u64)),
                Next::Confirm { h, high } => DwellPurpose::Confirm {
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
            let DwellPurpose::Confirm {
                headroom,
                high: false,
            } = aim
            else {
                return Ok(aim);
            };
            if headroom > floor {
                return Ok(aim);
            }
            self.acts.push(Action::Line(Line::untried(
                headroom,
                floor / 2,
                reading.unreclaimable,
            )));
            self.count(aim, Verdict::Failed);
        }
    }

    /// Under a hard limit, no smaller headroom is tried. Memory could rise again too fast to lift
    /// the limit, and a full cgroup cannot write.
    fn floor(&self) -> u64 {
        if self.hard {
            self.approach.burst().saturating_mul(2)
        } else {
            0
        }
    }

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

    fn journal_limit(&mut self, headroom: Option<u64>, why: &str) {
        let why = why.to_owned();
        self.acts.push(Action::Line(Line::Limit { headroom, why }));
    }

    fn lift(&mut self, why: &str) {
        if self.approach.limit().is_some() {
            self.journal_limit(None, why);
        }
        self.approach.lift(&mut self.acts);
    }

    fn end(&mut self, outcome: Outcome) {
        self.lift("the search is over");
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
        self.acts.push(Action::Over(Box::new(answer)));
    }
}

#[cfg(test)]
mod tests;
