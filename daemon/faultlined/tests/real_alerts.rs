//! A real validator is killed, gets too little memory, stops voting, and has a full disk. The
//! daemon runs with a Prometheus with the shipped rules, and an Alertmanager with the shipped
//! configuration. Each fault must notify the right receiver of the right alert and of no other.
//!
//! All times of the rules are divided by [`FASTER`]. Thresholds do not change.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; it mounts a disk"
)]

use disk::Disk;
use faster::faster;
use faultline_testkit::{
    Result,
    alertmanager::{self, Alertmanager, Notification},
    binaries::{self, Binaries},
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
    prometheus::{self, Prometheus, PrometheusOptions},
    transaction::base58,
    voter::{Stake, vote_account},
};
use limited::LimitedCgroup;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

#[path = "real_alerts/disk.rs"]
mod disk;
#[path = "real_alerts/faster.rs"]
mod faster;
#[path = "faultlined/support/limited.rs"]
mod limited;

const PATIENCE: Duration = Duration::from_secs(240);
/// Factor by which the times of the rules are shorter.
const FASTER: u32 = 12;
/// Time without a notification, at a healthy node and after each fault. It is longer than the `for`
/// of each page alert.
const QUIET: Duration = Duration::from_secs(75);
const MIB: u64 = 1 << 20;
const DISK: u64 = 8192 * MIB;
/// Memory limit that is large enough for a start.
const ROOMY: u64 = 4096 * MIB;

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/prometheus")
}

/// The shipped rules and Alertmanager's configuration with shorter times.
fn shortened(folder: &Path) -> (Vec<PathBuf>, String) {
    let read = |name: &str| fs::read_to_string(rules().join(name)).expect("a file of this tree");
    let files = ["faultline.alerts.yml", "faultline.recording.yml"].map(|name| {
        let file = folder.join(name);
        fs::write(&file, faster(&read(&format!("rules/{name}")), FASTER)).expect("a file");
        file
    });
    (files.into(), faster(&read("alertmanager.yml"), FASTER))
}

/// Alerts that always fire on this machine, because its limits are below the validator's needs.
fn of_this_machine() -> Vec<&'static str> {
    let short = |(setting, needed, _): &(&str, u64, _)| {
        let allowed = fs::read_to_string(format!("/proc/sys/{setting}")).expect("procfs");
        allowed.trim().parse::<u64>().expect("a number") < *needed
    };
    let settings = [
        ("vm/max_map_count", 1_000_000, "AgaveMaxMapCount"),
        ("net/core/rmem_default", 134_217_728, "AgaveUdpDrops"),
    ];
    settings
        .into_iter()
        .filter(short)
        .map(|(_, _, alert)| alert)
        .collect()
}

/// A node, and the programs that monitor it.
struct Scene {
    cluster: Cluster,
    daemon: Daemon,
    prometheus: Prometheus,
    alertmanager: Alertmanager,
    cgroup: LimitedCgroup,
    /// Has both ledgers. Declared last, so that it is dropped after everything else has ended.
    disk: Disk,
    /// Number of notifications before the present fault.
    before: usize,
}

impl Scene {
    fn number(&self, name: &str) -> Option<f64> {
        self.daemon.scrape().ok()?.get(name, &[])
    }

    /// Notifications since the last fault, without those about this machine's limits.
    fn new_notifications(&self) -> Vec<Notification> {
        let mut notifications = self.alertmanager.notifications().split_off(self.before);
        notifications
            .retain(|notification| !of_this_machine().contains(&notification.alert.as_str()));
        notifications
    }

    fn names(&self) -> BTreeSet<String> {
        self.new_notifications()
            .into_iter()
            .filter(|notification| !notification.resolved)
            .map(|notification| notification.alert)
            .collect()
    }

    fn start(&mut self) -> Result<()> {
        start(&mut self.cluster, &self.cgroup)
    }

    /// Checks that `receiver` gets this alert and no other while it fires, and then a notification
    /// that it is resolved.
    fn assert_notified(
        &mut self,
        what: &str,
        (receiver, alert): (&str, &str),
        mend: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let wanted = |resolved| Notification {
            receiver: receiver.to_owned(),
            alert: alert.to_owned(),
            resolved,
        };
        let has = |scene: &Self, resolved| {
            let notifications = scene.new_notifications();
            if notifications.contains(&wanted(resolved)) {
                Ok(())
            } else {
                Err((notifications, scene.prometheus.firing()))
            }
        };
        eventually_ok(PATIENCE, what, || has(self, false));
        mend(self)?;
        eventually_ok(PATIENCE, &format!("{what}: it is over"), || has(self, true));
        std::thread::sleep(QUIET);
        let notifications = self.new_notifications();
        println!("{what}: {notifications:?}");
        assert_eq!(
            self.names(),
            BTreeSet::from([alert.to_owned()]),
            "{what}: {notifications:?}"
        );
        self.before = self.alertmanager.notifications().len();
        Ok(())
    }
}

/// Starts the follower in its cgroup, and waits until the daemon follows it.
fn start(cluster: &mut Cluster, cgroup: &LimitedCgroup) -> Result<()> {
    let pid = cluster.start_follower()?;
    cgroup
        .write("cgroup.procs", pid.into())
        .expect("a process can be moved");
    cluster.wait_until_following()
}

