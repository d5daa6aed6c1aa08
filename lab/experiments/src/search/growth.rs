//! Estimates growth: if unreclaimable memory does not settle, no limit is enough forever.

use super::Reading;
use std::time::Duration;

const MAX_SAMPLES: usize = 256;
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Growth {
    began: Option<Duration>,
    /// How often samples were thinned. Each time, the interval doubles.
    thinnings: u32,
    samples: Vec<(f64, f64)>,
    sampled_at: Option<Duration>,
    /// The newest and the highest bytes of all readings.
    pub newest_and_highest: Option<(u64, u64)>,
}

/// `base + slope * seconds`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trend {
    pub base: f64,
    pub slope: f64,
}

impl Growth {
    pub fn take(&mut self, reading: &Reading) {
        let Some(bytes) = reading.unreclaimable else {
            return;
        };
        let began = *self.began.get_or_insert(reading.at);
        let before = self.newest_and_highest.map_or(0, |(_, highest)| highest);
        self.newest_and_highest = Some((bytes, bytes.max(before)));
        if self
            .sampled_at
            .is_some_and(|last| reading.at.saturating_sub(last) < INTERVAL * (1 << self.thinnings))
        {
            return;
        }
        self.sampled_at = Some(reading.at);
        self.samples
            .push((reading.at.saturating_sub(began).as_secs_f64(), bytes as f64));
        if self.samples.len() >= MAX_SAMPLES {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.thinnings += 1;
        }
    }

    /// Theil-Sen, robust against jumps; `None` with fewer than ten samples.
    pub fn line(&self) -> Option<Trend> {
        if self.samples.len() < 10 {
            return None;
        }
        let mut slopes = Vec::new();
        for (index, (at, bytes)) in self.samples.iter().enumerate() {
            let later = self
                .samples
                .iter()
                .skip(index + 1)
                .filter(|(then, _)| then > at);
            slopes.extend(later.map(|(then, more)| (more - bytes) / (then - at)));
        }
        let slope = median(slopes)?;
        let base = median(
            self.samples
                .iter()
                .map(|(at, bytes)| bytes - slope * at)
                .collect(),
        )?;
        Some(Trend { base, slope })
    }
}

impl Trend {
    /// In bytes, after the first sample.
    pub fn at(&self, seconds: f64) -> f64 {
        (self.base + self.slope * seconds).max(0.0)
    }
}

/// The median; of two middle values, the upper one.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
