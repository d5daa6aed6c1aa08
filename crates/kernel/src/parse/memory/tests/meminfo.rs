use super::super::*;

#[test]
fn empty_lines_and_a_number_without_a_blank_are_read() {
    let info =
        Meminfo::parse(b"MemTotal: 5 kB\n\nShadowCallStack:10373888 kB\nDirty:1 kB\n\n").unwrap();
    assert_eq!((info.total, info.dirty), (Some(5 << 10), Some(1 << 10)));
}

#[test]
fn captured_memory_is_in_bytes() {
    let info = Meminfo::parse(include_bytes!("../../../../tests/text/linux-6.18/meminfo")).unwrap();
    assert_eq!(info.total, Some(24_684_096 * 1024));
    assert_eq!(info.dirty, Some(22_668 * 1024));
    assert_eq!(info.swap_total, Some(0));
    assert_eq!(info.slab_unreclaimable, Some(22_508 * 1024));
}

#[test]
fn an_unknown_meminfo_line_is_ignored_and_a_bad_one_reported() {
    assert_eq!(
        Meminfo::parse("Néw: much\nMemFree: 1 kB\n".as_bytes())
            .unwrap()
            .free,
        Some(1024)
    );
    for bad in [
        "MemFree: lots kB",
        "MemFree: 18446744073709551616 kB",
        "MemFree: 1 MB",
        "MemFree: 1é",
    ] {
        let error =
            Meminfo::parse(format!("MemTotal: 1 kB\n{bad}\nDirty: 1 kB\n").as_bytes()).unwrap_err();
        assert_eq!((error.line, error.text.as_str()), (2, bad));
    }
}

#[test]
fn an_older_kernel_without_mem_available_gives_none() {
    assert_eq!(
        Meminfo::parse(b"MemTotal: 1 kB\nMemFree: 1 kB\n")
            .unwrap()
            .available,
        None
    );
}
