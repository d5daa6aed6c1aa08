use super::{OwnVoteAccount, ReadingContext, VoteFacts, cluster, cluster_votes::ClusterVotes};
use crate::{
    polling::{Timestamped, response_ttl},
    tick::SourceOutput,
};
use faultline_agave::{
    PublicKey,
    consensus::{Consensus, ConsensusEvidence, MAX_CREDITS_PER_SLOT, Protocol},
    rpc::{CreditUnit, EpochInfo, LAMPORTS_PER_SOL, VoteAccounts},
};
use faultline_metrics::{AddReadings, Stamp, metrics::votes as m};
use std::{sync::Arc, time::Duration};

/// Rounds per request of all vote accounts and of block production.
pub const ROUNDS_PER_CLUSTER_REQUEST: u32 = 5;
/// Rounds per request of the cluster's nodes, a multiple of [`ROUNDS_PER_CLUSTER_REQUEST`].
pub const ROUNDS_PER_NODES_REQUEST: u32 = 10;
/// Between two scans of stake accounts, if enabled.
pub const STAKE_SCAN_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// A vote is late if it is more slots than this behind the newest vote of all accounts. A healthy
/// validator's vote is in a certificate at most nine slots later.
const MAX_SLOTS_BEHIND_VOTE: u64 = 16;

impl OwnVoteAccount {
    /// `None` before the first vote.
    pub fn slots_since_vote(&self) -> Option<u64> {
        let last = self.account.last_vote.filter(|slot| *slot > 0)?;
        Some(self.epoch_info.absolute_slot.saturating_sub(last))
    }
}

impl VoteFacts {
    /// Lifetime of a response that is requested once in `rounds` rounds.
    pub(super) fn ttl(&self, rounds: u32) -> Duration {
        response_ttl(self.poll_interval.saturating_mul(rounds))
    }

    pub(super) fn epoch_info(&self, now: Stamp) -> Option<EpochInfo> {
        self.epoch_info.fresh(now, self.ttl(1))
    }

    /// `Some(None)` if the node does not know the account, `None` without a response.
    pub fn own_account(&self, now: Stamp) -> Option<Option<OwnVoteAccount>> {
        self.own_account.fresh(now, self.ttl(1))
    }

    /// In lamports.
    pub(crate) fn vote_balance(&self, now: Stamp) -> Option<u64> {
        self.vote_balance.fresh(now, self.ttl(1))
    }

    pub(crate) fn cluster(&self) -> Option<&str> {
        self.genesis_hash.as_deref().map(cluster::name)
    }

    pub fn has_all_vote_accounts(&self) -> bool {
        self.cluster_votes.received_at().is_some()
    }

    pub(super) fn needs_stake_scan(&self) -> bool {
        self.vote_account.is_some()
            && self.epoch_info(self.polled_at).is_some()
            && self
                .stake_scan_due
                .is_none_or(|due| self.polled_at.uptime >= due)
    }

    /// Drops the values of another account. Keeps `stake_scan_due`: changes cause no extra scans.
    pub(super) fn set_vote_account(&mut self, account: Option<PublicKey>) {
        if self.vote_account != account {
            self.vote_account = account;
            self.own_account = Timestamped::default();
            self.vote_balance = Timestamped::default();
            self.pending_stake = Timestamped::default();
        }
    }

    pub(super) fn set_cluster_votes(&mut self, response: &VoteAccounts, at: Stamp) {
        let epoch = self.epoch_info(at).map(|epoch_info| epoch_info.epoch);
        let votes = ClusterVotes::new(response, self.vote_account, epoch, self.migration_epoch(at));
        self.marked_migration_epoch = votes.marked_migration_epoch.or(self.marked_migration_epoch);
        self.cluster_votes.set(votes, at);
    }

