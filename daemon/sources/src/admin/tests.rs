//! The poller with a scripted validator on a real socket.

mod server;

use super::{poller::PollIntervals, *};
use crate::tests::target;
use faultline_core::{clock::Clock, config, publish::Latest, supervisor::WorkerGroup};
use faultline_metrics::ProblemKind;
use server::{Reply, Server};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::runtime::Handle as Runtime;

/// The server runs in this process.
fn me() -> ProcessId {
    ProcessId {
        pid: std::process::id(),
        start_ticks: 1,
    }
}

fn next() -> ProcessId {
    ProcessId {
        start_ticks: 2,
        ..me()
    }
}

type SharedTarget = Arc<Mutex<Option<Target>>>;

/// A running poller and its target.
struct Running {
    facts: Latest<AdminFacts>,
    target: SharedTarget,
    workers: WorkerGroup,
}

impl Running {
    fn start(process: ProcessId, ledger: Option<&Path>, timeout: Duration) -> Self {
        Self::start_configured(process, ledger, timeout, Latest::default())
    }

    fn start_configured(
        process: ProcessId,
        ledger: Option<&Path>,
        timeout: Duration,
        latest_config: Latest<config::Config>,
    ) -> Self {
        let target = Target {
            ledger: ledger.map(Path::to_owned),
            ..target(process, None)
        };
        let target = Arc::new(Mutex::new(Some(target)));
        let lookup = target_lookup_of(&target);
        let poll_intervals = PollIntervals {
            starting: Duration::from_millis(20),
            running: Duration::from_millis(200),
        };
        let facts = Latest::default();
        let mut poller = Poller::new(
            &config::Admin {
                enabled: true,
                timeout,
            },
            Clock::start(),
            lookup,
            facts.clone(),
        );
        poller.latest_config = latest_config;
        poller.poll_intervals = poll_intervals;
        let mut workers = WorkerGroup::new("test", &Runtime::current());
        workers.task("admin", |stop| poller.run(stop));
        Self {
            facts,
            target,
            workers,
        }
    }

    fn configured(ledger: &Path, config: Latest<config::Config>) -> Self {
        Self::start_configured(me(), Some(ledger), Duration::from_secs(20), config)
    }

    fn polling(ledger: &Path) -> Self {
        Self::start(me(), Some(ledger), Duration::from_secs(20))
    }

    /// Waits for facts that match.
    async fn facts(&self, what: &str, matches: impl Fn(&AdminFacts) -> bool) -> Arc<AdminFacts> {
        until(what, || self.facts.get().filter(|facts| matches(facts))).await
    }

    /// Waits for a problem and returns its text.
    async fn problem(&self, kind: ProblemKind) -> String {
        let of = |facts: &AdminFacts| {
            facts
                .problems
                .iter()
                .find(|problem| problem.kind == kind)
                .cloned()
        };
        let what = format!("something {}", kind.name());
        of(&*self.facts(&what, |facts| of(facts).is_some()).await)
            .unwrap()
            .what
    }

    async fn end(self) {
        assert!(self.workers.end(Duration::from_secs(20)).await.is_empty());
    }
}

fn target_lookup_of(target: &SharedTarget) -> TargetLookup {
    let target = Arc::clone(target);
    Box::new(move || target.lock().unwrap().clone().map(Arc::new))
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

fn result(result: &str) -> Reply {
    Reply::Text(format!(
        "{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":1}}\n"
    ))
}

fn error(code: i64, message: &str) -> Reply {
    Reply::Text(format!(
        "{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},\"message\":\"{message}\"}},\"id\":1}}\n"
    ))
}

