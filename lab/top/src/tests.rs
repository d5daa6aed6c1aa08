//! Captured pages of a daemon, as the status that the daemon would have served with them.

use super::*;
use faultline_metrics::{Batch, LabelText, Metric, Reading, Source, Stamp, Tick, Value, metrics};
use faultline_status::{Status, TimeHistogram};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const BEFORE: &str = include_str!("../../faultline/tests/fixtures/top/ten_seconds_before.prom");
const PAGE: &str = include_str!("../../faultline/tests/fixtures/top/at_tip.prom");

struct Series<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

/// Of a page without escaped label values.
fn series(page: &str) -> Vec<Series<'_>> {
    let lines = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let series = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series
            .strip_suffix('}')
            .map_or((series, ""), |series| series.split_once('{').unwrap());
        let labels = labels
            .split_terminator("\",")
            .map(|label| label.split_once("=\"").unwrap())
            .map(|(name, value)| (name.trim_start_matches(','), value.trim_end_matches('"')));
        Series {
            name,
            labels: labels.collect(),
            value: value.parse().unwrap(),
        }
    });
    series.collect()
}

fn reading(series: &Series<'_>) -> Option<Reading> {
    let metric = metrics::exported().find(|metric| metric.name == series.name)?;
    let label_values = metric.label_names.iter().map(|name| {
        let value = series.labels.get(name).copied().unwrap_or_default();
        LabelText::from(value.to_owned())
    });
    Some(Reading {
        metric,
        label_values: label_values.collect(),
        tags: Box::default(),
        value: Value::Real(series.value),
    })
}

/// A histogram, which a reading cannot be made of.
fn times(all: &[Series<'_>], metric: &Metric, label: &str) -> Option<TimeHistogram> {
    let of = |suffix: &str| {
        let name = format!("{}{suffix}", metric.name);
        let all = all.iter().filter(move |series| series.name == name);
        all.filter(|series| series.labels.get(metric.label_names[0]) == Some(&label))
    };
    let buckets = of("_bucket").map(|series| (series.labels["le"].parse().unwrap(), series.value));
    Some(TimeHistogram {
        sum: of("_sum").next()?.value,
        count: of("_count").next()?.value,
        buckets: buckets
            .filter(|(bound, _): &(f64, f64)| bound.is_finite())
            .collect(),
    })
}

#[test]
fn one_screen_shows_that_the_daemon_stopped_answering() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let json = serde_json::to_string(&*status(PAGE)).unwrap();
    let server = std::thread::Builder::new().spawn(move || {
        for body in [json.as_str(), &json, ""] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            if !body.is_empty() {
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n");
                write!(stream, "{head}Connection: close\r\n\r\n{body}").unwrap();
            }
        }
    });
    let interval = Duration::from_millis(100);
    let args = TopArgs {
        address: None,
        interval,
        once: true,
        user: None,
        password_file: None,
        ca: None,
    };
    let address = Address::parse(socket.to_str().unwrap()).unwrap();
    let client = Client::new(&address, &args).unwrap();
    let mut session = Session::new(State::new(interval));
    sample_twice(&client, &mut session, "daemon.sock", interval).unwrap();
    server.unwrap().join().unwrap();
    let scene = Scene {
        session: &session,
        address: "daemon.sock",
        now: live::now(),
        theme: Theme::of_environment(|_| None),
    };
    let screen = view::render_as_text(&scene, 80);
    assert!(screen.contains("NO ANSWER for 1 s, the values are older"));
    assert!(screen.contains("461 of 512 entries"), "{screen}");
}

/// The status of a daemon with this page.
pub fn status(page: &str) -> Box<Status> {
    let all = series(page);
    let ups: BTreeMap<&str, bool> = all
        .iter()
        .filter(|series| series.name == metrics::daemon::SOURCE_UP.name)
        .map(|series| (series.labels["source"], series.value == 1.0))
        .collect();
    let now = all.iter().find(|series| {
        series.name == metrics::daemon::SOURCE_LAST_SUCCESS.name
            && series.labels["source"] == Source::Daemon.name()
    });
    let now = Stamp {
        uptime: Duration::ZERO,
        unix: Duration::from_secs_f64(now.map_or(0.0, |series| series.value)),
    };
    let batches = Source::ALL.map(|source| {
        let is_first = source == Source::Target;
        Arc::new(Batch {
            up: ups.get(source.name()).copied().unwrap_or_default(),
            readings: all
                .iter()
                .filter(|_| is_first)
                .filter_map(reading)
                .collect(),
            ..Batch::empty(source, now)
        })
    });
    let tick = Tick {
        number: 1,
        at: now,
        batches: batches.into(),
    };
    let mut status = Status::of(&tick, now, None, Default::default(), &Default::default());
    status
        .sources
        .retain(|source| ups.contains_key(source.name.as_str()));
    status.slots.cache = times(&all, &metrics::validator::CACHE_TIME, "replay");
    status.slots.replay = times(&all, &metrics::validator::REPLAY_TIME, "total");
    Box::new(status)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../faultline/tests/fixtures/top/{name}"))
}

/// Compares with a fixture of `lab/faultline/tests/fixtures/top`; `FAULTLINE_RENEW=1` writes it.
#[track_caller]
pub fn is_golden(name: &str, text: &str) {
    let path = fixture(name);
    if std::env::var_os("FAULTLINE_RENEW").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{name} is different; FAULTLINE_RENEW=1 takes it over:\n{text}"
    );
}

#[test]
fn the_status_of_a_captured_page_matches_its_fixture() {
    for (name, page) in [("ten_seconds_before", BEFORE), ("at_tip", PAGE)] {
        let status = status(page);
        let json = serde_json::to_string_pretty(&*status).unwrap() + "\n";
        is_golden(&format!("{name}.json"), &json);
        let read: Status = serde_json::from_str(&json).unwrap();
        assert_eq!((&read.target, &read.cache), (&status.target, &status.cache));
        assert!(read.figures.keys().eq(status.figures.keys()));
    }
}

#[test]
fn a_negative_interval_is_reported_as_a_wrong_time() {
    use clap::Args as _;
    let command = TopArgs::augment_args(clap::Command::new("top"));
    let error = command
        .try_get_matches_from(["top", "node1:9912", "-i", "-1s"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("invalid value '-1s'"), "{error}");
}
