//! Derives phases, intervals and time at the tip from evidence of a validator. Pure: no input or
//! output, no clock. The same evidence gives the daemon and a report the same answers.

mod evidence;
mod position;
mod rules;
mod slot_time;
mod tip_time;
mod tracker;

pub use evidence::{Evidence, Phase, Process, Stage, phase_name};
pub use rules::Rules;
pub use tip_time::{KEPT_UP, TipTime};
pub use tracker::{Interval, STALL_AFTER, Tracker};
