//! Program cache time per replayed slot, between two pushes.

use super::Samples;
use crate::rate::Meter;
use faultline_metrics::Source;
use faultline_status::TimeHistogram;

/// `None` until two pushes have had a slot.
#[derive(Debug, Clone, Default)]
pub struct SlotTimes {
    pub cache: TimePerSlot,
    pub replay: TimePerSlot,
}

impl SlotTimes {
    pub fn take(&mut self, samples: &Samples<'_>) {
        let slots = &samples.status.slots;
        self.cache.take(samples, slots.cache.as_ref());
        self.replay.take(samples, slots.replay.as_ref());
    }
}

#[derive(Debug, Clone, Default)]
pub struct TimePerSlot {
    sum: Meter,
    count: Meter,
    buckets: Vec<Meter>,
    /// Seconds per slot, those of the cache summed over threads.
    pub mean: Option<f64>,
    pub p95: Option<f64>,
}

impl TimePerSlot {
    fn take(&mut self, samples: &Samples<'_>, times: Option<&TimeHistogram>) {
        let Some(times) = times else {
            *self = TimePerSlot::default();
            return;
        };
        let rate = |meter: &mut Meter, total| samples.rate(meter, Source::Datapoints, Some(total));
        let sum = rate(&mut self.sum, times.sum);
        let count = rate(&mut self.count, times.count).filter(|count| *count > 0.0);
        self.buckets.resize(times.buckets.len(), Meter::default());
        let meters = self.buckets.iter_mut().zip(&times.buckets);
        // Every meter must take its total, even if the rate of another one is missing.
        let rates: Vec<(f64, Option<f64>)> = meters
            .map(|(meter, (bound, total))| (*bound, rate(meter, *total)))
            .collect();
        let buckets: Option<Vec<(f64, f64)>> = rates
            .into_iter()
            .map(|(bound, rate)| Some((bound, rate?)))
            .collect();
        self.mean = sum.zip(count).map(|(sum, count)| sum / count);
        self.p95 = buckets
            .zip(count)
            .and_then(|(buckets, count)| quantile(&buckets, count, 0.95));
    }
}

/// A quantile of cumulative rates by finite upper bound. Values are evenly spread within a bucket,
/// as in Prometheus; those above the last bound count as that bound. `None` without buckets.
fn quantile(buckets: &[(f64, f64)], total: f64, q: f64) -> Option<f64> {
    let rank = total * q;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank && *count > below {
            return Some(low + (bound - low) * (rank - below) / (count - below));
        }
        (low, below) = (*bound, *count);
    }
    (total > 0.0 && !buckets.is_empty()).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_where_prometheus_puts_it() {
        let buckets = [(1.0, 0.0), (2.0, 10.0), (4.0, 20.0)];
        assert_eq!(quantile(&buckets, 20.0, 0.5), Some(2.0));
        assert_eq!(quantile(&buckets, 20.0, 0.95), Some(3.8));
        assert_eq!(quantile(&[(1.0, 1.0)], 9.0, 0.95), Some(1.0));
        assert_eq!(quantile(&[(1.0, 0.0)], 0.0, 0.95), None);
        assert_eq!(quantile(&[], 0.0, 0.95), None);
    }
}
