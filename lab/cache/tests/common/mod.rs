//! Recordings of what two real followers reported under a known load: `lab/cache-sim/tests/fixtures`.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

use faultline_metrics::{Batch, Reading, Source, Stamp, Tick, metrics::validator};
use faultline_recording::{
    NewProcess, NewRecording, NewSession, Point, ProgramCachePoint, ReplaySlotPoint, Writer,
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The cluster of all recordings.
pub const GENESIS: &str = "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY";

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cache-sim/tests/fixtures")
        .join(name)
}

/// The number of a field in a line of the line protocol.
fn field(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!("{name}="))?;
    rest.split('i').next()?.parse().ok()
}

/// All of a follower.
pub fn points(name: &str) -> Vec<Point> {
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

/// The slot of a point.
pub fn slot(point: &Point) -> u64 {
    match point {
        Point::ProgramCache(point) => point.slot.unwrap(),
        Point::ReplaySlot(point) => point.slot.unwrap(),
        other => unreachable!("{other:?}"),
    }
}

/// A recording of these points, from the validator's start.
pub fn record(path: &Path, version: &str, entries: &str, points: &[Point]) {
    record_from("replaying", path, (version, entries), points);
}

/// A recording that begins in this phase.
pub fn record_from(
    phase: &'static str,
    path: &Path,
    (version, entries): (&str, &str),
    points: &[Point],
) {
    record_at(1_800_000_000, phase, path, (version, entries), points);
}

/// A recording that begins at this time, in seconds since 1970.
pub fn record_at(
    begun: u64,
    phase: &'static str,
    path: &Path,
    (version, entries): (&str, &str),
    points: &[Point],
) {
    let at = Stamp {
        uptime: Duration::ZERO,
        unix: Duration::from_secs(begun),
    };
    let session = NewSession {
        started: at,
        interval: Duration::from_secs(1),
        version: "0.1.0".to_owned(),
        manifest: json!({}),
    };
    let mut writer = Writer::create(
        path,
        &NewRecording {
            labels: Vec::new(),
            session,
        },
    )
    .unwrap();
    let manifest = json!({"validator": {"version": version}, "arguments": ["--expected-genesis-hash", GENESIS],
        "environment": {"values": {"AGAVE_PROGRAM_CACHE_ENTRIES": entries}}});
    writer
        .begin_process(&NewProcess {
            pid: 4711,
            started_unix: None,
            seen: at,
            manifest,
        })
        .unwrap();
    let readings = vec![Reading::integer(&validator::PHASE, [phase.into()], 1)];
    let batch = Arc::new(Batch {
        readings,
        up: true,
        ..Batch::empty(Source::Conclusions, at)
    });
    writer
        .tick(&Tick {
            number: 1,
            at,
            batches: vec![batch],
        })
        .unwrap();
    let first = points.iter().map(slot).min().unwrap_or(0);
    for point in points {
        let (mut point, after) = (point.clone(), (slot(point) - first) * 400);
        let time = (begun as i64 * 1_000 + after as i64) * 1_000_000;
        match &mut point {
            Point::ProgramCache(point) => point.time_unix_ns = time,
            Point::ReplaySlot(point) => point.time_unix_ns = time,
            other => unreachable!("{other:?}"),
        }
        writer.point(&point).unwrap();
    }
    writer.finish(at).unwrap();
}

/// `512.fltl` with its trace, and `1024.fltl`, which replayed the same slots.
pub fn runs() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [small, large] = ["512.fltl", "1024.fltl"].map(|name| folder.path().join(name));
    record(
        &small,
        "2.1.14 (src:3544e5d8; feat:1725507508)",
        "512",
        &points("512.lp"),
    );
    record(&large, "2.1.14", "1024", &points("1024.lp"));
    fs::copy(fixture("load.trace"), folder.path().join("512.trace")).unwrap();
    (folder, small, large)
}
