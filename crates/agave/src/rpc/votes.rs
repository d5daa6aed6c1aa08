//! Votes, leader slots and the other nodes of the cluster.
//!
//! `getVoteAccounts` and `getLeaderSchedule` belong to the minimal API; `getBlockProduction` and
//! `getClusterNodes` need `--full-rpc-api`. From the source of Agave 2.0 to 4.5.

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};
use std::{collections::HashMap, fmt};

use crate::{
    PublicKey,
    json::{self, MAX_ENTRIES, Tolerant},
    version::{Release, ValidatorClient, Version},
};

pub const LAMPORTS_PER_SOL: f64 = 1e9;

/// An epoch of mainnet-beta has 432,000 slots. On a test cluster one validator may lead all of
/// them.
const MAX_LEADER_SLOTS: usize = 1 << 19;

/// `context`, the slot of the answering bank, is ignored.
#[derive(Debug, Deserialize)]
pub struct ResultWithContext<T> {
    pub value: T,
}

#[derive(Debug, Default, Deserialize)]
pub struct VoteAccounts {
    #[serde(deserialize_with = "json::bounded_list::<_, _, MAX_ENTRIES>")]
    pub current: Vec<VoteAccount>,
    /// The last vote is 128 slots old or more.
    #[serde(deserialize_with = "json::bounded_list::<_, _, MAX_ENTRIES>")]
    pub delinquent: Vec<VoteAccount>,
}

/// A missing or unreadable field is `None` and does not affect the other fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VoteAccount {
    #[serde(deserialize_with = "json::tolerant")]
    pub vote_pubkey: Option<PublicKey>,
    #[serde(deserialize_with = "json::tolerant")]
    pub node_pubkey: Option<PublicKey>,
    /// Lamports of stake that is active in this epoch.
    #[serde(deserialize_with = "json::tolerant")]
    pub activated_stake: Option<u64>,
    #[serde(deserialize_with = "json::tolerant")]
    commission: Option<u8>,
    #[serde(deserialize_with = "json::tolerant")]
    inflation_rewards_commission_bps: Option<u16>,
    /// Newest slot voted for. Under Alpenglow, the slot of the newest certificate with the
    /// account's vote. 0 before the first vote.
    #[serde(deserialize_with = "json::tolerant")]
    pub last_vote: Option<u64>,
    /// The root: older slots are final for this account. 0 before the first root. Under Alpenglow,
    /// the slot of the newest finalization certificate with the account's vote.
    #[serde(deserialize_with = "json::tolerant")]
    pub root_slot: Option<u64>,
    #[serde(deserialize_with = "json::tolerant")]
    epoch_credits: Option<EpochCredits>,
}

impl VoteAccounts {
    /// `true` marks a delinquent account.
    pub fn all(&self) -> impl Iterator<Item = (&VoteAccount, bool)> {
        let (current, delinquent) = (self.current.iter(), self.delinquent.iter());
        current
            .map(|account| (account, false))
            .chain(delinquent.map(|account| (account, true)))
    }

    /// The vote account of this identity. Order of choice: `preferred`, not delinquent, newest
    /// vote, largest stake.
    pub fn of_identity(
        &self,
        identity: PublicKey,
        preferred: Option<PublicKey>,
    ) -> Option<PublicKey> {
        let own_accounts = self
            .all()
            .filter(|(account, _)| account.node_pubkey == Some(identity));
        let best = own_accounts
            .filter_map(|(account, delinquent)| Some((account.vote_pubkey?, account, delinquent)))
            .max_by_key(|(key, account, delinquent)| {
                let is_preferred = Some(*key) == preferred;
                let standing = (!delinquent, account.last_vote, account.activated_stake);
                (is_preferred, standing)
            });
        best.map(|(key, ..)| key)
    }
}

/// Unit of an `epochCredits` list without a migration marker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CreditUnit {
    Unknown,
    Credits,
    /// Vote credits up to this epoch, lamports later. `None`: lamports in all epochs, or the epoch of
    /// the migration is not known.
    Lamports {
        migration_epoch: Option<u64>,
    },
}

