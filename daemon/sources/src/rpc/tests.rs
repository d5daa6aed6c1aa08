//! The poller with a scripted server on a real socket.

mod probe;
mod transactions;

use super::*;
use crate::{
    discovery::Target,
    tests::{key, target},
};
use faultline_agave::admin::StartProgress;
use faultline_core::{clock::Clock, config, supervisor::WorkerGroup};
use faultline_metrics::ProblemKind;
use faultline_testkit::mock_node::{MockNode, Reply};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Handle as Runtime;

const ME: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 70,
};
const IDENTITY: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const NEXT: ProcessId = ProcessId {
    pid: 8,
    start_ticks: 80,
};

type SharedTarget = Arc<Mutex<Option<Target>>>;

/// A running poller and its target.
struct Running {
    handle: Handle,
    admin: Latest<AdminFacts>,
    target: SharedTarget,
    workers: WorkerGroup,
}

impl Running {
    fn start(port: Option<u16>, timeout: Duration) -> Self {
        Self::start_with_url(port, timeout, None)
    }

    fn start_with_url(port: Option<u16>, timeout: Duration, url: Option<String>) -> Self {
        let config = config::Rpc {
            interval: Duration::from_millis(20),
            timeout,
            url,
            ..config::Rpc::default()
        };
        let target = Arc::new(Mutex::new(Some(target(ME, port))));
        let current = Arc::clone(&target);
        let admin = Latest::default();
        let lookup = Box::new(move || current.lock().clone().map(Arc::new));
        let poller = Poller::new(&config, Clock::start(), lookup, admin.clone());
        let handle = poller.handle.clone();
        let mut workers = WorkerGroup::new("test", &Runtime::current());
        workers.task("rpc", |stop| poller.run(stop));
        Self {
            handle,
            admin,
            target,
            workers,
        }
    }

    fn polling(server: &MockNode) -> Self {
        Self::start(Some(server.port()), Duration::from_secs(20))
    }

    /// Waits for facts that match.
    async fn facts(&self, what: &str, matches: impl Fn(&RpcFacts) -> bool) -> Arc<RpcFacts> {
        until(what, || self.handle.facts().filter(|facts| matches(facts))).await
    }

    fn follow(&self, process: ProcessId) {
        self.target.lock().as_mut().unwrap().process = process;
    }

    async fn end(self) {
        assert!(self.workers.end(Duration::from_secs(20)).await.is_empty());
    }
}

