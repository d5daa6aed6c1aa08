//! A node migrates to Alpenglow while it is recorded. The recording and the report agree with an independent reader of the node's
//! answers, and with the daemon's last page.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; it starts programs"
)]

use faultline_metrics::{Metric, metrics::votes as m};
use faultline_phase::Phase;
use faultline_recording::Recording;
use faultline_report::{
    measure::measure,
    run::{Run, load},
};
use faultline_testkit::{
    Result,
    alpenglow::{self, Node},
    daemon::Daemon,
    eventually::eventually_ok,
    expose::Page,
    http,
    process::{Program, Running},
};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, path::Path, process::Command, thread::sleep, time::Duration};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
const TIMEOUT: Duration = Duration::from_secs(150);
const SLOT_TIME: Duration = Duration::from_millis(200);
/// Long enough for a standstill to be noticed, if there were one.
const PHASE_LENGTH: Duration = Duration::from_secs(20);
/// More slots than a validator may be behind, for longer than it takes to be called so.
const MIGRATING: Duration = Duration::from_secs(40);
/// The first slot that the migration purges.
const MIGRATION_SLOT: u64 = 459_653_000;
/// The sign of the migration's end comes later than the purge.
const SIGN_DELAY: Duration = Duration::from_secs(10);

/// A process to follow. Its node is elsewhere.
fn process(folder: &Path) -> Result<Running> {
    let path = folder.join("agave-validator");
    symlink("/bin/sleep", &path).expect("a link");
    Running::start(&Program {
        path,
        arguments: vec!["600".to_owned()],
        environment: Vec::new(),
        output: folder.join("validator.log"),
    })
}

fn daemon(folder: &Path, validator: &Running, node: &Node) -> Result<Daemon> {
    let config = folder.join("faultlined.toml");
    let text = format!(
        "[target]\npid = {}\n[rpc]\nurl = \"{}\"\n[validator]\ninterval = \"1s\"\n[phase]\nat_tip_for = \"5s\"\n",
        validator.pid(),
        node.url()
    );
    fs::write(&config, text).expect("a configuration");
    let [config, run] = [&config, &folder.join("run.fltl")].map(|path| path.display().to_string());
    let program = Path::new(FAULTLINE).with_file_name("faultlined");
    assert!(program.is_file(), "first: cargo build --bin faultlined");
    let options = ["--config", &config, "--record", &run];
    Daemon::start(&program.display().to_string(), &options, folder)
}

