//! The daemon next to a node around a migration to Alpenglow, against an independent reader of the same answers.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::Result;
use faultline_testkit::alpenglow::{self, Node};
use faultline_testkit::daemon::Daemon;
use faultline_testkit::eventually::eventually_seeing;
use faultline_testkit::expose::Page;
use faultline_testkit::http;
use faultline_testkit::process::{Program, Running};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const PHASES: [&str; 5] = [
    "tower",
    "migrating",
    "migration-epoch",
    "next-epoch",
    "later",
];

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
    let config = folder.join("c.toml");
    let text = format!(
        "[target]\npid = {}\n[rpc]\nurl = \"{}\"\n[validator]\ninterval = \"1s\"\n[threads]\nenabled = false\n",
        validator.pid(),
        node.url()
    );
    std::fs::write(&config, text).expect("a configuration");
    let config = config.display().to_string();
    Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--config", &config],
        folder,
    )
}

/// A metric, its labels and its value.
type Series = (&'static str, Vec<(&'static str, String)>, f64);

/// What every version of the daemon exports of a phase, whatever its protocol.
fn expected(phase: &Value) -> Vec<Series> {
    let number = |path: &str| phase.pointer(path).and_then(Value::as_f64).expect(path);
    let text = |path: &str| phase.pointer(path).and_then(Value::as_str).expect(path);
    let one = |label: &'static str, value: &str| vec![(label, value.to_owned())];
    let account = vec![
        ("identity", text("/own/identity").to_owned()),
        ("role", "voting".to_owned()),
        ("vote_account", text("/own/vote_account").to_owned()),
    ];
    let mut series = vec![
        ("agave_epoch", Vec::new(), number("/own/epoch")),
        ("agave_vote_account_info", account, 1.0),
    ];
    for kind in ["processed", "confirmed", "finalized"] {
        let slot = number(&format!("/slots/{kind}"));
        series.push(("agave_slot", one("kind", kind), slot));
    }
    for (kind, path) in [("last_vote", "/own/last_vote"), ("root", "/own/root_slot")] {
        series.push(("agave_vote_slot", one("kind", kind), number(path)));
    }
    let stake = number("/own/activated_stake_sol");
    series.push(("agave_stake_sol", one("state", "active"), stake));
    for (account, path) in [
        ("identity", "/balance_sol/identity"),
        ("vote", "/balance_sol/vote-account"),
    ] {
        series.push(("agave_balance_sol", one("account", account), number(path)));
    }
    series
}

fn contradiction(page: &Page, phase: &Value) -> std::result::Result<(), String> {
    for (name, labels, expected) in expected(phase) {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let found = page.get(name, &labels);
        if found.is_none_or(|found| (found - expected).abs() > expected.abs() * 1e-12) {
            return Err(format!("{name} {labels:?} is {found:?}, not {expected}"));
        }
    }
    Ok(())
}

#[test]
fn slots_epoch_vote_account_and_balances_of_each_phase_are_an_independent_readers() -> Result<()> {
    let expected = alpenglow::json("expected.json")?;
    for phase in PHASES {
        let folder = tempfile::tempdir().expect("a folder");
        let node = Node::start(phase)?;
        let validator = process(folder.path())?;
        let daemon = daemon(folder.path(), &validator, &node)?;
        let what = format!("the phase {phase} as the independent reader sees it");
        eventually_seeing(PATIENCE, &what, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            contradiction(&page, &expected["phases"][phase])
        });
    }
    Ok(())
}

#[test]
fn a_node_that_does_not_know_how_far_it_is_behind_is_not_healthy() -> Result<()> {
    let expected = alpenglow::json("expected.json")?;
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start("next-epoch")?;
    let validator = process(folder.path())?;
    let daemon = daemon(folder.path(), &validator, &node)?;
    for file in [
        "getHealth-unknown.json",
        "getHealth-ok.json",
        "getHealth-behind.json",
    ] {
        node.set_variant("getHealth", file);
        let healthy = f64::from(expected["variants"][file]["status"] == "ok");
        eventually_seeing(PATIENCE, file, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let found = page.get("agave_healthy", &[]);
            if found == Some(healthy) {
                Ok(())
            } else {
                Err(daemon.log())
            }
        });
    }
    Ok(())
}

#[test]
fn every_pushed_line_of_each_phase_is_understood() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start("tower")?;
    let validator = process(folder.path())?;
    let daemon = daemon(folder.path(), &validator, &node)?;
    for (phase, file) in [
        ("tower", "tower/pushed.lp"),
        ("migrating", "events/migration-started.lp"),
        ("migrating", "migrating/pushed.lp"),
        ("migrating", "events/migration-complete.lp"),
        ("migration-epoch", "migration-epoch/pushed.lp"),
        ("next-epoch", "next-epoch/pushed.lp"),
    ] {
        let processed = alpenglow::json(&format!("{phase}/getSlot-processed.json"))?;
        node.set_phase(phase);
        eventually_seeing(PATIENCE, phase, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let slot = page.get("agave_slot", &[("kind", "processed")]);
            let is_there = slot.is_some() && slot == processed["result"].as_f64();
            if is_there { Ok(()) } else { Err(daemon.log()) }
        });
        let lines = alpenglow::text(file)?;
        let before = counted(&daemon)?;
        let answer = http::post(daemon.ingest(), "/write?db=x&precision=n", lines.as_bytes())?;
        assert_eq!(answer.status, 204, "{file}");
        let sent = lines.lines().map(|_| 1.0).sum::<f64>();
        eventually_seeing(PATIENCE, file, || {
            let now = counted(&daemon).map_err(|error| error.to_string())?;
            let [understood, lost] = [0, 1].map(|of| now[of] - before[of]);
            let words = format!("{understood} of {sent} lines are used or ignored, {lost} are not");
            if (understood, lost) == (sent, 0.0) {
                Ok(())
            } else {
                Err(words)
            }
        });
    }
    Ok(())
}

/// Lines that were used or are not on the list, and all others.
fn counted(daemon: &Daemon) -> Result<[f64; 2]> {
    let page = daemon.scrape()?;
    let sum = |results: &[&str]| -> f64 {
        let name = "faultline_ingest_lines_total";
        let counts = results.iter().map(|of| page.get(name, &[("result", of)]));
        counts.flatten().sum()
    };
    let lost = ["bad", "foreign", "duplicate", "implausible"];
    Ok([sum(&["used", "ignored"]), sum(&lost)])
}
