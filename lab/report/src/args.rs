use crate::report::RUN_METRICS;
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use faultline_common::args::parse_percent;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline info run.fltl
  faultline info --json *.fltl | jq .phases

A recording can be inspected while it is written.")]
pub struct InfoArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print everything as JSON, one line per recording.
    #[arg(long)]
    pub json: bool,
    /// Show the whole manifests of sessions and processes.
    #[arg(long, conflicts_with = "json")]
    pub manifest: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// RFC 4180, UTF-8, a header line; an empty field is NULL, an empty text is "".
    Csv,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline export run.fltl --format parquet --out tables
  faultline export run-*.fltl --format csv --out tables --table wide --table event
  duckdb -c \"SELECT max(process_resident_anon_bytes) FROM 'tables/wide.parquet'\"
  faultline export ram/runs/*/*/run.fltl --into dataset

Each table becomes one file. With several recordings, each gets a folder. Times are written twice: as nanoseconds since 1970 \
(`unix_ns`, `started_unix_ns`) and as a UTC timestamp (`time`, `started_time`). `wide` has one row per sample, with the columns \
of the tables that have one row per sample, then `arm`, `run` and the other labels as `label_NAME`.")]
pub struct ExportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Parquet or CSV.
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: Format,
    /// The folder for the tables; created if it does not exist.
    #[arg(long, short, value_name = "DIR", required_unless_present = "into")]
    pub out: Option<PathBuf>,
    /// Add to a data set of many recordings: Parquet by host, run and day.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format"])]
    pub into: Option<PathBuf>,
    /// Export only this table. Can be repeated [default: all tables, including wide].
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,
    /// Overwrite existing files. With --into: remove days after the end of the recording.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline merge before-the-restart.fltl after-it.fltl --out run.fltl

The recordings must belong to one run: they have the same labels and do not overlap in time. The order of the files does not matter.")]
pub struct MergeArgs {
    /// The recordings to merge.
    #[arg(required = true, num_args = 2.., value_name = "IN")]
    pub files: Vec<PathBuf>,
    /// The new recording.
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline report run.fltl
  faultline report 512G-*.fltl 1024G-*.fltl --out comparison

Runs with the same label `arm` are replicates of one arm. A statistical test needs three replicates per arm; with fewer, runs \
are described but not tested. If RUN.trace is next to RUN.fltl (`faultline cache fetch` makes it), the report also predicts \
the program cache at other sizes.")]
pub struct ReportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The folder for the report, or the path of a single page NAME.html [default: report].
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The primary metric [default: replay-p95; rss-mean for a process that is no validator].
    #[arg(long, value_name = "METRIC", value_parser = metric_parser())]
    pub primary: Option<String>,
    /// Equivalence margin: differences below it do not matter, in percent [default: 5].
    #[arg(long, value_name = "PCT", allow_negative_numbers = true, value_parser = parse_percent)]
    pub margin: Option<f64>,
    /// Convert metrics that are per slot into rates per second. Then arms with different slot times
    /// can be compared.
    #[arg(long)]
    pub per_second: bool,
    /// Show everything that the page otherwise folds.
    #[arg(long)]
    pub unfold: bool,
    /// Seed of the bootstrap: the same seed gives the same report.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
}

fn metric_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(RUN_METRICS.iter().map(|run_metric| run_metric.id))
}
