//! A plan, validated without the state of the host. Sizes have binary units (`512G`: powers of
//! 1024), times have a unit (`12h`).

mod clusters;
mod expand;
mod load;

pub use expand::{Expanded, PlaceholderError, expand};
pub use faultline_settings::ConfigError;
pub use load::{load, parse};

use clap::ValueEnum;
use faultline_runner::isolation::{CpuSet, IoLimit, Limits};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Clone)]
pub struct Plan {
    pub file: PathBuf,
    pub text: String,
    /// `[a-z0-9-]+`, at most 40 bytes.
    pub name: String,
    /// For state, recordings and reports. Outside of the work folders.
    pub folder: PathBuf,
    /// Default: 4 for [`Order::Abba`] without `concurrent`, 1 for a search, else 3.
    pub replicates: u32,
    pub order: Order,
    /// For [`Order::Random`].
    pub seed: u64,
    /// Attempts at a turn after each start of `experiment run` or `resume`. A turn is the runs that
    /// execute at the same time: one, or with `concurrent` one per lane.
    pub attempts_per_turn: u32,
    pub workload: Workload,
    /// Section `[begin]`.
    pub initial_state: InitialState,
    pub page_cache: PageCache,
    pub stop: StopRules,
    pub host: HostRules,
    pub recorder: RecorderOptions,
    /// From `[[arm]]` and the crossed `[factors]`.
    pub arms: Vec<Arm>,
    /// One; with `concurrent`, one for each arm and one for the second run of the A/A pair.
    pub lanes: Vec<Lane>,
    pub concurrent: Option<Concurrent>,
    pub report: ReportRules,
    pub memory_search: Option<MemorySearchRules>,
    pub slurm: SlurmOptions,
}

impl Plan {
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// `ledger of lane "a"`, or only `ledger` if the plan has one lane.
    pub(crate) fn with_lane_name(&self, what: &str, lane: &Lane) -> String {
        match self.lanes.len() {
            0 | 1 => what.to_owned(),
            _ => format!("{what} of lane {:?}", lane.name),
        }
    }

    pub(crate) fn folders_of<'p>(
        &self,
        lane: &'p Lane,
    ) -> impl Iterator<Item = (String, &'p Path)> {
        lane.named_folders()
            .map(|(key, path)| (self.with_lane_name(key, lane), path))
    }

    /// Its files are copied into the ledger before a run.
    pub(crate) fn restored_from(&self) -> Option<&Path> {
        match &self.initial_state {
            InitialState::Restore { from } => Some(from),
            _ => None,
        }
    }

    /// Ledger, accounts and snapshots of all lanes.
    pub(crate) fn work_folders(&self) -> impl Iterator<Item = &Path> {
        self.lanes.iter().flat_map(Lane::folders)
    }

    pub(crate) fn run_count(&self) -> usize {
        (self.arms.len() + usize::from(self.concurrent.is_some())) * self.replicates as usize
    }

    /// Until the first transaction or, in a search, the tip. `None` if unlimited.
    pub(crate) fn max_start_time(&self) -> Option<Duration> {
        match (&self.memory_search, self.stop.counted_from) {
            // The time of a search counts from the tip. To reach the tip may take as long again.
            (Some(search), _) => Some(search.max_duration),
            (None, CountedFrom::Start) => Some(Duration::ZERO),
            (None, CountedFrom::FirstTransaction) => self.stop.first_transaction_within,
        }
    }

    /// `None` if unlimited.
    pub(crate) fn max_run_time(&self) -> Option<Duration> {
        Some(self.max_start_time()? + self.stop.duration + self.stop.grace)
    }
}

/// A search finds the least sufficient headroom: what a memory limit leaves above unreclaimable
/// memory. A dwell is a period that tests one headroom.
#[derive(Debug, Clone)]
pub struct MemorySearchRules {
    /// Bytes.
    pub first_headroom: u64,
    /// Minimum time from a new limit to its dwell. If the validator meanwhile stalls or lacks
    /// memory, the search lifts the limit instead.
    pub settle_time: Duration,
    /// A dwell that confirms the answer takes twice as long.
    pub dwell: Duration,
    /// Width of the answer's 90 % confidence interval, as a share of the answer.
    pub max_interval_width: f64,
    /// Counts from the time when the validator reaches the tip of the chain.
    pub max_duration: Duration,
    /// Time for which the growth of unreclaimable memory is extrapolated.
    pub growth_horizon: Duration,
}

