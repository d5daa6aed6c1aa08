//! Searches the minimum headroom in one run: what the limit leaves above unreclaimable memory. The
//! limit follows this memory, so only page cache is squeezed.
//!
//! A state machine without a host: readings go in, limits and journal lines come out. In a dwell,
//! the search keeps one headroom, and then gives a verdict. References are dwells without a limit:
//! at the beginning, then every fourth dwell. The search tries smaller and smaller headrooms until
//! one fails, then those that [`faultline_stats::staircase`] chooses. Finally, it tries both ends
//! of the interval three times each, at double length.

mod dwell;
mod limit_control;
mod messages;

pub(crate) use messages::median;
pub use messages::{
    Action, DwellEvidence, DwellResult, EndTrials, HeadroomInterval, Reading, ReplayedSlot,
    SearchAnswer, SearchEvent, SearchOutcome, SufficientSize, Verdict,
};

use crate::plan::MemorySearchRules;
use dwell::{Dwell, References};
use faultline_stats::staircase::{self, Next, SearchConfig, Staircase};
use limit_control::{LimitControl, page_aligned};
use messages::Growth;
use std::{mem, time::Duration};

/// With more slots behind, the limit is lifted.
const MAX_SLOTS_BEHIND: u64 = 20;
/// Above this PSI `full` of memory, over 10 s, the limit is lifted.
const MAX_STALL_PERCENT: f64 = 20.0;
/// If memory or slots behind are not read for this long, the limit is lifted.
const MAX_DATA_AGE: Duration = Duration::from_secs(5);
/// The validator is silent while its recorder works.
const VALIDATOR_SILENT: &str = "the validator has stopped answering";
pub(crate) const VALIDATOR_ENDED: &str = "the validator ended";
/// References before the first trial.
const MIN_REFERENCES: usize = 2;
/// Dwells under a limit between two references.
const REFERENCE_INTERVAL: usize = 3;
/// This many void dwells in a row end the search.
const MAX_VOIDS: usize = 5;
const MAX_TRIALS: usize = 50;
/// `settle_time` is how long a new state must last before the next stage. Moving the limit to its
/// target may take this multiple of `settle_time`. A recovery may take this multiple of `settle_time`
/// plus `dwell`.
const TIMEOUT_FACTOR: u32 = 4;
const MIN_RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// From this share of its limit on, a cgroup counts as full of page cache.
const FULL_SHARE: f64 = 0.97;
/// Refaults per second after a recovery may be this multiple of the references' median, plus the
/// margin.
const MAX_REFAULT_RATIO: f64 = 1.2;
const REFAULT_MARGIN_PER_SECOND: f64 = 10.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum DwellPurpose {
    Reference,
    Probe(u64),
    Confirm { headroom: u64, is_upper_end: bool },
}

impl DwellPurpose {
    fn confirms(self) -> bool {
        matches!(self, Self::Confirm { .. })
    }

    /// In bytes; `None` without a limit.
    fn headroom(self) -> Option<u64> {
        match self {
            Self::Reference => None,
            Self::Probe(headroom) | Self::Confirm { headroom, .. } => Some(headroom),
        }
    }
}

enum Stage {
    /// Since when the validator has been at the tip.
    Starting(Option<Duration>),
    /// Since when the validator has had no limit. Lasts until its refaults and its distance to the
    /// tip are normal.
    Recovering(Duration),
    /// The limit moves to its target. The dwell measures this, in case the validator fails.
    Approaching(DwellPurpose, Dwell),
    Dwelling(DwellPurpose, Dwell),
    Over,
}

pub struct SearchMachine {
    rules: MemorySearchRules,
    at_tip_slots: u64,
    is_hard_limit: bool,
    staircase: Staircase,
    references: References,
    growth: Growth,
    limit_control: LimitControl,
    stage: Stage,
    /// Start of `max_duration`: the first reading, then the end of [`Stage::Starting`].
    began: Option<Duration>,
    /// Peak of unreclaimable memory until the validator was at the tip for `settle_time`.
    startup_peak_bytes: u64,
    dwells_since_reference: usize,
    consecutive_voids: usize,
    /// Purpose of the next dwell, if the next dwell is a repetition or waits for a recovery.
    pending_purpose: Option<DwellPurpose>,
    actions: Vec<Action>,
}

