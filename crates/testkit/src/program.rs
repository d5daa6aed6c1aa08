//! Common code of the command-line programs: reads options and returns an exit code.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::Result;

/// Exit code for wrong usage, as in `sysexits.h`.
const WRONG_USAGE: u8 = 64;

/// Reads the program's options and calls `run`. Prints an error to standard error, after `name`.
pub fn main<A: Parser>(name: &str, run: impl FnOnce(A) -> Result<()>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => {
            // Standard output, which gets the help, may be closed.
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
