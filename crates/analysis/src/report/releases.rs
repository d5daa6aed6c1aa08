//! What releases are compared by: the numbers of the report, a closed list.

use super::scalars::{OF_RELEASES, SCALARS, Scalar};
use super::subject::Subjects;
use crate::run::Run;
use faultline_stats::block::Plan;

/// In the order of the table.
const METRICS: &[&str] = &[
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

/// What a search has found: the only metric that no run has by itself.
pub const LEAST_RAM: &str = "least-ram";

/// The metrics by which releases are compared, in the order of the table.
pub fn metrics() -> impl Iterator<Item = &'static Scalar> {
    METRICS.iter().filter_map(|id| {
        SCALARS
            .iter()
            .chain(OF_RELEASES)
            .find(|scalar| scalar.id == *id)
    })
}

/// The [`metrics`] of each of these runs, which are compared with one another: all are taken from the same part of a run, that
/// of the report. `None` is what was not recorded.
pub fn values(runs: &[Run]) -> Vec<Vec<Option<f64>>> {
    let subjects = Subjects::new(runs, &Plan::default(), &[]);
    let part = subjects.compared();
    runs.iter()
        .map(|run| {
            let subject = subjects
                .all
                .iter()
                .find(|subject| std::ptr::eq(subject.run, run));
            let of = |scalar: &Scalar| {
                let subject = subject?;
                scalar.value(subject, part.of(subject)?)
            };
            metrics().map(of).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_known_and_a_run_without_anything_has_none() {
        assert_eq!(metrics().count(), METRICS.len());
        assert!(
            values(&[Run::default(), Run::default()])
                .iter()
                .all(|run| run.iter().all(Option::is_none))
        );
    }
}
