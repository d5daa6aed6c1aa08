//! 25 recorded minutes of a healthy, voting validator, repeated for a day, in the storage of a real
//! Prometheus. In the plain day, no alert may hold for its `for`. In a day with faults, each fault
//! must have its alerts, and no other alert may fire.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test that cannot prepare its scene fails; it starts programs, mounts a disk and asks what time it is"
)]

use faultline_testkit::{
    Result,
    eventually::eventually_ok,
    prometheus::{Prometheus, SKIP_MESSAGE},
};
use faults::Fault;
use recording::{HOUR, Node, Recording};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

#[path = "recorded_day/changes.rs"]
mod changes;
#[path = "real_alerts/disk.rs"]
#[allow(dead_code, reason = "the recorder fills no disk")]
mod disk;
#[path = "recorded_day/drawn.rs"]
mod drawn;
#[path = "recorded_day/faults.rs"]
mod faults;
#[path = "recorded_day/fired_alerts.rs"]
mod fired_alerts;
#[path = "faultlined/support/limited.rs"]
mod limited;
#[path = "recorded_day/migration.rs"]
mod migration;
#[path = "recorded_day/migration_day.rs"]
mod migration_day;
#[path = "recorded_day/migration_faults.rs"]
mod migration_faults;
#[path = "recorded_day/recorder.rs"]
mod recorder;
#[path = "recorded_day/recording.rs"]
mod recording;
#[path = "recorded_day/stored.rs"]
mod stored;
#[path = "recorded_day/unchanged.rs"]
mod unchanged;
#[path = "recorded_day/verdicts.rs"]
mod verdicts;

const PATIENCE: Duration = Duration::from_secs(240);

/// Milliseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_millis()).expect("a time")
}

fn hours(hours: f64) -> i64 {
    (hours * HOUR as f64) as i64
}

#[test]
#[ignore = "takes 35 minutes: it renews the recording. See recorded_day/README.md"]
fn a_healthy_voting_validator_is_recorded() -> Result<()> {
    recorder::record()
}

#[test]
#[ignore = "takes 38 minutes: it renews the recording. See recorded_day/README.md"]
fn a_node_that_migrates_is_recorded() -> Result<()> {
    migration::record()
}

#[test]
fn a_healthy_day_fires_no_alert_and_each_injected_fault_its_own() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (recording, rules) = (Recording::read("healthy"), stored::rules()?);
    let (from, to) = (now() - 25 * HOUR, now() - HOUR);
    let faults: Vec<_> = faults::all()
        .map(|fault| (from + hours(fault.at), fault))
        .collect();
    let nodes = [("healthy", Vec::new()), ("faulty", faults)].map(|(instance, faults)| Node {
        instance,
        from,
        to,
        faults,
        change: None,
    });
    let storage = stored::of_alerts(&recording, &rules, &nodes, folder.path())?;
    let prometheus = stored::on(&storage, Vec::new())?;
    // Checks that the nodes are stored. Without them, no alert could fire.
    assert_eq!(
        prometheus.query(&format!("count(count_over_time(up[1d] @ {}))", to / 1000))?[0].1,
        2.0
    );
    let fired = fired_alerts::all(&prometheus, &rules, [from, to])?;
    fired_alerts::assert_quiet(&fired, "healthy");
    fired_alerts::assert_explained(&fired, "faulty", faults::all());
    Ok(())
}

/// The shipped rules, without `for`.
fn at_once(folder: &Path) -> Vec<PathBuf> {
    let quick = |line: &str| match line.trim_start() {
        words if words.starts_with("for: ") => "        for: 0s\n".to_owned(),
        words if words.starts_with("interval: ") => "    interval: 5s\n".to_owned(),
        _ => format!("{line}\n"),
    };
    let text = fs::read_to_string(stored::shipped("faultline.alerts.yml")).expect("the rules");
    let copy = folder.join("faultline.alerts.yml");
    fs::write(&copy, text.lines().map(quick).collect::<String>()).expect("a copy of the rules");
    vec![copy]
}

#[test]
fn in_a_fleet_each_nodes_fault_fires_only_its_own_alert() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (recording, rules) = (Recording::read("healthy"), stored::rules()?);
    // The storage has samples beyond the end of this test. So at any moment Prometheus reads what
    // it would have scraped.
    let (now, to) = (now(), now() + HOUR / 2);
    let mut nodes = vec![Node {
        instance: "healthy",
        from: now - 4 * HOUR,
        to,
        faults: Vec::new(),
        change: None,
    }];
    let endless: Vec<Fault> = faults::MAIN.iter().map(Fault::without_an_end).collect();
    for (fault, endless) in faults::MAIN.iter().zip(&endless) {
        let began = now - hours(fault.hours) + 30_000;
        nodes.push(Node {
            instance: fault.what,
            from: began - HOUR,
            to,
            faults: vec![(began, endless)],
            change: None,
        });
    }
    let storage = stored::of_alerts(&recording, &rules, &nodes, folder.path())?;
    let prometheus = stored::on(&storage, at_once(folder.path()))?;
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for fault in faults::MAIN {
        wanted.insert(
            fault.what.to_owned(),
            fault
                .alerts
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .collect(),
        );
    }
    eventually_ok(PATIENCE, "of each node its alerts and no other", || {
        let mut firing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for labels in prometheus
            .firing_with_labels()
            .map_err(|error| error.to_string())?
        {
            let word = |name| labels.get(name).cloned().unwrap_or_default();
            firing
                .entry(word("instance"))
                .or_default()
                .insert(word("alertname"));
        }
        if firing == wanted {
            Ok(())
        } else {
            Err(format!("{firing:#?}"))
        }
    });
    Ok(())
}
