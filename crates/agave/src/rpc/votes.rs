//! What a node knows of votes, leader slots and the other nodes of its cluster.
//!
//! `getVoteAccounts` and `getLeaderSchedule` belong to the minimal API; `getBlockProduction` and `getClusterNodes` need
//! `--full-rpc-api`. Read in the sources of 2.0 to 4.4.

use serde::Deserialize;
use std::collections::HashMap;

/// Lamports are what JSON-RPC counts in.
pub const LAMPORTS_PER_SOL: f64 = 1e9;

/// A result that comes with the slot that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct InContext<T> {
    /// The result.
    pub value: T,
}

/// `getVoteAccounts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct VoteAccounts {
    /// Those that have voted lately.
    pub current: Vec<VoteAccount>,
    /// Those whose last vote is too old (128 slots): they earn nothing.
    pub delinquent: Vec<VoteAccount>,
}

/// One vote account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteAccount {
    /// The vote account.
    pub vote_pubkey: String,
    /// The identity of the validator that votes with it.
    pub node_pubkey: String,
    /// Lamports that are staked to it and active in this epoch.
    pub activated_stake: u64,
    /// Percent of rewards that the validator keeps.
    pub commission: u8,
    /// The newest slot that it voted for; 0 before its first vote.
    pub last_vote: u64,
    /// Its root: older slots are final for it.
    #[serde(default)]
    pub root_slot: u64,
    /// The newest epochs in which it voted: epoch, credits at its end or until now, credits at its beginning.
    pub epoch_credits: Vec<(u64, u64, u64)>,
}

impl VoteAccounts {
    /// All, and whether each is delinquent.
    pub fn all(&self) -> impl Iterator<Item = (&VoteAccount, bool)> {
        let (current, delinquent) = (self.current.iter(), self.delinquent.iter());
        current
            .map(|account| (account, false))
            .chain(delinquent.map(|account| (account, true)))
    }

    /// The account that this identity votes with: of several the one with the largest stake.
    pub fn of_identity(&self, identity: &str) -> Option<&VoteAccount> {
        let own = self
            .all()
            .map(|(account, _)| account)
            .filter(|account| account.node_pubkey == identity);
        own.max_by_key(|account| account.activated_stake)
    }
}

impl VoteAccount {
    /// Credits earned in that epoch; `None` if it did not vote then, or long ago.
    pub fn credits(&self, epoch: u64) -> Option<u64> {
        let (_, end, begin) = self.epoch_credits.iter().find(|(of, ..)| *of == epoch)?;
        Some(end.saturating_sub(*begin))
    }
}

/// `getBlockProduction` of the epoch of its bank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockProduction {
    /// By identity: leader slots that have passed, and blocks in them.
    pub by_identity: HashMap<String, (u64, u64)>,
    /// The slots that were counted.
    pub range: SlotRange,
}

/// Slots from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotRange {
    /// The first one: that of the epoch, if nothing else was asked for.
    pub first_slot: u64,
}

/// Leader slots of an epoch that have passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaderSlots {
    /// All that have passed.
    pub passed: u64,
    /// Those in which there was no block.
    pub skipped: u64,
}

impl BlockProduction {
    /// Of one identity. One that is not named had none.
    pub fn of(&self, identity: &str) -> LeaderSlots {
        self.by_identity
            .get(identity)
            .copied()
            .map_or(LeaderSlots::default(), slots)
    }

    /// Of the whole cluster.
    pub fn of_all(&self) -> LeaderSlots {
        self.by_identity
            .values()
            .copied()
            .map(slots)
            .fold(LeaderSlots::default(), |sum, one| LeaderSlots {
                passed: sum.passed.saturating_add(one.passed),
                skipped: sum.skipped.saturating_add(one.skipped),
            })
    }
}

fn slots((passed, blocks): (u64, u64)) -> LeaderSlots {
    LeaderSlots {
        passed,
        skipped: passed.saturating_sub(blocks),
    }
}

/// One of `getClusterNodes`: what a node says of itself in gossip.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its identity.
    pub pubkey: String,
    /// Its version; `None` if nothing is known of it.
    #[serde(default)]
    pub version: Option<String>,
    /// Its feature set.
    #[serde(default)]
    pub feature_set: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::result;

    const VOTES: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"current":[
        {"activatedStake":3,"commission":7,"epochCredits":[[4,90,60],[5,130,90]],"epochVoteAccount":true,"lastVote":210,"nodePubkey":"a","rootSlot":178,"votePubkey":"va"},
        {"activatedStake":5,"commission":0,"epochCredits":[],"epochVoteAccount":true,"lastVote":209,"nodePubkey":"a","rootSlot":0,"votePubkey":"vb"}],
        "delinquent":[{"activatedStake":9,"commission":100,"epochCredits":[[5,1,0]],"epochVoteAccount":false,"lastVote":0,"nodePubkey":"c","rootSlot":0,"votePubkey":"vc","later":{}}]}}"#;

    #[test]
    fn vote_accounts_are_found_by_identity_and_their_credits_by_epoch() {
        let votes: VoteAccounts = result("getVoteAccounts", 1, VOTES.as_bytes()).unwrap();
        assert_eq!(
            votes
                .all()
                .map(|(_, delinquent)| delinquent)
                .collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(
            votes.of_identity("a").unwrap().vote_pubkey,
            "vb",
            "the larger stake"
        );
        assert_eq!(votes.of_identity("x"), None);
        let first = &votes.current[0];
        assert_eq!(
            [first.credits(5), first.credits(4), first.credits(3)],
            [Some(40), Some(30), None]
        );
    }

    #[test]
    fn leader_slots_without_a_block_were_skipped() {
        let body = r#"{"id":1,"result":{"context":{"slot":9},"value":{"byIdentity":{"a":[8,7],"b":[4,4]},"range":{"firstSlot":0,"lastSlot":9}}}}"#;
        let told: InContext<BlockProduction> =
            result("getBlockProduction", 1, body.as_bytes()).unwrap();
        assert_eq!(
            told.value.of("a"),
            LeaderSlots {
                passed: 8,
                skipped: 1
            }
        );
        assert_eq!(told.value.of("none"), LeaderSlots::default());
        assert_eq!(
            told.value.of_all(),
            LeaderSlots {
                passed: 12,
                skipped: 1
            }
        );
        assert_eq!(told.value.range.first_slot, 0);
    }

    #[test]
    fn a_node_of_which_nothing_is_known_has_no_version() {
        let body = r#"{"id":1,"result":[{"pubkey":"a","version":null,"featureSet":null,"rpc":null},{"pubkey":"b","version":"2.1.14","featureSet":3}]}"#;
        let nodes: Vec<ClusterNode> = result("getClusterNodes", 1, body.as_bytes()).unwrap();
        assert_eq!((&nodes[0].version, nodes[1].feature_set), (&None, Some(3)));
        assert!(matches!(
            result::<Vec<ClusterNode>>("getClusterNodes", 1, b"{\"id\":1,\"result\":7}"),
            Err(crate::Error::Garbage { .. })
        ));
    }
}
