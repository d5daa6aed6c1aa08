//! `memory.stat` of a cgroup: v2 (Documentation/admin-guide/cgroup-v2.rst) and v1
//! (cgroup-v1/memory.rst) with the same names.

use crate::ParseError;
use crate::text::fill;

/// Declares [`MemoryStat`]: each value once, with the keys of its line in version 2 and in version 1.
macro_rules! memory_stat {
    ($(
        $(#[$doc:meta])*
        $field:ident: $(v2($($v2:literal)|+))? $(v1($($v1:literal)|+))?,
    )*) => {
        /// Sizes in bytes and events in pages, with descendants. `None` if this kernel or cgroup
        /// version does not write the line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct MemoryStat {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }

        /// `memory.stat` of v2.
        ///
        /// # Errors
        /// A known line with something else where a number must be.
        pub fn parse_v2(text: &[u8]) -> Result<MemoryStat, ParseError> {
            fill(text, b' ', |stat: &mut MemoryStat, key| match key {
                $($($(_ if key == $v2.as_bytes() => Some(&mut stat.$field),)+)?)*
                _ => None,
            })
        }

        /// `memory.stat` of v1: its `total_` lines, which include the descendants as v2 does, and the hierarchical limit.
        ///
        /// # Errors
        /// A known line with something else where a number must be.
        pub fn parse_v1(text: &[u8]) -> Result<MemoryStat, ParseError> {
            fill(text, b' ', |stat: &mut MemoryStat, key| match key {
                $($($(_ if key == $v1.as_bytes() => Some(&mut stat.$field),)+)?)*
                _ => None,
            })
        }
    };
}

memory_stat! {
    /// `total_rss` of v1.
    anon: v2("anon") v1("total_rss"),
    /// Includes shared memory and tmpfs; `total_cache` of v1.
    file: v2("file") v1("total_cache"),
    file_mapped: v2("file_mapped") v1("total_mapped_file"),
    file_dirty: v2("file_dirty") v1("total_dirty"),
    file_writeback: v2("file_writeback") v1("total_writeback"),
    /// Without shared, locked and ramfs memory.
    active_file: v2("active_file") v1("total_active_file"),
    /// Without shared, locked and ramfs memory.
    inactive_file: v2("inactive_file") v1("total_inactive_file"),
    /// Part of `file`.
    shmem: v2("shmem") v1("total_shmem"),
    /// Without sockets. v2 since Linux 5.18. On v1 it is `memory.kmem.usage_in_bytes`, set by
    /// [`CgroupFiles`](crate::CgroupFiles).
    kernel: v2("kernel"),
    kernel_stack: v2("kernel_stack"),
    pagetables: v2("pagetables"),
    /// v2 since Linux 5.9.
    percpu: v2("percpu"),
    /// v2 since Linux 5.18.
    vmalloc: v2("vmalloc"),
    slab: v2("slab"),
    slab_reclaimable: v2("slab_reclaimable"),
    slab_unreclaimable: v2("slab_unreclaimable"),
    /// Not part of `kernel`.
    sock: v2("sock"),
    /// v1 only; v2 has a separate file.
    swap: v1("total_swap"),
    /// Swapped-in memory that still has its swap slot.
    swapcached: v2("swapcached") v1("total_swapcached"),
    /// Minimum of the limits of this cgroup and all ancestors, including invisible ones. v1 only.
    hierarchical_limit: v1("hierarchical_memory_limit"),
    unevictable: v2("unevictable") v1("total_unevictable"),
    /// Since Linux 5.9.
    workingset_refault_anon: v2("workingset_refault_anon") v1("total_workingset_refault_anon"),
    /// Since Linux 5.9; earlier `workingset_refault`, which counted only file pages.
    workingset_refault_file: v2("workingset_refault_file" | "workingset_refault") v1("total_workingset_refault_file" | "total_workingset_refault"),
    pgfault: v2("pgfault") v1("total_pgfault"),
    pgmajfault: v2("pgmajfault") v1("total_pgmajfault"),
    /// v2 since Linux 5.18.
    pgscan_kswapd: v2("pgscan_kswapd"),
    /// v2 since Linux 5.18.
    pgscan_direct: v2("pgscan_direct"),
    /// v2 since Linux 5.18.
    pgsteal_kswapd: v2("pgsteal_kswapd"),
    /// v2 since Linux 5.18.
    pgsteal_direct: v2("pgsteal_direct"),
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
