use super::Samples;
use crate::rate::Meter;
use faultline_status::Figure;
use std::{collections::VecDeque, time::Duration};

const MAX_VALUES: usize = 600;

/// A figure's values, one for each request; `None` where nothing was reported.
#[derive(Debug, Clone, Default)]
pub struct History {
    meter: Meter,
    values: VecDeque<Option<f64>>,
    newest: Option<f64>,
}

impl History {
    /// Begins with the values that requests every `interval` would have had in the last minute.
    pub fn recorded(figure: Figure, samples: &Samples<'_>, interval: Duration) -> Self {
        let minute = &samples.status.last_minute;
        let values = { minute.values.get(&figure) }.map_or(&[][..], Vec::as_slice);
        let value_before = |seconds: f64| {
            let row = minute.ages.partition_point(|age| *age >= seconds);
            values.get(row.checked_sub(1)?).copied()
        };
        let requests = (1..MAX_VALUES as u32).map(|i| (interval * i).as_secs_f64());
        let mut values: VecDeque<Option<f64>> = requests.map_while(value_before).collect();
        values.make_contiguous().reverse();
        let reading = samples.reading(figure.source(), samples.status.figure(figure));
        let meter = reading.zip(value_before(0.0).flatten());
        History {
            meter: meter.map_or_else(Meter::default, |(reading, rate)| Meter::of(reading, rate)),
            values,
            newest: None,
        }
    }

    /// A counter becomes a rate.
    pub fn take(&mut self, figure: Figure, samples: &Samples<'_>) {
        let value = samples.status.figure(figure);
        self.newest = if figure.is_counter() {
            samples.rate(&mut self.meter, figure.source(), value)
        } else {
            value
        };
        self.push(self.newest);
    }

    /// Records that no answer came; the newest value stays.
    pub fn gap(&mut self) {
        self.push(None);
    }

    fn push(&mut self, value: Option<f64>) {
        self.values.push_back(value);
        if self.values.len() > MAX_VALUES {
            self.values.pop_front();
        }
    }

    pub fn newest(&self) -> Option<f64> {
        self.newest
    }

    pub fn last(&self, max_values: usize) -> Vec<Option<f64>> {
        self.values
            .iter()
            .skip(self.values.len().saturating_sub(max_values))
            .copied()
            .collect()
    }
}
