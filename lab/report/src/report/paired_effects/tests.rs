use crate::{
    report::{
        Options, build,
        measured_run::MeasuredRuns,
        model::{Block, Cell, Report, Table, VerdictKind},
        run_metric,
    },
    run::{ExperimentOutcome, Run, Signal, Tick},
};
use faultline_recording::ReplaySlotPoint;
use faultline_stats::block_bootstrap::IntervalPlan;

/// Pseudo-random numbers that are the same in every test.
struct Noise(u64);

impl Noise {
    /// From -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
    }
}

/// A run of a turn. All runs of a turn replay the same slots. `cache_ms` is the part of their
/// program cache time that is specific to the run.
fn run(arm: &str, turn: u64, second: bool, cache_ms: f64) -> Run {
    let (mut load, mut own) = (
        Noise(turn),
        Noise(turn * 100 + arm.len() as u64 * 10 + u64::from(second)),
    );
    let origin = 1_800_000_000_000_000_000_i64;
    let points = (0..300_u64).map(|index| {
        let (load, own) = (load.next(), own.next());
        ReplaySlotPoint {
            time_unix_ns: origin + index as i64 * 400_000_000,
            slot: Some(turn * 1000 + index),
            total_transactions: Some(1000 + (100.0 * load) as u64),
            total_entries: Some(64),
            total_shreds: Some(900),
            replay_total_elapsed_us: Some((200_000.0 + 50_000.0 * load + 4_000.0 * own) as u64),
            program_cache_us: Some((1e3 * (20.0 + 5.0 * load + cache_ms + 0.5 * own)) as u64),
            ..ReplaySlotPoint::default()
        }
    });
    let mut labels = vec![("experiment", "e"), ("arm", arm), ("lane", "l")];
    let turn = turn.to_string();
    labels.extend([("turn", turn.as_str()), ("run", turn.as_str())]);
    labels.extend(second.then_some(("second", "1")));
    let mut run = Run {
        file: format!("{arm}-{turn}-{second}.fltl"),
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        finished: true,
        origin_unix_ns: origin,
        ticks: (0..120)
            .map(|at| Tick {
                at: f64::from(at),
                session: 1,
                ..Tick::default()
            })
            .collect(),
        signals: vec![vec![None; 120]; Signal::ALL.len()],
        ..Run::default()
    };
    run.points.replay = points.collect();
    run
}

/// `count` turns of two arms, with a second run of the first arm. In milliseconds, the program
/// cache time of the other arm differs by `effect`, and that of the second run by `bias`.
fn turns(count: u64, effect: f64, bias: f64) -> Vec<Run> {
    let of_turn = |turn| {
        [
            run("512", turn, false, 0.0),
            run("1024", turn, false, effect),
            run("512", turn, true, bias),
        ]
    };
    (1..=count).flat_map(of_turn).collect()
}

fn report(runs: &[Run]) -> Report {
    build(
        runs.to_vec(),
        &Options {
            primary: run_metric("cache-time").unwrap(),
            ..Options::default()
        },
    )
}

fn table<'r>(report: &'r Report, id: &str) -> &'r Table {
    let blocks = report.sections.iter().flat_map(|section| &section.blocks);
    let mut tables = blocks.filter_map(|block| {
        if let Block::Table(table) = block {
            Some(table)
        } else {
            None
        }
    });
    tables
        .find(|table| table.id == id)
        .unwrap_or_else(|| panic!("there is no table {id}"))
}

/// `runs` with only the first `slots` slots.
fn shortened(mut runs: Vec<Run>, slots: usize) -> Vec<Run> {
    runs.iter_mut()
        .for_each(|run| run.points.replay.truncate(slots));
    runs
}

fn words(cell: &Cell) -> &str {
    if let Cell::Text(words) = cell {
        words
    } else {
        ""
    }
}

