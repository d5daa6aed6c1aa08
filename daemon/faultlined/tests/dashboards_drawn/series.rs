//! Every series that a dashboard selects, from the catalog, as text for promtool.

use faultline_metrics::{Kind, metrics};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// Series of Prometheus itself that dashboards select.
const OF_PROMETHEUS: [(&str, &[&str]); 4] = [
    ("up", &[]),
    ("scrape_duration_seconds", &[]),
    ("scrape_samples_scraped", &[]),
    ("ALERTS", &["alertname", "alertstate", "severity"]),
];

const BUCKETS: [(&str, f64); 3] = [("0.1", 0.5), ("1", 0.9), ("+Inf", 1.0)];

/// The series of one target: its labels except `job`, and the seconds in which it is scraped.
#[derive(Debug)]
pub struct Target {
    pub labels: String,
    pub from: i64,
    pub to: i64,
    pub scrape: i64,
}

/// Label values in the matchers of dashboards, by metric and label.
type Selected = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The series of all targets as OpenMetrics.
pub fn text(dashboards: &Path, targets: &[Target]) -> String {
    let selected = selected(dashboards);
    let mut text = String::new();
    for (name, labels, kind) in series() {
        let Some(values) = selected.get(&name) else {
            continue;
        };
        for own in combinations(&labels, values) {
            for target in targets {
                samples(
                    &mut text,
                    &format!("{name}{{job=\"faultline\",{}{own}}}", target.labels),
                    &kind,
                    target,
                );
            }
        }
    }
    text + "# EOF\n"
}

/// Growth of a sample with the seconds since the first scrape.
#[derive(Debug, Clone, Copy)]
enum Growth {
    Constant,
    Slope(f64),
}

/// Name, labels and growth of all series. The bound of a bucket is in the name until the text is
/// written.
fn series() -> Vec<(String, Vec<String>, Growth)> {
    let owned = |labels: &[&str]| {
        labels
            .iter()
            .map(|label| (*label).to_owned())
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = OF_PROMETHEUS
        .iter()
        .map(|(name, labels)| ((*name).to_owned(), owned(labels), Growth::Constant))
        .collect();
    for metric in metrics::exported() {
        let labels = owned(metric.label_names);
        match metric.kind {
            Kind::Counter => all.push((metric.name.to_owned(), labels, Growth::Slope(2.0))),
            Kind::Gauge => all.push((metric.name.to_owned(), labels, Growth::Slope(1e-5))),
            Kind::Info => all.push((metric.name.to_owned(), labels, Growth::Constant)),
            Kind::Histogram(_) => {
                for suffix in ["sum", "count"] {
                    all.push((
                        format!("{}_{suffix}", metric.name),
                        labels.clone(),
                        Growth::Slope(2.0),
                    ));
                }
                let with_bound = [labels, vec!["le".to_owned()]].concat();
                all.push((
                    format!("{}_bucket", metric.name),
                    with_bound,
                    Growth::Slope(2.0),
                ));
            }
        }
    }
    all
}

/// The selectors `name{label="value", ...}` in all expressions.
fn selected(dashboards: &Path) -> Selected {
    let mut all = Selected::new();
    for entry in fs::read_dir(dashboards).expect("the dashboards") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("a dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                select(target["expr"].as_str().expect("an expression"), &mut all);
            }
        }
    }
    // Variables of the dashboards select these series.
    all.entry("faultline_build_info".to_owned()).or_default();
    let target = all.entry("agave_target_info".to_owned()).or_default();
    for label in ["cluster", "experiment"] {
        target
            .entry(label.to_owned())
            .or_default()
            .insert("one".to_owned());
    }
    all
}

fn select(expression: &str, all: &mut Selected) {
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once('{') {
        let (matchers, behind) = after.split_once('}').expect("a closed brace");
        let name = before
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        let values = all.entry(name.to_owned()).or_default();
        for matcher in matchers.split(", ") {
            let Some((label, value)) = matcher.split_once('=') else {
                continue;
            };
            let value = value.trim_start_matches('~').trim_matches('"');
            if !label.ends_with('!') && !value.contains('$') {
                values
                    .entry(label.to_owned())
                    .or_default()
                    .extend(value.split('|').map(str::to_owned));
            }
        }
        rest = behind;
    }
}

/// `,label="value"` for each combination of values of a metric's labels.
fn combinations(labels: &[String], values: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut all = vec![String::new()];
    for label in labels {
        let chosen: Vec<String> = match (label.as_str(), values.get(label)) {
            ("le", _) => BUCKETS
                .iter()
                .map(|(bound, _)| (*bound).to_owned())
                .collect(),
            (_, Some(chosen)) => chosen.iter().cloned().collect(),
            (_, None) => vec!["one".to_owned()],
        };
        all = all
            .iter()
            .flat_map(|begun| {
                chosen
                    .iter()
                    .map(move |value| format!("{begun},{label}=\"{value}\""))
            })
            .collect();
    }
    all
}

fn samples(text: &mut String, series: &str, growth: &Growth, target: &Target) {
    let share = BUCKETS
        .iter()
        .find(|(bound, _)| series.contains(&format!(",le=\"{bound}\"")))
        .map_or(1.0, |(_, share)| *share);
    for second in (target.from..target.to).filter(|second| second % target.scrape == 0) {
        // Every counter began long ago.
        let age = (second % 1_000_000) as f64;
        let value = match growth {
            Growth::Constant => 1.0,
            Growth::Slope(slope) if *slope < 1.0 => 1.0,
            Growth::Slope(slope) => slope * age * share,
        };
        writeln!(text, "{series} {value} {second}").expect("text");
    }
}
