//! Predicts the program cache of a recorded run at other sizes, for the command and for reports.

use crate::prepared::{Prepared, SIZES, SourceArgs};
use crate::trace_file::path_of;
use faultline_cache_sim::interval::Interval;
use faultline_cache_sim::predict::{Bias, Curve, Point, predict};
use faultline_common::clock;
use faultline_common::output::say;
use faultline_common::progress::Progress;
use faultline_text::{count, number, time};
use serde::Serialize;
use std::path::Path;

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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counter {
    /// Name in the validator's datapoint.
    pub name: &'static str,
    pub recorded: u64,
    pub predicted: f64,
    /// Relative to the recorded value; `None` if that is 0.
    pub bias_percent: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    pub entries: u64,
    pub misses: Range,
    pub reloads: Range,
    pub evictions: Range,
    pub insertions: Range,
    /// Program cache time in replay, summed over threads.
    pub seconds: Option<Range>,
    /// Uncompiled code of the programs in the cache at the end; `None` if the trace has no sizes.
    pub code_bytes: Option<Range>,
}

/// The mean, and the interval that contains a further run with 95 % probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Range {
    pub fn of(interval: &Interval, scale: f64) -> Self {
        Range {
            mean: interval.mean * scale,
            low: interval.low * scale,
            high: interval.high * scale,
        }
    }

    /// `3,580 (3,507 to 3,653)`.
    pub fn text(&self, decimals: usize) -> String {
        let [mean, low, high] =
            [self.mean, self.low, self.high].map(|value| number(value, decimals));
        if low == high {
            mean
        } else {
            format!("{mean} ({low} to {high})")
        }
    }
}

/// Predicts from the trace next to the recording; `None` if there is no trace. Reports progress and
/// duration on standard error.
pub fn predict_from_adjacent_trace(run: &Path) -> Option<anyhow::Result<Prediction>> {
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
    pub fn of(prepared: &Prepared, sizes: &[u64]) -> anyhow::Result<Self> {
        // The recorded size is simulated first, and again with the others.
        let mut progress = Progress::new(sizes.len() as u64 + 1, "sizes");
        let tested = prepared.test()?;
        progress.at(1, "");
        let passed = tested.test.passed();
        let curve = if passed {
            let plan = prepared.plan(sizes, &tested.compile_us, tested.fit.as_ref());
            let mut done = 1;
            Some(predict(&plan, |entries| {
                done += 1;
                progress.at(done, &format!(", last {}", count(entries)));
            })?)
        } else {
            None
        };
        drop(progress);
        let (points, unknown) = curve
            .as_ref()
            .map_or((&[][..], &[][..]), |curve| (&curve.points, &curve.unknown));
        let has_sizes = prepared
            .trace
            .programs()
            .iter()
            .any(|program| program.bytes.is_some());
        let knee = |curve: &Curve| curve.knee(prepared.entries, prepared.recorded.replay_us?);
        Ok(Prediction {
            version: prepared.version.clone(),
            recorded_entries: prepared.entries,
            coverage_percent: prepared.coverage.percent(),
            seeds: prepared.seeds,
            self_test: tested.test.counters.iter().map(counter).collect(),
            self_test_passed: passed,
            reasons: prepared.reasons(),
            recorded_seconds: recorded_seconds(prepared),
            slots: times_in_trace(prepared).count() as u64,
            sizes: points.iter().map(|point| size(point, has_sizes)).collect(),
            unknown: unknown.iter().map(|unknown| unknown.entries).collect(),
            enough_entries: curve.as_ref().and_then(knee),
        })
    }
}

/// Recorded program cache time of each slot in the trace, in µs.
fn times_in_trace(prepared: &Prepared) -> impl Iterator<Item = Option<u64>> {
    let slots = prepared.trace.slots();
    let in_trace = |slot: u64| slots.binary_search_by_key(&slot, |s| s.slot).is_ok();
    let observed = prepared.recorded.observed.iter();
    observed
        .filter(move |o| in_trace(o.slot))
        .map(|o| o.cache_us)
}

fn recorded_seconds(prepared: &Prepared) -> Option<f64> {
    let times = times_in_trace(prepared);
    times.map(|us| us.map(|us| us as f64 * 1e-6)).sum()
}

fn counter(bias: &Bias) -> Counter {
    Counter {
        name: bias.counter,
        recorded: bias.recorded,
        predicted: bias.predicted,
        bias_percent: bias.percent(),
    }
}

fn size(point: &Point, has_sizes: bool) -> Size {
    let of = |interval: &Interval| Range::of(interval, 1.0);
    Size {
        entries: point.entries,
        misses: of(&point.misses),
        reloads: of(&point.reloads),
        evictions: of(&point.evictions),
        insertions: of(&point.insertions),
        seconds: point.time_us.map(|time| Range::of(&time, 1e-6)),
        code_bytes: has_sizes.then(|| of(&point.resident_bytes)),
    }
}
