//! `faultline cache` as users run it: exit codes, and where answers and errors go. What it computes is tested in `crates/cache`.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot prepare its scene fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn cache(words: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_faultline")).arg("cache").args(words).args(files).output().expect("it can be run")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fails(output: &Output, code: i32, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && output.stdout.is_empty() && said.contains(what), "{output:?}");
}

#[test]
fn what_cannot_be_predicted_from_is_refused_on_standard_error_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.fltl");
    std::fs::copy(fixture("arm-512-1.fltl"), &run).unwrap();
    for command in ["predict", "policies"] {
        fails(&cache(&[command], &[&run]), 1, "run.trace is missing: `faultline cache fetch");
    }
    fails(&cache(&["check"], &[&run, &run]), 1, "run.trace is missing");
    fails(&cache(&["predict", "--version", "9.9.9"], &[&run]), 1, "\"9.9.9\"");
    fails(&cache(&["predict"], &[&fixture("any-process.fltl")]), 1, "loaded-programs-cache-stats");
    std::fs::write(folder.path().join("run.trace"), "garbage").unwrap();
    fails(&cache(&["predict"], &[&run]), 1, "damaged at byte");
    fails(&cache(&["fetch", "--rpc", "ftp://x"], &[&run]), 1, "http://");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let run = fixture("arm-512-1.fltl");
    fails(&cache(&["fetch"], &[&run]), 64, "--rpc");
    fails(&cache(&["predict", "--sizes", "512,none"], &[&run]), 64, "--sizes");
    fails(&cache(&["predict", "--seeds", "1"], &[&run]), 64, "--seeds");
    fails(&cache(&["predict", "--json", "--csv"], &[&run]), 64, "cannot be used with");
    let help = cache(&["predict", "--help"], &[]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Sizes in entries"), "{help:?}");
}
