//! Answers of a voting mock validator about votes, leader slots and other nodes. Answers depend
//! only on [`NodeState`].
//!
//! The validator votes for nearly each slot, leads four slots in every four hundred and skips some
//! of them.

use serde_json::{Map, Value, json};

use super::{GENESIS_SLOT, NodeState, Protocol, SLOTS_IN_EPOCH};

const GENESIS_HASH: &str = "DemoGenesis111111111111111111111111111111111";

/// Price of a Tower vote; each slot has one vote.
const VOTE_LAMPORTS: u64 = 5_000;
/// Balances of the identity at the end of an epoch, and of the vote account.
const IDENTITY_LAMPORTS: u64 = 40 * LAMPORTS_PER_SOL;
const VOTE_ACCOUNT_LAMPORTS: u64 = 3 * LAMPORTS_PER_SOL;
/// Turns as leader, in slots: interval, offset of the first turn in an epoch, and length.
const TURN_PERIOD: u64 = 400;
const TURN_OFFSET: u64 = 200;
const TURN_SLOTS: u64 = 4;
/// One turn in this many is skipped.
const SKIPPED_TURN_PERIOD: u64 = 25;

/// The other validators, repeated: stake in SOL, credits for a hundred slots, version.
const OTHERS: [(u64, u64, Version); 5] = [
    (900_000, 1_599, Version::Same),
    (700_000, 1_590, Version::Same),
    (500_000, 1_571, Version::Newer),
    (300_000, 1_540, Version::Newer),
    (100_000, 1_212, Version::Older),
];
/// Credits of the mock validator itself.
const CREDITS_PER_HUNDRED_SLOTS: u64 = 1_586;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    Same,
    Newer,
    Older,
}

impl Version {
    fn number(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Self::Same, protocol) => protocol.agave_version(),
            (Self::Newer, Protocol::Tower) => "2.1.15",
            (Self::Older, Protocol::Tower) => "2.0.20",
            (Self::Newer, Protocol::Alpenglow) => "4.4.1",
            (Self::Older, Protocol::Alpenglow) => "4.3.2",
        }
    }
}

pub fn answer(state: &NodeState, method: &str, params: &Value) -> Option<Value> {
    let index = state.slot % SLOTS_IN_EPOCH;
    let with_slot = |value: Value| json!({"context": state.context(), "value": value});
    Some(match method {
        "getGenesisHash" => json!(GENESIS_HASH),
        "getVoteAccounts" => {
            let requested = params.pointer("/0/votePubkey").and_then(Value::as_str);
            let current: Vec<Value> = vote_accounts(state)
                .into_iter()
                .filter(|account| requested.is_none_or(|key| account["votePubkey"] == key))
                .collect();
            json!({"current": current, "delinquent": []})
        }
        "getBalance" if params.get(0)?.as_str() == Some(VOTE_ACCOUNT) => {
            with_slot(json!(VOTE_ACCOUNT_LAMPORTS))
        }
        "getBalance" if params.get(0)?.as_str() == Some(&state.identity) => {
            let votes = match state.protocol {
                Protocol::Tower => SLOTS_IN_EPOCH - index,
                Protocol::Alpenglow => 0,
            };
            with_slot(json!(IDENTITY_LAMPORTS + votes * VOTE_LAMPORTS))
        }
        "getBalance" => with_slot(json!(0)),
        "getLeaderSchedule" => {
            let turns = (TURN_OFFSET..SLOTS_IN_EPOCH).step_by(TURN_PERIOD as usize);
            let slots: Vec<u64> = turns.flat_map(|first| first..first + TURN_SLOTS).collect();
            json!({&state.identity: slots})
        }
        "getBlockProduction" => with_slot(block_production(state, index)),
        "getClusterNodes" => {
            let node = |pubkey: &str, version: Version| {
                json!({
                    "pubkey": pubkey,
                    "version": version.number(state.protocol),
                    "featureSet": u32::from(version != Version::Same),
                })
            };
            let other_nodes = others(state)
                .map(|(number, (_, _, version))| node(&validator_address("Node", number), version));
            other_nodes
                .chain([node(&state.identity, Version::Same)])
                .collect()
        }
        _ => return None,
    })
}

fn others(state: &NodeState) -> impl Iterator<Item = (u64, (u64, u64, Version))> {
    (2..=state.voters).zip(OTHERS.into_iter().cycle())
}

/// A base58 address of 32 bytes. `z` stands for 0, which base58 lacks. A letter distinguishes 12
/// from 2, because the padding consists of ones.
fn validator_address(kind: &str, number: u64) -> String {
    let letter = if number < 10 { "" } else { "x" };
    format!(
        "Demo{kind}{:1>width$}",
        format!("{letter}{number}"),
        width = 40 - kind.len()
    )
    .replace('0', "z")
}

