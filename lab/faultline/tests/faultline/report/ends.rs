//! Runs that end, freeze or fall silent before their recording does, and clocks that are set meanwhile.

use super::{blocks, chart, fixture, near, table};
use faultline_metrics::{Batch, Reading, Source, Stamp, Tick, metrics::validator};
use faultline_pages::model::{Block, Cell, Chart, Report};
use faultline_recording::{
    CostTrackerPoint, NewProcess, NewRecording, NewSession, Point, ReplaySlotPoint, Writer,
};
use faultline_report::{
    report::{Options, build},
    run::{Event, Run, Signal, load},
};
use std::{sync::Arc, time::Duration};

/// Keeps the points of these moments.
fn keep_points(run: &mut Run, keep: impl Fn(f64) -> bool) {
    let origin = run.origin_unix_ns;
    let retained = |unix_ns: i64| keep((unix_ns - origin) as f64 / 1e9);
    run.points
        .costs
        .retain(|point| retained(point.time_unix_ns));
    run.points
        .replay
        .retain(|point| retained(point.time_unix_ns));
    run.points
        .cache
        .retain(|point| retained(point.time_unix_ns));
    run.points
        .roots
        .retain(|point| retained(point.time_unix_ns));
}

fn set(run: &mut Run, signal: Signal, of: impl Fn(f64, Option<f64>) -> Option<f64>) {
    let at: Vec<f64> = run.ticks.iter().map(|tick| tick.at).collect();
    let values = &mut run.signals[signal as usize];
    values
        .iter_mut()
        .zip(at)
        .for_each(|(value, at)| *value = of(at, *value));
}

/// 200 s, at the tip from 40 s on.
fn whole() -> Run {
    let mut run = fixture("arm-512-1.fltl");
    run.events.clear();
    run
}

/// What the process itself tells of; of its group and of the machine the kernel goes on telling.
const OF_PROCESS: [Signal; 9] = [
    Signal::RssAnon,
    Signal::RssFile,
    Signal::RssShmem,
    Signal::Virtual,
    Signal::Swap,
    Signal::MajorFaults,
    Signal::MinorFaults,
    Signal::CpuUser,
    Signal::CpuSystem,
];

/// Killed after 120 s; the recording goes on to 199 s, its host grows busier, and the level of slots behind is held.
fn killed() -> Run {
    let mut run = whole();
    for tick in run.ticks.iter_mut().filter(|tick| tick.at >= 120.0) {
        (tick.process, tick.phase) = (None, Some("gone".into()));
    }
    OF_PROCESS
        .iter()
        .for_each(|signal| set(&mut run, *signal, |at, value| value.filter(|_| at < 120.0)));
    set(&mut run, Signal::Behind, |at, value| {
        if at < 120.0 { value } else { Some(5000.0) }
    });
    for signal in [
        Signal::RefaultFile,
        Signal::MemorySome,
        Signal::IoSome,
        Signal::HostIoSome,
    ] {
        set(&mut run, signal, |at, value| {
            value.map(|value| value + 1e4 * (at - 119.0).max(0.0))
        });
    }
    set(&mut run, Signal::Unreclaimable, |at, value| {
        if at < 120.0 { value } else { Some(4096.0) }
    });
    keep_points(&mut run, |at| at < 120.0);
    let event = |kind: &str| Event {
        at: 120.0,
        kind: kind.to_owned(),
        detail: serde_json::json!({ "pid": 101 }),
    };
    run.events = vec![event("oom_kill")];
    run
}

/// The same run, recorded to its end and no further.
fn cut() -> Run {
    let mut run = killed();
    run.ticks.retain(|tick| tick.at < 120.0);
    let ticks = run.ticks.len();
    run.signals
        .iter_mut()
        .for_each(|values| values.truncate(ticks));
    run.thread_pools
        .iter_mut()
        .for_each(|pool| pool.rows.retain(|row| row.tick_index < ticks));
    run
}

