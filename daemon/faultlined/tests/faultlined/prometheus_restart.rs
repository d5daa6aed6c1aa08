//! A real Prometheus is killed while one alert of the shipped rules is pending and another one
//! fires. It is started again on the same storage.
//!
//! All times of the rules are divided by [`FASTER`]. Thresholds do not change.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails; its server ends with it"
)]

use faster::faster;
use faultline_testkit::{
    Result,
    eventually::eventually_ok,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

#[path = "../real_alerts/faster.rs"]
mod faster;

const FASTER: u32 = 20;
/// The `for` of AgaveStuckInStartPhase, which Prometheus restores.
const LONG_FOR: f64 = 30.0 * 60.0 / FASTER as f64;
/// For a `for` below this, Prometheus begins the wait anew. Each restored alert waits for at least
/// this long. The default is 10 minutes.
const GRACE_PERIOD: f64 = 10.0 * 60.0 / FASTER as f64;
/// Time until Prometheus is killed: half of the `for`.
const PENDING: Duration = Duration::from_secs(45);
const DOWN: Duration = Duration::from_secs(3);
/// Maximum time between two evaluations, plus the difference of the clocks.
const TOLERANCE: f64 = 3.0;
const TIMEOUT: Duration = Duration::from_secs(240);

const STUCK: &str = "alertname='AgaveStuckInStartPhase'";
const DEAD: &str = "alertname='AgaveDown'";

/// Serves one page of metrics while the test runs.
fn serve(page: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}

/// The shipped rules with shorter times.
pub fn faster_rules(folder: &Path, by: u32) -> Vec<PathBuf> {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/prometheus/rules");
    let files = ["faultline.alerts.yml", "faultline.recording.yml"].map(|name| {
        let text = fs::read_to_string(rules.join(name)).expect("a file of this tree");
        let file = folder.join(name);
        fs::write(&file, faster(&text, by)).expect("a file");
        file
    });
    files.into()
}

/// When an alert became pending or began to fire, in seconds since 1970.
fn active_since(prometheus: &Prometheus, alert: &str) -> Result<Option<f64>> {
    let series = prometheus.query(&format!("ALERTS_FOR_STATE{{{alert}}}"))?;
    Ok(series.first().map(|(_, since)| *since))
}

/// Waits until an alert fires. Returns when it first fired, in seconds since 1970.
fn wait_for_firing(prometheus: &Prometheus, alert: &str) -> Result<f64> {
    let firing = format!("ALERTS{{{alert},alertstate='firing'}}");
    let first = format!("min_over_time(timestamp({firing})[2m:1s])");
    Ok(eventually_ok(TIMEOUT, alert, || {
        match prometheus.query(&first) {
            Ok(series) if !series.is_empty() => Ok(series[0].1),
            other => Err(other),
        }
    }))
}

#[test]
fn a_prometheus_restart_keeps_pending_alerts_without_false_firing() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [healthy, searching, dead] = [
        "agave_up 1\nagave_phase{phase=\"at_tip\"} 1\nagave_stalled 0\nagave_slots_behind 1\n",
        "agave_up 1\nagave_phase{phase=\"searching\"} 1\n",
        "agave_up 0\n",
    ]
    .map(serve);
    let options = PrometheusOptions {
        targets: vec![healthy, searching, dead],
        rule_files: faster_rules(folder.path(), FASTER),
        storage: Some(folder.path().join("data")),
        arguments: vec![format!("--rules.alert.for-grace-period={GRACE_PERIOD}s")],
        ..PrometheusOptions::default()
    };
    let before = Prometheus::start(&options)?;
    let since = eventually_ok(TIMEOUT, "an alert is pending", || {
        match active_since(&before, STUCK) {
            Ok(Some(since)) => Ok(since),
            other => Err(other),
        }
    });
    wait_for_firing(&before, DEAD)?;
    std::thread::sleep(PENDING);
    assert!(before.firing()?.contains("AgaveDown"));
    assert!(!before.firing()?.contains("AgaveStuckInStartPhase"));
    // SIGKILL, so that it cannot write anything.
    drop(before);
    std::thread::sleep(DOWN);

    let after = Prometheus::start(&options)?;
    let restarted = after.query("time()")?[0].1;
    wait_for_firing(&after, DEAD)?;
    let fired = wait_for_firing(&after, STUCK)?;
    let (pending, took) = (restarted - since, fired - restarted);
    println!("restarted after {pending:.1} s, fired {took:.1} s later");
    assert!(pending + took >= LONG_FOR - TOLERANCE, "too early");
    // About half of the `for` remains. A slow machine takes longer, but not the whole `for`.
    assert!(took < LONG_FOR - TOLERANCE, "its `for` began anew");
    let scraped = format!("min_over_time(up{{instance='{healthy}'}}[1m])");
    assert_eq!(after.query(&scraped)?[0].1, 1.0);
    let of_healthy = format!("count_over_time(ALERTS{{instance='{healthy}'}}[5m])");
    assert_eq!(after.query(&of_healthy)?, []);
    Ok(())
}
