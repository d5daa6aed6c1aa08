//! A reader returns what the writer wrote.

use crate::{
    fixture::devices,
    made_up::{
        arm, assert_is_a_beginning, at, finished, synthetic_run::SyntheticRun, write, write_all,
    },
};
use faultline_metrics::{
    Batch, Histogram, LabelText, Problem, ProblemKind, Reading, Source, TIME_BOUNDS, Tick, Value,
    metrics::{cgroup, daemon, pools, process, validator},
};
use faultline_recording::{
    Cell, CostTrackerPoint, Error, Event, EventKind, NewProcess, NewRecording, NewSession,
    PerTickTable, Point, Recording, Writer,
};
use std::{sync::Arc, time::Duration};

pub fn header(labels: &[(&str, &str)]) -> NewRecording {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let manifest = serde_json::json!({"host": "h"});
    let interval = Duration::from_secs(1);
    NewRecording {
        labels,
        session: NewSession {
            started: at(0),
            interval,
            version: "0.1.0".into(),
            manifest,
        },
    }
}

fn process(pid: u32) -> NewProcess {
    NewProcess {
        pid,
        started_unix: None,
        seen: at(0),
        manifest: serde_json::json!({"exe": "agave-validator"}),
    }
}

fn batch(source: Source, seconds: u64, readings: Vec<Reading>) -> Arc<Batch> {
    let duration = Duration::from_micros(1);
    Arc::new(Batch {
        source,
        at: at(seconds),
        duration,
        readings,
        problems: Vec::new(),
        up: true,
    })
}

fn tick(number: u64, batches: Vec<Arc<Batch>>) -> Tick {
    Tick {
        number,
        at: at(number),
        batches,
    }
}

fn pool(name: &'static str, major: u64) -> Reading {
    Reading::integer(
        &pools::PAGE_FAULTS,
        [LabelText::Fixed(name), "major".into()],
        major,
    )
}

#[test]
fn every_value_of_a_recording_round_trips() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let arm = arm(120);
    finished(&path, arm.clone());
    let recording = Recording::open(&path).unwrap();
    assert_eq!(assert_is_a_beginning(&recording, &arm), 120);
    let info = recording.info().unwrap();
    assert!(info.finished && info.wal_bytes == 0 && info.format == 1);
    assert_eq!(info.labels, [("arm".to_owned(), "512".to_owned())]);
    assert_eq!(
        (
            info.first_tick.unwrap().number,
            info.last_tick.unwrap().number
        ),
        (1, 120)
    );
    assert_eq!(info.sessions[0].manifest["kernel"], "6.8.0-45-generic");
    assert_eq!(
        (info.processes[0].pid, info.processes[0].session),
        (4242, 1)
    );
}

#[test]
fn a_finished_recording_is_one_file_in_delete_mode() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    finished(&path, arm(30));
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["run.db"]);
    let raw = rusqlite::Connection::open(&path).unwrap();
    let mode: String = raw
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    let check: String = raw
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!((mode.as_str(), check.as_str()), ("delete", "ok"));
}

#[test]
fn repeated_source_values_are_not_recorded_again() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let old = batch(
        Source::Process,
        1,
        vec![Reading::integer(&process::VIRTUAL, [], 7)],
    );
    writer.tick(&tick(1, vec![Arc::clone(&old)])).unwrap();
    writer.tick(&tick(2, vec![old])).unwrap();
    let anew = batch(
        Source::Process,
        3,
        vec![Reading::integer(&process::VIRTUAL, [], 7)],
    );
    writer.tick(&tick(3, vec![anew])).unwrap();
    let never = Arc::new(Batch::empty(
        Source::Cgroup,
        faultline_metrics::Stamp::default(),
    ));
    writer.tick(&tick(4, vec![never])).unwrap();
    writer.finish(at(5)).unwrap();
    let recording = Recording::open(&path).unwrap();
    let columns = recording
        .columns(PerTickTable::Process, &["virtual_bytes", "threads"])
        .unwrap();
    assert_eq!(columns.ticks, [1, 3]);
    assert_eq!(
        columns.values,
        [vec![Some(7.0), Some(7.0)], vec![None, None]]
    );
    assert_eq!(recording.ticks().unwrap().len(), 4);
}

