//! The queue and the task, against a real upstream.

mod upstream;

use super::*;
use faultline_core::{config::Credentials, supervisor::WorkerGroup};
use proptest::prelude::*;
pub(crate) use upstream::{Reply, Server};

const TIMEOUT: Duration = Duration::from_secs(60);
const QUICK: RetryTimes = RetryTimes {
    first_pause: Duration::from_millis(10),
    max_pause: Duration::from_millis(50),
    attempt_timeout: Duration::from_secs(20),
    drain_timeout: Duration::from_secs(20),
};

impl Forwarder {
    fn with_retry_times(self, retry_times: RetryTimes) -> Self {
        Self {
            retry_times,
            ..self
        }
    }
}

pub(crate) fn config(url: String, queue_bytes: u64) -> config::Forward {
    let credentials = Credentials {
        db: "d b".into(),
        user: "me".into(),
        password: "s&cret".into(),
    };
    config::Forward {
        url,
        credentials,
        queue_bytes,
        give_up_after: Duration::from_secs(600),
    }
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

struct Forwarding {
    handle: Handle,
    push_memory: PushMemoryBudget,
    workers: WorkerGroup,
}

impl Forwarding {
    fn start(config: &config::Forward, retry_times: RetryTimes) -> Self {
        let push_memory = PushMemoryBudget::default();
        let (handle, forwarder) = build(config, Clock::start(), &push_memory).unwrap();
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        workers.task("forward", |stop| {
            forwarder.with_retry_times(retry_times).run(stop)
        });
        Self {
            handle,
            push_memory,
            workers,
        }
    }

    fn add(&self, body: &[u8]) {
        add(&self.handle, body);
    }

    /// Bytes sent, lost, refused and queued.
    fn bytes(&self) -> [u64; 4] {
        bytes(&self.handle)
    }

    async fn end(self) -> [u64; 4] {
        assert!(self.workers.end(TIMEOUT).await.is_empty());
        until("all memory is released", || {
            self.push_memory.used_bytes() == 0
        })
        .await;
        bytes(&self.handle)
    }
}

fn add(handle: &Handle, body: &[u8]) {
    let mut copy = handle.copy(Precision::Nanoseconds, false);
    copy.append(body);
    copy.finish();
}

fn bytes(handle: &Handle) -> [u64; 4] {
    let queue = &handle.0.queue;
    let of = |outcome| queue.totals(outcome).1;
    [
        of(Outcome::Sent),
        of(Outcome::Lost),
        of(Outcome::Refused),
        queue.bytes(),
    ]
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    let mut body = format!("push,host_id=A number={number}i 1700000000000000000\n").into_bytes();
    body.resize(bytes.max(body.len()), b'x');
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_bodies_arrive_unchanged_in_order_with_upstream_credentials() {
    let server = Server::start();
    let forwarding = Forwarding::start(
        &config(format!("{}/prefix/", server.url()), 10_000_000),
        QUICK,
    );
    let bodies = [
        body(0, 10),
        body(1, 300_000),
        body(2, 64 * 1024),
        body(3, 128 * 1024 + 1),
    ];
    bodies.iter().for_each(|body| forwarding.add(body));
    let mut packed = forwarding.handle.copy(Precision::Milliseconds, true);
    packed.append(b"\x1f\x8b...");
    packed.finish();
    until("all have arrived", || server.received_pushes().len() == 5).await;
    let received_pushes = server.received_pushes();
    assert!(
        received_pushes
            .iter()
            .map(|push| &push.body)
            .take(4)
            .eq(&bodies)
    );
    assert_eq!(
        received_pushes[0].target,
        "/prefix/write?db=d%20b&u=me&p=s%26cret&precision=n"
    );
    assert_eq!(
        received_pushes[4].target,
        "/prefix/write?db=d%20b&u=me&p=s%26cret&precision=ms"
    );
    assert_eq!(
        (
            &received_pushes[0].coding,
            received_pushes[4].coding.as_deref()
        ),
        (&None, Some("gzip"))
    );
    assert_eq!(received_pushes[1].length, Some(300_000));
    let total = bodies.iter().map(|body| body.len() as u64).sum::<u64>() + 5;
    assert_eq!(forwarding.end().await, [total, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_during_upstream_downtime_arrive_once_in_order() {
    let down = Server::down();
    let forwarding = Forwarding::start(&config(down.url(), 10_000_000), QUICK);
    let bodies: Vec<Vec<u8>> = (0..20).map(|number| body(number, 1000)).collect();
    bodies.iter().for_each(|body| forwarding.add(body));
    until("it is seen to fail", || {
        forwarding.handle.problem().is_some()
    })
    .await;
    let Problem { kind, what: text } = forwarding.handle.problem().unwrap();
    assert_eq!(kind, ProblemKind::Broken);
    assert!(
        text.contains("refused") && text.contains("are queued"),
        "{text}"
    );
    assert!(!text.contains("cret"), "{text}");
    let server = down.up();
    until("all are sent", || forwarding.bytes()[0] == 20_000).await;
    assert!(
        server
            .received_pushes()
            .iter()
            .map(|push| &push.body)
            .eq(&bodies)
    );
    assert_eq!(forwarding.handle.problem(), None);
    assert_eq!(forwarding.end().await, [20_000, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_queue_overflow_the_oldest_pushes_are_dropped_and_counted() {
    let down = Server::down();
    let forwarding = Forwarding::start(&config(down.url(), 10_500), QUICK);
    until("it is seen to fail", || {
        if forwarding.bytes()[3] == 0 {
            forwarding.add(&body(0, 1000));
        }
        forwarding.handle.problem().is_some()
    })
    .await;
    (1..100).for_each(|number| forwarding.add(&body(number, 1000)));
    assert_eq!(forwarding.bytes(), [0, 90_000, 0, 10_000]);
    let server = down.up();
    until("all are sent", || forwarding.bytes()[3] == 0).await;
    let [sent, lost, refused, _] = forwarding.end().await;
    assert_eq!((sent + lost, refused), (100_000, 0));
    // The queue keeps the push that is being sent, and drops a newer one.
    let arrived: Vec<Vec<u8>> = server
        .received_pushes()
        .into_iter()
        .map(|push| push.body)
        .collect();
    let expected: Vec<Vec<u8>> = (91..100).map(|number| body(number, 1000)).collect();
    assert!(arrived.ends_with(&expected));
    assert_eq!(arrived.len() as u64 * 1000, sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_the_upstream_refuses_is_dropped_and_the_next_is_sent() {
    let server = Server::start();
    let long = format!("{{\"error\":\"no db for s&cret\"}}\n{}", "x".repeat(10_000));
    server.add_reply(Reply::Answer(400, None, long));
    let forwarding = Forwarding::start(&config(server.url(), 100_000), QUICK);
    forwarding.add(&body(0, 100));
    until("it is refused", || forwarding.bytes()[2] == 100).await;
    let Problem { kind, what: text } = forwarding.handle.problem().unwrap();
    assert_eq!(kind, ProblemKind::Broken);
    assert!(
        text.contains("400: {\"error\":\"no db for (hidden)\"} xxx") && text.len() < 350,
        "{text}"
    );
    forwarding.add(&body(1, 100));
    until("the next is sent", || forwarding.bytes()[0] == 100).await;
    assert_eq!(forwarding.handle.problem(), None);
    server.add_reply(Reply::Answer(401, None, String::new()));
    forwarding.add(&body(2, 100));
    until("it is refused", || forwarding.bytes()[2] == 200).await;
    assert_eq!(
        forwarding.handle.problem().unwrap().kind,
        ProblemKind::Forbidden
    );
    assert_eq!(forwarding.end().await, [100, 0, 200, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstreams_retry_after_is_honoured() {
    let server = Server::start();
    server.add_reply(Reply::Answer(503, Some("1"), "busy".into()));
    server.add_reply(Reply::Answer(429, None, String::new()));
    let clock = Clock::start();
    let forwarding = Forwarding::start(&config(server.url(), 100_000), QUICK);
    forwarding.add(&body(0, 100));
    until("it is seen to fail", || {
        forwarding.handle.problem().is_some()
    })
    .await;
    assert!(
        forwarding
            .handle
            .problem()
            .unwrap()
            .what
            .contains("it answers 503 Service Unavailable busy")
    );
    until("it is sent", || forwarding.bytes()[0] == 100).await;
    assert!(clock.now().uptime >= Duration::from_secs(1));
    assert_eq!(server.received_pushes().len(), 3);
    assert_eq!(forwarding.end().await, [100, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_or_dated_retry_after_is_bounded_and_logged() {
    for pause in ["100000000000000000000", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server = Server::start();
        server.add_reply(Reply::Answer(503, Some(pause), "busy".into()));
        let forwarding = Forwarding::start(&config(server.url(), 100_000), QUICK);
        forwarding.add(&body(0, 100));
        let problem = || forwarding.handle.problem();
        until("it is seen to fail", || problem().is_some()).await;
        let problem_text = problem().unwrap().what;
        assert!(
            problem_text.contains("busy; it asks for a pause of ")
                && problem_text.contains("but is tried again in 10 min"),
            "{problem_text}"
        );
        forwarding.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_with_zero_retry_after_is_not_retried_in_a_loop() {
    let server = Server::start();
    for _ in 0..3 {
        server.add_reply(Reply::Answer(503, Some("0"), "busy".into()));
    }
    let retry_times = RetryTimes {
        first_pause: Duration::from_secs(1),
        max_pause: Duration::from_secs(1),
        ..QUICK
    };
    let clock = Clock::start();
    let forwarding = Forwarding::start(&config(server.url(), 100_000), retry_times);
    forwarding.add(&body(0, 100));
    until("it was tried twice", || server.received_pushes().len() >= 2).await;
    assert!(
        clock.now().uptime >= Duration::from_millis(500),
        "half of the first pause"
    );
    forwarding.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_to_a_hanging_upstream_is_retried() {
    let server = Server::start();
    server.add_reply(Reply::Hang);
    let retry_times = RetryTimes {
        attempt_timeout: Duration::from_millis(200),
        ..QUICK
    };
    let forwarding = Forwarding::start(&config(server.url(), 100_000), retry_times);
    forwarding.add(&body(0, 100));
    until("it is sent at last", || forwarding.bytes()[0] == 100).await;
    assert!(server.received_pushes().len() >= 2);
    assert_eq!(forwarding.end().await, [100, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_upstream_gets_each_push_once_and_overflow_is_counted() {
    let server = Server::start();
    (0..100).for_each(|_| server.add_reply(Reply::Late(Duration::from_millis(20))));
    let forwarding = Forwarding::start(&config(server.url(), 5000), QUICK);
    for number in 0..100 {
        forwarding.add(&body(number, 1000));
        // Twice as fast as the upstream accepts.
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(forwarding.bytes()[3] <= 5000);
    }
    assert_eq!(forwarding.handle.problem(), None, "slow is no failure");
    let [sent, lost, refused, waiting] = forwarding.end().await;
    assert_eq!((sent + lost, refused, waiting), (100_000, 0, 0));
    assert!(lost > 0, "the queue was meant to overflow");
    let arrived: Vec<Vec<u8>> = server
        .received_pushes()
        .into_iter()
        .map(|push| push.body)
        .collect();
    assert_eq!(arrived.len() as u64 * 1000, sent);
    let all: Vec<Vec<u8>> = (0..100).map(|number| body(number, 1000)).collect();
    let places: Vec<usize> = arrived
        .iter()
        .map(|one| all.iter().position(|other| other == one).unwrap())
        .collect();
    assert!(
        places.is_sorted_by(|earlier, later| earlier < later),
        "in order, and none twice: {places:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_is_too_old_is_dropped() {
    let down = Server::down();
    let config = config::Forward {
        give_up_after: Duration::from_millis(100),
        ..config(down.url(), 100_000)
    };
    let forwarding = Forwarding::start(&config, QUICK);
    (0..5).for_each(|number| forwarding.add(&body(number, 100)));
    until("all are given up", || forwarding.bytes()[1] == 500).await;
    assert_eq!(forwarding.end().await, [0, 500, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_pushes_are_sent_at_shutdown() {
    let server = Server::start();
    let forwarding = Forwarding::start(&config(server.url(), 10_000_000), QUICK);
    (0..50).for_each(|number| forwarding.add(&body(number, 100_000)));
    assert_eq!(forwarding.end().await, [5_000_000, 0, 0, 0]);
    assert_eq!(server.received_pushes().len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_unsent_at_shutdown_are_dropped_and_counted() {
    let down = Server::down();
    let forwarding = Forwarding::start(
        &config(down.url(), 100_000),
        RetryTimes {
            drain_timeout: Duration::from_millis(50),
            ..QUICK
        },
    );
    (0..5).for_each(|number| forwarding.add(&body(number, 100)));
    assert_eq!(forwarding.end().await, [0, 500, 0, 0]);
}

fn queued(limit: u64, push_memory: &PushMemoryBudget) -> Handle {
    build(
        &config("http://127.0.0.1:9".into(), limit),
        Clock::start(),
        push_memory,
    )
    .unwrap()
    .0
}

#[test]
fn a_push_copy_larger_than_the_queue_is_dropped_without_affecting_others() {
    let push_memory = PushMemoryBudget::default();
    let handle = queued(1000, &push_memory);
    add(&handle, &body(0, 900));
    add(&handle, &body(1, 1001));
    assert_eq!(bytes(&handle), [0, 1001, 0, 900]);
}

#[test]
fn an_incomplete_push_copy_releases_its_memory() {
    let push_memory = PushMemoryBudget::default();
    let handle = queued(1_000_000, &push_memory);
    let mut copy = handle.copy(Precision::Nanoseconds, false);
    copy.append(&body(0, 500_000));
    assert!(push_memory.used_bytes() >= 500_000);
    drop(copy);
    assert_eq!((push_memory.used_bytes(), bytes(&handle)), (0, [0; 4]));
}

#[test]
fn a_push_copy_without_memory_drops_the_oldest_then_itself() {
    let push_memory = PushMemoryBudget::new(0, 4 * 64 * 1024);
    let handle = queued(1_000_000, &push_memory);
    add(&handle, &body(0, 64 * 1024));
    add(&handle, &body(1, 64 * 1024));
    let mut large = handle.copy(Precision::Nanoseconds, false);
    large.append(&[b'x'; 3 * 64 * 1024]);
    assert_eq!(
        bytes(&handle),
        [0, 65_536, 0, 65_536],
        "the oldest gave way"
    );
    let mut other = handle.copy(Precision::Nanoseconds, false);
    other.append(b"x");
    assert_eq!(bytes(&handle), [0, 131_072, 0, 0], "the next one too");
    let mut third = handle.copy(Precision::Nanoseconds, false);
    third.append(b"yy");
    third.finish();
    assert_eq!(
        bytes(&handle),
        [0, 131_074, 0, 0],
        "nothing was left to give way"
    );
    large.finish();
    other.finish();
    assert_eq!(bytes(&handle), [0, 131_074, 0, 196_609]);
    assert_eq!(push_memory.used_bytes(), 196_609);
}

#[test]
fn a_push_being_sent_is_not_dropped_from_the_queue() {
    let handle = queued(250, &PushMemoryBudget::default());
    let queue = &handle.0.queue;
    add(&handle, &body(0, 100));
    let sending = queue.try_begin_first().unwrap();
    add(&handle, &body(1, 100));
    add(&handle, &body(2, 100));
    assert_eq!(bytes(&handle), [0, 100, 0, 200]);
    queue.finish_first(Outcome::Sent);
    assert_eq!(sending.bytes, 100);
    assert_eq!(
        queue.try_begin_first().unwrap().pieces.concat(),
        body(2, 100)
    );
    assert_eq!(bytes(&handle), [100, 100, 0, 100]);
}

#[test]
fn a_push_that_does_not_fit_beside_the_one_being_sent_drops_no_other() {
    let handle = queued(250, &PushMemoryBudget::default());
    let queue = &handle.0.queue;
    add(&handle, &body(0, 100));
    let _sending = queue.try_begin_first().unwrap();
    add(&handle, &body(1, 50));
    add(&handle, &body(2, 200));
    assert_eq!(bytes(&handle), [0, 200, 0, 150]);
}

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    Drop(usize),
    Begin,
    Done,
    Refused,
    Failed,
}

proptest! {
    #[test]
    fn every_complete_push_copy_is_counted_once(
        steps in prop::collection::vec(prop_oneof![
            4 => (1_usize..200_000).prop_map(Step::Add),
            1 => (1_usize..200_000).prop_map(Step::Drop),
            2 => Just(Step::Begin),
            2 => Just(Step::Done),
            1 => Just(Step::Refused),
            1 => Just(Step::Failed),
        ], 0..60),
    ) {
        let push_memory = PushMemoryBudget::new(0, 400_000);
        let handle = queued(300_000, &push_memory);
        let queue: &Queue = &handle.0.queue;
        let (mut received, mut sending) = (0, None);
        for step in steps {
            match step {
                Step::Add(bytes) => {
                    add(&handle, &vec![b'x'; bytes]);
                    received += bytes as u64;
                }
                Step::Drop(bytes) => handle.copy(Precision::Nanoseconds, false).append(&vec![b'x'; bytes]),
                Step::Begin if sending.is_none() => sending = queue.try_begin_first(),
                Step::Done if sending.take().is_some() => queue.finish_first(Outcome::Sent),
                Step::Refused if sending.take().is_some() => queue.finish_first(Outcome::Refused),
                Step::Failed if sending.take().is_some() => queue.fail_first(Duration::from_secs(60)),
                _ => {}
            }
            prop_assert_eq!(bytes(&handle).iter().sum::<u64>(), received);
            prop_assert!(queue.bytes() <= 300_000);
            prop_assert_eq!(push_memory.used_bytes(), queue.bytes());
        }
        queue.clear();
        drop(sending);
        prop_assert_eq!(push_memory.used_bytes(), 0);
    }
}

#[test]
fn retry_delays_double_up_to_the_maximum_with_jitter() {
    let seconds = |failures, random| retry_pause(RETRY_TIMES, failures, random).as_secs_f64();
    assert_eq!(
        [
            seconds(0, 0.0),
            seconds(1, 0.0),
            seconds(5, 0.0),
            seconds(6, 0.0)
        ],
        [0.5, 1.0, 16.0, 30.0]
    );
    assert_eq!(
        [seconds(31, 0.0), seconds(32, 0.0), seconds(u32::MAX, 0.0)],
        [30.0; 3]
    );
    assert_eq!([seconds(0, 1.0), seconds(40, 1.0)], [0.25, 15.0]);
}
