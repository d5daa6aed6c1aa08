//! Measures the CPU time per line on captured traffic of a real follower. One case passes the lines
//! to the intake. The other sends pushes of 3,000 lines over one loopback connection to the real
//! listener, which has its own thread.
//!
//! Usage: `cargo bench -p faultlined --bench ingest`. It needs the captures next to the checkout,
//! or a file of line protocol: `-- FILE.lp`. It prints the median and the slowest of the rounds,
//! and the maximum growth of memory. Over HTTP, only the listener's thread counts. Every line has a
//! different time, so none is a duplicate.
//!
//! "Allowed" lines are those of `[[datapoints.allow]]`. There are three sets: the first numeric
//! field of every datapoint that has no type, all numeric fields of datapoints with at least 16 of
//! them, and all numeric fields of a datapoint with a tag.
#![expect(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a benchmark may stop, and its numbers are approximate"
)]

use faultline_agave::line::{LineSplitter, Point, host_id_of, name_of};
use faultline_core::{
    clock::Clock,
    config::{self, AllowedDatapoint, Credentials, DatapointKind, Datapoints},
    push_memory::PushMemoryBudget,
    supervisor::WorkerGroup,
};
use faultline_datapoints::{
    ingest::{IngestCounters, Listener},
    validator::{intake::Intake, tally::is_builtin},
};
use faultline_metrics::metrics::daemon::INGEST_BYTES;
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// hyper's read buffer in the listener.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// About the lines that a validator pushes in 10 s.
const LINES_PER_PUSH: usize = 3000;
const ROUNDS: usize = 9;
/// Short captures are repeated up to this size.
const MIN_BODY_BYTES: usize = 64 * 1024 * 1024;

const MANY_FIELDS: usize = 16;

fn main() {
    let Some(capture) = load() else {
        println!("no captures beside the checkout and no file given: nothing is measured");
        return;
    };
    let all = cases(&capture);
    compare_connections(&all[0]);
    for case in &all {
        let body = repeated(&case.body);
        let mut line_count = 0;
        report(
            &format!("direct, {}", case.name),
            &body,
            case.budget,
            ClockId::ThreadCPUTime,
            |body| {
                line_count += count_direct_lines(case, body);
            },
        );
        assert_eq!(line_count, (count_lines(&body) * ROUNDS) as u64);
    }
    for case in &all {
        let body = repeated(&case.body);
        let server = Server::start(case, None);
        let pushes = pushes(&body);
        let mut stream = server.connect();
        report(
            &format!("over HTTP, {}", case.name),
            &body,
            None,
            ClockId::ProcessCPUTime,
            |_| {
                pushes.iter().for_each(|push| stream.push(push));
            },
        );
        assert_eq!(server.parsed_bytes(), (body.len() * ROUNDS) as f64);
        server.end();
    }
}

struct Case {
    name: &'static str,
    body: Vec<u8>,
    datapoints: Datapoints,
    /// Microseconds of CPU per line.
    budget: Option<f64>,
}

/// The lines of datapoints that have allowed fields.
fn allowed(
    name: &'static str,
    ignored: &[u8],
    fields: &BTreeMap<String, Vec<String>>,
    tag: Option<&str>,
) -> Case {
    let wanted = |line: &[u8]| {
        name_of(line).is_some_and(|name| fields.keys().any(|key| key.as_bytes() == name))
    };
    let allow = fields
        .iter()
        .flat_map(|(name, fields)| fields.iter().map(move |field| (name, field)));
    let tags: Vec<String> = tag.iter().map(|tag| (*tag).to_owned()).collect();
    let kind = if tag.is_some() {
        DatapointKind::Level
    } else {
        DatapointKind::Delta
    };
    let allow = allow.map(|(name, field)| AllowedDatapoint {
        name: name.clone(),
        field: field.clone(),
        kind,
        tags: tags.clone(),
    });
    let datapoints = Datapoints {
        allow: allow.collect(),
        max_series: 10_000,
    };
    Case {
        name,
        body: partition_lines(ignored, wanted).0,
        datapoints,
        budget: Some(2.0),
    }
}

