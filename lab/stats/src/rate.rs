//! Rates of counters that may reset and may be missing.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// In seconds of a clock that does not jump within an epoch.
    pub at: f64,
    /// Since the counter's beginning; `None` where it was not read.
    pub total: Option<f64>,
    /// Session and process of the counter. Totals of different epochs are unrelated.
    pub epoch: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// One for each reading: the rate since the previous one, never negative. `None` for the first
    /// one of an epoch, where either total is missing, at a reset, and across a gap.
    pub per_second: Vec<Option<f64>>,
    /// Sum over the steps that have a rate.
    pub increase: f64,
    /// Duration of the steps that have a rate.
    pub seconds: f64,
}

/// A step longer than `max_step` seconds is a gap. A missing reading lengthens its step. A clock
/// that stands or goes back gives no rate.
pub fn rates(readings: &[Reading], max_step: f64) -> Rates {
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
        let rate = last
            .replace((reading.at, total, reading.epoch))
            .filter(|(_, _, epoch)| *epoch == reading.epoch)
            .and_then(|(at, previous, _)| rates.step(reading.at - at, total - previous, max_step));
        rates.per_second.push(rate);
    }
    rates
}

impl Rates {
    /// The increase; `None` without a step that has a rate.
    pub fn known(&self) -> Option<f64> {
        (self.seconds > 0.0).then_some(self.increase)
    }

    /// The ratio of sums; `None` without a step that has a rate.
    pub fn mean(&self) -> Option<f64> {
        Some(self.known()? / self.seconds)
    }

    fn step(&mut self, seconds: f64, rise: f64, max_step: f64) -> Option<f64> {
        if rise < 0.0 || seconds > max_step || seconds.is_nan() || seconds <= 0.0 {
            return None;
        }
        self.increase += rise;
        self.seconds += seconds;
        Some(rise / seconds)
    }
}