impl VoteAccount {
    /// From basis points, else from the percent, which some versions round up and others down. At
    /// most 1, although an account may state more than 100 %.
    pub fn commission_ratio(&self) -> Option<f64> {
        let exact = self
            .inflation_rewards_commission_bps
            .map(|bps| f64::from(bps) / 10_000.0);
        let ratio = exact.or(self.commission.map(|percent| f64::from(percent) / 100.0));
        ratio.map(|ratio| ratio.min(1.0))
    }

    /// Fields that every node reports for every account, but not for this one.
    pub fn missing_fields(&self) -> Vec<&'static str> {
        let required = [
            ("votePubkey", self.vote_pubkey.is_some()),
            ("nodePubkey", self.node_pubkey.is_some()),
            ("activatedStake", self.activated_stake.is_some()),
            ("commission", self.commission_ratio().is_some()),
            ("lastVote", self.last_vote.is_some()),
            ("rootSlot", self.root_slot.is_some()),
            ("epochCredits", self.epoch_credits.is_some()),
        ];
        let missing = required.iter().filter(|(_, is_there)| !is_there);
        missing.map(|(name, _)| *name).collect()
    }

    /// Vote credits in this epoch; in the epoch of the migration, only those from before it. A
    /// marker decides the unit, else `unit`. `None` if there are no credits, the unit is unknown, or
    /// the list has two newer epochs.
    pub fn credits(&self, epoch: u64, unit: CreditUnit) -> Option<u64> {
        let earned = self.epoch_credits?.earnings_of(epoch)?;
        earned
            .not_after_marker
            .filter(|_| earned.marker_follows || unit.is_credits(epoch))
    }

    /// Lamports earned in this epoch; in the epoch of the migration, only those from after it.
    /// `None` for the same reasons as [`credits`](Self::credits).
    pub fn reward_lamports(&self, epoch: u64, unit: CreditUnit) -> Option<u64> {
        let earned = self.epoch_credits?.earnings_of(epoch)?;
        let by_unit = earned
            .not_after_marker
            .filter(|_| !earned.marker_follows && unit.is_lamports(epoch));
        earned.after_marker.or(by_unit)
    }

    /// The largest entry of the epoch. Its unit depends on the consensus protocol.
    pub fn max_credits_or_lamports(&self, epoch: u64) -> Option<u64> {
        self.epoch_credits?
            .earnings_of(epoch)
            .and_then(|earnings| earnings.not_after_marker.max(earnings.after_marker))
    }

    pub fn migration_epoch(&self) -> Option<u64> {
        self.epoch_credits?.migration_epoch
    }
}

impl CreditUnit {
    fn is_credits(self, epoch: u64) -> bool {
        match self {
            Self::Unknown => false,
            Self::Credits => true,
            Self::Lamports { migration_epoch } => Some(epoch) <= migration_epoch,
        }
    }

    fn is_lamports(self, epoch: u64) -> bool {
        self != Self::Unknown && !self.is_credits(epoch)
    }
}

/// The two newest epochs of an `epochCredits` list, whose epochs ascend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EpochCredits {
    newest: [Option<EpochEarnings>; 2],
    migration_epoch: Option<u64>,
}

/// The epoch of the migration has one entry before the marker and one after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EpochEarnings {
    epoch: u64,
    /// From an entry before the marker, or from a list without marker.
    not_after_marker: Option<u64>,
    /// In lamports.
    after_marker: Option<u64>,
    marker_follows: bool,
}

/// The entry between credits and lamports (Agave's `AG_MIGRATION_EPOCH_CREDIT`).
const MIGRATION_MARKER: [u64; 3] = [u64::MAX; 3];

impl EpochCredits {
    fn earnings_of(&self, epoch: u64) -> Option<EpochEarnings> {
        self.newest
            .into_iter()
            .flatten()
            .find(|earnings| earnings.epoch == epoch)
    }

