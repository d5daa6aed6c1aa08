//! Reports of recordings with known answers. The witness is `fixtures/make.py`: it wrote the recordings and computed the
//! statistics, with nothing of this program.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

mod ends;

use clap::Parser;
use faultline_pages::model::{Block, Cell, Chart, Report, Table, VerdictKind};
use faultline_recording::{CostTrackerPoint, ProgramCachePoint, ReplaySlotPoint};
use faultline_report::{
    args::ReportArgs,
    report::{Options, ReportContext, build, build_with_context},
    run::{
        ExperimentOutcome, OfflineReplay, OfflineReplaySlot, Process, Run, Session, Signal, Tick,
        load,
    },
};
use proptest::prelude::*;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The command line of `report` alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    report: ReportArgs,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(name: &str) -> Run {
    load(&fixtures().join(name)).unwrap()
}

fn report(names: &[&str]) -> Report {
    let runs: Vec<Run> = names.iter().map(|name| fixture(name)).collect();
    build(runs, &Options::default())
}

fn blocks(report: &Report) -> impl Iterator<Item = &Block> {
    report.blocks()
}

fn table<'r>(report: &'r Report, id: &str) -> &'r Table {
    let found = blocks(report).find_map(|block| match block {
        Block::Table(table) if table.id == id => Some(table),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("there is no table {id}"))
}

fn chart<'r>(report: &'r Report, id: &str) -> Option<&'r Chart> {
    blocks(report).find_map(|block| match block {
        Block::Figure(figure) if figure.id == id => Some(&figure.chart),
        _ => None,
    })
}

fn expected(case: &str) -> Value {
    let text = fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[case].take()
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// Whether a cell says what the witness says: a number, words, nothing (null), or an estimate of this value.
fn agrees(cell: &Cell, expected: &Value) -> bool {
    match (cell, expected) {
        (Cell::Missing(why), Value::Null) => !why.is_empty(),
        (Cell::Text(words), Value::String(expected)) => words == expected,
        (Cell::Number { value, .. }, Value::Number(number)) => {
            near(*value, number.as_f64().unwrap())
        }
        (
            Cell::Estimate {
                value, low, high, ..
            },
            Value::Array(one),
        ) => near(*value, one[0].as_f64().unwrap()) && low <= value && value <= high,
        // An estimate whose interval is unreliable is shown without it.
        (Cell::Number { value, .. }, Value::Array(one)) => near(*value, one[0].as_f64().unwrap()),
        _ => false,
    }
}

/// Compares every cell of every table that the witness knows; gives how many.
fn compare(case: &str) -> usize {
    let expected = expected(case);
    let files: Vec<&str> = expected["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    let report = report(&files);
    let mut cells = 0;
    for (id, rows) in expected["tables"].as_object().unwrap() {
        let table = table(&report, id);
        let rows = rows.as_array().unwrap();
        assert_eq!(
            table.rows.len(),
            rows.len(),
            "{case}: rows of {id}: {:#?}",
            table.rows
        );
        for (row, expected) in table.rows.iter().zip(rows) {
            let expected = expected.as_array().unwrap();
            assert_eq!(
                row.len(),
                expected.len(),
                "{case}: columns of {id}: {row:?}"
            );
            for ((cell, expected), column) in row.iter().zip(expected).zip(&table.columns) {
                assert!(
                    agrees(cell, expected),
                    "{case}: {id}, {:?}, {}: {cell:?} is not {expected}",
                    row[0],
                    column.title
                );
                cells += 1;
            }
        }
    }
    for (id, rows) in expected["matrices"].as_object().into_iter().flatten() {
        let Some(Chart::Matrix(matrix)) = chart(&report, id) else {
            panic!("{case}: there is no matrix {id}")
        };
        for (row, expected) in matrix.values.iter().zip(rows.as_array().unwrap()) {
            for (value, expected) in row.iter().zip(expected.as_array().unwrap()) {
                let same = value
                    .zip(expected.as_f64())
                    .is_some_and(|(value, expected)| near(value, expected));
                assert!(
                    same || (value.is_none() && expected.is_null()),
                    "{case}: {id}: {value:?} is not {expected}"
                );
                cells += 1;
            }
        }
    }
    cells
}

#[test]
fn report_numbers_of_a_run_match_an_independent_calculation() {
    assert!(compare("long") > 250);
}

#[test]
fn report_numbers_by_run_arm_and_pair_match_an_independent_calculation() {
    assert!(compare("arms") > 850);
}

#[test]
fn counters_restart_after_a_process_was_killed_and_replaced() {
    assert!(compare("restart") > 80);
}

#[test]
fn daemon_downtime_is_a_gap_not_a_validator_restart() {
    assert!(compare("two-sessions") > 80);
    let run = fixture("two-sessions.fltl");
    assert_eq!((run.processes.len(), run.sessions.len()), (1, 2));
    let report = report(&["two-sessions.fltl"]);
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("not ended")),
        "{:#?}",
        report.caveats
    );
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("1 gap in the recording")),
        "{:#?}",
        report.caveats
    );
}

