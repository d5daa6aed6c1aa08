//! Tests with the real validator, if it is installed.

use std::time::Duration;

use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    eventually::{eventually, eventually_ok},
    load::Load,
    proc::{is_alive, stat_field, status_bytes, thread_names},
    sink::Sink,
};

const TIMEOUT: Duration = Duration::from_secs(180);

/// Enough programs to spread the load, few enough for a fast start.
const PROGRAMS: u32 = 64;

#[test]
fn a_real_cluster_under_load_survives_the_death_of_its_follower() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let sink = Sink::start()?;
    let mut cluster = Cluster::start(ClusterOptions {
        programs: PROGRAMS,
        cache_entries: Some(32),
        follower_metrics: Some(sink.url()),
        leader_metrics: Some(sink.url()),
        ..ClusterOptions::default()
    })?;
    let follower = cluster
        .follower_pid()
        .expect("a started cluster has a follower");
    assert!(
        thread_names(follower)?
            .iter()
            .any(|name| name == "solReplayStage")
    );
    assert!(status_bytes(follower, "VmRSS")?.is_some_and(|bytes| bytes > 100 << 20));

    let load = load_lands(&cluster)?;
    both_nodes_push(&cluster, &sink)?;
    the_cache_evicts(&sink);

    let started = stat_field(follower, 22)?;
    cluster.kill_follower()?;
    assert!(!is_alive(follower));
    assert_eq!(cluster.follower_pid(), None);
    assert!(is_alive(cluster.leader_pid()));
    let again = cluster.start_follower()?;
    cluster.wait_until_following()?;
    assert!(stat_field(again, 22)? > started);
    assert_eq!(load.failed(), 0, "the leader has not noticed");

    drop(load);
    let leader = cluster.leader_pid();
    drop(cluster);
    assert!(
        !is_alive(leader) && !is_alive(again),
        "a dropped cluster is dead"
    );
    Ok(())
}

/// The leader executes the transactions of the load, and the follower replays them.
fn load_lands(cluster: &Cluster) -> Result<Load> {
    let before = cluster.follower_rpc().transaction_count()?;
    let slot_before = cluster.follower_rpc().processed_slot()?;
    let load = Load::start(cluster.leader_rpc().address(), 300, cluster.programs())?;
    eventually_ok(
        TIMEOUT,
        "1,500 transactions have landed on the follower beside one vote a slot",
        || {
            let rpc = cluster.follower_rpc();
            match (rpc.transaction_count(), rpc.processed_slot()) {
                (Ok(count), Ok(slot))
                    if count.saturating_sub(before) > 1_500 + slot.saturating_sub(slot_before) =>
                {
                    Ok(())
                }
                other => Err((other.0.ok(), other.1.ok(), load.sent())),
            }
        },
    );
    assert_eq!(load.failed(), 0);
    assert!(load.sent() >= 1_500);
    Ok(load)
}

/// The follower pushes under its identity, and the leader under another name: `solana-test-validator` never sets
/// its `host_id`, which stays the hash of the host's name.
fn both_nodes_push(cluster: &Cluster, sink: &Sink) -> Result<()> {
    let identity = cluster
        .follower_rpc()
        .call("getIdentity", serde_json::json!([]))?;
    let follower = format!(
        ",host_id={}",
        identity["identity"].as_str().unwrap_or("nobody")
    );
    for (whose, wanted) in [("the follower", true), ("the leader", false)] {
        eventually(TIMEOUT, &format!("a push of {whose}"), || {
            sink.find_map(|arrival| (is_of(&arrival.body, &follower) == wanted).then_some(()))
        });
    }
    assert_eq!(
        sink.arrivals()[0].target,
        "/write?db=prof&u=a&p=b&precision=n"
    );
    Ok(())
}

fn is_of(body: &[u8], tag: &str) -> bool {
    String::from_utf8_lossy(body)
        .lines()
        .next()
        .is_some_and(|line| line.contains(tag))
}

/// 64 programs do not fit into 32 entries.
fn the_cache_evicts(sink: &Sink) {
    eventually(TIMEOUT, "a program cache datapoint with evictions", || {
        sink.find_map(|arrival| {
            let text = String::from_utf8_lossy(&arrival.body);
            let mut points = text
                .lines()
                .filter(|line| line.starts_with("loaded-programs-cache-stats,"));
            points
                .any(|line| line.contains(",evictions=") && !line.contains(",evictions=0i"))
                .then_some(())
        })
    });
}
