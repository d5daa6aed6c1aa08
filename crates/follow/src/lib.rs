//! The validator's log, followed: bytes in, records out.
//!
//! * [`Follower`] has the log as a file, over every rotation: each line comes once.
//! * [`Records`] is the way out of any follower, also of one that reads the journal: lines are joined to records, handed to
//!   an [`Inlet`] a stretch at a time, and counted in a [`View`] that others look at.
//!
//! The path and the time are given; nothing here reads a clock, spawns or waits. What is read is input: nothing here
//! panics on it.

mod file;
mod records;
mod view;

pub use file::{Follower, Left, MOST_FILES, POLL, QUIET};
pub use records::{Inlet, Records, Stretch};
pub use view::{LogStatus, StartStep, View};
