use crate::ParseError;
use crate::text::{amount, lines};

/// In bytes. `None` if the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeMeminfo {
    pub total: Option<u64>,
    pub free: Option<u64>,
    /// Without shared and locked memory.
    pub active_file: Option<u64>,
    /// Without shared and locked memory.
    pub inactive_file: Option<u64>,
    pub dirty: Option<u64>,
    /// `KReclaimable` since Linux 4.20, before `SReclaimable`.
    pub reclaimable: Option<u64>,
}

pub fn parse(text: &[u8]) -> Result<NodeMeminfo, ParseError> {
    let mut info = NodeMeminfo::default();
    let mut slab = None;
    for line in lines(text) {
        let Some((head, value)) = line.split_at_byte(b':') else {
            continue;
        };
        let key = head.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        let field = match key {
            b"MemTotal" => &mut info.total,
            b"MemFree" => &mut info.free,
            b"Active(file)" => &mut info.active_file,
            b"Inactive(file)" => &mut info.inactive_file,
            b"Dirty" => &mut info.dirty,
            b"KReclaimable" => &mut info.reclaimable,
            b"SReclaimable" => &mut slab,
            _ => continue,
        };
        *field = amount(value).ok_or_else(|| line.error("expected a number"))?;
    }
    info.reclaimable = info.reclaimable.or(slab);
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