#[test]
fn three_runs_per_arm_are_tested_and_the_effect_has_an_interval() {
    let expected = expected("arms");
    let files: Vec<&str> = expected["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    let report = report(&files);
    let row = &table(&report, "primary").rows[0];
    let number = |name: &str| expected["primary"][name].as_f64().unwrap();
    let Cell::Estimate {
        value, low, high, ..
    } = &row[1]
    else {
        panic!("{row:?}")
    };
    assert!(near(*value, number("difference")) && low < value && value < high);
    let Cell::Estimate { value: ratio, .. } = &row[2] else {
        panic!("{row:?}")
    };
    assert!(near(*ratio, number("ratio")));
    assert!(
        agrees(&row[4], &expected["primary"]["reference"])
            && agrees(&row[5], &expected["primary"]["other"])
    );
    // The limits differ, so the headline is the bracket, which tests nothing; the test is a point below it.
    assert_eq!(report.verdict.kind, VerdictKind::Described);
    assert!(
        report.verdict.bullets[0].contains("equivalent within the margin"),
        "{:#?}",
        report.verdict
    );
    assert!(
        report
            .verdict
            .headline
            .contains("The smallest limit with which every run kept up is 256 GiB."),
        "{}",
        report.verdict.headline
    );
    assert!(
        !report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("single run"))
    );
    assert_eq!(
        report
            .runs
            .iter()
            .map(|run| run.arm.as_str())
            .collect::<Vec<_>>(),
        ["512", "512", "512", "1024", "1024", "1024"]
    );
}

/// An arm of runs that were killed before they replayed anything, whichever ran first, and wherever the plan has it.
#[test]
fn an_arm_without_values_does_not_suppress_other_comparisons() {
    let runs = runs_with_a_killed_arm();

    let of = |order| build_with_context(runs.clone(), &Options::default(), arms(order));
    let pairs = |report: &Report| -> Vec<String> {
        let rows = &table(report, "primary").rows;
        rows.iter()
            .map(|row| {
                if let Cell::Text(pair) = &row[0] {
                    pair.clone()
                } else {
                    panic!("{row:?}")
                }
            })
            .collect()
    };
    for (order, expected) in [
        (
            ["512", "1024", "oom"],
            ["1024 against 512", "oom against 512"],
        ),
        (
            ["1024", "oom", "512"],
            ["oom against 1024", "512 against 1024"],
        ),
        (
            ["oom", "512", "1024"],
            ["oom against 512", "1024 against 512"],
        ),
    ] {
        let report = of(order);
        assert_eq!(pairs(&report), expected, "{order:?}");
        assert_eq!(report.verdict.kind, VerdictKind::Equivalent);
        assert!(
            report
                .verdict
                .bullets
                .iter()
                .any(|point| point.contains("equivalent within")),
            "{:#?}",
            report.verdict
        );
        let from_experiment = blocks(&report).any(|block| {
            matches!(block, Block::Text(text) if text.contains("compared with 512, the first that has values of")
                && text.contains("no run of oom has any"))
        });
        assert_eq!(from_experiment, order[0] == "oom");
    }
}

/// Of a plan that gave each arm a limit, the arms with the same one are compared all the same, and that comes first.
#[test]
fn arms_with_equal_limits_are_compared_despite_a_killed_other_arm() {
    let runs = runs_with_a_killed_arm();
    let limit = |run: &Run| {
        if run.labels.iter().any(|(_, arm)| arm == "oom") {
            1
        } else {
            2
        }
    };
    let experiment_outcome = |run: &Run| {
        Some(ExperimentOutcome {
            limit: Some(limit(run) << 30),
            ..ExperimentOutcome::default()
        })
    };
    let runs: Vec<Run> = runs
        .iter()
        .map(|run| Run {
            experiment_outcome: experiment_outcome(run),
            ..run.clone()
        })
        .collect();
    let context = ReportContext {
        headline: Some("Killed: oom.".to_owned()),
        ..arms(["512", "1024", "oom"])
    };
    let verdict = build_with_context(runs, &Options::default(), context).verdict;
    assert_eq!(verdict.kind, VerdictKind::Equivalent);
    assert!(
        verdict
            .headline
            .contains("1024 and 512 are equivalent within 5 %"),
        "{verdict:#?}"
    );
    assert!(verdict.headline.ends_with(" Killed: oom."), "{verdict:#?}");
}

fn arms(order: [&str; 3]) -> ReportContext {
    ReportContext {
        arms: order.map(str::to_owned).to_vec(),
        ..ReportContext::default()
    }
}

fn runs_with_a_killed_arm() -> Vec<Run> {
    let killed = |number: &str| Run {
        labels: vec![
            ("arm".to_owned(), "oom".to_owned()),
            ("run".to_owned(), number.to_owned()),
        ],
        file: format!("oom-{number}.fltl"),
        ..Run::default()
    };
    let names = [
        "arm-1024-1",
        "arm-512-1",
        "arm-512-2",
        "arm-1024-2",
        "arm-512-3",
        "arm-1024-3",
    ];
    let recorded = names.map(|name| limited(&format!("{name}.fltl"), 512.0));
    ["1", "2", "3"]
        .map(killed)
        .into_iter()
        .chain(recorded)
        .collect()
}