/// Replies of a validator with this start progress.
fn validator(method: &str, progress: &str) -> Reply {
    match method {
        "startProgress" => result(progress),
        "rpcAddress" => result("\"127.0.0.1:8899\""),
        "contactInfo" => result(
            r#"{"id":"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr","gossip":"1.2.3.4:8001","shred_version":1}"#,
        ),
        "validatorAdmissionTicketStatus" => error(-32601, "Method not found"),
        _ => panic!("asked for {method}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn startup_is_polled_until_the_validator_runs_and_reports_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let progress = Arc::new(Mutex::new(
        r#"{"ProcessingLedger":{"slot":7,"max_slot":9}}"#,
    ));
    let shared = Arc::clone(&progress);
    let server = Server::start(folder.path(), move |method| {
        validator(method, *shared.lock().unwrap())
    });
    let running = Running::polling(folder.path());
    let facts = running.facts("the progress", |facts| facts.up).await;
    assert_eq!(facts.progress, Some(StartProgress::ProcessingLedger));
    assert_eq!(
        (facts.identity, facts.rpc_address),
        (None, Some(([127, 0, 0, 1], 8899).into()))
    );
    assert_eq!(facts.problems, []);
    *progress.lock().unwrap() = "\"Running\"";
    let facts = running
        .facts("the end of the start", |facts| facts.identity.is_some())
        .await;
    assert_eq!(
        (facts.progress.clone(), facts.identity),
        (
            Some(StartProgress::Running),
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr".parse().ok()
        )
    );
    let requests = |method: &str| {
        server
            .methods()
            .iter()
            .filter(|requested| *requested == method)
            .count()
    };
    until("a second poll of a running validator", || {
        (requests("contactInfo") >= 2).then_some(())
    })
    .await;
    assert_eq!(
        requests("rpcAddress"),
        1,
        "the address of a process does not change"
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_running_validator_is_polled_rarely_and_its_successor_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), |method| validator(method, "\"Running\""));
    let poll_intervals = PollIntervals {
        starting: Duration::from_millis(20),
        running: Duration::from_secs(3600),
    };
    let mut running = Running::polling(folder.path());
    running.workers = {
        assert!(
            running
                .workers
                .end(Duration::from_secs(20))
                .await
                .is_empty()
        );
        let lookup = target_lookup_of(&running.target);
        let config = config::Admin::default();
        running.facts = Latest::default();
        let mut poller = Poller::new(&config, Clock::start(), lookup, running.facts.clone());
        poller.poll_intervals = poll_intervals;
        let mut workers = WorkerGroup::new("test", &Runtime::current());
        workers.task("admin", |stop| poller.run(stop));
        workers
    };
    running
        .facts("the first", |facts| facts.process == me() && facts.up)
        .await;
    let polls = server.methods().len();
    running.target.lock().unwrap().as_mut().unwrap().process = next();
    running
        .facts("the successor", |facts| facts.process == next() && facts.up)
        .await;
    assert_eq!(
        server.methods()[polls..],
        [
            "startProgress",
            "rpcAddress",
            "contactInfo",
            "validatorAdmissionTicketStatus"
        ]
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_admin_socket_lacking_identity_or_a_method_reports_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), |method| match method {
        "contactInfo" => error(-32602, "Retry once validator start up is complete"),
        "rpcAddress" => error(-32601, "Method not found"),
        _ => validator(method, "\"Running\""),
    });
    let running = Running::polling(folder.path());
    let facts = running.facts("the progress", |facts| facts.up).await;
    assert_eq!((facts.identity, facts.rpc_address), (None, None));
    assert_eq!(
        facts
            .problems
            .iter()
            .map(|problem| problem.kind)
            .collect::<Vec<_>>(),
        [ProblemKind::Absent; 2]
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_identity_from_elsewhere_is_no_problem_of_the_admin_socket() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), |method| match method {
        "contactInfo" => error(-32602, "Retry once validator start up is complete"),
        _ => validator(method, "\"Running\""),
    });
    let settings = [
        ("", 0),
        ("[rpc]\nenabled = false", 1),
        (
            "[rpc]\nenabled = false\n[target]\nidentity = \"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2\"",
            0,
        ),
    ];
    for (text, problems) in settings {
        let latest = Latest::default();
        latest.set(Some(Arc::new(config::parse(text).unwrap())));
        let running = Running::configured(folder.path(), latest);
        let facts = running.facts("the progress", |facts| facts.up).await;
        assert_eq!(
            facts.problems.len(),
            problems,
            "{text}: {:?}",
            facts.problems
        );
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_admin_response_may_be_fragmented_or_end_with_the_connection() {
    for reply in [
        Reply::Pieces(vec![
            r#"{"jsonrpc":"2.0","#,
            r#""result":{"Levitating":{}"#,
            r#"},"id":1}"#,
        ]),
        Reply::Last("{\"result\":\"Levitating\",\"id\":1} ".to_owned()),
        Reply::Text(
            "{\"result\":\"Levitating\",\"id\":1}\n{\"result\":\"Other\",\"id\":1}\n".to_owned(),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let _server = Server::start(folder.path(), move |method| match method {
            "startProgress" => reply.clone(),
            _ => validator(method, ""),
        });
        let running = Running::polling(folder.path());
        let facts = running.facts("the progress", |facts| facts.up).await;
        assert_eq!(
            facts.progress,
            Some(StartProgress::Other("Levitating".into()))
        );
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_newline_received_after_its_response_does_not_end_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), |method| match method {
        "startProgress" => Reply::Text("{\"result\":\"LoadingLedger\",\"id\":1}".to_owned()),
        "rpcAddress" => Reply::Pieces(vec!["\n", "{\"result\":\"127.0.0.1:8899\",\"id\":1}\n"]),
        _ => panic!("asked for {method}"),
    });
    let running = Running::polling(folder.path());
    let facts = running.facts("the progress", |facts| facts.up).await;
    assert_eq!(facts.problems, []);
    assert_eq!(facts.rpc_address, Some(([127, 0, 0, 1], 8899).into()));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_invalid_admin_response_is_broken_or_gone() {
    for (reply, kind, words) in [
        (
            Reply::Text("<html>\n".to_owned()),
            ProblemKind::Broken,
            "not a JSON-RPC answer",
        ),
        (
            Reply::Text("{\"result\":1,\"id\":2}\n".to_owned()),
            ProblemKind::Broken,
            "no answer to startProgress",
        ),
        (
            result("[1]"),
            ProblemKind::Broken,
            "unexpected result of startProgress",
        ),
        (
            Reply::Text("x".repeat(3 << 20)),
            ProblemKind::Broken,
            "more than 1048576 bytes",
        ),
        (
            Reply::Last(String::new()),
            ProblemKind::Gone,
            "the connection broke",
        ),
        (Reply::Never, ProblemKind::Broken, "no answer within 0.2 s"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let _server = Server::start(folder.path(), move |_| reply.clone());
        let running = Running::start(me(), Some(folder.path()), Duration::from_millis(200));
        let problem = running.problem(kind).await;
        assert!(problem.contains(words), "{problem}");
        assert!(
            running
                .facts
                .get()
                .is_some_and(|facts| !facts.up && facts.progress.is_none())
        );
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_missing_admin_socket_is_retried_and_a_stale_one_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::polling(folder.path());
    let problem = running.problem(ProblemKind::Absent).await;
    assert!(problem.contains("has not created it yet"), "{problem}");
    let server = Server::start(folder.path(), |method| {
        validator(method, "\"LoadingLedger\"")
    });
    running
        .facts("the progress", |facts| {
            facts.progress == Some(StartProgress::LoadingLedger)
        })
        .await;
    drop(server);
    let problem = running.problem(ProblemKind::Gone).await;
    assert!(problem.contains("no process listens"), "{problem}");
    fs::remove_file(folder.path().join("admin.rpc")).unwrap();
    running
        .facts("its disappearance", |facts| {
            facts.problems.iter().any(|p| p.what.contains("vanished"))
        })
        .await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_admin_socket_of_another_process_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), |method| validator(method, "\"Running\""));
    let running = Running::start(
        ProcessId {
            pid: 1,
            start_ticks: 0,
        },
        Some(folder.path()),
        Duration::from_secs(20),
    );
    let problem = running.problem(ProblemKind::Broken).await;
    assert!(
        problem.contains(&format!("process {}", std::process::id())),
        "{problem}"
    );
    assert_eq!(server.methods(), [""; 0], "nothing was asked");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_ledger_or_process_no_admin_request_is_made() {
    let running = Running::start(me(), None, Duration::from_secs(20));
    assert!(
        running
            .problem(ProblemKind::Absent)
            .await
            .contains("ledger folder")
    );
    *running.target.lock().unwrap() = None;
    until("the end of the facts", || {
        running.facts.get().is_none().then_some(())
    })
    .await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn admin_responses_of_a_replaced_process_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let slot: Arc<Mutex<Option<SharedTarget>>> = Arc::default();
    let shared = Arc::clone(&slot);
    let _server = Server::start(folder.path(), move |method| {
        let Some(target) = shared.lock().unwrap().clone() else {
            return validator(method, "\"Initializing\"");
        };
        let old = target
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(|target| target.process == me());
        target.lock().unwrap().as_mut().unwrap().process = next();
        validator(
            method,
            if old {
                "\"Running\""
            } else {
                "\"LoadingLedger\""
            },
        )
    });
    let running = Running::polling(folder.path());
    running.facts("the first", |facts| facts.up).await;
    *slot.lock().unwrap() = Some(Arc::clone(&running.target));
    let facts = running
        .facts("the successor", |facts| facts.process == next() && facts.up)
        .await;
    assert_eq!(facts.progress, Some(StartProgress::LoadingLedger));
    running.end().await;
}

/// Root may connect to any socket, so this thread takes the user `nobody`.
#[test]
fn a_socket_without_connect_permission_is_forbidden_with_a_remedy() {
    let body = || {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let _server = Server::start(folder.path(), |method| validator(method, "\"Running\""));
            fs::set_permissions(
                folder.path().join("admin.rpc"),
                Permissions::from_mode(0o000),
            )
            .unwrap();
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, rustix::process::Uid::ROOT)
                    .unwrap();
            }
            let running = Running::polling(folder.path());
            let problem = running.problem(ProblemKind::Forbidden).await;
            assert!(problem.contains("run the daemon as that user"), "{problem}");
            running.end().await;
            if rustix::process::getuid().as_raw() == 65534 {
                let root = rustix::process::Uid::ROOT;
                rustix::thread::set_thread_res_uid(root, root, root).unwrap();
            }
        });
    };
    std::thread::Builder::new()
        .spawn(body)
        .unwrap()
        .join()
        .unwrap();
}

