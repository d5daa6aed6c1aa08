//! Writes results while they are measured, on a thread of its own: to wait for the disk is in no latency.

use super::{APPLICATION, FORMAT, TABLES};
use crate::results::{CellHead, Header, Results, Sample};
use crate::run::RunState;
use anyhow::Context as _;
use faultline_command::args::WrongUsage;
use faultline_command::files;
use faultline_command::output::say;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Stands for what ended a run until its end is written.
const UNFINISHED: &str = "a kill, or not ended yet";

/// From and to in nanoseconds, and how often, of a bucket of a cell's histogram.
type Bucket = (usize, u64, u64, u64);

/// A new file that takes what a run measures, about once a second in one transaction.
pub(crate) struct ResultsFile {
    path: PathBuf,
    sender: Sender<Message>,
    thread: JoinHandle<WriterOutcome>,
}

enum Message {
    /// The run begins: what is known of it, and where to say whether that could be written.
    Begin(Box<Header>, Vec<CellHead>, Sender<anyhow::Result<()>>),
    /// New samples.
    Append(Vec<Sample>, RunState),
    /// The run has ended.
    End(Box<Header>, Vec<Bucket>),
}

/// How the file was left.
struct WriterOutcome {
    /// Whether a run began.
    begun: bool,
    last: anyhow::Result<()>,
}

/// Fails if there is no new file to be made at `path`, which `option` names.
///
/// # Errors
/// It exists, or its folder does not.
pub(crate) fn check_new(option: &str, path: &Path) -> anyhow::Result<()> {
    match files::why_not_new(path) {
        Some(why) => Err(WrongUsage(format!("{option} {why}")).into()),
        None => Ok(()),
    }
}

impl ResultsFile {
    /// Makes the file before the first request, so that no run is lost for its name.
    ///
    /// # Errors
    /// There is such a file already, or its folder cannot be written.
    pub(crate) fn create(path: &Path) -> anyhow::Result<ResultsFile> {
        let writing = ResultsWriter::create(path)?;
        let (sender, messages) = channel();
        let thread = Builder::new()
            .name("results".to_owned())
            .spawn(move || writing.until_the_end(&messages))
            .with_context(|| named(path))?;
        Ok(ResultsFile {
            path: path.to_owned(),
            sender,
            thread,
        })
    }

    /// Writes what is known before the first request that counts.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn begin(&self, header: &Header, cells: &[CellHead]) -> anyhow::Result<()> {
        let (sender, written) = channel();
        self.send(Message::Begin(
            Box::new(header.clone()),
            cells.to_vec(),
            sender,
        ));
        written.recv().context("the thread of --out has ended")?
    }

    /// Takes new samples, and the state of the run after them. What cannot be written is said, and tried again later.
    pub(crate) fn append(&self, samples: &[Sample], state: &RunState) {
        self.send(Message::Append(samples.to_vec(), state.clone()));
    }

    /// Ends the file: with the last header, and the histograms of all cells.
    ///
    /// # Errors
    /// Something of the run is not in the file.
    pub(crate) fn finish(self, results: &Results) -> anyhow::Result<()> {
        let buckets = (0..results.cells.len())
            .flat_map(|cell| buckets(results, cell))
            .collect();
        self.send(Message::End(Box::new(results.header.clone()), buckets));
        self.ended()?.last
    }

    /// Gives the file up: it is removed unless a run began.
    pub(crate) fn abandon(self) {
        let path = self.path.clone();
        if self.ended().is_ok_and(|ended| !ended.begun) {
            // It has nothing, and was made here.
            let _ = std::fs::remove_file(path);
        }
    }

    fn send(&self, message: Message) {
        // A thread that has ended is an error when it is joined.
        let _ = self.sender.send(message);
    }

    fn ended(self) -> anyhow::Result<WriterOutcome> {
        drop(self.sender);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("the thread of --out failed"))
    }
}

/// Writes results that are one document: the table `run` alone.
///
/// # Errors
/// There is such a file already, or it cannot be written.
pub(crate) fn write_document(path: &Path, document: &impl Serialize) -> anyhow::Result<()> {
    let mut database = create(path)?;
    let mut write = || -> anyhow::Result<()> {
        let transaction = database.transaction()?;
        insert_header(&transaction, document)?;
        Ok(transaction.commit()?)
    };
    write().with_context(|| named(path))
}

fn named(path: &Path) -> String {
    format!("--out {}", path.display())
}

