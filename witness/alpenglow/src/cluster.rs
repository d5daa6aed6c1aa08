//! The invented cluster: its validators, and where it is in each phase.

use solana_hash::Hash;
use solana_pubkey::Pubkey;

pub const SLOTS_IN_EPOCH: u64 = 432_000;
/// Of the migration: the gate is activated by its first slot.
pub const EPOCH: u64 = 1064;
pub const ACTIVATION_SLOT: u64 = EPOCH * SLOTS_IN_EPOCH;
pub const MIGRATION_SLOT: u64 =
    ACTIVATION_SLOT + agave_votor_messages::migration::MIGRATION_SLOT_OFFSET;
pub const GENESIS_SLOT: u64 = MIGRATION_SLOT - 1;
pub const SLOT_NANOS: u64 = 200_000_000;
pub const LAMPORTS_PER_SOL: u64 = 1_000_000_000;
pub const MAINNET_BETA: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";

pub fn bytes(name: &str) -> [u8; 32] {
    let mut bytes = [7; 32];
    for (at, byte) in bytes.iter_mut().zip(name.bytes()) {
        *at = byte;
    }
    bytes
}

pub fn key(name: &str) -> Pubkey {
    Pubkey::new_from_array(bytes(name))
}

pub fn hash(name: &str) -> Hash {
    Hash::new_from_array(bytes(name))
}

/// How a validator votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Votes {
    /// In certificates of both kinds, but in the newest so many.
    InTime(u64),
    /// Too late for the certificates of finalization, in time for rewards.
    Slowly,
    /// Not after this slot.
    Until(u64),
    /// Not between these slots.
    Absent { after: u64, before: u64 },
}

impl Votes {
    /// The newest slot up to this one that it can have voted for.
    pub fn newest(self, slot: u64) -> u64 {
        match self {
            Self::Until(last) => slot.min(last),
            Self::Absent { after, before } if slot < before => slot.min(after),
            _ => slot,
        }
    }
}

pub struct Validator {
    pub identity: &'static str,
    pub vote_account: &'static str,
    pub stake_sol: u64,
    pub commission_bps: u16,
    pub votes: Votes,
    /// Slots with its vote, of a thousand.
    pub voted: u64,
    /// Blocks it led, of a thousand.
    pub led: u64,
}

const fn validator(
    names: (&'static str, &'static str),
    stake_sol: u64,
    commission_bps: u16,
    votes: Votes,
    voted: u64,
    led: u64,
) -> Validator {
    Validator {
        identity: names.0,
        vote_account: names.1,
        stake_sol,
        commission_bps,
        votes,
        voted,
        led,
    }
}

/// The first is the one whose node answers.
pub const VALIDATORS: [Validator; 10] = [
    validator(
        ("own", "own-vote"),
        40_000_000,
        799,
        Votes::InTime(1),
        998,
        123,
    ),
    validator(
        ("big", "big-vote"),
        90_000_000,
        500,
        Votes::InTime(0),
        999,
        276,
    ),
    validator(
        ("north", "north-vote"),
        60_000_000,
        0,
        Votes::InTime(0),
        997,
        190,
    ),
    validator(
        ("south", "south-vote"),
        50_000_000,
        50,
        Votes::InTime(0),
        990,
        150,
    ),
    validator(
        ("slow", "slow-vote"),
        30_000_000,
        1000,
        Votes::Slowly,
        985,
        92,
    ),
    // Two vote accounts of one identity: the one with less stake votes.
    validator(
        ("twin", "twin-new-vote"),
        20_000_000,
        700,
        Votes::InTime(0),
        996,
        61,
    ),
    validator(
        ("twin", "twin-old-vote"),
        25_000_000,
        10_000,
        Votes::Until(ACTIVATION_SLOT - 1_500_000),
        0,
        0,
    ),
    validator(
        ("down", "down-vote"),
        10_000_000,
        500,
        Votes::Until(ACTIVATION_SLOT - 55_000),
        0,
        0,
    ),
    // Without a vote in the epoch of the migration its credits have no marker.
    validator(
        ("back", "back-vote"),
        30_000_000,
        500,
        Votes::Absent {
            after: ACTIVATION_SLOT - 55_000,
            before: ACTIVATION_SLOT + SLOTS_IN_EPOCH,
        },
        995,
        0,
    ),
    // By luck in its leader slots it earns the most per stake.
    validator(
        ("tiny", "tiny-vote"),
        1_000_000,
        1000,
        Votes::InTime(0),
        1000,
        31,
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Tower,
    Migrating,
    MigrationEpoch,
    NextEpoch,
    /// The marker is no more among the epochs that are answered.
    Later,
}

impl Phase {
    pub const ALL: [Self; 5] = [
        Self::Tower,
        Self::Migrating,
        Self::MigrationEpoch,
        Self::NextEpoch,
        Self::Later,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tower => "tower",
            Self::Migrating => "migrating",
            Self::MigrationEpoch => "migration-epoch",
            Self::NextEpoch => "next-epoch",
            Self::Later => "later",
        }
    }

    pub fn protocol(self) -> &'static str {
        match self {
            Self::Tower => "tower",
            Self::Migrating => "migrating",
            Self::MigrationEpoch | Self::NextEpoch | Self::Later => "alpenglow",
        }
    }

    pub fn is_alpenglow(self) -> bool {
        self.protocol() == "alpenglow"
    }

    pub fn processed(self) -> u64 {
        match self {
            Self::Tower => ACTIVATION_SLOT - 8_000,
            Self::Migrating => MIGRATION_SLOT + 120,
            Self::MigrationEpoch => MIGRATION_SLOT + 50_000,
            Self::NextEpoch => ACTIVATION_SLOT + SLOTS_IN_EPOCH + 100_000,
            Self::Later => ACTIVATION_SLOT + 5 * SLOTS_IN_EPOCH + 100_000,
        }
    }

    /// The newest slot below the migration is the last one that Tower confirms.
    pub fn confirmed(self) -> u64 {
        match self {
            Self::Migrating => GENESIS_SLOT,
            _ if self.is_alpenglow() => self.finalized(),
            _ => self.processed() - 1,
        }
    }

    pub fn finalized(self) -> u64 {
        match self {
            Self::Tower => self.processed() - 32,
            Self::Migrating => MIGRATION_SLOT - 32,
            Self::MigrationEpoch | Self::NextEpoch | Self::Later => self.processed() - 2,
        }
    }

    pub fn epoch(self) -> u64 {
        self.processed() / SLOTS_IN_EPOCH
    }
}

/// About a twentieth of all slots have no block.
pub fn height(slot: u64) -> u64 {
    slot - slot / 20
}