#[test]
fn a_thread_pool_is_written_on_change_and_on_removal() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    writer.begin_process(&process(1)).unwrap();
    let threads = |second, readings| tick(second, vec![batch(Source::Threads, second, readings)]);
    writer
        .tick(&threads(1, vec![pool("a", 1), pool("b", 1)]))
        .unwrap();
    writer
        .tick(&threads(2, vec![pool("a", 1), pool("b", 2)]))
        .unwrap();
    writer.tick(&threads(3, vec![pool("b", 2)])).unwrap();
    writer
        .tick(&threads(4, vec![pool("a", 1), pool("b", 2)]))
        .unwrap();
    writer.begin_process(&process(2)).unwrap();
    writer.tick(&threads(5, vec![pool("b", 2)])).unwrap();
    writer.finish(at(6)).unwrap();
    let rows = Recording::open(&path).unwrap().pools().unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.tick, &*row.pool, row.major_faults))
        .collect();
    let expected = [
        (1, "a", Some(1)),
        (1, "b", Some(1)),
        (2, "b", Some(2)),
        (3, "a", None),
        (4, "a", Some(1)),
        (5, "b", Some(2)),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn samples_without_a_column_are_stored_as_series() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let mut times = Histogram::new(&TIME_BOUNDS);
    times.observe(0.5);
    let sum = Reading::integer(&validator::DATAPOINT_SUM, ["a \"b\"".into(), "c".into()], 3);
    let readings = vec![
        sum.with_tags(vec![("id".into(), "2".into())]),
        Reading::new(
            &validator::CACHE_PRUNE,
            [],
            Value::Histogram(Arc::new(times)),
        ),
        Reading::integer(&process::RESTARTS, ["oom_kill".into()], 1),
        Reading::integer(&cgroup::STAT, ["not foreseen".into()], 4096),
        Reading::real(&validator::DATAPOINT, ["x".into(), "y".into()], f64::NAN),
        Reading::integer(&daemon::TICKS, [], 1),
    ];
    writer
        .tick(&tick(1, vec![batch(Source::Datapoints, 1, readings)]))
        .unwrap();
    writer.finish(at(2)).unwrap();
    let recording = Recording::open(&path).unwrap();
    let rows = recording.series().unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (&*row.metric, &*row.labels, row.value))
        .collect();
    let expected = [
        (
            "agave_cgroup_memory_stat_bytes",
            r#"{"type":"not foreseen"}"#,
            Some(4096.0),
        ),
        (
            "agave_datapoint_sum_total",
            r#"{"name":"a \"b\"","field":"c","id":"2"}"#,
            Some(3.0),
        ),
        (
            "agave_process_restarts_total",
            r#"{"reason":"oom_kill"}"#,
            Some(1.0),
        ),
        ("agave_program_cache_prune_seconds_count", "{}", Some(1.0)),
        ("agave_program_cache_prune_seconds_sum", "{}", Some(0.5)),
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        recording
            .columns(PerTickTable::Daemon, &["ticks"])
            .unwrap()
            .values,
        [[Some(1.0)]]
    );
}

#[test]
fn device_numbers_negative_and_maximum_values_round_trip() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let io = |direction: &'static str, bytes| {
        Reading::integer(&cgroup::IO_BYTES, ["vda".into(), direction.into()], bytes)
    };
    let readings = vec![
        Reading::real(&process::OOM_SCORE_ADJ, [], -500.0),
        Reading::integer(&process::SWAP, [], u64::MAX),
    ];
    let of_cgroup = batch(
        Source::Cgroup,
        1,
        vec![io("read", 5), io("write", u64::MAX)],
    );
    writer
        .tick(&tick(
            1,
            vec![batch(Source::Process, 1, readings), of_cgroup],
        ))
        .unwrap();
    let point = CostTrackerPoint {
        time_unix_ns: -1,
        received: Duration::from_secs(9),
        bank_slot: Some(u64::MAX),
        transaction_count: Some(i64::MAX as u64),
        is_leader: Some(false),
        ..CostTrackerPoint::default()
    };
    writer.point(&Point::CostTracker(point.clone())).unwrap();
    writer.finish(at(2)).unwrap();
    let recording = Recording::open(&path).unwrap();
    let columns = recording
        .columns(PerTickTable::Process, &["oom_score_adj", "swap_bytes"])
        .unwrap();
    assert_eq!(columns.values, [[Some(-500.0)], [Some(u64::MAX as f64)]]);
    assert_eq!(
        devices(&recording)[0][2..],
        [Cell::Integer(5), Cell::Real(u64::MAX as f64)]
    );
    // No real count is that large. A point omits numbers that SQLite cannot store exactly.
    assert_eq!(
        recording.cost_tracker_points().unwrap(),
        [CostTrackerPoint {
            bank_slot: None,
            ..point
        }]
    );
}

