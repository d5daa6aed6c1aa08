//! The flight recorder's ring.

use crate::made_up::{arm, assert_is_a_piece, at, synthetic_run::SyntheticRun, write};
use faultline_metrics::{Batch, Problem, ProblemKind, Reading, Source, Tick, metrics::pools};
use faultline_recording::{Error, NewProcess, PerTickTable, Recording, Writer, backup};
use std::{fs, sync::Arc, time::Duration};

const MINUTE: u64 = 60;

#[test]
fn the_ring_stops_growing_and_keeps_its_last_minutes() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("ring.db");
    let arm = arm(40 * MINUTE);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let mut sizes = Vec::new();
    for second in 1..=40 * MINUTE {
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
        if second % 10 == 0 && second > 5 * MINUTE {
            writer.prune(at(second - 5 * MINUTE).unix).unwrap();
        }
        if second % MINUTE == 0 {
            writer.checkpoint().unwrap();
            let log = fs::metadata(folder.path().join("ring.db-wal"))
                .unwrap()
                .len();
            sizes.push((fs::metadata(&path).unwrap().len(), log));
        }
    }
    let (early, late) = sizes.split_at(8);
    let max_size = early.iter().map(|(size, _)| *size).max().unwrap();
    assert!(
        late.iter().all(|(size, _)| *size <= max_size * 11 / 10),
        "{sizes:?}"
    );
    assert!(sizes.iter().all(|(_, log)| *log < 12 << 20), "{sizes:?}");
    let saved = folder.path().join("saved.db");
    backup(&path, &saved, &[("reason", "oom_kill")], |_, _| ()).unwrap();
    let recording = Recording::open(&saved).unwrap();
    let (first, ticks) = assert_is_a_piece(&recording, &arm);
    assert_eq!(first + ticks as u64 - 1, 40 * MINUTE);
    assert!((290..=312).contains(&ticks), "{ticks}");
    let info = recording.info().unwrap();
    assert!(info.finished && info.wal_bytes == 0);
    assert_eq!(info.meta["reason"], "oom_kill");
    assert_eq!(info.labels, arm.labels);
    assert_eq!(info.sessions[0].manifest["kernel"], "6.8.0-45-generic");
    assert_eq!((info.processes.len(), info.processes[0].pid), (1, 4242));
    // Set only at the first tick, and carried over every prune.
    assert_eq!(recording.problems().unwrap().len(), 1);
    assert_eq!(recording.problems().unwrap()[0].tick, first as i64);
    assert!(
        recording
            .series()
            .unwrap()
            .iter()
            .any(|row| row.metric.starts_with("faultline_source_problems"))
    );
    assert!(info.bytes <= max_size * 11 / 10, "{} bytes", info.bytes);
    // The ring continues.
    write_one(&mut writer, 40 * MINUTE + 1);
}

fn write_one(writer: &mut Writer, second: u64) {
    let tick = Tick {
        number: second,
        at: at(second),
        batches: Vec::new(),
    };
    writer.tick(&tick).unwrap();
    writer.commit().unwrap();
}

#[test]
fn a_saved_copy_never_replaces_a_file() {
    let folder = crate::made_up::folder();
    let ring = folder.path().join("ring.db");
    let _writer = Writer::create(&ring, &SyntheticRun::new(arm(1)).header()).unwrap();
    let there = folder.path().join("there.db");
    fs::write(&there, "precious").unwrap();
    assert!(matches!(
        backup(&ring, &there, &[], |_, _| ()).unwrap_err(),
        Error::Exists { .. }
    ));
    assert_eq!(fs::read_to_string(&there).unwrap(), "precious");
    // Another process may be writing this file.
    let part = folder.path().join("new.db.part");
    fs::write(&part, "half").unwrap();
    backup(&ring, &folder.path().join("new.db"), &[], |_, _| ()).unwrap();
    assert_eq!(fs::read_to_string(&part).unwrap(), "half");
    assert!(
        Recording::open(&folder.path().join("new.db"))
            .unwrap()
            .info()
            .unwrap()
            .finished
    );
}

#[test]
fn a_ring_copy_contains_only_committed_rows() {
    let folder = crate::made_up::folder();
    let ring = folder.path().join("ring.db");
    let mut writer = Writer::create(&ring, &SyntheticRun::new(arm(1)).header()).unwrap();
    write_one(&mut writer, 1);
    writer
        .tick(&Tick {
            number: 2,
            at: at(2),
            batches: Vec::new(),
        })
        .unwrap();
    backup(&ring, &folder.path().join("saved.db"), &[], |_, _| ()).unwrap();
    writer.commit().unwrap();
    let ticks = |name: &str| {
        Recording::open(&folder.path().join(name))
            .unwrap()
            .ticks()
            .unwrap()
            .len()
    };
    assert_eq!((ticks("saved.db"), ticks("ring.db")), (1, 2));
}

#[test]
fn a_wall_clock_jump_does_not_change_the_ring_size() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("ring.db");
    let mut writer = Writer::create(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    for second in 1..=400u64 {
        // Set back by an hour, then forward by a day.
        let unix = match second {
            0..150 => at(second).unix,
            150..280 => at(second).unix - Duration::from_secs(3600),
            _ => at(second).unix + Duration::from_secs(86_400),
        };
        let mut tick = Tick {
            number: second,
            at: at(second),
            batches: Vec::new(),
        };
        tick.at.unix = unix;
        writer.tick(&tick).unwrap();
        writer.commit().unwrap();
        writer.prune(unix - Duration::from_secs(60)).unwrap();
        let numbers: Vec<u64> = Recording::open(&path)
            .unwrap()
            .ticks()
            .unwrap()
            .iter()
            .map(|t| t.number)
            .collect();
        let expected: Vec<u64> = (second.saturating_sub(60).max(1)..=second).collect();
        assert_eq!(numbers, expected);
    }
}

