//! What the daemon says of votes, leader slots and the cluster of a real voting validator is what its JSON-RPC says to an
//! independent reader.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot prepare its scene fails")]

use faultline_testkit::Result;
use faultline_testkit::binaries::{Binaries, SKIP_MESSAGE};
use faultline_testkit::cluster::{Cluster, ClusterOptions};
use faultline_testkit::daemon::Daemon;
use faultline_testkit::eventually::eventually_seeing;
use faultline_testkit::rpc::Rpc;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// What the witness read at one moment.
struct Read {
    epoch: Value,
    own: Value,
    balances: [f64; 2],
    produced: (f64, f64),
}

fn read(rpc: &Rpc, identity: &str, vote: &str) -> Result<Read> {
    let processed = json!({"commitment": "processed"});
    let votes = rpc.call("getVoteAccounts", json!([{"commitment": "processed", "votePubkey": vote}]))?;
    let balance = |account: &str| -> Result<f64> {
        let told = rpc.call("getBalance", json!([account, processed]))?;
        Ok(told["value"].as_f64().expect("a balance") / 1e9)
    };
    let blocks = rpc.call("getBlockProduction", json!([processed]))?;
    let slots = &blocks["value"]["byIdentity"][identity];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    Ok(Read {
        epoch: rpc.call("getEpochInfo", json!([processed]))?,
        own: votes["current"][0].clone(),
        balances: [balance(identity)?, balance(vote)?],
        produced: (number(&slots[0]), number(&slots[0]) - number(&slots[1])),
    })
}

/// A metric, its labels, its value.
type Series = (&'static str, Vec<(&'static str, &'static str)>, f64);

impl Read {
    /// Metrics that grow, and one that falls: the identity pays for votes.
    fn values(&self) -> Vec<Series> {
        let number = |value: &Value| value.as_f64().expect("a number");
        let credits = self.own["epochCredits"].as_array().expect("credits").last().expect("an epoch");
        vec![
            ("agave_epoch", vec![], number(&self.epoch["epoch"])),
            (
                "agave_epoch_progress_ratio",
                vec![],
                number(&self.epoch["slotIndex"]) / number(&self.epoch["slotsInEpoch"]),
            ),
            ("agave_vote_slot", vec![("kind", "last_vote")], number(&self.own["lastVote"])),
            ("agave_vote_slot", vec![("kind", "root")], number(&self.own["rootSlot"])),
            ("agave_vote_credits", vec![("in", "this_epoch")], number(&credits[1]) - number(&credits[2])),
            ("agave_vote_commission_ratio", vec![], number(&self.own["commission"]) / 100.0),
            ("agave_stake_sol", vec![("state", "active")], number(&self.own["activatedStake"]) / 1e9),
            ("agave_balance_sol", vec![("account", "identity")], self.balances[0]),
            ("agave_balance_sol", vec![("account", "vote")], self.balances[1]),
            ("agave_leader_slots", vec![("state", "passed")], self.produced.0),
            ("agave_leader_slots", vec![("state", "skipped")], self.produced.1),
        ]
    }
}

#[test]
fn votes_and_leader_slots_are_what_the_node_says_to_an_independent_reader() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let config = folder.path().join("faultlined.toml");
    fs::write(&config, "[validator]\ninterval = \"1s\"\n[threads]\nenabled = false\n").expect("a configuration");
    let cluster =
        Cluster::start_leader(ClusterOptions { programs: 1, folder: Some(nodes), ..ClusterOptions::default() })?;
    let (config, ledger) = (config.display().to_string(), cluster.leader_ledger().display().to_string());
    let arguments = ["--config", &config, "--ledger", &ledger, "--no-ingest"];
    let daemon = Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &arguments, folder.path())?;
    let rpc = cluster.leader_rpc();
    let vote = eventually_seeing(PATIENCE, "a rooted vote", || {
        let all =
            rpc.call("getVoteAccounts", json!([{"commitment": "processed"}])).map_err(|error| error.to_string())?;
        let own = &all["current"][0];
        let rooted = own["rootSlot"].as_u64() > Some(0) && own["epochCredits"][0].is_array();
        own["votePubkey"].as_str().filter(|_| rooted).map(ToOwned::to_owned).ok_or_else(|| all.to_string())
    });
    let identity = rpc.call("getIdentity", json!([]))?["identity"].as_str().expect("a key").to_owned();
    // A tick has answers up to five rounds old; later ones come until one lies between two looks of the witness.
    let first = read(&rpc, &identity, &vote)?;
    eventually_seeing(PATIENCE, "every value lies between what the witness read before and after", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let last = read(&rpc, &identity, &vote).map_err(|error| error.to_string())?;
        for ((name, labels, before), (_, _, after)) in first.values().into_iter().zip(last.values()) {
            let told = page.get(name, &labels).ok_or_else(|| format!("{name} {labels:?} is absent"))?;
            let range = before.min(after)..=before.max(after);
            if !range.contains(&told) {
                return Err(format!("{name} {labels:?}: {told} is not in {range:?}"));
            }
        }
        Ok(())
    });
    what_does_not_move(&daemon, &rpc, &identity, &vote)
}

fn what_does_not_move(daemon: &Daemon, rpc: &Rpc, identity: &str, vote: &str) -> Result<()> {
    let page = eventually_seeing(PATIENCE, "the round in which all vote accounts are asked again", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let rank = page.get("agave_vote_credits_rank", &[]);
        if rank.is_some() { Ok(page) } else { Err(daemon.log()) }
    });
    let genesis = rpc.call("getGenesisHash", json!([]))?;
    let genesis = genesis.as_str().expect("a hash");
    let one = |name: &str, labels: &[(&str, &str)]| page.get(name, labels);
    assert_eq!(one("agave_cluster_info", &[("cluster", genesis), ("genesis_hash", genesis)]), Some(1.0));
    assert_eq!(one("agave_vote_account_info", &[("identity", identity), ("vote_account", vote)]), Some(1.0));
    assert_eq!(page.matching("agave_target_info", &[("cluster", genesis)]).len(), 1, "no label was configured");
    assert_eq!((one("agave_delinquent", &[]), one("agave_vote_credits_rank", &[])), (Some(0.0), Some(1.0)));
    assert_eq!(one("agave_vote_credits_of_best_ratio", &[]), Some(1.0));
    let same = |name, label| one(name, &[(label, "same")]);
    assert_eq!(same("agave_cluster_version_stake_ratio", "version"), Some(1.0));
    assert_eq!(same("agave_cluster_feature_set_stake_ratio", "feature_set"), Some(1.0));
    // It is the only leader: every slot is its own, and there is no window.
    let epoch = rpc.call("getEpochInfo", json!([{"commitment": "processed"}]))?;
    let slots = epoch["slotsInEpoch"].as_f64();
    assert_eq!(one("agave_leader_slots", &[("state", "assigned")]), slots);
    assert_eq!(
        (one("agave_next_leader_slot_seconds", &[]), one("agave_restart_window_seconds", &[])),
        (Some(0.0), None)
    );
    let left = one("agave_epoch_remaining_seconds", &[]).expect("time is left");
    let most = 2.0 * slots.expect("slots");
    assert!(left > 0.0 && left < most, "{left} of {most}");
    let up = one("faultline_source_up", &[("source", "votes")]);
    assert_eq!(up, Some(1.0));
    Ok(())
}
