//! What Agave's program cache does with the transactions of a run, at any size and under other policies.

pub mod agave;
mod attack;
mod cache;
pub mod cost;
mod error;
pub mod file;
pub mod interval;
pub mod policy;
pub mod run;
pub mod trace;

pub use agave::Rule;
pub use attack::with_attack;
pub use cache::{Counts, Limit};
pub use error::Error;
pub use policy::{Policy, Setting};
pub use run::Simulation;
pub use trace::Trace;