#[test]
fn with_equal_limits_ranking_and_headline_use_the_primary_metric() {
    let names = [
        "arm-512-1",
        "arm-512-2",
        "arm-512-3",
        "arm-1024-1",
        "arm-1024-2",
        "arm-1024-3",
    ];
    let runs = names.map(|name| limited(&format!("{name}.fltl"), 512.0));
    let verdict = build(runs, &Options::default()).verdict;
    assert_eq!(verdict.kind, VerdictKind::Equivalent);
    assert!(
        verdict
            .headline
            .contains("1024 and 512 are equivalent within 5 %"),
        "{verdict:#?}"
    );
}

#[test]
fn arms_without_variance_are_reported_with_their_values() {
    let replay = |arm: &str, run: usize, elapsed_ms: f64| {
        let slot = |slot| OfflineReplaySlot {
            slot,
            elapsed_ms: Some(elapsed_ms),
            ..OfflineReplaySlot::default()
        };
        let labels = [("arm", arm.to_owned()), ("run", run.to_string())]
            .map(|(key, value)| (key.to_owned(), value));
        let experiment_outcome = ExperimentOutcome {
            is_offline_replay: true,
            success: Some(true),
            success_reason: "all of its work was done".into(),
            ..ExperimentOutcome::default()
        };
        let offline_replay = OfflineReplay {
            slots: (1..=20).map(slot).collect(),
            ..OfflineReplay::default()
        };
        Run {
            labels: labels.into(),
            experiment_outcome: Some(experiment_outcome),
            offline_replay,
            ..fixture("arm-512-1.fltl")
        }
    };
    let arms = |arms: [(&'static str, f64); 2]| {
        let runs = arms
            .iter()
            .flat_map(|&(arm, time)| (1..=3).map(move |run| replay(arm, run, time)));
        build(runs, &Options::default()).verdict
    };
    let verdict = arms([("small", 30.0), ("big", 3.0)]);
    let said = "Replay time per slot, p95, big against small: 3.0 ms in every run against 30.0 ms in every run. No run \
                differs from another of its arm, so there is nothing to test against.";
    assert!(verdict.headline.contains(said), "{verdict:#?}");
    assert!(
        verdict
            .bullets
            .contains(&"6 of 6 runs did their work to the end.".to_owned()),
        "{verdict:#?}"
    );
    assert!(!format!("{verdict:?}").contains("kept up"), "{verdict:#?}");
    let verdict = arms([("one", 3.0), ("other", 3.0)]);
    assert!(
        verdict
            .headline
            .contains("other and one: 3.0 ms in every run."),
        "{verdict:#?}"
    );
}

#[test]
fn unreliable_intervals_are_one_caveat_and_a_table() {
    let names = [
        "arm-512-1",
        "arm-512-2",
        "arm-512-3",
        "arm-1024-1",
        "arm-1024-2",
        "arm-1024-3",
    ];
    let names = names.map(|name| format!("{name}.fltl"));
    let report = report(&names.each_ref().map(String::as_str));
    let about: Vec<_> = report
        .caveats
        .iter()
        .filter(|one| one.remedy.starts_with("Record longer"))
        .collect();
    assert_eq!(about.len(), 1, "{:#?}", report.caveats);
    assert!(
        about[0]
            .what
            .contains("TPS (every run), misses per batch (1024, run 1)"),
        "{about:#?}"
    );
    assert_eq!(table(&report, "within-run-limits").rows.len(), 7);
    let short: Vec<_> = report
        .caveats
        .iter()
        .filter(|one| one.what.contains("too short to show"))
        .collect();
    assert_eq!(
        (short.len(), report.caveats.len()),
        (1, 3),
        "{:#?}",
        report.caveats
    );
    assert!(
        short[0]
            .what
            .starts_with("Every run: it was at the tip for only"),
        "{short:#?}"
    );
}

#[test]
fn a_run_under_another_load_than_the_others_is_named_as_outlier() {
    let names = ["512-1", "512-2", "512-3", "1024-1", "1024-2", "1024-3"];
    let mut runs = names.map(|name| fixture(&format!("arm-{name}.fltl")));
    let outliers = |runs: &[Run]| -> Vec<String> {
        let caveats = build(runs.to_vec(), &Options::default())
            .caveats
            .into_iter();
        let named = caveats.filter(|caveat| caveat.what.contains("outlier"));
        named.map(|caveat| caveat.what).collect()
    };
    assert_eq!(outliers(&runs), [""; 0]);
    for point in &mut runs[1].points.costs {
        point.transaction_count = point.transaction_count.map(|count| count / 3);
    }
    let found = outliers(&runs);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("512, run 2: transactions per second ")
            && found[0].contains(" where the others of its arm have "),
        "{found:?}"
    );
    for run in [0, 2] {
        for point in &mut runs[run].points.costs {
            point.transaction_count = point.transaction_count.map(|count| count / 3);
        }
    }
    let mut larger = runs[3..].to_vec();
    for run in &mut larger {
        run.labels.retain(|(name, _)| name != "arm");
        run.labels.push(("arm".to_owned(), "2048".to_owned()));
    }
    let runs = [runs.to_vec(), larger].concat();
    assert_eq!(outliers(&runs), [""; 0], "a whole arm is no outlier");
}

