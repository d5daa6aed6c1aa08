//! Starts a program in a group of its own, under limits, and ends all of it. Two ways do this, with the same promises:
//! `systemd` (transient units over D-Bus) and `direct` (cgroups made by hand, version 1 or 2).

mod compare;
mod cpus;
mod device;
mod direct;
mod files;
mod gate;
mod program;
mod systemd;
mod unified;
mod wait;

pub use direct::{CgroupRoots, Direct};
pub use systemd::Systemd;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A way to start programs in groups. One experiment uses one.
pub trait Launcher {
    /// For people: `systemd`, `cgroup v2`, `cgroup v1`.
    fn name(&self) -> &'static str;

    /// What limits it can set on this host.
    fn can(&self) -> &Abilities;

    /// Whether what it starts are children of the calling thread, so that a holder can be told to end with its parent.
    fn is_parent(&self) -> bool {
        false
    }

    /// Makes the group with its limits and starts the program in it, held back at [`Job::gate`] if there is one.
    ///
    /// # Errors
    /// A group of this name is there already, a limit is refused, the user or the program is not there. Nothing is left
    /// behind then.
    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>, Error>;

    /// The groups of this scope that are there, from this run of the program or from one that was killed; their names for
    /// people.
    fn leftovers(&self, scope: &str) -> Result<Vec<String>, Error>;

    /// Ends everything in the groups of this scope, by force after `grace`, and removes them; the names of what was there.
    ///
    /// # Errors
    /// Something cannot be ended or removed, with its name.
    fn sweep(&self, scope: &str, grace: Duration) -> Result<Vec<String>, Error>;
}

/// A program that was started in its group. Dropping it ends the whole group by force and removes it.
pub trait Launched {
    /// The first process of the group: the program itself, or the shell that it is a script of.
    fn pid(&self) -> u32;

    /// Lets the program begin that was held back at its gate, with what its holder is to be told. Nothing if it was not
    /// held.
    fn go(&mut self, word: &[u8]) -> Result<(), Error>;

    /// The limits that hold for the group, read back from the kernel.
    fn limits(&self) -> Result<Limits, Error>;

    /// Moves the limit of memory that only slows the group down, or lifts it, while the group runs; what holds then, read back.
    /// Version 1 has no such limit: its hard one is moved, and no process is killed for it any more, but waits. There the
    /// limit stays where it was if so much cannot be reclaimed. A lower limit has the caller, or systemd for it, reclaim what is
    /// above it before this returns: small steps are for the caller to take.
    fn relimit(&mut self, memory: Option<u64>) -> Result<Option<u64>, Error>;

    /// How the first process ended; `None` while it runs. What it started may live on, and is left alone: see
    /// [`is_empty`](Launched::is_empty). (systemd before version 250 asks it to end by itself.)
    fn ended(&mut self) -> Result<Option<End>, Error>;

    /// Whether no process of the group is left: neither the first one nor anything that it started.
    fn is_empty(&mut self) -> Result<bool, Error>;

    /// Asks the program and what it started to end, SIGTERM to each process of the group, and returns at once. Whoever
    /// waits for that waits for [`is_empty`](Launched::is_empty): a script ends before the validator that it started.
    ///
    /// # Errors
    /// The system refuses. That it has ended already is none.
    fn ask_to_end(&mut self) -> Result<(), Error>;

    /// What the group's files say now.
    fn evidence(&mut self) -> Result<Evidence, Error>;

    /// Ends what is left of the group by force, waits until nothing is, reads the evidence a last time, and removes the
    /// group.
    ///
    /// # Errors
    /// A process cannot be ended, or the group cannot be removed; both are named.
    fn close(self: Box<Self>) -> Result<Evidence, Error>;
}

/// What can be limited here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// Memory, which kills when it cannot be kept.
    pub memory_max: bool,
    /// Memory, which slows down when it cannot be kept: cgroup version 2 only.
    pub memory_high: bool,
    pub swap_max: bool,
    /// Which CPUs are used.
    pub cpus: bool,
    /// Bytes and operations of a device.
    pub io: bool,
    /// Pressure stall information of a group: cgroup version 2, which may be mounted next to version 1.
    pub pressure: bool,
    /// Most open files that a program can be given; `None` if that cannot be told.
    #[serde(default)]
    pub open_files: Option<u64>,
}

