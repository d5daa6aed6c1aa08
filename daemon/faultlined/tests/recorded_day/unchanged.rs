//! A day in which one node changes. Its alerts and those of the other nodes must not change.

use crate::{
    changes::{self, Change},
    faults, fired_alerts, hours, now,
    recording::{HOUR, Node, Recording},
    stored,
    verdicts::{self, Column, OfRules},
};
use faultline_testkit::{
    Error, Result,
    prometheus::{Prometheus, Rule, SKIP_MESSAGE},
};
use std::{env, time::Instant};

/// Seconds between evaluations. With 15, the test takes four times as long.
const INTERVAL: f64 = 60.0;

/// The alerts of a day. With a change, also the alerts of two nodes that have it.
fn day(
    recording: &Recording,
    rules: &[Rule],
    change: Option<Change>,
    from: i64,
) -> Result<OfRules> {
    let to = from + 24 * HOUR;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let node = |instance, is_faulty: bool, change: Option<Change>| {
        let faults = faults::all().filter(|_| is_faulty);
        let faults = faults
            .map(|fault| (from + hours(fault.at), fault))
            .collect();
        let change = change.map(|change| (change, change.moments(from)));
        Node {
            instance,
            from,
            to,
            faults,
            change,
        }
    };
    let of_all = change.filter(|change| *change == Change::PrometheusRestart);
    let mut nodes = vec![node("healthy", false, of_all), node("faulty", true, of_all)];
    if change.is_some() {
        nodes.push(node("changing", false, change));
    }
    if change.is_some_and(Change::leaves_faults) {
        nodes.push(node("changing_faulty", true, change));
    }
    let read = stored::read_by_alerts(rules);
    let stored = stored::store(
        recording,
        rules,
        &|name| read.contains(name),
        &nodes,
        folder.path(),
    )?;
    let prometheus = stored::on(&stored.folder, Vec::new())?;
    let pauses = change.map_or_else(Vec::new, |change| change.pauses(from));
    let of_rule = |rule: &Rule| {
        let is_refused = stored::words(&rule.expression)
            .any(|word| stored.refused.iter().any(|refused| refused == word));
        match fired_alerts::of_rule(&prometheus, rule, [from, to], &pauses) {
            _ if is_refused => Ok(None),
            Err(Error::Malformed {
                what: "prometheus refuses",
                ..
            }) => Ok(None),
            fired => fired.map(Some),
        }
    };
    let alerts = rules.iter().filter(|rule| rule.is_alert);
    alerts.map(of_rule).collect()
}

/// All changes, or those in `FAULTLINE_CHANGES`.
fn selected() -> Vec<Change> {
    let names = env::var("FAULTLINE_CHANGES").ok();
    let is_selected = |change: &Change| {
        let name = format!("{change:?}");
        names
            .as_ref()
            .is_none_or(|names| names.split(',').any(|one| one == name))
    };
    let selected: Vec<Change> = changes::ALL.into_iter().filter(is_selected).collect();
    assert!(
        !selected.is_empty(),
        "FAULTLINE_CHANGES names none of {:?}",
        changes::ALL
    );
    selected
}

#[test]
#[ignore = "takes minutes, of two cores; part of .ci/run --long"]
fn node_changes_neither_hide_nor_fake_alerts() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let (recording, mut rules) = (Recording::read("healthy"), stored::rules()?);
    for rule in &mut rules {
        rule.interval = INTERVAL;
    }
    let from = (now() - 25 * HOUR) / 60_000 * 60_000;
    let without = day(&recording, &rules, None, from)?;
    let mut columns: Vec<Column> = Vec::new();
    for change in selected() {
        let begin = Instant::now();
        let with = day(&recording, &rules, Some(change), from)?;
        for one in with.iter().flatten().flatten() {
            if one.instance.starts_with("changing") && env::var_os("FAULTLINE_SHOW").is_some() {
                println!("{change:?}: {one}");
            }
        }
        columns.push((
            change,
            verdicts::compare(&without, &with, change.leaves_faults()),
        ));
        println!("{change:?}: {} s", begin.elapsed().as_secs());
    }
    let alerts: Vec<&Rule> = rules.iter().filter(|rule| rule.is_alert).collect();
    println!("{}", verdicts::table(&alerts, &columns));
    let wrong = columns.iter().flat_map(|(change, cells)| {
        let of_rules = alerts
            .iter()
            .zip(cells)
            .filter(|(_, cell)| !cell.is_empty());
        of_rules.map(move |(rule, cell)| format!("{change:?}: {} {cell}", verdicts::name(rule)))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    Ok(())
}
