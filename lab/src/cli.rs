//! The command line.

mod experiment;
mod top;

pub use experiment::{
    Experiment, ExperimentArgs, ExperimentReportArgs, InitArgs, Launching, PlanArgs, ResumeArgs, RunArgs, StatusArgs,
    StopArgs,
};
pub use top::TopArgs;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use faultline_rig::CpuSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Keeps, looks at, compares and reports runs of a Solana validator: the lab beside the daemon faultlined.
#[derive(Debug, Parser)]
#[command(name = "faultline", version, max_term_width = 110)]
#[command(
    after_help = "Exit codes: 0 fine, 1 failed, 64 wrong usage. `record -- COMMAND` ends with the command's own."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What was asked for cannot be done by anybody: exit code 64, as for arguments that are not understood.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// What the lab can be told to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command, or follow a process, and keep everything in a recording.
    Record(RecordArgs),
    /// Show what is in a recording, and whether it is whole.
    Info(InfoArgs),
    /// Write the tables of recordings as Parquet or CSV.
    Export(ExportArgs),
    /// Make one recording of a run that a restart has cut in two.
    Merge(MergeArgs),
    /// Describe one run, or compare several, as one page that opens offline.
    Report(ReportArgs),
    /// Run one plan unattended: arms under limits, each from a cold and equal start, and its report.
    Experiment(ExperimentArgs),
    /// Watch a validator live, by the page of its daemon.
    Top(TopArgs),
    /// How `record` and `experiment` start their children.
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write manual pages and shell completions, for packages.
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
#[command(group = ArgGroup::new("whom").required(true).args(["pid", "command"]))]
#[command(
    override_usage = "faultline record [OPTIONS] -- COMMAND [ARG]...\n       faultline record [OPTIONS] --pid <N>"
)]
#[command(after_help = "Examples:
  faultline record --label arm=512G --label run=1 -- agave-validator --ledger /mnt/ledger ...
  faultline record --out run.fltl --pid 4711

The command runs as it would without this: same terminal, same signals, and its exit code (128 + N if signal N ended it) is \
this program's. Its environment gets a SOLANA_METRICS_CONFIG that points here, unless it has one. If the command went well \
but the recording did not, the exit code is 1. If this program is killed, the kernel asks command and daemon to end \
(SIGTERM); it cannot for a program file that carries capabilities.

With --pid, what was recorded so far is whole after ctrl-C, or once the process has ended.")]
pub struct RecordArgs {
    /// The recording, a new file [default: NAME-TIME.fltl in this folder].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Label of the run, such as arm=512G; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// From tick to tick, 100ms at least [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub interval: Option<Duration>,
    /// The daemon's configuration file, which then also says where it listens; without one, free ports are taken.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The daemon's program [default: beside this one, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub faultlined: Option<PathBuf>,
    /// Leave the command's SOLANA_METRICS_CONFIG alone: nothing is then known of its program cache and replay.
    #[arg(long, conflicts_with = "pid")]
    pub no_metrics: bool,
    /// Follow this process, which runs already, until it ends or ctrl-C.
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

A recording that is still being written can be looked at. With --salvage, exit code 0 means that something was rescued; what \
was lost is printed.")]
pub struct InfoArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print one JSON object a recording and line, with everything.
    #[arg(long)]
    pub json: bool,
    /// Show all that is known of hosts and processes, not only the most important.
    #[arg(long, conflicts_with = "json")]
    pub manifest: bool,
    /// Copy what can be read of a damaged recording into this new file.
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

One file a table, named after it; with several recordings a folder for each, named after the recording. Times are \
there twice: whole nanoseconds since 1970 (`unix_ns`, `started_unix_ns`) and, beside them, a timestamp in UTC (`time`, \
`started_time`). `wide` has one row for each tick, with \
the columns of all sample tables that have one row for it.")]
pub struct ExportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Parquet or CSV.
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: Format,
    /// The folder for the tables; made if it is not there.
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// Only this table; may be repeated [default: all, and wide].
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,
    /// Overwrite files that are there.
    #[arg(long)]
    pub force: bool,
}

/// `merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline merge before-the-restart.fltl after-it.fltl --out run.fltl

The recordings must be of one run: with the same labels, and not at the same time. The order of the files does not matter.")]
pub struct MergeArgs {
    /// The parts.
    #[arg(required = true, num_args = 2.., value_name = "IN")]
    pub files: Vec<PathBuf>,
    /// The whole, a new file.
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline report run.fltl
  faultline report 512G-*.fltl 1024G-*.fltl --out comparison

Runs with the same label `arm` are replicates of one arm. A test needs three runs in each arm; with fewer, runs are \
described and not tested.")]
pub struct ReportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The folder for the report [default: report].
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The metric that decides [default: replay time per slot, p95].
    #[arg(long, value_name = "METRIC")]
    pub primary: Option<String>,
    /// Differences smaller than this do not matter, in percent [default: 5].
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    pub margin: Option<f64>,
    /// Of the random numbers of the bootstrap: the same seed gives the same report.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Overwrite files that are there.
    #[arg(long)]
    pub force: bool,
}

/// `hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The process that started this one, with which it ends; without it, it lives on.
    #[arg(long)]
    pub parent: Option<i32>,
    /// A pipe or FIFO: wait until it says so, and take variables for the environment from it.
    #[arg(long)]
    pub gate: Option<PathBuf>,
    /// The CPUs that it may use, as in 0-3,8; without them, those that this process may.
    #[arg(long, value_parser = CpuSet::parse)]
    pub cpus: Option<CpuSet>,
    /// What to become.
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
        return Err(format!("{text:?} is too short: 100ms at least"));
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
        _ => return Err(format!("{text:?} has no unit that is known: write ms, s, m or h, as in 1s")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
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
        assert!(says(&["record", "--interval", "99ms", "--pid", "1"], "100ms at least"));
        assert!(says(&["report", "--margin", "0", "a"], "between 0 and 100"));
        assert!(says(&["merge", "one", "--out", "o"], "2 values"));
        assert!(refusal(&["report", "--margin", "2.5%", "a"]).is_none());
    }
}
