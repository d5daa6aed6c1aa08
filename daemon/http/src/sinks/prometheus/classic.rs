//! Encodes the classic text format, which prometheus-client does not support. A family's name
//! includes `_total` or `_info`, and an info metric is a gauge.

use super::{ConstantLabels, labels};
use faultline_metrics::{Kind, Metric, Reading, Value};
use std::fmt::{self, Write};

pub fn encode<'a>(
    out: &mut String,
    metric: &Metric,
    readings: impl Iterator<Item = &'a Reading>,
    constant_labels: &ConstantLabels,
) {
    let name = metric.name;
    let kind = if metric.kind == Kind::Info {
        "gauge"
    } else {
        metric.kind.type_name()
    };
    let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
    for reading in readings {
        let mut write_sample = |suffix, bound, value: &dyn fmt::Display| {
            out.push_str(name);
            out.push_str(suffix);
            write_labels(out, labels(reading, constant_labels), bound);
            out.push(' ');
            let _ = write!(out, "{value}");
            out.push('\n');
        };
        match &reading.value {
            Value::Histogram(histogram) => {
                for (bound, count) in histogram.cumulative() {
                    write_sample("_bucket", Some(bound), &count);
                }
                write_sample("_sum", None, &Number(histogram.sum()));
                write_sample("_count", None, &Number(histogram.count() as f64));
            }
            Value::Integer(n) => write_sample("", None, n),
            Value::Real(x) => write_sample("", None, &Number(*x)),
        }
    }
}

/// A `bound` becomes the label `le`, with a decimal point as in OpenMetrics, so that a series has
/// the same labels in every format.
fn write_labels<'a>(
    out: &mut String,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    bound: Option<f64>,
) {
    let mut separator = '{';
    for (name, value) in labels {
        out.push(separator);
        separator = ',';
        out.push_str(name);
        out.push_str("=\"");
        write_escaped(out, value);
        out.push('"');
    }
    if let Some(bound) = bound {
        out.push(separator);
        separator = ',';
        let _ = if bound.is_infinite() {
            out.write_str("le=\"+Inf\"")
        } else {
            write!(out, "le=\"{bound:?}\"")
        };
    }
    if separator == ',' {
        out.push('}');
    }
}

fn write_escaped(out: &mut String, value: &str) {
    let mut rest = value;
    // Nearly every value needs no escapes.
    while let Some(index) = rest
        .bytes()
        .position(|byte| matches!(byte, b'\\' | b'\n' | b'"'))
    {
        let (plain, special) = rest.split_at(index);
        out.push_str(plain);
        out.push_str(match special.as_bytes().first() {
            Some(b'\\') => "\\\\",
            Some(b'\n') => "\\n",
            _ => "\\\"",
        });
        rest = special.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
}

struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            x if x.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            x => x.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
