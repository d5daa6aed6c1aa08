use crate::try_command::TryArgs;
use clap::{Args, Parser, Subcommand};
use faultline_bench::args::BenchArgs;
use faultline_cache::args::CacheArgs;
use faultline_campaign::args::CampaignArgs;
use faultline_experiments::args::ExperimentArgs;
use faultline_report::args::{ExportArgs, InfoArgs, MergeArgs, ReportArgs};
use faultline_runner::record::args::{DoctorArgs, HoldArgs, RecordArgs};
use faultline_top::args::TopArgs;
use std::path::PathBuf;

/// Records, inspects, compares and reports runs of a Solana validator.
#[derive(Parser)]
#[command(name = "faultline", version, max_term_width = 110)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure, 64 wrong usage. `record -- COMMAND` exits with the command's exit code."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The lab's commands.
#[derive(Subcommand)]
pub enum Command {
    /// Compare two cache sizes of a simulated validator, on this machine in three minutes.
    Try(TryArgs),
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
    /// Measure each release against a pinned baseline, in one table that is kept up to date.
    Campaign(CampaignArgs),
    /// Predict the program cache of a recorded run at other sizes.
    Cache(CacheArgs),
    /// Measure what the answers of JSON-RPC nodes cost.
    Bench(BenchArgs),
    /// Watch a validator live, through its daemon.
    Top(TopArgs),
    /// Check this host as `faultlined once` does: process, rights, disks, JSON-RPC, votes, log and
    /// the validator's metric pushes.
    Doctor(DoctorArgs),
    /// Start a program for `record` or `experiment`; not for users.
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Manual(ManualArgs),
}

/// `manual`.
#[derive(Args)]
pub struct ManualArgs {
    /// The folder.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use faultline_testkit::documents;
    use std::time::Duration;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn documented_commands_parse() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lines = documents::command_lines(&root, "faultline").unwrap();
        assert!(
            lines.iter().filter(|line| line.is_whole).count() > 50,
            "{lines:?}"
        );
        let refused = documents::refused(&lines, |words| Cli::try_parse_from(words).map(drop));
        assert_eq!(refused, Vec::<String>::new(), "{}", refused.join("\n"));
    }

    #[test]
    fn record_takes_either_a_command_or_a_process() {
        let parse =
            |words: &[&str]| Cli::try_parse_from(["faultline", "record"].iter().chain(words));
        assert!(parse(&["--pid", "1", "--", "sleep"]).is_err());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--pid", "0"]).is_err());
        assert!(parse(&["--pid", "1", "--no-metrics"]).is_err());
        let Command::Record(args) = parse(&["--label", "arm=a=b", "--", "ls", "--out", "x"])
            .unwrap()
            .command
        else {
            panic!("record")
        };
        assert_eq!(args.labels, [("arm".to_owned(), "a=b".to_owned())]);
        assert_eq!((args.command.len(), args.out), (3, None));
    }

    #[test]
    fn invalid_values_are_refused_with_a_valid_example() {
        let refusal = |words: &[&str]| {
            Cli::try_parse_from(["faultline"].iter().chain(words))
                .err()
                .map(|error| error.to_string())
        };
        let says =
            |words: &[&str], what: &str| refusal(words).is_some_and(|said| said.contains(what));
        assert!(says(
            &["record", "--label", "arm", "--pid", "1"],
            "as in arm=512G"
        ));
        assert!(says(
            &["record", "--interval", "1", "--pid", "1"],
            "as in \"12h\""
        ));
        assert!(says(
            &["record", "--interval", "99ms", "--pid", "1"],
            "the minimum is 100ms"
        ));
        for wrong in ["0", "-1"] {
            let words = ["report", "--margin", wrong, "a"];
            assert!(says(
                &words,
                "'--margin <PCT>': a percentage above 0 and below 100"
            ));
        }
        assert!(says(&["record", "--pid", "-5"], "-5 is not in 1.."));
        let negative = ["bench", "diff", "--margin", "-1", "a", "b"];
        assert!(says(&negative, "from 0 to below 1000"));
        assert!(says(&["merge", "one", "--out", "o"], "2 values"));
        assert!(refusal(&["report", "--margin", "2.5%", "a"]).is_none());
    }

    #[test]
    fn a_user_requires_a_password_and_the_interval_defaults_to_a_second() {
        let parse = |words: &[&str]| Cli::try_parse_from(["faultline", "top"].iter().chain(words));
        let Command::Top(args) = parse(&[]).unwrap().command else {
            panic!("top")
        };
        assert_eq!(
            (args.address, args.interval, args.once),
            (None, Duration::from_secs(1), false)
        );
        assert!(parse(&["--user", "me"]).is_err() && parse(&["--password-file", "f"]).is_err());
        assert!(parse(&["node:1", "--interval", "10ms"]).is_err());
        assert!(
            parse(&[
                "node:1",
                "-i",
                "5s",
                "--once",
                "--user",
                "me",
                "--password-file",
                "f"
            ])
            .is_ok()
        );
    }
}
