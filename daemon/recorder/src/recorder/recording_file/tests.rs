use super::*;
use crate::manifest::ProcessManifest;
use faultline_metrics::{Batch, Reading, Source, Tick, metrics};
use faultline_recording::{NewSession, Recording};
use rusqlite::Connection;
use std::fs;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(1_795_000_000 + seconds),
    }
}

fn header(arm: &str) -> NewRecording {
    let session = NewSession {
        started: at(0),
        interval: Duration::from_secs(1),
        version: "0.0.0".to_owned(),
        manifest: json!({}),
    };
    NewRecording {
        labels: vec![("arm".to_owned(), arm.to_owned())],
        session,
    }
}

fn tick(number: u64) -> RecordingEntry {
    let readings = vec![Reading::integer(&metrics::daemon::TICKS, [], number)];
    let batch = Batch {
        readings,
        up: true,
        ..Batch::empty(Source::Daemon, at(number))
    };
    RecordingEntry::Tick(Arc::new(Tick {
        number,
        at: at(number),
        batches: vec![Arc::new(batch)],
    }))
}

fn no_process() -> RecordingEntry {
    RecordingEntry::ProcessChange(None)
}

fn file(path: &Path) -> (Box<RecordingFile>, Arc<RecorderStatus>) {
    let status = RecorderStatus::new("record");
    (
        Box::new(RecordingFile::open(path, &header("A"), Arc::clone(&status)).unwrap()),
        status,
    )
}

fn kinds(path: &Path) -> Vec<(String, String)> {
    let events = Recording::open(path).unwrap().events().unwrap();
    events
        .into_iter()
        .map(|event| (event.kind, event.detail.to_string()))
        .collect()
}

#[test]
fn accepted_messages_are_written_and_finishing_leaves_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[no_process(), tick(1), tick(2)], at(2));
    let (rows, dropped) = status.counts();
    assert!(rows >= 2 && dropped == 0, "{rows} rows, {dropped} dropped");
    assert_eq!(Recording::open(&path).unwrap().ticks().unwrap().len(), 2);
    file.finish(at(3));
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["run.fltl"]);
    let words: Vec<String> = kinds(&path).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(words, ["daemon_start", "daemon_stop"]);
}

#[test]
fn a_restart_appends_to_the_file_but_other_labels_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    for _ in 0..2 {
        let (mut file, _) = file(&path);
        file.write_entries(&[tick(1)], at(1));
        file.finish(at(2));
    }
    assert_eq!(Recording::open(&path).unwrap().sessions().unwrap().len(), 2);
    let refused = RecordingFile::open(&path, &header("B"), RecorderStatus::new("record"))
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.contains("arm=A") && refused.contains("arm=B"),
        "{refused}"
    );
}

#[test]
fn writing_is_retried_and_the_recording_notes_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[tick(1)], at(1));
    let written = status.counts().0;

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    file.write_entries(&[tick(2), tick(3)], at(3));
    assert_eq!(status.counts(), (written, 2), "the first failure");
    assert!(
        status
            .problem()
            .is_some_and(|problem| problem.what.contains("run.fltl")),
        "{:?}",
        status.problem()
    );
    file.write_entries(&[tick(4)], at(3));
    assert_eq!(status.counts(), (written, 3), "a pause");
    other.execute_batch("ROLLBACK").unwrap();

    file.write_entries(&[tick(5)], at(20));
    assert_eq!((status.problem(), status.counts().1), (None, 3));
    let ticks = Recording::open(&path).unwrap().ticks().unwrap();
    assert_eq!(
        ticks.iter().map(|tick| tick.number).collect::<Vec<_>>(),
        [1, 5]
    );
    let gap = kinds(&path).pop().unwrap();
    assert_eq!(gap.0, "gap");
    assert!(
        gap.1.contains("\"entries\":3") && gap.1.contains("\"seconds\":17.0"),
        "{}",
        gap.1
    );
}

