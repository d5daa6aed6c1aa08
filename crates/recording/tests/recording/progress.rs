//! Compares the progress of a run with a scan of all rows.

use crate::made_up::{arm, synthetic_run::Arm, synthetic_run::SyntheticRun, write};
use faultline_metrics::{Stamp, Tick};
use faultline_recording::{
    CacheTimesPoint, EventKind, PerTickTable, Point, Progress, Recording, Writer,
};
use std::time::Duration;

/// The progress from all rows of the recording.
fn expected_progress(recording: &Recording) -> Progress {
    let banks = recording.cost_tracker_points().unwrap();
    let replayed = recording.replay_slot_points().unwrap();
    let executed = banks
        .iter()
        .filter(|bank| bank.transaction_count > Some(0))
        .map(|bank| bank.time_unix_ns);
    let processed = recording
        .columns(PerTickTable::Validator, &["slot_processed"])
        .unwrap();
    let slots = (banks.iter().filter_map(|bank| bank.bank_slot))
        .chain(replayed.iter().filter_map(|slot| slot.slot))
        .chain(
            recording
                .program_cache_points()
                .unwrap()
                .into_iter()
                .filter_map(|point| point.slot),
        )
        .chain(
            processed.values[0]
                .iter()
                .flatten()
                .map(|slot| *slot as u64),
        );
    let ticks = recording.ticks().unwrap();
    let events = recording.events().unwrap();
    let is_end = |kind: &String| *kind == EventKind::Exit || *kind == EventKind::OomKill;
    let is_beginning = |kind: &String| *kind == EventKind::Start || *kind == EventKind::Restart;
    let decides = events
        .iter()
        .rev()
        .find(|event| is_end(&event.kind) || is_beginning(&event.kind));
    Progress {
        was_followed: !recording.processes().unwrap().is_empty(),
        process_has_ended: decides.is_some_and(|event| is_end(&event.kind)),
        first_transaction_unix_ns: executed.min(),
        newest_slot: slots.max(),
        has_reached_tip: ticks
            .iter()
            .any(|tick| tick.phase.as_deref() == Some("at_tip")),
        last_tick: ticks.last().cloned(),
    }
}

/// The arrival of the newest push, from all rows of the recording.
fn last_push(recording: &Recording) -> Option<Duration> {
    let message = recording
        .columns(PerTickTable::Daemon, &["last_push_timestamp_seconds"])
        .unwrap();
    let message = message.values[0]
        .last()
        .copied()
        .flatten()
        .map(Duration::from_secs_f64);
    let points = (recording
        .cost_tracker_points()
        .unwrap()
        .into_iter()
        .map(|point| point.received))
    .chain(
        recording
            .replay_slot_points()
            .unwrap()
            .into_iter()
            .map(|point| point.received),
    )
    .chain(
        recording
            .set_root_points()
            .unwrap()
            .into_iter()
            .map(|point| point.received),
    )
    .chain(
        recording
            .program_cache_points()
            .unwrap()
            .into_iter()
            .map(|point| point.received),
    );
    points.max().max(message)
}

#[test]
fn the_last_push_is_the_newest_in_ticks_or_points() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut synthetic = SyntheticRun::new(arm(60));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    assert_eq!(Recording::open(&path).unwrap().last_push().unwrap(), None);
    let mut seen = Vec::new();
    while let Some(next) = synthetic.next() {
        write(&mut writer, &next).unwrap();
        writer.commit().unwrap();
        let recording = Recording::open(&path).unwrap();
        let (tick, push) = recording.last_push().unwrap().unzip();
        assert_eq!(
            tick,
            recording.ticks().unwrap().pop().filter(|_| push.is_some())
        );
        let close = |(a, b): (Duration, Duration)| a.abs_diff(b) < Duration::from_micros(10);
        let expected = last_push(&recording);
        assert!(
            push.zip(expected).is_some_and(close) || push == expected,
            "{push:?}, expected {expected:?}"
        );
        seen.extend(push);
    }
    seen.dedup();
    assert!(seen.len() > 3, "{seen:?}");
    // A session without pushes has no last push.
    drop(writer);
    let mut writer = Writer::append(&path, &SyntheticRun::new(arm(60)).header()).unwrap();
    let second = Duration::from_secs(1);
    let tick = Tick {
        number: 1,
        at: Stamp {
            uptime: second,
            unix: second,
        },
        batches: Vec::new(),
    };
    writer.tick(&tick).unwrap();
    writer.commit().unwrap();
    assert_eq!(Recording::open(&path).unwrap().last_push().unwrap(), None);
}

#[test]
fn a_push_with_any_recorded_point_counts_after_the_last_tick() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &SyntheticRun::new(arm(60)).header()).unwrap();
    let tick = Tick {
        number: 1,
        at: Stamp::default(),
        batches: Vec::new(),
    };
    writer.tick(&tick).unwrap();
    let received = Duration::from_secs(5);
    let point = CacheTimesPoint {
        received,
        ..CacheTimesPoint::default()
    };
    writer.point(&Point::CacheTimes(point)).unwrap();
    writer.commit().unwrap();
    let last_push = Recording::open(&path).unwrap().last_push().unwrap();
    assert_eq!(last_push.map(|(_, push)| push), Some(received));
}

#[test]
fn progress_always_equals_a_scan_of_all_rows() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut synthetic = SyntheticRun::new(Arm {
        killed_at: Some(400),
        ..arm(600)
    });
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let (mut second, mut message) = (0, Vec::new());
    while let Some(next) = synthetic.next() {
        write(&mut writer, &next).unwrap();
        writer.commit().unwrap();
        second += 1;
        if second < 15 || second % 7 == 0 {
            let recording = Recording::open(&path).unwrap();
            let progress = recording.progress().unwrap();
            assert_eq!(progress, expected_progress(&recording), "after {second} s");
            message.push(progress);
        }
    }
    // All of these states occurred during the run.
    let ever = |what: fn(&Progress) -> bool| message.iter().any(what) && !message.iter().all(what);
    let last = message.last().unwrap();
    assert!(last.first_transaction_unix_ns.is_some() && last.newest_slot > message[0].newest_slot);
    assert!(ever(|progress| progress.has_reached_tip));
}

#[test]
fn counters_of_a_new_synthetic_process_begin_at_zero() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let killed_at = Some(10);
    crate::made_up::finished(
        &path,
        Arm {
            killed_at,
            ..arm(20)
        },
    );
    let recording = Recording::open(&path).unwrap();
    let names = ["io_read_bytes", "resident_anon_bytes"];
    let columns = recording.columns(PerTickTable::Process, &names).unwrap();
    let at = |column: usize, second: usize| columns.values[column][second].unwrap();
    assert!(at(0, 9) > 4e11 && at(0, 10) < 1e9);
    let ratio = at(1, 10) / at(1, 9);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}
