//! `faultline try` compares two cache sizes of the daemon's simulated validator.

use anyhow::{Context, Result, bail};
use clap::Args;
use faultline_common::{
    output::{print, say},
    signals::Signals,
};
use faultline_report::{args::ReportArgs, report_command};
use faultline_runner::record::{
    self,
    recorder::{self, RecordingTarget, RecordingTask},
};
use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

/// Program cache entries of each run, in the order of the runs. The order reduces the effect of a
/// steady drift; six runs cannot cancel it.
const CACHE_ENTRIES: [u32; 6] = [512, 1024, 1024, 512, 512, 1024];
/// Maximum time to start and end a daemon on an idle machine.
const OVERHEAD_SECONDS: u64 = 3;

/// `try`.
#[derive(Args)]
#[command(after_help = "\
Example:
  faultline try --seconds 30 --out cache-sizes

It needs no validator, no root and no network. Six runs of `faultlined run --demo` replay the same recorded load in turn: three with \
a program cache of 512 entries, three with 1,024. Memory and page faults are real; all else is simulated and says nothing about a \
real validator. Ctrl-C stops it; recordings that are complete stay.")]
pub struct TryArgs {
    /// The new folder for recordings and report.
    #[arg(long, short, value_name = "DIR", default_value = "faultline-try")]
    pub out: PathBuf,
    /// Seconds of each of the six runs.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub seconds: u64,
    /// Do not open the report. By default, it opens if the command runs in a terminal on a desktop.
    #[arg(long)]
    pub no_open: bool,
    /// The daemon's program [default: in the folder of this program, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub faultlined: Option<PathBuf>,
}

pub fn run(args: &TryArgs) -> Result<u8> {
    let program = recorder::find_program(args.faultlined.as_deref(), "--faultlined").context(
        "try records with the daemon: install its package, or build it with \
         `cargo build --release --bin faultlined`",
    )?;
    make_folder(&args.out)?;
    let mut signals = Signals::listen().context("signals cannot be received")?;
    say(&format!(
        "simulated validator, so the results hold for no real one: {} runs of {} s in {}, ready in about {} s",
        CACHE_ENTRIES.len(),
        args.seconds,
        args.out.display(),
        CACHE_ENTRIES.len() as u64 * (args.seconds + OVERHEAD_SECONDS)
    ));
    let mut recorded = Vec::new();
    for entries in CACHE_ENTRIES {
        match record_run(&program, args, entries, &recorded, &mut signals) {
            Ok(Some(out)) => recorded.push(out),
            Ok(None) => {
                say(&stop_message(&recorded, &args.out));
                return Ok(1);
            }
            Err(error) => return Err(error.context(stop_message(&recorded, &args.out))),
        }
    }
    signals.restore_defaults()?;
    report(recorded, args)
}

/// Creates the folder; an empty one may exist.
fn make_folder(out: &Path) -> Result<()> {
    let is_empty = || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    match fs::create_dir(out) {
        Err(_) if is_empty() => Ok(()),
        Err(_) if out.symlink_metadata().is_ok() => bail!(
            "{}: exists already; name another folder with --out DIR, or remove it first",
            out.display()
        ),
        created => created.with_context(|| out.display().to_string()),
    }
}

/// `None` after a stop signal.
fn record_run(
    program: &Path,
    args: &TryArgs,
    entries: u32,
    recorded: &[PathBuf],
    signals: &mut Signals,
) -> Result<Option<PathBuf>> {
    let arm = format!("simulated-{entries}");
    let run_number = recorded.len() + 1;
    let replicate = CACHE_ENTRIES
        .iter()
        .take(run_number)
        .filter(|other| **other == entries)
        .count();
    let out = args.out.join(format!("{arm}-{replicate}.fltl"));
    let labels = [
        ("experiment", "simulated".to_owned()),
        ("arm", arm),
        ("run", replicate.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let task = RecordingTask {
        target: RecordingTarget::Demo,
        out: &out,
        cache_entries: Some(entries),
        labels: &labels,
        interval: None,
        config: None,
        free_ports: true,
    };
    let summary = record::record_demo(
        program,
        &task,
        Duration::from_secs(args.seconds),
        signals,
        |page: &str| {
            say(&format!(
                "simulated run {run_number} of {}, {entries} entries: page at http://{page}",
                CACHE_ENTRIES.len()
            ));
        },
    )?;
    if let Some(summary) = &summary {
        say(&format!("simulated run recorded, {summary}"));
    }
    Ok(summary.map(|_| out))
}

/// Says which recordings are complete if the command ends before the report.
fn stop_message(recorded: &[PathBuf], folder: &Path) -> String {
    let folder = folder.display();
    match recorded.len() {
        0 => format!("stopped: {folder} has no complete simulated recording; remove it"),
        count => format!(
            "stopped: the first {count} of {} simulated recordings are complete in {folder}; \
             `faultline report` describes them, a new `try` needs another --out",
            CACHE_ENTRIES.len()
        ),
    }
}

fn report(runs: Vec<PathBuf>, args: &TryArgs) -> Result<u8> {
    let folder = args.out.join("report");
    let report_args = ReportArgs {
        runs,
        out: Some(folder.clone()),
        primary: Some("cache-time".to_owned()),
        margin: None,
        per_second: false,
        seed: 1,
        force: false,
        unfold: false,
    };
    for line in report_command::report_command(&report_args)?.lines() {
        print(&format!("simulated: {line}\n"))?;
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    match recorder::in_path("xdg-open") {
        Some(program) if !args.no_open && has_display && std::io::stdout().is_terminal() => {
            Ok(record::exec_browser(program, folder.join("report.html")))
        }
        _ => Ok(0),
    }
}