impl MemorySearchRules {
    /// Estimate for a short search: 8 trials, and 3 confirmations at each end of the interval.
    /// References are dwells without a limit: 2 first, then 1 after every 3 dwells with a limit.
    pub fn min_duration(&self) -> Duration {
        let (trials, confirmations) = (8, 6);
        let references = 2 + (trials + confirmations) / 3;
        let trial_time = self.settle_time.saturating_add(self.dwell);
        let confirmation_time = trial_time.saturating_add(self.dwell);
        confirmation_time
            .saturating_mul(confirmations)
            .saturating_add(trial_time.saturating_mul(trials + references))
    }
}

/// All arms run at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Concurrent {
    /// Index of the arm that runs twice in a turn: the A/A pair, whose runs should not differ.
    pub repeated_arm: usize,
    /// How severe it is that lanes share a device without I/O limits.
    pub shared_device_severity: Severity,
}

/// Each arm runs once before any arm runs again, except with [`Order::Sequential`].
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Order {
    /// ABC CBA ABC.
    Abba,
    /// ABC BCA CAB.
    LatinSquare,
    /// Each replicate in another order.
    Random,
    /// All runs of one arm, then the next. Requires `force_order`.
    Sequential,
}

#[derive(Debug, Clone, Default)]
pub struct Workload {
    pub kind: WorkloadKind,
    /// Words with placeholders.
    pub command: Vec<String>,
    /// Default: this program's user.
    pub user: Option<String>,
    /// Key `working_folder`.
    pub current_dir: Option<PathBuf>,
    /// With placeholders. May replace `PATH`, `HOME` and `LANG`.
    pub environment: BTreeMap<String, String>,
    pub open_files: Option<u64>,
    /// The program that a start script runs. It must contain the name in `program_cache_variable`
    /// if an arm has `program_cache_entries`.
    pub binary: Option<PathBuf>,
    /// Sets the capacity of the validator's program cache.
    pub program_cache_variable: String,
    pub cluster: Option<Cluster>,
    /// For stake queries; default: the public node of `cluster`.
    pub cluster_rpc: Option<String>,
    pub entrypoints: Vec<String>,
    pub known_validators: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, ValueEnum)]
pub enum WorkloadKind {
    #[default]
    /// Follows a cluster until stopped.
    Validator,
    /// The same work in every arm: `agave-ledger-tool verify`, or any command.
    Replay,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Cluster {
    MainnetBeta,
    Testnet,
    Devnet,
    Localnet,
}

/// State of the work folders before a run.
#[derive(Debug, Clone, PartialEq)]
pub enum InitialState {
    /// Ledger, accounts and snapshots are cleared; the validator downloads a snapshot.
    Download,
    /// Also clears these folders. `from` is then copied into the ledger, and its snapshot archives
    /// into the snapshots folder.
    Restore {
        from: PathBuf,
    },
    AsIs,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum PageCache {
    /// Drops the pages of ledger, accounts, snapshots and `begin.from`.
    DropFiles,
    DropAll,
    Leave,
}

/// An exit and an OOM kill always end a run.
#[derive(Debug, Clone)]
pub struct StopRules {
    pub duration: Duration,
    pub counted_from: CountedFrom,
    /// From the start to the first executed transaction.
    pub first_transaction_within: Option<Duration>,
    /// Time without a new slot, after the first slot.
    pub no_progress_for: Option<Duration>,
    /// From the first executed transaction to the tip.
    pub at_tip_within: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum CountedFrom {
    FirstTransaction,
    Start,
}

#[derive(Debug, Clone)]
pub struct HostRules {
    /// Minimum time between two turns.
    pub cool_down: Duration,
    /// Time before a turn for temporary problems of the host to end. Key `patience`.
    pub max_host_wait: Duration,
    /// CPUs that other programs use.
    pub busy_cpus: Rule<f64>,
    /// Free bytes on each disk that is written to.
    pub free_disk: Rule<u64>,
    pub swap_enabled: Severity,
    /// Transparent huge pages are `always`.
    pub huge_pages: Severity,
    /// A CPU governor other than `performance`.
    pub governor: Severity,
    /// Cgroups of this experiment and processes that use its work folders. Other validators on the
    /// host count too, but as a warning at most.
    pub leftovers: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule<T> {
    pub bound: T,
    pub severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Only `faultline experiment plan` reports it; a run does not wait for it. A plan calls it
    /// "ignore".
    #[serde(rename = "ignore")]
    #[value(name = "ignore")]
    Note,
    Warn,
    /// The run does not begin.
    Refuse,
}

#[derive(Debug, Clone, Default)]
pub struct RecorderOptions {
    pub program: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub interval: Duration,
    pub cpus: Option<CpuSet>,
    /// Prometheus target file.
    pub targets: Option<PathBuf>,
}

/// One of the settings that an experiment compares. Its runs have the same limits and program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arm {
    /// The label `arm` of its recordings.
    pub name: String,
    /// Bytes.
    pub memory_max: Option<u64>,
    /// Bytes.
    pub memory_high: Option<u64>,
    /// Default with `memory_max`: 0.
    pub swap_max: Option<u64>,
    /// Key `cache_entries`.
    pub program_cache_entries: Option<u32>,
    /// Value of `{binary}`. Default: [`Workload::binary`].
    pub binary: Option<PathBuf>,
    /// Value of `{arguments}`, else appended to the command.
    pub arguments: Vec<String>,
    /// Overrides [`Workload::environment`].
    pub environment: BTreeMap<String, String>,
    /// Overrides [`Lane::cpus`].
    pub cpus: Option<CpuSet>,
    pub io: Vec<IoLimit>,
    /// In the plan's file.
    pub line: Option<usize>,
}

impl Workload {
    /// All texts that may have placeholders.
    pub(crate) fn unexpanded_texts(&self) -> Vec<&String> {
        self.command
            .iter()
            .chain(self.environment.values())
            .collect()
    }
}

impl Arm {
    pub(crate) fn unexpanded_texts(&self) -> Vec<&String> {
        self.arguments
            .iter()
            .chain(self.environment.values())
            .collect()
    }

