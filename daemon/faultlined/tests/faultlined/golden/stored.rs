//! The series that a real Prometheus stores of one tick are the same for each exposition format.

use super::{cases, page};
use faultline_http::sinks::prometheus::ExpositionFormat;
use faultline_metrics::{Kind, Unit, metrics};
use faultline_testkit::{
    eventually::eventually_ok,
    http,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE, Series},
};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);

const DIALECTS: [(&str, ExpositionFormat); 3] = [
    ("classic", ExpositionFormat::Classic),
    ("openmetrics", ExpositionFormat::OpenMetrics),
    ("protobuf", ExpositionFormat::Protobuf),
];

/// Serves the exposition at every path until the test's process ends.
#[expect(
    clippy::disallowed_methods,
    reason = "the page is served by a thread of the test"
)]
fn serve(page: Vec<u8>, kind: &'static str) -> SocketAddr {
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
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}",
                page.len()
            );
            connection
                .write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
                .unwrap();
            connection.write_all(&page).unwrap();
        }
    });
    address
}

/// The series without the labels that Prometheus adds, sorted.
fn own(series: Vec<Series>) -> Vec<Series> {
    let mut series: Vec<Series> = series
        .into_iter()
        .map(|(mut labels, value)| {
            labels.retain(|name, _| !["dialect", "instance", "job"].contains(&name.as_str()));
            (labels, value)
        })
        .collect();
    series.sort_by(|one, other| one.0.cmp(&other.0));
    series
}

/// Type, help and unit of each family of a target, by the name of the family's samples.
fn described(prometheus: &Prometheus, dialect: &str) -> BTreeMap<String, [String; 3]> {
    let path = format!("/api/v1/targets/metadata?match_target=%7Bdialect%3D%22{dialect}%22%7D");
    let answer = http::get(prometheus.address(), &path).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let families = answer["data"].as_array().unwrap().iter().map(|family| {
        let [name, kind, help, unit] =
            ["metric", "type", "help", "unit"].map(|key| family[key].as_str().unwrap());
        let suffix = match (kind, dialect) {
            ("counter", "openmetrics") => "_total",
            ("info", _) => "_info",
            _ => "",
        };
        (
            format!("{name}{suffix}"),
            [kind, help, unit].map(str::to_owned),
        )
    });
    families.collect()
}

#[test]
fn a_real_prometheus_stores_the_same_samples_from_every_format() {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return;
    }
    let case = cases()
        .into_iter()
        .find(|case| case.name() == "everything")
        .unwrap();
    let serve = |(_, dialect): (&str, ExpositionFormat)| {
        serve(
            page(&case.tick, dialect, &case.constant),
            dialect.content_type(),
        )
    };
    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets: DIALECTS.map(serve).to_vec(),
        labels: DIALECTS
            .map(|(name, _)| ("dialect".to_owned(), name.to_owned()))
            .to_vec(),
        native_histograms: true,
        ..PrometheusOptions::default()
    })
    .unwrap();
    prometheus.wait_until_up(PATIENCE).unwrap();
    let described = DIALECTS.map(|(name, _)| described(&prometheus, name));
    families_are_equal(&described);

    let all = |dialect: &str, but: &str| {
        query(
            &prometheus,
            &format!(
                "{{dialect=\"{dialect}\",__name__!~\"up|scrape_.*|({but})(_bucket|_count|_sum)?\"}}"
            ),
        )
    };
    assert_eq!(all("openmetrics", ""), all("classic", ""));
    let histograms = metrics::exported()
        .filter(|metric| matches!(metric.kind, Kind::Histogram(_)))
        .map(|metric| metric.name);
    let histograms: Vec<&str> = histograms
        .filter(|name| described[0].contains_key(*name))
        .collect();
    let but = histograms.join("|");
    assert_eq!(all("protobuf", &but), all("classic", &but));
    assert!(!histograms.is_empty());
    histograms_are_equal(&prometheus, &histograms);
}

fn families_are_equal([classic, openmetrics, protobuf]: &[BTreeMap<String, [String; 3]>; 3]) {
    for (name, [kind, help, _]) in classic {
        let metric = metrics::exported()
            .find(|metric| metric.name == name)
            .unwrap();
        let unit = if matches!(metric.unit, Unit::Bytes | Unit::Seconds) {
            metric.unit.name()
        } else {
            ""
        };
        assert_eq!(
            openmetrics[name],
            [metric.kind.type_name(), help, unit],
            "{name}"
        );
        assert_eq!(protobuf[name][..2], [kind.clone(), help.clone()], "{name}");
    }
    assert!(
        classic.len() > 100
            && classic.len() == openmetrics.len()
            && classic.len() == protobuf.len()
    );
}

/// The series of an expression. Waits until there is one.
fn query(prometheus: &Prometheus, expression: &str) -> Vec<Series> {
    eventually_ok(PATIENCE, expression, || {
        match prometheus.query(expression) {
            Ok(series) if !series.is_empty() => Ok(own(series)),
            other => Err(format!("{other:?}")),
        }
    })
}

/// Compares the native histograms of protobuf with the classic histograms.
fn histograms_are_equal(prometheus: &Prometheus, histograms: &[&str]) {
    let ask = |expression: String| query(prometheus, &expression);
    for (name, part) in histograms
        .iter()
        .flat_map(|name| [(name, "count"), (name, "sum")])
    {
        let native = ask(format!("histogram_{part}({name}{{dialect=\"protobuf\"}})"));
        let mut classic = ask(format!("{name}_{part}{{dialect=\"classic\"}}"));
        classic
            .iter_mut()
            .for_each(|(labels, _)| drop(labels.remove("__name__")));
        assert_eq!(native, classic, "{name}_{part}");
    }
}
