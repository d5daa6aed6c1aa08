//! What the numbers of runs mean: summaries, comparisons, caveats. Pure functions; nothing here reads a file or a clock.
//!
//! In reading order: one series ([`rate`], [`summary`], [`histogram`], [`smooth`], [`correlation`]); how sure one run is of
//! its own numbers although its samples depend on one another ([`block`]), and where one of two begins to win over sizes
//! ([`crossover`]); two runs of the same slots
//! ([`paired`]); arms of runs, where the run is the unit ([`arms`], [`holm`], [`bracket`]); a history of releases ([`change`]); and what weakens all of it
//! ([`caveat`]).
//!
//! Everywhere: a series is a slice of `Option<f64>` in the order of time, `None` where nothing was read; a value that is not
//! finite counts as `None`. Nothing panics on what it is given, and the same input and seed give the same output.

pub mod arms;
pub mod block;
pub mod bracket;
pub mod caveat;
pub mod change;
pub mod correlation;
pub mod crossover;
pub mod decision;
mod distribution;
pub mod histogram;
pub mod holm;
pub mod paired;
pub mod rate;
pub mod smooth;
pub mod staircase;
pub mod summary;

pub use arms::{Comparison, Conclusion};
pub use block::{Estimate, Plan, Reliability};
pub use caveat::Caveat;
pub use decision::Decision;
pub use summary::Summary;
