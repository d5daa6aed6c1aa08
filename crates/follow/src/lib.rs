//! The validator's log, followed: bytes in, records out.
//!
//! * [`Follower`] has the log as a file, over every rotation: each line comes once.
//! * [`RecordWriter`] joins the lines of any follower to records, writes them to a [`RecordSink`] in batches, and counts
//!   them in a [`LogStatus`].
//!
//! The path and the time are given; nothing here reads a clock, spawns or waits. What is read is input: nothing here
//! panics on it.

mod file;
mod records;
mod status;

pub use file::{Follower, MOST_FILES, POLL, QUIET};
pub use records::{RecordBatch, RecordSink, RecordWriter};
pub use status::{LogStatus, StartStep, StatusHandle};
