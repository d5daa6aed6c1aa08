use super::*;
use faultline_core::{publish::Sink, supervisor::WorkerGroup};
use faultline_metrics::{Batch, Reading, Source, metrics};
use faultline_status::Figure;
use http_body_util::BodyExt;
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
};

mod asked;
mod crowded;
mod secured;

/// How long a test waits for a response before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server that runs on its own runtime until it is dropped.
struct Running {
    address: SocketAddr,
    newest_tick: Latest<Tick>,
    history: History,
    clock: Clock,
    auth_failures: AuthFailures,
    workers: Option<WorkerGroup>,
    runtime: tokio::runtime::Runtime,
}

fn state(clock: Clock, newest_tick: &Latest<Tick>) -> WebState {
    WebState {
        clock,
        tick_interval: Duration::from_secs(1),
        newest_tick: newest_tick.clone(),
        history: History::default(),
        status_config: Latest::default(),
        constant_labels: ConstantLabels::new(),
        page_info: PageInfo::new("0.0.0", &TargetSelector::Scan),
        recorder: None,
        flight_recorder: None,
        host_name: Some("node1".to_owned()),
        auth_failures: AuthFailures::new("metrics"),
        dropped_series: DroppedSeries::default(),
    }
}

fn config(web_config: Option<&Path>) -> Metrics {
    Metrics {
        listen: ([127, 0, 0, 1], 0).into(),
        web_config: web_config.map(Path::to_owned),
        ..Metrics::default()
    }
}

fn start(web_config: Option<&Path>) -> Running {
    start_with(web_config, None)
}

fn start_with(
    web_config: Option<&Path>,
    recorder: Option<faultline_recorder::recorder::RecorderHandle>,
) -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (clock, newest_tick) = (Clock::start(), Latest::default());
    let state = WebState {
        recorder,
        ..state(clock, &newest_tick)
    };
    let (auth_failures, history) = (state.auth_failures.clone(), state.history.clone());
    let server = Server::build(&config(web_config), Vec::new(), state).unwrap();
    let address = server.local_addr().unwrap();
    let mut workers = WorkerGroup::new("web", runtime.handle());
    workers.task("web", |stop| server.run(stop));
    Running {
        address,
        newest_tick,
        history,
        clock,
        auth_failures,
        workers: Some(workers),
        runtime,
    }
}

impl Running {
    /// Publishes a present tick with enough readings for compression.
    fn tick(&mut self, number: u64) {
        self.tick_at(number, self.clock.now());
    }

    fn tick_at(&mut self, number: u64, at: faultline_metrics::Stamp) {
        let mut readings = vec![Reading::integer(&metrics::daemon::TICKS, [], number)];
        readings.extend((0..80).map(|pool| {
            Reading::integer(
                &metrics::pools::THREADS,
                [format!("pool{pool}").into()],
                pool,
            )
        }));
        let batch = Batch {
            readings,
            up: true,
            ..Batch::empty(Source::Daemon, at)
        };
        self.newest_tick.receive(&Arc::new(Tick {
            number,
            at,
            batches: vec![Arc::new(batch)],
        }));
    }

    fn get(&self, path: &str, headers: &str) -> Answer {
        self.ask("GET", path, headers)
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        ask(&mut stream, method, path, headers)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            let busy = self.runtime.block_on(workers.end(DEADLINE));
            assert!(
                busy.is_empty() || std::thread::panicking(),
                "{busy:?} did not stop"
            );
        }
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            line.split_once(": ")
                .filter(|(n, _)| n.eq_ignore_ascii_case(name))
                .map(|(_, v)| v)
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Sends a request on a stream and reads until the server closes the stream.
fn ask(stream: &mut dyn Stream, method: &str, path: &str, headers: &str) -> Answer {
    // The server may refuse a head and close the stream before it has read all of it.
    drop(write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    ));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let split = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8(bytes[..split].to_vec()).unwrap();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    Answer {
        status,
        head,
        body: bytes[split + 4..].to_vec(),
    }
}