fn scene(folder: &Path, cgroup: LimitedCgroup, disk: Disk) -> Result<Scene> {
    let nodes = folder.join("nodes");
    let config = folder.join("faultlined.toml");
    let vote = base58(vote_account());
    let text = format!(
        "[rpc]\ninterval = \"1s\"\n[validator]\ninterval = \"1s\"\nvote_account = \"{vote}\"\n"
    );
    fs::write(&config, text).expect("a configuration");
    let ledger = nodes.join("follower").display().to_string();
    let daemon = Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &[
            "--config",
            &config.display().to_string(),
            "--ledger",
            &ledger,
        ],
        folder,
    )?;
    let options = ClusterOptions {
        programs: 8,
        folder: Some(nodes),
        follower_metrics: Some(daemon.ingest_url()),
        // So little stake that hardly a leader slot comes while the validator is down. A skipped
        // leader slot would be notified as well.
        follower_stakes: vec![Stake::always(40)],
        ..ClusterOptions::default()
    };
    let mut cluster = Cluster::start_leader(options)?;
    // Started before the monitoring, because a missing validator counts as down.
    start(&mut cluster, &cgroup)?;
    let (rule_files, configuration) = shortened(folder);
    let alertmanager = Alertmanager::start(&configuration)?;
    let options = PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files,
        alertmanager: Some(alertmanager.address().to_owned()),
        ..PrometheusOptions::default()
    };
    let prometheus = Prometheus::start(&options)?;
    Ok(Scene {
        cluster,
        daemon,
        prometheus,
        alertmanager,
        cgroup,
        disk,
        before: 0,
    })
}

#[test]
#[ignore = "takes ten minutes: .ci/run --long; the cases of each rule are in grafana/prometheus/tests"]
fn each_real_node_fault_fires_exactly_its_own_alert() -> Result<()> {
    for (there, message) in [
        (Binaries::find().is_some(), binaries::SKIP_MESSAGE),
        (Prometheus::is_installed(), prometheus::SKIP_MESSAGE),
        (Alertmanager::is_installed(), alertmanager::SKIP_MESSAGE),
    ] {
        if !there {
            eprintln!("{message}");
            return Ok(());
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cgroup, disk) = (
        LimitedCgroup::new(ROOMY),
        Disk::mount(&folder.path().join("nodes"), DISK),
    );
    let (Some(cgroup), Some(disk)) = (cgroup, disk) else {
        eprintln!("SKIPPED: no cgroup with a limit of memory, or no file system, can be made here");
        return Ok(());
    };
    let mut scene = scene(folder.path(), cgroup, disk)?;
    std::thread::sleep(QUIET);
    assert_eq!(scene.new_notifications(), [], "a healthy node");
    scene.cluster.kill_follower()?;
    scene.assert_notified("killed", ("page", "AgaveDown"), Scene::start)?;
    votes_stop(&mut scene)?;
    scene.disk.fill(0.03);
    scene.assert_notified("filled", ("page", "AgaveDiskNearlyFull"), |scene| {
        scene.disk.empty();
        Ok(())
    })?;
    starved(&mut scene)?;
    assert_eq!(scene.daemon.stop()?, Some(0));
    Ok(())
}

/// Another identity takes over, whose votes do not count for the vote account. Slot times are not
/// shortened. The alert on votes that do not land waits until they are so old that the validator is
/// delinquent.
fn votes_stop(scene: &mut Scene) -> Result<()> {
    let [own, other] = scene.cluster.follower_addresses().clone();
    scene.cluster.set_follower_identity(&other.identity)?;
    let wait_for_notification = |scene: &Scene, alert: &str, resolved| {
        let wanted = Notification {
            receiver: "page".to_owned(),
            alert: alert.to_owned(),
            resolved,
        };
        let notifications = scene.new_notifications();
        if notifications.contains(&wanted) {
            Ok(())
        } else {
            Err((notifications, scene.prometheus.firing()))
        }
    };
    eventually_ok(PATIENCE, "votes stop: delinquent", || {
        wait_for_notification(scene, "AgaveDelinquent", false)
    });
    scene.cluster.set_follower_identity(&own.identity)?;
    eventually_ok(PATIENCE, "votes stop: it is over", || {
        wait_for_notification(scene, "AgaveDelinquent", true)
    });
    std::thread::sleep(QUIET);
    println!("votes stop: {:?}", scene.new_notifications());
    let mut others = scene.names();
    others.retain(|alert| !["AgaveDelinquent", "AgaveVotesNotLanding"].contains(&alert.as_str()));
    assert_eq!(
        others,
        BTreeSet::new(),
        "votes stop: {:?}",
        scene.new_notifications()
    );
    scene.before = scene.alertmanager.notifications().len();
    Ok(())
}

/// Sets a limit so low that unreclaimable memory is more than 95 % of it. The page cache that
/// remains is read again and again.
fn starved(scene: &mut Scene) -> Result<()> {
    let needed = scene
        .number("agave_memory_unreclaimable_bytes")
        .expect("its memory is known");
    let limit = (needed / 0.955) as u64;
    println!(
        "unreclaimable {:.0} MiB, limit {} MiB",
        needed / MIB as f64,
        limit / MIB
    );
    scene.cgroup.limit(limit).expect("a limit can be lowered");
    scene.assert_notified("starved", ("page", "AgaveOomAhead"), |scene| {
        scene.cgroup.limit(ROOMY).expect("a limit can be raised");
        Ok(())
    })
}
