use super::*;
use crate::{
    comparability::tests::{cluster, with_clusters},
    store::VOID,
    verdict::Verdict,
};
use faultline_report::report::comparability::ClusterConditions;

/// Runs of a release of which the p95 is so many times the baseline's, with this noise; the median is the baseline's.
pub fn runs(version: &str, times: f64, rounds: u32) -> Vec<RunRow> {
    let mut rows = Vec::new();
    for round in 1..=rounds {
        for replicate in 1..=3 {
            for is_baseline in [true, false] {
                let drift = 1.0 + 0.1 * f64::from(replicate) + 0.3 * f64::from(round);
                let noise = 1.0
                    + 0.004 * (f64::from(replicate + 2 * round + version.len() as u32) % 3.0 - 1.0);
                let (own, same) = if is_baseline {
                    (1.0, 1.0)
                } else {
                    (times * noise, noise)
                };
                rows.push(RunRow {
                    version: version.to_owned(),
                    program_digest: "aa11".to_owned(),
                    conditions: Conditions {
                        plan_digest: "feed".to_owned(),
                        baseline: "1.0.0".to_owned(),
                        baseline_digest: "beef".to_owned(),
                    },
                    machine: "a machine".to_owned(),
                    kernel: "6.1".to_owned(),
                    round,
                    is_baseline,
                    replicate,
                    began_unix_ns: 1_790_000_000_000_000_000 + i64::from(round),
                    outcome: "completed".to_owned(),
                    validity: "valid".to_owned(),
                    recording: "experiments/x/run.fltl".to_owned(),
                    recording_digest: Some("cafe".to_owned()),
                    report: "reports/x.html".to_owned(),
                    cluster: ClusterConditions::default(),
                    values: vec![
                        ("replay-p95".into(), 40.0 * drift * own),
                        ("replay-p50".into(), 20.0 * drift * same),
                    ],
                });
            }
        }
    }
    rows
}

pub fn metric(id: &str) -> &'static RunMetric {
    releases::metrics()
        .find(|run_metric| run_metric.id == id)
        .unwrap()
}

fn verdicts(release: &Release) -> [Verdict; 2] {
    ["replay-p95", "replay-p50"].map(|id| release.test(metric(id)).unwrap().verdict)
}

/// Three pairs of a metric that is better when it is lower.
fn no_ratio_reason(pairs: [(Option<f64>, Option<f64>); 3]) -> Option<NoRatioReason> {
    let mut runs = runs("1.1.0", 1.0, 1);
    for run in &mut runs {
        let (baseline, own) = pairs[run.replicate as usize - 1];
        let value = if run.is_baseline { baseline } else { own };
        let id = "replay-p95".to_owned();
        run.values = value.map(|value| (id, value)).into_iter().collect();
    }
    let run_metric = releases::metrics().find(|run_metric| run_metric.id == "replay-p95");
    NoRatioReason::of(run_metric.unwrap(), &runs)
}

#[test]
fn a_metric_rising_from_0_or_missing_in_the_release_fails() {
    let zero = |always_worse| Some(NoRatioReason::Zero { always_worse });
    let more = (Some(0.0), Some(500.0));
    let cases = [
        ([more; 3], zero(true)),
        ([more, more, (Some(5.0), Some(500.0))], zero(true)),
        ([more, more, (Some(5.0), Some(4.0))], zero(false)),
        ([more, more, (Some(0.0), Some(0.0))], zero(false)),
        ([(Some(500.0), Some(0.0)); 3], zero(false)),
        ([(Some(0.0), Some(0.0)); 3], None),
        ([(Some(5.0), Some(500.0)); 3], None),
        ([(Some(5.0), None); 3], Some(NoRatioReason::Missing)),
        ([(None, Some(5.0)); 3], None),
        ([(None, None); 3], None),
    ];
    for (pairs, expected) in cases {
        assert_eq!(no_ratio_reason(pairs), expected, "{pairs:?}");
    }
    let passes = cases.map(|(_, why)| why.is_none_or(|why| !why.is_worse()));
    assert_eq!(passes.iter().filter(|passes| !**passes).count(), 3);
}

#[test]
fn a_pair_that_failed_does_not_hide_a_missing_metric() {
    let mut all = runs("1.1.0", 1.0, 1);
    for run in &mut all {
        if run.replicate == 1 {
            (run.outcome, run.values) = ("oom".to_owned(), Vec::new());
        } else if !run.is_baseline {
            run.values.clear();
        }
    }
    let reason = NoRatioReason::of(metric("replay-p95"), &all);
    assert_eq!(reason, Some(NoRatioReason::Missing));
}

