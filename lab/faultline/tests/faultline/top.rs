//! `faultline top` as an operator sees it: on a terminal, beside a real daemon.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and threads itself"
)]

pub mod terminal;

use faultline_testkit::{
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    ports::PortBlock,
    process::signal,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use terminal::Terminal;

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
const PATIENCE: Duration = Duration::from_secs(60);
const STATUS: &str = include_str!("../fixtures/top/at_tip.json");

/// The daemon with its stand-in for a validator; `None` if it was not built beside this program.
fn demo(folder: &Path, arguments: &[&str]) -> Option<Daemon> {
    let program = Path::new(FAULTLINE).with_file_name("faultlined");
    if !program.is_file() {
        eprintln!(
            "SKIPPED: no {}; cargo build -p faultlined makes it",
            program.display()
        );
        return None;
    }
    let arguments: Vec<&str> = ["--demo"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    Some(Daemon::start(program.to_str().unwrap(), &arguments, folder).unwrap())
}

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(FAULTLINE);
    command
        .arg("top")
        .args(arguments)
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR");
    command
}

/// Its text for a pipe, and what it says on standard error.
fn once(arguments: &[&str]) -> (Output, String) {
    let output = top(arguments)
        .args(["--once", "--interval", "100ms"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

#[test]
fn top_in_a_terminal_handles_keys_and_resizes_and_restores_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = demo(folder.path(), &["--interval", "200ms"]) else {
        return;
    };
    let mut terminal =
        Terminal::start(&mut top(&[daemon.metrics(), "--interval", "200ms"]), 80, 24);
    let screen = terminal.shows("demo: no real numbers");
    assert!(
        screen.contains(&format!("http://{}", daemon.metrics())),
        "{screen}"
    );
    assert_eq!(screen.lines().count(), 24, "{screen}");
    // Anonymous memory as the daemon tells it, while it does not move between the two looks.
    eventually(PATIENCE, "the same figure on page and screen", || {
        let page = daemon.scrape().unwrap();
        let restarts = page.sum("agave_process_restarts_total").unwrap();
        let file = page
            .get("agave_process_resident_memory_bytes", &[("type", "file")])
            .unwrap()
            / f64::from(1 << 20);
        let screen = terminal.screen();
        let both = [
            format!("restarts {restarts}"),
            format!("file {file:.1} MiB"),
        ];
        both.iter()
            .all(|words| screen.contains(words))
            .then_some(())
    });
    terminal.until("rates of faults", |screen| {
        !screen.contains("major –") && screen.contains("minor ")
    });
    terminal.until("a pool", |screen| screen.contains(" solReplayStage"));
    assert!(terminal.is_coloured());

    obeys_keys(&mut terminal);
    obeys_sizes(&mut terminal);
    terminal.keys("q");
    assert_eq!(terminal.is_given_back().code(), Some(0));
}

fn obeys_sizes(terminal: &mut Terminal) {
    terminal.resize(150, 50);
    terminal.shows(" Host ");
    let wide = terminal.until("pools beside figures", |screen| {
        screen
            .lines()
            .nth(1)
            .is_some_and(|line| line.contains(" RAM: ") && line.contains("Pools by name"))
    });
    assert!(
        wide.lines().count() == 50 && wide.lines().any(|line| line.chars().count() > 140),
        "{wide}"
    );
    terminal.resize(80, 24);
    terminal.until("small again", |screen| {
        screen.lines().count() == 24 && screen.contains("\n Pools by name")
    });
}

fn obeys_keys(terminal: &mut Terminal) {
    terminal.keys("h");
    terminal.shows("order of the pools: faults, CPU, name");
    terminal.keys("\x1b");
    terminal.shows(" Pools by faults");
    terminal.keys("s");
    terminal.shows(" Pools by CPU");
    terminal.keys("n");
    let by_name = terminal.shows(" Pools by name");
    let pools = by_name
        .lines()
        .skip_while(|line| !line.starts_with(" Pools"))
        .skip(1)
        .take_while(|line| !line.starts_with(" faultlined"))
        .take(7);
    let pools: Vec<&str> = pools
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(
        pools.is_sorted() && pools[0] == "agave-validator",
        "{pools:?}"
    );
    terminal.keys("\x1b[B\x1b[B");
    terminal.until("scrolled", |screen| {
        !screen.contains(" agave-validator") && screen.contains(pools[2])
    });
    terminal.scribble("scribbled by somebody else");
    terminal.shows("scribbled");
    terminal.keys("\x0c");
    terminal.until("drawn anew", |screen| !screen.contains("scribbled"));
    terminal.keys("p");
    terminal.shows("PAUSED");
    terminal.keys(" ");
    terminal.until("going on", |screen| !screen.contains("PAUSED"));
}

#[test]
fn the_terminal_is_restored_after_signals_and_ctrl_c() {
    // Nobody answers at port 1.
    let start = || {
        let mut terminal = Terminal::start(&mut top(&["127.0.0.1:1"]), 80, 24);
        terminal.shows("NO ANSWER");
        terminal
    };
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let mut terminal = start();
        signal(terminal.pid(), name).unwrap();
        assert_eq!(terminal.is_given_back().code(), Some(code), "{name}");
    }
    let mut terminal = start();
    terminal.keys("\x03");
    assert_eq!(terminal.is_given_back().code(), Some(0));
}

#[test]
fn a_daemon_restart_is_reported_and_the_view_continues() {
    let folder = tempfile::tempdir().unwrap();
    let ports = PortBlock::claim(21_000).unwrap();
    let address = format!("127.0.0.1:{}", ports.port(1));
    let mut terminal = Terminal::start(
        top(&[&address, "--interval", "100ms"]).env("NO_COLOR", "1"),
        80,
        24,
    );
    terminal.shows("retrying: no connection to 127.0.0.1");
    let Some(daemon) = demo(folder.path(), &["--listen", &address]) else {
        return;
    };
    terminal.shows("demo: no real numbers");
    terminal.shows("sources up");
    assert!(!terminal.is_coloured());
    daemon.stop().unwrap();
    let gone = terminal.shows("the values are older: no connection");
    assert!(
        gone.contains("NO ANSWER for") && gone.contains("demo: no real numbers"),
        "{gone}"
    );
    let Some(_daemon) = demo(folder.path(), &["--listen", &address]) else {
        return;
    };
    terminal.shows("sources up");
    terminal.resize(150, 60);
    // A small screen without pools has room for the newest event only.
    terminal.until("both events", |screen| {
        ["faultlined is back after", "faultlined was started anew"]
            .iter()
            .all(|event| screen.contains(event))
    });
    terminal.keys("q");
    assert_eq!(terminal.is_given_back().code(), Some(0));
}

#[test]
fn top_prints_one_text_screen_to_a_pipe_then_exits() {
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = demo(folder.path(), &[]) else {
        return;
    };
    eventually(PATIENCE, "a pool", || {
        daemon.scrape().ok()?.sum("agave_thread_pool_threads")
    });
    for arguments in [
        vec![daemon.metrics(), "--once"],
        vec![daemon.metrics(), "--interval", "100ms"],
    ] {
        let output = top(&arguments).env("LC_ALL", "C").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{:?}",
            output.stderr
        );
        assert!(
            text.contains("demo: no real numbers") && text.contains(" solReplayStage"),
            "{text}"
        );
        let pool = text.lines().find(|line| line.contains(" solReplayStage"));
        assert!(
            arguments.len() > 2 || pool.is_some_and(|pool| !pool.contains(" - ")),
            "{text}"
        );
        assert!(
            text.is_ascii() && !text.contains('\x1b') && text.lines().all(|line| line.len() <= 80),
            "{text}"
        );
    }
}

#[test]
fn top_reports_an_unreachable_address_with_its_own_exit_code() {
    let (output, said) = once(&["127.0.0.1:1"]);
    assert_eq!(
        (output.status.code(), said.as_str()),
        (
            Some(1),
            "faultline: http://127.0.0.1:1: no connection to 127.0.0.1:1 (connection refused)\n"
        )
    );
    let (output, said) = once(&["http://me:secret@127.0.0.1:1"]);
    assert!(
        output.status.code() == Some(64)
            && said.contains("--password-file")
            && !said.contains("secret"),
        "{said}"
    );
    let (output, said) = once(&["/nowhere/socket"]);
    assert!(
        output.status.code() == Some(1) && said.contains("no such file"),
        "{said}"
    );
    let (output, said) = once(&["--user", "me", "--password-file", "/nowhere/password"]);
    assert!(
        output.status.code() == Some(1) && said.contains("/nowhere/password"),
        "{said}"
    );
}

/// Answers each connection to a unix socket with the next of these pages, and then with the last, until the test ends. An
/// empty one is no answer, and `404` is that status. The number of connections.
fn serve(socket: &Path, pages: Vec<String>) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    std::thread::spawn(move || {
        let last = std::iter::repeat(pages.last().unwrap());
        for (stream, page) in listener.incoming().zip(pages.iter().chain(last)) {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                asked.push(byte[0]);
            }
            assert!(asked.starts_with(b"GET /status HTTP/1.1\r\n"));
            if page.is_empty() {
                continue;
            }
            let code = if page == "404" {
                "404 Not Found"
            } else {
                "200 OK"
            };
            write!(
                stream,
                "HTTP/1.1 {code}\r\nContent-Length: {}\r\n\r\n{page}",
                page.len()
            )
            .unwrap();
        }
    });
    served
}

