//! A report counts the banks of a slot as the daemon does that recorded them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use faultline_core::config::Datapoints;
use faultline_datapoints::validator::{
    intake::Intake,
    point_recorder::{PointMessage, PointRecorder},
};
use faultline_metrics::{Batch, Reading, Source, Stamp, Tick, Value};
use faultline_recording::{NewProcess, NewRecording, NewSession, Writer};
use faultline_report::{
    measure::{Measured, Span, measure, numbers},
    run::{Run, load},
};
use std::{
    path::Path,
    sync::{Arc, mpsc::channel},
    time::Duration,
};

const START: u64 = 1_790_000_000;
const SECONDS: u64 = 70;
const RESTART: u64 = 50;

fn stamp(second: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(second),
        unix: Duration::from_secs(START + second),
    }
}

/// What a bank reports when it is complete, in that fifth of a second.
fn bank(slot: u64, transactions: u64, fifth: u64, with_costs: bool) -> Vec<String> {
    let nanos = START * 1_000_000_000 + fifth * 200_000_000;
    let cost = with_costs.then(|| format!(
        "cost_tracker_stats,host_id=A,is_leader=false bank_slot={slot}i,block_cost=9i,transaction_count={transactions}i {nanos}"
    ));
    let mut lines = vec![
        format!(
            "loaded-programs-cache-stats,host_id=A slot={}i,hits=9i,misses=4i,evictions=2i,reloads=1i,insertions=3i,water_level=921i {nanos}",
            slot - 1
        ),
        format!("bank_frozen,host_id=A slot={slot}i,hash=\"x\" {nanos}"),
        format!(
            "replay-slot-stats,host_id=A slot={slot}i,num_bank_switches=0i,replay_total_elapsed=95000i,total_transactions={transactions}i,total_entries=64i,total_shreds=320i,program_cache_us=2000i {nanos}"
        ),
    ];
    lines.extend(cost);
    lines
}

/// Five slots a second. Seconds 20 and 21 only repeat ten slots, each with three transactions more
/// or less. Nothing runs in seconds 30 to 34. Another process replays slots of
/// the one before it.
fn lines_of(second: u64, with_costs: bool) -> Vec<String> {
    let fifths = 5 * second..5 * second + 5;
    let of = |fifth: u64| match second {
        0..5 | 30..35 => Vec::new(),
        20 | 21 => bank(
            990 + fifth,
            if fifth.is_multiple_of(2) { 803 } else { 797 },
            fifth,
            with_costs,
        ),
        0..RESTART => bank(1000 + fifth, 800, fifth, with_costs),
        _ => bank(950 + fifth, 700, fifth, with_costs),
    };
    let mut lines: Vec<String> = fifths.flat_map(of).collect();
    if second % 10 == 9 {
        let nanos = (START + second) * 1_000_000_000 + 990_000_000;
        lines.push(format!(
            "metrics,host_id=A points_written=9i,num_points=9i,points_lost=0i,points_buffered=0i,secs_since_last_write=10i {nanos}"
        ));
    }
    lines
}

