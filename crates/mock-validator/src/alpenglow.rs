use super::{
    GENESIS_BLOCK, NodeState, SLOTS_IN_EPOCH,
    account::{LAMPORTS_PER_SOL, MAX_CREDIT_ENTRIES, STAKE, VOTE_ACCOUNT, credits_until},
};
use serde_json::{Value, json};

/// Separates credits from lamports in `epochCredits`, in the epoch of the migration.
const MARKER: [u64; 3] = [u64::MAX; 3];
/// 1 SOL of stake earns one lamport in a slot of this many milliseconds: about 6.7 % a year.
const MS_PER_LAMPORT: u64 = 472;
/// Tower credits for a hundred slots if each vote is immediate.
const MAX_CREDITS: u64 = 1_600;

pub fn genesis_certificate() -> Value {
    json!({
        "block": {"slot": GENESIS_BLOCK, "blockId": vec![7; 32]},
        "signature": {"signature": vec![7; 192], "bitmap": [0, 6, 0, 63]},
    })
}

/// Entries of `epochCredits`: more than one answer contains. Lamports continue from the last
/// credits.
pub fn credits(state: &NodeState, stake: u64, per_hundred_slots: u64) -> Vec<[u64; 3]> {
    let (migration, epoch) = (GENESIS_BLOCK / SLOTS_IN_EPOCH, state.slot / SLOTS_IN_EPOCH);
    let first = migration.max(epoch.saturating_sub(MAX_CREDIT_ENTRIES as u64 - 1));
    let mut entries = credits_until(GENESIS_BLOCK, per_hundred_slots);
    let before = entries.last().map_or(0, |[_, end, _]| *end);
    entries.push(MARKER);
    let until = |slot: u64| {
        let slots = slot.min(state.slot).saturating_sub(GENESIS_BLOCK);
        before + reward(state, stake, per_hundred_slots, slots)
    };
    let entry = |of: u64| {
        [
            of,
            until((of + 1) * SLOTS_IN_EPOCH),
            until(of * SLOTS_IN_EPOCH),
        ]
    };
    entries.extend((first..=epoch).map(entry));
    entries
}

fn reward(state: &NodeState, stake: u64, per_hundred_slots: u64, slots: u64) -> u64 {
    let ms = u64::try_from(state.slot_time.as_millis()).unwrap_or(u64::MAX);
    stake * slots * ms / MS_PER_LAMPORT / MAX_CREDITS * per_hundred_slots
}

pub fn admission(state: &NodeState) -> Value {
    let votes = state.voters > 0;
    let account = bs58::decode(VOTE_ACCOUNT).into_vec().unwrap_or_default();
    json!({
        "current_epoch": state.slot / SLOTS_IN_EPOCH,
        "current_epoch_vote_account_stake": if votes { STAKE * LAMPORTS_PER_SOL } else { 0 },
        "current_epoch_vote_accounts": state.voters,
        "in_current_epoch_vat": votes,
        "next_epoch_vat_failure_reason": if votes { Value::Null } else { json!("VoteAccountNotFound") },
        "vote_account": account,
        "voting_enabled": votes,
    })
}
