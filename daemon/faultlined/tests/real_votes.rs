//! The daemon's values of votes, leader slots, balances and the cluster of a real voting validator
//! equal those that an independent reader gets by JSON-RPC. The test covers the end of an epoch, a
//! changed identity, and the end of the validator.
//!
//! The validator is the second one of its cluster. It has two sevenths of the stake and does not
//! lead every slot.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a witness has a clock of its own"
)]

#[path = "real_votes/witness.rs"]
mod witness;

use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
    expose::Page,
    rpc::Rpc,
    transaction::{base58, follower_identities},
    voter::{self, Stake, vote_account},
};
use serde_json::json;
use std::{fs, path::Path, time::Duration};
use witness::{Witness, moving_stake};

/// More than an epoch at less than half the usual pace.
const PATIENCE: Duration = Duration::from_secs(400);
/// About 80 s: time to start and to compare in the first epoch, before the second one begins.
const SLOTS_IN_EPOCH: u64 = 192;
/// Stakes of the validator. The first one votes. In the first epoch, the second is deactivated and
/// the third is delegated. They are so small a part of the cluster's stake that both changes are
/// complete at the end of the epoch.
const STAKES: [Stake; 3] = [
    Stake::always(370_000),
    Stake::always(30_000),
    Stake::idle(20_000),
];
/// Series that only a voting validator has.
const OF_THE_VOTE_ACCOUNT: [&str; 7] = [
    "agave_vote_account_info",
    "agave_delinquent",
    "agave_vote_slot",
    "agave_vote_distance_slots",
    "agave_vote_credits",
    "agave_vote_credits_rank",
    "agave_stake_sol",
];

fn follow(cluster: &Cluster, folder: &Path, name: &str, validator: &str) -> Result<Daemon> {
    let folder = folder.join(name);
    fs::create_dir(&folder).expect("a folder for the daemon");
    let config = folder.join("faultlined.toml");
    let text = format!("[validator]\ninterval = \"1s\"\n{validator}\n[threads]\nenabled = false\n");
    fs::write(&config, text).expect("a configuration");
    let (config, ledger) = (
        config.display().to_string(),
        cluster.follower_ledger().display().to_string(),
    );
    let arguments = ["--config", &config, "--ledger", &ledger];
    Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &arguments, &folder)
}

/// Waits for a page that fits.
fn page(
    daemon: &Daemon,
    what: &str,
    mut fits: impl FnMut(&Page) -> std::result::Result<(), String>,
) -> Page {
    eventually_ok(PATIENCE, what, || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        fits(&page).map(|()| page)
    })
}

fn must(holds: bool, otherwise: impl FnOnce() -> String) -> std::result::Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

#[test]
fn vote_metrics_match_an_independent_reading_of_the_node() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let mut cluster = Cluster::start_leader(ClusterOptions {
        programs: 1,
        folder: Some(nodes),
        follower_stakes: STAKES.into(),
        slots_per_epoch: Some(SLOTS_IN_EPOCH),
        ..ClusterOptions::default()
    })?;
    let [identity, spare] = follower_identities().map(|keypair| base58(keypair.address()));
    let vote = base58(vote_account());
    it_skips_a_slot(&cluster.leader_rpc(), &identity);
    cluster.start_follower()?;
    cluster.wait_until_following()?;
    let moved = stake_is_moved(&cluster, &vote)?;
    let found = follow(&cluster, folder.path(), "found", "activating_stake = true")?;
    let configured = follow(
        &cluster,
        folder.path(),
        "configured",
        &format!("vote_account = \"{vote}\""),
    )?;
    let mut witness = Witness::new(
        cluster.follower_rpc(),
        &identity,
        &vote,
        SLOTS_IN_EPOCH as f64,
    );

    let first = first_epoch(&found, &mut witness);
    names(&first, &cluster, &identity, &vote)?;
    stake_counts_from_the_next_epoch(&found, &mut witness, moved);
    identity_is_switched(&cluster, [&found, &configured], [&identity, &spare], &vote)?;
    page(
        &found,
        "votes again with the identity that has the vote account",
        |page| witness.contradicts(page),
    );
    cluster.kill_follower()?;
    no_figures_remain(&found);
    Ok(())
}

