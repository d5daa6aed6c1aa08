//! The shipped rules in a real Prometheus, while a node with slots of 0.2 s migrates to Alpenglow.
//! No alert with severity page may fire.
//!
//! All times of the rules are divided by [`FASTER`]. Thresholds do not change.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use super::{
    alpenglow::{daemon, process},
    prometheus_restart::faster_rules,
};
use faultline_testkit::{
    Result,
    alpenglow::{self, Node},
    daemon::Daemon,
    eventually::eventually_ok,
    http,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use std::{thread::sleep, time::Duration};

const FASTER: u32 = 12;
const SLOT_TIME: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(150);
/// Longer than the `for` of each page alert, which is at most 5 minutes.
const MIGRATING: Duration = Duration::from_secs(40);
/// A sign of Tower expires after a minute. One round later, its end is exported.
const TOWER_IS_BELIEVED: Duration = Duration::from_secs(90);
/// Longer than the 15 minutes in which alerts are silent after a migration, plus the `for` of each
/// page alert.
const AFTERWARDS: Duration = Duration::from_secs(110);
/// Alerts about the machine, or about a node that pushes only events.
const OTHERS: &str = "AgaveMaxMapCount|AgaveUdpDrops|AgaveDisk.*|AgaveFilesystem.*|AgaveOpenFiles.*|AgaveOom.*|Faultline.*";

fn push(daemon: &Daemon, file: &str) -> Result<()> {
    let lines = alpenglow::text(file)?;
    let answer = http::post(daemon.ingest(), "/write?db=x&precision=n", lines.as_bytes())?;
    assert_eq!(answer.status, 204, "{file}");
    Ok(())
}

fn wait_for(daemon: &Daemon, metric: &str, label: (&str, &str)) {
    let what = format!("{metric} {label:?}");
    eventually_ok(TIMEOUT, &what, || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        match page.get(metric, &[label]) {
            Some(1.0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    });
}

/// The page alerts that have fired so far.
pub fn pages(prometheus: &Prometheus) -> Result<Vec<String>> {
    let firing = format!(
        "count by (alertname, because) (count_over_time(ALERTS{{alertstate='firing',severity='page',alertname!~'{OTHERS}'}}[15m]))"
    );
    let series = prometheus.query(&firing)?;
    Ok(series
        .iter()
        .map(|(labels, _)| format!("{labels:?}"))
        .collect())
}

/// Sets a phase, without the methods that need --full-rpc-api.
fn set_phase_on_minimal_api(node: &Node, phase: &str, roots: bool) {
    node.set_phase(phase);
    for method in [
        "getAgGenesisCert",
        "getAccountInfo",
        "getBlockProduction",
        "getMaxShredInsertSlot",
    ] {
        node.set_variant(method, "getAgGenesisCert-minimal-api.json");
    }
    node.advance(SLOT_TIME, roots);
}

/// The protocol in `agave_consensus`.
fn protocol(daemon: &Daemon) -> Result<Option<&'static str>> {
    let page = daemon.scrape()?;
    let is_on =
        |protocol: &&str| page.get("agave_consensus", &[("protocol", protocol)]) == Some(1.0);
    Ok(["tower", "migrating", "alpenglow"].into_iter().find(is_on))
}

#[test]
fn minimal_api_migration_is_unknown_until_the_marker_proves_alpenglow() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start("tower")?;
    set_phase_on_minimal_api(&node, "tower", true);
    let validator = process(folder.path())?;
    let daemon = daemon(folder.path(), &validator, &node)?;
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files: faster_rules(folder.path(), FASTER),
        ..PrometheusOptions::default()
    })?;
    wait_for(&daemon, "agave_consensus", ("protocol", "tower"));

    set_phase_on_minimal_api(&node, "migrating", false);
    eventually_ok(TOWER_IS_BELIEVED, "tower ends", || {
        match protocol(&daemon) {
            Ok(None) => Ok(()),
            other => Err(other),
        }
    });
    for _ in 0..MIGRATING.as_secs() {
        assert_eq!(protocol(&daemon)?, None);
        sleep(Duration::from_secs(1));
    }
    assert_eq!(pages(&prometheus)?, [""; 0]);

    set_phase_on_minimal_api(&node, "migration-epoch", true);
    wait_for(&daemon, "agave_consensus", ("protocol", "alpenglow"));
    let sign = ("sign", "epochCredits marker");
    wait_for(&daemon, "agave_consensus_sign_info", sign);
    sleep(MIGRATING);
    assert_eq!(pages(&prometheus)?, [""; 0]);
    Ok(())
}

#[test]
fn a_migration_fires_no_paging_alert() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start("tower")?;
    node.advance(SLOT_TIME, true);
    let validator = process(folder.path())?;
    let daemon = daemon(folder.path(), &validator, &node)?;
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files: faster_rules(folder.path(), FASTER),
        ..PrometheusOptions::default()
    })?;
    wait_for(&daemon, "agave_phase", ("phase", "at_tip"));
    wait_for(&daemon, "agave_consensus", ("protocol", "tower"));
    let slot_time = daemon.scrape()?.get("agave_slot_seconds", &[]);
    assert!(
        slot_time.is_some_and(|seconds| (seconds - 0.2).abs() < 0.01),
        "{slot_time:?}"
    );

    push(&daemon, "events/migration-started.lp")?;
    node.set_phase("migrating");
    node.advance(SLOT_TIME, false);
    wait_for(&daemon, "agave_consensus", ("protocol", "migrating"));
    sleep(MIGRATING);
    assert_eq!(pages(&prometheus)?, [""; 0]);

    // Slots above the genesis block are purged.
    push(&daemon, "events/migration-complete.lp")?;
    node.set_phase("migration-epoch");
    node.advance(SLOT_TIME, true);
    wait_for(&daemon, "agave_consensus", ("protocol", "alpenglow"));
    sleep(AFTERWARDS);
    assert_eq!(pages(&prometheus)?, [""; 0]);
    let page = daemon.scrape()?;
    assert_eq!(page.get("agave_phase", &[("phase", "at_tip")]), Some(1.0));
    assert_eq!(
        page.get("agave_kept_up", &[]),
        Some(1.0),
        "{}",
        daemon.log()
    );
    Ok(())
}
