//! Infers the consensus protocol of a validator from what it reports. Missing evidence proves
//! nothing.
//!
//! Any sign of Alpenglow proves Alpenglow. Without one, a processed slot at or after the migration
//! slot proves Migrating, and an earlier one Tower. If one of the two slots is unknown, a sign of
//! Tower proves Tower. Sources: Agave 4.2.2 to 4.5.0-alpha.4. Reasons:
//! `docs/decisions/0030-which-consensus.md`.

use crate::rpc::FeatureGate;

/// Slots between the activation of the feature and the start of the migration. Test builds use 32.
pub const MIGRATION_SLOT_OFFSET: u64 = 5_000;
/// Under Tower, a vote earns at most this many credits per slot. Alpenglow pays lamports instead.
pub const MAX_CREDITS_PER_SLOT: u64 = 16;
/// Migrated clusters: genesis hash, last slot before Alpenglow.
const MIGRATED_CLUSTERS: [(&str, u64); 1] =
    [("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", 459_652_999)];

faultline_metrics::named_enum! {
    /// In the order of a migration. A node never returns to an earlier protocol.
    pub enum Protocol {
        Tower = "tower",
        /// Blocks contain only votes and nothing is rooted until the cluster has a genesis
        /// certificate.
        Migrating = "migrating",
        Alpenglow = "alpenglow",
    }
}

faultline_metrics::named_enum! {
    /// What proved the protocol. If several signs prove it, the first in this order counts.
    pub enum Sign {
        /// Alpenglow: `getAgGenesisCert` returns a certificate.
        Certificate = "getAgGenesisCert",
        /// Alpenglow: Votor's event loop reports. The loop begins at the end of the migration.
        EventHandlerStats = "event_handler_stats",
        /// Alpenglow: the datapoint `migration-complete`, or its log line.
        MigrationComplete = "migration-complete",
        /// Tower, or migrating from the migration slot on: `migration-started`, or its log line.
        MigrationStarted = "migration-started",
        /// Alpenglow: `epochCredits` contains the entry that marks the migration.
        CreditsMarker = "epochCredits marker",
        /// Alpenglow: the slot is above the known Alpenglow genesis slot of the cluster.
        KnownCluster = "genesis hash and slot",
        /// Alpenglow: an epoch's credits exceed Tower's maximum.
        CreditsSize = "size of credits",
        /// Tower, or migrating: the feature gate's account.
        FeatureGate = "feature gate account",
        /// Tower: reports of optimistic confirmation, which ends when the migration begins.
        OptimisticSlot = "optimistic_slot",
        /// Tower: finalized slots lag many slots behind confirmed ones, and both advance.
        CommitmentGap = "confirmed ahead of finalized",
    }
}

/// The default of a field means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsensusEvidence<'a> {
    /// The block's slot in `getAgGenesisCert`. A null result alone proves nothing.
    pub certified_genesis_slot: Option<u64>,
    /// `event_handler_stats` was reported.
    pub has_event_handler: bool,
    pub is_migration_complete: bool,
    pub reported_genesis_slot: Option<u64>,
    /// The migration's first slot. `migration-started` reports it thousands of slots earlier.
    pub reported_migration_slot: Option<u64>,
    pub has_credits_marker: bool,
    pub genesis_hash: Option<&'a str>,
    /// The highest credits that an account earned in an epoch, and the number of slots of an epoch.
    pub max_credits_or_lamports: Option<(u64, u64)>,
    /// The feature gate's account at `finalized`.
    pub gate: Option<FeatureGate>,
    pub processed_slot: Option<u64>,
    pub has_optimistic_slot: bool,
    pub has_commitment_gap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Consensus {
    pub protocol: Protocol,
    pub sign: Sign,
    /// The last slot before Alpenglow; 0 if the cluster began with Alpenglow.
    pub genesis_slot: Option<u64>,
    pub migration_slot: Option<u64>,
}

impl ConsensusEvidence<'_> {
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
            genesis_slot: self
                .certified_genesis_slot
                .or(self.reported_genesis_slot)
                .or(known),
            migration_slot: self.migration_slot(),
        })
    }

    fn alpenglow(&self) -> Option<Sign> {
        let is_above_genesis = { self.known_genesis().zip(self.processed_slot) }
            .is_some_and(|(genesis, slot)| slot > genesis);
        let has_lamports = self
            .max_credits_or_lamports
            .is_some_and(|(credits, slots)| {
                credits > slots.max(1).saturating_mul(MAX_CREDITS_PER_SLOT)
            });
        let signs = [
            (Sign::Certificate, self.certified_genesis_slot.is_some()),
            (Sign::EventHandlerStats, self.has_event_handler),
            (Sign::MigrationComplete, self.is_migration_complete),
            (Sign::CreditsMarker, self.has_credits_marker),
            (Sign::KnownCluster, is_above_genesis),
            (Sign::CreditsSize, has_lamports),
        ];
        signs
            .into_iter()
            .find(|(_, is_present)| *is_present)
            .map(|(sign, _)| sign)
    }

    fn before_alpenglow(&self) -> Option<(Protocol, Sign)> {
        if let Some((migration, slot)) = self.migration_slot().zip(self.processed_slot) {
            let sign = match self.reported_migration_slot {
                Some(_) => Sign::MigrationStarted,
                None => Sign::FeatureGate,
            };
            return Some((
                if slot >= migration {
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
        let sign = signs.into_iter().find(|(_, is_present)| *is_present)?.0;
        Some((Protocol::Tower, sign))
    }

    fn migration_slot(&self) -> Option<u64> {
        let by_gate = match self.gate {
            Some(FeatureGate::ActiveSince(slot)) => slot.checked_add(MIGRATION_SLOT_OFFSET),
            _ => None,
        };
        // A cluster that began with Alpenglow has no migration.
        self.reported_migration_slot
            .or(by_gate)
            .filter(|_| self.certified_genesis_slot != Some(0))
    }

    fn known_genesis(&self) -> Option<u64> {
        let hash = self.genesis_hash?;
        MIGRATED_CLUSTERS
            .iter()
            .find(|(known, _)| *known == hash)
            .map(|(_, slot)| *slot)
    }
}

impl Consensus {
    /// Merges the next result for the same process. Migrating and Alpenglow persist: their
    /// datapoints come only once, and slots step back when a migration ends. Tower must be proved
    /// again.
    pub fn merge(before: Option<Self>, now: Option<Self>) -> Option<Self> {
        let Some(before) = before.filter(|before| before.protocol > Protocol::Tower) else {
            return now;
        };
        let Some(now) = now.filter(|now| now.protocol >= before.protocol) else {
            return Some(before);
        };
        Some(Self {
            sign: if now.protocol == before.protocol {
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