#[test]
fn a_difference_beyond_the_a_a_pair_is_reported_as_real() {
    let report = report(&turns(3, -10.0, 0.0));
    let floor = table(&report, "bias-floor");
    let cache: Vec<_> = floor
        .rows
        .iter()
        .filter(|row| words(&row[0]) == "Program cache time")
        .collect();
    // The first row compares an arm with itself.
    assert_eq!(words(&cache[0][1]), "512 against itself (A/A)");
    assert!(
        words(&cache[0][7]).starts_with("equivalent within 5 %"),
        "{cache:#?}"
    );
    assert_eq!(
        (words(&cache[1][1]), words(&cache[1][7])),
        ("1024 against 512", "beyond the bias floor")
    );
    assert_eq!(report.verdict.kind, VerdictKind::Differs);
    assert!(
        report
            .verdict
            .headline
            .contains("lower with 1024 than with 512"),
        "{:#?}",
        report.verdict
    );
    assert!(
        report.verdict.bullets[0].contains("(A/A)"),
        "{:#?}",
        report.verdict
    );
    assert_eq!(report.runs.len(), 9);
    assert!(
        report.subtitle.starts_with("9 runs of 2 arms"),
        "{}",
        report.subtitle
    );
}

#[test]
fn a_difference_within_the_a_a_pairs_is_not_called_real() {
    let report = report(&turns(3, -2.0, 2.5));
    assert_eq!(report.verdict.kind, VerdictKind::Inconclusive);
    let shown = format!("{:?}", report.verdict);
    assert!(
        shown.contains("no difference beyond it is shown between 1024 and 512"),
        "{shown}"
    );
    assert!(
        shown.contains("not beyond the bias floor, so not called real"),
        "{shown}"
    );
    // By Welch's test of the runs, the arms would differ. No table may conclude this.
    for id in ["primary", "other-metrics"] {
        let table = table(&report, id);
        let found = table
            .columns
            .iter()
            .position(|column| column.title == "Conclusion")
            .unwrap();
        let cache = table
            .rows
            .iter()
            .filter(|row| id == "primary" || words(&row[0]).contains("cache time"));
        assert!(
            cache
                .into_iter()
                .all(|row| !words(&row[found]).contains("lower")),
            "{table:#?}"
        );
    }
}

#[test]
fn equivalent_arms_within_the_floor_have_no_direction() {
    let report = report(&turns(4, -0.4, 0.6));
    let table = table(&report, "primary");
    let row = &table.rows[0];
    let found = table
        .columns
        .iter()
        .position(|column| column.title == "Conclusion")
        .unwrap();
    let conclusion = words(&row[found]);
    assert!(
        conclusion.starts_with("equivalent within the margin") && !conclusion.contains("though"),
        "{row:#?}"
    );
}

#[test]
fn a_differing_a_a_pair_is_not_called_equivalent() {
    let report = report(&turns(3, 0.0, 6.0));
    let floor = table(&report, "bias-floor");
    let pair = floor
        .rows
        .iter()
        .find(|row| words(&row[0]) == "Program cache time")
        .unwrap();
    assert!(
        words(&pair[7]).starts_with("not shown to be equivalent within 5 %"),
        "{pair:?}"
    );
}

#[test]
fn one_turn_is_described_and_not_tested() {
    let report = report(&turns(1, -10.0, 0.0));
    assert_eq!(report.verdict.kind, VerdictKind::Described);
    let shown = format!("{:?}", report.verdict);
    assert!(
        shown.contains("described, not tested: a test needs 3 turns"),
        "{shown}"
    );
    assert!(
        shown.contains("equivalent within 5 % by the slots of one turn"),
        "{shown}"
    );
}

#[test]
fn runs_are_paired_within_their_turn_and_with_no_other() {
    let report = report(&turns(2, -1.0, 0.0));
    let paired = table(&report, "paired");
    let runs: Vec<&str> = paired.rows.iter().map(|row| words(&row[0])).collect();
    for pair in [
        "512 (A/A), run 1 against 512, run 1",
        "512 (A/A), run 2 against 512, run 2",
        "1024, run 2 against 512, run 2",
    ] {
        assert!(runs.contains(&pair), "{runs:#?}");
    }
    // Replay time and program cache time, each of two A/A pairs and of two pairs of arms.
    assert_eq!(runs.len(), 8);
}