#[test]
fn write_retry_delays_grow_to_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, _) = file(&folder.path().join("run.fltl"));
    let full = Error::Full {
        path: "run.fltl".into(),
    };
    let pauses: Vec<u64> = (1..=6)
        .map(|_| {
            file.record_failure(&full, at(100));
            file.failure.as_ref().unwrap().retry_delay.as_secs()
        })
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    assert_eq!(
        file.failure.as_ref().map(|failure| failure.since),
        Some(at(100))
    );
}

/// Blocks all other writers until it is dropped.
fn blocking_writer(path: &Path) -> Connection {
    let other = Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn event(second: u64, kind: EventKind) -> RecordingEntry {
    RecordingEntry::event(at(second), kind, json!({}))
}

fn process(pid: u32) -> RecordingEntry {
    let target = faultline_sources::discovery::Target {
        process: faultline_kernel::ProcessId {
            pid,
            start_ticks: 1,
        },
        comm: "v".to_owned(),
        exe: None,
        validator: None,
        ledger: None,
        found_by: "pid",
    };
    let (target, manifest) = (Arc::new(target), json!({ "pid": pid }));
    RecordingEntry::ProcessChange(Some(Arc::new(FollowedProcess {
        target,
        started_unix: None,
        first_seen: at(1),
        manifest,
    })))
}

/// `(uptime, kind of event or number of tick, pid of its process)` of each.
fn events_and_ticks(path: &Path) -> Vec<(u64, String, Option<u32>)> {
    let recording = Recording::open(path).unwrap();
    let processes = recording.processes().unwrap();
    let pid = |id: Option<i64>| {
        id.and_then(|id| processes.iter().find(|one| one.id == id))
            .map(|one| one.pid)
    };
    let events = recording.events().unwrap();
    let events = events.iter().map(|event| {
        (
            event.uptime.as_secs(),
            event.kind.clone(),
            pid(event.process),
        )
    });
    let ticks = recording.ticks().unwrap();
    let second = |ns: i64| u64::try_from(ns).unwrap() / 1_000_000_000;
    let ticks = ticks.iter().map(|tick| {
        (
            second(tick.uptime_ns),
            tick.number.to_string(),
            pid(tick.process),
        )
    });
    events.chain(ticks).collect()
}

#[test]
fn events_during_write_failures_are_recorded_later_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[process(7), event(1, EventKind::Start), tick(1)], at(1));
    let other = blocking_writer(&path);
    // The first write fails, the second comes in the pause, and the third fails again.
    file.write_entries(&[event(2, EventKind::Exit), no_process(), tick(2)], at(2));
    file.write_entries(&[event(3, EventKind::Phase), tick(3)], at(2));
    file.write_entries(&[process(8), event(4, EventKind::Start), tick(4)], at(4));
    assert_eq!(status.counts().1, 3, "the ticks are lost");
    drop(other);
    file.write_entries(&[event(20, EventKind::Mark), tick(20)], at(20));
    file.write_entries(
        &[event(21, EventKind::OomKill), no_process(), tick(21)],
        at(21),
    );
    let expected = [
        (0, "daemon_start", None),
        (1, "start", Some(7)),
        (2, "exit", Some(7)),
        (3, "phase", None),
        (4, "start", Some(8)),
        (20, "mark", Some(8)),
        (20, "gap", Some(8)),
        (21, "oom_kill", Some(8)),
        (1, "1", Some(7)),
        (20, "20", Some(8)),
        (21, "21", None),
    ];
    assert_eq!(
        events_and_ticks(&path),
        expected.map(|(at, what, pid)| (at, what.to_owned(), pid))
    );
    let pids: Vec<u32> = Recording::open(&path)
        .unwrap()
        .processes()
        .unwrap()
        .iter()
        .map(|one| one.pid)
        .collect();
    assert_eq!(pids, [7, 8], "each process once");
}

