//! Compares two runs. Their rounds are not paired: each mean has its own interval by block
//! bootstrap, and that of the ratio follows from both.

use crate::args::DiffArgs;
use crate::compare::{self, caveat, interval_words};
use crate::compression;
use crate::render;
use crate::results::{CellHead, Results};
use crate::store;
use anyhow::ensure;
use faultline_stats::arms::Direction;
use faultline_stats::block::{self, Estimate, Plan};
use faultline_stats::decision::Decision;
use faultline_stats::summary::summary;
use faultline_text::{count, number, table};
use std::fmt::Write as _;

struct Changed {
    /// In ms.
    before: f64,
    after: f64,
    ratio: Estimate,
}

/// The exit code is 1 if anything got worse by more than the margin, if the later run has problems,
/// or if settings differ.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<(String, u8)> {
    let headers = [&args.before, &args.after]
        .map(|file| store::header(file).map(|(preset, header)| (file, preset, header)));
    if let [Ok((one, first, before)), Ok((other, second, after))] = &headers
        && [first, second]
            .iter()
            .all(|preset| *preset == "compression")
    {
        let (before, after) = (
            compression::saved(one, before)?,
            compression::saved(other, after)?,
        );
        let (out, worse) = compression::changes(&before, &after, args.margin)?;
        return Ok((out, u8::from(worse)));
    }
    let (before, after) = (store::read(&args.before)?, store::read(&args.after)?);
    let (out, worse) = changes(&before, &after, args.margin)?;
    Ok((out, u8::from(worse)))
}

fn changes(before: &Results, after: &Results, margin: f64) -> anyhow::Result<(String, bool)> {
    let presets = (&before.header.preset, &after.header.preset);
    ensure!(
        presets.0 == presets.1,
        "one is of bench {}, the other of bench {}",
        presets.0,
        presets.1
    );
    let heads = [
        "arm", "subject", "bytes", "before", "after", "change", "interval", "failed", "verdict",
    ];
    let places = before.cells.iter().enumerate();
    let both: Vec<(usize, &CellHead, usize)> = places
        .filter_map(|(index, head)| Some((index, head, after.cell(&head.arm, &head.subject)?)))
        .collect();
    let plan = compare::plan().for_one_of(both.len());
    let (mut rows, mut worse) = (Vec::new(), false);
    for (index, head, other) in &both {
        let (row, is_worse) = row(head, (before, *index), (after, *other), (margin, &plan));
        worse |= is_worse;
        rows.push(row);
    }
    ensure!(
        !rows.is_empty(),
        "the two runs have no arm with the same account in common"
    );
    let mut out = format!(
        "Mean latency in ms; SLOWER and faster are by more than {margin} %, the whole interval\n"
    );
    out += &table(&heads, rows);
    let _ = writeln!(
        out,
        "Each {} is of these runs alone: runs of other hours may differ by more.",
        interval_words(both.len())
    );
    let unlike = [
        one_sided(before, after, "after"),
        one_sided(after, before, "before"),
        settings(before, after),
    ]
    .concat();
    unlike.iter().for_each(|line| out += &format!("{line}\n"));
    let problems = render::problems(after);
    problems
        .iter()
        .for_each(|problem| out += &format!("After: {problem}\n"));
    if before.header.nodes != after.header.nodes {
        let [a, b] = [before, after].map(|run| run.header.nodes.join(" and "));
        let _ = writeln!(out, "Other nodes: {a} before, {b} after");
    }
    Ok((out, worse || !unlike.is_empty() || !problems.is_empty()))
}

fn row(
    head: &CellHead,
    a: (&Results, usize),
    b: (&Results, usize),
    (margin, plan): (f64, &Plan),
) -> (Vec<String>, bool) {
    let failed = [failed(a.0, a.1), failed(b.0, b.1)];
    let margin = margin / 100.0;
    let fails_more = failed[1] - failed[0] > margin;
    let changed = changed(a, b, (margin, plan));
    let decided = |changed: &Changed| changed.ratio.decision(1.0 - margin..=1.0 + margin);
    let decision = changed.as_ref().map(decided);
    let slower = decision == Some(Decision::Shown(Direction::Higher));
    let verdict = match decision {
        _ if fails_more => "FAILS MORE".to_owned(),
        None => "not comparable".to_owned(),
        Some(Decision::Shown(Direction::Higher)) => "SLOWER".to_owned(),
        Some(Decision::Shown(Direction::Lower)) => "faster".to_owned(),
        Some(Decision::Inconclusive) => "no change shown".to_owned(),
        Some(Decision::Unreliable(why)) => format!("not shown: {}", caveat(why)),
    };
    let mut row = vec![
        head.arm.clone(),
        head.subject.clone(),
        head.size.map_or_else(|| "-".to_owned(), count),
    ];
    row.extend(changed.map_or_else(|| vec!["-".to_owned(); 4], |changed| cells(&changed)));
    row.extend([format!(
        "{} %, {} %",
        number(failed[0] * 100.0, 1),
        number(failed[1] * 100.0, 1)
    )]);
    row.push(verdict);
    (row, fails_more || slower)
}

fn one_sided(run: &Results, other: &Results, missing: &str) -> Vec<String> {
    let alone = run
        .cells
        .iter()
        .filter(|head| other.cell(&head.arm, &head.subject).is_none());
    alone
        .map(|head| {
            format!(
                "NOT COMPARED: {} about {} is not in {missing}",
                head.arm, head.subject
            )
        })
        .collect()
}

