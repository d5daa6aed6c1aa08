//! The validator's log as the second input: a file followed over rotation, or a unit's journal.
//!
//! The log contains the same datapoints as the pushes, so one input is enough. Reading starts at
//! the log's end. Then every line counts once, over rotations and restarts of `journalctl`.
//! `faultline_log_tail` and [`journal`] list the exceptions.

pub mod file;
pub mod journal;
#[cfg(test)]
#[path = "../../log-tail/tests/file/probe.rs"]
mod probe;

pub use faultline_log_tail::{LogStatus, StartStep, StatusHandle};
pub use file::FileTail;
pub use journal::JournalTail;

use crate::validator::intake::{Intake, Push};
use faultline_core::{clock::Clock, config::Log, supervisor::Stage};
use faultline_log_tail::{RecordSink, RecordWriter};
use faultline_metrics::Stamp;
use std::io;

pub enum LogTail {
    File(FileTail),
    Journal(JournalTail),
}

impl LogTail {
    /// An unreadable file is no error, because the validator may create it later. The status
    /// reports it. The existing content of the log never counts.
    pub fn build(config: &Log, intake: Intake, clock: Clock) -> Self {
        match config {
            Log::File(path) => LogTail::File(FileTail::open(path, intake, clock)),
            Log::Journal(unit) => LogTail::Journal(JournalTail::new(unit, intake, clock)),
        }
    }

    pub fn start(self, stage: &mut Stage) -> io::Result<()> {
        match self {
            LogTail::File(file) => stage.path_thread("log", |stop| file.run(stop)),
            LogTail::Journal(journal) => {
                stage.task("journal", |stop| journal.run(stop));
                Ok(())
            }
        }
    }

    pub fn status(&self) -> StatusHandle {
        match self {
            LogTail::File(tail) => tail.status(),
            LogTail::Journal(tail) => tail.status(),
        }
    }
}

/// The daemon's intake as a sink of log records.
struct IntakeSink {
    intake: Intake,
    push: Option<Push>,
}

impl RecordSink for IntakeSink {
    fn begin(&mut self, now: Stamp) {
        self.push = Some(self.intake.begin(now));
    }

    fn record(&mut self, record: &str) {
        if let Some(push) = &mut self.push {
            push.log_line(record);
        }
    }

    fn bad(&mut self) {
        if let Some(push) = &mut self.push {
            push.bad_line();
        }
    }

    fn commit(&mut self, at: Stamp) {
        if let Some(push) = self.push.take() {
            self.intake.commit(push, at);
        }
    }
}

fn record_writer(intake: Intake) -> RecordWriter {
    RecordWriter::new(Box::new(IntakeSink { intake, push: None }))
}
