use crate::{
    report::{
        Options, build,
        model::{Block, Cell, Report, Table, VerdictKind},
    },
    run::{Run, Signal, Tick},
};
use faultline_recording::ReplaySlotPoint;

/// A run on `host` whose slots take `ms` to replay. If `block` is 0, the run has no label `block`.
fn run(arm: &str, host: &str, block: u64, ms: f64) -> Run {
    let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut labels = vec![label(("arm", arm)), label(("host", host))];
    if block > 0 {
        labels.push(label(("block", &block.to_string())));
    }
    let mut run = Run {
        file: format!("{arm}-{host}-{block}.fltl"),
        labels,
        finished: true,
        origin_unix_ns: 1_800_000_000_000_000_000 + (block * 3_600_000_000_000) as i64,
        ticks: (0..60)
            .map(|at| Tick {
                at: f64::from(at),
                session: 1,
                ..Tick::default()
            })
            .collect(),
        signals: vec![vec![None; 60]; Signal::ALL.len()],
        ..Run::default()
    };
    run.points.replay = (0..100)
        .map(|index| ReplaySlotPoint {
            time_unix_ns: run.origin_unix_ns + index * 400_000_000,
            slot: Some(block * 1000 + index as u64),
            total_transactions: Some(1000),
            total_entries: Some(64),
            total_shreds: Some(900),
            replay_total_elapsed_us: Some((1000.0 * ms) as u64),
            ..ReplaySlotPoint::default()
        })
        .collect();
    run
}

/// One host for each block. Each host takes a tenth longer than the previous one, and `new` takes a
/// twelfth longer than `old`.
fn blocks(count: u64) -> Vec<Run> {
    let block = |block: u64| {
        let ms = 50.0 * 1.1_f64.powi(block as i32);
        let host = format!("n{block}");
        let noise = [1.0, 1.002, 0.999][block as usize % 3];
        [
            run("old", &host, block, ms),
            run("new", &host, block, 1.08 * noise * ms),
        ]
    };
    (1..=count).flat_map(block).collect()
}

fn report(runs: &[Run]) -> Report {
    build(runs.to_vec(), &Options::default())
}

fn table<'r>(report: &'r Report, id: &str) -> Option<&'r Table> {
    report.blocks().find_map(|block| match block {
        Block::Table(table) if table.id == id => Some(table),
        _ => None,
    })
}

fn ratios(table: &Table) -> Vec<Option<[f64; 3]>> {
    let ratio = |row: &Vec<Cell>| match row.last() {
        Some(Cell::Estimate {
            value, low, high, ..
        }) => Some([*value, *low, *high]),
        _ => None,
    };
    table.rows.iter().map(ratio).collect()
}

fn has_caveat(report: &Report, text: &str) -> bool {
    report
        .caveats
        .iter()
        .any(|caveat| caveat.what.contains(text))
}

#[test]
fn arms_on_several_hosts_are_compared_within_blocks() {
    let report = report(&blocks(3));
    assert_eq!(report.verdict.kind, VerdictKind::Worse);
    let headline = &report.verdict.headline;
    assert!(
        headline.contains("8.0 % higher (7.6 to 8.4 %)"),
        "{headline}"
    );
    let hosts = ratios(table(&report, "hosts").unwrap());
    assert!(hosts[0].is_none());
    for (ratio, expected) in hosts[1..].iter().zip([1.1, 1.21]) {
        let [value, low, high] = ratio.unwrap();
        assert!((value - expected).abs() < 1e-3 && low < value && high < 1.01 * value);
    }
    assert!(!has_caveat(&report, "label"));
}

#[test]
fn runs_of_several_hosts_without_the_label_block_are_left_out() {
    let mut runs = blocks(4);
    let mut without = |from: usize| {
        let labels = runs.iter_mut().skip(from).map(|run| &mut run.labels);
        labels.for_each(|labels| labels.retain(|(key, _)| key != "block"));
        report(&runs)
    };
    let three = without(6);
    assert_eq!(three.verdict.kind, VerdictKind::Worse);
    assert!(has_caveat(&three, "These lack one: old"));
    let none = without(0);
    let headline = &none.verdict.headline;
    let why = "have 0 of the 3 common blocks that a test needs (8 of their runs lack the label host or block)";
    assert!(
        headline.contains(why) && table(&none, "hosts").is_none(),
        "{headline}"
    );
}

#[test]
fn blocks_that_all_differ_alike_are_not_tested_and_not_nothing() {
    let block = |block: u64| {
        let host = format!("n{block}");
        let ms = 50.0 * block as f64;
        [("old", ms), ("new", 1.08 * ms), ("newer", 0.9 * ms)]
            .map(|(arm, ms)| run(arm, &host, block, ms))
    };
    let mut runs: Vec<Run> = (1..=3).flat_map(block).collect();
    let headline = report(&runs).verdict.headline;
    for text in [
        "higher in every block, not tested, with new against old",
        "lower in every block, not tested, with newer against old",
    ] {
        assert!(headline.contains(text), "{headline}");
    }
    runs.retain(|run| run.label("arm") != Some("newer"));
    let verdict = report(&runs).verdict;
    let text = "new against old: higher in every block, not tested (108.0 against 100.0 ms)";
    assert!(verdict.headline.contains(text), "{verdict:?}");
    assert!(verdict.bullets[0].contains("higher in every block"));
}