#[test]
fn only_a_repeated_difference_is_marked_and_host_drift_cancels() {
    let all = [
        runs("1.1.0", 1.08, 2),
        runs("1.2.0", 0.9, 2),
        runs("1.3.0", 1.08, 1),
        runs("1.4.0", 1.03, 2),
    ]
    .concat();
    let groups = release_groups(&all, 0.05);
    assert_eq!(groups.len(), 1);
    let found: Vec<[Verdict; 2]> = groups[0].releases.iter().map(verdicts).collect();
    let nothing = Verdict::NothingShown;
    assert_eq!(
        found,
        [
            [Verdict::Worse, nothing],
            [Verdict::Better, nothing],
            [Verdict::Unconfirmed, nothing],
            [nothing, nothing]
        ]
    );
    let one = groups[0].releases[0].test(metric("replay-p95")).unwrap();
    assert!(
        (one.ratio_test.ratio.value - 1.08).abs() < 0.004 && one.ratio_test.pairs == 6,
        "{one:?}"
    );
    assert!(one.adjusted_p.unwrap() > one.ratio_test.p.unwrap());
    assert!(
        groups[0].releases[0].test(metric("rss-at-tip")).is_none(),
        "absent stays absent"
    );
    let rows = verdict_rows(&groups);
    assert_eq!(rows.len(), 8);
    assert_eq!(rows.iter().filter(|row| row.verdict == "worse").count(), 1);
}

#[test]
fn a_second_round_without_the_difference_withdraws_the_first_finding() {
    let mut all = runs("1.1.0", 1.12, 1);
    all.extend(
        runs("1.1.0", 1.0, 2)
            .into_iter()
            .filter(|run| run.round == 2),
    );
    assert_eq!(
        verdicts(&release_groups(&all, 0.05)[0].releases[0]),
        [Verdict::NothingShown; 2]
    );
}

#[test]
fn a_repeat_round_does_not_mark_metrics_without_a_first_finding() {
    let mut all = runs("1.1.0", 1.0, 1);
    all.extend(
        runs("1.1.0", 1.12, 2)
            .into_iter()
            .filter(|run| run.round == 2),
    );
    // Six pairs that differ by more than the margin, with p < 0.05, of which those of the first round scatter.
    for run in all
        .iter_mut()
        .filter(|run| run.round == 1 && !run.is_baseline)
    {
        run.values[0].1 *= [1.02, 1.12, 1.22][run.replicate as usize - 1];
    }
    let release = &release_groups(&all, 0.05)[0].releases[0];
    let one = release.test(metric("replay-p95")).unwrap();
    assert!(
        one.adjusted_p.unwrap() < 0.05 && one.ratio_test.ratio.value > 1.05,
        "{one:?}"
    );
    assert_eq!(verdicts(release), [Verdict::NothingShown; 2]);
}

#[test]
fn a_round_on_another_machine_or_kernel_does_not_confirm() {
    let mut all = runs("1.1.0", 1.08, 2);
    all.iter_mut()
        .filter(|run| run.round == 2)
        .for_each(|run| run.machine = "another".to_owned());
    let found: Vec<[Verdict; 2]> = release_groups(&all, 0.05)
        .iter()
        .map(|group| verdicts(&group.releases[0]))
        .collect();
    assert_eq!(found, [[Verdict::OtherMachine, Verdict::NothingShown]; 2]);
    all.iter_mut()
        .filter(|run| run.round == 2)
        .for_each(|run| run.validity = VOID.to_owned());
    let groups = release_groups(&all, 0.05);
    let first = groups.iter().find(|group| group.machine != "another");
    let unconfirmed = [Verdict::Unconfirmed, Verdict::NothingShown];
    assert_eq!(verdicts(&first.unwrap().releases[0]), unconfirmed);
    let mut all = runs("1.1.0", 1.08, 1);
    all.iter_mut()
        .filter(|run| run.is_baseline)
        .for_each(|run| run.kernel = "6.2".to_owned());
    assert!(release_groups(&all, 0.05)[0].releases[0].tests.is_empty());
}

#[test]
fn rows_of_different_machines_plans_or_baselines_are_not_compared() {
    let mut all = runs("1.1.0", 1.08, 2);
    for change in [
        |run: &mut RunRow| run.machine = "another".to_owned(),
        |run: &mut RunRow| run.conditions.plan_digest = "other".to_owned(),
        |run: &mut RunRow| run.conditions.baseline_digest = "other".to_owned(),
    ] {
        let mut more = runs("1.2.0", 1.0, 1);
        more.iter_mut().for_each(change);
        all.extend(more);
    }
    let groups = release_groups(&all, 0.05);
    assert_eq!(groups.len(), 4);
    assert!(groups.iter().all(|group| group.releases.len() == 1));
}

#[test]
fn a_step_is_marked_at_its_release_if_history_is_long_enough() {
    let history = |count: usize| -> Vec<RunRow> {
        (0..count)
            .flat_map(|n| runs(&format!("1.{}.0", n + 1), if n < 5 { 1.0 } else { 1.08 }, 1))
            .collect()
    };
    let long = &release_groups(&history(12), 0.05)[0];
    let found: Vec<(&str, &str, Verdict)> = long
        .shifts
        .iter()
        .map(|shift| (shift.metric.id, shift.version.as_str(), shift.verdict))
        .collect();
    assert_eq!(found, [("replay-p95", "1.6.0", Verdict::Worse)]);
    assert_eq!(release_groups(&history(7), 0.05)[0].shifts.len(), 1);
    // A single release is marked by its own runs; five are no history.
    for short in [6, 5] {
        assert!(release_groups(&history(short), 0.05)[0].shifts.is_empty());
    }
}

