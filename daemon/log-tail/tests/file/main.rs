//! The follower during all kinds of rotation: each line arrives once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod model;
mod probe;

use faultline_agave::log::Progress;
use faultline_log_tail::{CLOSE_QUIET_FILE_AFTER, Follower};
use faultline_metrics::{Problem, ProblemKind, Stamp};
use model::{Model, Step};
use probe::{append, numbered};
use proptest::prelude::*;
use std::{ffi::OsStr, fs, io::Write, os::unix::ffi::OsStrExt, path::Path, time::Duration};
use tempfile::TempDir;

type Rig = model::Rig<TempDir>;

const HOUR: Duration = Duration::from_secs(3600);

impl Rig {
    /// A follower of `log` in a new folder that `prepare` has filled.
    fn over(prepare: impl FnOnce(&Path)) -> Self {
        Self::ahead_over(Duration::ZERO, prepare)
    }

    /// Like `over`. With a clock that is ahead, the files are older than the follower.
    fn ahead_over(ahead: Duration, prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        prepare(&dir.path().join("log"));
        Self::ahead(dir, ahead)
    }

    fn problem(&self) -> Option<Problem> {
        self.tail.status().snapshot().problem
    }

    fn problem_kind(&self) -> Option<ProblemKind> {
        self.problem().map(|problem| problem.kind)
    }
}

fn nothing(_: &Path) {}

#[test]
fn log_lines_before_start_and_a_partial_first_line_are_skipped() {
    let mut rig = Rig::over(|path| {
        fs::write(
            path,
            format!("{}{}", numbered(7), "[2025 INFO x] datapoint: half"),
        )
        .unwrap()
    });
    let mut file = append(&rig.path("log"));
    file.write_all(b" datapoint: numbered value=8i\n").unwrap();
    rig.write(&mut file, 3);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.problem(), None);
    assert!(rig.tail.status().snapshot().up);
}

#[test]
fn a_file_that_appears_later_is_read_from_its_beginning() {
    let mut rig = Rig::over(nothing);
    rig.poll();
    assert_eq!(rig.problem_kind(), Some(ProblemKind::Absent));
    assert!(!rig.tail.status().snapshot().up);
    let mut file = append(&rig.path("log"));
    rig.write(&mut file, 3);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.problem(), None);
    let status = rig.tail.status().snapshot();
    assert_eq!(
        (status.records, status.bytes),
        (3, fs::metadata(rig.path("log")).unwrap().len())
    );
    assert!(status.last_record_at.is_some());
}

#[test]
fn a_log_older_than_the_daemon_appearing_later_is_skipped() {
    let mut rig = Rig::ahead_over(HOUR, nothing);
    fs::write(rig.path("old"), numbered(7)).unwrap();
    std::os::unix::fs::symlink(rig.path("old"), rig.path("log")).unwrap();
    rig.poll();
    rig.write(&mut append(&rig.path("old")), 2);
    rig.poll();
    rig.assert_all_once();
}

#[test]
fn a_log_of_this_run_is_read_whole_after_a_step_of_the_wall_clock() {
    for (at_start, later) in [(Duration::ZERO, HOUR), (HOUR, Duration::ZERO)] {
        let mut rig = Rig::ahead_over(at_start, nothing);
        let mut file = append(&rig.path("log"));
        rig.write(&mut file, 2);
        rig.ahead = later;
        rig.poll();
        rig.assert_all_once();
    }
}

#[test]
fn a_log_line_is_delivered_when_complete() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    let line = numbered(0);
    for byte in line.as_bytes().chunks(7) {
        assert_eq!(rig.probe.count(), 0);
        file.write_all(byte).unwrap();
        rig.poll();
    }
    rig.written = 1;
    rig.assert_all_once();
}

#[test]
fn a_multi_line_string_is_one_datapoint() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    file.write_all(
        b"[2025-03-01T12:00:00Z ERROR solana_metrics::metrics] datapoint: panic message=\"one\n",
    )
    .unwrap();
    rig.poll();
    assert_eq!(rig.probe.count(), 0);
    file.write_all(b"    two\n    three\" program=\"validator\"\n")
        .unwrap();
    rig.poll();
    let seen = rig.probe.seen();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].ends_with("message=\"one\ntwo\nthree\" program=\"validator\""),
        "{seen:?}"
    );
}

#[test]
fn invalid_log_bytes_discard_only_their_own_lines() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    rig.write(&mut file, 2);
    file.write_all(&[0xff, 0, 0xfe, b'\n', 0x80]).unwrap();
    file.write_all(b"\n").unwrap();
    file.write_all(&vec![b'x'; 300_000]).unwrap();
    rig.poll();
    file.write_all(&vec![0; 300_000]).unwrap();
    file.write_all(b"\n").unwrap();
    rig.write(&mut file, 2);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.probe.bad(), 1);
    assert_eq!(rig.tail.status().snapshot().bad_records, 1);
}

