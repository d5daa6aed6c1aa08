//! Queries of the dashboards in VictoriaMetrics, changed as docs/FLEET.md says. A new validator
//! must not cause a peak.

use crate::{
    end, grafana,
    series::{self, Target},
    store,
};
use faultline_testkit::{
    binaries::{NO_VICTORIAMETRICS_MESSAGE, victoriametrics},
    eventually::eventually_ok,
    http::{self, Request},
    ports::PortBlock,
    process::{Program, Running, run_to_success},
    prometheus::{Prometheus, SKIP_MESSAGE},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

const TIMEOUT: Duration = Duration::from_secs(60);
const FUNCTIONS: [&str; 3] = ["increase", "changes", "delta"];
/// MetricsQL counts a first sample from 0 if it is below ten times the next increase, which is 30
/// here.
const FIRST_SAMPLE: f64 = 300.0;
/// Prometheus extrapolates by half a scrape interval at the start.
const TOLERANCE: f64 = 0.1;

/// Values of a query by their labels.
type Answer = BTreeMap<String, f64>;

/// Expressions of panels and annotations with one of the functions, by panel or annotation.
fn expressions(dashboards: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dashboards).expect("the dashboards") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        let name = path.file_name().expect("a name").display().to_string();
        let panels = dashboard["panels"].as_array().into_iter().flatten();
        let annotations = dashboard["annotations"]["list"].as_array();
        let queries = panels.flat_map(|panel| {
            let targets = panel["targets"].as_array().into_iter().flatten();
            targets.map(|target| (format!("{}, {}", panel["title"], target["refId"]), target))
        });
        let marks = annotations.into_iter().flatten();
        let marks = marks.map(|mark| (mark["name"].to_string(), mark));
        for (what, query) in queries.chain(marks) {
            let expression = query["expr"].as_str().expect("an expression");
            let calls = |name: &str| {
                expression.contains(&format!("{name}("))
                    || expression.contains(&format!("{name}_prometheus("))
            };
            if FUNCTIONS.into_iter().any(calls) {
                all.insert(format!("{name}: {what}"), fill_variables(expression));
            }
        }
    }
    all
}

/// The expression with the values that Grafana inserts for variables.
fn fill_variables(expression: &str) -> String {
    let values = [
        ("$job", ".*"),
        ("$instance", "fresh"),
        ("$__rate_interval", "5m"),
        ("$__range", "15m"),
    ];
    let fill = |text: String, (name, value): (&str, &str)| text.replace(name, value);
    let text = values.into_iter().fold(expression.to_owned(), fill);
    assert!(!text.contains('$'), "{text}");
    text
}

/// A copy of the dashboards, converted by the command in docs/FLEET.md.
fn converted_dashboards(folder: &Path) -> BTreeMap<String, String> {
    let page = fs::read_to_string(grafana().join("../docs/FLEET.md")).expect("the page");
    let command = page.lines().find(|line| line.starts_with("sed -Ei "));
    let command = command.expect("a command for the dashboards");
    let script = format!(
        "cp -r {} {1}/dashboards && cd {1} && {command}",
        grafana().join("dashboards").display(),
        folder.display()
    );
    run_to_success(Path::new("/bin/sh"), &["-c", &script]).expect("the command");
    expressions(&folder.join("dashboards"))
}

/// A validator that appears two minutes before the end. Its counters are old.
fn new_validator(end: i64) -> Vec<Target> {
    vec![Target {
        labels: "instance=\"fresh\",hardware=\"a\"".to_owned(),
        from: end - 120,
        to: end + 1,
        scrape: 15,
    }]
}

