//! The mock validator of `run --demo` in its own process, from the daemon's point of view.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests fail as tests do"
)]

use faultline_agave::{
    identify::{Process, identify},
    line::Point,
};
use faultline_testkit::{
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    http,
    rpc::Rpc,
    sink::Sink,
};
use faultlined::demo::{self, Demo};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

const DEADLINE: Duration = Duration::from_secs(60);

fn start(sink: &Sink) -> Demo {
    let program = Path::new(env!("CARGO_BIN_EXE_faultlined"));
    demo::start(program, sink.address(), None, None).unwrap()
}

fn proc_file(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

fn validator(pid: u32) -> faultline_agave::identify::Validator {
    let args = proc_file(pid, "cmdline");
    let args: Vec<&str> = args.trim_end_matches('\0').split('\0').collect();
    match identify(&proc_file(pid, "comm"), &args) {
        Process::Validator(validator) => validator,
        other => panic!("{other:?}: {args:?}"),
    }
}

/// Field `n` of `/proc/PID/stat`, counted as proc(5) does.
fn stat(pid: u32, n: usize) -> String {
    let stat = proc_file(pid, "stat");
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    fields.split(' ').nth(n - 3).unwrap_or_default().to_owned()
}

fn threads(pid: u32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .map(|comm| comm.trim().to_owned())
        .collect()
}

fn ask_admin(ledger: &Path) -> String {
    let mut socket = UnixStream::connect(ledger.join("admin.rpc")).unwrap();
    socket
        .write_all(br#"{"jsonrpc":"2.0","id":1,"method":"startProgress","params":[]}"#)
        .unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_daemon_sees_the_demo_as_a_starting_then_running_validator() {
    let sink = Sink::start().unwrap();
    let demo = start(&sink);
    let found = validator(demo.pid());
    assert_eq!(found.ledger.as_deref(), Some(demo.ledger()));
    for name in [
        "solReplayStage",
        "solScHandler00",
        "solMetricsAgent",
        "solAdminRpc",
        "agave-validator",
    ] {
        eventually(DEADLINE, name, || {
            threads(demo.pid()).contains(name).then_some(())
        });
    }
    assert!(
        File::open(demo.ledger().join("ledger.lock"))
            .unwrap()
            .try_lock()
            .is_err()
    );
    assert!(!ask_admin(demo.ledger()).contains("Running"));

    let rpc = Rpc::new(SocketAddr::from((
        Ipv4Addr::LOCALHOST,
        found.rpc_port.unwrap(),
    )));
    let first = eventually(DEADLINE, "JSON-RPC", || rpc.processed_slot().ok());
    assert!(ask_admin(demo.ledger()).contains("Running"));
    eventually(DEADLINE, "slots move", || {
        rpc.processed_slot().ok().filter(|slot| *slot > first)
    });
    let pushed = |name: &str| {
        sink.bodies().iter().any(|body| {
            let text = String::from_utf8_lossy(body);
            text.lines()
                .any(|line| Point::parse(line.as_bytes()).is_ok_and(|point| point.name() == name))
        })
    };
    for name in ["metrics", "bank_frozen", "loaded-programs-cache-stats"] {
        eventually(DEADLINE, name, || pushed(name).then_some(()));
    }
}

#[test]
fn the_demo_validators_memory_and_minor_faults_are_real() {
    let sink = Sink::start().unwrap();
    let demo = start(&sink);
    let faults = || stat(demo.pid(), 10).parse::<u64>().unwrap_or(0);
    let pages = || stat(demo.pid(), 24).parse::<u64>().unwrap_or(0);
    let before = (faults(), pages());
    eventually_ok(DEADLINE, "2,000 faults and 1,000 pages more", || {
        let now = (faults(), pages());
        if now.0 > before.0 + 2000 && now.1 > before.1 + 1000 {
            Ok(())
        } else {
            Err((before, now))
        }
    });
}

#[test]
fn the_demo_validator_ends_with_its_owner_and_removes_its_ledger() {
    let sink = Sink::start().unwrap();
    let demo = start(&sink);
    let (pid, ledger) = (demo.pid(), demo.ledger().to_owned());
    drop(demo);
    assert!(!Path::new(&format!("/proc/{pid}")).exists() && !ledger.exists());
}

#[test]
fn a_demo_logs_the_url_to_open_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let daemon =
        Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &["--demo"], folder.path()).unwrap();
    eventually_ok(DEADLINE, "the stand-in is followed", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        page.get("agave_process_threads", &[])
            .filter(|threads| *threads > 1.0)
            .ok_or_else(|| daemon.log())
    });
    let (log, address) = (daemon.log(), format!("http://{}/", daemon.metrics()));
    assert!(log.contains(&address), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    assert_eq!(daemon.stop().unwrap(), Some(0));
}

#[test]
fn the_kernel_kills_the_demo_validator_if_its_parent_died() {
    let sink = Sink::start().unwrap();
    // Here only the thread that started the demo ends. SIGKILL would end all threads of the
    // process.
    let demo = std::thread::scope(|scope| scope.spawn(|| start(&sink)).join().unwrap());
    eventually_ok(DEADLINE, "it has ended", || {
        match stat(demo.pid(), 3).as_str() {
            "Z" => Ok(()),
            state => Err(state.to_owned()),
        }
    });
}

#[test]
fn the_demo_votes_and_its_landing_page_shows_rewards() {
    let folder = tempfile::tempdir().unwrap();
    let daemon =
        Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &["--demo"], folder.path()).unwrap();
    let page = eventually_ok(
        DEADLINE,
        "all votes and the next leader slot are known",
        || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let versions = page.get("agave_cluster_version_stake_ratio", &[("version", "newer")]);
            // Exported when the node is near the tip.
            let next = page.get("agave_next_leader_slot_seconds", &[]);
            // Judged when the node responds near the tip.
            let judged = page.get("agave_delinquent", &[]);
            // Requested every minute.
            let admitted = page.get("agave_admitted", &[("in", "epoch_after_next")]);
            let all = versions.and(next).and(judged).and(admitted);
            all.map(|_| page).ok_or_else(|| daemon.log())
        },
    );
    let one = |name: &str| page.get(name, &[]);
    assert_eq!(one("agave_delinquent"), Some(0.0));
    assert_eq!(one("agave_vote_credits_rank"), None, "Tower's");
    assert!(one("agave_vote_reward_per_stake_of_best_ratio").is_some_and(|share| share > 0.9));
    let consensus = page.get("agave_consensus", &[("protocol", "alpenglow")]);
    let optimistic = page.get("agave_slot", &[("kind", "optimistic")]);
    assert_eq!((consensus, optimistic), (Some(1.0), None));
    assert!(one("agave_next_leader_slot_seconds").is_some_and(|seconds| seconds < 600.0));
    let votes = page.get("faultline_source_up", &[("source", "votes")]);
    assert_eq!(
        (votes, page.sum("agave_balance_sol").map(|sol| sol >= 43.0)),
        (Some(1.0), Some(true))
    );
    let landing = http::get(daemon.metrics(), "/").unwrap().text();
    assert!(
        landing.contains("Votes and rewards") && landing.contains(" SOL earned this epoch"),
        "{landing}"
    );
    daemon.stop().unwrap();
}

