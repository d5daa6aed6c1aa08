//! No valid configuration and no datapoints lead to an exposition that Prometheus rejects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what cannot go on fails the test"
)]

use crate::golden::page;
use faultline_core::{
    auth_failures::AuthFailures,
    clock::Clock,
    config::{self, Config, Metrics, TargetSelector},
    publish::{Latest, Sink},
    supervisor::WorkerGroup,
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::{
    sinks::{
        history::History,
        prometheus::{DroppedSeries, Exposition, ExpositionFormat},
    },
    web::{PageInfo, Server, WebState},
};
use faultline_metrics::{Batch, LabelText, Source, Stamp, Tick};
use faultline_testkit::{
    eventually::eventually_ok,
    expose,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE, promtool_check_metrics},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::{net::SocketAddr, sync::Arc, time::Duration};

const ID: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const PATIENCE: Duration = Duration::from_secs(120);

/// Two configurations, of which a reload sets the second, and lines for each.
#[derive(Debug, Clone)]
struct Case {
    configs: [Config; 2],
    lines: [Vec<String>; 2],
}

impl Case {
    /// The tick after the last line, and the constant labels at the daemon's start.
    fn tick(&self) -> (Arc<Tick>, Vec<(&'static str, LabelText)>) {
        let now = Stamp {
            uptime: Duration::from_secs(1),
            unix: Duration::from_secs(1_795_225_000),
        };
        let [first, _] = &self.configs;
        let intake = Intake::new(&first.datapoints);
        intake.set_configured_identity(ID, now);
        for (config, lines) in self.configs.iter().zip(&self.lines) {
            intake.reconfigure(&config.datapoints);
            let mut push = intake.begin_trusted(now);
            lines.iter().for_each(|line| push.add_line(line.as_bytes()));
            intake.commit(push, now);
        }
        let mut batch = Batch::empty(Source::Datapoints, now);
        intake.add_readings(now, &mut batch.readings);
        let tick = Tick {
            number: 1,
            at: now,
            batches: vec![Arc::new(batch)],
        };
        let labels = first.labels.pairs();
        let constant = labels
            .filter(|_| first.metrics.constant_labels_everywhere)
            .map(|(name, value)| (name, LabelText::from(value.to_owned())));
        (Arc::new(tick), constant.collect())
    }

    fn text(&self, dialect: ExpositionFormat) -> String {
        let (tick, constant) = self.tick();
        String::from_utf8(page(&tick, dialect, &constant)).unwrap()
    }
}

fn tag() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[tu]",
        3 => "(cluster|run)",
        2 => "(job|instance|é|1| |_)",
        1 => "(cf-name|cf_name|name|field|__name__|-_x|le|quantile)",
    ]
}

/// A valid configuration.
fn config() -> impl Strategy<Value = Config> {
    let entry = (
        "[ab]",
        "[fg]",
        "(level|delta)",
        prop::collection::vec(tag(), 0..3),
    );
    let entries = prop::collection::vec(entry, 1..5);
    let labels = prop::option::weighted(0.9, "[a-z\"\\\\ \u{e9}]{1,4}");
    (entries, labels, any::<bool>()).prop_filter_map("does not load", |(entries, label, everywhere)| {
        let mut text = format!("[metrics]\nconstant_labels_everywhere = {everywhere}\n");
        if let Some(label) = label {
            text += &format!("[labels]\ncluster = {label:?}\nrun = \"1\"\n");
        }
        for (name, field, kind, tags) in entries {
            text += &format!(
                "[[datapoints.allow]]\nname = {name:?}\nfield = {field:?}\nkind = {kind:?}\ntags = {tags:?}\n"
            );
        }
        config::parse(&text).ok()
    })
}

fn line() -> impl Strategy<Value = String> {
    let value = "(x|y|\\\\|\"|\t|\r|\u{0}|\u{1b}|\u{2028}|\u{e9}|\\{|\\}|\\\\\\\\n){0,3}";
    let tags = prop::collection::vec((tag(), value), 0..4);
    let number = "(-?[0-9]{1,18}i|[0-9]{1,3}\\.5|-0|1e308|1e-320|NaN|inf|true|\"x\")";
    let fields = prop::collection::vec(("[fg]", number), 1..4);
    ("(a|a|a|b)", tags, fields, any::<u32>()).prop_map(|(name, tags, fields, time)| {
        let tags: String = tags
            .iter()
            .map(|(key, value)| format!(",{key}={value}"))
            .collect();
        let fields: Vec<String> = fields
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{name},host_id={ID}{tags} {} {time}", fields.join(","))
    })
}

