//! `/proc/meminfo` (proc_meminfo(5)).

use crate::ParseError;
use crate::text::fill_until;

/// Memory of the host, in bytes. `None` where the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meminfo {
    /// Usable memory.
    pub total: Option<u64>,
    /// Memory that nothing uses.
    pub free: Option<u64>,
    /// Memory that new programs could have without swapping, an estimate. Since Linux 3.14.
    pub available: Option<u64>,
    /// Block device cache.
    pub buffers: Option<u64>,
    /// Page cache, shared memory included.
    pub cached: Option<u64>,
    /// Swapped-in memory that still has its place in swap.
    pub swap_cached: Option<u64>,
    /// Memory waiting to be written.
    pub dirty: Option<u64>,
    /// Memory being written.
    pub writeback: Option<u64>,
    /// Anonymous memory mapped by processes.
    pub anon_pages: Option<u64>,
    /// Files mapped by processes.
    pub mapped: Option<u64>,
    /// Shared memory and tmpfs.
    pub shmem: Option<u64>,
    /// Kernel objects that can be given back.
    pub slab_reclaimable: Option<u64>,
    /// Kernel objects that cannot.
    pub slab_unreclaimable: Option<u64>,
    /// Page tables.
    pub page_tables: Option<u64>,
    /// Swap space.
    pub swap_total: Option<u64>,
    /// Swap space that nothing uses.
    pub swap_free: Option<u64>,
}

/// # Errors
/// A known line with something else where an amount must be.
pub fn parse(text: &[u8]) -> Result<Meminfo, ParseError> {
    fill_until(text, b':', 16, |info: &mut Meminfo, key| {
        Some(match key {
            b"MemTotal" => &mut info.total,
            b"MemFree" => &mut info.free,
            b"MemAvailable" => &mut info.available,
            b"Buffers" => &mut info.buffers,
            b"Cached" => &mut info.cached,
            b"SwapCached" => &mut info.swap_cached,
            b"Dirty" => &mut info.dirty,
            b"Writeback" => &mut info.writeback,
            b"AnonPages" => &mut info.anon_pages,
            b"Mapped" => &mut info.mapped,
            b"Shmem" => &mut info.shmem,
            b"SReclaimable" => &mut info.slab_reclaimable,
            b"SUnreclaim" => &mut info.slab_unreclaimable,
            b"PageTables" => &mut info.page_tables,
            b"SwapTotal" => &mut info.swap_total,
            b"SwapFree" => &mut info.swap_free,
            _ => return None,
        })
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
    fn an_older_kernel_without_an_estimate_has_none() {
        assert_eq!(parse(b"MemTotal: 1 kB\nMemFree: 1 kB\n").unwrap().available, None);
    }
}
