//! What is to be tried: a plan, checked as far as it can be checked by itself.
//!
//! Every size is in GiB and its kin (`512G`, `1.5T`, `1800M`: powers of 1024), every time is written with its unit (`12h`).

mod clusters;
mod expand;
mod load;

pub use expand::{Expanded, Unknown, expand};
pub use faultline_settings::Mistake;
pub use load::{load, parse};

use faultline_isolation::{CpuSet, IoLimit, Limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A whole experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The plan's file, absolute.
    pub file: PathBuf,
    /// Its text, byte for byte.
    pub text: String,
    /// Of the experiment, `[a-z0-9-]+`, at most 40 bytes.
    pub name: String,
    /// Where state, recordings and reports go, absolute. Not on the ledger's folder.
    pub folder: PathBuf,
    /// How often each arm is run. Unless given: 4 forwards and backwards, else 3.
    pub replicates: u32,
    /// In which order.
    pub order: Order,
    /// Of the random order; logged. 1 unless given.
    pub seed: u64,
    /// Times a run is begun anew after it failed or was interrupted, before the experiment gives up.
    pub attempts: u32,
    /// What is run.
    pub workload: Workload,
    /// How each run begins.
    pub begin: Begin,
    /// What is done to the page cache before each run.
    pub page_cache: PageCache,
    /// When a run ends.
    pub stop: Stop,
    /// What the host must be like before each run.
    pub host: HostRules,
    /// The daemon beside each run.
    pub recorder: Recorder,
    /// The arms, in the plan's order, after factors were crossed.
    pub arms: Vec<Arm>,
    /// Places to run in: one, or with `concurrent` one for each arm and one for the second of the A/A pair.
    pub lanes: Vec<Lane>,
    /// Whether all arms run at the same time; then the arm that runs twice, by its place in `arms`.
    pub concurrent: Option<Concurrent>,
    /// What the report is told.
    pub report: ReportRules,
    /// What is searched in each run, instead of comparing arms: there is a single arm then, which sets nothing.
    pub search: Option<Search>,
}

/// How the least memory is searched in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The first headroom that is tried, in bytes.
    pub from: u64,
    /// On the way to a limit, at least.
    pub settle: Duration,
    /// Under a limit, until it is judged.
    pub dwell: Duration,
    /// The widest interval of 90 % that is an answer, as a share.
    pub width: f64,
    /// Longest time of a search.
    pub most: Duration,
    /// Growth is extrapolated so far.
    pub horizon: Duration,
}

impl Search {
    /// How long it takes at least: few trials, each end of the interval three times, and every fourth dwell a reference.
    pub fn shortest(&self) -> Duration {
        let (trials, confirmed) = (8, 6);
        let references = 2 + (trials + confirmed) / 3;
        let dwell = self.settle.saturating_add(self.dwell);
        let each = dwell.saturating_mul(trials + references);
        dwell
            .saturating_add(self.dwell)
            .saturating_mul(confirmed)
            .saturating_add(each)
    }
}

/// How a concurrent plan's arms stand beside one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrent {
    /// The arm of the A/A pair, which runs twice: its place in [`Plan::arms`].
    pub twice: usize,
    /// That lanes share a device whose use no limit divides.
    pub shared_device: Severity,
}

/// In which order arms are run. Each arm is run once before one is run again, but for [`Order::Sequential`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Forwards and backwards in turn: ABC CBA ABC.
    Abba,
    /// Each replicate begins with the next arm: ABC BCA CAB.
    LatinSquare,
    /// Each replicate in an order of its own, from the seed.
    Random,
    /// All of one arm, then all of the next: only where forced.
    Sequential,
}

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// A validator, or a replay of a fixed range of slots.
    pub kind: Kind,
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
    /// As whom; this program's user without it.
    pub user: Option<String>,
    /// Where it starts.
    pub working_folder: Option<PathBuf>,
    /// Its environment beside `PATH`, `HOME`, `LANG` and the variables that the runner sets; with placeholders.
    pub environment: BTreeMap<String, String>,
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// The program file, where the command is a script: what is looked at for the cache's switch.
    pub binary: Option<PathBuf>,
    /// The variable that sets the program cache's capacity.
    pub cache_variable: String,
    /// The cluster.
    pub cluster: Option<Cluster>,
    /// JSON-RPC of the cluster, to query the stake of an identity; by default the public node of `cluster`.
    pub cluster_rpc: Option<String>,
    /// `{entrypoints}`.
    pub entrypoints: Vec<String>,
    /// `{known_validators}`.
    pub known_validators: Vec<String>,
}

/// What a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Follows a cluster until it is told to stop.
    Validator,
    /// Does the same work in every arm and ends by itself: `agave-ledger-tool verify`, or any command.
    Replay,
}

