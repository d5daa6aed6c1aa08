//! Simulates Agave's program cache for the transactions of a run, at any size and with other
//! policies.
//!
//! Everything is a pure function of its input and a seed: no file, no clock, no panic on what is
//! read. Programs are dense numbers, so that a simulation does not hash.

pub mod agave;
mod attack;
mod cache;
pub mod cost;
mod error;
pub mod file;
pub mod interval;
pub mod policy;
pub mod predict;
pub mod run;
pub mod trace;

pub use agave::Rule;
pub use attack::with_attack;
pub use cache::{Counts, Limit};
pub use error::Error;
pub use policy::{Policy, Setting};
pub use run::Simulation;
pub use trace::Trace;
