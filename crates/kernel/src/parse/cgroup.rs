//! Files of a cgroup, v1 and v2 (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1), and
//! `/proc/PID/cgroup`.

use std::{fmt, time::Duration};

use procfs::{FromRead, ProcessCGroups};

use crate::{
    ParseError, Parsed,
    text::{
        Line, count_or_underflow, counters, fill_by_key, lines, number, rows_after_headings,
        single_value, split_at_byte, words,
    },
};

counters! {
    /// `None` if this kernel or cgroup version does not count it. v2 includes descendants (unless
    /// mounted with `memory_localevents`); v1 does not.
    ///
    /// `parse` also reads v1's `memory.oom_control`, which has only `oom_kill` of these.
    MemoryEvents by b' ' {
        low: b"low",
        high: b"high",
        /// On v1 `memory.failcnt`, set by [`CgroupFiles`](crate::CgroupFiles).
        max: b"max",
        oom: b"oom",
        /// On v1 since Linux 4.13.
        oom_kill: b"oom_kill",
    }
}

/// Whether `cgroup.events` of v2 reports the cgroup as frozen. An ancestor freezes it, too. `None`
/// before Linux 5.2.
pub fn frozen_v2(text: &[u8]) -> Parsed<Option<bool>> {
    let frozen: Option<u64> = fill_by_key(text, b' ', |frozen, key| {
        (key == b"frozen").then_some(frozen)
    })?;
    Ok(frozen.map(|frozen| frozen != 0))
}

