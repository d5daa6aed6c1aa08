use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 finished, 1 failed, refused or stopped, 64 wrong usage or a plan with errors."
)]
pub struct ExperimentArgs {
    #[command(subcommand)]
    pub command: ExperimentCommand,
}

#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Mark new or empty folders as folders that runs may clear.
    Init(InitArgs),
    /// Check a plan: schedule, duration, disk space, and every problem.
    Plan(PlanArgs),
    /// Run a plan.
    Run(RunArgs),
    /// Prepare a plan for several hosts: make a folder for its blocks.
    Prepare {
        /// The plan.
        #[arg(value_name = "FILE")]
        plan: PathBuf,
    },
    /// Run a block on this host: all runs of one replicate.
    Block(BlockArgs),
    /// Submit to Slurm the blocks of a plan and a job that writes the report after them.
    Slurm(SlurmArgs),
    /// Show finished, current and next runs.
    Status(StatusArgs),
    /// Continue an experiment that was stopped or interrupted.
    Resume(ResumeArgs),
    /// Stop the experiment and all its processes. `resume` continues it.
    Stop {
        /// The experiment's folder, or its plan.
        #[arg(value_name = "DIR-or-FILE")]
        experiment: PathBuf,
    },
    /// Write the report of the runs so far.
    Report(ExperimentReportArgs),
}

/// How cgroups are created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LauncherKind {
    /// systemd if it runs, else direct.
    #[default]
    Auto,
    /// Transient units of systemd.
    Systemd,
    /// Cgroups made by this program.
    Direct,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline experiment init /mnt/ledger /mnt/accounts /mnt/snapshots

With begin.how = \"as-is\", nothing is deleted and no mark is needed. Otherwise the contents of the plan's ledger, accounts and \
snapshots folders are deleted before each run, and a plan is refused if one of these folders does not carry the mark. Keypairs and tower files are never deleted.")]
pub struct InitArgs {
    /// Folders that do not exist yet or are empty.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The plan.
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
    /// How cgroups would be created.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: LauncherKind,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline experiment run ram.toml --dry-run
  faultline experiment run ram.toml

Ctrl-C stops the current run and the experiment; `faultline experiment resume` repeats that run and continues. A second Ctrl-C \
kills the validator.")]
pub struct RunArgs {
    /// The plan.
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Only show what would be deleted before the first run.
    #[arg(long)]
    pub dry_run: bool,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
    /// How cgroups are created.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: LauncherKind,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 75 try again later: the block runs elsewhere, or the host is busy or unfit; 1 failed, \
refused or stopped."
)]
pub struct BlockArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// The block: the number of a replicate, from 1 on.
    #[arg(value_name = "N")]
    pub block: u32,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
    /// How cgroups are created.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: LauncherKind,
}

#[derive(Debug, Args)]
pub struct SlurmArgs {
    /// The plan.
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Only print the script.
    #[arg(long)]
    pub print: bool,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// Do not warn that the validator can vote, because this is intended. With several hosts, the
    /// script of the jobs has this option instead.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
}

#[derive(Debug, Args)]
pub struct ExperimentReportArgs {
    /// The experiment's folder, or its plan.
    #[arg(value_name = "DIR-or-FILE")]
    pub experiment: PathBuf,
    /// The folder for the report [default: `report` in the experiment's folder].
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite existing files. The default folder is always overwritten.
    #[arg(long)]
    pub force: bool,
    /// Write the least memory that a search found into this file. The daemon reads it if its option
    /// `status.evidence` names the file. A prediction of the program cache in the file is preserved.
    #[arg(long = "evidence", value_name = "FILE")]
    pub status_evidence: Option<PathBuf>,
}
