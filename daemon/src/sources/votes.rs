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

use super::distance::Witnesses;
use super::rpc;
use crate::hub::Latest;
use crate::tick::{Finding, Look, Poll};
use crate::validator::intake::Intake;
use faultline_agave::PublicKey;
use faultline_agave::consensus::{Consensus, Protocol};
use faultline_agave::identify::HEALTH_DISTANCE;
use faultline_catalog::{Problem, Source, Stamp};
use faultline_kernel::ProcessId;
use known::{Known, Own, Vantage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the task has heard, for the tick. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    known: Latest<Known>,
    /// The consensus of a process, as all sources together prove it.
    consensus: Latest<(ProcessId, Consensus)>,
    is_round_requested: Arc<AtomicBool>,
}

impl Handle {
    /// The own votes were answered far behind the tip, and the node is near it now: the next round is due.
    fn request_round(&self) {
        self.is_round_requested.store(true, Ordering::Relaxed);
    }

    /// Whether a round was requested since the last call.
    fn take_request(&self) -> bool {
        self.is_round_requested.swap(false, Ordering::Relaxed)
    }

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

    /// The balance of the vote account of `process`, in lamports.
    pub fn vote_balance(&self, process: ProcessId, now: Stamp) -> Option<u64> {
        let known = self.of(process)?;
        known.vote_balance.fresh(now, known.lives.often)
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
    /// How long a slot takes, as measured up to the last tick.
    pub slot_time: Latest<Duration>,
    pub intake: Intake,
    /// When the answer was heard that was told last.
    pub told: Option<Stamp>,
    /// When the own votes were answered that were told last, and whether the node was near the tip then.
    pub judged: Option<(Stamp, Option<bool>)>,
    /// The answer for which another round was requested.
    pub requested_for: Option<Stamp>,
}

impl Votes {
    /// Whether the node that answered about the own votes was far behind then: it judged by an old bank.
    fn is_judged_from_behind(&mut self, known: &Known, near_tip: Option<bool>) -> bool {
        let Some(answered) = known.own.at() else {
            return false;
        };
        let (_, was_near) = *self
            .judged
            .take_if(|(at, _)| *at == answered)
            .get_or_insert((answered, near_tip));
        self.judged = Some((answered, was_near));
        // Once for each answer: a node in trouble is not asked more often.
        if was_near == Some(false)
            && near_tip == Some(true)
            && self.requested_for.replace(answered) != Some(answered)
        {
            self.heard.request_round();
        }
        was_near == Some(false)
    }
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
            let validator = look.target.and_then(|target| target.validator.as_ref());
            let limit = validator.map_or(HEALTH_DISTANCE, |validator| validator.health_distance);
            let pushed = self.intake.newest_slots();
            let near_tip = Witnesses::new(look.now, newest.as_deref(), pushed, limit).is_near_tip();
            let vantage = Vantage {
                newest: newest.and_then(|facts| facts.epoch_info),
                is_near_tip: near_tip == Some(true),
                slot_time: self.slot_time.get().map(|time| *time),
                protocol: self.heard.protocol(known.process),
                judged_from_behind: self.is_judged_from_behind(&known, near_tip),
            };
            known.readings(vantage, look.now, &mut finding.readings);
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
