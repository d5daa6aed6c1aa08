//! Searches for the threshold below which trials fail. A trial takes long, and trials at the same
//! value can have different results.
//!
//! The model: a trial at the value `h` fails with probability
//! `l + (1 - 2 l) logistic((ln threshold - ln h) / s)`. The scale `s` is the width of the range of
//! uncertain results. `l` is the probability of a lapse, which reverses a result. The state of the
//! search is the posterior distribution of the threshold, `s` and `l`.
//!
//! The search tries the value that is expected to leave the least entropy of the threshold
//! (Kontsevich and Tyler 1999). The entropy of scale and lapse does not count (Prins 2013). Both
//! ends of a narrow interval of the threshold are tried again before the interval is reported.
//!
//! A floor is a value known to fail without a trial. The search only tries values above it.

mod grid;

use grid::Grid;
use serde::{Deserialize, Serialize};

/// Value of a trial divided by the value of the trial before it, until the first trial fails.
const DESCENT_FACTOR: f64 = 0.92;
/// Lowest trial as a share of the lowest value that passed. A lower trial gives little information,
/// and after its failure the validator has to recover.
const LOWEST_TRIAL_SHARE: f64 = 0.85;
const INTERVAL_LEVEL: f64 = 0.9;
/// Scale, as a share of the threshold, above which no interval is reliable.
const MAX_RELIABLE_SCALE: f64 = 0.06;
/// No interval is reported if a scale above [`MAX_RELIABLE_SCALE`] has at least this probability,
/// unless the interval begins at the floor.
const MAX_UNRELIABLE_PROBABILITY: f64 = 0.4;
/// The descent is over if the lowest value that passed is at most this share above the minimum.
const MIN_DESCENT_SHARE: f64 = 0.001;
/// Minimum distance from the floor to the next trial and to the upper end: this share of
/// [`SearchConfig::max_width`]. The true floor may be higher than the known one.
const FLOOR_MARGIN: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
pub struct SearchConfig {
    /// The first and largest value to try.
    pub first_value: f64,
    /// Maximum width of a reported interval, as a share of the threshold: from 0.03 to 0.5.
    pub max_width: f64,
    /// Maximum number of trials. Trials that confirm the ends of an interval do not count.
    pub max_trials: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

pub enum Next {
    Try(f64),
    /// Try an end of the interval again.
    Confirm {
        value: f64,
        is_upper: bool,
    },
    Over(Outcome),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Found(Interval),
    /// Results at the same value differ too much, there were too few trials, or the ends of the
    /// interval were not confirmed.
    Noisy,
    /// The threshold is above the first value.
    AboveStart,
    NeverFailed {
        lowest: f64,
    },
}

#[derive(Debug, Clone)]
pub struct Staircase {
    config: SearchConfig,
    grid: Grid,
    confirmation: Confirmation,
    pub trials: usize,
    lowest_passed: Option<f64>,
    failures: usize,
    last_trial: f64,
    floor: Option<f64>,
}

impl Interval {
    pub fn width(&self) -> f64 {
        self.high / self.low - 1.0
    }
}

impl Staircase {
    /// `None` unless `first_value` is positive, `max_width` in range, and `max_trials` above 0.
    pub fn new(config: SearchConfig) -> Option<Self> {
        let is_valid = config.first_value.is_normal()
            && config.first_value > 0.0
            && (0.03..=0.5).contains(&config.max_width);
        let new = Self {
            config,
            grid: Grid::new(config.first_value.ln()),
            confirmation: Confirmation::default(),
            trials: 0,
            lowest_passed: None,
            failures: 0,
            last_trial: config.first_value,
            floor: None,
        };
        (is_valid && config.max_trials > 0).then_some(new)
    }

    /// A `value` that is not positive does not change the posterior.
    pub fn add_trial(&mut self, value: f64, passed: bool) {
        self.add_extra_trial(value, passed);
        self.trials += 1;
    }

    /// The caller adds a failure without a trial for an end at or below the floor. It counts for the
    /// confirmation, but does not change the posterior.
    pub fn add_end_trial(&mut self, value: f64, is_upper: bool, passed: bool) {
        self.confirmation.add(is_upper, passed);
        if self.floor.is_none_or(|floor| value > floor) {
            self.add_extra_trial(value, passed);
        }
    }

    /// The reported threshold is then at least `value`. A floor below the known one is ignored.
    pub fn raise_floor(&mut self, value: f64) {
        if value.is_normal() && self.floor.is_none_or(|floor| value > floor) && value > 0.0 {
            self.floor = Some(value);
            self.confirmation.discard_below(value);
        }
    }

    fn min_value(&self) -> Option<f64> {
        self.floor
            .map(|floor| floor * (1.0 + FLOOR_MARGIN * self.config.max_width))
    }

    /// Does not count towards `max_trials`.
    pub fn add_extra_trial(&mut self, value: f64, passed: bool) {
        if !value.is_normal() || value <= 0.0 {
            return;
        }
        self.grid.update(value.ln(), !passed);
        self.last_trial = value;
        if passed {
            self.lowest_passed = Some(self.lowest_passed.map_or(value, |lowest| lowest.min(value)));
        } else {
            self.failures += 1;
        }
    }

    pub fn interval(&self) -> Interval {
        let tail = (1.0 - INTERVAL_LEVEL) / 2.0;
        let [low, middle, high] =
            [tail, 0.5, 1.0 - tail].map(|share| self.grid.quantile(share).exp());
        let (Some(floor), Some(min_value)) = (self.floor, self.min_value()) else {
            return Interval { low, middle, high };
        };
        // The threshold is above the floor, so lower thresholds do not count.
        let high = self.grid.quantile_above(floor.ln(), 1.0 - tail).exp();
        Interval {
            low: low.max(floor),
            middle: middle.max(floor),
            high: high.max(min_value),
        }
    }

