//! Readings without data, and replay times that never arrive.

use super::*;

/// Verdict of a dwell under a limit whose readings are changed, with its reasons.
fn verdict_of_changed_readings(change: fn(&mut Reading)) -> (Verdict, Vec<String>) {
    let (mut machine, mut plant) = machine_in_limited_dwell();
    for _ in 0..4 * 300 {
        let mut reading = plant.read();
        change(&mut reading);
        for action in machine.poll(&reading) {
            match action {
                Action::SetLimit(limit) => plant.limit(limit),
                Action::Journal(SearchEvent::Dwell(DwellResult {
                    verdict, evidence, ..
                })) => return (verdict, evidence.why),
                _ => {}
            }
        }
    }
    panic!("no end of the dwell");
}

#[test]
fn a_limit_silencing_the_validator_fails_but_a_silent_recorder_is_void() {
    let silent = |reading: &mut Reading| (reading.slots_behind, reading.tip_slot) = (None, None);
    assert_eq!(
        verdict_of_changed_readings(silent),
        (Verdict::Failed, vec![VALIDATOR_SILENT.to_owned()])
    );
    let stale = |reading: &mut Reading| {
        (
            reading.has_recent_sample,
            reading.slots_behind,
            reading.tip_slot,
        ) = (false, None, None)
    };
    assert_eq!(verdict_of_changed_readings(stale).0, Verdict::Void);
    let no_newer_tip = |reading: &mut Reading| reading.slots_behind = None;
    assert_eq!(verdict_of_changed_readings(no_newer_tip).0, Verdict::Void);
    let nothing =
        |reading: &mut Reading| (reading.slots_behind, reading.unreclaimable) = (None, None);
    assert_eq!(verdict_of_changed_readings(nothing).0, Verdict::Void);
}

#[test]
fn a_reference_dwell_with_missing_data_proves_nothing() {
    let reading = |second: u64| Reading {
        at: seconds(second),
        has_recent_sample: true,
        slots_behind: (second % 20 < 10).then_some(0),
        unreclaimable: Some(MIB),
        ..Reading::default()
    };
    let mut dwell = Dwell::begin(&reading(0), seconds(40));
    (1..=40).for_each(|second| dwell.add(&reading(second)));
    let (verdict, evidence) = dwell.reference_verdict(32, &References::default());
    assert_eq!(
        (verdict, evidence.why),
        (Verdict::Void, vec![VALIDATOR_SILENT.to_owned()])
    );
}

/// A dwell of 40 s in which the tip rises by `slots`, and `replayed` slots have replay times.
fn dwell(slots: u64, replayed: u64) -> Dwell {
    let reading = |second: u64| Reading {
        at: seconds(second),
        has_recent_sample: true,
        slots_behind: Some(0),
        tip_slot: Some(slots * second / 40),
        unreclaimable: Some(MIB),
        replays: (second < replayed)
            .then_some(ReplayedSlot {
                at: seconds(second),
                replay_us: 1000.0,
            })
            .into_iter()
            .collect(),
        ..Reading::default()
    };
    let mut dwell = Dwell::begin(&reading(0), seconds(40));
    (1..=40).for_each(|second| dwell.add(&reading(second)));
    dwell
}

#[test]
fn a_slow_tip_or_unknown_replay_voids_a_dwell_unless_it_failed() {
    let mut references = References::default();
    references.0.push(
        dwell(100, 40)
            .reference_verdict(32, &References::default())
            .1,
    );
    let verdict =
        |slots, replayed, danger| dwell(slots, replayed).verdict(32, &references, danger).0;
    assert_eq!(verdict(100, 40, None), Verdict::KeptUp);
    assert_eq!(verdict(96, 20, None), Verdict::KeptUp);
    assert_eq!(verdict(92, 40, None), Verdict::Void);
    assert_eq!(verdict(100, 0, None), Verdict::Void);
    assert_eq!(verdict(100, 5, None), Verdict::Void);
    assert_eq!(
        verdict(100, 0, Some("it is too far behind")),
        Verdict::Failed
    );
}

#[test]
fn a_validator_that_exits_under_a_limit_fails_that_limit() {
    let (mut machine, mut plant) = machine_in_limited_dwell();
    machine.poll(&plant.read());
    let Some(SearchEvent::Dwell(DwellResult {
        headroom,
        verdict,
        evidence,
        ..
    })) = machine.validator_ended()
    else {
        panic!("no line")
    };
    assert_eq!((headroom, verdict), (Some(400 * MIB), Verdict::Failed));
    assert_eq!(evidence.why, [VALIDATOR_ENDED]);
    assert_eq!(machine.validator_ended(), None);
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    machine.poll(&plant.read());
    assert_eq!(machine.validator_ended(), None, "nothing was tried");
}

#[test]
fn persistently_high_refaults_become_the_reference() {
    let mut plant = Plant::new(200 * MIB, 3);
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    let mut more = 0;
    for _ in 0..4 * 9 * 3600 {
        let mut reading = plant.read();
        // Another load, from the middle of the search on.
        more += if reading.at > seconds(2000) { 100 } else { 0 };
        reading.refaults = reading.refaults.map(|refaults| refaults + more);
        for action in machine.poll(&reading) {
            match action {
                Action::SetLimit(limit) => plant.limit(limit),
                Action::Journal(_) => {}
                Action::Over(answer) => return assert_interval_contains(&answer, 200 * MIB),
            }
        }
    }
    panic!("no end");
}
