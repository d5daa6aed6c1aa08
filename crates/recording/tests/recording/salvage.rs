//! What is left of a damaged recording.

use crate::made_up::{arm, finished, random::Random};
use faultline_recording::{Cell, Error, Recording, Salvaged, salvage};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Every row of every table, as text.
pub(crate) fn rows(path: &Path) -> BTreeMap<&'static str, Vec<String>> {
    let recording = Recording::open(path).unwrap();
    let mut all = BTreeMap::new();
    for table in recording.tables().unwrap() {
        let rows = all.entry(table.name).or_insert_with(Vec::new);
        let take = |found: &[Vec<Cell>]| {
            rows.extend(found.iter().map(|row| format!("{row:?}")));
            Ok::<(), Error>(())
        };
        recording.rows(table.name, 1000, take).unwrap();
    }
    all.remove("meta");
    all
}

/// Fails unless every saved row is one of the original's, in its order, and the numbers are true.
fn assert_saved(original: &BTreeMap<&'static str, Vec<String>>, saved: &Path, told: &Salvaged) {
    for (table, found) in rows(saved) {
        let mut left = original[table].iter();
        for row in &found {
            let same = |other: &&String| {
                *other == row || (table == "session" && other.starts_with("[Integer(1)"))
            };
            assert!(
                left.any(|other| same(&other)),
                "{table} has {row}, which was never written"
            );
        }
        let told = told.tables.iter().find(|of| of.name == table).unwrap();
        assert_eq!(told.kept, found.len() as u64, "{table}");
        if table != "label" {
            assert_eq!(
                told.lost.unwrap_or_default() + told.kept,
                original[table].len() as u64,
                "{table}"
            );
        }
    }
    let info = Recording::open(saved).unwrap().info().unwrap();
    assert!(info.finished && info.meta["salvaged_from"] == "damaged.db");
}

#[test]
fn of_a_truncated_recording_everything_before_the_cut_is_saved() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    finished(&path("whole.db"), arm(900));
    let whole = fs::read(path("whole.db")).unwrap();
    let original = rows(&path("whole.db"));
    for (share, at_least) in [(0.25, 100), (0.5, 300), (0.9, 700), (0.999, 850)] {
        let cut = (whole.len() as f64 * share) as usize;
        fs::write(path("damaged.db"), &whole[..cut]).unwrap();
        assert!(matches!(
            Recording::open(&path("damaged.db")).unwrap_err(),
            Error::Truncated { .. }
        ));
        let saved = path(&format!("saved-{share}.db"));
        let told = salvage(&path("damaged.db"), &saved).unwrap();
        assert_saved(&original, &saved, &told);
        let kept = told
            .tables
            .iter()
            .find(|of| of.name == "tick")
            .unwrap()
            .kept;
        let lost: u64 = told.tables.iter().filter_map(|table| table.lost).sum();
        assert!(
            kept >= at_least && lost > 0,
            "{share}: {kept} ticks kept, {lost} rows lost"
        );
        assert_eq!(
            fs::read(path("damaged.db")).unwrap().len(),
            cut,
            "the damaged one is left as it was"
        );
    }
    let names = fs::read_dir(folder.path()).unwrap();
    assert_eq!(names.count(), 6, "something was left behind");
}

#[test]
fn around_damaged_pages_everything_else_is_saved() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    finished(&path("whole.db"), arm(300));
    let whole = fs::read(path("whole.db")).unwrap();
    let original = rows(&path("whole.db"));
    let mut random = Random::new(5);
    for round in 0..12 {
        let mut damaged = whole.clone();
        let pages = whole.len() / 4096;
        let mut holes = 0;
        while holes <= round / 2 {
            // Not among the first: without them nothing tells what the rest is.
            let page = 40 + random.next() as usize % (pages - 40);
            damaged[page * 4096..(page + 1) * 4096].fill(0);
            holes += 1;
        }
        fs::write(path("damaged.db"), damaged).unwrap();
        let saved = path(&format!("saved-{round}.db"));
        let told = salvage(&path("damaged.db"), &saved).unwrap();
        assert_saved(&original, &saved, &told);
        let lost: u64 = told.tables.iter().filter_map(|table| table.lost).sum();
        let all: u64 = original.values().map(|rows| rows.len() as u64).sum();
        assert!(lost > 0 && lost < all / 2, "{lost} of {all}");
    }
}

#[test]
fn of_a_whole_recording_nothing_is_lost() {
    let folder = crate::made_up::folder();
    let (path, saved) = (
        folder.path().join("damaged.db"),
        folder.path().join("saved.db"),
    );
    finished(&path, arm(60));
    let told = salvage(&path, &saved).unwrap();
    assert!(
        told.tables
            .iter()
            .all(|table| table.lost.is_none_or(|lost| lost == 0)),
        "{told:?}"
    );
    assert_saved(&rows(&path), &saved, &told);
    assert!(rows(&path) == rows(&saved));
}

#[test]
fn what_is_no_recording_is_not_salvaged() {
    let folder = crate::made_up::folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "x".repeat(9000)).unwrap();
    fs::write(path("empty"), "").unwrap();
    finished(&path("whole.db"), arm(5));
    let whole = fs::read(path("whole.db")).unwrap();
    fs::write(path("hardly"), &whole[..4096]).unwrap();
    fs::write(path("shorter"), &whole[..50]).unwrap();
    let words = |name: &str| {
        salvage(&path(name), &path("saved.db"))
            .unwrap_err()
            .to_string()
    };
    assert!(
        words("text").contains("not a recording"),
        "{}",
        words("text")
    );
    assert!(
        words("empty").contains("nothing was recorded"),
        "{}",
        words("empty")
    );
    for name in ["hardly", "shorter"] {
        assert!(
            words(name).contains("nothing can be saved: the beginning of the file is missing"),
            "{}",
            words(name)
        );
        assert!(!words(name).contains("--salvage"), "it is running already");
    }
    assert!(
        words("absent").contains("no such file"),
        "{}",
        words("absent")
    );
    assert!(!path("saved.db").exists() && !path("saved.db.part").exists());
}