#[test]
fn problems_are_recorded_on_change_and_on_resolution() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let with = |second, problems: &[&str]| {
        let problems = problems
            .iter()
            .map(|what| Problem::new(ProblemKind::Forbidden, what))
            .collect();
        let batch = Batch {
            problems,
            ..Batch::empty(Source::Process, at(second))
        };
        tick(second, vec![Arc::new(batch)])
    };
    for (second, problems) in [
        (1, &["io"][..]),
        (2, &["io"]),
        (3, &["io", "fd"]),
        (4, &[]),
        (5, &[]),
    ] {
        writer.tick(&with(second, problems)).unwrap();
    }
    writer.finish(at(6)).unwrap();
    let rows = Recording::open(&path).unwrap().problems().unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.tick, row.status.as_deref(), row.what.as_deref()))
        .collect();
    let forbidden = Some("forbidden");
    let expected = [
        (1, forbidden, Some("io")),
        (3, forbidden, Some("io")),
        (3, forbidden, Some("fd")),
        (4, None, None),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_problem_in_either_batch_of_a_source_is_recorded_once() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    for second in 1..10 {
        let problems = vec![Problem::new(
            ProblemKind::Absent,
            "descriptors are not counted",
        )];
        let of_itself = Batch {
            problems,
            ..Batch::empty(Source::Daemon, at(second))
        };
        let book = Batch::empty(Source::Daemon, at(second));
        writer
            .tick(&tick(second, vec![Arc::new(of_itself), Arc::new(book)]))
            .unwrap();
    }
    writer.finish(at(10)).unwrap();
    assert_eq!(Recording::open(&path).unwrap().problems().unwrap().len(), 1);
}

#[test]
fn a_restart_of_the_daemon_appends_a_session() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut synthetic = SyntheticRun::new(arm(20));
    let mut writer = Writer::append(&path, &synthetic.header()).unwrap();
    write_all(&mut writer, &mut synthetic);
    drop(writer);
    let mut again = SyntheticRun::new(arm(10));
    let mut writer = Writer::append(&path, &again.header()).unwrap();
    write_all(&mut writer, &mut again);
    writer.finish(at(99)).unwrap();
    let recording = Recording::open(&path).unwrap();
    let ticks = recording.ticks().unwrap();
    let sessions: Vec<_> = ticks.iter().map(|tick| tick.session).collect();
    assert_eq!(sessions, [[1; 20].as_slice(), &[2; 10]].concat());
    assert_eq!(
        ticks.iter().map(|tick| tick.id).collect::<Vec<_>>(),
        (1..=30).collect::<Vec<_>>()
    );
    let ended: Vec<_> = recording
        .sessions()
        .unwrap()
        .iter()
        .map(|session| session.ended)
        .collect();
    assert_eq!(ended, [None, Some(at(99).unix)]);
    // No value carries over: the second session begins with all pools.
    assert_eq!(
        recording
            .pools()
            .unwrap()
            .iter()
            .filter(|row| row.tick == 21)
            .count(),
        70
    );
}

#[test]
fn a_recording_of_another_run_is_not_appended_to() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    Writer::create(&path, &header(&[("arm", "512"), ("run", "1")]))
        .unwrap()
        .finish(at(1))
        .unwrap();
    let error = Writer::append(&path, &header(&[("arm", "1024")])).unwrap_err();
    assert!(matches!(&error, Error::OtherLabels { .. }));
    let text = error.to_string();
    assert!(
        text.contains("arm=512, run=1") && text.contains("arm=1024"),
        "{text}"
    );
    assert!(matches!(
        Writer::create(&path, &header(&[])).unwrap_err(),
        Error::Exists { .. }
    ));
    assert_eq!(Recording::open(&path).unwrap().sessions().unwrap().len(), 1);
}

#[test]
fn two_writers_do_not_share_a_recording() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let writer = Writer::create(&path, &header(&[])).unwrap();
    assert!(matches!(
        Writer::append(&path, &header(&[])).unwrap_err(),
        Error::InUse { .. }
    ));
    drop(writer);
    Writer::append(&path, &header(&[]))
        .unwrap()
        .finish(at(1))
        .unwrap();
}

#[test]
fn a_rollback_loses_only_uncommitted_rows() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let arm = arm(40);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    for _ in 0..20 {
        // The same second is written again after the rollback.
        let second = synthetic.next().unwrap();
        write(&mut writer, &second).unwrap();
        assert!(writer.rollback() > 5);
        write(&mut writer, &second).unwrap();
        assert!(writer.commit().unwrap() > 5);
    }
    write_all(&mut writer, &mut synthetic);
    assert_eq!(writer.commit().unwrap(), 0);
    writer.finish(synthetic.ended()).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.ticks().unwrap().len(), 40);
    let info = recording.info().unwrap();
    assert_eq!(info.processes.len(), 1);
    let columns = recording
        .columns(PerTickTable::Process, &["major_faults"])
        .unwrap();
    assert!(columns.values[0].iter().all(Option::is_some));
}

