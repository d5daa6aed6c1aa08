//! `faultline experiment`: what one plan says, run unattended.

pub mod journal;
pub mod outcome;
pub mod plan;
pub mod schedule;
