//! Renders all dashboards for a fleet in which labels change, a target is duplicated, and names
//! have characters of regular expressions. Each dashboard must show as many series for such an
//! instance as for an unchanged one.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; it starts programs and asks what time it is"
)]

use faultline_testkit::{
    binaries::in_search_path,
    process::run_to_success,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use serde_json::Value;
use series::Target;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

#[path = "dashboards_drawn/pictures.rs"]
mod pictures;
#[path = "dashboards_drawn/series.rs"]
mod series;
#[path = "dashboards_drawn/victoriametrics.rs"]
mod victoriametrics;

const MINUTES: i64 = 60;
const CHANGED: &str = "[2001:db8::7]:9912";
const DOUBLED: &str = "main (fra1)";
const DOTTED: &str = "fra.1";

/// Number of series by dashboard, panel and query.
type Drawn = BTreeMap<String, u64>;

fn grafana() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana")
}

/// The end of all series, in seconds since 1970; a multiple of every scrape interval.
fn end() -> i64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    let now = i64::try_from(now.as_secs()).expect("a time");
    now - now % MINUTES - 60 * MINUTES
}

/// Five instances. With `changes`, the hardware of one changed two minutes ago, and another one is
/// scraped twice.
fn fleet(end: i64, scrape: i64, changes: bool) -> Vec<Target> {
    let target = |instance: &str, more: &str, from: i64, to: i64| Target {
        labels: format!("instance=\"{instance}\",{more}"),
        from: end - from * MINUTES,
        to: end - to * MINUTES + 1,
        scrape,
    };
    let mut all = vec![
        target("plain", "hardware=\"a\"", 40, 0),
        target(DOTTED, "hardware=\"a\"", 40, 0),
        target("fra-1", "hardware=\"b\"", 40, 0),
    ];
    if changes {
        all.push(target(CHANGED, "hardware=\"a\"", 40, 2));
        all.push(target(CHANGED, "hardware=\"b\"", 2, 0));
        all.push(target(DOUBLED, "hardware=\"a\",replica=\"one\"", 40, 0));
        all.push(target(DOUBLED, "hardware=\"a\",replica=\"two\"", 40, 0));
    } else {
        all.push(target(CHANGED, "hardware=\"a\"", 40, 0));
        all.push(target(DOUBLED, "hardware=\"a\"", 40, 0));
    }
    all
}

fn stored(targets: &[Target], folder: &Path) -> Prometheus {
    store(
        &series::text(&grafana().join("dashboards"), targets),
        folder,
    )
}

fn store(samples: &str, folder: &Path) -> Prometheus {
    let (text, storage) = (folder.join("fleet.om"), folder.join("data"));
    fs::write(&text, samples).expect("room for a file");
    let [text, data] = [&text, &storage].map(|path| path.display().to_string());
    let promtool = in_search_path("promtool").expect("promtool");
    run_to_success(
        &promtool,
        &[
            "tsdb",
            "create-blocks-from",
            "--quiet",
            "--max-block-duration=24h",
            "openmetrics",
            &text,
            &data,
        ],
    )
    .expect("blocks");
    Prometheus::start(&PrometheusOptions {
        storage: Some(storage),
        interval: Some(60),
        ..PrometheusOptions::default()
    })
    .expect("a Prometheus")
}

/// Renders all dashboards, or those in `only`, for an instance.
fn draw(prometheus: &Prometheus, instance: &str, end: i64, scrape: i64, only: &[&str]) -> Drawn {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = folder.path().join("report.json");
    let mut command = Command::new(grafana().join("../scripts/render-dashboards"));
    command
        .args(["--prometheus", &format!("http://{}", prometheus.address())])
        .args([
            "--last",
            "30m",
            "--allow-empty",
            "--until",
            &end.to_string(),
        ])
        .args([
            "--scrape",
            &scrape.to_string(),
            "--set",
            &format!("instance={instance}"),
        ])
        .args(["--set", "earlier=20m"])
        .arg("--out")
        .arg(folder.path())
        .arg("--report")
        .arg(&report);
    for name in only {
        command.args(["--only", name]);
    }
    let output = command.output().expect("the renderer starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{instance}, a scrape every {scrape} s:\n{errors}"
    );
    counts(&fs::read_to_string(&report).expect("a report"))
}

fn counts(report: &str) -> Drawn {
    let report: Value = serde_json::from_str(report).expect("JSON");
    let mut drawn = Drawn::new();
    for (name, panels) in report.as_object().expect("dashboards") {
        for panel in panels.as_array().expect("panels") {
            for (letter, count) in panel["series"].as_object().expect("queries") {
                let who = format!(
                    "{name}, {}, query {letter}",
                    panel["panel"].as_str().expect("a title")
                );
                drawn.insert(who, count.as_u64().expect("a count"));
            }
        }
    }
    drawn
}

/// Checks that each query has as many series as the same query for the plain instance.
fn assert_same(drawn: &Drawn, plain: &Drawn, what: &str) {
    assert!(!drawn.is_empty(), "{what}: nothing was drawn");
    let other: Vec<String> = drawn
        .iter()
        .filter(|(who, count)| plain.get(*who) != Some(count))
        .map(|(who, count)| format!("{who}: {count} series, expected {:?}", plain.get(who)))
        .collect();
    assert!(other.is_empty(), "{what}:\n{}", other.join("\n"));
}

#[test]
fn dashboards_draw_one_line_per_instance_with_any_name_or_labels() {
    let is_missing = |program: &&str| in_search_path(program).is_none();
    let renderer = grafana().join("render/node_modules/.package-lock.json");
    if !Prometheus::is_installed()
        || !renderer.is_file()
        || ["node", "chromium"].iter().any(is_missing)
    {
        eprintln!("{SKIP_MESSAGE}, or no node, chromium or npm ci --prefix grafana/render");
        return;
    }
    let end = end();
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let still = stored(&fleet(end, 15, false), folders[0].path());
    let plain = draw(&still, "plain", end, 15, &[]);
    let empty = plain.values().filter(|count| **count == 0).count();
    assert!(
        empty < plain.len() / 10,
        "{empty} of {} queries have no series",
        plain.len()
    );
    let changed = stored(&fleet(end, 15, true), folders[1].path());
    assert_same(
        &draw(&changed, CHANGED, end, 15, &[]),
        &plain,
        "a label has changed",
    );
    let few = ["overview", "memory", "host", "cache"];
    assert_same(
        &draw(&changed, DOUBLED, end, 15, &few),
        &plain,
        "a target is doubled",
    );
    assert_same(
        &draw(&changed, DOTTED, end, 15, &few),
        &plain,
        "a name has a dot",
    );
    let slow = stored(&fleet(end, 60, false), folders[2].path());
    assert_same(
        &draw(&slow, "plain", end, 60, &[]),
        &plain,
        "a scrape takes place every 60 s",
    );
}
