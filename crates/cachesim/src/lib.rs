//! What Agave's program cache does with the transactions of a run, at any size and under other policies.
//!
//! In reading order: which transaction looked up which programs ([`trace`], and [`mod@file`] to keep it); what each release of
//! Agave does with them ([`agave`]); what others would do ([`policy`]); one simulated run ([`run`]); what a lookup and a
//! load cost ([`cost`]); how sure a prediction is ([`interval`]), and the predictions themselves ([`predict`]).
//!
//! Programs are dense numbers, so that nothing is hashed while a run is simulated. Everything is a pure function of its
//! input and a seed: no file, no clock. Files come as `BufRead` and leave as `Write`; nothing read panics.

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
