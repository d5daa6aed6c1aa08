//! Every case of every alert again, while what is around it changes: labels of targets, and the interval of scrapes.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use cases::Case;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

#[path = "rule_changes/cases.rs"]
mod cases;
#[path = "rule_changes/samples.rs"]
mod samples;

/// A program that evaluates rules over invented samples.
#[derive(Debug, Clone, Copy)]
enum Witness {
    Promtool,
    Vmalert,
}

impl Witness {
    #[expect(clippy::disallowed_methods, reason = "the witness is a program")]
    fn command(self, file: &Path) -> Command {
        let path = match self {
            Witness::Promtool => "promtool".into(),
            Witness::Vmalert => victoriametrics().join("vmalert-tool"),
        };
        let mut command = Command::new(path);
        match self {
            Witness::Promtool => command.args(["test", "rules"]).arg(file),
            Witness::Vmalert => command
                .args(["unittest", "-disableAlertgroupLabel", "--files"])
                .arg(file),
        };
        command
    }
}

/// Where `scripts/install-victoriametrics` puts it, unless `FAULTLINE_VICTORIAMETRICS` names another folder.
fn victoriametrics() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("FAULTLINE_VICTORIAMETRICS").unwrap_or_else(|| {
        let home = || variable("HOME").unwrap_or_default().join(".cache");
        let cache = variable("XDG_CACHE_HOME").unwrap_or_else(home);
        cache.join("faultline/victoriametrics")
    })
}

/// What a program has against a file of tests; none where there is no such program.
fn failures(witness: Witness, file: &Path) -> Option<String> {
    match witness.command(file).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(
            [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .concat(),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!(
                "SKIPPED: no {witness:?}; scripts/install-victoriametrics builds vmalert-tool"
            );
            None
        }
        Err(error) => panic!("{witness:?} cannot be run: {error}"),
    }
}

/// Runs these cases, those of one alert together.
#[track_caller]
fn check(name: &str, cases: Vec<Case>, ignored: &str) {
    run(Witness::Promtool, write(name, cases, ignored, "rules"));
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
fn run(witness: Witness, files: Vec<PathBuf>) {
    let (files, failed) = (Mutex::new(files), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = { files.lock().unwrap().pop() } {
                    let failures = failures(witness, &file).unwrap_or_default();
                    *failed.lock().unwrap() += &failures;
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed}");
}

/// Files with these cases and rules, as vmalert-tool reads them.
fn write_for_vmalert(name: &str, cases: Vec<Case>, rules: &str) -> Vec<PathBuf> {
    let files = write(name, cases, "", rules);
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::write(file, text.replace("promql_expr", "metricsql_expr")).unwrap();
    }
    files
}

#[test]
#[ignore = "takes five minutes of two cores; part of .ci/run --long"]
fn vmalert_fires_the_same_alerts_as_prometheus() {
    let files = write_for_vmalert("vmalert", cases::all(), "metricsql");
    run(Witness::Vmalert, files);
}

/// The reason for the folder `metricsql`.
#[test]
fn vmalert_needs_rules_of_its_own() {
    let is_first_scrape = |case: &Case| case.name.contains("the first scrapes of a host");
    let cases: Vec<Case> = cases::all().into_iter().filter(is_first_scrape).collect();
    assert_eq!(cases.len(), 1);
    let files = write_for_vmalert("vmalert-own", cases.clone(), "metricsql");
    run(Witness::Vmalert, files);
    let files = write_for_vmalert("vmalert-shipped", cases, "rules");
    if let Some(failures) = failures(Witness::Vmalert, &files[0]) {
        assert!(failures.contains("AgaveOomHappened"), "{failures}");
    } else if victoriametrics().join("vmalert-tool").is_file() {
        panic!("the shipped rules would do");
    }
}

/// Cases of which a slower scrape sees nothing, or always the same moment.
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
    run(
        Witness::Promtool,
        cases::write_unchanged(&folder("unchanged")),
    );
}

#[test]
fn labels_of_one_instance_change_no_alert_of_another() {
    let cases = cases::all().into_iter().map(|case| case.with_changes(0.5));
    check("labels", cases.collect(), " changed");
}

/// An event between two series is counted in neither.
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

/// A minute, and each scrape a little late.
#[test]
#[ignore = "takes a minute of two cores; part of .ci/run --long"]
fn alerts_are_the_same_when_scraped_each_61_seconds() {
    scraped_each(61);
}
