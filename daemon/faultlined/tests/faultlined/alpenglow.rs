//! The daemon with a mock node during a migration to Alpenglow. An independent reader reads the
//! same responses.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

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
use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);
const PHASES: [&str; 5] = [
    "tower",
    "migrating",
    "migration-epoch",
    "next-epoch",
    "later",
];

/// A process to follow. Its node runs elsewhere.
pub fn process(folder: &Path) -> Result<Running> {
    let path = folder.join("agave-validator");
    symlink("/bin/sleep", &path).expect("a link");
    Running::start(&Program {
        path,
        arguments: vec!["600".to_owned()],
        environment: Vec::new(),
        output: folder.join("validator.log"),
    })
}

pub fn daemon(folder: &Path, validator: &Running, node: &Node) -> Result<Daemon> {
    let config = folder.join("c.toml");
    let text = format!(
        "[target]\npid = {}\n[rpc]\nurl = \"{}\"\n[validator]\ninterval = \"1s\"\n[threads]\nenabled = false\n",
        validator.pid(),
        node.url()
    );
    fs::write(&config, text).expect("a configuration");
    let config = config.display().to_string();
    Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--config", &config],
        folder,
    )
}

/// A metric, its labels and its value; `None` if it must be absent.
type Series = (&'static str, Vec<(&'static str, String)>, Option<f64>);

fn label(name: &'static str, value: &str) -> Vec<(&'static str, String)> {
    vec![(name, value.to_owned())]
}

/// The series of a phase that do not depend on the protocol.
fn of_every_protocol(phase: &Value) -> Vec<Series> {
    let number = |path: &str| phase.pointer(path).and_then(Value::as_f64);
    let text = |path: &str| phase.pointer(path).and_then(Value::as_str).expect(path);
    let account = vec![
        ("identity", text("/own/identity").to_owned()),
        ("role", "voting".to_owned()),
        ("vote_account", text("/own/vote_account").to_owned()),
    ];
    let commission = number("/own/commission_percent").map(|percent| percent / 100.0);
    let mut series = vec![
        ("agave_epoch", Vec::new(), number("/own/epoch")),
        ("agave_vote_account_info", account, Some(1.0)),
        ("agave_vote_commission_ratio", Vec::new(), commission),
        (
            "agave_delinquent",
            Vec::new(),
            Some(f64::from(phase["own"]["delinquent"] == true)),
        ),
    ];
    for kind in ["processed", "confirmed", "finalized"] {
        let slot = number(&format!("/slots/{kind}"));
        series.push(("agave_slot", label("kind", kind), slot));
    }
    let last_vote = number("/own/last_vote");
    series.push(("agave_vote_slot", label("kind", "last_vote"), last_vote));
    let stake = number("/own/activated_stake_sol");
    series.push(("agave_stake_sol", label("state", "active"), stake));
    for (account, path) in [
        ("identity", "/balance_sol/identity"),
        ("vote", "/balance_sol/vote-account"),
    ] {
        series.push(("agave_balance_sol", label("account", account), number(path)));
    }
    series
}

/// The series that exist when the protocol is known.
fn of_its_protocol(phase: &Value) -> Vec<Series> {
    let number = |path: &str| phase.pointer(path).and_then(Value::as_f64);
    let is_alpenglow = phase["protocol"] == "alpenglow";
    let root = number("/own/root_slot").filter(|_| !is_alpenglow);
    let mut series = vec![
        ("agave_vote_slot", label("kind", "root"), root),
        (
            "agave_vote_reward_per_stake_of_best_ratio",
            Vec::new(),
            number("/own/reward_per_stake_of_best"),
        ),
    ];
    for protocol in ["tower", "migrating", "alpenglow"] {
        let is_on = f64::from(phase["protocol"] == protocol);
        series.push(("agave_consensus", label("protocol", protocol), Some(is_on)));
    }
    for epoch in ["this_epoch", "previous_epoch"] {
        let credits = number(&format!("/own/credits/{epoch}"));
        series.push(("agave_vote_credits", label("in", epoch), credits));
        let lamports = number(&format!("/own/reward_lamports/{epoch}"));
        series.push(("agave_vote_reward_lamports", label("in", epoch), lamports));
    }
    for certificate in ["reward", "finalization"] {
        let distance = number(&format!("/own/certificate_distance_slots/{certificate}"));
        let labels = label("certificate", certificate);
        series.push(("agave_certificate_distance_slots", labels, distance));
    }
    let genesis = number("/signs/certificate_genesis_slot");
    series.push(("agave_alpenglow_genesis_slot", Vec::new(), genesis));
    series
}

