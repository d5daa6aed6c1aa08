//! What the host is like before a run: data only. What cannot be told is absent.

use faultline_kernel::hardware::Hardware;
use faultline_kernel::parse::{cpu_times, pid_cmdline, pid_stat, pressure};
use faultline_kernel::{HostConstants, HostRoot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The host at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Which start of the machine this is.
    pub boot_id: Option<String>,
    /// Memory that the kernel can use, in bytes.
    pub memory_total: Option<u64>,
    /// Memory that programs could have without swapping, in bytes; an estimate of the kernel's.
    pub memory_available: Option<u64>,
    /// Swap space, in bytes; 0 without swap.
    pub swap_total: Option<u64>,
    /// What is used of it, in bytes.
    pub swap_used: Option<u64>,
    /// When huge pages are given unasked: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Who chooses clock rates, each once; empty where nobody does, as in most virtual machines.
    pub governors: Vec<String>,
    /// Processors that are online.
    pub cpus: Option<u64>,
    /// Stalls of the host since its start by resource (`cpu`, `memory`, `io`).
    pub pressure: BTreeMap<String, Stalled>,
    /// The disk of each path that was asked for, in that order.
    pub disks: Vec<Disk>,
    /// Processes with a name that was sought, by number.
    pub running: Vec<Running>,
    /// What is there and could not be read.
    pub problems: Vec<String>,
}

/// The file system that a path is or will be on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub path: PathBuf,
    /// Number of the file system: paths with the same one share their room.
    pub device: Option<u64>,
    /// Size, in bytes.
    pub size: Option<u64>,
    /// What others than root can still write, in bytes.
    pub free: Option<u64>,
}

/// How long the host was stalled, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// At least one task.
    pub some_us: u64,
    /// All tasks that had work; absent for the CPU before Linux 5.13.
    pub full_us: Option<u64>,
}

/// A process that was found by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub pid: u32,
    /// Its name, as the kernel cuts it.
    pub name: String,
    /// Its arguments in one line; absent where they may not be read.
    pub command: Option<String>,
}

/// What all processors together had done by some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuUse {
    busy: Duration,
}

/// Looks once. `is_sought` is asked with each process's name, of which the kernel keeps 15 bytes.
#[must_use]
pub fn inspect(root: &HostRoot, paths: &[&Path], is_sought: &dyn Fn(&str) -> bool) -> HostState {
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
    match running(root, is_sought) {
        Ok(found) => state.running = found,
        Err(problem) => state.problems.push(problem),
    }
    state
}

/// Which start of the machine this is; another one after each.
#[must_use]
pub fn boot_id(root: &HostRoot) -> Option<String> {
    let text = root.read_proc("sys/kernel/random/boot_id", |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    });
    text.ok().filter(|text| !text.is_empty())
}

/// What the processors have done until now.
#[must_use]
pub fn cpu_use(root: &HostRoot) -> Option<CpuUse> {
    let ticks = root.read_proc("stat", cpu_times::parse).ok()?.busy_ticks?;
    let a_second = HostConstants::read(root)
        .ok()?
        .clock_ticks_per_second
        .max(1);
    let part = Duration::from_millis((ticks % a_second).saturating_mul(1000) / a_second);
    Some(CpuUse {
        busy: Duration::from_secs(ticks / a_second) + part,
    })
}

impl CpuUse {
    /// How many processors were busy on average between this moment and a later one, `elapsed` after it. Exact to a
    /// hundredth of a second of CPU time. `None` without time between them.
    #[must_use]
    pub fn busy_until(&self, later: &CpuUse, elapsed: Duration) -> Option<f64> {
        let used = later.busy.checked_sub(self.busy)?;
        (!elapsed.is_zero()).then(|| used.as_secs_f64() / elapsed.as_secs_f64())
    }
}

/// The processes with a name that is sought, but for those that have ended and wait to be collected.
fn running(root: &HostRoot, is_sought: &dyn Fn(&str) -> bool) -> Result<Vec<Running>, String> {
    let mut pids = root.pids().map_err(|error| error.to_string())?;
    pids.sort_unstable();
    let inspect = |pid: u32| {
        let stat = root
            .read_proc(&format!("{pid}/stat"), pid_stat::parse)
            .ok()?;
        let name = stat.comm.to_str_lossy().into_owned();
        if stat.has_ended() || !is_sought(&name) {
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

fn pressures(root: &HostRoot) -> BTreeMap<String, Stalled> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let output = |resource: &str| {
        let output = root
            .read_proc(&format!("pressure/{resource}"), pressure::parse)
            .ok()?;
        Some((
            resource.to_owned(),
            Stalled {
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

/// Of the path, or of the folder above it that is there already.
fn disk(path: &Path) -> Disk {
    let mut disk = Disk {
        path: path.to_owned(),
        device: None,
        size: None,
        free: None,
    };
    let Some(there) = path.ancestors().find(|above| above.exists()) else {
        return disk;
    };
    disk.device = rustix::fs::stat(there).ok().map(|stat| stat.st_dev);
    if let Ok(output) = rustix::fs::statvfs(there) {
        disk.size = output.f_blocks.checked_mul(output.f_frsize);
        disk.free = output.f_bavail.checked_mul(output.f_frsize);
    }
    disk
}

#[cfg(test)]
mod tests;
