//! The child process that acts as the validator.

use super::{
    CACHE_ENTRIES_VARIABLE, PARENT_PID_VARIABLE, READY_LINE,
    memory::{self, ColdFile, Heap},
    recording::{CacheSize, RecordedLines},
    timeline::{self, RecordedPushes},
};
use crate::METRICS_CONFIG;
use anyhow::{Context, Result};
use faultline_agave::{
    config::SolanaMetricsConfig,
    identify::{Process, identify},
};
use faultline_core::{
    clock::Clock,
    supervisor::{Stop, WorkerGroup},
};
use faultline_metrics::Stamp;
use faultline_mock_validator::{Ledger, NodeState, PROGRAM_NAME};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const IDLE_THREADS: [&str; 16] = [
    "solPohTickProd",
    "solGossip",
    "solGossipListen",
    "solRcvrShred",
    "solShredVerifr",
    "solRetransmittr",
    "solWinInsert",
    "solRepairSvc",
    "solVoteService",
    "solIdxFlusher00",
    "solIdxFlusher01",
    "solAccounts00",
    "solSystemMonitr",
    "solJsonRpcSvc",
    "rocksdb:low",
    "rocksdb:high",
];
const HANDLER_THREADS: [&str; 4] = [
    "solScHandler00",
    "solScHandler01",
    "solScHandler02",
    "solScHandler03",
];
/// Per interval and handler thread. All handlers cause about 2,500 minor faults per second.
const HANDLER_BYTES: usize = 256 << 10;
const WORK_INTERVAL: Duration = Duration::from_millis(100);
const PUSH_INTERVAL_AT_TIP: Duration = Duration::from_millis(250);
const PUSH_TIMEOUT: Duration = Duration::from_secs(5);

struct DemoState {
    clock: Clock,
    started_unix: Duration,
    /// Position on the demo's timeline at which the process starts: zero, or at the tip.
    timeline_start: Duration,
    recording: Arc<RecordedLines>,
    ledger: PathBuf,
    rpc_address: SocketAddr,
}

impl DemoState {
    fn timeline_now(&self) -> Stamp {
        let now = self.clock.now();
        Stamp {
            uptime: now.uptime + self.timeline_start,
            ..now
        }
    }

    fn node_state(&self) -> NodeState {
        timeline::node_state(
            &self.recording,
            self.rpc_address,
            self.started_unix,
            self.timeline_now().uptime,
        )
    }
}

pub fn run() -> Result<()> {
    die_with_parent()?;
    std::fs::write("/proc/self/comm", PROGRAM_NAME).context("/proc/self/comm")?;
    let args: Vec<String> = env::args().collect();
    let Process::Validator(validator) = identify(PROGRAM_NAME, &args) else {
        anyhow::bail!(
            "{PARENT_PID_VARIABLE} is set, but the arguments are not a validator's: only the daemon may set it"
        )
    };
    let ledger = validator.ledger.context("no --ledger")?;
    let config = SolanaMetricsConfig::parse(
        &env::var(METRICS_CONFIG)
            .ok()
            .context("no SOLANA_METRICS_CONFIG")?,
    )?;
    let cache = env::var(CACHE_ENTRIES_VARIABLE)
        .ok()
        .and_then(|entries| entries.parse().ok())
        .map(CacheSize);
    let clock = Clock::start();
    let started_unix = clock.now().unix;
    let demo_state = Arc::new(DemoState {
        clock,
        started_unix,
        timeline_start: cache.map_or(Duration::ZERO, |_| {
            timeline::initial_uptime_at_tip(started_unix)
        }),
        recording: Arc::new(RecordedLines::embedded(cache)?),
        rpc_address: SocketAddr::from((
            [127, 0, 0, 1],
            validator.rpc_port.context("no --rpc-port")?,
        )),
        ledger,
    });
    let ledger = Ledger::lock(&demo_state.ledger)
        .with_context(|| demo_state.ledger.display().to_string())?;
    let runtime = rpc_runtime()?;
    let workers = start_threads(&demo_state, ledger, config, runtime.handle())?;
    let folder = demo_state.ledger.display();
    log_line(&format!("simulated validator, ledger {folder}"));
    writeln!(io::stdout(), "{READY_LINE}").context("the daemon does not read the demo's output")?;
    runtime.block_on(serve(Arc::clone(&demo_state), workers.stop_signal()))
}

/// The kernel kills this process when the thread that started it ends.
fn die_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("the demo cannot be made to end with the daemon")?;
    let daemon = env::var(PARENT_PID_VARIABLE)
        .ok()
        .and_then(|pid| pid.parse().ok())
        .and_then(Pid::from_raw);
    anyhow::ensure!(
        daemon.is_some() && getppid() == daemon,
        "{PARENT_PID_VARIABLE} is not the parent process: only the daemon may set it"
    );
    Ok(())
}

