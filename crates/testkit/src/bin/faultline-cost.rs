//! What the daemon costs: milliseconds of CPU a second beside a process with so many threads, and how long a scrape takes.
//!
//! The target is the simulated validator with idle threads beside its own, which answers JSON-RPC and the admin socket
//! and pushes every 10 s. The daemon runs with its defaults and is scraped once a second as Prometheus does it: on a
//! connection that stays open, OpenMetrics, gzip. With several daemons their blocks alternate, so that all see the same
//! machine.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it reads the clock and waits"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use faultline_testkit::daemon::Daemon;
use faultline_testkit::ports::PortBlock;
use faultline_testkit::process::{Program, Running};
use faultline_testkit::program;
use faultline_testkit::simulated::TRUTH_VARIABLE;
use faultline_testkit::{Error, Result};

/// The first look opens everything.
const SETTLING: Duration = Duration::from_secs(12);
/// `Host` is an address: of names the daemon answers only those it has been given.
const REQUEST: &str = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\
    Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n\r\n";

/// Measures the daemon's CPU and scrapes beside a simulated validator.
#[derive(Debug, clap::Parser)]
struct Arguments {
    /// Idle threads of the target; may be given again
    #[arg(long, value_name = "N", default_values_t = [0, 600, 2000])]
    threads: Vec<u64>,
    /// So many of a hundred of them wake once a second
    #[arg(long, value_name = "N", default_value_t = 0)]
    waking: u64,
    /// Length of a block
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u64,
    /// Blocks of each daemon
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u64,
    /// Validators with stake, of which the target is one (0: it has none)
    #[arg(long, value_name = "N", default_value_t = 0)]
    voters: u64,
    /// The daemon's configuration (default: none); may be given again, to compare
    #[arg(long = "config", value_name = "FILE")]
    configs: Vec<String>,
    /// The program; may be given again, to compare: each with each configuration
    #[arg(long = "daemon", value_name = "FILE", default_values_t = [program::beside("faultlined").display().to_string()])]
    daemons: Vec<String>,
    /// The simulated validator
    #[arg(long, value_name = "FILE", default_value_os_t = program::beside("faultline-simulated-validator"))]
    validator: PathBuf,
}

fn main() -> ExitCode {
    program::main("faultline-cost", |arguments| run(&arguments))
}

/// What was measured of one daemon beside one target.
#[derive(Default)]
struct Measured {
    /// Milliseconds of CPU a second, of each block.
    cpu: Vec<f64>,
    /// The same in all blocks together, by the name of the daemon's thread.
    by_thread: BTreeMap<String, f64>,
    /// Milliseconds of each scrape.
    scrapes: Vec<f64>,
    /// Series of the last page.
    series: usize,
    /// The most memory that any of the daemons had, in KiB.
    peak: u64,
}

/// What is compared.
struct Subject<'a> {
    daemon: &'a str,
    config: Option<&'a str>,
}

impl Subject<'_> {
    fn name(&self) -> String {
        [Some(self.daemon), self.config]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    println!(
        "| threads | daemon | CPU, ms/s | of each block | scrape p50, ms | p99, ms | series | peak, MiB | by thread, ms/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let configs = arguments.configs.iter().map(|config| Some(config.as_str()));
    let configs: Vec<_> = if arguments.configs.is_empty() {
        vec![None]
    } else {
        configs.collect()
    };
    let of = |daemon| {
        configs.iter().map(move |config| Subject {
            daemon,
            config: *config,
        })
    };
    let subjects: Vec<Subject<'_>> = arguments
        .daemons
        .iter()
        .flat_map(|daemon| of(daemon.as_str()))
        .collect();
    for &threads in &arguments.threads {
        let mut all: Vec<Measured> = subjects.iter().map(|_| Measured::default()).collect();
        for _ in 0..arguments.rounds {
            for (subject, measured) in subjects.iter().zip(&mut all) {
                block(arguments, threads, subject, measured)?;
            }
        }
        for (subject, measured) in subjects.iter().zip(&mut all) {
            print(
                threads,
                subject,
                measured,
                (arguments.rounds * arguments.seconds) as f64,
            );
        }
    }
    Ok(())
}

fn print(threads: u64, subject: &Subject<'_>, measured: &mut Measured, seconds: f64) {
    let mean = measured.cpu.iter().sum::<f64>() / measured.cpu.len().max(1) as f64;
    let blocks: Vec<String> = measured.cpu.iter().map(|cpu| format!("{cpu:.2}")).collect();
    let parts = measured
        .by_thread
        .iter()
        .map(|(name, ms)| format!("{name} {:.2}", ms / seconds));
    let parts = parts.collect::<Vec<_>>().join(", ");
    measured.scrapes.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = ((measured.scrapes.len() as f64 - 1.0) * share).round() as usize;
        measured.scrapes.get(place).copied().unwrap_or(f64::NAN)
    };
    let (name, blocks, peak) = (
        subject.name(),
        blocks.join(", "),
        measured.peak as f64 / 1024.0,
    );
    let (p50, p99, series) = (at(0.5), at(0.99), measured.series);
    println!(
        "| {threads} | {name} | {mean:.2} | {blocks} | {p50:.2} | {p99:.2} | {series} | {peak:.1} | {parts} |"
    );
}

