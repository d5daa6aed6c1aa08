//! Any bytes written over a true `results.db`: opened and read without a panic, and with no more rows than the file could hold.
#![no_main]

use faultline_campaign::fuzzing::{make, rows};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::sync::LazyLock;

/// Bytes that a row takes at least.
const SMALLEST_ROW: usize = 6;

static TRUE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path()).expect("true results");
    fs::read(folder.path().join("results.db")).expect("the file")
});

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = folder.path().join("results.db");
    let damaged = faultline_fuzz::damaged(&TRUE, bytes);
    for content in [bytes, &damaged] {
        fs::write(&path, content).expect("a file");
        if let Ok(rows) = rows(folder.path()) {
            assert!(rows <= content.len() / SMALLEST_ROW, "{rows} rows");
        }
    }
});
