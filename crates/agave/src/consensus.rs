//! Which consensus a validator runs, by what it reports. Every protocol needs a sign: silence proves none.
//!
//! The rule, in the order of [`Sign`]: Alpenglow if one of its signs is there; else migrating, if the processed slot has reached
//! the migration slot and no certificate exists; else Tower, if one of its signs is fresh. Read in the sources of 4.2.2 to
//! 4.5.0-alpha.4; decision 30 has the reasons.

use crate::rpc::FeatureGate;

/// How many slots after the slot that activated the feature the migration begins. Builds for tests have 32.
pub const MIGRATION_SLOT_OFFSET: u64 = 5_000;
/// A Tower vote earns at most so many credits. More for each slot of an epoch are lamports.
pub const MAX_CREDITS_PER_SLOT: u64 = 16;
/// Clusters that have migrated: genesis hash, and the last slot before Alpenglow.
const MIGRATED: [(&str, u64); 1] = [("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", 459_652_999)];

/// The consensus of a validator. In the order of a migration, which never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tower,
    /// Blocks hold only votes and nothing is rooted, until the cluster has a genesis certificate.
    Migrating,
    Alpenglow,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Tower, Self::Migrating, Self::Alpenglow];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tower => "tower",
            Self::Migrating => "migrating",
            Self::Alpenglow => "alpenglow",
        }
    }
}

/// What proved the protocol. Of several signs the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// Alpenglow: `getAgGenesisCert` returns a certificate.
    Certificate,
    /// Alpenglow: Votor's event loop reports; it waits for the end of the migration.
    EventHandlerStats,
    /// Alpenglow: `migration-complete`, or the same in the log.
    MigrationComplete,
    /// Migrating, or Tower before that slot: `migration-started`, or the same in the log.
    MigrationStarted,
    /// Alpenglow: a marker in `epochCredits`.
    CreditsMarker,
    /// Alpenglow: the slot is above the Alpenglow genesis slot of a known cluster.
    KnownCluster,
    /// Alpenglow: an epoch's credits that only lamports can reach.
    CreditsSize,
    /// Tower, or migrating: the account of the feature gate.
    FeatureGate,
    /// Tower: optimistic confirmation reports slots, which ends with the migration.
    OptimisticSlot,
    /// Tower: slots are confirmed many slots before they are finalized, and both advance.
    CommitmentGap,
}

impl Sign {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "getAgGenesisCert",
            Self::EventHandlerStats => "event_handler_stats",
            Self::MigrationComplete => "migration-complete",
            Self::MigrationStarted => "migration-started",
            Self::CreditsMarker => "epochCredits marker",
            Self::KnownCluster => "genesis hash and slot",
            Self::CreditsSize => "size of credits",
            Self::FeatureGate => "feature gate account",
            Self::OptimisticSlot => "optimistic_slot",
            Self::CommitmentGap => "confirmed ahead of finalized",
        }
    }
}

/// What the sources know. Every default means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence<'a> {
    /// The slot of the block of `getAgGenesisCert`. An answer of null proves nothing alone.
    pub certificate: Option<u64>,
    /// `event_handler_stats` came.
    pub has_event_handler: bool,
    /// `migration-complete` or its log line came.
    pub is_complete: bool,
    /// The genesis slot that they reported.
    pub completed_at: Option<u64>,
    /// The migration slot of `migration-started`, which comes some thousand slots before that slot.
    pub migration_slot: Option<u64>,
    /// An account's `epochCredits` have the marker.
    pub has_marker: bool,
    pub genesis_hash: Option<&'a str>,
    /// The most credits that an account earned in one epoch, and the slots of that epoch.
    pub most_credits: Option<(u64, u64)>,
    /// The feature gate's account at `finalized`.
    pub gate: Option<FeatureGate>,
    /// The processed or replayed slot.
    pub slot: Option<u64>,
    /// `optimistic_slot` came lately.
    pub has_optimistic_slot: bool,
    /// Confirmed slots were lately far ahead of finalized ones, and both advanced.
    pub has_commitment_gap: bool,
}

