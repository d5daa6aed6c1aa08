//! How far a run has come, against what all of its rows say.

use crate::made_up::{arm, day::Arm, day::Day, write};
use faultline_recording::{EventKind, Progress, Recording, Table, Writer};

/// The same from everything that is in the recording.
fn witness(recording: &Recording) -> Progress {
    let banks = recording.cost_tracker_points().unwrap();
    let replayed = recording.replay_slot_points().unwrap();
    let executed = banks.iter().filter(|bank| bank.transaction_count > Some(0)).map(|bank| bank.time_unix_ns);
    let processed = recording.columns(Table::Validator, &["slot_processed"]).unwrap();
    let slots = (banks.iter().filter_map(|bank| bank.bank_slot))
        .chain(replayed.iter().filter_map(|slot| slot.slot))
        .chain(recording.program_cache_points().unwrap().into_iter().filter_map(|point| point.slot))
        .chain(processed.values[0].iter().flatten().map(|slot| *slot as u64));
    let ticks = recording.ticks().unwrap();
    let events = recording.events().unwrap();
    let is_end = |kind| matches!(kind, EventKind::Exit | EventKind::OomKill);
    let is_beginning = |kind| matches!(kind, EventKind::Start | EventKind::Restart);
    let decides = events.iter().rev().find(|event| is_end(event.kind) || is_beginning(event.kind));
    Progress {
        process: !recording.processes().unwrap().is_empty(),
        ended: decides.is_some_and(|event| is_end(event.kind)),
        first_transaction_unix_ns: executed.min(),
        newest_slot: slots.max(),
        at_tip: ticks.iter().any(|tick| tick.phase.as_deref() == Some("at_tip")),
        last_tick: ticks.last().cloned(),
    }
}

#[test]
fn progress_says_at_every_moment_what_all_rows_say() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut day = Day::new(Arm { killed_at: Some(400), ..arm(600) });
    let mut writer = Writer::create(&path, &day.opening()).unwrap();
    let (mut second, mut told) = (0, Vec::new());
    while let Some(next) = day.next() {
        write(&mut writer, &next).unwrap();
        writer.commit().unwrap();
        second += 1;
        if second < 15 || second % 7 == 0 {
            let recording = Recording::open(&path).unwrap();
            let progress = recording.progress().unwrap();
            assert_eq!(progress, witness(&recording), "after {second} s");
            told.push(progress);
        }
    }
    // All of it happened on the way.
    let ever = |what: fn(&Progress) -> bool| told.iter().any(what) && !told.iter().all(what);
    let last = told.last().unwrap();
    assert!(last.first_transaction_unix_ns.is_some() && last.newest_slot > told[0].newest_slot);
    assert!(ever(|progress| progress.at_tip));
}
