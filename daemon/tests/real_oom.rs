//! A real validator that the kernel really kills for want of memory: the daemon shows the limit, the approach and the
//! reason.

#![allow(clippy::expect_used, reason = "a test that cannot prepare its scene fails")]

use faultline_testkit::Result;
use faultline_testkit::binaries::{Binaries, SKIP_MESSAGE};
use faultline_testkit::cluster::{Cluster, ClusterOptions};
use faultline_testkit::daemon::Daemon;
use faultline_testkit::eventually::eventually_seeing;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);

/// Too little: the follower's anonymous memory exceeds it some 10 s into its start.
const LIMIT: u64 = 1480 << 20;

/// A cgroup with a limit of memory; removed when dropped, by when its process must have ended.
struct LimitedCgroup {
    folder: PathBuf,
    kills: &'static str,
}

impl LimitedCgroup {
    /// In version 1 or 2, whichever has the memory controller; `None` where this is not allowed.
    fn new(limit: u64) -> Option<Self> {
        let name = format!("faultline-test-{}", std::process::id());
        [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"),
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.events"),
        ]
        .into_iter()
        .find_map(|(top, max, swap, kills)| {
            if !Path::new(top).join("cgroup.procs").exists() {
                return None;
            }
            let folder = Path::new(top).join(&name);
            fs::create_dir(&folder).ok()?;
            let cgroup = LimitedCgroup { folder, kills };
            cgroup.write(max, limit).ok()?;
            // Version 1 limits memory and swap together; either file may be missing, as without swap.
            let _ = cgroup.write(swap, if kills == "memory.events" { 0 } else { limit });
            Some(cgroup)
        })
    }

    fn write(&self, file: &str, value: u64) -> std::io::Result<()> {
        let path = self.folder.join(file);
        // A file that is not there would be made on a disk; here it is an error.
        fs::OpenOptions::new().write(true).open(path).and_then(|mut file| {
            use std::io::Write;
            file.write_all(value.to_string().as_bytes())
        })
    }

    /// How often the kernel has killed in it.
    fn kills(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.kills)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    }
}

impl Drop for LimitedCgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

#[test]
fn a_validator_killed_for_want_of_memory_shows_its_limit_its_approach_and_the_reason() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    // Before the cluster, so that it is removed after it.
    let Some(cgroup) = LimitedCgroup::new(LIMIT) else {
        eprintln!("skipped: no cgroup with a limit of memory can be made here");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = folder.path().join("nodes");
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let ledger = nodes.join("follower").display().to_string();
    let daemon = Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &["--ledger", &ledger, "--no-ingest"], folder.path())?;
    let mut cluster = Cluster::start_leader(ClusterOptions { folder: Some(nodes), ..ClusterOptions::default() })?;
    let pid = cluster.start_follower()?;
    cgroup.write("cgroup.procs", pid.into()).expect("a process can be moved");
    let number = |name: &str, labels: &[(&str, &str)]| daemon.scrape().ok()?.get(name, labels);
    let mut most = 0.0_f64;
    eventually_seeing(PATIENCE, "the limit and the approach", || {
        let limit = number("agave_memory_effective_limit_bytes", &[]);
        most = most.max(number("agave_memory_unreclaimable_bytes", &[]).unwrap_or(0.0));
        if limit == Some(LIMIT as f64) && most > 0.7 * LIMIT as f64 { Ok(()) } else { Err((limit, most)) }
    });
    eventually_seeing(PATIENCE, "the kill", || cgroup.kills().filter(|kills| *kills > 0).ok_or(most));
    eventually_seeing(PATIENCE, "the end", || {
        let up = number("agave_up", &[]);
        if up == Some(0.0) { Ok(()) } else { Err(up) }
    });
    cluster.start_follower()?;
    eventually_seeing(PATIENCE, "the successor and the reason", || {
        let of = |reason| number("agave_process_restarts_total", &[("reason", reason)]);
        let all = (of("oom_kill"), of("exit"), of("unknown"));
        if all == (Some(1.0), Some(0.0), Some(0.0)) { Ok(()) } else { Err(all) }
    });
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}
