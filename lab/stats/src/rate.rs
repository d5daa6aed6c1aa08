//! Rates of counters, which may be reset or be missing.

#[derive(Clone, Copy)]
pub struct Reading {
    /// Seconds of a clock that does not jump during the counter's life.
    pub at: f64,
    /// The increase since the counter began. `None` if it was not read.
    pub total: Option<f64>,
    /// Differs after each new start of the counter. Totals of two incarnations are unrelated.
    pub incarnation: u64,
}

#[derive(Debug, Default)]
pub struct Rates {
    /// By reading; never negative. `None` for a reading without a total, for the first total of a
    /// counter, at a reset, and across a gap.
    pub per_second: Vec<Option<f64>>,
    /// Total increase over the steps that have a rate.
    pub increase: f64,
    /// Total length of the steps that have a rate.
    pub seconds: f64,
}

/// A step is the time from one reading with a total to the next such reading. A step longer than
/// `max_step` seconds is a gap. A step in which the clock does not advance has no rate.
pub fn rates(readings: &[Reading], max_step: f64) -> Rates {
    let mut rates = Rates {
        per_second: Vec::with_capacity(readings.len()),
        ..Rates::default()
    };
    let mut last = None;
    for reading in readings {
        let Some(total) = reading.total.filter(|t| t.is_finite()) else {
            rates.per_second.push(None);
            continue;
        };
        let rate = last
            .replace((reading.at, total, reading.incarnation))
            .filter(|(_, _, incarnation)| *incarnation == reading.incarnation)
            .and_then(|(at, previous, _)| {
                rates.add_step(reading.at - at, total - previous, max_step)
            });
        rates.per_second.push(rate);
    }
    rates
}

impl Rates {
    /// `None` if no step has a rate.
    pub fn known_increase(&self) -> Option<f64> {
        (self.seconds > 0.0).then_some(self.increase)
    }

    pub fn mean(&self) -> Option<f64> {
        Some(self.known_increase()? / self.seconds)
    }

    fn add_step(&mut self, seconds: f64, increase: f64, max_step: f64) -> Option<f64> {
        if increase < 0.0 || seconds > max_step || seconds.is_nan() || seconds <= 0.0 {
            return None;
        }
        self.increase += increase;
        self.seconds += seconds;
        Some(increase / seconds)
    }
}
