//! The threads of a simulated validator.

use super::{
    PROGRAM_NAME, Truth,
    memory::{Anonymous, MappedFile},
    points::PushLines,
    push::Server,
    replay::Replay,
    rpc,
    state::{State, unix},
    working_set::WorkingSet,
};
use crate::{Error, Result};
use faultline_mock_validator::Ledger;
use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Interval at which threads continue their work.
const STEP: Duration = Duration::from_millis(20);
/// Threads of a validator that have nothing to do here.
const IDLE_THREADS: [&str; 8] = [
    "solPohTickProd",
    "solGossip",
    "solRcvrShred",
    "solWinInsert",
    "solRepairSvc",
    "solVoteService",
    "solScHandler00",
    "rocksdb:low",
];
/// Set if the program has executed itself again with SIGTERM ignored.
const SIGTERM_IGNORED_VARIABLE: &str = "FAULTLINE_SIMULATED_DEAF";
/// Transactions since genesis at the start.
const INITIAL_TRANSACTIONS: u64 = 50_000_000;

/// The command line of a simulated validator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// `--ledger`.
    pub ledger: PathBuf,
    /// `--accounts`: the folder of the file that it reads; by default the ledger.
    pub accounts: Option<PathBuf>,
    /// `--identity`: a keypair's file.
    pub identity: Option<PathBuf>,
    /// `--rpc-port`.
    pub rpc_port: Option<u16>,
}

/// Runs the validator until it ends; returns its exit code.
///
/// # Errors
/// As of a validator: another one has the ledger or the port, or the metrics configuration is invalid.
pub fn run(arguments: &Arguments, truth: Truth) -> Result<u8> {
    if truth.ignores_term && env::var_os(SIGTERM_IGNORED_VARIABLE).is_none() {
        return Err(execute_again_ignoring_term());
    }
    fs::write("/proc/self/comm", PROGRAM_NAME)
        .map_err(Error::file(Path::new("/proc/self/comm")))?;
    let ledger = &arguments.ledger;
    fs::create_dir_all(ledger).map_err(Error::file(ledger))?;
    let admin = Ledger::lock(ledger).map_err(Error::file(ledger))?;
    let server = env::var("SOLANA_METRICS_CONFIG")
        .ok()
        .filter(|config| !config.is_empty());
    let server = server.map(|config| Server::parse(&config)).transpose()?;
    if truth.forks {
        start_child(&ledger.join("child.pid"))?;
    }
    let state = Arc::new(State {
        identity: identity(arguments)?,
        rpc_port: arguments.rpc_port,
        started_unix: unix(),
        started_at: Instant::now(),
        lines: Mutex::new(PushLines::new(truth.consensus())),
        running: AtomicBool::new(false),
        running_since: OnceLock::new(),
        is_file_read: AtomicBool::new(truth.file_mib == 0),
        accounts_file: arguments
            .accounts
            .as_ref()
            .unwrap_or(&arguments.ledger)
            .join("simulated-accounts"),
        slot: AtomicU64::new(0),
        transactions: AtomicU64::new(INITIAL_TRANSACTIONS),
        truth,
    });
    start_threads(&state, arguments, admin, server)?;
    let replaying = Arc::clone(&state);
    let name = if replaying.truth.replays_unseen {
        "solVirtual"
    } else {
        "solReplayStage"
    };
    let stage = thread(name, move || replay_until_exit(&replaying))?;
    stage
        .join()
        .unwrap_or_else(|_| Err(Error::Missing("the replay stage panicked".to_owned())))
}

