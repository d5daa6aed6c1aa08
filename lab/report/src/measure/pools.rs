use super::Span;
use crate::run::{Pool, PoolRow, Run};
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

pub fn pool_faults(run: &Run, window: Span) -> Vec<PoolFaults> {
    let first_ticks = first_ticks(run);
    let mut pools: Vec<PoolFaults> = run
        .pools
        .iter()
        .map(|pool| pool_growth(run, pool, window, &first_ticks))
        .collect();
    let faults = |pool: &PoolFaults| pool.major.unwrap_or(0.0) + pool.minor.unwrap_or(0.0);
    pools.sort_by(|a, b| {
        faults(b)
            .total_cmp(&faults(a))
            .then_with(|| a.name.cmp(&b.name))
    });
    pools
}

type Epoch = (i64, Option<i64>);

fn epoch(run: &Run, row: &PoolRow) -> Option<(Epoch, f64)> {
    let tick = run.ticks.get(row.tick)?;
    Some(((tick.session, tick.process), tick.at))
}

/// First tick of each process with pool data; a pool that appears later began at zero.
fn first_ticks(run: &Run) -> BTreeMap<Epoch, usize> {
    let mut first_ticks = BTreeMap::new();
    for row in run.pools.iter().flat_map(|pool| &pool.rows) {
        if let Some((epoch, _)) = epoch(run, row) {
            let first = first_ticks.entry(epoch).or_insert(row.tick);
            *first = (*first).min(row.tick);
        }
    }
    first_ticks
}

fn pool_growth(
    run: &Run,
    pool: &Pool,
    window: Span,
    first_ticks: &BTreeMap<Epoch, usize>,
) -> PoolFaults {
    let mut growth = PoolFaults {
        name: pool.name.clone(),
        ..PoolFaults::default()
    };
    let mut before: Option<(Epoch, PoolRow)> = None;
    for row in &pool.rows {
        let Some((epoch, at)) = epoch(run, row) else {
            continue;
        };
        let last = match before {
            Some((same, last)) if same == epoch => Some(last),
            _ if first_ticks.get(&epoch) == Some(&row.tick) => None,
            _ => Some(PoolRow {
                major: Some(0.0),
                minor: Some(0.0),
                cpu: Some(0.0),
                ..PoolRow::default()
            }),
        };
        before = Some((epoch, *row));
        if at > window.to {
            break;
        }
        // A row holds until the next one: a pool without a new row gained nothing.
        growth.threads = row.threads;
        start_at_zero(&mut growth, row);
        if let Some(last) = last.filter(|_| at >= window.from) {
            add(&mut growth.major, last.major, row.major);
            add(&mut growth.minor, last.minor, row.minor);
            add(&mut growth.cpu, last.cpu, row.cpu);
        }
    }
    growth
}

fn start_at_zero(growth: &mut PoolFaults, row: &PoolRow) {
    growth.major = growth.major.or(row.major.map(|_| 0.0));
    growth.minor = growth.minor.or(row.minor.map(|_| 0.0));
    growth.cpu = growth.cpu.or(row.cpu.map(|_| 0.0));
}

fn add(sum: &mut Option<f64>, before: Option<f64>, now: Option<f64>) {
    if let (Some(before), Some(now)) = (before, now)
        && now >= before
    {
        *sum = Some(sum.unwrap_or(0.0) + now - before);
    }
}
