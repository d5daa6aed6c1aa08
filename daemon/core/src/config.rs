//! The configuration: the TOML file, overridden by the command line. Reports every error, not only
//! the first.

mod datapoints;
mod flight;
mod ingest;
mod load;
pub mod values;

pub use datapoints::{AllowedDatapoint, DatapointKind, Datapoints, label_name};
pub use faultline_settings::ConfigError;
pub use flight::Flight;
pub use ingest::ENV_VARIABLE as INGEST_ENV_VARIABLE;
pub use load::{load, parse, read_file, rpc_url};

use faultline_agave::{PublicKey, config::SolanaMetricsConfig};
use faultline_kernel::HostRoot;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// The output of `print-config`: every key with its default or, in a comment, with an example.
pub const DEFAULT_TEXT: &str = include_str!("config/default.toml");

pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub target: Target,
    pub sampling: Sampling,
    pub threads: Threads,
    pub metrics: Metrics,
    pub labels: Labels,
    pub ingest: Ingest,
    pub log: Option<Log>,
    pub forward: Option<Forward>,
    pub rpc: Rpc,
    pub probe: Probe,
    pub validator: Votes,
    pub admin: Admin,
    pub host: HostResources,
    pub phase: Phase,
    pub datapoints: Datapoints,
    pub record: Record,
    pub flight: Flight,
    pub status: StatusPage,
    /// Mount points of the kernel's file systems, for containers with other paths.
    pub paths: HostRoot,
    /// Files with passwords, to check who may read them.
    pub secret_files: Vec<PathBuf>,
}

impl Config {
    /// Disables the sources that only a validator has, if the target is another process.
    fn disable_sources_by_selector(&mut self) {
        if matches!(self.target.selector, TargetSelector::ProcessName(_)) {
            (self.ingest.enabled, self.rpc.enabled, self.admin.enabled) = (false, false, false);
            self.probe.enabled = false;
            (self.log, self.forward) = (None, None);
        }
    }
}

/// How the target is found. The default scans all processes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TargetSelector {
    #[default]
    Scan,
    Pid(u32),
    /// The validator among this process and its descendants; the process itself until a validator
    /// appears.
    ProcessTree(u32),
    /// The process that serves this ledger's `admin.rpc`, holds its lock or names it in its arguments.
    Ledger(PathBuf),
    /// The validator in this systemd unit's cgroup. Of several, the unit's main process.
    Unit(String),
    ProcessName(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Target {
    pub selector: TargetSelector,
    /// For validators that cannot be queried (no RPC port, no right on the admin socket).
    pub identity: Option<PublicKey>,
    /// Capacity of the program cache, for builds whose capacity differs from their version's
    /// default.
    pub program_cache_entries: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// At least 100 ms.
    pub interval: Duration,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Threads {
    pub enabled: bool,
    pub interval: Duration,
    /// Context switches cost as much to read as everything else, so their interval is longer.
    pub switches_interval: Duration,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(5),
            switches_interval: Duration::from_secs(120),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// Loopback unless a web config file protects it.
    pub listen: SocketAddr,
    /// TLS and basic auth in the exporter-toolkit's format.
    pub web_config: Option<PathBuf>,
    /// Puts the constant labels on every `agave_` series, not only on `agave_target_info`.
    pub constant_labels_everywhere: bool,
    pub native_histograms: bool,
    pub allowed_hosts: Vec<String>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            listen: loopback(9912),
            web_config: None,
            constant_labels_everywhere: false,
            native_histograms: false,
            allowed_hosts: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Labels {
    pub cluster: Option<String>,
    pub experiment: Option<String>,
    pub arm: Option<String>,
    pub run: Option<String>,
}

impl Labels {
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("cluster", &self.cluster),
            ("experiment", &self.experiment),
            ("arm", &self.arm),
            ("run", &self.run),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    pub fn by_name(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "cluster" => &mut self.cluster,
            "experiment" => &mut self.experiment,
            "arm" => &mut self.arm,
            "run" => &mut self.run,
            _ => return None,
        })
    }
}

/// Receives the datapoints that the validator pushes as to an InfluxDB.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingest {
    pub enabled: bool,
    /// Loopback only, unless `beyond_loopback`.
    pub listen: SocketAddr,
    /// Other machines may push; they need the credentials.
    pub beyond_loopback: bool,
    /// Every push must have this db, user and password. `None`: the sender's user id decides.
    pub credentials: Option<Credentials>,
    /// Users whose pushes are accepted besides the validator's, if `credentials` is `None`.
    pub allow_users: Vec<u32>,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: loopback(9913),
            beyond_loopback: false,
            credentials: None,
            allow_users: Vec::new(),
        }
    }
}

#[derive(Clone, PartialEq)]
pub struct Credentials {
    pub db: String,
    pub user: String,
    pub password: String,
}

impl From<SolanaMetricsConfig> for Credentials {
    fn from(config: SolanaMetricsConfig) -> Self {
        Self {
            db: config.db,
            user: config.username,
            password: config.password,
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Credentials {{ db: {:?}, user: {:?}, password: (hidden) }}",
            self.db, self.user
        )
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Log {
    /// Follows the file over rotation.
    File(PathBuf),
    Journal(String),
}

/// Forwards the received datapoints to an InfluxDB.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Without `/write`.
    pub url: String,
    pub credentials: Credentials,
    pub queue_bytes: u64,
    pub give_up_after: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rpc {
    pub enabled: bool,
    /// `None`: the address from the admin socket, else that of the validator's command line.
    pub url: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
}

impl Default for Rpc {
    fn default() -> Self {
        Self {
            enabled: true,
            url: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
        }
    }
}

/// A JSON-RPC request at each interval, to measure the response time that a client sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub enabled: bool,
    /// One of [`faultline_agave::rpc::PROBE_METHODS`].
    pub method: &'static str,
    /// At least a second.
    pub interval: Duration,
    pub timeout: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            enabled: false,
            method: "getLatestBlockhash",
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
        }
    }
}

/// The TOML table `validator`: votes, stake, rewards and leader slots from JSON-RPC.
#[derive(Debug, Clone, PartialEq)]
pub struct Votes {
    pub enabled: bool,
    /// `None`: the identity's vote account.
    pub vote_account: Option<PublicKey>,
    /// The key is `activating_stake`. Reads all stake accounts to find stake that activates or
    /// deactivates.
    pub scans_stakes: bool,
    /// At least a second.
    pub interval: Duration,
    pub timeout: Duration,
}

impl Default for Votes {
    fn default() -> Self {
        Self {
            enabled: true,
            vote_account: None,
            scans_stakes: false,
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(5),
        }
    }
}

/// The TOML table `host`: the sources `resources` and `interrupts`. The source `host` is always on.
#[derive(Debug, Clone, PartialEq)]
pub struct HostResources {
    pub enabled: bool,
    /// Of the source `resources`; at least a second.
    pub interval: Duration,
}

impl Default for HostResources {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(15),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    pub enabled: bool,
    pub timeout: Duration,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout: Duration::from_secs(2),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    pub at_tip_slots: u64,
    pub at_tip_for: Duration,
    pub behind_slots: u64,
    pub behind_for: Duration,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            at_tip_slots: 32,
            at_tip_for: Duration::from_secs(60),
            behind_slots: 128,
            behind_for: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    pub file: Option<PathBuf>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusPage {
    /// File of the lab's measured or predicted results, for the status pages.
    pub evidence: Option<PathBuf>,
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
