//! Turns evidence of a validator into phases, intervals of time, and whether it kept up. Pure: no input or output, no clock.
//!
//! The daemon feeds the evidence of each tick as it comes. A report feeds the evidence that a recording kept. The same evidence
//! gives the same answers.

mod evidence;
mod position;
mod rules;
mod slot_time;
mod tip_time;
mod tracker;

pub use evidence::{Evidence, Phase, Process, Stage, word};
pub use rules::Rules;
pub use tip_time::{KEPT_UP, TipTime};
pub use tracker::{Interval, STALL, Tracker};
