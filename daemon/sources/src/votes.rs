//! Votes, leader slots and the cluster, by JSON-RPC.
//! A separate task runs a round of several requests, by default once a minute. Epoch progress and
//! the times to leader slots use the newest processed slot, which `rpc` polls more often.
//!
//! A cluster migrates once, from the consensus Tower to Alpenglow. Before, an account earns credits
//! per epoch, afterwards lamports. The marker is the entry that the migration adds to the epoch
//! credits of each vote account. The genesis certificate names the genesis block of Alpenglow, the
//! last one before it.

mod cluster;
mod cluster_votes;
mod own_schedule;
mod poller;
mod vote_facts;

pub use poller::Poller;
pub(crate) use vote_facts::sol;

use crate::{
    Registry,
    admin::{AdminFacts, target_lookup},
    distance::DistanceEvidence,
    polling::Timestamped,
    rpc,
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use cluster::VersionShares;
use cluster_votes::ClusterVotes;
use faultline_agave::{
    PublicKey,
    consensus::{Consensus, Protocol},
    rpc::{EpochInfo, FeatureGate, LeaderSlots, PendingStake, VoteAccount},
};
use faultline_core::publish::Latest;
use faultline_datapoints::validator::intake::Intake;
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp};
use own_schedule::OwnLeaderSchedule;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What the poller publishes, and what it gets from the tick. Clones share it.
#[derive(Clone, Default)]
pub struct Handle {
    facts: Latest<VoteFacts>,
    pub(crate) consensus: Latest<(ProcessId, Consensus)>,
    pub(crate) slot_time: Latest<Duration>,
    /// The sampler requests a round before the next one is due.
    is_round_requested: Arc<AtomicBool>,
}

impl Handle {
    /// The result of the last round, or of the unfinished first one. `None` before that.
    pub fn facts(&self) -> Option<Arc<VoteFacts>> {
        self.facts.get()
    }

    pub(crate) fn facts_of(&self, process: ProcessId) -> Option<Arc<VoteFacts>> {
        self.facts().filter(|facts| facts.process == process)
    }

    fn take_round_request(&self) -> bool {
        self.is_round_requested.swap(false, Ordering::Relaxed)
    }

    fn publish(&self, facts: &VoteFacts) {
        self.facts.set(Some(Arc::new(facts.clone())));
    }

    fn protocol(&self, process: ProcessId) -> Option<Protocol> {
        let (owner, consensus) = *self.consensus.get()?;
        (owner == process).then_some(consensus.protocol)
    }
}

#[derive(Debug, Clone)]
pub struct OwnVoteAccount {
    pub account: VoteAccount,
    pub delinquent: bool,
    /// Of the processed bank, requested directly after the account.
    epoch_info: EpochInfo,
}