/// The protocol, and what is known of the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consensus {
    pub protocol: Protocol,
    pub sign: Sign,
    /// The last slot before Alpenglow; 0 where a cluster began with it.
    pub genesis_slot: Option<u64>,
    /// From this slot on blocks hold only votes.
    pub migration_slot: Option<u64>,
}

impl Evidence<'_> {
    /// What it proves; `None` if nothing.
    pub fn consensus(&self) -> Option<Consensus> {
        let (protocol, sign) = self
            .alpenglow()
            .map(|sign| (Protocol::Alpenglow, sign))
            .or_else(|| self.before_alpenglow())?;
        let known = self
            .known_genesis()
            .filter(|_| protocol == Protocol::Alpenglow);
        Some(Consensus {
            protocol,
            sign,
            genesis_slot: self.certificate.or(self.completed_at).or(known),
            migration_slot: self.migration_slot(),
        })
    }

    fn alpenglow(&self) -> Option<Sign> {
        let is_above_genesis =
            { self.known_genesis().zip(self.slot) }.is_some_and(|(genesis, slot)| slot > genesis);
        let has_lamports = self.most_credits.is_some_and(|(credits, slots)| {
            credits > slots.max(1).saturating_mul(MAX_CREDITS_PER_SLOT)
        });
        let signs = [
            (Sign::Certificate, self.certificate.is_some()),
            (Sign::EventHandlerStats, self.has_event_handler),
            (Sign::MigrationComplete, self.is_complete),
            (Sign::CreditsMarker, self.has_marker),
            (Sign::KnownCluster, is_above_genesis),
            (Sign::CreditsSize, has_lamports),
        ];
        signs
            .into_iter()
            .find(|(_, is_there)| *is_there)
            .map(|(sign, _)| sign)
    }

    fn before_alpenglow(&self) -> Option<(Protocol, Sign)> {
        if let Some((migration, slot)) = self.migration_slot().zip(self.slot) {
            let sign = match self.migration_slot {
                Some(_) => Sign::MigrationStarted,
                None => Sign::FeatureGate,
            };
            let is_migrating = slot >= migration;
            return Some((
                if is_migrating {
                    Protocol::Migrating
                } else {
                    Protocol::Tower
                },
                sign,
            ));
        }
        let signs = [
            (Sign::FeatureGate, self.gate == Some(FeatureGate::Inactive)),
            (Sign::OptimisticSlot, self.has_optimistic_slot),
            (Sign::CommitmentGap, self.has_commitment_gap),
        ];
        let sign = signs.into_iter().find(|(_, is_there)| *is_there)?.0;
        Some((Protocol::Tower, sign))
    }

    fn migration_slot(&self) -> Option<u64> {
        let by_gate = match self.gate {
            Some(FeatureGate::ActiveSince(slot)) => slot.checked_add(MIGRATION_SLOT_OFFSET),
            _ => None,
        };
        // Where Alpenglow began with the cluster, nothing migrated.
        self.migration_slot
            .or(by_gate)
            .filter(|_| self.certificate != Some(0))
    }

    fn known_genesis(&self) -> Option<u64> {
        let hash = self.genesis_hash?;
        MIGRATED
            .iter()
            .find(|(known, _)| *known == hash)
            .map(|(_, slot)| *slot)
    }
}

impl Consensus {
    /// What is true of one process after another judgement. A migration does not go back, although slots do when it ends, and
    /// its points come once. Tower ends without a fresh sign.
    pub fn next(before: Option<Consensus>, now: Option<Consensus>) -> Option<Consensus> {
        let Some(before) = before.filter(|before| before.protocol > Protocol::Tower) else {
            return now;
        };
        let Some(now) = now.filter(|now| now.protocol >= before.protocol) else {
            return Some(before);
        };
        let is_same = now.protocol == before.protocol;
        Some(Consensus {
            sign: if is_same {
                now.sign.min(before.sign)
            } else {
                now.sign
            },
            genesis_slot: now.genesis_slot.or(before.genesis_slot),
            migration_slot: now.migration_slot.or(before.migration_slot),
            ..now
        })
    }
}

#[cfg(test)]
mod tests;