async fn until<T>(what: &str, mut context: impl FnMut() -> Option<T>) -> T {
    let poll = async {
        loop {
            match context() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), poll)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The response of a validator with this many transactions.
fn answer(request: &Value, transactions: u64) -> Value {
    let result = match (
        request["method"].as_str().unwrap(),
        request["params"][0]["commitment"].as_str(),
    ) {
        ("getEpochInfo", Some("processed")) => {
            json!({"absoluteSlot": 400, "blockHeight": 390, "epoch": 0,
            "slotIndex": 400, "slotsInEpoch": 432_000, "transactionCount": transactions})
        }
        ("getSlot", Some("confirmed")) => json!(398),
        ("getSlot", Some("finalized")) => json!(368),
        ("getHealth", None) => json!("ok"),
        ("getMaxShredInsertSlot", None) => json!(403),
        ("getVersion", None) => json!({"solana-core": "2.1.14", "feature-set": 1}),
        ("getIdentity", None) => json!({"identity": IDENTITY}),
        other => panic!("asked for {other:?}"),
    };
    json!({"jsonrpc": "2.0", "result": result, "id": request["id"]})
}

fn batch(body: &Value, one: impl Fn(&Value) -> Value) -> Reply {
    Reply::json(&body.as_array().unwrap().iter().map(one).collect())
}

fn normal(body: &Value) -> Reply {
    batch(body, |request| answer(request, 1000))
}

fn methods(body: &Value) -> Vec<&str> {
    body.as_array()
        .unwrap()
        .iter()
        .filter_map(|request| request["method"].as_str())
        .collect()
}

fn minimal(body: &Value) -> Reply {
    batch(body, |request| match request["method"].as_str() {
        Some("getMaxShredInsertSlot") => {
            json!({"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": request["id"]})
        }
        _ => answer(request, 1000),
    })
}

fn number(handle: &Handle, process: ProcessId, name: &str) -> Option<f64> {
    let mut readings = Vec::new();
    handle.add_readings(Some(process), &mut readings);
    readings
        .iter()
        .find(|reading| reading.metric.name == name)
        .and_then(|reading| reading.value.number())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_rpc_responses_become_facts_and_samples() {
    let server = MockNode::start(|_, body| normal(body)).unwrap();
    let running = Running::polling(&server);
    let facts = running.facts("an answer", |facts| facts.up).await;
    assert_eq!(facts.process, ME);
    assert_eq!(
        facts
            .epoch_info
            .map(|info| (info.absolute_slot, info.block_height)),
        Some((400, 390))
    );
    assert_eq!((facts.confirmed, facts.finalized), (Some(398), Some(368)));
    assert_eq!(
        (facts.max_shred_slot, facts.slots_behind),
        (Some(403), Some(3))
    );
    assert_eq!(facts.health, Some(Health::Ok));
    assert_eq!(facts.identity, IDENTITY.parse().ok());
    assert_eq!(
        facts
            .version
            .as_ref()
            .map(|version| version.solana_core.as_str()),
        Some("2.1.14")
    );
    assert_eq!(facts.problems, []);
    assert_eq!(
        number(&running.handle, ME, "agave_bank_transactions"),
        Some(1000.0)
    );
    assert_eq!(number(&running.handle, ME, "agave_healthy"), Some(1.0));
    assert_eq!(
        number(&running.handle, ME, "agave_transactions_total"),
        Some(0.0)
    );
    assert_eq!(number(&running.handle, NEXT, "agave_healthy"), None);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_connection_is_reused_and_identity_and_version_are_requested_rarely() {
    let server = MockNode::start(|_, body| normal(body)).unwrap();
    let running = Running::polling(&server);
    until("ten polls", || (server.bodies().len() >= 10).then_some(())).await;
    let with_identity: Vec<usize> = server
        .bodies()
        .iter()
        .map(methods)
        .enumerate()
        .filter(|(_, methods)| methods.contains(&"getIdentity") && methods.contains(&"getVersion"))
        .map(|(poll, _)| poll)
        .take(2)
        .collect();
    assert_eq!(with_identity, [0, 5]);
    assert_eq!(server.connections(), 1);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn methods_missing_in_a_minimal_api_are_requested_once_per_process() {
    let server = MockNode::start(|_, body| minimal(body)).unwrap();
    let running = Running::polling(&server);
    until("three polls", || (server.bodies().len() >= 3).then_some(())).await;
    let facts = running.facts("an answer", |facts| facts.up).await;
    assert_eq!(
        (facts.max_shred_slot, facts.slots_behind, facts.confirmed),
        (None, None, Some(398))
    );
    assert_eq!(
        facts
            .problems
            .iter()
            .map(|problem| problem.kind)
            .collect::<Vec<_>>(),
        [ProblemKind::Absent]
    );
    let is_requested = |body: &Value| methods(body).contains(&"getMaxShredInsertSlot");
    assert_eq!(
        server
            .bodies()
            .iter()
            .take(3)
            .map(is_requested)
            .collect::<Vec<_>>(),
        [true, false, false]
    );
    running.follow(NEXT);
    until("the question to the next process", || {
        (server
            .bodies()
            .iter()
            .filter(|body| is_requested(body))
            .count()
            == 2)
            .then_some(())
    })
    .await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_order_of_batch_responses_does_not_matter() {
    let server = MockNode::start(|_, body| {
        Reply::json(
            &body
                .as_array()
                .unwrap()
                .iter()
                .rev()
                .map(|request| answer(request, 1000))
                .collect(),
        )
    })
    .unwrap();
    let running = Running::polling(&server);
    let facts = running.facts("an answer", |facts| facts.up).await;
    assert_eq!(
        (facts.confirmed, facts.finalized, facts.max_shred_slot),
        (Some(398), Some(368), Some(403))
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn transactions_are_counted_over_fork_switches() {
    let counts = [1000, 1030, 1010, 1040];
    let server = MockNode::start(move |n, body| {
        let count = counts.get(n).copied().unwrap_or(2000);
        if n > counts.len() {
            Reply::Never
        } else {
            batch(body, |request| answer(request, count))
        }
    })
    .unwrap();
    let running = Running::polling(&server);
    let total = || number(&running.handle, ME, "agave_transactions_total");
    until("the sum", || (total() == Some(1000.0)).then_some(())).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn being_behind_is_unhealthy_and_one_failed_request_affects_nothing_else() {
    let server = MockNode::start(|_, body| {
        batch(body, |request| match request["method"].as_str() {
            Some("getHealth") => {
                json!({"id": request["id"], "error": {"code": -32005, "message": "Node is behind by 9 slots",
                "data": {"numSlotsBehind": 9}}})
            }
            Some("getSlot") => json!({"id": request["id"], "error": {"code": -32603, "message": "Internal error"}}),
            _ => answer(request, 1000),
        })
    }).unwrap();
    let running = Running::polling(&server);
    let facts = running.facts("an answer", |facts| facts.up).await;
    assert_eq!(
        facts.health,
        Some(Health::Unhealthy {
            slots_behind: Some(9)
        })
    );
    assert_eq!(
        (facts.confirmed, facts.finalized, facts.max_shred_slot),
        (None, None, Some(403))
    );
    assert_eq!(
        facts
            .problems
            .iter()
            .map(|problem| problem.kind)
            .collect::<Vec<_>>(),
        [ProblemKind::Broken; 2]
    );
    assert_eq!(number(&running.handle, ME, "agave_healthy"), Some(0.0));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_problem_repeats_no_key_of_the_configured_address() {
    let echo = "exceeded for /SECpath12/?api-key=SECquery34";
    let error = json!({"code": -32000, "message": echo});
    for is_batch in [true, false] {
        let error = error.clone();
        let server = MockNode::start(move |_, body| match is_batch {
            true => batch(body, |request| json!({"id": request["id"], "error": error})),
            false => Reply::status(403, &[], echo),
        })
        .unwrap();
        let origin = format!("http://127.0.0.1:{}", server.port());
        let url = format!("{origin}/SECpath12/?api-key=SECquery34");
        let running = Running::start_with_url(None, Duration::from_secs(20), Some(url));
        let facts = running
            .facts("a problem", |facts| !facts.problems.is_empty())
            .await;
        for problem in &facts.problems {
            assert!(
                problem.what.contains("exceeded for /***/?api-key=***"),
                "{problem:?}"
            );
        }
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_silent_server_gets_one_request_at_a_time_until_timeout() {
    let server = MockNode::start(|_, _| Reply::Never).unwrap();
    let running = Running::start(Some(server.port()), Duration::from_millis(150));
    let facts = running
        .facts("a timeout", |facts| !facts.problems.is_empty())
        .await;
    assert!(!facts.up);
    assert_eq!(
        facts.problems[0].to_string(),
        format!(
            "broken: http://127.0.0.1:{}: no answer within 0.15 s",
            server.port()
        )
    );
    until("another try", || (server.bodies().len() >= 3).then_some(())).await;
    // Polls are due every 20 ms, within a timeout of 150 ms: they must not pile up.
    assert!(
        server.max_waiting() <= 2,
        "{} at once",
        server.max_waiting()
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stopping_does_not_wait_for_an_rpc_response() {
    let server = MockNode::start(|_, _| Reply::Never).unwrap();
    let running = Running::start(Some(server.port()), Duration::from_secs(3600));
    until("a question", || (!server.bodies().is_empty()).then_some(())).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unrequested_compressed_response_is_reported_with_its_encoding() {
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n";
    let server =
        MockNode::start(move |_, _| Reply::Raw(format!("{head}{{}}").into_bytes())).unwrap();
    let running = Running::polling(&server);
    let facts = running
        .facts("a problem", |facts| !facts.problems.is_empty())
        .await;
    let problem = &facts.problems[0];
    let what = "the answer is encoded with gzip, which was not asked for";
    assert!(problem.what.contains(what), "{problem}");
    assert_eq!(problem.kind, ProblemKind::Broken);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_is_reported_although_its_body_never_ends() {
    let head = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nno";
    let server = MockNode::start(move |_, _| Reply::Http(head.into())).unwrap();
    let running = Running::start(Some(server.port()), Duration::from_millis(200));
    let facts = running
        .facts("a problem", |facts| !facts.problems.is_empty())
        .await;
    let problem = &facts.problems[0];
    assert_eq!(problem.kind, ProblemKind::Forbidden, "{problem}");
    assert!(problem.what.contains("401 Unauthorized"), "{problem}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_invalid_rpc_response_is_broken_or_forbidden() {
    use ProblemKind::{Broken, Forbidden};
    let huge = format!("[{}]", " ".repeat(2 << 20));
    for (status, body, expected, word) in [
        (
            200,
            "<html>hello</html>".to_owned(),
            Broken,
            "not a JSON-RPC answer",
        ),
        (
            200,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#
                .to_owned(),
            Broken,
            "Parse error",
        ),
        (200, huge.clone(), Broken, "more than 1048576 bytes"),
        (
            500,
            "boom".to_owned(),
            Broken,
            "500 Internal Server Error: `boom`",
        ),
        (500, huge, Broken, "500 Internal Server Error: `[`"),
        (401, String::new(), Forbidden, "401 Unauthorized"),
        (403, "who are you".to_owned(), Forbidden, "403 Forbidden"),
        (404, String::new(), Broken, "404 Not Found"),
        (407, String::new(), Forbidden, "407 Proxy"),
        (429, String::new(), Broken, "429 Too Many Requests"),
        (
            0,
            "this is not HTTP\r\n\r\n".to_owned(),
            Broken,
            "invalid HTTP",
        ),
    ] {
        let reply = if status == 0 {
            Reply::Raw(body.into_bytes())
        } else {
            Reply::status(status, &[], &body)
        };
        let server = MockNode::start(move |_, _| reply.clone()).unwrap();
        let running = Running::polling(&server);
        let facts = running
            .facts(word, |facts| !facts.problems.is_empty())
            .await;
        assert_eq!(facts.problems.len(), 1);
        assert_eq!(facts.problems[0].kind, expected, "{}", facts.problems[0]);
        assert!(
            facts.problems[0].what.contains(word),
            "{}",
            facts.problems[0]
        );
        assert!(!facts.up && facts.epoch_info.is_none());
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_closed_port_is_a_problem_only_after_the_first_response() {
    let mut server = MockNode::start(|_, body| normal(body)).unwrap();
    server.close();
    let running = Running::polling(&server);
    let problem =
        |kind| move |facts: &RpcFacts| facts.problems.iter().any(|problem| problem.kind == kind);
    let facts = running.facts("absence", problem(ProblemKind::Absent)).await;
    assert!(
        facts.problems[0].what.contains("not open yet"),
        "{}",
        facts.problems[0]
    );

    let admin = |progress| AdminFacts {
        process: ME,
        polled_at: Stamp::default(),
        progress,
        identity: None,
        rpc_address: None,
        admission: None,
        problems: Vec::new(),
        up: true,
    };
    running
        .admin
        .set(Some(Arc::new(admin(Some(StartProgress::Running)))));
    running
        .facts(
            "a complaint once the start is over",
            problem(ProblemKind::Broken),
        )
        .await;
    running
        .admin
        .set(Some(Arc::new(admin(Some(StartProgress::LoadingLedger)))));
    running
        .facts("patience with a start", problem(ProblemKind::Absent))
        .await;

    server.open().unwrap();
    running
        .facts("an answer", |facts| facts.up && facts.problems.is_empty())
        .await;
    server.close();
    let facts = running.facts("the end", problem(ProblemKind::Gone)).await;
    assert!(!facts.up);
    assert_eq!(facts.confirmed, Some(398), "an answer is believed for 10 s");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rpc_responses_of_a_replaced_process_are_discarded() {
    let target: Arc<Mutex<Option<SharedTarget>>> = Arc::default();
    let slot = Arc::clone(&target);
    // The process is replaced before the first response.
    let server = MockNode::start(move |n, body| {
        let target = slot.lock().clone();
        if let Some(target) = target.filter(|_| n == 0) {
            target.lock().as_mut().unwrap().process = NEXT;
            return batch(body, |request| answer(request, 999_999));
        }
        batch(body, |request| answer(request, 50))
    })
    .unwrap();
    let mut closed = MockNode::start(|_, body| normal(body)).unwrap();
    closed.close();
    let running = Running::start(Some(closed.port()), Duration::from_secs(20));
    *target.lock() = Some(Arc::clone(&running.target));
    let port = Some(server.port());
    let set_port = |target: &mut Target| target.validator.as_mut().unwrap().rpc_port = port;
    running.target.lock().as_mut().map(set_port).unwrap();
    let facts = running.facts("an answer", |facts| facts.up).await;
    assert_eq!(facts.process, NEXT);
    assert_eq!(
        facts.epoch_info.and_then(|info| info.transaction_count),
        Some(50)
    );
    assert_eq!(
        number(&running.handle, NEXT, "agave_transactions_total"),
        Some(0.0)
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_process_rpc_facts_end_but_the_total_stays() {
    let server = MockNode::start(|_, body| normal(body)).unwrap();
    let running = Running::polling(&server);
    running.facts("an answer", |facts| facts.up).await;
    *running.target.lock() = None;
    until("the end of the facts", || {
        running.handle.facts().is_none().then_some(())
    })
    .await;
    assert_eq!(
        number(&running.handle, ME, "agave_transactions_total"),
        Some(0.0)
    );
    assert_eq!(number(&running.handle, ME, "agave_bank_transactions"), None);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_an_rpc_port_the_problem_contains_a_remedy() {
    let running = Running::start(None, Duration::from_secs(1));
    let facts = running
        .facts("the problem", |facts| !facts.problems.is_empty())
        .await;
    assert_eq!(
        facts.problems[0].to_string(),
        "absent: the validator runs without --rpc-port; set rpc.url"
    );
    running.end().await;
}

#[test]
fn a_response_that_is_not_renewed_expires() {
    use faultline_agave::rpc::{Answer, Call, Commitment};
    let at = |seconds| Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::ZERO,
    };
    let mut memory = cache::ResponseCache::new(ME, at(0));
    let calls = [
        Call::Slot(Commitment::Finalized),
        Call::Identity,
        Call::MaxShredInsertSlot,
    ];
    let answers = vec![
        Ok(Answer::Slot(5)),
        Ok(Answer::Identity(IDENTITY.parse().unwrap())),
        Ok(Answer::MaxShredInsertSlot(0)),
    ];
    memory.receive(&calls, answers, at(100));
    let facts = |seconds| memory.facts(at(seconds), Duration::from_secs(4));
    assert_eq!(
        (facts(109).finalized, facts(110).finalized),
        (Some(5), None)
    );
    assert_eq!(
        (facts(160).identity, facts(161).identity),
        (IDENTITY.parse().ok(), None)
    );
    assert_eq!(
        (facts(100).confirmed, facts(100).max_shred_slot),
        (None, None),
        "zero means that no shred was received"
    );
}

#[test]
fn the_admin_sockets_identity_takes_precedence_over_json_rpcs() {
    let memory = |process| {
        cache::ResponseCache::new(process, Stamp::default()).facts(Stamp::default(), Duration::ZERO)
    };
    let rpc = RpcFacts {
        identity: Some(key("rpc")),
        ..memory(ME)
    };
    let admin = |process| AdminFacts {
        process,
        polled_at: Stamp::default(),
        progress: None,
        identity: Some(key("admin")),
        rpc_address: None,
        admission: None,
        problems: Vec::new(),
        up: true,
    };
    assert_eq!(
        identity_of(ME, Some(&rpc), Some(&admin(ME))),
        Some(key("admin"))
    );
    assert_eq!(
        identity_of(ME, Some(&rpc), Some(&admin(NEXT))),
        Some(key("rpc"))
    );
    assert_eq!(identity_of(NEXT, Some(&rpc), None), None);
    assert_eq!(identity_of(ME, None, None), None);
}