#[test]
fn a_metric_that_falls_to_zero_stays_among_the_effects() {
    let names = ["512-1", "512-2", "512-3", "1024-1", "1024-2", "1024-3"];
    let mut runs = names.map(|name| fixture(&format!("arm-{name}.fltl")));
    for point in runs[3..].iter_mut().flat_map(|run| &mut run.points.cache) {
        point.misses = Some(0);
    }
    let report = build(runs, &Options::default());
    let Some(Chart::Forest(forest)) = chart(&report, "effects") else {
        panic!("no effects")
    };
    let mut texts = forest.rows.iter().map(|row| &row.text);
    assert!(
        texts.any(|text| text.ends_with("100 % lower")),
        "{:#?}",
        forest.rows
    );
}

#[test]
fn a_run_and_each_arm_has_the_three_lines_of_the_status_page() {
    let lines = |report: &Report| -> Vec<Vec<String>> {
        let answers = report.answers.iter();
        let texts = answers.map(|one| one.findings.iter().map(|one| one.text.clone()));
        texts.map(Iterator::collect).collect()
    };
    for lines in lines(&report(&["long.fltl"])) {
        let starts = ["RAM: ", "Program cache: ", "Earns: "];
        assert_eq!(lines.len(), 3);
        let fits = |(line, start): (&String, &str)| line.starts_with(start) && line.ends_with('.');
        assert!(lines.iter().zip(starts).all(fits), "{lines:#?}");
        assert!(lines[1].contains("per slot"), "{lines:#?}");
    }
    let arms = report(&["arm-512-1.fltl", "arm-1024-1.fltl"]);
    assert_eq!(lines(&arms).len(), 2);
    assert!(report(&["any-process.fltl"]).answers.is_empty());
}

#[test]
fn no_average_takes_more_than_a_tenth_of_a_run() {
    let report = report(&["any-process.fltl"]);
    let figure = blocks(&report).find_map(|block| match block {
        Block::Figure(figure) if figure.id == "minor-faults-over-time" => Some(figure),
        _ => None,
    });
    let caption = &figure.unwrap().caption;
    assert!(
        caption.starts_with("Moving average over 6 samples"),
        "60 ticks: {caption}"
    );
}

#[test]
fn columns_without_any_value_are_omitted_with_a_note() {
    let report = report(&["arm-1024-1.fltl", "arm-512-1.fltl"]);
    for id in ["primary", "other-metrics"] {
        let table = table(&report, id);
        assert!(
            !table.columns.iter().any(|column| column.title == "Ratio"),
            "{:?}",
            table.columns
        );
        assert!(
            table
                .note
                .contains("Columns left out (needs two runs in each arm"),
            "{}",
            table.note
        );
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.columns.len())
        );
    }
}

#[test]
fn report_texts_contain_no_unrendered_code_marks() {
    for names in [
        &["long.fltl"][..],
        &["arm-1024-1.fltl", "arm-512-1.fltl"],
        &["any-process.fltl"],
    ] {
        let mut report = report(names);
        // The page renders their commands.
        report.answers.clear();
        let all = all_texts(&report);
        assert!(!all.iter().any(|text| text.contains('`')), "{all:#?}");
    }
}

#[test]
fn plot_lines_break_where_validator_or_daemon_was_down() {
    for (name, from, to) in [
        ("restart.fltl", 98.75, 159.75),
        ("two-sessions.fltl", 0.0, 0.0),
    ] {
        let run = fixture(name);
        let report = report(&[name]);
        // Of two sessions the time between them.
        let pair = run
            .ticks
            .windows(2)
            .find(|pair| pair[0].session != pair[1].session);
        let (from, to) = pair.map_or((from, to), |pair| (pair[0].at, pair[1].at));
        for id in ["tps-over-time", "replay-over-time"] {
            let Some(Chart::Timeline(chart)) = chart(&report, id) else {
                panic!("{name}: no {id}")
            };
            let line = &chart.series[0];
            let points: Vec<(f64, Option<f64>)> =
                line.x.iter().copied().zip(line.y.iter().copied()).collect();
            let across = points
                .windows(2)
                .find(|pair| pair.iter().all(|(_, y)| y.is_some()) && pair[1].0 - pair[0].0 > 10.0);
            assert!(across.is_none(), "{name}, {id}: drawn through {across:?}");
            let breaks = points
                .iter()
                .any(|(x, y)| y.is_none() && (from - 5.0..=to + 5.0).contains(x));
            assert!(breaks, "{name}, {id}: no break from {from} to {to}");
        }
    }
}

