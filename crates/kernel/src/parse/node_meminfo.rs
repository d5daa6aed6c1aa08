use crate::{
    ParseError,
    text::{counters, fill},
};

counters! {
    /// In bytes. `None` if the kernel does not write the line.
    NodeMeminfo {
        total: b"MemTotal",
        free: b"MemFree",
        /// Without shared and locked memory.
        active_file: b"Active(file)",
        /// Without shared and locked memory.
        inactive_file: b"Inactive(file)",
        dirty: b"Dirty",
        /// Since Linux 4.20; before, `slab`.
        reclaimable: b"KReclaimable",
        slab: b"SReclaimable",
    }
}

/// The lines begin with `Node` and its number.
pub fn parse(text: &[u8]) -> Result<NodeMeminfo, ParseError> {
    let mut info: NodeMeminfo = fill(text, b':', |info: &mut NodeMeminfo, head| {
        info.counter(head.rsplit(|&byte| byte == b' ').next()?)
    })?;
    info.reclaimable = info.reclaimable.or(info.slab);
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_meminfo_is_in_bytes_and_older_kernels_report_only_slabs() {
        let text =
            b"Node 0 MemTotal:  5 kB\nNode 0 Active(file): 2 kB\nNode 0 SReclaimable: 3 kB\n";
        let info = parse(text).unwrap();
        assert_eq!(
            (info.total, info.active_file, info.reclaimable, info.free),
            (Some(5120), Some(2048), Some(3072), None)
        );
        assert_eq!(parse(b"Node 0 MemFree: x kB\n").unwrap_err().line, 1);
    }
}