fn first_epoch(found: &Daemon, witness: &mut Witness) -> Page {
    page(
        found,
        "the first epoch as the witness sees it, with slots skipped before the start",
        |page| {
            witness.contradicts(page)?;
            let skipped = page.get("agave_leader_slots", &[("state", "skipped")]);
            must(
                page.get("agave_epoch", &[]) == Some(0.0) && skipped > Some(0.0),
                || format!("{skipped:?} skipped"),
            )?;
            must(
                page.get("agave_vote_distance_slots", &[("kind", "root")])
                    .is_some(),
                || "no root yet".to_owned(),
            )
        },
    )
}

fn stake_counts_from_the_next_epoch(found: &Daemon, witness: &mut Witness, moved: (f64, f64)) {
    page(
        found,
        "stake that begins and stake that ceases to count with the next epoch",
        |page| {
            must(
                stakes(page) == [Some(400_000.0), Some(moved.0), Some(moved.1)],
                || format!("{:?}", stakes(page)),
            )
        },
    );
    page(
        found,
        "the next epoch, with the credits of the one before, and with the stake that was moved",
        |page| {
            witness.contradicts(page)?;
            // The rewards of the previous epoch are added to the delegated stake.
            let ([active, activating, deactivating], expected) =
                (stakes(page), 400_000.0 + moved.0 - moved.1);
            let has_moved =
                active.is_some_and(|active| (expected..expected * 1.001).contains(&active));
            must(
                has_moved && (activating, deactivating) == (None, None),
                || format!("{:?} and not {expected} SOL that are active", stakes(page)),
            )?;
            let before = page.get("agave_vote_credits", &[("in", "previous_epoch")]);
            must(
                page.get("agave_epoch", &[]) >= Some(1.0) && before > Some(0.0),
                || format!("{before:?} credits before"),
            )
        },
    );
}

/// Waits for a page of the daemon after the validator's end.
fn no_figures_remain(found: &Daemon) {
    page(found, "no figures of a validator that is dead", |page| {
        let left = |name: &&&str| page.sum(name).is_some();
        let names = [
            "agave_balance_sol",
            "agave_leader_slots",
            "agave_epoch",
            "agave_next_leader_slot_seconds",
        ];
        let left: Vec<_> = names
            .iter()
            .chain(&OF_THE_VOTE_ACCOUNT)
            .filter(left)
            .collect();
        must(left.is_empty(), || format!("{left:?}"))
    });
}

/// Waits until the validator has missed a leader slot, because it does not run yet. The leader has
/// another key in each run, and so the cluster has another schedule. A validator that starts fast
/// may have no slot to skip.
fn it_skips_a_slot(leader: &Rpc, identity: &str) {
    eventually_ok(
        PATIENCE,
        "a leader slot of the validator that does not run yet",
        || {
            let blocks = leader.call(
                "getBlockProduction",
                json!([{"commitment": "confirmed", "identity": identity}]),
            );
            let blocks =
                blocks.map_err(|error| error.to_string())?["value"]["byIdentity"][identity].take();
            must(blocks[0].as_u64() > blocks[1].as_u64(), || {
                blocks.to_string()
            })
        },
    );
}

