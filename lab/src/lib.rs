//! The lab: keeps, reads, compares and reports runs.

pub mod cli;
pub mod clock;
pub mod export;
pub mod info;
pub mod measure;
pub mod merge;
pub mod record;
pub mod render;
pub mod report;
pub mod report_command;
pub mod run;
mod words;
