//! What is known of the host and of what a plan names. Nothing here is judged.

use crate::host::HostFinding;
use faultline_isolation::{Abilities, CpuSet};
use faultline_kernel::LevelMemory;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Of each program file: options that arms give it, and whether it has them.
pub type Options = BTreeMap<PathBuf, BTreeMap<&'static str, Switch>>;

/// Everything that findings rest on. What could not be learnt is `None` or an `Err` with the reason.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// How groups would be made; an error if they cannot be.
    pub launcher: Result<LauncherFacts, String>,
    /// Memory of the host, in bytes.
    pub ram: Option<u64>,
    /// What limits a run from outside: the cgroups that runs are made in, and the machine. An error if a limit cannot be read.
    pub levels: Result<Vec<LevelMemory>, String>,
    /// Swap of the host, in bytes.
    pub swap: Option<u64>,
    /// CPUs that are switched on.
    pub cpus: Option<CpuSet>,
    /// Programs of the plan, as it names them (the commands' first words): the file, or why there is none to be run.
    pub programs: BTreeMap<String, Result<PathBuf, String>>,
    /// Whether program files contain the cache's variable.
    pub switches: BTreeMap<PathBuf, Switch>,
    /// Options that arms give program files, and whether they have them.
    pub options: Options,
    /// Folders that runs work in, and that of the experiment.
    pub folders: BTreeMap<PathBuf, FolderFacts>,
    /// Devices of `io` limits: the device's number, or why it is none.
    pub io_devices: BTreeMap<PathBuf, Result<u64, String>>,
    /// Other files and folders that the plan names, each with why it cannot be used, if so.
    pub files: BTreeMap<PathBuf, Result<(), String>>,
    /// What of the plan's folders and files its user cannot use: why, as the end of a sentence about it.
    pub closed: BTreeMap<PathBuf, String>,
    /// Whether the user is there.
    pub user: Result<(), String>,
    /// Programs of the host that runs may need ([`super::TOOLS`]) and that are there.
    pub tools: BTreeSet<&'static str>,
    /// Whether the user is another one than this program's.
    pub other_user: bool,
    /// The daemon's program.
    pub recorder: Result<PathBuf, String>,
    /// What the daemon says of the configuration that the plan gives it; `None` where there is none, or no daemon.
    pub configuration: Option<Result<(), String>>,
    /// How long a validator is near the tip before the daemon says so; `None` if its configuration cannot be read.
    pub at_tip_for: Option<Duration>,
    /// Stake of the identity of each lane, by the lane's name.
    pub stakes: BTreeMap<String, Stake>,
    /// What is copied before each run, in bytes; `None` where nothing is.
    pub snapshot_source: Option<Result<u64, String>>,
    /// What the plan's rules for the host say of it now.
    pub host: Vec<HostFinding>,
    /// Home folders of the host's users.
    pub homes: Vec<PathBuf>,
}

/// A way to make groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherFacts {
    /// Its name.
    pub name: String,
    /// What it can limit.
    pub can: Abilities,
}

/// Whether a program file has the name of a variable or an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switch {
    /// The name is in it.
    There,
    /// It is not.
    Missing,
    /// It is a script, which says nothing of the program that it starts.
    Script,
    /// It cannot be read: why.
    Unreadable(String),
}

/// Whether an identity has stake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stake {
    /// In lamports; 0 for one that the cluster does not know.
    Known(u64),
    /// None is active yet, but the identity votes.
    Votes,
    /// Nobody could say: why.
    Unknown(String),
}

/// A folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderFacts {
    /// Whether it is there.
    pub is_there: bool,
    /// Where it really is, with no symbolic link on the way.
    pub real: Option<PathBuf>,
    /// Why it may not be cleared, in words that say what to do.
    pub not_marked: Option<String>,
    /// The device that it is on, or will be made on.
    pub device: Option<u64>,
    /// What is in its place, or on the way to it, and is no folder.
    pub blocked: Option<PathBuf>,
    /// Free bytes there, for ordinary users.
    pub free: Option<u64>,
}
