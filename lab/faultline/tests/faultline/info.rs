//! What `faultline info` tells of whole, unfinished and damaged recordings.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::made::{Plain, busy, faultline, said, synthetic_run::Arm};
use serde_json::Value;
use std::{fs, path::Path};

fn info(words: &[&Path]) -> std::process::Output {
    faultline(std::iter::once(Path::new("info")).chain(words.iter().copied()))
}

fn json(path: &Path) -> Value {
    let output = info(&["--json".as_ref(), path]);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_complete_recording_is_printed_as_text_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let plain = Plain {
        ticks: (1..=5).chain(9..=12).collect(),
        phases: vec![(2, "starting"), (4, "at_tip")],
        labels: vec![("arm", "512G"), ("run", "1")],
        ..Plain::default()
    };
    plain.write(&path);
    let output = info(&[&path]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for expected in [
        "recording   format 1, finished, ",
        "labels      arm=512G, run=1\n",
        "time        2027-01-15 08:00:01 UTC to 2027-01-15 08:00:12 UTC, 11 s\n",
        "session     1: faultlined 0.1.0, every 1 s, 9 samples, began 2027-01-15 08:00:00 UTC, ended 2027-01-15 08:00:12 UTC\n",
        "host.kernel.release  6.8.0\n",
        "process     1: pid 4711, started 2027-01-15 08:00:00 UTC",
        "arguments  agave-validator --ledger /mnt/ledger\n",
        "phases      not known  1 s\n",
        "starting   2 s\n",
        "at_tip     4 s\n",
        "exit: code=1, text=a,\"b\" c\n",
        "gaps        2027-01-15 08:00:05 UTC  4 s, 3 samples missed\n",
        "missing     3 samples in 1 gap\n",
        "datapoints of the validator: program_cache_point, replay_slot_point,",
        "; set its SOLANA_METRICS_CONFIG",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let disks = |output| said(&output).contains("host.disks           sda\n");
    assert!(!disks(output) && disks(info(&["--manifest".as_ref(), &path])));
    let json = json(&path);
    assert_eq!(json["finished"], true);
    assert_eq!(json["labels"]["arm"], "512G");
    assert_eq!(
        json["phases"][2],
        serde_json::json!({"phase": "at_tip", "seconds": 4.0})
    );
    assert_eq!(json["gaps"][0]["missed"], 3);
    assert_eq!(json["first_unix_ns"], 1_800_000_001_000_000_000_u64);
    let rows = json["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["name"] == "process_sample")
        .unwrap();
    assert_eq!(rows["rows"], 9);
}

#[test]
fn a_recording_without_an_end_is_reported_as_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    Plain {
        finished: false,
        ..Plain::default()
    }
    .write(&path);
    let text = said(&info(&[&path]));
    assert!(
        text.contains("not finished")
            && text.contains("still being written, or its daemon was killed"),
        "{text}"
    );
    assert_eq!(json(&path)["sessions"][0]["ended_unix_ns"], Value::Null);
}

#[test]
fn info_reports_non_recordings_and_shows_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Plain::default().write(&path("good.fltl"));
    fs::write(path("text.fltl"), "The quick brown fox. ".repeat(300)).unwrap();
    let output = info(&[
        &path("nowhere.fltl"),
        &path("text.fltl"),
        &path("good.fltl"),
    ]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("nowhere.fltl: no such file") && text.contains("text.fltl: not a recording"),
        "{text}"
    );
    assert!(text.contains("pid 4711"), "{text}");
}

#[test]
fn a_closed_output_pipe_is_no_failure_but_a_full_device_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    Plain::default().write(&path);
    let out = folder.path().join("out");
    let info = ["info".as_ref(), path.as_path()];
    let report = ["report".as_ref(), path.as_path(), "--out".as_ref(), &out];
    let table = ["export".as_ref(), path.as_path(), "--out".as_ref(), &out];
    let wrong = ["info".as_ref(), Path::new("nowhere")];
    for (words, code) in [(info.as_slice(), 0), (&report, 0), (&table, 0), (&wrong, 1)] {
        let gone = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        let status = faultline_with(words, gone().into(), gone().into());
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(
        faultline_with(&info, full.into(), std::process::Stdio::null()).code(),
        Some(1)
    );
}

#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn faultline_with(
    words: &[&Path],
    out: std::process::Stdio,
    said: std::process::Stdio,
) -> std::process::ExitStatus {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_faultline"));
    command
        .args(words)
        .stdout(out)
        .stderr(said)
        .status()
        .unwrap()
}

#[test]
fn a_truncated_recording_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    busy(
        &path("whole.fltl"),
        Arm {
            seconds: 300,
            ..Arm::default()
        },
    );
    let whole = said(&info(&[&path("whole.fltl")]));
    assert!(!whole.contains("set its SOLANA_METRICS_CONFIG"), "{whole}");
    assert!(
        whole.contains("; the validator sent other datapoints, but not these"),
        "{whole}"
    );
    let bytes = fs::read(path("whole.fltl")).unwrap();
    fs::write(path("cut.fltl"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let output = info(&[&path("cut.fltl")]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("cut.fltl: cut off") && text.contains("`sqlite3 FILE .recover`"),
        "{text}"
    );
}

#[test]
fn a_recording_truncated_at_any_length_is_an_error_without_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (
        folder.path().join("whole.fltl"),
        folder.path().join("cut.fltl"),
    );
    Plain::default().write(&whole);
    let bytes = fs::read(&whole).unwrap();
    for eighths in 0..8 {
        fs::write(&cut, &bytes[..bytes.len() * eighths / 8]).unwrap();
        let output = info(&[&cut]);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{eighths}/8: {}",
            said(&output)
        );
        assert!(
            said(&output).contains("cut.fltl: "),
            "{eighths}/8: {}",
            said(&output)
        );
        assert!(
            !said(&output).contains("panicked"),
            "{eighths}/8: {}",
            said(&output)
        );
    }
}