#[test]
fn top_reads_a_unix_socket_and_refuses_a_foreign_page() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.sock");
    serve(&ours, vec![STATUS.to_owned()]);
    let (output, said) = once(&[&format!("unix:{}", ours.display())]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("461 of 512 entries"),
        "{said}{text}"
    );
    let others = folder.path().join("others.sock");
    serve(&others, vec!["node_load1 0.5\n".to_owned()]);
    let (output, said) = once(&[others.to_str().unwrap()]);
    assert!(
        output.status.code() == Some(1) && said.contains("not with the status of a faultlined"),
        "{said}"
    );
    let older = folder.path().join("older.sock");
    serve(&older, vec!["404".to_owned()]);
    let (output, said) = once(&[older.to_str().unwrap()]);
    assert!(
        output.status.code() == Some(1)
            && said.contains("404: it has no page /status")
            && said.contains(concat!(
                "else install faultlined ",
                env!("CARGO_PKG_VERSION"),
                ", the release of this faultline"
            )),
        "{said}"
    );
}

/// The status with the values of this source so many seconds later.
fn later(status: &Value, source: &str, seconds: f64) -> Value {
    let mut status = status.clone();
    let sources = status["sources"].as_array_mut().unwrap();
    let source = sources.iter_mut().find(|one| one["name"] == source);
    let time = &mut source.unwrap()["values_from"];
    *time = json!(time.as_f64().unwrap() + seconds);
    status
}

