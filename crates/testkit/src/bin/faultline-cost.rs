//! Measures the cost of the daemon: milliseconds of CPU per second by the target's number of threads, and scrape times.
//!
//! The target is the simulated validator with additional idle threads. It answers JSON-RPC and the admin socket, and pushes
//! every 10 s. The daemon runs with its defaults and is scraped once a second as by Prometheus: over one connection, with
//! OpenMetrics and gzip. Blocks of several daemons alternate, so that a drift of the machine affects all.
//!
//! Next to each daemon runs a program that only reads: each second the process's and the host's files, every 5 s `stat` and
//! `schedstat` of each thread. The ratio of the daemon's CPU to its CPU depends little on the machine and its load.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it reads the clock and waits"
)]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hint::black_box,
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use faultline_testkit::{
    Error, Result,
    daemon::Daemon,
    ports::PortBlock,
    process::{Program, Running},
    program,
    simulated::TRUTH_VARIABLE,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Time in which the daemon opens all files.
const SETTLING: Duration = Duration::from_secs(12);
/// `Host` is an address, because the daemon accepts only configured names.
const REQUEST: &str = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\
    Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n\r\n";

/// Measures the daemon's CPU, memory and scrape times next to a simulated validator.
/// Exits with 1 if a value is over its budget.
#[derive(Debug, clap::Parser)]
struct Arguments {
    /// Idle threads of the target; repeatable
    #[arg(long, value_name = "N", default_values_t = [0, 600, 2000])]
    threads: Vec<u64>,
    /// Percentage of these threads that wake once a second
    #[arg(long, value_name = "N", default_value_t = 0)]
    waking: u64,
    /// Length of a block in seconds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Blocks of each daemon
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Validators with stake, including the target (0: it has none)
    #[arg(long, value_name = "N", default_value_t = 0)]
    voters: u64,
    /// Maximum CPU of the daemon, as a multiple of the reading program's; once for each --threads
    #[arg(long = "budget", value_name = "RATIO")]
    budgets: Vec<f64>,
    /// Maximum anonymous memory of the daemon at the end of a block
    #[arg(long, value_name = "MB")]
    anon_budget: Option<f64>,
    /// The daemon's configuration (default: none); repeatable, to compare several
    #[arg(long = "config", value_name = "FILE")]
    configs: Vec<String>,
    /// The daemon's program; repeatable, to compare several, each with each configuration
    #[arg(long = "daemon", value_name = "FILE", default_values_t = [program::sibling_program("faultlined").display().to_string()])]
    daemons: Vec<String>,
    /// The simulated validator's program
    #[arg(long, value_name = "FILE", default_value_os_t = program::sibling_program("faultline-simulated-validator"))]
    validator: PathBuf,
    /// Only read the files of this process, forever
    #[arg(long, value_name = "PID", hide = true)]
    bare: Option<u32>,
}

fn main() -> ExitCode {
    program::main("faultline-cost", |arguments: Arguments| {
        match arguments.bare {
            Some(pid) => bare(pid),
            None => run(&arguments),
        }
    })
}

/// Measurements of one daemon with one target.
#[derive(Default)]
struct Measured {
    /// Milliseconds of CPU per second in each block.
    cpu: Vec<f64>,
    /// The same of the program that only reads.
    bare: Vec<f64>,
    /// Milliseconds of CPU of the daemon's threads by name, summed over all blocks.
    by_thread: BTreeMap<String, f64>,
    /// Milliseconds of each scrape.
    scrapes: Vec<f64>,
    /// Series of the last page.
    series: usize,
    /// Maximum resident memory over all blocks, in KiB.
    peak: u64,
    /// Maximum anonymous memory at the end of a block, in KiB.
    anon: u64,
}

/// One of the compared daemons.
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
        "| threads | daemon | CPU, ms/s | bare reads, ms/s | ratio | of each block | scrape p50, ms | p99, ms | series | peak, MiB | anon, MB | by thread, ms/s |"
    );
    println!("|{}", " --- |".repeat(12));
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
    let mut is_over = false;
    for (at, &threads) in arguments.threads.iter().enumerate() {
        let mut all: Vec<Measured> = subjects.iter().map(|_| Measured::default()).collect();
        for _ in 0..arguments.rounds {
            for (subject, measured) in subjects.iter().zip(&mut all) {
                block(arguments, threads, subject, measured)?;
            }
        }
        for (subject, measured) in subjects.iter().zip(&mut all) {
            is_over |= print(
                threads,
                subject,
                measured,
                (arguments.rounds * arguments.seconds) as f64,
                (arguments.budgets.get(at).copied(), arguments.anon_budget),
            );
        }
    }
    match is_over {
        true => Err(Error::OverBudget),
        false => Ok(()),
    }
}

