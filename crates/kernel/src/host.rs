use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    IgnoredSignals, Parsed, Result,
    file::{FileOwner, LazyFile, OpenFile, ReadUntil},
    if_present,
    parse::{
        self,
        memory::Vmstat,
        pressure::{self, Pressure},
    },
    text::trimmed_text,
};

/// All files are opened below these folders. A container that watches its host, and a test with a
/// fake host, use other folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    pub procfs: PathBuf,
    pub sysfs: PathBuf,
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
    pub fn below(folder: &Path) -> Self {
        Self {
            procfs: folder.join("proc"),
            sysfs: folder.join("sys"),
            cgroup: folder.join("sys/fs/cgroup"),
        }
    }

    /// Opens a file below `procfs` for repeated reads. The kernel must deliver it in one piece, as
    /// it does `meminfo`. A missing file is `Absent`, never `Gone`.
    pub fn open_proc_one_piece(&self, relative: &str) -> Result<OpenFile> {
        open(self.procfs.join(relative), ReadUntil::ShortRead)
    }

    pub fn read_proc<T>(
        &self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<T> {
        read(self.procfs.join(relative), parse)
    }

    /// Reads a file below `sysfs` once. `Broken` if the read fails because the kernel does not know
    /// the value.
    pub fn read_sys<T>(&self, relative: &str, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Result<T> {
        read(self.sysfs.join(relative), parse)
    }

    /// Sorted names in a folder below `sysfs`, without those that are not UTF-8.
    pub fn list_sys(&self, relative: &str) -> Result<Vec<String>> {
        let path = self.sysfs.join(relative);
        let mut names: Vec<String> = list(&path)?
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Signals that the reader ignores. A Rust program ignores SIGPIPE from its start.
    pub fn ignored_signals(&self) -> Result<IgnoredSignals> {
        self.read_proc("self/status", parse::pid_status::ignored_signals)
    }

    /// Unordered.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let names = list(&self.procfs)?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str()?.parse::<u32>().ok())
            .collect())
    }

    /// Unix seconds. It moves when the wall clock is set.
    pub fn boot_time_seconds(&self) -> Result<u64> {
        self.read_proc("stat", parse::boot_time)
    }

    /// Whether `vm.overcommit_memory` is 2: allocations then fail above
    /// [`Meminfo::commit_limit`](parse::memory::Meminfo). False if the file is missing.
    pub fn has_strict_overcommit(&self) -> Result<bool> {
        let mode = self.read_proc("sys/vm/overcommit_memory", parse::number);
        Ok(if_present(mode)? == Some(2))
    }

    pub fn runs_systemd_oomd(&self) -> Result<bool> {
        for hierarchy in ["", "unified/"] {
            let unit = format!("{hierarchy}system.slice/systemd-oomd.service/cgroup.procs");
            let has_pids = read(self.cgroup.join(unit), |pids| Ok(!pids.is_empty()));
            if if_present(has_pids)? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `kernel.task_delayacct` (since Linux 5.14): whether block I/O delay is counted for tasks
    /// that start from now on. Otherwise a task's delay reads 0. `Absent` on older kernels and
    /// without delay accounting.
    pub fn task_delayacct(&self) -> Result<bool> {
        self.read_proc("sys/kernel/task_delayacct", parse::number)
            .map(|value| value != 0)
    }
}

fn open(path: PathBuf, until: ReadUntil) -> Result<OpenFile> {
    OpenFile::open(FileOwner::Host, Arc::from(path), until)
}

fn read<T>(path: PathBuf, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Result<T> {
    open(path, ReadUntil::EmptyRead)?.parse(&mut Vec::new(), parse)
}

fn list(folder: &Path) -> Result<Vec<OsString>> {
    let wrap = |error: std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        FileOwner::Host.error(errno, &Arc::from(folder))
    };
    fs::read_dir(folder)
        .map_err(wrap)?
        .map(|entry| Ok(entry.map_err(wrap)?.file_name()))
        .collect()
}

#[derive(Debug)]
pub struct HostConstants {
    /// In bytes.
    pub page_size: u64,
    /// `USER_HZ`: unit of `utime`, `stime`, `starttime` and `delayacct_blkio_ticks`.
    pub clock_ticks_per_second: u64,
    pub kernel_release: String,
}

impl HostConstants {
    pub fn ticks_to_duration(&self, count: u64) -> Duration {
        let nanos =
            u128::from(count) * 1_000_000_000 / u128::from(self.clock_ticks_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub fn read(root: &HostRoot) -> Result<Self> {
        Ok(Self {
            page_size: rustix::param::page_size() as u64,
            clock_ticks_per_second: rustix::param::clock_ticks_per_second(),
            kernel_release: root.read_proc("sys/kernel/osrelease", trimmed_text)?,
        })
    }
}

/// Files that each sample of the host reads. The caller reads `meminfo`, because the memory levels
/// use it, too.
#[derive(Debug)]
pub struct HostFiles {
    vmstat: LazyFile,
    pressures: [LazyFile; 3],
    max_map_count: LazyFile,
    last_max_maps: Option<Result<u64>>,
}

#[derive(Debug)]
pub struct HostSample {
    pub vmstat: Result<Vmstat>,
    /// All pressures: since Linux 4.20; `Absent` without `CONFIG_PSI` or with `psi=0`.
    pub cpu_pressure: Result<Pressure>,
    pub memory_pressure: Result<Pressure>,
    pub io_pressure: Result<Pressure>,
    pub max_map_count: Result<u64>,
}

impl HostFiles {
    pub fn new(root: &HostRoot) -> Self {
        let lazy_file = |relative: &str, until| {
            LazyFile::new(FileOwner::Host, root.procfs.join(relative), until)
        };
        Self {
            // The kernel sums over all CPUs at each read. No line after `oom_kill` is used.
            vmstat: lazy_file("vmstat", ReadUntil::Line(b"oom_kill ")),
            pressures: ["pressure/cpu", "pressure/memory", "pressure/io"]
                .map(|name| lazy_file(name, ReadUntil::ShortRead)),
            max_map_count: lazy_file("sys/vm/max_map_count", ReadUntil::ShortRead),
            last_max_maps: None,
        }
    }

    /// Without `read_max_map_count`, repeats the value of the last sample.
    pub fn sample(&mut self, read_max_map_count: bool, buffer: &mut Vec<u8>) -> HostSample {
        let max_maps = match self.last_max_maps.take().filter(|_| !read_max_map_count) {
            Some(max_maps) => max_maps,
            None => self.max_map_count.parse(buffer, parse::number),
        };
        self.last_max_maps = Some(max_maps.clone());
        let [cpu_pressure, memory_pressure, io_pressure] = self
            .pressures
            .each_mut()
            .map(|file| file.parse(buffer, pressure::parse));
        HostSample {
            vmstat: self.vmstat.parse(buffer, Vmstat::parse),
            cpu_pressure,
            memory_pressure,
            io_pressure,
            max_map_count: max_maps,
        }
    }
}
