//! Which fields of the validator's datapoints a metric is made of.

/// A datapoint that a metric is made of: a counter sums its fields, a gauge has their newest values, and a histogram counts
/// each value.
#[derive(Debug, PartialEq)]
pub struct Datapoint {
    /// Its names: versions or phases that report the same under another name.
    pub names: &'static [&'static str],
    /// What the series are before the first point; absent if `None`.
    pub initial: Option<u64>,
    pub fields: &'static [Field],
}

/// A series of the metric.
#[derive(Debug, PartialEq)]
pub struct Field {
    pub amount: Amount,
    /// Only of points whose tags or text fields have these values; an empty value stands for a missing tag or field.
    pub only: &'static [(&'static str, &'static str)],
    /// The values of the metric's labels.
    pub labels: &'static [&'static str],
}

/// What one point adds.
#[derive(Debug, PartialEq)]
pub enum Amount {
    /// The value of the field `key` times `factor`; in a metric of seconds these are nanoseconds.
    Field { key: &'static str, factor: u64 },
    /// The same number for every point.
    Points(u64),
}
