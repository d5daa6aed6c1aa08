//! Any bytes as a recording, and any bytes written over a true one: opened and read without a panic and
//! without an end that does not come.
#![no_main]

use faultline_recording::{PerTickTable, Recording};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::Path;

/// A recording as the first version of the format wrote it.
const TRUE: &[u8] = include_bytes!("../../crates/recording/tests/fixtures/format-1.db");

fn read(path: &Path) {
    let Ok(recording) = Recording::open(path) else {
        return;
    };
    let _ = (
        recording.info(),
        recording.ticks(),
        recording.events(),
        recording.pools(),
        recording.series(),
    );
    let _ = (recording.replay_slot_points(), recording.set_root_points());
    for table in PerTickTable::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let _ = recording.columns(table, &names);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = folder.path().join("run.db");
    let damaged = faultline_fuzz::damaged(TRUE, bytes);
    for content in [bytes, &damaged] {
        fs::write(&path, content).expect("a recording");
        read(&path);
    }
});
