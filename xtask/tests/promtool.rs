//! Checks rules and configurations with promtool, the tool of Prometheus.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../grafana/prometheus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Fails with the output of promtool. Skips with a message if promtool is not installed.
#[expect(clippy::disallowed_methods, reason = "the witness is a program")]
fn promtool(words: &[&str], files: &[PathBuf]) {
    match Command::new("promtool").args(words).args(files).output() {
        Ok(output) => assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no promtool")
        }
        Err(error) => panic!("promtool cannot be run: {error}"),
    }
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(
        &["check", "rules", "--lint-fatal"],
        &files(&folder().join("rules")),
    );
}

#[test]
fn the_scrape_configuration_example_is_valid() {
    promtool(&["check", "config"], &[folder().join("prometheus.yml")]);
}

#[test]
fn the_examples_of_remote_writes_are_valid_configurations() {
    promtool(&["check", "config"], &files(&folder().join("remote-write")));
}

#[test]
fn the_configurations_of_a_fleet_are_valid() {
    let fleet = folder().join("fleet");
    promtool(
        &["check", "rules", "--lint-fatal"],
        &[fleet.join("hosts.yml")],
    );
    let configurations = ["prometheus-centre.yml", "discovery.yml"];
    promtool(
        &["check", "config"],
        &configurations.map(|name| fleet.join(name)),
    );
    // The file with the password is missing, so only the syntax is checked.
    let agent = fleet.join("prometheus-agent.yml");
    promtool(&["check", "config", "--agent", "--syntax-only"], &[agent]);
}

/// Replaces variables as Grafana does.
#[test]
fn every_query_of_a_dashboard_is_promql() {
    let mut rules = "groups:\n  - name: dashboards\n    rules:\n".to_owned();
    let mut count = 0;
    for file in files(&folder().join("../dashboards")) {
        let dashboard: serde_json::Value =
            serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let targets = dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|panel| panel["targets"].as_array());
        for query in targets
            .flatten()
            .map(|target| target["expr"].as_str().unwrap())
        {
            count += 1;
            let filled = ["$__rate_interval", "$__range", "$earlier"]
                .iter()
                .fold(query.to_owned(), |q, v| q.replace(v, "5m"))
                .replace('\n', "\n          ");
            rules.push_str(&format!(
                "      - record: query{count}\n        expr: |\n          {filled}\n"
            ));
        }
    }
    assert!(count > 100, "the dashboards have only {count} queries");
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboards.yml");
    fs::write(&written, rules).unwrap();
    promtool(&["check", "rules"], &[written]);
}

#[test]
fn every_query_of_a_runbook_is_promql() {
    let mut rules = "groups:\n  - name: runbooks\n    rules:\n".to_owned();
    let mut count = 0;
    for file in files(&folder().join("../../docs/runbooks")) {
        let text = fs::read_to_string(&file).unwrap();
        let blocks = text
            .split("```promql\n")
            .skip(1)
            .filter_map(|after| after.split("```").next());
        for query in blocks.flat_map(str::lines) {
            count += 1;
            rules.push_str(&format!(
                "      - record: query{count}\n        expr: |\n          {query}\n"
            ));
        }
    }
    assert!(count > 0, "the runbooks have no queries");
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runbooks.yml");
    fs::write(&written, rules).unwrap();
    promtool(&["check", "rules"], &[written]);
}
