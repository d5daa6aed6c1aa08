use super::{Plan, by_slot};
use crate::{cache::Counts, cost::Observed, error::Error};
use serde::Serialize;

/// A larger bias than this, in percent, forbids extrapolation.
const MAX_BIAS_PERCENT: f64 = 10.0;
/// Below this number of recorded events, the difference counts instead of the percentage.
const FEW_EVENTS: f64 = 100.0;
/// Allowed difference of few events.
const MAX_DIFFERENCE: f64 = 10.0;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counter {
    /// Name in the validator's datapoint.
    pub name: &'static str,
    pub recorded: u64,
    pub predicted: f64,
    /// Relative to the recorded value; `None` if that is 0.
    pub bias_percent: Option<f64>,
}

impl Counter {
    pub fn is_close(&self) -> bool {
        is_close(self.recorded as f64, self.predicted)
    }
}

/// `None` if nothing was recorded.
pub fn off_percent(recorded: f64, predicted: f64) -> Option<f64> {
    (recorded > 0.0).then(|| 100.0 * (predicted - recorded) / recorded)
}

/// Whether a counter is predicted well enough: within 10 %, or within 10 events if fewer than 100
/// were recorded.
pub fn is_close(recorded: f64, predicted: f64) -> bool {
    if recorded < FEW_EVENTS {
        return (predicted - recorded).abs() <= MAX_DIFFERENCE;
    }
    off_percent(recorded, predicted).is_some_and(|percent| percent.abs() <= MAX_BIAS_PERCENT)
}

/// Simulates the recorded size and compares it with the recording, for the slots of both. The
/// caller sums datapoints of the same slot.
pub fn self_test(plan: &Plan, entries: u64, observed: &[Observed]) -> Result<Vec<Counter>, Error> {
    let simulated = by_slot(plan, entries)?;
    let found = |o: &Observed| {
        simulated
            .binary_search_by_key(&o.slot, |(slot, _)| *slot)
            .ok()
    };
    let pairs: Vec<(&Observed, &Counts)> = observed
        .iter()
        .filter_map(|o| Some((o, &simulated[found(o)?].1)))
        .collect();
    let runs = plan.seeds.max(1) as f64;
    let counter = |name, recorded: fn(&Observed) -> u64, predicted: fn(&Counts) -> u64| {
        let recorded = pairs
            .iter()
            .fold(0, |sum: u64, (o, _)| sum.saturating_add(recorded(o)));
        let predicted = pairs.iter().map(|(_, c)| predicted(c)).sum::<u64>() as f64 / runs;
        Counter {
            name,
            recorded,
            predicted,
            bias_percent: off_percent(recorded as f64, predicted),
        }
    };
    Ok(vec![
        counter("misses", |o| o.misses, |c| c.misses),
        counter("evictions", |o| o.evictions, |c| c.evictions),
        counter("reloads", |o| o.reloads, |c| c.reloads),
        counter("insertions", |o| o.insertions, |c| c.insertions),
    ])
}
