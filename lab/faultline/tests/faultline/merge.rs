//! A run that a restart has cut in two is one after `faultline merge`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::made::{Plain, faultline, said};
use faultline_recording::{EventKind, PerTickTable, Recording};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn part(&self, name: &str, began: u64, plain: Plain) -> PathBuf {
        let path = self.path(name);
        Plain { began, ..plain }.write(&path);
        path
    }
}

fn merge(from: &[&Path], to: &Path) -> Output {
    faultline(
        ["merge".as_ref()]
            .into_iter()
            .chain(from.iter().copied())
            .chain(["--out".as_ref(), to]),
    )
}

fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    assert!(said(output).contains(why), "{}", said(output));
}

#[test]
fn a_run_cut_in_two_is_one_after_merging() {
    let scene = Scene::new();
    let labels = vec![("arm", "512G")];
    let first = scene.part(
        "1.fltl",
        1_800_000_000,
        Plain {
            labels: labels.clone(),
            finished: false,
            ..Plain::default()
        },
    );
    let second = scene.part(
        "2.fltl",
        1_800_000_060,
        Plain {
            labels,
            ..Plain::default()
        },
    );
    let whole = scene.path("run.fltl");
    // The order of the files does not matter.
    let output = merge(&[&second, &first], &whole);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("2 sessions with 20 samples; gaps between the recordings: 50 s"),
        "{}",
        said(&output)
    );

    let recording = Recording::open(&whole).unwrap();
    assert_eq!(recording.labels(), [("arm".to_owned(), "512G".to_owned())]);
    let ticks = recording.ticks().unwrap();
    let times: Vec<i64> = ticks
        .iter()
        .map(|tick| tick.unix_ns / 1_000_000_000 - 1_800_000_000)
        .collect();
    assert_eq!(times, (1..=10).chain(61..=70).collect::<Vec<i64>>());
    assert!(ticks.windows(2).all(|pair| pair[0].id < pair[1].id));
    let values = recording
        .columns(PerTickTable::Process, &["virtual_bytes"])
        .unwrap();
    assert_eq!(
        values.ticks,
        ticks.iter().map(|tick| tick.id).collect::<Vec<_>>()
    );
    assert_eq!(values.values[0][10], Some(1000.0));
    assert_eq!(recording.processes().unwrap().len(), 2);
    let gaps = recording
        .events()
        .unwrap()
        .into_iter()
        .filter(|event| event.kind == EventKind::Gap)
        .count();
    assert_eq!(gaps, 1);
    assert!(recording.info().unwrap().finished);
}

#[test]
fn parts_of_different_runs_are_not_merged() {
    let scene = Scene::new();
    let first = scene.part(
        "1.fltl",
        1_800_000_000,
        Plain {
            labels: vec![("arm", "512G")],
            ..Plain::default()
        },
    );
    let second = scene.part(
        "2.fltl",
        1_800_000_060,
        Plain {
            labels: vec![("arm", "1T")],
            ..Plain::default()
        },
    );
    refused(&merge(&[&first, &second], &scene.path("run.fltl")), "arm=");
    assert!(!scene.path("run.fltl").exists());
}

#[test]
fn overlapping_or_duplicate_parts_are_not_merged() {
    let scene = Scene::new();
    let first = scene.part("1.fltl", 1_800_000_000, Plain::default());
    let second = scene.part("2.fltl", 1_800_000_005, Plain::default());
    refused(
        &merge(&[&first, &second], &scene.path("run.fltl")),
        "cannot be merged",
    );
    refused(&merge(&[&first, &first], &scene.path("run.fltl")), "1.fltl");
    let copy = scene.path("copy.fltl");
    fs::copy(&first, &copy).unwrap();
    refused(
        &merge(&[&first, &copy], &scene.path("run.fltl")),
        "cannot be merged",
    );
    assert!(!scene.path("run.fltl").exists());
}

#[test]
fn merge_overwrites_nothing_and_requires_two_parts() {
    let scene = Scene::new();
    let first = scene.part("1.fltl", 1_800_000_000, Plain::default());
    let second = scene.part("2.fltl", 1_800_000_060, Plain::default());
    let whole = scene.path("run.fltl");
    fs::write(&whole, "mine").unwrap();
    refused(
        &merge(&[&first, &second], &whole),
        "run.fltl: exists already",
    );
    refused(&merge(&[&first, &second], &first), "1.fltl: exists already");
    assert_eq!(fs::read_to_string(&whole).unwrap(), "mine");
    assert_eq!(
        merge(&[&first], &scene.path("x.fltl")).status.code(),
        Some(64)
    );
    refused(
        &merge(
            &[&first, &scene.path("nowhere.fltl")],
            &scene.path("x.fltl"),
        ),
        "nowhere.fltl: no such file",
    );
}