/// Delegates one stake account and deactivates another one, both in the first epoch. Returns the
/// node's own values in SOL.
fn stake_is_moved(cluster: &Cluster, vote: &str) -> Result<(f64, f64)> {
    let leader = cluster.leader_rpc();
    let blockhash = leader.latest_blockhash()?;
    leader.send(&voter::deactivation(1, blockhash))?;
    leader.send(&voter::delegation(2, blockhash))?;
    let moved = eventually_ok(PATIENCE, "the follower has both transactions", || {
        let moving =
            moving_stake(&cluster.follower_rpc(), vote).map_err(|error| error.to_string())?;
        must(moving.0 > 0.0 && moving.1 > 0.0, || format!("{moving:?}")).map(|()| moving)
    });
    assert_eq!(moved, (20_000.0, 30_000.0), "activating and deactivating");
    Ok(moved)
}

/// Active, activating and deactivating stake.
fn stakes(page: &Page) -> [Option<f64>; 3] {
    ["active", "activating", "deactivating"]
        .map(|state| page.get("agave_stake_sol", &[("state", state)]))
}

fn names(page: &Page, cluster: &Cluster, identity: &str, vote: &str) -> Result<()> {
    let genesis = cluster.leader_rpc().call("getGenesisHash", json!([]))?;
    let genesis = genesis.as_str().expect("a hash");
    let one = |name: &str, labels: &[(&str, &str)]| page.get(name, labels);
    assert_eq!(
        one(
            "agave_cluster_info",
            &[("cluster", genesis), ("genesis_hash", genesis)]
        ),
        Some(1.0)
    );
    assert_eq!(
        one(
            "agave_vote_account_info",
            &[
                ("identity", identity),
                ("role", "voting"),
                ("vote_account", vote)
            ]
        ),
        Some(1.0)
    );
    assert_eq!(
        page.matching("agave_target_info", &[("cluster", genesis)])
            .len(),
        1,
        "no label was configured"
    );
    assert_eq!(
        one("agave_cluster_version_stake_ratio", &[("version", "same")]),
        Some(1.0)
    );
    assert_eq!(
        one(
            "agave_cluster_feature_set_stake_ratio",
            &[("feature_set", "same")]
        ),
        Some(1.0)
    );
    assert_eq!(
        one("faultline_source_up", &[("source", "votes")]),
        Some(1.0)
    );
    Ok(())
}

/// Changes to an identity without a vote account, as an operator does to move a validator to
/// another machine.
fn identity_is_switched(
    cluster: &Cluster,
    [found, configured]: [&Daemon; 2],
    [identity, spare]: [&str; 2],
    vote: &str,
) -> Result<()> {
    let [own, other] = cluster.follower_addresses();
    cluster.set_follower_identity(&other.identity)?;
    page(
        found,
        "no votes of an identity that has no vote account",
        |page| {
            let left: Vec<_> = OF_THE_VOTE_ACCOUNT
                .iter()
                .filter(|name| page.sum(name).is_some())
                .collect();
            let balance = |account| page.get("agave_balance_sol", &[("account", account)]);
            must(left.is_empty(), || format!("{left:?}"))?;
            must(
                (balance("identity"), balance("vote")) == (Some(0.0), None),
                || "the old balances".to_owned(),
            )?;
            must(
                page.get("agave_leader_slots", &[("state", "assigned")]) == Some(0.0),
                || "leader slots".to_owned(),
            )
        },
    );
    page(
        configured,
        "the configured account falls behind, whose validator votes no longer",
        |page| {
            let info = page.get(
                "agave_vote_account_info",
                &[
                    ("identity", spare),
                    ("role", "standby"),
                    ("vote_account", vote),
                ],
            );
            let behind = page.get("agave_vote_distance_slots", &[("kind", "last_vote")]);
            must(info.is_some() && behind > Some(20.0), || {
                format!("{info:?}, {behind:?} slots behind")
            })
        },
    );
    cluster.set_follower_identity(&own.identity)?;
    page(found, "the vote account of the old identity", |page| {
        let info = page.get(
            "agave_vote_account_info",
            &[
                ("identity", identity),
                ("role", "voting"),
                ("vote_account", vote),
            ],
        );
        must(info.is_some(), || "not yet".to_owned())
    });
    Ok(())
}
