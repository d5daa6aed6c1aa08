use super::answer::Answer;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Unreadable values are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// By the monotonic clock.
    pub at: Duration,
    /// Of the cgroup, in bytes.
    pub unreclaimable: Option<u64>,
    /// With page cache.
    pub memory: Option<u64>,
    /// The limit read back from the kernel, in bytes.
    pub applied_limit: Option<u64>,
    /// The newest tick is recent, whatever its content.
    pub is_fresh: bool,
    pub behind: Option<u64>,
    pub tip: Option<u64>,
    /// Total refaults of file pages.
    pub refaults: Option<u64>,
    /// Total PSI `full` memory time.
    pub stalled: Option<Duration>,
    /// The cgroup is out of memory, or a process was OOM-killed.
    pub out_of_memory: bool,
    /// Total times that replay threads waited for a CPU, and ran.
    pub replay_cpu: Option<(Duration, Duration)>,
    /// Since the last reading; pushes are up to ten seconds late.
    pub replays: Vec<Replayed>,
}

impl Reading {
    /// Whether the validator does not answer, although recorder and memory are readable. If the tip
    /// is known, the validator answers, and the cluster may have stopped.
    pub(super) fn is_silent(&self) -> bool {
        self.is_fresh && self.behind.is_none() && self.tip.is_none() && self.unreclaimable.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replayed {
    /// When the replay ended, on the clock of the readings.
    pub at: Duration,
    pub us: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// In bytes; `None` lifts it.
    Limit(Option<u64>),
    /// Journal this before any later action. Only a dangerous limit is lifted first, because
    /// writing waits for a disk.
    Line(Line),
    Over(Box<Answer>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "search")]
pub enum Line {
    /// The limit follows unreclaimable memory with this headroom; `None` means no limit.
    Limit {
        headroom: Option<u64>,
        why: String,
    },
    Dwell(DwellResult),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DwellResult {
    /// In bytes; `None` for a reference.
    pub headroom: Option<u64>,
    /// Whether it confirms an end of the interval, at double length.
    pub confirms: bool,
    pub verdict: Verdict,
    pub evidence: Box<Evidence>,
}

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
    /// Number of replayed slots; not stored.
    #[serde(skip)]
    pub replayed: usize,
    pub replay_p95_us: Option<f64>,
    /// Refaults of file pages per second.
    pub refaults: Option<f64>,
    /// Share that replay threads waited for a CPU, in the busiest eighth.
    pub waited: Option<f64>,
    /// New slots of the cluster per second.
    pub cluster: Option<f64>,
    /// The highest PSI `full` of memory, in percent.
    pub memory_full: Option<f64>,
    /// At the end, in bytes.
    pub unreclaimable: Option<u64>,
    /// Of the cgroup at the end, in bytes.
    pub memory: Option<u64>,
    /// Failed conditions; empty if it kept up.
    pub why: Vec<String>,
}
