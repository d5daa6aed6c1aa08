use super::*;
use crate::tail::probe::{Probe, numbered};
use faultline_core::{config::Datapoints, supervisor::WorkerGroup};
use faultline_testkit::eventually::eventually;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use tempfile::TempDir;
use tokio::runtime::Handle;

const DEADLINE: Duration = Duration::from_secs(60);

const QUICK: RestartTimes = RestartTimes {
    first_pause: Duration::from_millis(5),
    max_pause: Duration::from_millis(20),
    working_after: Duration::from_millis(50),
};

/// A journalctl for tests. Its n-th run prints the files `out.n` and `err.n`, then runs `end.n`.
/// Missing files are skipped.
const FAKE_JOURNALCTL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 9
echo "$*" >>calls
n=$(($(wc -l <calls)))
if [ -e "err.$n" ]; then cat "err.$n" >&2; fi
if [ -e "out.$n" ]; then cat "out.$n"; fi
if [ -e "end.$n" ]; then . "./end.$n"; fi
exec sleep 600
"#;

struct RunningTail {
    dir: TempDir,
    probe: Probe,
    status: StatusHandle,
    workers: WorkerGroup,
}

impl RunningTail {
    fn start(prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journalctl");
        fs::write(&path, FAKE_JOURNALCTL).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        prepare(dir.path());
        Self::start_program(dir, path.to_str().unwrap())
    }

