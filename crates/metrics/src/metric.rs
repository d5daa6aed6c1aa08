#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows while its source lives; the name ends in `_total`.
    Counter,
    Gauge,
    /// Upper bounds of cumulative buckets; `+Inf` is implied.
    Histogram(&'static [f64]),
    /// The constant 1 with descriptive labels; the name ends in `_info`.
    Info,
}

impl Kind {
    pub const fn type_name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
            Kind::Info => "info",
        }
    }
}

crate::named_enum! {
    /// Bytes, seconds, ratios and SOL end the metric's name, before `_total`.
    pub enum Unit {
        Count = "count",
        Bytes = "bytes",
        Seconds = "seconds",
        Ratio = "ratio",
        /// 10^9 lamports.
        Sol = "SOL",
        Flag = "0 or 1",
        /// As the validator reports it; only for datapoints of the operator's allow-list.
        AsReported = "as reported",
    }
}

#[derive(Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub label_names: &'static [&'static str],
    pub help: &'static str,
    /// Source of the value, its first kernel or Agave version, and when it is absent.
    pub origin: &'static str,
    /// The datapoints that feed the metric. Empty if other code computes it.
    pub datapoints: &'static [Datapoint],
}

/// A datapoint that feeds a metric. A counter sums its fields, a gauge has their newest values, and
/// a histogram counts each value.
#[derive(Debug, PartialEq)]
pub struct Datapoint {
    /// All names of the datapoint: versions or phases of the validator may use different names.
    pub names: &'static [&'static str],
    /// Value of the series before the first point. `None`: the series are absent until then.
    pub initial: Option<u64>,
    /// The field with the slot. A slot that is reported again adds only what exceeds its highest
    /// value so far.
    pub slot: Option<&'static str>,
    pub series: &'static [SeriesInput],
}

/// A series of the metric, and what feeds it.
#[derive(Debug, PartialEq)]
pub struct SeriesInput {
    pub amount: Amount,
    /// Counts only points with these values of tags or text fields. An empty value requires that
    /// the tag or field is missing.
    pub conditions: &'static [(&'static str, &'static str)],
    /// In the order of [`Metric::label_names`].
    pub label_values: &'static [&'static str],
}

/// The value that one point gives to its series.
#[derive(Debug, PartialEq)]
pub enum Amount {
    /// The value of the field `key` times `factor`. In a metric of seconds, the product is in
    /// nanoseconds.
    Field { key: &'static str, factor: u64 },
    /// The same number for every point.
    PerPoint(u64),
    /// Nothing: the series is there at 0 once a point has the field.
    Zero(&'static str),
}

#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    pub metrics: &'static [&'static Metric],
}

/// Declares a section: each metric becomes a `static`, and none can be left out of the section's
/// list.
///
/// `of` names the fields of datapoints that a metric is made of. The daemon needs nothing else to
/// export and record it:
///
/// ```text
/// of "datapoint" | "another name of it" {
///     "key",                            a field
///     "key" as "value",                 the series with this value of the metric's label
///     us "key",                         a field in microseconds, for a metric of seconds
///     "key" where "tag" = "value",      only of points with this tag or text field
///     points 1                          this for each point
///     zero "key"                        0, so that the series is present
/// }
/// ```
///
/// With `of "datapoint" by "slot"` a repeated slot adds only what exceeds its highest value.
///
/// A series is absent before the first point. With `initially 0 of` it is there at 0.
macro_rules! section {
    ($title:literal, $about:literal; $(
        $id:ident = $kind:expr, $unit:ident, $name:literal [$($label:literal),*] $help:literal from $origin:literal
        $($(initially $initial:literal)? of $($point:literal)|+ $(by $slot:literal)? { $(
            $($prefix:ident)? $amount:literal $(where $tag:literal = $text:literal)* $(as $($value:literal)+)?
        ),* })*;
    )*) => {
        #[allow(unused_imports, reason = "a section need not be made of datapoints")]
        use crate::{Datapoint, Metric, Section, SeriesInput, Unit, metric::{amount, optional}};
        #[allow(unused_imports, reason = "a section need not use every kind")]
        use crate::Kind::{Counter, Gauge, Histogram, Info};
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub static $id: Metric = Metric {
                name: $name,
                kind: $kind,
                unit: Unit::$unit,
                label_names: &[$($label),*],
                help: $help,
                origin: $origin,
                datapoints: &[$(Datapoint {
                    names: &[$($point),+],
                    initial: optional!($($initial)?),
                    slot: optional!($($slot)?),
                    series: &[$(SeriesInput {
                        amount: amount!($($prefix)? $amount),
                        conditions: &[$(($tag, $text)),*],
                        label_values: &[$($($value),+)?],
                    }),*],
                }),*],
            };
        )*
        pub static SECTION: Section = Section { title: $title, about: $about, metrics: &[$(&$id),*] };
    };
}

/// An [`Amount`](crate::Amount) as [`section`] spells it.
macro_rules! amount {
    ($key:literal) => {
        crate::Amount::Field {
            key: $key,
            factor: 1,
        }
    };
    (us $key:literal) => {
        crate::Amount::Field {
            key: $key,
            factor: 1_000,
        }
    };
    (points $count:literal) => {
        crate::Amount::PerPoint($count)
    };
    (zero $key:literal) => {
        crate::Amount::Zero($key)
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

pub(crate) use {amount, optional, section};