#[test]
fn seconds_of_a_gap_are_unknown_not_zero_tps() {
    let mut run = fixture("arm-512-1.fltl");
    let numbers = |run: Run| {
        let report = build([run], &Options::default());
        table(&report, "tps").rows[0]
            .iter()
            .map(|cell| match cell {
                Cell::Number { value, .. } => Some(*value),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let whole = numbers(run.clone());
    // As a full disk leaves it: neither ticks nor points of a minute.
    let lost = |at: f64| (100.0..160.0).contains(&at);
    let origin = run.origin_unix_ns;
    let at = |unix_ns: i64| (unix_ns - origin) as f64 / 1e9;
    let retained: Vec<bool> = run.ticks.iter().map(|tick| !lost(tick.at)).collect();
    for signal in run.signals.iter_mut().filter(|signal| !signal.is_empty()) {
        let mut index = 0..;
        signal.retain(|_| retained[index.next().unwrap()]);
    }
    run.thread_pools.clear();
    run.ticks.retain(|tick| !lost(tick.at));
    run.points
        .costs
        .retain(|point| !lost(at(point.time_unix_ns)));
    run.points
        .replay
        .retain(|point| !lost(at(point.time_unix_ns)));
    run.points
        .cache
        .retain(|point| !lost(at(point.time_unix_ns)));
    run.points
        .roots
        .retain(|point| !lost(at(point.time_unix_ns)));
    let cut = numbers(run);
    let column = |values: &[Option<f64>], index: usize| values[index].unwrap();
    assert!(
        (column(&cut, 5) - column(&whole, 5) - 60.0).abs() <= 1.0,
        "unknown: {cut:?}, {whole:?}"
    );
    assert!(
        column(&cut, 4) <= column(&whole, 4),
        "zero: {cut:?}, {whole:?}"
    );
    assert!(
        (column(&cut, 2) / column(&whole, 2) - 1.0).abs() < 0.05,
        "average: {cut:?}, {whole:?}"
    );
}

#[test]
fn a_run_given_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.fltl");
    let file = fixtures().join("arm-512-1.fltl");
    fs::copy(&file, &copy).unwrap();
    let words = ["report".into(), file, copy];
    let args = Line::try_parse_from(words).unwrap().report;
    let said = faultline_report::report_command::report_command(&args)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("arm-512-1.fltl and ")
            && said.contains("copy.fltl recorded the same process at the same time"),
        "{said}"
    );
    let names = [
        "arm-512-1",
        "arm-512-2",
        "arm-1024-1",
        "restart",
        "long",
        "two-sessions",
    ];
    let runs = names.map(|name| fixture(&format!("{name}.fltl")));
    for (place, one) in runs.iter().enumerate() {
        assert!(
            runs[place + 1..]
                .iter()
                .all(|other| !one.shares_recording_with(other) && !other.shares_recording_with(one)),
            "{}",
            one.file
        );
    }
}

#[test]
fn one_run_per_arm_is_never_reported_better_worse_or_equal() {
    let report = report(&["arm-1024-1.fltl", "arm-512-1.fltl"]);
    assert_eq!(report.verdict.kind, VerdictKind::Described);
    let tables =
        [table(&report, "primary"), table(&report, "other-metrics")].map(|table| &table.rows);
    let said = format!("{:?} {tables:?}", report.verdict);
    assert!(said.contains("described, not tested"), "{said}");
    let notes = ["primary", "other-metrics"].map(|id| table(&report, id).note.clone());
    let caveats: Vec<&str> = report
        .caveats
        .iter()
        .map(|caveat| caveat.what.as_str())
        .collect();
    let said = format!("{said} {notes:?} {caveats:?}").to_lowercase();
    for word in [
        "better",
        "worse",
        "equal",
        "equivalent",
        "the same",
        "differs",
        "lower",
        "higher",
        "p =",
    ] {
        let whole = said.match_indices(word).find(|(at, _)| {
            let around = [
                said[..*at].chars().next_back(),
                said[at + word.len()..].chars().next(),
            ];
            around
                .iter()
                .all(|c| c.is_none_or(|c| !c.is_alphanumeric()))
        });
        assert!(whole.is_none(), "{word}: {said}");
    }
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("a single run")),
        "{:#?}",
        report.caveats
    );
}

#[test]
fn equal_slot_numbers_of_another_chain_are_not_paired() {
    let has_pairs = |report: &Report| {
        blocks(report).any(|block| matches!(block, Block::Table(table) if table.id == "paired"))
    };
    let load = |report: &Report| {
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("did not process the same slots"))
    };
    let same = report(&["arm-1024-1.fltl", "arm-512-1.fltl"]);
    assert!(has_pairs(&same) && !load(&same));
    let other = report(&["arm-1024-1.fltl", "restart.fltl"]);
    assert!(!has_pairs(&other) && load(&other));
}

