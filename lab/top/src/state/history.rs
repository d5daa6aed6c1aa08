use super::Samples;
use crate::rate::Meter;
use faultline_status::Figure;
use std::collections::VecDeque;

const MAX_VALUES: usize = 600;

/// A figure's values, one for each request; `None` where nothing was reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    meter: Meter,
    values: VecDeque<Option<f64>>,
    newest: Option<f64>,
}

impl History {
    /// A counter becomes a rate.
    pub(super) fn take(&mut self, figure: Figure, samples: &Samples<'_>) {
        let value = samples.status.figure(figure);
        self.newest = if figure.is_counter() {
            samples.rate(&mut self.meter, figure.source(), value)
        } else {
            value
        };
        self.push(self.newest);
    }

    /// Records that no answer came; the newest value stays.
    pub(super) fn gap(&mut self) {
        self.push(None);
    }

    fn push(&mut self, value: Option<f64>) {
        self.values.push_back(value);
        if self.values.len() > MAX_VALUES {
            self.values.pop_front();
        }
    }

    pub(super) fn newest(&self) -> Option<f64> {
        self.newest
    }

    pub(crate) fn last(&self, max_values: usize) -> Vec<Option<f64>> {
        self.values
            .iter()
            .skip(self.values.len().saturating_sub(max_values))
            .copied()
            .collect()
    }
}
