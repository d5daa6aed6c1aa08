//! What the validator's own words add up to: sums of its datapoints, whose points count, what was missed, the phase.

pub mod allowed;
pub mod coverage;
pub mod intake;
pub mod migration;
pub mod phase;
pub mod recent;
pub mod recorded;
pub mod reported;
pub mod senders;
pub mod slots;
pub mod tally;