    pub(crate) fn evidence(&self, now: Stamp) -> ConsensusEvidence<'_> {
        let votes = self
            .cluster_votes
            .fresh(now, self.ttl(ROUNDS_PER_CLUSTER_REQUEST));
        let slots = self
            .epoch_info(now)
            .map(|epoch_info| epoch_info.slots_in_epoch);
        ConsensusEvidence {
            certified_genesis_slot: self.certified_genesis_slot,
            gate: self.feature_gate.fresh(now, self.ttl(1)),
            has_credits_marker: self.marked_migration_epoch(now).is_some(),
            max_credits_or_lamports: votes
                .and_then(|votes| votes.max_credits_or_lamports)
                .zip(slots),
            genesis_hash: self.genesis_hash.as_deref(),
            ..ConsensusEvidence::default()
        }
    }

    pub fn consensus(&self) -> Option<Consensus> {
        let evidence = ConsensusEvidence {
            processed_slot: self
                .epoch_info(self.polled_at)
                .map(|epoch_info| epoch_info.absolute_slot),
            ..self.evidence(self.polled_at)
        };
        evidence.consensus()
    }

    fn marked_migration_epoch(&self, now: Stamp) -> Option<u64> {
        let own = || self.own_account(now)??.account.migration_epoch();
        self.marked_migration_epoch.or_else(own)
    }

    fn migration_epoch(&self, now: Stamp) -> Option<u64> {
        let by_certificate = || {
            let epoch_info = self.epoch_info(now)?;
            // In a cluster that started with Alpenglow, the certificate has slot 0: there was no
            // migration.
            let alpenglow_genesis_slot = self.certified_genesis_slot.filter(|slot| *slot > 0)?;
            let slots_before =
                first_slot_of_epoch(&epoch_info).saturating_sub(alpenglow_genesis_slot);
            let epochs_before = slots_before.div_ceil(epoch_info.slots_in_epoch.max(1));
            Some(epoch_info.epoch.saturating_sub(epochs_before))
        };
        self.marked_migration_epoch(now).or_else(by_certificate)
    }

    fn credit_unit(&self, now: Stamp, protocol: Option<Protocol>) -> CreditUnit {
        match protocol {
            None => CreditUnit::Unknown,
            Some(Protocol::Tower | Protocol::Migrating) => CreditUnit::Credits,
            Some(Protocol::Alpenglow) => CreditUnit::Lamports {
                migration_epoch: self.migration_epoch(now),
            },
        }
    }

    /// True if the own votes were late in the last response with all accounts. Each round then
    /// requests all accounts.
    pub(super) fn has_late_votes(&self, protocol: Option<Protocol>) -> bool {
        let distance = self
            .cluster_votes
            .fresh(self.polled_at, self.ttl(ROUNDS_PER_CLUSTER_REQUEST))
            .and_then(|votes| votes.slots_behind_newest_vote);
        protocol == Some(Protocol::Alpenglow) && distance > Some(MAX_SLOTS_BEHIND_VOTE)
    }

    /// Exports the responses that have not expired.
    pub(super) fn add_readings(
        &self,
        context: ReadingContext,
        now: Stamp,
        output: &mut SourceOutput,
    ) {
        if let Some(hash) = &self.genesis_hash {
            let name = cluster::name(hash).to_owned();
            output
                .readings
                .integer(&m::CLUSTER, [name.into(), Arc::clone(hash).into()], 1);
        }
        let epoch_info = context.newest_epoch_info.or_else(|| self.epoch_info(now));
        if let Some(epoch_info) = epoch_info {
            self.add_epoch_readings(epoch_info, context, output);
        }
        if let Some(Some(own)) = self.own_account(now) {
            self.add_vote_readings(&own, context, now, output);
        }
        self.add_balance_readings(now, epoch_info, output);
        if let Some(votes) = self
            .cluster_votes
            .fresh(now, self.ttl(ROUNDS_PER_CLUSTER_REQUEST))
        {
            let unit = self.credit_unit(now, context.protocol);
            add_cluster_votes_readings(&votes, unit, context.protocol, output);
        }
        self.add_production_readings(now, epoch_info, output);
        if let Some(shares) = self
            .version_shares
            .fresh(now, self.ttl(ROUNDS_PER_NODES_REQUEST))
        {
            for (version, share) in shares.versions {
                output.real(&m::VERSION_STAKE, [version], share);
            }
            for (feature_set, share) in shares.feature_sets {
                output.real(&m::FEATURE_SET_STAKE, [feature_set], share);
            }
        }
    }

    fn add_balance_readings(
        &self,
        now: Stamp,
        epoch_info: Option<EpochInfo>,
        output: &mut SourceOutput,
    ) {
        for (account, balance) in [
            ("identity", &self.identity_balance),
            ("vote", &self.vote_balance),
        ] {
            let balance = balance.fresh(now, self.ttl(1));
            output.real(&m::BALANCE, [account], balance.map(sol));
        }
        let pending = self
            .pending_stake
            .fresh(now, response_ttl(STAKE_SCAN_INTERVAL));
        if let Some((epoch, stake)) = pending
            && epoch_info.is_some_and(|epoch_info| epoch_info.epoch == epoch)
        {
            output.real(&m::STAKE, ["activating"], sol(stake.activating));
            output.real(&m::STAKE, ["deactivating"], sol(stake.deactivating));
        }
    }

    fn add_production_readings(
        &self,
        now: Stamp,
        epoch_info: Option<EpochInfo>,
        output: &mut SourceOutput,
    ) {
        let production = self
            .production
            .fresh(now, self.ttl(ROUNDS_PER_CLUSTER_REQUEST));
        let Some((first, own, all)) = production else {
            return;
        };
        if epoch_info.is_none_or(|epoch_info| first_slot_of_epoch(&epoch_info) != first) {
            return;
        }
        for (metric, slots) in [
            (&m::LEADER_SLOTS, own),
            (&m::CLUSTER_LEADER_SLOTS, Some(all)),
        ] {
            output.integer(metric, ["passed"], slots.map(|slots| slots.passed));
            output.integer(metric, ["skipped"], slots.map(|slots| slots.skipped));
        }
    }

    fn add_epoch_readings(
        &self,
        epoch_info: EpochInfo,
        context: ReadingContext,
        output: &mut SourceOutput,
    ) {
        let seconds = |slots: Option<u64>| Some(slots? as f64 * context.slot_time?.as_secs_f64());
        let slots_in_epoch = epoch_info.slots_in_epoch;
        let progress = epoch_info.slot_index as f64 / slots_in_epoch.max(1) as f64;
        output.integer(&m::EPOCH, [], epoch_info.epoch);
        output.real(&m::EPOCH_PROGRESS, [], progress);
        let remaining = slots_in_epoch.saturating_sub(epoch_info.slot_index);
        output.real(&m::EPOCH_REMAINING, [], seconds(Some(remaining)));
        let Some(schedule) = &self.own_schedule else {
            return;
        };
        if schedule.epoch != epoch_info.epoch {
            return;
        }
        output.integer(&m::LEADER_SLOTS, ["assigned"], schedule.assigned());
        if !context.is_near_tip {
            return;
        }
        let slot = epoch_info.absolute_slot;
        let window = schedule.longest_window(slot);
        for (metric, slots) in [
            (&m::NEXT_LEADER_SLOT, schedule.slots_to_next(slot)),
            (&m::RESTART_WINDOW, window.map(|window| window.slots)),
            (
                &m::RESTART_WINDOW_BEGINS,
                window.map(|window| window.offset),
            ),
        ] {
            output.real(metric, [], seconds(slots));
        }
    }

    /// True if another identity votes with the configured account.
    pub fn is_standby(&self, own: &OwnVoteAccount) -> bool {
        own.account
            .node_pubkey
            .is_some_and(|node| node != self.identity)
    }

    fn add_vote_readings(
        &self,
        own: &OwnVoteAccount,
        context: ReadingContext,
        now: Stamp,
        output: &mut SourceOutput,
    ) {
        let (account, epoch_info) = (&own.account, &own.epoch_info);
        let role = match self.is_standby(own) {
            true => "standby",
            false => "voting",
        };
        if let (Some(key), Some(_)) = (account.vote_pubkey, account.node_pubkey) {
            let (identity, key) = (self.identity.to_string(), key.to_string());
            let labels = [identity.into(), role.into(), key.into()];
            output.readings.integer(&m::VOTE_ACCOUNT, labels, 1);
        }
        let has_current_votes = !context.was_far_behind_at_response;
        if has_current_votes {
            output.flag(&m::DELINQUENT, [], own.delinquent);
        }
        let is_alpenglow = context.protocol == Some(Protocol::Alpenglow);
        for (kind, slot) in [
            ("last_vote", account.last_vote),
            ("root", account.root_slot),
        ] {
            let slot = slot.filter(|slot| *slot > 0);
            if !is_alpenglow || kind != "root" {
                output.integer(&m::VOTE_SLOT, [kind], slot);
            }
            if !is_alpenglow && has_current_votes {
                let distance = slot.map(|slot| epoch_info.absolute_slot.saturating_sub(slot));
                output.integer(&m::VOTE_DISTANCE, [kind], distance);
            }
        }
        let unit = self.credit_unit(now, context.protocol);
        // While the epoch of the migration is unknown, a number may be credits of Tower. A number
        // above their maximum is surely lamports.
        let max_tower_credits = epoch_info
            .slots_in_epoch
            .saturating_mul(MAX_CREDITS_PER_SLOT);
        let is_surely_lamports = |earned: &u64| {
            unit != CreditUnit::Lamports {
                migration_epoch: None,
            } || *earned > max_tower_credits
        };
        for (which, epoch) in [
            ("this_epoch", Some(epoch_info.epoch)),
            ("previous_epoch", epoch_info.epoch.checked_sub(1)),
        ] {
            let Some(epoch) = epoch else { continue };
            output.integer(&m::VOTE_CREDITS, [which], account.credits(epoch, unit));
            let lamports = account
                .reward_lamports(epoch, unit)
                .filter(is_surely_lamports);
            output.integer(&m::VOTE_REWARD, [which], lamports);
        }
        output.real(&m::COMMISSION, [], account.commission_ratio());
        output.real(&m::STAKE, ["active"], account.activated_stake.map(sol));
    }
}

