//! Rates from counters that may begin anew and may be missing.

use serde::Serialize;

/// A counter as it was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// When, in seconds of a clock that does not jump within an epoch.
    pub at: f64,
    /// The total since the counter's beginning; `None` where it was not read.
    pub total: Option<f64>,
    /// What the counter belongs to: a session and a process within it. Totals of two epochs have nothing to do with one another.
    pub epoch: u64,
}

/// What a counter did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rates {
    /// For each reading, the rate per second since the reading before; never negative. `None` for the first one of an
    /// epoch, where either total is missing, where the counter began anew, and across a gap.
    pub per_second: Vec<Option<f64>>,
    /// What the totals rose by over all steps that have a rate.
    pub increase: f64,
    /// Seconds that those steps took: `increase / seconds` is the mean rate (a ratio of sums, not a mean of ratios).
    pub seconds: f64,
    /// What the totals rose by across gaps within an epoch: it happened, nobody knows when.
    pub increase_in_gaps: f64,
    /// Steps over a gap.
    pub gaps: usize,
    /// Times the total fell within an epoch: the counter began anew.
    pub resets: usize,
}

/// Rates per second of a counter, one for each reading.
///
/// A step longer than `longest` seconds is a gap. Missing readings make their step longer, and no shorter: with `longest` at
/// one and a half intervals, a single missing reading is a gap. A clock that stands or goes back gives no rate.
pub fn rates(readings: &[Reading], longest: f64) -> Rates {
    let mut rates = Rates {
        per_second: Vec::with_capacity(readings.len()),
        ..Rates::default()
    };
    let mut last: Option<(f64, f64, u64)> = None;
    for reading in readings {
        let Some(total) = reading.total.filter(|t| t.is_finite()) else {
            rates.per_second.push(None);
            continue;
        };
        let before = last
            .replace((reading.at, total, reading.epoch))
            .filter(|(_, _, epoch)| *epoch == reading.epoch);
        let rate =
            before.and_then(|(at, was, _)| rates.step(reading.at - at, total - was, longest));
        rates.per_second.push(rate);
    }
    rates
}

impl Rates {
    fn step(&mut self, seconds: f64, rise: f64, longest: f64) -> Option<f64> {
        if rise < 0.0 {
            self.resets += 1;
            return None;
        }
        if seconds > longest {
            self.gaps += 1;
            self.increase_in_gaps += rise;
            return None;
        }
        if seconds.is_nan() || seconds <= 0.0 {
            return None;
        }
        self.increase += rise;
        self.seconds += seconds;
        Some(rise / seconds)
    }
}