/// Runs an intake as the daemon does and records it.
fn live(path: &Path, with_costs: bool) -> Vec<Reading> {
    let (sender, receiver) = channel();
    let intake = Intake::new(&Datapoints::default());
    intake.set_recorder(PointRecorder::new(move |what| sender.send(what).unwrap()));
    let session = NewSession {
        started: stamp(0),
        interval: Duration::from_secs(1),
        version: "0".to_owned(),
        manifest: serde_json::Value::Null,
    };
    let labels = Vec::new();
    let mut writer = Writer::create(path, &NewRecording { labels, session }).unwrap();
    let mut readings = Vec::new();
    let mut pending: Vec<String> = Vec::new();
    for second in 0..=SECONDS {
        if second.is_multiple_of(10) {
            let mut push = intake.begin_trusted(stamp(second));
            pending
                .drain(..)
                .for_each(|line| push.add_line(line.as_bytes()));
            intake.commit(push, stamp(second));
        }
        if second.is_multiple_of(RESTART) {
            intake.follow_validator(None);
            intake.set_reported_identity("A", stamp(second));
            let process = NewProcess {
                pid: if second == 0 { 7 } else { 8 },
                started_unix: None,
                seen: stamp(second),
                manifest: serde_json::Value::Null,
            };
            writer.begin_process(&process).unwrap();
        }
        pending.extend(lines_of(second, with_costs));
        readings.clear();
        intake.add_readings(stamp(second), &mut readings);
        let batch = Batch {
            readings: readings.clone(),
            up: true,
            ..Batch::empty(Source::Datapoints, stamp(second))
        };
        let batches = vec![Arc::new(batch)];
        let (number, at) = (second + 1, stamp(second));
        writer
            .tick(&Tick {
                number,
                at,
                batches,
            })
            .unwrap();
        for what in receiver.try_iter() {
            let PointMessage::Point(point) = what else {
                continue;
            };
            writer.point(&point).unwrap();
        }
    }
    writer.finish(stamp(SECONDS)).unwrap();
    readings
}

fn total(readings: &[Reading], name: &str, label: Option<&str>) -> f64 {
    let is_wanted = |reading: &&Reading| {
        reading.metric.name == name
            && reading.label_values.first().map(|text| text.as_str()) == label
    };
    let found = readings.iter().find(is_wanted);
    match found.map(|reading| &reading.value) {
        Some(Value::Histogram(histogram)) => histogram.sum(),
        Some(value) => value.number().unwrap(),
        None => panic!("no {name}"),
    }
}

fn recorded(with_costs: bool) -> (Vec<Reading>, Run, Measured) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.fltl");
    let readings = live(&path, with_costs);
    let run = load(&path).unwrap();
    let measured = measure(&run);
    (readings, run, measured)
}

#[test]
fn transactions_of_repeated_slots_agree_with_the_daemon() {
    for with_costs in [true, false] {
        let (readings, run, measured) = recorded(with_costs);
        let seconds = &measured.tps.seconds;
        let counted: u64 = seconds
            .iter()
            .filter_map(|second| second.transactions)
            .sum();
        // Ten slots are repeated, and five of them with three transactions more.
        let expected = 800 * 5 * (45 - 2 - 5) + 3 * 5 + 700 * 5 * 20;
        assert_eq!(counted, expected);
        if with_costs {
            let live = total(&readings, "agave_block_transactions_total", Some("false"));
            assert_eq!(live, expected as f64);
        }
        let at_20 = seconds.iter().find(|second| second.at == 20.0).unwrap();
        assert_eq!((at_20.transactions, at_20.had_execution), (Some(9), true));
        let tps = numbers(&run, &measured.tps, Span::ALWAYS).tps;
        let zero = total(&readings, "agave_zero_tps_seconds_total", None);
        assert_eq!((tps.zero_seconds, zero), (Some(5), 5.0));
        assert_eq!((tps.known_seconds, tps.unknown_seconds), (65, Some(0)));
    }
}

#[test]
fn the_work_of_repeated_slots_agrees_with_the_daemon() {
    let (readings, run, measured) = recorded(true);
    let numbers = numbers(&run, &measured.tps, Span::ALWAYS);
    let banks = 5.0 * 60.0;
    let replay = total(&readings, "agave_replay_slot_seconds", Some("total"));
    let reported: f64 = numbers.replay_ms.iter().flatten().sum();
    assert!((replay - 0.095 * banks).abs() < 1e-6, "{replay}");
    assert!((reported - 95.0 * banks).abs() < 1e-6, "{reported}");
    let misses = total(&readings, "agave_program_cache_misses_total", None);
    assert_eq!(
        (misses, numbers.cache.misses.sum),
        (4.0 * banks, 4.0 * banks)
    );
}
