//! A synthetic run, and checks that a recording of its first seconds has the data of its ticks. The checks do not use the
//! code under test.

#[path = "../../examples/twelve_hours/random.rs"]
pub mod random;
#[path = "../../examples/twelve_hours/series.rs"]
pub mod series;
#[path = "../../examples/twelve_hours/synthetic_run.rs"]
pub mod synthetic_run;

use faultline_metrics::{Source, Stamp, Tick, metrics::exported};
use faultline_recording::{Error, PerTickTable, Point, Recording, Writer};
use std::collections::{BTreeMap, HashMap};
use synthetic_run::{Arm, Second, SyntheticRun};

/// A temporary folder, in memory if possible, because these tests wait only for the disk.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub fn arm(seconds: u64) -> Arm {
    Arm {
        seconds,
        labels: vec![("arm".into(), "512".into())],
        ..Arm::default()
    }
}

/// Writes one second without a commit.
pub fn write(writer: &mut Writer, second: &Second) -> Result<(), Error> {
    if let Some(process) = &second.process {
        writer.begin_process(process)?;
    }
    second
        .events
        .iter()
        .try_for_each(|event| writer.event(event))?;
    if let Some(tick) = &second.tick {
        writer.tick(tick)?;
    }
    second
        .points
        .iter()
        .try_for_each(|point| writer.point(point))
}

/// Writes and commits the rest of the run.
pub fn write_all(writer: &mut Writer, synthetic: &mut SyntheticRun) {
    while let Some(second) = synthetic.next() {
        write(writer, &second).unwrap();
        writer.commit().unwrap();
    }
}

/// A finished recording of the whole run.
pub fn finished(path: &std::path::Path, arm: Arm) {
    let mut synthetic = SyntheticRun::new(arm);
    let mut writer = Writer::create(path, &synthetic.header()).unwrap();
    write_all(&mut writer, &mut synthetic);
    writer.finish(synthetic.ended()).unwrap();
}

/// Fails unless the recording has exactly the first ticks of the run with all their data. Returns their number.
pub fn assert_is_a_beginning(recording: &Recording, arm: &Arm) -> usize {
    let (first, ticks) = assert_is_a_piece(recording, arm);
    assert!(ticks == 0 || first == 1, "the first tick is {first}");
    ticks
}

/// Fails unless the recording has exactly some consecutive ticks of the run with all their data. Returns the number of
/// the first tick and how many there are.
pub fn assert_is_a_piece(recording: &Recording, arm: &Arm) -> (u64, usize) {
    let ticks = recording.ticks().unwrap();
    let first = ticks.first().map_or(1, |tick| tick.number);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let skipped = first as usize - 1;
    let seconds: Vec<Second> = std::iter::from_fn(|| synthetic.next())
        .skip(skipped)
        .take(ticks.len())
        .collect();
    assert_eq!(seconds.len(), ticks.len(), "more ticks than the run has");
    for (row, second) in ticks.iter().zip(&seconds) {
        let tick = second.tick.as_ref().unwrap();
        assert_eq!(
            (row.number, row.unix_ns),
            (tick.number, tick.at.unix.as_nanos() as i64)
        );
        assert_eq!(row.uptime_ns, tick.at.uptime.as_nanos() as i64);
        assert_eq!(row.phase.as_deref(), phase(tick));
        assert_eq!(row.process, Some(1));
    }
    for table in PerTickTable::ALL {
        assert_columns(recording, table, first, &seconds);
    }
    assert_pools(recording, first, &seconds);
    assert_points(recording, &seconds);
    let events: Vec<_> = recording
        .events()
        .unwrap()
        .into_iter()
        .map(|event| (event.kind, event.unix))
        .collect();
    let expected: Vec<_> = seconds
        .iter()
        .flat_map(|s| &s.events)
        .map(|event| (event.kind.name().to_owned(), event.at.unix))
        .collect();
    assert_eq!(events, expected);
    (first, ticks.len())
}

fn phase(tick: &Tick) -> Option<&str> {
    let on = tick
        .readings()
        .find(|r| r.metric.name == "agave_phase" && r.value.number() == Some(1.0));
    on.map(|reading| reading.label_values[0].as_str())
}

/// Whether the source was sampled at this tick; otherwise its batch is an older one.
fn was_sampled(tick: &Tick, source: Source) -> bool {
    tick.batches
        .iter()
        .any(|batch| batch.source == source && batch.at == tick.at)
}

