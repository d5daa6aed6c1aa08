//! Readers during writes, and files that they refuse.

use crate::made_up::{arm, assert_is_a_beginning, finished, synthetic_run::SyntheticRun, write};
use faultline_recording::{Error, PerTickTable, Recording, Writer, backup};
use std::{
    fs, mem,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A small file system of its own; needs root.
pub struct Mount(tempfile::TempDir);

impl Mount {
    /// `None`, with a message, if it cannot be mounted.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(folder.path())
            .output();
        if made.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("SKIPPED: a file system cannot be mounted here; that takes root");
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn forbid_writing(&self) {
        let done = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(self.path())
            .status()
            .unwrap();
        assert!(done.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Copies files into a read-only folder and calls `look` with it.
fn in_a_read_only_folder(files: &[PathBuf], look: impl FnOnce(&Path)) {
    let fill = |folder: &Path| {
        for file in files {
            fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
        }
    };
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Root can write anywhere except in a read-only file system.
        let Some(disk) = Mount::of_bytes(64 << 20) else {
            return;
        };
        fill(disk.path());
        disk.forbid_writing();
        look(disk.path());
        return;
    }
    let folder = crate::made_up::folder();
    fill(folder.path());
    let allow =
        |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    look(folder.path());
    allow(0o755);
}

#[test]
fn each_reader_sees_a_consistent_snapshot() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let arm = arm(40);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let mut step = |writer: &mut Writer| {
        write(writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
    };
    (0..10).for_each(|_| step(&mut writer));
    let early = Recording::open(&path).unwrap();
    (0..10).for_each(|_| step(&mut writer));
    writer.checkpoint().unwrap();
    let late = Recording::open(&path).unwrap();
    assert_eq!(assert_is_a_beginning(&early, &arm), 10);
    assert_eq!(assert_is_a_beginning(&late, &arm), 20);
    assert!(!late.info().unwrap().finished);
}

#[test]
fn readers_that_come_and_go_leave_the_log_bounded() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let log = folder.path().join("run.db-wal");
    let mut synthetic = SyntheticRun::new(arm(1200));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let (over, read) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut longest = 0;
    let mut written = 0;
    std::thread::scope(|scope| {
        // Two readers, so that almost always one is open.
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let recording = Recording::open(&path).unwrap();
                    assert!(recording.ticks().unwrap().len() <= 1200);
                    recording
                        .columns(PerTickTable::Process, &["major_faults"])
                        .unwrap();
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while let Some(second) = synthetic.next() {
            write(&mut writer, &second).unwrap();
            let before = fs::metadata(&log).map_or(0, |meta| meta.len());
            writer.commit().unwrap();
            let after = fs::metadata(&log).unwrap().len();
            written += after.saturating_sub(before);
            longest = longest.max(after);
            if second.tick.is_some_and(|tick| tick.number % 60 == 0) {
                writer.checkpoint().unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(read.into_inner() > 20, "too few readers");
    assert!(longest < 32 << 20, "the log grew to {longest} bytes");
    writer.finish(synthetic.ended()).unwrap();
    assert!(!log.exists());
    eprintln!("longest log: {longest} bytes of {written} written");
}

#[test]
fn an_open_reader_does_not_block_the_writer_except_finishing_one_file() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let arm = arm(300);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let reader = Recording::open(&path).unwrap();
    while let Some(second) = synthetic.next() {
        write(&mut writer, &second).unwrap();
        writer.commit().unwrap();
        writer.checkpoint().unwrap();
    }
    let error = writer.finish(synthetic.ended()).unwrap_err();
    assert!(matches!(error, Error::BeingRead { .. }), "{error}");
    assert_eq!(reader.ticks().unwrap(), []);
    drop(reader);
    let after = Recording::open(&path).unwrap();
    assert_eq!(assert_is_a_beginning(&after, &arm), 300);
    assert!(after.info().unwrap().finished);
}

#[test]
fn a_copy_of_a_live_recording_is_a_finished_snapshot() {
    let folder = crate::made_up::folder();
    let (path, copy) = (folder.path().join("run.db"), folder.path().join("copy.db"));
    let arm = arm(400);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    for _ in 0..300 {
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
    }
    writer.checkpoint().unwrap();
    let mut steps = Vec::new();
    backup(&path, &copy, &[], |done, of| {
        steps.push((done, of));
        // The writer continues between two steps, and the copy does not restart.
        write(&mut writer, &synthetic.next().unwrap()).unwrap();
        writer.commit().unwrap();
    })
    .unwrap();
    assert!(
        steps.len() > 1
            && steps
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1),
        "{steps:?}"
    );
    let copied = Recording::open(&copy).unwrap();
    assert_eq!(assert_is_a_beginning(&copied, &arm), 300);
    let info = copied.info().unwrap();
    assert!(info.finished && info.wal_bytes == 0);
    let last = info.last_tick.unwrap();
    assert_eq!(
        info.sessions[0].ended.unwrap().as_nanos() as i64,
        last.unix_ns
    );
    let names = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        names
            .into_iter()
            .all(|name| name == "copy.db" || name.starts_with("run.db"))
    );
    assert!(matches!(
        backup(&path, &copy, &[], |_, _| ()).unwrap_err(),
        Error::Exists { .. }
    ));
}

#[test]
fn any_recording_is_readable_in_a_read_only_folder() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    let arm = arm(50);
    finished(&path("finished.db"), arm.clone());
    // Without `finish`: the log is in the database, whose header still declares a log.
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path("dropped.db"), &synthetic.header()).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    drop(writer);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path("killed.db"), &synthetic.header()).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    mem::forget(writer);
    fs::copy(path("killed.db"), path("moved.db")).unwrap();
    fs::copy(path("killed.db-wal"), path("moved.db-wal")).unwrap();
    let files = [
        "finished.db",
        "dropped.db",
        "killed.db",
        "killed.db-wal",
        "killed.db-shm",
        "moved.db",
        "moved.db-wal",
    ];
    in_a_read_only_folder(&files.map(path), |there| {
        for name in ["finished.db", "dropped.db", "killed.db", "moved.db"] {
            let recording = Recording::open(&there.join(name))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(assert_is_a_beginning(&recording, &arm), 50, "{name}");
        }
        assert_eq!(fs::read_dir(there).unwrap().count(), files.len());
    });
}

