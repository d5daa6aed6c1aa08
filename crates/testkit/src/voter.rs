//! Accounts of a validator that has stake from the genesis on: identity, vote account, stake accounts. For Tower only: a
//! vote account of Alpenglow also has a BLS key.
//!
//! Their data are those of Agave 2.1 to 4.x: `VoteStateVersions::Current` and `StakeStateV2::Stake` in bincode.

use crate::transaction::{
    Account, Address, GenesisAccount, Instruction, follower_identities, numbered, transaction,
};

/// Balance of the identity, which pays for votes: 5,000 lamports each.
const IDENTITY_LAMPORTS: u64 = 100_000_000_000;
/// Size of a vote account, and the balance that makes it rent-exempt.
const VOTE_BYTES: usize = 3_762;
const VOTE_LAMPORTS: u64 = 27_074_400;
/// Size of a stake account, and the balance that makes it rent-exempt.
const STAKE_BYTES: usize = 200;
const STAKE_RENT: u64 = 2_282_880;
const VOTE_PROGRAM: &str = "Vote111111111111111111111111111111111111111";
const STAKE_PROGRAM: &str = "Stake11111111111111111111111111111111111111";
/// Instructions of the stake program, and the accounts from which it reads the epoch and the cluster's stake.
const DELEGATE: u32 = 2;
const DEACTIVATE: u32 = 5;
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";
const STAKE_HISTORY: &str = "SysvarStakeHistory1111111111111111111111111";
/// An account that the instruction must name, but no longer reads.
const STAKE_CONFIG: &str = "StakeConfig11111111111111111111111111111111";
/// No epoch: the stake was active before the first one, or is never deactivated.
const NO_EPOCH: u64 = u64::MAX;

/// One stake account in the genesis, delegated to the follower's vote account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stake {
    /// Delegated lamports. The leader has 1,000,000 SOL; with more than half of that, it could not root without the follower.
    pub lamports: u64,
    /// The epoch of the delegation; the stake counts from the next one on. `None`: from the beginning.
    pub activated_in: Option<u64>,
    /// The epoch of the deactivation; the stake counts until its end. `None`: forever.
    pub deactivated_in: Option<u64>,
}

impl Stake {
    /// Stake in SOL that always counts.
    pub const fn always(sol: u64) -> Self {
        Self {
            lamports: sol * 1_000_000_000,
            activated_in: None,
            deactivated_in: None,
        }
    }

    /// Stake in SOL that does not count, but may be delegated: it was deactivated in the epoch of its delegation.
    pub const fn idle(sol: u64) -> Self {
        Self {
            activated_in: Some(0),
            deactivated_in: Some(0),
            ..Self::always(sol)
        }
    }
}

/// A transaction that delegates stake account `number` of the genesis to the follower's vote account. The stake counts from
/// the next epoch on.
pub fn delegation(number: u32, blockhash: [u8; 32]) -> Vec<u8> {
    let read = [
        vote_account(),
        address_of(CLOCK),
        address_of(STAKE_HISTORY),
        address_of(STAKE_CONFIG),
    ];
    stake_transaction(number, &read, DELEGATE, blockhash)
}

/// A transaction that deactivates stake account `number`. Its stake counts until the end of the epoch.
pub fn deactivation(number: u32, blockhash: [u8; 32]) -> Vec<u8> {
    stake_transaction(number, &[address_of(CLOCK)], DEACTIVATE, blockhash)
}

/// A transaction with an instruction of the stake program. The follower's identity signs and pays.
fn stake_transaction(
    number: u32,
    read: &[Address],
    instruction: u32,
    blockhash: [u8; 32],
) -> Vec<u8> {
    let [identity, _] = follower_identities();
    let account = |address, signs, is_written| Account {
        address,
        signs,
        is_written,
    };
    let read = read.iter().map(|address| account(*address, false, false));
    let accounts = [account(stake_account(number), false, true)]
        .into_iter()
        .chain(read);
    let accounts = accounts
        .chain([account(identity.address(), true, true)])
        .collect();
    let data = instruction.to_le_bytes().to_vec();
    transaction(
        &[&identity],
        &[Instruction {
            program: address_of(STAKE_PROGRAM),
            accounts,
            data,
        }],
        blockhash,
    )
}

