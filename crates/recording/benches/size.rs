//! Size, write times and memory of a recording of twelve hours with a tick per second. Fails if it exceeds the budget of
//! size.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "a measurement may read the clock and panic"
)]

#[path = "../examples/twelve_hours/random.rs"]
mod random;
#[path = "../examples/twelve_hours/series.rs"]
mod series;
#[path = "../examples/twelve_hours/synthetic_run.rs"]
mod synthetic_run;

use faultline_recording::{Recording, Writer, backup};
use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};
use synthetic_run::{Arm, SyntheticRun};

/// For twelve hours, in bytes.
const BUDGET: u64 = 100 << 20;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("run.db");
    let seconds: u64 = std::env::var("FAULTLINE_BENCH_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(43_200);
    let before = resident();
    write(&path, seconds);
    println!(
        "resident memory: {} KiB before, {} KiB after writing",
        before,
        resident()
    );
    let bytes = fs::metadata(&path).expect("the recording").len();
    by_table(&path);
    println!(
        "{:>10.1} MiB in all, budget {} MiB for 43,200 ticks",
        mib(bytes),
        BUDGET >> 20
    );
    read(&path, folder.path());
    let fits = bytes * 43_200 <= BUDGET * seconds.max(1);
    if fits {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn write(path: &Path, seconds: u64) {
    let mut run = SyntheticRun::new(Arm {
        seconds,
        ..Arm::default()
    });
    let mut writer = Writer::create(path, &run.header()).expect("a new recording");
    let (mut rows, mut writes, mut checkpoints) = (0, Vec::new(), Vec::new());
    let mut log = 0;
    while let Some(second) = run.next() {
        let began = Instant::now();
        if let Some(process) = &second.process {
            writer.begin_process(process).expect("a process");
        }
        second
            .events
            .iter()
            .try_for_each(|event| writer.event(event))
            .expect("events");
        second
            .tick
            .iter()
            .try_for_each(|tick| writer.tick(tick))
            .expect("a tick");
        second
            .points
            .iter()
            .try_for_each(|point| writer.point(point))
            .expect("points");
        rows += writer.commit().expect("a commit");
        writes.push(began.elapsed());
        if writes.len() % 60 == 0 {
            let began = Instant::now();
            log = log.max(fs::metadata(path.with_extension("db-wal")).map_or(0, |meta| meta.len()));
            writer.checkpoint().expect("a checkpoint");
            checkpoints.push(began.elapsed());
        }
    }
    let began = Instant::now();
    writer.finish(run.ended()).expect("the end");
    println!(
        "{rows} rows; finish took {:?}; longest log {:.1} MiB",
        began.elapsed(),
        mib(log)
    );
    percentiles("a second's transaction", writes);
    percentiles("a checkpoint", checkpoints);
}

fn percentiles(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| {
        times
            .get(((times.len() as f64 - 1.0) * share) as usize)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{what}: p50 {:?}, p99 {:?}, most {:?}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn by_table(path: &Path) {
    let conn = rusqlite::Connection::open(path).expect("the recording");
    let sql =
        "SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 14";
    let mut statement = conn.prepare(sql).expect("dbstat");
    let mut rows = statement.query([]).expect("dbstat");
    while let Some(row) = rows.next().expect("a row") {
        let (name, bytes, unused): (String, u64, u64) =
            (row.get(0).expect("name"), size(row, 1), size(row, 2));
        println!(
            "{:>10.1} MiB {name}, {} % unused",
            mib(bytes),
            unused * 100 / bytes.max(1)
        );
    }
}

fn size(row: &rusqlite::Row<'_>, place: usize) -> u64 {
    row.get::<_, i64>(place).map_or(0, |bytes| bytes as u64)
}

fn read(path: &Path, folder: &Path) {
    let took = |what: &str, work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        println!("{what}: {:?}", began.elapsed());
    };
    let recording = Recording::open(path).expect("the recording");
    took("reading every column", &mut || {
        for table in faultline_recording::PerTickTable::ALL {
            let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
            recording.columns(table, &names).expect("columns");
        }
    });
    took("reading ticks, pools and points", &mut || {
        recording.ticks().expect("ticks");
        recording.pools().expect("pools");
        recording.program_cache_points().expect("points");
        recording.replay_slot_points().expect("points");
        recording.set_root_points().expect("points");
        recording.cost_tracker_points().expect("points");
    });
    took("info", &mut || drop(recording.info().expect("info")));
    took("a copy", &mut || {
        backup(path, &folder.join("copy.db"), &[], |_, _| ()).expect("a copy")
    });
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or("0");
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap_or(0)
}
