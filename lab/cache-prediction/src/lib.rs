//! Predicts how the program cache of a recorded run would have done at other sizes.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod prediction;
pub mod recorded;
pub mod trace_file;
