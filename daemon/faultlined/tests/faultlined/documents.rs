//! The command lines in the documents. All must parse. Those that change nothing are run.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use clap::Parser;
use faultline_testkit::documents::{Line, command_lines, refused};
use faultlined::cli::Cli;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");

fn lines() -> Vec<Line> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command_lines(&root, "faultlined").expect("the documents are there")
}

#[test]
fn documented_commands_parse() {
    let lines = lines();
    assert!(
        lines.iter().filter(|line| line.is_whole).count() >= 7,
        "{lines:?}"
    );
    let refused = refused(&lines, |words| Cli::try_parse_from(words).map(drop));
    assert_eq!(refused, Vec::<String>::new(), "{}", refused.join("\n"));
}

/// Runs the line with this configuration instead of the one that the document names.
fn run(line: &Line, config: &Path) -> Output {
    let mut words: Vec<_> = line.words.iter().skip(1).cloned().collect();
    if let Some(file) = words
        .iter()
        .position(|word| word == "--config")
        .and_then(|option| words.get_mut(option + 1))
    {
        *file = config.display().to_string();
    }
    Command::new(FAULTLINED)
        .args(words)
        .output()
        .expect("faultlined can be run")
}

#[test]
fn documented_configuration_commands_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("faultlined.toml");
    fs::write(&config, "").expect("a file");
    let of = |command: &str| {
        let all = lines()
            .into_iter()
            .filter(|line| line.is_whole && line.words.get(1).is_some_and(|word| word == command));
        all.collect::<Vec<_>>()
    };
    for line in of("print-config").into_iter().chain(of("check-config")) {
        let output = run(&line, &config);
        assert!(output.status.success(), "{line:?}: {output:?}");
    }
    let written = run(
        of("print-config").first().expect("CONFIGURATION has it"),
        &config,
    )
    .stdout;
    fs::write(&config, written).expect("a file");
    let [checked] = of("check-config")
        .try_into()
        .expect("CONFIGURATION has it once");
    assert!(
        run(&checked, &config).status.success(),
        "every key with its default is a configuration"
    );
}