#[test]
fn a_run_ends_with_its_process_and_later_samples_do_not_count() {
    let (dead, ended) = (
        build([killed()], &Options::default()),
        build([cut()], &Options::default()),
    );
    let mut compared = 0;
    for block in blocks(&ended) {
        let Block::Table(expected) = block else {
            continue;
        };
        if ["outcome", "phases", "within-run", "events"].contains(&expected.id.as_str()) {
            continue;
        }
        for (row, expected_row) in table(&dead, &expected.id).rows.iter().zip(&expected.rows) {
            for ((cell, expected_cell), column) in
                row.iter().zip(expected_row).zip(&expected.columns)
            {
                // Between the last tick and the death is up to a second.
                let same = match (cell, expected_cell) {
                    (
                        Cell::Number { value, .. },
                        Cell::Number {
                            value: expected, ..
                        },
                    ) => {
                        let tolerance = if column.title == "Time per recorded second" {
                            0.02
                        } else {
                            1e-9
                        };
                        (value - expected).abs() <= tolerance * expected.abs()
                    }
                    (cell, expected) => cell == expected,
                };
                assert!(
                    same,
                    "{}, {}: {cell:?} is not {expected_cell:?}",
                    expected.id, column.title
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 80, "{compared}");
    let steady = |report: &Report| {
        report
            .caveats
            .iter()
            .map(|caveat| caveat.what.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(steady(&dead), steady(&ended));
}

#[test]
fn the_exit_time_is_the_process_end_and_later_data_is_labelled() {
    let report = build([killed()], &Options::default());
    let story = &report.verdict.bullets[0];
    let end = "In the end, after 2 min: killed by the kernel's OOM killer. The recording continued for 1 min 19 s; \
               that time is drawn but not counted.";
    assert!(story.ends_with(end), "{story}");
    let outcome = table(&report, "outcome");
    let ended = outcome
        .columns
        .iter()
        .position(|column| column.title == "Ended after")
        .unwrap();
    assert!(
        matches!(outcome.rows[0][ended], Cell::Number { value: 120.0, .. }),
        "{outcome:?}"
    );
    assert!(
        report.runs[0]
            .facts
            .contains(&("Ended after".to_owned(), "2 min".to_owned()))
    );
    let phases = &table(&report, "phases").rows;
    let last = phases.last().unwrap();
    assert_eq!(last[1], Cell::Text("after the end".to_owned()));
    assert!(
        matches!(&last[5], Cell::Missing(why) if why.contains("no part of the run")),
        "{last:?}"
    );
    let Some(Chart::Timeline(drawn)) = chart(&report, "headroom-over-time") else {
        panic!("not drawn")
    };
    assert!(
        drawn.series[0].x.last().unwrap() > &190.0,
        "what follows the end is drawn"
    );
    let band = drawn
        .bands
        .iter()
        .find(|band| band.name == "after the end")
        .unwrap();
    assert!(near(band.from, 120.0) && near(band.to, 199.0), "{band:?}");
    assert!(
        drawn
            .bands
            .iter()
            .all(|band| band.name == "after the end" || band.to <= 120.0),
        "{:?}",
        drawn.bands
    );
}

#[test]
fn an_unobserved_exit_is_reported_with_its_last_tick() {
    let mut run = killed();
    run.events.clear();
    let mut late = run.ticks.clone();
    late.iter_mut()
        .filter(|tick| tick.at >= 120.0)
        .for_each(|tick| tick.at += 300.0);
    run.ticks = late;
    let report = build([run], &Options::default());
    assert!(
        report.verdict.bullets[0].contains("In the end, after 1 min 59 s: the validator was gone"),
        "{report:#?}"
    );
}

/// Frozen from 80 s to 172 s, and then 219 slots behind; the phase of each tick is as given.
fn frozen(phase: impl Fn(f64) -> Option<&'static str>) -> Run {
    let mut run = whole();
    for tick in &mut run.ticks {
        tick.phase = phase(tick.at).map(Into::into);
    }
    let slot = |at: f64| match at {
        at if at <= 80.0 => 1000.0 + (2.5 * at).floor(),
        at if at < 172.0 => 1200.0,
        at => 1200.0 + 1.0 + (5.0 * (at - 172.0)).floor(),
    };
    set(&mut run, Signal::Processed, |at, _| Some(slot(at)));
    set(&mut run, Signal::Behind, |at, value| {
        if at < 173.0 {
            value
        } else {
            Some(219.0 - 2.0 * (at - 173.0))
        }
    });
    keep_points(&mut run, |at| !(80.0..172.0).contains(&at));
    run
}

/// The time of day of a moment of [`whole`], in UTC.
fn time_of_day(at: f64) -> String {
    let seconds = (whole().origin_unix_ns / 1_000_000_000 + at as i64) % 86_400;
    format!(
        "{:02}:{:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[test]
fn a_validator_frozen_at_the_tip_did_not_keep_up() {
    let old = |at: f64| Some(if at < 40.0 { "catching_up" } else { "at_tip" });
    let new = |at: f64| match at {
        at if at < 40.0 => Some("catching_up"),
        at if at < 95.0 => Some("at_tip"),
        at if at < 174.0 => None,
        _ => Some("behind"),
    };
    for run in [frozen(old), frozen(new)] {
        let report = build([run], &Options::default());
        let headline = &report.verdict.headline;
        let expected = format!(
            "did not keep up: at the tip for only 25.2 % of the time since it was first there; its slot did not advance for \
             1 min 32 s from {} on.",
            time_of_day(80.0)
        );
        assert!(headline.ends_with(&expected), "{headline}\n{expected}");
        let stall = &table(&report, "stalls").rows[0];
        assert!(
            matches!((&stall[1], &stall[3]), (Cell::Number { value: from, .. }, Cell::Number { value: long, .. })
            if near(*from, 80.0) && near(*long, 92.0)),
            "{stall:?}"
        );
        assert_eq!(stall[5], Cell::Text("behind".to_owned()));
        let phases: Vec<&Cell> = table(&report, "phases")
            .rows
            .iter()
            .map(|row| &row[1])
            .collect();
        assert_eq!(
            phases,
            ["catching up", "at tip", "behind"]
                .map(|name| Cell::Text(name.to_owned()))
                .each_ref()
        );
        let Some(Chart::Timeline(drawn)) = chart(&report, "rss-over-time") else {
            panic!("not drawn")
        };
        assert!(
            drawn
                .marks
                .iter()
                .any(|mark| mark.name == "stall" && near(mark.at, 80.0)),
            "{:?}",
            drawn.marks
        );
        assert!(
            drawn
                .bands
                .iter()
                .any(|band| band.name == "behind" && near(band.from, 80.0)),
            "{:?}",
            drawn.bands
        );
    }
}

#[test]
fn a_validator_ending_while_frozen_has_unknown_kept_up() {
    let mut run = frozen(|at| Some(if at < 40.0 { "catching_up" } else { "at_tip" }));
    for tick in run.ticks.iter_mut().filter(|tick| tick.at >= 160.0) {
        (tick.process, tick.phase) = (None, Some("gone".into()));
    }
    keep_points(&mut run, |at| at < 160.0);
    let report = build([run], &Options::default());
    assert!(
        report
            .verdict
            .headline
            .starts_with("Whether 512, run 1 kept up is not known"),
        "{}",
        report.verdict.headline
    );
    assert!(
        report
            .verdict
            .headline
            .contains("its slot did not advance for 1 min 19 s"),
        "{}",
        report.verdict.headline
    );
    assert_eq!(
        table(&report, "stalls").rows[0][5],
        Cell::Text("unknown".to_owned())
    );
}

#[test]
fn missing_pushes_alone_do_not_end_the_at_tip_phase() {
    for phase in [Some("at_tip"), None] {
        let mut run = whole();
        for tick in run
            .ticks
            .iter_mut()
            .filter(|tick| (95.0..173.0).contains(&tick.at))
        {
            tick.phase = phase.map(Into::into);
        }
        set(&mut run, Signal::Processed, |at, _| {
            Some(at)
                .filter(|at| !(80.0..172.0).contains(at))
                .map(|at| (2.5 * at).floor())
        });
        set(&mut run, Signal::Behind, |at, value| {
            value.filter(|_| !(80.0..172.0).contains(&at))
        });
        keep_points(&mut run, |at| !(80.0..172.0).contains(&at));
        let report = build([run], &Options::default());
        assert_eq!(
            report.verdict.headline, "512, run 1 kept up with the tip.",
            "{:#?}",
            report.verdict
        );
        assert!(
            !blocks(&report)
                .any(|block| matches!(block, Block::Table(table) if table.id == "stalls"))
        );
    }
}

#[test]
fn a_briefly_unknown_recorded_phase_is_derived_from_slots() {
    let untold = |next: &'static str| {
        move |at: f64| match at {
            at if at < 40.0 => Some("catching_up"),
            at if (100.0..109.0).contains(&at) => None,
            at if (109.0..130.0).contains(&at) => Some(next),
            _ => Some("at_tip"),
        }
    };
    for (next, share) in [("at_tip", 100.0), ("behind", 100.0 * 138.0 / 159.0)] {
        let mut run = whole();
        for tick in &mut run.ticks {
            tick.phase = untold(next)(tick.at).map(Into::into);
        }
        set(&mut run, Signal::Processed, |at, _| {
            Some((2.5 * at).floor())
        });
        let report = build([run], &Options::default());
        let outcome = table(&report, "outcome");
        let column = outcome
            .columns
            .iter()
            .position(|column| column.title == "At the tip")
            .unwrap();
        let Cell::Number { value, .. } = outcome.rows[0][column] else {
            panic!("{outcome:?}")
        };
        assert!(near(value, share), "{next}: {value} is not {share}");
        assert!(
            !table(&report, "phases")
                .rows
                .iter()
                .any(|row| row[1] == Cell::Text("unknown".to_owned()))
        );
    }
}

#[test]
fn a_recording_without_slots_keeps_the_phases_that_it_has() {
    let mut run = whole();
    keep_points(&mut run, |at| at < 80.0);
    run.points.costs.clear();
    run.points.replay.clear();
    let report = build([run], &Options::default());
    assert!(
        report.verdict.headline.contains("kept up with the tip"),
        "{}",
        report.verdict.headline
    );
}

#[test]
fn a_run_without_executed_transactions_is_excluded_from_averages_and_comparisons() {
    let named = |name: &str, arm: &str, run: &str| {
        let labels =
            [("arm", arm), ("run", run)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        Run {
            labels: labels.to_vec(),
            file: format!("{arm}-{run}.fltl"),
            ..fixture(name)
        }
    };
    let mut idle = named("arm-512-2.fltl", "small", "2");
    keep_points(&mut idle, |_| false);
    set(&mut idle, Signal::RssAnon, |_, _| Some(9e12));
    let runs = [
        named("arm-512-1.fltl", "small", "1"),
        idle,
        named("arm-1024-1.fltl", "large", "1"),
    ];
    let report = build(runs, &Options::default());
    let (by_run, by_arm) = (table(&report, "memory"), table(&report, "memory-by-arm"));
    assert_eq!(
        (&by_arm.rows[0][0], &by_arm.rows[0][1]),
        (
            &Cell::Text("small".to_owned()),
            &Cell::Number {
                value: 1.0,
                decimals: 0
            }
        )
    );
    assert_eq!(
        by_arm.rows[0][4], by_run.rows[0][3],
        "the mean over the one run that executed"
    );
    assert!(
        matches!(by_run.rows[1][3], Cell::Number { value, .. } if value > 8000.0),
        "its own row is its own"
    );
    let others = table(&report, "other-metrics");
    let rss = others
        .rows
        .iter()
        .find(|row| row[0] == Cell::Text("RSS, mean".to_owned()))
        .unwrap();
    assert!(
        rss.iter()
            .all(|cell| !matches!(cell, Cell::Number { value, .. } if *value > 1000.0)),
        "{rss:?}"
    );
    let said = "small, run 2: no executed transaction was recorded, so it is in no average of its arm and in no comparison.";
    assert!(
        report.caveats.iter().any(|caveat| caveat.what == said),
        "{:#?}",
        report.caveats
    );
}

#[test]
fn a_p95_over_two_slots_is_omitted_with_a_caveat() {
    let mut run = whole();
    run.points.replay.truncate(2);
    let report = build([run], &Options::default());
    let row = &table(&report, "replay").rows[0];
    assert!(
        matches!(&row[2], Cell::Missing(why) if why.contains("a p95 needs 20")),
        "{row:?}"
    );
    assert!(
        matches!(row[5], Cell::Number { .. }),
        "the mean of two is one: {row:?}"
    );
    let within = &table(&report, "within-run").rows[0];
    assert!(
        matches!(&within[1], Cell::Missing(why) if why.contains("too few slots")),
        "{within:?}"
    );
    let said =
        "512, run 1: 2 replayed slots are too few for a p95 of replay times, which needs 20.";
    assert!(
        report.caveats.iter().any(|caveat| caveat.what == said),
        "{:#?}",
        report.caveats
    );
    assert!(
        report
            .verdict
            .bullets
            .contains(&"It replayed 2 slots, too few for a p95 of their times.".to_owned())
    );
}

#[test]
fn no_interval_of_an_amount_is_below_zero() {
    let mut run = whole();
    // A burst of misses and of transactions, and little else.
    keep_points(&mut run, |at| at < 30.0);
    for (place, point) in run.points.cache.iter_mut().enumerate() {
        point.misses = Some(if place == 3 { 900 } else { 0 });
    }
    for (place, point) in run.points.replay.iter_mut().enumerate() {
        point.program_cache_us = Some(if place == 5 { 9_000_000 } else { 1 });
    }
    let report = build([run], &Options::default());
    let row = &table(&report, "within-run").rows[0];
    let mut estimates = 0;
    for cell in &row[1..] {
        let Cell::Estimate {
            value, low, high, ..
        } = cell
        else {
            panic!("{row:?}")
        };
        assert!(*low >= 0.0 && low <= value && value <= high, "{row:?}");
        estimates += 1;
    }
    assert_eq!(estimates, 4);
    assert!(table(&report, "within-run").note.contains("Wilson"));
}

/// A minute of a validator at the tip beside a wall clock that is set by so many seconds after half of it.
fn with_clock(path: &std::path::Path, step: i64) -> Run {
    const BEGAN: i64 = 1_800_000_000;
    let unix = |second: f64| {
        let set = if second >= 30.0 { step } else { 0 };
        (BEGAN + set) * 1_000_000_000 + (second * 1e9) as i64
    };
    let stamp = |second: u64| Stamp {
        uptime: Duration::from_secs(100 + second),
        unix: Duration::from_nanos(unix(second as f64) as u64),
    };
    let session = NewSession {
        started: stamp(0),
        interval: Duration::from_secs(1),
        version: "0".to_owned(),
        manifest: serde_json::Value::Null,
    };
    let mut writer = Writer::create(
        path,
        &NewRecording {
            labels: Vec::new(),
            session,
        },
    )
    .unwrap();
    let manifest = serde_json::json!({});
    let process = |pid, second| NewProcess {
        pid,
        started_unix: None,
        seen: stamp(second),
        manifest: manifest.clone(),
    };
    writer.begin_process(&process(7, 0)).unwrap();
    for second in 0..60_u64 {
        if second == 45 {
            writer.begin_process(&process(8, 45)).unwrap();
        }
        let at = stamp(second);
        let readings = vec![Reading::integer(&validator::PHASE, ["at_tip".into()], 1)];
        let batch = Batch {
            readings,
            up: true,
            ..Batch::empty(Source::Conclusions, at)
        };
        writer
            .tick(&Tick {
                number: second + 1,
                at,
                batches: vec![Arc::new(batch)],
            })
            .unwrap();
        for part in 0..2_u64 {
            let moment = unix(second as f64 + 0.25 + part as f64 / 2.0);
            for point in points_of_slot(2 * second + part, moment, at.unix) {
                writer.point(&point).unwrap();
            }
        }
    }
    writer.finish(stamp(60)).unwrap();
    load(path).unwrap()
}

fn points_of_slot(slot: u64, time_unix_ns: i64, received: Duration) -> [Point; 2] {
    let (second, slot) = (slot / 2, Some(slot));
    let cost = CostTrackerPoint {
        time_unix_ns,
        received,
        bank_slot: slot,
        transaction_count: Some(50 + second),
        ..Default::default()
    };
    let replay = ReplaySlotPoint {
        time_unix_ns,
        received,
        slot,
        total_transactions: Some(50 + second),
        replay_total_elapsed_us: Some(1000 * (second + 1)),
        ..Default::default()
    };
    [Point::CostTracker(cost), Point::ReplaySlot(replay)]
}

#[test]
fn a_wall_clock_step_changes_no_data_and_is_a_caveat() {
    let folder = tempfile::tempdir().unwrap();
    let still = with_clock(&folder.path().join("0.fltl"), 0);
    assert!(still.clock_steps.is_empty());
    for (step, words) in [
        (3600, "set forward by 1 h"),
        (-3600, "set back by 1 h"),
        (-20, "set back by 20 s"),
    ] {
        let run = with_clock(&folder.path().join(format!("{step}.fltl")), step);
        same_times(&run, &still, step);
        let report = build([run.clone()], &Options::default());
        same_tables(&report, &build([still.clone()], &Options::default()));

        let said = format!("the wall clock was {words} at 2027-01-15 08:00:30 UTC");
        assert!(
            report
                .caveats
                .iter()
                .any(|caveat| caveat.what.contains(&said)),
            "{said}: {:#?}",
            report.caveats
        );
        let Some(Chart::Timeline(drawn)) = chart(&report, "replay-over-time") else {
            panic!("not drawn")
        };
        assert!(
            drawn
                .marks
                .iter()
                .any(|mark| mark.name == format!("clock {words}") && near(mark.at, 30.0)),
            "{:?}",
            drawn.marks
        );
    }
}

fn same_tables(report: &Report, expected: &Report) {
    for id in ["tps", "replay", "phases"] {
        let without_name = |report: &Report| {
            table(report, id)
                .rows
                .iter()
                .map(|row| row[1..].to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(without_name(report), without_name(expected), "{id}");
    }
}

fn same_times(run: &Run, still: &Run, step: i64) {
    let times = |run: &Run| {
        run.points
            .replay
            .iter()
            .map(|point| (point.slot, point.time_unix_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(times(run), times(still), "{step}");
    assert_eq!(
        (run.clock_steps[0].at, run.clock_steps[0].seconds),
        (30.0, step as f64)
    );
    assert_eq!(
        run.processes
            .iter()
            .map(|process| process.first_seen_at)
            .collect::<Vec<_>>(),
        [0.0, 45.0],
        "{step}"
    );
}