fn wait_for(daemon: &Daemon, metric: &str, label: (&str, &str)) {
    eventually_ok(TIMEOUT, &format!("{metric} {label:?}"), || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        match page.get(metric, &[label]) {
            Some(1.0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    });
}

fn push(daemon: &Daemon, file: &str) -> Result<()> {
    let lines = alpenglow::text(file)?;
    let answer = http::post(daemon.ingest(), "/write?db=x&precision=n", lines.as_bytes())?;
    assert_eq!(answer.status, 204, "{file}");
    Ok(())
}

fn enter(node: &Node, phase: &str, begin: u64, roots: bool) {
    node.set_phase(phase);
    node.advance_from(begin, SLOT_TIME, roots);
}

/// Each value that the recording has of a series, in the order of time; `None` where it ends.
fn recorded(recording: &Recording, metric: &Metric, label: (&str, &str)) -> Vec<Option<f64>> {
    let mut values = Vec::new();
    for row in recording.series_of(metric).expect("readable rows") {
        let labels: Value = serde_json::from_str(&row.labels).expect("labels");
        if labels[label.0] == label.1 && values.last() != Some(&row.value) {
            values.push(row.value);
        }
    }
    values
}

/// Credits end where rewards begin, and both are what the reader found in the phase's answers.
fn compare_votes(recording: &Recording, expected: &Value) {
    let own = |phase: &str, path: &str| expected["phases"][phase]["own"].pointer(path)?.as_f64();
    let phases = ["tower", "migrating", "migration-epoch"];
    let credits = phases.map(|phase| own(phase, "/credits/this_epoch"));
    let rewards = own("migration-epoch", "/reward_lamports/this_epoch");
    let this_epoch = ("in", "this_epoch");
    let mut found = recorded(recording, &m::VOTE_CREDITS, this_epoch);
    // Between two epochs the answers of one poll may be of both.
    found.retain(Option::is_some);
    assert_eq!(found, credits, "credits");
    let mut found = recorded(recording, &m::VOTE_REWARD, this_epoch);
    found.retain(Option::is_some);
    assert_eq!(found, [rewards], "rewards");
    for (certificate, path) in [
        ("reward", "/certificate_distance_slots/reward"),
        ("finalization", "/certificate_distance_slots/finalization"),
    ] {
        let found = recorded(
            recording,
            &m::CERTIFICATE_DISTANCE,
            ("certificate", certificate),
        );
        assert_eq!(found, [own("migration-epoch", path)], "{certificate}");
    }
}

/// The last page of the daemon with its recording.
fn compare_phases(page: &Page, run: &Run) {
    let measured = measure(run);
    let success = &measured.lifecycle.success;
    assert_eq!(success.passed, Some(true), "{}", success.why);
    assert_eq!(page.get("agave_kept_up", &[]), Some(1.0));
    assert!(
        measured.lifecycle.stalls.is_empty(),
        "{:?}",
        measured.lifecycle.stalls
    );
    for phase in Phase::ALL {
        let live = page.get("agave_phase_seconds_total", &[("phase", phase.name())]);
        let pairs = run.ticks.windows(2).zip(&measured.lifecycle.phase_by_tick);
        let report: f64 = pairs
            .filter(|(_, of)| **of == Some(phase))
            .map(|(pair, _)| pair[1].at - pair[0].at)
            .sum();
        // The daemon went on for a tick or two after the scrape.
        let live = live.unwrap_or(0.0);
        assert!(
            (live - report).abs() <= 3.0,
            "{phase:?}: {live} s, {report} s"
        );
    }
}

#[test]
fn a_recorded_migration_matches_the_node_and_daemon_metrics() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start("tower")?;
    node.advance(SLOT_TIME, true);
    let validator = process(folder.path())?;
    let daemon = daemon(folder.path(), &validator, &node)?;
    wait_for(&daemon, "agave_phase", ("phase", "at_tip"));
    wait_for(&daemon, "agave_consensus", ("protocol", "tower"));
    sleep(PHASE_LENGTH);
    push(&daemon, "events/migration-started.lp")?;
    enter(&node, "migrating", MIGRATION_SLOT, false);
    wait_for(&daemon, "agave_consensus", ("protocol", "migrating"));
    sleep(MIGRATING);
    enter(&node, "migration-epoch", MIGRATION_SLOT, true);
    sleep(SIGN_DELAY);
    push(&daemon, "events/migration-complete.lp")?;
    wait_for(&daemon, "agave_consensus", ("protocol", "alpenglow"));
    sleep(MIGRATING);
    let page = daemon.scrape()?;
    assert_eq!(daemon.stop()?, Some(0));

    let file = folder.path().join("run.fltl");
    let run = load(&file).expect("a recording");
    let protocols: Vec<&str> = run
        .consensus
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    assert_eq!(protocols, ["tower", "migrating", "alpenglow"]);
    compare_phases(&page, &run);
    let recording = Recording::open(&file).expect("a recording");
    compare_votes(&recording, &alpenglow::json("expected.json")?);

    let out = folder.path().join("report");
    let report = Command::new(FAULTLINE)
        .arg("report")
        .args([&file, Path::new("--out"), &out])
        .output()
        .expect("the program");
    let error = String::from_utf8_lossy(&report.stderr);
    assert!(report.status.success(), "{error}");
    let written = fs::read_to_string(out.join("report.md")).expect("a report");
    for wanted in ["the consensus changed (tower, migrating after", "Slot time"] {
        assert!(written.contains(wanted), "no {wanted:?}:\n{written}");
    }
    Ok(())
}