/// Like [`frozen_v2`], from `freezer.state` of v1. `FREEZING` is not frozen yet.
pub fn frozen_v1(text: &[u8]) -> Parsed<Option<bool>> {
    match text.trim_ascii() {
        b"FROZEN" => Ok(Some(true)),
        b"THAWED" | b"FREEZING" => Ok(Some(false)),
        _ => Err(ParseError::new(
            1,
            text,
            "expected THAWED, FREEZING or FROZEN",
        )),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

impl Device {
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        let (major, minor) = split_at_byte(word, b':')?;
        Some(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceIo {
    pub device: Device,
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// The kernel's name (`bdi_dev_name`) for a disk that is being removed, or a hidden path of NVMe
/// multipath.
const UNKNOWN_DEVICE: &[u8] = b"(unknown)";

/// `io.stat`. Leaves out devices without numbers, without counters or with an underflowed one.
pub fn io_v2(text: &[u8]) -> Parsed<Vec<DeviceIo>> {
    let mut list = Vec::new();
    for line in lines(text) {
        let (mut device, mut read, mut write) = (None, None, None);
        let no_device = || line.error("expected a device such as 8:0");
        for word in words(line.text) {
            let bytes = |prefix: &[u8]| {
                let bytes = count_or_underflow(word.strip_prefix(prefix)?);
                Some(bytes.ok_or_else(|| line.error("expected a number")))
            };
            if let Some(bytes) = bytes(b"rbytes=") {
                read = bytes?;
            } else if let Some(bytes) = bytes(b"wbytes=") {
                write = bytes?;
            } else if !word.contains(&b'=') {
                // Linux 5.x may write the names of idle devices on the line of the next busy one.
                let known =
                    (word != UNKNOWN_DEVICE).then(|| Device::parse(word).ok_or_else(no_device));
                device = Some(known.transpose()?);
            }
        }
        let device = device.ok_or_else(no_device)?;
        if let (Some(device), Some(read_bytes), Some(write_bytes)) = (device, read, write) {
            list.push(DeviceIo {
                device,
                read_bytes,
                write_bytes,
            });
        }
    }
    Ok(list)
}

/// `blkio.throttle.io_service_bytes(_recursive)`. Leaves out devices without numbers or with an
/// underflowed counter.
pub fn io_v1(text: &[u8]) -> Parsed<Vec<DeviceIo>> {
    let mut list: Vec<DeviceIo> = Vec::new();
    let mut underflowed = Vec::new();
    let is_device = |line: &Line<'_>| {
        !line.text.starts_with(b"Total") && !line.text.starts_with(UNKNOWN_DEVICE)
    };
    for line in lines(text).filter(is_device) {
        let mut words = words(line.text);
        let (Some(device), Some(operation), Some(bytes)) = (
            words.next().and_then(Device::parse),
            words.next(),
            words.next().and_then(count_or_underflow),
        ) else {
            return Err(line.error("expected a device, an operation and a number"));
        };
        if list.last().is_none_or(|last| last.device != device) {
            list.push(DeviceIo {
                device,
                read_bytes: 0,
                write_bytes: 0,
            });
        }
        match (list.last_mut(), operation, bytes) {
            (Some(io), b"Read", Some(bytes)) => io.read_bytes = bytes,
            (Some(io), b"Write", Some(bytes)) => io.write_bytes = bytes,
            (_, b"Read" | b"Write", None) => underflowed.push(device),
            _ => {}
        }
    }
    list.retain(|io| !underflowed.contains(&io.device));
    Ok(list)
}

/// v1 writes "no limit" as a number near 8 EiB, which depends on the page size.
const NO_LIMIT_FROM: u64 = 1 << 62;

/// The stricter limit is smaller: every number is below `Max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    Bytes(u64),
    Max,
}

impl Limit {
    /// `memory.max`, `memory.high`, `memory.swap.max`, and `memory.limit_in_bytes` of v1.
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        single_value(text, |text| match text {
            b"max" => Some(Self::Max),
            digits => number(digits).map(Self::of_number),
        })
    }

    pub(crate) fn of_number(bytes: u64) -> Self {
        if bytes < NO_LIMIT_FROM {
            Self::Bytes(bytes)
        } else {
            Self::Max
        }
    }

    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

counters! {
    /// Memory in bytes, reclaim and refaults in pages, faults as a count; all with descendants.
    /// `None` if this kernel or cgroup version does not write the line, or the value underflowed.
    ///
    /// `parse` reads `memory.stat` of v2.
    MemoryStat by b' ' {
        /// `total_rss` of v1.
        anon: b"anon" | b"rss",
        /// Includes shared memory and tmpfs; `total_cache` of v1.
        file: b"file" | b"cache",
        file_mapped: b"file_mapped" | b"mapped_file",
        file_dirty: b"file_dirty" | b"dirty",
        /// Like `inactive_file`, without shared, locked and ramfs memory.
        active_file: b"active_file",
        inactive_file: b"inactive_file",
        /// Part of `file`.
        shmem: b"shmem",
        /// Without sockets. v2 since Linux 5.18. On v1 it is `memory.kmem.usage_in_bytes`, set by
        /// [`CgroupFiles`](crate::CgroupFiles).
        kernel: b"kernel",
        kernel_stack: b"kernel_stack",
        pagetables: b"pagetables",
        /// v2 since Linux 5.9.
        percpu: b"percpu",
        /// v2 since Linux 5.17.
        vmalloc: b"vmalloc",
        slab: b"slab",
        slab_reclaimable: b"slab_reclaimable",
        slab_unreclaimable: b"slab_unreclaimable",
        /// Not part of `kernel`.
        sock: b"sock",
        /// v1 only; v2 has a separate file.
        swap: b"swap",
        /// Swapped-in memory that still has its swap slot.
        swapcached: b"swapcached",
        /// Minimum limit of this cgroup and all ancestors, including invisible ones. v1 only.
        hierarchical_limit: b"hierarchical_memory_limit",
        hierarchical_memory_and_swap_limit: b"hierarchical_memsw_limit",
        unevictable: b"unevictable",
        /// Since Linux 5.9.
        workingset_refault_anon: b"workingset_refault_anon",
        /// Since Linux 5.9; earlier `workingset_refault`, which counted only file pages.
        workingset_refault_file: b"workingset_refault_file" | b"workingset_refault",
        pgfault: b"pgfault",
        pgmajfault: b"pgmajfault",
        /// Like the next three, v2 since Linux 6.0.
        pgscan_kswapd: b"pgscan_kswapd",
        pgscan_direct: b"pgscan_direct",
        pgsteal_kswapd: b"pgsteal_kswapd",
        pgsteal_direct: b"pgsteal_direct",
    }
}

impl MemoryStat {
    /// Reads the `total_` lines, which include the descendants as v2 does, and the hierarchical
    /// limits.
    pub fn parse_v1(text: &[u8]) -> Parsed<Self> {
        fill_by_key(text, b' ', |stat: &mut Self, key| match key {
            b"hierarchical_memory_limit" | b"hierarchical_memsw_limit" => stat.counter_mut(key),
            _ => stat.counter_mut(key.strip_prefix(b"total_")?),
        })
    }

    /// Memory that reclaim can free without swap: page cache (not shared, not locked) and
    /// reclaimable slab. v1 does not report reclaimable slab, so it counts as unreclaimable. `None`
    /// without the page cache lines.
    pub fn droppable_bytes(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(cache.saturating_add(self.slab_reclaimable.unwrap_or(0)))
    }
}

/// `None` without the CPU controller, or if the kernel does not write the line.
#[derive(Debug, Clone, Copy)]
pub struct CpuStat {
    /// By the cgroup's own quota only; the sum over CPUs.
    pub throttled: Option<Duration>,
    /// v2 only.
    pub usage: Option<Duration>,
}

counters! {
    CpuCounters by b' ' {
        throttled_micros: b"throttled_usec",
        throttled_nanos: b"throttled_time",
        usage_micros: b"usage_usec",
    }
}

impl CpuStat {
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        let counters = CpuCounters::parse(text)?;
        let throttled = counters.throttled_micros.map(Duration::from_micros);
        Ok(Self {
            throttled: throttled.or(counters.throttled_nanos.map(Duration::from_nanos)),
            usage: counters.usage_micros.map(Duration::from_micros),
        })
    }
}

/// A line of `/proc/PID/cgroup`.
#[derive(Debug)]
pub struct Membership {
    /// Controllers of a v1 hierarchy, `name=...` included; empty for v2.
    pub controllers: Vec<String>,
    pub is_unified: bool,
    /// Relative to the root of the reader's cgroup namespace; `/../x` is outside of it.
    pub path: String,
    /// The cgroup was removed while the process, a zombie, was in it.
    pub is_deleted: bool,
}

pub fn memberships(text: &[u8]) -> Parsed<Vec<Membership>> {
    // Parses line by line, because procfs-core's errors have no line number.
    rows_after_headings(text, 0, "expected three fields", |line| {
        // procfs-core requires UTF-8, folder names do not.
        let text = String::from_utf8_lossy(line);
        let cgroup = ProcessCGroups::from_read(text.as_bytes()).ok()?.0.pop()?;
        let without_mark = cgroup.pathname.strip_suffix(" (deleted)");
        Some(Some(Membership {
            is_unified: cgroup.hierarchy == 0 && cgroup.controllers.is_empty(),
            is_deleted: without_mark.is_some(),
            path: without_mark.unwrap_or(&cgroup.pathname).to_owned(),
            controllers: cgroup.controllers,
        }))
    })
}

#[cfg(test)]
mod tests;
