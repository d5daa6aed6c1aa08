//! Description of the machine, read once and not on a tick. Parts that the kernel does not report
//! are `None` or missing.

mod disks;

pub use disks::{Disk, Partition};

use std::collections::BTreeSet;

use crate::{
    HostRoot, Parsed, ReadError, Result,
    cpus::is_cpu,
    if_present,
    parse::{
        cpu::CpuTopology,
        memory::{Meminfo, NodeMeminfo, Swap, swaps},
        mountinfo::{self, Mount},
        number, os_name, selected_word,
    },
    text::trimmed_text,
};

/// Limit for entries of a sysfs folder and for mounts.
const MAX_ENTRIES: usize = 1024;

#[derive(Debug, Default)]
pub struct Hardware {
    pub host_name: Option<String>,
    /// Name of the host's OS; the container's if the host's is not visible.
    pub os: Option<String>,
    pub kernel_release: Option<String>,
    /// May contain secrets: filter it before storing.
    pub kernel_command_line: Option<String>,
    pub processors: Processors,
    pub memory: Memory,
    /// By name; without loop and RAM disks, and without disks of size 0.
    pub disks: Vec<Disk>,
    /// The reader's mounts, in the kernel's order.
    pub mounts: Vec<Mount>,
    pub interfaces: Vec<Interface>,
    /// Mounted hierarchies: `v1`, `v2` or `hybrid`.
    pub cgroup_hierarchies: Option<&'static str>,
    /// Whether the kernel reports pressure (PSI).
    pub has_pressure: Option<bool>,
    pub task_delayacct: Option<bool>,
    pub clock_source: Option<String>,
    /// True if systemd-timesyncd has set the clock since boot; `None` if unknown, as with another
    /// time daemon.
    pub clock_synchronized: Option<bool>,
    pub problems: Vec<ReadError>,
}

impl Hardware {
    pub fn read(root: &HostRoot) -> Self {
        let mut reader = HardwareReader {
            root,
            problems: Vec::new(),
        };
        let mut hardware = Self {
            host_name: reader.proc("sys/kernel/hostname", trimmed_text),
            os: os(&mut reader),
            kernel_release: reader.proc("sys/kernel/osrelease", trimmed_text),
            kernel_command_line: reader.proc("cmdline", trimmed_text),
            processors: processors(&mut reader),
            memory: memory(&mut reader),
            disks: disks::read(&mut reader),
            mounts: reader
                .proc("self/mountinfo", mountinfo::parse)
                .unwrap_or_default(),
            interfaces: interfaces(&mut reader),
            cgroup_hierarchies: None,
            has_pressure: has_pressure(&reader),
            task_delayacct: reader
                .proc("sys/kernel/task_delayacct", number)
                .map(|value| value != 0),
            clock_source: reader.sys(
                "devices/system/clocksource/clocksource0/current_clocksource",
                selected_word,
            ),
            clock_synchronized: synchronized(root).then_some(true),
            problems: reader.problems,
        };
        hardware.cgroup_hierarchies = cgroup_hierarchies(&hardware.mounts);
        hardware.mounts.truncate(MAX_ENTRIES);
        hardware
    }
}

struct HardwareReader<'a> {
    root: &'a HostRoot,
    problems: Vec<ReadError>,
}

impl HardwareReader<'_> {
    fn proc<T>(&mut self, relative: &str, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Option<T> {
        self.value_or_problem(self.root.read_proc(relative, parse))
    }

    fn sys<T>(&mut self, relative: &str, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Option<T> {
        self.value_or_problem(self.root.read_sys(relative, parse))
    }

    fn names(&mut self, relative: &str) -> Vec<String> {
        let mut names = self
            .value_or_problem(self.root.list_sys(relative))
            .unwrap_or_default();
        names.truncate(MAX_ENTRIES);
        names
    }

    fn value_or_problem<T>(&mut self, result: Result<T>) -> Option<T> {
        let value = if_present(result).map_err(|error| self.problems.push(error));
        value.ok().flatten()
    }
}

/// Name of the OS in the root of pid 1, which is the host's; else in the reader's root.
fn os(reader: &mut HardwareReader<'_>) -> Option<String> {
    let paths = [
        "1/root/etc/os-release",
        "1/root/usr/lib/os-release",
        "self/root/etc/os-release",
        "self/root/usr/lib/os-release",
    ];
    paths
        .into_iter()
        .find_map(|path| reader.root.read_proc(path, os_name).ok()?)
}

fn synchronized(root: &HostRoot) -> bool {
    let marker_file = "root/run/systemd/timesync/synchronized";
    ["1", "self"]
        .iter()
        .any(|process| root.procfs.join(process).join(marker_file).exists())
}

/// With psi=0 some kernels return `EOPNOTSUPP`, which is `Absent`, too.
fn has_pressure(reader: &HardwareReader<'_>) -> Option<bool> {
    let pressure = reader.root.read_proc("pressure/memory", trimmed_text);
    Some(if_present(pressure).ok()?.is_some())
}

fn cgroup_hierarchies(mounts: &[Mount]) -> Option<&'static str> {
    let mounted = |kind: &str| mounts.iter().any(|mount| mount.fs_type == kind);
    match (mounted("cgroup"), mounted("cgroup2")) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    }
}

