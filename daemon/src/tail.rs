//! The validator's log as the second input: a file followed over rotation, or a unit's journal.
//!
//! The log contains the same datapoints as the pushes, so one input is enough. It starts at the
//! log's end, without history. Then every line counts once, over rotations and restarts of
//! `journalctl`. `faultline_follow` and [`journal`] list the exceptions.

pub mod file;
pub mod journal;
#[cfg(test)]
#[path = "../../crates/follow/tests/file/probe.rs"]
mod probe;
mod sink;

pub use faultline_follow::{LogStatus, StartStep, StatusHandle};
pub use file::FileTail;
pub use journal::JournalTail;

use crate::clock::Clock;
use crate::config::Log;
use crate::validator::intake::Intake;

#[derive(Debug, Clone)]
pub struct Parts {
    pub intake: Intake,
    pub clock: Clock,
}

#[derive(Debug)]
pub enum LogTail {
    File(FileTail),
    Journal(JournalTail),
}

impl LogTail {
    /// An unreadable file is a problem of the status and not an error: the validator may create it
    /// later. The log's existing content never counts.
    pub fn build(config: &Log, parts: Parts) -> Self {
        match config {
            Log::File(path) => LogTail::File(FileTail::open(path, parts)),
            Log::Journal(unit) => LogTail::Journal(JournalTail::new(unit, parts)),
        }
    }

    pub fn status(&self) -> StatusHandle {
        match self {
            LogTail::File(tail) => tail.status(),
            LogTail::Journal(tail) => tail.status(),
        }
    }
}
