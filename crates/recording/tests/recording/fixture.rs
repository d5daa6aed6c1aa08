//! A recording that an earlier version wrote stays readable. `format-1.db` is never regenerated: a reader that cannot read it
//! cannot read existing recordings. The numbers here were read from it with Python's sqlite3.

use crate::made_up::{arm, at, synthetic_run::SyntheticRun};
use faultline_recording::{Cell, Error, EventKind, PerTickTable, Recording, Row, Writer};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1.db")
}

/// Tick, device, bytes read, bytes written.
pub fn devices(recording: &Recording) -> Vec<Row> {
    let mut all = Vec::new();
    let add = |rows: &[Row]| {
        all.extend_from_slice(rows);
        Ok::<(), Error>(())
    };
    recording.rows("device_sample", 100, add).unwrap();
    all
}

#[test]
fn a_recording_of_format_1_is_read_as_it_was_written() {
    let recording = Recording::open(&fixture()).unwrap();
    let labels: Vec<_> = recording
        .labels()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(labels, [("arm", "512"), ("run", "1")]);
    let info = recording.info().unwrap();
    assert!(info.finished && info.format == 1);
    assert_eq!(
        info.processes
            .iter()
            .map(|process| process.pid)
            .collect::<Vec<_>>(),
        [4242, 4711]
    );
    assert_eq!(info.processes[0].manifest["version"], "2.1.14");
    assert_eq!(info.sessions[0].interval.as_secs(), 1);

    let ticks = recording.ticks().unwrap();
    assert_eq!(
        (ticks.len(), ticks[0].unix_ns, ticks[11].uptime_ns),
        (12, 1_789_970_400_000_120_000, 11_000_207_109)
    );
    let phases: Vec<_> = ticks
        .iter()
        .take(4)
        .map(|tick| tick.phase.as_deref().unwrap())
        .collect();
    assert_eq!(phases, ["initializing", "catching_up", "at_tip", "at_tip"]);
    assert_eq!(
        ticks.iter().filter(|tick| tick.process == Some(2)).count(),
        5
    );
}

