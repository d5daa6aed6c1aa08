//! The probe with a server that shows each kind of failure.

use super::*;
use crate::rpc::Endpoint;
use faultline_metrics::Value as Reported;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn config(port: u16) -> config::Config {
    let (interval, timeout) = (Duration::from_millis(20), Duration::from_millis(300));
    config::Config {
        rpc: config::Rpc {
            interval,
            timeout: Duration::from_secs(20),
            url: Some(format!("http://127.0.0.1:{port}")),
            ..config::Rpc::default()
        },
        probe: config::Probe {
            enabled: true,
            method: "getSlot",
            interval,
            timeout,
        },
        ..config::Config::default()
    }
}

fn start(port: u16) -> (Handle, WorkerGroup) {
    let (config, clock) = (config(port), Clock::start());
    let lookup = || -> crate::admin::TargetLookup { Box::new(|| Some(Arc::new(target(ME, None)))) };
    let poller = Poller::new(&config.rpc, clock, lookup(), Latest::default());
    let handle = poller.handle.clone();
    let probe = Probe::new(
        &config.probe,
        clock,
        Endpoint::new(&config.rpc, lookup(), Latest::default(), handle.clone()),
    );
    let mut workers = WorkerGroup::new("test", &Runtime::current());
    workers.task("rpc", |stop| poller.run(stop));
    workers.task("probe", |stop| probe.run(stop));
    (handle, workers)
}

/// Number and total seconds of good responses, and failures by kind.
fn counted(handle: &Handle) -> (u64, f64, Vec<(String, f64)>) {
    let (mut readings, mut good, mut sum) = (Vec::new(), 0, 0.0);
    handle.add_readings(None, &mut readings);
    let mut failures = Vec::new();
    for reading in &readings {
        match (&reading.value, reading.metric.name) {
            (Reported::Histogram(time), "agave_rpc_probe_seconds") => {
                (good, sum) = (time.count(), time.sum())
            }
            (value, "agave_rpc_probe_failures_total") => {
                let kind = reading.label_values.last().unwrap().as_str().to_owned();
                failures.push((kind, value.number().unwrap()));
            }
            _ => {}
        }
    }
    (
        good,
        sum,
        failures
            .into_iter()
            .filter(|(_, count)| *count > 0.0)
            .collect(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn probe_responses_are_timed_and_failures_counted_by_kind() {
    let probes = AtomicUsize::new(0);
    let server = MockNode::start(move |_, body| {
        if body.is_array() {
            return normal(body);
        }
        assert_eq!(body["method"], "getSlot");
        match probes.fetch_add(1, Ordering::SeqCst) {
            1 => Reply::status(500, &[], "oops"),
            2 => Reply::Never,
            3 => Reply::json(
                &json!({"jsonrpc": "2.0", "error": {"code": -32005, "message": "behind"}, "id": body["id"]}),
            ),
            4 => Reply::status(200, &[], "<html>"),
            _ => Reply::json(&json!({"jsonrpc": "2.0", "result": 7, "id": body["id"]})),
        }
    }).unwrap();
    let (handle, workers) = start(server.port());
    until("answers after all failures", || {
        (counted(&handle).0 >= 4).then_some(())
    })
    .await;
    let (good, sum, failures) = counted(&handle);
    let kinds: Vec<(&str, f64)> = failures
        .iter()
        .map(|(kind, count)| (kind.as_str(), *count))
        .collect();
    assert_eq!(
        kinds,
        [
            ("timeout", 1.0),
            ("http", 1.0),
            ("error", 1.0),
            ("malformed", 1.0)
        ]
    );
    assert!(sum > 0.0 && sum < 30.0 * good as f64, "{good} in {sum} s");
    assert!(server.max_waiting() <= 1);
    assert!(workers.end(Duration::from_secs(20)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_starting_validator_is_not_probed_and_a_failing_one_backs_off() {
    let starting = Arc::new(AtomicBool::new(true));
    let is_starting = Arc::clone(&starting);
    let server = MockNode::start(move |_, body| match body.is_array() {
        true if is_starting.load(Ordering::SeqCst) => Reply::status(503, &[], ""),
        true => normal(body),
        false => Reply::status(429, &[], ""),
    })
    .unwrap();
    let (handle, workers) = start(server.port());
    let polls = |server: &MockNode| {
        server
            .bodies()
            .iter()
            .filter(|body| body.is_array())
            .count()
    };
    let probes = |server: &MockNode| server.bodies().len() - polls(server);
    until("some polls", || (polls(&server) >= 5).then_some(())).await;
    assert_eq!(probes(&server), 0);
    starting.store(false, Ordering::SeqCst);
    // The sixth failure comes after 0 + 1 + 3 + 7 + 15 + 15 skipped polls.
    until("six probes", || (probes(&server) >= 6).then_some(())).await;
    assert!(polls(&server) >= 30, "{} polls", polls(&server));
    let failed = counted(&handle).2;
    assert!(failed.len() == 1 && failed[0].0 == "http", "{failed:?}");
    assert!(workers.end(Duration::from_secs(20)).await.is_empty());
}