fn add_cluster_votes_readings(
    votes: &ClusterVotes,
    unit: CreditUnit,
    protocol: Option<Protocol>,
    output: &mut SourceOutput,
) {
    // In the epoch of the migration, the credits from before it are still comparable.
    let has_credits = unit == CreditUnit::Credits
        || (votes.epoch.is_some()
            && unit
                == CreditUnit::Lamports {
                    migration_epoch: votes.epoch,
                });
    if let Some((rank, ratio)) = votes.by_credits.filter(|_| has_credits) {
        output.integer(&m::VOTE_RANK, [], rank);
        output.real(&m::VOTE_CREDITS_VS_BEST, [], ratio);
    }
    if protocol != Some(Protocol::Alpenglow) {
        return;
    }
    output.real(&m::VOTE_REWARD_VS_BEST, [], votes.reward_vs_best);
    // Under Alpenglow, the last vote of an account is the newest slot whose reward certificate has
    // a vote of it. Its root is the newest such slot of a finalization certificate.
    for (certificate, distance) in [
        ("reward", votes.slots_behind_newest_vote),
        ("finalization", votes.slots_behind_newest_root),
    ] {
        output.integer(&m::CERTIFICATE_DISTANCE, [certificate], distance);
    }
}

pub fn first_slot_of_epoch(epoch_info: &EpochInfo) -> u64 {
    epoch_info
        .absolute_slot
        .saturating_sub(epoch_info.slot_index)
}

pub fn sol(lamports: u64) -> f64 {
    lamports as f64 / LAMPORTS_PER_SOL
}