    fn add_entry(&mut self, epoch: u64, earned: u64, is_after_marker: bool) {
        let [before, newest] = &mut self.newest;
        if newest.is_none_or(|newest| newest.epoch != epoch) {
            *before = newest.replace(EpochEarnings {
                epoch,
                ..EpochEarnings::default()
            });
        }
        if let Some(newest) = newest {
            if is_after_marker {
                newest.after_marker = Some(earned);
            } else {
                newest.not_after_marker = Some(earned);
            }
        }
    }

    fn mark_migration(&mut self) {
        for earnings in self.newest.iter_mut().flatten() {
            earnings.marker_follows = true;
        }
    }
}

impl<'de> json::TolerantField<'de> for EpochCredits {
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let (mut credits, mut is_after_marker) = (Some(Self::default()), false);
        while let Some(Tolerant(entry)) = list.next_element()? {
            let (Some(credits), Some(entry)) = (&mut credits, entry) else {
                credits = None;
                continue;
            };
            if entry == MIGRATION_MARKER {
                credits.mark_migration();
                is_after_marker = true;
                continue;
            }
            let [epoch, end, begin] = entry;
            if is_after_marker {
                credits.migration_epoch.get_or_insert(epoch);
            }
            credits.add_entry(epoch, end.saturating_sub(begin), is_after_marker);
        }
        Ok(credits)
    }
}

/// Error code of `getLeaderSchedule` for an identity without a leader slot in the epoch. Before 4.4
/// the answer is a schedule without slots.
pub const NOT_IN_LEADER_SCHEDULE: i64 = -32022;

/// `getLeaderSchedule` for one identity.
#[derive(Debug, Default, PartialEq)]
pub struct LeaderSchedule(Option<(PublicKey, Slots)>);

#[derive(Debug, PartialEq, Deserialize)]
struct Slots(#[serde(deserialize_with = "json::bounded_list::<_, _, MAX_LEADER_SLOTS>")] Vec<u32>);

impl LeaderSchedule {
    /// Slots relative to the first slot of the epoch.
    pub fn slot_indices_of(&self, identity: PublicKey) -> &[u32] {
        match &self.0 {
            Some((leader, Slots(slots))) if *leader == identity => slots,
            _ => &[],
        }
    }
}

impl<'de> Deserialize<'de> for LeaderSchedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Schedule;

        impl<'de> Visitor<'de> for Schedule {
            type Value = LeaderSchedule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the leader slots of one validator")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LeaderSchedule, A::Error> {
                let schedule = LeaderSchedule(map.next_entry()?);
                match map.next_key::<PublicKey>()? {
                    None => Ok(schedule),
                    Some(_) => Err(A::Error::invalid_length(2, &self)),
                }
            }
        }

        deserializer.deserialize_map(Schedule)
    }
}

/// `getBlockProduction` for the epoch of the answering bank.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockProduction {
    /// Leader slots so far, and blocks in them.
    #[serde(deserialize_with = "json::bounded_map")]
    by_identity: HashMap<PublicKey, Option<(u64, u64)>>,
    pub range: SlotRange,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotRange {
    /// By default the epoch's first slot.
    pub first_slot: u64,
}

/// Numbers of leader slots that are over.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LeaderSlots {
    /// Includes the skipped slots.
    pub passed: u64,
    pub skipped: u64,
}

impl BlockProduction {
    /// Zeros for an unlisted identity; `None` if its entry is null.
    pub fn slot_counts_of(&self, identity: PublicKey) -> Option<LeaderSlots> {
        let found = self.by_identity.get(&identity).copied();
        found.map_or(Some(LeaderSlots::default()), |found| {
            found.map(leader_slots)
        })
    }

    pub fn slot_counts_of_all(&self) -> LeaderSlots {
        self.by_identity
            .values()
            .copied()
            .flatten()
            .map(leader_slots)
            .fold(LeaderSlots::default(), |sum, slots| LeaderSlots {
                passed: sum.passed.saturating_add(slots.passed),
                skipped: sum.skipped.saturating_add(slots.skipped),
            })
    }
}

fn leader_slots((passed, blocks): (u64, u64)) -> LeaderSlots {
    LeaderSlots {
        passed,
        skipped: passed.saturating_sub(blocks),
    }
}