#[test]
fn metrics_are_served_in_the_requested_format() {
    let mut server = start(None);
    server.tick(7);
    let classic = server.get("/metrics", "");
    assert_eq!(classic.status, 200);
    assert_eq!(
        classic.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert_eq!(classic.header("vary"), Some("Accept, Accept-Encoding"));
    assert!(
        classic.text().contains("\nfaultline_ticks_total 7\n") && !classic.text().contains("# EOF")
    );
    let open = server.get(
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
    );
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().ends_with("# EOF\n"));
}

#[test]
fn only_responses_to_other_hosts_are_compressed() {
    let mut server = start(None);
    server.tick(7);
    let plain = server.get("/metrics", "Accept-Encoding: gzip\r\n");
    assert_eq!(plain.header("content-encoding"), None);
    let site = Router::new(
        state(server.clock, &server.newest_tick),
        None,
        Vec::new(),
        None,
        false,
    );
    let request = hyper::Request::get("/metrics")
        .header("accept-encoding", "gzip")
        .body(())
        .unwrap();
    let other_host = socket::Peer::from_address([192, 0, 2, 1].into());
    let answer = server.runtime.block_on(site.respond(request, other_host));
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let packed = server.runtime.block_on(answer.into_body().collect());
    let packed = packed.unwrap().to_bytes();
    assert!(packed.len() < plain.body.len() / 2);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
}

#[test]
fn every_scrape_sees_the_newest_tick() {
    let mut server = start(None);
    for number in [3, 4] {
        server.tick(number);
        assert!(
            server
                .get("/metrics", "")
                .text()
                .contains(&format!("faultline_ticks_total {number}\n"))
        );
    }
}

#[test]
fn head_is_answered_without_a_body() {
    let mut server = start(None);
    server.tick(1);
    let length = server.get("/metrics", "").body.len().to_string();
    let head = server.ask("HEAD", "/metrics", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(length.as_str()));
}

#[test]
fn the_status_is_versioned_json_of_the_newest_tick() {
    let mut server = start(None);
    server.tick(7);
    let answer = server.get("/status", "");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let status: faultline_status::Status = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(
        (status.version, status.tick, status.stale),
        (faultline_status::JSON_VERSION, 7, None)
    );
}

#[test]
fn the_status_has_the_last_minute_of_levels_and_rates() {
    let mut server = start(None);
    for second in 0..70 {
        let at = faultline_metrics::Stamp {
            uptime: Duration::from_secs(second),
            unix: Duration::from_secs(1_700_000_000 + second),
        };
        let anon = Reading::integer(&metrics::process::RESIDENT, ["anon".into()], second);
        let read = Reading::integer(&metrics::process::IO_BYTES, ["read".into()], 5 * second);
        let batch = Batch {
            readings: vec![anon, read],
            up: true,
            ..Batch::empty(Source::Process, at)
        };
        server.history.receive(&Arc::new(Tick {
            number: second,
            at,
            batches: vec![Arc::new(batch)],
        }));
    }
    server.tick(70);
    let answer = server.get("/status", "");
    let status: faultline_status::Status = serde_json::from_str(answer.text()).unwrap();
    let minute = status.last_minute;
    let ages: Vec<f64> = (0..=60).rev().map(f64::from).collect();
    assert_eq!(minute.ages, ages);
    let anon = (9..70).map(|second| Some(f64::from(second)));
    assert!(minute.values[&Figure::Anon].iter().copied().eq(anon));
    let read = &minute.values[&Figure::ReadBytes];
    assert_eq!((read[0], &read[1..]), (None, &[Some(5.0); 60][..]));
    assert_eq!(minute.values[&Figure::Cpu], [None; 61]);
    assert!(answer.text().len() < 16 << 10);
}

#[test]
fn before_the_first_tick_no_values_are_exposed() {
    let mut server = start(None);
    let metrics = server.get("/metrics", "");
    assert_eq!(metrics.status, 503);
    assert!(metrics.text().contains("No tick yet"));
    assert_eq!(server.get("/readyz", "").status, 503);
    assert_eq!(server.get("/status", "").status, 503);
    assert_eq!(
        server.get("/healthz", "").status,
        200,
        "it has only just begun"
    );
    assert!(server.get("/", "").text().contains("starting"));
    server.tick(1);
    assert_eq!(server.get("/readyz", "").text(), "ready\n");
    assert_eq!(server.get("/healthz", "").text(), "ok\n");
}