    pub fn limits(&self, lane: &Lane) -> Limits {
        Limits {
            memory_max: self.memory_max,
            memory_high: self.memory_high,
            swap_max: self.swap_max,
            cpus: self.cpus.clone().or_else(|| lane.cpus.clone()),
            io: self.io.clone(),
        }
    }
}

/// Folders, ports and CPUs for one run. Runs at the same time have different lanes.
/// Placeholders such as `{ledger}` have the values of these fields.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    pub name: String,
    pub ledger: PathBuf,
    pub accounts: Option<PathBuf>,
    pub snapshots: Option<PathBuf>,
    /// A keypair file; never changed.
    pub identity: Option<PathBuf>,
    pub rpc_port: Option<u16>,
    pub gossip_port: Option<u16>,
    pub port_range: Option<(u16, u16)>,
    pub cpus: Option<CpuSet>,
    pub line: Option<usize>,
}

impl Lane {
    /// Work folders, with their keys in a plan.
    fn named_folders(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let folders = [
            ("ledger", Some(&self.ledger)),
            ("accounts", self.accounts.as_ref()),
            ("snapshots", self.snapshots.as_ref()),
        ];
        folders
            .into_iter()
            .filter_map(|(key, path)| Some((key, path?.as_path())))
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.named_folders().map(|(_, path)| path)
    }
}

#[derive(Debug, Clone, Default)]
pub struct SlurmOptions {
    /// Bytes. Default: the largest sum of memory limits in a turn, and a reserve.
    pub memory: Option<u64>,
    pub constraint: Option<String>,
    pub exclude: Option<String>,
    /// For `sbatch`, such as `--partition=lab`.
    pub options: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportRules {
    pub primary_metric: Option<String>,
    /// Smaller relative differences do not matter.
    pub margin: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_may_spend_its_maximum_duration_again_reaching_the_tip() {
        let text = "name = \"s\"\nfolder = \"/f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"download\"\n\
                    [stop]\nfirst_transaction_within = \"1h\"\ngrace = \"1m\"\n\
                    [search]\nwhat = \"memory\"\nfrom = \"1G\"\nmost = \"20h\"\n";
        let plan = parse(text, Path::new("/plan.toml")).unwrap();
        assert_eq!(
            plan.max_run_time(),
            Some(Duration::from_secs(40 * 3600 + 60))
        );
    }
}
