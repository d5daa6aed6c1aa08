use super::super::*;

#[test]
fn node_meminfo_is_in_bytes_and_older_kernels_report_only_slabs() {
    let text = b"Node 0 MemTotal:  5 kB\nNode 0 Active(file): 2 kB\nNode 0 SReclaimable: 3 kB\n";
    let info = NodeMeminfo::parse(text).unwrap();
    assert_eq!(
        (info.total, info.active_file, info.reclaimable, info.free),
        (Some(5120), Some(2048), Some(3072), None)
    );
    assert_eq!(
        NodeMeminfo::parse(b"Node 0 MemFree: x kB\n")
            .unwrap_err()
            .line,
        1
    );
}
