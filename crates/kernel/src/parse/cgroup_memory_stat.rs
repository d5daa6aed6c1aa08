//! `memory.stat` of a cgroup: v2 (Documentation/admin-guide/cgroup-v2.rst) and v1
//! (cgroup-v1/memory.rst) with the same names.

use crate::ParseError;
use crate::text::fill;

/// Sizes in bytes and events in pages, with descendants. `None` if this kernel or cgroup version
/// does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStat {
    /// `total_rss` of v1.
    pub anon: Option<u64>,
    /// Includes shared memory and tmpfs; `total_cache` of v1.
    pub file: Option<u64>,
    pub file_mapped: Option<u64>,
    pub file_dirty: Option<u64>,
    pub file_writeback: Option<u64>,
    /// Without shared, locked and ramfs memory.
    pub active_file: Option<u64>,
    /// Without shared, locked and ramfs memory.
    pub inactive_file: Option<u64>,
    /// Part of `file`.
    pub shmem: Option<u64>,
    /// Without sockets. v2 since Linux 5.18. On v1 it is `memory.kmem.usage_in_bytes`, set by
    /// [`CgroupFiles`](crate::CgroupFiles).
    pub kernel: Option<u64>,
    pub kernel_stack: Option<u64>,
    pub pagetables: Option<u64>,
    /// v2 since Linux 5.9.
    pub percpu: Option<u64>,
    /// v2 since Linux 5.18.
    pub vmalloc: Option<u64>,
    pub slab: Option<u64>,
    pub slab_reclaimable: Option<u64>,
    pub slab_unreclaimable: Option<u64>,
    /// Not part of `kernel`.
    pub sock: Option<u64>,
    /// v1 only; v2 has a separate file.
    pub swap: Option<u64>,
    /// Swapped-in memory that still has its swap slot.
    pub swapcached: Option<u64>,
    /// Minimum of the limits of this cgroup and all ancestors, including invisible ones. v1 only.
    pub hierarchical_limit: Option<u64>,
    pub unevictable: Option<u64>,
    /// Since Linux 5.9.
    pub workingset_refault_anon: Option<u64>,
    /// Since Linux 5.9; earlier `workingset_refault`, which counted only file pages.
    pub workingset_refault_file: Option<u64>,
    pub pgfault: Option<u64>,
    pub pgmajfault: Option<u64>,
    /// v2 since Linux 5.18.
    pub pgscan_kswapd: Option<u64>,
    /// v2 since Linux 5.18.
    pub pgscan_direct: Option<u64>,
    /// v2 since Linux 5.18.
    pub pgsteal_kswapd: Option<u64>,
    /// v2 since Linux 5.18.
    pub pgsteal_direct: Option<u64>,
}

impl MemoryStat {
    /// Memory that reclaim can free without swap: page cache (not shared, not locked) and
    /// reclaimable slab. v1 does not report reclaimable slab, so it counts as used. `None` without
    /// the page cache lines.
    #[must_use]
    pub fn droppable_bytes(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(cache.saturating_add(self.slab_reclaimable.unwrap_or(0)))
    }
}

pub fn parse_v2(text: &[u8]) -> Result<MemoryStat, ParseError> {
    fill(text, b' ', |stat: &mut MemoryStat, key| {
        Some(match key {
            b"anon" => &mut stat.anon,
            b"file" => &mut stat.file,
            b"file_mapped" => &mut stat.file_mapped,
            b"file_dirty" => &mut stat.file_dirty,
            b"file_writeback" => &mut stat.file_writeback,
            b"active_file" => &mut stat.active_file,
            b"inactive_file" => &mut stat.inactive_file,
            b"shmem" => &mut stat.shmem,
            b"kernel" => &mut stat.kernel,
            b"kernel_stack" => &mut stat.kernel_stack,
            b"pagetables" => &mut stat.pagetables,
            b"percpu" => &mut stat.percpu,
            b"vmalloc" => &mut stat.vmalloc,
            b"slab" => &mut stat.slab,
            b"slab_reclaimable" => &mut stat.slab_reclaimable,
            b"slab_unreclaimable" => &mut stat.slab_unreclaimable,
            b"sock" => &mut stat.sock,
            b"swapcached" => &mut stat.swapcached,
            b"unevictable" => &mut stat.unevictable,
            b"workingset_refault_anon" => &mut stat.workingset_refault_anon,
            b"workingset_refault_file" | b"workingset_refault" => &mut stat.workingset_refault_file,
            b"pgfault" => &mut stat.pgfault,
            b"pgmajfault" => &mut stat.pgmajfault,
            b"pgscan_kswapd" => &mut stat.pgscan_kswapd,
            b"pgscan_direct" => &mut stat.pgscan_direct,
            b"pgsteal_kswapd" => &mut stat.pgsteal_kswapd,
            b"pgsteal_direct" => &mut stat.pgsteal_direct,
            _ => return None,
        })
    })
}

