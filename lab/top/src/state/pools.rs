use super::Samples;
use crate::rate::Meter;
use faultline_metrics::Source;
use faultline_status::Pool;
use std::{cmp::Ordering, collections::BTreeMap};

/// Limit for foreign answers; a daemon has at most 151 pools.
const MAX_POOLS: usize = 1_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Faults,
    Cpu,
    Name,
}

impl Order {
    pub fn next(self) -> Self {
        match self {
            Order::Faults => Order::Cpu,
            Order::Cpu => Order::Name,
            Order::Name => Order::Faults,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Order::Faults => "faults",
            Order::Cpu => "CPU",
            Order::Name => "name",
        }
    }
}

type Meters = [Meter; 4];

#[derive(Debug, Clone, Default)]
pub struct Pools {
    meters: BTreeMap<String, Meters>,
    /// The newest pools, with rates per second.
    now: Vec<Pool>,
}

impl Pools {
    pub fn take(&mut self, samples: &Samples<'_>) {
        let pools = &samples.status.pools;
        self.meters
            .retain(|name, _| pools.iter().any(|pool| pool.name == *name));
        let known = pools.iter().take(MAX_POOLS).map(|pool| {
            let [major, minor, cpu, waiting] = self.meters.entry(pool.name.clone()).or_default();
            let rate = |meter: &mut Meter, total| samples.rate(meter, Source::Threads, total);
            Pool {
                name: pool.name.clone(),
                threads: pool.threads,
                major_faults: rate(major, pool.major_faults),
                minor_faults: rate(minor, pool.minor_faults),
                cpu: rate(cpu, pool.cpu),
                waiting: rate(waiting, pool.waiting),
            }
        });
        self.now = known.collect();
    }

    pub fn sorted(&self, order: Order) -> Vec<Pool> {
        let mut pools = self.now.clone();
        // The pools are in the order of names; a stable sort keeps it for equal ones.
        match order {
            Order::Name => {}
            Order::Cpu => pools.sort_by(|a, b| descending(a.cpu, b.cpu)),
            Order::Faults => pools.sort_by(|a, b| {
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
