//! The metrics by which a campaign compares releases of the validator.

use super::{
    measured_run::MeasuredRuns,
    run_metrics::{RELEASE_ONLY_METRICS, RUN_METRICS, RunMetric},
};
use crate::run::Run;
use faultline_stats::block_bootstrap::IntervalPlan;

/// Ids of metrics. `cache-…` are of the program cache; `read-cache-hits` is the hit ratio of the
/// accounts read cache.
const COMPARED_METRICS: &[&str] = &[
    "rss-at-tip",
    "anon-at-tip",
    "major-faults",
    "replay-p50",
    "replay-p95",
    "cache-misses",
    "cache-evictions",
    "cache-time",
    "read-cache-hits",
    "index-memory",
    "catch-up",
    LEAST_RAM,
];

/// The result of a search: one run whose memory limit is moved. A recording does not show the
/// result, so the campaign adds it from the search.
pub const LEAST_RAM: &str = "least-ram";

pub fn metrics() -> impl Iterator<Item = &'static RunMetric> {
    COMPARED_METRICS.iter().filter_map(|id| {
        RUN_METRICS
            .iter()
            .chain(RELEASE_ONLY_METRICS)
            .find(|run_metric| run_metric.id == *id)
    })
}

/// For each run, the values of [`metrics`]. Most are from the part of the runs that
/// [`MeasuredRuns::compared_part`] chooses. The catch-up time and the metrics at the tip have parts
/// of their own.
pub fn values(recordings: Vec<Run>) -> Vec<Vec<Option<f64>>> {
    let arm_order = [];
    let mut runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &arm_order);
    let part = runs.compared_part();
    runs.all.sort_by_key(|run| run.input_index);
    let values = |run| {
        metrics()
            .map(|run_metric| run_metric.value(run, part.numbers(run)?))
            .collect()
    };
    runs.all.iter().map(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_metric_is_known_and_an_empty_run_has_none() {
        assert_eq!(metrics().count(), COMPARED_METRICS.len());
        assert!(
            values(vec![Run::default(), Run::default()])
                .iter()
                .all(|values| values.iter().all(Option::is_none))
        );
    }
}
