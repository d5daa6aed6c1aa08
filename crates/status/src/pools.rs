//! Thread pools, and times of replayed slots.

use crate::{answer::AnswerInputs, readings::Readings};
use faultline_metrics::{
    LabelText, Metric, Value,
    metrics::{pools as m, validator as v},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Totals since the pool began; CPU and waiting time in seconds. `faultline top` replaces them with
/// rates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadPool {
    pub name: String,
    /// Living threads.
    pub threads: Option<f64>,
    pub major_faults: Option<f64>,
    pub minor_faults: Option<f64>,
    /// User and system.
    pub cpu: Option<f64>,
    /// Time in which threads were ready and had no CPU.
    pub waiting: Option<f64>,
}

/// Sorted by name.
pub fn thread_pools(readings: Readings<'_>) -> Vec<ThreadPool> {
    let mut pools = BTreeMap::new();
    for reading in readings.tick.readings() {
        let is = |metric: &'static Metric| std::ptr::eq(reading.metric, metric);
        let kind = reading.label_values.get(1).map(LabelText::as_str);
        let field: fn(&mut ThreadPool) -> &mut Option<f64> = match kind {
            _ if is(&m::THREADS) => |pool| &mut pool.threads,
            _ if is(&m::CPU) => |pool| &mut pool.cpu,
            _ if is(&m::RUN_QUEUE) => |pool| &mut pool.waiting,
            Some("major") if is(&m::PAGE_FAULTS) => |pool| &mut pool.major_faults,
            Some("minor") if is(&m::PAGE_FAULTS) => |pool| &mut pool.minor_faults,
            _ => continue,
        };
        let name = reading.first_label();
        if let Some(number) = reading.value.number() {
            let total = field(pools.entry(name).or_default());
            *total = Some(total.unwrap_or_default() + number);
        }
    }
    let named = pools.into_iter().map(|(name, pool)| ThreadPool {
        name: name.to_owned(),
        ..pool
    });
    named.collect()
}

/// Times of replayed slots since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotTimes {
    /// Program cache time, summed over threads.
    pub cache: Option<TimeHistogram>,
    pub replay: Option<TimeHistogram>,
}

/// Means over the slots that were replayed in the last five minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PerSlot {
    /// Of programs into the program cache.
    pub reloads: Option<f64>,
    /// Program cache time, summed over threads.
    pub cache_seconds: Option<f64>,
    pub replay_seconds: Option<f64>,
}

impl PerSlot {
    pub(crate) fn of(inputs: &AnswerInputs) -> Self {
        Self {
            reloads: inputs.reloads_per_slot,
            cache_seconds: inputs.cache_seconds_per_slot,
            replay_seconds: inputs.replay_seconds_per_slot,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeHistogram {
    pub sum: f64,
    pub count: f64,
    /// Upper bounds, and the number of slots up to each.
    pub buckets: Vec<(f64, f64)>,
}

impl SlotTimes {
    pub(crate) fn of(readings: Readings<'_>) -> Self {
        Self {
            cache: times(readings, &v::CACHE_TIME, "replay"),
            replay: times(readings, &v::REPLAY_TIME, "total"),
        }
    }
}

fn times(readings: Readings<'_>, metric: &'static Metric, label: &str) -> Option<TimeHistogram> {
    let mut series = readings.series(metric);
    let reading = series.find(|reading| reading.first_label() == label)?;
    let Value::Histogram(histogram) = &reading.value else {
        return None;
    };
    let buckets = histogram
        .cumulative()
        .filter(|(bound, _)| bound.is_finite());
    Some(TimeHistogram {
        sum: histogram.sum(),
        count: histogram.count() as f64,
        buckets: buckets
            .map(|(bound, count)| (bound, count as f64))
            .collect(),
    })
}
