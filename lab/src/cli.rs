//! The command line.

mod experiment;
mod top;

pub use experiment::{
    Experiment, ExperimentArgs, ExperimentReportArgs, InitArgs, Launching, PlanArgs, ResumeArgs, RunArgs, StatusArgs,
    StopArgs,
};
pub use top::TopArgs;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use faultline_isolation::CpuSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Records, inspects, compares and reports runs of a Solana validator.
#[derive(Debug, Parser)]
#[command(name = "faultline", version, max_term_width = 110)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure, 64 wrong usage. `record -- COMMAND` exits with the command's exit code."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A request that cannot be fulfilled: exit code 64, as for arguments that cannot be parsed.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a command or a running process.
    Record(RecordArgs),
    /// Show the contents of a recording, and whether it is complete.
    Info(InfoArgs),
    /// Write the tables of recordings as Parquet or CSV.
    Export(ExportArgs),
    /// Join the recordings of a run that a restart split.
    Merge(MergeArgs),
    /// Describe one run, or compare several, on one offline page.
    Report(ReportArgs),
    /// Run a plan unattended: arms under limits, each with a cold start, and the report.
    Experiment(ExperimentArgs),
    /// Watch a validator live, through its daemon.
    Top(TopArgs),
    /// How `record` and `experiment` start their children.
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Manual(ManualArgs),
}

/// `manual`.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// The folder.
    pub folder: PathBuf,
}

/// `record`.
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

With --pid, the recording is complete after Ctrl-C, or when the process ends.")]
pub struct RecordArgs {
    /// The new recording [default: NAME-TIME.fltl in the current folder].
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// The command with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline info run.fltl
  faultline info --json *.fltl | jq .phases
  faultline info --salvage rescued.fltl cut-off.fltl

A recording can be inspected while it is written. With --salvage, exit code 0 means that something was rescued; what was lost \
is printed.")]
pub struct InfoArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print everything as JSON, one line per recording.
    #[arg(long)]
    pub json: bool,
    /// Show the whole manifest of hosts and processes.
    #[arg(long, conflicts_with = "json")]
    pub manifest: bool,
    /// Copy what is readable of a damaged recording into this new file.
    #[arg(long, value_name = "OUT")]
    pub salvage: Option<PathBuf>,
}

/// In which format tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// RFC 4180, UTF-8, a header line; an empty field is NULL, an empty text is "".
    Csv,
}

/// `export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline export run.fltl --format parquet --out tables
  faultline export run-*.fltl --format csv --out tables --table wide --table event
  duckdb -c \"SELECT max(process_resident_anon_bytes) FROM 'tables/wide.parquet'\"

Each table becomes one file. With several recordings, each gets a folder. Times are written twice: as nanoseconds since 1970 \
(`unix_ns`, `started_unix_ns`) and as a UTC timestamp (`time`, `started_time`). `wide` has one row per sample, with the columns \
of all sample tables.")]
pub struct ExportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Parquet or CSV.
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: Format,
    /// The folder for the tables; created if it does not exist.
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// Only this table. Can be repeated [default: all, and wide].
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
}

/// `merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline merge before-the-restart.fltl after-it.fltl --out run.fltl

The recordings must belong to one run: with the same labels, and not overlapping in time. The order of the files does not matter.")]
pub struct MergeArgs {
    /// The parts.
    #[arg(required = true, num_args = 2.., value_name = "IN")]
    pub files: Vec<PathBuf>,
    /// The new recording.
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline report run.fltl
  faultline report 512G-*.fltl 1024G-*.fltl --out comparison

Runs with the same label `arm` are replicates of one arm. A statistical test needs three replicates per arm; with fewer, runs \
are described but not tested.")]
pub struct ReportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The folder for the report [default: report].
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The primary metric [default: replay time per slot, p95].
    #[arg(long, value_name = "METRIC")]
    pub primary: Option<String>,
    /// Equivalence margin: differences below it do not matter, in percent [default: 5].
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    pub margin: Option<f64>,
    /// Seed of the bootstrap: the same seed gives the same report.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
}

/// `hold`.
#[derive(Debug, Args)]
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

/// `KEY=VALUE`, the key not empty.
fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE, as in arm=512G")),
    }
}

/// A duration of 100 ms or more, as the daemon wants it.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_millis(100) {
        return Err(format!("{text:?} is too short: the minimum is 100ms"));
    }
    Ok(interval)
}

/// `100ms`, `1s`, `1.5s`, `2m`, `1h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} has no known unit: write ms, s, m or h, as in 1s")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("{text:?} is not a duration"))
}

/// More than 0 and less than 100.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("{text:?} is not a number of percent"))?;
    if number > 0.0 && number < 100.0 { Ok(number) } else { Err(format!("{text:?} is not between 0 and 100")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_or_a_process_is_recorded_and_not_both_and_not_neither() {
        let parse = |words: &[&str]| Cli::try_parse_from(["faultline", "record"].iter().chain(words));
        assert!(parse(&["--pid", "1", "--", "sleep"]).is_err());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--pid", "0"]).is_err());
        assert!(parse(&["--pid", "1", "--no-metrics"]).is_err());
        let Command::Record(args) = parse(&["--label", "arm=a=b", "--", "ls", "--out", "x"]).unwrap().command else {
            panic!("record")
        };
        assert_eq!(args.labels, [("arm".to_owned(), "a=b".to_owned())]);
        assert_eq!((args.command.len(), args.out), (3, None));
    }

    #[test]
    fn values_are_refused_with_an_example_of_a_good_one() {
        let refusal = |words: &[&str]| {
            Cli::try_parse_from(["faultline"].iter().chain(words)).err().map(|error| error.to_string())
        };
        let says = |words: &[&str], what: &str| refusal(words).is_some_and(|said| said.contains(what));
        assert!(says(&["record", "--label", "arm", "--pid", "1"], "as in arm=512G"));
        assert!(says(&["record", "--interval", "1", "--pid", "1"], "as in 1s"));
        assert!(says(&["record", "--interval", "99ms", "--pid", "1"], "the minimum is 100ms"));
        assert!(says(&["report", "--margin", "0", "a"], "between 0 and 100"));
        assert!(says(&["merge", "one", "--out", "o"], "2 values"));
        assert!(refusal(&["report", "--margin", "2.5%", "a"]).is_none());
    }
}