#[test]
fn differing_disk_wait_within_a_turn_is_a_caveat() {
    let mut runs = turns(1, 0.0, 0.0);
    let shown = |runs: &[Run]| -> String {
        let caveats = report(runs).caveats;
        caveats
            .iter()
            .map(|caveat| caveat.what.as_str())
            .filter(|what| what.contains("I/O equally long"))
            .collect()
    };
    assert!(
        shown(&runs).starts_with(
            "It is not known whether runs at the same time waited for I/O equally long"
        ),
        "{}",
        shown(&runs)
    );
    for (run, seconds) in runs.iter_mut().zip([1.0, 30.0, 2.0]) {
        run.experiment_outcome = Some(ExperimentOutcome {
            io_stall_seconds: Some(seconds),
            ..ExperimentOutcome::default()
        });
    }
    assert_eq!(
        shown(&runs),
        "Runs at the same time did not wait for I/O equally long (turn 1: 0.8 to 25.2 % of the time)."
    );
    for run in &mut runs {
        run.experiment_outcome = Some(ExperimentOutcome {
            io_stall_seconds: Some(1.0),
            ..ExperimentOutcome::default()
        });
    }
    assert_eq!(shown(&runs), "");
}

#[test]
fn a_single_arm_run_twice_measures_the_host_as_a_a_pair() {
    let pair = |count| -> Vec<Run> {
        (1..=count)
            .flat_map(|turn| [run("512", turn, false, 0.0), run("512", turn, true, 0.1)])
            .collect()
    };
    let (few, enough) = (
        "equivalent within 5 % by the slots of one turn (",
        "equivalent within 5 % (",
    );
    for (count, kind, judged) in [
        (1, VerdictKind::Described, few),
        (3, VerdictKind::Equivalent, enough),
    ] {
        let report = report(&pair(count));
        assert_eq!(report.verdict.kind, kind);
        let headline = &report.verdict.headline;
        assert!(
            headline.starts_with(&format!(
                "512 twice at the same time (A/A): program cache time, {judged}"
            )),
            "{headline}"
        );
        assert_eq!(table(&report, "bias-floor").rows.len(), 2);
    }
}

#[test]
fn a_second_run_without_the_first_of_its_turn_makes_no_a_a_pair() {
    // The first run repeats the slots of the second at another time.
    let mut other_turn = [run("512", 1, false, 0.0), run("512", 1, true, 0.1)];
    for (key, value) in &mut other_turn[1].labels {
        if key == "turn" {
            *value = "2".to_owned();
        }
    }
    let mut without_turn = other_turn.clone();
    for run in &mut without_turn {
        run.labels.retain(|(key, _)| key != "turn");
    }
    for runs in [other_turn, without_turn] {
        let headline = report(&runs).verdict.headline;
        assert!(headline.starts_with("2 runs of one arm"), "{headline}");
    }
}

#[test]
fn runs_without_a_turn_are_not_compared_as_an_a_a_pair() {
    let mut runs = turns(1, 0.0, 5.0);
    for run in &mut runs {
        run.labels.retain(|(key, _)| key != "turn");
    }
    let runs = MeasuredRuns::new(runs, &IntervalPlan::default(), &[]);
    let difference = super::max_aa_difference(&runs, run_metric("cache-time").unwrap(), false);
    assert_eq!(difference, None);
}

#[test]
fn sixty_a_a_pairs_leave_room_for_other_pairs() {
    let runs = shortened(turns(60, -10.0, 0.0), 30);
    let report = report(&runs);
    let mut rows = table(&report, "bias-floor").rows.iter();
    assert!(rows.any(|row| words(&row[1]) == "1024 against 512"));
}

