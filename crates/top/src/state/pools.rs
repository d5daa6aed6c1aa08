use super::PageSamples;
use crate::rate::Meter;
use faultline_catalog::metrics::pools;
use faultline_catalog::{Metric, Source};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A daemon has at most 151.
const MOST_POOLS: usize = 1_000;

/// `None` without a value, or without a rate yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) threads: Option<f64>,
    /// Major faults per second.
    pub(crate) major: Option<f64>,
    /// Minor faults per second.
    pub(crate) minor: Option<f64>,
    /// Seconds per second, user and system.
    pub(crate) cpu: Option<f64>,
    /// Seconds per second in which threads were ready and had no CPU.
    pub(crate) waiting: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Faults,
    Cpu,
    Name,
}

impl Order {
    pub(crate) fn next(self) -> Self {
        match self {
            Order::Faults => Order::Cpu,
            Order::Cpu => Order::Name,
            Order::Name => Order::Faults,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Order::Faults => "faults",
            Order::Cpu => "CPU",
            Order::Name => "name",
        }
    }
}

type Meters = [Meter; 4];

#[derive(Debug, Clone, Default)]
pub(super) struct Pools {
    meters: BTreeMap<String, Meters>,
    now: Vec<Pool>,
}

impl Pools {
    pub(super) fn take(&mut self, page_samples: &PageSamples<'_>) {
        let page = page_samples.page;
        let mut totals: BTreeMap<String, [Option<f64>; 4]> = BTreeMap::new();
        let of = |index: usize,
                  metric: &'static Metric,
                  totals: &mut BTreeMap<String, [Option<f64>; 4]>,
                  kind: &str| {
            for (name, labels, value) in page.pairs(metric, "pool") {
                let wanted = kind.is_empty() || labels == Some(kind);
                let known = totals.len() < MOST_POOLS || totals.contains_key(name);
                if wanted && known && value.is_finite() {
                    let total = totals.entry(name.to_owned()).or_default();
                    if let Some(total) = total.get_mut(index) {
                        *total = Some(total.unwrap_or_default() + value);
                    }
                }
            }
        };
        of(0, &pools::PAGE_FAULTS, &mut totals, "major");
        of(1, &pools::PAGE_FAULTS, &mut totals, "minor");
        of(2, &pools::CPU, &mut totals, "");
        of(3, &pools::RUN_QUEUE, &mut totals, "");
        let threads: BTreeMap<&str, f64> = page.by_label(&pools::THREADS, "pool").collect();
        self.meters.retain(|name, _| totals.contains_key(name));
        self.now = totals
            .into_iter()
            .map(|(name, totals)| {
                let meters = self.meters.entry(name.clone()).or_default();
                let mut rates = meters.iter_mut().zip(totals).map(|(meter, total)| {
                    page_samples
                        .reading(Source::Threads, total)
                        .and_then(|r| meter.take(r, page_samples.now(), page_samples.longest))
                });
                let mut next = || rates.next().flatten();
                let (major, minor, cpu, waiting) = (next(), next(), next(), next());
                let threads = threads.get(name.as_str()).copied();
                Pool {
                    threads,
                    name,
                    major,
                    minor,
                    cpu,
                    waiting,
                }
            })
            .collect();
    }

    pub(super) fn sorted(&self, order: Order) -> Vec<Pool> {
        let mut pools = self.now.clone();
        // They are in the order of names; a stable sort keeps it for equal ones.
        match order {
            Order::Name => {}
            Order::Cpu => pools.sort_by(|a, b| falling(a.cpu, b.cpu)),
            Order::Faults => {
                pools.sort_by(|a, b| falling(a.major, b.major).then(falling(a.minor, b.minor)))
            }
        }
        pools
    }
}

fn falling(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