/// Starts all threads except the one that replays.
fn start_threads(
    state: &Arc<State>,
    arguments: &Arguments,
    admin: Ledger,
    server: Option<Server>,
) -> Result<()> {
    for name in IDLE_THREADS {
        thread(name, || {
            loop {
                std::thread::park();
            }
        })?;
    }
    for number in 0..state.truth.threads {
        let wakes = wakes(number, &state.truth);
        let idle = move || {
            loop {
                if wakes {
                    std::thread::sleep(Duration::from_secs(1))
                } else {
                    std::thread::park()
                }
            }
        };
        let name = format!("solPool{:02}T{number:03}", number / 9 % 100);
        let started = std::thread::Builder::new()
            .name(name)
            .stack_size(64 * 1024)
            .spawn(idle);
        started.map_err(|source| Error::Start {
            program: "a thread".into(),
            source,
        })?;
    }
    let shared = Arc::clone(state);
    thread("solAdminRpc", move || {
        admin.serve(|request| shared.node_state().answer_admin(request))
    })?;
    let shared = Arc::clone(state);
    thread("solBgAccounts", move || allocate(&shared))?;
    if state.truth.file_mib > 0 {
        let folder = arguments.accounts.as_ref().unwrap_or(&arguments.ledger);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        let shared = Arc::clone(state);
        thread("solAccounts00", move || {
            read_accounts(&shared, &shared.accounts_file)
        })?;
    }
    if let Some(server) = server {
        let shared = Arc::clone(state);
        thread("solMetricsAgent", move || push(&shared, &server))?;
    }
    Ok(())
}

/// Whether idle thread `number` wakes: the first ones of each hundred do. The last hundred may be incomplete.
fn wakes(number: u64, truth: &Truth) -> bool {
    let in_hundred = number % 100;
    let size = (truth.threads - (number - in_hundred)).min(100);
    in_hundred * 100 < truth.waking_percent * size
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>> {
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work);
    started.map_err(|source| Error::Start {
        program: name.into(),
        source,
    })
}

/// Starts, then replays slots until it exits; returns the exit code.
fn replay_until_exit(state: &Arc<State>) -> Result<u8> {
    let truth = &state.truth;
    std::thread::sleep(
        Duration::from_millis(truth.start_ms).saturating_sub(state.started_at.elapsed()),
    );
    while !state.is_file_read.load(Ordering::Relaxed) {
        std::thread::sleep(STEP);
    }
    if !truth.executes {
        loop {
            std::thread::park();
        }
    }
    let mut replay = Replay::new(truth, state.tip());
    if truth.working_set_percent > 0 {
        let path = &state.accounts_file;
        replay.working_set =
            Some(WorkingSet::open(path, truth.working_set_percent).map_err(Error::file(path))?);
    }
    state.slot.store(replay.slot, Ordering::Relaxed);
    state
        .lines()
        .add_start(&state.identity, truth.start_ms, unix().as_nanos());
    if let Some(port) = state.rpc_port {
        let address = format!("127.0.0.1:{port}");
        rpc::serve(port, state).map_err(|source| Error::Connection { address, source })?;
    }
    state.running.store(true, Ordering::Relaxed);
    let running = *state.running_since.get_or_init(Instant::now);
    let (mut last_tip, mut last) = (state.tip(), running);
    loop {
        std::thread::sleep(STEP);
        let (lived, passed) = (running.elapsed(), last.elapsed());
        last += passed;
        let has_passed =
            |end: Option<u64>| end.is_some_and(|ms| lived >= Duration::from_millis(ms));
        if has_passed(truth.exits_after_ms) {
            return Ok(u8::try_from(truth.exit_code).unwrap_or(u8::MAX));
        }
        let tip = state.tip();
        let now = unix().as_nanos();
        (last_tip + 1..=tip)
            .for_each(|slot| state.lines().add_received_slot(&state.identity, slot, now));
        last_tip = tip;
        let end = truth.hangs_after_ms.zip(truth.hangs_for_ms);
        let resumes = has_passed(end.map(|(after, lasts)| after + lasts));
        if resumes || !has_passed(truth.hangs_after_ms) {
            for replayed in replay
                .advance(truth, tip, lived, passed)
                .map_err(Error::file(&state.accounts_file))?
            {
                state.slot.store(replayed.slot, Ordering::Relaxed);
                state
                    .transactions
                    .fetch_add(replayed.contents.transactions, Ordering::Relaxed);
                state
                    .lines()
                    .add_replayed_slot(&state.identity, &replayed, now);
            }
        }
    }
}

