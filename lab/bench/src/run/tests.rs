//! The engine against nodes with known answers and times.
#![expect(
    clippy::disallowed_methods,
    reason = "a node that is asked needs a thread"
)]

pub mod server;

mod hostile;
mod probe;
mod tls;

use super::*;
use crate::{
    answer::Expected,
    endpoint::Endpoint,
    plan::{Case, ConnectionConfig},
    protocol::Protocol,
    results::{Results, ms, tests::results},
    stream::LinkShape,
};
use server::{Reply, Server, good, http};
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Makes the reply to a request from its id.
type ReplyById = Box<dyn Fn(u64) -> Reply + Send + Sync>;

pub fn plan(server: &Server, rounds: u32, workers: usize, rate: Option<f64>) -> Rc<Plan> {
    plan_of(
        Endpoint::parse(&format!("http://{}", server.address)).unwrap(),
        rounds,
        workers,
        rate,
    )
}

pub fn plan_of(endpoint: Endpoint, rounds: u32, workers: usize, rate: Option<f64>) -> Rc<Plan> {
    let call = r#""method":"getAccountInfo","params":[]"#.to_owned();
    Rc::new(Plan {
        arms: vec!["a".to_owned()],
        connections: vec![ConnectionConfig {
            endpoint,
            link_shape: LinkShape::default(),
            protocol: Protocol::Http,
        }],
        request_labels: vec!["account of 1".to_owned()],
        cases: vec![Case {
            arm_index: 0,
            request_index: 0,
            connection_index: 0,
            call,
            random_range: None,
            expected: Expected::Account(crate::answer::Encoding::Base64),
        }],
        weights: Vec::new(),
        placeholders: Vec::new(),
        rounds,
        warm_up: 0,
        workers,
        rate,
        seed: 1,
        timeout: Duration::from_secs(5),
        max_answer_bytes: 1 << 20,
        max_failure_percent: None,
    })
}

fn measure(plan: &Rc<Plan>) -> Results {
    let measured = Engine::new(plan, None)
        .unwrap()
        .run(plan, &|_, _| ())
        .unwrap();
    assert_eq!(
        (measured.samples.len(), measured.state.stopped_by),
        (plan.rounds as usize, None)
    );
    let has_success = measured.samples.iter().any(|sample| sample.result.is_ok());
    assert!(has_success || measured.state.tool_cpu_per_request.is_none());
    Results {
        samples: measured.samples,
        ..results(0, &[("a", 1, &|_| 0)])
    }
}

fn within_a_percent(found: f64, is: f64) -> bool {
    (found / is - 1.0).abs() < 0.01
}

#[test]
fn means_and_percentiles_match_the_servers_within_one_percent() {
    let mut seen = Vec::new();
    // A busy host wakes waiting threads too late, so only one run of three must be exact.
    let exact = (0..3).any(|_| {
        let pairs = measured_and_actual();
        let exact = pairs
            .iter()
            .all(|(found, is)| within_a_percent(*found, *is));
        seen.push(pairs);
        exact
    });
    assert!(exact, "{seen:?}");
}

/// Mean and percentiles in milliseconds: measured by the engine, and by the server.
fn measured_and_actual() -> Vec<(f64, f64)> {
    let server = Server::start(|number, _| {
        Reply::After(Duration::from_millis(1000 + (number as u64 * 37) % 500))
    });
    let measured = measure(&plan(&server, 200, 25, None));
    let latency = measured.summary(0).latency.unwrap();
    let took: Vec<Option<f64>> = server
        .took
        .lock()
        .unwrap()
        .iter()
        .map(|took| Some(ms(took.as_nanos() as u64)))
        .collect();
    assert_eq!(took.len(), 200);
    let is = |p| faultline_stats::summary::quantile(&took, p).unwrap();
    // The phases add up to the latency, and nearly all of it is the wait for the first byte.
    let phases = measured.summary(0).phases.unwrap();
    assert!((phases.iter().sum::<f64>() - latency.mean).abs() < 1e-6);
    vec![
        (
            latency.mean,
            faultline_stats::summary::summary(&took).mean.unwrap(),
        ),
        (latency.p50, is(0.5)),
        (latency.p90, is(0.9)),
        (latency.p95, is(0.95)),
        (latency.p99, is(0.99)),
        (phases[3], latency.mean),
    ]
}

