//! The command line. Its options override the configuration file.

use clap::{Args, Parser, Subcommand, value_parser};
use faultline_core::config::{
    self, Config, TargetSelector,
    values::{parse_address, parse_label},
};
use faultline_settings::ConfigError;
use faultline_text::parse_time;
use std::{collections::BTreeMap, env, net::SocketAddr, path::PathBuf, time::Duration};

/// Exports memory, page faults, throughput and program cache of a Solana validator to Prometheus.
#[derive(Debug, Parser)]
#[command(name = "faultlined", version, max_term_width = 110)]
#[command(
    after_help = "Without a validator: `faultlined run --demo --record demo.fltl`, then `faultline report demo.fltl`. `faultline try` \
         compares two program cache sizes of the simulated validator in three minutes.\n\n\
         Exit codes: 0 success, 1 failure, 2 forced exit, or a task ended unexpectedly or did not end in time, \
         64 wrong usage or configuration, or a file or socket that an operator must fix first."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Follow the validator and export metrics until stopped.
    Run(RunArgs),
    /// Check this host: process, rights, disks, JSON-RPC, votes, admin socket, log and the
    /// validator's metric pushes. Each problem comes with a remedy.
    #[command(
        after_help = "Takes a few seconds, listens on no port and writes no file. Run it as the daemon's user and with its \
        configuration: it checks the rights of the user who runs it. It also connects to the daemon's ports. If systemd \
        listens on them for a stopped daemon, this starts the daemon.\n\n\
        Exit codes: 0 no line says FIX, 1 a line says FIX or the checks failed, 64 wrong usage or configuration."
    )]
    Once(OnceArgs),
    /// Check the configuration and report all errors and warnings.
    CheckConfig(ConfigArgs),
    /// Print every configuration key with its default.
    PrintConfig,
    /// Write man pages, shell completions and the default configuration, for packages.
    #[command(hide = true)]
    Manual {
        /// The folder.
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Configuration file. Every key has a default, see print-config.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The process to follow, and the kernel's folders.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Follow the process with this pid.
    #[arg(long, value_name = "N", group = "target")]
    pub pid: Option<u32>,
    /// For wrappers: follow the validator among this process and its descendants. Until a validator
    /// runs, follow this process.
    #[arg(long, value_name = "N", group = "target")]
    pub process_tree: Option<u32>,
    /// Follow the validator of this ledger, by its admin.rpc socket or its lock.
    #[arg(long, value_name = "DIR", group = "target")]
    pub ledger: Option<PathBuf>,
    /// Follow the validator of this systemd unit.
    #[arg(long, value_name = "NAME", group = "target")]
    pub unit: Option<String>,
    /// Follow any other process by name. Sources that only a validator has are disabled.
    #[arg(long, value_name = "NAME", group = "target")]
    pub process_name: Option<String>,
    /// JSON-RPC URL of the validator
    /// [default: the address from the admin socket, else the validator's --rpc-port].
    #[arg(long, value_name = "URL")]
    pub rpc: Option<String>,
    /// Capacity of the validator's program cache, for builds that changed it. With `run --demo`,
    /// the simulated validator has a cache of this size and begins at the tip.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub program_cache_entries: Option<u64>,
    /// Where procfs is mounted.
    #[arg(long = "path.procfs", value_name = "DIR")]
    pub procfs: Option<PathBuf>,
    /// Where sysfs is mounted.
    #[arg(long = "path.sysfs", value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
    /// Where the cgroup file system is mounted.
    #[arg(long = "path.cgroup", value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub file: ConfigArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Follow a simulated validator, for machines without a real one.
    #[arg(long, group = "target")]
    pub demo: bool,
    /// Listen address of /metrics and the landing page [default: 127.0.0.1:9912].
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// Listen address for the validator's metric pushes [default: 127.0.0.1:9913].
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub ingest: Option<SocketAddr>,
    /// Sampling interval (minimum 100ms) [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub interval: Option<Duration>,
    /// Record the run into this file. A recording with the same labels is continued.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Label of the recording; cluster, experiment, arm and run are also on the metrics. Can be
    /// repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Write addresses, pid and the followed process as JSON into this file while running, for
    /// programs that start the daemon.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct OnceArgs {
    #[command(flatten)]
    pub file: ConfigArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print the metrics of process, cgroup and host instead.
    #[arg(long)]
    pub metrics: bool,
}

