//! Compares two runs case by case. A case is one request of one arm. The rounds of the runs are not
//! paired: each mean has an interval by block bootstrap, and the interval of the ratio follows from
//! both.

use crate::{
    args::DiffArgs,
    changes::{finish_report, list_unmatched, percent_change, setting_mismatch, verdict},
    compare::{caveat_text, interval_label},
    compression::{self, Outcome},
    render,
    results::{CaseInfo, Results},
    store::{self, Stored},
};
use anyhow::{Result, bail, ensure};
use faultline_stats::{
    arms::Direction,
    block_bootstrap::{self, IntervalPlan},
    decision::Decision,
    summary::summary,
};
use faultline_text::{count, number, table};

/// The exit code is 1 if anything got worse by more than the margin, if the later run has problems,
/// or if settings or cases differ.
pub fn run(args: &DiffArgs) -> Result<(String, u8)> {
    let (out, has_failed) = match (
        store::read::<Outcome>(&args.before)?,
        store::read(&args.after)?,
    ) {
        (Stored::Requests(before), Stored::Requests(after)) => {
            changes(&before, &after, args.margin)?
        }
        (Stored::Compression(before), Stored::Compression(after)) => {
            compression::changes(&before, &after, args.margin)?
        }
        (before, _) => {
            let compression_file = match before {
                Stored::Compression(_) => &args.before,
                Stored::Requests(_) => &args.after,
            };
            bail!(
                "{}: results of bench compression have no requests to compare",
                compression_file.display()
            );
        }
    };
    Ok((out, u8::from(has_failed)))
}

fn changes(before: &Results, after: &Results, margin: f64) -> Result<(String, bool)> {
    let [a, b] = [before, after].map(|run| &run.header.subcommand);
    ensure!(
        a == b,
        "results of bench {a} cannot be compared with results of bench {b}"
    );
    let mut comparable = Vec::new();
    for (before_index, case) in before.cases.iter().enumerate() {
        if let Some(after_index) = after.case_index(&case.arm, &case.request_label) {
            comparable.push((case, [(before, before_index), (after, after_index)]));
        }
    }
    let comparisons = comparable.len();
    ensure!(
        comparisons > 0,
        "the two runs have no request of the same arm in common"
    );
    let plan = IntervalPlan::default().for_one_of(comparisons);
    let rows = comparable
        .into_iter()
        .map(|(case, case_in_runs)| case_row(case, case_in_runs, margin, &plan));
    let (rows, are_worse): (Vec<_>, Vec<bool>) = rows.unzip();
    let mut out = format!(
        "Mean latency in ms. SLOWER: the whole interval of the change is above +{margin} %; faster: it is below -{margin} %\n"
    );
    out += &table(
        &[
            "arm", "request", "bytes", "before", "after", "change", "interval", "failed", "verdict",
        ],
        rows,
    );
    out += &format!(
        "Each {} covers the variation within these runs only: runs at another hour may differ by more.\n",
        interval_label(comparisons)
    );
    let case_names = |run: &Results| -> Vec<String> {
        run.cases
            .iter()
            .map(|case| format!("{} about {}", case.arm, case.request_label))
            .collect()
    };
    let mut mismatches = list_unmatched(&case_names(before), &case_names(after));
    mismatches.extend(setting_mismatches(before, after));
    let [a, b] = [before, after].map(|run| run.header.nodes.join(" and "));
    Ok(finish_report(
        out,
        &are_worse,
        &mismatches,
        &render::problems(after),
        ("Nodes differ", [&a, &b]),
    ))
}

