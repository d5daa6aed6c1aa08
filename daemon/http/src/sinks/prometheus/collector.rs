//! OpenMetrics text and protobuf, encoded by prometheus-client.
//!
//! Prometheus accepts native histograms only in protobuf, whose messages also contain the fixed
//! buckets.

use super::{ConstantLabels, Exposition, labels};
use faultline_metrics::{Histogram, Kind, Metric, NativeBuckets, Reading, Unit, Value};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder,
        NativeHistogram, NativeHistogramBuckets, NoLabelSet, prometheus_protobuf, text,
    },
    metrics::{MetricType, exemplar::Exemplar},
    registry::{self, Registry},
};
use std::fmt;

pub fn open_metrics(
    exposition: &Exposition,
    catalog_index: usize,
    out: &mut String,
) -> fmt::Result {
    text::encode_registry(out, &registry(exposition, catalog_index))
}

pub fn protobuf(exposition: &Exposition, catalog_index: usize) -> Result<Vec<u8>, fmt::Error> {
    prometheus_protobuf::encode_to_vec(&registry(exposition, catalog_index)).map_err(|_| fmt::Error)
}

fn registry(exposition: &Exposition, catalog_index: usize) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FamilyCollector {
        exposition: exposition.clone(),
        catalog_index,
    }));
    registry
}

#[derive(Debug)]
struct FamilyCollector {
    exposition: Exposition,
    catalog_index: usize,
}

impl Collector for FamilyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(family) = self.exposition.family(self.catalog_index) else {
            return Ok(());
        };
        let metric = family.metric;
        let (name, unit) = name_and_unit(metric);
        let kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram(_) => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let mut encoder = encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
        family
            .readings(&self.exposition.tick)
            .try_for_each(|reading| {
                encode_series(&mut encoder, reading, &self.exposition.constant_labels)
            })
    }
}

fn encode_series(
    family: &mut MetricEncoder<'_>,
    reading: &Reading,
    constant_labels: &ConstantLabels,
) -> fmt::Result {
    let label_set = Labels(reading, constant_labels);
    if reading.metric.kind == Kind::Info {
        family.encode_info(&label_set)
    } else if labels(reading, constant_labels).next().is_none() {
        // prometheus-client would write an empty label set as `{}`.
        encode_value(family, reading)
    } else {
        encode_value(&mut family.encode_family(&label_set)?, reading)
    }
}

fn encode_value(series: &mut MetricEncoder<'_>, reading: &Reading) -> fmt::Result {
    const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;
    match (&reading.value, reading.metric.kind) {
        (Value::Histogram(values), _) => encode_histogram(series, values),
        (Value::Integer(n), Kind::Counter) => series.encode_counter(n, NO_EXEMPLAR),
        (Value::Real(x), Kind::Counter) => series.encode_counter(x, NO_EXEMPLAR),
        (Value::Integer(n), _) => series.encode_gauge(n),
        (Value::Real(x), _) => series.encode_gauge(x),
    }
}

fn encode_histogram(series: &mut MetricEncoder<'_>, values: &Histogram) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = values.buckets().collect();
    let (spans, deltas) = spans(values.native().filled());
    let native = NativeHistogram {
        schema: NativeBuckets::SCHEMA,
        zero_threshold: NativeBuckets::ZERO_THRESHOLD,
        zero_count: values.native().zero_count(),
        negative: NativeHistogramBuckets {
            spans: &[],
            deltas: &[],
        },
        positive: NativeHistogramBuckets {
            spans: &spans,
            deltas: &deltas,
        },
        created: None,
    };
    series.encode_histogram_with_native::<NoLabelSet>(
        values.sum(),
        values.count(),
        &buckets,
        None,
        native,
    )
}

/// A metric's name without the suffixes that prometheus-client appends: its unit, and `_total` or
/// `_info`.
fn name_and_unit(metric: &Metric) -> (&'static str, Option<registry::Unit>) {
    let name = metric
        .name
        .trim_end_matches("_total")
        .trim_end_matches("_info");
    match metric.unit {
        Unit::Bytes => (name.trim_end_matches("_bytes"), Some(registry::Unit::Bytes)),
        Unit::Seconds => (
            name.trim_end_matches("_seconds"),
            Some(registry::Unit::Seconds),
        ),
        _ => (name, None),
    }
}

/// The spans of a native histogram as (offset, length), and its counts as deltas. An offset is
/// relative to the end of the previous span. An empty histogram gets one span of length 0: without
/// spans it would not be native.
fn spans(filled: impl Iterator<Item = (i32, u64)>) -> (Vec<(i32, u32)>, Vec<i64>) {
    let mut spans: Vec<(i32, u32)> = Vec::new();
    let mut deltas = Vec::new();
    let (mut next_index, mut previous_count) = (0, 0);
    for (index, count) in filled {
        match spans.last_mut() {
            Some((_, length)) if index == next_index => *length += 1,
            _ => spans.push((index - next_index, 1)),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - previous_count);
        (next_index, previous_count) = (index + 1, count);
    }
    if spans.is_empty() {
        spans.push((0, 0));
    }
    (spans, deltas)
}

struct Labels<'a>(&'a Reading, &'a ConstantLabels);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        labels(self.0, self.1).try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

#[cfg(test)]
mod tests;
