use super::*;

const NONE: ConsensusEvidence<'static> = ConsensusEvidence {
    certified_genesis_slot: None,
    has_event_handler: false,
    is_migration_complete: false,
    reported_genesis_slot: None,
    reported_migration_slot: None,
    has_credits_marker: false,
    genesis_hash: None,
    max_credits_or_lamports: None,
    gate: None,
    processed_slot: None,
    has_optimistic_slot: false,
    has_commitment_gap: false,
};
const MAINNET: Option<&str> = Some("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d");
const INACTIVE: Option<FeatureGate> = Some(FeatureGate::Inactive);

fn active(slot: u64) -> Option<FeatureGate> {
    Some(FeatureGate::ActiveSince(slot))
}

/// Protocol, sign, genesis slot and migration slot.
type Expected = Option<(Protocol, Sign, Option<u64>, Option<u64>)>;

#[rustfmt::skip]
fn cases() -> Vec<(&'static str, ConsensusEvidence<'static>, Expected)> {
    use Protocol::{Alpenglow, Migrating, Tower};
    let tower = |sign| Some((Tower, sign, None, None));
    let alpenglow = |sign, genesis| Some((Alpenglow, sign, genesis, None));
    let tower_signs = ConsensusEvidence { gate: INACTIVE, has_optimistic_slot: true, has_commitment_gap: true, ..NONE };
    vec![
        ("silence", NONE, None),
        ("a slot alone", ConsensusEvidence { processed_slot: Some(7), ..NONE }, None),
        ("another cluster's hash", ConsensusEvidence { genesis_hash: Some("abc"), processed_slot: Some(u64::MAX), ..NONE }, None),
        ("no gate", ConsensusEvidence { gate: INACTIVE, ..NONE }, tower(Sign::FeatureGate)),
        ("optimistic slots", ConsensusEvidence { has_optimistic_slot: true, ..NONE }, tower(Sign::OptimisticSlot)),
        ("a gap of commitments", ConsensusEvidence { has_commitment_gap: true, ..NONE }, tower(Sign::CommitmentGap)),
        ("all signs of Tower", tower_signs, tower(Sign::FeatureGate)),
        ("the gate's account without a slot", ConsensusEvidence { gate: active(0), ..NONE }, None),
        ("the gate is active, the slot below the migration", ConsensusEvidence { gate: active(1_000), processed_slot: Some(5_999), ..NONE },
            Some((Tower, Sign::FeatureGate, None, Some(6_000)))),
        ("the gate is active, the slot at the migration", ConsensusEvidence { gate: active(1_000), processed_slot: Some(6_000), ..NONE },
            Some((Migrating, Sign::FeatureGate, None, Some(6_000)))),
        ("optimistic slots came a moment before", ConsensusEvidence { gate: active(1_000), processed_slot: Some(6_000), has_optimistic_slot: true, ..NONE },
            Some((Migrating, Sign::FeatureGate, None, Some(6_000)))),
        ("migration-started comes before the migration", ConsensusEvidence { reported_migration_slot: Some(900), processed_slot: Some(899), ..NONE },
            Some((Tower, Sign::MigrationStarted, None, Some(900)))),
        ("migration-started, and its slot", ConsensusEvidence { reported_migration_slot: Some(900), processed_slot: Some(900), ..NONE },
            Some((Migrating, Sign::MigrationStarted, None, Some(900)))),
        ("a test build's offset", ConsensusEvidence { reported_migration_slot: Some(64), gate: active(32), processed_slot: Some(70), ..NONE },
            Some((Migrating, Sign::MigrationStarted, None, Some(64)))),
        ("migration-started without a slot of its own", ConsensusEvidence { reported_migration_slot: Some(900), ..NONE }, None),
        ("a certificate", ConsensusEvidence { certified_genesis_slot: Some(899), ..tower_signs }, alpenglow(Sign::Certificate, Some(899))),
        ("a certificate of a cluster that began with it", ConsensusEvidence { certified_genesis_slot: Some(0), gate: active(0), processed_slot: Some(3), ..NONE },
            alpenglow(Sign::Certificate, Some(0))),
        ("the event handler", ConsensusEvidence { has_event_handler: true, ..tower_signs }, alpenglow(Sign::EventHandlerStats, None)),
        ("migration-complete", ConsensusEvidence { is_migration_complete: true, reported_genesis_slot: Some(899), reported_migration_slot: Some(900), processed_slot: Some(899), ..NONE },
            Some((Alpenglow, Sign::MigrationComplete, Some(899), Some(900)))),
        ("the log says it is enabled", ConsensusEvidence { is_migration_complete: true, ..NONE }, alpenglow(Sign::MigrationComplete, None)),
        ("the marker", ConsensusEvidence { has_credits_marker: true, has_commitment_gap: true, ..NONE }, alpenglow(Sign::CreditsMarker, None)),
        ("mainnet-beta above its genesis slot", ConsensusEvidence { genesis_hash: MAINNET, processed_slot: Some(459_653_000), ..NONE },
            alpenglow(Sign::KnownCluster, Some(459_652_999))),
        ("mainnet-beta at its genesis slot", ConsensusEvidence { genesis_hash: MAINNET, processed_slot: Some(459_652_999), ..NONE }, None),
        ("mainnet-beta before", ConsensusEvidence { genesis_hash: MAINNET, processed_slot: Some(9), has_optimistic_slot: true, ..NONE }, tower(Sign::OptimisticSlot)),
        ("lamports", ConsensusEvidence { max_credits_or_lamports: Some((432_000 * 16 + 1, 432_000)), ..NONE }, alpenglow(Sign::CreditsSize, None)),
        ("the most credits of an epoch", ConsensusEvidence { max_credits_or_lamports: Some((432_000 * 16, 432_000)), ..NONE }, None),
        ("an epoch without slots", ConsensusEvidence { max_credits_or_lamports: Some((16, 0)), ..NONE }, None),
        ("every sign", ConsensusEvidence { certified_genesis_slot: Some(8), has_event_handler: true, is_migration_complete: true, reported_genesis_slot: Some(9), has_credits_marker: true, ..tower_signs },
            alpenglow(Sign::Certificate, Some(8))),
    ]
}

