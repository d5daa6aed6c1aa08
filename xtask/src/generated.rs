//! Generated files: docs/METRICS.md and the rules for vmalert.

use crate::{
    rules::{RULES, expression, expressions, files_with_extension},
    run::{self, read},
};
use anyhow::{Context, Result, ensure};
use faultline_metrics::{Kind, Metric, Section, metrics};
use itertools::Itertools;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

pub type Files = Vec<(PathBuf, String)>;

pub fn write(root: &Path, files: Files) -> Result<()> {
    for (file, text) in files {
        run::write(root, &file, &text)?;
    }
    Ok(())
}

/// Fails unless the files have these texts. `writer` is the command of `xtask` that writes them.
pub fn check(root: &Path, files: Files, writer: &str) -> Result<()> {
    let errors = differences(root, files, writer);
    ensure!(errors.is_empty(), errors.join("\n"));
    Ok(())
}

/// One error for each file that is missing or has another text.
pub fn differences(root: &Path, files: Files, writer: &str) -> Vec<String> {
    files
        .into_iter()
        .filter(|(file, text)| read(root, file).ok().as_ref() != Some(text))
        .map(|(file, _)| {
            format!(
                "{} does not match its sources; run: cargo run -p xtask -- {writer}",
                file.display()
            )
        })
        .collect()
}

const METRICS_PAGE: &str = "docs/METRICS.md";

const METRICS_HEAD: &str = "\
# Metrics

Generated from the catalog by `cargo run -p xtask -- metrics-doc`; do not edit.

- Names follow Prometheus: base units, `_total` for counters, `_info` for labels that describe. Metrics of the validator and
  its host begin with `agave_`, and those of the daemon with `faultline_`. The standard metrics of an exporter's process
  begin with `process_`; here the process is the daemon.
- **Absent is not zero.** `/metrics` lacks a value that could not be read. `faultline_source_problems_total` and the
  landing page give the reason: `absent` (not offered by this kernel, cgroup version or validator), `forbidden` (no right
  to read it), `gone` (it vanished), `broken` (not understood). `absent` and `forbidden` count when they begin,
  `gone` and `broken` each time.
- Series from the kernel that belong to a process end with it, and start again with the next one. Sums over threads also
  start again with the daemon. Counters of a cgroup continue in the next one.
  Counters that the daemon sums itself (restarts, phases, transactions, program cache, ingest) live as long as the daemon
  and never fall.
- The number of label values does not grow with time. `cluster`, `experiment`, `arm` and `run` come from the
  configuration. `agave_target_info` has these labels; with `metrics.constant_labels_everywhere`, every `agave_` series.
- A single field that an older kernel or validator does not write has no value and is no problem; a missing file is a problem.
- The daemon samples at its own interval. A scrape returns the newest values and starts no sample.
";

pub fn metrics_page() -> Files {
    let mut page = METRICS_HEAD.to_owned();
    for section in metrics::SECTIONS {
        push_chapter(section, &mut page);
    }
    vec![(METRICS_PAGE.into(), page)]
}

fn push_chapter(section: &Section, out: &mut String) {
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
            metric.kind.type_name(),
            metric.label_names.join(", "),
            metric.unit.name(),
            escaped_cell(metric.help),
            escaped_cell(&origin_text(metric))
        );
    }
}

fn origin_text(metric: &Metric) -> String {
    match metric.kind {
        Kind::Histogram(bounds) => {
            format!("{}; buckets {}", metric.origin, bounds.iter().join(", "))
        }
        _ => metric.origin.to_owned(),
    }
}

fn escaped_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const METRICSQL_FOLDER: &str = "grafana/prometheus/metricsql";

const RULES_HEAD: &str = "\
# Generated from the file of the same name in ../rules by `cargo run -p xtask -- metricsql`; do not edit. For vmalert.
";

/// In MetricsQL, `increase`, `delta` and `changes` count the first sample of a new series as a
/// change from 0; the `_prometheus` variants do not. `rate` is not replaced: it needs two samples
/// in both languages. `rate_prometheus` does not extrapolate, so over 5 min with 60 s scrapes it
/// is 20 % too low.
pub fn metricsql_rules(root: &Path) -> Result<Files> {
    let vmalert_file = |file: PathBuf| {
        let name = file.file_name().context("a file without a name")?;
        let (text, replaced) = with_prometheus_variants(&read(root, &file)?);
        let mentions: usize = expressions(root, &file)?
            .iter()
            .map(|expression| words(expression).filter(is_counting_function).count())
            .sum();
        ensure!(
            replaced == mentions,
            "{}: {replaced} calls were replaced, but expressions name these functions {mentions} times",
            file.display()
        );
        Ok((
            Path::new(METRICSQL_FOLDER).join(name),
            RULES_HEAD.to_owned() + &text,
        ))
    };
    files_with_extension(root, RULES, "yml")?
        .into_iter()
        .map(vmalert_file)
        .collect()
}

const COUNTING_FUNCTIONS: [&str; 3] = ["changes", "delta", "increase"];

fn is_counting_function(word: &&str) -> bool {
    COUNTING_FUNCTIONS.contains(word)
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !expression::is_name_char(c))
}

/// Returns the text without comments and empty lines, and the number of replaced calls.
fn with_prometheus_variants(text: &str) -> (String, usize) {
    let mut result = String::new();
    let mut replaced = 0;
    let has_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    for line in text.lines().filter(has_code) {
        let mut parts = line.split('(').peekable();
        while let Some(part) = parts.next() {
            result.push_str(part);
            if parts.peek().is_some() {
                if words(part)
                    .next_back()
                    .as_ref()
                    .is_some_and(is_counting_function)
                {
                    result.push_str("_prometheus");
                    replaced += 1;
                }
                result.push('(');
            }
        }
        result.push('\n');
    }
    (result, replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_differs_or_is_missing_is_reported() {
        let root = crate::root();
        let license = read(&root, Path::new("LICENSE")).unwrap();
        let files = [
            ("README.md", ""),
            ("no-such-file", ""),
            ("LICENSE", &license),
        ];
        let files = files.map(|(file, text)| (file.into(), text.to_owned()));
        let found = differences(&root, files.into(), "x");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("README.md does not match") && found[1].contains("no-such-file")
        );
    }

    #[test]
    fn only_calls_are_replaced() {
        let text = "# increase(a)\n\nexpr: increase(a[5m]) > 0 and instance:b:increase (c) + rate(d[1m])\n";
        let (variant, replaced) = with_prometheus_variants(text);
        assert_eq!(
            variant,
            "expr: increase_prometheus(a[5m]) > 0 and instance:b:increase (c) + rate(d[1m])\n"
        );
        assert_eq!(replaced, 1);
    }
}
