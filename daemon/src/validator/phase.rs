//! Which phase the validator is in, and how long it spent in each.

mod advance;
mod tracker;

pub use advance::Advance;
pub use tracker::{Evidence, SLOW_PATIENCE, Tracker};

use faultline_agave::admin::StartProgress;
use faultline_agave::log::Progress;

/// A phase of the validator's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No process was found yet.
    Absent,
    /// Reading its configuration, and between download and start; and as long as it has not told how far it is.
    Initializing,
    /// Searching gossip for a node with a snapshot.
    Searching,
    /// Downloading a snapshot.
    Downloading,
    /// Unpacking it and building the accounts index.
    Unpacking,
    /// Replaying what the local ledger holds.
    Replaying,
    /// Starting services.
    Starting,
    /// Waiting for stake at a cluster restart.
    WaitingForSupermajority,
    /// Halted at a slot on request.
    Halted,
    /// Services run; not at the tip since the start.
    CatchingUp,
    /// At the tip of the cluster.
    AtTip,
    /// Was at the tip and fell behind.
    Behind,
    /// The process that was followed has ended.
    Gone,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub const ALL: [Phase; 13] = [
        Phase::Absent,
        Phase::Initializing,
        Phase::Searching,
        Phase::Downloading,
        Phase::Unpacking,
        Phase::Replaying,
        Phase::Starting,
        Phase::WaitingForSupermajority,
        Phase::Halted,
        Phase::CatchingUp,
        Phase::AtTip,
        Phase::Behind,
        Phase::Gone,
    ];

    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Absent => "absent",
            Phase::Initializing => "initializing",
            Phase::Searching => "searching",
            Phase::Downloading => "downloading",
            Phase::Unpacking => "unpacking",
            Phase::Replaying => "replaying",
            Phase::Starting => "starting",
            Phase::WaitingForSupermajority => "waiting_for_supermajority",
            Phase::Halted => "halted",
            Phase::CatchingUp => "catching_up",
            Phase::AtTip => "at_tip",
            Phase::Behind => "behind",
            Phase::Gone => "gone",
        }
    }

    /// Of a start, as the admin socket tells it; `None` once services run, or for a state of a version not known yet.
    pub fn of_start(progress: &StartProgress) -> Option<Phase> {
        Some(match progress {
            StartProgress::Initializing | StartProgress::CleaningAccounts => Phase::Initializing,
            StartProgress::SearchingForRpcService => Phase::Searching,
            StartProgress::DownloadingSnapshot { .. } => Phase::Downloading,
            StartProgress::LoadingLedger => Phase::Unpacking,
            StartProgress::ProcessingLedger { .. } => Phase::Replaying,
            StartProgress::CleaningBlockStore | StartProgress::StartingServices => Phase::Starting,
            StartProgress::WaitingForSupermajority { .. } => Phase::WaitingForSupermajority,
            StartProgress::Halted => Phase::Halted,
            StartProgress::Running | StartProgress::Other(_) => return None,
        })
    }

    /// Of a start, as the log tells it.
    pub fn of_log(progress: Progress) -> Option<Phase> {
        Some(match progress {
            Progress::DownloadBegins { .. } | Progress::Downloading { .. } => Phase::Downloading,
            Progress::Unpacked | Progress::GeneratingIndex { .. } => Phase::Unpacking,
            Progress::ReplayBegins { .. }
            | Progress::LedgerHolds { .. }
            | Progress::Replaying { .. } => Phase::Replaying,
            Progress::Replayed => Phase::Starting,
            Progress::WaitingForSupermajority { .. } => Phase::WaitingForSupermajority,
            _ => return None,
        })
    }

    /// Whether services run.
    fn runs(self) -> bool {
        matches!(self, Phase::CatchingUp | Phase::AtTip | Phase::Behind)
    }
}

/// The label value of a phase, or "unknown".
pub fn word(phase: Option<Phase>) -> &'static str {
    phase.map_or("unknown", Phase::name)
}

#[cfg(test)]
mod tests;
