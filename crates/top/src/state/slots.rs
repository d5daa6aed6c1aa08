//! Program cache time per replayed slot, between two pushes.

use super::PageSamples;
use faultline_catalog::{Metric, Source, metrics};
use faultline_stats::rate::Reading;

/// `None` until two pushes have had a slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotTimes {
    cache: Times,
    replay: Times,
}

impl SlotTimes {
    pub(super) fn take(&mut self, page_samples: &PageSamples<'_>) {
        self.cache
            .take(page_samples, &metrics::validator::CACHE_TIME, "replay");
        self.replay
            .take(page_samples, &metrics::validator::REPLAY_TIME, "total");
    }

    /// Seconds per slot, summed over threads.
    pub(crate) fn cache_mean(&self) -> Option<f64> {
        self.cache.mean
    }

    /// 95th percentile in seconds, within the bounds of the histogram's buckets.
    pub(crate) fn cache_p95(&self) -> Option<f64> {
        self.cache.p95
    }

    /// Wall-clock seconds per slot.
    pub(crate) fn replay_mean(&self) -> Option<f64> {
        self.replay.mean
    }
}

#[derive(Debug, Clone, Default)]
struct Times {
    last: Option<(Reading, Totals)>,
    mean: Option<f64>,
    p95: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Totals {
    sum: f64,
    count: f64,
    buckets: Vec<(f64, f64)>,
}

impl Times {
    fn take(&mut self, page_samples: &PageSamples<'_>, metric: &Metric, label: &str) {
        let totals = || {
            let sum = page_samples.page.with_suffix(metric, "_sum", &[label])?;
            let count = page_samples.page.with_suffix(metric, "_count", &[label])?;
            Some(Totals {
                sum,
                count,
                buckets: page_samples.page.buckets(metric, &[label]),
            })
        };
        let (Some(totals), Some(reading)) =
            (totals(), page_samples.reading(Source::Datapoints, None))
        else {
            *self = Times::default();
            return;
        };
        match self
            .last
            .take()
            .filter(|(before, _)| before.epoch == reading.epoch)
        {
            Some((before, was)) if before.at == reading.at => self.last = Some((before, was)),
            before => {
                let grown = before.filter(|(before, _)| {
                    (0.0..=page_samples.longest).contains(&(reading.at - before.at))
                });
                (self.mean, self.p95) = grown.map_or((None, None), |(_, was)| since(&was, &totals));
                self.last = Some((reading, totals));
            }
        }
        if page_samples.now() - reading.at > page_samples.longest {
            (self.mean, self.p95) = (None, None);
        }
    }
}

/// Mean and 95th percentile between two readings; `None` without slots, or if a total fell.
fn since(was: &Totals, is: &Totals) -> (Option<f64>, Option<f64>) {
    let (slots, seconds) = (is.count - was.count, is.sum - was.sum);
    if slots <= 0.0 || seconds < 0.0 {
        return (None, None);
    }
    let same = was.buckets.len() == is.buckets.len();
    let grown: Vec<(f64, f64)> = was
        .buckets
        .iter()
        .zip(&is.buckets)
        .map(|(was, is)| (is.0, is.1 - was.1))
        .collect();
    (
        Some(seconds / slots),
        if same { quantile(&grown, 0.95) } else { None },
    )
}

/// A quantile of cumulative counts by upper bound, interpolated within a bucket as in Prometheus;
/// `None` without counts. At most the last finite bound.
fn quantile(buckets: &[(f64, f64)], q: f64) -> Option<f64> {
    let rank = buckets.last()?.1 * q;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank && *count > below {
            return Some(if bound.is_finite() {
                low + (bound - low) * (rank - below) / (count - below)
            } else {
                low
            });
        }
        (low, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_where_prometheus_puts_it() {
        let buckets = [(1.0, 0.0), (2.0, 10.0), (4.0, 20.0), (f64::INFINITY, 20.0)];
        assert_eq!(quantile(&buckets, 0.5), Some(2.0));
        assert_eq!(quantile(&buckets, 0.95), Some(3.8));
        assert_eq!(
            quantile(&[(1.0, 1.0), (f64::INFINITY, 9.0)], 0.95),
            Some(1.0)
        );
        assert_eq!(quantile(&[(1.0, 0.0), (f64::INFINITY, 0.0)], 0.95), None);
        assert_eq!(quantile(&[], 0.95), None);
    }

    #[test]
    fn no_slot_and_a_fall_have_no_mean() {
        let totals = |sum, count| Totals {
            sum,
            count,
            buckets: vec![(f64::INFINITY, count)],
        };
        assert_eq!(since(&totals(1.0, 5.0), &totals(2.0, 7.0)).0, Some(0.5));
        assert_eq!(since(&totals(1.0, 5.0), &totals(1.0, 5.0)), (None, None));
        assert_eq!(since(&totals(1.0, 5.0), &totals(0.5, 2.0)), (None, None));
    }
}
