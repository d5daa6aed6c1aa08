//! Sockets that another program owns, as with systemd's socket activation. Connections wait in them
//! while the daemon restarts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and threads itself"
)]

use faultline_testkit::{
    eventually::eventually,
    http::{self, Request},
    process,
    sink::Sink,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(60);
/// Moves descriptors 0 and 1 to 3 and 4, as systemd numbers them. The process id does not change.
const HAND_OVER: &str = "exec 3<&0 4<&1 </dev/null >&2; LISTEN_PID=$$ exec \"$0\" \"$@\"";

/// The program that owns the sockets.
struct Holder {
    folder: tempfile::TempDir,
    ingest: OwnedFd,
    metrics: OwnedFd,
    names: &'static str,
}

impl Holder {
    fn new(ingest: impl Into<OwnedFd>, metrics: impl Into<OwnedFd>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            folder,
            ingest: ingest.into(),
            metrics: metrics.into(),
            names: "ingest:metrics",
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let descriptor_of =
            |socket: &OwnedFd| Stdio::from(socket.try_clone().expect("a descriptor"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .expect("a log");
        Command::new("sh")
            .args(["-c", HAND_OVER, FAULTLINED, "run"])
            .args(arguments)
            .envs([("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", self.names)])
            .stdin(descriptor_of(&self.ingest))
            .stdout(descriptor_of(&self.metrics))
            .stderr(log)
            .spawn()
            .expect("a shell")
    }

    fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

fn bind() -> (TcpListener, String) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    (socket, address)
}

fn stop(mut child: Child) -> ExitStatus {
    process::signal(child.id(), "TERM").expect("a signal");
    child.wait().expect("its end")
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// A validator that pushes continuously. With `keep`, it uses one connection until that closes, as
/// Agave 4 does. Otherwise it opens one for each push. Returns the numbers of its pushes. Each got
/// 204 once.
fn push(address: &str, first: u64, keep: bool, enough: &AtomicBool) -> Vec<u64> {
    let mut pushed = Vec::new();
    let mut connection: Option<BufReader<TcpStream>> = None;
    for number in first.. {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        let mut stream = connection.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(address).expect("the socket is always there");
            stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
            BufReader::new(stream)
        });
        let body = format!("x,host_id=A n={number}i 1700000000000000000\n");
        let head = format!(
            "POST /write?db=d&u=u&p=p&precision=n HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .get_mut()
            .write_all(format!("{head}{body}").as_bytes())
            .expect("the push is taken");
        let mut answer = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("an answer");
            match line.trim_end() {
                "" => break,
                line => answer.push(line.to_ascii_lowercase()),
            }
        }
        assert!(
            answer.first().is_some_and(|line| line.contains(" 204 ")),
            "push {number}: {answer:?}"
        );
        pushed.push(number);
        if keep && !answer.iter().any(|line| line == "connection: close") {
            connection = Some(stream);
        }
    }
    pushed
}

fn forwarding_to(sink: &Sink, folder: &Path) -> String {
    let (file, password) = (folder.join("c.toml"), folder.join("password"));
    fs::write(&password, "secret").expect("a file");
    let keys = format!(
        "url = \"{}\"\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{}\"\n",
        sink.url(),
        password.display()
    );
    fs::write(&file, format!("[forward]\n{keys}")).expect("a file");
    file.display().to_string()
}

/// The numbers that reached the upstream. Each must arrive once.
fn arrived(sink: &Sink) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for body in sink.bodies() {
        for line in String::from_utf8(body).expect("text").lines() {
            let number = line
                .split_once("n=")
                .and_then(|(_, rest)| rest.split_once('i'))
                .expect("a number")
                .0;
            assert!(
                numbers.insert(number.parse().expect("a number")),
                "{number} came twice"
            );
        }
    }
    numbers
}

#[test]
fn no_push_is_lost_during_repeated_daemon_restarts() {
    const RESTARTS: usize = 4;
    let ((ingest, address), (metrics, page)) = (bind(), bind());
    let (holder, sink) = (
        Holder::new(ingest, metrics),
        Sink::start().expect("an upstream"),
    );
    let config = forwarding_to(&sink, holder.folder.path());
    let start = || holder.start(&["--config", &config, "--pid", &own_pid()]);
    let enough = Arc::new(AtomicBool::new(false));
    let mut daemon = start();
    let pushers: Vec<_> = [(0, true), (1_000_000, false)]
        .map(|(first, keep)| {
            let (address, enough) = (address.clone(), Arc::clone(&enough));
            std::thread::spawn(move || push(&address, first, keep, &enough))
        })
        .into_iter()
        .collect();
    for restart in 1..=RESTARTS {
        let before = sink.count();
        eventually(PATIENCE, "pushes flow", || {
            (sink.count() > before + 20).then_some(())
        });
        assert_eq!(
            stop(daemon).code(),
            Some(0),
            "restart {restart}: {}",
            holder.log_text()
        );
        daemon = start();
        // A scraper that connects while the daemon starts gets a response after the start.
        assert_eq!(http::get(&page, "/").expect("an answer").status, 200);
    }
    enough.store(true, Ordering::Relaxed);
    let pushed: BTreeSet<u64> = pushers
        .into_iter()
        .flat_map(|pusher| pusher.join().expect("every push is taken"))
        .collect();
    assert_eq!(stop(daemon).code(), Some(0), "{}", holder.log_text());
    assert_eq!(arrived(&sink), pushed);
}

#[test]
fn activation_sockets_override_the_configured_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metrics.sock");
    let (ingest, address) = bind();
    let holder = Holder::new(ingest, UnixListener::bind(&path).expect("a socket"));
    let ready = folder.path().join("ready").display().to_string();
    let options = [
        "--listen",
        "127.0.0.1:1",
        "--interval",
        "100ms",
        "--ready-file",
        &ready,
    ];
    let daemon = holder.start(&[["--pid", &own_pid()].as_slice(), &options].concat());
    let push =
        Request::new("POST", "/write?db=d&u=u&p=p&precision=n").body(b"x,host_id=A a=1i 1\n");
    assert_eq!(push.send(&address).expect("an answer").status, 204);
    eventually(PATIENCE, "the page in the file system", || {
        let mut stream = UnixStream::connect(&path).expect("the socket");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("a request");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("an answer");
        let pushed = "faultline_ingest_requests_total{code=\"204\"} 1\n";
        // The first tick may be older than the push.
        (page.contains("agave_process_threads") && page.contains(pushed)).then_some(())
    });
    let named: serde_json::Value =
        serde_json::from_slice(&fs::read(&ready).expect("the ready file")).expect("JSON");
    let places = serde_json::json!([[path.display().to_string()], [address]]);
    assert_eq!(
        serde_json::json!([named["metrics"], named["ingest"]]),
        places
    );
    assert_eq!(stop(daemon).code(), Some(0));
    let log_text = holder.log_text();
    assert!(
        log_text.contains(&format!(
            "listening metrics={} ingest={address}",
            path.display()
        )),
        "{log_text}"
    );
    assert!(
        log_text.contains("metrics.listen") && log_text.contains("127.0.0.1:1"),
        "the configured one is named: {log_text}"
    );
}

#[test]
fn an_unused_or_non_loopback_activation_socket_is_refused_with_a_remedy() {
    let refused = |holder: &Holder| {
        let status = holder
            .start(&["--pid", &own_pid()])
            .wait()
            .expect("its end");
        assert_eq!(status.code(), Some(64), "{}", holder.log_text());
        holder.log_text()
    };
    let mut holder = Holder::new(bind().0, bind().0);
    holder.names = "ingest:faultlined.socket";
    assert!(
        refused(&holder).contains("FileDescriptorName=metrics"),
        "{}",
        holder.log_text()
    );
    let everywhere = || TcpListener::bind("0.0.0.0:0").expect("a port");
    let log_text = refused(&Holder::new(bind().0, everywhere()));
    assert!(log_text.contains("metrics.web_config"), "{log_text}");
    let log_text = refused(&Holder::new(everywhere(), bind().0));
    assert!(log_text.contains("beyond_loopback"), "{log_text}");
    let log_text = refused(&Holder::new(
        File::open("/dev/null").expect("a file"),
        bind().0,
    ));
    assert!(log_text.contains("ListenStream="), "{log_text}");
}
