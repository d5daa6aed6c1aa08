//! A node around a migration to Alpenglow. Its answers and pushes are `fixtures/alpenglow`, which a release's code wrote.

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

/// A JSON-RPC server with the answers of one phase of the migration. It ends when dropped.
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
    /// [`Error::Connection`] without a free port.
    pub fn start(phase: &str) -> Result<Self> {
        let answers: Arc<Mutex<Answers>> = Arc::default();
        let server_answers = Arc::clone(&answers);
        let server = Server::start(move |connection, _| {
            // A client that disconnects gets no answer.
            serve(connection, &server_answers).unwrap_or_default();
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

    /// Answers as in another phase from now on, without variants and without advancing slots.
    pub fn set_phase(&self, phase: &str) {
        let mut answers = lock(&self.answers);
        *answers = Answers {
            phase: phase.to_owned(),
            max_shred: answers.max_shred,
            ..Answers::default()
        };
    }

    /// Lets processed slots and votes, with the roots of vote accounts, advance from those of the files, and with `roots`
    /// also confirmed and final slots.
    pub fn advance(&self, slot_time: Duration, roots: bool) {
        let begin = lock(&self.answers).file_slot();
        self.advance_from(begin, slot_time, roots);
    }

    /// Like [`Node::advance`], from another slot. Without `roots`, confirmed and final slots stay those of the files.
    pub fn advance_from(&self, begin: u64, slot_time: Duration, roots: bool) {
        lock(&self.answers).pace = Some(Pace {
            since: Instant::now(),
            begin,
            slot_time,
            roots,
        });
    }

    /// Pushes the phase's lines to an address while slots advance. They are repeated, with new slots and times, each time
    /// the file's number of slots has passed.
    pub fn push_to(&mut self, address: &str) {
        self.pusher = Some(Pusher::start(address.to_owned(), Arc::clone(&self.answers)));
    }

    /// Locks a ledger folder and answers at its admin socket until the process ends.
    ///
    /// # Errors
    /// [`Error::File`] if another process has locked the folder, or it cannot be written.
    pub fn answer_at_ledger(&self, folder: &Path) -> Result<()> {
        let ledger = Ledger::lock(folder).map_err(Error::file(folder))?;
        let started = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (answers, address) = (Arc::clone(&self.answers), self.server.address());
        std::thread::spawn(move || {
            ledger.serve(|request| lock(&answers).admin(request, address, started))
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

/// Answers the requests of one connection. Returns `None` at its end, or after something that is not JSON-RPC.
fn serve(connection: TcpStream, answers: &Mutex<Answers>) -> Option<()> {
    let mut out = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        let arrival = read_request(&mut from, &mut out)?;
        let body = {
            let mut answers = lock(answers);
            match serde_json::from_slice(&arrival.body).ok()? {
                Value::Array(all) => all.iter().map(|one| answers.answer(one)).collect(),
                one => answers.answer(&one),
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