fn cases(capture: &[u8]) -> Vec<Case> {
    let (known, ignored) = partition_lines(capture, |line| name_of(line).is_some_and(is_builtin));
    println!(
        "capture: {} lines, {} of them known",
        count_lines(capture),
        count_lines(&known)
    );
    let fields = numeric_fields(&ignored);
    let first = |fields: &[String]| fields.iter().take(1).cloned().collect();
    let many = |fields: &[String]| {
        if fields.len() >= MANY_FIELDS {
            fields.to_vec()
        } else {
            Vec::new()
        }
    };
    let allowed = |name, choose: &dyn Fn(&[String]) -> Vec<String>, tag: Option<(&str, &str)>| {
        let fields = fields
            .iter()
            .map(|(point, fields)| (point.clone(), choose(fields)))
            .filter(|(point, fields)| !fields.is_empty() && tag.is_none_or(|(of, _)| of == point))
            .collect();
        allowed(name, &ignored, &fields, tag.map(|(_, tag)| tag))
    };
    let plain = |name, body, budget| Case {
        name,
        body,
        datapoints: Datapoints::default(),
        budget,
    };
    vec![
        plain("ignored", ignored.clone(), Some(1.0)),
        plain("known", known, Some(2.5)),
        plain("as captured", capture.to_vec(), None),
        allowed("allowed, one field", &first, None),
        allowed("allowed, many fields", &many, None),
        allowed(
            "allowed, with a tag",
            &<[String]>::to_vec,
            Some(("blockstore_rocksdb_cfs", "cf_name")),
        ),
    ]
}

/// Names of the fields that hold numbers, by the datapoint's name.
fn numeric_fields(body: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in body.split(|&byte| byte == b'\n') {
        let Ok(point) = Point::parse(line) else {
            continue;
        };
        let fields = names.entry(point.name().to_owned()).or_default();
        for field in point.fields().flatten() {
            let number = field.value().is_ok_and(|value| value.number().is_some());
            if number && !fields.iter().any(|known| known == field.key) {
                fields.push(field.key.to_owned());
            }
        }
    }
    names
}

fn sender(body: &[u8]) -> String {
    String::from_utf8_lossy(
        name_of(body)
            .and_then(|name| host_id_of(body, name))
            .unwrap_or_default(),
    )
    .into_owned()
}

/// An intake that knows the identity of the sender.
fn intake(case: &Case) -> Intake {
    let intake = Intake::new(&case.datapoints);
    intake.follow_validator(None);
    intake.set_reported_identity(&sender(&case.body), Clock::start().now());
    intake
}

/// Passes the lines through the splitter to the intake, as the listener does. Returns their number.
fn count_direct_lines(case: &Case, body: &[u8]) -> u64 {
    let (intake, clock) = (intake(case), Clock::start());
    let mut push = intake.begin_trusted(clock.now());
    let mut splitter = LineSplitter::new();
    let mut lines = 0;
    for chunk in body.chunks(READ_BUFFER_BYTES) {
        splitter.feed(black_box(chunk), |line| {
            lines += 1;
            match line {
                Ok(line) => push.add_line(line),
                Err(_) => push.count_bad_line(),
            }
        });
    }
    intake.commit(push, clock.now());
    lines
}

/// Nanoseconds of this CPU clock. For the clock of the process, without this thread.
fn cpu_nanoseconds(clock: ClockId) -> f64 {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let others = matches!(clock, ClockId::ProcessCPUTime);
    nanos(clock)
        - if others {
            nanos(ClockId::ThreadCPUTime)
        } else {
            0.0
        }
}

fn report(
    what: &str,
    body: &[u8],
    budget: Option<f64>,
    clock: ClockId,
    mut run: impl FnMut(&[u8]),
) {
    let count = count_lines(body) as f64;
    // Sets the peak to the present size.
    fs::write("/proc/self/clear_refs", "5").expect("own memory");
    let before = memory_kib("VmRSS");
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu_nanoseconds(clock);
            run(body);
            (cpu_nanoseconds(clock) - start) / count / 1e3
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let median = rounds[ROUNDS / 2];
    let verdict = match budget {
        None => String::new(),
        Some(budget) if median <= budget => format!(", within {budget:.1}"),
        Some(budget) => format!(", OVER {budget:.1}"),
    };
    let grown = memory_kib("VmHWM").saturating_sub(before);
    let (slowest, bytes) = (rounds[ROUNDS - 1], body.len() as f64 / count);
    println!(
        "{what}: {median:.3} us of CPU a line of {bytes:.0} bytes, slowest {slowest:.3}{verdict}; memory grew by {grown} KiB"
    );
}

/// Compares the cost of a new connection: with a check of the user, and with a password. Rounds of
/// both alternate.
fn compare_connections(case: &Case) {
    const CONNECTIONS: u32 = 500;
    let password = Credentials {
        db: "d".to_owned(),
        user: "u".to_owned(),
        password: "p".to_owned(),
    };
    let servers = [Some(password), None].map(|password| Server::start(case, password));
    let mut costs = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (server, costs) in servers.iter().zip(&mut costs) {
            let start = cpu_nanoseconds(ClockId::ProcessCPUTime);
            (0..CONNECTIONS).for_each(|_| server.connect().push(b"a b=1 1\n"));
            costs.push(
                (cpu_nanoseconds(ClockId::ProcessCPUTime) - start) / f64::from(CONNECTIONS) / 1e3,
            );
        }
    }
    let [password, user] = costs.map(|mut costs: Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs[ROUNDS / 2]
    });
    println!(
        "a connection and its push: {user:.1} us of CPU where the user decides, {password:.1} where a password does"
    );
    servers.into_iter().for_each(Server::end);
}

