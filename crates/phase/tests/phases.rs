//! The phases of whole lives.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod cases;

use cases::cases;
use faultline_phase::{Phase, PhaseEvidence, PhaseInterval, Process, Rules, Stage, Tracker};
use std::time::Duration;

#[test]
fn every_case_passes_its_expected_phases_at_every_slot_time() {
    let cases = cases();
    let at_paces = cases
        .iter()
        .flat_map(|case| case.paces().iter().map(move |pace| (case, *pace)));
    for (case, pace) in at_paces {
        let name = format!("{} at {pace} slots in 10 s", case.name);
        let (mut tracker, mut evidence) = (
            Tracker::new(Rules::default()),
            case.evidence(pace).into_iter(),
        );
        let mut kept_up = None;
        for step in &case.steps {
            for (now, evidence) in evidence.by_ref().take(step.seconds as usize) {
                tracker.tick(now, &evidence);
                if evidence.process != Process::None {
                    kept_up = tracker.kept_up();
                }
            }
            assert_eq!(tracker.phase(), step.phase, "{name}: {step:?}");
        }
        tracker.finish();
        assert_eq!(kept_up, case.kept_up, "{name}");
        for (phase, seconds) in &case.seconds {
            let spent = tracker.time_in(*phase).as_secs();
            assert!(
                spent.abs_diff(*seconds) <= 2,
                "{name}: {phase:?} for {spent} s"
            );
        }
    }
}

#[test]
fn phase_intervals_are_contiguous_and_ordered_for_any_evidence() {
    for case in cases() {
        let mut tracker = Tracker::new(Rules::default());
        let mut all: Vec<PhaseInterval> = Vec::new();
        for (now, evidence) in case.evidence(25) {
            all.extend(tracker.tick(now, &evidence));
        }
        all.extend(tracker.finish());
        assert!(
            all.windows(2).all(|pair| pair[0].to == pair[1].from),
            "{}",
            case.name
        );
        let known: Duration = Phase::ALL
            .into_iter()
            .map(|phase| tracker.time_in(phase))
            .sum();
        let unknown: Duration = { all.iter() }
            .filter(|interval| interval.phase.is_none())
            .map(|interval| interval.to - interval.from)
            .sum();
        assert_eq!(
            known + unknown,
            all.last().unwrap().to - all[0].from,
            "{}",
            case.name
        );
    }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn near(second: u64) -> PhaseEvidence {
    let slot = 1000 + second * 5 / 2;
    PhaseEvidence {
        process: Process::Alive,
        stage: Some(Stage::Running),
        slot: Some(slot),
        tip: Some(slot + 1),
        is_healthy: true,
    }
}

#[test]
fn time_the_daemon_was_stalled_does_not_count_as_near_tip() {
    let mut tracker = Tracker::new(Rules::default());
    for second in 1..=5 {
        tracker.tick(at(second), &near(second));
    }
    tracker.tick(at(66), &near(66));
    assert_eq!(tracker.phase(), None);
    for second in 67..=126 {
        tracker.tick(at(second), &near(second));
        assert_eq!(tracker.phase(), Some(Phase::CatchingUp), "{second}");
    }
    tracker.tick(at(127), &near(127));
    assert_eq!(tracker.phase(), Some(Phase::AtTip));
}

#[test]
fn phase_evidence_of_a_process_does_not_apply_to_its_successor() {
    let mut tracker = Tracker::new(Rules::default());
    for second in 1..=100 {
        tracker.tick(at(second), &near(second));
    }
    assert_eq!(
        (tracker.phase(), tracker.kept_up()),
        (Some(Phase::AtTip), Some(true))
    );
    tracker.begin_process();
    let silent = PhaseEvidence {
        process: Process::Alive,
        ..PhaseEvidence::default()
    };
    for second in 101..=1100 {
        tracker.tick(at(second), &silent);
        assert_eq!(
            (tracker.phase(), tracker.kept_up()),
            (Some(Phase::Initializing), None)
        );
    }
}

#[test]
fn a_stall_is_reported_while_the_slot_stops_after_reaching_tip() {
    let mut tracker = Tracker::new(Rules::default());
    for second in 1..=100 {
        tracker.tick(at(second), &near(second));
    }
    let hangs = |second| PhaseEvidence {
        slot: near(100).slot,
        ..near(second)
    };
    for second in 101..=140 {
        tracker.tick(at(second), &hangs(second));
        assert_eq!(tracker.stalled(), Some(second >= 115), "{second}");
    }
    assert_eq!(tracker.phase(), Some(Phase::Behind));
    tracker.tick(at(141), &near(125));
    assert_eq!(tracker.stalled(), None, "it goes on, and is behind");
}

#[test]
fn a_slot_rate_change_is_neither_a_pause_nor_time_behind() {
    for (before, after) in [(25, 50), (50, 25), (50, 10), (10, 50)] {
        let mut tracker = Tracker::new(Rules::default());
        let slot = |second: u64| {
            let (old, new) = (second.min(300), second.saturating_sub(300));
            1_000 + (old * before + new * after) / 10
        };
        for second in 1..=600 {
            let slot = slot(second);
            tracker.tick(
                at(second),
                &PhaseEvidence {
                    slot: Some(slot),
                    tip: Some(slot + 1),
                    ..near(second)
                },
            );
        }
        let slot_time = tracker.slot_time().unwrap().as_secs_f64();
        assert!(
            (slot_time * after as f64 / 10.0 - 1.0).abs() < 0.05,
            "{slot_time}"
        );
        assert_eq!(
            (tracker.phase(), tracker.kept_up()),
            (Some(Phase::AtTip), Some(true)),
            "{before} to {after} slots in 10 s"
        );
    }
}

#[test]
fn without_a_tip_the_own_slot_gives_slot_time_after_healthy_minute() {
    let slot_time = |seconds, is_healthy| {
        let mut tracker = Tracker::new(Rules::default());
        for second in 1..=seconds {
            let evidence = PhaseEvidence {
                tip: None,
                is_healthy,
                ..near(second)
            };
            tracker.tick(at(second), &evidence);
        }
        tracker.slot_time()
    };
    assert_eq!(slot_time(101, true), Some(Duration::from_millis(400)));
    assert_eq!(slot_time(60, true), None, "it may still replay");
    assert_eq!(slot_time(600, false), None);
}

#[test]
fn one_wrong_slot_does_not_change_later_phases() {
    let mut tracker = Tracker::new(Rules::default());
    for second in 1..=200 {
        let wrong = (second == 100).then_some(9_000_000);
        let right = near(second);
        tracker.tick(
            at(second),
            &PhaseEvidence {
                slot: wrong.or(right.slot),
                ..right
            },
        );
    }
    assert_eq!(
        (tracker.phase(), tracker.kept_up()),
        (Some(Phase::AtTip), Some(true))
    );
}
