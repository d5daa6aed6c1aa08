//! `faultline try` as a newcomer runs it, beside the real daemon.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::{support::simulated::said, top::terminal::Terminal};
use faultline_recording::Recording;
use faultline_testkit::{
    eventually::{eventually, eventually_ok},
    proc::is_alive,
    process::{Program, Running, signal},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
const PATIENCE: Duration = Duration::from_secs(120);
const ORDER: [&str; 6] = [
    "simulated-512-1",
    "simulated-1024-1",
    "simulated-1024-2",
    "simulated-512-2",
    "simulated-512-3",
    "simulated-1024-3",
];

fn has_daemon() -> bool {
    let daemon = Path::new(FAULTLINE).with_file_name("faultlined");
    if !daemon.is_file() {
        eprintln!(
            "SKIPPED: no {}; cargo build -p faultlined makes it",
            daemon.display()
        );
    }
    daemon.is_file()
}

#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn try_in(folder: &Path) -> Command {
    let mut command = Command::new(FAULTLINE);
    command
        .args(["try", "--seconds", "3", "--out", "sizes"])
        .current_dir(folder)
        .env("TERM", "xterm")
        .env("DISPLAY", ":0");
    command
}

/// Start in nanoseconds since 1970, and the sum of the reloads of each slot.
fn start_and_reloads(file: &Path) -> (i64, u64) {
    let recording = Recording::open(file).unwrap();
    let sessions = recording.sessions().unwrap();
    assert!(sessions[0].manifest.to_string().contains("\"demo\":true"));
    let reloads = recording
        .program_cache_points()
        .unwrap()
        .iter()
        .filter_map(|point| point.reloads)
        .sum();
    let first = recording.info().unwrap().first_tick.unwrap();
    (first.unix_ns, reloads)
}

#[test]
fn try_compares_two_simulated_cache_sizes_and_opens_the_report_once() {
    if !has_daemon() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let opener = path("xdg-open");
    fs::write(
        &opener,
        "#!/bin/sh\necho \"$1\" > opened.part; mv opened.part opened\n",
    )
    .unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let mut terminal = Terminal::start(try_in(folder.path()).env("PATH", programs), 160, 40);
    let opened = eventually_ok(PATIENCE, "the report opens", || {
        fs::read_to_string(path("opened")).map_err(|_| terminal.screen())
    });
    assert_eq!(opened, "sizes/report/report.html\n");
    let screen = terminal.screen();
    for line in screen.lines().filter(|line| !line.trim().is_empty()) {
        assert!(line.contains("simulated"), "{line}");
    }

    let mut before = 0;
    for run in ORDER {
        let (start, reloads) = start_and_reloads(&path("sizes").join(format!("{run}.fltl")));
        assert!(start > before, "{run}");
        before = start;
        assert_eq!(reloads > 0, run.starts_with("simulated-512"), "{run}");
    }
    let report = fs::read_to_string(path("sizes/report/report.md")).unwrap();
    assert!(report.contains("# Simulated validator. Comparison: simulated-512, simulated-1024"));

    let again = try_in(folder.path()).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    let words = said(&again);
    assert!(
        words.contains("sizes: exists already") && words.contains("--out DIR"),
        "{words}"
    );
    assert_eq!(
        fs::read_to_string(path("sizes/report/report.md")).unwrap(),
        report
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn try_without_a_daemon_says_how_to_get_it_and_makes_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("faultline");
    fs::copy(FAULTLINE, &alone).unwrap();
    let output = Command::new(alone)
        .arg("try")
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = said(&output);
    for part in [
        "cargo build --release --bin faultlined",
        "package",
        "--faultlined FILE",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert!(!folder.path().join("faultline-try").exists());
}

#[test]
fn ctrl_c_ends_try_with_its_daemon_and_names_what_is_complete() {
    if !has_daemon() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let out = path("sizes").display().to_string();
    let mut running = Running::start(&Program {
        path: FAULTLINE.into(),
        arguments: ["try", "--seconds", "3", "--out", &out]
            .map(str::to_owned)
            .to_vec(),
        environment: Vec::new(),
        output: path("output"),
    })
    .unwrap();
    let text = || fs::read_to_string(path("output")).unwrap();
    eventually_ok(PATIENCE, "the second run", || {
        let text = text();
        if text.contains("run 2 of 6") {
            Ok(())
        } else {
            Err(text)
        }
    });
    let ready = fs::read_to_string(path("sizes/simulated-1024-1.fltl.ready")).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let children = [&ready["pid"], &ready["target"]["pid"]]
        .map(|pid| u32::try_from(pid.as_u64().unwrap()).unwrap());
    assert!(children.iter().all(|pid| is_alive(*pid)), "{ready}");
    signal(running.pid(), "INT").unwrap();
    let status = eventually(PATIENCE, "it ends", || running.exit_status().unwrap());
    assert_eq!(status.code(), Some(1), "{}", text());
    assert!(
        text().contains("the first 1 of 6 simulated recordings are complete in"),
        "{}",
        text()
    );
    assert!(!children.iter().any(|pid| is_alive(*pid)));
    start_and_reloads(&path("sizes/simulated-512-1.fltl"));
    assert!(!path("sizes/report").exists());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn try_on_a_full_disk_names_the_recording_without_data() {
    let is_root = rustix::process::geteuid().is_root();
    if !has_daemon() || !is_root {
        eprintln!("SKIPPED: a small file system takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mount -t tmpfs -o size=200k small . && cd \"$PWD\" && exec \"$0\" try --seconds 3";
    let mut command = Command::new("unshare");
    let command = command.args(["--mount", "sh", "-c", script, FAULTLINE]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    let first = "faultline-try/simulated-512-1.fltl has no sample: faultlined could not write it";
    assert!(words.contains(first), "{words}");
    assert!(words.contains("no space left on its disk"), "{words}");
}
