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
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
            Kind::Info => "info",
        }
    }
}

/// Always a base unit, and the one in the metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    Seconds,
    Ratio,
    /// 10^9 lamports.
    Sol,
    Flag,
    /// As the validator reports it; only for datapoints of the operator's allow-list.
    AsReported,
}

impl Unit {
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

#[derive(Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    /// Source of the value, its first kernel or Agave version, and when it is absent.
    pub origin: &'static str,
}

#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    pub metrics: &'static [&'static Metric],
}

macro_rules! section {
    ($title:literal, $about:literal; $($id:ident = $kind:expr, $unit:ident, $name:literal [$($label:literal),*] $help:literal, from $origin:literal;)*) => {
        use crate::{Metric, Section, Unit};
        #[allow(unused_imports, reason = "a section need not use every kind")]
        use crate::Kind::{Counter, Gauge, Histogram, Info};
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub static $id: Metric = Metric { name: $name, kind: $kind, unit: Unit::$unit, labels: &[$($label),*], help: $help, origin: $origin };
        )*
        /// This section, for pages and checks.
        pub static SECTION: Section = Section { title: $title, about: $about, metrics: &[$(&$id),*] };
    };
}
pub(crate) use section;
