use clap::{Args, Subcommand};
use faultline_common::args::parse_percent;
use faultline_experiments::args::LauncherKind;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed or stopped; `check`: 1 also if a metric is worse, or if the runs do not \
suffice to decide; 64 wrong usage or a campaign with errors."
)]
pub struct CampaignArgs {
    #[command(subcommand)]
    pub command: CampaignCommand,
}

#[derive(Debug, Subcommand)]
pub enum CampaignCommand {
    /// Run the plan for every version that has no result, and renew the pages.
    Run(RunArgs),
    /// Collect finished rounds and submit pending rounds to Slurm, each as a task.
    Slurm(SlurmArgs),
    /// Run a submitted round on this host.
    Round(RoundArgs),
    /// Show which versions run, how long a round takes, and how small a change it can show.
    Plan {
        /// The campaign's folder.
        dir: PathBuf,
    },
    /// Add a version.
    Add(AddArgs),
    /// Show every version and what is next.
    Status {
        /// The campaign's folder.
        dir: PathBuf,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a version off the list. Its recordings and results stay.
    Remove {
        /// The campaign's folder.
        dir: PathBuf,
        /// The version.
        version: String,
    },
    /// Compare all recordings with the digests of their results; exit code 1 if one is missing or
    /// changed.
    Verify(VerifyArgs),
    /// Write all results as a Parquet table.
    Export {
        /// The campaign's folder.
        dir: PathBuf,
        /// The new file.
        #[arg(long, short, value_name = "FILE")]
        out: PathBuf,
    },
    /// Compare a version with another; exit code 1 if a metric is worse or has no values, or
    /// if the runs do not suffice to decide.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C stops; the next `campaign run` continues, also after a kill or a reboot."
)]
pub struct RunArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
    /// How cgroups are created.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: LauncherKind,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A job after the tasks collects their results, and submits a second round where the first shows a difference."
)]
pub struct SlurmArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// Only print the script of the tasks.
    #[arg(long)]
    pub print: bool,
    /// For the job after the tasks: submit only versions that were submitted before, and no round a
    /// second time.
    #[arg(long)]
    pub follow_up: bool,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 75 try again later: the round runs elsewhere, or the host is busy or unfit; 1 failed, \
refused or stopped."
)]
pub struct RoundArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// The round's position in slurm/rounds.json, from 1 on.
    #[arg(value_name = "N")]
    pub task_number: u32,
    /// Confirm that you intend to run a validator that can vote.
    #[arg(long = "i-vote")]
    pub vote_confirmed: bool,
    /// How cgroups are created.
    #[arg(long, value_enum, default_value = "auto")]
    pub launcher: LauncherKind,
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// The version, as in 2.1.14.
    pub version: String,
    /// The validator's program [default: built by [get] in campaign.toml].
    #[arg(long, value_name = "FILE")]
    pub path: Option<PathBuf>,
    /// Description of the version for the page.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// Drop the results of damaged recordings and of their pairs; the next `campaign run` repeats
    /// those of the current plan, baseline and list of versions.
    #[arg(long)]
    pub repeat: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  faultline campaign check /srv/campaign --against 2.1.14 --margin 5")]
pub struct CheckArgs {
    /// The campaign's folder.
    pub dir: PathBuf,
    /// The version to compare with: the baseline or another one.
    #[arg(long, value_name = "VERSION")]
    pub against: String,
    /// The version that is checked [default: the newest other one with results].
    #[arg(long, value_name = "VERSION")]
    pub release: Option<String>,
    /// Percent; smaller differences do not matter [default: that of campaign.toml].
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = parse_percent)]
    pub margin: Option<f64>,
}
