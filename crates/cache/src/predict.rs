//! `faultline cache predict`: the curve over sizes, if the recorded size is predicted well.

use crate::args::PredictArgs;
use crate::prepared::{Prepared, Tested};
use faultline_cachesim::interval::Interval;
use faultline_cachesim::predict::{Bias, Curve, Point, predict};
use faultline_command::output::json;
use faultline_text::{bytes, count, number, table};
use serde::Serialize;

/// From the smallest of any release to what would hold all programs of a day.
const SIZES: [u64; 11] = [256, 384, 512, 640, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 8_192];

/// Everything that is said.
#[derive(Debug, Serialize)]
struct Said {
    version: String,
    /// Entries of the recorded cache.
    recorded_entries: u64,
    coverage_percent: Option<f64>,
    seeds: u64,
    self_test: Vec<Counter>,
    self_test_passed: bool,
    /// What can be seen that makes predictions wrong.
    reasons: Vec<String>,
    sizes: Vec<Size>,
    /// Sizes of which nothing can be said, because what the cache held at the begin decides.
    unknown: Vec<u64>,
    /// The least size from which on no larger one saves 1 % of the time of replay.
    enough_entries: Option<u64>,
}

/// A counter of the recorded run.
#[derive(Debug, Serialize)]
pub(crate) struct Counter {
    name: &'static str,
    recorded: u64,
    predicted: f64,
    bias_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Size {
    entries: u64,
    misses: Range,
    reloads: Range,
    evictions: Range,
    insertions: Range,
    /// Of the program cache in replay, added up over threads.
    seconds: Option<Range>,
    /// Code of the programs in the cache at the end, not compiled; of a trace with sizes.
    code_bytes: Option<f64>,
}

/// The mean and the interval that holds one further run with 95 %.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Range {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    pub(crate) fn of(interval: &Interval, scale: f64) -> Self {
        Range { mean: interval.mean * scale, low: interval.low * scale, high: interval.high * scale }
    }

    /// `3,580 (3,507 to 3,653)`.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|value| number(value, decimals));
        if low == high { mean } else { format!("{mean} ({low} to {high})") }
    }
}

/// Predicts. The exit code is 1 if the self-test failed.
///
/// # Errors
/// Recording and trace cannot be used.
pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<(String, u8)> {
    let prepared = Prepared::read(&args.run, &args.source)?;
    let tested = prepared.test()?;
    let passed = tested.test.passed();
    let curve = if passed { Some(curve(&prepared, &tested, &args.sizes)?) } else { None };
    let said = said(&prepared, &tested, curve.as_ref(), args.source.seeds);
    let text = match (args.json, args.csv) {
        (true, _) => json(&said)?,
        (_, true) => csv(&said),
        _ => page(&said),
    };
    Ok((text, u8::from(!passed)))
}

fn curve(prepared: &Prepared, tested: &Tested, asked: &[u64]) -> anyhow::Result<Curve> {
    let mut sizes = if asked.is_empty() { SIZES.to_vec() } else { asked.to_vec() };
    sizes.push(prepared.entries);
    sizes.sort_unstable();
    sizes.dedup();
    Ok(predict(&prepared.plan(&sizes, &tested.compile_us, tested.fit.as_ref()))?)
}

fn said(prepared: &Prepared, tested: &Tested, curve: Option<&Curve>, seeds: u64) -> Said {
    let (points, unknown) = curve.map_or((&[][..], &[][..]), |curve| (&curve.points, &curve.unknown));
    let has_sizes = prepared.trace.programs().iter().any(|program| program.bytes.is_some());
    let knee = |curve: &Curve| curve.knee(prepared.entries, prepared.recorded.replay_us?);
    Said {
        version: prepared.version.clone(),
        recorded_entries: prepared.entries,
        coverage_percent: prepared.coverage.percent(),
        seeds,
        self_test: tested.test.counters.iter().map(counter).collect(),
        self_test_passed: tested.test.passed(),
        reasons: prepared.reasons(),
        sizes: points.iter().map(|point| size(point, has_sizes)).collect(),
        unknown: unknown.iter().map(|unknown| unknown.entries).collect(),
        enough_entries: curve.and_then(knee),
    }
}

