use super::super::*;

#[test]
fn v2_memory_stat_of_linux_6_x_is_parsed() {
    let stat = MemoryStat::parse(include_bytes!("../../../../tests/text/v2/memory.stat")).unwrap();
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
    let stat = MemoryStat::parse(include_bytes!(
        "../../../../tests/text/v2/memory.stat-linux-5.4"
    ))
    .unwrap();
    assert_eq!((stat.kernel, stat.pgscan_direct), (None, None));
    assert_eq!(stat.workingset_refault_file, Some(32));
}

#[test]
fn a_captured_v1_text_is_read_from_its_hierarchical_lines() {
    let stat = MemoryStat::parse_v1(include_bytes!(
        "../../../../tests/text/linux-6.18/v1_memory.stat"
    ))
    .unwrap();
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
    let local_only = MemoryStat::parse_v1(b"rss 1\ncache 2\nshmem 3\n").unwrap();
    assert_eq!(local_only, MemoryStat::default());
}

#[test]
fn without_page_cache_values_droppable_bytes_are_unknown() {
    assert_eq!(
        MemoryStat::parse(b"file 1\nactive_file 1\n")
            .unwrap()
            .droppable_bytes(),
        None
    );
}