fn vote_accounts(state: &NodeState) -> Vec<Value> {
    let last_vote = state.slot.saturating_sub(state.protocol.confirmed_depth());
    let other_accounts = others(state).map(|(number, (stake, credits, _))| {
        let vote = validator_address("Vote", number);
        vote_account(
            state,
            &vote,
            &validator_address("Node", number),
            (stake, credits),
            last_vote,
        )
    });
    let lag = u64::from(state.protocol == Protocol::Alpenglow);
    let own_account = vote_account(
        state,
        VOTE_ACCOUNT,
        &state.identity,
        (STAKE, CREDITS_PER_HUNDRED_SLOTS),
        last_vote.saturating_sub(lag),
    );
    other_accounts.chain([own_account]).collect()
}

fn vote_account(
    state: &NodeState,
    vote: &str,
    node: &str,
    (stake, credits): (u64, u64),
    last_vote: u64,
) -> Value {
    let is_tower = state.protocol == Protocol::Tower;
    let root = if is_tower {
        state.slot.saturating_sub(state.protocol.root_depth() + 1)
    } else {
        last_vote
    };
    let entries = if is_tower {
        credits_until(state.slot, credits)
    } else {
        alpenglow_credits(state, stake, credits)
    };
    let entries = &entries[entries.len().saturating_sub(MAX_CREDIT_ENTRIES)..];
    let mut account = json!({
        "votePubkey": vote, "nodePubkey": node, "activatedStake": stake * LAMPORTS_PER_SOL, "commission": 5,
        "epochVoteAccount": true, "lastVote": last_vote, "rootSlot": root, "epochCredits": entries,
    });
    if !is_tower {
        account["inflationRewardsCommissionBps"] = json!(500);
    }
    account
}

/// Block production of the epoch up to slot `index`. The other validators skip three slots in a
/// hundred.
fn block_production(state: &NodeState, index: u64) -> Value {
    let turns = (index + TURN_PERIOD - TURN_OFFSET) / TURN_PERIOD;
    let slot_in_period = (index + TURN_PERIOD - TURN_OFFSET) % TURN_PERIOD;
    let own_slots = (turns * TURN_SLOTS).saturating_sub(if turns > 0 {
        TURN_SLOTS.saturating_sub(slot_in_period + 1)
    } else {
        0
    });
    let skipped_slots = turns / SKIPPED_TURN_PERIOD * TURN_SLOTS;
    let other_slots = index + 1 - own_slots;
    let by_identity = Map::from_iter([
        (
            state.identity.clone(),
            json!([own_slots, own_slots.saturating_sub(skipped_slots)]),
        ),
        (
            validator_address("Node", 2),
            json!([other_slots, other_slots - other_slots * 3 / 100]),
        ),
    ]);
    json!({
        "byIdentity": by_identity,
        "range": {"firstSlot": state.slot - index, "lastSlot": state.slot}
    })
}

const VOTE_ACCOUNT: &str = "DemoVoteAccount11111111111111111111111111111";
/// In SOL.
const STAKE: u64 = 400_000;
const LAMPORTS_PER_SOL: u64 = 1_000_000_000;
/// Epochs in `epochCredits` of one answer.
const MAX_CREDIT_ENTRIES: usize = 5;

/// For each of the last epochs: number, credits at the end of the epoch or at `slot`, credits at
/// its beginning.
fn credits_until(slot: u64, per_hundred_slots: u64) -> Vec<[u64; 3]> {
    let (epoch, index) = (slot / SLOTS_IN_EPOCH, slot % SLOTS_IN_EPOCH);
    let first = epoch.saturating_sub(MAX_CREDIT_ENTRIES as u64 - 1);
    let earned = |slots: u64| slots * per_hundred_slots / 100;
    let entry = |epoch_number: u64| {
        let credits_before = epoch_number * earned(SLOTS_IN_EPOCH);
        let slots = if epoch_number == epoch {
            index
        } else {
            SLOTS_IN_EPOCH
        };
        [epoch_number, credits_before + earned(slots), credits_before]
    };
    (first..=epoch).map(entry).collect()
}

/// Separates credits from lamports in `epochCredits`, in the epoch of the migration.
const MARKER: [u64; 3] = [u64::MAX; 3];
/// 1 SOL of stake earns one lamport in a slot of this many milliseconds: about 6.7 % a year.
const MS_PER_LAMPORT: u64 = 472;
/// Tower credits if each vote is immediate.
const MAX_CREDITS_PER_HUNDRED_SLOTS: u64 = 1_600;

pub fn genesis_certificate() -> Value {
    json!({
        "block": {"slot": GENESIS_SLOT, "blockId": vec![7; 32]},
        "signature": {"signature": vec![7; 192], "bitmap": [0, 6, 0, 63]},
    })
}

