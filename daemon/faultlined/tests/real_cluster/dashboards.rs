//! Every query of every dashboard in a Prometheus that has scraped the daemon with a real
//! validator.

use faultline_testkit::{
    Result,
    binaries::in_search_path,
    eventually::eventually_ok,
    process::{Program, Running, tail},
    prometheus::Prometheus,
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Queries cover at most the last five minutes.
const WINDOW: f64 = 300.0;

/// Maximum time until a query has a result, and maximum time of a rendering.
const PATIENCE: Duration = Duration::from_secs(400);

/// The label `experiment` of both daemons.
const EXPERIMENT: &str = "by two ways";

/// One query, with values for Grafana's variables.
struct Query {
    /// Dashboard, panel, and the letter of the query.
    dashboard: String,
    panel: String,
    letter: String,
    expression: String,
    is_range: bool,
}

impl Query {
    fn who(&self) -> String {
        format!("{}, {}, query {}", self.dashboard, self.panel, self.letter)
    }

    /// True if `reasons` has this query or its whole panel.
    fn is_among(&self, reasons: &Value) -> bool {
        let of_dashboard = &reasons[&self.dashboard];
        [
            self.panel.clone(),
            format!("{} {}", self.panel, self.letter),
        ]
        .iter()
        .any(|key| !of_dashboard[key].is_null())
    }
}

fn grafana() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana")
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a file of the tree");
    serde_json::from_str(&text).expect("JSON")
}

/// The value of a variable: all values if it allows several, else that of the validator.
fn value_of(variable: &Value, instance: &str) -> String {
    match variable["name"].as_str().unwrap_or_default() {
        _ if variable["multi"] == true => ".*".to_owned(),
        "instance" => instance.to_owned(),
        "earlier" => "20s".to_owned(),
        _ => EXPERIMENT.to_owned(),
    }
}

fn filled(expression: &str, variables: &[Value], instance: &str) -> String {
    let mut text = expression
        .replace("$__rate_interval", "30s")
        .replace("$__range", "5m");
    for variable in variables {
        let name = variable["name"].as_str().unwrap_or_default();
        text = text.replace(&format!("${name}"), &value_of(variable, instance));
    }
    text
}

fn queries(instance: &str) -> Vec<Query> {
    let mut all = Vec::new();
    for entry in fs::read_dir(grafana().join("dashboards")).expect("the dashboards") {
        let path = entry.expect("a file").path();
        let dashboard = read(&path);
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let variables = dashboard["templating"]["list"]
            .as_array()
            .expect("variables");
        for panel in dashboard["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                all.push(Query {
                    dashboard: name.clone(),
                    panel: text(&panel["title"]),
                    letter: text(&target["refId"]),
                    expression: filled(&text(&target["expr"]), variables, instance),
                    is_range: target["range"] == true,
                });
            }
        }
    }
    all
}

/// Number of series that a query returns.
fn series(prometheus: &Prometheus, query: &Query, now: f64) -> Result<usize> {
    if query.is_range {
        prometheus.count_series(&query.expression, (now - WINDOW, now), 5)
    } else {
        Ok(prometheus.query(&query.expression)?.len())
    }
}

/// No query may fail. Each must return series, or `without-data.json` must say why it returns none.
/// A reason there must still hold.
pub fn every_query_shows_something_or_there_is_a_reason(prometheus: &Prometheus, instance: &str) {
    let queries = queries(instance);
    let now = || {
        prometheus
            .query("time()")
            .ok()
            .and_then(|answer| Some(answer.first()?.1))
            .unwrap_or_default()
    };
    let refused = queries
        .iter()
        .filter_map(|query| Some((query.who(), series(prometheus, query, now()).err()?)));
    let refused: Vec<_> = refused.collect();
    assert!(refused.is_empty(), "Prometheus refuses: {refused:#?}");
    let reasons = read(&grafana().join("render/without-data.json"));
    let is_expected = |query: &&Query| !query.is_among(&reasons["sometimes"]);
    let mut shown: BTreeSet<String> = BTreeSet::new();
    eventually_ok(PATIENCE, "every query shows something", || {
        let now = now();
        for query in queries.iter().filter(is_expected) {
            if series(prometheus, query, now).is_ok_and(|found| found > 0) {
                shown.insert(query.who());
            }
        }
        let empty = queries
            .iter()
            .filter(is_expected)
            .filter(|query| !shown.contains(&query.who()));
        let empty: Vec<String> = empty
            .filter(|query| !query.is_among(&reasons["always"]))
            .map(Query::who)
            .collect();
        if empty.is_empty() { Ok(()) } else { Err(empty) }
    });
    let unneeded = queries
        .iter()
        .filter(|query| query.is_among(&reasons["always"]) && shown.contains(&query.who()));
    let unneeded: Vec<String> = unneeded.map(Query::who).collect();
    assert!(
        unneeded.is_empty(),
        "they have data, and without-data.json says that they never do: {unneeded:?}"
    );
    println!(
        "{} queries of the dashboards, {} with data for sure",
        queries.len(),
        shown.len()
    );
}

/// Renders all dashboards with Grafana's own panels into `target/dashboards`. Also renders a
/// dashboard that is broken on purpose, which must be refused.
pub fn every_dashboard_is_drawn(prometheus: &Prometheus, instance: &str) -> Result<()> {
    if !grafana()
        .join("render/node_modules/.package-lock.json")
        .is_file()
        || ["node", "chromium"]
            .iter()
            .any(|program| in_search_path(program).is_none())
    {
        eprintln!(
            "SKIPPED: dashboards are not drawn: npm ci --prefix grafana/render, node and chromium are needed"
        );
        return Ok(());
    }
    let instance = format!("instance={instance}");
    let (succeeded, output) = draw(
        prometheus,
        &[
            "--last",
            "5m",
            "--scrape",
            "1",
            "--set",
            &instance,
            "--set",
            "earlier=30s",
        ],
    )?;
    println!("{output}");
    assert!(succeeded, "{output}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut broken = read(&grafana().join("dashboards/overview.json"));
    let panels = broken["panels"].as_array_mut().expect("panels");
    panels.truncate(3);
    for (panel, query) in panels
        .iter_mut()
        .skip(1)
        .zip(["rate(agave_up[", "agave_no_such_thing"])
    {
        panel["targets"][0]["expr"] = query.into();
    }
    fs::write(folder.path().join("broken.json"), broken.to_string()).expect("a dashboard");
    let path = folder.path().display().to_string();
    let (succeeded, output) = draw(prometheus, &["--dashboards", &path, "--out", &path])?;
    assert!(
        !succeeded && output.contains("parse error") && output.contains("no series"),
        "{output}"
    );
    Ok(())
}

/// Whether the renderer succeeded, and its output.
fn draw(prometheus: &Prometheus, words: &[&str]) -> Result<(bool, String)> {
    let root = grafana().join("..");
    let output = root.join("target/dashboards.out");
    let mut arguments = vec![
        "--prometheus".to_owned(),
        format!("http://{}", prometheus.address()),
    ];
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let path = root.join("scripts/render-dashboards");
    let mut running = Running::start(&Program {
        path,
        arguments,
        environment: Vec::new(),
        output: output.clone(),
    })?;
    let ended = eventually_ok(PATIENCE, "the dashboards are drawn", || {
        running
            .exit_status()
            .map_err(|error| error.to_string())?
            .ok_or_else(|| tail(&output, 5))
    });
    Ok((ended.success(), tail(&output, 100)))
}
