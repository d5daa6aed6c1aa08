//! Files with arbitrary content are refused or read, without a panic.

use crate::made_up::{arm, finished, folder, synthetic_run::SyntheticRun};
use faultline_recording::{PerTickTable, Recording, Writer, merge};
use proptest::prelude::*;
use std::{fs, path::Path};

/// Calls all methods of a reader.
fn read_all(path: &Path) {
    let Ok(recording) = Recording::open(path) else {
        return;
    };
    let _ = recording.info();
    let _ = (
        recording.ticks(),
        recording.events(),
        recording.problems(),
        recording.sessions(),
        recording.processes(),
    );
    let _ = (recording.pools(), recording.series());
    let _ = (
        recording.program_cache_points(),
        recording.replay_slot_points(),
    );
    let _ = (recording.set_root_points(), recording.cost_tracker_points());
    for table in PerTickTable::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let _ = recording.columns(table, &names);
    }
}

#[test]
fn a_foreign_wal_database_gets_no_log_file() {
    let folder = folder();
    let path = folder.path().join("a foreign%one?.db");
    let mut bytes = vec![0x7f; 3000];
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    // Pages of 4,096 bytes, a write-ahead log, the fixed fractions, an application of its own.
    bytes[16..24].copy_from_slice(&[16, 0, 2, 2, 0, 64, 32, 32]);
    fs::write(&path, &bytes).unwrap();
    assert!(Recording::open(&path).is_err());
    assert!(Writer::append(&path, &SyntheticRun::new(arm(1)).header()).is_err());
    assert!(fs::read(&path).unwrap() == bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_of_random_bytes_is_refused_and_unchanged(bytes in proptest::collection::vec(any::<u8>(), 1..3000), magic in any::<bool>()) {
        let folder = folder();
        let path = folder.path().join("any");
        let bytes = if magic { [b"SQLite format 3\0", bytes.as_slice()].concat() } else { bytes };
        fs::write(&path, &bytes).unwrap();
        prop_assert!(Recording::open(&path).is_err());
        prop_assert!(Writer::append(&path, &SyntheticRun::new(arm(1)).header()).is_err());
        prop_assert!(merge(&[path.clone(), path.clone()], &folder.path().join("joined")).is_err());
        prop_assert!(fs::read(&path).unwrap() == bytes);
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn reading_a_recording_with_overwritten_bytes_never_panics(
        changes in proptest::collection::vec((0.0..1.0f64, any::<u8>()), 1..40),
    ) {
        let folder = folder();
        let path = folder.path().join("run.db");
        finished(&path, arm(8));
        let mut bytes = fs::read(&path).unwrap();
        for (share, byte) in changes {
            let offset = (share * bytes.len() as f64) as usize;
            bytes[offset] = byte;
        }
        fs::write(&path, &bytes).unwrap();
        read_all(&path);
        prop_assert!(fs::read(&path).unwrap() == bytes);
    }
}
