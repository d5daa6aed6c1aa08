//! Predicts when unreclaimable memory meets its limit, from its growth over hours.
//!
//! The slope is the median of the slopes of all pairs of half-hour means, with the
//! distribution-free interval of Sen (1968). There is a forecast only if
//!
//! - there are twelve means, six hours: after a start memory grows for hours and then settles;
//! - the interval of the slope is above zero;
//! - the date lies within ten times the observed time: one day of data cannot predict a month.
//!
//! Consecutive means are autocorrelated, so the interval is too narrow.

use faultline_metrics::Stamp;
use faultline_status::LimitForecast;
use std::time::Duration;

const MEAN_SPAN: Duration = Duration::from_secs(1800);
const MIN_MEANS: usize = 12;

/// Two days.
const MAX_MEANS: usize = 96;
/// Maximum time to the limit, in multiples of the observed time.
const MAX_HORIZON_FACTOR: f64 = 10.0;

/// Quantile of the normal distribution for an interval of 95 %.
const NORMAL_QUANTILE: f64 = 1.96;

#[derive(Debug, Clone, Default)]
pub struct MemoryGrowth {
    /// Ordinal of the process, and the limit. A change discards the means.
    process_and_limit: Option<(f64, f64)>,
    /// The current half hour: its start, sum and count.
    current_half_hour: Option<(Duration, f64, f64)>,
    /// Middle of each half hour in seconds of uptime, and the mean in bytes.
    means: Vec<(f64, f64)>,
    newest_sample: Stamp,
}

impl MemoryGrowth {
    pub fn add(&mut self, at: Stamp, process_and_limit: (f64, f64), bytes: f64) {
        if self.process_and_limit != Some(process_and_limit) {
            *self = Self {
                process_and_limit: Some(process_and_limit),
                ..Self::default()
            };
        }
        self.newest_sample = at;
        let now = at.uptime;
        let (begin, sum, count) = self.current_half_hour.unwrap_or((now, 0.0, 0.0));
        if now.saturating_sub(begin) < MEAN_SPAN {
            self.current_half_hour = Some((begin, sum + bytes, count + 1.0));
            return;
        }
        self.means
            .push(((begin + MEAN_SPAN / 2).as_secs_f64(), sum / count));
        self.means
            .drain(..self.means.len().saturating_sub(MAX_MEANS));
        self.current_half_hour = Some((now, bytes, 1.0));
    }

    pub fn forecast(&self) -> Option<LimitForecast> {
        let (expected, earliest, latest) = time_to_limit(&self.means, self.process_and_limit?.1)?;
        let age = self.newest_sample.uptime.as_secs_f64() - self.means.last()?.0;
        let unix = |time: f64| self.newest_sample.unix_seconds() - age + time;
        Some(LimitForecast {
            expected: unix(expected),
            earliest: unix(earliest),
            latest: latest.map(unix),
        })
    }
}

/// Seconds after the last point: expected, earliest, latest. The latest is `None` beyond ten times
/// the observed time.
fn time_to_limit(points: &[(f64, f64)], limit: f64) -> Option<(f64, f64, Option<f64>)> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < MIN_MEANS {
        return None;
    }
    let mut slopes: Vec<f64> = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, earlier) in points.iter().enumerate() {
        let later = points.iter().skip(index + 1);
        slopes.extend(later.map(|later| (later.1 - earlier.1) / (later.0 - earlier.0)));
    }
    slopes.sort_by(f64::total_cmp);
    let (count, pairs) = (points.len() as f64, slopes.len() as f64);
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    let rank_range = NORMAL_QUANTILE * variance.sqrt();
    let slope = |rank: f64| slopes.get(rank as usize).copied();
    let lower = slope(((pairs - rank_range) / 2.0).floor())?;
    let median = slope((pairs / 2.0).floor())?;
    let upper = slope(((pairs + rank_range) / 2.0).ceil())?;
    let remaining = (limit - last.1).max(0.0);
    let horizon = (last.0 - first.0) * MAX_HORIZON_FACTOR;
    let expected = remaining / median;
    let latest = Some(remaining / lower).filter(|time| *time <= horizon);
    (lower > 0.0 && expected <= horizon).then_some((expected, remaining / upper, latest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: f64 = 1000.0;

    /// Half-hour means that grow by `slope` each, with `noise` around them.
    fn means(count: usize, slope: f64, noise: f64) -> Vec<(f64, f64)> {
        let wave = |index: usize| ((index * index) as f64).sin();
        let mean = |index: usize| 500.0 + slope * index as f64 + noise * wave(index);
        (0..count)
            .map(|index| (1800.0 * index as f64, mean(index)))
            .collect()
    }

    #[test]
    fn enough_growth_tells_when_the_limit_is_met() {
        let (expected, earliest, latest) = time_to_limit(&means(48, 2.0, 10.0), LIMIT).unwrap();
        let exact = (LIMIT - 594.0) / 2.0 * 1800.0;
        assert!(
            (expected / exact - 1.0).abs() < 0.1,
            "{expected}, not {exact}"
        );
        assert!(earliest < expected && expected < latest.unwrap());
        let five_hours = means(11, 20.0, 0.0);
        assert_eq!(time_to_limit(&five_hours, LIMIT), None);
    }

    #[test]
    fn noise_and_slow_growth_tell_nothing() {
        for (slope, noise) in [(0.0, 10.0), (-2.0, 0.0), (0.5, 0.0)] {
            let points = means(48, slope, noise);
            assert_eq!(time_to_limit(&points, LIMIT), None, "{slope} {noise}");
        }
    }
}
