use super::{Span, epoch};
use crate::run::{Pool, Run};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolFaults {
    pub name: String,
    /// At the end of the part; `None` if the pool is gone by then.
    pub threads: Option<f64>,
    pub major: Option<f64>,
    pub minor: Option<f64>,
    /// CPU seconds.
    pub cpu: Option<f64>,
}

impl PoolFaults {
    /// Major and minor ones.
    pub fn faults(&self) -> f64 {
        self.major.unwrap_or(0.0) + self.minor.unwrap_or(0.0)
    }
}

pub fn pool_faults(run: &Run, window: Span) -> Vec<PoolFaults> {
    let first_ticks = first_ticks(run);
    let mut pools: Vec<PoolFaults> = run
        .pools
        .iter()
        .map(|pool| pool_growth(run, pool, window, &first_ticks))
        .collect();
    pools.sort_by(|a, b| {
        b.faults()
            .total_cmp(&a.faults())
            .then_with(|| a.name.cmp(&b.name))
    });
    pools
}

/// First tick of each process with pool data; a pool that appears later began at zero.
fn first_ticks(run: &Run) -> BTreeMap<u64, usize> {
    let mut first_ticks = BTreeMap::new();
    for row in run.pools.iter().flat_map(|pool| &pool.rows) {
        if let Some(tick) = run.ticks.get(row.tick) {
            let first = first_ticks.entry(epoch(tick)).or_insert(row.tick);
            *first = (*first).min(row.tick);
        }
    }
    first_ticks
}

fn pool_growth(
    run: &Run,
    pool: &Pool,
    window: Span,
    first_ticks: &BTreeMap<u64, usize>,
) -> PoolFaults {
    let (mut threads, mut sums) = (None, [None; 3]);
    let mut before: Option<(u64, [Option<f64>; 3])> = None;
    for row in &pool.rows {
        let Some(tick) = run.ticks.get(row.tick) else {
            continue;
        };
        let (epoch, now) = (epoch(tick), [row.major, row.minor, row.cpu]);
        let last = match before {
            Some((same, last)) if same == epoch => last,
            _ if first_ticks.get(&epoch) == Some(&row.tick) => [None; 3],
            _ => [Some(0.0); 3],
        };
        before = Some((epoch, now));
        if tick.at > window.to {
            break;
        }
        // A row holds until the next one: a pool without a new row gained nothing.
        threads = row.threads;
        for ((sum, last), now) in sums.iter_mut().zip(last).zip(now) {
            let Some(now) = now else { continue };
            let sum = sum.get_or_insert(0.0);
            if let Some(last) = last.filter(|last| tick.at >= window.from && now >= *last) {
                *sum = *sum + now - last;
            }
        }
    }
    let [major, minor, cpu] = sums;
    PoolFaults {
        name: pool.name.clone(),
        threads,
        major,
        minor,
        cpu,
    }
}
