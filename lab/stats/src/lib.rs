//! Statistics of runs. Pure functions: nothing here reads a file or a clock.
//!
//! A series is a slice of `Option<f64>` in the order of time. `None` is a missing value, and so is
//! a value that is not finite. No input causes a panic. The same input and seed give the same
//! output.

pub mod arms;
pub mod block_bootstrap;
pub mod bracket;
pub mod caveat;
pub mod change;
pub mod correlation;
pub mod crossover;
pub mod decision;
mod distribution;
pub mod histogram;
pub mod holm;
pub mod hosts;
pub mod paired;
pub mod rate;
pub mod smooth;
pub mod staircase;
pub mod summary;

pub use arms::{Comparison, Conclusion};
pub use block_bootstrap::{Estimate, IntervalPlan, Reliability};
pub use decision::Decision;
pub use summary::Summary;