#[test]
fn samples_of_the_fixture_are_read_unchanged() {
    let recording = Recording::open(&fixture()).unwrap();
    let names = ["resident_anon_bytes", "major_faults", "cpu_user_seconds"];
    let columns = recording.columns(PerTickTable::Process, &names).unwrap();
    let of = |row: usize| {
        columns
            .values
            .iter()
            .map(|values| values[row].unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(0), [29_004_812_288.0, 120_005.0, 40_001.47]);
    assert_eq!(of(11), [12_449_853_440.0, 125.0, 200.39]);

    let pools = recording.pools().unwrap();
    assert_eq!(
        (
            pools.len(),
            pools
                .iter()
                .map(|row| row.major_faults.unwrap())
                .sum::<u64>()
        ),
        (164, 163)
    );
    let read: i64 = devices(&recording)
        .iter()
        .map(|row| match row[2] {
            Cell::Integer(bytes) => bytes,
            ref other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(read, 5_939_974_144 + 1_979_981_824);
    let series = recording.series().unwrap();
    assert_eq!(
        (series.len(), series.last().unwrap().value),
        (36, Some(4000.0))
    );
    assert!(series.last().unwrap().labels.contains(r#""id":"4""#));
}

#[test]
fn problems_and_events_of_the_fixture_are_read_unchanged() {
    let recording = Recording::open(&fixture()).unwrap();
    let problem = &recording.problems().unwrap()[0];
    assert_eq!(
        (
            problem.tick,
            problem.source.as_str(),
            problem.status.as_deref()
        ),
        (1, "admin_rpc", Some("forbidden"))
    );
    let kinds: Vec<_> = recording
        .events()
        .unwrap()
        .into_iter()
        .map(|event| event.kind)
        .collect();
    use EventKind::{AtTip, DaemonStart, OomKill, Phase, Restart, Start};
    assert_eq!(
        kinds,
        [
            DaemonStart,
            Start,
            Phase,
            Phase,
            Phase,
            AtTip,
            OomKill,
            Start,
            Restart
        ]
    );
}

#[test]
fn points_of_the_fixture_are_read_unchanged() {
    let recording = Recording::open(&fixture()).unwrap();
    let cache = recording.program_cache_points().unwrap();
    assert_eq!(
        (
            cache.len(),
            cache.iter().map(|point| point.misses.unwrap()).sum::<u64>()
        ),
        (30, 49)
    );
    assert_eq!(
        (cache[0].slot, cache[0].prunes_stale),
        (Some(311_999_999), None)
    );
    assert_eq!(cache[29].time_unix_ns, 1_789_970_410_539_185_914);
    let replay = recording.replay_slot_points().unwrap();
    assert_eq!(
        replay
            .iter()
            .map(|point| point.program_cache_us.unwrap())
            .sum::<u64>(),
        203_126
    );
    assert_eq!(
        replay
            .iter()
            .map(|point| point.replay_total_elapsed_us.unwrap())
            .sum::<u64>(),
        10_190_388
    );
    let roots = recording.set_root_points().unwrap();
    assert_eq!(
        roots
            .iter()
            .map(|point| point.tx_count.unwrap())
            .sum::<u64>(),
        46_109
    );
    let costs = recording.cost_tracker_points().unwrap();
    assert_eq!(
        costs
            .iter()
            .map(|point| point.block_cost.unwrap())
            .sum::<u64>(),
        735_777_330
    );
    assert!(costs.iter().all(|point| point.is_leader == Some(false)));
}

/// A copy of the fixture without columns and tables, as from an older version.
fn older_fixture(folder: &Path) -> PathBuf {
    let path = folder.join("older.db");
    fs::copy(fixture(), &path).unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(
        "ALTER TABLE process_sample DROP COLUMN swap_bytes;
         ALTER TABLE replay_slot_point DROP COLUMN load_us;
         ALTER TABLE pool_sample DROP COLUMN block_io_delay_seconds;
         DROP TABLE device_sample; DROP TABLE device; DROP TABLE set_root_point",
    )
    .unwrap();
    path
}

#[test]
fn columns_missing_in_an_older_recording_are_absent() {
    let folder = crate::made_up::folder();
    let recording = Recording::open(&older_fixture(folder.path())).unwrap();
    let columns = recording
        .columns(PerTickTable::Process, &["swap_bytes", "major_faults"])
        .unwrap();
    assert_eq!(
        (columns.values[0].clone(), columns.values[1][11]),
        (vec![None; 12], Some(125.0))
    );
    let replay = recording.replay_slot_points().unwrap();
    assert!(
        replay
            .iter()
            .all(|point| point.load_us.is_none() && point.execute_us.is_some())
    );
    let pools = recording.pools().unwrap();
    assert!(pools.iter().all(|pool| pool.block_io_delay.is_none()));
    assert!(pools.iter().any(|pool| pool.run_queue.is_some()));
    assert_eq!(
        (
            devices(&recording).len(),
            recording.set_root_points().unwrap().len()
        ),
        (0, 0)
    );
    let empty = recording
        .tables()
        .unwrap()
        .into_iter()
        .filter(|table| table.rows == 0)
        .map(|table| table.name);
    assert_eq!(
        empty.collect::<Vec<_>>(),
        [
            "device",
            "device_sample",
            "set_root_point",
            "cache_times_point"
        ]
    );
    let mut rows = 0;
    let mut count = |found: &[Vec<Cell>]| {
        assert!(found.iter().all(|row| row[5] == Cell::Null));
        rows += found.len();
        Ok::<(), Error>(())
    };
    recording.rows("process_sample", 100, &mut count).unwrap();
    recording.rows("device_sample", 100, &mut count).unwrap();
    assert_eq!(rows, 12);
}

#[test]
fn progress_without_a_column_of_slots_or_transactions_is_read() {
    let folder = crate::made_up::folder();
    let path = older_fixture(folder.path());
    let full = Recording::open(&path).unwrap().progress().unwrap();
    assert!(full.first_transaction_unix_ns.is_some());
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(
        "ALTER TABLE cost_tracker_point DROP COLUMN bank_slot;
         ALTER TABLE cost_tracker_point DROP COLUMN transaction_count;
         ALTER TABLE replay_slot_point DROP COLUMN replay_total_elapsed_us",
    )
    .unwrap();
    let recording = Recording::open(&path).unwrap();
    let progress = recording.progress().unwrap();
    assert_eq!(progress.newest_slot, full.newest_slot);
    assert_eq!(progress.first_transaction_unix_ns, None);
    let status = recording.live_status(0).unwrap();
    assert!(status.replays.is_empty() && status.last_point_rowid > 0);
}

#[test]
fn live_status_reads_a_replaced_recording_from_its_first_point() {
    let recording = Recording::open(&fixture()).unwrap();
    let first = recording.live_status(0).unwrap();
    assert!(!first.replays.is_empty());
    let after = |rowid| recording.live_status(rowid).unwrap();
    assert!(after(first.last_point_rowid).replays.is_empty());
    assert_eq!(after(first.last_point_rowid + 1), first);
}

#[test]
fn a_newer_daemon_continues_an_older_recording() {
    let folder = crate::made_up::folder();
    let path = older_fixture(folder.path());
    let mut arm = arm(10);
    arm.labels.push(("run".into(), "1".into()));
    let mut synthetic = SyntheticRun::new(arm);
    let mut writer = Writer::append(&path, &synthetic.header()).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    writer.finish(at(99)).unwrap();
    let recording = Recording::open(&path).unwrap();
    let swap = recording
        .columns(PerTickTable::Process, &["swap_bytes"])
        .unwrap()
        .values
        .remove(0);
    assert_eq!(swap.iter().filter(|value| value.is_some()).count(), 10);
    assert!(!devices(&recording).is_empty() && !recording.set_root_points().unwrap().is_empty());
}
