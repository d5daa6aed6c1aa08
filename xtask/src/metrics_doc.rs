//! docs/METRICS.md, from the catalog.

use crate::run;
use anyhow::Result;
use faultline_metrics::{Kind, Metric, Section, metrics};
use std::{fmt::Write, path::Path};

const PAGE: &str = "docs/METRICS.md";

const HEAD: &str = "\
# Metrics

Generated from the catalog by `cargo run -p xtask -- metrics-doc`; do not edit.

- Names follow Prometheus: base units, `_total` for counters, `_info` for labels that describe. `agave_` is the validator
  and the machine around it, `faultline_` the daemon, `process_` the daemon as every exporter reports itself.
- **Absent is not zero.** A value that could not be read is not on the page; `faultline_source_problems_total` and the
  landing page say why: `absent` (not offered by this kernel, cgroup version or validator), `forbidden` (no right to read
  it), `gone` (it vanished), `broken` (not understood). What is absent or forbidden counts when it begins, what vanished or
  is broken each time it is met.
- Series read from the kernel end with the process or the cgroup they belong to, and begin anew with the next one.
  Counters that the daemon sums itself (restarts, phases, transactions, program cache, ingest) live as long as the daemon
  and never fall.
- No label grows with time. `cluster`, `experiment`, `arm` and `run` come from the configuration and sit on
  `agave_target_info`, or on every `agave_` series with `metrics.constant_labels_everywhere`.
- A single field that an older kernel or validator does not write is absent without a problem; a whole file that is not
  there is one.
- Every value is taken on the daemon's own tick; a scrape gets the newest one and measures nothing.
";

pub fn write(root: &Path) -> Result<()> {
    run::write(root, Path::new(PAGE), &page())
}

pub fn check(root: &Path) -> Result<()> {
    run::check_written(root, Path::new(PAGE), &page(), "metrics-doc")
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    for section in metrics::SECTIONS {
        chapter(section, &mut out);
    }
    out
}

fn chapter(section: &Section, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "\n## {}\n\n{}\n\n| metric | type | labels | unit | what it says | from |\n| --- | --- | --- | --- | --- | --- |\n",
        section.title, section.about
    );
    for metric in section.metrics {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            metric.name,
            metric.kind.word(),
            metric.labels.join(", "),
            metric.unit.name(),
            cell(metric.help),
            cell(&from(metric))
        );
    }
}

fn from(metric: &Metric) -> String {
    match metric.kind {
        Kind::Histogram(bounds) => {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            format!("{}; buckets {}", metric.origin, bounds.join(", "))
        }
        _ => metric.origin.to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
