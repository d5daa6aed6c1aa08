//! The command line of `experiment`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `experiment`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 finished, 1 failed, refused or stopped, 64 wrong usage or a plan with mistakes.")]
pub struct ExperimentArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: Experiment,
}

/// What can be done with an experiment.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// Mark new or empty folders as ones that runs may clear.
    Init(InitArgs),
    /// Check a plan: its schedule, how long it takes, the disk it needs, and every problem.
    Plan(PlanArgs),
    /// Run a plan from its beginning.
    Run(RunArgs),
    /// Show what has been run, what runs now and what is next.
    Status(StatusArgs),
    /// Go on with an experiment that was stopped or cut off.
    Resume(ResumeArgs),
    /// Stop the experiment's runner and everything that it runs; `resume` goes on.
    Stop(StopArgs),
    /// Write the report on the runs that are there.
    Report(ExperimentReportArgs),
}

/// How groups of processes are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Launching {
    /// With systemd where it runs, else directly.
    #[default]
    Auto,
    /// Transient units of systemd.
    Systemd,
    /// Cgroups made by this program.
    Direct,
}

/// `experiment init`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline experiment init /mnt/ledger /mnt/accounts /mnt/snapshots

Before each run, what is in the ledger, accounts and snapshots folders of a plan is deleted, and only if they carry this mark. \
Keypairs and tower files are never deleted.")]
pub struct InitArgs {
    /// Folders that are not there yet, or are empty.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
}

/// `experiment plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The plan.
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Print one JSON object with everything.
    #[arg(long)]
    pub json: bool,
    /// The validator votes, and that is meant.
    #[arg(long)]
    pub i_vote: bool,
    /// How groups of processes would be made.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: Launching,
}

/// `experiment run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline experiment run ram.toml --dry-run
  faultline experiment run ram.toml

Ctrl-C ends the current run and stops; `faultline experiment resume` repeats that run and goes on. A second Ctrl-C does not \
wait for the validator to end by itself.")]
pub struct RunArgs {
    /// The plan.
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Show what would be deleted before the first run, and end.
    #[arg(long)]
    pub dry_run: bool,
    /// The validator votes, and that is meant.
    #[arg(long)]
    pub i_vote: bool,
    /// How groups of processes are made.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: Launching,
}

/// `experiment status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// Print one JSON object with everything.
    #[arg(long)]
    pub json: bool,
}

/// `experiment resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// The validator votes, and that is meant.
    #[arg(long)]
    pub i_vote: bool,
}

/// `experiment stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
}

/// `experiment report`.
#[derive(Debug, Args)]
pub struct ExperimentReportArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// The folder for the report [default: `report` in the experiment's folder].
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite files that are there. The experiment's own folder for it is renewed without a word.
    #[arg(long)]
    pub force: bool,
}
