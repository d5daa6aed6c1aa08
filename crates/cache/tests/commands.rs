//! Whole commands on what two real followers reported under a known load: `crates/cachesim/tests/fixtures`.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect, in its helpers too")]

use clap::Parser;
use faultline_cache::args::CacheArgs;
use faultline_catalog::{Batch, Reading, Source, Stamp, Tick, metrics::validator};
use faultline_recording::{NewProcess, NewSession, Opening, Point, ProgramCachePoint, ReplaySlotPoint, Writer};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: CacheArgs,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cachesim/tests/fixtures").join(name)
}

/// The number of a field in a line of the line protocol.
fn field(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!("{name}="))?;
    rest.split('i').next()?.parse().ok()
}

fn points(name: &str) -> Vec<Point> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let of = |line: &str| {
        let slot = field(line, "slot");
        if line.starts_with("loaded-programs-cache-stats") {
            return Point::ProgramCache(ProgramCachePoint {
                slot,
                misses: field(line, "misses"),
                evictions: field(line, "evictions"),
                reloads: field(line, "reloads"),
                insertions: field(line, "insertions"),
                ..ProgramCachePoint::default()
            });
        }
        Point::ReplaySlot(ReplaySlotPoint {
            slot,
            total_transactions: field(line, "total_transactions"),
            program_cache_us: field(line, "program_cache_us"),
            load_us: Some(1_000),
            execute_us: Some(2_000),
            store_us: Some(1_000),
            register_syscalls_us: field(line, "register_syscalls_us"),
            load_elf_us: field(line, "load_elf_us"),
            verify_code_us: field(line, "verify_code_us"),
            jit_compile_us: field(line, "jit_compile_us"),
            ..ReplaySlotPoint::default()
        })
    };
    text.lines().map(of).collect()
}

/// A recording of these points, from the validator's start.
fn record(path: &Path, version: &str, entries: &str, points: &[Point]) {
    let at = Stamp { uptime: Duration::ZERO, unix: Duration::from_secs(1_800_000_000) };
    let session =
        NewSession { started: at, interval: Duration::from_secs(1), version: "0.1.0".to_owned(), manifest: json!({}) };
    let mut writer = Writer::create(path, &Opening { labels: Vec::new(), session }).unwrap();
    let manifest = json!({"validator": {"version": version},
        "environment": {"values": {"AGAVE_PROGRAM_CACHE_ENTRIES": entries}}});
    writer.process(&NewProcess { pid: 4711, started_unix: None, seen: at, manifest }).unwrap();
    let readings = vec![Reading::whole(&validator::PHASE, ["replaying".into()], 1)];
    let batch = Arc::new(Batch { readings, up: true, ..Batch::empty(Source::Conclusions, at) });
    writer.tick(&Tick { number: 1, at, batches: vec![batch] }).unwrap();
    points.iter().for_each(|point| writer.point(point).unwrap());
    writer.finish(at).unwrap();
}

/// `512.fltl` with its trace, and `1024.fltl`, which replayed the same slots.
fn runs() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [small, large] = ["512.fltl", "1024.fltl"].map(|name| folder.path().join(name));
    record(&small, "2.1.14 (src:3544e5d8; feat:1725507508)", "512", &points("512.lp"));
    record(&large, "2.1.14", "1024", &points("1024.lp"));
    fs::copy(fixture("load.trace"), folder.path().join("512.trace")).unwrap();
    (folder, small, large)
}

fn run(words: &[&str], files: &[&Path]) -> anyhow::Result<(String, u8)> {
    let words = std::iter::once("cache").chain(words.iter().copied()).map(Into::into);
    let words = words.chain(files.iter().map(|file| file.as_os_str().to_owned()));
    faultline_cache::run(&Command::try_parse_from(words).unwrap().args)
}

fn refused(words: &[&str], files: &[&Path]) -> String {
    format!("{:#}", run(words, files).unwrap_err())
}

#[test]
fn one_run_predicts_every_size_after_its_own() {
    let (_folder, small, _) = runs();
    let (said, code) = run(&["predict"], &[&small]).unwrap();
    println!("{said}");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("misses      3,598"), "{said}");
    assert!(said.contains("512 (recorded)") && said.contains("From 768 entries on"), "{said}");
    let (line, code) = run(&["predict", "--json", "--sizes", "256,1024"], &[&small]).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((code, &said["version"], &said["self_test_passed"]), (0, &json!("2.1.14"), &json!(true)));
    let entries: Vec<u64> = said["sizes"].as_array().unwrap().iter().map(|s| s["entries"].as_u64().unwrap()).collect();
    assert_eq!(entries, [256, 512, 1024]);
    let misses = &said["sizes"][1]["misses"];
    assert!(misses["low"].as_f64().unwrap() < 3598.0 && misses["high"].as_f64().unwrap() > 3598.0, "{misses}");
    let (csv, _) = run(&["predict", "--csv", "--sizes", "256"], &[&small]).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("entries,misses,misses_low"), "{csv}");
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
}