/// A server that answers at once, except in the second after the hundredth request. Also returns the number of requests that were
/// delayed.
fn stalling() -> (Server, Arc<AtomicUsize>) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the witness has a clock of its own"
    )]
    let now = Instant::now;
    let (stalled, stalled_requests) = (OnceLock::new(), Arc::new(AtomicUsize::new(0)));
    let counted = stalled_requests.clone();
    let server = Server::start(move |number, _| {
        let until = match number {
            0..100 => None,
            _ => Some(*stalled.get_or_init(|| now() + Duration::from_secs(1))),
        };
        let wait = until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(now())
        });
        counted.fetch_add(usize::from(!wait.is_zero()), Ordering::SeqCst);
        Reply::After(wait)
    });
    (server, stalled_requests)
}

#[test]
fn open_loop_percentiles_include_a_stall_that_a_closed_loop_hides() {
    // A busy host can only make latencies longer, so the test has lower limits only.
    let (server, stalled_requests) = stalling();
    let closed = measure(&plan(&server, 200, 1, None))
        .summary(0)
        .latency
        .unwrap();
    assert!(
        closed.max >= 990.0 && stalled_requests.load(Ordering::SeqCst) == 1,
        "one request waits, the others are not sent: {closed:?}"
    );
    let open = measure(&plan(&stalling().0, 200, 64, Some(50.0)))
        .summary(0)
        .latency
        .unwrap();
    // Fifty of two hundred requests were due during the stall and waited half a second on average.
    assert!(open.p90 > 400.0 && open.p99 > 800.0, "{open:?}");
    // The same with one connection: requests then wait for the connection.
    let queued = measure(&plan(&stalling().0, 200, 1, Some(50.0))).summary(0);
    assert!(
        queued.latency.unwrap().p90 > 400.0 && queued.phases.unwrap()[0] > 50.0,
        "{queued:?}"
    );
}

/// A header with which the node announces that it closes the connection. The client then sends no other request on it.
const LAST: &str = "Connection: close\r\n";

/// Bad replies by the request's id, each with the failure that it causes.
fn hostile_replies() -> Vec<(ReplyById, &'static str)> {
    let deep = "[".repeat(200_000);
    let half = http("200 OK", "", &good(1));
    let half = half[..half.len() - 20].to_owned();
    vec![
        (Box::new(|_| Reply::Endless), "answer too large"),
        (
            Box::new(|id| Reply::Raw(http("200 OK", LAST, &good(id + 1)))),
            "wrong id",
        ),
        (
            Box::new(move |_| Reply::Raw(half.clone())),
            "connection closed",
        ),
        (
            Box::new(move |_| Reply::Raw(http("200 OK", LAST, &deep))),
            "malformed answer",
        ),
        (
            Box::new(|_| Reply::Raw("SSH-2.0-node\r\n\r\n".to_owned())),
            "malformed answer",
        ),
        (Box::new(|_| Reply::Raw(String::new())), "connection closed"),
        (
            Box::new(|_| Reply::Raw(http("404 Not Found", LAST, ""))),
            "HTTP 404",
        ),
        (
            Box::new(|_| {
                Reply::Raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}".to_owned())
            }),
            "connection closed",
        ),
        (
            Box::new(|_| {
                Reply::Raw(format!(
                    "HTTP/1.1 200 OK\r\nX: {}\r\n\r\n",
                    "x".repeat(1 << 20)
                ))
            }),
            "malformed answer",
        ),
        (Box::new(|_| Reply::Silent), "timeout"),
    ]
}

#[test]
fn any_node_misbehaviour_fails_only_that_request() {
    let replies = hostile_replies();
    let kinds: Vec<&str> = replies.iter().map(|(_, kind)| *kind).collect();
    // Every other request is answered well.
    let server = Server::start(move |number, id| match number % 2 {
        1 => Reply::After(Duration::ZERO),
        _ => replies[number / 2 % replies.len()].0(id),
    });
    let mut plan = plan(&server, 2 * kinds.len() as u32, 1, None)
        .as_ref()
        .clone();
    plan.timeout = Duration::from_secs(2);
    let measured = measure(&Rc::new(plan));
    let failed: Vec<Option<&str>> = measured
        .samples
        .iter()
        .map(|sample| sample.result.as_ref().err().map(String::as_str))
        .collect();
    for (pair, kind) in failed.chunks(2).zip(kinds) {
        assert_eq!(pair, [Some(kind), None], "all: {failed:?}");
    }
}