#[test]
fn dropped_events_are_counted_and_later_ones_keep_their_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[process(7), tick(1)], at(1));
    let other = blocking_writer(&path);
    file.write_entries(
        &(0..300)
            .map(|_| event(2, EventKind::Mark))
            .collect::<Vec<_>>(),
        at(2),
    );
    file.write_entries(
        &[
            no_process(),
            process(9),
            event(3, EventKind::Start),
            tick(3),
        ],
        at(2),
    );
    assert_eq!(status.counts().1, 300 - 256 + 2);
    drop(other);
    file.write_entries(&[tick(20)], at(20));
    let entries = events_and_ticks(&path);
    assert_eq!(
        entries
            .iter()
            .filter(|(_, what, pid)| what == "mark" && *pid == Some(7))
            .count(),
        256
    );
    assert!(
        !entries.iter().any(|(_, what, _)| what == "start"),
        "it was lost"
    );
    assert!(
        entries.contains(&(20, "20".to_owned(), Some(9))),
        "{:?}",
        entries.last()
    );
    let gap = kinds(&path).pop().unwrap().1;
    assert!(gap.contains("\"entries\":46"), "{gap}");
}

fn displace(how: &str, path: &Path, aside: &Path) {
    match how {
        "moved" => fs::rename(path, aside).unwrap(),
        "removed" => fs::remove_file(path).unwrap(),
        _ => {
            let (mut other, _) = self::file(aside);
            other.write_entries(&[tick(1)], at(1));
            other.finish(at(1));
            fs::rename(aside, path).unwrap();
        }
    }
}

fn the_new_file_has_the_gap(how: &str, path: &Path) {
    let events: Vec<(u64, String, Option<u32>)> = events_and_ticks(path)
        .into_iter()
        .filter(|(second, ..)| *second > 1)
        .collect();
    let expected = [(2, "mark"), (2, "gap"), (2, "2"), (3, "3"), (63, "63")];
    assert_eq!(
        events,
        expected.map(|(second, what)| (second, what.to_owned(), Some(7))),
        "{how}"
    );
    let gap = kinds(path)
        .into_iter()
        .find(|(kind, _)| kind == "gap")
        .unwrap()
        .1;
    assert!(
        gap.contains("run.fltl was re") && gap.contains("\"seconds\":1.0"),
        "{how}: {gap}"
    );
}

#[test]
fn a_moved_deleted_or_replaced_recording_is_reported_and_restarted() {
    for how in ["moved", "removed", "replaced"] {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (
            folder.path().join("run.fltl"),
            folder.path().join("aside.fltl"),
        );
        let (mut file, status) = file(&path);
        file.write_entries(&[process(7), tick(1)], at(1));
        displace(how, &path, &aside);
        file.write_entries(&[event(2, EventKind::Mark), tick(2)], at(2));
        assert_eq!(
            status.problem().map(|problem| problem.kind),
            Some(ProblemKind::Gone),
            "{how}"
        );
        file.write_entries(&[tick(3)], at(3));
        assert!(status.problem().is_some(), "{how}: it is shown for a while");
        file.write_entries(&[tick(63)], at(63));
        assert_eq!((status.problem(), status.counts().1), (None, 0), "{how}");

        the_new_file_has_the_gap(how, &path);
        file.finish(at(64));
        let sessions = Recording::open(&path).unwrap().sessions().unwrap();
        assert_eq!(sessions.len(), if how == "replaced" { 2 } else { 1 });
        if how == "moved" {
            let before = Recording::open(&aside).unwrap();
            assert_eq!(
                (
                    before.ticks().unwrap().len(),
                    before.info().unwrap().finished
                ),
                (1, true)
            );
        }
    }
}

fn numbers(path: &Path) -> Vec<u64> {
    let ticks = Recording::open(path).unwrap().ticks().unwrap();
    ticks.iter().map(|tick| tick.number).collect()
}

