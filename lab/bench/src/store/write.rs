//! Writes results on a separate thread, so that no latency includes waits for the disk.

use super::{APPLICATION_ID, FORMAT, TABLES};
use crate::results::{CaseInfo, Header, Results, RunState, Sample, Timing};
use anyhow::{Context, Result};
use faultline_common::{args::UsageError, files, output::say};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params};
use serde::Serialize;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle},
};

/// The stored [`Header::stopped_by`] until the run ends.
const UNFINISHED: &str = "a kill, or not ended yet";

/// Index of the case, lower and upper end in nanoseconds, count.
type Bucket = [u64; 4];

/// Gets results about once a second. Each message is written in one transaction.
pub struct ResultsFile {
    sender: Sender<Message>,
    /// Fails if any part of the run is missing in the file.
    thread: JoinHandle<Result<()>>,
}

enum Message {
    /// The third field receives the result of writing the first two.
    Begin(Box<Header>, Vec<CaseInfo>, Sender<Result<()>>),
    Append(Vec<Sample>, RunState),
    End(Box<Header>, Vec<Bucket>),
}

/// `option` names `path` in errors.
pub fn check_new(option: &str, path: &Path) -> Result<()> {
    match files::creation_error(path) {
        Some(error) => Err(UsageError(format!("{option} {error}")).into()),
        None => Ok(()),
    }
}

impl ResultsFile {
    pub fn create(path: &Path) -> Result<Self> {
        let writer = ResultsWriter {
            path: path.to_owned(),
            database: create(path)?,
            samples: Vec::new(),
            header: None,
            buckets: Vec::new(),
            is_failing: false,
        };
        let (sender, messages) = channel();
        let thread = Builder::new()
            .name("results".to_owned())
            .spawn(move || writer.write_until_end(messages))
            .with_context(|| option_and_path(path))?;
        Ok(Self { sender, thread })
    }

    pub fn begin(&self, header: &Header, cases: &[CaseInfo]) -> Result<()> {
        let (reply, result) = channel();
        self.send(Message::Begin(
            Box::new(header.clone()),
            cases.to_vec(),
            reply,
        ));
        result.recv().context("the thread of --out has ended")?
    }

    /// Failed writes are reported and retried.
    pub fn append(&self, samples: &[Sample], state: &RunState) {
        self.send(Message::Append(samples.to_vec(), state.clone()));
    }

    pub fn finish(self, results: &Results) -> Result<()> {
        let mut buckets = Vec::new();
        for index in 0..results.cases.len() {
            let Some(histogram) = results.latency_histogram_ns(index) else {
                continue;
            };
            for step in histogram.iter_recorded() {
                let value = step.value_iterated_to();
                let from = histogram.lowest_equivalent(value);
                let to = histogram.highest_equivalent(value);
                buckets.push([index as u64, from, to, step.count_at_value()]);
            }
        }
        self.send(Message::End(Box::new(results.header.clone()), buckets));
        self.join()
    }

    /// Removes the file unless a run began.
    pub fn abandon(self) {
        let _ = self.join();
    }

    fn send(&self, message: Message) {
        // An ended thread is reported by `join`.
        let _ = self.sender.send(message);
    }

    fn join(self) -> Result<()> {
        drop(self.sender);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the thread of --out failed"))?
    }
}

/// The document is the header; there are no requests.
pub fn write_document(path: &Path, document: &impl Serialize) -> Result<()> {
    let mut database = create(path)?;
    transact(&mut database, |transaction| {
        insert_header(transaction, document)
    })
    .with_context(|| option_and_path(path))
}

