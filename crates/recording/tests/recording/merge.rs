//! Merges of a run in two recordings.

use crate::made_up::{arm, at, finished, synthetic_run::SyntheticRun, write};
use faultline_metrics::{Stamp, Tick};
use faultline_recording::{
    Error, EventKind, MergeSummary, NewProcess, PerTickTable, Recording, Writer, backup, merge,
};
use std::{fs, path::Path, time::Duration};

/// One run in two files, as after a kill of the daemon and a restart with another recording.
fn halves(folder: &Path) -> [std::path::PathBuf; 2] {
    let paths = [folder.join("first.db"), folder.join("second.db")];
    let mut synthetic = SyntheticRun::new(arm(120));
    let mut header = synthetic.header();
    let mut writer = Writer::create(&paths[0], &header).unwrap();
    for _ in 0..60 {
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
    }
    std::mem::forget(writer);
    // Eight seconds are missing.
    let missing: Vec<_> = (0..8).map_while(|_| synthetic.next()).collect();
    assert_eq!(missing.len(), 8);
    header.session.started = at(68);
    let mut writer = Writer::create(&paths[1], &header).unwrap();
    let manifest = serde_json::json!({"version": "2.1.14"});
    writer
        .begin_process(&NewProcess {
            pid: 4242,
            started_unix: None,
            seen: at(68),
            manifest,
        })
        .unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    writer.finish(at(121)).unwrap();
    paths
}

fn merged(folder: &Path) -> (MergeSummary, Recording) {
    let [first, second] = halves(folder);
    let joined = folder.join("joined.db");
    // In any order.
    let message = merge(&[second, first], &joined).unwrap();
    (message, Recording::open(&joined).unwrap())
}

#[test]
fn a_run_cut_in_two_is_one_after_merging() {
    let folder = crate::made_up::folder();
    let (message, all) = merged(folder.path());
    assert_eq!((message.sessions, message.ticks), (2, 112));
    assert_eq!(
        message
            .gaps
            .iter()
            .map(Duration::as_secs)
            .collect::<Vec<_>>(),
        [8]
    );
    let ticks = all.ticks().unwrap();
    assert_eq!(
        ticks.iter().map(|tick| tick.id).collect::<Vec<_>>(),
        (1..=112).collect::<Vec<_>>()
    );
    let sessions: Vec<i64> = ticks.iter().map(|tick| tick.session).collect();
    assert_eq!(sessions, [[1; 60].as_slice(), &[2; 52]].concat());
    assert!(ticks[..60].iter().all(|tick| tick.process == Some(1)));
    assert!(ticks[60..].iter().all(|tick| tick.process == Some(2)));
    assert!(
        ticks
            .windows(2)
            .all(|pair| pair[0].unix_ns < pair[1].unix_ns)
    );
}

#[test]
fn the_rows_of_both_parts_follow_one_another() {
    let folder = crate::made_up::folder();
    let (_, all) = merged(folder.path());
    let [first, second] =
        ["first.db", "second.db"].map(|name| Recording::open(&folder.path().join(name)).unwrap());
    let faults = |recording: &Recording| {
        recording
            .columns(PerTickTable::Process, &["major_faults"])
            .unwrap()
            .values
            .remove(0)
    };
    assert_eq!(faults(&all), [faults(&first), faults(&second)].concat());
    let pools = |recording: &Recording, offset: i64| -> Vec<_> {
        let rows = recording.pools().unwrap();
        rows.into_iter()
            .map(|row| (row.tick + offset, row.pool.to_string(), row.minor_faults))
            .collect()
    };
    assert_eq!(
        pools(&all, 0),
        [pools(&first, 0), pools(&second, 60)].concat()
    );
    let slots = |recording: &Recording| recording.replay_slot_points().unwrap();
    assert!(slots(&all) == [slots(&first), slots(&second)].concat());
    let series = |recording: &Recording| -> Vec<_> {
        recording
            .series()
            .unwrap()
            .into_iter()
            .map(|row| (row.metric, row.labels, row.value))
            .collect()
    };
    assert!(series(&all) == [series(&first), series(&second)].concat());
}

