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
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
            Self::Info => "info",
        }
    }
}

crate::named_enum! {
    /// A metric in bytes or seconds ends in the name of its unit, before `_total`.
    pub enum Unit {
        Count = "count",
        Bytes = "bytes",
        Seconds = "seconds",
        Ratio = "ratio",
        Hertz = "hertz",
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
    /// Source of the value, the first kernel or Agave version with it, and when it is absent.
    pub origin: &'static str,
    /// The datapoints that feed the metric. Empty if other code computes it.
    pub datapoints: &'static [Datapoint],
}

/// A kind of report of the validator that feeds a metric. One report is a point. A counter sums the
/// values of points, a gauge has the newest value, and a histogram counts each value.
#[derive(Debug, PartialEq)]
pub struct Datapoint {
    /// All names of the datapoint: versions or phases of the validator may use different names.
    pub names: &'static [&'static str],
    /// Value of the series before the first point. `None`: the series are absent until then.
    pub initial: Option<u64>,
    /// The field with the slot. If a slot is reported again, the series grows only by the excess
    /// over the highest value of that slot.
    pub slot: Option<&'static str>,
    pub series: &'static [SeriesInput],
}

/// How the points of a datapoint feed one series.
#[derive(Debug, PartialEq)]
pub struct SeriesInput {
    pub amount: Amount,
    /// Tags or text fields, and the values that a point must have. An empty value requires that the
    /// tag or field is missing.
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
    /// 0 for a point with this field, so that the series exists.
    Zero(&'static str),
}

#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    pub metrics: &'static [&'static Metric],
}

/// Declares each metric of a section as a `static`, and lists all of them in `SECTION`.
///
/// `of` names the datapoints and fields that feed a metric. Such a metric needs no other code in the
/// daemon:
///
/// ```text
/// of "datapoint" | "other name of this datapoint" {
///     "key",                            a field
///     "key" as "value",                 the series with this value of the metric's label
///     us "key",                         a field in microseconds, for a metric of seconds
///     "key" where "tag" = "value",      only from points with this tag or text field
///     points 1                          1 for each point
///     zero "key"                        0 for each point with this field
/// }
/// ```
///
/// `of "datapoint" by "slot"` sets [`Datapoint::slot`](crate::Datapoint::slot).
///
/// A series is absent before the first point. With `initially 0 of`, it is 0.
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
