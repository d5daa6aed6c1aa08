//! Predicts the program cache of a recorded run at other sizes, for the command and for reports.

use crate::{
    prepared::{Prepared, SIZES, SourceArgs},
    trace_file::path_of,
};
use anyhow::Result;
use faultline_cache_sim::predict::{Curve, predict};
use faultline_common::{clock, output::say, progress::Progress};
use faultline_text::{count, time};
use serde::Serialize;
use std::path::Path;

pub use faultline_cache_sim::{
    interval::Range,
    predict::{Counter, Size},
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    pub version: String,
    pub recorded_entries: u64,
    pub coverage_percent: Option<f64>,
    pub seeds: u64,
    pub self_test: Vec<Counter>,
    /// Whether each counter is predicted within 10 %. If not, `sizes` is empty.
    pub self_test_passed: bool,
    /// Visible causes of wrong predictions.
    pub reasons: Vec<String>,
    /// Program cache time, summed over threads; `None` if a slot of the trace does not have it.
    pub recorded_seconds: Option<f64>,
    /// Recorded slots of the trace, over which seconds are summed.
    pub slots: u64,
    pub sizes: Vec<Size>,
    /// Sizes without a prediction, because the cache's content at the start decides.
    pub unknown: Vec<u64>,
    /// The smallest size from which no larger one saves 1 % of the replay time.
    pub enough_entries: Option<u64>,
}

/// Predicts from the trace next to the recording; `None` if there is no trace. Reports progress and
/// duration on standard error.
pub fn predict_from_adjacent_trace(run: &Path) -> Option<Result<Prediction>> {
    let trace = path_of(run, None);
    trace.symlink_metadata().ok()?;
    let args = SourceArgs {
        trace: Some(trace),
        version: None,
        entries: None,
        seeds: None,
    };
    Some(Prepared::read(run, &args).and_then(|prepared| {
        let begun = clock::uptime();
        let sizes = sizes(&[], prepared.entries);
        say(&format!(
            "{}: predicting the program cache at {} sizes from its trace, {} simulated runs each",
            run.display(),
            sizes.len(),
            prepared.seeds
        ));
        let prediction = Prediction::of(&prepared, &sizes)?;
        say(&format!(
            "{}: predicted in {}",
            run.display(),
            time(clock::uptime().saturating_sub(begun))
        ));
        Ok(prediction)
    }))
}

/// Always with the largest of [`SIZES`]: whether a size is enough depends on what larger ones save.
pub fn sizes(requested: &[u64], recorded: u64) -> Vec<u64> {
    let mut sizes = if requested.is_empty() {
        SIZES.to_vec()
    } else {
        requested.to_vec()
    };
    sizes.extend(SIZES.last());
    sizes.push(recorded);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Prediction {
    /// `sizes` contain the recorded one. Fails if the recording began in the middle and no size can
    /// be predicted.
    pub fn of(prepared: &Prepared, sizes: &[u64]) -> Result<Self> {
        // The recorded size is simulated first, and again with the others.
        let mut progress = Progress::new(sizes.len() as u64 + 1, "sizes");
        let tested = prepared.test()?;
        progress.at(1, "");
        let passed = tested.passed();
        let curve = if passed {
            let plan = prepared.plan(sizes, &tested.compile_us, tested.fit.as_ref());
            let mut done = 1;
            predict(&plan, |entries| {
                done += 1;
                progress.at(done, &format!(", last {}", count(entries)));
            })?
        } else {
            Curve::default()
        };
        drop(progress);
        let slots = prepared.trace.slots();
        let in_trace = |slot: u64| slots.binary_search_by_key(&slot, |s| s.slot).is_ok();
        let observed = prepared.recorded.observed.iter();
        let observed: Vec<_> = observed.filter(|o| in_trace(o.slot)).collect();
        let recorded_seconds = { observed.iter() }
            .map(|o| Some(o.cache_us? as f64 * 1e-6))
            .sum();
        let replay_us = prepared.recorded.replay_us;
        Ok(Prediction {
            version: prepared.version.clone(),
            recorded_entries: prepared.entries,
            coverage_percent: prepared.coverage.percent(),
            seeds: prepared.seeds,
            self_test: tested.counters,
            self_test_passed: passed,
            reasons: prepared.reasons(),
            recorded_seconds,
            slots: observed.len() as u64,
            enough_entries: replay_us.and_then(|us| curve.knee(prepared.entries, us)),
            sizes: curve.sizes,
            unknown: curve.unknown,
        })
    }
}
