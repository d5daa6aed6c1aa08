//! Tries both ends of an interval again, three times each. Results that contradict the interval
//! still update the posterior.

use super::Interval;
use serde::{Deserialize, Serialize};

const TRIALS_PER_END: u32 = 3;
/// If these trials contradict an interval, the search continues, once.
const MAX_ROUNDS: u32 = 2;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndTrials<Value = f64> {
    pub high: Value,
    pub low: Value,
    pub high_kept_up: u32,
    pub high_failed: u32,
    pub low_kept_up: u32,
    pub low_failed: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Confirmation {
    rounds: u32,
    newest: Option<EndTrials>,
}

impl Confirmation {
    /// Does nothing if an interval was confirmed, or if no round is left.
    pub fn begin(&mut self, interval: &Interval) {
        if self.rounds < MAX_ROUNDS && !self.agrees() {
            self.rounds += 1;
            self.newest = Some(EndTrials {
                high: interval.high,
                low: interval.low,
                ..EndTrials::default()
            });
        }
    }

    /// Discards an interval that is all below a new floor, without counting a round.
    pub fn raise_floor(&mut self, floor: f64) {
        if self.newest.is_some_and(|newest| newest.high <= floor) {
            self.newest = None;
            self.rounds = self.rounds.saturating_sub(1);
        }
    }

    /// The next value, and whether it is the upper end.
    pub fn next(&self) -> Option<(f64, bool)> {
        let newest = self.newest.as_ref()?;
        let high = newest.high_kept_up + newest.high_failed;
        let low = newest.low_kept_up + newest.low_failed;
        match high <= low {
            true if high < TRIALS_PER_END => Some((newest.high, true)),
            false if low < TRIALS_PER_END => Some((newest.low, false)),
            _ => None,
        }
    }

    pub fn take(&mut self, high: bool, passed: bool) {
        let Some(newest) = &mut self.newest else {
            return;
        };
        let count = match (high, passed) {
            (true, true) => &mut newest.high_kept_up,
            (true, false) => &mut newest.high_failed,
            (false, true) => &mut newest.low_kept_up,
            (false, false) => &mut newest.low_failed,
        };
        *count += 1;
    }

    pub fn confirmed(&self) -> Option<EndTrials> {
        self.newest
    }

    pub fn agrees(&self) -> bool {
        self.newest.is_some_and(|newest| newest.agrees())
    }
}

impl EndTrials {
    pub fn at<Value>(&self, tried: impl Fn(f64) -> Value) -> EndTrials<Value> {
        let EndTrials {
            high,
            low,
            high_kept_up,
            high_failed,
            low_kept_up,
            low_failed,
        } = *self;
        EndTrials {
            high: tried(high),
            low: tried(low),
            high_kept_up,
            high_failed,
            low_kept_up,
            low_failed,
        }
    }
}

impl<Value> EndTrials<Value> {
    pub fn agrees(&self) -> bool {
        self.high_kept_up > self.high_failed && self.low_failed > self.low_kept_up
    }
}
