//! Which run comes when: decided once, before the first run, and written down.

use serde::{Deserialize, Serialize};

/// What happens at the same time: one run, or in a concurrent plan one of each arm and the second of the A/A pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1 on.
    pub number: u32,
    /// Its runs, each in a lane of its own.
    pub runs: Vec<Scheduled>,
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// From 1 on, unique in the experiment.
    pub run: u32,
    /// Name of its arm.
    pub arm: String,
    /// From 1 on, in its arm.
    pub replicate: u32,
    /// Name of its lane.
    pub lane: String,
    /// Whether it is the second of the A/A pair.
    #[serde(default)]
    pub second: bool,
}
