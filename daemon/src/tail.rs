//! The validator's log as the second input: a file followed over rotation, or the journal of a unit.
//!
//! The log prints the same datapoints that are pushed, so one of the two ways is enough. Reading begins where the log
//! ends when the daemon starts: history is not counted. From there on every line is taken once, over rotations and over
//! restarts of `journalctl`; what cannot be had is listed at `faultline_follow` and [`journal`].

pub mod file;
pub mod journal;
#[cfg(test)]
#[path = "../../crates/follow/tests/file/probe.rs"]
mod probe;

pub use faultline_follow::{LogStatus, StartStep, StatusHandle};
pub use file::FileTail;
pub use journal::JournalTail;

use crate::clock::Clock;
use crate::config::Log;
use crate::validator::intake::{Intake, Push};
use faultline_catalog::Stamp;
use faultline_follow::{RecordSink, RecordWriter};

/// What a follower needs of the rest of the daemon.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Where the datapoints go.
    pub intake: Intake,
    /// Stamps what is read.
    pub clock: Clock,
}

/// A follower, ready to run: a file blocks a thread, the journal is a task.
#[derive(Debug)]
pub enum LogTail {
    /// `run` on a thread.
    File(FileTail),
    /// `run` as a task.
    Journal(JournalTail),
}

impl LogTail {
    /// A follower of the configured log. A file that cannot be read yet is a problem in the status and not an error:
    /// the validator may create it later. What the log holds now is history and is never counted.
    pub fn build(config: &Log, parts: Parts) -> Self {
        match config {
            Log::File(path) => LogTail::File(FileTail::open(path, parts)),
            Log::Journal(unit) => LogTail::Journal(JournalTail::new(unit, parts)),
        }
    }

    /// How the follower fares, for the tick and the phase.
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