/// Entries of `epochCredits`, possibly more than an answer contains. Lamports are added to the last
/// credits.
fn alpenglow_credits(state: &NodeState, stake: u64, per_hundred_slots: u64) -> Vec<[u64; 3]> {
    let (migration, epoch) = (GENESIS_SLOT / SLOTS_IN_EPOCH, state.slot / SLOTS_IN_EPOCH);
    let first = migration.max(epoch.saturating_sub(MAX_CREDIT_ENTRIES as u64 - 1));
    let mut entries = credits_until(GENESIS_SLOT, per_hundred_slots);
    let tower_credits = entries.last().map_or(0, |[_, end, _]| *end);
    entries.push(MARKER);
    let lamports_at = |slot: u64| {
        let slots = slot.min(state.slot).saturating_sub(GENESIS_SLOT);
        tower_credits + reward(state, stake, per_hundred_slots, slots)
    };
    let entry = |epoch_number: u64| {
        [
            epoch_number,
            lamports_at((epoch_number + 1) * SLOTS_IN_EPOCH),
            lamports_at(epoch_number * SLOTS_IN_EPOCH),
        ]
    };
    entries.extend((first..=epoch).map(entry));
    entries
}

fn reward(state: &NodeState, stake: u64, per_hundred_slots: u64, slots: u64) -> u64 {
    let ms = u64::try_from(state.slot_time.as_millis()).unwrap_or(u64::MAX);
    stake * slots * ms / MS_PER_LAMPORT / MAX_CREDITS_PER_HUNDRED_SLOTS * per_hundred_slots
}

pub fn admission(state: &NodeState) -> Value {
    let is_voting = state.voters > 0;
    let account = bs58::decode(VOTE_ACCOUNT).into_vec().unwrap_or_default();
    json!({
        "current_epoch": state.slot / SLOTS_IN_EPOCH,
        "current_epoch_vote_account_stake": if is_voting { STAKE * LAMPORTS_PER_SOL } else { 0 },
        "current_epoch_vote_accounts": state.voters,
        "in_current_epoch_vat": is_voting,
        "next_epoch_vat_failure_reason": if is_voting { Value::Null } else { json!("VoteAccountNotFound") },
        "vote_account": account,
        "voting_enabled": is_voting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn state(slot: u64) -> NodeState {
        NodeState {
            protocol: Protocol::Tower,
            slot_time: Duration::from_millis(400),
            identity: "DemoFauLtLine1111111111111111111111111111111".to_owned(),
            rpc_address: None,
            started: Duration::ZERO,
            is_running: true,
            progress: Value::Null,
            slot,
            tip: slot,
            transactions: 0,
            voters: 6,
        }
    }

    #[test]
    fn mock_past_leader_slots_follow_the_schedule() {
        let first = 2 * SLOTS_IN_EPOCH;
        let ask = |slot, method| answer(&state(slot), method, &json!([])).unwrap();
        let schedule = ask(first, "getLeaderSchedule");
        let own = &state(0).identity;
        let slots: Vec<u64> = serde_json::from_value(schedule[own].clone()).unwrap();
        for index in [
            0,
            1,
            199,
            200,
            201,
            203,
            204,
            600,
            10_004,
            SLOTS_IN_EPOCH - 1,
        ] {
            let passed = slots.iter().filter(|slot| **slot <= index).count();
            let block_production = ask(first + index, "getBlockProduction");
            let [own, others] = [own.as_str(), &validator_address("Node", 2)]
                .map(|of| &block_production["value"]["byIdentity"][of]);
            assert_eq!(own[0], passed, "at {index}");
            assert_eq!(
                own[0].as_u64().unwrap() + others[0].as_u64().unwrap(),
                index + 1
            );
        }
    }

    #[test]
    fn a_single_requested_vote_account_is_returned_and_credits_only_grow() {
        let ask =
            |slot: u64, params: Value| answer(&state(slot), "getVoteAccounts", &params).unwrap();
        let all = ask(1_000_000, json!([]));
        assert_eq!(all["current"].as_array().unwrap().len(), 6);
        let own = |slot| ask(slot, json!([{"votePubkey": VOTE_ACCOUNT}]))["current"][0].clone();
        assert_eq!(own(1_000_000)["nodePubkey"], state(0).identity);
        let credits = |slot| {
            own(slot)["epochCredits"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()[1]
                .as_u64()
                .unwrap()
        };
        assert!(credits(1_000_000) < credits(1_000_100));
    }

    #[test]
    fn mock_vote_accounts_have_unique_addresses_at_public_cluster_size() {
        let many = NodeState {
            voters: 2_000,
            ..state(400 * SLOTS_IN_EPOCH)
        };
        let all = answer(&many, "getVoteAccounts", &json!([])).unwrap();
        let accounts = all["current"].as_array().unwrap();
        let addresses: std::collections::BTreeSet<_> = accounts
            .iter()
            .flat_map(|of| [of["votePubkey"].as_str(), of["nodePubkey"].as_str()])
            .collect();
        assert_eq!(addresses.len(), 2 * 2_000);
        assert!(
            addresses
                .iter()
                .flatten()
                .all(|address| address.len() <= 44 && !address.contains('0'))
        );
        assert!(
            (700_000..1_200_000).contains(&all.to_string().len()),
            "{}",
            all.to_string().len()
        );
    }
}
