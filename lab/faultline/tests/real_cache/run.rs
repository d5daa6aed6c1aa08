//! One run of a real follower under load, recorded, and what `faultline cache` says of it.

use faultline_cache_sim::file;
use faultline_testkit::{
    Result,
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::{Condition, wait_for},
    load::{Calls, Load},
    rpc::Rpc,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(600);
/// What was sent last is in a block after so many slots, unless the leader has a queue.
const UNTIL_LANDED: u64 = 8;
/// Later than after so many slots nothing lands: its blockhash is too old.
const LONGEST_QUEUE: u64 = 150;

/// A folder of results in `target`, emptied.
pub fn results(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("{}: {error}", folder.display())
        }
        _ => fs::create_dir_all(&folder).expect("a folder for results"),
    }
    folder
}

/// Runs `faultline cache`: its exit code and what it says.
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
pub fn cache(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultline"));
    let output = command
        .arg("cache")
        .args(words)
        .output()
        .expect("faultline can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.is_empty(), "{words:?}: {output:?}");
    (output.status.code(), said)
}

/// Records a follower of a cluster of its own from its start until all of the load is finalized, as `NAME.fltl`, and fetches the
/// leader's blocks as `NAME.trace`. `meanwhile` is called again and again under load, with what was sent. Returns how many
/// transactions with programs are in the blocks: a leader that is starved loses what it has accepted.
pub fn record(
    (folder, name): (&Path, &str),
    options: ClusterOptions,
    calls: Calls,
    mut meanwhile: impl FnMut(&Rpc, u64) -> Result<()>,
) -> Result<usize> {
    let path = |name: String| folder.join(name).display().to_string();
    let (run, trace) = (path(format!("{name}.fltl")), path(format!("{name}.trace")));
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let nodes = options
        .folder
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    let ledger = nodes.join("follower").display().to_string();
    let program = Path::new(env!("CARGO_BIN_EXE_faultline")).with_file_name("faultlined");
    let daemon = Daemon::start(
        &program.display().to_string(),
        &["--ledger", &ledger, "--record", &run],
        folder,
    )?;
    let mut cluster = Cluster::start(ClusterOptions {
        follower_metrics: Some(daemon.ingest_url()),
        folder: Some(nodes),
        ..options
    })?;
    let leader = cluster.leader_rpc();
    let (first, before) = (leader.processed_slot()?, leader.transaction_count()?);
    let load = Load::with_calls(leader.address(), calls)?;
    wait_for(PATIENCE, "the load is over", || {
        meanwhile(&leader, load.sent())?;
        Ok(if load.is_over() {
            Condition::Ready(())
        } else {
            Condition::NotYet(format!("{} sent", load.sent()))
        })
    })?;
    let refused = load.failed();
    let sent = load.stop();
    println!("{name}: {sent} transactions accepted, {refused} refused");
    wait_until_finalized(&leader, sent, (first, before))?;
    cluster.kill_follower()?;
    assert_eq!(daemon.stop()?, Some(0));
    let url = format!("http://{}/", leader.address());
    let (code, said) = cache(&["fetch", &run, "--rpc", &url, "--out", &trace]);
    println!("{said}");
    assert_eq!(code, Some(0));
    Ok(file::read(fs::read(&trace).expect("a trace").as_slice())
        .expect("a trace")
        .call_count())
}

/// `first` and `before` are the slot and the transaction count before the load.
fn wait_until_finalized(leader: &Rpc, sent: u64, (first, before): (u64, u64)) -> Result<()> {
    let last = leader.processed_slot()? + LONGEST_QUEUE;
    wait_for(PATIENCE, "all of it is in blocks", || {
        let (slot, count) = (leader.processed_slot()?, leader.transaction_count()?);
        // A vote in each slot, some of which may be late.
        let landed = count.saturating_sub(before + slot.saturating_sub(first)) + UNTIL_LANDED;
        Ok(if landed >= sent || slot >= last {
            Condition::Ready(())
        } else {
            Condition::NotYet(format!("{landed} landed"))
        })
    })?;
    let end = leader.processed_slot()? + UNTIL_LANDED;
    wait_for(PATIENCE, "all of it is finalized", || {
        let slot = leader.call("getSlot", json!([{"commitment": "finalized"}]))?;
        Ok(if slot.as_u64() >= Some(end) {
            Condition::Ready(())
        } else {
            Condition::NotYet(slot.to_string())
        })
    })?;
    Ok(())
}

/// A counter of a self-test, and what is asked of it: `recorded` or `predicted`.
pub fn self_test(said: &Value, name: &str, what: &str) -> f64 {
    let counters = said["self_test"].as_array().expect("counters");
    let counter = counters.iter().find(|counter| counter["name"] == name);
    counter
        .and_then(|counter| counter[what].as_f64())
        .expect("a number")
}
