//! Values from one response with all vote accounts.

use faultline_agave::{
    PublicKey,
    rpc::{CreditUnit, VoteAccount, VoteAccounts},
};
use itertools::Itertools;

#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterVotes {
    pub epoch: Option<u64>,
    /// Rank, and own credits divided by the best account's. `None` if the own account has none.
    pub by_credits: Option<(u64, f64)>,
    /// Own reward per stake, divided by the best account's.
    pub reward_vs_best: Option<f64>,
    pub slots_behind_newest_vote: Option<u64>,
    pub slots_behind_newest_root: Option<u64>,
    /// The epoch of the migration to Alpenglow, if the credits of an account contain its marker.
    pub marked_migration_epoch: Option<u64>,
    /// The most that an account earned in this epoch or the previous one: credits before the
    /// migration, lamports after it.
    pub max_credits_or_lamports: Option<u64>,
}

impl ClusterVotes {
    /// `known_migration_epoch` is from other responses. It is used if no account in `votes` has the
    /// marker.
    pub fn new(
        votes: &VoteAccounts,
        own_key: Option<PublicKey>,
        epoch: Option<u64>,
        known_migration_epoch: Option<u64>,
    ) -> Self {
        let accounts = || votes.all().map(|(account, _)| account);
        let marked_migration_epoch = accounts().find_map(VoteAccount::migration_epoch);
        let epochs = [epoch, epoch.and_then(|epoch| epoch.checked_sub(1))];
        let earned = |account: &VoteAccount| {
            epochs
                .into_iter()
                .flatten()
                .filter_map(|epoch| account.max_credits_or_lamports(epoch))
                .max()
        };
        let without_own = Self {
            epoch,
            marked_migration_epoch,
            max_credits_or_lamports: accounts().filter_map(earned).max(),
            ..Self::default()
        };
        let is_own = |account: &&VoteAccount| own_key.is_some() && account.vote_pubkey == own_key;
        let Some(own) = accounts().find(is_own) else {
            return without_own;
        };
        let distance_to_newest = |slot: fn(&VoteAccount) -> Option<u64>| {
            let newest = accounts().filter_map(slot).max()?;
            Some(newest.saturating_sub(slot(own).filter(|slot| *slot > 0)?))
        };
        Self {
            by_credits: epoch.and_then(|epoch| by_credits(votes, own, epoch)),
            reward_vs_best: epoch.and_then(|epoch| {
                reward_vs_best(
                    votes,
                    own,
                    epoch,
                    marked_migration_epoch.or(known_migration_epoch),
                )
            }),
            slots_behind_newest_vote: distance_to_newest(|account| account.last_vote),
            slots_behind_newest_root: distance_to_newest(|account| account.root_slot),
            ..without_own
        }
    }
}

fn by_credits(votes: &VoteAccounts, own: &VoteAccount, epoch: u64) -> Option<(u64, f64)> {
    let credits_of = |account: &VoteAccount| account.credits(epoch, CreditUnit::Credits);
    let own_credits = credits_of(own)?;
    let credits = || votes.all().filter_map(|(account, _)| credits_of(account));
    let better_count = credits().filter(|credits| *credits > own_credits).count() as u64;
    let best = credits().max().filter(|best| *best > 0)?;
    Some((
        better_count.saturating_add(1),
        own_credits as f64 / best as f64,
    ))
}

/// Only accounts with at least the median stake can be the best: with a small stake, one lamport of
/// reward moves the ratio.
fn reward_vs_best(
    votes: &VoteAccounts,
    own: &VoteAccount,
    epoch: u64,
    migration_epoch: Option<u64>,
) -> Option<f64> {
    let unit = CreditUnit::Lamports { migration_epoch };
    let per_stake = |account: &VoteAccount| {
        let lamports = account.reward_lamports(epoch, unit)?;
        let stake = account.activated_stake.filter(|stake| *stake > 0)?;
        Some(lamports as f64 / stake as f64)
    };
    let accounts = || votes.all().map(|(account, _)| account);
    let mut stakes = accounts()
        .filter_map(|account| account.activated_stake)
        .filter(|stake| *stake > 0)
        .sorted_unstable();
    let median = stakes.nth(stakes.len() / 2)?;
    let best = accounts()
        .filter(|account| account.activated_stake >= Some(median))
        .filter_map(per_stake)
        .fold(0.0, f64::max);
    per_stake(own).filter(|_| best > 0.0).map(|own| own / best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::key;
    use serde_json::{Value, json};

    const M: u64 = u64::MAX;

    fn account(name: &str, stake: u64, last_vote: u64, root: u64, epoch_credits: Value) -> Value {
        json!({"activatedStake": stake, "commission": 0, "epochCredits": epoch_credits, "lastVote": last_vote, "nodePubkey": key(name).to_string(), "rootSlot": root, "votePubkey": key(name).to_string()})
    }

    fn of(name: &str, accounts: &[Value], epoch: u64) -> ClusterVotes {
        let votes = json!({"current": accounts, "delinquent": []}).to_string();
        let votes = serde_json::from_str(&votes).unwrap();
        ClusterVotes::new(&votes, Some(key(name)), Some(epoch), None)
    }

    #[test]
    fn in_the_migration_epoch_credits_and_lamports_are_ranked_separately() {
        let accounts = [
            account(
                "a",
                300,
                2_000,
                1_999,
                json!([[7, 90, 0], [M, M, M], [7, 3_090, 90]]),
            ),
            account(
                "b",
                200,
                1_991,
                1_950,
                json!([[7, 100, 0], [M, M, M], [7, 1_100, 100]]),
            ),
            account(
                "tiny",
                1,
                2_000,
                1_999,
                json!([[7, 3, 0], [M, M, M], [7, 40, 3]]),
            ),
            account("worst", 100, 1_000, 1_000, json!([[7, 50, 0]])),
        ];
        let b = of("b", &accounts, 7);
        assert_eq!(b.by_credits, Some((1, 1.0)));
        // 1,000 of 200 against 3,000 of 300: the tiny one is no measure.
        assert_eq!(b.reward_vs_best, Some(0.5));
        assert_eq!(
            (b.slots_behind_newest_vote, b.slots_behind_newest_root),
            (Some(9), Some(49))
        );
        assert_eq!(
            (b.marked_migration_epoch, b.max_credits_or_lamports),
            (Some(7), Some(3_000))
        );
        let worst = of("worst", &accounts, 7);
        assert_eq!(
            (worst.by_credits, worst.reward_vs_best),
            (Some((3, 0.5)), None)
        );
        let stranger = of("x", &accounts, 7);
        assert_eq!(
            (stranger.by_credits, stranger.slots_behind_newest_vote),
            (None, None)
        );
        assert_eq!(
            stranger.marked_migration_epoch,
            Some(7),
            "known without an own account"
        );
    }

    #[test]
    fn without_stake_or_rewards_the_ratio_is_absent() {
        let none = [account("a", 0, 5, 4, json!([[8, 50, 0]]))];
        assert_eq!(of("a", &none, 8).reward_vs_best, None);
        let nothing = [account("a", 7, 0, 0, json!([[8, 50, 50]]))];
        let a = of("a", &nothing, 8);
        assert_eq!(
            (
                a.reward_vs_best,
                a.slots_behind_newest_vote,
                a.slots_behind_newest_root
            ),
            (None, None, None)
        );
    }
}
