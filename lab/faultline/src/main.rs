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
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(USAGE_EXIT_CODE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let done = match cli.command {
        Command::Try(args) => try_command::run(&args),
        Command::Record(args) => record::run(&args, clock::unix_ns()),
        Command::Report(args) => print_success(report_command::report_command(&args)),
        Command::Doctor(args) => record::doctor(&args),
        Command::Hold(args) => Ok(record::wait_and_exec(&args)),
        Command::Info(args) => {
            let mut text = Vec::new();
            let code = info::run(&args, &mut text);
            print(&String::from_utf8_lossy(&text)).and(code)
        }
        Command::Export(args) => print_success(export::run(&args)),
        Command::Experiment(args) => experiment::run(&args),
        Command::Campaign(args) => campaign::run(&args),
        Command::Cache(args) => cache::run(&args).and_then(print_text),
        Command::Bench(args) => bench::run(&args).and_then(print_text),
        Command::Top(args) => top::run(&args),
        Command::Merge(args) => print_success(merge::run(&args)),
        Command::Manual(args) => faultline_cli_docs::write(Cli::command(), "1", &args.folder)
            .map(|()| 0)
            .map_err(Into::into),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn print_success(text: Result<String>) -> Result<u8> {
    print_text((text?, 0))
}

fn print_text((text, code): (String, u8)) -> Result<u8> {
    print(&text).map(|()| code)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors include their cause.
        if !message.contains(&cause) {
            message += if message.is_empty() { "" } else { ": " };
            message += &cause;
        }
    }
    say(&message);
    if error.is::<UsageError>() {
        ExitCode::from(USAGE_EXIT_CODE)
    } else {
        ExitCode::FAILURE
    }
}