/// A new database with its tables.
fn create(path: &Path) -> anyhow::Result<Connection> {
    check_new("--out", path)?;
    // A link is a file that exists: nothing is written through it.
    File::create_new(path).with_context(|| named(path))?;
    let make = || -> anyhow::Result<Connection> {
        // Absolute, as SQLite takes a name that begins with `file:` for an address.
        let absolute = std::path::absolute(path)?;
        let mut database =
            Connection::open_with_flags(absolute, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let transaction = database.transaction()?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        for table in TABLES {
            transaction.execute_batch(table)?;
        }
        transaction.commit()?;
        Ok(database)
    };
    make().with_context(|| named(path)).inspect_err(|_| {
        // It is ours, made a moment ago, and has nothing.
        let _ = std::fs::remove_file(path);
    })
}

/// The file as its thread has it.
struct ResultsWriter {
    path: PathBuf,
    database: Connection,
    /// Not written yet.
    samples: Vec<Sample>,
    header: Option<Box<Header>>,
    buckets: Vec<Bucket>,
    /// Whether the last write failed.
    fails: bool,
}

impl ResultsWriter {
    fn create(path: &Path) -> anyhow::Result<ResultsWriter> {
        Ok(ResultsWriter {
            path: path.to_owned(),
            database: create(path)?,
            samples: Vec::new(),
            header: None,
            buckets: Vec::new(),
            fails: false,
        })
    }

    fn until_the_end(mut self, messages: &Receiver<Message>) -> WriterOutcome {
        let (mut begun, mut last) = (false, Ok(()));
        for message in messages {
            match message {
                Message::Begin(header, cells, written) => {
                    let done = self.begin(header, &cells);
                    begun = done.is_ok();
                    let _ = written.send(done);
                    continue;
                }
                Message::Append(samples, state) => {
                    self.samples.extend(samples);
                    if let Some(header) = &mut self.header {
                        header.take_state(state);
                    }
                }
                Message::End(header, buckets) => {
                    (self.header, self.buckets) = (Some(header), buckets);
                }
            }
            last = self.write();
            self.report_change(&last);
        }
        WriterOutcome { begun, last }
    }

    fn begin(&mut self, mut header: Box<Header>, cells: &[CellHead]) -> anyhow::Result<()> {
        header.stopped_by = Some(UNFINISHED.to_owned());
        let mut write = || -> anyhow::Result<()> {
            let transaction = self.database.transaction()?;
            insert_header(&transaction, &header)?;
            for (cell, head) in cells.iter().enumerate() {
                let row = params![cell as i64, head.arm, head.subject, head.size.map(whole)];
                transaction.execute("INSERT INTO cell VALUES (?, ?, ?, ?)", row)?;
            }
            Ok(transaction.commit()?)
        };
        write().with_context(|| named(&self.path))?;
        self.header = Some(header);
        Ok(())
    }

    /// Writes all that is not written yet, or nothing.
    fn write(&mut self) -> anyhow::Result<()> {
        let transaction = self.database.transaction()?;
        if let Some(header) = &self.header {
            let header = serde_json::to_string(header)?;
            transaction.execute("UPDATE run SET header = ?", [header])?;
        }
        insert_samples(&transaction, &self.samples)?;
        for (cell, from, to, count) in &self.buckets {
            let row = params![*cell as i64, whole(*from), whole(*to), whole(*count)];
            transaction.execute("INSERT INTO histogram VALUES (?, ?, ?, ?)", row)?;
        }
        transaction.commit()?;
        self.samples.clear();
        self.buckets.clear();
        Ok(())
    }

    /// Says once that writing fails, and once that it works again.
    fn report_change(&mut self, written: &anyhow::Result<()>) {
        let named = named(&self.path);
        match written {
            Err(error) if !self.fails => say(&format!(
                "{named}: {}; what is measured stays in memory, and writing is tried again each second",
                reason(error)
            )),
            Ok(()) if self.fails => say(&format!("{named}: all is written again")),
            _ => {}
        }
        self.fails = written.is_err();
    }
}

/// Why a write failed, in words.
pub(crate) fn reason(error: &anyhow::Error) -> String {
    let code = error
        .downcast_ref()
        .and_then(rusqlite::Error::sqlite_error_code);
    match code {
        Some(ErrorCode::DiskFull) => "no space left on its disk".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program reads it".to_owned(),
        _ => format!("{error:#}"),
    }
}

fn insert_header(transaction: &Transaction<'_>, header: &impl Serialize) -> anyhow::Result<()> {
    let header = serde_json::to_string(header)?;
    transaction.execute("INSERT INTO run VALUES (?)", [header])?;
    Ok(())
}

fn insert_samples(transaction: &Transaction<'_>, samples: &[Sample]) -> anyhow::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for s in samples {
        let known = |number: u64| s.phases.map(|_| whole(number));
        let [queued, connect, tls, first_byte, transfer, decode] = match s.phases {
            Some(phases) => phases.map(|phase| Some(whole(phase))),
            None => [None; 6],
        };
        insert.execute(params![
            whole(s.number),
            s.round,
            s.cell as i64,
            whole(s.at_ns),
            queued,
            connect,
            tls,
            first_byte,
            transfer,
            decode,
            known(s.decode_cpu_ns),
            known(s.sent),
            known(s.received),
            s.failure,
            s.refused,
        ])?;
    }
    Ok(())
}

fn buckets(results: &Results, cell: usize) -> Vec<Bucket> {
    let Some(histogram) = results.histogram(cell) else {
        return Vec::new();
    };
    let bucket = |value: u64, count| {
        let from = histogram.lowest_equivalent(value);
        (cell, from, histogram.highest_equivalent(value), count)
    };
    histogram
        .iter_recorded()
        .map(|step| bucket(step.value_iterated_to(), step.count_at_value()))
        .collect()
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
