//! Makes the recording of a migration. A mock node responds and pushes as a release does. A release
//! build of the daemon follows it. A Prometheus with the shipped rules scrapes the daemon every 15
//! s.

use crate::{
    recorder::{self, PATIENCE, SCRAPED_EVERY, tree},
    recording::Recording,
};
use faultline_testkit::{
    Result,
    alpenglow::{self, Node},
    daemon::Daemon,
    eventually::eventually_ok,
    http,
    prometheus::{Prometheus, PrometheusOptions},
    simulated::PROGRAM_NAME,
};
use std::{
    fs,
    time::{Duration, Instant},
};

const SLOT_TIME: Duration = Duration::from_millis(200);
const MIGRATION_SLOT: u64 = 459_653_000;
/// Time after which the effects of the start are over, and after which every request of the start
/// has a response.
const SETTLES: u64 = 3 * 60;
/// Longer than the part that [`Recording`] repeats, so that this part can begin and end at scrapes.
const TOWER: u64 = 6 * 60 + 45;
const MIGRATING: u64 = 5 * 60;
const ALPENGLOW: u64 = (17 + 6) * 60 + 45;

/// Sleeps until this many seconds after the begin.
fn sleep_until(begin: Instant, seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds).saturating_sub(begin.elapsed()));
}

/// Pushes the lines of an event, from the line with the event's name on.
fn push(daemon: &Daemon, event: &str) -> Result<()> {
    let text = alpenglow::text(&format!("events/{event}.lp"))?;
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with(event))
        .collect();
    let answer = http::post(
        daemon.ingest(),
        "/write?db=x&precision=n",
        lines.join("\n").as_bytes(),
    )?;
    assert_eq!(answer.status, 204, "{event}");
    Ok(())
}

/// Waits until the page has the value 1 for this label.
fn wait_for(daemon: &Daemon, metric: &str, label: (&str, &str)) {
    eventually_ok(PATIENCE, &format!("{metric} {label:?}"), || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        match page.get(metric, &[label]) {
            Some(1.0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    });
}

pub fn record() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = folder.path().join("ledger");
    fs::create_dir(&ledger).expect("a folder");
    // The daemon follows this process. Its name is a validator's, and its ledger is a validator's
    // default.
    fs::write("/proc/self/comm", PROGRAM_NAME).expect("a name");
    std::env::set_current_dir(folder.path()).expect("a folder");
    let mut node = Node::start("tower")?;
    node.answer_at_ledger(&ledger)?;
    let daemon = Daemon::start(
        &recorder::program(),
        &["--ledger", &ledger.display().to_string()],
        folder.path(),
    )?;
    let begin = Instant::now();
    let slots = (SETTLES + TOWER) * 1_000 / SLOT_TIME.as_millis() as u64;
    node.advance_from(MIGRATION_SLOT - slots, SLOT_TIME, true);
    node.push_to(daemon.ingest());
    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files: vec![tree("grafana/prometheus/rules/*.yml")],
        interval: Some(SCRAPED_EVERY),
        ..PrometheusOptions::default()
    })?;
    prometheus.wait_until_up(PATIENCE)?;
    wait_for(&daemon, "agave_phase", ("phase", "at_tip"));
    wait_for(&daemon, "agave_consensus", ("protocol", "tower"));
    push(&daemon, "migration-started")?;
    sleep_until(begin, SETTLES);
    println!("settled; firing: {:?}", prometheus.firing()?);

    sleep_until(begin, SETTLES + TOWER);
    node.set_phase("migrating");
    node.advance_from(MIGRATION_SLOT, SLOT_TIME, false);
    wait_for(&daemon, "agave_consensus", ("protocol", "migrating"));
    println!("migrates; firing: {:?}", prometheus.firing()?);

    sleep_until(begin, SETTLES + TOWER + MIGRATING);
    push(&daemon, "migration-complete")?;
    // Slots above the genesis block are purged.
    node.set_phase("migration-epoch");
    node.advance_from(MIGRATION_SLOT, SLOT_TIME, true);
    wait_for(&daemon, "agave_consensus", ("protocol", "alpenglow"));

    let length = SETTLES + TOWER + MIGRATING + ALPENGLOW;
    sleep_until(begin, length);
    println!("fired at the end: {:?}", prometheus.firing()?);
    let seconds = u32::try_from(length - SETTLES).expect("an hour or so");
    recorder::keep(&prometheus, &ledger, seconds, &Recording::file("migration"))
}