/// Returns whether a value is over its budget.
fn print(
    threads: u64,
    subject: &Subject<'_>,
    measured: &mut Measured,
    seconds: f64,
    (budget, anon_budget): (Option<f64>, Option<f64>),
) -> bool {
    let mean = |blocks: &[f64]| blocks.iter().sum::<f64>() / blocks.len().max(1) as f64;
    let (cpu, bare) = (mean(&measured.cpu), mean(&measured.bare));
    let ratio = cpu / bare;
    let mut is_over = false;
    let mut verdict = |value: f64, budget: Option<f64>| {
        budget.map_or_else(String::new, |budget| {
            let is_within = value <= budget;
            is_over |= !is_within;
            let word = if is_within { "within" } else { "OVER" };
            format!(", {word} {budget}")
        })
    };
    let ratios = measured.cpu.iter().zip(&measured.bare);
    let blocks: Vec<String> = ratios
        .map(|(cpu, bare)| format!("{cpu:.2} ({:.2})", cpu / bare))
        .collect();
    let parts = measured
        .by_thread
        .iter()
        .map(|(name, ms)| format!("{name} {:.2}", ms / seconds));
    let parts = parts.collect::<Vec<_>>().join(", ");
    measured.scrapes.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = ((measured.scrapes.len() as f64 - 1.0) * share).round() as usize;
        measured.scrapes.get(index).copied().unwrap_or(f64::NAN)
    };
    let (name, blocks) = (subject.name(), blocks.join(", "));
    let (peak, anon) = (
        measured.peak as f64 / 1024.0,
        measured.anon as f64 * 1.024e-3,
    );
    let (over_bare, over_anon) = (verdict(ratio, budget), verdict(anon, anon_budget));
    let (p50, p99, series) = (at(0.5), at(0.99), measured.series);
    println!(
        "| {threads} | {name} | {cpu:.2} | {bare:.2} | {ratio:.2}{over_bare} | {blocks} | {p50:.2} | {p99:.2} | {series} | {peak:.1} | {anon:.2}{over_anon} | {parts} |"
    );
    is_over
}

/// Runs a new daemon, reading program and target for one block.
fn block(
    arguments: &Arguments,
    threads: u64,
    subject: &Subject<'_>,
    measured: &mut Measured,
) -> Result<()> {
    let folder =
        tempfile::tempdir().map_err(|error| file_error(Path::new("a temporary folder"), error))?;
    let ports = PortBlock::claim(20_000)?;
    let ledger = folder.path().join("ledger").display().to_string();
    let target = start_target(arguments, threads, &ledger, &ports, folder.path())?;
    let push = format!("127.0.0.1:{}", ports.port(1));
    let mut options = vec!["--ledger", &ledger, "--ingest", &push];
    options.extend(
        subject
            .config
            .iter()
            .flat_map(|config| ["--config", config]),
    );
    let daemon = Daemon::start(subject.daemon, &options, folder.path())?;
    let bare = Running::start(&Program {
        path: std::env::current_exe()
            .map_err(|error| file_error(Path::new("this program"), error))?,
        arguments: vec!["--bare".to_owned(), target.pid().to_string()],
        environment: Vec::new(),
        output: folder.path().join("bare.log"),
    })?;
    std::thread::sleep(SETTLING);
    measure(arguments.seconds, &daemon, &bare, measured)?;
    daemon.stop()?;
    Ok(())
}

fn start_target(
    arguments: &Arguments,
    threads: u64,
    ledger: &str,
    ports: &PortBlock,
    folder: &Path,
) -> Result<Running> {
    let (push, rpc) = (ports.port(1), ports.port(2).to_string());
    let (waking, voters) = (arguments.waking, arguments.voters);
    let truth = format!(
        "threads={threads},waking_percent={waking},voters={voters},push_ms=10000,slots_per_second=3"
    );
    let metrics = format!("host=http://127.0.0.1:{push},db=d,u=u,p=p");
    Running::start(&Program {
        path: arguments.validator.clone(),
        arguments: ["--ledger", ledger, "--rpc-port", &rpc]
            .map(str::to_owned)
            .into(),
        environment: vec![
            (TRUTH_VARIABLE.to_owned(), Some(truth)),
            ("SOLANA_METRICS_CONFIG".to_owned(), Some(metrics)),
        ],
        output: folder.join("validator.log"),
    })
}

fn measure(seconds: u64, daemon: &Daemon, bare: &Running, measured: &mut Measured) -> Result<()> {
    let mut connection = Connection::open(daemon.metrics())?;
    connection.scrape()?;
    let (before, bare_before) = (cpu(daemon.pid())?, all_cpu(bare.pid())?);
    let began = Instant::now();
    for second in 1..=seconds {
        std::thread::sleep(
            (began + Duration::from_secs(second)).saturating_duration_since(Instant::now()),
        );
        let took = connection.scrape()?;
        measured.scrapes.push(took.as_secs_f64() * 1e3);
    }
    let (after, bare_after) = (cpu(daemon.pid())?, all_cpu(bare.pid())?);
    let took = began.elapsed().as_secs_f64();
    let mut total = 0.0;
    for (name, ms) in after {
        let spent = ms - before.get(&name).copied().unwrap_or_default();
        *measured.by_thread.entry(name).or_default() += spent;
        total += spent;
    }
    measured.cpu.push(total / took);
    measured.bare.push((bare_after - bare_before) / took);
    measured.series = daemon
        .page()?
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .count();
    measured.peak = measured.peak.max(status_kib(daemon.pid(), "VmHWM:")?);
    measured.anon = measured.anon.max(status_kib(daemon.pid(), "RssAnon:")?);
    Ok(())
}

