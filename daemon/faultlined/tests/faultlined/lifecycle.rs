//! Start and end of the real program: its output, its addresses and its exit codes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_testkit::{
    Result,
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    http::{self, Request},
    process::{Program, Running},
    sink::Sink,
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(60);

fn run(arguments: &[&str]) -> Output {
    Command::new(FAULTLINED)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("faultlined can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn an_invalid_configuration_is_refused_with_all_errors_and_exit_code_64() {
    let folder = folder();
    let file = folder.path().join("c.toml");
    fs::write(&file, "[sampling]\ninterval = 3\n[nonsense]\n").expect("a file");
    let file = file.display().to_string();
    for arguments in [
        ["check-config", "--config", &file],
        ["run", "--config", &file],
        ["once", "--config", &file],
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(64));
        let log_text = text(&output.stderr);
        assert!(
            log_text.contains("line 2: sampling.interval") && log_text.contains("line 3: nonsense"),
            "{log_text}"
        );
    }
    assert_eq!(run(&["run", "--pid", "x"]).status.code(), Some(64));
    assert_eq!(run(&["nonsense"]).status.code(), Some(64));
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

/// The exit code if neither output nor log can be written.
fn code_on_full_disk(arguments: &[&str]) -> Option<i32> {
    let full = || {
        fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    Command::new(FAULTLINED)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(full())
        .stderr(full())
        .status()
        .expect("it runs")
        .code()
}

#[test]
fn an_unwritable_log_does_not_change_the_exit_code() {
    let code = code_on_full_disk;
    assert_eq!(code(&["run", "--pid", "x"]), Some(64));
    assert_eq!(code(&["run", "--config", "/dev/null/none"]), Some(64));
}

#[test]
fn unwritable_output_is_a_failure() {
    assert_eq!(code_on_full_disk(&["print-config"]), Some(1));
    assert_eq!(code_on_full_disk(&["check-config"]), Some(1));
    let no_program = ["once", "--process-name", "no-such-program"];
    assert_eq!(code_on_full_disk(&no_program), Some(1));
    let metrics = [&no_program[..], &["--metrics"]].concat();
    assert_eq!(code_on_full_disk(&metrics), Some(1));
}

#[test]
fn with_an_unwritable_log_the_daemon_records_and_exits_cleanly() {
    let folder = folder();
    let recording = folder.path().join("r.fltl");
    let own = std::process::id().to_string();
    let file = recording.display().to_string();
    let arguments = [
        "run",
        "--pid",
        &own,
        "--record",
        &file,
        "--listen",
        "127.0.0.1:0",
        "--ingest",
        "127.0.0.1:0",
    ];
    let arguments = arguments.map(str::to_owned).to_vec();
    let program = Program {
        path: FAULTLINED.into(),
        arguments,
        environment: Vec::new(),
        output: "/dev/full".into(),
    };
    let mut daemon = Running::start(&program).expect("it runs");
    let ticks = || {
        faultline_recording::Recording::open(&recording)
            .ok()?
            .ticks()
            .ok()
            .map(|ticks| ticks.len())
    };
    eventually_ok(PATIENCE, "a tick", || {
        match (ticks(), daemon.exit_status()) {
            (Some(1..), _) => Ok(()),
            (ticks, ended) => Err(format!("{ticks:?} {ended:?}")),
        }
    });
    faultline_testkit::process::signal(daemon.pid(), "TERM").expect("a signal");
    let status = eventually(PATIENCE, "it ends", || {
        daemon.exit_status().expect("a status")
    });
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_printed_configuration_is_valid() {
    let folder = folder();
    let file = folder.path().join("c.toml");
    fs::write(&file, run(&["print-config"]).stdout).expect("a file");
    let output = run(&["check-config", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Exit code, output and log of `check-config` with this text.
fn check_config(folder: &Path, config: &str) -> (Option<i32>, String, String) {
    let file = folder.join("c.toml");
    fs::write(&file, config).expect("a file");
    let output = run(&["check-config", "--config", &file.display().to_string()]);
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn config_check_reads_a_recording_only_without_other_errors() {
    let folder = folder();
    let file = folder.path().join("run.fltl");
    fs::write(&file, [1; 200]).expect("a file");
    let record = format!("[record]\nfile = {file:?}\n");
    for (more, error) in [
        ("", "not a recording of faultlined"),
        ("[labels]\narm = 7\n", "labels.arm"),
    ] {
        let (code, _, log) = check_config(folder.path(), &format!("{record}{more}"));
        assert_eq!(code, Some(64), "{log}");
        assert!(log.contains(error) && log.contains(": 1 error, "), "{log}");
    }
}

#[test]
fn config_check_accepts_warnings_and_counts_them() {
    let folder = folder();
    let check = |config: &str| check_config(folder.path(), config);
    let (code, out, log_text) =
        check("[log]\nfile = \"/no/such/agave.log\"\n[target]\nledger = \"ledger\"\n");
    assert_eq!(code, Some(0), "{log_text}");
    assert!(
        log_text.contains("warning: log.file: /no/such/agave.log does not exist"),
        "{log_text}"
    );
    assert!(
        log_text.contains("warning: target.ledger: ledger is a relative path"),
        "{log_text}"
    );
    assert!(
        out.ends_with("c.toml: no errors, 2 warnings\n") && !out.contains("fine"),
        "{out}"
    );
    let (code, out, log_text) = check("[sampling]\ninterval = \"2s\"\n");
    assert!(
        code == Some(0) && out.ends_with("c.toml is fine\n") && log_text.is_empty(),
        "{out}{log_text}"
    );
}

#[test]
fn config_check_reports_every_error_and_warning_with_their_counts() {
    let folder = folder();
    let check = |config: &str| check_config(folder.path(), config);
    let web = folder.path().join("web.yml");
    fs::write(
        &web,
        "tls_server_config: { cert_file: a.pem }\nbasic_auth_users: { alice: hunter2 }\nwrong: 1\n",
    )
    .expect("a file");
    let (code, out, log_text) = check(&format!(
        "[metrics]\nlisten = \"127.0.0.1:7\"\nweb_config = {:?}\n[ingest]\nlisten = \"127.0.0.1:7\"\ndb = \"d\"\nuser = \"u\"\n\
         password_file = \"/etc/no-such-password\"\n[log]\nfile = \"/no/such/agave.log\"\n[sampling]\ninterval = 3\n",
        web.display().to_string()
    ));
    assert_eq!((code, out.as_str()), (Some(64), ""), "{log_text}");
    for wanted in [
        "alice",
        "wrong",
        "cert_file and key_file",
        "counted twice",
        "/etc/no-such-password",
        "line 12: sampling.interval",
    ] {
        assert_eq!(
            log_text
                .lines()
                .filter(|line| line.contains(wanted))
                .count(),
            1,
            "{wanted}: {log_text}"
        );
    }
    assert!(
        !log_text.contains("go together"),
        "all three are given: {log_text}"
    );
    assert!(
        log_text.ends_with("c.toml: 6 errors, 1 warning\n"),
        "{log_text}"
    );
    let (code, _, log_text) =
        check("[metrics]\nlisten = \"127.0.0.1:7\"\n[ingest]\nlisten = \"127.0.0.1:7\"\n");
    assert!(
        code == Some(64)
            && log_text.contains("the same port")
            && log_text.ends_with("1 error, 0 warnings\n"),
        "{log_text}"
    );
}

#[test]
fn once_prints_a_sample_of_any_process_as_table_and_json() {
    let own = std::process::id().to_string();
    let table = text(&run(&["once", "--metrics", "--pid", &own]).stdout);
    assert!(
        table.contains("agave_process_page_faults_total{type=\"minor\"}"),
        "{table}"
    );
    let output = run(&["once", "--metrics", "--pid", &own, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let series = json["series"].as_array().expect("series");
    assert!(
        series
            .iter()
            .any(|s| s["name"] == "agave_process_threads" && s["value"].as_u64() >= Some(1)),
        "{json}"
    );
    let missing = run(&["once", "--metrics", "--process-name", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text(&missing.stderr).contains("no-such-program"),
        "{}",
        text(&missing.stderr)
    );
}

#[test]
fn the_daemon_follows_a_process_serves_every_page_and_exits_cleanly() -> Result<()> {
    let folder = folder();
    let own = std::process::id().to_string();
    let daemon = Daemon::start(
        FAULTLINED,
        &["--pid", &own, "--interval", "100ms"],
        folder.path(),
    )?;
    let page = eventually(PATIENCE, "the process is followed", || {
        daemon
            .scrape()
            .ok()
            .filter(|page| page.get("agave_process_threads", &[]).is_some())
    });
    assert_eq!(page.get("agave_up", &[]), Some(1.0));
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).expect("its limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a line");
    assert_eq!(
        core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(),
        ["0", "0"],
        "it holds passwords"
    );
    assert!(page.samples.len() < 1500, "{} series", page.samples.len());
    let status = |path: &str| http::get(daemon.metrics(), path).map(|answer| answer.status);
    assert_eq!(
        (
            status("/")?,
            status("/healthz")?,
            status("/readyz")?,
            status("/nothing")?
        ),
        (200, 200, 200, 404)
    );
    let open = Request::new("GET", "/metrics")
        .header("Accept", "application/openmetrics-text")
        .send(daemon.metrics())?;
    assert!(
        open.header("content-type")
            .is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    faultline_testkit::expose::parse_openmetrics(&open.text())?;
    let log = daemon.log();
    assert!(!log.contains("ERROR"), "{log}");
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn the_first_scrape_contains_the_process_without_waiting_for_a_tick() -> Result<()> {
    let folder = folder();
    let own = std::process::id().to_string();
    let options = ["--pid", &own, "--interval", "1h"];
    let daemon = Daemon::start(FAULTLINED, &options, folder.path())?;
    let page = eventually(PATIENCE, "the first page", || daemon.scrape().ok());
    assert_eq!(page.get("agave_up", &[]), Some(1.0));
    assert_eq!(page.get("faultline_ticks_total", &[]), Some(1.0));
    assert!(page.get("agave_process_threads", &[]) > Some(0.0));
    let pools = page.matching("agave_thread_pool_threads", &[]);
    assert!(pools.is_empty(), "hundreds of files wait: {pools:?}");
    Ok(())
}

/// Idle connections do not delay the stop. The fastest of three runs counts, because another test
/// may use the machine.
#[test]
fn an_idle_daemon_stops_within_two_seconds() -> Result<()> {
    let own = std::process::id().to_string();
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let folder = folder();
        let daemon = Daemon::start(
            FAULTLINED,
            &["--pid", &own, "--interval", "100ms"],
            folder.path(),
        )?;
        eventually(PATIENCE, "a tick", || daemon.scrape().ok());
        let idle = [daemon.metrics(), daemon.ingest()].map(TcpStream::connect);
        assert!(idle.iter().all(std::result::Result::is_ok), "{idle:?}");
        let began = Instant::now();
        assert_eq!(daemon.stop()?, Some(0));
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
    Ok(())
}

#[test]
fn a_port_in_use_is_reported_with_a_remedy() -> Result<()> {
    let folder = folder();
    let own = std::process::id().to_string();
    let daemon = Daemon::start(FAULTLINED, &["--pid", &own], folder.path())?;
    let output = run(&[
        "run",
        "--pid",
        &own,
        "--listen",
        daemon.metrics(),
        "--ingest",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let log_text = text(&output.stderr);
    assert!(
        log_text.contains(daemon.metrics()) && log_text.matches("in use").count() == 1,
        "{log_text}"
    );
    let exposed = run(&[
        "run",
        "--pid",
        &own,
        "--listen",
        "0.0.0.0:0",
        "--ingest",
        "127.0.0.1:0",
    ]);
    assert_eq!(exposed.status.code(), Some(64));
    assert!(
        text(&exposed.stderr).contains("web_config"),
        "{}",
        text(&exposed.stderr)
    );
    Ok(())
}

#[test]
fn an_empty_log_filter_is_none_and_a_wrong_one_is_reported() {
    let folder = folder();
    let (file, password) = (folder.path().join("c.toml"), folder.path().join("password"));
    let public = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    fs::write(&password, "secret").expect("a file");
    public(&password, 0o644).expect("its mode");
    public(folder.path(), 0o755).expect("its mode");
    let text_of_file =
        format!("[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = {password:?}\n");
    fs::write(&file, text_of_file).expect("a file");
    for (filter, is_wrong) in [
        ("", false),
        ("warn,faultlined=info", false),
        ("faultlined=loud", true),
        ("loud", true),
    ] {
        let output = Command::new(FAULTLINED)
            .args(["run", "--ready-file", "/nowhere/ready.json", "--config"])
            .arg(&file)
            .env("FAULTLINE_LOG", filter)
            .output()
            .expect("faultlined can be run");
        let log = text(&output.stderr);
        assert!(log.contains("insecure configuration"), "{log}");
        let reports = log.lines().filter(|line| line.contains("ignor"));
        let expected = is_wrong.then(|| format!(
            "FAULTLINE_LOG: {filter:?} is ignored: write LEVEL or faultlined=LEVEL, where LEVEL is off, error, \
             warn, info, debug or trace",
        ));
        assert!(reports.eq(expected.as_deref()), "{log}");
    }
}

#[test]
fn a_reload_applies_labels_and_names_keys_needing_a_restart() -> Result<()> {
    let folder = folder();
    let file = folder.path().join("c.toml");
    let write = |arm: &str, interval: &str| {
        let text = format!("[labels]\narm = {arm:?}\n[sampling]\ninterval = {interval:?}\n");
        fs::write(&file, text).expect("a file");
    };
    write("A", "100ms");
    let own = std::process::id().to_string();
    let daemon = Daemon::start(
        FAULTLINED,
        &["--config", &file.display().to_string(), "--pid", &own],
        folder.path(),
    )?;
    let has_arm = |arm: &str| {
        daemon
            .scrape()
            .is_ok_and(|page| page.matching("agave_target_info", &[("arm", arm)]).len() == 1)
    };
    eventually(PATIENCE, "the first label", || has_arm("A").then_some(()));
    write("B", "200ms");
    daemon.signal("HUP")?;
    eventually(PATIENCE, "the second label", || has_arm("B").then_some(()));
    eventually_ok(PATIENCE, "the log names the section that waits", || {
        let log = daemon.log();
        if log.contains("sections=\"sampling\"") {
            Ok(())
        } else {
            Err(log)
        }
    });
    fs::write(&file, "[labels]\narm = 3\n").expect("a file");
    daemon.signal("HUP")?;
    eventually(PATIENCE, "the log has the error", || {
        daemon.log().contains("labels.arm").then_some(())
    });
    assert!(has_arm("B"), "a file with errors changes nothing");
    Ok(())
}

#[test]
fn systemd_is_notified_of_readiness_watchdog_and_stopping() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("{wanted}: {error}"));
            if text(&buffer[..length]).contains(wanted) {
                return;
            }
        }
    };
    let own = std::process::id().to_string();
    let arguments = [
        "run",
        "--pid",
        &own,
        "--listen",
        "127.0.0.1:0",
        "--ingest",
        "127.0.0.1:0",
        "--interval",
        "100ms",
    ];
    let mut child = Running::start(&Program {
        path: FAULTLINED.into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![("NOTIFY_SOCKET".to_owned(), Some(path.display().to_string()))],
        output: folder.path().join("log"),
    })?;
    hear("READY=1");
    hear("WATCHDOG=1");
    faultline_testkit::process::signal(child.pid(), "HUP")?;
    hear("RELOADING=1");
    hear("READY=1");
    faultline_testkit::process::signal(child.pid(), "TERM")?;
    hear("STOPPING=1");
    let status = eventually(PATIENCE, "the end", || child.exit_status().ok().flatten());
    assert_eq!(status.code(), Some(0));
    Ok(())
}

#[test]
fn a_reload_waits_for_the_first_tick_and_is_no_sign_of_readiness() -> Result<()> {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let socket = UnixDatagram::bind(path("notify")).expect("a socket");
    let receive = |timeout: Duration| {
        let mut buffer = [0; 4096];
        socket.set_read_timeout(Some(timeout)).expect("a deadline");
        let length = socket.recv(&mut buffer).ok()?;
        Some(text(&buffer[..length]).trim_end().to_owned())
    };
    // The first tick waits for a writer of this pipe.
    let pipe = path("proc/vmstat");
    fs::create_dir_all(path("proc/sys/kernel")).expect("a folder");
    fs::write(path("proc/sys/kernel/osrelease"), "6.1\n").expect("a file");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "no pipe");
    let [proc, ready_file] = ["proc", "ready.json"].map(|name| path(name).display().to_string());
    let arguments = [
        "run",
        "--pid",
        "1",
        "--listen",
        "127.0.0.1:0",
        "--ingest",
        "127.0.0.1:0",
        "--path.procfs",
        &proc,
        "--ready-file",
        &ready_file,
    ];
    let notify = path("notify").display().to_string();
    let mut child = Running::start(&Program {
        path: FAULTLINED.into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![("NOTIFY_SOCKET".to_owned(), Some(notify))],
        output: path("log"),
    })?;
    eventually(PATIENCE, "signals are handled", || {
        path("ready.json").exists().then_some(())
    });
    faultline_testkit::process::signal(child.pid(), "HUP")?;
    // A check every 100 ms.
    let early: Vec<String> = std::iter::from_fn(|| receive(PATIENCE)).take(10).collect();
    assert!(
        early.iter().all(|message| message == "WATCHDOG=1"),
        "{early:?}"
    );
    let writer = fs::OpenOptions::new().write(true).open(&pipe);
    fs::remove_file(&pipe).expect("the pipe is there");
    drop(writer);
    let mut later =
        std::iter::from_fn(|| receive(PATIENCE)).filter(|message| !message.starts_with("WATCHDOG"));
    assert_eq!(later.next().as_deref(), Some("READY=1"));
    let reloading = later.next().unwrap_or_default();
    assert!(reloading.starts_with("RELOADING=1"), "{reloading}");
    assert_eq!(later.next().as_deref(), Some("READY=1"));
    faultline_testkit::process::signal(child.pid(), "TERM")?;
    let status = eventually(PATIENCE, "the end", || child.exit_status().ok().flatten());
    assert_eq!(status.code(), Some(0));
    Ok(())
}

/// A daemon that has a push for an upstream without responses. After the stop signal, it tries for
/// some seconds.
fn slow_to_stop(folder: &Path) -> Result<(Daemon, TcpListener)> {
    // Connections wait in the backlog.
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (file, password) = (folder.join("c.toml"), folder.join("password"));
    fs::write(&password, "secret").expect("a file");
    let address = upstream.local_addr().expect("an address");
    let text = format!(
        "[forward]\nurl = \"http://{address}\"\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{}\"\n",
        password.display()
    );
    fs::write(&file, text).expect("a file");
    let own = std::process::id().to_string();
    let daemon = Daemon::start(
        FAULTLINED,
        &["--config", &file.display().to_string(), "--pid", &own],
        folder,
    )?;
    let push =
        Request::new("POST", "/write?db=d&u=u&p=p&precision=n").body(b"x,host_id=A a=1i 1\n");
    assert_eq!(push.send(daemon.ingest())?.status, 204);
    Ok((daemon, upstream))
}

#[test]
fn a_second_signal_ends_waiting_for_the_upstream_and_is_logged() -> Result<()> {
    let folder = folder();
    let (daemon, _upstream) = slow_to_stop(folder.path())?;
    daemon.signal("TERM")?;
    eventually_ok(
        PATIENCE,
        "a signal that comes later ends it by force",
        || {
            // Sending the signal fails once the daemon has ended.
            let _ = daemon.signal("TERM");
            let log = daemon.log();
            if log.contains("forced exit after a second signal") {
                Ok(())
            } else {
                Err(log)
            }
        },
    );
    assert_eq!(
        daemon.stop()?,
        Some(2),
        "left alone it would have lost the push after 5 s and ended with 0"
    );
    Ok(())
}

#[test]
fn two_simultaneous_signals_count_as_one_without_forcing_exit() -> Result<()> {
    let folder = folder();
    let (daemon, _upstream) = slow_to_stop(folder.path())?;
    // Signals the process and then its group, as `timeout` does.
    daemon.signal("TERM")?;
    assert_eq!(daemon.stop()?, Some(0));
    let log = fs::read_to_string(folder.path().join("faultlined.log")).expect("its log");
    assert!(
        log.contains("stopped graceful=true") && !log.contains("by force"),
        "{log}"
    );
    Ok(())
}

/// A daemon with this value of `FAULTLINE_INGEST_CONFIG`, which logs to `log`.
fn with_ingest_config(config: &str, log: &Path) -> Result<Running> {
    let own = std::process::id().to_string();
    let arguments = [
        "run",
        "--pid",
        &own,
        "--listen",
        "127.0.0.1:0",
        "--ingest",
        "127.0.0.1:0",
    ];
    Running::start(&Program {
        path: FAULTLINED.into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![(
            "FAULTLINE_INGEST_CONFIG".to_owned(),
            Some(config.to_owned()),
        )],
        output: log.to_owned(),
    })
}

#[test]
fn ingest_credentials_from_the_environment_without_a_user_are_refused() -> Result<()> {
    let folder = folder();
    let log = folder.path().join("log");
    let mut refused = with_ingest_config("host=http://127.0.0.1:9913,db=faultline", &log)?;
    let status = eventually(PATIENCE, "the end", || refused.exit_status().ok().flatten());
    assert_eq!(status.code(), Some(64));
    assert!(
        fs::read_to_string(&log)
            .expect("its log")
            .contains("FAULTLINE_INGEST_CONFIG")
    );
    Ok(())
}

#[test]
fn a_push_without_the_environments_credentials_is_refused_counted_and_logged() -> Result<()> {
    let folder = folder();
    let log = folder.path().join("log");
    let config = "host=http://127.0.0.1:9913,db=faultline,u=faultline,p=0123456789abcdef";
    let _daemon = with_ingest_config(config, &log)?;
    let log_text = || fs::read_to_string(&log).expect("its log");
    let [metrics, ingest] = eventually(PATIENCE, "it says where it listens", || {
        let log_text = log_text();
        let line = log_text
            .lines()
            .find(|line| line.contains("listening metrics="))?;
        let word = |key: &str| {
            Some(
                line.split_once(key)?
                    .1
                    .split_whitespace()
                    .next()?
                    .to_owned(),
            )
        };
        Some([word("metrics=")?, word("ingest=")?])
    });
    let push = |query: &str| {
        let path = format!("/write?db=faultline&{query}&precision=n");
        Request::new("POST", &path)
            .body(b"x,host_id=A a=1i 1\n")
            .send(&ingest)
            .map(|answer| answer.status)
    };
    assert_eq!(push("u=faultline&p=0123456789abcdef")?, 204);
    for _ in 0..3 {
        assert_eq!(push("u=any&p=any")?, 401);
    }
    eventually_ok(PATIENCE, "they are counted", || {
        let page = http::get(&metrics, "/metrics")
            .map_err(|error| error.to_string())?
            .text();
        let has = |listener: &str, count: u32| {
            let series = format!("faultline_auth_failures_total{{listener=\"{listener}\"}}");
            page.lines().any(|line| line == format!("{series} {count}"))
        };
        if has("ingest", 3) && has("metrics", 0) {
            Ok(())
        } else {
            Err(page)
        }
    });
    let log_text = log_text();
    let lines: Vec<&str> = log_text
        .lines()
        .filter(|line| line.contains("authentication failed"))
        .collect();
    assert!(
        lines.len() == 1
            && lines[0].contains("listener=\"ingest\"")
            && lines[0].contains("127.0.0.1"),
        "{log_text}"
    );
    assert!(!log_text.contains("0123456789abcdef"), "{log_text}");
    Ok(())
}

#[test]
fn a_problem_of_rpc_is_logged_once() -> Result<()> {
    let folder = folder();
    let program = folder.path().join("agave-validator");
    fs::copy(
        faultline_testkit::binaries::in_search_path("sleep").expect("sleep"),
        &program,
    )
    .expect("a copy");
    let validator = Running::start(&Program {
        path: program,
        arguments: vec!["1000".to_owned()],
        environment: Vec::new(),
        output: folder.path().join("validator.out"),
    })?;
    let (file, pid) = (folder.path().join("c.toml"), validator.pid().to_string());
    // The server responds, but not with JSON-RPC.
    let sink = Sink::start()?;
    fs::write(
        &file,
        format!("[rpc]\nurl = \"http://{}\"\n", sink.address()),
    )
    .expect("a file");
    let arguments = [
        "--config",
        &file.display().to_string(),
        "--pid",
        &pid,
        "--interval",
        "100ms",
    ];
    let daemon = Daemon::start(FAULTLINED, &arguments, folder.path())?;
    eventually_ok(PATIENCE, "the problem is counted", || {
        let count = daemon.scrape().map_err(|error| error.to_string())?;
        let count = count.get(
            "faultline_source_problems_total",
            &[("source", "rpc"), ("kind", "broken")],
        );
        if count >= Some(1.0) {
            Ok(())
        } else {
            Err(format!("{count:?}"))
        }
    });
    assert_eq!(daemon.stop()?, Some(0));
    let log = fs::read_to_string(folder.path().join("faultlined.log")).expect("its log");
    let about_rpc = log
        .lines()
        .filter(|line| line.contains("source=\"rpc\""))
        .count();
    assert_eq!(about_rpc, 1, "{log}");
    Ok(())
}

#[test]
fn an_unopenable_log_is_retried() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("agave.log");
    // Not even root can read the last file.
    let cases = [
        (folder.path().join("missing"), "does not exist yet"),
        (path.clone(), "Too many levels of symbolic links"),
        ("/proc/sys/vm/compact_memory".into(), "Permission denied"),
    ];
    for (link, words) in cases {
        std::os::unix::fs::symlink(link, &path).expect("a link");
        let file = folder.path().join("c.toml");
        fs::write(&file, format!("[log]\nfile = {path:?}\n")).expect("a file");
        let file = file.display().to_string();
        let arguments = ["--no-ingest", "--config", &file, "--interval", "100ms"];
        let daemon = Daemon::start(FAULTLINED, &arguments, folder.path())?;
        let is_logged = |words: &str| {
            eventually_ok(PATIENCE, words, || {
                let log = daemon.log();
                if log.contains(words) {
                    Ok(())
                } else {
                    Err(log)
                }
            });
        };
        is_logged(words);
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "").expect("a log");
        is_logged("the validator's log is being read");
        assert_eq!(daemon.stop()?, Some(0), "{words}");
        fs::remove_file(&path).expect("it is there");
    }
    Ok(())
}

#[test]
fn a_non_validator_process_has_no_validator_sources() -> Result<()> {
    let folder = folder();
    let name = fs::read_to_string("/proc/self/comm")
        .expect("a name")
        .trim()
        .to_owned();
    let daemon = Daemon::start(
        FAULTLINED,
        &["--process-name", &name, "--no-ingest"],
        folder.path(),
    )?;
    let page = eventually_ok(PATIENCE, "a page", || daemon.scrape());
    for source in ["datapoints", "rpc", "admin_rpc", "log"] {
        assert_eq!(
            page.get("faultline_source_up", &[("source", source)]),
            None,
            "{source}"
        );
    }
    assert_eq!(daemon.ingest(), "");
    Ok(())
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let folder = folder();
    let script =
        "trap '' HUP INT USR1; exec \"$0\" run --pid $$ --listen 127.0.0.1:0 --ingest 127.0.0.1:0";
    let mut running = Running::start(&Program {
        path: "/bin/sh".into(),
        arguments: ["-c", script, FAULTLINED].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        output: folder.path().join("output"),
    })
    .expect("faultlined");
    let status = format!("/proc/{}/status", running.pid());
    let mask = |name: &str| {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let (hangup, interrupt, user, terminate) = (1, 1 << 1, 1 << 9, 1 << 14);
    eventually(PATIENCE, "it listens to SIGTERM", || {
        mask("SigCgt:").filter(|caught| caught & terminate != 0)
    });
    let all = hangup | interrupt | user;
    assert_eq!(mask("SigIgn:").map(|ignored| ignored & all), Some(all));
    faultline_testkit::process::signal(running.pid(), "HUP").expect("a signal");
    faultline_testkit::process::signal(running.pid(), "TERM").expect("a signal");
    let ended = eventually(PATIENCE, "it ends", || {
        running.exit_status().expect("its status")
    });
    assert_eq!(ended.code(), Some(0));
}