#[test]
fn too_few_slots_show_neither_difference_nor_equivalence() {
    let report = report(&shortened(turns(1, -10.0, 0.0), 60));
    let shown = format!("{:?}", report.verdict);
    assert!(
        shown.contains("no difference beyond it is shown between 1024 and 512"),
        "{shown}"
    );
    assert!(
        shown.contains("not called real, since the run is worth only"),
        "{shown}"
    );
    assert!(
        shown.contains("not shown to be equivalent") && !shown.contains(": equivalent"),
        "{shown}"
    );
    let paired = table(&report, "paired");
    let difference = |row: &Vec<Cell>| matches!(row[2], Cell::Number { .. });
    assert!(paired.rows.iter().all(difference), "{paired:#?}");
}

#[test]
fn with_enough_turns_for_a_test_few_slots_suffice() {
    let report = report(&shortened(turns(3, -10.0, 0.0), 60));
    assert_eq!(report.verdict.kind, VerdictKind::Differs);
}

#[test]
fn a_ratio_interval_uses_pairwise_ratios_despite_a_wide_reference() {
    // In one of three turns, the reference took twenty times as long. Divided by the mean, the
    // interval of the difference would reach below -100 %.
    let mut runs = turns(3, -18.0, 0.0);
    for run in runs.iter_mut().filter(|run| run.file.starts_with("512-2-")) {
        for point in &mut run.points.replay {
            point.program_cache_us = point.program_cache_us.map(|us| 20 * us);
        }
    }
    let report = report(&runs);
    let floor = table(&report, "bias-floor");
    let arms = floor
        .rows
        .iter()
        .find(|row| words(&row[0]) == "Program cache time" && words(&row[1]) == "1024 against 512")
        .unwrap();
    let ends = |cell: &Cell| match cell {
        Cell::Estimate {
            value, low, high, ..
        } => (*value, *low, *high),
        other => panic!("{other:?}"),
    };
    let (difference, ratio) = (ends(&arms[4]), ends(&arms[5]));
    let reference = difference.0 / (ratio.0 - 1.0);
    assert!(1.0 + difference.1 / reference < 0.0, "{arms:?}");
    assert!(
        0.0 < ratio.1 && ratio.1 < ratio.0 && ratio.0 < ratio.2,
        "{arms:?}"
    );
}

#[test]
fn without_common_slots_on_one_host_an_a_a_pair_withdraws_nothing() {
    let mut runs = turns(3, -2.0, 2.5);
    for point in runs.iter_mut().flat_map(|run| &mut run.points.replay) {
        point.slot = None;
    }
    let verdict = report(&runs).verdict;
    assert_eq!(verdict.kind, VerdictKind::Better, "{verdict:?}");
}

#[test]
fn a_second_run_without_transactions_does_not_withdraw_a_difference() {
    let mut runs = turns(4, 0.0, 0.0);
    for (index, run) in runs.iter_mut().enumerate() {
        let is_other = run.label("arm") == Some("1024");
        let gib = if is_other { 8.0 } else { 10.0 } + 0.01 * index as f64;
        for signal in [Signal::RssAnon, Signal::RssFile, Signal::RssShmem] {
            run.signals[signal as usize].fill(Some(gib * f64::from(1_u32 << 30)));
        }
    }
    let failed = runs.last_mut().unwrap();
    failed.points.replay.clear();
    failed.signals[Signal::RssAnon as usize].fill(Some(0.0));
    let options = Options {
        primary: run_metric("rss-mean").unwrap(),
        ..Options::default()
    };
    let report = build(runs, &options);
    let conclusion = words(&table(&report, "primary").rows[0][3]);
    assert!(
        conclusion.starts_with("lower, which is better"),
        "{conclusion}"
    );
}

#[test]
fn a_run_without_transactions_does_not_say_that_the_others_had_other_slots() {
    for arm in ["512", "1024"] {
        let mut runs = turns(4, 0.0, 0.0);
        let mut all = runs.iter_mut();
        let is_first_run =
            |run: &&mut Run| run.label("arm") == Some(arm) && run.label("second").is_none();
        let failed = all.rfind(is_first_run).unwrap();
        failed.points.replay.clear();
        let caveats = report(&runs).caveats;
        let is_about_slots = |what: &str| what.contains("did not process the same slots");
        assert!(!caveats.iter().any(|caveat| is_about_slots(&caveat.what)));
    }
}