/// Without cells that only one run has.
fn settings(before: &Results, after: &Results) -> Vec<String> {
    let (a, b) = (&before.header.settings, &after.header.settings);
    if a.is_empty() || b.is_empty() {
        return if a == b {
            Vec::new()
        } else {
            vec!["OTHER SETTINGS: one of the runs does not have its own".to_owned()]
        };
    }
    let both = a
        .iter()
        .filter_map(|(name, value)| Some((name, value, b.get(name)?)));
    let unlike = both.filter(|(_, value, other)| value != other);
    unlike
        .map(|(name, value, other)| {
            format!("OTHER SETTINGS: {name}: {value} before, {other} after")
        })
        .collect()
}

fn changed(
    before: (&Results, usize),
    after: (&Results, usize),
    (margin, plan): (f64, &Plan),
) -> Option<Changed> {
    let (a, b) = (before.0.by_round(before.1), after.0.by_round(after.1));
    let mean = |latencies: &[Option<f64>]| summary(latencies).mean;
    Some(Changed {
        before: mean(&a)?,
        after: mean(&b)?,
        ratio: block::ratio_of_means(&a, &b, margin, plan)?,
    })
}

fn cells(changed: &Changed) -> Vec<String> {
    let percent = |ratio: f64| number((ratio - 1.0) * 100.0, 1);
    let ratio = &changed.ratio;
    vec![
        number(changed.before, 3),
        number(changed.after, 3),
        format!("{} %", percent(ratio.value)),
        format!("{} to {} %", percent(ratio.low), percent(ratio.high)),
    ]
}

fn failed(results: &Results, cell: usize) -> f64 {
    let all = results.of(cell).count();
    if all == 0 {
        1.0
    } else {
        results
            .of(cell)
            .filter(|sample| sample.failure.is_some())
            .count() as f64
            / all as f64
    }
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
    fn slower_is_worse_faster_and_equal_are_not() {
        let (out, worse) = changes(&run(20), &run(25), 5.0).unwrap();
        assert!(
            worse && out.contains("SLOWER") && out.contains("23."),
            "{out}"
        );
        let (out, worse) = changes(&run(25), &run(20), 5.0).unwrap();
        assert!(!worse && out.contains("faster"), "{out}");
        let (out, worse) = changes(&run(20), &run(20), 5.0).unwrap();
        assert!(!worse && out.contains("no change shown"), "{out}");
        assert!(
            !changes(&run(20), &run(25), 50.0).unwrap().1,
            "within the margin"
        );
    }

    #[test]
    fn a_latency_cannot_fall_by_more_than_all_of_it() {
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
        let of = |run: &Results| run.by_round(0);
        let plan = compare::plan();
        let found = block::ratio_of_means(&of(&before), &of(&after), 0.05, &plan).unwrap();
        assert!(found.low > 0.0 && found.high < 1.5, "{found:?}");
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(!worse && out.contains("−82.9 %"), "{out}");
        assert!(!out.contains("−1") && !out.contains("−2"), "{out}");
        // The other way round, they are too few to show that it became slower.
        let (out, worse) = changes(&after, &before, 5.0).unwrap();
        assert!(!worse && out.contains("not shown: "), "{out}");
    }

    #[test]
    fn alike_runs_that_stall_are_not_slower_and_a_slower_one_is_although_it_stalls() {
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
    fn failing_more_often_is_worse_whatever_the_latency() {
        let mut after = run(20);
        for sample in after.samples.iter_mut().take(30) {
            (sample.phases, sample.failure) = (None, Some("timeout".to_owned()));
        }
        let (out, worse) = changes(&run(20), &after, 5.0).unwrap();
        assert!(worse && out.contains("FAILS MORE"), "{out}");
        let other = results(30, &[("b", 904, &|_| 1)]);
        assert!(changes(&run(20), &other, 5.0).is_err());
    }

    #[test]
    fn problems_of_the_later_run_are_named_and_no_success() {
        let mut after = run(20);
        after.header.verdicts[0].different = 3;
        let (out, worse) = changes(&run(20), &after, 5.0).unwrap();
        assert!(
            worse && out.contains("After: a FAILED: 3 answers differ"),
            "{out}"
        );
        assert!(
            !changes(&after, &run(20), 5.0).unwrap().1,
            "what was wrong before is over"
        );
    }

    #[test]
    fn what_only_one_run_has_and_other_settings_are_named_and_no_success() {
        let (mut before, mut after) = (run(20), run(20));
        let setting = |value: &str| BTreeMap::from([("loop".to_owned(), value.to_owned())]);
        (before.header.settings, after.header.settings) = (setting("closed"), setting("closed"));
        assert!(!changes(&before, &after, 5.0).unwrap().1);
        after.header.settings = setting("open, 50 a second");
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(
            worse && out.contains("OTHER SETTINGS: loop: closed before, open, 50 a second after"),
            "{out}"
        );
        after.header.settings = setting("closed");
        after.cells.push(CellHead {
            arm: "b".to_owned(),
            subject: "new".to_owned(),
            size: None,
        });
        let (out, worse) = changes(&before, &after, 5.0).unwrap();
        assert!(
            worse && out.contains("NOT COMPARED: b about new is not in before"),
            "{out}"
        );
        let (out, worse) = changes(&after, &before, 5.0).unwrap();
        assert!(
            worse && out.contains("b about new is not in after"),
            "{out}"
        );
        after.header.preset = "nodes".to_owned();
        assert!(changes(&before, &after, 5.0).is_err());
    }
}