#[test]
fn a_rate_limiting_node_gets_pauses_and_its_refusals_count_separately() {
    let refusal =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":429,"message":"Too many requests"}}"#;
    let server = Server::start(move |number, _| match number {
        3 => Reply::Raw(http(
            "429 Too Many Requests",
            "Retry-After: 1\r\n",
            "slow down",
        )),
        5 => Reply::Raw(http("200 OK", "", refusal)),
        _ => Reply::After(Duration::ZERO),
    });
    let measured = measure(&plan(&server, 10, 1, None));
    let summary = measured.summary(0);
    assert_eq!(
        (summary.successes, summary.retries, summary.failures.len()),
        (10, 2, 0)
    );
    // The wait does not count as latency, which begins when the request was last sent.
    let after = |index: usize| measured.samples[index].at_ns - measured.samples[index - 1].at_ns;
    assert!(
        after(3) >= 1_000_000_000 && after(4) >= 500_000_000,
        "{measured:?}"
    );
}

#[test]
fn with_a_missing_node_every_request_is_an_error() {
    let server = Server::start(|_, _| Reply::Silent);
    let mut plan = plan(&server, 1, 1, None).as_ref().clone();
    // No process listens on a port that was just released.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    plan.connections[0].endpoint = Endpoint::parse(&format!("http://{free}")).unwrap();
    let begun = clock::uptime();
    let summary = measure(&Rc::new(plan)).summary(0);
    let named = format!("no connection to {free} (connection refused)");
    assert_eq!((summary.failures[&named], summary.retries), (1, 3));
    assert!(
        clock::uptime() - begun >= Duration::from_millis(500 + 1000 + 2000),
        "it is not asked at once again"
    );
}

#[test]
fn server_errors_cause_backoff_and_are_counted_by_kind() {
    let server = Server::start(|number, _| match number {
        2 => Reply::Raw(http(
            "503 Service Unavailable",
            "Retry-After: 1\r\nConnection: close\r\n",
            "",
        )),
        3 | 6 => Reply::Raw(http("502 Bad Gateway", LAST, "")),
        _ => Reply::After(Duration::ZERO),
    });
    let plan = plan(&server, 6, 1, None);
    let measured = Engine::new(&plan, None)
        .unwrap()
        .run(&plan, &|_, _| ())
        .unwrap();
    let kinds = [("HTTP 502".to_owned(), 2), ("HTTP 503".to_owned(), 1)];
    assert_eq!(measured.state.refusals, BTreeMap::from(kinds));
    let retries: Vec<u32> = measured
        .samples
        .iter()
        .map(|sample| sample.retries)
        .collect();
    assert_eq!(retries, [0, 0, 2, 0, 1, 0]);
    let waited = measured.samples[2].at_ns - measured.samples[1].at_ns;
    assert!(
        waited >= 2_000_000_000,
        "what the node asked for, then a second: {waited}"
    );
    let latency = measured.samples[2].latency_ns().unwrap();
    assert!(
        latency < waited,
        "the wait is no part of it: {latency} of {waited}"
    );
}

#[test]
fn an_open_loop_skips_and_counts_requests_due_during_retry_after() {
    let server = Server::start(|number, _| match number {
        10 => Reply::Raw(http(
            "429 Too Many Requests",
            "Retry-After: 1\r\nConnection: close\r\n",
            "",
        )),
        _ => Reply::After(Duration::ZERO),
    });
    let measured = measure(&plan(&server, 200, 8, Some(100.0)));
    let summary = measured.summary(0);
    let stalled_requests = summary.failures["not sent, since Retry-After was not over"];
    assert_eq!(
        (
            summary.failures["rate limited"],
            summary.successes + stalled_requests
        ),
        (1, 199)
    );
    // A second at a hundred requests a second, less the time by which the sender was late.
    assert!(
        (50..=130).contains(&stalled_requests),
        "{:?}",
        summary.failures
    );
    assert_eq!(
        server.took.lock().unwrap().len() as u64,
        summary.successes,
        "the others were not sent"
    );
    let first = measured
        .samples
        .iter()
        .position(|sample| sample.result.as_ref().err().map(String::as_str) == Some("rate limited"))
        .unwrap();
    let (pause, after) = (
        measured.samples[first].at_ns,
        &measured.samples[first + 1..],
    );
    let wait_for_resume = after
        .iter()
        .find(|sample| sample.at_ns > pause + 1_500_000_000)
        .unwrap();
    assert!(
        wait_for_resume.result.is_ok(),
        "it goes on: {wait_for_resume:?}"
    );
}

#[test]
fn a_retry_after_date_is_honoured_like_seconds() {
    let server = Server::start(|number, _| match number {
        10 => Reply::Raw(http(
            "503 Service Unavailable",
            "Date: Wed, 25 Nov 2026 12:00:00 GMT\r\nRetry-After: Wed, 25 Nov 2026 12:01:00 GMT\r\n",
            "",
        )),
        _ => Reply::After(Duration::ZERO),
    });
    let summary = measure(&plan(&server, 40, 1, Some(100.0))).summary(0);
    let kinds = [
        ("HTTP 503".to_owned(), 1),
        ("not sent, since Retry-After was not over".to_owned(), 29),
    ];
    assert_eq!(summary.failures, BTreeMap::from(kinds));
}