#[test]
fn a_rotated_log_is_read_until_idle_and_its_successor_has_data() {
    let mut rig = Rig::over(|path| fs::write(path, "").unwrap());
    let mut old = append(&rig.path("log"));
    rig.write(&mut old, 1);
    rig.poll();
    fs::rename(rig.path("log"), rig.path("log.1")).unwrap();
    let mut new = append(&rig.path("log"));
    rig.poll();
    // A validator that handles SIGUSR1 only some time after its start.
    rig.poll_after(Duration::from_secs(3600));
    rig.write(&mut old, 5);
    rig.poll();
    rig.write(&mut new, 5);
    rig.poll();
    rig.write(&mut old, 1);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.tail.open_file_count(), 2);
    rig.poll_after(CLOSE_QUIET_FILE_AFTER);
    assert_eq!(rig.tail.open_file_count(), 1);
    rig.write(&mut new, 1);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.problem(), None);
}

#[test]
fn a_deleted_log_is_reported_closed_and_reread_when_recreated() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    rig.write(&mut file, 2);
    rig.poll();
    fs::remove_file(rig.path("log")).unwrap();
    rig.poll();
    assert_eq!(rig.problem(), None, "a rotation may be under way");
    rig.write(&mut file, 2);
    rig.poll_after(Duration::from_secs(10));
    assert_eq!(rig.problem_kind(), Some(ProblemKind::Gone));
    rig.poll_after(Duration::from_secs(60));
    assert_eq!(
        rig.tail.open_file_count(),
        0,
        "the space of the deleted file is not freed"
    );
    drop(file);
    let mut file = append(&rig.path("log"));
    rig.write(&mut file, 2);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.problem(), None);
}

#[test]
fn a_truncated_file_is_reread_even_if_regrown_beyond_the_offset() {
    for lines_after in [1, 2, 3, 50] {
        let mut rig = Rig::over(nothing);
        let mut file = append(&rig.path("log"));
        rig.write(&mut file, 2);
        rig.poll();
        file.set_len(0).unwrap();
        rig.write(&mut file, lines_after);
        rig.poll();
        rig.assert_all_once();
    }
}

#[test]
fn a_line_cut_by_log_truncation_is_discarded_not_joined() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    file.write_all(b"[2025-03-01T12:00:00Z INFO  solana_metrics::metrics] datapoint: cut value=1")
        .unwrap();
    rig.poll();
    file.set_len(0).unwrap();
    rig.write(&mut file, 1);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.probe.bad(), 1);
}

#[test]
fn a_closed_rotated_log_that_returns_is_continued_not_reread() {
    let mut rig = Rig::over(nothing);
    let mut old = append(&rig.path("log"));
    rig.write(&mut old, 20);
    rig.poll();
    fs::rename(rig.path("log"), rig.path("log.1")).unwrap();
    let mut new = append(&rig.path("log"));
    rig.write(&mut new, 1);
    rig.poll();
    rig.poll_after(CLOSE_QUIET_FILE_AFTER);
    assert_eq!(rig.tail.open_file_count(), 1);
    fs::rename(rig.path("log.1"), rig.path("log")).unwrap();
    rig.write(&mut old, 1);
    rig.poll();
    rig.assert_all_once();
}

#[test]
fn a_truncated_log_that_is_closed_and_returns_is_read_from_its_beginning() {
    // Both files are older than the daemon.
    let mut rig = Rig::ahead_over(HOUR, |path| fs::write(path, numbered(7)).unwrap());
    let mut old = append(&rig.path("log"));
    old.set_len(0).unwrap();
    rig.poll();
    fs::rename(rig.path("log"), rig.path("log.1")).unwrap();
    let mut new = append(&rig.path("log"));
    rig.poll();
    rig.write(&mut new, 1);
    rig.poll();
    rig.poll_after(CLOSE_QUIET_FILE_AFTER);
    assert_eq!(rig.tail.open_file_count(), 1);
    fs::rename(rig.path("log.1"), rig.path("log")).unwrap();
    rig.write(&mut old, 2);
    rig.poll();
    rig.assert_all_once();
}

#[test]
fn a_copy_renamed_over_the_log_is_continued_not_reread() {
    let mut rig = Rig::over(nothing);
    let mut file = append(&rig.path("log"));
    rig.write(&mut file, 20);
    rig.poll();
    fs::copy(rig.path("log"), rig.path("copy")).unwrap();
    fs::rename(rig.path("copy"), rig.path("log")).unwrap();
    rig.write(&mut append(&rig.path("log")), 1);
    rig.poll();
    rig.assert_all_once();
}

