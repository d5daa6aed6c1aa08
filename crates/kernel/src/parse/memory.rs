//! Memory of the host and of its NUMA nodes.

use std::path::PathBuf;

use super::mountinfo::unescape;
use crate::{
    Parsed,
    text::{
        count_or_underflow, counters, fill_by_key, lines, number, rows_after_headings, signed,
        words,
    },
};

counters! {
    /// In bytes. `None` if the kernel does not write the line or the value underflowed.
    Meminfo by b':' {
        total: b"MemTotal",
        free: b"MemFree",
        /// Estimate of memory available without swapping. Since Linux 3.14.
        available: b"MemAvailable",
        /// Includes shared memory.
        cached: b"Cached",
        dirty: b"Dirty",
        shmem: b"Shmem",
        slab_reclaimable: b"SReclaimable",
        slab_unreclaimable: b"SUnreclaim",
        swap_total: b"SwapTotal",
        swap_free: b"SwapFree",
        /// Applies if `vm.overcommit_memory` is 2.
        commit_limit: b"CommitLimit",
        committed: b"Committed_AS",
    }
}

counters! {
    /// In bytes. `None` if the kernel does not write the line or the value underflowed.
    NodeMeminfo {
        total: b"MemTotal",
        free: b"MemFree",
        /// Without shared and locked memory.
        active_file: b"Active(file)",
        /// Without shared and locked memory.
        inactive_file: b"Inactive(file)",
        dirty: b"Dirty",
        /// Since Linux 4.20; before, `slab_reclaimable`.
        reclaimable: b"KReclaimable",
        slab_reclaimable: b"SReclaimable",
    }
}

impl NodeMeminfo {
    /// The lines begin with `Node` and its number.
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        let mut info = fill_by_key(text, b':', |info: &mut Self, head| {
            info.counter_mut(head.rsplit(|&byte| byte == b' ').next()?)
        })?;
        info.reclaimable = info.reclaimable.or(info.slab_reclaimable);
        Ok(info)
    }
}

counters! {
    /// Since boot. `None` if the kernel does not write the line or the counter underflowed.
    Vmstat by b' ' {
        pgfault: b"pgfault",
        pgmajfault: b"pgmajfault",
        pswpin: b"pswpin",
        pswpout: b"pswpout",
        /// Includes kills of cgroups. Since Linux 4.13.
        oom_kill: b"oom_kill",
        /// Pages. Since Linux 5.9.
        workingset_refault_anon: b"workingset_refault_anon",
        /// Pages. Since Linux 5.9.
        workingset_refault_file: b"workingset_refault_file",
        pgscan_kswapd: b"pgscan_kswapd",
        pgscan_direct: b"pgscan_direct",
        pgsteal_kswapd: b"pgsteal_kswapd",
        pgsteal_direct: b"pgsteal_direct",
    }
}

#[derive(Debug, PartialEq)]
pub struct Swap {
    /// Such as `/dev/zram0` or `/swapfile`; ends in ` (deleted)` after the file was removed.
    pub device: PathBuf,
    /// `partition` or `file`.
    pub kind: String,
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub used: u64,
    pub priority: i64,
}

pub fn swaps(text: &[u8]) -> Parsed<Vec<Swap>> {
    rows_after_headings(text, 1, "expected a swap device", |line| {
        let mut words = words(line);
        let device = unescape(words.next()?);
        let kind = String::from_utf8_lossy(words.next()?).into_owned();
        let mut kilobytes = || count_or_underflow(words.next()?);
        let (size, used) = (kilobytes()?, kilobytes()?);
        let priority = signed(words.next()?)?;
        let bytes = |kilobytes: Option<u64>| kilobytes?.checked_mul(1024);
        Some(bytes(size).zip(bytes(used)).map(|(size, used)| Swap {
            device,
            kind,
            size,
            used,
            priority,
        }))
    })
}

/// `min` watermark of a zone of `/proc/zoneinfo`: reserved for allocations that cannot wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watermark {
    pub node: u32,
    /// In pages.
    pub min: u64,
}

pub fn zone_watermarks(text: &[u8]) -> Parsed<Vec<Watermark>> {
    let mut watermarks = Vec::new();
    let mut node = None;
    for line in lines(text) {
        if let Some(rest) = line.text.strip_prefix(b"Node ") {
            let digits = rest.split(|&byte| byte == b',').next().unwrap_or_default();
            node = Some(number(digits).ok_or_else(|| line.error("expected a node number"))?);
            continue;
        }
        let mut parts = words(line.text);
        if let (Some(node), Some(b"min"), Some(value)) = (node, parts.next(), parts.next()) {
            let min = number(value).ok_or_else(|| line.error("expected a number"))?;
            watermarks.push(Watermark { node, min });
        }
    }
    Ok(watermarks)
}

#[cfg(test)]
mod tests;