#[test]
fn a_huge_retry_after_ends_the_run_and_is_reported() {
    for retry_after in ["100000000000000000000", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let headers = format!("Retry-After: {retry_after}\r\n");
        let server =
            Server::start(move |_, _| Reply::Raw(http("429 Too Many Requests", &headers, "")));
        let plan = plan(&server, 5, 1, None);
        let measured = Engine::new(&plan, None)
            .unwrap()
            .run(&plan, &|_, _| ())
            .unwrap();
        let stopped_by = measured.state.stopped_by.unwrap();
        assert!(
            stopped_by.starts_with("a node that wants no requests for "),
            "{stopped_by}"
        );
        assert_eq!(measured.samples.len(), 1, "nothing else is sent");
    }
}

#[test]
fn an_unrequested_compressed_response_is_reported_with_its_encoding() {
    let server = Server::start(|_, id| {
        Reply::Raw(http(
            "200 OK",
            "Content-Encoding: gzip\r\nConnection: close\r\n",
            &good(id),
        ))
    });
    let summary = measure(&plan(&server, 2, 1, None)).summary(0);
    let message = "answer encoded with gzip, which was not asked for".to_owned();
    assert_eq!(summary.failures, BTreeMap::from([(message, 2)]));
}

#[test]
fn bench_requests_no_compression() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let node = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let lines = io::BufRead::lines(io::BufReader::new(stream));
        lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect::<Vec<_>>()
    });
    let plan = plan_of(Endpoint::parse(&url).unwrap(), 1, 1, None);
    Engine::new(&plan, None)
        .unwrap()
        .run(&plan, &|_, _| ())
        .unwrap();
    let lines = node.join().unwrap();
    let codings: Vec<&String> = lines
        .iter()
        .filter(|line| line.to_ascii_lowercase().starts_with("accept-encoding"))
        .collect();
    assert_eq!(codings, ["accept-encoding: identity"]);
}

#[test]
fn a_stall_ending_in_503_without_retry_after_delays_no_requests() {
    let server = Server::start(|number, _| match number {
        20 => Reply::After(Duration::from_secs(1)),
        21 => Reply::Raw(http("503 Service Unavailable", LAST, "")),
        _ => Reply::After(Duration::ZERO),
    });
    let summary = measure(&plan(&server, 100, 1, Some(50.0))).summary(0);
    assert_eq!(
        summary.failures,
        BTreeMap::from([("HTTP 503".to_owned(), 1)])
    );
    assert!(
        summary.latency.unwrap().p90 > 300.0,
        "what was due during the stall counts its wait: {summary:?}"
    );
}

#[test]
fn retry_after_pauses_all_arms_of_the_node() {
    let server = Server::start(|number, _| match number {
        10 => Reply::Raw(http(
            "429 Too Many Requests",
            "Retry-After: 60\r\nConnection: close\r\n",
            "",
        )),
        _ => Reply::After(Duration::ZERO),
    });
    let mut plan = plan(&server, 20, 1, Some(100.0)).as_ref().clone();
    plan.arms.push("b".to_owned());
    plan.connections.push(plan.connections[0].clone());
    plan.cases.push(Case {
        arm_index: 1,
        connection_index: 1,
        ..plan.cases[0].clone()
    });
    let measured = Engine::new(&plan, None)
        .unwrap()
        .run(&Rc::new(plan), &|_, _| ())
        .unwrap();
    let stalled_requests = |sample: &&Sample| {
        sample.result.as_ref().err().map(String::as_str)
            == Some("not sent, since Retry-After was not over")
    };
    assert_eq!(
        measured.samples.iter().filter(stalled_requests).count(),
        40 - 11,
        "none was sent, over neither link"
    );
}

