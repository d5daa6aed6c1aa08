//! Protobuf: `io.prometheus.client.MetricFamily` messages, each behind its length, as `prometheus/client_model` defines
//! them. The only format in which Prometheus takes native histograms; fixed buckets are sent beside them.
//!
//! Families are named as in classic text, by which Prometheus stores the same series from either.

use super::{ConstantLabels, families, labels};
use faultline_catalog::{Histogram, Kind, Metric, NativeBuckets, Reading, Tick, Value};
use prost::Message;

/// Encodes the tick's readings, family by family in the catalog's order.
pub(super) fn encode(tick: &Tick, constant: &ConstantLabels) -> Vec<u8> {
    families(tick)
        .flat_map(|(metric, readings)| family(metric, &readings, constant).encode_length_delimited_to_vec())
        .collect()
}

fn family(metric: &Metric, readings: &[&Reading], constant: &ConstantLabels) -> message::MetricFamily {
    let kind = match metric.kind {
        Kind::Counter => message::MetricType::Counter,
        Kind::Gauge | Kind::Info => message::MetricType::Gauge,
        Kind::Histogram(_) => message::MetricType::Histogram,
    };
    message::MetricFamily {
        name: metric.name.to_owned(),
        help: metric.help.to_owned(),
        kind: kind.into(),
        metric: readings.iter().map(|reading| series(metric, reading, constant)).collect(),
    }
}

fn series(metric: &Metric, reading: &Reading, constant: &ConstantLabels) -> message::Metric {
    let label = |(name, value): (&str, &str)| message::LabelPair { name: name.to_owned(), value: value.to_owned() };
    let mut series = message::Metric { label: labels(reading, constant).map(label).collect(), ..Default::default() };
    match (&reading.value, reading.value.number()) {
        (Value::Histogram(values), _) => series.histogram = Some(histogram(values)),
        (_, Some(value)) if metric.kind == Kind::Counter => series.counter = Some(message::Number { value }),
        (_, value) => series.gauge = value.map(|value| message::Number { value }),
    }
    series
}

fn histogram(values: &Histogram) -> message::Histogram {
    let native = values.native();
    let (positive_span, positive_delta) = spans(native.filled());
    message::Histogram {
        sample_count: values.count(),
        sample_sum: values.sum(),
        bucket: values
            .cumulative()
            .map(|(upper_bound, cumulative_count)| message::Bucket { cumulative_count, upper_bound })
            .collect(),
        schema: NativeBuckets::SCHEMA,
        zero_threshold: NativeBuckets::ZERO_THRESHOLD,
        zero_count: native.zero_count(),
        positive_span,
        positive_delta,
    }
}

/// Runs of neighbouring buckets, each placed relative to the end of the one before, and each count as its difference from
/// the count before. A histogram that has counted nothing has one span of no length: without any, it is not a native one.
fn spans(filled: impl Iterator<Item = (i32, u64)>) -> (Vec<message::BucketSpan>, Vec<i64>) {
    let mut spans: Vec<message::BucketSpan> = Vec::new();
    let mut deltas = Vec::new();
    let (mut next, mut before) = (0, 0);
    for (index, count) in filled {
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(message::BucketSpan { offset: index - next, length: 1 }),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        (next, before) = (index + 1, count);
    }
    if spans.is_empty() {
        spans.push(message::BucketSpan::default());
    }
    (spans, deltas)
}

/// The part of `metrics.proto` that is written here; the numbers are the definition's.
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct MetricFamily {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) help: String,
        #[prost(enumeration = "MetricType", tag = "3")]
        pub(super) kind: i32,
        #[prost(message, repeated, tag = "4")]
        pub(super) metric: Vec<Metric>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub(super) enum MetricType {
        Counter = 0,
        Gauge = 1,
        Histogram = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub(super) label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub(super) gauge: Option<Number>,
        #[prost(message, optional, tag = "3")]
        pub(super) counter: Option<Number>,
        #[prost(message, optional, tag = "7")]
        pub(super) histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LabelPair {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }

    /// What the definition calls `Counter` and `Gauge`: both hold a value at the same place.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Number {
        #[prost(double, tag = "1")]
        pub(super) value: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Histogram {
        #[prost(uint64, tag = "1")]
        pub(super) sample_count: u64,
        #[prost(double, tag = "2")]
        pub(super) sample_sum: f64,
        #[prost(message, repeated, tag = "3")]
        pub(super) bucket: Vec<Bucket>,
        #[prost(sint32, tag = "5")]
        pub(super) schema: i32,
        #[prost(double, tag = "6")]
        pub(super) zero_threshold: f64,
        #[prost(uint64, tag = "7")]
        pub(super) zero_count: u64,
        #[prost(message, repeated, tag = "12")]
        pub(super) positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, tag = "13")]
        pub(super) positive_delta: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Bucket {
        #[prost(uint64, tag = "1")]
        pub(super) cumulative_count: u64,
        #[prost(double, tag = "2")]
        pub(super) upper_bound: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct BucketSpan {
        #[prost(sint32, tag = "1")]
        pub(super) offset: i32,
        #[prost(uint32, tag = "2")]
        pub(super) length: u32,
    }
}

#[cfg(test)]
mod tests;
