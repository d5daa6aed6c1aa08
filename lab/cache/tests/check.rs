//! `cache check` of a run that had other blocks, on another machine.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use clap::Parser;
use common::{points, record, runs};
use faultline_cache::args::CacheArgs;
use faultline_recording::{Point, ProgramCachePoint, ReplaySlotPoint};
use serde_json::{Value, json};
use std::{ffi::OsStr, path::Path};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: CacheArgs,
}

/// What it says, and the exit code.
fn check(run: &Path, other: &Path) -> (Value, u8) {
    let words = ["cache", "check", "--json"]
        .map(OsStr::new)
        .into_iter()
        .chain([run, other].map(AsRef::as_ref));
    let (output, code) =
        faultline_cache::run(&Command::try_parse_from(words).unwrap().args).unwrap();
    (serde_json::from_str(&output).unwrap(), code)
}

fn page(run: &Path, other: &Path) -> String {
    let words = ["cache", "check"]
        .map(OsStr::new)
        .into_iter()
        .chain([run, other].map(AsRef::as_ref));
    faultline_cache::run(&Command::try_parse_from(words).unwrap().args)
        .unwrap()
        .0
}

#[test]
fn checks_use_a_slower_machines_own_costs_and_wider_cross_block_ranges() {
    let (folder, small, _) = runs();
    let other = folder.path().join("slower.fltl");

    record(&other, "2.1.14", "512", &slower_points());
    let (output, code) = check(&small, &other);
    println!("{output:#}");

    // The four counts and the time are judged, and its own costs are not.
    let counters = output[0]["counters"].as_array().unwrap().iter();
    let judged = counters.filter(|counter| counter["name"] != "at its own costs, ms");
    let inside = judged.filter(|counter| counter["inside"] == true).count();
    let page = page(&small, &other);
    assert!(
        page.contains(&format!("{inside} of 5 values are inside")),
        "{page}"
    );
    let [time, own] = ["cache time, ms", "at its own costs, ms"].map(|name| counter(&output, name));
    assert_eq!(
        (code, &time["within"], &own["within"]),
        (1, &json!(false), &json!(true))
    );
    assert!(own["off_percent"].as_f64().unwrap().abs() < 3.0, "{own}");
    let us = &output[0]["us_of_a_load"];
    assert!(
        (us[1].as_f64().unwrap() / us[0].as_f64().unwrap() - 1.5).abs() < 0.02,
        "{us}"
    );
    assert!(
        (output[0]["times"].as_f64().unwrap() - 1.0).abs() < 0.05,
        "{output}"
    );
    // Over the same slots the interval has only the draws.
    let (drawn, _) = check(&small, &small);
    assert_eq!(
        (&output[0]["same_slots"], &drawn[0]["same_slots"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(drawn[0]["times"], Value::Null);
    let width = |output: &Value, name: &str| {
        let range = &counter(output, name)["predicted"];
        range["high"].as_f64().unwrap() - range["low"].as_f64().unwrap()
    };
    assert!(
        width(&output, "misses") > 1.5 * width(&drawn, "misses"),
        "{output} {drawn}"
    );
    // All programs are in both, and votes are no reason to expect more of them.
    assert!(
        width(&output, "insertions") < 10.0 && counter(&output, "insertions")["inside"] == true,
        "{output}"
    );
}

fn counter(output: &Value, name: &str) -> Value {
    output[0]["counters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|counter| counter["name"] == name)
        .unwrap()
        .clone()
}

/// Another cluster, and loads that take half as long again.
fn slower_points() -> Vec<Point> {
    let mut points = points("512.lp");
    for point in &mut points {
        match point {
            Point::ReplaySlot(point) => {
                point.slot = point.slot.map(|slot| slot + 10_000);
                let parts = [
                    &mut point.verify_code_us,
                    &mut point.jit_compile_us,
                    &mut point.load_elf_us,
                ];
                for us in parts
                    .into_iter()
                    .chain([&mut point.program_cache_us, &mut point.register_syscalls_us])
                {
                    *us = us.map(|us| us * 3 / 2);
                }
            }
            Point::ProgramCache(point) => point.slot = point.slot.map(|slot| slot + 10_000),
            other => unreachable!("{other:?}"),
        }
    }
    // Before the load, slots with a vote.
    for number in 9_800..9_900 {
        let zero = Some(0);
        let mut cache = ProgramCachePoint {
            slot: Some(number),
            misses: zero,
            ..ProgramCachePoint::default()
        };
        (cache.evictions, cache.reloads, cache.insertions) = (zero, zero, zero);
        let mut replay = ReplaySlotPoint {
            slot: Some(number),
            total_transactions: Some(1),
            ..ReplaySlotPoint::default()
        };
        (
            replay.program_cache_us,
            replay.jit_compile_us,
            replay.verify_code_us,
        ) = (Some(10), zero, zero);
        (replay.load_elf_us, replay.register_syscalls_us) = (zero, zero);
        points.extend([Point::ProgramCache(cache), Point::ReplaySlot(replay)]);
    }
    points
}