#[test]
fn one_screen_mode_waits_for_the_json_rpc_response() {
    let status: Value = serde_json::from_str(STATUS).unwrap();
    let twice = later(&status, "process", 1.0);
    let mut newer = later(&twice, "rpc", 2.0);
    let transactions = &mut newer["figures"]["transactions"];
    *transactions = json!(transactions.as_f64().unwrap() + 800.0);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    serve(
        &socket,
        vec![STATUS.to_owned(), twice.to_string(), newer.to_string()],
    );
    let (output, said) = once(&[socket.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("400/s") && !text.contains("in frozen banks"),
        "{said}{text}"
    );
}

#[test]
fn one_screen_mode_waits_for_second_samples_of_slow_sources() {
    let mut status: Value = serde_json::from_str(STATUS).unwrap();
    let mut pages = vec![status.to_string()];
    for source in ["process", "cgroup", "rpc", "datapoints", "threads"] {
        status = later(&status, source, 5.0);
        pages.push(status.to_string());
    }
    let count = pages.len();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let served = serve(&socket, pages);
    let (output, said) = once(&[socket.to_str().unwrap()]);
    assert!(output.status.success(), "{said}");
    assert_eq!(served.load(Ordering::SeqCst), count);
}

#[test]
fn after_the_daemon_exits_its_last_values_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    serve(
        &socket,
        vec![STATUS.to_owned(), STATUS.to_owned(), String::new()],
    );
    let (output, said) = once(&[socket.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && said.is_empty() && text.contains("461 of 512 entries"),
        "{said}{text}"
    );
    assert!(text.contains("NO ANSWER for"), "{text}");
}

/// Certificates, a web config file with the user `me` whose password is `secret`, and files with a right and a wrong one.
fn protected(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    write("ca.pem", &authority.pem());
    write("server.pem", &certificate.pem());
    write("server.key", &key.serialize_pem());
    let hash = bcrypt::hash("secret", 4).unwrap();
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    write(
        "web.yml",
        &format!("{tls}basic_auth_users:\n  me: \"{hash}\"\n"),
    );
    write(
        "faultlined.toml",
        &format!("[metrics]\nweb_config = {:?}\n", folder.join("web.yml")),
    );
    write("right", "secret\n");
    write("wrong", "guess\n");
}

#[test]
fn top_connects_only_with_the_right_certificate_and_password() {
    let folder = tempfile::tempdir().unwrap();
    protected(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let Some(daemon) = demo(folder.path(), &["--config", &path("faultlined.toml")]) else {
        return;
    };
    let address = daemon.metrics().replace("127.0.0.1", "https://localhost");
    let (ca, right, wrong) = (path("ca.pem"), path("right"), path("wrong"));
    let text = eventually_ok(PATIENCE, "a page", || {
        let (output, said) = once(&[
            &address,
            "--ca",
            &ca,
            "--user",
            "me",
            "--password-file",
            &right,
        ]);
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(said)
        }
    });
    assert!(text.contains("demo: no real numbers"), "{text}");
    let (_, said) = once(&[
        &address,
        "--ca",
        &ca,
        "--user",
        "me",
        "--password-file",
        &wrong,
    ]);
    assert!(said.contains("rejects this user and password"), "{said}");
    let (_, said) = once(&[&address, "--ca", &ca]);
    assert!(said.contains("--user and --password-file"), "{said}");
    let (output, said) = once(&[&address, "--user", "me", "--password-file", &right]);
    assert!(
        output.status.code() == Some(1) && said.contains("certificate"),
        "{said}"
    );
}