fn stake_account(number: u32) -> Address {
    numbered(b"stake", number)
}

/// The address of the follower's vote account.
pub fn vote_account() -> Address {
    numbered(b"vote account", 0)
}

/// The genesis accounts that the follower needs to vote.
pub(crate) fn accounts(stakes: &[Stake]) -> Vec<GenesisAccount> {
    let [follower, _] = follower_identities();
    let identity = follower.address();
    let payer = GenesisAccount {
        address: identity,
        owner: [0; 32],
        lamports: IDENTITY_LAMPORTS,
        data: Vec::new(),
    };
    let data = vote_state(identity);
    let vote = GenesisAccount {
        address: vote_account(),
        owner: address_of(VOTE_PROGRAM),
        lamports: VOTE_LAMPORTS,
        data,
    };
    let stake = |(number, stake): (u32, &Stake)| GenesisAccount {
        address: stake_account(number),
        owner: address_of(STAKE_PROGRAM),
        lamports: stake.lamports + STAKE_RENT,
        data: stake_state(identity, *stake),
    };
    [payer, vote]
        .into_iter()
        .chain((0..).zip(stakes).map(stake))
        .collect()
}

/// Data of a vote account that has never voted, with a commission of 7 %.
fn vote_state(identity: Address) -> Vec<u8> {
    let mut data = 2_u32.to_le_bytes().to_vec();
    data.extend(identity);
    data.extend(identity);
    data.push(7);
    // No votes, and no root.
    data.extend(0_u64.to_le_bytes());
    data.push(0);
    // One authorized voter, from epoch 0 on.
    data.extend([1_u64, 0].map(u64::to_le_bytes).concat());
    data.extend(identity);
    // An empty ring of 32 earlier voters: its index, and the flag for empty.
    data.extend([0; 32 * 48]);
    data.extend(31_u64.to_le_bytes());
    data.push(1);
    // No credits and no timestamp; the rest are zeros, too.
    data.resize(VOTE_BYTES, 0);
    data
}

fn stake_state(owner: Address, stake: Stake) -> Vec<u8> {
    let mut data = 2_u32.to_le_bytes().to_vec();
    data.extend(STAKE_RENT.to_le_bytes());
    // Who may delegate and withdraw; no lockup.
    data.extend(owner);
    data.extend(owner);
    data.extend([0; 8 + 8 + 32]);
    data.extend(vote_account());
    let epochs = [stake.activated_in, stake.deactivated_in].map(|epoch| epoch.unwrap_or(NO_EPOCH));
    data.extend(
        [stake.lamports, epochs[0], epochs[1]]
            .map(u64::to_le_bytes)
            .concat(),
    );
    data.extend(0.25_f64.to_le_bytes());
    // Observed credits and flags; the rest are zeros, too.
    data.resize(STAKE_BYTES, 0);
    data
}

#[expect(clippy::expect_used, reason = "constants of this file")]
fn address_of(address: &str) -> Address {
    let bytes = bs58::decode(address).into_vec().expect("base58");
    bytes.try_into().expect("32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_vote_accounts_have_the_layout_nodes_expect() {
        let all = accounts(&[Stake {
            lamports: 7,
            activated_in: Some(3),
            deactivated_in: None,
        }]);
        let [payer, vote, stake] = &all[..] else {
            panic!("three accounts")
        };
        assert_eq!(
            (vote.data.len(), stake.data.len()),
            (VOTE_BYTES, STAKE_BYTES)
        );
        assert_eq!(vote.data[4..36], payer.address);
        assert_eq!(
            stake.data[124..156],
            vote_account(),
            "where memcmp filters expect the voter"
        );
        assert_eq!(
            stake.data[156..172],
            [7_u64, 3].map(u64::to_le_bytes).concat()
        );
    }
}
