//! Damage of many kinds: salvage ends, is bounded by the file, and invents nothing.

use crate::made_up::{arm, finished, folder, random::Random};
use crate::salvage::rows;
use faultline_recording::{Error, Recording, Salvaged, Table, salvage};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

const PAGE: usize = 4096;

type Rows = BTreeMap<&'static str, Vec<String>>;

/// Fails if it does not end, or writes more than the file could hold. The deadline is for an endless one: it takes a
/// fraction of a second.
fn salvaged(damaged: &[u8], folder: &Path, seed: u64) -> Option<(Salvaged, PathBuf)> {
    let (from, to) = (
        folder.join("damaged.db"),
        folder.join(format!("saved-{seed}.db")),
    );
    fs::write(&from, damaged).unwrap();
    let (sender, receiver) = mpsc::channel();
    let places = (from.clone(), to.clone());
    let worker = std::thread::spawn(move || sender.send(salvage(&places.0, &places.1)));
    let told = receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("salvage does not end");
    worker.join().unwrap().unwrap();
    assert!(
        fs::read(&from).unwrap() == damaged,
        "the damaged file was changed"
    );
    let left: HashSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let known = |name: &std::ffi::OsString| {
        ["whole.db", "damaged.db"].iter().any(|known| name == known)
            || *name == *to.file_name().unwrap()
    };
    assert!(left.iter().all(known), "{left:?}");
    match told {
        Ok(told) => {
            let bound = damaged.len() as u64 * 5 / 4 + 60 * PAGE as u64;
            let size = fs::metadata(&to).unwrap().len();
            assert!(
                size <= bound,
                "seed {seed}: {size} bytes of {}",
                damaged.len()
            );
            Some((told, to))
        }
        Err(error) => {
            let known = matches!(
                error,
                Error::Lost { .. } | Error::NotARecording { .. } | Error::Newer { .. }
            );
            assert!(known && !to.exists(), "seed {seed}: {error}");
            None
        }
    }
}

/// Whatever a reader asks of it is answered.
fn assert_readable(path: &Path) {
    let recording = Recording::open(path).unwrap();
    recording.info().unwrap();
    recording.ticks().unwrap();
    recording.events().unwrap();
    recording.problems().unwrap();
    recording.sessions().unwrap();
    recording.processes().unwrap();
    recording.pools().unwrap();
    recording.devices().unwrap();
    recording.series().unwrap();
    recording.program_cache_points().unwrap();
    recording.replay_slot_points().unwrap();
    recording.set_root_points().unwrap();
    recording.cost_tracker_points().unwrap();
    for table in Table::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        recording.columns(table, &names).unwrap();
    }
}

/// Rows that were never written, in any table that can be told from the others.
fn invented(original: &Rows, saved: &Rows) -> usize {
    let of_table = |(table, rows): (&&str, &Vec<String>)| {
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        original[*table]
            .iter()
            .for_each(|row| *left.entry(row.as_str()).or_default() += 1);
        let known = |row: &&String| {
            left.get_mut(row.as_str())
                .is_some_and(|n| std::mem::replace(n, n.saturating_sub(1)) > 0)
        };
        rows.len() - rows.iter().filter(known).count()
    };
    // The end of the session is set by the salvage, and whoever loses a manifest keeps the rest. Roots and cost trackers
    // cannot be told apart by their values.
    let told_apart = |table: &str| {
        !["session", "process", "set_root_point", "cost_tracker_point"].contains(&table)
    };
    saved
        .iter()
        .filter(|(table, _)| told_apart(table))
        .map(of_table)
        .sum()
}

fn whole() -> (tempfile::TempDir, Vec<u8>, Rows) {
    let folder = folder();
    let path = folder.path().join("whole.db");
    finished(&path, arm(400));
    let (bytes, rows) = (fs::read(&path).unwrap(), rows(&path));
    (folder, bytes, rows)
}

