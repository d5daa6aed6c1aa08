//! A node around a migration to Alpenglow: it answers and pushes `fixtures/alpenglow`, which a release's own code wrote.

mod answers;
mod pushes;

use std::{
    io::{BufReader, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use faultline_mock_validator::Ledger;
use serde_json::Value;

use crate::{Error, Result, server::Server, sink::read_request};
use answers::{Answers, Pace};
use pushes::Pusher;

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
    server: Server,
    answers: Arc<Mutex<Answers>>,
    pusher: Option<Pusher>,
}

impl Node {
    /// Listens on a free loopback port and answers as in that phase.
    ///
    /// # Errors
    /// [`Error::Connection`] when no port can be had.
    pub fn start(phase: &str) -> Result<Self> {
        let answers: Arc<Mutex<Answers>> = Arc::default();
        let of_server = Arc::clone(&answers);
        let server = Server::start(move |connection, _| {
            // A client that breaks off gets no answer.
            serve(connection, &of_server).unwrap_or_default();
        })?;
        let node = Self {
            server,
            answers,
            pusher: None,
        };
        node.set_phase(phase);
        Ok(node)
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Answers as in another phase from now on. Variants end, and slots stand still.
    pub fn set_phase(&self, phase: &str) {
        let mut answers = lock(&self.answers);
        *answers = Answers {
            phase: phase.to_owned(),
            max_shred: answers.max_shred,
            ..Answers::default()
        };
    }

    /// Slots advance from those of the files: processed ones and votes, and with `roots` what is confirmed and final.
    pub fn advance(&self, slot_time: Duration, roots: bool) {
        let begin = lock(&self.answers).processed();
        self.advance_from(begin, slot_time, roots);
    }

    /// The same, from another processed slot. Without `roots`, what is confirmed and final stays as in the files.
    pub fn advance_from(&self, begin: u64, slot_time: Duration, roots: bool) {
        lock(&self.answers).pace = Some(Pace {
            since: Instant::now(),
            begin,
            slot_time,
            roots,
        });
    }

    /// Pushes the phase's lines to an address from now on, while slots advance: each time the file's slots have passed, with
    /// theirs and the times moved.
    pub fn push_to(&mut self, address: &str) {
        self.pusher = Some(Pusher::start(address.to_owned(), Arc::clone(&self.answers)));
    }

    /// Locks a folder as a validator its ledger, and answers at the admin socket until the process ends.
    ///
    /// # Errors
    /// [`Error::File`] if another process has the folder or it cannot be written.
    pub fn answer_at_ledger(&self, folder: &Path) -> Result<()> {
        let ledger = Ledger::lock(folder).map_err(Error::file(folder))?;
        let started = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (answers, address) = (Arc::clone(&self.answers), self.server.address());
        std::thread::spawn(move || {
            ledger.answer(|request| lock(&answers).admin(request, address, started))
        });
        Ok(())
    }

    /// Answers a method with a file of the folder `variants`.
    pub fn set_variant(&self, method: &str, file: &str) {
        let file = format!("variants/{file}");
        let variants = &mut lock(&self.answers).variants;
        variants.insert(method.to_owned(), file);
    }
}

/// Requests of one connection until it closes. `None` at its end or at the first thing that is not JSON-RPC.
fn serve(connection: TcpStream, answers: &Mutex<Answers>) -> Option<()> {
    let mut out = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        let arrival = read_request(&mut from, &mut out)?;
        let body = {
            let mut answers = lock(answers);
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

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}
