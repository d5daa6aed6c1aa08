//! A day with a migration to Alpenglow at noon.

use crate::{
    fired_alerts, hours, migration_faults, now,
    recording::{HOUR, Node, Recording},
    stored,
};
use faultline_testkit::{
    Result,
    prometheus::{Prometheus, SKIP_MESSAGE},
};

#[test]
fn a_migration_day_fires_no_alert_and_each_fault_its_own() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (recording, rules) = (Recording::read("migration"), stored::rules()?);
    let to = now() - HOUR;
    let from = to - 24 * HOUR;
    let node = |instance, from, to| Node {
        instance,
        from,
        to,
        faults: Vec::new(),
        change: None,
    };
    let mut nodes = vec![node("healthy", from, to), node("faulty", from, to)];
    let faults = migration_faults::all();
    nodes[1].faults = faults
        .map(|fault| (from + hours(fault.at), fault))
        .collect();
    // A migration can have only one of these faults at a time. Their days begin with the other
    // days.
    for fault in migration_faults::IN_THE_MIGRATION {
        let mut node = node(fault.what, from, from + 4 * HOUR);
        node.faults = vec![(from + hours(fault.at), fault)];
        nodes.push(node);
    }
    let storage = stored::of_alerts(&recording, &rules, &nodes, folder.path())?;
    let prometheus = stored::on(&storage, Vec::new())?;
    let days = format!("count(count_over_time(up[1d] @ {}))", to / 1000);
    // Checks that the nodes are stored. Without them, no alert could fire.
    assert_eq!(prometheus.query(&days)?[0].1, nodes.len() as f64);
    let fired = fired_alerts::all(&prometheus, &rules, [from, to])?;
    fired_alerts::assert_quiet(&fired, "healthy");
    fired_alerts::assert_explained(&fired, "faulty", migration_faults::all());
    for fault in migration_faults::IN_THE_MIGRATION {
        fired_alerts::assert_explained(&fired, fault.what, std::iter::once(fault));
    }
    Ok(())
}
