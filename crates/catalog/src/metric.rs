//! The description of one metric.

use crate::Datapoint;

/// What Prometheus is told about how a metric moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows while its source lives; the name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets with these upper bounds (`+Inf` is implied), a sum and a count.
    Histogram(&'static [f64]),
    /// The constant 1 with labels that describe; the name ends in `_info`.
    Info,
}

impl Kind {
    /// The word for it in the exposition formats' vocabulary and in METRICS.md.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
            Kind::Info => "info",
        }
    }
}

/// The unit of a metric's value: always a base unit, and the one its name ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number of things.
    Count,
    Bytes,
    Seconds,
    /// A share, from 0 to 1.
    Ratio,
    /// SOL: 10^9 lamports.
    Sol,
    /// 0 or 1.
    Flag,
    /// Whatever the validator reports; only for datapoints passed on by the operator's allow-list.
    AsReported,
}

impl Unit {
    /// The word for it in METRICS.md.
    pub const fn word(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
            Unit::Sol => "SOL",
            Unit::Flag => "0 or 1",
            Unit::AsReported => "as reported",
        }
    }
}

/// One metric, described once.
#[derive(Debug, PartialEq)]
pub struct Metric {
    /// The full name as a query writes it, with `_total` or `_info` where the kind asks for it.
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    /// Label names, in the order in which a [`crate::Reading`] gives their values.
    pub labels: &'static [&'static str],
    /// One sentence for the person who reads a dashboard.
    pub help: &'static str,
    /// Where the number comes from, since which kernel or Agave version, and when it is absent.
    pub origin: &'static str,
    /// The datapoints that it is made of without a rule of its own.
    pub datapoints: &'static [Datapoint],
}

/// A chapter of the catalog.
#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    /// What the reader should know about all of it.
    pub about: &'static str,
    /// Its metrics, in reading order.
    pub metrics: &'static [&'static Metric],
}

/// Declares a section: each metric becomes a `static`, and none can be left out of the section's list.
///
/// `of` names the fields of datapoints that a metric is made of. The daemon needs nothing else to export and record it:
///
/// ```text
/// of "datapoint" | "another name of it" {
///     "key",                            a field
///     "key" as "value",                 the series with this value of the metric's label
///     us "key",                         a field in microseconds, for a metric of seconds
///     "key" where "tag" = "value",      only of points with this tag or text field
///     points 1                          a number for each point
/// }
/// ```
///
/// A series is absent before the first point. With `initially 0 of` it is there at 0.
macro_rules! section {
    ($title:literal, $about:literal; $(
        $id:ident = $kind:expr, $unit:ident, $name:literal [$($label:literal),*] $help:literal, from $origin:literal
        $(, $(initially $initial:literal)? of $($point:literal)|+ { $(
            $($scale:ident)? $amount:literal $(where $tag:literal = $only:literal)* $(as $($value:literal)+)?
        ),* })*;
    )*) => {
        #[allow(unused_imports, reason = "a section need not be made of datapoints")]
        use crate::{Datapoint, Field, Metric, Section, Unit, metric::{amount, optional}};
        #[allow(unused_imports, reason = "a section need not use every kind")]
        use crate::Kind::{Counter, Gauge, Histogram, Info};
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub static $id: Metric = Metric {
                name: $name,
                kind: $kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: $help,
                origin: $origin,
                datapoints: &[$(Datapoint {
                    names: &[$($point),+],
                    initial: optional!($($initial)?),
                    fields: &[$(Field {
                        amount: amount!($($scale)? $amount),
                        only: &[$(($tag, $only)),*],
                        labels: &[$($($value),+)?],
                    }),*],
                }),*],
            };
        )*
        /// This section, for pages and checks.
        pub static SECTION: Section = Section { title: $title, about: $about, metrics: &[$(&$id),*] };
    };
}

/// What one point adds to a series, as [`section`] spells it.
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
        crate::Amount::Points($count)
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