fn rpc_runtime() -> Result<tokio::runtime::Runtime> {
    let count = AtomicUsize::new(0);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .thread_name_fn(move || format!("solRpcEl{:02}", count.fetch_add(1, Ordering::Relaxed)))
        .enable_all()
        .build()
        .context("no runtime")
}

fn start_threads(
    demo_state: &Arc<DemoState>,
    ledger: Ledger,
    config: SolanaMetricsConfig,
    runtime: &tokio::runtime::Handle,
) -> Result<WorkerGroup> {
    let mut workers = WorkerGroup::new("demo", runtime);
    for name in IDLE_THREADS {
        workers.thread(name, idle)?;
    }
    for name in HANDLER_THREADS {
        workers.thread(name, |stop| {
            run_periodically(&stop, || {
                memory::allocate_and_touch(HANDLER_BYTES).map(drop)
            })
        })?;
    }
    let state = Arc::clone(demo_state);
    let mut heap = Heap::default();
    workers.thread("solBgAccounts", move |stop| {
        run_periodically(&stop, || {
            heap.resize(memory::heap_blocks(state.clock.now().uptime))
        })
    })?;
    let state = Arc::clone(demo_state);
    workers.thread("solReplayStage", move |stop| read_cold_file(&state, stop))?;
    let state = Arc::clone(demo_state);
    workers.thread("solMetricsAgent", move |stop| {
        push_until_stopped(&state, &config, &stop)
    })?;
    let state = Arc::clone(demo_state);
    workers.thread("solAdminRpc", move |_| {
        ledger.serve(|request| state.node_state().answer_admin(request))
    })?;
    Ok(workers)
}

fn idle(stop: Stop) {
    while !stop.sleep(Duration::from_secs(3600)) {}
}

pub fn log_line(message: &str) {
    let _ = writeln!(io::stderr(), "faultline demo: {message}");
}

fn run_periodically(stop: &Stop, mut work: impl FnMut() -> io::Result<()>) {
    while !stop.sleep(WORK_INTERVAL) {
        if let Err(error) = work() {
            log_line(&error.to_string());
            return;
        }
    }
}

fn read_cold_file(demo_state: &DemoState, stop: Stop) {
    match ColdFile::make(&demo_state.ledger.join("demo-accounts")) {
        Ok(mut file) => run_periodically(&stop, || {
            file.read(memory::pages_to_read(demo_state.clock.now().uptime))
        }),
        Err(error) => log_line(&format!("no file to read, hence no major faults: {error}")),
    }
    // The daemon recognizes a running validator by this thread.
    idle(stop);
}

fn push_until_stopped(demo_state: &DemoState, config: &SolanaMetricsConfig, stop: &Stop) {
    let mut pushes =
        RecordedPushes::new(Arc::clone(&demo_state.recording), demo_state.timeline_start);
    let mut due = Duration::from_secs(1);
    let mut has_failed = false;
    while !stop.sleep(due.saturating_sub(demo_state.clock.now().uptime)) {
        let sent = post(config, &pushes.next_body(demo_state.timeline_now()));
        if let (Err(error), false) = (&sent, has_failed) {
            log_line(&format!("pushes are lost: {error:#}"));
        }
        has_failed = sent.is_err();
        due = match demo_state.timeline_start {
            Duration::ZERO => timeline::next_push_uptime(due),
            // More frequent pushes, so that a run of a few seconds measures slots, too.
            _ => due + PUSH_INTERVAL_AT_TIP,
        };
    }
}

/// Uses a new connection for each push, as validators before 4.x do.
fn post(config: &SolanaMetricsConfig, body: &str) -> Result<()> {
    let url = config.write_url();
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|url| url.split_once('/'))
        .context("not a http:// URL")?;
    let mut stream = TcpStream::connect_timeout(&host.parse()?, PUSH_TIMEOUT)?;
    stream.set_read_timeout(Some(PUSH_TIMEOUT))?;
    stream.set_write_timeout(Some(PUSH_TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    let code = status.split(' ').nth(1).unwrap_or_default();
    anyhow::ensure!(code.starts_with('2'), "{:?}", status.trim_end());
    Ok(())
}

/// Opens JSON-RPC once services run. The parent passes the port's socket as standard input.
async fn serve(demo_state: Arc<DemoState>, stop: Stop) -> Result<()> {
    tokio::time::sleep(timeline::SERVICES_START.saturating_sub(demo_state.timeline_now().uptime))
        .await;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::listen(&socket, 64).context("standard input is not the port of the JSON-RPC")?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.wait() => return Ok(()),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let demo_state = Arc::clone(&demo_state);
                let service = service_fn(move |request| answer_rpc(Arc::clone(&demo_state), request));
                let stream = TokioIo::new(stream);
                connections.spawn(http1::Builder::new().serve_connection(stream, service));
            }
        }
    }
}

async fn answer_rpc(
    demo_state: Arc<DemoState>,
    request: Request<Incoming>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut answer = Response::new(Full::from(demo_state.node_state().answer_http(&body)));
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}