fn assert_columns(recording: &Recording, table: PerTickTable, first: u64, seconds: &[Second]) {
    let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
    let columns = recording.columns(table, &names).unwrap();
    let ids: Vec<i64> = (first as i64..).take(seconds.len()).collect();
    assert_eq!(columns.ticks, ids, "{}", table.name());
    let of_threads = [
        "block_io_delay_seconds",
        "voluntary_switches",
        "involuntary_switches",
    ];
    for (row, second) in seconds.iter().enumerate() {
        let tick = second.tick.as_ref().unwrap();
        let tick_values = values_by_series(tick);
        for (column, values) in table.columns().iter().zip(&columns.values) {
            let skipped = of_threads.contains(&column.name) && !was_sampled(tick, Source::Threads);
            let labels = column.label_values.join(",");
            let expected = tick_values
                .get(&(column.metric.name, labels))
                .copied()
                .filter(|_| !skipped);
            assert_eq!(
                values[row],
                expected,
                "{}.{} of tick {}",
                table.name(),
                column.name,
                tick.number
            );
        }
    }
}

/// Every number of a tick, by metric and labels.
fn values_by_series(tick: &Tick) -> HashMap<(&'static str, String), f64> {
    let plain = tick.readings().filter(|reading| reading.tags.is_empty());
    let numbers = plain.filter_map(|reading| {
        let labels: Vec<&str> = reading
            .label_values
            .iter()
            .map(|label| label.as_str())
            .collect();
        Some((
            (reading.metric.name, labels.join(",")),
            reading.value.number()?,
        ))
    });
    numbers.collect()
}

/// Carries values forward as docs/RECORDING.md says, and compares them with those of the ticks.
fn assert_pools(recording: &Recording, first: u64, seconds: &[Second]) {
    let rows = recording.pools().unwrap();
    let mut next = rows.iter().peekable();
    let mut carried: BTreeMap<&str, [Option<f64>; 7]> = BTreeMap::new();
    for (id, second) in (first as i64..).zip(seconds) {
        while let Some(row) = next.next_if(|row| row.tick == id) {
            let whole = |n: Option<u64>| n.map(|n| n as f64);
            let values = [
                whole(row.threads),
                whole(row.major_faults),
                whole(row.minor_faults),
                row.cpu_user,
                row.cpu_system,
                row.run_queue,
                row.block_io_delay,
            ];
            assert_ne!(
                carried.insert(&row.pool, values),
                Some(values),
                "a row that says nothing new"
            );
        }
        let tick = second.tick.as_ref().unwrap();
        let tick_values = values_by_series(tick);
        for (pool, values) in &carried {
            let pool_value = |metric: &str, label: &str| {
                let metric = exported()
                    .find(|m| m.name == format!("agave_thread_pool_{metric}"))
                    .unwrap();
                tick_values
                    .get(&(metric.name, format!("{pool}{label}")))
                    .copied()
            };
            let expected = [
                pool_value("threads", ""),
                pool_value("page_faults_total", ",major"),
                pool_value("page_faults_total", ",minor"),
                pool_value("cpu_seconds_total", ",user"),
                pool_value("cpu_seconds_total", ",system"),
                pool_value("run_queue_seconds_total", ""),
                pool_value("block_io_delay_seconds_total", ""),
            ];
            assert_eq!(*values, expected, "{pool} at tick {id}");
        }
        assert_eq!(carried.len(), 70);
    }
    assert!(next.next().is_none());
}

fn assert_points(recording: &Recording, seconds: &[Second]) {
    let mut found: Vec<Point> = Vec::new();
    found.extend(
        recording
            .program_cache_points()
            .unwrap()
            .into_iter()
            .map(Point::ProgramCache),
    );
    found.extend(
        recording
            .replay_slot_points()
            .unwrap()
            .into_iter()
            .map(Point::ReplaySlot),
    );
    found.extend(
        recording
            .set_root_points()
            .unwrap()
            .into_iter()
            .map(Point::SetRoot),
    );
    found.extend(
        recording
            .cache_times_points()
            .unwrap()
            .into_iter()
            .map(Point::CacheTimes),
    );
    found.extend(
        recording
            .cost_tracker_points()
            .unwrap()
            .into_iter()
            .map(Point::CostTracker),
    );
    let mut expected: Vec<Point> = seconds
        .iter()
        .flat_map(|second| second.points.clone())
        .collect();
    found.sort_by_key(time);
    expected.sort_by_key(time);
    assert_eq!(found.len(), expected.len());
    assert!(
        found == expected,
        "other points than those that were written"
    );
}

fn time(point: &Point) -> i64 {
    match point {
        Point::ProgramCache(point) => point.time_unix_ns,
        Point::ReplaySlot(point) => point.time_unix_ns,
        Point::SetRoot(point) => point.time_unix_ns,
        Point::CacheTimes(point) => point.time_unix_ns,
        Point::CostTracker(point) => point.time_unix_ns,
    }
}

/// The time on both clocks, `seconds` after the run began.
pub fn at(seconds: u64) -> Stamp {
    let uptime = std::time::Duration::from_secs(seconds);
    Stamp {
        uptime,
        unix: std::time::Duration::from_secs(1_789_970_400) + uptime,
    }
}