fn counter(bias: &Bias) -> Counter {
    Counter { name: bias.counter, recorded: bias.recorded, predicted: bias.predicted, bias_percent: bias.percent() }
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
        code_bytes: has_sizes.then_some(point.resident_bytes),
    }
}

fn page(said: &Said) -> String {
    let mut text = format!(
        "Agave {}, {} entries recorded; the trace covers {} % of the recorded transactions\n\nThe recorded size, predicted:\n",
        said.version,
        count(said.recorded_entries),
        said.coverage_percent.map_or_else(|| "0".to_owned(), |percent| number(percent, 2)),
    );
    let bias = |counter: &Counter| counter.bias_percent.map_or_else(|| "-".to_owned(), |bias| number(bias, 1));
    let rows = said.self_test.iter().map(|counter| {
        vec![counter.name.to_owned(), count(counter.recorded), number(counter.predicted, 0), bias(counter)]
    });
    text += &table(&["counter", "recorded", "predicted", "off by %"], rows.collect());
    if !said.self_test_passed {
        text += "\nThe recorded size is not predicted within 10 %, so no other size is predicted.\n";
        if said.reasons.is_empty() {
            text += "No reason is visible in the recording and the trace.\n";
        }
    }
    if !said.reasons.is_empty() {
        text += "\nKnown to weaken predictions:\n";
        said.reasons.iter().for_each(|reason| text += &format!("  {reason}\n"));
    }
    if said.self_test_passed {
        text += &format!("\nMean of {} simulated runs (one run is within the range with 95 %):\n", count(said.seeds));
        text += &sizes(said);
        let shown = |entries: &u64| count(*entries);
        if !said.unknown.is_empty() {
            let sizes: Vec<String> = said.unknown.iter().map(shown).collect();
            text += &format!(
                "Nothing can be said of {} entries: what the cache held when the recording began decides.\n",
                sizes.join(", ")
            );
        }
        text += &match said.enough_entries {
            Some(entries) => format!("From {} entries on, more saves less than 1 % of replay time.\n", count(entries)),
            None => {
                "The recording does not have the times of replay, so it is not known which size is enough.\n".to_owned()
            }
        };
    }
    text
}

fn sizes(said: &Said) -> String {
    let row = |size: &Size| {
        let mark = if size.entries == said.recorded_entries { " (recorded)" } else { "" };
        vec![
            format!("{}{mark}", count(size.entries)),
            size.misses.text(0),
            size.reloads.text(0),
            size.evictions.text(0),
            size.seconds.map_or_else(|| "-".to_owned(), |seconds| seconds.text(2)),
            size.code_bytes.map_or_else(|| "-".to_owned(), |code| bytes(code.round() as u64)),
        ]
    };
    let heads = ["entries", "misses", "reloads", "evictions", "cache time, s", "code in it"];
    table(&heads, said.sizes.iter().map(row).collect())
}

fn csv(said: &Said) -> String {
    let mut text = "entries".to_owned();
    for name in ["misses", "reloads", "evictions", "insertions", "seconds"] {
        text += &format!(",{name},{name}_low,{name}_high");
    }
    text += ",code_bytes\n";
    for size in &said.sizes {
        text += &size.entries.to_string();
        let ranges = [Some(size.misses), Some(size.reloads), Some(size.evictions), Some(size.insertions), size.seconds];
        for range in ranges {
            text += &range.map_or_else(|| ",,,".to_owned(), |r| format!(",{},{},{}", r.mean, r.low, r.high));
        }
        text += &size.code_bytes.map_or_else(|| ",\n".to_owned(), |code| format!(",{code}\n"));
    }
    text
}
