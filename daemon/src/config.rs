//! The configuration: a TOML file, then the command line over it. Every mistake is reported, not just the first.

mod asked;
mod datapoints;
mod flight;
mod ingest;
mod load;
pub mod values;

pub use asked::{Admin, Host, Probe, Rpc, Validator};
pub(crate) use datapoints::label_name;
pub use datapoints::{Allowed, AllowedKind, Datapoints};
pub use faultline_settings::Mistake;
pub use flight::Flight;
pub use ingest::VARIABLE as INGEST_VARIABLE;
pub(crate) use load::rpc_url;
pub use load::{load, parse};

use faultline_agave::PublicKey;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What `print-config` prints: every key with its default, commented; uncommented keys would change nothing either.
pub const DEFAULT_TEXT: &str = include_str!("config/default.toml");

/// No tick is shorter.
pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Everything that can be configured, with its defaults in place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub target: Target,
    pub sampling: Sampling,
    pub threads: Threads,
    pub metrics: Metrics,
    /// Labels that say which cluster and which experiment this is.
    pub labels: Labels,
    /// The listener for the validator's pushes.
    pub ingest: Ingest,
    /// The validator's log as the other way in.
    pub log: Option<Log>,
    /// The upstream Influx server.
    pub forward: Option<Forward>,
    /// JSON-RPC.
    pub rpc: Rpc,
    /// Requests of a client to JSON-RPC, to time them.
    pub probe: Probe,
    /// Votes, leader slots and the cluster.
    pub validator: Validator,
    pub admin: Admin,
    /// What the node may run out of.
    pub host: Host,
    /// Thresholds of the phases.
    pub phase: Phase,
    pub datapoints: Datapoints,
    /// What is kept, and where.
    pub record: Record,
    /// The last minutes, always.
    pub flight: Flight,
    /// Where the kernel's folders are.
    pub paths: Paths,
    /// Files that secrets were read from.
    pub secret_files: Vec<PathBuf>,
}

impl Config {
    /// Switches off what a target that is no validator cannot have: pushes, a log of datapoints, JSON-RPC, the socket.
    pub(crate) fn settle(&mut self) {
        if matches!(self.target.find, Find::ProcessName(_)) {
            (self.ingest.enabled, self.rpc.enabled, self.admin.enabled) = (false, false, false);
            self.probe.enabled = false;
            (self.log, self.forward) = (None, None);
        }
    }
}

/// How the target is found: at most one way is given, else the processes are scanned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Find {
    /// Scan /proc for a validator.
    #[default]
    Scan,
    Pid(u32),
    /// The validator among this process and its descendants; the process itself until there is one.
    ProcessTree(u32),
    /// The process that serves `admin.rpc` of this ledger, or holds its lock.
    Ledger(PathBuf),
    /// The main process of this systemd unit, or the validator in its cgroup.
    Unit(String),
    /// Any process of this name; no validator's sources.
    ProcessName(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// How it is found.
    pub find: Find,
    /// Its identity, for validators that cannot be asked (no RPC port, no right on the admin socket).
    pub identity: Option<PublicKey>,
    /// Entries of the program cache, for builds whose capacity differs from their version's.
    pub program_cache_entries: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// From tick to tick, 100 ms at least.
    pub interval: Duration,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            interval: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    /// Whether they are read at all.
    pub enabled: bool,
    /// From one reading of all threads to the next.
    pub interval: Duration,
    /// From one reading of the context switches to the next; they cost as much as all the rest.
    pub switches_interval: Duration,
}

impl Default for Threads {
    fn default() -> Self {
        Threads {
            enabled: true,
            interval: Duration::from_secs(5),
            switches_interval: Duration::from_secs(120),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Where it listens; loopback unless a web config file protects it.
    pub listen: SocketAddr,
    /// TLS and basic auth, in the exporter-toolkit's format.
    pub web_config: Option<PathBuf>,
    /// Put the constant labels on every `agave_` series, not only on `agave_target_info`.
    pub constant_labels_everywhere: bool,
    /// Send protobuf with native histograms to scrapers that prefer it.
    pub native_histograms: bool,
    /// Further names under which it is asked for, in lower case.
    pub hosts: Vec<String>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            listen: loopback(9912),
            web_config: None,
            constant_labels_everywhere: false,
            native_histograms: false,
            hosts: Vec::new(),
        }
    }
}

/// Labels of `agave_target_info` and of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels {
    /// mainnet-beta, testnet, devnet, or a name of your own.
    pub cluster: Option<String>,
    /// The experiment this run belongs to.
    pub experiment: Option<String>,
    /// The arm of the experiment.
    pub arm: Option<String>,
    /// The run of the arm.
    pub run: Option<String>,
}

impl Labels {
    /// Those that are set, by name.
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

    /// The label of this name; `None` if it is none of these.
    pub fn by_name(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "cluster" => Some(&mut self.cluster),
            "experiment" => Some(&mut self.experiment),
            "arm" => Some(&mut self.arm),
            "run" => Some(&mut self.run),
            _ => None,
        }
    }
}

/// The listener for the validator's pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingest {
    pub enabled: bool,
    /// Where; loopback only, unless `beyond_loopback`.
    pub listen: SocketAddr,
    /// Whether other machines may push; they then need the credentials.
    pub beyond_loopback: bool,
    /// db, user and password that a push must name. `None`: the sender's user decides.
    pub credentials: Option<Credentials>,
    /// Users whose pushes are taken beside those of the validator's user, where no password decides.
    pub allow_users: Vec<u32>,
}

impl Default for Ingest {
    fn default() -> Self {
        Ingest {
            enabled: true,
            listen: loopback(9913),
            beyond_loopback: false,
            credentials: None,
            allow_users: Vec::new(),
        }
    }
}

/// What a push carries in its query.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub db: String,
    pub user: String,
    pub password: String,
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

/// Where the validator's log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Log {
    /// A file, followed over rotation.
    File(PathBuf),
    /// The journal of this unit.
    Journal(String),
}

/// The upstream Influx server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Its address, without `/write`.
    pub url: String,
    /// db, user and password there.
    pub credentials: Credentials,
    /// Bytes that may wait for it.
    pub queue_bytes: u64,
    /// How long one push is retried before it is given up.
    pub give_up_after: Duration,
}

/// Thresholds of the phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// At the tip: at most this many slots behind ...
    pub at_tip_slots: u64,
    /// ... for this long.
    pub at_tip_for: Duration,
    /// Behind: more than this many slots behind ...
    pub behind_slots: u64,
    /// ... for this long, after having been at the tip.
    pub behind_for: Duration,
}

impl Default for Phase {
    fn default() -> Self {
        Phase {
            at_tip_slots: 32,
            at_tip_for: Duration::from_secs(60),
            behind_slots: 128,
            behind_for: Duration::from_secs(30),
        }
    }
}

/// The recording of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The file; `None`: nothing is recorded.
    pub file: Option<PathBuf>,
    /// Labels of the recording beside those of [`Labels`], by name.
    pub labels: BTreeMap<String, String>,
}

/// Where the kernel's folders are, for containers that mount the host's elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub procfs: PathBuf,
    pub sysfs: PathBuf,
    /// The cgroup file system.
    pub cgroup: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            procfs: "/proc".into(),
            sysfs: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
        }
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