impl ConfigArgs {
    pub fn read(&self) -> (Config, Vec<ConfigError>) {
        config::load(self.config.as_deref(), None)
    }
}

impl TargetArgs {
    /// Applies these options to the configuration of `file`. Also returns every error. Without an
    /// option, `default` replaces the target of the file.
    pub fn read(
        &self,
        file: &ConfigArgs,
        default: Option<TargetSelector>,
    ) -> (Config, Vec<ConfigError>) {
        let selector = self
            .pid
            .map(TargetSelector::Pid)
            .or_else(|| self.process_tree.map(TargetSelector::ProcessTree))
            .or_else(|| self.ledger.clone().map(TargetSelector::Ledger))
            .or_else(|| self.unit.clone().map(TargetSelector::Unit))
            .or_else(|| self.process_name.clone().map(TargetSelector::ProcessName))
            .or(default);
        let (mut config, mut config_errors) = config::load(file.config.as_deref(), selector);
        config.target.program_cache_entries = self
            .program_cache_entries
            .or(config.target.program_cache_entries);
        if let Some(url) = &self.rpc {
            config.rpc.url = config::rpc_url(url)
                .map_err(|what| config_errors.insert(0, ConfigError::new(format!("--rpc: {what}"))))
                .ok();
        }
        for (setting, path) in [
            (&mut config.paths.procfs, &self.procfs),
            (&mut config.paths.sysfs, &self.sysfs),
            (&mut config.paths.cgroup, &self.cgroup),
        ] {
            if let Some(path) = path {
                setting.clone_from(path);
            }
        }
        (config, config_errors)
    }
}

impl RunArgs {
    /// Invalid values become defaults, except for a short `--interval`.
    pub fn read(&self) -> (Config, Vec<ConfigError>) {
        let (mut config, mut config_errors) = self
            .target
            .read(&self.file, self.demo.then_some(TargetSelector::Scan));
        if let Some(listen) = self.listen {
            config.metrics.listen = listen;
        }
        if let Some(interval) = self.interval {
            config.sampling.interval = interval;
        }
        if config.sampling.interval < config::MIN_INTERVAL {
            config_errors.push(ConfigError::new(format!(
                "--interval: {}ms is shorter than the minimum of {:?}",
                config.sampling.interval.as_millis(),
                config::MIN_INTERVAL
            )));
        }
        if let Some(ingest) = self.ingest {
            (config.ingest.enabled, config.ingest.listen) = (true, ingest);
            if config.log.is_some() {
                config_errors.push(ConfigError::new(
                    "--ingest: the configuration has [log], and datapoints would be counted twice; use only one of them",
                ));
            }
        }
        if let Err(what) = config
            .ingest
            .set_default_credentials(env::var_os(config::INGEST_ENV_VARIABLE).as_deref())
        {
            config_errors.push(ConfigError::new(what));
        }
        config
            .flight
            .set_default_folder(env::var_os("STATE_DIRECTORY").as_deref());
        let folder_is_wrong = config_errors
            .iter()
            .any(|error| error.is_about("flight.folder"));
        if config.flight.enabled == Some(true) && config.flight.folder.is_none() && !folder_is_wrong
        {
            config_errors.push(ConfigError::new(
                "flight.enabled is true without a folder: set flight.folder, or StateDirectory= in the unit",
            ));
        }
        if self.record.is_some() {
            config.record.file.clone_from(&self.record);
        }
        if self.demo {
            // The mock validator reaches the tip within a minute.
            config.phase.at_tip_for = Duration::from_secs(5);
            if config.target.program_cache_entries.is_some() {
                // `faultline try` sets the entries. Its demos run for seconds.
                config.phase.at_tip_for = Duration::from_secs(1);
                config.rpc.interval = Duration::from_millis(200);
            }
        }
        self.apply_labels(&mut config, &mut config_errors);
        (config, config_errors)
    }

