//! Hostile responses of a validator to a daemon in a cgroup of 96 MiB. Each response is as large as
//! the daemon reads.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::limited::LimitedCgroup;
use faultline_testkit::{
    daemon::Daemon,
    eventually::eventually_ok,
    proc,
    process::{Program, Running},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);
const LIMIT: u64 = 96 << 20;
/// Maximum memory beyond that of a daemon with an honest validator.
const MAX_GROWTH: u64 = 48 << 20;
const MAX_PAGE_BYTES: usize = 300 << 10;
/// The daemon's exit code if a task did not stop in time.
const FORCED_EXIT: i32 = 2;
/// Number of daemons that run at the same time.
const AT_ONCE: usize = 4;

const IDENTITY: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const VOTE: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";

/// Maximum bytes that the daemon reads of one response: of a poll, and of a request of
/// `[validator]`.
const POLL: usize = 1 << 20;
const QUESTION: usize = 16 << 20;

/// A response: its request, how its body is sent, and its result. The middle of the result is
/// repeated up to the size. `KEY` becomes another address each time. `PAD` makes entries as long as
/// real ones.
struct Answer {
    question: &'static str,
    transfer: Transfer,
    result: [&'static str; 3],
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Transfer {
    Whole,
    /// In chunks of one byte.
    Bytes,
    /// As the text of an HTTP error.
    Failure,
    /// As the message of a JSON-RPC error.
    Error,
    /// In a header.
    Header,
}

use Transfer::{Bytes, Error, Failure, Header, Whole};

const fn answer(
    question: &'static str,
    transfer: Transfer,
    result: [&'static str; 3],
    bytes: usize,
) -> Answer {
    Answer {
        question,
        transfer,
        result,
        bytes,
    }
}

const LETTERS: [&str; 3] = ["\"", "x", "\""];
const ESCAPES: [&str; 3] = ["\"", "\\n", "\""];
const OBJECTS: [&str; 3] = ["[", "{\"\":0},", "0]"];
const ZEROS: [&str; 3] = ["[", "0,", "0]"];
const NESTED: [&str; 3] = ["", "[", ""];
const IGNORED_NESTED: [&str; 3] = ["{\"later\":", "[", ""];
const DIGITS: [&str; 3] = ["", "1", ""];
const SPACES: [&str; 3] = ["", " ", "0"];
const LONG_VOTE_ACCOUNT: [&str; 3] = [
    "{\"delinquent\":[],\"current\":[{\"nodePubkey\":\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\",\
     \"activatedStake\":1,\"commission\":0,\"lastVote\":1,\"epochCredits\":[],\"votePubkey\":\"",
    "x",
    "\"}]}",
];
const LONG_CREDITS: [&str; 3] = [
    "{\"delinquent\":[],\"current\":[{\"nodePubkey\":\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\",\
     \"votePubkey\":\"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2\",\
     \"activatedStake\":1,\"commission\":0,\"lastVote\":1,\"epochCredits\":[",
    "[1,2,3],",
    "[5,2,1]]}]}",
];
const TOO_MANY_ACCOUNTS: [&str; 3] = [
    "{\"delinquent\":[],\"current\":[",
    "{\"nodePubkey\":\"11111111111111111111111111111111\",\
     \"votePubkey\":\"11111111111111111111111111111111\",\"activatedStake\":1,\"commission\":0,\
     \"lastVote\":1,\"epochCredits\":[]},",
    "0]}",
];
const MANY_ACCOUNTS: [&str; 3] = [
    "{\"delinquent\":[],\"current\":[",
    "{\"nodePubkey\":\"KEY\",\"votePubkey\":\"KEY\",\"activatedStake\":1,\"commission\":0,\
     \"lastVote\":1,\"epochCredits\":[[4,2,1],[5,2,1]]PAD},",
    "{\"nodePubkey\":\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\",\
     \"votePubkey\":\"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2\",\
     \"activatedStake\":1,\"commission\":0,\"lastVote\":1,\"epochCredits\":[]}]}",
];
const TOO_MANY_NODES: [&str; 3] = ["[", "{\"pubkey\":\"KEY\"},", "0]"];
const MANY_NODES: [&str; 3] = [
    "[",
    "{\"pubkey\":\"KEY\",\"version\":\"2.1.14\"PAD},",
    "{\"pubkey\":\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\"}]",
];
const TOO_MANY_LEADERS: [&str; 3] = ["{\"value\":{\"byIdentity\":{", "\"KEY\":[1,1],", "0}}}"];
const MANY_LEADERS: [&str; 3] = [
    "{\"value\":{\"range\":{\"firstSlot\":2000},\"byIdentity\":{",
    "\"KEY\":[1,1PAD],",
    "\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\":[1,1]}}}",
];
const MANY_SCHEDULES: [&str; 3] = ["{", "\"KEY\":[],", "0}"];
const MANY_SLOTS: [&str; 3] = [
    "{\"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr\":[",
    "1,",
    "1]}",
];
const MANY_STAKES: [&str; 3] = [
    "[",
    "{\"account\":{\"data\":[\"169JXQ4KktPcvkkQdnhJJXp3qSD3FdTh8\",\"base58\"]}},",
    "{\"account\":{\"data\":[\"169JXQ4KktPcvkkQdnhJJXp3qSD3FdTh8\",\"base58\"]}}]",
];

const ANSWERS: [Answer; 36] = [
    answer("poll getEpochInfo", Whole, OBJECTS, POLL),
    answer("poll getSlot", Whole, DIGITS, POLL),
    answer("poll getHealth", Whole, LETTERS, POLL),
    answer("poll getHealth", Error, LETTERS, POLL),
    answer("poll getVersion", Whole, ESCAPES, POLL),
    answer("poll getIdentity", Whole, NESTED, POLL),
    answer("poll getMaxShredInsertSlot", Whole, ZEROS, POLL),
    answer("poll getMaxShredInsertSlot", Bytes, SPACES, POLL),
    answer("startProgress", Whole, OBJECTS, POLL),
    answer("rpcAddress", Whole, LETTERS, POLL),
    answer("contactInfo", Whole, ESCAPES, POLL),
    answer("probe", Whole, OBJECTS, POLL),
    answer("probe", Failure, LETTERS, QUESTION),
    answer("getGenesisHash", Whole, LETTERS, QUESTION),
    answer("getGenesisHash", Header, LETTERS, QUESTION),
    answer("getEpochInfo", Whole, IGNORED_NESTED, QUESTION),
    answer("getVoteAccounts", Whole, LONG_VOTE_ACCOUNT, QUESTION),
    answer("getVoteAccounts", Whole, LONG_CREDITS, QUESTION),
    answer("getVoteAccounts", Whole, MANY_ACCOUNTS, QUESTION),
    answer("getVoteAccounts", Whole, TOO_MANY_ACCOUNTS, QUESTION),
    answer("getVoteAccounts", Bytes, MANY_ACCOUNTS, QUESTION),
    answer("getVoteAccounts", Error, ESCAPES, QUESTION),
    answer("getVoteAccounts own", Whole, LONG_CREDITS, QUESTION),
    answer("getVoteAccounts own", Whole, MANY_ACCOUNTS, QUESTION),
    answer("getBalance", Whole, OBJECTS, QUESTION),
    answer("getBalance", Whole, DIGITS, QUESTION),
    answer("getLeaderSchedule", Whole, MANY_SLOTS, QUESTION),
    answer("getLeaderSchedule", Whole, MANY_SCHEDULES, QUESTION),
    answer("getBlockProduction", Whole, MANY_LEADERS, QUESTION),
    answer("getBlockProduction", Whole, TOO_MANY_LEADERS, QUESTION),
    answer("getClusterNodes", Whole, MANY_NODES, QUESTION),
    answer("getClusterNodes", Whole, TOO_MANY_NODES, QUESTION),
    answer("getClusterNodes", Whole, NESTED, QUESTION),
    answer("getClusterNodes", Failure, LETTERS, QUESTION),
    answer("getProgramAccounts", Whole, MANY_STAKES, QUESTION),
    answer("getProgramAccounts", Whole, ESCAPES, QUESTION),
];

impl Answer {
    /// The result, in a body of about this many bytes.
    fn result(&self) -> String {
        let [begin, repeated, end] = self.result;
        let repeated = repeated.replace("PAD", &" ".repeat(200));
        // Leaves space for the envelope and for the other responses of a poll.
        let bytes = self.bytes - 2_048;
        let mut result = begin.to_owned();
        let mut number = 0;
        while result.len() + repeated.len() + 2 * 44 + end.len() < bytes {
            match repeated.contains("KEY") {
                true => {
                    number += 1;
                    let key = format!("Demo{number:1>40}").replace('0', "z");
                    result.push_str(&repeated.replace("KEY", &key));
                }
                false => result.push_str(&repeated),
            }
        }
        result + end
    }
}

fn honest(question: &str) -> Value {
    match question {
        "startProgress" => json!("Running"),
        "rpcAddress" => Value::Null,
        "contactInfo" => json!({"id": IDENTITY}),
        "getGenesisHash" => json!(VOTE),
        "getEpochInfo" => json!({
            "absoluteSlot": 2_160, "blockHeight": 2_100, "epoch": 5, "slotIndex": 160, "slotsInEpoch": 432
        }),
        "getVoteAccounts" | "getVoteAccounts own" => json!({"delinquent": [], "current": [{
            "votePubkey": VOTE, "nodePubkey": IDENTITY, "activatedStake": 5, "commission": 7,
            "lastVote": 2_158, "rootSlot": 2_127, "epochCredits": [[5, 60, 0]]
        }]}),
        "getBalance" => json!({"value": 5}),
        "getLeaderSchedule" => json!({IDENTITY: [100, 200]}),
        "getBlockProduction" => {
            json!({"value": {"byIdentity": {IDENTITY: [2, 1]}, "range": {"firstSlot": 2_000}}})
        }
        "getClusterNodes" => json!([{"pubkey": IDENTITY, "version": "2.1.14", "featureSet": 1}]),
        "getProgramAccounts" => json!([]),
        "getVersion" => json!({"solana-core": "2.1.14", "feature-set": 1}),
        "getIdentity" => json!({"identity": IDENTITY}),
        "getHealth" => json!("ok"),
        _ => json!(2_160),
    }
}

/// The mock node's responses. It writes a file when it gets a request after the hostile response.
/// The file shows that the daemon read the response.
struct Node {
    hostile: Option<&'static Answer>,
    is_answered: AtomicBool,
}

impl Node {
    fn is_asked(&self) {
        if self.is_answered.load(Ordering::SeqCst) {
            fs::write("read", "").expect("a file");
        }
    }

    fn hostile(&self, question: &str) -> Option<&'static Answer> {
        self.hostile.filter(|hostile| hostile.question == question)
    }

    fn response(&self, prefix: &str, request: &Value) -> (String, Option<&'static Answer>) {
        let method = request["method"].as_str().unwrap_or_default();
        let own = if request.pointer("/params/0/votePubkey").is_some() {
            " own"
        } else {
            ""
        };
        let question = match method {
            "getTransactionCount" => "probe".to_owned(),
            _ => format!("{prefix}{method}{own}"),
        };
        let (key, result) = match self.hostile(&question) {
            Some(hostile) if hostile.transfer == Error => (
                "error",
                format!("{{\"code\":-1,\"message\":{}}}", hostile.result()),
            ),
            Some(hostile) => ("result", hostile.result()),
            None => ("result", honest(method).to_string()),
        };
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",{key:?}:{result},\"id\":{}}}",
            request["id"]
        );
        (body, self.hostile(&question))
    }

    /// Responds to one request after another until the client closes the connection.
    fn serve_http(&self, stream: impl Read + Write) -> io::Result<()> {
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
            self.is_asked();
            let (body, hostile) = match serde_json::from_slice(&body)? {
                Value::Array(polls) => {
                    let all: Vec<_> = polls
                        .iter()
                        .map(|one| self.response("poll ", one))
                        .collect();
                    let hostile = all.iter().find_map(|(_, hostile)| *hostile);
                    let bodies: Vec<String> = all.into_iter().map(|(body, _)| body).collect();
                    (format!("[{}]", bodies.join(",")), hostile)
                }
                one => self.response("", &one),
            };
            let transfer = hostile.map_or(Whole, |hostile| hostile.transfer);
            let written = send(stream.get_mut(), transfer, &body);
            if hostile.is_some() {
                self.is_answered.store(true, Ordering::SeqCst);
            }
            written?;
        }
    }
}

