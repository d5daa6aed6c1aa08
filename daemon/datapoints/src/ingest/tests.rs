//! The listener over real sockets.

mod client;
mod crowded;
mod ending;

use super::{counters::ResultCode, *};
use crate::forward::tests::{Server, config as forward_config, until};
use client::{Client, chunked, gzip, post};
use faultline_core::{config::Forward, supervisor::WorkerGroup};
use faultline_metrics::Stamp;
use proptest::prelude::*;
use std::{
    mem,
    sync::{Mutex, MutexGuard},
};

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct FakeIntake(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    lines: Vec<Vec<u8>>,
    bad: u64,
    pushes: u64,
    refuses_all: bool,
}

impl PushSink for FakeIntake {
    type Push = Seen;

    fn admits(&self, user: PeerUser, _: Stamp) -> bool {
        !self.0.lock().unwrap().refuses_all && !matches!(user, PeerUser::Unknown(_))
    }

    fn begin(&self, _: PeerUser, _: Stamp) -> Seen {
        Seen::default()
    }

    fn commit(&self, push: Seen, _: Stamp) {
        let mut seen = self.0.lock().unwrap();
        seen.lines.extend(push.lines);
        seen.bad += push.bad;
        seen.pushes += 1;
    }
}

impl LineSink for Seen {
    fn add_line(&mut self, line: &[u8]) {
        self.lines.push(line.to_vec());
    }

    fn count_bad_line(&mut self) {
        self.bad += 1;
    }
}

struct RunningListener {
    address: SocketAddr,
    intake: FakeIntake,
    counters: IngestCounters,
    push_memory: PushMemoryBudget,
    forward: Option<forward::Handle>,
    max_connections: usize,
    workers: WorkerGroup,
}

fn ingest(credentials: Option<Credentials>) -> config::Ingest {
    config::Ingest {
        listen: "127.0.0.1:0".parse().unwrap(),
        credentials,
        ..config::Ingest::default()
    }
}

impl<I: PushSink> Listener<I> {
    fn with_limits(mut self, limits: Limits) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.limits = limits;
        }
        self
    }
}

fn build_listener(
    config: &config::Ingest,
    sockets: Vec<BoundSocket>,
) -> Result<Listener<FakeIntake>, Error> {
    let (intake, clock, push_memory) = (
        FakeIntake::default(),
        Clock::start(),
        PushMemoryBudget::default(),
    );
    Listener::build(config, sockets, intake, clock, push_memory, None)
}

impl RunningListener {
    fn start() -> Self {
        Self::with(None, LIMITS, None)
    }

    fn limited(limits: Limits) -> Self {
        Self::with(None, limits, None)
    }

    /// On inherited sockets.
    fn on(sockets: Vec<BoundSocket>) -> Self {
        Self::build(&ingest(None), LIMITS, None, sockets)
    }

    fn with(credentials: Option<Credentials>, limits: Limits, forward: Option<Forward>) -> Self {
        let sockets = vec![BoundSocket::bind_tcp("127.0.0.1:0".parse().unwrap()).unwrap()];
        Self::build(&ingest(credentials), limits, forward, sockets)
    }

