//! Series that the metric catalog derives from datapoints. A sum that starts at 0 exists from the
//! start. Any other series is absent until a point has its field: not every version reports every
//! field.

use super::{MAX_DELTA, add};
use crate::validator::field_index::FieldIndex;
use faultline_agave::{
    line::{self, Field, Point},
    points::{KnownPoint, SlotPeaks},
};
use faultline_metrics::{
    Amount, Datapoint, Histogram, Kind, LabelText, Metric, Reading, SeriesInput, Unit, Value,
    metrics,
};
use foldhash::HashMap;
use std::sync::{Arc, LazyLock};

/// In characters. The texts of conditions are shorter.
const MAX_TEXT_LENGTH: usize = 64;

#[derive(Clone)]
struct CatalogSeries {
    metric: &'static Metric,
    label_values: &'static [&'static str],
    /// Times are whole nanoseconds.
    value: Option<Value>,
    peaks: SlotPeaks,
}

#[derive(Clone)]
pub struct SeriesList(Vec<CatalogSeries>);

struct Catalog {
    /// With their values before the first point.
    series: SeriesList,
    by_datapoint: HashMap<&'static [u8], DatapointInputs>,
}

/// The fields of one datapoint that series use.
#[derive(Default)]
struct DatapointInputs {
    fields: FieldIndex,
    inputs: Vec<IndexedInput>,
}

struct IndexedInput {
    series_index: usize,
    amount_index: Option<usize>,
    slot_index: Option<usize>,
    /// Field index, key and text of [`SeriesInput::conditions`].
    conditions: Vec<(usize, &'static str, &'static str)>,
    input: &'static SeriesInput,
}

impl DatapointInputs {
    fn add(&mut self, series_index: usize, datapoint: &Datapoint, input: &'static SeriesInput) {
        let amount_key = match input.amount {
            Amount::Field { key, .. } | Amount::Zero(key) => Some(key),
            Amount::PerPoint(_) => None,
        };
        let mut insert = |key| self.fields.insert(key);
        let conditions = input.conditions.iter();
        self.inputs.push(IndexedInput {
            series_index,
            amount_index: amount_key.map(&mut insert),
            slot_index: datapoint.slot.map(&mut insert),
            conditions: conditions
                .map(|(key, text)| (insert(key), *key, *text))
                .collect(),
            input,
        });
    }
}

/// The values of a point's fields from which series are made. All points of a push reuse them.
#[derive(Default)]
pub struct InputValues {
    datapoint: Option<&'static DatapointInputs>,
    /// By the field's index; `None` without a usable count.
    counts: Vec<Option<u64>>,
    /// Index of each text field, and the start of its text.
    texts: Vec<(usize, String)>,
}

impl InputValues {
    /// Prepares for a point named `name`. Returns [`is_builtin`].
    pub fn reset(&mut self, name: &str) -> bool {
        self.datapoint = CATALOG.by_datapoint.get(name.as_bytes());
        self.texts.clear();
        self.counts.clear();
        let count = self.datapoint.map_or(0, |datapoint| datapoint.fields.len());
        self.counts.resize(count, None);
        self.datapoint.is_some()
    }

    /// If a key is repeated, the last value counts.
    pub fn add(&mut self, field: &Field<'_>) {
        let index = self
            .datapoint
            .and_then(|datapoint| datapoint.fields.get(field.key));
        let Some(index) = index else {
            return;
        };
        self.texts.retain(|(of, _)| *of != index);
        self.counts[index] = match field.value() {
            Ok(line::Value::Int(count)) => u64::try_from(count).ok(),
            Ok(line::Value::Bool(flag)) => Some(u64::from(flag)),
            Ok(line::Value::Str(text)) => {
                let text = text.decode().chars().take(MAX_TEXT_LENGTH).collect();
                self.texts.push((index, text));
                None
            }
            _ => None,
        };
    }

    fn count(&self, index: Option<usize>) -> Option<u64> {
        self.counts.get(index?).copied().flatten()
    }

    /// Empty if the field has no text.
    fn text(&self, index: usize) -> &str {
        let text = self.texts.iter().find(|(of, _)| *of == index);
        text.map_or("", |(_, text)| text)
    }
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog {
        series: SeriesList(Vec::new()),
        by_datapoint: HashMap::default(),
    };
    for name in KnownPoint::NAMES {
        catalog.by_datapoint.entry(name.as_bytes()).or_default();
    }
    for metric in metrics::exported() {
        for datapoint in metric.datapoints {
            for input in datapoint.series {
                let index = catalog
                    .series
                    .index(metric, input.label_values, datapoint.initial);
                for name in datapoint.names {
                    catalog
                        .by_datapoint
                        .entry(name.as_bytes())
                        .or_default()
                        .add(index, datapoint, input);
                }
            }
        }
    }
    catalog
});

