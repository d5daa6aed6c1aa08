//! One value of one metric.

use crate::{Histogram, Labels, Metric};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The text of a label: fixed in the program, or shared with whoever found it.
#[derive(Debug, Clone, Eq)]
pub enum Text {
    /// Known at compile time.
    Fixed(&'static str),
    /// Found at run time (a pool's name, a device); cloning it copies a pointer.
    Shared(Arc<str>),
}

impl Text {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Fixed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Text::Fixed(text)
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Text::Shared(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Whole(u64),
    /// A number with a fraction, or one that can be negative.
    Real(f64),
    /// Buckets, sum and count.
    Histogram(Arc<Histogram>),
}

impl Value {
    /// The number as a float; `None` for a histogram.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Whole(n) => Some(*n as f64),
            Value::Real(x) => Some(*x),
            Value::Histogram(_) => None,
        }
    }
}

/// One value of one metric, with the values of that metric's labels in the metric's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub metric: &'static Metric,
    /// As many values as the metric has label names.
    pub labels: Labels,
    /// Further labels: the tags an operator's allow-list keeps, in the order of their names and none empty. No other metric
    /// has any.
    pub tags: Box<[(Text, Text)]>,
    pub value: Value,
}

impl Reading {
    /// A reading of `metric`. The number of labels is the metric's own: a mismatch is a mistake in the program, shown by
    /// every test that runs it.
    pub fn new<const N: usize>(metric: &'static Metric, labels: [Text; N], value: Value) -> Self {
        debug_assert_eq!(
            metric.labels.len(),
            N,
            "{} has the labels {:?}",
            metric.name,
            metric.labels
        );
        Reading {
            metric,
            labels: labels.into(),
            tags: Box::default(),
            value,
        }
    }

    /// A counter's or gauge's whole number.
    pub fn whole<const N: usize>(metric: &'static Metric, labels: [Text; N], value: u64) -> Self {
        Self::new(metric, labels, Value::Whole(value))
    }

    /// A counter's whole number.
    pub fn counter<const N: usize>(metric: &'static Metric, labels: [Text; N], value: u64) -> Self {
        Self::whole(metric, labels, value)
    }

    /// A number with a fraction.
    pub fn real<const N: usize>(metric: &'static Metric, labels: [Text; N], value: f64) -> Self {
        Self::new(metric, labels, Value::Real(value))
    }

    /// A gauge that is 0 or 1.
    pub fn flag<const N: usize>(metric: &'static Metric, labels: [Text; N], value: bool) -> Self {
        Self::whole(metric, labels, u64::from(value))
    }

    /// The same reading with the allow-list's tags as further labels.
    pub fn with_tags(mut self, tags: Vec<(Text, Text)>) -> Self {
        self.tags = tags.into_boxed_slice();
        self
    }
}

/// Adds readings to a list; none where there is no value.
pub trait ReadingList {
    fn add(&mut self, reading: Reading);

    fn whole<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Text; N],
        value: impl Into<Option<u64>>,
    ) {
        if let Some(value) = value.into() {
            self.add(Reading::whole(metric, labels, value));
        }
    }

    fn counter<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Text; N],
        value: impl Into<Option<u64>>,
    ) {
        self.whole(metric, labels, value);
    }

    fn real<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Text; N],
        value: impl Into<Option<f64>>,
    ) {
        if let Some(value) = value.into() {
            self.add(Reading::real(metric, labels, value));
        }
    }

    fn flag<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [Text; N],
        value: impl Into<Option<bool>>,
    ) {
        self.whole(metric, labels, value.into().map(u64::from));
    }
}

impl ReadingList for Vec<Reading> {
    fn add(&mut self, reading: Reading) {
        self.push(reading);
    }
}
