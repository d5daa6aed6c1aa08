mod slot_peaks;

use super::*;
use crate::{Reason, line::Point};
use std::{collections::HashSet, mem::discriminant};

fn known(line: &str) -> KnownPoint {
    KnownPoint::parse(&Point::parse(line.as_bytes()).unwrap())
        .unwrap()
        .unwrap()
}

#[test]
fn every_datapoint_kind_is_found_only_by_its_own_name() {
    let mut kinds = HashSet::new();
    for &name in KnownPoint::NAMES {
        let other = format!("{name}2,host_id=A x=1i 1");
        assert!(KnownPoint::parse(&Point::parse(other.as_bytes()).unwrap()).is_none());
        kinds.insert(discriminant(&known(&format!("{name},host_id=A x=1i 1"))));
    }
    assert_eq!(kinds.len(), KnownPoint::NAMES.len());
}

#[test]
fn an_absent_or_unusable_field_is_none() {
    let line = "loaded-programs-cache-stats,host_id=A slot=5i,hits=0i,misses=-1i,evictions=\"x\",reloads=z 7";
    let expected = ProgramCache {
        slot: Some(5),
        hits: Some(0),
        ..ProgramCache::default()
    };
    assert_eq!(known(line), KnownPoint::ProgramCache(expected));
}

#[test]
fn an_unused_field_may_have_any_value() {
    let slot = Some(9);
    assert_eq!(
        known("bank_frozen,host_id=A hash=\"x\",other=-1i,slot=9i 1"),
        KnownPoint::BankFrozen(BankFrozen { slot })
    );
}

#[test]
fn a_malformed_string_field_invalidates_the_whole_line() {
    let point = Point::parse(b"bank_frozen,host_id=A slot=9i,hash 1").unwrap();
    assert_eq!(
        KnownPoint::parse(&point).unwrap().unwrap_err().reason,
        Reason::BadField
    );
}

#[test]
fn an_unknown_name_is_not_a_known_datapoint() {
    assert!(
        KnownPoint::parse(&Point::parse(b"bank_thawed,host_id=A slot=9i 1").unwrap()).is_none()
    );
}

#[test]
fn a_water_level_of_zero_leaves_the_entries_unknown() {
    for (level, entries) in [("0i", None), ("461i", Some(461))] {
        let KnownPoint::ProgramCache(stats) = known(&format!(
            "loaded-programs-cache-stats water_level={level} 1"
        )) else {
            panic!("another kind")
        };
        assert_eq!(stats.loaded_entries(), entries);
    }
}

#[test]
fn a_leader_slot_replays_nothing_not_even_ticks() {
    for (counts, own) in [
        (
            "total_transactions=0i,total_entries=0i,total_shreds=0i",
            Some(true),
        ),
        (
            "total_transactions=0i,total_entries=64i,total_shreds=33i",
            Some(false),
        ),
        ("total_transactions=0i", None),
    ] {
        let KnownPoint::ReplaySlot(slot) = known(&format!("replay-slot-stats {counts} 1")) else {
            panic!("another kind")
        };
        assert_eq!(slot.is_own_slot(), own, "{counts}");
    }
}

#[test]
fn the_leader_tag_is_absent_before_3_0() {
    for (tags, is_leader) in [
        ("", None),
        (",is_leader=true", Some(true)),
        (",is_leader=?", None),
    ] {
        let KnownPoint::CostTracker(costs) = known(&format!(
            "cost_tracker_stats,host_id=A{tags} bank_slot=1i 1"
        )) else {
            panic!("another kind")
        };
        assert_eq!(costs.is_leader, is_leader, "{tags}");
    }
}
