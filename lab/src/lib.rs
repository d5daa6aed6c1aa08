//! The lab: keeps, reads, compares and reports runs.

// They panic when their reader has gone; see `output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod cli;
pub mod clock;
pub mod experiment;
pub mod export;
mod files;
pub mod info;
pub mod measure;
pub mod merge;
pub mod output;
pub mod record;
mod recorder;
pub mod render;
pub mod report;
pub mod report_command;
pub mod run;
mod signals;
pub mod top;
mod words;
