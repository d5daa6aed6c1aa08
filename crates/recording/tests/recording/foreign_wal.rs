//! Refusals leave a recording and the WAL next to it as they are.

use crate::{
    cuts::left_by_a_kill,
    made_up::{arm, assert_is_a_beginning, finished, synthetic_run::SyntheticRun},
};
use faultline_recording::{Recording, Writer};
use std::{fs, path::Path};

/// Both files, byte by byte.
type Files = [Vec<u8>; 2];

fn write_files(path: &Path, files: &Files) {
    fs::write(path, &files[0]).unwrap();
    fs::write(format!("{}-wal", path.display()), &files[1]).unwrap();
}

fn read_files(path: &Path) -> Files {
    [path.to_owned(), format!("{}-wal", path.display()).into()].map(|file| fs::read(file).unwrap())
}

/// Fails unless reading and writing refuse the files with all of `words`, and change neither.
fn assert_refused(path: &Path, files: &Files, words: &[&str]) {
    write_files(path, files);
    let errors = [
        Recording::open(path).map(drop).unwrap_err(),
        Writer::append(path, &SyntheticRun::new(arm(1)).header())
            .map(drop)
            .unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    }
    assert!(read_files(path) == *files, "a file was changed");
}

#[test]
fn a_wal_next_to_a_finished_recording_is_refused_and_nothing_changed() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("new.db");
    finished(&path, arm(46));
    let whole = fs::read(&path).unwrap();
    for seconds in [6, 60] {
        let other = crate::made_up::folder();
        let (_, wal, _) = left_by_a_kill(other.path(), seconds);
        let (link, shown) = (
            folder.path().join("link.db"),
            format!("{}-wal", path.display()),
        );
        let words = [
            &shown,
            "does not belong to this finished recording",
            "move it away",
        ];
        assert_refused(&path, &[whole.clone(), wal], &words);
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(
            Recording::open(&link).is_err(),
            "SQLite follows the link to the WAL"
        );
        fs::remove_file(link).unwrap();
    }
    fs::remove_file(folder.path().join("new.db-wal")).unwrap();
    assert_eq!(
        assert_is_a_beginning(&Recording::open(&path).unwrap(), &arm(46)),
        46
    );
}

#[test]
fn an_empty_file_next_to_a_wal_is_refused_and_nothing_changed() {
    let folder = crate::made_up::folder();
    let other = crate::made_up::folder();
    let (_, wal, _) = left_by_a_kill(other.path(), 6);
    let path = folder.path().join("empty.db");
    let words = [
        "empty.db-wal: ",
        "the file next to it is empty",
        "move it away",
    ];
    assert_refused(&path, &[Vec::new(), wal], &words);
}

#[test]
fn a_refusal_changes_no_byte_of_a_killed_recording() {
    let folder = crate::made_up::folder();
    let other = crate::made_up::folder();
    let (database, wal, _) = left_by_a_kill(other.path(), 6);
    let path = folder.path().join("killed.db");
    let files = [database, wal];
    write_files(&path, &files);
    let mut other_labels = SyntheticRun::new(arm(1)).header();
    other_labels.labels = vec![("arm".into(), "1024".into())];
    let error = Writer::append(&path, &other_labels).unwrap_err();
    assert!(
        error.to_string().contains("was recorded with the labels"),
        "{error}"
    );
    assert!(read_files(&path) == files, "a file was changed");
    let writer = Writer::append(&path, &SyntheticRun::new(arm(1)).header()).unwrap();
    drop(writer);
    let wal = folder.path().join("killed.db-wal");
    assert!(
        !wal.exists(),
        "a successful open keeps the WAL from being checkpointed"
    );
    let recording = Recording::open(&path).unwrap();
    assert_eq!(assert_is_a_beginning(&recording, &arm(6)), 6);
}

#[test]
fn a_wal_of_another_killed_recording_damages_neither_file() {
    let folder = crate::made_up::folder();
    let [long, short] = [60, 6].map(|seconds| {
        let other = crate::made_up::folder();
        left_by_a_kill(other.path(), seconds)
    });
    let path = folder.path().join("mixed.db");
    let mut database = long.0;
    // Declares more pages than it has, so that both open it and refuse it.
    database.truncate(database.len() / 2);
    let wal = short.1[..short.2[0] / 2].to_vec();
    assert_refused(&path, &[database, wal], &["mixed.db"]);
}

#[test]
fn what_is_no_file_is_not_replaced_by_a_recording() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = Writer::append(&path, &SyntheticRun::new(arm(1)).header()).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a folder or a device"), "{error}");
    assert!(!path.is_file(), "it was replaced");
}

#[test]
fn a_pipe_next_to_a_wal_is_refused_without_waiting_for_its_writer() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
    fs::write(folder.path().join("pipe-wal"), "x").unwrap();
    let error = Recording::open(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("a folder or a device"), "{error}");
}
