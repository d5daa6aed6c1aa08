//! State of the host before a run. Unknown values are absent.

use anyhow::Result;
use faultline_kernel::hardware::Hardware;
use faultline_kernel::parse::{cpu_times, pid_cmdline, pid_stat, pressure};
use faultline_kernel::{HostConstants, HostRoot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    pub boot_id: Option<String>,
    /// Memory usable by the kernel, in bytes.
    pub memory_total: Option<u64>,
    /// The kernel's estimate of memory without swapping, in bytes.
    pub memory_available: Option<u64>,
    /// In bytes; 0 without swap.
    pub swap_total: Option<u64>,
    pub swap_used: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Distinct CPU frequency governors; empty without any, as in most virtual machines.
    pub governors: Vec<String>,
    pub cpus: Option<u64>,
    pub pressure: BTreeMap<String, StallTime>,
    pub disks: Vec<Disk>,
    pub running: Vec<Running>,
    /// Files that exist but could not be read.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub path: PathBuf,
    /// Id of the file system: paths with the same id share its space.
    pub device: Option<u64>,
    /// In bytes.
    pub size: Option<u64>,
    /// Bytes available to users other than root.
    pub free: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallTime {
    /// At least one task.
    pub some_us: u64,
    /// All tasks that had work; absent for the CPU before Linux 5.13.
    pub full_us: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub pid: u32,
    pub name: String,
    pub command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuUse {
    busy: Duration,
}

/// The last argument selects the listed processes by `comm` (at most 15 bytes).
#[must_use]
pub fn inspect(
    root: &HostRoot,
    paths: &[&Path],
    is_listed_name: &dyn Fn(&str) -> bool,
) -> HostState {
    let hardware = Hardware::read(root);
    let memory = root
        .read_proc("meminfo", faultline_kernel::parse::meminfo::parse)
        .unwrap_or_default();
    let mut state = HostState {
        boot_id: boot_id(root),
        memory_total: memory.total,
        memory_available: memory.available,
        swap_total: memory.swap_total,
        swap_used: memory
            .swap_total
            .zip(memory.swap_free)
            .map(|(total, free)| total.saturating_sub(free)),
        huge_pages: hardware.memory.huge_pages,
        governors: hardware.processors.governors,
        cpus: hardware.processors.threads,
        pressure: pressures(root),
        disks: paths.iter().map(|path| disk(path)).collect(),
        running: Vec::new(),
        problems: hardware.problems.iter().map(ToString::to_string).collect(),
    };
    match running(root, is_listed_name) {
        Ok(found) => state.running = found,
        Err(problem) => state.problems.push(problem),
    }
    state
}

#[must_use]
pub fn boot_id(root: &HostRoot) -> Option<String> {
    let text = root.read_proc("sys/kernel/random/boot_id", |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    });
    text.ok().filter(|text| !text.is_empty())
}

#[must_use]
pub fn cpu_use(root: &HostRoot) -> Option<CpuUse> {
    let ticks = root.read_proc("stat", cpu_times::parse).ok()?.busy_ticks?;
    let ticks_per_second = HostConstants::read(root)
        .ok()?
        .clock_ticks_per_second
        .max(1);
    let part =
        Duration::from_millis((ticks % ticks_per_second).saturating_mul(1000) / ticks_per_second);
    Some(CpuUse {
        busy: Duration::from_secs(ticks / ticks_per_second) + part,
    })
}

impl CpuUse {
    /// Average number of busy CPUs between this sample and a later one, `elapsed` after it. The
    /// resolution is 0.01 s of CPU time. `None` if `elapsed` is 0.
    #[must_use]
    pub fn busy_until(&self, later: &CpuUse, elapsed: Duration) -> Option<f64> {
        let used = later.busy.checked_sub(self.busy)?;
        (!elapsed.is_zero()).then(|| used.as_secs_f64() / elapsed.as_secs_f64())
    }
}

fn running(root: &HostRoot, is_listed_name: &dyn Fn(&str) -> bool) -> Result<Vec<Running>, String> {
    let mut pids = root.pids().map_err(|error| error.to_string())?;
    pids.sort_unstable();
    let inspect = |pid: u32| {
        let stat = root
            .read_proc(&format!("{pid}/stat"), pid_stat::parse)
            .ok()?;
        let name = stat.comm.to_str_lossy().into_owned();
        if stat.has_ended() || !is_listed_name(&name) {
            return None;
        }
        let arguments = root
            .read_proc(&format!("{pid}/cmdline"), pid_cmdline::parse)
            .ok();
        let line =
            |all: Vec<std::ffi::OsString>| all.join(" ".as_ref()).to_string_lossy().into_owned();
        Some(Running {
            pid,
            name,
            command: arguments.filter(|all| !all.is_empty()).map(line),
        })
    };
    Ok(pids.into_iter().filter_map(inspect).collect())
}

fn pressures(root: &HostRoot) -> BTreeMap<String, StallTime> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let output = |resource: &str| {
        let output = root
            .read_proc(&format!("pressure/{resource}"), pressure::parse)
            .ok()?;
        Some((
            resource.to_owned(),
            StallTime {
                some_us: micros(output.some?),
                full_us: output.full.map(micros),
            },
        ))
    };
    ["cpu", "memory", "io"]
        .into_iter()
        .filter_map(output)
        .collect()
}

/// Uses the closest existing parent of the path.
fn disk(path: &Path) -> Disk {
    let mut disk = Disk {
        path: path.to_owned(),
        device: None,
        size: None,
        free: None,
    };
    let Some(existing) = path.ancestors().find(|above| above.exists()) else {
        return disk;
    };
    disk.device = rustix::fs::stat(existing).ok().map(|stat| stat.st_dev);
    if let Ok(output) = rustix::fs::statvfs(existing) {
        disk.size = output.f_blocks.checked_mul(output.f_frsize);
        disk.free = output.f_bavail.checked_mul(output.f_frsize);
    }
    disk
}

#[cfg(test)]
mod tests;
