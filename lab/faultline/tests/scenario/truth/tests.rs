//! The comparison itself, on made-up readings.

use super::*;
use crate::{
    judge::{Judged, judge},
    said::Said,
};

const OF: Thresholds = Thresholds {
    at_tip_slots: 16,
    at_tip_for: 2.5,
    behind_slots: 40,
    behind_for: 2.5,
};
const PID: u32 = 7;

/// Ten readings a second for so long. The leader makes 2.5 slots a second; the follower's slot and life are given by the
/// second and the leader's slot.
fn readings(seconds: u32, follower: impl Fn(f64, u64) -> (Option<u64>, Life)) -> Sightings {
    let mut sightings = Sightings {
        started: vec![(PID, 0.0)],
        ..Sightings::default()
    };
    for at in (0..seconds * 10).map(|tenth| f64::from(tenth) / 10.0) {
        let leader = 100 + (at * 2.5) as u64;
        let (slot, life) = follower(at, leader);
        let asked = |pid, slot| Asked {
            asked: at,
            heard: at + 0.01,
            pid,
            slot,
            received: None,
        };
        sightings.leader.push(asked(0, Some(leader)));
        sightings.follower.push(asked(PID, slot));
        sightings.glances.push(Glance {
            at: at + 0.05,
            pid: PID,
            life,
        });
    }
    sightings
}

/// At the tip for a minute, stopped for another, then at the tip at once, and after three minutes killed.
fn frozen(at: f64, leader: u64) -> (Option<u64>, Life) {
    match at {
        60.0..120.0 => (None, Life::Stopped),
        180.0.. => (None, Life::Gone),
        _ => (Some(leader), Life::Runs),
    }
}

fn complaints(sightings: &Sightings, at: f64, said: Said) -> Vec<String> {
    let judged = judge(vec![(at, said)], &truth(sightings, OF), sightings);
    judged
        .into_iter()
        .flat_map(|Judged { wrong, .. }| wrong)
        .collect()
}

fn phase(word: &str) -> Said {
    Said {
        phase: Some(word.to_owned()),
        ..Said::default()
    }
}

#[test]
fn a_stopped_follower_is_at_tip_for_seconds_then_only_behind() {
    let sightings = readings(200, frozen);
    let wrong = |at, word: &str| !complaints(&sightings, at, phase(word)).is_empty();
    assert!(!wrong(59.0, "at_tip") && wrong(59.0, "behind") && wrong(59.0, "catching_up"));
    assert!(!wrong(65.0, "at_tip"));
    assert!(wrong(100.0, "at_tip") && !wrong(100.0, "behind"));
    assert!(wrong(119.0, "at_tip") && !wrong(121.0, "behind"));
    assert!(!wrong(130.0, "at_tip") && wrong(130.0, "behind"));
    assert!(wrong(185.0, "at_tip") && !wrong(185.0, "gone"));
    assert_eq!(
        complaints(&sightings, 100.0, Said::default()),
        [] as [String; 0],
        "unknown is never wrong"
    );
}

#[test]
fn slots_behind_must_be_those_of_the_last_two_ticks() {
    let sightings = readings(200, frozen);
    let wrong = |at, slots| {
        !complaints(
            &sightings,
            at,
            Said {
                behind: Some(slots),
                ..Said::default()
            },
        )
        .is_empty()
    };
    assert!(!wrong(59.0, 1) && wrong(59.0, 5));
    assert!(wrong(80.0, 0), "50 slots are ahead");
    assert!(!wrong(80.0, 50) && !wrong(80.0, 45) && wrong(80.0, 38) && wrong(80.0, 55));
    assert!(wrong(190.0, 0), "there is no process");
}

#[test]
fn kept_up_is_false_beyond_one_percent_of_time_off_tip() {
    let sightings = readings(200, frozen);
    let wrong = |at, retained| {
        !complaints(
            &sightings,
            at,
            Said {
                kept_up: Some(retained),
                ..Said::default()
            },
        )
        .is_empty()
    };
    assert!(
        wrong(1.0, true) && wrong(1.0, false),
        "it has not been there yet"
    );
    assert!(!wrong(50.0, true) && wrong(50.0, false));
    assert!(wrong(100.0, true) && !wrong(100.0, false));
    assert!(
        wrong(170.0, true) && !wrong(170.0, false),
        "what was missed is not forgotten"
    );
    assert!(wrong(190.0, true) && wrong(190.0, false));
}

#[test]
fn a_silent_followers_slot_lies_between_its_surrounding_responses() {
    let sightings = readings(120, |at, leader| match at {
        60.0..100.0 => (None, Life::Runs),
        _ => (Some(leader), Life::Runs),
    });
    let moments = truth(&sightings, OF);
    let moment = moments
        .iter()
        .find(|moment| moment.at > 90.0)
        .expect("a moment");
    assert_eq!(moment.slot, Some((249, 326)));
    assert!(
        moment.phases.at_tip && moment.phases.behind,
        "both are possible: {moment:?}"
    );
    assert_eq!(moment.kept_up, (true, true));
}

#[test]
fn a_starting_follower_is_at_tip_after_startup_and_long_proximity() {
    let mut sightings = readings(60, |at, leader| match at {
        ..20.0 => (None, Life::Runs),
        20.0..30.0 => (Some(leader - 60), Life::Runs),
        _ => (Some(leader), Life::Runs),
    });
    sightings.started = vec![(PID, 35.0)];
    let wrong = |at, word: &str| !complaints(&sightings, at, phase(word)).is_empty();
    assert!(
        !wrong(10.0, "replaying")
            && !wrong(10.0, "initializing")
            && wrong(10.0, "at_tip")
            && wrong(10.0, "gone")
    );
    assert!(!wrong(25.0, "catching_up") && wrong(25.0, "behind") && wrong(25.0, "at_tip"));
    assert!(!wrong(36.0, "starting") && wrong(36.0, "at_tip"));
    assert!(!wrong(42.0, "at_tip") && wrong(42.0, "starting"));
}

#[test]
fn a_near_follower_without_replay_may_be_called_catching_up() {
    let sightings = readings(20, |at, leader| {
        (Some(if at < 10.0 { 100 } else { leader }), Life::Runs)
    });
    let wrong = |at, word: &str| !complaints(&sightings, at, phase(word)).is_empty();
    assert!(
        !wrong(6.0, "catching_up") && !wrong(6.0, "at_tip"),
        "15 slots behind, and none of its own"
    );
    assert!(wrong(18.0, "catching_up") && !wrong(18.0, "at_tip"));
}

#[test]
fn time_at_the_tip_has_certain_and_possible_bounds() {
    let moments = truth(&readings(200, frozen), OF);
    let (at_least, at_most, all) = seconds_at_tip(&moments);
    assert!((104.0..110.0).contains(&at_least), "{at_least}");
    assert!((130.0..140.0).contains(&at_most), "{at_most}");
    assert!((199.0..=200.0).contains(&all), "{all}");
}

#[test]
fn a_killed_process_exists_until_its_last_thread_exits() {
    let sightings = readings(80, |at, leader| match at {
        60.0..64.0 => (None, Life::Ending),
        64.0.. => (None, Life::Gone),
        _ => (Some(leader), Life::Runs),
    });
    let wrong = |at, word: &str| !complaints(&sightings, at, phase(word)).is_empty();
    assert!(!wrong(63.0, "at_tip") && !wrong(63.0, "gone"));
    assert!(wrong(67.0, "at_tip") && !wrong(67.0, "gone"));
}
