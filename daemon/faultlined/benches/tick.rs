//! Compares a whole tick with the bare reads that it needs. A tick has every real source, the
//! registry and the sinks. The reads are one `pread` of each kernel file that the sources have
//! open.
//!
//! The target is a process of 1,000 parked threads. Ticks and reads alternate, so that both see the
//! same load. The ratio is that of the medians. Thread pools are read at every tick here, at every
//! fifth one by default.
//!
//! Then measures what `[validator]` and `[host]` add to a tick, with a mock node of 2,000 vote
//! accounts. Ticks with and without their results alternate. `[host]` results are taken at every
//! tick here, every 5 s by default.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "measures time on a process of its own; cannot go on without its files"
)]

use faultline_core::{
    clock::{Clock, DueTick},
    config::{Config, TargetSelector},
    publish::{Latest, Sink},
    supervisor::WorkerGroup,
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::sinks::history::History;
use faultline_kernel::{HostConstants, HostRoot};
use faultline_metrics::Tick;
use faultline_mock_validator::{NodeState, Protocol};
use faultline_sources::{
    Registry,
    discovery::{Finder, Target},
    own_process,
    tick::{BuildContext, Ticker},
};
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    hint::black_box,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const THREADS: usize = 1000;
const AS_TARGET: &str = "be-the-target";
/// About as many as mainnet-beta has.
const VOTERS: u64 = 2_000;
/// Time until the tasks have all results. Rounds begin at least every 5 s, and two are enough.
const SETTLING: Duration = Duration::from_secs(15);

fn main() {
    if env::args().any(|argument| argument == AS_TARGET) {
        return park();
    }
    let mut child = start_target();
    println!("microseconds per tick, min / median; a target of {THREADS} threads");
    let without = |config: &mut Config| config.threads.enabled = false;
    compare_with_reads(
        "tick without thread pools",
        child.id(),
        without,
        2000,
        Some(2.0),
    );
    // Context switches have another reader, which runs every 2 minutes. Here it runs only in the
    // first round.
    let with =
        |config: &mut Config| config.threads.switches_interval = Duration::from_secs(1_000_000);
    compare_with_reads("tick with thread pools", child.id(), with, 100, Some(1.5));
    let every = |config: &mut Config| config.threads.switches_interval = Duration::ZERO;
    compare_with_reads(
        "tick that reads context switches too, every 2 minutes, by files it does not keep",
        child.id(),
        every,
        30,
        None,
    );
    compare_sections(child.id());
    drop(child.stdin.take());
    child.wait().expect("the target's end");
}

/// Parked threads until standard input closes.
fn park() {
    for n in 0..THREADS - 1 {
        let builder = std::thread::Builder::new()
            .name(format!("solPool{:02}T{n:03}", n % 70))
            .stack_size(64 * 1024);
        builder.spawn(std::thread::park).expect("a thread");
    }
    println!("ready");
    io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("standard input");
}

fn start_target() -> Child {
    // A program with a validator's name and arguments.
    let folder = env::temp_dir().join(format!("faultline-tick-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("agave-validator");
    std::os::unix::fs::symlink(env::current_exe().expect("this program"), &program)
        .expect("a link");
    let mut command = Command::new(&program);
    command
        .arg("--ledger")
        .arg(&folder)
        .arg(AS_TARGET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("the target");
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output)
        .read_line(&mut String::new())
        .expect("the target's word");
    fs::remove_dir_all(folder).expect("the link is no longer needed");
    child
}

/// The JSON-RPC of a mock node.
fn start_rpc_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|stream| drop(std::thread::spawn(|| answer(stream))))
    });
    address
}

fn answer(stream: TcpStream) -> io::Result<()> {
    let node = NodeState {
        protocol: Protocol::Alpenglow,
        slot_time: Duration::from_millis(200),
        identity: "DemoFauLtLine1111111111111111111111111111111".to_owned(),
        rpc_address: None,
        started: Duration::ZERO,
        is_running: true,
        progress: "Running".into(),
        slot: 400_000_000,
        tip: 400_000_000,
        transactions: 7,
        voters: VOTERS,
    };
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while stream.read_line(&mut line)? > 2 {
            let header = line.to_ascii_lowercase();
            length = header
                .strip_prefix("content-length:")
                .map_or(length, |value| value.trim().parse().unwrap_or(0));
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let answer = node.answer_http(&body);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.get_mut().write_all((head + &answer).as_bytes())?;
    }
}

