//! A node around a migration to Alpenglow: it answers with `fixtures/alpenglow`, which a release's own code wrote.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sink::read_request;
use crate::{Error, Result};

/// The folder of the fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/alpenglow")
}

/// The text of one file in [`folder`], such as `tower/pushed.lp`.
///
/// # Errors
/// [`Error::File`].
pub fn text(file: &str) -> Result<String> {
    let path = folder().join(file);
    std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
}

/// One file in [`folder`] that is JSON.
///
/// # Errors
/// Those of [`text`], and [`Error::Malformed`].
pub fn json(file: &str) -> Result<Value> {
    let text = text(file)?;
    serde_json::from_str(&text).map_err(|error| Error::malformed("not JSON", &error.to_string()))
}

/// A JSON-RPC server with the answers of one phase. It ends when dropped.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    answers: Mutex<Answers>,
    stop: AtomicBool,
}

/// The phase, and files that replace its answers, by method.
#[derive(Debug, Default)]
struct Answers {
    phase: String,
    variants: HashMap<String, String>,
    pace: Option<Pace>,
    /// The highest slot with shreds: a purge does not lower it.
    max_shred: u64,
}

/// Slots that advance from those of the files.
#[derive(Debug, Clone, Copy)]
struct Pace {
    since: Instant,
    slot_time: Duration,
    /// Slots are confirmed and finalized, and votes have roots.
    roots: bool,
}

impl Node {
    /// Listens on a free loopback port and answers as in that phase.
    ///
    /// # Errors
    /// [`Error::Connection`] when no port can be had.
    pub fn start(phase: &str) -> Result<Self> {
        let broken = |source| Error::Connection {
            address: "127.0.0.1:0".to_owned(),
            source,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &of_thread));
        let node = Self {
            address,
            shared,
            acceptor: Some(acceptor),
        };
        node.set_phase(phase);
        Ok(node)
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers as in another phase from now on. Variants end.
    pub fn set_phase(&self, phase: &str) {
        let mut answers = lock(&self.shared.answers);
        *answers = Answers {
            phase: phase.to_owned(),
            max_shred: answers.max_shred,
            ..Answers::default()
        };
    }

    /// Slots advance from now on: processed ones and votes, and with `roots` what is confirmed and final.
    pub fn advance(&self, slot_time: Duration, roots: bool) {
        let since = Instant::now();
        lock(&self.shared.answers).pace = Some(Pace {
            since,
            slot_time,
            roots,
        });
    }

    /// Answers a method with a file of the folder `variants`.
    pub fn set_variant(&self, method: &str, file: &str) {
        let file = format!("variants/{file}");
        let variants = &mut lock(&self.shared.answers).variants;
        variants.insert(method.to_owned(), file);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The acceptor sleeps in accept(): one more connection wakes it.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take()
            && woken
            && acceptor.join().is_err()
        {
            eprintln!("the node's thread panicked");
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming().flatten() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        // A client that breaks off gets no answer.
        std::thread::spawn(move || serve(connection, &shared).unwrap_or_default());
    }
}

/// Requests of one connection until it closes. `None` at its end or at the first thing that is not JSON-RPC.
fn serve(connection: TcpStream, shared: &Shared) -> Option<()> {
    let mut out = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        let arrival = read_request(&mut from, &mut out)?;
        let body = {
            let mut answers = lock(&shared.answers);
            match serde_json::from_slice(&arrival.body).ok()? {
                Value::Array(all) => all.iter().map(|one| answers.to(one)).collect(),
                one => answers.to(&one),
            }
        };
        let body = body.to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
        write!(
            out,
            "{head}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}

impl Answers {
    /// A method without a file is one that the node does not offer.
    fn to(&mut self, request: &Value) -> Value {
        let file = self.file(request);
        let mut answer = json(&file).unwrap_or_else(
            |_| json!({"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}}),
        );
        if let Some(account) = request.pointer("/params/0/votePubkey") {
            keep_account(&mut answer, account);
        }
        self.move_on(request, &mut answer);
        answer["id"] = request["id"].clone();
        answer
    }

    /// Adds the slots that have passed since the file.
    fn move_on(&mut self, request: &Value, answer: &mut Value) {
        let Some(pace) = self.pace else {
            return;
        };
        let passed = pace.since.elapsed().as_secs_f64() / pace.slot_time.as_secs_f64();
        let passed = passed as u64;
        let rooted = if pace.roots { passed } else { 0 };
        match request["method"].as_str().unwrap_or_default() {
            "getMaxShredInsertSlot" if !self.variants.contains_key("getMaxShredInsertSlot") => {
                let info = json(&format!("{}/getEpochInfo.json", self.phase));
                let slot = info.map_or(0, |info| {
                    info["result"]["absoluteSlot"].as_u64().unwrap_or(0)
                });
                self.max_shred = self.max_shred.max(slot + passed + 1);
                *answer = json!({"jsonrpc": "2.0", "result": self.max_shred});
            }
            "getSlot" if request.pointer("/params/0/commitment") == Some(&json!("processed")) => {
                add(&mut answer["result"], passed);
            }
            "getSlot" => add(&mut answer["result"], rooted),
            "getEpochInfo" => {
                add(&mut answer["result"]["absoluteSlot"], passed);
                add(&mut answer["result"]["slotIndex"], passed);
            }
            "getVoteAccounts" => {
                let current = answer["result"]["current"].as_array_mut();
                for account in current.into_iter().flatten() {
                    add(&mut account["lastVote"], passed);
                    add(&mut account["rootSlot"], rooted);
                }
            }
            _ => {}
        }
    }

    fn file(&self, request: &Value) -> String {
        let method = request["method"].as_str().unwrap_or_default();
        if let Some(file) = self.variants.get(method) {
            return file.clone();
        }
        let phase = &self.phase;
        let part = match method {
            "getSlot" => {
                let commitment = request.pointer("/params/0/commitment");
                commitment.and_then(Value::as_str).unwrap_or("finalized")
            }
            "getBalance" if self.is_identity(&request["params"][0]) => "identity",
            "getBalance" => "vote-account",
            _ => return format!("{phase}/{method}.json"),
        };
        format!("{phase}/{method}-{part}.json")
    }

    fn is_identity(&self, account: &Value) -> bool {
        let answer = json(&format!("{}/getIdentity.json", self.phase));
        answer.is_ok_and(|answer| answer["result"]["identity"] == *account)
    }
}

fn add(number: &mut Value, slots: u64) {
    if let Some(slot) = number.as_u64() {
        *number = json!(slot + slots);
    }
}

fn keep_account(answer: &mut Value, account: &Value) {
    for list in ["current", "delinquent"] {
        if let Some(accounts) = answer["result"][list].as_array_mut() {
            accounts.retain(|of| of["votePubkey"] == *account);
        }
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}
