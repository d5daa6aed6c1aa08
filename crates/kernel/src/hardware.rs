//! What the machine is made of, for whoever keeps a description of it beside a measurement. Read once, never on a tick.
//!
//! Every part is `None`, or not in its list, where the kernel does not tell it. What is there and could not be read is in
//! [`Hardware::problems`] besides.

mod cpu;
mod disks;
mod memory;
mod network;

pub use cpu::Processors;
pub use disks::{Disk, Partition};
pub use memory::{Memory, NumaNode};
pub use network::Interface;

use crate::parse::mountinfo::{self, Mount};
use crate::parse::{choice, number, os_release};
use crate::{ErrorKind, HostRoot, ParseError, ReadError};

/// More entries of a folder of sysfs, or more mounts, than this are left out.
const MOST_ENTRIES: usize = 1024;

/// The machine and its system.
#[derive(Debug, Clone, Default)]
pub struct Hardware {
    pub name: Option<String>,
    /// What the system calls itself. In a container that does not see the host's own, the container's.
    pub system: Option<String>,
    /// Such as `6.8.0-60-generic`.
    pub kernel_release: Option<String>,
    /// What the kernel was started with. May hold secrets: see to it before it is kept.
    pub kernel_command_line: Option<String>,
    pub processors: Processors,
    /// Memory, swap, and how they are used.
    pub memory: Memory,
    /// Disks that have a size, but for loop and RAM disks, by name.
    pub disks: Vec<Disk>,
    /// What is mounted for this reader, in the kernel's order.
    pub mounts: Vec<Mount>,
    /// Network interfaces but the loopback, by name.
    pub interfaces: Vec<Interface>,
    /// Which cgroup hierarchies are mounted for this reader: `v1`, `v2` or `hybrid`.
    pub cgroup: Option<&'static str>,
    /// Whether the kernel tells pressure (PSI).
    pub pressure: Option<bool>,
    /// Whether block I/O delay is counted for tasks started from now on.
    pub task_delayacct: Option<bool>,
    /// The clock that the kernel reads time from, such as `tsc`.
    pub clock_source: Option<String>,
    /// True if systemd-timesyncd has set the clock since the machine's start; `None` if it is not known, as with another
    /// keeper of time.
    pub clock_synchronised: Option<bool>,
    /// What could not be read although it is there.
    pub problems: Vec<ReadError>,
}

impl Hardware {
    #[must_use]
    pub fn read(root: &HostRoot) -> Self {
        let mut reader = HardwareReader {
            root,
            problems: Vec::new(),
        };
        let mut found = Self {
            name: reader.proc("sys/kernel/hostname", line),
            system: system(&mut reader),
            kernel_release: reader.proc("sys/kernel/osrelease", line),
            kernel_command_line: reader.proc("cmdline", line),
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
        found.mounts.truncate(MOST_ENTRIES);
        found
    }
}

/// The host, and what was wrong with it so far.
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
        self.take(self.root.read_proc(relative, parse))
    }

    fn sys<T>(
        &mut self,
        relative: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Option<T> {
        self.take(self.root.read_sys(relative, parse))
    }

    /// The names in a folder of sysfs, in order.
    fn names(&mut self, relative: &str) -> Vec<String> {
        let mut names = self.take(self.root.list_sys(relative)).unwrap_or_default();
        names.truncate(MOST_ENTRIES);
        names
    }

    fn take<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            // Most of sysfs is missing on some machine or other.
            Err(error) if error.kind() == ErrorKind::Absent => None,
            Err(error) => {
                self.problems.push(error);
                None
            }
        }
    }
}

/// The only line of a file.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every parser")]
fn line(text: &[u8]) -> Result<String, ParseError> {
    Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
}

/// Of the first process, whose root is the host's, else of this reader.
fn system(reader: &mut HardwareReader<'_>) -> Option<String> {
    let of = |process: &str| {
        let places =
            ["etc/os-release", "usr/lib/os-release"].map(|path| format!("{process}/root/{path}"));
        places.iter().find_map(|path| {
            reader
                .root
                .read_proc(path, os_release::parse)
                .ok()
                .flatten()
        })
    };
    of("1").or_else(|| of("self"))
}

fn synchronised(root: &HostRoot) -> bool {
    let mark = |process: &str| {
        root.procfs
            .join(process)
            .join("root/run/systemd/timesync/synchronized")
    };
    ["1", "self"]
        .iter()
        .any(|process| rustix::fs::stat(mark(process)).is_ok())
}

/// The file is there and answers `EOPNOTSUPP` on a kernel with PSI switched off.
fn pressure(reader: &HardwareReader<'_>) -> Option<bool> {
    match reader.root.read_proc("pressure/memory", line) {
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