#[derive(Debug, Deserialize)]
pub struct ClusterNodes(
    #[serde(deserialize_with = "json::bounded_list::<_, _, MAX_ENTRIES>")] pub Vec<ClusterNode>,
);

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNode {
    #[serde(deserialize_with = "json::tolerant")]
    pub pubkey: Option<PublicKey>,
    /// The Agave release; `None` without a version. Meaningless for a client without Agave code.
    #[serde(rename = "version", deserialize_with = "json::tolerant")]
    pub release: Option<Release>,
    #[serde(deserialize_with = "json::tolerant")]
    pub client_id: Option<ValidatorClient>,
    #[serde(deserialize_with = "json::tolerant")]
    pub feature_set: Option<u32>,
}

impl json::TolerantField<'_> for Release {
    fn from_text(text: &str) -> Option<Self> {
        Some(Version::parse(text).ok()?.release())
    }
}

impl json::TolerantField<'_> for ValidatorClient {
    fn from_text(text: &str) -> Option<Self> {
        Some(Self::of_name(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, rpc::read_result};
    use serde_json::{Value, json};

    fn key(name: &str) -> PublicKey {
        let mut key = [7; 32];
        key.iter_mut()
            .zip(name.bytes())
            .for_each(|(at, byte)| *at = byte);
        bs58::encode(key).into_string().parse().unwrap()
    }

    fn account(name: &str, node: &str, stake: u64, epoch_credits: Value) -> Value {
        json!({
            "votePubkey": key(name).to_string(), "nodePubkey": key(node).to_string(),
            "activatedStake": stake, "commission": 7, "lastVote": 210, "rootSlot": 178,
            "epochCredits": epoch_credits, "epochVoteAccount": true, "later": {}
        })
    }

    fn read<T: for<'a> Deserialize<'a>>(of: &Value) -> Result<T, Error> {
        read_result(
            "test",
            1,
            json!({"id": 1, "result": of}).to_string().as_bytes(),
        )
    }

    #[test]
    fn vote_accounts_are_found_by_identity_and_their_credits_by_epoch() {
        let votes = json!({
            "current": [
                account("va", "a", 3, json!([[3, 60, 0], [4, 90, 60], [5, 130, 90]])),
                account("vb", "a", 5, json!([]))
            ],
            "delinquent": [account("vc", "c", 9, json!([[5, 1, 0]]))]
        });
        let votes: VoteAccounts = read(&votes).unwrap();
        let delinquent: Vec<bool> = votes.all().map(|(_, delinquent)| delinquent).collect();
        assert_eq!(delinquent, [false, false, true]);
        let own = votes.of_identity(key("a"), None);
        assert_eq!(own, Some(key("vb")), "all else equal, the larger stake");
        assert_eq!(votes.of_identity(key("x"), None), None);
        let first = &votes.current[0];
        assert_eq!(
            [5, 4, 3].map(|epoch| first.credits(epoch, CreditUnit::Credits)),
            [Some(40), Some(30), None],
            "only the two newest are kept"
        );
    }

    /// One account's credits and lamports of the epochs 8, 7 and 6.
    fn earned(epoch_credits: Value, unit: CreditUnit) -> [[Option<u64>; 3]; 2] {
        let votes = json!({"current": [account("va", "a", 3, epoch_credits)], "delinquent": []});
        let votes: VoteAccounts = read(&votes).unwrap();
        let own = &votes.current[0];
        [
            [8, 7, 6].map(|epoch| own.credits(epoch, unit)),
            [8, 7, 6].map(|epoch| own.reward_lamports(epoch, unit)),
        ]
    }

    #[test]
    fn migration_epoch_credits_precede_the_marker_and_lamports_follow_it() {
        const M: u64 = u64::MAX;
        let migrated_in = |epoch| CreditUnit::Lamports {
            migration_epoch: Some(epoch),
        };
        let none = [None; 3];
        let in_it = json!([[6, 60, 0], [7, 90, 60], [M, M, M], [7, 5_090, 90]]);
        for unit in [CreditUnit::Unknown, CreditUnit::Credits, migrated_in(7)] {
            let expected = [[None, Some(30), Some(60)], [None, Some(5_000), None]];
            assert_eq!(earned(in_it.clone(), unit), expected, "{unit:?}");
        }
        let rounded = [M as f64; 3];
        let from_a_proxy = json!([[6, 60, 0], [7, 90, 60], rounded, [7, 5_090, 90]]);
        let expected = [[None, Some(30), Some(60)], [None, Some(5_000), None]];
        assert_eq!(earned(from_a_proxy, migrated_in(7)), expected);
        let next = json!([[7, 90, 60], [M, M, M], [7, 5_090, 90], [8, 9_090, 5_090]]);
        let expected = [[None, Some(30), None], [Some(4_000), Some(5_000), None]];
        assert_eq!(earned(next, migrated_in(7)), expected);
        let started_later = json!([[M, M, M], [7, 5_000, 0]]);
        assert_eq!(
            earned(started_later, migrated_in(7)),
            [none, [None, Some(5_000), None]]
        );
        let earned_nothing_after_it = json!([[6, 60, 0], [7, 90, 60]]);
        let tower = [[None, Some(30), Some(60)], none];
        assert_eq!(
            earned(earned_nothing_after_it.clone(), migrated_in(7)),
            tower
        );
        assert_eq!(
            earned(earned_nothing_after_it.clone(), CreditUnit::Credits),
            tower
        );
        assert_eq!(
            earned(earned_nothing_after_it, CreditUnit::Unknown),
            [none; 2]
        );
        let long_after = json!([[7, 90, 60], [8, 95, 90]]);
        let lamports = [none, [Some(5), Some(30), None]];
        assert_eq!(
            earned(
                long_after,
                CreditUnit::Lamports {
                    migration_epoch: None
                }
            ),
            lamports
        );
    }

    #[test]
    fn vote_account_lists_of_migrated_clusters_are_parsed() {
        const M: u64 = u64::MAX;
        let votes = |list: Value| -> VoteAccount {
            let votes = json!({"current": [account("va", "a", 3, list)], "delinquent": []});
            read::<VoteAccounts>(&votes).unwrap().current[0].clone()
        };
        let one = votes(json!([
            [5, 4_126_391, 4_053_495],
            [M, M, M],
            [5, 7_406_803_535_u64, 4_126_391]
        ]));
        let other = votes(json!([
            [0, 7_488, 0],
            [1, 11_584, 7_488],
            [M, M, M],
            [1, 4_643_428_456_u64, 11_584]
        ]));
        for (account, epoch, credits, lamports) in [
            (one, 5, 72_896, 7_402_677_144),
            (other, 1, 4_096, 4_643_416_872),
        ] {
            let unit = CreditUnit::Lamports {
                migration_epoch: account.migration_epoch(),
            };
            assert_eq!(account.credits(epoch, unit), Some(credits));
            assert_eq!(account.reward_lamports(epoch, unit), Some(lamports));
            assert_eq!(account.migration_epoch(), Some(epoch));
        }
    }

    #[test]
    fn the_migration_epoch_is_read_from_the_epoch_credits_marker() {
        const M: u64 = u64::MAX;
        let of = |epoch_credits: Value| {
            let votes =
                json!({"current": [account("va", "a", 3, epoch_credits)], "delinquent": []});
            let votes: VoteAccounts = read(&votes).unwrap();
            (
                votes.current[0].migration_epoch(),
                votes.current[0].max_credits_or_lamports(7),
            )
        };
        assert_eq!(of(json!([[7, 90, 60]])), (None, Some(30)));
        assert_eq!(
            of(json!([
                [7, 90, 60],
                [M, M, M],
                [7, 5_090, 90],
                [8, 6_000, 5_090]
            ])),
            (Some(7), Some(5_000))
        );
        assert_eq!(
            of(json!([[7, 90, 60], [M, M, M]])),
            (None, Some(30)),
            "nothing behind it"
        );
    }

    #[test]
    fn credits_with_a_malformed_entry_are_missing() {
        for entry in [
            json!([5]),
            json!([5, 9, 0, 1]),
            json!([5, -9, 0]),
            json!(5),
            json!(null),
        ] {
            let votes = account("va", "a", 3, json!([[4, 9, 0], entry, [6, 9, 0]]));
            let votes: VoteAccount = read(&votes).unwrap();
            assert_eq!(votes.missing_fields(), ["epochCredits"]);
        }
    }

    #[test]
    fn an_invalid_public_key_is_refused_in_every_response() {
        let owned = "\u{1b}[31mowned\u{202e}";
        let mut votes = json!({"current": [account("va", "a", 3, json!([]))], "delinquent": []});
        votes["current"][0]["votePubkey"] = owned.into();
        let votes = read::<VoteAccounts>(&votes).unwrap();
        assert_eq!(votes.current[0].vote_pubkey, None);
        let error = read::<PublicKey>(&json!(owned)).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("not a public key") && !words.contains(['\u{1b}', '\u{202e}']),
            "{words}"
        );
        let production = json!({"byIdentity": {"a": [1, 1]}, "range": {"firstSlot": 0}});
        assert!(read::<BlockProduction>(&production).is_err());
        assert!(read::<LeaderSchedule>(&json!({"a": [1]})).is_err());
        let ClusterNodes(nodes) = read(&json!([{"pubkey": "a"}])).unwrap();
        assert_eq!(nodes[0].pubkey, None);
    }

    #[test]
    fn leader_slots_without_a_block_were_skipped() {
        let produced = json!({"context": {"slot": 9}, "value": {
            "byIdentity": {key("a").to_string(): [8, 7], key("b").to_string(): [4, 4]},
            "range": {"firstSlot": 0, "lastSlot": 9}
        }});
        let ResultWithContext { value } =
            read::<ResultWithContext<BlockProduction>>(&produced).unwrap();
        let of = |passed, skipped| LeaderSlots { passed, skipped };
        assert_eq!(value.slot_counts_of(key("a")), Some(of(8, 1)));
        assert_eq!(value.slot_counts_of(key("none")), Some(of(0, 0)));
        assert_eq!(value.slot_counts_of_all(), of(12, 1));
        assert_eq!(value.range.first_slot, 0);
    }

    #[test]
    fn the_leader_schedule_of_one_validator_is_parsed() {
        let [a, b] = ["a", "b"].map(|name| key(name).to_string());
        let schedule = read::<LeaderSchedule>(&json!({&a: [3, 4]})).unwrap();
        assert_eq!(schedule.slot_indices_of(key("a")), [3, 4]);
        assert!(schedule.slot_indices_of(key("b")).is_empty());
        let none = read::<LeaderSchedule>(&json!({})).unwrap();
        assert!(none.slot_indices_of(key("a")).is_empty());
        assert!(read::<LeaderSchedule>(&json!({a: [3], b: [4]})).is_err());
    }

    #[test]
    fn an_unknown_node_has_no_version() {
        let nodes = json!([
            {"pubkey": key("a").to_string(), "version": null, "featureSet": null, "rpc": null},
            {"pubkey": key("b").to_string(), "version": "2.1.14", "featureSet": 3},
            {"pubkey": key("c").to_string(), "version": "\u{1b}"}
        ]);
        let ClusterNodes(nodes) = read(&nodes).unwrap();
        let releases: Vec<_> = nodes.iter().map(|node| node.release).collect();
        let stable = Version::parse("2.1.14").unwrap().release();
        assert_eq!(releases, [None, Some(stable), None]);
        assert_eq!(nodes[1].feature_set, Some(3));
        assert!(matches!(
            read::<ClusterNodes>(&json!(7)),
            Err(Error::UnexpectedResult { .. })
        ));
    }

    /// Vote accounts of one identity, each with its last vote and its stake.
    fn several(current: &[(&str, u64, u64)], delinquent: &[(&str, u64, u64)]) -> VoteAccounts {
        let account = |(name, last_vote, stake): &(&str, u64, u64)| {
            let mut account = account(name, "a", *stake, json!([]));
            account["lastVote"] = (*last_vote).into();
            account
        };
        let list = |of: &[(&str, u64, u64)]| of.iter().map(account).collect::<Vec<_>>();
        read(&json!({"current": list(current), "delinquent": list(delinquent)})).unwrap()
    }

    #[test]
    fn the_newest_voter_of_several_own_accounts_is_chosen() {
        let of = |votes: &VoteAccounts, preferred| votes.of_identity(key("a"), preferred);
        let abandoned = several(&[("new", 2_000, 5)], &[("old", 1_000, 900)]);
        assert_eq!(of(&abandoned, None), Some(key("new")), "current");
        assert_eq!(of(&abandoned, Some(key("old"))), Some(key("old")));
        assert_eq!(
            of(&abandoned, Some(key("b"))),
            Some(key("new")),
            "not its own"
        );
        let just_moved = several(&[("old", 1_900, 900), ("new", 2_000, 5)], &[]);
        assert_eq!(of(&just_moved, None), Some(key("new")), "newest vote");
        let stopped = several(&[], &[("old", 1_000, 900), ("new", 2_000, 0)]);
        assert_eq!(of(&stopped, None), Some(key("new")), "newest vote");
    }

    #[test]
    fn the_commission_is_exact_if_basis_points_are_reported() {
        let ratio = |commission: Value, bps: Value| {
            let mut found = account("va", "a", 3, json!([]));
            found["commission"] = commission;
            found["inflationRewardsCommissionBps"] = bps;
            read::<VoteAccount>(&found).unwrap().commission_ratio()
        };
        assert_eq!(ratio(json!(1), json!(50)), Some(0.005));
        assert_eq!(ratio(json!(8), json!(799)), Some(0.0799));
        assert_eq!(ratio(json!(7), Value::Null), Some(0.07));
        assert_eq!(ratio(Value::Null, json!(0)), Some(0.0));
        assert_eq!(ratio(Value::Null, Value::Null), None);
        assert_eq!(ratio(json!(255), json!(25_500)), Some(1.0));
        assert_eq!(ratio(json!(255), Value::Null), Some(1.0));
    }

    #[test]
    fn a_broken_field_of_one_account_is_reported_without_affecting_others() {
        let fields = [
            "votePubkey",
            "nodePubkey",
            "activatedStake",
            "commission",
            "lastVote",
            "rootSlot",
            "epochCredits",
        ];
        for field in fields {
            for broken in [None, Some(Value::Null), Some(json!({"other": "shape"}))] {
                let mut other = account("vb", "b", 5, json!([[5, 9, 0]]));
                let members = other.as_object_mut().unwrap();
                members.remove(field);
                members.extend(broken.map(|value| (field.to_owned(), value)));
                let own = account("va", "a", 3, json!([[5, 40, 0]]));
                let votes: VoteAccounts =
                    read(&json!({"current": [other, own], "delinquent": []})).unwrap();
                assert_eq!(
                    votes.of_identity(key("a"), None),
                    Some(key("va")),
                    "{field}"
                );
                assert_eq!(votes.current[0].missing_fields(), [field]);
                assert_eq!(
                    (
                        votes.current[1].credits(5, CreditUnit::Credits),
                        votes.current[1].missing_fields()
                    ),
                    (Some(40), vec![])
                );
            }
        }
    }

    #[test]
    fn a_malformed_node_or_producer_does_not_discard_the_others() {
        let nodes = json!([
            {"pubkey": null, "version": 7, "clientId": []}, {"version": {}, "featureSet": "x"},
            {"pubkey": key("b").to_string(), "version": "2.1.14", "featureSet": 3, "clientId": null}
        ]);
        let ClusterNodes(nodes) = read(&nodes).unwrap();
        assert_eq!(nodes[0], ClusterNode::default());
        assert_eq!(nodes[1], ClusterNode::default());
        assert_eq!(
            (nodes[2].pubkey, nodes[2].feature_set),
            (Some(key("b")), Some(3))
        );
        let produced = json!({"byIdentity": {key("a").to_string(): [8, 7], key("b").to_string(): null}, "range": {"firstSlot": 0}});
        let produced: BlockProduction = read(&produced).unwrap();
        assert_eq!(
            (
                produced.slot_counts_of(key("b")),
                produced.slot_counts_of_all().passed
            ),
            (None, 8)
        );
    }
}
