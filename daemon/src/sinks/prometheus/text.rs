//! Both text dialects. They differ in how a family is named (classic: as its samples; OpenMetrics: without `_total` and
//! `_info`), in the type of an info metric and in the closing line.

use super::{ConstantLabels, families, labels};
use faultline_catalog::{Histogram, Kind, Metric, Reading, Tick, Unit, Value};
use std::fmt::Write;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Classic,
    OpenMetrics,
}

/// Encodes the tick's readings, family by family in the catalog's order; a family without readings is left out.
pub(super) fn encode(tick: &Tick, format: Format, constant: &ConstantLabels) -> String {
    let mut page = Page { out: String::with_capacity(96 * 1024), format, constant };
    for (metric, readings) in families(tick) {
        page.family(metric, &readings);
    }
    if format == Format::OpenMetrics {
        page.out.push_str("# EOF\n");
    }
    page.out
}

struct Page<'a> {
    out: String,
    format: Format,
    constant: &'a ConstantLabels,
}

impl Page<'_> {
    fn family(&mut self, metric: &Metric, readings: &[&Reading]) {
        let name = match self.format {
            Format::Classic => metric.name,
            Format::OpenMetrics => metric.name.trim_end_matches("_total").trim_end_matches("_info"),
        };
        let kind = match (metric.kind, self.format) {
            (Kind::Info, Format::Classic) => "gauge",
            (kind, _) => kind.word(),
        };
        self.out.push_str("# HELP ");
        self.out.push_str(name);
        self.out.push(' ');
        self.escaped(metric.help, false);
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "\n# TYPE {name} {kind}");
        if let (Format::OpenMetrics, Some(unit)) = (self.format, unit_of(metric)) {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
        for reading in readings {
            match &reading.value {
                Value::Histogram(histogram) => self.histogram(reading, histogram),
                Value::Whole(n) => self.sample(reading, |out| write!(out, "{n}")),
                Value::Real(x) => self.sample(reading, |out| number(out, *x)),
            }
        }
    }

    fn sample(&mut self, reading: &Reading, value: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.out.push_str(reading.metric.name);
        self.labels(reading, None);
        self.out.push(' ');
        let _ = value(&mut self.out);
        self.out.push('\n');
    }

    fn histogram(&mut self, reading: &Reading, histogram: &Histogram) {
        let name = reading.metric.name;
        for (bound, count) in histogram.cumulative() {
            self.out.push_str(name);
            self.out.push_str("_bucket");
            self.labels(reading, Some(bound));
            let _ = writeln!(self.out, " {count}");
        }
        for (suffix, value) in [("_sum", histogram.sum()), ("_count", histogram.count() as f64)] {
            self.out.push_str(name);
            self.out.push_str(suffix);
            self.labels(reading, None);
            self.out.push(' ');
            let _ = number(&mut self.out, value);
            self.out.push('\n');
        }
    }

    fn labels(&mut self, reading: &Reading, bound: Option<f64>) {
        let mut open = false;
        for (name, value) in labels(reading, self.constant) {
            self.out.push(if open { ',' } else { '{' });
            open = true;
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.escaped(value, true);
            self.out.push('"');
        }
        if let Some(bound) = bound {
            self.out.push_str(if open { ",le=\"" } else { "{le=\"" });
            open = true;
            let _ = bucket_bound(&mut self.out, bound);
            self.out.push('"');
        }
        if open {
            self.out.push('}');
        }
    }

    /// Backslash and newline are escaped everywhere; the quote in label values, and in OpenMetrics' help too.
    fn escaped(&mut self, text: &str, label: bool) {
        let quotes = label || self.format == Format::OpenMetrics;
        let mut rest = text;
        // Nearly every text is copied whole.
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\\' | b'\n') || (quotes && byte == b'"')) {
            let (plain, special) = rest.split_at(at);
            self.out.push_str(plain);
            self.out.push_str(match special.as_bytes().first() {
                Some(b'\\') => "\\\\",
                Some(b'\n') => "\\n",
                _ => "\\\"",
            });
            rest = special.get(1..).unwrap_or_default();
        }
        self.out.push_str(rest);
    }
}

/// The UNIT line's word; OpenMetrics wants the family's name to end in it, so that info and flags have none.
fn unit_of(metric: &Metric) -> Option<&'static str> {
    match metric.unit {
        Unit::Bytes => Some("bytes"),
        Unit::Seconds => Some("seconds"),
        Unit::Count | Unit::Flag | Unit::AsReported => None,
    }
}

fn number(out: &mut String, x: f64) -> std::fmt::Result {
    if x.is_nan() {
        out.write_str("NaN")
    } else if x.is_infinite() {
        out.write_str(if x > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        write!(out, "{x}")
    }
}

/// Bounds are written with a point, as OpenMetrics asks: `1.0`, not `1`.
fn bucket_bound(out: &mut String, bound: f64) -> std::fmt::Result {
    if bound.is_infinite() { out.write_str("+Inf") } else { write!(out, "{bound:?}") }
}

#[cfg(test)]
mod tests;