#[test]
fn an_expired_request_is_not_sent_and_opens_no_connection() {
    let server = Server::start(|_, _| Reply::After(Duration::ZERO));
    let plan = plan(&server, 1, 1, None);
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .unwrap();
    let (late, good) = LocalSet::new().block_on(&runtime, async {
        let (mut connections, mut decoder) =
            (Connections::new(&plan, None), Decoder::new().unwrap());
        let case = &plan.cases[0];
        connections.open(&plan, case).await;
        let over = Plan {
            timeout: Duration::ZERO,
            ..plan.as_ref().clone()
        };
        let late = connections
            .exchange(&over, case, 0, &mut decoder, clock::uptime())
            .await;
        (
            late,
            connections
                .exchange(&plan, case, 1, &mut decoder, clock::uptime())
                .await,
        )
    });
    assert_eq!(late.unwrap_err(), crate::failure::Failure::Timeout);
    assert!(good.is_ok() && server.took.lock().unwrap().len() == 1);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn an_open_loop_uses_few_connections_and_connects_in_advance() {
    let server = Server::start(|_, _| Reply::After(Duration::ZERO));
    let measured = measure(&plan(&server, 200, 64, Some(200.0)));
    // A busy host delays answers, so that more requests are in flight at the same time. The engine must not open more connections
    // than that number, although there are 64 workers. A request has its connection from its sending to its answer.
    let under_way = |sample: &Sample| {
        let queued = sample.timing().unwrap().phases[0];
        (
            sample.at_ns + queued,
            sample.at_ns + sample.latency_ns().unwrap(),
        )
    };
    let times: Vec<(u64, u64)> = measured.samples.iter().map(under_way).collect();
    let at = |moment: u64| {
        times
            .iter()
            .filter(|(from, to)| (*from..=*to).contains(&moment))
            .count()
    };
    let most = times.iter().map(|(from, _)| at(*from)).max().unwrap();
    let made = server.connections.load(Ordering::SeqCst);
    assert!(
        made <= most,
        "{made} connections for {most} requests at the same time"
    );
    assert_eq!(measured.samples[0].timing().unwrap().phases[1], 0);
}

#[test]
fn in_flight_requests_at_an_early_end_are_completed_and_kept() {
    let server = Server::start(|number, _| match number {
        0 => Reply::After(Duration::from_millis(1500)),
        1 => Reply::Raw(http("429 Too Many Requests", "Retry-After: 3600\r\n", "")),
        _ => Reply::After(Duration::ZERO),
    });
    let plan = plan(&server, 1000, 2, None);
    let measured = Engine::new(&plan, None)
        .unwrap()
        .run(&plan, &|_, _| ())
        .unwrap();
    assert_eq!(
        measured.state.stopped_by.as_deref(),
        Some("a node that wants no requests for 1 h")
    );
    let failures: Vec<Option<&str>> = measured
        .samples
        .iter()
        .map(|sample| sample.result.as_ref().err().map(String::as_str))
        .collect();
    assert_eq!(
        failures.len(),
        2,
        "no further request was sent: {failures:?}"
    );
    assert!(
        failures.contains(&None) && failures.contains(&Some("rate limited")),
        "{failures:?}"
    );
}

#[test]
fn a_rate_limited_request_without_retry_after_is_delayed() {
    let server = Server::start(move |number, _| match number {
        0 | 1 => Reply::Raw(http("429 Too Many Requests", "Retry-After: 0\r\n", "")),
        _ => Reply::After(Duration::ZERO),
    });
    let begun = clock::uptime();
    let summary = measure(&plan(&server, 1, 1, None)).summary(0);
    assert!(
        (summary.successes, summary.retries) == (1, 2)
            && clock::uptime() - begun >= Duration::from_millis(1500)
    );
}

#[test]
fn a_worker_that_fails_is_an_error() {
    let failed = LocalSet::new().block_on(&Builder::new_current_thread().build().unwrap(), async {
        let mut workers = JoinSet::new();
        workers.spawn_local(async { panic!("on purpose") });
        join_workers(&mut workers).await
    });
    assert!(format!("{:#}", failed.unwrap_err()).contains("a worker failed"));
}

#[test]
fn an_unreachable_node_costs_one_connect_timeout_before_the_run() {
    // The round trip of the link is longer than the timeout of a connection.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::start(|_, _| Reply::After(Duration::ZERO));
    let mut plan = plan(&server, 1, 1, None).as_ref().clone();
    plan.connections[0].link_shape = LinkShape {
        added_rtt: Duration::from_secs(60),
        bits_per_second: None,
    };
    plan.connections[0].endpoint = Endpoint::parse(&format!("http://{address}")).unwrap();
    plan.cases = vec![plan.cases[0].clone(); 100];
    (plan.timeout, plan.rounds) = (Duration::from_millis(400), 0);
    let begun = clock::uptime();
    let measured = Engine::new(&plan, None)
        .unwrap()
        .run(&Rc::new(plan), &|_, _| ())
        .unwrap();
    // A hundred timeouts would take forty seconds.
    assert!(measured.samples.is_empty() && clock::uptime() - begun < Duration::from_secs(20));
}