#[test]
fn two_common_blocks_are_refused() {
    let mut runs = blocks(3);
    runs.pop();
    let verdict = report(&runs).verdict;
    let (headline, point) = (&verdict.headline, &verdict.bullets[0]);
    let why = "not compared: old (on n1, n2, n3) and new (on n1, n2) have 2 of the 3 common blocks that a test needs";
    assert!(headline.contains(why) && point.contains(why), "{verdict:?}");
}

#[test]
fn arms_on_different_hosts_only_are_refused() {
    for block in [0, 1] {
        let on = |arm, host| (1..=3).map(move |n| run(arm, host, block * n, 50.0 + n as f64));
        let runs: Vec<Run> = on("old", "n1").chain(on("new", "n2")).collect();
        let headline = report(&runs).verdict.headline;
        let why = "not compared: old ran on n1 only and new on n2 only";
        assert!(headline.contains(why), "{headline}");
    }
}

#[test]
fn blocks_of_one_host_are_compared_by_run() {
    let mut runs = blocks(3);
    let mut with_host = |host: &str| {
        for run in &mut runs {
            run.labels.retain(|(key, _)| key != "host");
            run.labels.push(("host".to_owned(), host.to_owned()));
        }
        let report = report(&runs);
        (table(&report, "hosts").is_none(), report.verdict.headline)
    };
    let (is_by_run, headline) = with_host("n1");
    assert!(
        is_by_run && headline.contains("neither a difference"),
        "{headline}"
    );
}

/// The runs have no slot in common, so the floor comes only from the values of the A/A pair.
#[test]
fn the_a_a_pairs_of_blocks_are_shown_and_are_the_floor() {
    let twins = |factor: f64| {
        let mut runs = blocks(3);
        for (block, first) in (1..).zip(blocks(3).into_iter().step_by(2)) {
            let ms = 50.0 * 1.1_f64.powi(block);
            let host = first.host().unwrap();
            let factor = factor * [1.0, 1.001, 1.003][block as usize % 3];
            let mut twin = run("old", host, block as u64, factor * ms);
            twin.labels.push(("second".to_owned(), "1".to_owned()));
            twin.points
                .replay
                .iter_mut()
                .for_each(|point| point.slot = None);
            runs.push(twin);
        }
        runs.iter_mut().for_each(|run| {
            let block = run.label("block").unwrap().to_owned();
            run.labels.push(("turn".to_owned(), block));
        });
        report(&runs)
    };
    let alike = twins(1.0);
    let [value, low, high] = ratios(table(&alike, "hosts").unwrap())[3].unwrap();
    assert!(
        low < 1.0 && (value - 1.001).abs() < 1e-3 && high < 1.01,
        "{value}"
    );
    assert_eq!(alike.verdict.kind, VerdictKind::Worse);
    let unlike = twins(1.2);
    assert_eq!(unlike.verdict.kind, VerdictKind::Inconclusive);
}

#[test]
fn an_effect_beyond_the_a_a_pairs_stays_though_hosts_differ_threefold() {
    let block = |(block, ms): (u64, f64)| {
        let host = format!("n{block}");
        let noise = [1.0, 1.002, 0.999][block as usize % 3];
        let mut twin = run("old", &host, block, 1.01 * ms / noise);
        twin.labels.push(("second".to_owned(), "1".to_owned()));
        let other = run("new", &host, block, 1.08 * noise * ms);
        let mut runs = [run("old", &host, block, ms), other, twin];
        for run in &mut runs {
            run.labels.push(("turn".to_owned(), block.to_string()));
        }
        runs
    };
    let mut runs: Vec<Run> = [(1, 80.0), (2, 160.0), (3, 240.0)]
        .into_iter()
        .flat_map(block)
        .collect();
    for has_common_slots in [true, false] {
        let verdict = report(&runs).verdict;
        assert_eq!(verdict.kind, VerdictKind::Worse, "{verdict:?}");
        assert!(verdict.headline.contains("8.0 % higher"), "{verdict:?}");
        assert!(
            !format!("{verdict:?}").contains("floor"),
            "{has_common_slots}"
        );
        for point in runs.iter_mut().flat_map(|run| &mut run.points.replay) {
            point.slot = None;
        }
    }
}

#[test]
fn arms_with_equal_ratios_in_every_block_are_not_said_to_have_equal_values() {
    let run_of = |(block, arm, factor): (u64, &str, f64)| {
        run(
            arm,
            &format!("n{block}"),
            block,
            factor * (50 + 10 * block) as f64,
        )
    };
    let arms = [("old", 1.0), ("new", 1.5), ("third", 2.0)];
    let runs: Vec<Run> = (1..=3)
        .flat_map(|block| arms.map(|(arm, factor)| run_of((block, arm, factor))))
        .collect();
    let headline = report(&runs).verdict.headline;
    assert!(
        headline.contains("higher in every block, not tested, with third"),
        "{headline}"
    );
    assert!(!headline.contains("do not vary"), "{headline}");
}

#[test]
fn unlike_hardware_is_named_with_its_hosts() {
    let mut runs = blocks(3);
    for run in &mut runs {
        let is_first = run.host() == Some("n1");
        let of = |first: &str, other: &str| Some(if is_first { first } else { other }.to_owned());
        (run.facts.cpu, run.facts.kernel) = (of("EPYC 9354P", "EPYC 9555"), of("6.1", "6.8"));
    }
    let report = report(&runs);
    assert!(has_caveat(
        &report,
        "CPU: EPYC 9354P (n1) against EPYC 9555 (n2, n3)."
    ));
    assert!(has_caveat(
        &report,
        "kernels: 6.1 (n1) against 6.8 (n2, n3)."
    ));
}
