//! Lines a second that come in, on captured traffic of a real follower: straight into the intake on one core, and whole,
//! as pushes of 3,000 lines over one loopback connection to the real listener, which runs on one thread of its own.
//!
//! Usage: `cargo bench -p faultlined --bench ingest`. Needs the captures beside the checkout, or a file of line protocol:
//! `-- FILE.lp`. The slowest and the median of the rounds, and by how much memory grew at most meanwhile. Over HTTP the
//! clock stops when the answer to the last push is there, which is after its last line was taken.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a benchmark measures time, may stop, and its numbers are approximate"
)]

use faultline_agave::line::LineSplitter;
use faultline_agave::points::Kind;
use faultline_catalog::metrics::daemon::INGEST_BYTES;
use faultlined::budget::Budget;
use faultlined::clock::Clock;
use faultlined::config;
use faultlined::ingest::{IngestParts, Listener, Meter};
use faultlined::supervisor::Stage;
use faultlined::validator::intake::Intake;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// hyper's read buffer in the listener.
const CHUNK: usize = 16 * 1024;
/// What a validator pushes in 10 s, about.
const LINES_PER_PUSH: usize = 3000;
const ROUNDS: usize = 9;
/// Short captures are repeated up to this size.
const ENOUGH: usize = 64 * 1024 * 1024;

fn main() {
    let Some(capture) = load() else {
        println!("no captures beside the checkout and no file given: nothing is measured");
        return;
    };
    let (known, ignored) = parted(&capture);
    println!("capture: {} lines, {} of them known", lines(&capture), lines(&known));
    let bodies = [("ignored", ignored, 1e6), ("known", known, 4e5), ("as captured", capture, f64::NAN)];
    for (what, body, budget) in &bodies {
        let body = repeated(body);
        let mut taken = 0;
        report(&format!("direct, {what}"), &body, *budget, |body| taken += direct(body));
        assert_eq!(taken, (lines(&body) * ROUNDS) as u64);
    }
    let server = Server::start();
    let mut sent = 0;
    for (what, body, _) in &bodies {
        let body = repeated(body);
        let pushes = pushes(&body);
        sent += body.len() * ROUNDS;
        let mut stream = server.connect();
        report(&format!("over HTTP, {what}"), &body, f64::NAN, |_| pushes.iter().for_each(|push| stream.push(push)));
    }
    assert_eq!(server.taken(), sent as f64);
    server.end();
}

/// Splitter and intake, as the listener drives them; how many lines there were.
fn direct(body: &[u8]) -> u64 {
    let (intake, clock) = (Intake::new(&config::Datapoints::default()), Clock::start());
    let mut push = intake.begin(clock.now());
    let mut splitter = LineSplitter::new();
    for chunk in body.chunks(CHUNK) {
        splitter.feed(black_box(chunk), |line| match line {
            Ok(line) => push.line(line),
            Err(_) => push.bad_line(),
        });
    }
    let lines = push.lines();
    intake.commit(push, clock.now());
    lines
}

fn report(what: &str, body: &[u8], budget: f64, mut run: impl FnMut(&[u8])) {
    let count = lines(body) as f64;
    // Makes the peak the present size.
    std::fs::write("/proc/self/clear_refs", "5").expect("own memory");
    let before = status("VmRSS");
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            run(body);
            count / start.elapsed().as_secs_f64()
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let median = rounds[ROUNDS / 2];
    let verdict = match budget {
        budget if budget.is_nan() => String::new(),
        budget if median >= budget => format!(", within the budget of {budget:.0}"),
        budget => format!(", UNDER the budget of {budget:.0}"),
    };
    let grown = status("VmHWM").saturating_sub(before);
    println!("{what}: median {median:.0}, slowest {:.0} lines/s{verdict}; memory grew by {grown} KiB", rounds[0]);
}

/// The real listener on a runtime of one thread.
struct Server {
    runtime: tokio::runtime::Runtime,
    stage: Stage,
    meter: Meter,
    address: std::net::SocketAddr,
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let config = config::Ingest { listen: ([127, 0, 0, 1], 0).into(), ..config::Ingest::default() };
        let intake = Intake::new(&config::Datapoints::default());
        let parts = IngestParts { intake, clock: Clock::start(), budget: Budget::default(), forward: None };
        let listener = Listener::build(&config, parts).expect("a free port");
        let (address, meter) = (listener.local_addr().expect("an address"), listener.meter());
        let mut stage = Stage::new("ingest", runtime.handle());
        stage.task("ingest", |stop| listener.run(stop));
        Server { runtime, stage, meter, address }
    }

    fn connect(&self) -> Pusher {
        let stream = TcpStream::connect(self.address).expect("the listener");
        stream.set_nodelay(true).expect("a socket option");
        Pusher(stream)
    }

    /// Bytes it has parsed.
    fn taken(&self) -> f64 {
        let mut readings = Vec::new();
        self.meter.readings(&mut readings);
        let bytes = readings.iter().find(|reading| reading.metric.name == INGEST_BYTES.name).expect("a known counter");
        bytes.value.number().expect("a number")
    }

    fn end(self) {
        let busy = self.runtime.block_on(self.stage.end(Duration::from_secs(10)));
        assert!(busy.is_empty());
    }
}

struct Pusher(TcpStream);

impl Pusher {
    fn push(&mut self, body: &[u8]) {
        let head = format!(
            "POST /write?db=d&u=u&p=p&precision=n HTTP/1.1\r\nHost: b\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(head.as_bytes()).expect("a listener that reads");
        self.0.write_all(body).expect("a listener that reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut room = [0; 512];
            let n = self.0.read(&mut room).expect("an answer");
            assert!(n > 0, "the listener hung up");
            answer.extend_from_slice(&room[..n]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 204"), "{}", String::from_utf8_lossy(&answer));
    }
}

fn pushes(body: &[u8]) -> Vec<Vec<u8>> {
    let all: Vec<&[u8]> = body.split_inclusive(|&byte| byte == b'\n').collect();
    all.chunks(LINES_PER_PUSH).map(<[&[u8]]>::concat).collect()
}

/// Lines the daemon reads, and lines it passes over.
fn parted(capture: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let lines = capture.split_inclusive(|&byte| byte == b'\n');
    let (known, ignored): (Vec<&[u8]>, Vec<&[u8]>) = lines.partition(|line| Kind::of_line(line).is_some());
    (known.concat(), ignored.concat())
}

fn repeated(body: &[u8]) -> Vec<u8> {
    body.repeat((ENOUGH / body.len().max(1)).max(1))
}

fn lines(body: &[u8]) -> usize {
    body.iter().filter(|&&byte| byte == b'\n').count()
}

fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("own status");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a known line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
}

fn load() -> Option<Vec<u8>> {
    if let Some(file) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) {
        return Some(std::fs::read(file).expect("a readable file"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/agave/captures");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().contains("follower-cache512"));
    let bytes = std::fs::read(files.first()?).expect("a readable file");
    let mut body = Vec::new();
    let mut reader = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).expect("a zstd file");
    reader.read_to_end(&mut body).expect("a whole zstd file");
    Some(body)
}
