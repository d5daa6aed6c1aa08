//! Follows the validator's log: bytes in, records out. A record is a line, or a datapoint joined
//! from several lines.
//!
//! The caller passes path and time: this crate reads no clock, starts no thread and never waits. No
//! input causes a panic.

mod file;
mod records;

pub use file::{CLOSE_QUIET_FILE_AFTER, Follower, MAX_FILES, POLL_INTERVAL};
pub use records::{LogStatus, RecordBatch, RecordSink, RecordWriter, StartupStep, StatusHandle};