/// Uses the `total_` lines, which include descendants as in v2, and the hierarchical limit.
pub fn parse_v1(text: &[u8]) -> Result<MemoryStat, ParseError> {
    fill(text, b' ', |stat: &mut MemoryStat, key| {
        if key == b"hierarchical_memory_limit" {
            return Some(&mut stat.hierarchical_limit);
        }
        Some(match key.strip_prefix(b"total_")? {
            b"active_file" => &mut stat.active_file,
            b"inactive_file" => &mut stat.inactive_file,
            b"rss" => &mut stat.anon,
            b"cache" => &mut stat.file,
            b"mapped_file" => &mut stat.file_mapped,
            b"dirty" => &mut stat.file_dirty,
            b"writeback" => &mut stat.file_writeback,
            b"shmem" => &mut stat.shmem,
            b"swap" => &mut stat.swap,
            b"swapcached" => &mut stat.swapcached,
            b"unevictable" => &mut stat.unevictable,
            b"workingset_refault_anon" => &mut stat.workingset_refault_anon,
            b"workingset_refault_file" | b"workingset_refault" => &mut stat.workingset_refault_file,
            b"pgfault" => &mut stat.pgfault,
            b"pgmajfault" => &mut stat.pgmajfault,
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_of_linux_6_x_is_read() {
        let stat = parse_v2(include_bytes!("../../tests/text/v2/memory.stat")).unwrap();
        assert_eq!(
            (stat.anon, stat.kernel, stat.slab_reclaimable),
            (Some(1000), Some(900), Some(300))
        );
        assert_eq!(
            (stat.pgscan_kswapd, stat.workingset_refault_file),
            (Some(41), Some(32))
        );
        assert_eq!(
            stat.droppable_bytes(),
            Some(stat.active_file.unwrap() + stat.inactive_file.unwrap() + 300)
        );
    }

    #[test]
    fn v2_before_5_18_has_parts_instead_of_a_total_of_the_kernel() {
        let stat = parse_v2(include_bytes!("../../tests/text/v2/memory.stat-linux-5.4")).unwrap();
        assert_eq!((stat.kernel, stat.pgscan_direct), (None, None));
        assert_eq!(stat.workingset_refault_file, Some(32));
    }

    #[test]
    fn a_captured_v1_text_is_read_from_its_hierarchical_lines() {
        let stat = parse_v1(include_bytes!("../../tests/text/linux-6.18/v1_memory.stat")).unwrap();
        assert_eq!(
            (stat.anon, stat.file),
            (Some(1_397_399_552), Some(217_190_400))
        );
        assert_eq!(
            (stat.pgmajfault, stat.workingset_refault_file),
            (Some(145), Some(50_762))
        );
        assert_eq!(stat.droppable_bytes(), Some(170_074_112 + 47_116_288));
        assert_eq!(stat.hierarchical_limit, Some(9_223_372_036_854_771_712));
        let local_only = parse_v1(b"rss 1\ncache 2\nshmem 3\n").unwrap();
        assert_eq!(local_only, MemoryStat::default());
    }

    #[test]
    fn without_the_page_cache_nothing_is_claimed() {
        assert_eq!(
            parse_v2(b"file 1\nactive_file 1\n")
                .unwrap()
                .droppable_bytes(),
            None
        );
    }
}