impl SearchMachine {
    /// A validator is at the tip if it is at most `at_tip_slots` slots behind. With
    /// `is_hard_limit`, a write into a full cgroup fails: on cgroup v1, a validator then exits.
    /// `None` for invalid rules.
    pub fn new(rules: MemorySearchRules, at_tip_slots: u64, is_hard_limit: bool) -> Option<Self> {
        let config = SearchConfig {
            first_value: rules.first_headroom as f64,
            max_width: rules.max_interval_width,
            max_trials: MAX_TRIALS,
        };
        Some(Self {
            staircase: Staircase::new(config)?,
            limit_control: LimitControl::new(rules.settle_time),
            rules,
            at_tip_slots: at_tip_slots.min(MAX_SLOTS_BEHIND),
            is_hard_limit,
            references: References::default(),
            growth: Growth::default(),
            stage: Stage::Starting(None),
            began: None,
            startup_peak_bytes: 0,
            dwells_since_reference: 0,
            consecutive_voids: 0,
            pending_purpose: None,
            actions: Vec::new(),
        })
    }

    /// Readings must be in order.
    pub fn poll(&mut self, reading: &Reading) -> Vec<Action> {
        let began = *self.began.get_or_insert(reading.at);
        let danger = self.limit_control.detect_danger(reading);
        let is_overdue = reading.at.saturating_sub(began) >= self.rules.max_duration;
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => {}
            _ if is_overdue => self.end(match self.staircase.interval_if_narrow() {
                Some(interval) => SearchOutcome::Unconfirmed(interval.into()),
                None => SearchOutcome::OutOfTime,
            }),
            Stage::Starting(since) => self.poll_start(since, reading),
            Stage::Recovering(since) => self.poll_recovery(since, reading),
            Stage::Approaching(purpose, mut approach_dwell) => {
                approach_dwell.add(reading);
                approach_dwell.record_stall(self.limit_control.stall_percent());
                self.poll_approach(purpose, approach_dwell, danger, reading);
            }
            Stage::Dwelling(purpose, mut dwell) => {
                dwell.add(reading);
                dwell.record_stall(self.limit_control.stall_percent());
                dwell.record_target_excess(self.limit_control.memory_exceeds_target(reading));
                self.poll_dwell(purpose, dwell, danger, reading);
            }
        }
        mem::take(&mut self.actions)
    }

    /// Returns the event of the interrupted dwell, if it was under a limit.
    pub fn validator_ended(&mut self) -> Option<SearchEvent> {
        let (Stage::Approaching(purpose, mut dwell) | Stage::Dwelling(purpose, mut dwell)) =
            mem::replace(&mut self.stage, Stage::Over)
        else {
            return None;
        };
        purpose.headroom().and(self.limit_control.limit)?;
        let evidence = DwellEvidence {
            why: vec![VALIDATOR_ENDED.to_owned()],
            ..dwell.evidence()
        };
        Some(dwell_event(purpose, Verdict::Failed, evidence))
    }

    fn poll_start(&mut self, at_tip_since: Option<Duration>, reading: &Reading) {
        let is_at_tip = reading
            .slots_behind
            .is_some_and(|behind| behind <= self.at_tip_slots);
        // Counts at the tip, too: a validator that has just started knows only an old tip.
        self.startup_peak_bytes = self
            .startup_peak_bytes
            .max(reading.unreclaimable.unwrap_or(0));
        let at_tip_since = is_at_tip.then(|| at_tip_since.unwrap_or(reading.at));
        self.stage = Stage::Starting(at_tip_since);
        if at_tip_since
            .is_some_and(|since| reading.at.saturating_sub(since) >= self.rules.settle_time)
        {
            self.began = Some(reading.at);
            self.limit_control.max_rise = 0;
            self.limit_control.recent_unreclaimable.clear();
            self.begin_next_dwell(reading);
        }
    }

    fn poll_recovery(&mut self, since: Duration, reading: &Reading) {
        let waited = reading.at.saturating_sub(since);
        let timeout = ((self.rules.settle_time + self.rules.dwell) * TIMEOUT_FACTOR)
            .max(MIN_RECOVERY_TIMEOUT);
        let are_refaults_low = self
            .references
            .median(|evidence| evidence.refaults_per_second)
            .is_none_or(|reference| {
                self.limit_control
                    .refaults_per_second()
                    .is_some_and(|rate| {
                        rate <= reference * MAX_REFAULT_RATIO + REFAULT_MARGIN_PER_SECOND
                    })
            });
        if waited >= self.rules.settle_time
            && self.is_as_near_as_references(reading)
            && are_refaults_low
        {
            self.begin_next_dwell(reading);
        } else if waited <= timeout {
            self.stage = Stage::Recovering(since);
        } else if self.is_as_near_as_references(reading) {
            // Refaults stayed high without a limit, so the references are outdated.
            self.pending_purpose = Some(DwellPurpose::Reference);
            self.begin_next_dwell(reading);
        } else {
            let waited = faultline_text::duration(waited);
            let why = format!("it has had no limit for {waited}, and has not recovered");
            self.end(SearchOutcome::Inconclusive { why });
        }
    }

    fn poll_approach(
        &mut self,
        purpose: DwellPurpose,
        approach_dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        if danger.is_some() {
            return self.conclude(purpose, approach_dwell, danger, reading);
        }
        let is_at_target =
            self.limit_control
                .adjust(purpose.headroom(), reading, &mut self.actions);
        let is_full = self
            .limit_control
            .limit
            .zip(reading.memory)
            .is_some_and(|(limit, memory)| memory as f64 >= FULL_SHARE * limit as f64)
            && !self.limit_control.memory_exceeds_target(reading);
        let settle = self.rules.settle_time;
        let is_settled = reading.at.saturating_sub(approach_dwell.began) >= settle;
        // While the limit is lowered, the timeout counts from the last step.
        let last_step_at = self
            .limit_control
            .lowered_at
            .max(Some(approach_dwell.began));
        let within_timeout = last_step_at
            .is_some_and(|last| reading.at.saturating_sub(last) < settle * TIMEOUT_FACTOR);
        if is_settled && is_at_target && is_full && self.is_as_near_as_references(reading) {
            self.begin_dwell(purpose, reading);
        } else if within_timeout || reading.slots_behind.is_none() {
            self.stage = Stage::Approaching(purpose, approach_dwell);
        } else if reading.slots_behind <= Some(self.at_tip_slots) {
            // At the tip, but the cgroup never fills, the kernel cannot reclaim enough, or the
            // references were nearer to the tip.
            self.begin_dwell(purpose, reading);
        } else {
            let danger = Some("it fell behind while its limit was lowered");
            self.conclude(purpose, approach_dwell, danger, reading);
        }
    }

    fn begin_dwell(&mut self, purpose: DwellPurpose, reading: &Reading) {
        let length = self.rules.dwell * if purpose.confirms() { 2 } else { 1 };
        self.stage = Stage::Dwelling(purpose, Dwell::begin(reading, length));
    }

    fn poll_dwell(
        &mut self,
        purpose: DwellPurpose,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        let danger = danger.filter(|_| purpose.headroom().is_some());
        self.growth.add(reading);
        let failed = purpose.headroom().is_some() && dwell.has_failed(&self.references);
        if danger.is_some() || dwell.is_over() || failed {
            return self.conclude(purpose, dwell, danger, reading);
        }
        self.limit_control
            .adjust(purpose.headroom(), reading, &mut self.actions);
        self.stage = Stage::Dwelling(purpose, dwell);
    }

    fn conclude(
        &mut self,
        purpose: DwellPurpose,
        dwell: Dwell,
        danger: Option<&'static str>,
        reading: &Reading,
    ) {
        let was_limited = self.limit_control.limit.is_some();
        // A danger does not wait for the journal's disk.
        if let Some(danger) = danger {
            self.limit_control.lift(&mut self.actions);
            if was_limited {
                self.journal_limit(None, danger);
            }
        }
        let (verdict, evidence) = match purpose {
            DwellPurpose::Reference => dwell.reference_verdict(self.at_tip_slots, &self.references),
            _ => dwell.verdict(self.at_tip_slots, &self.references, danger),
        };
        if purpose == DwellPurpose::Reference && verdict == Verdict::KeptUp {
            self.references.0.push(evidence.clone());
        }
        let event = dwell_event(purpose, verdict, evidence);
        self.actions.push(Action::Journal(event));
        self.record_verdict(purpose, verdict);
        if self.consecutive_voids >= MAX_VOIDS {
            let why = format!(
                "{MAX_VOIDS} dwells in a row show nothing: the host or the cluster disturbed them"
            );
            return self.end(SearchOutcome::Inconclusive { why });
        }
        if verdict == Verdict::KeptUp
            || (verdict == Verdict::Void
                && was_limited
                && danger.is_none()
                && self.is_as_near_as_references(reading))
        {
            return self.begin_next_dwell(reading);
        }
        self.lift("to recover");
        self.stage = Stage::Recovering(reading.at);
    }

    fn record_verdict(&mut self, purpose: DwellPurpose, verdict: Verdict) {
        self.pending_purpose = None;
        if verdict == Verdict::Void {
            self.consecutive_voids += 1;
            self.pending_purpose = Some(purpose);
            return;
        }
        self.consecutive_voids = 0;
        self.dwells_since_reference += 1;
        let kept_up = verdict == Verdict::KeptUp;
        match purpose {
            DwellPurpose::Reference => self.dwells_since_reference = 0,
            DwellPurpose::Probe(headroom) => self.staircase.add_trial(headroom as f64, kept_up),
            DwellPurpose::Confirm {
                headroom,
                is_upper_end,
            } => self
                .staircase
                .add_end_trial(headroom as f64, is_upper_end, kept_up),
        }
    }

    fn begin_next_dwell(&mut self, reading: &Reading) {
        let floor = self.floor();
        let pending = self
            .pending_purpose
            .take()
            .filter(|purpose| purpose.headroom().is_none_or(|headroom| headroom > floor));
        let purpose = match pending.map_or_else(|| self.next_purpose(reading), Ok) {
            Ok(purpose) => purpose,
            Err(outcome) => return self.end(outcome),
        };
        let Some(headroom) = purpose.headroom() else {
            if self.limit_control.limit.is_none() {
                return self.begin_dwell(purpose, reading);
            }
            // A reference needs a normal page cache.
            self.lift("for a reference");
            self.pending_purpose = Some(purpose);
            self.stage = Stage::Recovering(reading.at);
            return;
        };
        let why = if purpose.confirms() {
            "to confirm"
        } else {
            "to try"
        };
        self.journal_limit(Some(headroom), why);
        self.stage = Stage::Approaching(purpose, Dwell::begin(reading, self.rules.dwell));
    }

    fn next_purpose(&mut self, reading: &Reading) -> Result<DwellPurpose, SearchOutcome> {
        let floor = self.floor();
        self.staircase.raise_floor(floor as f64);
        loop {
            let purpose = match self.staircase.next_trial() {
                Next::Try(headroom) => DwellPurpose::Probe(page_aligned(headroom as u64)),
                Next::Confirm { value, is_upper } => DwellPurpose::Confirm {
                    headroom: page_aligned(value as u64),
                    is_upper_end: is_upper,
                },
                Next::Over(outcome) => {
                    return Err(match outcome {
                        staircase::Outcome::Found(interval) => {
                            SearchOutcome::Found(interval.into())
                        }
                        staircase::Outcome::Noisy => SearchOutcome::Noisy,
                        staircase::Outcome::AboveStart => SearchOutcome::FirstHeadroomTooSmall,
                        staircase::Outcome::NeverFailed { lowest } => SearchOutcome::NeverFailed {
                            lowest: page_aligned(lowest as u64),
                        },
                    });
                }
            };
            let is_known_failure = matches!(
                purpose,
                DwellPurpose::Confirm { headroom, is_upper_end: false } if headroom <= floor
            );
            if !is_known_failure {
                let reference_is_due = self.references.0.len() < MIN_REFERENCES
                    || self.dwells_since_reference >= REFERENCE_INTERVAL;
                return Ok(if reference_is_due {
                    DwellPurpose::Reference
                } else {
                    purpose
                });
            }
            let why = format!(
                "not tried: unreclaimable memory has risen by {} within a second, at least half of this headroom",
                faultline_text::bytes(floor / 2)
            );
            let evidence = DwellEvidence {
                unreclaimable: reading.unreclaimable,
                why: vec![why],
                ..DwellEvidence::default()
            };
            let untried = dwell_event(purpose, Verdict::Failed, evidence);
            self.actions.push(Action::Journal(untried));
            self.record_verdict(purpose, Verdict::Failed);
        }
    }

    /// In bytes. Under a hard limit, smaller headrooms are not tried: memory could fill the cgroup
    /// before the limit is lifted.
    fn floor(&self) -> u64 {
        if self.is_hard_limit {
            self.limit_control.max_rise.saturating_mul(2)
        } else {
            0
        }
    }

    /// Without a reference, returns whether the validator is at the tip.
    fn is_as_near_as_references(&self, reading: &Reading) -> bool {
        reading.slots_behind.is_some_and(|behind| {
            behind <= self.references.slots_behind().unwrap_or(self.at_tip_slots)
        })
    }

    fn journal_limit(&mut self, headroom: Option<u64>, why: &str) {
        let why = why.to_owned();
        self.actions
            .push(Action::Journal(SearchEvent::Limit { headroom, why }));
    }

    fn lift(&mut self, why: &str) {
        if self.limit_control.limit.is_some() {
            self.journal_limit(None, why);
        }
        self.limit_control.lift(&mut self.actions);
    }

    fn end(&mut self, outcome: SearchOutcome) {
        self.lift("the search is over");
        self.stage = Stage::Over;
        let confirmed = self
            .staircase
            .end_trials()
            .map(|ends| ends.map_values(|bytes| page_aligned(bytes as u64)));
        let answer = SearchAnswer::new(
            outcome,
            confirmed,
            self.startup_peak_bytes,
            &self.growth,
            self.rules.growth_horizon,
        );
        self.actions.push(Action::Over(Box::new(answer)));
    }
}

fn dwell_event(purpose: DwellPurpose, verdict: Verdict, evidence: DwellEvidence) -> SearchEvent {
    SearchEvent::Dwell(DwellResult {
        headroom: purpose.headroom(),
        confirms: purpose.confirms(),
        verdict,
        evidence: Box::new(evidence),
    })
}

#[cfg(test)]
mod tests;