#[test]
fn after_a_rollback_a_vanished_thread_pool_is_recorded_as_gone() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let threads = |second, readings| tick(second, vec![batch(Source::Threads, second, readings)]);
    writer
        .tick(&threads(1, vec![pool("a", 1), pool("b", 1)]))
        .unwrap();
    writer.commit().unwrap();
    writer.tick(&threads(2, vec![pool("b", 1)])).unwrap();
    writer.rollback();
    writer.tick(&threads(3, vec![pool("b", 1)])).unwrap();
    writer.finish(at(4)).unwrap();
    let rows = Recording::open(&path).unwrap().pools().unwrap();
    let last = rows.iter().rfind(|row| &*row.pool == "a").unwrap();
    assert_eq!((last.tick, last.major_faults), (2, None));
}

#[test]
fn a_recorded_start_time_follows_a_clock_step_even_after_rollback() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    let started = |number: u64, seconds: f64| {
        let reading = Reading::real(&process::START_TIME, [], seconds);
        tick(number, vec![batch(Source::Process, number, vec![reading])])
    };
    writer.begin_process(&process(5)).unwrap();
    writer.tick(&started(1, 1000.5)).unwrap();
    writer.commit().unwrap();
    writer.tick(&started(2, 8200.5)).unwrap();
    writer.rollback();
    writer.tick(&tick(3, Vec::new())).unwrap();
    writer.tick(&started(4, 8200.5)).unwrap();
    writer.begin_process(&process(6)).unwrap();
    writer.tick(&started(5, 9000.0)).unwrap();
    writer.finish(at(6)).unwrap();
    let rows = Recording::open(&path).unwrap().processes().unwrap();
    let starts: Vec<_> = rows.iter().map(|row| row.started).collect();
    assert_eq!(
        starts,
        [8200.5, 9000.0].map(|s| Some(Duration::from_secs_f64(s)))
    );
}

#[test]
fn a_more_complete_manifest_replaces_the_previous_one() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let mut writer = Writer::create(&path, &header(&[])).unwrap();
    writer
        .replace_manifest(&serde_json::json!({"of": "nobody"}))
        .unwrap();
    writer.begin_process(&process(5)).unwrap();
    writer
        .replace_manifest(&serde_json::json!({"version": "2.1.14"}))
        .unwrap();
    writer.end_process();
    writer.tick(&tick(1, Vec::new())).unwrap();
    writer
        .event(&Event {
            at: at(1),
            kind: EventKind::Mark,
            detail: r#"{"text":"hi"}"#.into(),
        })
        .unwrap();
    writer
        .event(&Event {
            at: at(1),
            kind: EventKind::Gap,
            detail: "no JSON".into(),
        })
        .unwrap();
    writer.finish(at(2)).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(
        recording.processes().unwrap()[0].manifest["version"],
        "2.1.14"
    );
    assert_eq!(recording.ticks().unwrap()[0].process, None);
    let events = recording.events().unwrap();
    assert_eq!(
        (
            &*events[0].kind,
            events[0].process,
            &events[0].detail["text"]
        ),
        (EventKind::Mark.name(), None, &"hi".into())
    );
    assert_eq!(events[1].detail, serde_json::Value::from("no JSON"));
}

#[test]
fn any_table_can_be_read_in_chunks_without_its_schema() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    finished(&path, arm(25));
    let recording = Recording::open(&path).unwrap();
    for table in recording.tables().unwrap() {
        let mut sizes = Vec::new();
        recording
            .rows(table.name, 10, |rows| {
                assert!(rows.iter().all(|row| row.len() == table.columns.len()));
                sizes.push(rows.len() as u64);
                Ok::<(), Error>(())
            })
            .unwrap();
        assert_eq!(sizes.iter().sum::<u64>(), table.rows, "{}", table.name);
        assert!(
            sizes.iter().rev().skip(1).all(|size| *size == 10),
            "{}",
            table.name
        );
    }
    let mut phases = Vec::new();
    let take = |rows: &[Vec<Cell>]| {
        phases.extend(rows.iter().map(|row| row[6].clone()));
        Ok::<(), Error>(())
    };
    recording.rows("tick", 7, take).unwrap();
    assert_eq!(phases.last(), Some(&Cell::Text("at_tip".into())));
    let unknown = recording
        .rows("nothing", 1, |_| Ok::<(), Error>(()))
        .unwrap_err();
    assert!(matches!(unknown, Error::NoSuchTableOrColumn { .. }));
    let unknown = recording
        .columns(PerTickTable::Host, &["oom_kills", "nothing"])
        .unwrap_err();
    assert!(unknown.to_string().contains("host_sample.nothing"));
}