fn send(stream: &mut impl Write, transfer: Transfer, body: &str) -> io::Result<()> {
    let status = if transfer == Failure {
        "500 Oh"
    } else {
        "200 OK"
    };
    let length = body.len();
    match transfer {
        Bytes => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            )?;
            for part in body.as_bytes().chunks(16 << 10) {
                let chunks: Vec<u8> = part
                    .iter()
                    .flat_map(|byte| [b"1\r\n", &[*byte][..], b"\r\n"].concat())
                    .collect();
                stream.write_all(&chunks)?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
        Header => write!(stream, "HTTP/1.1 200 OK\r\nX-Body: {body}\r\n\r\n"),
        _ => write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    }
}

#[test]
#[ignore = "no test: the other test starts it as a validator"]
fn hostile_validator() {
    let number = fs::read_to_string("hostile").expect("which answer is hostile");
    let hostile = number
        .parse()
        .ok()
        .and_then(|number: usize| ANSWERS.get(number));
    let node = Node {
        hostile,
        is_answered: AtomicBool::new(false),
    };
    let admin = UnixListener::bind("ledger/admin.rpc").expect("a socket");
    let rpc = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = rpc.local_addr().expect("an address").port();
    fs::write("port.new", port.to_string()).expect("a file");
    fs::rename("port.new", "port").expect("a file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for stream in rpc.incoming().flatten() {
                scope.spawn(|| node.serve_http(stream).ok());
            }
        });
        for stream in admin.incoming().flatten() {
            let mut out = &stream;
            for request in serde_json::Deserializer::from_reader(&stream).into_iter::<Value>() {
                let Ok(request) = request else { break };
                node.is_asked();
                let (body, hostile) = node.response("", &request);
                let written = writeln!(out, "{body}");
                if hostile.is_some() {
                    node.is_answered.store(true, Ordering::SeqCst);
                }
                if written.is_err() {
                    break;
                }
            }
        }
    });
}