/// Returns the row, and whether the later run is worse. `case_in_runs` has each run and the case's
/// index in it.
fn case_row(
    case: &CaseInfo,
    case_in_runs: [(&Results, usize); 2],
    margin_percent: f64,
    plan: &IntervalPlan,
) -> (Vec<String>, bool) {
    let failures = case_in_runs.map(|(run, case_index)| failure_share(run, case_index));
    let margin = margin_percent / 100.0;
    let fails_more = matches!(failures, [Some(before), Some(after)] if after - before > margin);
    let latencies = case_in_runs.map(|(run, case_index)| run.latencies_by_round(case_index));
    let ratio = block_bootstrap::ratio_of_means(&latencies[0], &latencies[1], margin, plan);
    let means = latencies.map(|latencies| summary(&latencies).mean);
    let decision = ratio
        .as_ref()
        .map(|ratio| ratio.decision(1.0 - margin..=1.0 + margin));
    let worse_direction = Direction::Higher;
    let verdict = if fails_more {
        "FAILS MORE".to_owned()
    } else {
        verdict(decision, worse_direction, ["SLOWER", "faster"], caveat_text)
    };
    let mut row = vec![
        case.arm.clone(),
        case.request_label.clone(),
        case.answer_bytes.map_or("-".to_owned(), count),
    ];
    match (means, ratio) {
        ([Some(before), Some(after)], Some(ratio)) => {
            row.extend([before, after].map(|mean| number(mean, 3)));
            row.extend(percent_change(ratio.value_and_ends()));
        }
        _ => row.extend(vec!["-".to_owned(); 4]),
    }
    let percent = |share| format!("{} %", number(share * 100.0, 1));
    let failed = failures.map(|share| share.map_or("-".to_owned(), percent));
    row.extend([failed.join(", "), verdict]);
    (
        row,
        fails_more || decision == Some(Decision::Established(worse_direction)),
    )
}

/// Compares only settings that both runs have. A setting of one run belongs to a case that only
/// this run has, comes with another difference, or was not stored by an older version.
fn setting_mismatches(before: &Results, after: &Results) -> Vec<String> {
    let (a, b) = (&before.header.settings, &after.header.settings);
    if a.is_empty() != b.is_empty() {
        return vec!["NOT COMPARED: the settings, because one of the runs has none".to_owned()];
    }
    a.iter()
        .filter_map(|(name, value)| setting_mismatch(name, value, b.get(name)?))
        .collect()
}

