//! Votes, leader slots and the cluster, by JSON-RPC.
//!
//! A separate task polls once a minute; the tick exports the result with its age. Epoch progress
//! and the times to leader slots use the newest processed slot, which `rpc` polls every second.

mod cluster;
mod connection;
mod migration;
mod own_schedule;
mod poller;
mod standing;
mod vote_facts;

pub use migration::MigrationEvidence;
pub use poller::Poller;

use super::admin::{AdminFacts, target_lookup};
use super::distance::DistanceEvidence;
use super::{Registry, rpc};
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_agave::PublicKey;
use faultline_agave::consensus::{Consensus, Protocol};
use faultline_agave::identify::HEALTH_DISTANCE;
use faultline_core::hub::Latest;
use faultline_datapoints::validator::intake::Intake;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vote_facts::{OwnVoteAccount, ReadingContext, VoteFacts};

#[derive(Debug, Clone, Default)]
pub struct Handle {
    vote_facts: Latest<VoteFacts>,
    consensus: Latest<(ProcessId, Consensus)>,
    is_round_requested: Arc<AtomicBool>,
}

impl Handle {
    /// Requests another round at once: the node was far behind the tip when it returned the own
    /// votes, and is near the tip now.
    fn request_round(&self) {
        self.is_round_requested.store(true, Ordering::Relaxed);
    }

    fn take_round_request(&self) -> bool {
        self.is_round_requested.swap(false, Ordering::Relaxed)
    }

    pub fn cluster(&self, process: ProcessId) -> Option<String> {
        let vote_facts = self.of(process)?;
        vote_facts
            .genesis
            .as_deref()
            .map(|hash| cluster::name(hash).to_owned())
    }

    pub fn migration(&self, process: ProcessId, now: Stamp) -> MigrationEvidence {
        self.of(process)
            .map(|vote_facts| vote_facts.migration(now))
            .unwrap_or_default()
    }

    /// In lamports.
    pub fn vote_balance(&self, process: ProcessId, now: Stamp) -> Option<u64> {
        let vote_facts = self.of(process)?;
        vote_facts
            .vote_balance
            .fresh(now, vote_facts.ttls.per_round)
    }

    pub fn set_consensus(&self, process: ProcessId, consensus: Option<Consensus>) {
        self.consensus
            .set(consensus.map(|consensus| Arc::new((process, consensus))));
    }

    fn protocol(&self, process: ProcessId) -> Option<Protocol> {
        let (consensus_process, consensus) = *self.consensus.get()?;
        (consensus_process == process).then_some(consensus.protocol)
    }

    fn of(&self, process: ProcessId) -> Option<Arc<VoteFacts>> {
        self.vote_facts
            .get()
            .filter(|vote_facts| vote_facts.process == process)
    }

    /// The result of the last round, or of the unfinished first one. `None` before that.
    pub fn status(&self) -> Option<VoteStatus> {
        let vote_facts = self.vote_facts.get()?;
        let own = vote_facts
            .own
            .fresh(vote_facts.at, vote_facts.ttls.per_round);
        Some(VoteStatus {
            is_complete: vote_facts.is_complete,
            has_all_accounts: vote_facts.ranking.at().is_some(),
            account: vote_facts.vote_account,
            is_standby: own.iter().flatten().any(|own| vote_facts.is_standby(own)),
            own,
            consensus: vote_facts.consensus(),
            problems: vote_facts.problems.clone(),
        })
    }
}

/// The node's view of one validator's vote account.
#[derive(Debug, Clone)]
pub struct VoteStatus {
    /// All requests of a round were sent.
    pub is_complete: bool,
    /// The node returned all vote accounts.
    pub has_all_accounts: bool,
    /// The configured account, or the identity's; `None` if the identity has none.
    pub account: Option<PublicKey>,
    /// `Some(None)` if the node does not know the account, `None` without a response.
    pub own: Option<Option<OwnVoteAccount>>,
    /// Another node votes with the account.
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
    /// Arrival of the last own votes, and whether the node was near the tip then (`None`: unknown).
    near_tip_at_arrival: Option<(Stamp, Option<bool>)>,
    /// The response for which another round was requested.
    round_requested_for: Option<Stamp>,
}

impl Votes {
    /// True if the node was far behind when it returned the own votes, which are then of an old
    /// bank. Requests another round once the node is near the tip.
    fn answered_far_behind(&mut self, vote_facts: &VoteFacts, near_tip: Option<bool>) -> bool {
        let Some(answered) = vote_facts.own.at() else {
            return false;
        };
        let (_, was_near) = *self
            .near_tip_at_arrival
            .take_if(|(at, _)| *at == answered)
            .get_or_insert((answered, near_tip));
        self.near_tip_at_arrival = Some((answered, was_near));
        // Once per response: a node in trouble gets no extra requests.
        if was_near == Some(false)
            && near_tip == Some(true)
            && self.round_requested_for.replace(answered) != Some(answered)
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
        if let Some(vote_facts) = process.and_then(|process| self.handle.of(process)) {
            let newest = self
                .rpc
                .facts()
                .filter(|facts| Some(facts.process) == process);
            let validator = context.target.and_then(|target| target.validator.as_ref());
            let limit = validator.map_or(HEALTH_DISTANCE, |validator| validator.health_distance);
            let pushed = self.intake.newest_slots();
            let near_tip =
                DistanceEvidence::new(context.now, newest.as_deref(), pushed, limit).is_near_tip();
            let reading_context = ReadingContext {
                newest: newest.and_then(|facts| facts.epoch_info),
                is_near_tip: near_tip == Some(true),
                slot_time: self.slot_time.get().map(|time| *time),
                protocol: self.handle.protocol(vote_facts.process),
                answered_far_behind: self.answered_far_behind(&vote_facts, near_tip),
            };
            vote_facts.readings(reading_context, context.now, &mut output.readings);
            output.received(
                &mut self.last_reported,
                vote_facts.at,
                vote_facts.up,
                &vote_facts.problems,
            );
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
        near_tip_at_arrival: None,
        round_requested_for: None,
    });
    handle
}

#[cfg(test)]
mod tests;