/// The name of a group: unique on the host while it is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupName {
    /// The experiment's, `[a-z0-9_]+`: what [`Launcher::sweep`] is told.
    pub scope: String,
    /// What it is in it, `[a-z0-9_]+`, such as `r012_a1`: group and limits are of this.
    pub run: String,
    /// Which program of the run, `[a-z0-9_]+`, such as `validator` or `recorder`.
    pub part: String,
}

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub name: GroupName,
    /// The program, absolute or from `PATH`, and its arguments.
    pub command: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// As whom it runs, by name; as this program's user without it.
    pub user: Option<String>,
    /// Where it starts; `/` without it.
    pub folder: Option<PathBuf>,
    /// Where its standard output and error go, appended; made if it is not there.
    pub output: PathBuf,
    /// What it may use.
    pub limits: Limits,
    /// Most open files (RLIMIT_NOFILE, soft and hard); as this program's own without it.
    pub open_files: Option<u64>,
    /// A FIFO, which the launcher makes and removes. The command opens it and waits for its end before it becomes what
    /// it is to be: see [`Launched::go`].
    pub gate: Option<PathBuf>,
    /// Longest life, where the launcher can end it even if this program is gone; a safety net.
    pub longest: Option<Duration>,
    /// How long the caller will wait for the end of what it has asked to end: a launcher uses no force before.
    pub grace: Duration,
}

/// What a group may use; `None`: all there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory, swap not included.
    pub memory_max: Option<u64>,
    /// Bytes of memory beyond which the group is slowed down.
    pub memory_high: Option<u64>,
    pub swap_max: Option<u64>,
    pub cpus: Option<CpuSet>,
    #[serde(default)]
    pub io: Vec<IoLimit>,
}

/// CPUs by number, ascending, each once, in the kernel's writing (`0-3,8`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Vec<u32>);

/// A limit of one block device; `None`: no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// Its node, such as `/dev/nvme0n1`, or a file on it.
    pub device: PathBuf,
    /// Bytes read per second.
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    pub write_bytes: Option<u64>,
    /// Reads per second.
    pub read_operations: Option<u64>,
    /// Writes per second.
    pub write_operations: Option<u64>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
}

/// What the kernel, and systemd where it is asked, say of a group. Every value is absent where it is not told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How its first process ended.
    pub end: Option<End>,
    /// systemd's `Result=` of the unit, such as `oom-kill`.
    pub result: Option<String>,
    /// `memory.events` of the group with its name for each count; of version 1 `oom_kill`, and how often a limit
    /// was met: `failcnt` that of memory (absent where no swap may be used: the other one is met then), `memsw_failcnt`
    /// that of memory and swap together (absent if 0: not every kernel counts), and `under_oom` while it waits because it
    /// is full and [`Launched::relimit`] has switched kills off.
    #[serde(default)]
    pub memory_events: BTreeMap<String, u64>,
    /// Most memory that was used, in bytes.
    pub memory_peak: Option<u64>,
    /// Memory used, in bytes.
    pub memory_current: Option<u64>,
    /// Of which page cache, in bytes (`file` of `memory.stat`; `cache` of version 1).
    pub file: Option<u64>,
    /// Of which anonymous, in bytes (`anon` of `memory.stat`; `rss` of version 1).
    pub anon: Option<u64>,
    /// Stalls of the group by resource (`cpu`, `memory`, `io`).
    #[serde(default)]
    pub pressure: BTreeMap<String, Pressure>,
}

/// How long a group was stalled, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one of its tasks.
    pub some_us: u64,
    /// All of its tasks at the same time.
    pub full_us: u64,
}

/// Why a group could not be made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel or of the group refuses.
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Anything else, in words that say what to do.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// For `map_err`: what happened to this file.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    }
}

impl GroupName {
    /// # Errors
    /// A part that could not be one of a folder or a unit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fits = |part: &&String| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        match [&self.scope, &self.run, &self.part]
            .into_iter()
            .find(|part| !fits(part))
        {
            Some(part) => Err(Error::Refused(format!(
                "{part:?} is no name of a group: write a-z, 0-9 and _"
            ))),
            None => Ok(()),
        }
    }
}
