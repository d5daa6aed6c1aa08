//! A real follower at the tip is stopped for 67 s, continued, and comes back. What the daemon says in the end is what the report says
//! of its recording: it did not keep up, and pause and catch-up are time behind. Page and recording are kept in `target/frozen`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_phase::Phase;
use faultline_report::{
    measure::{Measured, measure},
    run::{Run, load},
};
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
    expose::Page,
    process::signal,
};
use serde_json::json;
use std::{fs, path::Path, time::Duration};

/// Deadline of one step.
const TIMEOUT: Duration = Duration::from_secs(300);

/// It is stopped while the leader makes as many slots as in 67 s.
const STOPPED_SLOTS: u64 = 167;

/// A distance that the pause does not reach: only the standstill shows that it fell behind.
const CONFIG: &str = "[phase]\nat_tip_for = \"10s\"\nbehind_slots = 1000\n";

fn start_daemon(folder: &Path, ledger: &Path) -> Result<Daemon> {
    let config = folder.join("faultlined.toml");
    fs::write(&config, CONFIG).expect("a configuration");
    let [config, ledger, run] =
        [&config, ledger, &folder.join("run.fltl")].map(|path| path.display().to_string());
    let daemon = Path::new(env!("CARGO_BIN_EXE_faultline")).with_file_name("faultlined");
    assert!(
        daemon.is_file(),
        "no {}: cargo build -p faultlined",
        daemon.display()
    );
    Daemon::start(
        &daemon.display().to_string(),
        &["--config", &config, "--ledger", &ledger, "--record", &run],
        folder,
    )
}

fn seconds_in(page: &Page, phase: Phase) -> f64 {
    let labels = [("phase", phase.name())];
    page.get("agave_phase_seconds_total", &labels)
        .unwrap_or(0.0)
}

fn seconds_of(run: &Run, measured: &Measured, phase: Phase) -> f64 {
    let pairs = run.ticks.windows(2).zip(&measured.lifecycle.phase_by_tick);
    pairs
        .filter(|(_, of)| **of == Some(phase))
        .map(|(pair, _)| pair[1].at - pair[0].at)
        .sum()
}

/// Waits until the follower has been in this phase for so many seconds more.
fn wait_in(daemon: &Daemon, phase: Phase, seconds: f64) {
    let before = daemon.scrape().map_or(0.0, |page| seconds_in(&page, phase));
    let is_on = [("phase", phase.name())];
    eventually_ok(TIMEOUT, phase.name(), || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let more = seconds_in(&page, phase) - before;
        match page.get("agave_phase", &is_on) {
            Some(1.0) if more >= seconds => Ok(()),
            other => Err(format!("{other:?}, {more} s")),
        }
    });
}

/// The last page of the daemon with the report of its recording.
fn compare(page: &Page, run: &Run) {
    let measured = measure(run);
    let success = &measured.lifecycle.success;
    println!("the report: {:?}, {}", success.passed, success.why);
    assert_eq!(page.get("agave_kept_up", &[]), Some(0.0), "the daemon");
    assert_eq!(success.passed, Some(false), "{}", success.why);
    for phase in Phase::ALL {
        let (live, report) = (seconds_in(page, phase), seconds_of(run, &measured, phase));
        println!(
            "{}: the daemon {live:.1} s, the report {report:.1} s",
            phase.name()
        );
        // After the scrape the daemon lived on for a tick or two, and some time was open.
        assert!(
            (live - report).abs() <= 3.0,
            "{phase:?}: {live} s, {report} s"
        );
    }
    let behind = seconds_in(page, Phase::Behind);
    assert!(behind >= 60.0, "{behind} s of pause and catch-up");
    assert_eq!(
        measured.lifecycle.stalls.len(),
        1,
        "{:?}",
        measured.lifecycle.stalls
    );
}

#[test]
#[ignore = "takes three minutes: .ci/run --long, or cargo test --workspace --test real_frozen -- --ignored"]
fn report_and_daemon_agree_about_a_stopped_follower() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("frozen");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the results of the last run");
    }
    let nodes = folder.join("nodes");
    fs::create_dir_all(&nodes).expect("a folder for the nodes");
    let daemon = start_daemon(&folder, &nodes.join("follower"))?;
    let mut cluster = Cluster::start_leader(ClusterOptions {
        follower_metrics: Some(daemon.ingest_url()),
        folder: Some(nodes),
        ..ClusterOptions::default()
    })?;
    let follower = cluster.start_follower()?;
    wait_in(&daemon, Phase::AtTip, 20.0);

    let slot = || {
        cluster
            .leader_rpc()
            .call("getSlot", json!([]))
            .ok()?
            .as_u64()
    };
    let wanted = slot().map(|slot| slot + STOPPED_SLOTS);
    signal(follower, "STOP")?;
    eventually_ok(TIMEOUT, "the leader goes on", || {
        let slot = slot();
        if slot >= wanted { Ok(()) } else { Err(slot) }
    });
    signal(follower, "CONT")?;
    wait_in(&daemon, Phase::AtTip, 10.0);

    let page = daemon.scrape()?;
    fs::write(folder.join("page.prom"), daemon.page()?).expect("the page is kept");
    assert_eq!(daemon.stop()?, Some(0));
    drop(cluster);
    let run = load(&folder.join("run.fltl")).expect("a recording");
    compare(&page, &run);
    Ok(())
}
