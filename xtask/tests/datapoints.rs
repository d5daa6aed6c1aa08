//! Runs the tests of `scripts/datapoints`, and checks that it compares every field that the daemon declares.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use faultline_metrics::{Amount, metrics};
use std::{collections::BTreeSet, path::Path, process::Command};

/// The output of the script. `None` without Python.
#[expect(clippy::disallowed_methods, reason = "the script is what is tested")]
fn script(option: &str) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no python3");
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/datapoints");
    let output = Command::new("python3")
        .arg(path)
        .arg(option)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn datapoints_are_found_in_sources() {
    script("--self-test");
}

#[test]
fn every_field_that_feeds_a_metric_is_compared() {
    let Some(text) = script("--read") else { return };
    let read: BTreeSet<&str> = text.lines().collect();
    let sections = metrics::SECTIONS.iter();
    let metrics = sections.flat_map(|section| section.metrics);
    let mut declared = 0;
    for datapoint in metrics.flat_map(|metric| metric.datapoints) {
        for (name, input) in datapoint
            .names
            .iter()
            .flat_map(|name| datapoint.series.iter().map(move |input| (name, input)))
        {
            let key = match input.amount {
                Amount::Field { key, .. } | Amount::Zero(key) => key,
                Amount::PerPoint(_) => "(any)",
            };
            for key in input.conditions.iter().map(|(key, _)| *key).chain([key]) {
                declared += 1;
                let line = format!("{name} {key}");
                assert!(read.contains(line.as_str()), "{line} is missing");
            }
        }
    }
    assert!(declared > 100, "{declared}");
}