#[test]
fn a_non_recording_is_refused_with_the_reason() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "slot,misses\n1,2\n".repeat(500)).unwrap();
    fs::write(path("empty"), "").unwrap();
    let other = rusqlite::Connection::open(path("other.db")).unwrap();
    other
        .execute_batch("CREATE TABLE tick(id); INSERT INTO tick VALUES(1)")
        .unwrap();
    drop(other);
    finished(&path("newer.db"), arm(3));
    let newer = rusqlite::Connection::open(path("newer.db")).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    drop(newer);
    let words = |name: &str| Recording::open(&path(name)).unwrap_err().to_string();
    assert!(
        words("text").contains("not a recording of faultlined")
            && words("text").ends_with("; name another file, or copy the recording again"),
        "{}",
        words("text")
    );
    assert!(
        words("other.db").contains("another program's SQLite database"),
        "{}",
        words("other.db")
    );
    assert!(
        words("newer.db")
            .contains("format 2, and this version reads up to format 1; use a newer faultline")
    );
    assert!(
        words("empty").contains("nothing was recorded"),
        "{}",
        words("empty")
    );
    assert!(
        words("absent").contains("no such file"),
        "{}",
        words("absent")
    );
    assert!(
        words(".").contains("a folder or a device"),
        "{}",
        words(".")
    );
    for name in ["text", "other.db", "newer.db"] {
        let before = fs::read(path(name)).unwrap();
        assert!(Writer::append(&path(name), &SyntheticRun::new(arm(1)).header()).is_err());
        assert_eq!(fs::read(path(name)).unwrap(), before, "{name} was changed");
    }
}

#[test]
fn reading_a_recording_changes_nothing() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut synthetic = SyntheticRun::new(arm(20));
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    mem::forget(writer);
    let log = folder.path().join("run.db-wal");
    let before = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    assert_eq!(Recording::open(&path).unwrap().ticks().unwrap().len(), 20);
    assert!((fs::read(&path).unwrap(), fs::read(&log).unwrap()) == before);
}
