use crate::{Histogram, Metric};
use smallvec::SmallVec;
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

#[derive(Debug, Clone, Eq)]
pub enum LabelText {
    Fixed(&'static str),
    /// A name found at run time, such as that of a pool or device. A clone copies a pointer.
    Shared(Arc<str>),
}

impl LabelText {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for LabelText {
    fn eq(&self, other: &Self) -> bool {
        let (own, other) = (self.as_str(), other.as_str());
        std::ptr::eq(own, other) || own == other
    }
}

impl Hash for LabelText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for LabelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&'static str> for LabelText {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<Arc<str>> for LabelText {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl From<String> for LabelText {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Integer(u64),
    Real(f64),
    Histogram(Arc<Histogram>),
}

impl Value {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Real(x) => Some(*x),
            Self::Histogram(_) => None,
        }
    }
}

/// In the order of [`Metric::label_names`]. Two labels need no allocation: few of the hundreds of
/// readings of a tick have more labels.
pub type LabelValues = SmallVec<[LabelText; 2]>;

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub metric: &'static Metric,
    pub label_values: LabelValues,
    /// Tags of a datapoint that the operator allowed, sorted by name, without empty values. Empty for
    /// all other readings.
    pub tags: Box<[(LabelText, LabelText)]>,
    pub value: Value,
}

impl Reading {
    /// `N` must be the metric's number of labels. A debug build panics on a mismatch.
    pub fn new<const N: usize>(
        metric: &'static Metric,
        labels: [LabelText; N],
        value: Value,
    ) -> Self {
        debug_assert_eq!(
            metric.label_names.len(),
            N,
            "{} has the labels {:?}",
            metric.name,
            metric.label_names
        );
        Self {
            metric,
            label_values: labels.into_iter().collect(),
            tags: Box::default(),
            value,
        }
    }

    pub fn integer<const N: usize>(
        metric: &'static Metric,
        labels: [LabelText; N],
        value: u64,
    ) -> Self {
        Self::new(metric, labels, Value::Integer(value))
    }

    pub fn real<const N: usize>(
        metric: &'static Metric,
        labels: [LabelText; N],
        value: f64,
    ) -> Self {
        Self::new(metric, labels, Value::Real(value))
    }

    pub fn flag<const N: usize>(
        metric: &'static Metric,
        labels: [LabelText; N],
        value: bool,
    ) -> Self {
        Self::integer(metric, labels, u64::from(value))
    }

    pub fn first_label(&self) -> &str {
        self.label_values.first().map_or("", LabelText::as_str)
    }

    pub fn with_tags(mut self, tags: Vec<(LabelText, LabelText)>) -> Self {
        self.tags = tags.into_boxed_slice();
        self
    }
}

/// Adds readings to a list. A value of `None` adds no reading.
pub trait AddReadings: Extend<Reading> {
    fn integer<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [LabelText; N],
        value: impl Into<Option<u64>>,
    ) {
        let value = value.into();
        self.extend(value.map(|value| Reading::integer(metric, labels, value)));
    }

    fn real<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [LabelText; N],
        value: impl Into<Option<f64>>,
    ) {
        let value = value.into();
        self.extend(value.map(|value| Reading::real(metric, labels, value)));
    }

    fn flag<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [LabelText; N],
        value: impl Into<Option<bool>>,
    ) {
        self.integer(metric, labels, value.into().map(u64::from));
    }
}

impl AddReadings for Vec<Reading> {}