#[test]
fn two_runs_per_arm_are_estimated_but_not_tested() {
    let report = report(&[
        "arm-1024-1.fltl",
        "arm-1024-2.fltl",
        "arm-512-1.fltl",
        "arm-512-2.fltl",
    ]);
    let row = format!("{:?}", table(&report, "primary").rows);
    assert!(
        row.contains("a test needs 3") && row.contains("Estimate"),
        "{row}"
    );
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("too few for a test")),
        "{:#?}",
        report.caveats
    );
}

#[test]
fn runs_without_points_report_why_numbers_are_missing() {
    for name in ["one-tick.fltl", "empty.fltl"] {
        let report = report(&[name]);
        for id in ["tps", "slots", "cache"] {
            let mut sections = report.sections.iter();
            let section = sections.find(|section| section.id == id).unwrap();
            let line = Block::Text("No datapoints were recorded.".to_owned());
            assert_eq!(section.blocks, [line], "{name}: {id}");
        }
        let headline = &report.verdict.headline;
        assert!(headline.contains("not known"), "{name}: {headline}");
        assert_eq!(report.verdict.kind, VerdictKind::Described);
    }
}

/// Every text of the report, however deep. The names of fields are between them.
fn all_texts(report: &Report) -> Vec<String> {
    let debug = format!("{report:?}");
    debug.split('"').map(str::to_owned).collect()
}

#[test]
fn a_process_that_is_no_validator_is_reported_without_tips_and_slots() {
    let run = fixture("any-process.fltl");
    let pair = ["a", "b"].map(|arm| Run {
        labels: vec![("arm".to_owned(), arm.to_owned())],
        ..run.clone()
    });
    for runs in [&[run.clone()][..], &pair] {
        let primary = faultline_report::report::default_metric(runs);
        assert_eq!(primary.id, "rss-mean");
        let options = Options {
            primary,
            ..Options::default()
        };
        for text in all_texts(&build(runs.to_vec(), &options)) {
            let words = text.to_lowercase();
            let mut words = words.split(|letter: char| !letter.is_alphanumeric());
            assert!(
                !words.any(|word| ["tip", "slot", "slots"].contains(&word)),
                "{text}"
            );
        }
    }
    // The daemon's phase is that of a validator, which there is not.
    let mut absent = run.clone();
    for tick in &mut absent.ticks {
        tick.phase = Some("absent".into());
    }
    let options = Options {
        primary: faultline_report::report::default_metric(&[run]),
        ..Options::default()
    };
    let shaded = build([absent], &options);
    let Some(Chart::Timeline(rss)) = chart(&shaded, "rss-over-time") else {
        panic!("no timeline")
    };
    assert_eq!(rss.bands, []);
    let report = report(&["any-process.fltl"]);
    assert!(
        report
            .verdict
            .headline
            .contains("shows nothing of a validator")
    );
    assert!(
        matches!(table(&report, "memory").rows[0][3], Cell::Number { value, .. } if value > 3.0)
    );
    assert!(chart(&report, "rss-over-time").is_some() && chart(&report, "tps-over-time").is_none());
}

#[test]
fn points_without_a_transaction_give_no_tps_and_no_first_execution() {
    let report = report(&["no-transactions.fltl"]);
    let outcome = &table(&report, "outcome").rows[0];
    assert!(
        matches!(&outcome[4], Cell::Missing(why) if why == "no transaction was recorded"),
        "{outcome:?}"
    );
    let cache = &table(&report, "cache").rows[0];
    assert!(
        matches!(cache[9], Cell::Number { value: 30.0, .. }),
        "{cache:?}"
    );
}

#[test]
fn a_clock_step_does_not_shift_the_report() {
    let run = fixture("clock-set.fltl");
    assert!(near(run.end_seconds(), 59.0), "{}", run.end_seconds());
    let report = report(&["clock-set.fltl"]);
    let outcome = table(&report, "outcome");
    let gaps = outcome
        .columns
        .iter()
        .position(|column| column.title == "Gaps")
        .unwrap();
    assert_eq!(
        outcome.rows[0][gaps],
        Cell::Number {
            value: 0.0,
            decimals: 0
        }
    );
}

#[test]
fn a_report_of_a_demo_has_a_demonstration_caveat() {
    let report = report(&["demo.fltl"]);
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("demonstration")),
        "{:#?}",
        report.caveats
    );
}

#[test]
fn a_salvaged_recording_is_labelled_without_claiming_its_end_or_outcome() {
    let mut run = fixture("arm-512-1.fltl");
    assert_eq!(run.salvaged, None);
    run.salvaged = Some("arm-512-1.fltl".to_owned());
    let report = build([run], &Options::default());
    assert!(
        report.caveats[0]
            .what
            .contains("salvaged from arm-512-1.fltl"),
        "{:#?}",
        report.caveats
    );
    assert!(
        report
            .verdict
            .headline
            .starts_with("Whether 512, run 1 kept up is not known"),
        "{:#?}",
        report.verdict
    );
    assert!(
        report.verdict.bullets[0].contains("not known: the recording was damaged"),
        "{:#?}",
        report.verdict
    );
}

