#[cfg(test)]
pub mod tests;

use crate::{disk::FolderUsage, verify::AnswerComparison};
use faultline_pages::groups::{by_key, distinct};
use faultline_text::count;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{array, collections::BTreeMap, time::Duration};

/// The latency of a request is the sum of its phases.
pub const PHASES: [&str; 6] = [
    "queued",
    "connect",
    "TLS",
    "first byte",
    "transfer",
    "decode",
];

const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub number: u64,
    pub round: u32,
    /// Index in [`Results::cases`].
    pub case_index: usize,
    /// When the last attempt of the request was due, since the first measured request. A retry is
    /// due after its backoff. In `bench transport` it is when the first attempt was due.
    pub at_ns: u64,
    /// The error is the kind of the failure.
    pub result: Result<Timing, String>,
    /// Attempts after refusals: a rate limit, a server error, or no connection.
    pub retries: u32,
}

impl Sample {
    pub fn timing(&self) -> Option<&Timing> {
        self.result.as_ref().ok()
    }

    pub fn latency_ns(&self) -> Option<u64> {
        self.timing().map(|timing| timing.phases.iter().sum())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// By [`PHASES`], in ns.
    pub phases: [u64; 6],
    pub decode_cpu_ns: u64,
    /// Bytes with headers.
    pub sent: u64,
    pub received: u64,
}

/// A [`crate::plan::Case`] with names instead of indices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseInfo {
    pub arm: String,
    /// One of [`crate::plan::Plan::request_labels`].
    #[serde(rename = "subject")]
    pub request_label: String,
    /// Bytes of the decoded answer, if known.
    #[serde(rename = "size")]
    pub answer_bytes: Option<u64>,
}

/// Cost of a request to this tool's own server on loopback, which does almost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoopbackCost {
    pub cpu_ns: u64,
    /// Median latency.
    pub median_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    #[serde(rename = "preset")]
    pub subcommand: String,
    pub version: String,
    pub started_unix_ns: i64,
    /// Addresses without keys.
    pub nodes: Vec<String>,
    pub notes: Vec<String>,
    /// `bench diff` reports runs with different settings.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// By case. Empty if no link is shaped.
    #[serde(default, rename = "links")]
    pub link_shapes: Vec<String>,
    pub arms: Vec<String>,
    /// By arm.
    #[serde(rename = "verdicts")]
    pub answer_comparisons: Vec<AnswerComparison>,
    pub seed: u64,
    pub rounds: u32,
    /// Rounds.
    pub warm_up: u32,
    pub workers: usize,
    /// `None` in a closed loop.
    pub rate: Option<f64>,
    /// Refused attempts by kind, retried or not.
    #[serde(default)]
    pub refusals: BTreeMap<String, u64>,
    /// First JSON-RPC error message, by index of the case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub messages: BTreeMap<usize, String>,
    #[serde(rename = "max_failures")]
    pub max_failure_percent: Option<f64>,
    /// Why the run is incomplete: a signal, a node that refused, or a run not yet ended.
    pub stopped_by: Option<String>,
    #[serde(rename = "own_cpu_ns")]
    pub tool_cpu_per_request_ns: Option<u64>,
    /// Measured before the run.
    #[serde(rename = "own_cost")]
    pub loopback_cost: Option<LoopbackCost>,
    /// Length of the measured part.
    pub length_ns: u64,
    #[serde(default, rename = "disks", skip_serializing_if = "Vec::is_empty")]
    pub folder_usages: Vec<FolderUsage>,
}

#[derive(Clone)]
pub struct RunState {
    pub answer_comparisons: Vec<AnswerComparison>,
    pub refusals: BTreeMap<String, u64>,
    pub first_error_by_case: BTreeMap<usize, String>,
    pub stopped_by: Option<String>,
    pub tool_cpu_per_request: Option<Duration>,
    /// Time since the first measured request.
    pub length: Duration,
}

impl Header {
    pub fn answers_by_arm(&self) -> impl Iterator<Item = (&str, &AnswerComparison)> {
        self.arms
            .iter()
            .map(String::as_str)
            .zip(&self.answer_comparisons)
    }