/// `None` without requests: a weighted one may never be drawn.
fn failure_share(results: &Results, case_index: usize) -> Option<f64> {
    let summary = results.summary(case_index);
    let failed: u64 = summary.failures.values().sum();
    let requests = failed + summary.successes;
    (requests > 0).then(|| failed as f64 / requests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;
    use std::collections::BTreeMap;

    fn run(base: u64) -> Results {
        let mut random = fastrand::Rng::with_seed(base);
        let noise: Vec<u64> = (0..300).map(|_| random.u64(0..2_000_000)).collect();
        results(
            300,
            &[("a", 904, &|round| base * 1_000_000 + noise[round as usize])],
        )
    }

    #[test]
    fn only_slower_results_are_reported_as_worse() {
        let (out, worse) = changes(&run(20), &run(25), 5.0).unwrap();
        assert!(
            worse && out.contains("SLOWER") && out.contains("23."),
            "{out}"
        );
        let (out, worse) = changes(&run(25), &run(20), 5.0).unwrap();
        assert!(!worse && out.contains("faster"), "{out}");
        let (out, worse) = changes(&run(20), &run(20), 5.0).unwrap();
        assert!(!worse && out.contains("no change established"), "{out}");
        assert!(
            !changes(&run(20), &run(25), 50.0).unwrap().1,
            "within the margin"
        );
    }

    #[test]
    fn a_latency_cannot_fall_by_more_than_100_percent() {
        // Two slow answers of twelve before, none after.
        let slow = |round: u64| {
            if round % 6 == 4 {
                60_000_000
            } else {
                2_000_000 + round * 999
            }
        };
        let fast = |round: u64| 2_000_000 + round * 7_919 % 1_000;
        let before = results(12, &[("a", 904, &slow)]);
        let after = results(12, &[("a", 904, &fast)]);
        let of = |run: &Results| run.latencies_by_round(0);
        let plan = IntervalPlan::default();
        let found =
            block_bootstrap::ratio_of_means(&of(&before), &of(&after), 0.05, &plan).unwrap();
        assert!(found.low > 0.0 && found.high < 1.5, "{found:?}");
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(!worse && out.contains("−82.9 %"), "{out}");
        assert!(!out.contains("−1") && !out.contains("−2"), "{out}");
        // In the reverse order, two slow answers are too few to establish a slower run.
        let (out, worse) = changes(&after, &before, 5.0).unwrap();
        assert!(!worse && out.contains("not established: "), "{out}");
    }

    #[test]
    fn stalls_neither_fake_nor_hide_a_slower_run() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut run = |base: u64| {
            let mut one = || {
                let stall = if random.u32(0..200) == 0 {
                    20_000_000
                } else {
                    0
                };
                base + random.u64(0..2_000_000) + stall
            };
            let latencies: Vec<u64> = (0..1000).map(|_| one()).collect();
            results(1000, &[("a", 904, &|round| latencies[round as usize])])
        };
        let wrong = (0..40).filter(|_| changes(&run(1_000_000), &run(1_000_000), 5.0).unwrap().1);
        assert!(wrong.count() <= 5);
        let (out, worse) = changes(&run(10_000_000), &run(15_000_000), 5.0).unwrap();
        assert!(worse && out.contains("SLOWER"), "{out}");
    }

    #[test]
    fn more_failures_are_worse_regardless_of_latency() {
        let mut after = run(20);
        for sample in after.samples.iter_mut().take(30) {
            sample.result = Err("timeout".to_owned());
        }
        let (out, worse) = changes(&run(20), &after, 5.0).unwrap();
        assert!(worse && out.contains("FAILS MORE"), "{out}");
        after.samples.clear();
        let (out, worse) = changes(&run(20), &after, 5.0).unwrap();
        assert!(
            !worse && out.contains("0.0 %, -") && out.contains("not comparable"),
            "a request that was never drawn has not failed: {out}"
        );
        let other = results(30, &[("b", 904, &|_| 1)]);
        assert!(changes(&run(20), &other, 5.0).is_err());
    }

    #[test]
    fn problems_of_the_later_run_are_reported_as_failure() {
        let mut after = run(20);
        after.header.answer_comparisons[0].different = 3;
        let (out, worse) = changes(&run(20), &after, 5.0).unwrap();
        assert!(
            worse && out.contains("After: a FAILED: 3 slots were skipped that another arm has"),
            "{out}"
        );
        assert!(
            !changes(&after, &run(20), 5.0).unwrap().1,
            "what was wrong before is over"
        );
    }

    #[test]
    fn settings_with_the_words_of_older_versions_are_equal() {
        let (mut before, mut after) = (run(20), run(20));
        let timeout = |value: &str| BTreeMap::from([("timeout".to_owned(), value.to_owned())]);
        for (old, new) in [("1 min 0 s", "1 min"), ("1 h 0 min", "1 h")] {
            (before.header.settings, after.header.settings) = (timeout(old), timeout(new));
            let (out, worse) = changes(&before, &after, 5.0).unwrap();
            assert!(!worse && !out.contains("SETTINGS DIFFER"), "{out}");
        }
        after.header.settings = timeout("1 min 10 s");
        before.header.settings = timeout("1 min 0 s");
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(
            worse && out.contains("timeout: 1 min 0 s before, 1 min 10 s after"),
            "{out}"
        );
    }

    #[test]
    fn unmatched_requests_and_differing_settings_fail_the_diff() {
        let (mut before, mut after) = (run(20), run(20));
        let setting = |value: &str| BTreeMap::from([("loop".to_owned(), value.to_owned())]);
        (before.header.settings, after.header.settings) = (setting("closed"), setting("closed"));
        assert!(!changes(&before, &after, 5.0).unwrap().1);
        after.header.settings = setting("open, 50 a second");
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(
            worse && out.contains("SETTINGS DIFFER: loop: closed before, open, 50 a second after"),
            "{out}"
        );
        after.header.settings = setting("closed");
        after.cases.push(CaseInfo {
            arm: "b".to_owned(),
            request_label: "new".to_owned(),
            answer_bytes: None,
        });
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(
            worse && out.contains("NOT COMPARED: b about new is not in the earlier run"),
            "{out}"
        );
        let (out, worse) = changes(&after, &before, 5.0).unwrap();
        assert!(
            worse && out.contains("b about new is not in the later run"),
            "{out}"
        );
        after.header.subcommand = "nodes".to_owned();
        assert!(changes(&before, &after, 5.0).is_err());
    }
}
