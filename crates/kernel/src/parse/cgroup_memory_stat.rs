//! `memory.stat` of a cgroup: v2 (Documentation/admin-guide/cgroup-v2.rst) and v1
//! (cgroup-v1/memory.rst) with the same names.

use crate::{
    ParseError,
    text::{counters, fill},
};

counters! {
    /// Sizes in bytes and events in pages, with descendants. `None` if this kernel or cgroup
    /// version does not write the line.
    MemoryStat {
        /// `total_rss` of v1.
        anon: b"anon" | b"rss",
        /// Includes shared memory and tmpfs; `total_cache` of v1.
        file: b"file" | b"cache",
        file_mapped: b"file_mapped" | b"mapped_file",
        file_dirty: b"file_dirty" | b"dirty",
        /// Without shared, locked and ramfs memory.
        active_file: b"active_file",
        /// Without shared, locked and ramfs memory.
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
        /// v2 since Linux 5.18.
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
        unevictable: b"unevictable",
        /// Since Linux 5.9.
        workingset_refault_anon: b"workingset_refault_anon",
        /// Since Linux 5.9; earlier `workingset_refault`, which counted only file pages.
        workingset_refault_file: b"workingset_refault_file" | b"workingset_refault",
        pgfault: b"pgfault",
        pgmajfault: b"pgmajfault",
        /// v2 since Linux 5.18.
        pgscan_kswapd: b"pgscan_kswapd",
        /// v2 since Linux 5.18.
        pgscan_direct: b"pgscan_direct",
        /// v2 since Linux 5.18.
        pgsteal_kswapd: b"pgsteal_kswapd",
        /// v2 since Linux 5.18.
        pgsteal_direct: b"pgsteal_direct",
    }
}

pub fn parse_v2(text: &[u8]) -> Result<MemoryStat, ParseError> {
    fill(text, b' ', MemoryStat::counter)
}

/// Reads the `total_` lines, which include the descendants as v2 does, and the hierarchical limit.
pub fn parse_v1(text: &[u8]) -> Result<MemoryStat, ParseError> {
    fill(text, b' ', |stat: &mut MemoryStat, key| match key {
        b"hierarchical_memory_limit" => Some(&mut stat.hierarchical_limit),
        _ => stat.counter(key.strip_prefix(b"total_")?),
    })
}

impl MemoryStat {
    /// Memory that reclaim can free without swap: page cache (not shared, not locked) and
    /// reclaimable slab. v1 does not report reclaimable slab, so it counts as used. `None` without
    /// the page cache lines.
    pub fn droppable_bytes(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(cache.saturating_add(self.slab_reclaimable.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_memory_stat_of_linux_6_x_is_parsed() {
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
    fn before_5_18_v2_kernel_memory_is_the_sum_of_parts() {
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
    fn without_page_cache_values_droppable_bytes_are_unknown() {
        assert_eq!(
            parse_v2(b"file 1\nactive_file 1\n")
                .unwrap()
                .droppable_bytes(),
            None
        );
    }
}