#[test]
fn each_consensus_protocol_needs_evidence_and_the_first_evidence_counts() {
    for (name, evidence, expected) in cases() {
        let found = evidence.consensus();
        let found = found.map(|c| (c.protocol, c.sign, c.genesis_slot, c.migration_slot));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn consensus_migration_is_irreversible_and_tower_ends_when_evidence_is_silent() {
    let of = |evidence: ConsensusEvidence<'static>| evidence.consensus();
    let tower = of(ConsensusEvidence {
        has_optimistic_slot: true,
        ..NONE
    });
    assert_eq!(Consensus::merge(tower, None), None, "silence");
    let migrating = of(ConsensusEvidence {
        reported_migration_slot: Some(900),
        processed_slot: Some(901),
        ..NONE
    });
    let purged = of(ConsensusEvidence {
        reported_migration_slot: Some(900),
        processed_slot: Some(899),
        ..NONE
    });
    assert_eq!(purged.map(|now| now.protocol), Some(Protocol::Tower));
    assert_eq!(
        Consensus::merge(migrating, purged),
        migrating,
        "slots went back"
    );
    assert_eq!(Consensus::merge(migrating, None), migrating);
    let marker = of(ConsensusEvidence {
        has_credits_marker: true,
        ..NONE
    });
    let after = Consensus::merge(migrating, marker).unwrap();
    assert_eq!(
        (after.protocol, after.sign),
        (Protocol::Alpenglow, Sign::CreditsMarker)
    );
    assert_eq!(after.migration_slot, Some(900), "what was known stays");
    assert_eq!(Consensus::merge(Some(after), tower), Some(after));
    let certificate = of(ConsensusEvidence {
        certified_genesis_slot: Some(899),
        ..NONE
    });
    let sure = Consensus::merge(Some(after), certificate).unwrap();
    assert_eq!(
        (sure.sign, sure.genesis_slot),
        (Sign::Certificate, Some(899))
    );
    let kept = Consensus::merge(Some(sure), marker).unwrap();
    assert_eq!(
        (kept.sign, kept.genesis_slot),
        (Sign::Certificate, Some(899)),
        "the stronger sign"
    );
}