#[test]
fn an_unknown_path_or_method_gets_a_helpful_error() {
    let server = start(None);
    let missing = server.get("/favicon.ico", "");
    assert_eq!(missing.status, 404);
    assert!(missing.text().contains("/metrics"));
    let wrong = server.ask("POST", "/metrics", "Content-Length: 0\r\n");
    assert_eq!(
        (wrong.status, wrong.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn the_landing_page_allows_no_scripts_and_is_never_cached() {
    let mut server = start(None);
    server.tick(1);
    let page = server.get("/", "");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .starts_with("default-src 'none'")
    );
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert!(page.text().contains("waiting for a validator"));
}

#[test]
fn an_oversized_request_head_is_refused() {
    let server = start(None);
    let many = "X-Filler: 0123456789abcdef\r\n".repeat(1000);
    assert_eq!(server.get("/healthz", &many).status, 431);
    assert_eq!(
        server.get("/metrics", "X-Filler: 0\r\n").status / 100,
        5,
        "before the first tick: no other refusal"
    );
}

#[test]
fn a_connection_serves_several_requests() {
    let mut server = start(None);
    server.tick(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"\r\n\r\nok\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        first.extend(byte);
    }
    assert!(first.starts_with(b"HTTP/1.1 200"));
    assert_eq!(ask(&mut stream, "GET", "/readyz", "").text(), "ready\n");
}

#[test]
fn an_open_connection_does_not_prevent_server_shutdown() {
    let server = start(None);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /he").unwrap();
    drop(server);
    let mut rest = Vec::new();
    // The server must close or reset the connection.
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(
        !matches!(stream.read_to_end(&mut rest), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    );
}

#[test]
fn a_port_in_use_is_reported_with_its_configuration_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let config = Metrics {
        listen,
        ..Metrics::default()
    };
    let error = Server::build(
        &config,
        Vec::new(),
        state(Clock::start(), &Latest::default()),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains(&listen.to_string())
            && error.contains("metrics.listen")
            && error.contains("another port"),
        "{error}"
    );
}

#[test]
fn a_mark_requires_post_a_name_and_an_active_recording() {
    let idle = start(None);
    assert_eq!(
        idle.ask("POST", "/mark?name=a", "Content-Length: 0\r\n")
            .status,
        404
    );
    let (handle, _recorder) =
        faultline_recorder::recorder::Recorder::new(Clock::start(), Vec::new(), |_| {
            serde_json::Value::Null
        });
    let server = start_with(None, Some(handle));
    let post = |path: &str, headers: &str| {
        server.ask("POST", path, &format!("Content-Length: 0\r\n{headers}"))
    };
    assert_eq!(post("/mark?name=load+begins", "").text(), "marked\n");
    assert_eq!(post("/mark?name=", "").status, 400);
    assert_eq!(post("/mark", "").status, 400);
    assert_eq!(post("/mark?name=a&kind=A+B", "").status, 400);
    assert_eq!(
        post("/mark?name=a", "Sec-Fetch-Site: cross-site\r\n").status,
        403
    );
    assert_eq!(
        post("/mark?name=a", "Sec-Fetch-Site: same-origin\r\n").status,
        200
    );
    // Two of the 60 marks are used already.
    let clock = Clock::start();
    let more: Vec<u16> = (0..90).map(|_| post("/mark?name=a", "").status).collect();
    let allowed = more.iter().filter(|status| **status == 200).count();
    let one_a_second = 2 + clock.now().uptime.as_secs() as usize;
    assert!((58..=58 + one_a_second).contains(&allowed), "{more:?}");
    assert!(more.iter().all(|status| [200, 429].contains(status)));
    let got = server.get("/mark?name=a", "");
    assert_eq!((got.status, got.header("allow")), (405, Some("POST")));
}

#[test]
fn flight_save_requires_a_same_site_post_and_an_enabled_recorder() {
    let server = start(None);
    let post = |headers: &str| {
        server.ask(
            "POST",
            "/flight/save?reason=a",
            &format!("Content-Length: 0\r\n{headers}"),
        )
    };
    assert_eq!(post("").status, 409);
    assert_eq!(post("Sec-Fetch-Site: cross-site\r\n").status, 403);
    assert_eq!(server.get("/flight/save", "").status, 405);
}