/// Moves the sides with the recording while another connection reads it, and writes a tick.
fn move_while_it_is_read(folder: &Path, sides: &[&str]) -> (PathBuf, PathBuf) {
    let (path, moved) = (folder.join("run.fltl"), folder.join("old.fltl"));
    let (mut file, status) = file(&path);
    file.write_entries(&[tick(1)], at(1));
    let reader = Connection::open(&path).unwrap();
    let read = "BEGIN; SELECT count(*) FROM tick";
    reader.execute_batch(read).unwrap();
    file.write_entries(&[tick(2)], at(2));
    for side in sides {
        fs::rename(with_suffix(&path, side), with_suffix(&moved, side)).unwrap();
    }
    file.write_entries(&[tick(3)], at(3));
    assert_eq!(status.counts().1, 0);
    let count = reader.query_row("SELECT count(*) FROM tick", [], |row| row.get::<_, i64>(0));
    assert_eq!(count, Ok(1), "the reader's snapshot stays");
    drop(reader);
    file.finish(at(4));
    assert_eq!(numbers(&path), [3], "{sides:?}");
    (path, moved)
}

#[test]
fn a_recording_moved_while_it_is_read_keeps_its_end_in_its_wal() {
    for sides in [&[""][..], &["", "-wal", "-shm"]] {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = move_while_it_is_read(folder.path(), sides);
        assert!(!with_suffix(&path, "-wal").exists());
        assert_eq!(numbers(&moved), [1, 2], "{sides:?}");
        let file = file(&moved).0;
        file.finish(at(5));
        assert_eq!(numbers(&moved), [1, 2], "{sides:?}: in one file");
        assert!(!with_suffix(&moved, "-wal").exists(), "{sides:?}");
    }
}

#[test]
fn a_recording_that_is_at_its_path_again_keeps_its_wal_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let wal = with_suffix(&path, "-wal");
    fs::write(&path, "recording").unwrap();
    fs::write(&wal, "log").unwrap();
    let identity = FileIdentity::read(&path);
    let file = fs::File::open(&path).unwrap();
    assert_eq!(identity.preserve_wal(&file, at(1)).unwrap(), wal);
    identity.remove_wal();
    assert!(wal.exists());
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

#[test]
fn the_wal_of_a_moved_recording_overwrites_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("old.fltl-wal");
    fs::write(&foreign, "somebody's notes").unwrap();
    let (path, moved) = move_while_it_is_read(folder.path(), &[""]);
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "somebody's notes");
    assert!(!with_suffix(&path, "-wal").exists());
    let kept = with_suffix(&path, &format!("-wal.{}", at(3).unix.as_secs()));
    fs::rename(kept, foreign).unwrap();
    assert_eq!(numbers(&moved), [1, 2]);
}

#[test]
fn a_foreign_file_replacing_the_recording_is_untouched_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[process(7), tick(1)], at(1));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "somebody's notes").unwrap();
    file.write_entries(&[event(2, EventKind::Exit), no_process(), tick(2)], at(2));
    assert!(
        status
            .problem()
            .is_some_and(|problem| problem.what.contains("not a recording"))
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's notes");
    fs::remove_file(&path).unwrap();
    file.write_entries(&[tick(20)], at(20));
    assert_eq!(status.problem(), None);
    let expected = [(2, "exit", Some(7)), (20, "gap", None), (20, "20", None)];
    assert_eq!(
        events_and_ticks(&path),
        expected.map(|(at, what, pid)| (at, what.to_owned(), pid))
    );
}

#[test]
fn another_daemons_recording_at_the_path_is_untouched_and_retried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, status) = file(&path);
    file.write_entries(&[tick(1)], at(1));
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(folder.path().join(format!("run.fltl{end}"))).unwrap();
    }
    let (mut other, _) = self::file(&path);
    other.write_entries(&[tick(11)], at(11));
    file.write_entries(&[tick(12)], at(12));
    assert!(
        status
            .problem()
            .is_some_and(|problem| problem.what.contains("another program"))
    );
    let numbers = || {
        Recording::open(&path)
            .unwrap()
            .ticks()
            .unwrap()
            .iter()
            .map(|tick| tick.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(), [11], "its log is still there");
    other.write_entries(&[tick(13)], at(13));
    other.finish(at(13));
    file.write_entries(&[tick(20)], at(20));
    assert_eq!((numbers(), status.counts().1), (vec![11, 13, 20], 1));
}

