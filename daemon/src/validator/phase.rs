//! Stages of a start, as the validator reports them.

use faultline_agave::admin::StartProgress;
use faultline_agave::log::Progress;
use faultline_phase::Phase;

/// As the admin socket reports it; `None` once services run, or for a state of a version not known yet.
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

/// As the log reports it.
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