/// The readings of an admission status, and the shortfall in lamports.
async fn admission(status: &'static str) -> (Vec<(String, f64)>, Option<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), move |method| match method {
        "validatorAdmissionTicketStatus" => result(status),
        _ => validator(method, "\"Running\""),
    });
    let running = Running::polling(folder.path());
    let facts = running
        .facts("the admission", |facts| facts.admission.is_some())
        .await;
    let mut output = SourceOutput::default();
    facts.add_readings(&mut output);
    let readings = output.readings.iter().map(|reading| {
        let labels: Vec<&str> = reading
            .label_values
            .iter()
            .map(|label| label.as_str())
            .collect();
        (labels.join(" "), reading.value.number().unwrap())
    });
    let readings = readings.collect();
    running.end().await;
    assert_eq!(facts.problems, []);
    (readings, facts.admission_shortfall())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn admission_is_reported_only_for_a_node_with_voting_enabled() {
    let flags = |this: f64, next: f64| {
        vec![
            ("this_epoch".to_owned(), this),
            ("epoch_after_next".to_owned(), next),
        ]
    };
    let lacks = r#"{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":true,"current_epoch":1064,"in_current_epoch_vat":true,"current_epoch_vote_account_stake":9,"current_epoch_vote_accounts":900,"next_epoch_vat_failure_reason":{"InsufficientFundsInVoteAccount":[27074400,827074400]}}"#;
    assert_eq!(admission(lacks).await, (flags(1.0, 0.0), Some(800_000_000)));
    let passes = r#"{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":true,"current_epoch":1064,"in_current_epoch_vat":false,"next_epoch_vat_failure_reason":null}"#;
    assert_eq!(admission(passes).await, (flags(0.0, 1.0), Some(0)));
    let no_key = r#"{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":true,"current_epoch":1064,"in_current_epoch_vat":true,"next_epoch_vat_failure_reason":"NoBLSPubkey"}"#;
    assert_eq!(admission(no_key).await, (flags(1.0, 0.0), None));
    let standby = r#"{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":false,"current_epoch":1064,"in_current_epoch_vat":false,"next_epoch_vat_failure_reason":"VoteAccountNotFound"}"#;
    assert_eq!(admission(standby).await.0, []);
    let not_in_force = r#"{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":true,"current_epoch":9,"vat_active":false,"in_current_epoch_vat":false,"next_epoch_vat_failure_reason":"NoBLSPubkey"}"#;
    assert_eq!(admission(not_in_force).await.0, []);
}