#[test]
fn under_the_rule_of_another_version_nothing_is_extrapolated_and_the_reason_is_named() {
    let (_folder, small, _) = runs();
    let (said, code) = run(&["predict", "--version", "2.0.5", "--entries", "256"], &[&small]).unwrap();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no other size is predicted") && !said.contains("Mean of"), "{said}");
    assert!(said.contains("the rule is that of 2.0.5, and the validator reported 2.1.14"), "{said}");
    let (said, code) = run(&["policies", "--version", "2.0.5", "--entries", "256"], &[&small]).unwrap();
    assert!(code == 1 && said.contains("is not predicted within 10 %"), "{said}");
    assert!(refused(&["predict", "--version", "9.9.9"], &[&small]).contains("\"9.9.9\""));
    assert!(refused(&["predict", "--version", "a fork"], &[&small]).contains("\"a fork\""));
}

#[test]
fn another_run_of_the_same_slots_is_checked_counter_by_counter() {
    let (folder, small, large) = runs();
    let (said, code) = run(&["check"], &[&small, &small]).unwrap();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("512 entries, 133 slots of both runs") && said.contains("inside"), "{said}");
    // The other follower replayed later blocks of the same load, with all programs in its cache.
    let (said, _) = run(&["check"], &[&small, &large]).unwrap();
    println!("{said}");
    assert!(
        said.contains("1024.fltl: 1,024 entries") && said.contains("scaled by the number of transactions"),
        "{said}"
    );
    let other = folder.path().join("other.fltl");
    record(&other, "4.1.0", "512", &points("512.lp"));
    assert!(refused(&["check"], &[&small, &other]).contains("of version 4.1.0, and predictions are for 2.1.14"));
}

#[test]
fn no_policy_beats_min_and_the_attack_is_told_apart() {
    let (_folder, small, _) = runs();
    let (said, _) = run(&["policies"], &[&small]).unwrap();
    println!("{said}");
    assert!(said.starts_with("Misses with 512 entries"), "{said}");
    let (line, code) = run(&["policies", "--json", "--attack", "20"], &[&small]).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let rows = said["policies"].as_array().unwrap();
    assert_eq!((code, rows.len(), &said["attack"]), (0, 10, &json!(20)));
    let of = |row: &Value, what: &str| row[what].as_f64().unwrap();
    let min = rows.iter().find(|row| row["policy"] == "min").unwrap();
    for row in rows {
        for what in ["misses_fill_90", "misses_fill_100", "attacked_misses_fill_90", "attacked_misses_fill_100"] {
            assert!(of(row, what) >= of(min, what), "{what}: {row}");
        }
        assert!(of(row, "attacked_misses_fill_90") >= of(row, "misses_fill_90") * 0.99, "{row}");
    }
}

#[test]
fn what_is_missing_damaged_or_too_little_is_named_with_what_to_do() {
    let (folder, small, large) = runs();
    let said = refused(&["predict"], &[&large]);
    assert!(said.contains("1024.trace is missing") && said.contains("faultline cache fetch"), "{said}");
    let trace = folder.path().join("512.trace");
    let whole = fs::read(&trace).unwrap();
    for (bytes, what) in [
        (b"garbage, and more of it".to_vec(), "damaged at byte 0: it is no trace file"),
        (whole[..whole.len() - 3].to_vec(), "it ends within a record"),
        (Vec::new(), "damaged at byte 0"),
    ] {
        fs::write(&trace, bytes).unwrap();
        let said = refused(&["predict"], &[&small]);
        assert!(said.contains("512.trace") && said.contains(what), "{said}");
    }
    fs::write(&trace, &whole).unwrap();
    // Another 5 % of transactions in slots that the trace does not have.
    let mut points = points("512.lp");
    let replay = ReplaySlotPoint { slot: Some(9_999), total_transactions: Some(1_000), ..ReplaySlotPoint::default() };
    points.push(Point::ReplaySlot(replay));
    fs::remove_file(&small).unwrap();
    record(&small, "2.1.14", "512", &points);
    let said = refused(&["predict"], &[&small]);
    assert!(said.contains("below 98 % nothing is predicted") && said.contains("9999"), "{said}");
}