/// Reads the files of a process and of the host forever through open descriptors, and ignores their content.
fn bare(pid: u32) -> Result<()> {
    // Two descriptors for each of thousands of threads.
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    // If it fails, opening reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    let open =
        |path: String| File::open(&path).map_err(|error| file_error(Path::new(&path), error));
    let process = [
        "stat",
        "status",
        "io",
        "oom_score",
        "oom_score_adj",
        "limits",
    ];
    let host = [
        "meminfo",
        "vmstat",
        "pressure/cpu",
        "pressure/memory",
        "pressure/io",
    ];
    let each_second: Vec<File> = process
        .map(|name| format!("/proc/{pid}/{name}"))
        .into_iter()
        .chain(host.map(|name| format!("/proc/{name}")))
        .filter_map(|path| open(path).ok())
        .collect();
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = Vec::new();
    for entry in fs::read_dir(&folder)
        .map_err(|error| file_error(&folder, error))?
        .flatten()
    {
        for name in ["schedstat", "stat"] {
            threads.push(open(entry.path().join(name).display().to_string())?);
        }
    }
    let mut buffer = vec![0; 16384];
    for second in 0_u64.. {
        let due = if second.is_multiple_of(5) {
            threads.as_slice()
        } else {
            &[]
        };
        for file in each_second.iter().chain(due) {
            black_box(file.read_at(&mut buffer, 0).is_ok());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
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
        Ok(Self {
            stream,
            address: address.to_owned(),
            answer: Vec::new(),
        })
    }

    /// Scrapes once and returns the time until the whole answer was there.
    fn scrape(&mut self) -> Result<Duration> {
        let address = self.address.clone();
        let broken = |source| Error::Connection {
            address: address.clone(),
            source,
        };
        let began = Instant::now();
        self.stream.write_all(REQUEST.as_bytes()).map_err(broken)?;
        self.answer.clear();
        let mut buffer = [0; 65536];
        loop {
            let n = self.stream.read(&mut buffer).map_err(broken)?;
            if n == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
            self.answer.extend_from_slice(&buffer[..n]);
            if is_complete(&self.answer) {
                let took = began.elapsed();
                return if self.answer.starts_with(b"HTTP/1.1 200 ") {
                    Ok(took)
                } else {
                    Err(self.not_a_page())
                };
            }
        }
    }

    /// The error for an answer that is no page.
    fn not_a_page(&self) -> Error {
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

/// Whether an answer with a Content-Length is complete.
fn is_complete(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

fn file_error(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// A line of `status`, in KiB.
fn status_kib(pid: u32, name: &str) -> Result<u64> {
    let file = PathBuf::from(format!("/proc/{pid}/status"));
    let status = fs::read_to_string(&file).map_err(|error| file_error(&file, error))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_default();
    let number = line
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    number.ok_or_else(|| Error::Malformed {
        what: "a status has this line",
        text: name.to_owned(),
    })
}

/// Milliseconds of CPU of the living threads since their start.
fn all_cpu(pid: u32) -> Result<f64> {
    Ok(cpu(pid)?.values().sum())
}

/// Milliseconds of CPU of the living threads since their start, by name.
fn cpu(pid: u32) -> Result<BTreeMap<String, f64>> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(&folder)
        .map_err(|error| file_error(&folder, error))?
        .flatten()
    {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_value_above_its_budget_is_a_failure() {
        let subject = Subject {
            daemon: "d",
            config: None,
        };
        let is_over = |budgets| {
            let mut measured = Measured {
                cpu: vec![3.0],
                bare: vec![2.0],
                anon: 2000,
                ..Measured::default()
            };
            print(0, &subject, &mut measured, 1.0, budgets)
        };
        assert!(!is_over((None, None)));
        assert!(!is_over((Some(1.5), Some(2.5))));
        assert!(is_over((Some(1.4), None)));
        assert!(is_over((None, Some(2.0))));
    }

    #[test]
    fn a_length_or_number_of_blocks_below_one_is_refused() {
        assert!(Arguments::try_parse_from(["x", "--threads", "0"]).is_ok());
        for option in ["--seconds", "--rounds"] {
            assert!(
                Arguments::try_parse_from(["x", option, "0"]).is_err(),
                "{option}"
            );
        }
    }
}