    fn apply_labels(&self, config: &mut Config, config_errors: &mut Vec<ConfigError>) {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in &self.labels {
            if let Some(before) = names.insert(name, value) {
                config_errors.push(ConfigError::new(format!(
                    "--label {name} is given twice, as {before:?} and as {value:?}: keep one"
                )));
            }
            match config.labels.by_name(name) {
                Some(label) => *label = Some(value.clone()),
                None => drop(config.record.labels.insert(name.clone(), value.clone())),
            }
        }
    }
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
    fn the_help_agrees_with_the_documents() {
        let mut command = Cli::command();
        let exit_codes = command.get_after_help().unwrap().to_string();
        let reference = include_str!("../../../docs/OPERATIONS-REFERENCE.md");
        for code in ["0", "2", "64"] {
            let row = format!("| {code} | ");
            let line = reference.lines().find_map(|line| line.strip_prefix(&row));
            let meaning = line.unwrap().trim_end_matches(" |");
            assert!(
                exit_codes.contains(&format!("{code} {meaning}")),
                "{meaning}"
            );
        }
        let default = "the address from the admin socket, else the validator's --rpc-port";
        assert!(config::DEFAULT_TEXT.contains(default));
        let once = command.find_subcommand_mut("once").unwrap();
        let rpc = once.get_arguments().find(|one| one.get_id() == "rpc");
        let exit_codes = once.get_after_help().unwrap().to_string();
        assert!(exit_codes.contains("0 no line says FIX, 1 a line says FIX"));
        let help = rpc.unwrap().get_help().unwrap().to_string();
        assert!(help.contains(&format!("[default: {default}]")), "{help}");
    }

    #[test]
    fn only_one_target_option_is_accepted() {
        assert!(Cli::try_parse_from(["faultlined", "run", "--pid", "1", "--demo"]).is_err());
        assert!(
            Cli::try_parse_from(["faultlined", "run", "--unit", "a", "--ledger", "b"]).is_err()
        );
    }

    #[test]
    fn the_command_line_overrides_the_file_and_all_errors_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("faultlined.toml");
        std::fs::write(
            &file,
            "[metrics]\nlisten = \"127.0.0.1:1\"\n[log]\nfile = \"/v.log\"\n",
        )
        .unwrap();
        let parse = |more: &[&str]| {
            let file = file.display().to_string();
            let Command::Run(args) =
                Cli::try_parse_from(["faultlined", "run", "--config", &file].iter().chain(more))
                    .unwrap()
                    .command
            else {
                panic!("run")
            };
            args.read()
        };
        assert_eq!(
            parse(&["--listen", "127.0.0.1:2"]).0.metrics.listen.port(),
            2
        );
        let (labelled, none) = parse(&[
            "--record",
            "r",
            "--label",
            "arm=A",
            "--label",
            "memory=DDR5",
        ]);
        assert_eq!(none, []);
        assert_eq!(
            (labelled.labels.arm.as_deref(), labelled.record.labels.len()),
            (Some("A"), 1)
        );
        assert_eq!(
            parse(&["--program-cache-entries", "1024"])
                .0
                .target
                .program_cache_entries,
            Some(1024)
        );
        assert_eq!(
            labelled.record.file.as_deref(),
            Some(std::path::Path::new("r"))
        );
        let (_, config_errors) = parse(&[
            "--interval",
            "10ms",
            "--ingest",
            "127.0.0.1:3",
            "--rpc",
            "localhost",
        ]);
        assert_eq!(config_errors.len(), 3, "{config_errors:?}");
        for entries in ["0", "4294967296"] {
            let arguments = ["faultlined", "once", "--program-cache-entries", entries];
            assert!(Cli::try_parse_from(arguments).is_err(), "{entries}");
        }
    }

    #[test]
    fn a_target_option_enables_the_sources_that_the_files_target_disables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "[target]\nprocess_name = \"x\"\n").unwrap();
        let file = file.display().to_string();
        let is_enabled = |option: &[&str]| {
            let arguments = ["faultlined", "run", "--config", &file];
            let parsed = Cli::try_parse_from(arguments.iter().chain(option)).unwrap();
            let Command::Run(args) = parsed.command else {
                panic!("run")
            };
            let (config, config_errors) = args.read();
            assert_eq!(config_errors, []);
            [
                config.ingest.enabled,
                config.rpc.enabled,
                config.admin.enabled,
            ]
        };
        assert_eq!(is_enabled(&["--unit", "v.service"]), [true; 3]);
        assert_eq!(is_enabled(&["--demo"]), [true; 3]);
        assert_eq!(is_enabled(&[]), [false; 3]);
        assert_eq!(is_enabled(&["--process-name", "y"]), [false; 3]);
    }

    #[test]
    fn a_duplicate_label_is_refused_with_both_values() {
        let twice = ["faultlined", "run", "--label", "a=1", "--label", "a=2"];
        let Command::Run(args) = Cli::try_parse_from(twice).unwrap().command else {
            panic!("run")
        };
        assert_eq!(
            args.read().1[0].what,
            "--label a is given twice, as \"1\" and as \"2\": keep one"
        );
    }
}