#[derive(Debug, PartialEq, Default)]
pub struct Processors {
    pub model: Option<String>,
    pub sockets: Option<u64>,
    pub cores: Option<u64>,
    pub threads: Option<u64>,
    /// From the driver, else from the model's name.
    pub base_mhz: Option<u64>,
    pub max_mhz: Option<u64>,
    /// Distinct and sorted; empty without frequency scaling, as in most virtual machines.
    pub governors: Vec<String>,
}

fn processors(reader: &mut HardwareReader<'_>) -> Processors {
    let info = reader.proc("cpuinfo", CpuTopology::parse);
    let mut cpu0 = |file: &str| reader.sys(&format!("devices/system/cpu/cpu0/{file}"), number);
    let base = cpu0("cpufreq/base_frequency")
        .map(|khz| khz / 1000)
        .or_else(|| cpu0("acpi_cppc/nominal_freq"));
    let max_mhz = cpu0("cpufreq/cpuinfo_max_freq").map(|khz| khz / 1000);
    let governors = governors(reader);
    let info = info.unwrap_or_default();
    // The driver may report 0 for unknown.
    let base_mhz = base
        .filter(|mhz| *mhz > 0)
        .or_else(|| mhz_in_model_name(info.model.as_deref()?));
    Processors {
        base_mhz,
        max_mhz,
        governors,
        sockets: info.sockets,
        cores: info.cores,
        threads: (info.threads > 0).then_some(info.threads),
        model: info.model,
    }
}

fn governors(reader: &mut HardwareReader<'_>) -> Vec<String> {
    let mut governors = BTreeSet::new();
    for cpu in reader.names("devices/system/cpu") {
        if is_cpu(&cpu) {
            let file = format!("devices/system/cpu/{cpu}/cpufreq/scaling_governor");
            governors.extend(reader.sys(&file, trimmed_text));
        }
    }
    governors.into_iter().collect()
}

/// Intel appends the base frequency to the name: `... CPU @ 2.40GHz`.
fn mhz_in_model_name(model: &str) -> Option<u64> {
    let (_, speed) = model.rsplit_once('@')?;
    let ghz: f64 = speed.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (0.01..100.0)
        .contains(&ghz)
        .then(|| (ghz * 1000.0).round() as u64)
}

#[derive(Debug, PartialEq, Default)]
pub struct Memory {
    /// Bytes usable by the kernel: a little less than installed.
    pub total: Option<u64>,
    /// In bytes; 0 without swap.
    pub swap_total: Option<u64>,
    pub swaps: Vec<Swap>,
    pub swappiness: Option<u64>,
    pub max_map_count: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub huge_pages_defrag: Option<String>,
    pub nodes: Vec<NumaNode>,
}

#[derive(Debug, PartialEq)]
pub struct NumaNode {
    pub number: u32,
    /// Such as `0-31,64-95`; empty for memory without CPUs.
    pub cpus: Option<String>,
    /// In bytes.
    pub memory: Option<u64>,
}

fn memory(reader: &mut HardwareReader<'_>) -> Memory {
    let totals = reader.proc("meminfo", Meminfo::parse).unwrap_or_default();
    Memory {
        total: totals.total,
        swap_total: totals.swap_total,
        swaps: reader.proc("swaps", swaps).unwrap_or_default(),
        swappiness: reader.proc("sys/vm/swappiness", number),
        max_map_count: reader.proc("sys/vm/max_map_count", number),
        huge_pages: reader.sys("kernel/mm/transparent_hugepage/enabled", selected_word),
        huge_pages_defrag: reader.sys("kernel/mm/transparent_hugepage/defrag", selected_word),
        nodes: nodes(reader),
    }
}

fn nodes(reader: &mut HardwareReader<'_>) -> Vec<NumaNode> {
    let names = reader.names("devices/system/node");
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let node = |number: u32| NumaNode {
        number,
        cpus: reader.sys(
            &format!("devices/system/node/node{number}/cpulist"),
            trimmed_text,
        ),
        memory: reader
            .sys(
                &format!("devices/system/node/node{number}/meminfo"),
                NodeMeminfo::parse,
            )
            .and_then(|memory| memory.total),
    };
    numbers.into_iter().map(node).collect()
}

#[derive(Debug)]
pub struct Interface {
    pub name: String,
    /// `None` if the interface is down, and for many virtual ones.
    pub speed_mbit: Option<u64>,
    pub state: Option<String>,
}

fn interfaces(reader: &mut HardwareReader<'_>) -> Vec<Interface> {
    let names = reader.names("class/net").into_iter();
    let interface = |name: String| Interface {
        // Without a link the file returns an error or -1; that is no problem.
        speed_mbit: reader
            .root
            .read_sys(&format!("class/net/{name}/speed"), number)
            .ok(),
        // The folder also has files like bonding_masters.
        state: reader
            .root
            .read_sys(&format!("class/net/{name}/operstate"), trimmed_text)
            .ok(),
        name,
    };
    names
        .filter(|name| name != "lo")
        .map(interface)
        .filter(|interface| interface.state.is_some())
        .collect()
}

#[cfg(test)]
mod tests;