fn contradiction(page: &Page, expected: &[Series]) -> std::result::Result<(), String> {
    for (name, labels, expected) in expected {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let found = page.get(name, &labels);
        let is_same = match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() <= expected.abs() * 1e-12,
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if !is_same {
            return Err(format!("{name} {labels:?} is {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

/// With JSON-RPC alone, the responses do not change. So Tower is proved in no phase.
#[test]
fn each_alpenglow_phase_matches_an_independent_reading_of_its_responses() -> Result<()> {
    let expected = alpenglow::json("expected.json")?;
    for name in PHASES {
        let folder = tempfile::tempdir().expect("a folder");
        let node = Node::start(name)?;
        let validator = process(folder.path())?;
        let daemon = daemon(folder.path(), &validator, &node)?;
        let phase = &expected["phases"][name];
        let mut series = of_every_protocol(phase);
        if phase["protocol"] == "alpenglow" {
            series.extend(of_its_protocol(phase));
        }
        let what = format!("the phase {name} as the independent reader sees it");
        eventually_ok(PATIENCE, &what, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            contradiction(&page, &series)
        });
    }
    Ok(())
}

/// In the epoch of the migration, and in the next epoch.
#[test]
fn the_voting_account_of_two_matches_an_independent_reading() -> Result<()> {
    let expected = alpenglow::json("expected.json")?;
    for name in ["migration-epoch", "next-epoch"] {
        let folder = tempfile::tempdir().expect("a folder");
        let node = Node::start(name)?;
        node.set_variant("getIdentity", "getIdentity-two-vote-accounts.json");
        let validator = process(folder.path())?;
        let daemon = daemon(folder.path(), &validator, &node)?;
        let mut phase = expected["phases"][name].clone();
        phase["own"] = phase["of_the_identity_with_two_vote_accounts"].clone();
        let is_balance = |(name, ..): &Series| *name == "agave_balance_sol";
        let mut series = of_every_protocol(&phase);
        series.retain(|one| !is_balance(one));
        series.extend(of_its_protocol(&phase));
        eventually_ok(PATIENCE, name, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            contradiction(&page, &series)
        });
    }
    Ok(())
}

#[test]
fn a_node_with_unknown_distance_behind_has_no_health() -> Result<()> {
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
        let health = &expected["variants"][file];
        let is_known = health["status"] == "ok" || health["slots_behind"].is_number();
        let healthy = is_known.then(|| f64::from(health["status"] == "ok"));
        eventually_ok(PATIENCE, file, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let found = page.get("agave_healthy", &[]);
            if found == healthy {
                Ok(())
            } else {
                Err(daemon.log())
            }
        });
    }
    Ok(())
}

#[test]
fn every_pushed_line_of_each_phase_parses_and_shows_its_protocol() -> Result<()> {
    let expected = alpenglow::json("expected.json")?;
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
        eventually_ok(PATIENCE, phase, || {
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
        eventually_ok(PATIENCE, file, || {
            let now = counted(&daemon).map_err(|error| error.to_string())?;
            let [understood, lost] = [0, 1].map(|of| now[of] - before[of]);
            let words = format!("{understood} of {sent} lines are used or ignored, {lost} are not");
            if (understood, lost) == (sent, 0.0) {
                Ok(())
            } else {
                Err(words)
            }
        });
        if file.ends_with("pushed.lp") {
            let series = of_its_protocol(&expected["phases"][phase]);
            eventually_ok(PATIENCE, &format!("the protocol by {file}"), || {
                let page = daemon.scrape().map_err(|error| error.to_string())?;
                contradiction(&page, &series)
            });
        }
    }
    Ok(())
}

/// Numbers of lines: those that are used or ignored, and all others.
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

/// The log is the only source. The validator's log lines prove the protocol, live and after a
/// restart.
#[test]
fn the_log_alone_shows_the_consensus_protocol() -> Result<()> {
    for file in ["migration.log", "restart.log"] {
        let folder = tempfile::tempdir().expect("a folder");
        let validator = process(folder.path())?;
        let (config, log) = (
            folder.path().join("c.toml"),
            folder.path().join("agave.log"),
        );
        fs::write(&log, "").expect("a log");
        let text = format!(
            "[target]\npid = {}\n[rpc]\nenabled = false\n[admin]\nenabled = false\n[log]\nfile = {log:?}\n",
            validator.pid()
        );
        fs::write(&config, text).expect("a configuration");
        let config = config.display().to_string();
        let daemon = Daemon::start(
            env!("CARGO_BIN_EXE_faultlined"),
            &["--config", &config, "--no-ingest"],
            folder.path(),
        )?;
        let sees = |protocol: Option<f64>| {
            eventually_ok(PATIENCE, file, || {
                let page = daemon.scrape().map_err(|error| error.to_string())?;
                let found = page.get("agave_consensus", &[("protocol", "alpenglow")]);
                if found == protocol {
                    Ok(page)
                } else {
                    Err(daemon.log())
                }
            })
        };
        sees(None);
        fs::write(&log, alpenglow::text(&format!("events/{file}"))?).expect("a log");
        let page = sees(Some(1.0));
        let genesis = page.get("agave_alpenglow_genesis_slot", &[]);
        assert_eq!(genesis, Some(459_652_999.0), "{file}");
    }
    Ok(())
}
