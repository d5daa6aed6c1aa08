use crate::validator::intake::{Intake, Push};
use faultline_core::config::Datapoints;
use faultline_metrics::{Reading, Stamp};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const VALIDATOR: u32 = 1000;
const OTHER: u32 = 1001;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(1_795_000_000 + seconds),
    }
}

/// An intake, and the user id of its validator. 0 means that no validator is found yet.
fn intake() -> (Intake, Arc<AtomicU32>) {
    let (intake, user) = (Intake::new(&Datapoints::default()), Arc::default());
    let read = Arc::clone(&user);
    intake.set_user_lookup(move || {
        Some(AtomicU32::load(&read, Ordering::Relaxed)).filter(|u| *u > 0)
    });
    (intake, user)
}

/// Pushes if the user is admitted.
fn push(intake: &Intake, user: u32, now: u64, lines: &[&str]) -> bool {
    let admitted = intake.admits_user(user, at(now));
    if admitted {
        let mut push = intake.begin_from_user(user, at(now));
        lines.iter().for_each(|line| push.add_line(line.as_bytes()));
        intake.commit(push, at(now));
    }
    admitted
}

fn number(intake: &Intake, now: u64, name: &str, label: &str) -> Option<f64> {
    let mut readings: Vec<Reading> = Vec::new();
    intake.add_readings(at(now), &mut readings);
    let found = readings.iter().find(|reading| {
        reading.metric.name == name
            && reading
                .label_values
                .iter()
                .all(|value| value.as_str() == label)
    });
    found.and_then(|reading| reading.value.number())
}

fn lost(count: u32) -> String {
    format!("metrics,host_id=A points_lost={count}i {count}")
}

#[test]
fn pushes_are_pending_until_discovery_then_other_users_are_dropped() {
    let (intake, user) = intake();
    assert!(push(
        &intake,
        OTHER,
        1,
        &[&lost(5), "optimistic_slot,host_id=A slot=900000i 1"]
    ));
    let version = "validator-new,host_id=A version=\"2.1.14\" 1";
    assert!(push(&intake, VALIDATOR, 1, &[&lost(2), version]));
    assert!(
        intake
            .problems(at(1))
            .iter()
            .any(|problem| problem.what.contains("kept apart"))
    );
    user.store(VALIDATOR, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(2));
    assert_eq!(
        number(&intake, 2, "faultline_points_lost_total", ""),
        Some(2.0)
    );
    assert_eq!(intake.facts().version.as_deref(), Some("2.1.14"));
    assert_eq!(
        number(&intake, 2, "faultline_ingest_lines_total", "used"),
        Some(2.0)
    );
    assert_eq!(
        number(&intake, 2, "faultline_ingest_lines_total", "foreign"),
        Some(2.0)
    );
    assert_eq!(
        intake.facts().slots.and_then(|(_, slots)| slots.optimistic),
        None
    );
}

#[test]
fn a_body_begun_before_discovery_counts_only_for_the_validators_user() {
    let (intake, user) = intake();
    assert!(intake.admits_user(OTHER, at(1)));
    let mut slow = intake.begin_from_user(OTHER, at(1));
    slow.add_line(lost(1).as_bytes());
    user.store(VALIDATOR, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(2));
    slow.add_line(lost(7).as_bytes());
    intake.commit(slow, at(3));
    assert_eq!(
        number(&intake, 3, "faultline_points_lost_total", ""),
        Some(0.0)
    );
    assert_eq!(intake.facts().last_push, None);
}

