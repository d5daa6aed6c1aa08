use faultline_agave::{admin::StartProgress, log::Progress};
use faultline_phase::Phase;

/// From the admin socket; `None` once services run, or for an unknown state.
pub fn from_start_progress(progress: &StartProgress) -> Option<Phase> {
    Some(match progress {
        StartProgress::Initializing | StartProgress::CleaningAccounts => Phase::Initializing,
        StartProgress::SearchingForRpcService => Phase::Searching,
        StartProgress::DownloadingSnapshot => Phase::Downloading,
        StartProgress::LoadingLedger => Phase::LoadingSnapshot,
        StartProgress::ProcessingLedger => Phase::Replaying,
        StartProgress::CleaningBlockStore | StartProgress::StartingServices => Phase::Starting,
        StartProgress::WaitingForSupermajority => Phase::WaitingForSupermajority,
        StartProgress::Halted => Phase::Halted,
        StartProgress::Running | StartProgress::Other(_) => return None,
    })
}

/// `None` once initialized.
pub fn from_log_progress(progress: Progress) -> Option<Phase> {
    Some(match progress {
        Progress::Downloading => Phase::Downloading,
        Progress::Unpacked | Progress::GeneratingIndex => Phase::LoadingSnapshot,
        Progress::ReplayBegins | Progress::Replaying => Phase::Replaying,
        Progress::Replayed => Phase::Starting,
        Progress::WaitingForSupermajority => Phase::WaitingForSupermajority,
        Progress::Initialized => return None,
    })
}