#[test]
fn a_report_without_runs_is_valid() {
    let report = build([], &Options::default());
    assert!(report.sections.is_empty() && report.runs.is_empty());
    assert_eq!(report.verdict.headline, "There is no run to report.");
}

#[test]
fn bands_events_and_gaps_are_on_every_timeline() {
    let report = report(&["long.fltl"]);
    let mut timelines = 0;
    for block in blocks(&report) {
        let Block::Figure(figure) = block else {
            continue;
        };
        let Chart::Timeline(timeline) = &figure.chart else {
            continue;
        };
        timelines += 1;
        for name in ["downloading", "at tip", "behind", "gap"] {
            assert!(
                timeline.bands.iter().any(|band| band.name == name),
                "{}: no band {name}",
                figure.id
            );
        }
        for name in ["first transaction", "at tip", "epoch"] {
            assert!(
                timeline.marks.iter().any(|mark| mark.name == name),
                "{}: no mark {name}",
                figure.id
            );
        }
        for line in &timeline.series {
            assert!(
                line.x.len() == line.y.len() && line.x.windows(2).all(|pair| pair[0] <= pair[1]),
                "{}",
                figure.id
            );
        }
    }
    assert!(timelines >= 11, "{timelines}");
    let Some(Chart::Timeline(rss)) = chart(&report, "rss-over-time") else {
        panic!("no RSS")
    };
    let within = |x: &f64| *x > 500.0 && *x < 539.0;
    let broken = rss.series[0]
        .x
        .iter()
        .zip(&rss.series[0].y)
        .any(|(x, y)| within(x) && y.is_none());
    assert!(broken, "the line does not break in the gap");
}

#[test]
fn report_tables_are_rectangular_with_unique_ids_and_number_notes() {
    for names in [
        &["long.fltl"][..],
        &[
            "arm-1024-1.fltl",
            "arm-512-1.fltl",
            "long.fltl",
            "empty.fltl",
            "restart.fltl",
        ],
    ] {
        let report = report(names);
        let mut ids = Vec::new();
        for block in blocks(&report) {
            match block {
                Block::Table(table) => {
                    ids.push(table.id.clone());
                    assert!(!table.note.is_empty(), "{}", table.id);
                    assert!(
                        table
                            .rows
                            .iter()
                            .all(|row| row.len() == table.columns.len()),
                        "{}",
                        table.id
                    );
                }
                Block::Figure(figure) => {
                    ids.push(figure.id.clone());
                    assert!(!figure.caption.is_empty(), "{}", figure.id);
                }
                Block::Text(words) | Block::Fold(words) => assert!(!words.is_empty()),
            }
        }
        ids.extend(
            report
                .sections
                .iter()
                .map(|section| format!("section {}", section.id)),
        );
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "{ids:?}");
        assert!(ids.iter().all(|id| id.starts_with("section ")
            || id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')));
    }
}

#[test]
fn the_same_runs_give_the_same_report() {
    let once = || format!("{:?}", report(&["arm-512-1.fltl", "arm-1024-1.fltl"]));
    assert_eq!(once(), once());
}

/// The run with another memory limit.
fn limited(name: &str, gib: f64) -> Run {
    let mut run = fixture(name);
    for limit in run.signals[Signal::Limit as usize].iter_mut().flatten() {
        *limit = gib * 1_073_741_824.0;
    }
    run
}

#[test]
fn limits_give_a_bracket_of_tried_values_only() {
    let runs = [
        limited("restart.fltl", 128.0),
        limited("arm-512-1.fltl", 256.0),
        limited("arm-512-2.fltl", 512.0),
    ];
    let report = build(runs, &Options::default());
    let headline = "The smallest limit with which every run kept up is 256 GiB. The largest limit with which a run failed is 128 GiB.";
    assert_eq!(report.verdict.headline, headline);
    let runs = [
        limited("restart.fltl", 1024.0),
        limited("arm-512-1.fltl", 256.0),
    ];
    let verdict = build(runs, &Options::default()).verdict;
    assert!(
        verdict.bullets[0].contains("These contradict each other"),
        "{verdict:#?}"
    );
}

#[test]
fn an_unfinished_recording_is_reported_up_to_its_last_tick() {
    use faultline_metrics::Stamp;
    use faultline_recording::{NewRecording, NewSession, Writer};
    use std::time::Duration;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.fltl");
    let begun = Stamp {
        uptime: Duration::ZERO,
        unix: Duration::from_secs(1_735_700_000),
    };
    let session = NewSession {
        started: begun,
        interval: Duration::from_secs(1),
        version: "0".to_owned(),
        manifest: serde_json::json!({ "host": { "cpu": ["not", "a", "map"], "disks": { "name": 1 } }, "daemon": null }),
    };
    let mut writer = Writer::create(
        &path,
        &NewRecording {
            labels: vec![("arm".into(), "</script>".into())],
            session,
        },
    )
    .unwrap();
    for number in 1..=5u64 {
        let at = Duration::from_secs(number);
        let stamp = Stamp {
            uptime: at,
            unix: begun.unix + at,
        };
        let tick = faultline_metrics::Tick {
            number,
            at: stamp,
            batches: Vec::new(),
        };
        writer.tick(&tick).unwrap();
        writer.commit().unwrap();
    }
    let run = load(&path).unwrap();
    assert_eq!((run.ticks.len(), run.finished), (5, false));
    let report = build([run], &Options::default());
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.contains("still being written")),
        "{:#?}",
        report.caveats
    );
    assert_eq!(report.runs[0].id, "script");
    drop(writer);
}

