use super::*;

#[test]
fn a_thread_pool_name_excludes_index_and_separator() {
    for (comm, expected) in [
        ("solScHandler07", "solScHandler"),
        ("solScHandler07\n", "solScHandler"),
        ("solIdxFlusher10", "solIdxFlusher"),
        ("solTpu2Pack", "solTpu2Pack"),
        ("agave-validator", "agave-validator"),
        ("rocksdb:low", "rocksdb:low"),
        ("rocksdb:high1", "rocksdb:high"),
        ("tokio-runtime-w", "tokio-runtime-w"),
        ("reqwest-interna", "reqwest-interna"),
        ("iou-wrk-1234", "iou-wrk"),
        ("net:0", "net"),
        ("", UNNAMED),
        ("1234", UNNAMED),
        ("--7", UNNAMED),
        ("-", UNNAMED),
        (" ", UNNAMED),
    ] {
        assert_eq!(pool_name(comm.as_bytes()), expected, "{comm:?}");
    }
}

#[test]
fn a_thread_pool_name_is_sanitized_for_a_label() {
    assert_eq!(pool_name(b"bad\xff01"), "bad\u{fffd}");
    assert_eq!(pool_name(b"new\nline3"), "new\u{fffd}line");
}

#[test]
fn every_pool_with_a_purpose_is_a_pool_the_kernel_can_show() {
    for (name, purpose) in PURPOSES {
        assert!(name.len() <= 15, "{name}");
        assert_eq!(pool_name(name.as_bytes()), *name);
        assert_eq!(
            super::purpose(name),
            Some(*purpose),
            "{name} is there twice"
        );
    }
}

#[test]
fn pools_of_a_real_validator_have_a_known_purpose() {
    for comm in [
        "solAggCommitSvc",
        "solRcvrGossip",
        "solStatsReport",
        "solRcvrShredRep",
    ] {
        let found = super::purpose(&pool_name(comm.as_bytes()));
        assert!(found.is_some_and(|purpose| !purpose.is_empty()), "{comm}");
    }
}
