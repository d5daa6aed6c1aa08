//! `faultline experiment`: runs a plan unattended.

pub mod args;
mod blocks;
mod check;
pub mod command;
pub mod folder;
pub mod host;
pub mod journal;
pub mod judge;
pub mod lock;
pub mod outcome;
mod passwd;
pub mod plan;
pub mod plan_command;
pub mod replay;
pub mod report;
pub mod runner;
mod saved;
pub mod schedule;
pub mod search;
pub mod slurm;
pub mod status;
pub mod targets;
pub mod watch;

pub use blocks::{HostBlock, block_attempt_name, block_attempt_names, host_name};
