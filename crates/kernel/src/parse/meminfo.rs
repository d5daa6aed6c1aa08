use crate::{
    ParseError,
    text::{counters, fill},
};

counters! {
    /// In bytes. `None` if the kernel does not write the line.
    Meminfo {
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

pub fn parse(text: &[u8]) -> Result<Meminfo, ParseError> {
    fill(text, b':', Meminfo::counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_and_a_number_without_a_blank_are_read() {
        let info = parse(b"MemTotal: 5 kB\n\nShadowCallStack:10373888 kB\nDirty:1 kB\n\n").unwrap();
        assert_eq!((info.total, info.dirty), (Some(5 << 10), Some(1 << 10)));
    }

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