#[test]
fn a_merged_recording_has_a_gap_and_names_its_parts() {
    let folder = crate::made_up::folder();
    let (_, all) = merged(folder.path());
    let gap = all
        .events()
        .unwrap()
        .into_iter()
        .find(|event| event.kind == EventKind::Gap)
        .unwrap();
    assert_eq!((gap.session, gap.unix, gap.process), (2, at(68).unix, None));
    assert_eq!(
        (
            gap.detail["seconds"].as_f64().unwrap().round(),
            &gap.detail["reason"]
        ),
        (9.0, &"merge".into())
    );
    let info = all.info().unwrap();
    assert!(info.finished);
    assert_eq!(info.labels, arm(1).labels);
    assert_eq!(info.meta["merged_from"], r#"["first.db","second.db"]"#);
    assert_eq!(
        info.sessions[0].ended, None,
        "a daemon that was killed told no end"
    );
}

/// Writes and commits a tick without samples.
fn write_tick(writer: &mut Writer, at: Stamp) {
    let (number, batches) = (1, Vec::new());
    writer
        .tick(&Tick {
            number,
            at,
            batches,
        })
        .unwrap();
    writer.commit().unwrap();
}

#[test]
fn the_gap_is_in_the_first_session_of_a_pruned_recording() {
    let folder = crate::made_up::folder();
    let paths = ["first.db", "second.db"].map(|name| folder.path().join(name));
    let mut header = SyntheticRun::new(arm(1)).header();
    let mut writer = Writer::create(&paths[0], &header).unwrap();
    write_tick(&mut writer, at(1));
    writer.finish(at(2)).unwrap();
    for second in [70, 80] {
        header.session.started = at(second);
        let mut writer = Writer::append(&paths[1], &header).unwrap();
        write_tick(&mut writer, at(second + 1));
        writer.prune(at(second).unix).unwrap();
        writer.finish(at(second + 2)).unwrap();
    }
    let joined = folder.path().join("joined.db");
    merge(&paths, &joined).unwrap();
    let all = Recording::open(&joined).unwrap();
    let (sessions, events) = (all.sessions().unwrap(), all.events().unwrap());
    assert_eq!((sessions.len(), events.len()), (2, 1));
    assert_eq!(events[0].session, sessions[1].id);
}

#[test]
fn a_recording_ends_with_its_last_tick_though_the_clock_was_set_back() {
    let folder = crate::made_up::folder();
    let paths = ["first.db", "second.db"].map(|name| folder.path().join(name));
    let mut header = SyntheticRun::new(arm(1)).header();
    let mut writer = Writer::create(&paths[0], &header).unwrap();
    let mut ahead = at(1);
    ahead.unix += Duration::from_secs(3600);
    write_tick(&mut writer, ahead);
    write_tick(&mut writer, at(2));
    drop(writer);
    let copy = folder.path().join("copy.db");
    backup(&paths[0], &copy, &[], |_, _| ()).unwrap();
    let sessions = Recording::open(&copy).unwrap().sessions().unwrap();
    assert_eq!(sessions[0].ended, Some(at(2).unix));
    header.session.started = at(10);
    let writer = Writer::create(&paths[1], &header).unwrap();
    writer.finish(at(11)).unwrap();
    let merged = merge(&paths, &folder.path().join("joined.db")).unwrap();
    assert_eq!(merged.gaps, [at(10).unix - at(2).unix]);
}

#[test]
fn saves_of_one_session_are_refused_with_advice() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    let mut header = SyntheticRun::new(arm(1)).header();
    let mut writer = Writer::create(&path("ring.db"), &header).unwrap();
    write_tick(&mut writer, at(1));
    backup(&path("ring.db"), &path("first.db"), &[], |_, _| ()).unwrap();
    write_tick(&mut writer, at(60));
    writer.prune(at(50).unix).unwrap();
    backup(&path("ring.db"), &path("second.db"), &[], |_, _| ()).unwrap();
    drop(writer);
    header.session.started = at(70);
    let mut writer = Writer::append(&path("ring.db"), &header).unwrap();
    write_tick(&mut writer, at(71));
    backup(&path("ring.db"), &path("third.db"), &[], |_, _| ()).unwrap();
    for pair in [
        ["first.db", "second.db"],
        ["third.db", "second.db"],
        ["second.db", "third.db"],
    ] {
        let error = merge(&pair.map(path), &path("joined.db")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("at most one save of each session of the flight recorder"),
            "{text}"
        );
    }
}

#[test]
fn recordings_without_a_common_run_are_not_merged() {
    let folder = crate::made_up::folder();
    let [first, second] = halves(folder.path());
    let joined = folder.path().join("joined.db");
    let mut other = arm(5);
    other.labels[0].1 = "1024".into();
    let elsewhere = folder.path().join("other.db");
    finished(&elsewhere, other);
    let words = |from: &[&Path]| {
        let from: Vec<_> = from.iter().map(|path| path.to_path_buf()).collect();
        merge(&from, &joined).unwrap_err().to_string()
    };
    assert!(
        words(&[&first]).contains("two recordings or more"),
        "{}",
        words(&[&first])
    );
    assert!(
        words(&[&first, &first]).contains("it is given twice"),
        "{}",
        words(&[&first, &first])
    );
    assert!(
        words(&[&elsewhere, &second]).contains("give recordings of one run, with equal labels"),
        "{}",
        words(&[&elsewhere, &second])
    );
    assert!(words(&[&first, &folder.path().join("absent.db")]).contains("no such file"));
    let nowhere = folder.path().join("absent/joined.db");
    let error = merge(&[first.clone(), second.clone()], &nowhere).unwrap_err();
    assert!(
        matches!(&error, Error::Missing { path } if *path == nowhere),
        "{error}"
    );
    assert!(!joined.exists());
    fs::write(&joined, "precious").unwrap();
    assert!(matches!(
        merge(&[first, second], &joined).unwrap_err(),
        Error::Exists { .. }
    ));
    assert_eq!(fs::read_to_string(&joined).unwrap(), "precious");
}
