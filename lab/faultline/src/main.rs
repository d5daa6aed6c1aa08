#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod try_command;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use faultline_bench as bench;
use faultline_cache as cache;
use faultline_campaign::command as campaign;
use faultline_common::{
    args::UsageError,
    clock,
    output::{print, say},
};
use faultline_experiments::command as experiment;
use faultline_report::{export, info, merge, report_command};
use faultline_runner::record;
use faultline_top as top;
use std::process::ExitCode;

/// As in sysexits.h.
const USAGE_EXIT_CODE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not mistakes.
            let usage = error.use_stderr();
            let _ = error.print();
            return if usage {
                ExitCode::from(USAGE_EXIT_CODE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let done = match cli.command {
        Command::Try(args) => try_command::run(&args),
        Command::Record(args) => record::run(&args, clock::unix_ns()),
        Command::Report(args) => answered(report_command::report_command(&args)),
        Command::Doctor(args) => record::doctor(&args),
        Command::Hold(args) => Ok(record::wait_and_exec(&args)),
        Command::Info(args) => {
            let mut printed = Vec::new();
            let code = info::run(&args, &mut printed);
            print(&String::from_utf8_lossy(&printed)).and(code)
        }
        Command::Export(args) => answered(export::run(&args)),
        Command::Experiment(args) => experiment::run(&args),
        Command::Campaign(args) => campaign::run(&args),
        Command::Cache(args) => cache::run(&args).and_then(printed),
        Command::Bench(args) => bench::run(&args).and_then(printed),
        Command::Top(args) => top::run(&args),
        Command::Merge(args) => answered(merge::run(&args)),
        Command::Manual(args) => faultline_cli_docs::write(Cli::command(), "1", &args.folder)
            .map(|()| 0)
            .map_err(Into::into),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn answered(answer: Result<String>) -> Result<u8> {
    printed((answer?, 0))
}

fn printed((answer, code): (String, u8)) -> Result<u8> {
    print(&answer).map(|()| code)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let mut printed = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors include their cause.
        if !printed.contains(&cause) {
            printed += if printed.is_empty() { "" } else { ": " };
            printed += &cause;
        }
    }
    say(&printed);
    if error.is::<UsageError>() {
        ExitCode::from(USAGE_EXIT_CODE)
    } else {
        ExitCode::FAILURE
    }
}
