//! Description of the machine, read once and not on a tick. Parts that the kernel does not report
//! are `None` or missing; unreadable ones are also in [`Hardware::problems`].

mod cpu;
mod disks;
mod memory;
mod network;

pub use cpu::Processors;
pub use disks::{Disk, Partition};
pub use memory::{Memory, NumaNode};
pub use network::Interface;

use crate::{
    ErrorKind, HostRoot, ParseError, ReadError,
    parse::{
        choice,
        mountinfo::{self, Mount},
        number, os_release,
    },
    text::only_line,
};

/// Limit for entries of a sysfs folder and for mounts.
const MAX_ENTRIES: usize = 1024;

#[derive(Debug, Clone, Default)]
pub struct Hardware {
    pub name: Option<String>,
    /// Name of the host's OS; the container's if the host's is not visible.
    pub system: Option<String>,
    pub kernel_release: Option<String>,
    /// May contain secrets: filter it before storing.
    pub kernel_command_line: Option<String>,
    pub processors: Processors,
    pub memory: Memory,
    /// By name; without loop and RAM disks, and without disks of size 0.
    pub disks: Vec<Disk>,
    /// This reader's mounts, in the kernel's order.
    pub mounts: Vec<Mount>,
    pub interfaces: Vec<Interface>,
    /// Mounted hierarchies: `v1`, `v2` or `hybrid`.
    pub cgroup: Option<&'static str>,
    /// Whether the kernel reports pressure (PSI).
    pub pressure: Option<bool>,
    /// Whether block I/O delay is counted for tasks that start from now on.
    pub task_delayacct: Option<bool>,
    pub clock_source: Option<String>,
    /// True if systemd-timesyncd has set the clock since boot; `None` if unknown, as with another
    /// time daemon.
    pub clock_synchronised: Option<bool>,
    pub problems: Vec<ReadError>,
}

impl Hardware {
    pub fn read(root: &HostRoot) -> Self {
        let mut reader = HardwareReader {
            root,
            problems: Vec::new(),
        };
        let mut found = Self {
            name: reader.proc("sys/kernel/hostname", only_line),
            system: system(&mut reader),
            kernel_release: reader.proc("sys/kernel/osrelease", only_line),
            kernel_command_line: reader.proc("cmdline", only_line),
            processors: cpu::read(&mut reader),
            memory: memory::read(&mut reader),
            disks: disks::read(&mut reader),
            mounts: reader
                .proc("self/mountinfo", mountinfo::parse)
                .unwrap_or_default(),
            interfaces: network::read(&mut reader),
            cgroup: None,
            pressure: pressure(&reader),
            task_delayacct: reader
                .proc("sys/kernel/task_delayacct", number::parse)
                .map(|value| value != 0),
            clock_source: reader.sys(
                "devices/system/clocksource/clocksource0/current_clocksource",
                choice::parse,
            ),
            clock_synchronised: synchronised(root).then_some(true),
            problems: reader.problems,
        };
        found.cgroup = cgroup(&found.mounts);
        found.mounts.truncate(MAX_ENTRIES);
        found
    }
}

struct HardwareReader<'a> {
    root: &'a HostRoot,
    problems: Vec<ReadError>,
}

impl HardwareReader<'_> {
    fn proc<T>(
        &mut self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Option<T> {
        self.value_or_problem(self.root.read_proc(relative, parse))
    }

    fn sys<T>(
        &mut self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Option<T> {
        self.value_or_problem(self.root.read_sys(relative, parse))
    }

    fn names(&mut self, relative: &str) -> Vec<String> {
        let mut names = self
            .value_or_problem(self.root.list_sys(relative))
            .unwrap_or_default();
        names.truncate(MAX_ENTRIES);
        names
    }

    fn value_or_problem<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            // Most sysfs files are missing on some machine.
            Err(error) if error.kind() == ErrorKind::Absent => None,
            Err(error) => {
                self.problems.push(error);
                None
            }
        }
    }
}

/// Name of the OS in the root of pid 1, which is the host's; else in this reader's.
fn system(reader: &mut HardwareReader<'_>) -> Option<String> {
    let paths = [
        "1/root/etc/os-release",
        "1/root/usr/lib/os-release",
        "self/root/etc/os-release",
        "self/root/usr/lib/os-release",
    ];
    paths
        .into_iter()
        .find_map(|path| reader.root.read_proc(path, os_release::parse).ok()?)
}

fn synchronised(root: &HostRoot) -> bool {
    let marker_file = "root/run/systemd/timesync/synchronized";
    ["1", "self"]
        .iter()
        .any(|process| root.procfs.join(process).join(marker_file).exists())
}

/// With psi=0 the file exists and returns `EOPNOTSUPP`.
fn pressure(reader: &HardwareReader<'_>) -> Option<bool> {
    match reader.root.read_proc("pressure/memory", only_line) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == ErrorKind::Absent => Some(false),
        Err(_) => None,
    }
}

fn cgroup(mounts: &[Mount]) -> Option<&'static str> {
    let mounted = |kind: &str| mounts.iter().any(|mount| mount.fs_type == kind);
    match (mounted("cgroup"), mounted("cgroup2")) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests;