/// Measures what `[validator]` and `[host]` add to a tick, alone and together.
fn compare_sections(pid: u32) {
    let mut config = Config::default();
    config.target.selector = TargetSelector::Pid(pid);
    config.admin.enabled = false;
    config.threads.enabled = false;
    config.rpc.url = Some(format!("http://{}", start_rpc_server()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut neither = config.clone();
    (neither.validator.enabled, neither.host.enabled) = (false, false);
    for (what, votes, host) in [
        ("votes", true, false),
        ("host", false, true),
        ("votes and host", true, true),
    ] {
        let mut with = neither.clone();
        (with.validator.enabled, with.host.enabled) = (votes, host);
        // The results of `[host]` are taken at each tick.
        with.host.interval = Duration::from_millis(1);
        let mut workers = WorkerGroup::new("bench", runtime.handle());
        let mut sides = [&neither, &with]
            .map(|config| (SampledTarget::with(config, Some(&mut workers)), Vec::new()));
        std::thread::sleep(SETTLING);
        for _ in 0..2_000 {
            sides
                .iter_mut()
                .for_each(|(sampled, times)| times.push(microseconds(|| sampled.tick())));
        }
        let series = sides.each_ref().map(|(sampled, _)| sampled.series());
        let [without, with] = sides.map(|(_, mut times)| {
            times.sort_by(f64::total_cmp);
            (times[0], times[times.len() / 2])
        });
        println!(
            "tick without thread pools, {} series, and with {what}, {}",
            series[0], series[1]
        );
        println!("  without {:9.1} / {:9.1}", without.0, without.1);
        println!(
            "  with    {:9.1} / {:9.1}   {:+.1} %",
            with.0,
            with.1,
            100.0 * (with.1 / without.1 - 1.0)
        );
    }
}

fn compare_with_reads(
    what: &str,
    pid: u32,
    change: impl FnOnce(&mut Config),
    rounds: usize,
    budget: Option<f64>,
) {
    let mut config = Config::default();
    config.target.selector = TargetSelector::Pid(pid);
    (config.rpc.enabled, config.admin.enabled) = (false, false);
    config.threads.interval = Duration::from_millis(1);
    change(&mut config);
    let before = open_kernel_files();
    let mut sampled = SampledTarget::new(&config);
    (0..3).for_each(|_| sampled.tick());
    let read_files: Vec<File> = open_kernel_files()
        .into_iter()
        .filter_map(|file| open_new_file(&before, file))
        .collect();
    let folders = [
        open("/proc/self".into()),
        open(format!("/proc/{pid}").into()),
    ];
    let mut sides = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    for _ in 0..rounds {
        sides[0].push(microseconds(|| read_all(&read_files, &folders)));
        sides[1].push(microseconds(|| sampled.tick()));
    }
    report(what, read_files.len(), sides, budget);
}

struct SampledTarget {
    ticker: Ticker,
    newest: Latest<Tick>,
    target: Arc<Target>,
    clock: Clock,
    number: u64,
}

impl SampledTarget {
    fn new(config: &Config) -> Self {
        Self::with(config, None)
    }

    /// Starts the tasks of the sources in `workers`.
    fn with(config: &Config, workers: Option<&mut WorkerGroup>) -> Self {
        let (root, clock) = (HostRoot::default(), Clock::start());
        let mut finder = Finder::build(&config.target, root.clone(), clock);
        let target = finder.find_once().expect("the target is found");
        let intake = Intake::new(&config.datapoints);
        let live = Latest::default();
        live.set(Some(Arc::new(config.clone())));
        let target_handle = finder.target_handle.clone();
        let context = BuildContext {
            config,
            clock,
            root: &root,
            target_handle: &target_handle,
        };
        let mut registry = Registry::default();
        faultline_sources::register(&mut registry, &context, &intake, None, None, live);
        own_process::register(&mut registry, &root, faultlined::VERSION, false, |_| ());
        let sources = std::mem::take(&mut registry.samplers);
        if let Some(workers) = workers {
            registry.start(workers).expect("the sources' threads");
        }
        let host = HostConstants::read(&root).expect("the kernel's constants");
        let newest = Latest::default();
        let sinks: Vec<Box<dyn Sink>> =
            vec![Box::new(History::default()), Box::new(newest.clone())];
        let ticker = Ticker::new(&context, host, sources, sinks);
        Self {
            ticker,
            newest,
            target,
            clock,
            number: 0,
        }
    }

    fn tick(&mut self) {
        self.number += 1;
        let due = DueTick {
            number: self.number,
            lateness: Duration::ZERO,
            missed: 0,
        };
        black_box(
            self.ticker
                .tick_at(self.clock.now(), due, Some(&self.target)),
        );
    }

    /// Readings of the newest tick.
    fn series(&self) -> usize {
        self.newest.get().map_or(0, |tick| tick.readings().count())
    }
}

/// Files of this process in `/proc` and `/sys` that are open, by descriptor.
fn open_kernel_files() -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir("/proc/self/fd")
        .expect("own descriptors")
        .flatten();
    let all = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let path = fs::read_link(entry.path()).ok()?;
        (path.starts_with("/proc") || path.starts_with("/sys")).then_some((number, path))
    });
    all.collect()
}

/// Opens a second descriptor of a file that the sources have open. `None` for folders and for files
/// of `before`.
fn open_new_file(before: &BTreeMap<u32, PathBuf>, (number, path): (u32, PathBuf)) -> Option<File> {
    let was_open = before.get(&number) == Some(&path);
    (!was_open && path.is_file()).then(|| open(path))
}

fn open(path: PathBuf) -> File {
    File::open(&path).expect("a file that others hold open")
}

/// Reads each file once, and gets the number of open descriptors in each folder.
fn read_all(files: &[File], folders: &[File]) {
    let mut buffer = [0_u8; 8192];
    for file in files {
        black_box(rustix::io::pread(file.as_fd(), &mut buffer, 0).is_ok());
    }
    for folder in folders {
        black_box(rustix::fs::statat(folder, "fd", rustix::fs::AtFlags::empty()).is_ok());
    }
}

fn microseconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e6
}

fn report(what: &str, files: usize, mut sides: [Vec<f64>; 2], budget: Option<f64>) {
    for side in &mut sides {
        side.sort_by(f64::total_cmp);
    }
    let [bare, ours] = sides;
    let median = |side: &[f64]| side[side.len() / 2];
    println!("{what}");
    let Some(budget) = budget else {
        return println!("  ours {:9.1} / {:9.1}", ours[0], median(&ours));
    };
    let ratio = median(&ours) / median(&bare);
    let verdict = if ratio <= budget { "within" } else { "OVER" };
    println!(
        "  bare {:9.1} / {:9.1}   {files} files",
        bare[0],
        median(&bare)
    );
    println!(
        "  ours {:9.1} / {:9.1}   ratio {ratio:.2}, {verdict} {budget}",
        ours[0],
        median(&ours)
    );
}
