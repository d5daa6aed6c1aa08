//! Rates per second: of a counter, of the thread pools, and of times per slot.

use super::Response;
use faultline_metrics::Source;
use faultline_stats::rate::{Reading, rates};
use faultline_status::{ThreadPool, TimeHistogram};
use itertools::Itertools;
use std::{cmp::Ordering, collections::BTreeMap};

/// A daemon reports at most 151 pools.
const MAX_POOLS: usize = 1_000;

/// Computes rates by the times of the source's samples, not of the responses. So all responses
/// between two samples of a source have the same rate.
#[derive(Clone, Default)]
pub struct Meter {
    pub last: Option<Reading>,
    pub rate: Option<f64>,
}

impl Meter {
    /// The rate per second at this reading; the last rate until the source samples again. `None`
    /// for the first reading of a counter, after a fall, without a total, and if the source has no
    /// sample in the `stale_after` seconds before `now`.
    pub fn add(&mut self, reading: Reading, now: f64, stale_after: f64) -> Option<f64> {
        if reading.total.is_none() {
            self.rate = None;
            return None;
        }
        match self.last {
            Some(last) if last.at == reading.at && last.incarnation == reading.incarnation => {}
            _ => {
                let readings = self.last.into_iter().chain([reading]).collect_vec();
                self.rate = rates(&readings, stale_after).per_second.pop().flatten();
                self.last = Some(reading);
            }
        }
        if now - reading.at > stale_after {
            self.rate = None;
        }
        self.rate
    }
}

/// Program cache or replay time of the slots that were replayed between two pushes.
#[derive(Clone, Default)]
pub struct TimePerSlot {
    sum: Meter,
    count: Meter,
    buckets: Vec<Meter>,
    /// Seconds per slot, those of the cache summed over threads.
    pub mean: Option<f64>,
    pub p95: Option<f64>,
}

impl TimePerSlot {
    pub fn add(&mut self, response: &Response<'_>, times: Option<&TimeHistogram>) {
        let Some(times) = times else {
            *self = Self::default();
            return;
        };
        let rate = |meter, total| response.rate(meter, Source::Datapoints, Some(total));
        let sum = rate(&mut self.sum, times.sum);
        let count = rate(&mut self.count, times.count).filter(|count| *count > 0.0);
        self.buckets.resize(times.buckets.len(), Meter::default());
        let meters = self.buckets.iter_mut().zip(&times.buckets);
        // Every meter must take its total, even if the rate of another one is missing.
        let rates = meters
            .map(|(meter, (bound, total))| Some((*bound, rate(meter, *total)?)))
            .collect_vec();
        let buckets: Option<Vec<_>> = rates.into_iter().collect();
        self.mean = count.and_then(|count| Some(sum? / count));
        self.p95 = count.and_then(|count| quantile(&buckets?, count, 0.95));
    }
}

/// A quantile as in Prometheus. `buckets` are (upper bound, cumulative rate); values above the last
/// bound count as that bound. `None` without buckets or values.
fn quantile(buckets: &[(f64, f64)], total: f64, q: f64) -> Option<f64> {
    let rank = total * q;
    let mut low = 0.0;
    let mut count_below = 0.0;
    for (bound, count) in buckets {
        if *count >= rank && *count > count_below {
            return Some(low + (bound - low) * (rank - count_below) / (count - count_below));
        }
        (low, count_below) = (*bound, *count);
    }
    (total > 0.0 && !buckets.is_empty()).then_some(low)
}

#[derive(Clone, Copy, Default)]
pub enum PoolOrder {
    #[default]
    Faults,
    Cpu,
    Name,
}

impl PoolOrder {
    pub fn next(self) -> Self {
        match self {
            Self::Faults => Self::Cpu,
            Self::Cpu => Self::Name,
            Self::Name => Self::Faults,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Cpu => "CPU",
            Self::Name => "name",
        }
    }
}

