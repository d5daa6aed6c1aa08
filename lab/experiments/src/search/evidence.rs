use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Near the tip throughout, no worse at the end, and replay about as fast as in the references.
    KeptUp,
    /// No cause except the limit is known.
    Failed,
    /// Another cause is possible, or data is missing. Repeated.
    Void,
}

impl Verdict {
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Verdict::KeptUp => "kept up",
            Verdict::Failed => "failed",
            Verdict::Void => "void",
        }
    }
}

/// Unread values are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub seconds: f64,
    pub behind_most: Option<u64>,
    /// Mean over the first eighth.
    pub behind_first: Option<f64>,
    /// Mean over the last eighth.
    pub behind_last: Option<f64>,
    /// Not stored.
    #[serde(skip)]
    pub replayed: usize,
    pub replay_p95_us: Option<f64>,
    pub refaults: Option<f64>,
    /// Share that replay threads waited for a CPU, in the busiest eighth.
    pub waited: Option<f64>,
    /// Slots per second.
    pub cluster: Option<f64>,
    pub memory_full: Option<f64>,
    /// At the end, in bytes.
    pub unreclaimable: Option<u64>,
    /// Of the cgroup at the end, in bytes.
    pub memory: Option<u64>,
    /// Failed conditions; empty if it kept up.
    pub why: Vec<String>,
}
