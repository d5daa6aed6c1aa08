use super::upstream::{WantedLines, absent, unless_default};
use crate::ParseError;

/// In bytes. `None` if the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meminfo {
    pub total: Option<u64>,
    pub free: Option<u64>,
    /// The kernel's estimate of memory without swapping. Since Linux 3.14.
    pub available: Option<u64>,
    pub buffers: Option<u64>,
    /// Includes shared memory.
    pub cached: Option<u64>,
    /// Swapped-in memory that still has its swap slot.
    pub swap_cached: Option<u64>,
    pub dirty: Option<u64>,
    pub writeback: Option<u64>,
    pub anon_pages: Option<u64>,
    pub mapped: Option<u64>,
    pub shmem: Option<u64>,
    pub slab_reclaimable: Option<u64>,
    pub slab_unreclaimable: Option<u64>,
    pub page_tables: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    /// Applies if `vm.overcommit_memory` is 2.
    pub commit_limit: Option<u64>,
    pub committed: Option<u64>,
}

const WANTED: WantedLines = WantedLines {
    separator: b':',
    keys: &[
        b"MemTotal",
        b"MemFree",
        b"MemAvailable",
        b"Buffers",
        b"Cached",
        b"SwapCached",
        b"Dirty",
        b"Writeback",
        b"AnonPages",
        b"Mapped",
        b"Shmem",
        b"SReclaimable",
        b"SUnreclaim",
        b"PageTables",
        b"SwapTotal",
        b"SwapFree",
        b"CommitLimit",
        b"Committed_AS",
    ],
    required_lines: absent!(
        "MemTotal" "MemFree" "Buffers" "Cached" "SwapCached" "Active" "Inactive" "SwapTotal" "SwapFree" "Dirty" "Writeback"
        "Mapped" "Slab" "Committed_AS" "VmallocTotal" "VmallocUsed" "VmallocChunk"
    ),
    value: "expected a number",
};

pub fn parse(text: &[u8]) -> Result<Meminfo, ParseError> {
    let info = WANTED.read::<procfs::Meminfo>(text)?;
    Ok(Meminfo {
        total: unless_default(info.mem_total),
        free: unless_default(info.mem_free),
        available: info.mem_available,
        buffers: unless_default(info.buffers),
        cached: unless_default(info.cached),
        swap_cached: unless_default(info.swap_cached),
        dirty: unless_default(info.dirty),
        writeback: unless_default(info.writeback),
        anon_pages: info.anon_pages,
        mapped: unless_default(info.mapped),
        shmem: info.shmem,
        slab_reclaimable: info.s_reclaimable,
        slab_unreclaimable: info.s_unreclaim,
        page_tables: info.page_tables,
        swap_total: unless_default(info.swap_total),
        swap_free: unless_default(info.swap_free),
        commit_limit: info.commit_limit,
        committed: unless_default(info.committed_as),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_memory_is_in_bytes() {
        let info = parse(include_bytes!("../../tests/text/linux-6.18/meminfo")).unwrap();
        assert_eq!(info.total, Some(24_684_096 * 1024));
        assert_eq!(info.dirty, Some(22_668 * 1024));
        assert_eq!(info.swap_total, Some(0));
        assert_eq!(info.slab_unreclaimable, Some(22_508 * 1024));
    }

    #[test]
    fn an_unknown_meminfo_line_is_ignored_and_a_bad_one_reported() {
        assert_eq!(
            parse("Néw: much\nMemFree: 1 kB\n".as_bytes()).unwrap().free,
            Some(1024)
        );
        for bad in [
            "MemFree: lots kB",
            "MemFree: 18446744073709551616 kB",
            "MemFree: 1 MB",
            "MemFree:1",
            "MemFree: 1é",
        ] {
            let error =
                parse(format!("MemTotal: 1 kB\n{bad}\nDirty: 1 kB\n").as_bytes()).unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (2, bad));
        }
    }

    #[test]
    fn an_older_kernel_without_mem_available_gives_none() {
        assert_eq!(
            parse(b"MemTotal: 1 kB\nMemFree: 1 kB\n").unwrap().available,
            None
        );
    }
}