    fn start_program(dir: TempDir, program: &str) -> Self {
        let probe = Probe::default();
        let intake = Intake::new(&Datapoints::default());
        let tail = JournalTail {
            program: program.to_owned(),
            writer: probe.records(),
            restart_times: QUICK,
            ..JournalTail::new("agave.service", intake, Clock::start())
        };
        let (status, mut workers) = (tail.status(), WorkerGroup::new("test", &Handle::current()));
        workers.task("journal", |stop| tail.run(stop));
        Self {
            dir,
            probe,
            status,
            workers,
        }
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn wait_for_records(&self, count: usize) {
        eventually(DEADLINE, "the records", || {
            (self.probe.count() >= count).then_some(())
        });
    }

    fn problem(&self, matches: impl Fn(&Problem) -> bool) -> Problem {
        eventually(DEADLINE, "the problem is shown", || {
            self.status
                .snapshot()
                .problem
                .filter(|problem| matches(problem))
        })
    }

    async fn end(self) {
        assert!(self.workers.end(DEADLINE).await.is_empty());
    }
}

fn entry(number: u64) -> String {
    let message = numbered(number);
    format!(
        "{}\n",
        serde_json::json!({ "__CURSOR": format!("s=1;i={number}"), "MESSAGE": message.trim_end() })
    )
}

fn entries(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_restarted_journalctl_continues_after_the_last_entry() {
    let tail = RunningTail::start(|dir| {
        let cut = entry(3);
        let out = format!(
            "-- Journal begins at Sat. --\n{}{}",
            entries(0..3),
            &cut[..cut.len() / 2]
        );
        fs::write(dir.join("out.1"), out).unwrap();
        fs::write(dir.join("end.1"), "exit 1").unwrap();
        // journalctl prints the entry of the cursor first. The reader skips it.
        fs::write(dir.join("out.2"), entries(2..6)).unwrap();
        fs::write(dir.join("end.2"), "exit 0").unwrap();
        // The entry of the cursor was vacuumed, so the first entry is new.
        fs::write(dir.join("out.3"), entries(6..8)).unwrap();
    });
    tail.wait_for_records(8);
    assert_eq!(tail.probe.numbers(), (0..8).collect::<Vec<_>>());
    assert_eq!(tail.probe.bad(), 0);
    let calls = tail.calls();
    assert!(
        calls[0].contains("--unit=agave.service --since=@"),
        "{calls:?}"
    );
    assert!(calls[1].ends_with("--cursor=s=1;i=2"), "{calls:?}");
    assert!(calls[2].ends_with("--cursor=s=1;i=5"), "{calls:?}");
    assert!(tail.status.snapshot().up);
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn journal_entries_of_one_datapoint_are_joined_across_journalctl_restarts() {
    let line = |cursor: u32, message: &str| {
        format!(
            "{}\n",
            serde_json::json!({ "__CURSOR": cursor.to_string(), "MESSAGE": message })
        )
    };
    let tail = RunningTail::start(|dir| {
        let head =
            "[2025-03-01T12:00:00Z ERROR solana_metrics::metrics] datapoint: panic message=\"one";
        fs::write(dir.join("out.1"), line(1, head)).unwrap();
        fs::write(dir.join("end.1"), "exit 0").unwrap();
        fs::write(dir.join("out.2"), line(2, "    two\" thread=\"x\"")).unwrap();
    });
    tail.wait_for_records(1);
    assert!(tail.probe.seen()[0].ends_with("message=\"one\ntwo\" thread=\"x\""));
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn invalid_and_oversized_journal_entries_discard_only_themselves() {
    let tail = RunningTail::start(|dir| {
        let giant =
            serde_json::json!({ "__CURSOR": "giant", "MESSAGE": "x".repeat(MAX_LINE_BYTES) });
        fs::write(
            dir.join("out.1"),
            format!("{}not json\n{giant}\n{}", entry(0), entry(1)),
        )
        .unwrap();
    });
    tail.wait_for_records(2);
    assert_eq!(tail.probe.numbers(), [0, 1]);
    assert_eq!(tail.probe.bad(), 2);
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_missing_journalctl_is_absent() {
    let tail = RunningTail::start_program(tempfile::tempdir().unwrap(), "/nonexistent/journalctl");
    let problem = tail.problem(|_| true);
    assert_eq!(
        problem,
        Problem::new(
            ProblemKind::Absent,
            "/nonexistent/journalctl is not installed here"
        )
    );
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_exited_journalctl_is_reported_with_its_own_message() {
    let tail = RunningTail::start(|dir| {
        for life in 1..50 {
            fs::write(
                dir.join(format!("err.{life}")),
                "Failed to add match:\nInvalid argument\n",
            )
            .unwrap();
            fs::write(dir.join(format!("end.{life}")), "exit 1").unwrap();
        }
    });
    let problem = tail.problem(|problem| problem.what.contains("Invalid"));
    assert_eq!(problem.kind, ProblemKind::Broken);
    assert!(
        problem.what.ends_with(
            "for agave.service ended (exit status: 1): Failed to add match: Invalid argument"
        ),
        "{problem}"
    );
    eventually(DEADLINE, "it is started anew", || {
        (tail.calls().len() > 3).then_some(())
    });
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_permission_hint_means_forbidden_until_an_entry_arrives() {
    for delay in ["0", "0.2"] {
        assert_forbidden_until_an_entry_arrives(delay).await;
    }
}

/// journalctl prints the hint after `delay` seconds.
async fn assert_forbidden_until_an_entry_arrives(delay: &str) {
    let hint = "Hint: You are currently not seeing messages from other users and the system.\n";
    let tail = RunningTail::start(|dir| {
        fs::write(dir.join("hint"), hint).unwrap();
        let end = format!(
            "echo warning >&2; sleep {delay}; cat hint >&2; printf '%500s' . >&2; while [ ! -e go ]; do sleep 0.01; done; cat go"
        );
        fs::write(dir.join("end.1"), end).unwrap();
    });
    let problem = tail.problem(|problem| problem.kind == ProblemKind::Forbidden);
    assert!(problem.what.contains("systemd-journal"), "{problem}");
    fs::write(tail.dir.path().join("new"), entry(0)).unwrap();
    fs::rename(tail.dir.path().join("new"), tail.dir.path().join("go")).unwrap();
    tail.wait_for_records(1);
    eventually(DEADLINE, "it is up", || {
        tail.status.snapshot().up.then_some(())
    });
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_journalctl_that_ends_after_an_entry_is_broken_despite_a_permission_hint() {
    let tail = RunningTail::start(|dir| {
        for run in 1..50 {
            let hint = "Hint: You are currently not seeing messages from other users.\n";
            fs::write(dir.join(format!("err.{run}")), hint).unwrap();
            fs::write(dir.join(format!("out.{run}")), entry(run)).unwrap();
            fs::write(dir.join(format!("end.{run}")), "exit 1").unwrap();
        }
    });
    let problem = tail.problem(|problem| problem.kind == ProblemKind::Broken);
    assert!(problem.what.contains("ended (exit status: 1)"), "{problem}");
    tail.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_journalctl_is_up_and_stops_with_the_daemon() {
    let tail = RunningTail::start(|_| {});
    eventually(DEADLINE, "it is up", || {
        tail.status.snapshot().up.then_some(())
    });
    assert_eq!(tail.status.snapshot().last_record_at, None);
    tail.end().await;
}

fn messages(line: &str) -> Option<Vec<Vec<u8>>> {
    Some(
        Entry::parse(line.as_bytes())?
            .messages()
            .into_iter()
            .map(<[u8]>::to_vec)
            .collect(),
    )
}

#[test]
fn a_message_is_text_or_bytes_or_several_of_them_or_missing() {
    assert_eq!(
        messages(r#"{"__CURSOR":"s=1","MESSAGE":"a \"b\"\nc"}"#),
        Some(vec![b"a \"b\"\nc".to_vec()])
    );
    assert_eq!(
        messages(r#"{"MESSAGE":[27,91,255],"__CURSOR":"s=1"}"#),
        Some(vec![vec![27, 91, 255]])
    );
    assert_eq!(
        messages(r#"{"MESSAGE":["one",[116,119,111],null],"__CURSOR":"s=1"}"#),
        Some(vec![b"one".to_vec(), b"two".to_vec()])
    );
    assert_eq!(
        messages(r#"{"MESSAGE":null,"__CURSOR":"s=1"}"#),
        Some(vec![])
    );
    assert_eq!(
        messages(r#"{"__CURSOR":"s=1","_BOOT_ID":"x"}"#),
        Some(vec![])
    );
}

#[test]
fn a_journal_line_without_a_cursor_is_not_an_entry() {
    for line in [
        "",
        "{}",
        "null",
        "-- Reboot --",
        r#"{"MESSAGE":"x"}"#,
        r#"{"__CURSOR":1}"#,
        r#"{"__CURSOR":"s=1""#,
    ] {
        assert_eq!(messages(line), None, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn no_journal_line_causes_a_panic(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        if let Some(entry) = Entry::parse(&line) {
            entry.messages();
        }
    }
}
