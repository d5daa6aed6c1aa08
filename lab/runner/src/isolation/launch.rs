//! Starts a program in its own cgroup with limits, and ends all its processes. Two backends:
//! `systemd` (transient units over D-Bus) and `direct` (cgroups v1 or v2).
//!
//! A program can wait before its exec: its command then begins with the exec shim
//! (`faultline hold`), which waits at a FIFO, the exec gate.

mod cgroup;
mod direct;
mod limits;
mod program;
mod systemd;
mod v2;

pub use direct::{DirectLauncher, DirectLauncherPaths};
pub use limits::{CpuSet, IoLimit, Limits};
pub use systemd::SystemdLauncher;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    time::Duration,
};

pub trait Launcher {
    /// `systemd`, `cgroup v2` or `cgroup v1`.
    fn name(&self) -> &'static str;

    fn abilities(&self) -> &LauncherAbilities;

    /// Whether launched programs are children of the calling thread, so that the exec shim can use
    /// the parent-death signal ([`Job::exec_gate`]).
    fn launches_children(&self) -> bool {
        false
    }

    /// Creates the cgroup with its limits and starts the program in it. The program waits at
    /// [`Job::exec_gate`] if that is set. After an error nothing is left behind.
    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>>;

    /// Names of this experiment's existing cgroups, including those of a killed launcher.
    fn leftovers(&self, experiment: &str) -> Result<Vec<String>>;

    /// Ends all cgroups of this experiment, by force after `grace`, and removes them. Returns their
    /// names.
    fn sweep(&self, experiment: &str, grace: Duration) -> Result<Vec<String>>;
}

/// A running program. A drop kills all processes of the cgroup and removes the cgroup.
pub trait Launched {
    /// The first process of the cgroup: the program, or the shell of a script.
    fn pid(&self) -> u32;

    /// Sends `message` to the exec shim, which then executes the program. Does nothing without a
    /// [`Job::exec_gate`].
    fn open_exec_gate(&mut self, message: &[u8]) -> Result<()>;

    /// The limits in effect.
    fn limits(&self) -> Result<Limits>;

    /// Sets or lifts the throttling memory limit of the running cgroup, and returns the value read
    /// back.
    ///
    /// In version 1 this changes the hard limit, and with it that of memory and swap. Processes of a
    /// full cgroup then wait instead of being killed. The limit stays unchanged if the memory cannot
    /// be reclaimed.
    ///
    /// In both versions, if the new limit is below the memory in use, the kernel reclaims the excess
    /// before this returns (with systemd, this waits at most 2 s). So lower the limit in small steps.
    fn set_memory_limit(&mut self, memory: Option<u64>) -> Result<Option<u64>>;

    /// How the first process ended; `None` while it runs. Its children may live on (systemd before
    /// version 250 sends them SIGTERM).
    fn poll_end(&mut self) -> Result<Option<End>>;

    fn has_no_process(&mut self) -> Result<bool>;

    /// Sends SIGTERM to all processes of the cgroup, and returns at once. A script usually ends
    /// before the validator that it has started.
    fn terminate(&mut self) -> Result<()>;

    fn cgroup_state(&mut self) -> Result<CgroupState>;

    /// Kills the cgroup, waits for its end, reads its state a last time, and removes the cgroup.
    fn close(self: Box<Self>) -> Result<CgroupState>;
}

/// What a launcher can do besides a hard limit of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LauncherAbilities {
    /// Throttling limit: cgroup version 2 only.
    pub memory_high: bool,
    pub swap_max: bool,
    pub cpus: bool,
    pub io: bool,
    /// Pressure stall information: cgroup version 2, which may be mounted next to version 1.
    pub pressure: bool,
    /// Highest possible RLIMIT_NOFILE; `None` if unknown.
    pub open_files: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct CgroupName {
    /// The unique name of the experiment, `[a-z0-9_]+`.
    pub experiment: String,
    /// The run, `[a-z0-9_]+`, such as `r012_a1`.
    pub run: String,
    /// The role of the program in the run, `[a-z0-9_]+`, such as `validator`.
    pub role: String,
}

