//! State of the host before a run. Unknown values are absent.

use faultline_kernel::{
    HostConstants, HostRoot,
    hardware::Hardware,
    parse::{cpu, pid_stat},
    trimmed_text,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Debug, Default, PartialEq)]
pub struct HostState {
    /// Bytes.
    pub memory_total: Option<u64>,
    /// Bytes.
    pub swap_total: Option<u64>,
    /// The mode of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    pub governors: Vec<String>,
    pub disks: Vec<Disk>,
    pub listed_processes: Vec<ListedProcess>,
}

/// The disk of a path, which may not exist yet.
#[derive(Debug, PartialEq)]
pub struct Disk {
    pub path: PathBuf,
    pub device: Option<u64>,
    /// Bytes that an unprivileged user can write.
    pub free: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub struct ListedProcess {
    pub pid: u32,
    pub name: String,
}

#[derive(Debug, PartialEq)]
pub struct BusyTime(Duration);

/// `is_listed_name` selects the processes to list by `comm` (at most 15 bytes).
pub fn inspect(
    root: &HostRoot,
    paths: &[&Path],
    is_listed_name: &dyn Fn(&str) -> bool,
) -> HostState {
    let hardware = Hardware::read(root);
    let memory = root
        .read_proc("meminfo", faultline_kernel::parse::memory::Meminfo::parse)
        .unwrap_or_default();
    HostState {
        memory_total: memory.total,
        swap_total: memory.swap_total,
        huge_pages: hardware.memory.huge_pages,
        governors: hardware.processors.governors,
        disks: paths.iter().map(|path| disk(path)).collect(),
        listed_processes: listed_processes(root, is_listed_name),
    }
}

pub fn boot_id(root: &HostRoot) -> Option<String> {
    let text = root.read_proc("sys/kernel/random/boot_id", trimmed_text);
    text.ok().filter(|text| !text.is_empty())
}

pub fn busy_time(root: &HostRoot) -> Option<BusyTime> {
    let ticks = root.read_proc("stat", cpu::busy_ticks).ok()??;
    let ticks_per_second = HostConstants::read(root)
        .ok()?
        .clock_ticks_per_second
        .max(1);
    let milliseconds = ticks.saturating_mul(1000) / ticks_per_second;
    Some(BusyTime(Duration::from_millis(milliseconds)))
}

impl BusyTime {
    /// Mean number of busy CPUs between this sample and `later`, which was read after `elapsed`.
    /// The resolution is 0.01 s of CPU time. `None` if `elapsed` is 0 or `later` is smaller.
    pub fn mean_busy_cpus(&self, later: &Self, elapsed: Duration) -> Option<f64> {
        let used = later.0.checked_sub(self.0)?;
        (!elapsed.is_zero()).then(|| used.as_secs_f64() / elapsed.as_secs_f64())
    }
}

fn listed_processes(root: &HostRoot, is_listed_name: &dyn Fn(&str) -> bool) -> Vec<ListedProcess> {
    let mut pids = root.pids().unwrap_or_default();
    pids.sort_unstable();
    let listed_process = |pid: u32| {
        let stat = root
            .read_proc(&format!("{pid}/stat"), pid_stat::parse)
            .ok()?;
        let name = stat.comm.to_str_lossy().into_owned();
        (!stat.all_threads_ended() && is_listed_name(&name)).then_some(ListedProcess { pid, name })
    };
    pids.into_iter().filter_map(listed_process).collect()
}

/// Uses the closest existing parent of the path.
fn disk(path: &Path) -> Disk {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    let space = existing.and_then(|existing| rustix::fs::statvfs(existing).ok());
    Disk {
        path: path.to_owned(),
        device: existing.and_then(|existing| Some(rustix::fs::stat(existing).ok()?.st_dev)),
        free: space.and_then(|space| space.f_bavail.checked_mul(space.f_frsize)),
    }
}

#[cfg(test)]
mod tests;