/// Allocates the configured memory at a constant rate.
fn allocate(state: &State) {
    let (mut memory, truth) = (Anonymous::default(), &state.truth);
    loop {
        let share =
            state.started_at.elapsed().as_secs_f64() * 1000.0 / truth.anonymous_ms.max(1) as f64;
        let leaked = state.running_for().as_secs_f64() / 60.0 * truth.leak_mib_per_minute as f64;
        memory.grow((truth.anonymous_mib as f64 * share.min(1.0) + leaked) as usize);
        std::thread::sleep(STEP);
    }
}

fn read_accounts(state: &State, path: &Path) {
    let truth = &state.truth;
    let read = || -> std::io::Result<()> {
        let mut accounts =
            MappedFile::open(path, usize::try_from(truth.file_mib).unwrap_or(usize::MAX))?;
        state.is_file_read.store(true, Ordering::Relaxed);
        let (started_at, mut done) = (Instant::now(), 0);
        loop {
            let due =
                (started_at.elapsed().as_secs_f64() * truth.file_mib_per_second as f64) as u64;
            for _ in done..due {
                accounts.fault_in_next()?;
            }
            done = due;
            std::thread::sleep(STEP);
        }
    };
    if let Err(error) = read() {
        eprintln!("{}: {error}", path.display());
    }
}

fn push(state: &State, server: &Server) {
    loop {
        std::thread::sleep(Duration::from_millis(state.truth.push_ms));
        let body = state.lines().take_body(&state.identity, unix().as_nanos());
        if let Err(error) = server.push(&body) {
            eprintln!("submit error: {error}");
        }
    }
}

/// The public key in the keypair file; without a file, a key derived from the ledger's path.
fn identity(arguments: &Arguments) -> Result<String> {
    let Some(path) = &arguments.identity else {
        let name = arguments.ledger.to_string_lossy();
        let mut key = [7; 32];
        name.bytes()
            .enumerate()
            .for_each(|(at, byte)| key[at % 32] ^= byte.wrapping_mul(31).rotate_left(at as u32));
        return Ok(bs58::encode(key).into_string());
    };
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    let bytes: Option<Vec<u8>> = serde_json::from_str(&text).ok();
    let key = bytes
        .as_deref()
        .filter(|bytes| bytes.len() == 64)
        .map(|bytes| bs58::encode(&bytes[32..]).into_string());
    key.ok_or_else(|| Error::malformed("no keypair", &text))
}

/// Starts a child process in a session of its own, which outlives this process.
fn start_child(pid_file: &Path) -> Result<()> {
    let mut command = Command::new("setsid");
    command
        .args(["sleep", "100000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().map_err(|source| Error::Start {
        program: "setsid".into(),
        source,
    })?;
    fs::write(pid_file, child.id().to_string()).map_err(Error::file(pid_file))
}

/// Executes this program again through a shell that ignores SIGTERM, which is inherited. Returns only the error.
fn execute_again_ignoring_term() -> Error {
    let program = env::current_exe().unwrap_or_default();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
        .arg(program)
        .args(env::args_os().skip(1));
    Error::Start {
        program: "/bin/sh".into(),
        source: shell.env(SIGTERM_IGNORED_VARIABLE, "1").exec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_share_of_any_number_of_threads_wakes() {
        for (threads, waking_percent, expected) in
            [(10, 50, 5), (250, 30, 75), (1, 100, 1), (9, 0, 0)]
        {
            let truth = Truth {
                threads,
                waking_percent,
                ..Truth::default()
            };
            let woken = (0..threads).filter(|number| wakes(*number, &truth)).count();
            assert_eq!(woken, expected, "{threads} threads, {waking_percent} %");
        }
    }
}