/// A program to launch, with its limits.
#[derive(Debug)]
pub struct Job {
    pub name: CgroupName,
    /// The program, absolute or from `PATH`, and its arguments.
    pub command: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// User name; `None`: the user of the runner, or of systemd.
    pub user: Option<String>,
    /// Working directory; `None`: `/`.
    pub folder: Option<PathBuf>,
    /// File for standard output and error: appended, created if missing.
    pub output: PathBuf,
    pub limits: Limits,
    /// RLIMIT_NOFILE, soft and hard; `None`: inherited.
    pub open_files: Option<u64>,
    /// A FIFO that the launcher creates and removes. The exec shim reads the FIFO to its end before
    /// it executes the program.
    pub exec_gate: Option<PathBuf>,
    /// Maximum run time. Only systemd enforces it, even after the runner was killed.
    pub max_duration: Option<Duration>,
    /// After a request to end, the launcher uses no force for this time.
    pub grace: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Code(i32),
    Signal(i32),
}

/// Resource use of a cgroup, and the end of its first process. The values are final once the cgroup
/// has no process. The kernel or systemd may not report all values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupState {
    pub end: Option<End>,
    /// systemd's `Result=` of the unit, such as `oom-kill`.
    pub result: Option<String>,
    /// Counts of `memory.events`. Version 1 has other keys:
    ///
    /// * `oom_kill`;
    /// * `failcnt`: hits of the memory limit. Absent if no swap may be used: the limit of memory and
    ///   swap is equal then, and the kernel checks it first;
    /// * `memsw_failcnt`: hits of the limit of memory and swap. Absent if 0, because some
    ///   kernels do not count them;
    /// * `under_oom`: the cgroup is full and waits, because [`Launched::set_memory_limit`] has disabled
    ///   kills.
    #[serde(default)]
    pub memory_events: BTreeMap<String, u64>,
    pub memory_peak: Option<u64>,
    pub memory_current: Option<u64>,
    /// Page cache, in bytes (`file` of `memory.stat`; `cache` of version 1).
    pub file: Option<u64>,
    /// Anonymous memory, in bytes (`anon` of `memory.stat`; `rss` of version 1).
    pub anon: Option<u64>,
    #[serde(default)]
    pub pressure: BTreeMap<String, Pressure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some_us: u64,
    /// Time in which all tasks waited.
    pub full_us: u64,
}

/// Prefix of all cgroup and unit names. Dots separate the parts: a slice with a dash in its name is
/// inside another slice, whose limits apply as well.
const NAME_PREFIX: &str = "faultline";

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub trait WithPath<T> {
    /// Puts `path` before the text of an error.
    fn with_path(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> WithPath<T> for Result<T, E> {
    fn with_path(self, path: &Path) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let text = format!("{}: {error}", path.display());
            std::io::Error::new(error.kind(), text).into()
        })
    }
}

/// Calls `poll` until it returns a value, or the pauses between the calls add up to `timeout`.
fn poll_until<T>(
    timeout: Duration,
    mut poll: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut remaining = timeout;
    loop {
        if let Some(value) = poll()? {
            return Ok(Some(value));
        }
        if remaining.is_zero() {
            return Ok(None);
        }
        let pause = POLL_INTERVAL.min(remaining);
        std::thread::sleep(pause);
        remaining -= pause;
    }
}

impl Job {
    fn open_output(&self) -> Result<File> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.output)
            .with_path(&self.output)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "with exit code {code}"),
            Self::Signal(signal) => write!(f, "by signal {signal}"),
        }
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{NAME_PREFIX}.{}.{}.{}",
            self.experiment, self.run, self.role
        )
    }
}

impl CgroupName {
    pub(crate) fn check(&self) -> Result<()> {
        [&self.experiment, &self.run, &self.role]
            .into_iter()
            .try_for_each(|part| Self::check_part(part))
    }

    fn check_part(part: &str) -> Result<()> {
        let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        if part.is_empty() || !part.bytes().all(is_allowed) {
            bail!("{part:?} is no name of a cgroup: write a-z, 0-9 and _");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_with_a_path_gives_its_reason_once() {
        let path = Path::new("/nonexistent");
        let error = File::open(path).with_path(path).unwrap_err();
        let expected = "/nonexistent: No such file or directory (os error 2)";
        assert_eq!([error.to_string(), format!("{error:#}")], [expected; 2]);
        let cause = error.downcast_ref().map(std::io::Error::kind);
        assert_eq!(cause, Some(std::io::ErrorKind::NotFound));
    }
}
