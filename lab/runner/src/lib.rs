//! Starts a command under limits, and records it.

pub mod isolation;
pub mod record;
