//! A real validator that the kernel OOM kills. The daemon must show the limit, the approach to it
//! and the reason of the end.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
};
use limited::LimitedCgroup;
use std::{fs, time::Duration};

#[path = "faultlined/support/limited.rs"]
mod limited;

const PATIENCE: Duration = Duration::from_secs(180);

/// Below the need: the follower's anonymous memory is 1,280 MiB after 2 s, and exceeds this limit
/// 40 s later.
const LIMIT: u64 = 1400 << 20;

#[test]
fn an_oom_killed_validator_shows_its_limit_approach_and_exit_reason() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    // Declared before the cluster, so that it is removed after it.
    let Some(cgroup) = LimitedCgroup::new(LIMIT) else {
        eprintln!("skipped: no cgroup with a limit of memory can be made here");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let ledger = nodes.join("follower").display().to_string();
    let daemon = Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--ledger", &ledger, "--no-ingest"],
        folder.path(),
    )?;
    let mut cluster = Cluster::start_leader(ClusterOptions {
        folder: Some(nodes),
        ..ClusterOptions::default()
    })?;
    cgroup
        .run(|| cluster.start_follower())
        .expect("a process can be moved")?;
    it_approaches_the_limit_until_it_is_killed(&daemon, &cgroup);
    eventually_ok(PATIENCE, "the reason of the end", || {
        killed_once(&daemon, "agave_process_ends_total")
    });
    cluster.start_follower()?;
    eventually_ok(PATIENCE, "the successor and the reason", || {
        killed_once(&daemon, "agave_process_restarts_total")
    });
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

fn number(daemon: &Daemon, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    daemon.scrape().ok()?.get(name, labels)
}

fn it_approaches_the_limit_until_it_is_killed(daemon: &Daemon, cgroup: &LimitedCgroup) {
    let mut most = 0.0_f64;
    eventually_ok(PATIENCE, "the limit and the approach", || {
        let limit = number(daemon, "agave_memory_effective_limit_bytes", &[]);
        most = most.max(number(daemon, "agave_memory_unreclaimable_bytes", &[]).unwrap_or(0.0));
        if limit == Some(LIMIT as f64) && most > 0.7 * LIMIT as f64 {
            Ok(())
        } else {
            Err((limit, most))
        }
    });
    eventually_ok(PATIENCE, "the kill", || {
        cgroup.kills().filter(|kills| *kills > 0).ok_or(most)
    });
    eventually_ok(PATIENCE, "the end", || {
        let up = number(daemon, "agave_up", &[]);
        if up == Some(0.0) { Ok(()) } else { Err(up) }
    });
}

/// Checks that the counter has one OOM kill and no other reason. Otherwise returns its values.
fn killed_once(daemon: &Daemon, counter: &str) -> std::result::Result<(), [Option<f64>; 3]> {
    let all = ["oom_kill", "exit", "unknown"]
        .map(|reason| number(daemon, counter, &[("reason", reason)]));
    if all == [Some(1.0), Some(0.0), Some(0.0)] {
        Ok(())
    } else {
        Err(all)
    }
}
