//! What a report says of the phases of a recording is what the daemon said that made it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[expect(dead_code, reason = "another test uses the rest of it")]
#[path = "../../../crates/phase/tests/cases/mod.rs"]
mod cases;

use cases::{Case, cases};
use faultline_metrics::{
    Batch, Reading, Source, Stamp, Tick,
    metrics::{recorded::PHASE_EVIDENCE, validator::PHASE},
};
use faultline_phase::{Phase, PhaseEvidence, Process, Rules, Tracker};
use faultline_recording::{NewProcess, NewRecording, NewSession, Writer};
use faultline_report::{measure::measure, run::load};
use serde_json::Value;
use std::{path::Path, sync::Arc, time::Duration};

fn stamp(uptime: Duration) -> Stamp {
    Stamp {
        uptime,
        unix: Duration::from_secs(1_790_000_000) + uptime,
    }
}

/// A tick as the daemon makes it of this evidence.
fn tick(number: u64, at: Stamp, evidence: &PhaseEvidence, phase: Option<Phase>) -> Tick {
    let of = |of: &'static str, value: u64| Reading::integer(&PHASE_EVIDENCE, [of.into()], value);
    let mut readings: Vec<Reading> = phase
        .map(|phase| Reading::flag(&PHASE, [phase.name().into()], true))
        .into_iter()
        .collect();
    if evidence.process != Process::None {
        readings.push(of(
            "stopped",
            u64::from(evidence.process == Process::Stopped),
        ));
        readings.extend(evidence.slot.map(|slot| of("slot", slot)));
        readings.extend(evidence.tip.map(|slot| of("tip", slot)));
    }
    let batch = Batch {
        readings,
        up: true,
        ..Batch::empty(Source::Conclusions, at)
    };
    Tick {
        number,
        at,
        batches: vec![Arc::new(batch)],
    }
}

/// Lives through a case as the daemon does, and records it. Returns the tracker, and what it last said of the process.
fn live(case: &Case, pace: u64, path: &Path) -> (Tracker, Option<bool>) {
    let session = NewSession {
        started: stamp(Duration::ZERO),
        interval: Duration::from_secs(1),
        version: "0.1.0".to_owned(),
        manifest: Value::Null,
    };
    let labels = Vec::new();
    let mut writer = Writer::create(path, &NewRecording { labels, session }).unwrap();
    let (mut tracker, mut kept_up, mut is_followed) = (Tracker::new(Rules::default()), None, false);
    for (number, (now, evidence)) in (1..).zip(case.evidence(pace)) {
        let is_there = evidence.process != Process::None;
        if is_there && !is_followed {
            tracker.begin_process();
            let process = NewProcess {
                pid: 1,
                started_unix: None,
                seen: stamp(now),
                manifest: Value::Null,
            };
            writer.begin_process(&process).unwrap();
        } else if !is_there && is_followed {
            writer.end_process();
        }
        is_followed = is_there;
        tracker.tick(now, &evidence);
        if is_there {
            kept_up = tracker.kept_up();
        }
        writer
            .tick(&tick(number, stamp(now), &evidence, tracker.phase()))
            .unwrap();
    }
    writer.commit().unwrap();
    tracker.finish();
    (tracker, kept_up)
}

#[test]
fn in_every_case_the_report_matches_the_live_daemons_phases() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let at_paces =
        { cases.iter() }.flat_map(|case| case.paces().iter().map(move |pace| (case, *pace)));
    for (number, (case, pace)) in at_paces.enumerate() {
        let path = folder.path().join(format!("{number}.fltl"));
        let (tracker, kept_up) = live(case, pace, &path);
        let run = load(&path).unwrap();
        let lifecycle = measure(&run).lifecycle;
        assert_eq!(
            lifecycle.success.passed, kept_up,
            "{} at {pace} slots in 10 s: {}",
            case.name, lifecycle.success.why
        );
        for phase in Phase::ALL {
            let pairs = run.ticks.windows(2).zip(&lifecycle.phase_by_tick);
            let seconds: f64 = pairs
                .filter(|(_, of)| **of == Some(phase))
                .map(|(pair, _)| pair[1].at - pair[0].at)
                .sum();
            let live = tracker.time_in(phase).as_secs_f64();
            assert!(
                (seconds - live).abs() < 1e-6,
                "{}: {phase:?} {seconds} {live}",
                case.name
            );
        }
    }
}
