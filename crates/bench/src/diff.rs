//! `bench diff`: yesterday's run against today's.
//!
//! The runs were at different times, so their rounds are no pairs: each mean has its own interval by block bootstrap, and the
//! interval of the difference follows from both (MOVER, Zou and Donner 2008).

use crate::args::DiffArgs;
use crate::compare;
use crate::compression;
use crate::render;
use crate::results::{CellHead, Results};
use crate::store;
use anyhow::ensure;
use faultline_stats::block;
use faultline_text::{count, number, table};
use std::fmt::Write as _;

/// One cell in both runs, in milliseconds.
struct Changed {
    before: f64,
    after: f64,
    /// Of the difference.
    low: f64,
    high: f64,
}

/// Compares two results; exit code 1 if anything is slower, or fails more often, by more than the margin, if the later run
/// has problems of its own, or if the runs were not asked the same.
///
/// # Errors
/// A file that cannot be read; two runs that have nothing in common.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<(String, u8)> {
    let headers = [&args.before, &args.after]
        .map(|file| store::header(file).map(|(preset, header)| (file, preset, header)));
    if let [Ok((one, first, before)), Ok((other, second, after))] = &headers
        && [first, second]
            .iter()
            .all(|preset| *preset == "compression")
    {
        let (before, after) = (
            compression::kept(one, before)?,
            compression::kept(other, after)?,
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
    let (mut rows, mut worse) = (Vec::new(), false);
    for (place, head) in before.cells.iter().enumerate() {
        let Some(other) = after.cell(&head.arm, &head.subject) else {
            continue;
        };
        let (row, is_worse) = row(head, (before, place), (after, other), margin);
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
        "Intervals (95 %) are of these runs alone: runs of other hours may differ by more."
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
    margin: f64,
) -> (Vec<String>, bool) {
    let failed = [failed(a.0, a.1), failed(b.0, b.1)];
    let fails_more = failed[1] - failed[0] > margin / 100.0;
    let changed = changed(a.0, a.1, b.0, b.1);
    let slower = changed
        .as_ref()
        .is_some_and(|changed| changed.low > changed.before * margin / 100.0);
    let faster = changed
        .as_ref()
        .is_some_and(|changed| changed.high < -changed.before * margin / 100.0);
    let verdict = match (fails_more, slower, faster, &changed) {
        (true, ..) => "FAILS MORE",
        (_, true, ..) => "SLOWER",
        (_, _, true, _) => "faster",
        (.., None) => "not comparable",
        _ => "no change shown",
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
    row.push(verdict.to_owned());
    (row, fails_more || slower)
}

/// What only one of the runs has.
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

/// How the runs were asked otherwise; of a cell that only one has, that is said already.
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

fn changed(before: &Results, first: usize, after: &Results, second: usize) -> Option<Changed> {
    let plan = compare::plan();
    let a = block::amount(&before.by_round(first), &plan)?;
    let b = block::amount(&after.by_round(second), &plan)?;
    let difference = b.value - a.value;
    Some(Changed {
        before: a.value,
        after: b.value,
        low: difference - (b.value - b.low).hypot(a.high - a.value),
        high: difference + (b.high - b.value).hypot(a.value - a.low),
    })
}

fn cells(changed: &Changed) -> Vec<String> {
    let percent = |difference: f64| number(difference / changed.before * 100.0, 1);
    vec![
        number(changed.before, 3),
        number(changed.after, 3),
        format!("{} %", percent(changed.after - changed.before)),
        format!("{} to {} %", percent(changed.low), percent(changed.high)),
    ]
}

/// Share of requests that failed.
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
