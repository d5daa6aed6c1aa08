//! Any bytes written over true results of `bench`: read without a panic, and with no more rows than the file could hold.
#![no_main]

use faultline_bench::fuzzing::{STORE_SCHEMA, count_samples};
use libfuzzer_sys::fuzz_target;
use rusqlite::Connection;
use std::fs;
use std::sync::LazyLock;

/// Bytes that a row takes at least.
const SMALLEST_ROW: usize = 6;

const HEADER: &str = r#"{"preset": "nodes", "version": "1", "started_unix_ns": 0, "nodes": ["a"], "notes": [], "arms": ["a"],
  "verdicts": [{"equal": 0, "different": 0}], "seed": 1, "rounds": 1, "warm_up": 0, "workers": 1, "rate": null, "stopped_by": null, "own_cpu_ns": null,
  "length_ns": 1}"#;

static TRUE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.flb");
    let (application, tables) = STORE_SCHEMA;
    let conn = Connection::open(&path).expect("a connection");
    conn.execute_batch(&format!(
        "PRAGMA page_size = 512; PRAGMA application_id = {application}; PRAGMA user_version = 1; {}",
        tables.join(";")
    ))
    .expect("its tables");
    conn.execute("INSERT INTO run VALUES (?)", [HEADER])
        .expect("its header");
    conn.execute_batch(
        "INSERT INTO cell VALUES (0, 'a', 'b', 904), (1, 'a', 'c', NULL);
         INSERT INTO sample VALUES (0, 0, 0, 5, 1, 1, 0, 1, 1, 1, 1, 9, 9, NULL, 0), (1, 0, 1, 5, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, 'timeout', 1); INSERT INTO histogram VALUES (0, 1, 2, 3)",
    )
    .expect("its rows");
    drop(conn);
    assert_eq!(count_samples(&path).expect("true results"), 2);
    fs::read(&path).expect("the file")
});

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = folder.path().join("run.flb");
    let damaged = faultline_fuzz::damaged(&TRUE, bytes);
    for content in [bytes, &damaged] {
        fs::write(&path, content).expect("a file");
        if let Ok(samples) = count_samples(&path) {
            assert!(samples <= content.len() / SMALLEST_ROW, "{samples} samples");
        }
    }
});
