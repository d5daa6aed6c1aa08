//! Nodes in the storage of a real Prometheus, with the results of the recording rules.

use crate::recording::{Node, Recording};
use faultline_testkit::{
    Error, Result,
    binaries::in_search_path,
    process::run_to_success,
    prometheus::{Prometheus, PrometheusOptions, Rule},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// A file of the shipped rules, or of the folder in `FAULTLINE_RULES`.
pub fn shipped(name: &str) -> PathBuf {
    let of_tree = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/prometheus/rules");
    let folder = std::env::var_os("FAULTLINE_RULES").map_or_else(of_tree, PathBuf::from);
    folder.join(name)
}

/// The shipped rules, as Prometheus parses them.
pub fn rules() -> Result<Vec<Rule>> {
    Prometheus::start(&PrometheusOptions {
        rule_files: vec![shipped("*.yml")],
        ..PrometheusOptions::default()
    })?
    .rules()
}

/// Words of an expression that may be metrics. Text in braces is left out, because it has labels.
pub fn words(expression: &str) -> impl Iterator<Item = &str> {
    let outside = expression
        .split('{')
        .map(|part| part.rsplit_once('}').map_or(part, |(_, after)| after));
    let words = outside.flat_map(|part| {
        part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
    });
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Metrics that alerts read directly or by a recording rule.
pub fn read_by_alerts(rules: &[Rule]) -> BTreeSet<&str> {
    let alerts = rules
        .iter()
        .filter(|rule| rule.is_alert)
        .flat_map(|rule| words(&rule.expression));
    let mut read: BTreeSet<&str> = alerts.collect();
    let recorded = rules
        .iter()
        .filter(|rule| !rule.is_alert && read.contains(rule.name.as_str()));
    let below: Vec<&str> = recorded.flat_map(|rule| words(&rule.expression)).collect();
    read.extend(below);
    read
}

/// A folder with blocks for the storage of a Prometheus.
pub struct Stored {
    pub folder: PathBuf,
    /// Recording rules that Prometheus refuses at some time of these nodes.
    pub refused: Vec<String>,
}

/// Stores the metrics that alerts read of these nodes. No recording rule may be refused.
pub fn of_alerts(
    recording: &Recording,
    rules: &[Rule],
    nodes: &[Node],
    folder: &Path,
) -> Result<PathBuf> {
    let read = read_by_alerts(rules);
    let stored = store(recording, rules, &|name| read.contains(name), nodes, folder)?;
    assert_eq!(stored.refused, [""; 0]);
    Ok(stored.folder)
}

/// Stores the series and the results of the recording rules with these names, as blocks.
pub fn store(
    recording: &Recording,
    rules: &[Rule],
    is_kept: &dyn Fn(&str) -> bool,
    nodes: &[Node],
    folder: &Path,
) -> Result<Stored> {
    let (text, storage) = (folder.join("nodes.om"), folder.join("data"));
    let mut out = BufWriter::new(fs::File::create(&text).expect("room for a file"));
    let written = recording
        .write(is_kept, nodes, &mut out)
        .and_then(|()| out.flush());
    written.expect("room for a file");
    let [file, data] = [&text, &storage].map(|path| path.display().to_string());
    create_blocks(&["openmetrics", &file, &data])?;
    fs::remove_file(&text).expect("room for a file");
    let prometheus = on(&storage, Vec::new())?;
    let [from, to] = span(nodes).map(|ms| (ms / 1000).to_string());
    let (url, from, to) = (
        format!("--url=http://{}", prometheus.address()),
        format!("--start={from}"),
        format!("--end={to}"),
    );
    let output = format!("--output-dir={data}");
    let file = folder.join("recording.yml");
    let words = [
        "rules",
        &url,
        &from,
        &to,
        &output,
        &file.display().to_string(),
    ];
    let mut refused = Vec::new();
    // Evaluated one after another, so that an error of one does not hide another one.
    for rule in rules
        .iter()
        .filter(|rule| !rule.is_alert && is_kept(&rule.name))
    {
        fs::write(&file, recorded(rule)).expect("room for a file");
        match create_blocks(&words) {
            Err(Error::Ended { tail, .. }) if tail.contains("rule importer") => {
                refused.push(rule.name.clone());
            }
            created => created?,
        }
    }
    Ok(Stored {
        folder: storage,
        refused,
    })
}

/// Creates blocks that are longer than two hours, because promtool reads the text once for each
/// block.
fn create_blocks(words: &[&str]) -> Result<()> {
    let promtool =
        in_search_path("promtool").ok_or_else(|| Error::Missing("promtool".to_owned()))?;
    let length = "--max-block-duration=24h";
    run_to_success(
        &promtool,
        &[&["tsdb", "create-blocks-from", "--quiet", length], words].concat(),
    )
}

/// A recording rule as a rule file.
fn recorded(rule: &Rule) -> String {
    let rule = json!({ "record": rule.name, "expr": rule.expression });
    // JSON is valid YAML.
    json!({ "groups": [{ "name": "recorded", "interval": "15s", "rules": [rule] }] }).to_string()
}

/// Times of the first and the last sample.
pub fn span(nodes: &[Node]) -> [i64; 2] {
    let from = nodes.iter().map(|node| node.from).min().unwrap_or_default();
    [
        from,
        nodes.iter().map(|node| node.to).max().unwrap_or_default(),
    ]
}

/// Starts a Prometheus that has these blocks and scrapes nothing.
pub fn on(storage: &Path, rule_files: Vec<PathBuf>) -> Result<Prometheus> {
    let interval = Some(if rule_files.is_empty() { 60 } else { 5 });
    let storage = Some(storage.to_owned());
    Prometheus::start(&PrometheusOptions {
        storage,
        rule_files,
        interval,
        ..PrometheusOptions::default()
    })
}
