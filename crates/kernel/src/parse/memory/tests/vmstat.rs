use super::super::*;

#[test]
fn captured_counters_are_read() {
    let stat = Vmstat::parse(include_bytes!("../../../../tests/text/linux-6.18/vmstat")).unwrap();
    assert_eq!(
        (stat.pgfault, stat.pgmajfault),
        (Some(2_032_474), Some(1248))
    );
    assert_eq!((stat.pswpin, stat.oom_kill), (Some(0), Some(0)));
    assert_eq!(stat.workingset_refault_file, Some(185_150));
}

#[test]
fn every_field_is_found() {
    let stat = Vmstat::parse(include_bytes!("../../../../tests/text/linux-6.18/vmstat")).unwrap();
    let all = [
        stat.pgfault,
        stat.pgmajfault,
        stat.pswpin,
        stat.pswpout,
        stat.oom_kill,
    ];
    let reclaim = [
        stat.pgscan_kswapd,
        stat.pgscan_direct,
        stat.pgsteal_kswapd,
        stat.pgsteal_direct,
    ];
    let refaults = [stat.workingset_refault_anon, stat.workingset_refault_file];
    assert!(
        all.iter()
            .chain(&reclaim)
            .chain(&refaults)
            .all(Option::is_some),
        "{stat:?}"
    );
}

#[test]
fn before_kernel_4_13_the_oom_kill_count_is_unknown() {
    assert_eq!(
        Vmstat::parse(b"pgfault 5\npgmajfault 1\n")
            .unwrap()
            .oom_kill,
        None
    );
}
