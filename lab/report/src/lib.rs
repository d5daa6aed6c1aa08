// `println!` and `eprintln!` panic when the reader closes the pipe; see
// `faultline_common::output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod args;
pub mod export;
pub mod info;
pub mod measure;
pub mod merge;
pub mod report;
pub mod report_command;
pub mod run;
