//! Encodes the classic text format, which prometheus-client does not support. A family
//! keeps `_total` or `_info`, and an info metric is a gauge.

use super::{ConstantLabels, labels};
use faultline_metrics::{Histogram, Kind, Metric, Reading, Value};
use std::fmt::Write;

pub fn encode<'a>(
    out: &mut String,
    metric: &Metric,
    readings: impl Iterator<Item = &'a Reading>,
    constant_labels: &ConstantLabels,
) {
    Encoder {
        out,
        constant_labels,
    }
    .family(metric, readings);
}

struct Encoder<'a> {
    out: &'a mut String,
    constant_labels: &'a ConstantLabels,
}

impl Encoder<'_> {
    fn family<'a>(&mut self, metric: &Metric, readings: impl Iterator<Item = &'a Reading>) {
        let name = metric.name;
        let kind = if metric.kind == Kind::Info {
            "gauge"
        } else {
            metric.kind.word()
        };
        let _ = writeln!(
            self.out,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            metric.help
        );
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
        let _ = value(self.out);
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
        for (suffix, value) in [
            ("_sum", histogram.sum()),
            ("_count", histogram.count() as f64),
        ] {
            self.out.push_str(name);
            self.out.push_str(suffix);
            self.labels(reading, None);
            self.out.push(' ');
            let _ = number(self.out, value);
            self.out.push('\n');
        }
    }

    fn labels(&mut self, reading: &Reading, bound: Option<f64>) {
        let mut has_labels = false;
        for (name, value) in labels(reading, self.constant_labels) {
            self.out.push(if has_labels { ',' } else { '{' });
            has_labels = true;
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.escaped(value);
            self.out.push('"');
        }
        if let Some(bound) = bound {
            self.out
                .push_str(if has_labels { ",le=\"" } else { "{le=\"" });
            has_labels = true;
            let _ = bucket_bound(self.out, bound);
            self.out.push('"');
        }
        if has_labels {
            self.out.push('}');
        }
    }

    fn escaped(&mut self, value: &str) {
        let mut rest = value;
        // Nearly every value needs no escapes.
        while let Some(at) = rest
            .bytes()
            .position(|byte| matches!(byte, b'\\' | b'\n' | b'"'))
        {
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

fn number(out: &mut String, x: f64) -> std::fmt::Result {
    if x.is_nan() {
        out.write_str("NaN")
    } else if x.is_infinite() {
        out.write_str(if x > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        write!(out, "{x}")
    }
}

/// Bounds have a decimal point as in OpenMetrics, so that a series has the same labels in every
/// format.
fn bucket_bound(out: &mut String, bound: f64) -> std::fmt::Result {
    if bound.is_infinite() {
        out.write_str("+Inf")
    } else {
        write!(out, "{bound:?}")
    }
}

#[cfg(test)]
mod tests;
