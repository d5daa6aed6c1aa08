//! What a validator is paid for: votes, leader slots, and the cluster around it, by JSON-RPC.
//!
//! A task of its own asks beside the poller of `rpc`, once a minute; the tick reads what it has heard, with its age. The epoch
//! and the seconds ahead are those of the newest processed slot, which `rpc` knows every second.

mod ahead;
mod cluster;
mod known;
mod migration;
mod poller;
mod standing;

pub use migration::MigrationEvidence;
pub use poller::Poller;

use super::rpc;
use crate::hub::Latest;
use crate::tick::{Finding, Look, Poll};
use faultline_agave::PublicKey;
use faultline_agave::consensus::{Consensus, Protocol};
use faultline_catalog::{Problem, Source, Stamp};
use faultline_kernel::ProcessId;
use known::{Known, Own};
use std::sync::Arc;

/// What the task has heard, for the tick. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    known: Latest<Known>,
    /// The consensus of a process, as all sources together prove it.
    consensus: Latest<(ProcessId, Consensus)>,
}

impl Handle {
    /// The cluster of `process`, by its genesis hash.
    pub fn cluster(&self, process: ProcessId) -> Option<String> {
        let known = self.of(process)?;
        known
            .genesis
            .as_deref()
            .map(|hash| cluster::name(hash).to_owned())
    }

    /// What it knows of the migration of `process`.
    pub fn migration(&self, process: ProcessId, now: Stamp) -> MigrationEvidence {
        self.of(process)
            .map(|known| known.migration(now))
            .unwrap_or_default()
    }

    /// Lamports that the vote account lacks for its admission, by its balance and the pace of slots; `None` if either is not known.
    pub fn admission_shortfall(&self, process: ProcessId, now: Stamp) -> Option<u64> {
        self.of(process)?.admission_shortfall(now)
    }

    /// Which consensus `process` runs; `None` while that is not known.
    pub fn set_consensus(&self, process: ProcessId, consensus: Option<Consensus>) {
        self.consensus
            .set(consensus.map(|consensus| Arc::new((process, consensus))));
    }

    fn protocol(&self, process: ProcessId) -> Option<Protocol> {
        let (of, consensus) = *self.consensus.get()?;
        (of == process).then_some(consensus.protocol)
    }

    fn of(&self, process: ProcessId) -> Option<Arc<Known>> {
        self.known.get().filter(|known| known.process == process)
    }

    /// What was heard in the last round, or so far in the first; `None` before.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let known = self.known.get()?;
        let own = known.own.fresh(known.at, known.lives.often);
        Some(Standing {
            is_whole: known.whole,
            is_known: known.among_all.at().is_some(),
            account: known.vote_account,
            is_standby: own.iter().flatten().any(|own| known.is_standby(own)),
            own,
            consensus: known.consensus(),
            problems: known.problems.clone(),
        })
    }
}

/// What a node knows of the vote account of one validator.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Whether all questions of a round were asked.
    pub(crate) is_whole: bool,
    /// Whether the node has told all vote accounts.
    pub(crate) is_known: bool,
    /// The vote account: as configured, or of the identity; `None` if the identity has none.
    pub(crate) account: Option<PublicKey>,
    /// What it is like: `Some(None)` if the node does not know it, `None` if it did not answer.
    pub(crate) own: Option<Option<Own>>,
    /// Whether another node votes with it.
    pub(crate) is_standby: bool,
    /// The consensus, as far as the node itself proves it.
    pub(crate) consensus: Option<Consensus>,
    /// What could not be learnt.
    pub(crate) problems: Vec<Problem>,
}

/// Votes and leader slots.
pub struct Votes {
    /// What the task has heard.
    pub heard: Handle,
    /// What `rpc` has heard.
    pub rpc: rpc::Handle,
    /// When the answer was heard that was told last.
    pub told: Option<Stamp>,
}

impl Poll for Votes {
    fn source(&self) -> Source {
        Source::Votes
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::default();
        let process = look.target.map(|target| target.process);
        if let Some(known) = process.and_then(|process| self.heard.of(process)) {
            let newest = self
                .rpc
                .facts()
                .filter(|facts| Some(facts.process) == process);
            let near_tip = newest.as_ref().is_some_and(|facts| facts.is_near_tip());
            known.readings(
                (newest.and_then(|facts| facts.epoch_info), near_tip),
                (look.now, self.heard.protocol(known.process)),
                &mut finding.readings,
            );
            finding.repeated = self.told.replace(known.at) == Some(known.at);
            finding.heard = Some(known.at);
            finding.up = known.up;
            finding.problems.clone_from(&known.problems);
        }
        finding
    }
}

#[cfg(test)]
mod tests;
