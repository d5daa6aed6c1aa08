use super::cluster::{self, Shares, VersionShares};
use super::migration::MigrationEvidence;
use super::own_schedule::OwnLeaderSchedule;
use super::standing::VoteRanking;
use crate::polling::Timestamped;
use faultline_agave::PublicKey;
use faultline_agave::consensus::{Consensus, Evidence, MAX_CREDITS_PER_SLOT, Protocol};
use faultline_agave::rpc::{
    CreditUnit, EpochInfo, FeatureGate, LAMPORTS_PER_SOL, LeaderSlots, PendingStake, VoteAccount,
    VoteAccounts,
};
use faultline_kernel::ProcessId;
use faultline_metrics::metrics::votes as m;
use faultline_metrics::{Problem, Reading, ReadingList, Stamp, Text, Value};
use std::sync::Arc;
use std::time::Duration;

/// The own vote is late if it is more slots than this behind the newest vote of all. A healthy
/// validator's vote is in a certificate at most nine slots later.
const LATE_SLOTS: u64 = 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct CacheTtls {
    /// Responses that every round requests.
    pub(super) per_round: Duration,
    /// All vote accounts and block production.
    pub(super) slow: Duration,
    /// The cluster's nodes.
    pub(super) slowest: Duration,
    /// A scan of all stake accounts.
    pub(super) stake_scan: Duration,
}

#[derive(Debug, Clone)]
pub struct OwnVoteAccount {
    pub account: VoteAccount,
    pub delinquent: bool,
    /// The processed bank, requested directly after the account.
    pub(super) bank: EpochInfo,
}

