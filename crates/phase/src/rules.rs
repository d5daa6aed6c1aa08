use std::time::Duration;

/// A longer time between two ticks, and longer than three intervals, means that the daemon did not run.
const MIN_GAP: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A validator is at the tip if it is at most this many slots behind for `at_tip_for`.
    pub at_tip_slots: u64,
    pub at_tip_for: Duration,
    /// A validator that was at the tip is behind if it is more than this many slots behind for
    /// `behind_for`.
    pub behind_slots: u64,
    pub behind_for: Duration,
    /// From tick to tick.
    pub interval: Duration,
}

impl Rules {
    /// Whether the daemon did not run between two ticks.
    pub fn is_gap(&self, between: Duration) -> bool {
        between > MIN_GAP.max(self.interval.saturating_mul(3))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            at_tip_slots: 32,
            at_tip_for: Duration::from_secs(60),
            behind_slots: 128,
            behind_for: Duration::from_secs(30),
            interval: Duration::from_secs(1),
        }
    }
}