#[test]
fn an_unreadable_file_is_reported_as_forbidden() {
    // This file is write-only even for root.
    let link =
        |path: &Path| std::os::unix::fs::symlink("/proc/sys/vm/compact_memory", path).unwrap();
    let mut rig = Rig::over(link);
    rig.poll();
    let problem = rig.problem().unwrap();
    assert_eq!(problem.kind, ProblemKind::Forbidden);
    assert!(problem.what.contains("log: Permission denied"), "{problem}");
}

#[test]
fn a_path_that_is_not_utf_8_is_escaped_in_every_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"log-\xff\xfe"));
    let (probe, at) = (probe::Probe::default(), Stamp::default());
    let mut tail = Follower::open(&path, probe.records(), at);
    let view = tail.status();
    let problem = || view.snapshot().problem.unwrap().what;
    let mut messages = vec![problem()];
    fs::create_dir(&path).unwrap();
    tail.poll(at);
    messages.push(problem());
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "").unwrap();
    tail.poll(at);
    fs::remove_file(&path).unwrap();
    let minutes = |minutes: u64| Stamp {
        uptime: Duration::from_secs(60 * minutes),
        ..at
    };
    tail.poll(minutes(1));
    tail.poll(minutes(2));
    messages.push(problem());
    view.begin_poll(&path.as_path().into(), at);
    messages.push(
        view.snapshot()
            .poll_timeout_problem(minutes(3))
            .unwrap()
            .what,
    );
    for (message, words) in messages.iter().zip([
        "log-\\xff\\xfe does not exist yet",
        "log-\\xff\\xfe: a directory, not a file",
        "log-\\xff\\xfe no longer exists",
        "log-\\xff\\xfe: its file system does not answer",
    ]) {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_non_regular_log_is_broken_until_replaced_by_a_file() {
    let mut rig = Rig::over(|path| fs::create_dir(path).unwrap());
    rig.poll();
    let problem = rig.problem().unwrap();
    assert_eq!(problem.kind, ProblemKind::Broken);
    assert!(
        problem.what.ends_with("log: a directory, not a file"),
        "{problem}"
    );
    fs::remove_dir(rig.path("log")).unwrap();

    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.path("log"),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    rig.poll();
    assert_eq!(rig.problem_kind(), Some(ProblemKind::Broken));
    fs::remove_file(rig.path("log")).unwrap();

    rig.write(&mut append(&rig.path("log")), 2);
    rig.poll();
    rig.assert_all_once();
    assert_eq!(rig.problem(), None);
}

#[test]
fn a_log_missing_again_after_another_problem_gets_a_new_grace_period() {
    let mut rig = Rig::over(|path| fs::write(path, "").unwrap());
    fs::remove_file(rig.path("log")).unwrap();
    rig.poll();
    fs::create_dir(rig.path("log")).unwrap();
    rig.poll();
    assert_eq!(rig.problem_kind(), Some(ProblemKind::Broken));
    fs::remove_dir(rig.path("log")).unwrap();
    rig.poll_after(Duration::from_secs(60));
    assert_eq!(rig.problem(), None);
}

#[test]
fn the_startup_step_in_the_log_is_reported() {
    let mut rig = Rig::over(nothing);
    assert_eq!(rig.tail.status().snapshot().last_step, None);
    let text =
        "[2025-03-01T12:00:00Z INFO  solana_runtime::x] processing ledger: slot=77, root slot=3\n";
    append(&rig.path("log")).write_all(text.as_bytes()).unwrap();
    rig.poll();
    assert_eq!(
        rig.tail.status().snapshot().last_step.unwrap().progress,
        Progress::Replaying
    );
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..40).prop_map(Step::Lines),
        1 => Just(Step::Half),
        3 => any::<bool>().prop_map(|create| Step::Rename { create }),
        3 => Just(Step::Reopen),
        1 => Just(Step::Delete),
        2 => Just(Step::CopyTruncate),
        2 => Just(Step::Look),
        1 => (1_u64..20).prop_map(Step::Wait),
    ]
}

/// Fewer cases than by default, because each one needs files. `PROPTEST_CASES` sets another number.
fn cases() -> ProptestConfig {
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: if is_set { usual.cases } else { 100 },
        ..usual
    }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn every_log_line_is_delivered_once_for_any_rotation_order(
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut model = Model::new(tempfile::tempdir().unwrap());
        for step in &steps {
            model.take(step);
        }
        model.check();
    }
}
