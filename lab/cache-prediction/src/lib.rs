//! Predicts counters and times that the program cache of a recorded run would have at other sizes.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod prediction;
pub mod recorded;
pub mod trace_file;