impl OwnVoteAccount {
    /// Slots since its last vote; `None` before the first.
    pub fn distance(&self) -> Option<u64> {
        let last = self.account.last_vote.filter(|slot| *slot > 0)?;
        Some(self.bank.absolute_slot.saturating_sub(last))
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadingContext {
    /// A processed bank newer than the last round's, if known.
    pub(super) newest: Option<EpochInfo>,
    /// The slot time converts slots to seconds only near the tip, where the node's slots take as
    /// long as the cluster's.
    pub(super) is_near_tip: bool,
    pub(super) slot_time: Option<Duration>,
    pub(super) protocol: Option<Protocol>,
    /// The node was far behind when it returned the own votes.
    pub(super) answered_far_behind: bool,
}

/// The node's responses about votes, of one process with one identity. Another process or identity
/// starts with an empty value.
#[derive(Debug, Clone)]
pub(super) struct VoteFacts {
    pub(super) process: ProcessId,
    pub(super) identity: PublicKey,
    pub(super) ttls: CacheTtls,
    pub(super) at: Stamp,
    /// The round at `at` returned the own vote account, or proved that none exists.
    pub(super) up: bool,
    /// The round has ended. Only the first round is published before its end.
    pub(super) is_complete: bool,
    pub(super) problems: Vec<Problem>,
    /// Number of rounds, including the current one.
    pub(super) rounds: u64,
    pub(super) vote_account: Option<PublicKey>,
    /// From the validator's arguments.
    pub(super) argument_vote_account: Option<PublicKey>,
    pub(super) genesis: Option<Arc<str>>,
    pub(super) schedule: Option<Arc<OwnLeaderSchedule>>,
    pub(super) epoch: Timestamped<EpochInfo>,
    pub(super) own: Timestamped<Option<OwnVoteAccount>>,
    pub(super) identity_balance: Timestamped<u64>,
    pub(super) vote_balance: Timestamped<u64>,
    pub(super) ranking: Timestamped<VoteRanking>,
    /// The epoch of the migration, once an account had its marker.
    pub(super) marker_epoch: Option<u64>,
    pub(super) certificate: Option<u64>,
    pub(super) gate: Timestamped<FeatureGate>,
    /// The node responded that there is no genesis certificate.
    pub(super) has_no_certificate: Timestamped<()>,
    /// The epoch's first slot, own leader slots, and the cluster's.
    pub(super) production: Timestamped<(u64, Option<LeaderSlots>, LeaderSlots)>,
    /// The epoch of the scan, and the stake that changes at its end.
    pub(super) pending_stake: Timestamped<(u64, PendingStake)>,
    pub(super) versions: Timestamped<Shares>,
    pub(super) feature_sets: Timestamped<Shares>,
    /// Uptime from which the next scan of all stake accounts is allowed.
    pub(super) scan_due: Option<Duration>,
}

impl VoteFacts {
    pub(super) fn new(
        process: ProcessId,
        identity: PublicKey,
        ttls: CacheTtls,
        vote_account: Option<PublicKey>,
        at: Stamp,
    ) -> VoteFacts {
        VoteFacts {
            process,
            identity,
            ttls,
            at,
            up: false,
            is_complete: false,
            problems: Vec::new(),
            rounds: 0,
            vote_account,
            argument_vote_account: None,
            genesis: None,
            schedule: None,
            epoch: Timestamped::default(),
            own: Timestamped::default(),
            identity_balance: Timestamped::default(),
            vote_balance: Timestamped::default(),
            ranking: Timestamped::default(),
            marker_epoch: None,
            certificate: None,
            gate: Timestamped::default(),
            has_no_certificate: Timestamped::default(),
            production: Timestamped::default(),
            pending_stake: Timestamped::default(),
            versions: Timestamped::default(),
            feature_sets: Timestamped::default(),
            scan_due: None,
        }
    }

    pub(super) fn needs_scan(&self) -> bool {
        let has_epoch = self.epoch.fresh(self.at, self.ttls.per_round).is_some();
        self.vote_account.is_some()
            && has_epoch
            && self.scan_due.is_none_or(|due| self.at.uptime >= due)
    }

    pub(super) fn set_ranking(&mut self, votes: &VoteAccounts, is_configured: bool, at: Stamp) {
        if !is_configured {
            self.vote_account = votes.of_identity(self.identity, self.argument_vote_account);
        }
        let epoch = self
            .epoch
            .fresh(at, self.ttls.per_round)
            .map(|info| info.epoch);
        let migration_epoch_at = self.migration_epoch_at(at);
        let ranking = VoteRanking::new(votes, self.vote_account, epoch, migration_epoch_at);
        self.marker_epoch = ranking.marker_epoch.or(self.marker_epoch);
        self.ranking.set(ranking, at);
    }

    pub(super) fn migration(&self, now: Stamp) -> MigrationEvidence {
        let ranking = self.ranking.fresh(now, self.ttls.slow);
        let slots = self
            .epoch
            .fresh(now, self.ttls.per_round)
            .map(|bank| bank.slots_in_epoch);
        let own = self.own.fresh(now, self.ttls.per_round).flatten();
        let own_marker = own.and_then(|own| own.account.migration_epoch());
        MigrationEvidence {
            certificate: self.certificate,
            gate: self.gate(now),
            has_marker: own_marker.is_some() || self.marker_epoch.is_some(),
            max_credits: ranking.and_then(|ranking| ranking.max_earned).zip(slots),
            genesis_hash: self.genesis.clone(),
        }
    }

    /// An active gate is evidence only if the node has responded that there is no certificate yet.
    fn gate(&self, now: Stamp) -> Option<FeatureGate> {
        let has_no_certificate_now = self.has_no_certificate.fresh(now, self.ttls.per_round);
        let gate = self.gate.fresh(now, self.ttls.per_round)?;
        let is_sign =
            has_no_certificate_now.is_some() || !matches!(gate, FeatureGate::ActiveSince(_));
        is_sign.then_some(gate)
    }

    pub(super) fn consensus(&self) -> Option<Consensus> {
        let slot = self
            .epoch
            .fresh(self.at, self.ttls.per_round)
            .map(|bank| bank.absolute_slot);
        let migration_evidence = self.migration(self.at);
        let evidence = Evidence {
            slot,
            ..migration_evidence.evidence()
        };
        evidence.consensus()
    }

    fn migration_epoch_at(&self, now: Stamp) -> Option<u64> {
        let by_genesis = || {
            let bank = self.epoch.fresh(now, self.ttls.per_round)?;
            // A cluster that started with Alpenglow has slot 0: nothing migrated.
            let genesis = self.certificate.filter(|slot| *slot > 0)?;
            let before = first_slot(&bank).saturating_sub(genesis);
            Some(
                bank.epoch
                    .saturating_sub(before.div_ceil(bank.slots_in_epoch.max(1))),
            )
        };
        let own = self.own.fresh(now, self.ttls.per_round).flatten();
        let own_marker = own.and_then(|own| own.account.migration_epoch());
        self.marker_epoch.or(own_marker).or_else(by_genesis)
    }

    fn credit_unit(&self, now: Stamp, protocol: Option<Protocol>) -> CreditUnit {
        match protocol {
            None => CreditUnit::Unknown,
            Some(Protocol::Tower | Protocol::Migrating) => CreditUnit::Credits,
            Some(Protocol::Alpenglow) => CreditUnit::LamportsAfter(self.migration_epoch_at(now)),
        }
    }

    /// True if the own votes were late in the last response with all accounts. Each round then
    /// requests all accounts.
    pub(super) fn is_late(&self, protocol: Option<Protocol>) -> bool {
        let ranking = self.ranking.fresh(self.at, self.ttls.slow);
        let distance = ranking.and_then(|ranking| ranking.vote_distance);
        protocol == Some(Protocol::Alpenglow) && distance > Some(LATE_SLOTS)
    }

    pub(super) fn set_version_shares(&mut self, version_shares: VersionShares, at: Stamp) {
        self.versions.set(version_shares.versions, at);
        self.feature_sets.set(version_shares.feature_sets, at);
    }

    /// Exports the responses that have not expired.
    pub(super) fn readings(
        &self,
        reading_context: ReadingContext,
        now: Stamp,
        out: &mut Vec<Reading>,
    ) {
        let CacheTtls {
            per_round,
            slow,
            slowest,
            ..
        } = self.ttls;
        if let Some(genesis) = &self.genesis {
            let labels = [
                Text::from(cluster::name(genesis).to_owned()),
                Text::Shared(Arc::clone(genesis)),
            ];
            out.whole(&m::CLUSTER, labels, 1);
        }
        let bank = reading_context
            .newest
            .or_else(|| self.epoch.fresh(now, per_round));
        bank.into_iter()
            .for_each(|bank| self.epoch_readings(bank, &reading_context, out));
        if let Some(Some(own)) = self.own.fresh(now, per_round) {
            self.vote_readings(&own, &reading_context, now, out);
        }
        self.balance_readings(now, bank, out);
        if let Some(ranking) = self.ranking.fresh(now, slow) {
            self.ranking_readings(&ranking, (now, reading_context.protocol), out);
        }
        self.production_readings(now, bank, out);
        for (metric, shares) in [
            (&m::VERSION_STAKE, &self.versions),
            (&m::FEATURE_SET_STAKE, &self.feature_sets),
        ] {
            let shares = shares.fresh(now, slowest).into_iter().flatten();
            out.extend(
                shares
                    .map(|(label, share)| Reading::new(metric, [label.into()], Value::Real(share))),
            );
        }
    }

    fn balance_readings(&self, now: Stamp, bank: Option<EpochInfo>, out: &mut Vec<Reading>) {
        let sol = |lamports: u64| Value::Real(lamports as f64 / LAMPORTS_PER_SOL);
        for (account, balance) in [
            ("identity", &self.identity_balance),
            ("vote", &self.vote_balance),
        ] {
            let balance = balance.fresh(now, self.ttls.per_round);
            out.extend(
                balance.map(|lamports| Reading::new(&m::BALANCE, [account.into()], sol(lamports))),
            );
        }
        let pending_stake = self
            .pending_stake
            .fresh(now, self.ttls.stake_scan)
            .filter(|(epoch, _)| bank.is_some_and(|bank| bank.epoch == *epoch));
        if let Some((_, pending_stake)) = pending_stake {
            out.push(Reading::new(
                &m::STAKE,
                ["activating".into()],
                sol(pending_stake.activating),
            ));
            out.push(Reading::new(
                &m::STAKE,
                ["deactivating".into()],
                sol(pending_stake.deactivating),
            ));
        }
    }

    fn production_readings(&self, now: Stamp, bank: Option<EpochInfo>, out: &mut Vec<Reading>) {
        let production = self.production.fresh(now, self.ttls.slow);
        if let Some((_, own, all)) =
            production.filter(|(first, ..)| bank.is_some_and(|bank| first_slot(&bank) == *first))
        {
            let counts = [
                (&m::LEADER_SLOTS, own),
                (&m::CLUSTER_LEADER_SLOTS, Some(all)),
            ];
            let counts = counts
                .into_iter()
                .filter_map(|(metric, slots)| Some((metric, slots?)));
            for (metric, slots) in counts {
                out.whole(metric, ["passed".into()], slots.passed);
                out.whole(metric, ["skipped".into()], slots.skipped);
            }
        }
    }

    fn ranking_readings(
        &self,
        ranking: &VoteRanking,
        (now, protocol): (Stamp, Option<Protocol>),
        out: &mut Vec<Reading>,
    ) {
        let is_alpenglow = protocol == Some(Protocol::Alpenglow);
        let has_credits = match protocol {
            None => false,
            Some(Protocol::Tower | Protocol::Migrating) => true,
            Some(Protocol::Alpenglow) => {
                ranking.epoch.is_some() && self.migration_epoch_at(now) == ranking.epoch
            }
        };
        if let Some((rank, share)) = ranking.by_credits.filter(|_| has_credits) {
            out.whole(&m::VOTE_RANK, [], rank);
            out.real(&m::VOTE_SHARE, [], share);
        }
        if !is_alpenglow {
            return;
        }
        let ratio = ranking.reward_vs_best.map(Value::Real);
        out.extend(ratio.map(|ratio| Reading::new(&m::VOTE_REWARD_OF_BEST, [], ratio)));
        for (certificate, distance) in [
            ("reward", ranking.vote_distance),
            ("finalization", ranking.root_distance),
        ] {
            let labels = [certificate.into()];
            let reading = |slots| Reading::whole(&m::CERTIFICATE_DISTANCE, labels, slots);
            out.extend(distance.map(reading));
        }
    }

    fn epoch_readings(
        &self,
        info: EpochInfo,
        reading_context: &ReadingContext,
        out: &mut Vec<Reading>,
    ) {
        let slot = info.absolute_slot;
        let in_seconds = |metric, slots: Option<u64>| {
            let (slots, slot_time) = slots.zip(reading_context.slot_time)?;
            let seconds = Value::Real(slots as f64 * slot_time.as_secs_f64());
            Some(Reading::new(metric, [], seconds))
        };
        let passed = info.slot_index as f64 / info.slots_in_epoch.max(1) as f64;
        out.whole(&m::EPOCH, [], info.epoch);
        out.real(&m::EPOCH_PROGRESS, [], passed);
        let remaining = info.slots_in_epoch.saturating_sub(info.slot_index);
        out.extend(in_seconds(&m::EPOCH_REMAINING, Some(remaining)));
        let Some(schedule) = self
            .schedule
            .as_ref()
            .filter(|schedule| schedule.epoch == info.epoch)
        else {
            return;
        };
        out.whole(&m::LEADER_SLOTS, ["assigned".into()], schedule.assigned());
        if !reading_context.is_near_tip {
            return;
        }
        let window = schedule.window(slot);
        for (metric, slots) in [
            (&m::NEXT_LEADER_SLOT, schedule.next(slot)),
            (&m::RESTART_WINDOW, window.map(|window| window.slots)),
            (
                &m::RESTART_WINDOW_BEGINS,
                window.map(|window| window.offset),
            ),
        ] {
            out.extend(in_seconds(metric, slots));
        }
    }

    /// Another machine may vote with the configured account; this one is its standby.
    pub(super) fn is_standby(&self, own: &OwnVoteAccount) -> bool {
        let node = own.account.node_pubkey;
        node.is_some_and(|node| node != self.identity)
    }

    fn vote_readings(
        &self,
        own: &OwnVoteAccount,
        reading_context: &ReadingContext,
        now: Stamp,
        out: &mut Vec<Reading>,
    ) {
        let account = &own.account;
        let role = if self.is_standby(own) {
            "standby"
        } else {
            "voting"
        };
        if let (Some(key), Some(_)) = (account.vote_pubkey, account.node_pubkey) {
            let labels = [
                Text::from(self.identity.to_string()),
                role.into(),
                Text::from(key.to_string()),
            ];
            out.whole(&m::VOTE_ACCOUNT, labels, 1);
        }
        if !reading_context.answered_far_behind {
            out.flag(&m::DELINQUENT, [], own.delinquent);
        }
        for (kind, slot) in [
            ("last_vote", account.last_vote),
            ("root", account.root_slot),
        ] {
            let Some(slot) = slot.filter(|slot| *slot > 0) else {
                continue;
            };
            let is_alpenglow = reading_context.protocol == Some(Protocol::Alpenglow);
            if !(is_alpenglow && kind == "root") {
                out.whole(&m::VOTE_SLOT, [kind.into()], slot);
            }
            if !is_alpenglow && !reading_context.answered_far_behind {
                let distance = own.bank.absolute_slot.saturating_sub(slot);
                out.whole(&m::VOTE_DISTANCE, [kind.into()], distance);
            }
        }
        let (epoch, unit) = (
            own.bank.epoch,
            self.credit_unit(now, reading_context.protocol),
        );
        let epochs = [
            ("this_epoch", Some(epoch)),
            ("previous_epoch", epoch.checked_sub(1)),
        ];
        for (which, epoch) in epochs {
            let Some(epoch) = epoch else { continue };
            // Until the epoch of the migration is known, small numbers may be Tower's credits.
            let max_credits = own.bank.slots_in_epoch.saturating_mul(MAX_CREDITS_PER_SLOT);
            let is_sure =
                |earned: &u64| unit != CreditUnit::LamportsAfter(None) || *earned > max_credits;
            let lamports = account.reward_lamports(epoch, unit).filter(is_sure);
            for (metric, earned) in [
                (&m::VOTE_CREDITS, account.credits(epoch, unit)),
                (&m::VOTE_REWARD, lamports),
            ] {
                out.whole(metric, [which.into()], earned);
            }
        }
        let commission = account.commission_ratio();
        out.real(&m::COMMISSION, [], commission);
        let stake = { account.activated_stake }.map(|lamports| lamports as f64 / LAMPORTS_PER_SOL);
        out.extend(stake.map(|sol| Reading::new(&m::STAKE, ["active".into()], Value::Real(sol))));
    }
}

pub(super) fn first_slot(bank: &EpochInfo) -> u64 {
    bank.absolute_slot.saturating_sub(bank.slot_index)
}
