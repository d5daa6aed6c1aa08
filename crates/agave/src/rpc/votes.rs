//! What a node knows of votes, leader slots and the other nodes of its cluster.
//!
//! `getVoteAccounts` and `getLeaderSchedule` belong to the minimal API; `getBlockProduction` and `getClusterNodes` need
//! `--full-rpc-api`. Read in the sources of 2.0 to 4.5.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

use crate::PublicKey;
use crate::json::{self, MAX_ENTRIES};
use crate::version::Version;

/// Lamports are what JSON-RPC counts in.
pub const LAMPORTS_PER_SOL: f64 = 1e9;

/// An epoch of mainnet-beta has 432,000 slots. On a test cluster one validator leads them all.
const MAX_LEADER_SLOTS: usize = 1 << 19;

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
    #[serde(deserialize_with = "json::list::<_, _, MAX_ENTRIES>")]
    pub current: Vec<VoteAccount>,
    /// Those whose last vote is too old (128 slots): they earn nothing.
    #[serde(deserialize_with = "json::list::<_, _, MAX_ENTRIES>")]
    pub delinquent: Vec<VoteAccount>,
}

/// One vote account.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteAccount {
    /// The vote account.
    pub vote_pubkey: PublicKey,
    /// The identity of the validator that votes with it.
    pub node_pubkey: PublicKey,
    /// Lamports that are staked to it and active in this epoch.
    pub activated_stake: u64,
    /// Percent of rewards that the validator keeps.
    pub commission: u8,
    /// The newest slot that it voted for, under Alpenglow by the newest certificate that has its vote; 0 before its first vote.
    pub last_vote: u64,
    /// Its root: older slots are final for it. Under Alpenglow the newest finalization certificate that has its vote.
    #[serde(default)]
    pub root_slot: u64,
    epoch_credits: EpochCredits,
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
    pub fn of_identity(&self, identity: PublicKey) -> Option<&VoteAccount> {
        let own = self
            .all()
            .map(|(account, _)| account)
            .filter(|account| account.node_pubkey == identity);
        own.max_by_key(|account| account.activated_stake)
    }
}

/// Which unit the entries of `epochCredits` have where no marker tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditUnit {
    /// Not known.
    Unknown,
    /// Before the migration: vote credits.
    Credits,
    /// Afterwards: vote credits up to the epoch of the migration, lamports later. Without that epoch all are lamports: five epochs
    /// later no entry is older.
    LamportsAfter(Option<u64>),
}

impl VoteAccount {
    /// Tower's vote credits of that epoch, in the epoch of the migration those before it; `None` if there are none, if the unit is
    /// not known, or before the two newest epochs of the list.
    pub fn credits(&self, epoch: u64, unit: CreditUnit) -> Option<u64> {
        let of = self.epoch_credits.of(epoch)?;
        of.unmarked
            .filter(|_| of.before_marker || unit.is_credits(epoch))
    }

    /// Lamports earned with Alpenglow in that epoch, in the epoch of the migration those after it; `None` likewise.
    pub fn reward_lamports(&self, epoch: u64, unit: CreditUnit) -> Option<u64> {
        let of = self.epoch_credits.of(epoch)?;
        let by_unit = of
            .unmarked
            .filter(|_| !of.before_marker && unit.is_lamports(epoch));
        of.marked.or(by_unit)
    }

    /// What it earned in that epoch, whatever the unit: the largest entry.
    pub fn most_earned(&self, epoch: u64) -> Option<u64> {
        self.epoch_credits
            .of(epoch)
            .and_then(|of| of.unmarked.max(of.marked))
    }

    /// The epoch of the migration, where the list has its marker.
    pub fn migration_epoch(&self) -> Option<u64> {
        self.epoch_credits.migration_epoch
    }
}

impl CreditUnit {
    fn is_credits(self, epoch: u64) -> bool {
        match self {
            Self::Unknown | Self::LamportsAfter(None) => false,
            Self::Credits => true,
            Self::LamportsAfter(Some(migration)) => epoch <= migration,
        }
    }

    fn is_lamports(self, epoch: u64) -> bool {
        match self {
            Self::Unknown | Self::Credits => false,
            Self::LamportsAfter(None) => true,
            Self::LamportsAfter(Some(migration)) => epoch > migration,
        }
    }
}

