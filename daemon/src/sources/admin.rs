//! The validator's admin socket, asked how far its start has come, who it is and where its JSON-RPC listens.
//!
//! `<ledger>/admin.rpc` is there before anything else of the validator is, so that it tells of the start what no other
//! source can. Only its owner and root may connect. Only the read-only methods of [`faultline_agave::admin`] are used,
//! and an answer counts only if the process behind the socket is the one that is followed.

mod poller;
mod socket;

pub use poller::Poller;

use faultline_agave::PublicKey;
use faultline_agave::admin::{AdmissionFailure, AdmissionStatus, StartProgress};
use faultline_catalog::metrics::votes as m;
use faultline_catalog::{Problem, Reading, ReadingList, Stamp};
use faultline_kernel::ProcessId;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Whom to ask: what the pollers need to know of the followed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Which life of which process.
    pub process: ProcessId,
    /// The port of its JSON-RPC, if its arguments name one.
    pub rpc_port: Option<u16>,
    /// Where its JSON-RPC listens, if its arguments say: an address or a host's name.
    pub rpc_host: Option<String>,
    /// The vote account that its arguments name by its address.
    pub vote_account: Option<PublicKey>,
    /// Its ledger folder as this daemon sees it; `None` if unknown.
    pub ledger: Option<PathBuf>,
}

/// Says whom to ask now; `None` while nobody is followed. Asked at every poll, on the runtime: it returns at once.
pub type WhomToAsk = Box<dyn Fn() -> Option<Asked> + Send + Sync>;

/// What the admin socket has told. Never changes; the poller publishes a new one.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminFacts {
    /// Of which process this is true. Facts of another process than the one followed now are out of date.
    pub process: ProcessId,
    /// When the last poll ended.
    pub at: Stamp,
    /// How long it took.
    pub took: Duration,
    /// How far the start has come. `None` before the first answer, and once the last one is older than three polls and
    /// 10 s.
    pub progress: Option<StartProgress>,
    /// The identity, asked once the start is over. `None` as `progress`, and always with solana-test-validator.
    pub identity: Option<PublicKey>,
    /// Where JSON-RPC listens as the validator was told, which may be an unspecified address; asked once in a process's
    /// life. `None` before that, and if the validator has no JSON-RPC.
    pub rpc_address: Option<SocketAddr>,
    /// Whether the vote account is admitted; asked every minute once the start is over. `None` with a version that does not
    /// report it, and as `progress`.
    pub admission: Option<AdmissionStatus>,
    /// What the last poll could not learn.
    pub problems: Vec<Problem>,
    /// Whether the last poll was told the progress.
    pub up: bool,
}

impl AdminFacts {
    /// `agave_admitted`. A node without a key to vote with is not to be admitted, nor is any before the feature is active.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        let in_force =
            |status: &&AdmissionStatus| status.voting_enabled && status.vat_active != Some(false);
        let Some(status) = self.admission.as_ref().filter(in_force) else {
            return;
        };
        let passes_next = status.next_epoch_vat_failure_reason.is_none();
        for (epoch, is_admitted) in [
            ("this_epoch", status.in_current_epoch_vat),
            ("epoch_after_next", passes_next),
        ] {
            out.flag(&m::ADMITTED, [epoch.into()], is_admitted);
        }
    }

    /// Lamports that the vote account lacks for the next check; `None` if the validator does not report it.
    pub fn admission_shortfall(&self) -> Option<u64> {
        match self.admission.as_ref()?.next_epoch_vat_failure_reason {
            None => Some(0),
            Some(AdmissionFailure::Lamports { balance, needed }) => {
                Some(needed.saturating_sub(balance))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
