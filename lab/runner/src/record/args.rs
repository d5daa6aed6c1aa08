use crate::isolation::CpuSet;
use clap::{ArgGroup, Args};
use faultline_common::args::parse_interval;
use std::{ffi::OsString, path::PathBuf, time::Duration};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("process").required(true).args(["pid", "command"]))]
#[command(
    override_usage = "faultline record [OPTIONS] -- COMMAND [ARG]...\n       faultline record [OPTIONS] --pid <N>"
)]
#[command(after_help = "Examples:
  faultline record --label arm=512G --label run=1 -- agave-validator --ledger /mnt/ledger ...
  faultline record --out run.fltl --pid 4711

The command keeps its terminal and its signals, and its exit code (128 + N after signal N) is the exit code of this \
program. It gets a SOLANA_METRICS_CONFIG that points to the daemon, unless it has one. If the command succeeds but the \
recording fails, the exit code is 1. If this program is killed, the kernel sends SIGTERM to command and daemon, except to a \
program file with capabilities.

If the command or process is a wrapper, the validator among its descendants is recorded. Signals that were ignored at the start \
(nohup) stay ignored.

With --pid, the recording is complete after Ctrl-C, or when the process ends.")]
pub struct RecordArgs {
    /// The new recording
    /// [default: NAME-TIME.fltl in the current folder. NAME is the label arm's value, else the command's name or pid-N].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Label of the run, such as arm=512G. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Sampling interval (minimum 100ms) [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub interval: Option<Duration>,
    /// The daemon's configuration file, including its listen addresses [default: free ports].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The daemon's program [default: in the folder of this program, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub faultlined: Option<PathBuf>,
    /// Do not set SOLANA_METRICS_CONFIG. Program cache and replay times are then not recorded.
    #[arg(long, conflicts_with = "pid")]
    pub no_metrics: bool,
    /// Record the process with this pid until it ends or Ctrl-C.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// The command with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct HoldArgs {
    /// End with this parent process.
    #[arg(long)]
    pub parent: Option<i32>,
    /// A pipe or FIFO: wait until it is written to, and read environment variables from it.
    #[arg(long)]
    pub gate: Option<PathBuf>,
    /// CPU affinity, as in 0-3,8 [default: inherited].
    #[arg(long, value_parser = CpuSet::parse)]
    pub cpus: Option<CpuSet>,
    /// The command to execute.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

#[derive(Args)]
#[command(disable_help_flag = true)]
#[command(
    after_help = "Every argument goes to `faultlined once`: `faultline doctor --help` shows its options, such as --config FILE, \
--ledger DIR, --unit NAME, --json.

Exit codes, as of `faultlined once`: 0 no line says FIX, 1 a line says FIX or the checks failed, 64 wrong usage or \
configuration."
)]
pub struct DoctorArgs {
    /// The daemon's program, before all other arguments
    /// [default: in the folder of this program, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub faultlined: Option<PathBuf>,
    /// Arguments of `faultlined once`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARG"
    )]
    pub arguments: Vec<OsString>,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE, as in arm=512G")),
    }
}