/// Pages are lost or out of place; what lies on them is what it was.
fn displace(bytes: &mut [u8], random: &mut Random) {
    let pages = bytes.len() / PAGE;
    // Not the first: it begins the list of tables.
    let mut page = || 1 + random.next() as usize % (pages - 1);
    let (a, b, kind) = (page(), page(), page() % 4);
    match kind {
        0 => bytes[a * PAGE..(a + 1) * PAGE].fill(0),
        // One page twice, and the other lost.
        1 => bytes.copy_within(a * PAGE..(a + 1) * PAGE, b * PAGE),
        _ => {
            let kept = bytes[a * PAGE..(a + 1) * PAGE].to_vec();
            bytes.copy_within(b * PAGE..(b + 1) * PAGE, a * PAGE);
            bytes[b * PAGE..(b + 1) * PAGE].copy_from_slice(&kept);
        }
    }
}

#[test]
fn of_lost_repeated_and_swapped_pages_only_true_rows_are_saved() {
    let (folder, whole, original) = whole();
    let all: usize = original.values().map(Vec::len).sum();
    let (mut saved_runs, mut saved_rows) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..=seed % 12 {
            displace(&mut bytes, &mut random);
        }
        let Some((told, saved)) = salvaged(&bytes, folder.path(), seed) else {
            continue;
        };
        assert_readable(&saved);
        let found = rows(&saved);
        let wrong: Vec<_> = found
            .iter()
            .filter(|(t, r)| invented(&original, &BTreeMap::from([(**t, (*r).clone())])) > 0)
            .map(|(t, _)| t)
            .collect();
        assert_eq!(invented(&original, &found), 0, "seed {seed}: {wrong:?}");
        for of in told.tables.iter().filter(|of| of.name != "meta") {
            assert_eq!(
                of.kept,
                found[of.name].len() as u64,
                "seed {seed}: {}",
                of.name
            );
        }
        saved_runs += 1;
        saved_rows += found.values().map(Vec::len).sum::<usize>();
        fs::remove_file(saved).unwrap();
    }
    assert!(
        saved_runs > 45 && saved_rows > saved_runs * all / 2,
        "{saved_rows} of {saved_runs} times {all} rows"
    );
}

#[test]
fn pages_that_point_in_circles_are_followed_once() {
    let (folder, whole, original) = whole();
    for seed in 0..40 {
        let mut random = Random::new(1000 + seed);
        let mut bytes = whole.clone();
        let pages = bytes.len() / PAGE;
        // Every page that points at others: some of its pointers lead elsewhere, up to where they came from.
        for page in (1..pages).filter(|page| whole[page * PAGE] == 5) {
            let begin = page * PAGE;
            let cells = usize::from(u16::from_be_bytes([bytes[begin + 3], bytes[begin + 4]]));
            for cell in (0..cells)
                .filter(|_| seed == 0 || random.next().is_multiple_of(4))
                .collect::<Vec<_>>()
            {
                let at = begin + 12 + 2 * cell;
                let at = begin + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
                let to = if random.next().is_multiple_of(2) {
                    page as u64
                } else {
                    random.next() % pages as u64
                };
                bytes[at..at + 4].copy_from_slice(&(to as u32 + 1).to_be_bytes());
            }
        }
        let Some((_, saved)) = salvaged(&bytes, folder.path(), seed) else {
            continue;
        };
        assert_readable(&saved);
        assert_eq!(invented(&original, &rows(&saved)), 0, "seed {seed}");
        fs::remove_file(saved).unwrap();
    }
}

#[test]
fn of_overwritten_bytes_no_more_rows_are_wrong_than_lie_where_they_were_written() {
    let (folder, whole, original) = whole();
    for seed in 0..60 {
        let mut random = Random::new(2000 + seed);
        let mut bytes = whole.clone();
        let mut touched = HashSet::new();
        let (runs, most) = [(40, 300), (400, 1), (1, 3000), (2000, 1)][seed as usize % 4];
        for _ in 0..runs {
            let (begin, length) = (
                100 + random.next() as usize % (bytes.len() - 100),
                1 + random.next() as usize % most,
            );
            for at in begin..(begin + length).min(bytes.len()) {
                bytes[at] = random.next() as u8;
                touched.insert(at);
            }
        }
        let Some((_, saved)) = salvaged(&bytes, folder.path(), seed) else {
            continue;
        };
        assert_readable(&saved);
        // A byte is of one row, or of the number that tells where one begins.
        let wrong = invented(&original, &rows(&saved));
        assert!(
            wrong <= touched.len(),
            "seed {seed}: {wrong} rows, {} bytes",
            touched.len()
        );
        fs::remove_file(saved).unwrap();
    }
}
