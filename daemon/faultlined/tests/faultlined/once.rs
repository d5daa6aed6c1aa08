//! `faultlined once` with a mock validator: this test program under a validator's name.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and threads itself"
)]

use crate::support::{
    fake_daemon::FakeDaemon,
    mounted::{Mounted, run},
};
use faultline_testkit::{Result, daemon::Daemon, eventually::eventually, host::FakeHost};
use faultlined::once::metrics;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(60);
const VOTE_ACCOUNT: &str = "4YzYzMTDsBE9xRvbZVzh8kt7dtDFsCWWCHDL9rrUSaPT";
const IDENTITY: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";

fn once(arguments: &[&str]) -> Output {
    let mut command = Command::new(FAULTLINED);
    command
        .arg("once")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("faultlined can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// State and text of the check.
fn check(report: &Value, name: &str) -> (String, String) {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {report:#}"));
    let words = format!(
        "{} -> {}",
        check["found"].as_str().unwrap_or_default(),
        check["remedy"]
    );
    (
        check["state"].as_str().unwrap_or_default().to_owned(),
        words,
    )
}

fn state(report: &Value, name: &str) -> String {
    check(report, name).0
}

/// A port without a listener. The system does not return the same one twice in a row.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port()
}

/// A folder with a configuration, and with the ledger of the mock validator.
struct Scene {
    folder: tempfile::TempDir,
    ingest: u16,
}

impl Scene {
    fn new(more: &str) -> Self {
        let scene = Self {
            folder: tempfile::tempdir().expect("a folder"),
            ingest: free_port(),
        };
        fs::create_dir(scene.path("ledger")).expect("a folder");
        let (ledger, metrics) = (scene.path("ledger"), free_port());
        let config = format!(
            "[target]\nledger = {:?}\n[metrics]\nlisten = \"127.0.0.1:{metrics}\"\n[ingest]\nlisten = \"127.0.0.1:{}\"\n{more}",
            ledger.display().to_string(),
            scene.ingest
        );
        fs::write(scene.path("c.toml"), config).expect("a file");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns when the mock validator's socket exists.
    fn validator(&self, metrics_config: Option<String>) -> StandIn {
        self.validator_with(metrics_config, &[])
    }

    /// Like `validator`, with more arguments.
    fn validator_with(&self, metrics_config: Option<String>, more: &[&str]) -> StandIn {
        let program = self.path("agave-validator");
        std::os::unix::fs::symlink(std::env::current_exe().expect("this program"), &program)
            .expect("a link");
        let mut command = Command::new(program);
        command
            .args(["once::run_fake_validator", "--exact", "--ignored"])
            .args(more)
            .current_dir(self.folder.path());
        command.env_remove("SOLANA_METRICS_CONFIG");
        command.envs(metrics_config.map(|config| ("SOLANA_METRICS_CONFIG", config)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = StandIn(command.spawn().expect("the stand-in"));
        eventually(PATIENCE, "the admin socket", || {
            self.path("ready").exists().then_some(())
        });
        child
    }

    fn leads_here(&self) -> Option<String> {
        Some(format!(
            "host=http://127.0.0.1:{},db=d,u=u,p=p",
            self.ingest
        ))
    }

    fn once(&self, more: &[&str]) -> (Output, Value) {
        let config = self.path("c.toml").display().to_string();
        let output = once(&[&["--config", &config, "--json"], more].concat());
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output, report)
    }
}

struct StandIn(Child);

impl Drop for StandIn {
    fn drop(&mut self) {
        // The process may have ended by itself.
        drop((self.0.kill(), self.0.wait()));
    }
}

fn answer(request: &Value, rpc: &str) -> Value {
    let result = match request["method"].as_str().unwrap_or_default() {
        "startProgress" => json!("Running"),
        "rpcAddress" => json!(rpc),
        "contactInfo" => json!({"id": IDENTITY}),
        "getEpochInfo" => {
            json!({"absoluteSlot": 77, "blockHeight": 7, "epoch": 0, "slotIndex": 7, "slotsInEpoch": 9})
        }
        "getHealth" => json!("ok"),
        "getVersion" => json!({"solana-core": "2.1.14\u{202e}\u{1b}[31m"}),
        "getIdentity" => json!({"identity": IDENTITY}),
        "getVoteAccounts" => {
            let delinquent = fs::exists("delinquent").unwrap_or_default();
            let is_others = fs::exists("of-another-node").unwrap_or_default();
            let node = if is_others { VOTE_ACCOUNT } else { IDENTITY };
            let own = json!([{
                "votePubkey": VOTE_ACCOUNT, "nodePubkey": node, "activatedStake": 2_500_000_000_u64, "commission": 7,
                "lastVote": 75, "rootSlot": 44, "epochCredits": [[0, 60, 0]],
            }]);
            if delinquent {
                json!({"current": [], "delinquent": own})
            } else {
                json!({"current": own, "delinquent": []})
            }
        }
        _ => json!(77),
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn serve_rpc(listener: &TcpListener, address: &str) -> std::io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = BufReader::new(stream?);
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
        let body = match serde_json::from_slice(&body)? {
            Value::Array(batch) => batch
                .iter()
                .map(|request| answer(request, address))
                .collect::<Vec<_>>()
                .into(),
            one => answer(&one, address),
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all((head + &body).as_bytes())?;
    }
    Ok(())
}

#[test]
#[ignore = "no test: the other tests start it as a validator"]
fn run_fake_validator() {
    let admin = UnixListener::bind("ledger/admin.rpc").expect("a socket");
    let rpc = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = rpc.local_addr().expect("an address").to_string();
    let reported_address = address.clone();
    std::thread::spawn(move || serve_rpc(&rpc, &reported_address));
    fs::write("ready", "").expect("a file");
    for stream in admin.incoming() {
        let stream = stream.expect("a connection");
        for request in serde_json::Deserializer::from_reader(&stream).into_iter::<Value>() {
            let Ok(request) = request else { break };
            if (&stream)
                .write_all(format!("{}\n", answer(&request, &address)).as_bytes())
                .is_err()
            {
                break;
            }
        }
    }
}

#[test]
fn a_healthy_validator_without_optional_parts_is_all_ok() {
    let scene = Scene::new("");
    let validator = scene.validator(scene.leads_here());
    let (output, report) = scene.once(&[]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let process = &report["checks"][0];
    assert_eq!(
        (&process["name"], &process["details"]["pid"]),
        (&json!("process"), &json!(validator.0.id()))
    );
    assert_eq!(process["details"]["identity"], IDENTITY);
    assert_eq!(
        process["details"]["found_by"],
        "its admin socket (target.ledger)"
    );
    assert_eq!(
        process["details"]["ledger"],
        scene.path("ledger").display().to_string()
    );
    for (name, wanted) in [
        ("io", "ok"),
        ("threads", "ok"),
        ("cgroup", "ok"),
        ("admin", "ok"),
        ("rpc", "ok"),
        ("log", "off"),
    ] {
        assert_eq!(state(&report, name), wanted, "{name}: {report:#}");
    }
    assert!(check(&report, "ingest").1.contains("is free"), "{report:#}");
    let config = scene.path("c.toml").display().to_string();
    let table = text(&once(&["--config", &config]).stdout);
    assert!(
        table.contains(IDENTITY) && table.contains("found by  its admin socket"),
        "{table}"
    );
    assert!(
        table
            .lines()
            .last()
            .is_some_and(|line| line.ends_with("checks are OK.")),
        "{table}"
    );
    assert!(
        !table
            .chars()
            .any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
        "{table:?}"
    );
}

#[test]
fn once_reports_a_current_vote_account_and_warns_if_delinquent() {
    let scene = Scene::new("[validator]\nenabled = true\n");
    let _validator = scene.validator(scene.leads_here());
    let (_, report) = scene.once(&[]);
    let (state, words) = check(&report, "votes");
    assert!(state == "ok" && words.contains("is current"), "{report:#}");
    let votes = report["checks"]
        .as_array()
        .and_then(|checks| checks.iter().find(|check| check["name"] == "votes"));
    let details = &votes.expect("the check")["details"];
    assert_eq!(
        (
            &details["account"],
            &details["last_vote"],
            &details["stake"]
        ),
        (
            &json!(VOTE_ACCOUNT),
            &json!("2 slots ago"),
            &json!("2.50 SOL")
        )
    );
    fs::write(scene.path("delinquent"), "").expect("a file");
    let (output, report) = scene.once(&[]);
    let (state, words) = check(&report, "votes");
    assert_eq!(
        (state.as_str(), output.status.code()),
        ("attention", Some(1)),
        "{report:#}"
    );
    assert!(
        words.contains("delinquent and earns nothing") && words.contains("2 slots ago"),
        "{words}"
    );
    fs::rename(scene.path("delinquent"), scene.path("of-another-node")).expect("a file");
    let ledger = scene.path("ledger").display().to_string();
    let configured = |account: &str| {
        fs::write(
            scene.path("c.toml"),
            format!("[validator]\nvote_account = \"{account}\"\n"),
        )
        .expect("a file");
        check(&scene.once(&["--ledger", &ledger]).1, "votes")
    };
    let (state, words) = configured(VOTE_ACCOUNT);
    assert!(
        state == "ok" && words.contains("this one is on standby"),
        "{words}"
    );
    let (state, words) = configured("11111111111111111111111111111111");
    assert!(
        state == "attention" && words.contains("knows no vote account 1111"),
        "{words}"
    );
}

#[test]
fn file_system_usage_is_reported_and_a_nearly_full_one_warns() {
    let scene = Scene::new("");
    let tmpfs = ["-t", "tmpfs", "-o", "size=16m,nr_inodes=200", "none"];
    let mounted = Mounted::new(scene.path("ledger"), &tmpfs);
    let _validator = scene.validator(scene.leads_here());
    let (output, report) = scene.once(&[]);
    let (state, words) = check(&report, "disk");
    assert!(state == "ok" && words.contains("are free"), "{report:#}");
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let disk = || {
        report["checks"]
            .as_array()
            .and_then(|checks| checks.iter().find(|check| check["name"] == "disk"))
    };
    let details = &disk().expect("the check")["details"];
    assert_eq!(
        details["holds"], "accounts, ledger, snapshots",
        "{details:#}"
    );
    let space = rustix::fs::statvfs(scene.path("ledger")).expect("statvfs");
    assert_eq!(details["bytes"]["size"], space.f_blocks * space.f_frsize);
    let Some(mounted) = mounted else {
        println!("SKIPPED: no right to mount here");
        return;
    };
    assert_eq!(
        (&details["inodes"]["all"], &details["mount"]["file_system"]),
        (&json!(200), &json!("tmpfs"))
    );
    fs::write(scene.path("ledger/ballast"), vec![1; 17 << 20]).expect_err("no room for all of it");
    let (output, report) = scene.once(&[]);
    let (state, words) = check(&report, "disk");
    assert_eq!(
        (state.as_str(), output.status.code()),
        ("attention", Some(1)),
        "{report:#}"
    );
    assert!(
        words.contains("is nearly full: 0 B of 16.0 MiB (0 %)")
            && words.contains("AgaveDiskNearlyFull"),
        "{words}"
    );
    let text = text(&once(&["--config", &scene.path("c.toml").display().to_string()]).stdout);
    assert!(
        text.contains("\ndisk     FIX ") && text.contains("holds     accounts, ledger, snapshots"),
        "{text}"
    );
    fs::remove_file(scene.path("ledger/ballast")).expect("it is there");
    assert!(run(
        "mount",
        &["-o", "remount,ro", &mounted.0.display().to_string()]
    ));
    let (_, report) = scene.once(&[]);
    assert!(
        check(&report, "disk").1.contains("is read-only"),
        "{report:#}"
    );
}

#[test]
fn an_unresponsive_file_system_is_reported_without_blocking() {
    let scene = Scene::new("");
    let Some(dead) = Mounted::dead(scene.path("snapshots")) else {
        println!("SKIPPED: no right to mount here, or no FUSE");
        return;
    };
    let snapshots = scene.path("snapshots").display().to_string();
    let _validator = scene.validator_with(scene.leads_here(), &["--", "--snapshots", &snapshots]);
    let begun = Instant::now();
    let (output, report) = scene.once(&[]);
    let disks: Vec<&Value> = report["checks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|check| check["name"] == "disk")
        .collect();
    let states: Vec<_> = disks.iter().map(|disk| &disk["state"]).collect();
    assert_eq!(
        states,
        ["ok", "attention"],
        "the ledger's is told all the same: {report:#}"
    );
    let words = disks[1]["found"].as_str().unwrap_or_default();
    assert!(
        words.starts_with(&format!(
            "snapshots {snapshots}: its file system does not answer"
        )),
        "{words}"
    );
    assert!(
        output.status.code() == Some(1) && begun.elapsed() < PATIENCE,
        "{:?}",
        begun.elapsed()
    );
    drop(dead);
    let off = Scene::new("[host]\nenabled = false\n");
    let _validator = off.validator(off.leads_here());
    let (state, words) = check(&off.once(&[]).1, "disk");
    assert!(state == "off" && words.contains("host.enabled"), "{words}");
}

#[test]
fn once_warns_of_pushes_going_elsewhere_and_a_missing_log() {
    let scene = Scene::new("");
    let validator = scene.validator(Some(
        "host=http://metrics.example.org:8086,db=d,u=u,p=hunter2".to_owned(),
    ));
    let (output, report) = scene.once(&[]);
    assert_eq!(
        (output.status.code(), &report["attention"]),
        (Some(1), &json!(1)),
        "{report:#}"
    );
    let (state, words) = check(&report, "push");
    assert_eq!(state, "attention");
    assert!(
        words.contains("metrics.example.org:8086")
            && words.contains(&format!("127.0.0.1:{}", scene.ingest)),
        "{words}"
    );
    assert!(!report.to_string().contains("hunter2"));
    drop(validator);
    let password = "db = \"d\"\nuser = \"u\"\npassword_file = \"PASSWORD\"\n";
    let scene = Scene::new("");
    fs::write(scene.path("password"), "right\n").expect("a file");
    let config = fs::read_to_string(scene.path("c.toml")).expect("a file");
    let password = password.replace("PASSWORD", &scene.path("password").display().to_string());
    fs::write(scene.path("c.toml"), config + &password).expect("a file");
    let validator = scene.validator(scene.leads_here());
    let (output, report) = scene.once(&[]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert!(
        check(&report, "push").1.contains("refused (401)") && !report.to_string().contains("right"),
        "{report:#}"
    );
    drop(validator);
    let scene = Scene::new("enabled = false\n[log]\nfile = \"/no/such/log\"\n");
    let _validator = scene.validator(None);
    let (output, report) = scene.once(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        check(&report, "log").1.contains("/no/such/log"),
        "{report:#}"
    );
}

#[test]
fn only_a_real_daemon_at_the_port_is_recognized_as_running() -> Result<()> {
    let scene = Scene::new("");
    let own = std::process::id().to_string();
    let daemon = Daemon::start(FAULTLINED, &["--pid", &own], scene.folder.path())?;
    let config = format!(
        "[metrics]\nlisten = {:?}\n[ingest]\nlisten = {:?}\n",
        daemon.metrics(),
        daemon.ingest()
    );
    fs::write(scene.path("c.toml"), config).expect("a file");
    let (output, report) = scene.once(&["--pid", &own]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    for name in ["ingest", "metrics"] {
        assert!(
            check(&report, name).1.starts_with("a faultlined listens"),
            "{report:#}"
        );
    }
    // The reverse case: each server responds as what it is, and not as the one that is expected.
    let config = format!(
        "[metrics]\nlisten = {:?}\n[ingest]\nlisten = {:?}\n",
        daemon.ingest(),
        daemon.metrics()
    );
    fs::write(scene.path("c.toml"), config).expect("a file");
    let (_, report) = scene.once(&["--pid", &own]);
    assert_eq!(state(&report, "ingest"), "attention", "{report:#}");
    Ok(())
}

#[test]
fn unresponsive_json_rpc_is_reported_with_or_without_a_process() {
    let own = std::process::id().to_string();
    for target in [["--pid", &own], ["--ledger", "/no/such/ledger"]] {
        let output = once(&[&["--rpc", "http://127.0.0.1:1"], &target[..]].concat());
        let table = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{table}");
        assert!(
            table.contains("rpc      FIX  no answer: http://127.0.0.1:1"),
            "{table}"
        );
    }
}

#[test]
fn an_endpoint_that_accepts_but_never_responds_is_reported_without_blocking() {
    let [silent, other] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [rpc, ingest] = [&silent, &other].map(|socket| socket.local_addr().expect("an address"));
    let scene = Scene::new("");
    fs::write(
        scene.path("c.toml"),
        format!("[ingest]\nlisten = \"{ingest}\"\n[rpc]\ntimeout = \"10m\"\n"),
    )
    .expect("a file");
    let (output, report) = scene.once(&[
        "--pid",
        &std::process::id().to_string(),
        "--rpc",
        &format!("http://{rpc}"),
    ]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert!(
        check(&report, "rpc").1.contains("no answer within 1 s"),
        "{report:#}"
    );
    assert!(
        check(&report, "ingest").1.contains("no answer within 1 s"),
        "{report:#}"
    );
}

#[test]
fn once_metrics_has_no_counts_since_the_start_of_a_daemon() {
    let tick = FakeDaemon::with_target("linux-6.1-v2").tick();
    for text in [metrics::table(&tick), metrics::json(&tick)] {
        assert!(text.contains("agave_host_memory_bytes"), "{text}");
        assert!(text.contains("agave_cgroup_memory_events_total"), "{text}");
        for name in [
            "agave_host_interrupts_total",
            "agave_host_softirqs_",
            "agave_process_restarts_total",
            "agave_process_ends_total",
            "faultline_missed_ticks_total",
        ] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }
}

#[test]
fn two_validators_are_distinguished_by_their_ledgers() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/testkit/fixtures/hosts/linux-6.8-v2");
    let host = FakeHost::from_fixture(&fixture).expect("a host");
    let stat = fs::read_to_string(host.path("proc/4242/stat")).expect("a file");
    host.write("proc/4243/stat", stat.replacen("4242", "4243", 1))
        .expect("a file");
    host.write("proc/4243/comm", "agave-validator\n")
        .expect("a file");
    host.write(
        "proc/4243/cmdline",
        "agave-validator\0--ledger\0/mnt/second\x1b[2J\0",
    )
    .expect("a file");
    for pid in [4242, 4243] {
        host.write(&format!("proc/{pid}/task/9/comm"), "solReplayStage\n")
            .expect("a file");
    }
    let procfs = host.path("proc").display().to_string();
    let output = once(&["--path.procfs", &procfs]);
    let table = text(&output.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(
        table.contains("4242 agave-validator (ledger /")
            && table.contains("4243 agave-validator (ledger /mnt/second"),
        "{table}"
    );
    assert!(
        table.contains("target.ledger") && !table.contains('\u{1b}'),
        "{table:?}"
    );
}