#[test]
fn an_older_session_leaves_the_ring_tick_by_tick() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("ring.db");
    let mut synthetic = SyntheticRun::new(arm(50));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    drop(writer);
    let header = SyntheticRun::new(arm(1)).header();
    let mut writer = Writer::append(&path, &header).unwrap();
    for second in 60..=200u64 {
        // A new daemon, whose uptime begins at 0.
        let mut tick = Tick {
            number: second - 59,
            at: at(second),
            batches: Vec::new(),
        };
        tick.at.uptime = Duration::from_secs(second - 59);
        writer.tick(&tick).unwrap();
        writer
            .prune(at(second).unix - Duration::from_secs(30))
            .unwrap();
        let recording = Recording::open(&path).unwrap();
        let ticks = recording.ticks().unwrap();
        assert!(
            ticks
                .iter()
                .all(|tick| tick.unix_ns >= (at(second - 31).unix.as_nanos() as i64))
        );
        let sessions: Vec<i64> = recording
            .sessions()
            .unwrap()
            .iter()
            .map(|session| session.id)
            .collect();
        let expected = if second <= 79 { vec![1, 2] } else { vec![2] };
        assert_eq!(sessions, expected, "at {second}");
        assert_eq!(recording.processes().unwrap().len(), expected.len() - 1);
    }
}

#[test]
fn unreferenced_names_are_removed_from_the_ring() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("ring.db");
    let mut writer = Writer::create(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    for second in 1..=300u64 {
        let name: Arc<str> = format!("pool{}", second / 20).into();
        let reading = Reading::integer(
            &pools::PAGE_FAULTS,
            [name.into(), "major".into()],
            second / 40,
        );
        let problems = vec![Problem::new(ProblemKind::Gone, second / 50)];
        let batch = Batch {
            readings: vec![reading],
            problems,
            ..Batch::empty(Source::Threads, at(second))
        };
        writer
            .tick(&Tick {
                number: second,
                at: at(second),
                batches: vec![Arc::new(batch)],
            })
            .unwrap();
        writer.commit().unwrap();
        writer
            .prune(at(second).unix.saturating_sub(Duration::from_secs(60)))
            .unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    let mut pools: Vec<_> = recording
        .pools()
        .unwrap()
        .iter()
        .map(|row| row.pool.to_string())
        .collect();
    pools.dedup();
    assert!(pools.len() < 12, "{pools:?}");
    let names = recording
        .tables()
        .unwrap()
        .into_iter()
        .find(|table| table.name == "pool")
        .unwrap()
        .rows;
    assert!(names <= 5, "{names} names");
    assert!(recording.problems().unwrap().len() <= 3);
    assert!(
        recording
            .columns(PerTickTable::Process, &["threads"])
            .unwrap()
            .ticks
            .is_empty()
    );
}

#[test]
fn the_newest_problems_of_each_source_replace_its_earlier_ones() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("problems.db");
    let mut writer = Writer::create(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    let steps: [(u64, Source, &[&str]); 5] = [
        (1, Source::Process, &["io", "exe"]),
        (2, Source::Cgroup, &["old"]),
        (3, Source::Process, &["all"]),
        (4, Source::Cgroup, &[]),
        (5, Source::Host, &["one", "two"]),
    ];
    for (second, source, texts) in steps {
        let problems = texts
            .iter()
            .map(|text| Problem::new(ProblemKind::Gone, text));
        let batch = Batch {
            problems: problems.collect(),
            ..Batch::empty(source, at(second))
        };
        let batches = vec![Arc::new(batch)];
        let (number, at) = (second, at(second));
        writer
            .tick(&Tick {
                number,
                at,
                batches,
            })
            .unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    let rows = Recording::open(&path).unwrap().problems_at_end().unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.source.as_str(), row.what.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        found,
        [("host", "one"), ("host", "two"), ("process", "all")]
    );
    let mut writer = Writer::append(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    write_one(&mut writer, 1);
    let rows = Recording::open(&path).unwrap().problems_at_end().unwrap();
    assert!(rows.is_empty(), "of an earlier session: {rows:?}");
}

#[test]
fn a_process_is_written_after_a_rollback_though_a_pruned_one_had_its_id() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("ring.db");
    let mut writer = Writer::create(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    let process = |pid| NewProcess {
        pid,
        started_unix: None,
        seen: at(1),
        manifest: serde_json::json!({}),
    };
    writer.begin_process(&process(7)).unwrap();
    write_one(&mut writer, 1);
    writer.end_process();
    write_one(&mut writer, 2);
    writer.prune(at(2).unix).unwrap();
    writer.begin_process(&process(8)).unwrap();
    writer.rollback();
    write_one(&mut writer, 3);
    let recording = Recording::open(&path).unwrap();
    let processes = recording.processes().unwrap();
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [8]);
    assert_eq!(recording.ticks().unwrap()[1].process, Some(processes[0].id));
}
