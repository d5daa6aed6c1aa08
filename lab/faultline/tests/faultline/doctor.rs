//! `faultline doctor` is `faultlined once`: the same arguments, the same words, the same exit code.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn doctor_forwards_arguments_and_exit_code_of_faultlined_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("faultlined");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.display().to_string();
    for arguments in [
        "",
        "--help",
        "--config c.toml --json",
        "--ledger /l --metrics -x",
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let output = run(
            Path::new(FAULTLINE),
            &[&["doctor", "--faultlined", &program], &words[..]].concat(),
        );
        let said = text(&output.stdout);
        assert_eq!(
            (said.trim(), output.status.code()),
            (format!("once {arguments}").trim(), Some(7))
        );
    }
    let output = run(
        Path::new(FAULTLINE),
        &["doctor", "--faultlined", "/no/such/program"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("/no/such/program: there is no such file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn with_a_running_daemon_doctor_and_once_print_the_same() {
    let daemon = Path::new(FAULTLINE).with_file_name("faultlined");
    if !daemon.is_file() {
        eprintln!(
            "SKIPPED: no {}; cargo build -p faultlined makes it",
            daemon.display()
        );
        return;
    }
    let arguments = ["--ledger", "/no/such/ledger"];
    let [once, doctor] = [(daemon.as_path(), "once"), (Path::new(FAULTLINE), "doctor")]
        .map(|(program, command)| run(program, &[&[command], &arguments[..]].concat()));
    assert_eq!(
        (text(&doctor.stdout), doctor.status.code()),
        (text(&once.stdout), once.status.code())
    );
    assert!(
        text(&once.stdout).contains("\nvotes "),
        "{}",
        text(&once.stdout)
    );
}