/// Of one process with one identity. Another process or identity starts with an empty value.
#[derive(Debug, Clone, Default)]
pub struct VoteFacts {
    process: ProcessId,
    identity: PublicKey,
    poll_interval: Duration,
    pub polled_at: Stamp,
    /// The round at `polled_at` returned the own vote account, or proved that none exists.
    up: bool,
    /// The round has ended. Only the first round is published before its end.
    pub is_complete: bool,
    pub problems: Vec<Problem>,
    /// Includes the current one.
    rounds: u32,
    /// The configured account, or the identity's; `None` if the identity has none.
    pub vote_account: Option<PublicKey>,
    genesis_hash: Option<Arc<str>>,
    own_schedule: Option<Arc<OwnLeaderSchedule>>,
    epoch_info: Timestamped<EpochInfo>,
    own_account: Timestamped<Option<OwnVoteAccount>>,
    identity_balance: Timestamped<u64>,
    vote_balance: Timestamped<u64>,
    cluster_votes: Timestamped<ClusterVotes>,
    /// Set once the credits of an account contained the marker.
    marked_migration_epoch: Option<u64>,
    /// Set once the node has returned the genesis certificate.
    certified_genesis_slot: Option<u64>,
    /// The feature gate of Alpenglow. An active gate is stored only with a response that no genesis
    /// certificate exists yet: otherwise the migration may be over.
    feature_gate: Timestamped<FeatureGate>,
    /// The epoch's first slot, own leader slots, and the cluster's.
    production: Timestamped<(u64, Option<LeaderSlots>, LeaderSlots)>,
    /// The epoch of the stake scan, and the stake that changes at the end of that epoch.
    pending_stake: Timestamped<(u64, PendingStake)>,
    version_shares: Timestamped<VersionShares>,
    /// Uptime from which the next scan of all stake accounts is allowed.
    stake_scan_due: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct ReadingContext {
    /// The last response of the source `rpc`, which is newer than that of the last round. `None` if
    /// it has expired.
    newest_epoch_info: Option<EpochInfo>,
    /// Times to leader slots are exported only near the tip: elsewhere, the processed slot is not
    /// the cluster's present one.
    is_near_tip: bool,
    slot_time: Option<Duration>,
    protocol: Option<Protocol>,
    /// The node was far behind the tip when it returned the own votes, so these are old.
    was_far_behind_at_response: bool,
}

struct VotesSampler {
    handle: Handle,
    rpc: rpc::Handle,
    intake: Intake,
    /// Arrival of the last own votes, and whether the node was near the tip then (`None`: unknown).
    near_tip_at_arrival: Option<(Stamp, Option<bool>)>,
    round_requested_for: Option<Stamp>,
}

impl VotesSampler {
    /// Requests another round once the node is near the tip.
    fn was_far_behind_at_response(&mut self, facts: &VoteFacts, near_tip: Option<bool>) -> bool {
        let Some(answered_at) = facts.own_account.received_at() else {
            return false;
        };
        let (_, was_near) = self
            .near_tip_at_arrival
            .filter(|(at, _)| *at == answered_at)
            .unwrap_or((answered_at, near_tip));
        self.near_tip_at_arrival = Some((answered_at, was_near));
        // Once per response: a node in trouble gets no extra requests.
        if was_near == Some(false)
            && near_tip == Some(true)
            && self.round_requested_for.replace(answered_at) != Some(answered_at)
        {
            self.handle
                .is_round_requested
                .store(true, Ordering::Relaxed);
        }
        was_near == Some(false)
    }
}

impl Sampler for VotesSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let Some(target) = context.target else {
            return output;
        };
        let process = target.process;
        let Some(facts) = self.handle.facts_of(process) else {
            return output;
        };
        let rpc = self.rpc.facts_of(Some(process));
        let pushed_slots = self.intake.newest_slots();
        let health_distance = target.health_distance();
        let near_tip =
            DistanceEvidence::new(context.now, rpc.as_deref(), pushed_slots, health_distance)
                .is_near_tip();
        let reading_context = ReadingContext {
            newest_epoch_info: rpc.and_then(|facts| facts.epoch_info),
            is_near_tip: near_tip == Some(true),
            slot_time: self.handle.slot_time.get().map(|time| *time),
            protocol: self.handle.protocol(process),
            was_far_behind_at_response: self.was_far_behind_at_response(&facts, near_tip),
        };
        facts.add_readings(reading_context, context.now, &mut output);
        let is_recent = context.now.since(facts.polled_at) <= facts.ttl(1);
        let no_round = [Problem::absent_data(
            "no poll for three intervals: the validator's identity is not known",
        )];
        let problems = if is_recent {
            &*facts.problems
        } else {
            &no_round
        };
        output.report_poll(facts.polled_at, facts.up && is_recent, problems);
        output
    }
}

pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    rpc: &rpc::Handle,
    admin: &Latest<AdminFacts>,
) -> Handle {
    let config = context.config;
    if !config.rpc.enabled || !config.validator.enabled {
        return Handle::default();
    }
    let lookup = target_lookup(context.target_handle);
    let endpoint = rpc::Endpoint::new(&config.rpc, lookup, admin.clone(), rpc.clone());
    // The section `validator` of the configuration is only about this poller.
    let poller = Poller::new(&config.validator, context.clock, endpoint);
    let handle = poller.handle.clone();
    registry.add_validator_poller(|stop| poller.run(stop));
    registry.add_sampler(
        Source::Votes,
        VotesSampler {
            handle: handle.clone(),
            rpc: rpc.clone(),
            intake: intake.clone(),
            near_tip_at_arrival: None,
            round_requested_for: None,
        },
    );
    handle
}

#[cfg(test)]
mod tests;
