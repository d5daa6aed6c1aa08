//! Follows the validator's log: bytes in, records out.
//!
//! Path and time are given: nothing here reads a clock, spawns or waits. Nothing panics on its
//! input.

mod file;
mod records;
mod status;

pub use file::{Follower, MAX_FILES, OLD_FILE_QUIET, POLL_INTERVAL};
pub use records::{RecordBatch, RecordSink, RecordWriter};
pub use status::{LogStatus, StartStep, StatusHandle};