/// A release that is 8 % worse and runs Alpenglow, against a baseline with Tower.
fn across_consensus() -> Vec<RunRow> {
    let clusters = [
        &cluster(&["tower"], Some(0.4)),
        &cluster(&["alpenglow"], Some(0.2)),
    ];
    with_clusters("1.1.0", clusters)
}

#[test]
fn a_release_of_another_consensus_is_marked_only_by_what_does_not_depend_on_slots() {
    let mut all = across_consensus();
    for run in &mut all {
        let (_, p95) = run.values[0];
        run.values.push(("rss-at-tip".to_owned(), p95));
        let evictions = if run.is_baseline { 0.0 } else { 5.0 };
        run.values.push(("cache-evictions".to_owned(), evictions));
    }
    let groups = release_groups(&all, 0.05);
    let release = &groups[0].releases[0];
    assert_eq!(verdicts(release), [Verdict::NotComparable; 2]);
    let rss = release.test(metric("rss-at-tip")).unwrap();
    assert_eq!(
        (rss.verdict, rss.adjusted_p),
        (Verdict::Worse, rss.ratio_test.p),
        "one test"
    );
    assert_eq!(release.no_ratio_reason(metric("cache-evictions")), None);
    let row = &verdict_rows(&groups)[1];
    assert_eq!(
        (row.verdict.as_str(), row.p),
        ("not comparable", [None; 2]),
        "{row:?}"
    );
}

#[test]
fn a_first_round_across_consensus_is_not_repeated() {
    let mut all = across_consensus();
    all.retain(|run| run.round == 1);
    let groups = release_groups(&all, 0.05);
    let mut tests = groups[0].releases[0].tests.iter();
    assert!(tests.all(|one| !one.verdict.needs_confirmation()));
}

#[test]
fn an_unknown_consensus_is_compared() {
    let alpenglow = cluster(&["alpenglow"], Some(0.2));
    for clusters in [[&cluster(&[], None), &alpenglow], [&alpenglow, &alpenglow]] {
        let release = release_groups(&with_clusters("1.1.0", clusters), 0.05).remove(0);
        assert_eq!(
            verdicts(&release.releases[0]),
            [Verdict::Worse, Verdict::NothingShown]
        );
    }
}

#[test]
fn a_history_by_slot_ends_where_consensus_changes() {
    let (tower, alpenglow) = (cluster(&["tower"], None), cluster(&["alpenglow"], None));
    let history = |before: &ClusterConditions| {
        let of = |n: usize| {
            let mut all = runs(&format!("1.{}.0", n + 1), if n < 5 { 1.0 } else { 1.08 }, 1);
            for run in &mut all {
                run.cluster = if n < 5 { before } else { &alpenglow }.clone();
            }
            all
        };
        release_groups(&(0..12).flat_map(of).collect::<Vec<_>>(), 0.05).remove(0)
    };
    assert_eq!(history(&alpenglow).shifts.len(), 1);
    assert!(history(&tower).shifts.is_empty());
}

#[test]
fn versions_are_sorted_by_version_order() {
    let mut versions = [
        "canary",
        "2.1.14",
        "2.1.9",
        "2.1.14+trace",
        "3.0.0-beta.1",
        "3.0.0",
    ];
    versions.sort_by(|a, b| compare_versions(a, b));
    assert_eq!(
        versions,
        [
            "2.1.9",
            "2.1.14",
            "2.1.14+trace",
            "3.0.0-beta.1",
            "3.0.0",
            "canary"
        ]
    );
}

#[test]
fn a_ratio_interval_uses_pairwise_ratios_despite_a_wide_baseline() {
    let mut all = runs("1.1.0", 0.2, 1);
    // One baseline of three took twenty times as long: the interval of the difference over its mean would reach below -100 %.
    for (_, value) in all
        .iter_mut()
        .filter(|run| run.is_baseline && run.replicate == 2)
        .flat_map(|run| &mut run.values)
    {
        *value *= 20.0;
    }
    let groups = release_groups(&all, 0.05);
    let one = groups[0].releases[0].test(metric("replay-p95")).unwrap();
    let mut pairs: Vec<f64> = Vec::new();
    let value = |is_baseline: bool, replicate: u32| {
        let mut found = all.iter();
        let found = found.find(|run| run.is_baseline == is_baseline && run.replicate == replicate);
        found.unwrap().values[0].1
    };
    pairs.extend((1..=3).map(|replicate| value(false, replicate) - value(true, replicate)));
    let difference = faultline_stats::paired::mean_over_pairs(&pairs, 0.95).unwrap();
    assert!(difference.low / one.means[0] < -1.0, "{difference:?}");
    let ratio = one.ratio_test.ratio;
    assert!(
        0.0 < ratio.low && ratio.low < ratio.value && ratio.value < ratio.high,
        "{ratio:?}"
    );
    let row = &verdict_rows(&groups)[0];
    assert!(row.ratio.iter().all(|end| *end > 0.0), "{row:?}");
}