/// The text with counters that begin at [`FIRST_SAMPLE`].
fn with_small_counters(text: &str) -> String {
    let mut firsts: BTreeMap<&str, f64> = BTreeMap::new();
    let mut small = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (rest, time) = line.rsplit_once(' ').expect("a time");
        let (series, value) = rest.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().expect("a number");
        let first = *firsts.entry(series).or_insert(value);
        let value = if first > FIRST_SAMPLE {
            value - first + FIRST_SAMPLE
        } else {
            value
        };
        small.push_str(&format!("{series} {value} {time}\n"));
    }
    small
}

fn start_victoriametrics(program: &Path, folder: &Path, text: &str) -> (Running, String) {
    let ports = PortBlock::claim(21_100).expect("ports");
    let address = format!("127.0.0.1:{}", ports.port(1));
    let arguments = [
        format!("-storageDataPath={}", folder.join("victoria").display()),
        format!("-httpListenAddr={address}"),
        "-search.latencyOffset=1s".to_owned(),
    ];
    let running = Running::start(&Program {
        path: program.to_owned(),
        arguments: arguments.into(),
        environment: Vec::new(),
        output: folder.join("victoria.log"),
    });
    let running = running.expect("it starts");
    // VictoriaMetrics reads times in milliseconds.
    let text = text.replace('\n', "000\n");
    eventually_ok(TIMEOUT, "it takes samples", || {
        let request = Request::new("POST", "/api/v1/import/prometheus");
        let request = request.body(text.as_bytes()).timeout(TIMEOUT);
        match request.send(&address) {
            Ok(answer) if answer.status == 204 => Ok(()),
            Ok(answer) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        }
    });
    http::get(&address, "/internal/force_flush").expect("a flush");
    (running, address)
}

fn query(address: &str, expression: &str, time: i64) -> Answer {
    let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
    let path = format!("/api/v1/query?query={encoded}&time={time}&nocache=1");
    let request = Request::new("GET", &path).timeout(TIMEOUT);
    let answer = request.send(address).expect("an answer");
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let result = answer["data"]["result"].as_array().expect(expression);
    let value = |one: &Value| {
        let value = one["value"][1].as_str()?.parse().ok()?;
        Some((one["metric"].to_string(), value))
    };
    let values = result.iter().filter_map(value);
    values
        .filter(|(_, value): &(_, f64)| !value.is_nan())
        .collect()
}

/// Compares two results. A `rate` over the first minutes differs: Prometheus divides by the window,
/// VictoriaMetrics by the time with samples.
fn is_same(a: &Answer, b: &Answer, expression: &str) -> bool {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * a.abs().max(b.abs());
    a.keys().eq(b.keys())
        && (expression.contains("rate(") || a.values().zip(b.values()).all(is_near))
}

#[test]
fn changed_dashboards_answer_at_victoriametrics_as_at_prometheus() {
    let Some(victoria) = victoriametrics("victoria-metrics") else {
        return eprintln!("{NO_VICTORIAMETRICS_MESSAGE}");
    };
    if !Prometheus::is_installed() {
        return eprintln!("{SKIP_MESSAGE}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dashboards = grafana().join("dashboards");
    let end = end();
    let text = with_small_counters(&series::text(&dashboards, &new_validator(end)));
    let prometheus = store(&(text.clone() + "# EOF\n"), folder.path());
    let (_victoria, address) = start_victoriametrics(&victoria, folder.path(), &text);

    let (shipped, converted) = (
        expressions(&dashboards),
        converted_dashboards(folder.path()),
    );
    assert!(shipped.len() > 20 && shipped.keys().eq(converted.keys()));
    let mut peaks = 0;
    for (what, expression) in &shipped {
        let expected = query(prometheus.address(), expression, end);
        let found = query(&address, &converted[what], end);
        assert!(
            is_same(&expected, &found, expression),
            "{what}: {expected:?}, {found:?}"
        );
        let unchanged = query(&address, expression, end);
        peaks += usize::from(!is_same(&expected, &unchanged, expression));
    }
    println!(
        "{} queries; {peaks} differ without the change",
        shipped.len()
    );
    assert!(peaks > 0, "the change is superfluous");
}