/// The real listener on a runtime of one thread.
struct Server {
    runtime: tokio::runtime::Runtime,
    workers: WorkerGroup,
    counters: IngestCounters,
    address: std::net::SocketAddr,
}

impl Server {
    fn start(case: &Case, credentials: Option<Credentials>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let config = config::Ingest {
            listen: ([127, 0, 0, 1], 0).into(),
            credentials,
            ..config::Ingest::default()
        };
        let (clock, memory) = (Clock::start(), PushMemoryBudget::default());
        let listener = Listener::build(&config, Vec::new(), intake(case), clock, memory, None)
            .expect("a free port");
        let (address, counters) = (
            listener.local_addr().expect("an address"),
            listener.counters(),
        );
        let mut workers = WorkerGroup::new("ingest", runtime.handle());
        workers.task("ingest", |stop| listener.run(stop));
        Self {
            runtime,
            workers,
            counters,
            address,
        }
    }

    fn connect(&self) -> PushConnection {
        let stream = TcpStream::connect(self.address).expect("the listener");
        stream.set_nodelay(true).expect("a socket option");
        PushConnection(stream)
    }

    /// Bytes that the server has parsed.
    fn parsed_bytes(&self) -> f64 {
        let mut readings = Vec::new();
        self.counters.add_readings(&mut readings);
        let bytes = readings
            .iter()
            .find(|reading| reading.metric.name == INGEST_BYTES.name)
            .expect("a known counter");
        bytes.value.number().expect("a number")
    }

    fn end(self) {
        let busy = self
            .runtime
            .block_on(self.workers.end(Duration::from_secs(10)));
        assert!(busy.is_empty());
    }
}

struct PushConnection(TcpStream);

impl PushConnection {
    fn push(&mut self, body: &[u8]) {
        let head = format!(
            "POST /write?db=d&u=u&p=p&precision=n HTTP/1.1\r\nHost: b\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0
            .write_all(head.as_bytes())
            .expect("a listener that reads");
        self.0.write_all(body).expect("a listener that reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut buffer = [0; 512];
            let n = self.0.read(&mut buffer).expect("an answer");
            assert!(n > 0, "the listener hung up");
            answer.extend_from_slice(&buffer[..n]);
        }
        assert!(
            answer.starts_with(b"HTTP/1.1 204"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
}

fn pushes(body: &[u8]) -> Vec<Vec<u8>> {
    let all: Vec<&[u8]> = body.split_inclusive(|&byte| byte == b'\n').collect();
    all.chunks(LINES_PER_PUSH).map(<[&[u8]]>::concat).collect()
}

/// The wanted lines, and the other lines.
fn partition_lines(body: &[u8], wanted: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Vec<u8>) {
    let lines = body.split_inclusive(|&byte| byte == b'\n');
    let (wanted, others): (Vec<&[u8]>, Vec<&[u8]>) = lines.partition(|line| wanted(line));
    (wanted.concat(), others.concat())
}

/// Repeats the body up to [`MIN_BODY_BYTES`]. The last digits of each line's time are its number.
fn repeated(body: &[u8]) -> Vec<u8> {
    const DIGITS: usize = 7;
    let mut whole = body.repeat((MIN_BODY_BYTES / body.len().max(1)).max(1));
    for (number, line) in whole.split_mut(|&byte| byte == b'\n').enumerate() {
        let end = line.len();
        if end > DIGITS && line[end - DIGITS..].iter().all(u8::is_ascii_digit) {
            line[end - DIGITS..].copy_from_slice(format!("{:07}", number % 10_000_000).as_bytes());
        }
    }
    whole
}

fn count_lines(body: &[u8]) -> usize {
    body.iter().filter(|&&byte| byte == b'\n').count()
}

fn memory_kib(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("own status");
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a known line");
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a number of KiB")
}

fn load() -> Option<Vec<u8>> {
    if let Some(file) = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
    {
        return Some(fs::read(file).expect("a readable file"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agave/captures");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.retain(|file| file.to_string_lossy().contains("follower-cache512"));
    let bytes = fs::read(files.first()?).expect("a readable file");
    let mut body = Vec::new();
    let mut reader =
        ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).expect("a zstd file");
    reader.read_to_end(&mut body).expect("a whole zstd file");
    Some(body)
}
