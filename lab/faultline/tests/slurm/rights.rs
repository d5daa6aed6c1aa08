//! What SLURM.md says about rights, with its own lines.

use super::cluster::{Cluster, FAULTLINE, PATIENCE};
use faultline_testkit::{binaries::in_search_path, eventually::eventually};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

const USER: &str = "lab";
const RULE_FILE: &str = "/etc/sudoers.d/faultline-lab";

/// A user and a group of this name, until dropped.
struct LabUser;

impl LabUser {
    /// `None`, with a message, without sudo or root, or if there is such a user.
    fn create() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let exists = Command::new("id").arg(USER).output().unwrap();
        if in_search_path("visudo").is_none() || !is_root || exists.status.success() {
            eprintln!("SKIPPED: it takes root, sudo, and no user {USER}");
            return None;
        }
        let made = Command::new("useradd")
            .args(["--user-group", USER])
            .status();
        assert!(made.unwrap().success());
        Some(Self)
    }

    fn output(&self, cluster: &Cluster, words: &[&str]) -> Output {
        let prefix = ["--reuid", USER, "--regid", USER, "--init-groups", "--"];
        cluster.output("setpriv", &[&prefix, words].concat())
    }

    /// What a program prints that succeeds.
    fn call(&self, cluster: &Cluster, words: &[&str]) -> String {
        let output = self.output(cluster, words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for LabUser {
    fn drop(&mut self) {
        let _ = fs::remove_file(RULE_FILE);
        let _ = Command::new("userdel").arg(USER).status();
    }
}

/// The block of SLURM.md that has this text, with the paths of this machine.
fn documented(cluster: &Cluster, text: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SLURM.md");
    let page = fs::read_to_string(page).unwrap();
    let block = page.split("```").find(|block| block.contains(text));
    let (_, lines) = block.unwrap().split_once('\n').unwrap();
    lines.replace("/usr/bin/faultline", FAULTLINE).replace(
        "/shared",
        cluster.path("").to_str().unwrap().trim_end_matches('/'),
    )
}

#[test]
#[ignore = "minutes, root, Slurm and sudo"]
fn sudo_runs_the_blocks_of_a_user_and_nothing_else() {
    let Some((user, cluster)) = LabUser::create().zip(Cluster::start()) else {
        return;
    };
    let rule = cluster.path("rule");
    fs::write(&rule, documented(&cluster, "NOPASSWD")).unwrap();
    cluster.call("visudo", &["--check", "--file", "rule"]);
    cluster.call("install", &["--mode=440", "rule", RULE_FILE]);
    fs::create_dir(cluster.path("state")).unwrap();
    cluster.call("chown", &[USER, "state"]);
    cluster.write_plan("state", 6, 2, "");

    let script = user.call(
        &cluster,
        &[FAULTLINE, "experiment", "slurm", "plan.toml", "--print"],
    );
    user.call(&cluster, &[FAULTLINE, "experiment", "prepare", "plan.toml"]);
    let script = script.replace("\nexec ", "\nexec sudo -n ");
    fs::write(cluster.path("state/slurm.sh"), script).unwrap();
    user.call(&cluster, &[FAULTLINE, "experiment", "resume", "state"]);
    cluster.wait_until_running(2);
    user.call(&cluster, &[FAULTLINE, "experiment", "stop", "state"]);
    let status = cluster.status();
    assert_eq!(status["state"]["why"], "stopped by SIGTERM", "{status:#}");
    user.call(&cluster, &[FAULTLINE, "experiment", "resume", "state"]);
    let status = cluster.assert_all_count(4);
    let run = &status["runs"][0];
    assert!(run["host"].as_str().unwrap().starts_with('n'), "{status:#}");

    let folder = cluster.path("state");
    let folder = folder.to_str().unwrap();
    let outside = format!("{folder}/../other");
    for words in [
        ["experiment", "block", "/other", "1"].as_slice(),
        &["experiment", "block", &outside, "1"],
        &["experiment", "block", folder, "1", "--launcher=direct"],
        &["experiment", "stop", folder],
        &["record"],
    ] {
        let words = [&["sudo", "-n", FAULTLINE], words].concat();
        let refused = user.output(&cluster, &words);
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(
            message.contains("a password is required"),
            "{words:?}: {message}"
        );
    }
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn the_epilog_ends_what_a_killed_job_leaves() {
    let Some(cluster) = Cluster::start_with("Epilog=DIR/epilog\n") else {
        return;
    };
    let script = format!("#!/bin/sh\n{}", documented(&cluster, "exit 0"));
    let epilog = cluster.path("epilog");
    fs::write(&epilog, script).unwrap();
    fs::set_permissions(&epilog, PermissionsExt::from_mode(0o755)).unwrap();
    // The first run has a process that nothing but its cgroup connects with the job.
    cluster.write_plan("state", 1, 1, "options = [\"--nodelist=n1\"]");
    let file = cluster.path("survivor");
    let script =
        r#"["sh", "-c", "[ -e FILE ] || setsid sh -c 'echo $$ > FILE; exec sleep 600' & wait"]"#;
    let command = script.replace("FILE", file.to_str().unwrap());
    let plan = fs::read_to_string(cluster.path("plan.toml")).unwrap();
    let plan = plan.replace(r#"["sleep", "1"]"#, &command);
    fs::write(cluster.path("plan.toml"), plan).unwrap();
    cluster.experiment(&["slurm", "plan.toml"]);
    let survivor = eventually(PATIENCE, "the process", || {
        let pid = fs::read_to_string(&file).ok()?;
        pid.ends_with('\n')
            .then(|| Path::new("/proc").join(pid.trim()))
    });
    cluster.call("scancel", &["--signal=KILL", "--batch", "--partition=lab"]);
    eventually(PATIENCE, "its end", || (!survivor.exists()).then_some(()));
    cluster.experiment(&["resume", "state"]);
    let status = cluster.assert_all_count(2);
    assert_eq!(status["runs"][0]["attempts"], 2, "{status:#}");
    assert_eq!(status["runs"][0]["host"], "n1", "{status:#}");
}