    /// `None` if the interval is not narrow or not reliable. Its ends may not have been tried again
    /// yet.
    pub fn interval_if_narrow(&self) -> Option<Interval> {
        if self.is_descending()
            || self.grid.probability_above(self.config.first_value.ln()) > INTERVAL_LEVEL
        {
            return None;
        }
        let interval = self.interval();
        // The lower end is certain if it is at the floor, whatever the scale.
        let ends_at_floor = self.floor.is_some_and(|floor| interval.low <= floor);
        let is_reliable = ends_at_floor
            || self.grid.probability_of_scale_above(MAX_RELIABLE_SCALE)
                < MAX_UNRELIABLE_PROBABILITY;
        (interval.width() <= self.config.max_width && is_reliable).then_some(interval)
    }

    /// `None` if no end was tried.
    pub fn end_trials(&self) -> Option<EndTrials> {
        self.confirmation.ends
    }

    fn is_descending(&self) -> bool {
        let min_value = self.min_value().unwrap_or(0.0);
        self.failures == 0
            && self
                .lowest_passed
                .is_none_or(|lowest| lowest > min_value * (1.0 + MIN_DESCENT_SHARE))
    }

    pub fn next_trial(&mut self) -> Next {
        if let Some((value, is_upper)) = self.confirmation.next() {
            return Next::Confirm { value, is_upper };
        }
        let first_value = self.config.first_value;
        let min_value = self.min_value().unwrap_or(0.0);
        if min_value > first_value {
            return Next::Over(Outcome::AboveStart);
        }
        if self.is_descending() {
            return match self.lowest_passed {
                None => Next::Try(first_value),
                Some(lowest) if self.trials >= self.config.max_trials => {
                    Next::Over(Outcome::NeverFailed { lowest })
                }
                Some(_) => Next::Try((self.last_trial * DESCENT_FACTOR).max(min_value)),
            };
        }
        if self.grid.probability_above(first_value.ln()) > INTERVAL_LEVEL {
            return Next::Over(Outcome::AboveStart);
        }
        if let Some(interval) = self.interval_if_narrow() {
            self.confirmation.begin(&interval);
            return match self.confirmation.next() {
                Some((value, is_upper)) => Next::Confirm { value, is_upper },
                None if self.confirmation.agrees() => Next::Over(Outcome::Found(interval)),
                None => Next::Over(Outcome::Noisy),
            };
        }
        if self.trials >= self.config.max_trials {
            return Next::Over(Outcome::Noisy);
        }
        let low = self
            .lowest_passed
            .map_or(first_value, |passed| passed * LOWEST_TRIAL_SHARE)
            .max(min_value)
            .min(first_value);
        Next::Try(
            self.grid
                .most_informative_trial(low.ln(), first_value.ln())
                .exp()
                .max(min_value),
        )
    }
}

const TRIALS_PER_END: u32 = 3;
/// If the trials at the ends contradict the first interval, the search continues to a second one,
/// which is the last.
const MAX_CONFIRMATIONS: u32 = 2;

/// `kept_up` counts trials that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EndTrials<Value = f64> {
    pub high: Value,
    pub low: Value,
    pub high_kept_up: u32,
    pub high_failed: u32,
    pub low_kept_up: u32,
    pub low_failed: u32,
}

/// Tries both ends of an interval again, three times each. Results that contradict the interval
/// still update the posterior.
#[derive(Debug, Clone, Default)]
struct Confirmation {
    confirmations: u32,
    ends: Option<EndTrials>,
}

impl Confirmation {
    /// Does nothing after a confirmed interval, or after [`MAX_CONFIRMATIONS`].
    fn begin(&mut self, interval: &Interval) {
        if self.confirmations < MAX_CONFIRMATIONS && !self.agrees() {
            self.confirmations += 1;
            self.ends = Some(EndTrials {
                high: interval.high,
                low: interval.low,
                ..EndTrials::default()
            });
        }
    }

    /// Discards an interval that is all below a new floor. Its confirmation does not count.
    fn discard_below(&mut self, floor: f64) {
        if self.ends.is_some_and(|ends| ends.high <= floor) {
            self.ends = None;
            self.confirmations = self.confirmations.saturating_sub(1);
        }
    }

    /// The next value, and whether it is the upper end.
    fn next(&self) -> Option<(f64, bool)> {
        let ends = self.ends?;
        let high = ends.high_kept_up + ends.high_failed;
        let low = ends.low_kept_up + ends.low_failed;
        match high <= low {
            true if high < TRIALS_PER_END => Some((ends.high, true)),
            false if low < TRIALS_PER_END => Some((ends.low, false)),
            _ => None,
        }
    }

    fn add(&mut self, is_upper: bool, passed: bool) {
        let Some(ends) = &mut self.ends else {
            return;
        };
        let count = match (is_upper, passed) {
            (true, true) => &mut ends.high_kept_up,
            (true, false) => &mut ends.high_failed,
            (false, true) => &mut ends.low_kept_up,
            (false, false) => &mut ends.low_failed,
        };
        *count += 1;
    }

    fn agrees(&self) -> bool {
        self.ends.is_some_and(|ends| ends.agrees())
    }
}

impl EndTrials {
    /// `tried` maps each end to the rounded value that was tried.
    pub fn map_values<Value>(&self, tried: impl Fn(f64) -> Value) -> EndTrials<Value> {
        let Self {
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

#[cfg(test)]
mod tests;
