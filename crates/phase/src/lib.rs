//! Derives phases, intervals and time at the tip from evidence of a validator. Pure: no input or
//! output, no clock. The same evidence gives the daemon and a report the same answers.

mod slot_time;
mod slot_track;
mod tracker;

pub use tracker::{PhaseInterval, STALL_AFTER, Tracker};

use std::time::Duration;

faultline_metrics::named_enum! {
    pub enum Phase {
        /// No process was followed yet.
        Absent = "absent",
        /// Reading its configuration, or no source has reported anything yet.
        Initializing = "initializing",
        Searching = "searching",
        Downloading = "downloading",
        /// Unpacks the snapshot, rebuilds storages and generates the accounts index.
        LoadingSnapshot = "unpacking",
        Replaying = "replaying",
        /// After replay, services start.
        Starting = "starting",
        WaitingForSupermajority = "waiting_for_supermajority",
        Halted = "halted",
        /// Started, and not at the tip yet.
        CatchingUp = "catching_up",
        AtTip = "at_tip",
        Behind = "behind",
        Gone = "gone",
    }
}

impl Phase {
    pub const fn is_running(self) -> bool {
        matches!(self, Self::CatchingUp | Self::AtTip | Self::Behind)
    }
}

pub fn phase_name(phase: Option<Phase>) -> &'static str {
    phase.map_or("unknown", Phase::name)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Process {
    #[default]
    None,
    /// Stopped by a signal, or its cgroup is frozen: its slot does not advance.
    Stopped,
    Alive,
}

/// How far the start of the validator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A phase of the start. For a recording without evidence, the recorded phase, whichever it is.
    Reported(Phase),
    Running,
}

/// The evidence of one tick. Silence of a source is not evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseEvidence {
    pub process: Process,
    /// As last reported; `None` if the report is too old.
    pub stage: Option<Stage>,
    /// The validator's own slot, if reported since the previous tick. It may be unchanged.
    pub slot: Option<u64>,
    /// The cluster's tip as the validator knows it, if reported since the previous tick.
    pub tip: Option<u64>,
    /// The validator calls itself healthy. If no source reports the tip, the slot time is measured
    /// from the slot of a healthy validator.
    pub is_healthy: bool,
}

/// The daemon did not run if two ticks are further apart than the larger of this and three tick
/// intervals.
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
    pub tick_interval: Duration,
}

impl Rules {
    pub fn is_gap(&self, since_last_tick: Duration) -> bool {
        since_last_tick > MIN_GAP.max(self.tick_interval.saturating_mul(3))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            at_tip_slots: 32,
            at_tip_for: Duration::from_secs(60),
            behind_slots: 128,
            behind_for: Duration::from_secs(30),
            tick_interval: Duration::from_secs(1),
        }
    }
}

/// A process kept up if [`TipTime::at_tip`] is at least this share.
pub const MIN_KEPT_UP_SHARE: f64 = 0.99;

/// Time since a process was first at the tip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TipTime {
    pub at_tip: Duration,
    pub not_at_tip: Duration,
    pub unknown: Duration,
}

impl TipTime {
    /// Whether the process was at the tip for 99 % of the time. `None` if there is no time, or if
    /// the unknown time could change the answer.
    pub fn kept_up(self) -> Option<bool> {
        let needed =
            MIN_KEPT_UP_SHARE * (self.at_tip + self.not_at_tip + self.unknown).as_secs_f64();
        if needed <= 0.0 {
            None
        } else if self.at_tip.as_secs_f64() >= needed {
            Some(true)
        } else if (self.at_tip + self.unknown).as_secs_f64() < needed {
            Some(false)
        } else {
            None
        }
    }

    pub fn add(&mut self, phase: Option<Phase>, time: Duration) {
        *match phase {
            Some(Phase::AtTip) => &mut self.at_tip,
            Some(_) => &mut self.not_at_tip,
            None => &mut self.unknown,
        } += time;
    }
}
