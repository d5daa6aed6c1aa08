//! Votes, leader slots and the cluster, by JSON-RPC.
//!
//! A separate task polls once a minute; the tick exports the result with its age. The epoch and the
//! seconds ahead use the newest processed slot, which `rpc` polls every second.

mod ahead;
mod cluster;
mod known;
mod migration;
mod poller;
mod standing;

pub use migration::MigrationEvidence;
pub use poller::Poller;

use super::admin::{AdminFacts, target_lookup};
use super::distance::Witnesses;
use super::{Registry, rpc};
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_agave::PublicKey;
use faultline_agave::consensus::{Consensus, Protocol};
use faultline_agave::identify::HEALTH_DISTANCE;
use faultline_core::hub::Latest;
use faultline_datapoints::validator::intake::Intake;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp};
use known::{OwnVoteAccount, ReadingContext, VoteFacts};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub struct Handle {
    known: Latest<VoteFacts>,
    consensus: Latest<(ProcessId, Consensus)>,
    is_round_requested: Arc<AtomicBool>,
}

impl Handle {
    /// Requests the next round: the own votes came from a node far behind the tip, which is near it
    /// now.
    fn request_round(&self) {
        self.is_round_requested.store(true, Ordering::Relaxed);
    }

    fn take_request(&self) -> bool {
        self.is_round_requested.swap(false, Ordering::Relaxed)
    }

    pub fn cluster(&self, process: ProcessId) -> Option<String> {
        let known = self.of(process)?;
        known
            .genesis
            .as_deref()
            .map(|hash| cluster::name(hash).to_owned())
    }

    pub fn migration(&self, process: ProcessId, now: Stamp) -> MigrationEvidence {
        self.of(process)
            .map(|known| known.migration(now))
            .unwrap_or_default()
    }

    /// In lamports.
    pub fn vote_balance(&self, process: ProcessId, now: Stamp) -> Option<u64> {
        let known = self.of(process)?;
        known.vote_balance.fresh(now, known.ttls.often)
    }

    pub fn set_consensus(&self, process: ProcessId, consensus: Option<Consensus>) {
        self.consensus
            .set(consensus.map(|consensus| Arc::new((process, consensus))));
    }

    fn protocol(&self, process: ProcessId) -> Option<Protocol> {
        let (of, consensus) = *self.consensus.get()?;
        (of == process).then_some(consensus.protocol)
    }

    fn of(&self, process: ProcessId) -> Option<Arc<VoteFacts>> {
        self.known.get().filter(|known| known.process == process)
    }

    /// The last round, or the first one so far; `None` before.
    pub fn standing(&self) -> Option<VoteStatus> {
        let known = self.known.get()?;
        let own = known.own.fresh(known.at, known.ttls.often);
        Some(VoteStatus {
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

/// The node's view of one validator's vote account.
#[derive(Debug, Clone)]
pub struct VoteStatus {
    /// All requests of a round were sent.
    pub is_whole: bool,
    /// The node returned all vote accounts.
    pub is_known: bool,
    /// The configured account, or the identity's; `None` if the identity has none.
    pub account: Option<PublicKey>,
    /// `Some(None)` if the node does not know it, `None` without a response.
    pub own: Option<Option<OwnVoteAccount>>,
    /// Another node votes with it.
    pub is_standby: bool,
    pub consensus: Option<Consensus>,
    pub problems: Vec<Problem>,
}

struct Votes {
    handle: Handle,
    rpc: rpc::Handle,
    slot_time: Latest<Duration>,
    intake: Intake,
    last_reported: Option<Stamp>,
    /// Arrival of the own votes that were reported last, and whether the node was near the tip
    /// then.
    judged: Option<(Stamp, Option<bool>)>,
    /// The response for which another round was requested.
    requested_for: Option<Stamp>,
}

impl Votes {
    /// True if the node was far behind when it returned the own votes: they are of an old bank.
    fn is_judged_from_behind(&mut self, known: &VoteFacts, near_tip: Option<bool>) -> bool {
        let Some(answered) = known.own.at() else {
            return false;
        };
        let (_, was_near) = *self
            .judged
            .take_if(|(at, _)| *at == answered)
            .get_or_insert((answered, near_tip));
        self.judged = Some((answered, was_near));
        // Once per response: a node in trouble gets no extra requests.
        if was_near == Some(false)
            && near_tip == Some(true)
            && self.requested_for.replace(answered) != Some(answered)
        {
            self.handle.request_round();
        }
        was_near == Some(false)
    }
}

impl Poll for Votes {
    fn source(&self) -> Source {
        Source::Votes
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let process = context.target.map(|target| target.process);
        if let Some(known) = process.and_then(|process| self.handle.of(process)) {
            let newest = self
                .rpc
                .facts()
                .filter(|facts| Some(facts.process) == process);
            let validator = context.target.and_then(|target| target.validator.as_ref());
            let limit = validator.map_or(HEALTH_DISTANCE, |validator| validator.health_distance);
            let pushed = self.intake.newest_slots();
            let near_tip =
                Witnesses::new(context.now, newest.as_deref(), pushed, limit).is_near_tip();
            let vantage = ReadingContext {
                newest: newest.and_then(|facts| facts.epoch_info),
                is_near_tip: near_tip == Some(true),
                slot_time: self.slot_time.get().map(|time| *time),
                protocol: self.handle.protocol(known.process),
                judged_from_behind: self.is_judged_from_behind(&known, near_tip),
            };
            known.readings(vantage, context.now, &mut output.readings);
            output.received(&mut self.last_reported, known.at, known.up, &known.problems);
        }
        output
    }
}

pub(super) fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    rpc: &rpc::Handle,
    admin: &Latest<AdminFacts>,
    slot_time: &Latest<Duration>,
) -> Handle {
    let config = context.config;
    if !config.rpc.enabled || !config.validator.enabled {
        return Handle::default();
    }
    let lookup = target_lookup(context.following);
    let endpoint = rpc::Endpoint::new(&config.rpc, lookup, admin.clone(), rpc.clone());
    let poller = Poller::new(&config.validator, context.clock, endpoint);
    let handle = poller.handle();
    registry.validator_poller(|stop| poller.run(stop));
    registry.sampler(Votes {
        handle: handle.clone(),
        rpc: rpc.clone(),
        slot_time: slot_time.clone(),
        intake: intake.clone(),
        last_reported: None,
        judged: None,
        requested_for: None,
    });
    handle
}

#[cfg(test)]
mod tests;