#[test]
fn a_probe_times_the_answers_of_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("probe.toml");
    fs::write(
        &config,
        "[probe]\nenabled = true\ninterval = \"1s\"\nmethod = \"getBlockHeight\"\n",
    )
    .unwrap();
    let config = config.display().to_string();
    let program = env!("CARGO_BIN_EXE_faultlined");
    let daemon = Daemon::start(program, &["--demo", "--config", &config], folder.path()).unwrap();
    let method = [("method", "getBlockHeight")];
    eventually(DEADLINE, "two timed answers", || {
        daemon
            .scrape()
            .ok()?
            .get("agave_rpc_probe_seconds_count", &method)
            .filter(|count| *count >= 2.0)
    });
    let page = daemon.scrape().unwrap();
    let failed = page.matching("agave_rpc_probe_failures_total", &method);
    assert!(
        failed.len() == 7 && failed.iter().all(|sample| sample.value == 0.0),
        "{failed:?}"
    );
    daemon.stop().unwrap();
}

#[test]
fn a_reload_keeps_the_demo_as_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    let write = |arm: &str| {
        let text = format!("[target]\nunit = \"agave\"\n[labels]\narm = {arm:?}\n");
        fs::write(&config, text).unwrap();
    };
    write("A");
    let path = config.display().to_string();
    let program = env!("CARGO_BIN_EXE_faultlined");
    let daemon = Daemon::start(program, &["--demo", "--config", &path], folder.path()).unwrap();
    write("B");
    daemon.signal("HUP").unwrap();
    eventually(DEADLINE, "the reload", || {
        daemon
            .log()
            .contains("configuration reloaded")
            .then_some(())
    });
    let log = daemon.log();
    assert!(!log.contains("sections"), "{log}");
    daemon.stop().unwrap();
}

#[test]
fn the_demo_pushes_with_the_credentials_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (config, password) = (folder.path().join("c.toml"), folder.path().join("password"));
    fs::write(&password, "secret").unwrap();
    let text = format!(
        "[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = {:?}\n",
        password.display().to_string()
    );
    fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let program = env!("CARGO_BIN_EXE_faultlined");
    let daemon = Daemon::start(program, &["--demo", "--config", &config], folder.path()).unwrap();
    eventually_ok(DEADLINE, "an accepted push", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let pushed = page.get("faultline_last_push_timestamp_seconds", &[]);
        pushed.ok_or_else(|| daemon.log())
    });
    daemon.stop().unwrap();
}
