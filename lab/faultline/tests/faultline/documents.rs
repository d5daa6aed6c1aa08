//! The commands that LAB shows for recordings, run as it shows them, in a folder with recordings of these names.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::made::said;
use faultline_testkit::documents::command_lines;
use std::{path::Path, process::Command};

/// The recordings that documents name, by those of `tests/fixtures` that stand for them.
const RECORDINGS: [(&str, &str); 10] = [
    ("now.fltl", "arm-512-1.fltl"),
    ("run.fltl", "arm-512-1.fltl"),
    ("cut-off.fltl", "restart.fltl"),
    ("before.fltl", "arm-512-1.fltl"),
    ("512G-1.fltl", "arm-512-1.fltl"),
    ("512G-2.fltl", "arm-512-2.fltl"),
    ("1024G-1.fltl", "arm-1024-1.fltl"),
    ("1024G-2.fltl", "arm-1024-2.fltl"),
    ("demo-512.fltl", "arm-512-1.fltl"),
    ("demo-1024.fltl", "arm-1024-1.fltl"),
];

/// Commands that only read these and write into the folder.
const HARMLESS: [&str; 3] = ["info", "export", "report"];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn documented_recording_commands_run() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut run = 0;
    for line in command_lines(&here.join("../.."), "faultline").unwrap() {
        if !line.is_whole
            || !line
                .words
                .get(1)
                .is_some_and(|command| HARMLESS.contains(&command.as_str()))
        {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, fixture) in RECORDINGS {
            std::fs::copy(
                here.join("tests/fixtures").join(fixture),
                folder.path().join(name),
            )
            .unwrap();
        }
        // What a shell would make of them.
        let words = line
            .words
            .iter()
            .skip(1)
            .flat_map(|word| match word.split_once("-*") {
                Some((arm, end)) => [1, 2].map(|number| format!("{arm}-{number}{end}")).to_vec(),
                None => vec![word.clone()],
            });
        let output = Command::new(env!("CARGO_BIN_EXE_faultline"))
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            line.location,
            said(&output)
        );
        run += 1;
    }
    assert!(run >= 5, "{run} commands");
}