/// A cluster by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    /// Mainnet-beta.
    MainnetBeta,
    /// Testnet.
    Testnet,
    /// Devnet.
    Devnet,
    /// One of one's own.
    Localnet,
}

/// How each run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// Ledger, accounts and snapshots are cleared; the validator downloads a snapshot, as in the study.
    Download,
    /// They are cleared, and what is kept in this folder is copied into the ledger (archives of snapshots into the folder
    /// for snapshots), so that every run starts equal.
    Restore {
        /// The folder that is kept.
        from: PathBuf,
    },
    /// Nothing is cleared.
    AsIs,
}

/// What is done to the page cache before each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageCache {
    /// The files of ledger, accounts, snapshots and the kept snapshot leave it.
    DropFiles,
    /// Everything leaves it, of the whole host.
    DropAll,
    /// Nothing.
    Leave,
}

/// When a run ends. An end by itself and a OOM kill always end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its length.
    pub duration: Duration,
    /// From when that is counted.
    pub counted_from: CountedFrom,
    /// Longest wait for the first executed transaction.
    pub first_transaction_within: Option<Duration>,
    /// Longest time without a new slot, once there was one.
    pub no_progress_for: Option<Duration>,
    /// Longest way to the tip, from the first executed transaction on.
    pub at_tip_within: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// From when the length of a run is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedFrom {
    /// The first executed transaction.
    FirstTransaction,
    /// The start of the process.
    Start,
}

/// What the host must be like before each run.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRules {
    /// From the end of one run to the start of the next.
    pub cool_down: Duration,
    /// Longest wait for a quiet host; then the rule says what follows.
    pub patience: Duration,
    /// Other load: CPUs that others use.
    pub busy_cpus: Rule<f64>,
    /// Free bytes on each disk that is written to.
    pub free_disk: Rule<u64>,
    /// Swap is on.
    pub swap: Severity,
    /// Transparent huge pages are `always`.
    pub huge_pages: Severity,
    /// A CPU governor other than `performance`.
    pub governor: Severity,
    /// A validator that runs already, or groups of this experiment.
    pub leftovers: Severity,
}

/// A bound and what follows when it is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rule<T> {
    /// The bound.
    pub bound: T,
    /// What follows.
    pub severity: Severity,
}

/// What follows from a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing; it is written down.
    Ignore,
    /// It is told.
    Warn,
    /// The run does not begin.
    Refuse,
}

/// The daemon beside each run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorder {
    /// Its program.
    pub program: Option<PathBuf>,
    /// Its configuration file.
    pub config: Option<PathBuf>,
    /// From tick to tick.
    pub interval: Option<Duration>,
    /// The CPUs that it may use.
    pub cpus: Option<CpuSet>,
    /// The file by which a Prometheus finds it, absolute.
    pub targets: Option<PathBuf>,
}

/// One thing that is tried.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arm {
    /// Unique; the label `arm` of its recordings.
    pub name: String,
    /// Bytes.
    pub memory_max: Option<u64>,
    /// Bytes.
    pub memory_high: Option<u64>,
    /// Bytes. 0 where `memory_max` is set and nothing is said.
    pub swap_max: Option<u64>,
    /// Capacity of the program cache.
    pub cache_entries: Option<u32>,
    /// `{binary}`, and what is looked at for the cache's switch.
    pub binary: Option<PathBuf>,
    /// `{arguments}`, or at the end of the command.
    pub arguments: Vec<String>,
    /// Over the workload's.
    pub environment: BTreeMap<String, String>,
    /// Over the lane's.
    pub cpus: Option<CpuSet>,
    /// Limits of devices.
    pub io: Vec<IoLimit>,
}

impl Arm {
    /// What the group of a run of this arm in this lane may use.
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

/// A place to run in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// Unique.
    pub name: String,
    /// `{ledger}`.
    pub ledger: PathBuf,
    /// `{accounts}`.
    pub accounts: Option<PathBuf>,
    /// `{snapshots}`.
    pub snapshots: Option<PathBuf>,
    /// `{identity}`: a keypair file; never touched.
    pub identity: Option<PathBuf>,
    /// `{rpc_port}`.
    pub rpc_port: Option<u16>,
    /// `{gossip_port}`.
    pub gossip_port: Option<u16>,
    /// `{port_range}`, as in `18110-18150`.
    pub port_range: Option<(u16, u16)>,
    /// CPUs for whatever runs here.
    pub cpus: Option<CpuSet>,
}

/// What the report is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportRules {
    /// The metric that decides.
    pub primary: Option<String>,
    /// Differences smaller than this share do not matter.
    pub margin: Option<f64>,
}
