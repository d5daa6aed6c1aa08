//! Votes, leader slots and the balance for votes, from the page.

use super::Page;
use faultline_catalog::metrics::{validator as v, votes as m};
use faultline_catalog::{Metric, Source};

const LAMPORTS_PER_SOL: f64 = 1e9;

/// `None` where the page has no value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VoteStatus {
    /// `None` without a judged vote account.
    pub(crate) delinquent: Option<bool>,
    /// Whether its vote account is not judged, because the node is far behind.
    pub(crate) is_unjudged: bool,
    pub(crate) has_none: bool,
    /// Whether it runs another identity than the vote account's node.
    pub(crate) is_standby: bool,
    /// Slots since its last vote (Tower).
    pub(crate) distance: Option<f64>,
    pub(crate) is_alpenglow: bool,
    /// Slots behind the best certificate of all accounts.
    pub(crate) reward_certificate: Option<f64>,
    pub(crate) finalization_certificate: Option<f64>,
    /// SOL in this epoch (Alpenglow).
    pub(crate) reward: Option<f64>,
    /// Reward per stake, relative to the best.
    pub(crate) per_stake: Option<f64>,
    pub(crate) admission: Option<String>,
    /// Tower, in this epoch.
    pub(crate) credits: Option<f64>,
    pub(crate) rank: Option<f64>,
    /// (passed, skipped) leader slots of this epoch.
    pub(crate) leads: Option<(f64, f64)>,
    pub(crate) cluster_skips: Option<f64>,
    /// Seconds until the next leader slot.
    pub(crate) next: Option<f64>,
    /// Days that the identity can pay for Tower votes.
    pub(crate) days: Option<f64>,
}

impl Page {
    pub(crate) fn vote_status(&self) -> Option<VoteStatus> {
        self.get(&m::EPOCH, &[])
            .or_else(|| self.get(&m::DELINQUENT, &[]))?;
        let slots = |metric: &Metric| {
            self.get(metric, &["passed"])
                .zip(self.get(metric, &["skipped"]))
        };
        let certificate = |name| self.get(&m::CERTIFICATE_DISTANCE, &[name]);
        let all = slots(&m::CLUSTER_LEADER_SLOTS).filter(|(passed, _)| *passed > 0.0);
        let role = self.label(&m::VOTE_ACCOUNT, "role");
        let is_standby = role == Some("standby");
        let is_tower = self.get(&v::CONSENSUS, &["tower"]) == Some(1.0);
        let delinquent = self.flag(&m::DELINQUENT, &[]);
        Some(VoteStatus {
            delinquent,
            // The source is up without an account only if all accounts were reported and none is
            // its own.
            is_unjudged: delinquent.is_none() && role.is_some(),
            has_none: delinquent.is_none()
                && role.is_none()
                && self.is_up(Source::Votes) == Some(true),
            is_standby,
            distance: self.get(&m::VOTE_DISTANCE, &["last_vote"]),
            is_alpenglow: self.get(&v::CONSENSUS, &["alpenglow"]) == Some(1.0)
                || certificate("reward").is_some(),
            reward_certificate: certificate("reward"),
            finalization_certificate: certificate("finalization"),
            reward: self
                .get(&m::VOTE_REWARD, &["this_epoch"])
                .map(|lamports| lamports / LAMPORTS_PER_SOL),
            per_stake: self.get(&m::VOTE_REWARD_OF_BEST, &[]),
            admission: m::admission(
                self.flag(&m::ADMITTED, &["this_epoch"]),
                self.flag(&m::ADMITTED, &["epoch_after_next"]),
                self.get(&m::ADMISSION_SHORTFALL, &[]),
            ),
            credits: self.get(&m::VOTE_CREDITS, &["this_epoch"]),
            rank: self.get(&m::VOTE_RANK, &[]),
            leads: slots(&m::LEADER_SLOTS).filter(|(passed, _)| *passed > 0.0),
            cluster_skips: all.map(|(passed, skipped)| skipped / passed),
            next: self.get(&m::NEXT_LEADER_SLOT, &[]),
            days: self
                .get(&m::BALANCE, &["identity"])
                .filter(|_| !is_standby && is_tower)
                .zip(self.get(&v::SLOT_SECONDS, &[]))
                .map(|(sol, slot_seconds)| m::days_of_votes(sol, slot_seconds)),
        })
    }
}
