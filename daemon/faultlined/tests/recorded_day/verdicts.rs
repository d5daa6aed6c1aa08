//! A table of the effects of each change on each rule.

use crate::{changes::Change, fired_alerts::FiredAlert};
use faultline_testkit::prometheus::Rule;
use std::fmt::Write as _;

/// Hours by which an alert may shift because of a change.
const TOLERANCE: f64 = 0.15;

/// The alerts of each rule in a day; `None` if Prometheus refuses the rule.
pub type OfRules = Vec<Option<Vec<FiredAlert>>>;

/// A change, and the effects on each rule: none, or signs of `LEGEND`.
pub type Column = (Change, Vec<String>);

pub const LEGEND: &str = "E: the rule errs; o: alerts of another instance differ; f: a false alert; m: an alert is missing";

/// Compares a day with a change to the same day without it.
pub fn compare(without: &OfRules, with: &OfRules, leaves_faults: bool) -> Vec<String> {
    let of_rule = |(without, with): (&Option<Vec<FiredAlert>>, &Option<Vec<FiredAlert>>)| {
        let (Some(without), Some(with)) = (without, with) else {
            return "E".to_owned();
        };
        let of = |fired: &[FiredAlert], instance: &str| -> Vec<FiredAlert> {
            let of = fired.iter().filter(|one| one.instance == instance);
            of.cloned().collect()
        };
        let (before, after) = (of(without, "faulty"), of(with, "changing_faulty"));
        let others = |fired: &[FiredAlert]| -> Vec<FiredAlert> {
            let is_other = |one: &&FiredAlert| !one.instance.starts_with("changing");
            fired.iter().filter(is_other).cloned().collect()
        };
        let differ = !same(&others(without), &others(with));
        let is_false = !of(with, "changing").is_empty() || !all_in(&after, &before);
        let is_missing = leaves_faults && !all_in(&before, &after);
        let found = [(differ, 'o'), (is_false, 'f'), (is_missing, 'm')];
        found
            .iter()
            .filter_map(|(is_so, sign)| is_so.then_some(*sign))
            .collect()
    };
    without.iter().zip(with).map(of_rule).collect()
}

fn same(one: &[FiredAlert], other: &[FiredAlert]) -> bool {
    let instances = |fired: &[FiredAlert]| -> Vec<String> {
        let mut all: Vec<_> = fired.iter().map(|one| one.instance.clone()).collect();
        all.sort_unstable();
        all
    };
    instances(one) == instances(other)
        && one.iter().all(|one| {
            other
                .iter()
                .any(|other| other.instance == one.instance && is_near(one, other))
        })
}

fn is_near(one: &FiredAlert, other: &FiredAlert) -> bool {
    (one.from - other.from).abs() < TOLERANCE && (one.to - other.to).abs() < TOLERANCE
}

/// True if each alert of `some` is at the time of an alert of `all`.
fn all_in(some: &[FiredAlert], all: &[FiredAlert]) -> bool {
    some.iter().all(|one| {
        all.iter()
            .any(|other| one.from < other.to + TOLERANCE && other.from < one.to + TOLERANCE)
    })
}

/// The table, with rules as rows and changes as columns.
pub fn table(rules: &[&Rule], columns: &[Column]) -> String {
    let mut text = format!("{LEGEND}\n{:<58}", "");
    for (change, _) in columns {
        // Writing to a String cannot fail.
        let _ = write!(text, " {:<17}", format!("{change:?}"));
    }
    for (at, rule) in rules.iter().enumerate() {
        let _ = write!(text, "\n{:<58}", name(rule));
        for (_, cells) in columns {
            let cell = cells.get(at).map_or("", String::as_str);
            let _ = write!(text, " {:<17}", if cell.is_empty() { "." } else { cell });
        }
    }
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// The rule's name, with the labels that distinguish rules of this name.
pub fn name(rule: &Rule) -> String {
    let labels = rule.labels.values().map(String::as_str);
    format!("{} {}", rule.name, labels.collect::<Vec<_>>().join(" "))
}

#[test]
fn added_and_missing_alerts_are_marked_with_their_sign() {
    let fired = |instance: &str, from: f64| FiredAlert {
        alert: "A".to_owned(),
        severity: "page".to_owned(),
        because: String::new(),
        instance: instance.to_owned(),
        from,
        to: from + 1.0,
    };
    let without = vec![Some(vec![fired("faulty", 2.0)])];
    for (with, wanted) in [
        (None, "E"),
        (
            Some(vec![fired("faulty", 2.0), fired("changing_faulty", 2.1)]),
            "",
        ),
        (Some(vec![fired("changing_faulty", 2.0)]), "o"),
        (
            Some(vec![fired("faulty", 3.0), fired("changing_faulty", 2.0)]),
            "o",
        ),
        (Some(vec![fired("faulty", 2.0)]), "m"),
        (
            Some(vec![fired("faulty", 2.0), fired("changing_faulty", 5.0)]),
            "fm",
        ),
        (
            Some(vec![
                fired("faulty", 2.0),
                fired("changing_faulty", 2.0),
                fired("changing", 9.0),
            ]),
            "f",
        ),
    ] {
        assert_eq!(compare(&without, &vec![with], true), [wanted]);
    }
}
