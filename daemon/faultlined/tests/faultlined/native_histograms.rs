//! Native histograms: a real Prometheus stores those of the protobuf exposition. It gets text if
//! the option is off.

#![expect(clippy::panic, reason = "the helpers of tests fail as tests do")]

use faultline_testkit::{
    Result,
    daemon::Daemon,
    eventually::eventually_ok,
    expose::Page,
    http::Request,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// The `Accept` header of Prometheus 2.42 with native histograms enabled.
const ACCEPT: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
    application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// The daemon on its demo, with or without the option, and a Prometheus that prefers protobuf.
fn start(native: bool, folder: &tempfile::TempDir) -> Result<(Daemon, Prometheus)> {
    let config = folder.path().join("faultline.toml");
    let text = format!("[metrics]\nnative_histograms = {native}\n");
    std::fs::write(&config, text).unwrap_or_else(|error| panic!("{}: {error}", config.display()));
    let config = config.display().to_string();
    let daemon = Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--demo", "--config", &config],
        folder.path(),
    )?;
    let target = daemon
        .metrics()
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", daemon.metrics()));
    eventually_ok(PATIENCE, "slots are replayed", || match daemon.scrape() {
        Ok(page) if page.sum("agave_replay_slot_seconds_count") > Some(0.0) => Ok(()),
        Ok(page) => Err(format!("{} series", page.samples.len())),
        Err(error) => Err(error.to_string()),
    });
    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![target],
        native_histograms: true,
        ..PrometheusOptions::default()
    })?;
    prometheus.wait_until_up(PATIENCE)?;
    Ok((daemon, prometheus))
}

/// The first value of an expression for which `wanted` is true.
fn value(prometheus: &Prometheus, expression: &str, wanted: impl Fn(f64) -> bool) -> f64 {
    eventually_ok(PATIENCE, expression, || {
        match prometheus.query(expression) {
            Ok(series) => match series.first() {
                Some((_, value)) if wanted(*value) => Ok(*value),
                other => Err(format!("{other:?}")),
            },
            Err(error) => Err(error.to_string()),
        }
    })
}

fn answer(daemon: &Daemon) -> Result<faultline_testkit::http::Response> {
    Request::new("GET", "/metrics")
        .header("Accept", ACCEPT)
        .send(daemon.metrics())
}

#[test]
fn prometheus_keeps_native_histograms_and_every_other_series_if_configured() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a temporary folder: {error}"));
    let (daemon, prometheus) = start(true, &folder)?;
    let plain = answer(&daemon)?;
    assert!(
        plain
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/vnd.google.protobuf;"))
    );

    native_histograms_have_quantiles(&prometheus)?;
    constant_series_are_equal(&daemon, &prometheus);
    ticks_are_counted(&daemon, &prometheus)?;
    every_family_is_stored(&daemon, &prometheus);
    Ok(())
}

fn native_histograms_have_quantiles(prometheus: &Prometheus) -> Result<()> {
    let total = "agave_replay_slot_seconds{part=\"total\"}";
    let per_second = value(
        prometheus,
        &format!("histogram_count(rate({total}[30s]))"),
        |rate| rate > 0.0,
    );
    let mean = value(
        prometheus,
        &format!("histogram_sum(rate({total}[30s])) / histogram_count(rate({total}[30s]))"),
        |mean| mean > 0.0,
    );
    let high = value(
        prometheus,
        &format!("histogram_quantile(0.9, rate({total}[30s]))"),
        |high| high > 0.0,
    );
    assert!(
        per_second < 100.0 && mean < 10.0 && high < 64.0,
        "{per_second}/s of {mean} s, 90 % below {high} s"
    );
    assert!(high > mean / 2.0, "90 % below {high} s, mean {mean} s");
    assert_eq!(prometheus.query("agave_replay_slot_seconds_bucket")?, []);
    Ok(())
}

/// Compares values that change only when the demo enters another phase. If it does, both sides are
/// read again.
fn constant_series_are_equal(daemon: &Daemon, prometheus: &Prometheus) {
    for series in [
        "agave_process_start_time_seconds",
        "agave_process_max_fds",
        "faultline_build_info",
        "agave_up",
    ] {
        eventually_ok(PATIENCE, series, || is_stored(daemon, prometheus, series));
    }
}

fn is_stored(
    daemon: &Daemon,
    prometheus: &Prometheus,
    series: &str,
) -> std::result::Result<(), String> {
    let classic = daemon.scrape().map_err(|error| error.to_string())?;
    let stored = prometheus
        .query(series)
        .map_err(|error| error.to_string())?;
    let sample = classic.samples.iter().find(|sample| sample.name == series);
    let (Some(sample), Some((labels, value))) = (sample, stored.first()) else {
        return Err(format!("page: {sample:?}, stored: {stored:?}"));
    };
    let mut expected = sample.labels.iter();
    if sample.value == *value && expected.all(|(name, value)| labels.get(name) == Some(value)) {
        return Ok(());
    }
    Err(format!("page: {sample:?}, stored: {stored:?}"))
}

/// A counter never falls, so the stored value lies between two scrapes of the classic exposition.
fn ticks_are_counted(daemon: &Daemon, prometheus: &Prometheus) -> Result<()> {
    let ticks = |page: Page| page.get("faultline_ticks_total", &[]);
    let before = ticks(daemon.scrape()?).unwrap_or(f64::MAX);
    let stored = value(prometheus, "faultline_ticks_total", |ticks| ticks >= before);
    assert!(Some(stored) <= ticks(daemon.scrape()?), "{stored} ticks");
    Ok(())
}

/// New families appear while the demo runs. The next scrape stores them.
fn every_family_is_stored(daemon: &Daemon, prometheus: &Prometheus) {
    let names = "count by (__name__) ({__name__=~\"agave_.*|faultline_.*|process_.*\"})";
    eventually_ok(PATIENCE, "every family is stored", || {
        let families = daemon.scrape().map_err(|error| error.to_string())?;
        let families = families.families.len();
        let stored = prometheus.query(names).map_err(|error| error.to_string())?;
        if stored.len() + 5 >= families {
            return Ok(());
        }
        let stored = stored.len();
        Err(format!(
            "{stored} names are stored, the page has {families}"
        ))
    });
}

#[test]
fn the_same_prometheus_gets_text_and_fixed_buckets_unless_configured() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a temporary folder: {error}"));
    let (daemon, prometheus) = start(false, &folder)?;
    let kind = answer(&daemon)?;
    assert!(
        kind.header("content-type")
            .is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    let expression =
        "histogram_quantile(0.9, rate(agave_replay_slot_seconds_bucket{part=\"total\"}[30s]))";
    assert!(value(&prometheus, expression, |high| high > 0.0) <= 10.0);
    assert_eq!(
        prometheus.query("histogram_count(agave_replay_slot_seconds)")?,
        []
    );
    Ok(())
}
