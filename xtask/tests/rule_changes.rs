//! Repeats every test case of every alert with other labels of targets, and with other scrape intervals.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use cases::Case;
use faultline_testkit::binaries::{NO_VICTORIAMETRICS_MESSAGE, victoriametrics};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

#[path = "rule_changes/cases.rs"]
mod cases;
#[path = "rule_changes/samples.rs"]
mod samples;

/// The path of a program that evaluates rules over samples of a test, and its arguments before the file.
type Evaluator = (PathBuf, &'static [&'static str]);

fn promtool() -> Evaluator {
    ("promtool".into(), &["test", "rules"])
}

fn vmalert_tool() -> Option<Evaluator> {
    let Some(path) = victoriametrics("vmalert-tool") else {
        eprintln!("{NO_VICTORIAMETRICS_MESSAGE}");
        return None;
    };
    let arguments = &["unittest", "-disableAlertgroupLabel", "--files"];
    Some((path, arguments))
}

/// The output of a program if a file of tests fails. `None` if the tests pass or the program is not installed.
#[expect(clippy::disallowed_methods, reason = "the witness is a program")]
fn failures((path, arguments): &Evaluator, file: &Path) -> Option<String> {
    match Command::new(path).args(*arguments).arg(file).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(
            [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .concat(),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no {}", path.display());
            None
        }
        Err(error) => panic!("{} cannot be run: {error}", path.display()),
    }
}

/// Runs these cases. The cases of one alert are in one file.
#[track_caller]
fn check(name: &str, cases: Vec<Case>, ignored: &str) {
    run(&promtool(), write(name, cases, ignored, "rules"));
}

fn write(name: &str, cases: Vec<Case>, ignored: &str, rules: &str) -> Vec<PathBuf> {
    let mut groups: BTreeMap<Vec<String>, Vec<Case>> = BTreeMap::new();
    for case in cases {
        let alerts = case.alerts().into_iter().map(str::to_owned).collect();
        groups.entry(alerts).or_default().push(case);
    }
    let folder = folder(name);
    let file = |(alerts, cases): (Vec<String>, Vec<Case>)| {
        cases::write(&folder.join(alerts.join("+")), &cases, ignored, rules)
    };
    groups.into_iter().map(file).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("rule_changes")
        .join(name)
}

/// Runs these files of tests, two at a time.
#[track_caller]
fn run(evaluator: &Evaluator, files: Vec<PathBuf>) {
    let (files, failed) = (Mutex::new(files), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = { files.lock().unwrap().pop() } {
                    let failures = failures(evaluator, &file).unwrap_or_default();
                    *failed.lock().unwrap() += &failures;
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed}");
}

/// Writes files with these cases and rules in the format of vmalert-tool.
fn write_for_vmalert(name: &str, cases: Vec<Case>, rules: &str) -> Vec<PathBuf> {
    let files = write(name, cases, "", rules);
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, text.replace("promql_expr", "metricsql_expr")).unwrap();
    }
    files
}

#[test]
#[ignore = "takes three minutes of two cores; part of .ci/run --long"]
fn vmalert_fires_the_same_alerts_as_prometheus() {
    let Some(vmalert) = vmalert_tool() else {
        return;
    };
    let files = write_for_vmalert("vmalert", cases::all(), "metricsql");
    run(&vmalert, files);
}

/// This difference is the reason for the folder `metricsql`.
#[test]
fn vmalert_needs_rules_of_its_own() {
    let Some(vmalert) = vmalert_tool() else {
        return;
    };
    let is_first_scrape = |case: &Case| case.name.contains("the first scrapes of a host");
    let cases: Vec<Case> = cases::all().into_iter().filter(is_first_scrape).collect();
    assert_eq!(cases.len(), 1);
    run(
        &vmalert,
        write_for_vmalert("vmalert-own", cases.clone(), "metricsql"),
    );
    let files = write_for_vmalert("vmalert-shipped", cases, "rules");
    let failures = failures(&vmalert, &files[0]).expect("the shipped rules would do");
    assert!(failures.contains("AgaveOomHappened"), "{failures}");
}

/// Cases whose changes are too quick: a slower scrape misses them, or always gets the same one.
const TOO_QUICK: [&str; 2] = [
    "FaultlineDown: it crashes every minute, and half of the scrapes fail",
    "AgaveFallingBehind: behind, while every second scrape fails",
];

fn scraped_each(seconds: u64) {
    let cases = cases::all()
        .into_iter()
        .filter(|case| seconds <= 15 || !TOO_QUICK.contains(&&*case.name))
        .map(|case| case.scraped_each(Duration::from_secs(seconds)))
        .collect();
    check(&format!("scraped-each-{seconds}s"), cases, "");
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    run(&promtool(), cases::write_unchanged(&folder("unchanged")));
}

#[test]
fn labels_of_one_instance_change_no_alert_of_another() {
    let cases = cases::all().into_iter().map(|case| case.with_changes(0.5));
    check("labels", cases.collect(), " changed");
}

/// An event between the end of one series and the start of the next is in neither series.
const BETWEEN_SERIES: &str = "AgaveOomHappened: killed in its cgroup, which the next process has again, and the daemon was not there";

#[test]
#[ignore = "takes a minute of two cores; part of .ci/run --long"]
fn a_late_label_change_does_not_resolve_an_instances_alert() {
    let cases = cases::all()
        .into_iter()
        .filter(|case| case.name != BETWEEN_SERIES)
        .map(|case| case.with_changes(0.9));
    check("late", cases.collect(), "");
}

#[test]
#[ignore = "takes a minute of two cores; part of .ci/run --long"]
fn alerts_are_the_same_when_scraped_each_5_seconds() {
    scraped_each(5);
}

#[test]
fn alerts_are_the_same_when_scraped_each_15_seconds() {
    scraped_each(15);
}

#[test]
#[ignore = "takes a minute of two cores; part of .ci/run --long"]
fn alerts_are_the_same_when_scraped_each_30_seconds() {
    scraped_each(30);
}

/// Scrapes at intervals of a minute, each a little late.
#[test]
#[ignore = "takes a minute of two cores; part of .ci/run --long"]
fn alerts_are_the_same_when_scraped_each_61_seconds() {
    scraped_each(61);
}