fn transact(
    database: &mut Connection,
    write: impl FnOnce(&Transaction<'_>) -> Result<()>,
) -> Result<()> {
    let transaction = database.transaction()?;
    write(&transaction)?;
    Ok(transaction.commit()?)
}

fn option_and_path(path: &Path) -> String {
    format!("--out {}", path.display())
}

fn create(path: &Path) -> Result<Connection> {
    check_new("--out", path)?;
    // Never writes through a symbolic link.
    File::create_new(path).with_context(|| option_and_path(path))?;
    let initialize = || -> Result<Connection> {
        // SQLite treats a name that begins with `file:` as a URI.
        let absolute = std::path::absolute(path)?;
        let mut database =
            Connection::open_with_flags(absolute, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        transact(&mut database, |transaction| {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            for table in TABLES {
                transaction.execute_batch(table)?;
            }
            Ok(())
        })?;
        Ok(database)
    };
    initialize()
        .with_context(|| option_and_path(path))
        .inspect_err(|_| {
            let _ = fs::remove_file(path);
        })
}

struct ResultsWriter {
    path: PathBuf,
    database: Connection,
    samples: Vec<Sample>,
    /// `None` before a run began.
    header: Option<Box<Header>>,
    buckets: Vec<Bucket>,
    is_failing: bool,
}

impl ResultsWriter {
    fn write_until_end(mut self, messages: Receiver<Message>) -> Result<()> {
        let mut result = Ok(());
        for message in messages {
            match message {
                Message::Begin(header, cases, reply) => {
                    let _ = reply.send(self.begin(header, &cases));
                    continue;
                }
                Message::Append(samples, state) => {
                    self.samples.extend(samples);
                    if let Some(header) = &mut self.header {
                        header.take_state(state);
                    }
                }
                Message::End(header, buckets) => {
                    self.header = Some(header);
                    self.buckets = buckets;
                }
            }
            result = self.write();
            self.report_change(&result);
        }
        if self.header.is_none() {
            // The program created the file, and it has no run.
            let _ = fs::remove_file(&self.path);
        }
        result
    }

    fn begin(&mut self, mut header: Box<Header>, cases: &[CaseInfo]) -> Result<()> {
        header.stopped_by = Some(UNFINISHED.to_owned());
        transact(&mut self.database, |transaction| {
            insert_header(transaction, &header)?;
            for (index, case) in cases.iter().enumerate() {
                transaction.execute(
                    "INSERT INTO cell VALUES (?, ?, ?, ?)",
                    params![
                        index as i64,
                        case.arm,
                        case.request_label,
                        case.answer_bytes.map(sql_integer)
                    ],
                )?;
            }
            Ok(())
        })
        .with_context(|| option_and_path(&self.path))?;
        self.header = Some(header);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        transact(&mut self.database, |transaction| {
            if let Some(header) = &self.header {
                transaction.execute(
                    "UPDATE run SET header = ?",
                    [serde_json::to_string(header)?],
                )?;
            }
            insert_samples(transaction, &self.samples)?;
            for bucket in &self.buckets {
                transaction.execute(
                    "INSERT INTO histogram VALUES (?, ?, ?, ?)",
                    bucket.map(sql_integer),
                )?;
            }
            Ok(())
        })?;
        self.samples.clear();
        self.buckets.clear();
        Ok(())
    }

    /// Reports the first failed write, and the first write that succeeds again.
    fn report_change(&mut self, written: &Result<()>) {
        let option_and_path = option_and_path(&self.path);
        match written {
            Err(error) if !self.is_failing => say(&format!(
                "{option_and_path}: {}; what is measured stays in memory, and writing is tried again each second until the run ends",
                error_text(error)
            )),
            Ok(()) if self.is_failing => say(&format!(
                "{option_and_path}: writing works again, and nothing is missing"
            )),
            _ => {}
        }
        self.is_failing = written.is_err();
    }
}

pub fn error_text(error: &anyhow::Error) -> String {
    match error
        .downcast_ref()
        .and_then(rusqlite::Error::sqlite_error_code)
    {
        Some(ErrorCode::DiskFull) => "no space left on its disk".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program reads it".to_owned(),
        _ => format!("{error:#}"),
    }
}

fn insert_header(transaction: &Transaction<'_>, header: &impl Serialize) -> Result<()> {
    transaction.execute(
        "INSERT INTO run VALUES (?)",
        [serde_json::to_string(header)?],
    )?;
    Ok(())
}

fn insert_samples(transaction: &Transaction<'_>, samples: &[Sample]) -> Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for sample in samples {
        let measured = |value: &dyn Fn(&Timing) -> u64| {
            sample.timing().map(|timing| sql_integer(value(timing)))
        };
        let phase = |index| measured(&|timing| timing.phases[index]);
        insert.execute(params![
            sql_integer(sample.number),
            sample.round,
            sample.case_index as i64,
            sql_integer(sample.at_ns),
            phase(0),
            phase(1),
            phase(2),
            phase(3),
            phase(4),
            phase(5),
            measured(&|timing| timing.decode_cpu_ns),
            measured(&|timing| timing.sent),
            measured(&|timing| timing.received),
            sample.result.as_ref().err(),
            sample.retries,
        ])?;
    }
    Ok(())
}

fn sql_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