fn case() -> impl Strategy<Value = Case> {
    let lines = || prop::collection::vec(line(), 0..30);
    (config(), config(), lines(), lines()).prop_map(|(first, second, before, after)| Case {
        configs: [first, second],
        lines: [before, after],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_valid_configuration_yields_a_page_an_independent_parser_accepts(case in case()) {
        for (dialect, parsed) in [
            (ExpositionFormat::Classic, expose::parse_text(&case.text(ExpositionFormat::Classic))),
            (ExpositionFormat::OpenMetrics, expose::parse_openmetrics(&case.text(ExpositionFormat::OpenMetrics))),
        ] {
            prop_assert!(parsed.is_ok(), "{dialect:?}: {:?}\n{}", parsed.err(), case.text(dialect));
        }
    }
}

/// Serves the exposition of a case as the daemon does.
fn serve(case: &Case, native_histograms: bool, workers: &mut WorkerGroup) -> SocketAddr {
    let (tick, constant) = case.tick();
    let mut newest_tick = Latest::default();
    newest_tick.receive(&tick);
    let state = WebState {
        clock: Clock::start(),
        tick_interval: Duration::from_secs(3600),
        newest_tick,
        history: History::default(),
        status_config: Latest::default(),
        constant_labels: constant,
        page_info: PageInfo::new("0.0.0", &TargetSelector::Scan),
        recorder: None,
        flight_recorder: None,
        host_name: None,
        auth_failures: AuthFailures::new("metrics"),
        dropped_series: DroppedSeries::default(),
    };
    let metrics = Metrics {
        listen: ([127, 0, 0, 1], 0).into(),
        native_histograms,
        ..Metrics::default()
    };
    let server = Server::build(&metrics, Vec::new(), state).unwrap();
    let address = server.local_addr().unwrap();
    workers.task("web", |stop| server.run(stop));
    address
}

#[test]
fn promtool_and_prometheus_accept_the_page_of_every_valid_configuration() {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return;
    }
    let mut runner = TestRunner::deterministic();
    let cases: Vec<Case> = (0..100)
        .map(|_| case().new_tree(&mut runner).unwrap().current())
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut workers = WorkerGroup::new("web", runtime.handle());
    let colliding = cases.iter().filter(|case| {
        let (tick, constant) = case.tick();
        let exposition = Exposition::new(&tick, &Arc::new(constant), None);
        exposition.dropped_series().next().is_some()
    });
    let colliding = colliding.count();
    assert!(colliding > 0, "no case has series that collide");
    for case in &cases {
        let text = case.text(ExpositionFormat::Classic);
        if let Err(complaint) = promtool_check_metrics(&text) {
            panic!("{complaint}\n{text}");
        }
    }
    for protobuf in [false, true] {
        let targets = cases.iter().map(|case| serve(case, protobuf, &mut workers));
        let options = PrometheusOptions {
            targets: targets.collect(),
            native_histograms: protobuf,
            ..PrometheusOptions::default()
        };
        let mut prometheus = Prometheus::start(&options).unwrap();
        prometheus.wait_until_up(PATIENCE).unwrap();
        let targets = cases.len();
        eventually_ok(PATIENCE, "every target is up for a second scrape", || {
            let up = prometheus.query("sum(up) and sum(scrape_samples_scraped == scrape_samples_post_metric_relabeling) > 0");
            match up.unwrap().first() {
                Some((_, up)) if *up == targets as f64 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        let own = faultline_testkit::http::get(prometheus.address(), "/metrics").unwrap();
        let own = expose::parse_text(&own.text()).unwrap();
        for reason in ["duplicate_timestamp", "out_of_order", "out_of_bounds"] {
            let name = format!("prometheus_target_scrapes_sample_{reason}_total");
            assert_eq!(own.sum(&name), Some(0.0), "{name}");
        }
    }
}