#[test]
fn an_unknown_metric_is_refused_with_the_list_of_valid_ones() {
    let words = ["report", "x.fltl", "--primary", "speed"];
    let said = Line::try_parse_from(words).err().unwrap().to_string();
    assert!(
        said.contains("'speed' for '--primary")
            && said.contains("replay-p95")
            && said.contains("cache-misses"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_not_a_recording_is_refused_by_name() {
    let here = fixtures().join("make.py").display().to_string();
    let args = Line::try_parse_from(["report", &here]).unwrap().report;
    let said = format!(
        "{:#}",
        faultline_report::report_command::report_command(&args).unwrap_err()
    );
    assert!(said.contains("make.py"), "{said}");
}

/// A run of anything: ticks that stand still or leap, phases and processes at random, counters that fall, huge points.
fn any_run() -> impl Strategy<Value = Run> {
    let tick = (
        0u64..5000,
        0i64..3,
        proptest::option::of(0i64..3),
        proptest::option::of("at_tip|behind|catching_up|gone"),
    );
    let ticks = proptest::collection::vec((tick, proptest::option::of(-1e18f64..1e18)), 0..60);
    let time = prop_oneof![9 => -10_000i64..300_000, 1 => any::<i64>()];
    let points =
        proptest::collection::vec((time, proptest::option::of(any::<u64>()), 0u64..9), 0..60);
    ("[a-c]?", ticks, points, any::<bool>()).prop_map(|(arm, ticks, points, finished)| {
        let mut run = Run {
            file: "any.fltl".to_owned(),
            finished,
            origin_unix_ns: 1_000_000_000_000,
            ..Run::default()
        };
        run.labels.push(("arm".to_owned(), arm));
        run.sessions.push(Session {
            interval_seconds: 1.0,
            ..Session::default()
        });
        run.processes = (0..3)
            .map(|id| Process {
                pid: id,
                first_seen_at: id as f64 * 20.0,
                started_at: None,
            })
            .collect();
        let mut at = 0.0;
        run.signals = vec![Vec::new(); Signal::ALL.len()];
        for ((step, session, process, phase), value) in ticks {
            at += step as f64 / 1e3;
            run.ticks.push(Tick {
                at,
                session,
                process,
                phase: phase.map(Into::into),
            });
            run.signals.iter_mut().for_each(|signal| signal.push(value));
        }
        for (ms, value, small) in points {
            push_points(&mut run, ms, value, small);
        }
        run.points.costs.sort_by_key(|point| point.time_unix_ns);
        run.points.cache.sort_by_key(|point| point.time_unix_ns);
        run.points.replay.sort_by_key(|point| point.time_unix_ns);
        run
    })
}

fn push_points(run: &mut Run, ms: i64, value: Option<u64>, small: u64) {
    let time_unix_ns = ms
        .saturating_mul(1_000_000)
        .saturating_add(run.origin_unix_ns);
    let slot = Some(small);
    // Counts as large as the database can hold.
    let count = value.map(|value| value >> 1);
    run.points.costs.push(CostTrackerPoint {
        time_unix_ns,
        transaction_count: value.map(|_| small),
        ..Default::default()
    });
    run.points.cache.push(ProgramCachePoint {
        time_unix_ns,
        slot,
        misses: count,
        water_level: count,
        ..Default::default()
    });
    run.points.replay.push(ReplaySlotPoint {
        time_unix_ns,
        slot,
        total_transactions: count,
        total_entries: slot,
        total_shreds: slot,
        replay_total_elapsed_us: count,
        program_cache_us: count,
        execute_us: slot,
        register_syscalls_us: count,
        load_elf_us: count,
        verify_code_us: count,
        jit_compile_us: count,
        ..Default::default()
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_recording_gives_a_report_with_finite_numbers(runs in proptest::collection::vec(any_run(), 0..4)) {
        let report = build(runs.clone(), &Options::default());
        prop_assert_eq!(report.runs.len(), runs.len());
        for block in blocks(&report) {
            let Block::Table(table) = block else { continue };
            for row in &table.rows {
                prop_assert_eq!(row.len(), table.columns.len());
                for cell in row {
                    let fine = match cell.without_link() {
                        Cell::Number { value, .. } => value.is_finite(),
                        Cell::Estimate { value, low, high, .. } => [value, low, high].iter().all(|value| value.is_finite()),
                        Cell::Text(_) => true,
                        Cell::Missing(why) => !why.is_empty(),
                        Cell::Linked { .. } => false,
                    };
                    prop_assert!(fine, "{}: {cell:?}", table.id);
                }
            }
        }
    }
}