/// Peak memory of the daemon, and the lines about the hostile response in its exposition.
struct Outcome {
    peak: u64,
    page: usize,
    ends: Option<i32>,
    kills: u64,
}

/// Runs a daemon with a validator that gives the response with this number, until the daemon has
/// read it. With `None`, the validator is honest.
fn measure(number: Option<usize>) -> Outcome {
    let cgroup = LimitedCgroup::new(LIMIT).expect("a cgroup");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("ledger")).expect("a folder");
    let hostile = number.map(|number| number.to_string()).unwrap_or_default();
    fs::write(path("hostile"), hostile).expect("a file");
    let validator = validator(folder.path());
    let port = eventually_ok(PATIENCE, "the port", || fs::read_to_string(path("port")));
    fs::write(path("c.toml"), config(&path("ledger"), &port)).expect("a file");
    let program = path("faultlined");
    let script = format!(
        "#!/bin/sh\necho $$ > {} && exec {} \"$@\"\n",
        cgroup.file("cgroup.procs").display(),
        env!("CARGO_BIN_EXE_faultlined")
    );
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a program");
    let daemon = Daemon::start(
        &program.display().to_string(),
        &["--config", &path("c.toml").display().to_string()],
        folder.path(),
    )
    .expect("the daemon");
    eventually_ok(PATIENCE, "the answer is read", || match number {
        Some(_) if path("read").exists() => Ok(()),
        None if daemon.scrape().is_ok_and(|page| {
            page.get("agave_stake_sol", &[("state", "activating")])
                .is_some()
        }) =>
        {
            Ok(())
        }
        _ => Err(daemon.log()),
    });
    let peak = proc::status_bytes(daemon.pid(), "VmHWM");
    let page = daemon.page();
    let outcome = Outcome {
        peak: peak.ok().flatten().unwrap_or_default(),
        page: page.map(|page| page.len()).unwrap_or_default(),
        ends: daemon.stop().expect("it ends"),
        kills: cgroup.kills().unwrap_or_default(),
    };
    drop(validator);
    outcome
}

