//! Where the kernel's files are, and what about the host does not change while it runs.

pub(crate) mod files;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::file::{OpenFile, Owner, Records};
use crate::{IgnoredSignals, ParseError, ReadError, parse};

/// The folders under which the kernel shows itself: the only way to open a file here.
///
/// A container that watches its host, and a test with a pretend host, give other folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    /// `/proc`
    pub procfs: PathBuf,
    /// `/sys`
    pub sysfs: PathBuf,
    /// `/sys/fs/cgroup`
    pub cgroup: PathBuf,
}

impl Default for HostRoot {
    fn default() -> Self {
        Self {
            procfs: "/proc".into(),
            sysfs: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
        }
    }
}

impl HostRoot {
    /// A host whose `proc`, `sys` and `sys/fs/cgroup` are below one folder.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self {
            procfs: folder.join("proc"),
            sysfs: folder.join("sys"),
            cgroup: folder.join("sys/fs/cgroup"),
        }
    }

    /// Opens a file of the host below `procfs`, such as `sys/vm/max_map_count`, to be read again and again.
    ///
    /// # Errors
    /// `Absent`, `Forbidden` or `Broken`; never `Gone`, as the host does not vanish.
    pub fn open_proc(&self, relative: &str) -> Result<OpenFile, ReadError> {
        OpenFile::open(
            Owner::Host,
            Arc::from(self.procfs.join(relative)),
            Records::Many,
        )
    }

    /// Opens a file of the host below `procfs` that the kernel gives in one piece, such as `meminfo`: one read tells all
    /// of it, where [`open_proc`](Self::hold_proc) needs another to see its end.
    pub fn open_proc_piece(&self, relative: &str) -> Result<OpenFile, ReadError> {
        OpenFile::open(
            Owner::Host,
            Arc::from(self.procfs.join(relative)),
            Records::One,
        )
    }

    /// Reads a file of the host below `procfs` once.
    ///
    /// # Errors
    /// As [`open_proc`](Self::hold_proc); `Broken` when `parse` refuses the text.
    pub fn read_proc<T>(
        &self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, ReadError> {
        self.open_proc(relative)?.parse(&mut Vec::new(), parse)
    }

    /// Reads a file of the host below `sysfs` once.
    ///
    /// # Errors
    /// As [`read_proc`](Self::read_proc). Some files of sysfs answer with an error for what they cannot tell: `Broken`.
    pub fn read_sys<T>(
        &self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, ReadError> {
        OpenFile::open(
            Owner::Host,
            Arc::from(self.sysfs.join(relative)),
            Records::Many,
        )?
        .parse(&mut Vec::new(), parse)
    }

    /// The names in a folder below `sysfs`, in alphabetical order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// When the folder cannot be listed; `Absent` if there is none.
    pub fn list_sys(&self, relative: &str) -> Result<Vec<String>, ReadError> {
        let path = self.sysfs.join(relative);
        let mut names: Vec<String> = list(&path)?
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The signals that this process ignores: those that were ignored when it was started, and SIGPIPE.
    pub fn ignored_signals(&self) -> Result<IgnoredSignals, ReadError> {
        self.read_proc("self/status", parse::ignored_signals::parse)
    }

    /// The processes that are there now, in no particular order.
    pub fn pids(&self) -> Result<Vec<u32>, ReadError> {
        let names = list(&self.procfs)?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str()?.parse::<u32>().ok())
            .collect())
    }

    /// When the machine started, in seconds since 1970 by the wall clock (`btime` of `/proc/stat`). It moves when the
    /// wall clock is set.
    pub fn boot_time_seconds(&self) -> Result<u64, ReadError> {
        self.read_proc("stat", parse::boot_time::parse)
    }

    /// Most memory mappings a process may have (`vm.max_map_count`).
    pub fn max_map_count(&self) -> Result<u64, ReadError> {
        self.read_proc("sys/vm/max_map_count", parse::number::parse)
    }

    /// Whether allocations fail once [`Meminfo::commit_limit`](parse::meminfo::Meminfo) is committed
    /// (`vm.overcommit_memory` is 2).
    ///
    /// # Errors
    /// As [`read_proc`](Self::read_proc), but for a file that is not there: then it is off.
    pub fn has_strict_overcommit(&self) -> Result<bool, ReadError> {
        match self.read_proc("sys/vm/overcommit_memory", parse::number::parse) {
            Ok(mode) => Ok(mode == 2),
            Err(ReadError::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether systemd-oomd runs, as a unit of the visible hierarchy of version 2. It kills by memory pressure and swap
    /// use, before the kernel does.
    #[must_use]
    pub fn runs_systemd_oomd(&self) -> bool {
        ["", "unified/"].iter().any(|hierarchy| {
            let unit = format!("{hierarchy}system.slice/systemd-oomd.service/cgroup.procs");
            std::fs::read(self.cgroup.join(unit)).is_ok_and(|pids| !pids.is_empty())
        })
    }

    /// Whether tasks started from now on have their block I/O delay counted (`kernel.task_delayacct`, since Linux
    /// 5.14). Where it is off, or was off when a task started, the delay of that task reads 0.
    ///
    /// # Errors
    /// As [`read_proc`](Self::read_proc); `Absent` on older kernels and on those built without delay accounting.
    pub fn task_delayacct(&self) -> Result<bool, ReadError> {
        self.read_proc("sys/kernel/task_delayacct", parse::number::parse)
            .map(|value| value != 0)
    }
}

fn list(folder: &Path) -> Result<Vec<OsString>, ReadError> {
    let wrap = |error: std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        ReadError::from_errno(errno, &Arc::from(folder), || true)
    };
    std::fs::read_dir(folder)
        .map_err(wrap)?
        .map(|entry| Ok(entry.map_err(wrap)?.file_name()))
        .collect()
}

/// What is needed to turn the kernel's units into ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConstants {
    /// Bytes in a page.
    pub page_size: u64,
    /// Ticks (`USER_HZ`) in a second of `utime`, `stime`, `starttime` and `delayacct_blkio_ticks`.
    pub clock_ticks_per_second: u64,
    /// Such as `6.18.44`.
    pub kernel_release: String,
}

impl HostConstants {
    /// So many clock ticks as time.
    #[must_use]
    pub fn ticks(&self, count: u64) -> Duration {
        let nanos =
            u128::from(count) * 1_000_000_000 / u128::from(self.clock_ticks_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The constants of the running kernel.
    pub fn read(root: &HostRoot) -> Result<Self, ReadError> {
        let kernel_release = root.read_proc("sys/kernel/osrelease", |text| {
            Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
        })?;
        Ok(Self {
            page_size: rustix::param::page_size() as u64,
            clock_ticks_per_second: rustix::param::clock_ticks_per_second(),
            kernel_release,
        })
    }
}
