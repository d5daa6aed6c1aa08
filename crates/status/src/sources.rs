//! What each source of the daemon last did.

use crate::readings::Readings;
use faultline_metrics::{Source, Stamp, Status, metrics::daemon as m};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    pub name: String,
    pub is_up: bool,
    /// Time of the newest values, in seconds since 1970. Datapoints have that of the push.
    pub values_from: Option<f64>,
    /// Seconds since it was sampled.
    pub age: f64,
    /// Seconds that the sample took.
    pub took: f64,
    /// Problems since the start, by kind.
    pub problems: BTreeMap<String, f64>,
    /// Number of problems of this sample.
    pub current_problems: usize,
    /// Kind and description of the newest problem of this sample.
    pub newest_problem: Option<(String, String)>,
}

/// Each source once: the daemon has a second batch, with the metrics of all sources.
pub fn sources(readings: Readings<'_>, now: Stamp) -> Vec<SourceStatus> {
    let mut sources: Vec<SourceStatus> = Vec::new();
    for batch in &readings.0.batches {
        let name = batch.source.name();
        if sources.iter().any(|known| known.name == name) {
            continue;
        }
        let problems = Status::ALL.iter().filter_map(|kind| {
            let count = readings.number_of(&m::SOURCE_PROBLEMS, &[name, kind.name()])?;
            (count > 0.0).then(|| (kind.name().to_owned(), count))
        });
        let push = readings
            .number(&m::LAST_PUSH)
            .filter(|_| batch.source == Source::Datapoints);
        let newest = batch.problems.last();
        sources.push(SourceStatus {
            name: name.to_owned(),
            is_up: batch.up,
            values_from: push.or_else(|| readings.number_of(&m::SOURCE_LAST_SUCCESS, &[name])),
            age: now.since(batch.at).as_secs_f64(),
            took: batch.took.as_secs_f64(),
            problems: problems.collect(),
            current_problems: batch.problems.len(),
            newest_problem: newest
                .map(|problem| (problem.status.name().to_owned(), problem.what.clone())),
        });
    }
    sources
}