#[derive(Clone, Default)]
pub struct ThreadPools {
    /// For major and minor faults, CPU and waiting.
    meters: BTreeMap<String, [Meter; 4]>,
    /// The newest pools, with rates per second.
    newest: Vec<ThreadPool>,
}

impl ThreadPools {
    pub fn add(&mut self, response: &Response<'_>) {
        let pools = &response.status.thread_pools;
        self.meters
            .retain(|name, _| pools.iter().any(|pool| pool.name == *name));
        let rate = |meter: &mut Meter, total| response.rate(meter, Source::Threads, total);
        let with_rates = pools.iter().take(MAX_POOLS).map(|pool| {
            let [major, minor, cpu, waiting] = self.meters.entry(pool.name.clone()).or_default();
            ThreadPool {
                name: pool.name.clone(),
                threads: pool.threads,
                major_faults: rate(major, pool.major_faults),
                minor_faults: rate(minor, pool.minor_faults),
                cpu: rate(cpu, pool.cpu),
                waiting: rate(waiting, pool.waiting),
            }
        });
        self.newest = with_rates.collect();
    }

    pub fn sorted(&self, order: PoolOrder) -> Vec<ThreadPool> {
        let mut pools = self.newest.clone();
        // The daemon sorts pools by name. A stable sort leaves equal pools in this order.
        match order {
            PoolOrder::Name => {}
            PoolOrder::Cpu => pools.sort_by(|a, b| descending(a.cpu, b.cpu)),
            PoolOrder::Faults => pools.sort_by(|a, b| {
                descending(a.major_faults, b.major_faults)
                    .then(descending(a.minor_faults, b.minor_faults))
            }),
        }
        pools
    }
}

fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(readings: &[(f64, Option<f64>, u64)]) -> Vec<Option<f64>> {
        let mut meter = Meter::default();
        readings
            .iter()
            .map(|(at, total, incarnation)| {
                meter.add(
                    Reading {
                        at: *at,
                        total: *total,
                        incarnation: *incarnation,
                    },
                    *at,
                    60.0,
                )
            })
            .collect()
    }

    #[test]
    fn a_source_without_a_new_sample_keeps_its_rate() {
        let got = taken(&[
            (0.0, Some(0.0), 1),
            (5.0, Some(50.0), 1),
            (5.0, Some(50.0), 1),
            (10.0, Some(50.0), 1),
        ]);
        assert_eq!(got, [None, Some(10.0), Some(10.0), Some(0.0)]);
    }

    #[test]
    fn restart_decrease_gap_or_missing_total_give_no_rate() {
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (1.0, Some(10.0), 2),
                (2.0, Some(12.0), 2)
            ]),
            [None, None, Some(2.0)]
        );
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (1.0, Some(8.0), 1),
                (2.0, Some(9.0), 1)
            ]),
            [None, None, Some(1.0)]
        );
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (61.0, Some(10.0), 1),
                (62.0, Some(11.0), 1)
            ]),
            [None, None, Some(1.0)]
        );
        assert_eq!(
            taken(&[(0.0, Some(8.0), 1), (1.0, None, 1), (2.0, Some(12.0), 1)]),
            [None, None, Some(2.0)]
        );
        assert_eq!(
            taken(&[(5.0, Some(8.0), 1), (4.0, Some(9.0), 1)]),
            [None, None]
        );
    }

    #[test]
    fn a_source_that_fell_silent_has_no_rate() {
        let mut meter = Meter::default();
        let reading = |at, total| Reading {
            at,
            total: Some(total),
            incarnation: 1,
        };
        meter.add(reading(0.0, 0.0), 0.0, 60.0);
        assert_eq!(meter.add(reading(10.0, 100.0), 10.0, 60.0), Some(10.0));
        assert_eq!(meter.add(reading(10.0, 100.0), 69.0, 60.0), Some(10.0));
        assert_eq!(meter.add(reading(10.0, 100.0), 71.0, 60.0), None);
    }

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
