//! `memory.stat` of a cgroup: v2 (Documentation/admin-guide/cgroup-v2.rst) and v1 (cgroup-v1/memory.rst) in one
//! vocabulary.

use crate::ParseError;
use crate::text::fill;

/// Declares [`MemoryStat`]: each value once, with the keys of its line in version 2 and in version 1.
macro_rules! memory_stat {
    ($(
        $(#[$doc:meta])*
        $field:ident: $(v2($($v2:literal)|+))? $(v1($($v1:literal)|+))?,
    )*) => {
        /// What the memory of a cgroup and its descendants consists of, in bytes, and what happened to it, in pages. `None`
        /// where this kernel or this cgroup version does not write the line.
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
    /// Anonymous memory; `total_rss` of v1.
    anon: v2("anon") v1("total_rss"),
    /// Page cache, shared memory and tmpfs included; `total_cache` of v1.
    file: v2("file") v1("total_cache"),
    /// Page cache that is mapped by processes.
    file_mapped: v2("file_mapped") v1("total_mapped_file"),
    /// Page cache waiting to be written.
    file_dirty: v2("file_dirty") v1("total_dirty"),
    /// Page cache being written.
    file_writeback: v2("file_writeback") v1("total_writeback"),
    /// Page cache used lately, without shared, locked and ramfs memory.
    active_file: v2("active_file") v1("total_active_file"),
    /// Page cache not used lately, without shared, locked and ramfs memory.
    inactive_file: v2("inactive_file") v1("total_inactive_file"),
    /// Shared memory and tmpfs, a part of `file`.
    shmem: v2("shmem") v1("total_shmem"),
    /// The kernel's memory but sockets. v2 since Linux 5.18. On v1, [`CgroupFiles`](crate::CgroupFiles) puts
    /// `memory.kmem.usage_in_bytes` here, as `memory.stat` has none.
    kernel: v2("kernel"),
    /// Kernel stacks, a part of `kernel`.
    kernel_stack: v2("kernel_stack"),
    /// Page tables, a part of `kernel`.
    pagetables: v2("pagetables"),
    /// Per-CPU data, a part of `kernel`. v2 since Linux 5.9.
    percpu: v2("percpu"),
    /// Memory of `vmalloc`, a part of `kernel`. v2 since Linux 5.18.
    vmalloc: v2("vmalloc"),
    /// Kernel objects, a part of `kernel`.
    slab: v2("slab"),
    /// Kernel objects that can be given back, a part of `slab`.
    slab_reclaimable: v2("slab_reclaimable"),
    /// Kernel objects that cannot, a part of `slab`.
    slab_unreclaimable: v2("slab_unreclaimable"),
    /// Network buffers, no part of `kernel`.
    sock: v2("sock"),
    /// Swapped-out memory. v1 only; v2 has a file of its own.
    swap: v1("total_swap"),
    /// Swapped-in memory that still has its place in swap.
    swapcached: v2("swapcached") v1("total_swapcached"),
    /// The smallest limit of this cgroup and all its ancestors, also of those above what is visible. v1 only.
    hierarchical_limit: v1("hierarchical_memory_limit"),
    /// Memory that must not be evicted, such as `mlock`ed memory.
    unevictable: v2("unevictable") v1("total_unevictable"),
    /// Anonymous pages that came back soon after their eviction. Since Linux 5.9.
    workingset_refault_anon: v2("workingset_refault_anon") v1("total_workingset_refault_anon"),
    /// File pages that came back soon after their eviction. Since Linux 5.9; before, `workingset_refault` counted only
    /// these and is put here.
    workingset_refault_file: v2("workingset_refault_file" | "workingset_refault") v1("total_workingset_refault_file" | "total_workingset_refault"),
    /// Page faults, major ones included.
    pgfault: v2("pgfault") v1("total_pgfault"),
    /// Page faults that needed the disk.
    pgmajfault: v2("pgmajfault") v1("total_pgmajfault"),
    /// Pages looked at by the background reclaimer. v2 since Linux 5.18.
    pgscan_kswapd: v2("pgscan_kswapd"),
    /// Pages looked at by allocating tasks. v2 since Linux 5.18.
    pgscan_direct: v2("pgscan_direct"),
    /// Pages freed by the background reclaimer. v2 since Linux 5.18.
    pgsteal_kswapd: v2("pgsteal_kswapd"),
    /// Pages freed by allocating tasks. v2 since Linux 5.18.
    pgsteal_direct: v2("pgsteal_direct"),
}

impl MemoryStat {
    /// Memory that reclaim can free without swap: page cache that is neither shared memory nor locked, and reclaimable
    /// kernel objects. v1 does not tell these objects apart: there they count as taken. `None` without the lines of the
    /// page cache.
    #[must_use]
    pub fn droppable_bytes(&self) -> Option<u64> {
        let cache = self.active_file?.saturating_add(self.inactive_file?);
        Some(cache.saturating_add(self.slab_reclaimable.unwrap_or(0)))
    }
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