    /// An earlier `stopped_by` stays if `state` has none.
    pub fn take_state(&mut self, state: RunState) {
        self.answer_comparisons = state.answer_comparisons;
        self.refusals = state.refusals;
        self.messages = state.first_error_by_case;
        self.stopped_by = state.stopped_by.or(self.stopped_by.take());
        self.tool_cpu_per_request_ns = state.tool_cpu_per_request.map(ns);
        self.length_ns = ns(state.length);
    }
}

#[derive(Debug, PartialEq)]
pub struct Results {
    pub header: Header,
    pub cases: Vec<CaseInfo>,
    /// In the order of [`Sample::number`].
    pub samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
pub struct Summary {
    pub successes: u64,
    pub failures: BTreeMap<String, u64>,
    #[serde(rename = "refused")]
    pub retries: u64,
    /// Latency of good answers.
    pub latency: Option<Latency>,
    /// Means in ms.
    pub phases: Option<[f64; 6]>,
    #[serde(rename = "decode_cpu")]
    pub decode_cpu_ms: Option<f64>,
    /// Mean bytes with headers.
    pub received: Option<f64>,
}

impl Summary {
    pub fn phases(&self) -> [Option<f64>; 6] {
        self.phases.map_or([None; 6], |phases| phases.map(Some))
    }
}

/// In ms. Percentiles come from an HDR histogram with three digits.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub sd: Option<f64>,
    pub min: f64,
    pub max: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    p999: f64,
}

impl Latency {
    pub fn get(&self, name: &str) -> Option<f64> {
        let field = match name {
            "median" => "p50",
            "p99.9" => "p999",
            other => other,
        };
        json!(self)[field].as_f64()
    }
}

/// ` over +30 ms`; empty without a shape.
pub fn link_shape_suffix(link_shape: Option<&str>) -> String {
    link_shape.map_or_else(String::new, |shape| format!(" over {shape}"))
}

/// `3 timeout`, `1 HTTP 500`.
pub fn format_counts(kinds: &BTreeMap<String, u64>) -> Vec<String> {
    kinds
        .iter()
        .map(|(kind, times)| format!("{} {kind}", count(*times)))
        .collect()
}

pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Results {
    pub fn case_index(&self, arm: &str, request_label: &str) -> Option<usize> {
        self.cases
            .iter()
            .position(|case| case.arm == arm && case.request_label == request_label)
    }

    /// Request labels and answer bytes, in the order of the plan.
    pub fn requests(&self) -> Vec<(&str, Option<u64>)> {
        let groups = by_key(
            self.cases
                .iter()
                .map(|case| (case.request_label.as_str(), case.answer_bytes)),
        );
        let first_size = |(label, sizes): (_, Vec<_>)| (label, sizes.first().copied().flatten());
        groups.into_iter().map(first_size).collect()
    }

    pub fn reference_arm(&self) -> &str {
        self.header.arms.first().map_or("", String::as_str)
    }

    pub fn request_labels(&self) -> Vec<&str> {
        distinct(self.cases.iter().map(|case| case.request_label.as_str()))
    }

    /// A single `None` if no case has a link shape.
    pub fn link_shapes(&self) -> Vec<Option<&str>> {
        let shapes = self.header.link_shapes.iter();
        let shapes = distinct(shapes.map(|shape| Some(shape.as_str())));
        if shapes.is_empty() {
            vec![None]
        } else {
            shapes
        }
    }

    pub fn requests_over(&self, link_shape: Option<&str>) -> Vec<(&str, Option<u64>)> {
        self.requests()
            .into_iter()
            .filter(|(request, _)| self.link_shape(request) == link_shape)
            .collect()
    }

    fn link_shape(&self, request_label: &str) -> Option<&str> {
        let case_index = self
            .cases
            .iter()
            .position(|case| case.request_label == request_label)?;
        self.header.link_shapes.get(case_index).map(String::as_str)
    }

    /// The request label; for an account of known size, a text such as `1,024 bytes over +30 ms`.
    /// If other accounts have as many bytes, the start of the address follows the bytes. The label
    /// of an account begins with its address.
    pub fn short_label(&self, request_label: &str, answer_bytes: Option<u64>) -> String {
        let Some(answer_bytes) = answer_bytes else {
            return request_label.to_owned();
        };
        let link_shape = self.link_shape(request_label);
        let address = match self
            .requests_over(link_shape)
            .into_iter()
            .filter(|(_, other)| *other == Some(answer_bytes))
            .count()
        {
            0 | 1 => String::new(),
            _ => format!(" {request_label:.8}"),
        };
        let suffix = link_shape_suffix(link_shape);
        format!("{} bytes{address}{suffix}", count(answer_bytes))
    }

    pub fn samples_of(&self, case_index: usize) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.case_index == case_index)
    }

    pub fn samples_of_arm(&self, arm: &str) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| self.cases[sample.case_index].arm == arm)
    }

    /// Requests of an arm, and failures by kind.
    pub fn failures(&self, arm: &str) -> (u64, BTreeMap<String, u64>) {
        let (mut requests, mut failures) = (0, BTreeMap::new());
        for sample in self.samples_of_arm(arm) {
            requests += 1;
            if let Err(kind) = &sample.result {
                *failures.entry(kind.clone()).or_default() += 1;
            }
        }
        (requests, failures)
    }

    pub fn rounds(&self) -> usize {
        self.samples
            .iter()
            .map(|sample| sample.round as usize + 1)
            .max()
            .unwrap_or(0)
    }

    pub fn map_by_round<T: Clone>(
        &self,
        case_index: usize,
        value: impl Fn(&Sample) -> Option<T>,
    ) -> Vec<Option<T>> {
        let mut values = vec![None; self.rounds()];
        for sample in self.samples_of(case_index) {
            values[sample.round as usize] = value(sample);
        }
        values
    }

    /// Latency in ms of each round; `None` without a good answer.
    pub fn latencies_by_round(&self, case_index: usize) -> Vec<Option<f64>> {
        self.map_by_round(case_index, |sample| sample.latency_ns().map(ms))
    }

    pub fn latency_histogram_ns(&self, case_index: usize) -> Option<Histogram<u64>> {
        let mut histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).ok()?;
        self.samples_of(case_index)
            .filter_map(Sample::latency_ns)
            .for_each(|latency| histogram.saturating_record(latency));
        Some(histogram)
    }

    pub fn summaries(&self) -> impl Iterator<Item = (&CaseInfo, Summary)> {
        self.cases
            .iter()
            .zip((0..).map(|case_index| self.summary(case_index)))
    }

    pub fn mean_latency_ms(&self, arm: &str, request_label: &str) -> Option<f64> {
        let case_index = self.case_index(arm, request_label)?;
        Some(self.summary(case_index).latency?.mean)
    }

    pub fn summary(&self, case_index: usize) -> Summary {
        let (mut failures, mut good) = (BTreeMap::new(), Vec::new());
        for sample in self.samples_of(case_index) {
            match &sample.result {
                Ok(timing) => good.push(timing),
                Err(kind) => *failures.entry(kind.clone()).or_insert(0) += 1,
            }
        }
        let mean = |number: &dyn Fn(&Timing) -> u64| {
            let sum: f64 = good.iter().map(|timing| number(timing) as f64).sum();
            sum / good.len() as f64
        };
        let has_good = !good.is_empty();
        Summary {
            successes: good.len() as u64,
            failures,
            retries: self
                .samples_of(case_index)
                .map(|sample| u64::from(sample.retries))
                .sum(),
            latency: self.latency(case_index),
            phases: has_good
                .then(|| array::from_fn(|phase| mean(&|timing| timing.phases[phase]) / 1e6)),
            decode_cpu_ms: has_good.then(|| mean(&|timing| timing.decode_cpu_ns) / 1e6),
            received: has_good.then(|| mean(&|timing| timing.received)),
        }
    }

    fn latency(&self, case_index: usize) -> Option<Latency> {
        let latencies = self.samples_of(case_index);
        let latencies: Vec<_> = latencies
            .map(|sample| sample.latency_ns().map(ms))
            .collect();
        let summary = faultline_stats::summary::summary(&latencies);
        let histogram = self.latency_histogram_ns(case_index)?;
        let (min, max) = (summary.min?, summary.max?);
        // A bucket's upper end exceeds its values.
        let quantile = |p| ms(histogram.value_at_quantile(p)).clamp(min, max);
        Some(Latency {
            mean: summary.mean?,
            sd: summary.sd,
            min,
            max,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
        })
    }
}