/// A daemon and a target of their own, from their start to their end.
#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
fn block(
    arguments: &Arguments,
    threads: u64,
    subject: &Subject<'_>,
    measured: &mut Measured,
) -> Result<()> {
    let folder =
        tempfile::tempdir().map_err(|error| cannot(Path::new("a temporary folder"), error))?;
    let ports = PortBlock::claim(20_000)?;
    let (ledger, push, rpc) = (folder.path().join("ledger"), ports.port(1), ports.port(2));
    let (waking, voters) = (arguments.waking, arguments.voters);
    let truth = format!(
        "threads={threads},waking_percent={waking},voters={voters},push_ms=10000,slots_per_second=3"
    );
    let metrics = format!("host=http://127.0.0.1:{push},db=d,u=u,p=p");
    let _target = Running::start(&Program {
        path: arguments.validator.clone(),
        arguments: [
            "--ledger",
            &ledger.display().to_string(),
            "--rpc-port",
            &rpc.to_string(),
        ]
        .map(str::to_owned)
        .into(),
        environment: vec![
            (TRUTH_VARIABLE.to_owned(), Some(truth)),
            ("SOLANA_METRICS_CONFIG".to_owned(), Some(metrics)),
        ],
        output: folder.path().join("validator.log"),
    })?;
    let (ledger, push) = (ledger.display().to_string(), format!("127.0.0.1:{push}"));
    let mut options = vec!["--ledger", &ledger, "--ingest", &push];
    options.extend(
        subject
            .config
            .iter()
            .flat_map(|config| ["--config", config]),
    );
    let daemon = Daemon::start(subject.daemon, &options, folder.path())?;
    std::thread::sleep(SETTLING);
    let mut connection = Connection::open(daemon.metrics())?;
    connection.scrape()?;
    let before = cpu(daemon.pid())?;
    let began = Instant::now();
    for second in 1..=arguments.seconds {
        std::thread::sleep(
            (began + Duration::from_secs(second)).saturating_duration_since(Instant::now()),
        );
        measured
            .scrapes
            .push(connection.scrape()?.as_secs_f64() * 1e3);
    }
    let after = cpu(daemon.pid())?;
    let mut total = 0.0;
    for (name, ms) in after {
        let spent = ms - before.get(&name).copied().unwrap_or_default();
        *measured.by_thread.entry(name).or_default() += spent;
        total += spent;
    }
    measured.cpu.push(total / began.elapsed().as_secs_f64());
    measured.series = daemon
        .page()?
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .count();
    measured.peak = measured.peak.max(peak(daemon.pid())?);
    daemon.stop()?;
    Ok(())
}

/// A connection to the daemon that stays open.
struct Connection {
    stream: TcpStream,
    address: String,
    answer: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let broken = |source| Error::Connection {
            address: address.to_owned(),
            source,
        };
        let stream = TcpStream::connect(address).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .map_err(broken)?;
        Ok(Connection {
            stream,
            address: address.to_owned(),
            answer: Vec::new(),
        })
    }

    /// How long the whole answer took.
    fn scrape(&mut self) -> Result<Duration> {
        let address = self.address.clone();
        let broken = |source| Error::Connection {
            address: address.clone(),
            source,
        };
        let began = Instant::now();
        self.stream.write_all(REQUEST.as_bytes()).map_err(broken)?;
        self.answer.clear();
        let mut room = [0; 65536];
        loop {
            let n = self.stream.read(&mut room).map_err(broken)?;
            if n == 0 {
                return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.answer.extend_from_slice(&room[..n]);
            if whole(&self.answer) {
                let took = began.elapsed();
                return if self.answer.starts_with(b"HTTP/1.1 200 ") {
                    Ok(took)
                } else {
                    Err(self.refused())
                };
            }
        }
    }

    /// Anything but a page is no measurement.
    fn refused(&self) -> Error {
        let text = String::from_utf8_lossy(&self.answer)
            .chars()
            .take(200)
            .collect();
        Error::Malformed {
            what: "a scrape is answered with 200",
            text,
        }
    }
}

/// Whether an answer with a Content-Length is all there.
fn whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

fn cannot(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// The most memory that a process had resident so far, in KiB.
fn peak(pid: u32) -> Result<u64> {
    let file = PathBuf::from(format!("/proc/{pid}/status"));
    let status = std::fs::read_to_string(&file).map_err(|error| cannot(&file, error))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    let number = line
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    number.ok_or_else(|| Error::Malformed {
        what: "a status has VmHWM",
        text: line.to_owned(),
    })
}

/// Milliseconds of CPU so far, by the name of the thread.
fn cpu(pid: u32) -> Result<BTreeMap<String, f64>> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(&folder)
        .map_err(|error| cannot(&folder, error))?
        .flatten()
    {
        let read =
            |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let nanos = read("schedstat")
            .split(' ')
            .next()
            .and_then(|word| word.parse::<f64>().ok());
        *threads
            .entry(read("comm").trim_end().to_owned())
            .or_default() += nanos.unwrap_or_default() / 1e6;
    }
    Ok(threads)
}