/// A mock node in this folder. The file `hostile` in the folder says which response is hostile.
pub fn validator(folder: &Path) -> Running {
    let program = folder.join("agave-validator");
    symlink(std::env::current_exe().expect("this program"), program).expect("a link");
    let script = folder.join("start");
    let text = "#!/bin/sh\ncd \"${0%/*}\" && exec ./agave-validator hostile_answers::hostile_validator --exact --ignored\n";
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a program");
    Running::start(&Program {
        path: script,
        arguments: Vec::new(),
        environment: Vec::new(),
        output: folder.join("validator.log"),
    })
    .expect("a stand-in")
}

fn config(ledger: &Path, port: &str) -> String {
    format!(
        "[target]\nledger = {ledger:?}\n[rpc]\nurl = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\ntimeout = \"60s\"\n\
         [probe]\nenabled = true\nmethod = \"getTransactionCount\"\n\
         [validator]\ninterval = \"1s\"\ntimeout = \"20s\"\nactivating_stake = true\n[host]\nenabled = true\n"
    )
}

#[test]
fn no_validator_response_uses_more_than_48_mib() {
    if LimitedCgroup::new(LIMIT).is_none() {
        eprintln!("SKIPPED: no cgroup with a limit of memory can be made here");
        return;
    }
    let idle = measure(None);
    assert_eq!((idle.ends, idle.kills), (Some(0), 0));
    let next = AtomicUsize::new(0);
    let wrong = std::thread::scope(|scope| {
        let work = || {
            let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::SeqCst)));
            let numbers = numbers.take_while(|number| *number < ANSWERS.len());
            numbers
                .filter_map(|number| violation(number, &idle))
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let ended = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"));
        ended.collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Measures this response. If only the daemon's end was too late, which a busy machine can cause,
/// measures again.
fn violation(number: usize, idle: &Outcome) -> Option<String> {
    let mut outcome = measure(Some(number));
    if outcome.ends == Some(FORCED_EXIT) {
        outcome = measure(Some(number));
    }
    let grown = outcome.peak.saturating_sub(idle.peak);
    let words = format!(
        "{} {:?} {}: {} KiB more than {}, a page of {} bytes, ended with {:?}, {} kills",
        ANSWERS[number].question,
        ANSWERS[number]
            .result
            .map(|part| part.get(..40).unwrap_or(part)),
        ANSWERS[number].bytes,
        grown >> 10,
        idle.peak >> 10,
        outcome.page,
        outcome.ends,
        outcome.kills
    );
    println!("{words}");
    let fine = grown < MAX_GROWTH
        && (1..MAX_PAGE_BYTES).contains(&outcome.page)
        && outcome.ends == Some(0)
        && outcome.kills == 0;
    (!fine).then_some(words)
}