#[test]
fn slots_are_proven_by_password_or_the_validators_user_not_a_relay() {
    let pushed = |intake: &Intake, mut push: Push, second: u64, slot: u64| {
        push.add_line(format!("bank_frozen,host_id=A slot={slot}i,hash=\"x\" {second}").as_bytes());
        intake.commit(push, at(second));
        let (_, slots) = intake.newest_slots().unwrap();
        (slots.frozen, slots.is_proven)
    };
    let (intake, user) = intake();
    user.store(VALIDATOR, Ordering::Relaxed);
    intake.follow_validator(None);
    // Before the identity is known, the lines are pending.
    let mut early = intake.begin_from_user(VALIDATOR, at(1));
    early.add_line(b"bank_frozen,host_id=A slot=9i,hash=\"x\" 1");
    intake.commit(early, at(1));
    intake.set_reported_identity("A", at(2));
    assert!(
        intake
            .newest_slots()
            .is_some_and(|(_, slots)| slots.is_proven)
    );
    let own = intake.begin_from_user(VALIDATOR, at(3));
    assert_eq!(pushed(&intake, own, 3, 10), (Some(10), true));
    let trusted = intake.begin_trusted(at(4));
    assert_eq!(pushed(&intake, trusted, 4, 11), (Some(11), true));
    let mut relayed = intake.begin_unproven(at(5));
    relayed.add_line(b"optimistic_slot,host_id=A slot=900i 5");
    assert_eq!(pushed(&intake, relayed, 5, 12), (Some(12), false));
    assert_eq!(intake.newest_slots().unwrap().1.behind(), Some(888));
    let own = intake.begin_from_user(VALIDATOR, at(6));
    assert_eq!(pushed(&intake, own, 6, 13), (Some(13), true));
    assert_eq!(
        intake.newest_slots().unwrap().1.behind(),
        None,
        "what was relayed is left"
    );
}

#[test]
fn pushes_of_another_user_are_refused_with_the_reason() {
    let (intake, user) = intake();
    user.store(VALIDATOR, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(1));
    assert!(!push(&intake, OTHER, 2, &[&lost(5)]));
    assert!(push(&intake, VALIDATOR, 2, &[&lost(2)]));
    assert_eq!(
        number(&intake, 2, "faultline_points_lost_total", ""),
        Some(2.0)
    );
    let refusal_problem = |now: u64| {
        let problems = intake.problems(at(now)).into_iter();
        problems
            .map(|problem| problem.what)
            .find(|what| what.contains("allow_users"))
    };
    assert!(
        refusal_problem(2)
            .unwrap()
            .contains("by user 1001, but the validator runs as user 1000")
    );
    assert_eq!(refusal_problem(70), None);
}

#[test]
fn pushes_are_accepted_after_the_validator_drops_privileges_but_not_from_others() {
    let (intake, user) = intake();
    user.store(OTHER, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(1));
    assert!(!push(&intake, VALIDATOR, 2, &[&lost(1)]));
    user.store(VALIDATOR, Ordering::Relaxed);
    assert!(push(&intake, VALIDATOR, 4, &[&lost(2)]));
    user.store(0, Ordering::Relaxed);
    intake.validator_ended();
    assert!(!push(&intake, OTHER, 6, &[&lost(4)]));
    assert_eq!(
        number(&intake, 6, "faultline_points_lost_total", ""),
        Some(2.0)
    );
}

#[test]
fn pushes_are_pending_again_while_only_the_wrapper_is_followed() {
    let (intake, user) = intake();
    user.store(VALIDATOR, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(1));
    user.store(0, Ordering::Relaxed);
    intake.wait_for_validator();
    let version = "validator-new,host_id=B version=\"2.3.1\" 1";
    let of_b = |count: u32| format!("metrics,host_id=B points_lost={count}i {count}");
    assert!(push(&intake, OTHER, 3, &[&of_b(4), version]));
    assert!(push(&intake, VALIDATOR, 3, &[&lost(9)]), "it waits as well");
    let lost_points = |now| number(&intake, now, "faultline_points_lost_total", "");
    assert_eq!(lost_points(3), Some(0.0));
    user.store(OTHER, Ordering::Relaxed);
    intake.follow_validator(None);
    intake.set_reported_identity("B", at(4));
    assert_eq!(lost_points(4), Some(4.0));
    assert_eq!(intake.facts().version.as_deref(), Some("2.3.1"));
    assert!(!push(&intake, VALIDATOR, 6, &[&lost(1)]));
}
