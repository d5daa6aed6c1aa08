//! `faultline`: arguments, the command, the exit code.

use clap::Parser;
use faultline::cli::{Cli, Command};
use faultline::{clock, export, info, merge, record, report_command};
use std::io::Write;
use std::process::ExitCode;

/// Wrong usage, as in sysexits.h.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not mistakes.
            let usage = error.use_stderr();
            let _ = error.print();
            return if usage { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let done = match cli.command {
        Command::Record(args) => record::run(&args, clock::now()),
        Command::Report(args) => report_command::report_command(&args).map(|()| 0),
        Command::Hold(args) => Ok(record::hold(&args)),
        Command::Info(args) => {
            let mut said = Vec::new();
            let code = info::run(&args, &mut said);
            print(&said);
            code
        }
        Command::Export(args) => export::run(&args).map(|said| print(said.as_bytes())),
        Command::Merge(args) => merge::run(&args).map(|said| print(said.as_bytes())),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn print(text: &[u8]) -> u8 {
    // A reader that has gone away, as in `| head`, is no failure.
    let _ = std::io::stdout().write_all(text);
    0
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors tell their cause themselves.
        if !said.contains(&cause) {
            said += if said.is_empty() { "" } else { ": " };
            said += &cause;
        }
    }
    eprintln!("faultline: {said}");
    ExitCode::FAILURE
}
