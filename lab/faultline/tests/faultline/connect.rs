//! Hosts with several addresses of which some are closed or dead, TLS, and what is said while a node gives no answer.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs, and a node that answers needs a thread"
)]

use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_faultline");

/// As on Debian: the resolver returns ::1 first.
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

/// The program in a mount namespace where `localhost` has two addresses. `None`, having said so, where that cannot be made.
fn with_hosts(folder: &Path) -> Option<Command> {
    let hosts = folder.join("hosts");
    fs::write(&hosts, HOSTS).unwrap();
    let enter = |program: &str| {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        command
            .args(["-m", "sh", "-c", script])
            .arg(&hosts)
            .arg(program);
        command
    };
    let made = enter("true").stderr(Stdio::null()).status();
    if made.is_ok_and(|status| status.success()) {
        return Some(enter(PROGRAM));
    }
    println!("SKIPPED: a mount namespace cannot be made here; root may");
    None
}

/// Answers JSON-RPC as a node whose vote account has 5 SOL.
fn answer(mut stream: impl Read + Write) -> Option<()> {
    loop {
        let mut reader = BufReader::new(&mut stream);
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).ok()? > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        if length == 0 {
            return None;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let question: Value = serde_json::from_slice(&body).unwrap();
        let result = match question["method"].as_str().unwrap() {
            "getVoteAccounts" => json!({"delinquent": [], "current": [
                {"nodePubkey": "1".repeat(32), "activatedStake": 5_000_000_000_u64}
            ]}),
            _ => json!(5),
        };
        let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).ok()?;
        stream.flush().ok()?;
    }
}

/// A node at a port of 127.0.0.1; its threads end with the test's process.
fn node(tls: Option<Arc<ServerConfig>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = tls.clone();
            std::thread::spawn(move || match tls {
                Some(config) => {
                    let session = ServerConnection::new(config).unwrap();
                    answer(StreamOwned::new(session, stream))
                }
                None => answer(stream),
            });
        }
    });
    port
}

/// A certificate for `localhost`, in a file that clients can trust, and a server that has it.
fn certificate(folder: &Path) -> (PathBuf, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = folder.join("ca.pem");
    fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (file, Arc::new(config))
}

/// A listener at ::1 whose queue is full: Linux drops what asks for a connection there, as a dead route does.
struct DeadListener {
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl DeadListener {
    fn new(port: u16) -> Self {
        let listener = TcpListener::bind(("::1", port)).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let within = Duration::from_millis(500);
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, within) {
            queued.push(stream);
        }
        Self {
            _listener: listener,
            _queued: queued,
        }
    }
}

/// A plan whose identity has the stake that the node tells of.
fn plan(folder: &Path, url: &str) -> PathBuf {
    fs::write(folder.join("id.json"), format!("{:?}", [0_u8; 64])).unwrap();
    let file = folder.join("plan.toml");
    let text = format!(
        "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"true\"]\nledger = \"ledger\"\n\
         identity = \"id.json\"\ncluster_rpc = \"{url}\"\n[recorder]\nprogram = \"./plan.toml\"\n[[arm]]\nname = \"a\"\n"
    );
    fs::write(&file, text).unwrap();
    file
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_refused_for_stake(output: &Output) {
    let text = said(output);
    assert!(
        output.status.code() == Some(1) && text.contains("has a stake of 5 SOL"),
        "{text}"
    );
}

#[test]
fn a_staked_identity_is_refused_when_localhost_resolves_to_ipv6_first() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = with_hosts(folder.path()) else {
        return;
    };
    let file = plan(folder.path(), &format!("http://localhost:{}", node(None)));
    // No proxy can reach this machine's loopback.
    program.env("http_proxy", "http://127.0.0.1:1");
    is_refused_for_stake(
        &program
            .args(["experiment", "plan"])
            .arg(file)
            .output()
            .unwrap(),
    );
}

#[test]
fn the_stake_is_requested_from_a_tls_node() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, config) = certificate(folder.path());
    let file = plan(
        folder.path(),
        &format!("https://localhost:{}/?api-key=SECRET", node(Some(config))),
    );
    let ask = |trusted: &Path| {
        let mut program = Command::new(PROGRAM);
        program
            .env("SSL_CERT_FILE", trusted)
            .args(["experiment", "plan"]);
        program.arg(&file).output().unwrap()
    };
    is_refused_for_stake(&ask(&authority));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let text = said(&ask(&certificate(&other).0));
    assert!(
        text.contains(
            "cannot determine whether the identity has stake: getVoteAccounts at localhost:"
        ) && text.contains("certificate"),
        "{text}"
    );
    assert!(!text.contains("SECRET"), "{text}");
}

#[test]
fn a_dead_ipv6_address_does_not_delay_the_ipv4_address() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = with_hosts(folder.path()) else {
        return;
    };
    let port = node(None);
    let _dead = DeadListener::new(port);
    let url = format!("http://localhost:{port}");
    let file = plan(folder.path(), &url);
    is_refused_for_stake(
        &program
            .args(["experiment", "plan"])
            .arg(file)
            .output()
            .unwrap(),
    );
    let bench = bench(folder.path(), &url);
    assert!(
        bench.contains("3") && !bench.contains("no connection"),
        "{bench}"
    );
}

/// What `bench run` prints of three requests.
fn bench(folder: &Path, url: &str) -> String {
    let file = folder.join("bench.toml");
    let text = format!(
        "rounds = 3\nwarm_up = 0\ntimeout = \"5s\"\n[[arm]]\nname = \"a\"\nurl = \"{url}\"\ntransport = \"http\"\n\
         [[request]]\nmethod = \"getSlot\"\nanswer = \"any\"\n"
    );
    fs::write(&file, text).unwrap();
    let mut program = with_hosts(folder).unwrap();
    said(&program.args(["bench", "run"]).arg(file).output().unwrap())
}

#[test]
fn a_bench_connect_error_names_each_address() {
    let folder = tempfile::tempdir().unwrap();
    if with_hosts(folder.path()).is_none() {
        return;
    }
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = bench(folder.path(), &format!("http://localhost:{closed}"));
    let named = format!(
        "no connection to [::1]:{closed} (connection refused), 127.0.0.1:{closed} (connection refused)"
    );
    assert!(text.contains(&named), "{text}");
}

/// The first line that `cache fetch` says about a node.
fn first_words_of_fetch(url: &str) -> String {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/arm-512-1.fltl");
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(PROGRAM)
        .args(["cache", "fetch", "--rpc", url, "--out"])
        .arg(folder.path().join("out.trace"))
        .arg(run)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    // It still tries.
    assert_eq!(program.try_wait().unwrap(), None, "{line}");
    program.kill().unwrap();
    program.wait().unwrap();
    line
}

#[test]
fn fetching_from_a_silent_node_prints_its_attempt_and_remaining_time() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let said = first_words_of_fetch(&format!("http://{closed}"));
    let tries = format!(
        "faultline: getGenesisHash at {closed}: no connection to {closed} (connection refused); next try in 500 ms, \
         giving up in 1 min "
    );
    assert!(said.starts_with(&tries), "{said}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let said = first_words_of_fetch(&format!("http://{address}"));
    let tries =
        format!("faultline: getGenesisHash at {address}: no answer yet; giving up within 5 min ");
    assert!(said.starts_with(&tries), "{said}");
}
