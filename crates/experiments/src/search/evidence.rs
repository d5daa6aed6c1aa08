//! What a dwell shows, and why.

use serde::{Deserialize, Serialize};

/// What a dwell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Near the tip all through, no worse at the end, and replay about as fast as in the references.
    KeptUp,
    /// It did not keep up, and nothing but the limit is known to be the reason.
    Failed,
    /// Something else may be the reason, or it is not known what happened. It is repeated.
    Void,
}

/// Why it shows that. What was not read is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How long it lasted.
    pub seconds: f64,
    /// Most slots behind.
    pub behind_most: Option<u64>,
    /// Slots behind on average, in the first and in the last eighth.
    pub behind_first: Option<f64>,
    /// See there.
    pub behind_last: Option<f64>,
    /// Slots whose replay time is known; not written down.
    #[serde(skip)]
    pub replayed: usize,
    /// 95 % of the slots were replayed within this time, in microseconds.
    pub replay_p95_us: Option<f64>,
    /// Refaults a second.
    pub refaults: Option<f64>,
    /// Share of the time that the threads of replay waited for a CPU, in the busiest eighth.
    pub waited: Option<f64>,
    /// Slots of the cluster a second.
    pub cluster: Option<f64>,
    /// Largest stall of memory, all tasks, in percent.
    pub memory_full: Option<f64>,
    /// Unreclaimable memory at the end, in bytes.
    pub unreclaimable: Option<u64>,
    /// Memory of the group at the end, in bytes.
    pub memory: Option<u64>,
    /// What did not hold, in words; nothing where it kept up.
    pub why: Vec<String>,
}
