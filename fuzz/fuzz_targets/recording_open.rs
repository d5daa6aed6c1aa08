//! Any bytes as a recording, and any bytes written over a true one: opened, looked at and salvaged without a panic, without
//! an end that does not come, and into no more than the file could hold.
#![no_main]

use faultline_recording::{Recording, Table, salvage};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::Path;

/// What an empty recording takes beside what was saved.
const EMPTY: u64 = 256 << 10;

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
    for table in Table::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let _ = recording.columns(table, &names);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let (path, saved) = (folder.path().join("run.db"), folder.path().join("saved.db"));
    let damaged = faultline_fuzz::damaged(TRUE, bytes);
    for content in [bytes, &damaged] {
        fs::write(&path, content).expect("a recording");
        read(&path);
        if salvage(&path, &saved).is_ok() {
            let size = fs::metadata(&saved).expect("what was saved").len();
            assert!(
                size <= content.len() as u64 * 2 + EMPTY,
                "{size} bytes of {}",
                content.len()
            );
            let saved = Recording::open(&saved).expect("what was saved is a recording");
            saved.info().expect("its contents");
            saved.events().expect("its events");
            saved.set_root_points().expect("its points");
        }
        let _ = fs::remove_file(&saved);
    }
});
