//! How fast unreclaimable memory grows: no limit is enough for ever if it does not settle.

use super::Reading;
use std::time::Duration;

/// Samples that are kept: at most so many, evenly over the whole time.
const MOST: usize = 256;

/// Unreclaimable memory over the time at the tip, thinned out.
#[derive(Debug)]
pub(super) struct Growth {
    began: Option<Duration>,
    every: Duration,
    samples: Vec<(f64, f64)>,
    newest: Option<(Duration, u64)>,
}

impl Default for Growth {
    fn default() -> Self {
        Growth { began: None, every: Duration::from_secs(1), samples: Vec::new(), newest: None }
    }
}

/// A straight line: `base + slope * seconds`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) base: f64,
    pub(super) slope: f64,
}

impl Growth {
    pub(super) fn take(&mut self, reading: &Reading) {
        let Some(bytes) = reading.unreclaimable else { return };
        let began = *self.began.get_or_insert(reading.at);
        if self.newest.is_some_and(|(last, _)| reading.at.saturating_sub(last) < self.every) {
            return;
        }
        self.newest = Some((reading.at, bytes));
        self.samples.push((reading.at.saturating_sub(began).as_secs_f64(), bytes as f64));
        if self.samples.len() >= MOST {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
    }

    /// The newest, and the highest of them.
    pub(super) fn newest(&self) -> Option<(u64, u64)> {
        let highest = self.samples.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        self.newest.map(|(_, bytes)| (bytes, (highest as u64).max(bytes)))
    }

    /// The line by Theil and Sen, which single jumps do not move; `None` with fewer than ten samples.
    pub(super) fn line(&self) -> Option<Line> {
        if self.samples.len() < 10 {
            return None;
        }
        let mut slopes = Vec::new();
        for (index, (at, bytes)) in self.samples.iter().enumerate() {
            let later = self.samples.iter().skip(index + 1).filter(|(then, _)| then > at);
            slopes.extend(later.map(|(then, more)| (more - bytes) / (then - at)));
        }
        let slope = median(slopes)?;
        let base = median(self.samples.iter().map(|(at, bytes)| bytes - slope * at).collect())?;
        Some(Line { base, slope })
    }
}

impl Line {
    /// In bytes, so many seconds after the first sample.
    pub(super) fn at(&self, seconds: f64) -> f64 {
        (self.base + self.slope * seconds).max(0.0)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
