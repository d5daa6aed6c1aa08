use crate::host::HostFinding;
use faultline_kernel::LevelMemory;
use faultline_runner::isolation::{Abilities, CpuSet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// By program file.
pub type Options = BTreeMap<PathBuf, BTreeMap<&'static str, OptionPresence>>;

/// Unknown facts are `None`, or `Err` with the reason.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// An error if no cgroups can be made.
    pub launcher: Result<LauncherFacts, String>,
    pub ram: Option<u64>,
    /// The cgroups above a run, and the machine.
    pub levels: Result<Vec<LevelMemory>, String>,
    pub swap: Option<u64>,
    pub cpus: Option<CpuSet>,
    pub programs: BTreeMap<String, Result<PathBuf, String>>,
    pub switches: BTreeMap<PathBuf, OptionPresence>,
    pub options: Options,
    /// The folders of all runs and of the experiment.
    pub folders: BTreeMap<PathBuf, FolderFacts>,
    pub io_devices: BTreeMap<PathBuf, Result<u64, String>>,
    /// `Err` if unusable.
    pub files: BTreeMap<PathBuf, Result<(), String>>,
    /// Unusable for the plan's user, with reasons.
    pub inaccessible: BTreeMap<PathBuf, String>,
    pub user: Result<(), String>,
    /// Those of [`super::TOOLS`] that are in `PATH`.
    pub tools: BTreeSet<&'static str>,
    pub other_user: bool,
    pub recorder: Result<PathBuf, String>,
    /// The daemon's own check.
    pub configuration: Option<Result<(), String>>,
    /// Time near the tip before the daemon reports it.
    pub at_tip_for: Option<Duration>,
    /// By lane: stake of its identity.
    pub stakes: BTreeMap<String, Stake>,
    /// Bytes copied before each run.
    pub snapshot_source: Option<Result<u64, String>>,
    /// Current violations of the plan's host rules.
    pub host: Vec<HostFinding>,
    pub homes: Vec<PathBuf>,
}

impl HostFacts {
    pub(super) fn uses_systemd(&self) -> bool {
        let launcher = self.launcher.as_ref();
        launcher.is_ok_and(|launcher| launcher.name == "systemd")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherFacts {
    pub name: String,
    pub can: Abilities,
}

/// Whether the text of a program file has an option or variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionPresence {
    Present,
    Missing,
    /// A script; the actual program is unknown.
    Script,
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stake {
    /// Lamports; 0 if the cluster does not know the identity.
    Known(u64),
    /// No active stake yet, but the identity votes.
    Votes,
    Unknown(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderFacts {
    pub is_there: bool,
    pub real: Option<PathBuf>,
    /// Why it may not be cleared, with a remedy.
    pub not_marked: Option<String>,
    /// The device that has or will have the folder.
    pub device: Option<u64>,
    /// The path, or a parent, that is no folder.
    pub blocked: Option<PathBuf>,
    /// Free bytes for unprivileged users.
    pub free: Option<u64>,
}
