//! The real Prometheus scrapes a page of the test.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the page is served by a thread of the test"
)]

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use faultline_testkit::{
    Result,
    eventually::eventually_ok,
    expose,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE, promtool_check_metrics},
};

const PAGE: &str =
    "# HELP things_total All things.\n# TYPE things_total counter\nthings_total{kind=\"a b\"} 41\n";

/// Serves the page until the test's process ends.
fn serve_page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut request = BufReader::new(connection.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}",
                PAGE.len()
            );
            connection
                .write_all(format!("{head}\r\nConnection: close\r\n\r\n{PAGE}").as_bytes())
                .unwrap();
        }
    });
    address
}

#[test]
fn a_real_prometheus_can_query_served_samples() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let target = serve_page();
    assert_eq!(
        expose::scrape(&target.to_string())?.get("things_total", &[("kind", "a b")]),
        Some(41.0)
    );

    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![target],
        ..Default::default()
    })?;
    prometheus.wait_until_up(Duration::from_secs(60))?;
    let series = eventually_ok(
        Duration::from_secs(60),
        "the series is there",
        || match prometheus.query("things_total{kind=\"a b\"} + 1") {
            Ok(series) if series.len() == 1 => Ok(series),
            other => Err(other.map_err(|error| error.to_string())),
        },
    );
    assert_eq!(series[0].0.get("instance"), Some(&target.to_string()));
    assert_eq!(series[0].1, 42.0);
    assert_eq!(prometheus.query("scalar(vector(2))")?[0].1, 2.0);
    assert!(prometheus.query("nothing_here")?.is_empty());
    assert!(
        prometheus
            .query("(")
            .is_err_and(|error| error.to_string().contains("parse error"))
    );
    Ok(())
}

#[test]
fn promtool_accepts_a_valid_page_and_names_errors_of_an_invalid_one() {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return;
    }
    assert_eq!(promtool_check_metrics(PAGE), Ok(()));
    let complaint = promtool_check_metrics("# TYPE things counter\nthings 1\n");
    assert!(complaint.is_err_and(|complaint| complaint.contains("_total")));
}