#[test]
fn a_process_found_while_writing_failed_is_recorded_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, _) = file(&path);
    file.record_failure(&Error::Full { path: path.clone() }, at(1));
    let target = faultline_sources::discovery::Target {
        process: faultline_kernel::ProcessId {
            pid: 7,
            start_ticks: 1,
        },
        comm: "v".to_owned(),
        exe: None,
        validator: None,
        ledger: None,
        found_by: "pid",
    };
    let followed = FollowedProcess {
        target: Arc::new(target),
        started_unix: None,
        first_seen: at(1),
        manifest: json!({}),
    };
    file.write_entries(
        &[
            RecordingEntry::ProcessChange(Some(Arc::new(followed))),
            tick(1),
        ],
        at(1),
    );
    assert_eq!(
        Recording::open(&path).unwrap().processes().unwrap().len(),
        0
    );
    file.write_entries(&[tick(2)], at(9));
    file.write_entries(&[tick(3)], at(10));
    let recording = Recording::open(&path).unwrap();
    assert_eq!(
        recording
            .processes()
            .unwrap()
            .iter()
            .map(|process| process.pid)
            .collect::<Vec<_>>(),
        [7]
    );
    assert!(
        recording
            .ticks()
            .unwrap()
            .iter()
            .all(|tick| tick.process.is_some())
    );
}

#[test]
fn an_exec_replaces_the_process_description_even_after_a_failed_write() {
    let target = |comm: &str| {
        Arc::new(faultline_sources::discovery::Target {
            process: faultline_kernel::ProcessId {
                pid: 7,
                start_ticks: 1,
            },
            comm: comm.to_owned(),
            exe: None,
            validator: None,
            ledger: None,
            found_by: "pid",
        })
    };
    for full in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let (mut file, _) = file(&path);
        let manifest = json!({ "comm": "sh" });
        let followed = FollowedProcess {
            target: target("sh"),
            started_unix: None,
            first_seen: at(1),
            manifest,
        };
        file.write_entries(
            &[
                RecordingEntry::ProcessChange(Some(Arc::new(followed))),
                tick(1),
            ],
            at(1),
        );
        if full {
            file.record_failure(&Error::Full { path: path.clone() }, at(1));
        }
        let described = ProcessManifest {
            target: target("v"),
            manifest: json!({ "comm": "v" }),
        };
        file.write_entries(
            &[RecordingEntry::Manifest(Arc::new(described)), tick(2)],
            at(1),
        );
        file.write_entries(&[tick(3)], at(9));
        let processes = Recording::open(&path).unwrap().processes().unwrap();
        let comms: Vec<_> = processes
            .iter()
            .map(|process| process.manifest["comm"].clone())
            .collect();
        assert_eq!(comms, ["v"], "full: {full}");
    }
}

#[test]
fn a_file_opened_again_after_a_full_disk_has_one_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let (mut file, _) = file(&path);
    // As after an `open` on a full disk.
    file.writer = None;
    fs::remove_file(&path).unwrap();
    file.retain_or_count_lost(&[event(0, EventKind::DaemonStart)]);
    file.record_failure(&Error::Full { path: path.clone() }, at(0));
    file.write_entries(&[event(0, EventKind::Mark), tick(0)], at(0));
    let (opened, _) = self::file(&path);
    file.continue_in(*opened);
    file.write_entries(&[tick(60)], at(60));
    let kinds: Vec<String> = kinds(&path).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["daemon_start", "mark", "gap"]);
}