/// What was earned in the two newest epochs of the list. A node lists them in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EpochCredits {
    newest: [Option<EarnedInEpoch>; 2],
    migration_epoch: Option<u64>,
}

/// One epoch. The epoch of the migration has an entry before the marker and one behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EarnedInEpoch {
    epoch: u64,
    /// Of an entry before a marker, or without any.
    unmarked: Option<u64>,
    /// Of an entry behind the marker: lamports.
    marked: Option<u64>,
    /// A marker came later in the list.
    before_marker: bool,
}

/// The entry that Agave puts between credits and lamports (`AG_MIGRATION_EPOCH_CREDIT`).
const MIGRATION_MARKER: (u64, u64, u64) = (u64::MAX, u64::MAX, u64::MAX);

impl EpochCredits {
    fn of(&self, epoch: u64) -> Option<EarnedInEpoch> {
        self.newest
            .into_iter()
            .flatten()
            .find(|of| of.epoch == epoch)
    }

    fn add(&mut self, epoch: u64, earned: u64, is_marked: bool) {
        let [before, newest] = &mut self.newest;
        if newest.is_none_or(|newest| newest.epoch != epoch) {
            *before = newest.replace(EarnedInEpoch {
                epoch,
                ..EarnedInEpoch::default()
            });
        }
        if let Some(newest) = newest {
            if is_marked {
                newest.marked = Some(earned);
            } else {
                newest.unmarked = Some(earned);
            }
        }
    }

    fn mark(&mut self) {
        for of in self.newest.iter_mut().flatten() {
            of.before_marker = true;
        }
    }
}

impl<'de> Deserialize<'de> for EpochCredits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Credits;

        impl<'de> Visitor<'de> for Credits {
            type Value = EpochCredits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of epochs, each with credits at its end and at its beginning")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut epochs: A) -> Result<EpochCredits, A::Error> {
                let (mut credits, mut is_marked) = (EpochCredits::default(), false);
                while let Some(entry) = epochs.next_element::<(u64, u64, u64)>()? {
                    let (epoch, end, begin) = entry;
                    if entry == MIGRATION_MARKER {
                        credits.mark();
                        is_marked = true;
                        continue;
                    }
                    if is_marked && credits.migration_epoch.is_none() {
                        credits.migration_epoch = Some(epoch);
                    }
                    credits.add(epoch, end.saturating_sub(begin), is_marked);
                }
                Ok(credits)
            }
        }

        deserializer.deserialize_seq(Credits)
    }
}

/// `getLeaderSchedule` of one identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderSchedule(Option<(PublicKey, Slots)>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Slots(#[serde(deserialize_with = "json::list::<_, _, MAX_LEADER_SLOTS>")] Vec<u32>);

impl LeaderSchedule {
    /// Its leader slots, counted from the epoch's first slot on.
    pub fn of(&self, identity: PublicKey) -> &[u32] {
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

/// `getBlockProduction` of the epoch of its bank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockProduction {
    /// By identity: leader slots that have passed, and blocks in them.
    #[serde(deserialize_with = "json::map")]
    by_identity: HashMap<PublicKey, (u64, u64)>,
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
    pub fn of(&self, identity: PublicKey) -> LeaderSlots {
        self.by_identity
            .get(&identity)
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

/// `getClusterNodes`: what nodes say of themselves in gossip.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ClusterNodes(
    #[serde(deserialize_with = "json::list::<_, _, MAX_ENTRIES>")] pub Vec<ClusterNode>,
);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its identity.
    pub pubkey: PublicKey,
    /// Major, minor, patch; `None` if it names no version.
    #[serde(default, deserialize_with = "version_number")]
    pub version: Option<(u32, u32, u32)>,
    /// Its feature set.
    #[serde(default)]
    pub feature_set: Option<u32>,
}

fn version_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(u32, u32, u32)>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| Some(Version::parse(&text).ok()?.number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::rpc::result;
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
        result(
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
        let own = votes.of_identity(key("a")).unwrap();
        assert_eq!(own.vote_pubkey, key("vb"), "the larger stake");
        assert_eq!(votes.of_identity(key("x")), None);
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
    fn the_epoch_of_the_migration_has_credits_before_it_and_lamports_after_it() {
        const M: u64 = u64::MAX;
        let migrated_in = |epoch| CreditUnit::LamportsAfter(Some(epoch));
        let none = [None; 3];
        let in_it = json!([[6, 60, 0], [7, 90, 60], [M, M, M], [7, 5_090, 90]]);
        for unit in [CreditUnit::Unknown, CreditUnit::Credits, migrated_in(7)] {
            let expected = [[None, Some(30), Some(60)], [None, Some(5_000), None]];
            assert_eq!(earned(in_it.clone(), unit), expected, "{unit:?}");
        }
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
            earned(long_after, CreditUnit::LamportsAfter(None)),
            lamports
        );
    }

    #[test]
    fn lists_of_migrated_clusters_are_read_as_their_validators_printed_them() {
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
            let unit = CreditUnit::LamportsAfter(account.migration_epoch());
            assert_eq!(account.credits(epoch, unit), Some(credits));
            assert_eq!(account.reward_lamports(epoch, unit), Some(lamports));
            assert_eq!(account.migration_epoch(), Some(epoch));
        }
    }