    fn build(
        config: &config::Ingest,
        limits: Limits,
        forward: Option<Forward>,
        sockets: Vec<BoundSocket>,
    ) -> Self {
        let (intake, clock, push_memory) = (
            FakeIntake::default(),
            Clock::start(),
            PushMemoryBudget::default(),
        );
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        let handle = forward.map(|config| {
            let (handle, forwarder) = forward::build(&config, clock, &push_memory).unwrap();
            workers.task("forward", |stop| forwarder.run(stop));
            handle
        });
        let memory = push_memory.clone();
        let listener = Listener::build(
            config,
            sockets,
            intake.clone(),
            clock,
            memory,
            handle.clone(),
        )
        .ok()
        .unwrap()
        .with_limits(limits);
        let (address, counters) = (listener.local_addr().unwrap(), listener.counters());
        workers.task("ingest", |stop| listener.run(stop));
        Self {
            address,
            intake,
            counters,
            push_memory,
            forward: handle,
            max_connections: limits.tcp_connections,
            workers,
        }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends one request on a new connection, and returns the status.
    async fn send(&self, request: &[u8]) -> u16 {
        let mut client = self.client().await;
        client.write(request).await;
        client.status().await.unwrap()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.intake.0.lock().unwrap()
    }

    /// The numbers of complete lines and of bad lines.
    fn counts(&self) -> (usize, u64) {
        let seen = self.seen();
        (seen.lines.len(), seen.bad)
    }

    /// The value of a reading, by metric and label.
    fn number(&self, name: &str, label: &str) -> f64 {
        let mut readings = Vec::new();
        self.counters.add_readings(&mut readings);
        self.forward
            .iter()
            .for_each(|forward| forward.add_readings(&mut readings));
        let is = |r: &&faultline_metrics::Reading| {
            r.metric.name == name && r.label_values.iter().all(|value| value.as_str() == label)
        };
        readings.iter().find(is).unwrap().value.number().unwrap()
    }

    async fn all_memory_released(&self) {
        until("all memory is released", || {
            self.push_memory.used_bytes() == 0
        })
        .await;
    }
}

/// Lines of 524 bytes.
fn lines(count: usize) -> Vec<u8> {
    let filler = "f".repeat(460);
    (0..count)
        .flat_map(|n| {
            format!("p,host_id=A n={n:010}i,s=\"{filler}\" 1700000000000000000\n").into_bytes()
        })
        .collect()
}

fn split(body: &[u8]) -> Vec<Vec<u8>> {
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_thousand_lines_arrive_plain_gzipped_and_chunked() {
    let sink = RunningListener::start();
    let body = lines(40_000);
    assert!(body.len() > 19 * 1024 * 1024);
    assert_eq!(sink.send(&post("", &body)).await, 204);
    assert!(mem::take(&mut *sink.seen()).lines == split(&body));
    assert_eq!(
        sink.send(&post("Content-Encoding: gzip\r\n", &gzip(&body)))
            .await,
        204
    );
    assert!(mem::take(&mut *sink.seen()).lines == split(&body));
    assert_eq!(
        sink.send(&chunked(&body, &[body.len() / 3, 100_001])).await,
        204
    );
    assert!(mem::take(&mut *sink.seen()).lines == split(&body));
    assert_eq!(sink.number("faultline_ingest_requests_total", "204"), 3.0);
    assert_eq!(
        sink.number("faultline_ingest_bytes_total", ""),
        3.0 * body.len() as f64
    );
    sink.all_memory_released().await;
    until("no connection is open", || {
        sink.number("faultline_ingest_connections", "") == 0.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_line_in_a_body_discards_only_itself() {
    let sink = RunningListener::start();
    let body = [lines(10), vec![b'x'; 100_000], b"\n".to_vec(), lines(10)].concat();
    assert_eq!(sink.send(&post("", &body)).await, 204);
    assert_eq!(sink.counts(), (20, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complete_lines_of_a_truncated_body_count() {
    let server = Server::start();
    let sink = RunningListener::with(None, LIMITS, Some(forward_config(server.url(), 10_000_000)));
    let request = post("", &lines(100));
    let mut client = sink.client().await;
    client.write(&request[..request.len() - 10]).await;
    // The user of a connection that is closed before it is accepted is unknown.
    until("its lines are parsed", || {
        sink.number("faultline_ingest_bytes_total", "") > 0.0
    })
    .await;
    drop(client);
    until("it is committed", || sink.seen().pushes == 1).await;
    assert_eq!(sink.counts(), (99, 1));
    assert_eq!(sink.number("faultline_ingest_requests_total", "cut"), 1.0);
    let whole = post("", &lines(7));
    assert_eq!(sink.send(&whole).await, 204);
    until("the other one is passed on", || {
        server.received_pushes().len() == 1
    })
    .await;
    assert!(server.received_pushes()[0].body == lines(7));
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_pushes_are_forwarded_unchanged() {
    let server = Server::start();
    let sink = RunningListener::with(None, LIMITS, Some(forward_config(server.url(), 24_000_000)));
    let (plain, packed) = (lines(1000), gzip(&lines(2000)));
    assert_eq!(sink.send(&post("", &plain)).await, 204);
    assert_eq!(
        sink.send(&post("Content-Encoding: gzip\r\n", &packed))
            .await,
        204
    );
    assert_eq!(
        sink.send(&post("Content-Encoding: gzip\r\n", b"no gzip"))
            .await,
        400
    );
    let seconds = String::from_utf8(post("", b"a b=1 1\nc d=1 1\n"))
        .unwrap()
        .replace("precision=n", "precision=s");
    assert_eq!(sink.send(seconds.as_bytes()).await, 204);
    until("all are passed on", || {
        sink.number("faultline_forward_requests_total", "sent") == 3.0
    })
    .await;
    let received_pushes = server.received_pushes();
    assert!(received_pushes[0].body == plain && received_pushes[1].body == packed);
    assert_eq!(received_pushes[1].coding.as_deref(), Some("gzip"));
    assert!(received_pushes[2].target.ends_with("&precision=s"));
    assert_eq!(sink.counts(), (3000, 2), "seconds are not Agave's");
    let total = plain.len() + packed.len() + 16;
    assert_eq!(
        sink.number("faultline_forward_bytes_total", "sent"),
        total as f64
    );
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_with_other_credentials_get_an_error_response() {
    let required = Credentials {
        db: "d".into(),
        user: "u".into(),
        password: "right".into(),
    };
    let sink = RunningListener::with(Some(required), LIMITS, None);
    let wrong = post("", &lines(20_000));
    assert_eq!(sink.send(&wrong).await, 401);
    let right = String::from_utf8(post("", &lines(1)))
        .unwrap()
        .replace("p=p&", "p=right&");
    assert_eq!(sink.send(right.as_bytes()).await, 204);
    assert_eq!(sink.seen().lines.len(), 1);
    assert_eq!(sink.number("faultline_ingest_requests_total", "401"), 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unauthorized_sender_is_refused_before_its_body_is_read() {
    let sink = RunningListener::start();
    sink.seen().refuses_all = true;
    assert_eq!(sink.send(&post("", &lines(20_000))).await, 403);
    assert!(sink.seen().lines.is_empty());
    assert_eq!(sink.number("faultline_ingest_requests_total", "user"), 1.0);
    assert_eq!(sink.number("faultline_ingest_bytes_total", ""), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_body_is_refused_with_any_encoding() {
    let sink = RunningListener::limited(Limits {
        body_bytes: 1_000_000,
        ..LIMITS
    });
    let large = lines(3000);
    assert_eq!(sink.send(&post("", &large)).await, 413);
    assert_eq!(sink.send(&chunked(&large, &[500_000])).await, 413);
    assert_eq!(
        sink.send(&post(
            "Content-Encoding: gzip\r\n",
            &gzip(&vec![b'\n'; 50_000_000])
        ))
        .await,
        413
    );
    assert_eq!(sink.number("faultline_ingest_requests_total", "413"), 3.0);
    assert!(sink.number("faultline_ingest_bytes_total", "") <= 2_000_000.0);
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_request_head_is_refused() {
    let sink = RunningListener::start();
    assert_eq!(
        sink.send(&post(
            &"X-Filler: 0123456789abcdef\r\n".repeat(1000),
            &lines(1)
        ))
        .await,
        431
    );
    assert!(sink.seen().lines.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_db_user_or_password_is_refused_without_naming_which() {
    let required = Credentials {
        db: "d".into(),
        user: "u".into(),
        password: "p".into(),
    };
    let sink = RunningListener::with(Some(required), LIMITS, None);
    let mut answers = Vec::new();
    for wrong in [
        "db=x&u=u&p=p",
        "db=d&u=x&p=p",
        "db=d&u=u&p=x",
        "db=d&u=u&p=",
        "u=u&p=p",
        "db=d&u=u&p=pp",
    ] {
        let push = String::from_utf8(post("Connection: close\r\n", &lines(1))).unwrap();
        let mut client = sink.client().await;
        client
            .write(push.replace("db=d&u=u&p=p", wrong).as_bytes())
            .await;
        answers.push(
            client
                .rest()
                .await
                .lines()
                .filter(|line| !line.starts_with("date:"))
                .collect::<String>(),
        );
    }
    assert!(answers[0].contains(" 401 "), "{answers:?}");
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert!(sink.seen().lines.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_before_a_gzip_error_count() {
    let sink = RunningListener::start();
    let packed = gzip(&lines(1000));
    assert_eq!(
        sink.send(&post(
            "Content-Encoding: gzip\r\n",
            &packed[..packed.len() - 4]
        ))
        .await,
        400
    );
    assert_eq!(sink.counts(), (1000, 0));
    let not_gzip = vec![b'x'; 8_000_000];
    assert_eq!(
        sink.send(&post("Content-Encoding: gzip\r\n", &not_gzip))
            .await,
        400
    );
    assert_eq!(
        sink.send(&post("Content-Encoding: br\r\n", &packed)).await,
        415
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_requests_are_answered_and_unknown_requests_refused() {
    let sink = RunningListener::start();
    assert_eq!(
        sink.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n").await,
        204
    );
    assert_eq!(
        sink.send(b"HEAD /ping HTTP/1.1\r\nHost: x\r\n\r\n").await,
        204
    );
    assert_eq!(
        sink.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await,
        200
    );
    assert_eq!(
        sink.send(b"GET /write HTTP/1.1\r\nHost: x\r\n\r\n").await,
        405
    );
    assert_eq!(
        sink.send(b"POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            .await,
        404
    );
    assert_eq!(
        sink.send(b"POST /a/b/write HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na b\n")
            .await,
        204
    );
    assert_eq!(ResultCode::NotPost.response().0, 405);
    assert_eq!(
        (
            sink.number("faultline_ingest_requests_total", "204"),
            sink.number("faultline_ingest_requests_total", "404")
        ),
        (1.0, 1.0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_expecting_100_continue_gets_it() {
    let sink = RunningListener::start();
    let mut client = sink.client().await;
    client
        .write(
            b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        )
        .await;
    assert_eq!(client.status().await, Some(100));
    client.write(b"a b\n").await;
    assert_eq!(client.status().await, Some(204));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_may_idle_but_a_slow_request_head_closes_it() {
    let sink = RunningListener::limited(Limits {
        head_timeout: Duration::from_millis(200),
        ..LIMITS
    });
    let mut client = sink.client().await;
    for _ in 0..3 {
        client.write(&post("", &lines(1))).await;
        assert_eq!(client.status().await, Some(204));
        // Idle for longer than the timeout of a head.
        let clock = Clock::start();
        until("a while has passed", || {
            clock.now().uptime > Duration::from_millis(400)
        })
        .await;
    }
    client.write(b"POST /write HT").await;
    assert_eq!(client.status().await, None);
    assert_eq!(sink.seen().pushes, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_idles_too_long_is_closed() {
    let sink = RunningListener::limited(Limits {
        idle_timeout: Duration::from_millis(100),
        ..LIMITS
    });
    assert_eq!(sink.client().await.status().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_body_times_out_but_its_received_lines_count() {
    let sink = RunningListener::limited(Limits {
        body_timeout: Duration::from_millis(200),
        ..LIMITS
    });
    let mut client = sink.client().await;
    let request = post("", &lines(10));
    client.write(&request[..request.len() - 1000]).await;
    assert_eq!(client.status().await, Some(408));
    assert_eq!(sink.counts(), (8, 1));
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_writers_do_not_delay_a_normal_push() {
    let sink = RunningListener::start();
    let request = post("", &lines(10));
    let mut slow = Vec::new();
    for _ in 0..64 {
        let mut client = sink.client().await;
        client.write(&request[..request.len() / 2]).await;
        slow.push(client);
    }
    until("all of them are being read", || {
        sink.push_memory.used_bytes() >= 64 * 64 * 1024
    })
    .await;
    let normal =
        tokio::time::timeout(Duration::from_secs(10), sink.send(&post("", &lines(2000)))).await;
    assert_eq!(normal, Ok(204));
    for mut client in slow {
        client.write(&request[request.len() / 2..]).await;
        assert_eq!(client.status().await, Some(204));
    }
    assert_eq!(sink.counts(), (2640, 0));
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_limit_the_longest_idle_connection_is_closed() {
    let sink = RunningListener::limited(Limits {
        tcp_connections: 2,
        ..LIMITS
    });
    let (mut first, mut second) = (sink.client().await, sink.client().await);
    for client in [&mut second, &mut first] {
        client.write(&post("", &lines(1))).await;
        assert_eq!(client.status().await, Some(204));
    }
    assert_eq!(sink.send(&post("", &lines(1))).await, 204);
    assert_eq!(second.status().await, None);
    first.write(&post("", &lines(1))).await;
    assert_eq!(first.status().await, Some(204));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_bodies_release_their_memory() {
    let server = Server::down();
    let sink = RunningListener::with(None, LIMITS, Some(forward_config(server.url(), 1_000_000)));
    let body = lines(80_000);
    let request = post("", &body);
    for _ in 0..3 {
        assert_eq!(sink.send(&request).await, 204);
        sink.seen().lines.clear();
    }
    assert_eq!(
        sink.number("faultline_forward_bytes_total", "lost"),
        3.0 * body.len() as f64
    );
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_in_progress_is_completed_after_the_stop_signal() {
    let sink = RunningListener::start();
    let request = post("", &lines(10));
    let (mut idle, mut busy) = (sink.client().await, sink.client().await);
    busy.write(&request[..1000]).await;
    until("it is being read", || sink.push_memory.used_bytes() > 0).await;
    sink.workers.stop_signal().set();
    assert_eq!(idle.status().await, None);
    busy.write(&request[1000..]).await;
    assert_eq!(busy.status().await, Some(204));
    assert_eq!(sink.seen().lines.len(), 10);
    assert!(sink.workers.end(TIMEOUT).await.is_empty());
}

#[tokio::test]
async fn a_failed_bind_is_explained() {
    let text = |listen: &str| {
        let config = config::Ingest {
            listen: listen.parse().unwrap(),
            ..ingest(None)
        };
        build_listener(&config, Vec::new())
            .err()
            .unwrap()
            .to_string()
    };
    assert!(text("0.0.0.0:0").contains("not a loopback address"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(text(&taken.local_addr().unwrap().to_string()).contains("is in use"));
    let open = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let inherited_tcp = build_listener(
        &ingest(None),
        vec![BoundSocket::inherited_tcp(open).unwrap()],
    );
    assert!(matches!(inherited_tcp.err(), Some(Error::NotLoopback(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_chunking_of_a_body_gives_the_same_lines(
        pieces in prop::collection::vec(
            prop_oneof![Just("a,host_id=A x=1i 5"), Just("\n"), Just("\r\n"), Just("="), Just("\""), Just("b c=\"d\\\" e\""), Just("\u{fc}")],
            0..60,
        ),
        sizes in prop::collection::vec(1_usize..40, 1..8),
    ) {
        let body = pieces.concat().into_bytes();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let sink = RunningListener::start();
            assert_eq!(sink.send(&post("", &body)).await, 204);
            let plain = mem::take(&mut *sink.seen());
            assert_eq!(sink.send(&chunked(&body, &sizes)).await, 204);
            let in_chunks = mem::take(&mut *sink.seen());
            let mut client = sink.client().await;
            client.trickle(&post("Content-Encoding: gzip\r\n", &gzip(&body)), &sizes).await;
            assert_eq!(client.status().await, Some(204));
            let packed = mem::take(&mut *sink.seen());
            assert_eq!((&in_chunks.lines, in_chunks.bad), (&plain.lines, plain.bad));
            assert_eq!((&packed.lines, packed.bad), (&plain.lines, plain.bad));
        });
    }
}
