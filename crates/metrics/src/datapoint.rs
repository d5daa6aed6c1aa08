//! Maps fields of the validator's datapoints to metrics.

/// A datapoint that feeds a metric. A counter sums its fields, a gauge has their newest values, and
/// a histogram counts each value.
#[derive(Debug, PartialEq)]
pub struct Datapoint {
    /// All names of the datapoint: versions or phases of the validator may use different names.
    pub names: &'static [&'static str],
    /// Value of the series before the first point. `None`: the series are absent until then.
    pub initial: Option<u64>,
    /// The field with the slot. A slot that comes again adds only what exceeds its highest count.
    pub slot: Option<&'static str>,
    pub fields: &'static [Field],
}

/// A series of the metric.
#[derive(Debug, PartialEq)]
pub struct Field {
    pub amount: Amount,
    /// Counts only points with these values of tags or text fields. An empty value requires that
    /// the tag or field is missing.
    pub only: &'static [(&'static str, &'static str)],
    /// The values of the metric's labels.
    pub labels: &'static [&'static str],
}

/// What one point adds.
#[derive(Debug, PartialEq)]
pub enum Amount {
    /// The value of the field `key` times `factor`. In a metric of seconds, the product is in
    /// nanoseconds.
    Field { key: &'static str, factor: u64 },
    /// The same number for every point.
    Points(u64),
    /// Nothing: the series is there at 0 once a point has the field.
    Presence(&'static str),
}