/// True for datapoints that are counted without an allow-list.
pub fn is_builtin(name: &[u8]) -> bool {
    CATALOG.by_datapoint.contains_key(name)
}

impl Default for SeriesList {
    fn default() -> Self {
        CATALOG.series.clone()
    }
}

impl SeriesList {
    /// The index of a series, which is added if it is new.
    fn index(
        &mut self,
        metric: &'static Metric,
        label_values: &'static [&'static str],
        initial: Option<u64>,
    ) -> usize {
        let is_same = |series: &CatalogSeries| {
            std::ptr::eq(series.metric, metric) && series.label_values == label_values
        };
        self.0.iter().position(is_same).unwrap_or_else(|| {
            let value = initial.map(|count| initial_value(metric, count));
            self.0.push(CatalogSeries {
                metric,
                label_values,
                value,
                peaks: SlotPeaks::default(),
            });
            self.0.len() - 1
        })
    }

    pub fn add(&mut self, point: &Point<'_>, values: &InputValues) {
        for indexed in values
            .datapoint
            .iter()
            .flat_map(|datapoint| &datapoint.inputs)
        {
            let input = indexed.input;
            let count = values.count(indexed.amount_index);
            let amount = match input.amount {
                Amount::PerPoint(count) => Some((count, 1)),
                Amount::Field { factor, .. } => count.map(|count| (count, factor)),
                Amount::Zero(_) => count.map(|_| (0, 1)),
            };
            let Some((amount, factor)) = amount else {
                continue;
            };
            let is_met = indexed.conditions.iter().all(|(index, key, text)| {
                let found = point.tag(key).unwrap_or_else(|| values.text(*index));
                found == *text
            });
            if is_met {
                self.0[indexed.series_index].add(values.count(indexed.slot_index), amount, factor);
            }
        }
    }

    pub fn merge(&mut self, newer: &Self) {
        for (series, newer) in self.0.iter_mut().zip(&newer.0) {
            let counted_twice = series.peaks.merge(&newer.peaks);
            match (&mut series.value, &newer.value) {
                (None, theirs) => series.value.clone_from(theirs),
                (Some(mine), Some(theirs)) if series.metric.kind == Kind::Gauge => {
                    mine.clone_from(theirs);
                }
                (Some(Value::Integer(sum)), Some(Value::Integer(more))) => {
                    add(sum, more.saturating_sub(counted_twice));
                }
                (Some(Value::Histogram(histogram)), Some(Value::Histogram(more))) => {
                    Arc::make_mut(histogram).merge(more);
                }
                _ => {}
            }
        }
    }

    /// Forgets gauges and slots: they describe a process that has ended. Its successor may replay
    /// the same slots.
    pub fn forget_gauges(&mut self) {
        for series in &mut self.0 {
            if series.metric.kind == Kind::Gauge {
                series.value = None;
            }
            series.peaks = SlotPeaks::default();
        }
    }

    pub fn add_readings(&self, with_gauges: bool, out: &mut Vec<Reading>) {
        let is_exported =
            |series: &&CatalogSeries| with_gauges || series.metric.kind != Kind::Gauge;
        for series in self.0.iter().filter(is_exported) {
            let value = match &series.value {
                Some(Value::Integer(ns)) if series.metric.unit == Unit::Seconds => {
                    Value::Real(*ns as f64 / 1e9)
                }
                Some(value) => value.clone(),
                None => continue,
            };
            out.push(Reading {
                metric: series.metric,
                label_values: series
                    .label_values
                    .iter()
                    .map(|label| LabelText::from(*label))
                    .collect(),
                tags: Box::default(),
                value,
            });
        }
    }
}

impl CatalogSeries {
    fn add(&mut self, slot: Option<u64>, count: u64, factor: u64) {
        let count = match slot {
            Some(slot) if count <= MAX_DELTA => self.peaks.add(slot, count),
            _ => count,
        };
        let amount = count.saturating_mul(factor);
        if self.metric.kind == Kind::Gauge {
            self.value = Some(Value::Integer(amount));
            return;
        }
        let value = &mut self.value;
        match value.get_or_insert_with(|| initial_value(self.metric, 0)) {
            _ if count > MAX_DELTA => {}
            Value::Integer(sum) => add(sum, amount),
            Value::Histogram(histogram) => Arc::make_mut(histogram).observe(amount as f64 / 1e9),
            Value::Real(_) => {}
        }
    }
}

fn initial_value(metric: &Metric, count: u64) -> Value {
    match metric.kind {
        Kind::Histogram(bounds) => Value::Histogram(Arc::new(Histogram::new(bounds))),
        _ => Value::Integer(count),
    }
}

#[cfg(test)]
mod tests;