    #[test]
    fn a_marker_tells_the_epoch_of_the_migration() {
        const M: u64 = u64::MAX;
        let of = |epoch_credits: Value| {
            let votes =
                json!({"current": [account("va", "a", 3, epoch_credits)], "delinquent": []});
            let votes: VoteAccounts = read(&votes).unwrap();
            (
                votes.current[0].migration_epoch(),
                votes.current[0].most_earned(7),
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
    fn an_address_that_is_none_is_refused_in_every_answer() {
        let mut votes = json!({"current": [account("va", "a", 3, json!([]))], "delinquent": []});
        votes["current"][0]["votePubkey"] = "\u{1b}[31mowned\u{202e}".into();
        let error = read::<VoteAccounts>(&votes).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("not a public key") && !words.contains(['\u{1b}', '\u{202e}']),
            "{words}"
        );
        let production = json!({"byIdentity": {"a": [1, 1]}, "range": {"firstSlot": 0}});
        assert!(read::<BlockProduction>(&production).is_err());
        assert!(read::<LeaderSchedule>(&json!({"a": [1]})).is_err());
        assert!(read::<ClusterNodes>(&json!([{"pubkey": "a"}])).is_err());
    }

    #[test]
    fn leader_slots_without_a_block_were_skipped() {
        let produced = json!({"context": {"slot": 9}, "value": {
            "byIdentity": {key("a").to_string(): [8, 7], key("b").to_string(): [4, 4]},
            "range": {"firstSlot": 0, "lastSlot": 9}
        }});
        let InContext { value } = read::<InContext<BlockProduction>>(&produced).unwrap();
        let of = |passed, skipped| LeaderSlots { passed, skipped };
        assert_eq!(value.of(key("a")), of(8, 1));
        assert_eq!(value.of(key("none")), of(0, 0));
        assert_eq!(value.of_all(), of(12, 1));
        assert_eq!(value.range.first_slot, 0);
    }

    #[test]
    fn a_leader_schedule_is_of_one_validator() {
        let [a, b] = ["a", "b"].map(|name| key(name).to_string());
        let schedule = read::<LeaderSchedule>(&json!({&a: [3, 4]})).unwrap();
        assert_eq!(schedule.of(key("a")), [3, 4]);
        assert!(schedule.of(key("b")).is_empty());
        let none = read::<LeaderSchedule>(&json!({})).unwrap();
        assert!(none.of(key("a")).is_empty());
        assert!(read::<LeaderSchedule>(&json!({a: [3], b: [4]})).is_err());
    }

    #[test]
    fn a_node_of_which_nothing_is_known_has_no_version() {
        let nodes = json!([
            {"pubkey": key("a").to_string(), "version": null, "featureSet": null, "rpc": null},
            {"pubkey": key("b").to_string(), "version": "2.1.14", "featureSet": 3},
            {"pubkey": key("c").to_string(), "version": "\u{1b}"}
        ]);
        let ClusterNodes(nodes) = read(&nodes).unwrap();
        let versions: Vec<_> = nodes.iter().map(|node| node.version).collect();
        assert_eq!(versions, [None, Some((2, 1, 14)), None]);
        assert_eq!(nodes[1].feature_set, Some(3));
        assert!(matches!(
            read::<ClusterNodes>(&json!(7)),
            Err(Error::Garbage { .. })
        ));
    }
}
