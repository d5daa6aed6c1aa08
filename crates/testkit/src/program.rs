//! What the programs for people have in common: options in, an exit code out.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::Result;

/// Told on wrong usage, as `sysexits.h` has it.
const WRONG_USAGE: u8 = 64;

/// Reads the program's options, then does its work. What goes wrong is said on standard error under `name`.
pub fn main<A: Parser>(name: &str, run: impl FnOnce(A) -> Result<()>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => {
            // Help goes to standard output, to whoever still listens.
            let _ = problem.print();
            return ExitCode::from(if problem.use_stderr() { WRONG_USAGE } else { 0 });
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Path of a program in this program's folder.
#[must_use]
pub fn sibling_program(program: &str) -> PathBuf {
    std::env::current_exe()
        .unwrap_or_default()
        .with_file_name(program)
}
