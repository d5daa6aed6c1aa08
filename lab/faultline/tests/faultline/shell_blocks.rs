//! The blocks of shell in README and LAB, run as they stand: one folder for each page, its blocks in order.
//!
//! Blocks that begin with a word of [`AS_ROOT`] install or need rights, and are left out. So are those in [`LEFT_OUT`].

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::simulated::said;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");

const AS_ROOT: [&str; 3] = ["apt-get", "install", "runuser"];

/// The first lines of further blocks that are left out.
const LEFT_OUT: [(&str, &str); 3] = [
    ("cargo test --workspace", "would run this test"),
    (
        "faultline experiment run experiments/ram.toml",
        "a plan of days as root, a campaign, a node",
    ),
    (
        "faultline merge before.fltl after.fltl --out run.fltl",
        "a restarted validator, a campaign, blocks, a node",
    ),
];

/// Programs that the blocks name, in place of real ones.
const STUBS: [(&str, &str); 4] = [
    (
        "agave-validator",
        "exec faultline-simulated-validator \"$@\" --ledger \"$(mktemp -d -p \"$PWD\")\"",
    ),
    // Nothing here is a terminal: nothing opens.
    ("xdg-open", "echo \"$1: opened\" >&2; exit 1"),
    // One runs when it is asked for.
    ("pidof", "\"$2\" >/dev/null 2>&1 & echo $!"),
    // All is built. What would last is shortened, and takes free ports.
    (
        "cargo",
        "case \"$*\" in
'build --release') ;;
'run --release --bin faultlined -- run --demo')
  timeout --preserve-status 5 faultlined run --demo --listen 127.0.0.1:0 --ingest 127.0.0.1:0 ;;
'run --release --bin faultline -- try') faultline try --seconds 3 ;;
'run --release --bin faultline -- cache predict '*) shift 5; faultline \"$@\" ;;
*) echo \"cargo $*: unexpected\" >&2; exit 1 ;;
esac",
    ),
];

#[test]
fn shell_blocks_of_readme_and_lab_run_as_they_stand() {
    let mut left_out = Vec::new();
    for page in ["README.md", "docs/LAB.md"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(page)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        if !prepare(folder.path()) {
            return;
        }
        symlink(root.join("experiments"), folder.path().join("experiments")).unwrap();
        for block in blocks(&text) {
            let first = block.lines().next().unwrap();
            let reason = LEFT_OUT.iter().find(|(begin, _)| first.starts_with(begin));
            if AS_ROOT.contains(&first.split(' ').next().unwrap()) {
                eprintln!("SKIPPED: {page}: {first}: as root");
            } else if let Some((begin, reason)) = reason {
                eprintln!("SKIPPED: {page}: {first}: {reason}");
                left_out.push(*begin);
            } else {
                run(page, &block, folder.path());
            }
        }
    }
    assert_eq!(left_out, LEFT_OUT.map(|(begin, _)| begin));
}

/// False, with words, if a program is not built.
fn prepare(folder: &Path) -> bool {
    let programs = folder.join("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["faultline", "faultlined", "faultline-simulated-validator"] {
        let built = Path::new(FAULTLINE).with_file_name(name);
        if !built.is_file() {
            eprintln!("SKIPPED: no {}", built.display());
            return false;
        }
        symlink(built, programs.join(name)).unwrap();
    }
    for (name, script) in STUBS {
        let stub = programs.join(name);
        fs::write(&stub, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    }
    true
}

fn blocks(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), is_shell) {
            (Some("sh" | "bash" | "console"), _) => {
                is_shell = true;
                found.push(String::new());
            }
            (Some(_), _) => is_shell = false,
            (None, true) => found.last_mut().unwrap().push_str(&format!("{line}\n")),
            (None, false) => {}
        }
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn run(page: &str, block: &str, folder: &Path) {
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", block])
        .current_dir(folder)
        .env("DISPLAY", ":0")
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("FAULTLINE_TRUTH", "exits_after_ms=3000,exit_code=0")
        .env_remove("SOLANA_METRICS_CONFIG")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{page}:\n{block}\n{}",
        said(&output)
    );
}
