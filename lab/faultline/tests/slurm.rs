//! Blocks of an experiment and rounds of a campaign under a real Slurm, and what breaks there. It takes minutes and root.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and reads the clock itself"
)]

#[path = "slurm/cluster.rs"]
mod cluster;
#[path = "slurm/rights.rs"]
mod rights;

use cluster::{Cluster, FAULTLINE, PATIENCE};
use faultline_testkit::eventually::eventually;
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

#[test]
#[ignore = "minutes, root and Slurm"]
fn three_nodes_count_all_runs_once_in_less_than_half_of_the_time() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.write_plan("state", 15, 3, "");
    let begun = Instant::now();
    cluster.experiment(&["slurm", "plan.toml"]);
    let status = cluster.assert_all_count(6);
    let with_slurm = begun.elapsed();
    let hosts: BTreeSet<_> = status["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["host"].to_string())
        .collect();
    assert_eq!(hosts.len(), 3, "{status:#}");
    // Arm, replicate and host of each run are in its recording.
    let recording = cluster
        .path("state/blocks/002")
        .read_dir()
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let run = entry.path().join("runs/003-b-r2/a1/run.fltl");
            run.is_file().then_some(run)
        });
    let labels = cluster.call(FAULTLINE, &["info", recording.unwrap().to_str().unwrap()]);
    assert!(
        labels.contains("block=2") && labels.contains("host=n") && labels.contains("job="),
        "{labels}"
    );

    cluster.write_plan("one-host", 15, 3, "");
    let begun = Instant::now();
    cluster.experiment(&["run", "plan.toml"]);
    let one_host = begun.elapsed();
    let ratio = with_slurm.as_secs_f64() / one_host.as_secs_f64();
    eprintln!("three nodes {with_slurm:?}, one host {one_host:?}: {ratio:.2}");
    assert!(ratio <= 0.45, "{with_slurm:?} of {one_host:?}");
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn a_run_goes_on_and_counts_once_if_its_slurmd_is_killed() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.write_plan("state", 25, 2, "");
    cluster.experiment(&["slurm", "plan.toml"]);
    cluster.wait_until_running(2);
    let node = cluster.node_of(1);
    cluster.kill(&[&cluster.pid(&format!("{node}.pid"))]);
    let status = cluster.assert_all_count(4);
    assert_eq!(status["runs"][0]["host"], *node);
    // The second attempt had to wait.
    let output = fs::read_to_string(cluster.path("state/blocks/001.out")).unwrap();
    assert!(
        output.contains("block 1: not now: it is being run already"),
        "{output}"
    );
    assert_eq!(output.matches("block 1 is done").count(), 2, "{output}");
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn the_block_of_a_dead_host_is_repeated_whole_on_another() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.write_plan("state", 10, 2, "");
    cluster.experiment(&["slurm", "plan.toml"]);
    cluster.wait_until_running(2);
    let node = cluster.node_of(1);
    cluster.wait_for("the second run of block 1", |status| {
        status["runs"][1]["step"] == "watch"
    });
    cluster.kill_host(&node, &format!("state/blocks/001/{node}-0/lock"));
    let status = cluster.assert_all_count(4);
    for run in status["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["replicate"] == 1)
    {
        assert_ne!(run["host"], *node, "{status:#}");
        assert_eq!(run["attempts"], 2, "{status:#}");
    }
    let report = fs::read_to_string(cluster.path("state/report/report.md")).unwrap();
    let reason = format!(
        "of this block that count; {node}-0 is not used; this one all of its work was done"
    );
    assert!(report.contains(&reason), "{report}");
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn resume_continues_what_stop_or_scancel_ended() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.write_plan("state", 12, 2, "");
    cluster.experiment(&["slurm", "plan.toml"]);
    cluster.wait_until_running(2);
    let begun = Instant::now();
    cluster.experiment(&["stop", "state"]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let status = cluster.status();
    assert_eq!(status["state"]["why"], "stopped by SIGTERM", "{status:#}");
    assert_eq!(cluster.call("squeue", &["--noheader"]), "");

    cluster.experiment(&["resume", "state"]);
    cluster.wait_until_running(2);
    let again = cluster.output(FAULTLINE, &["experiment", "resume", "state"]);
    assert!(!again.status.success(), "two runners of one block");
    cluster.call("scancel", &["--partition=lab"]);
    cluster.wait_for_no_job();
    cluster.experiment(&["resume", "plan.toml"]);
    let status = cluster.assert_all_count(4);
    assert_eq!(status["runs"][0]["attempts"], 3, "{status:#}");
    cluster.experiment(&["resume", "state"]);
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn no_run_is_lost_while_the_controller_is_away() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.write_plan("state", 18, 3, "");
    cluster.experiment(&["slurm", "plan.toml"]);
    cluster.wait_until_running(3);
    // Within 10 s of a start the controller would drain the nodes.
    std::thread::sleep(Duration::from_secs(12));
    cluster.kill(&[&cluster.pid("slurmctld.pid")]);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(cluster.status()["state"]["is"], "running");
    cluster.start_controller();
    let status = cluster.assert_all_count(6);
    for run in status["runs"].as_array().unwrap() {
        assert_eq!(run["attempts"], 1, "{status:#}");
    }
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn full_disks_of_a_node_and_of_the_output_lose_no_run() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let output = cluster.path("output");
    fs::create_dir(&output).unwrap();
    cluster.call("mount", &["-t", "tmpfs", "-o", "size=4k", "none", "output"]);
    fs::write(output.join("full"), [0; 4096]).unwrap();
    // A node that begins with a small disk.
    cluster.kill(&[&cluster.pid("n1.pid")]);
    cluster.call(
        "mount",
        &["-t", "tmpfs", "-o", "size=1m", "none", "spool/n1"],
    );
    cluster.start_node("n1");
    std::thread::sleep(Duration::from_secs(3));
    let _ = fs::write(cluster.path("spool/n1/full"), vec![0; 2 << 20]);
    cluster.write_plan(
        "state",
        8,
        3,
        &format!("options = [\"--output={}/%a.out\"]", output.display()),
    );
    cluster.experiment(&["slurm", "plan.toml"]);
    let held = cluster.wait_for("a held job", |status| {
        let jobs = status["jobs"].as_array().unwrap();
        jobs.iter()
            .any(|job| job["reason"].as_str().unwrap().contains("held"))
    });
    let page = cluster.experiment(&["status", "state"]);
    let jobs = held["jobs"].as_array().unwrap();
    let held = jobs
        .iter()
        .find(|job| job["reason"].as_str().unwrap().contains("held"));
    let id = held.unwrap()["id"].as_str().unwrap();
    assert!(page.contains(&format!("scontrol release {id}")), "{page}");
    cluster.call("scontrol", &["release", id]);
    cluster.assert_all_count(6);
    assert_eq!(
        fs::metadata(output.join("1.out")).map_or(0, |file| file.len()),
        0
    );
    cluster.call("umount", &["output"]);
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn rounds_of_a_campaign_count_once_although_a_host_dies() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let campaign = |words: &[&str]| cluster.call(FAULTLINE, &[&["campaign"], words].concat());
    cluster.write_campaign("shared", 4);
    campaign(&["slurm", "shared"]);
    let [first, second] = [1, 2].map(|version| format!("1.{version}.0-1"));
    let attempts = |round: &str| {
        let experiments = cluster.path("shared/experiments").read_dir();
        let folder = experiments.into_iter().flatten().flatten().last();
        let folder = folder.map(|entry| entry.path().join("attempts").join(round));
        let entries = folder.and_then(|folder| folder.read_dir().ok());
        let entries = entries.into_iter().flatten().flatten();
        let hosts = entries.filter(|entry| entry.path().is_dir());
        let mut hosts: Vec<_> = hosts.map(|entry| entry.path()).collect();
        hosts.sort();
        hosts
    };
    let runs = |round: &str| {
        let folder = attempts(round).pop()?;
        let runs = folder.join(round).join("runs").read_dir().ok()?;
        Some(runs.count())
    };
    eventually(PATIENCE, "two tasks that run", || {
        (runs(&first)? >= 2 && runs(&second).is_some()).then_some(())
    });
    let attempt = attempts(&first).remove(0);
    let node = attempt.file_name().unwrap().to_string_lossy().into_owned();
    let lock = attempt.with_file_name("lock");
    cluster.kill_host(node.trim_end_matches("-0"), lock.to_str().unwrap());
    cluster.wait_for_no_job();

    let output = |name: &str| fs::read_to_string(cluster.path("shared/slurm").join(name)).unwrap();
    let collected = output("follow-up.out");
    let unused = format!("; not used: {node}");
    let results = "the results of round 1 are those of ";
    for text in [results, &unused, "every submitted version has its result"] {
        assert!(collected.contains(text), "{collected}");
    }
    assert!(output("002.out").contains("round 1 of 1.2.0 is done"));
    assert_eq!((attempts(&first).len(), attempts(&second).len()), (2, 1));

    cluster.write_campaign("one-host", 4);
    campaign(&["run", "one-host"]);
    let rows = |folder: &str| {
        let file = cluster.path(folder).join("page/results.json");
        let results: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let releases = results["groups"][0]["releases"].as_array().unwrap();
        let runs = releases
            .iter()
            .flat_map(|one| one["runs"].as_array().unwrap());
        let mut rows: Vec<_> = runs
            .inspect(|run| assert_eq!(run["outcome"], "completed", "{run}"))
            .map(|run| ["round", "arm", "replicate"].map(|key| run[key].to_string()))
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(rows("shared").len(), 12);
    assert_eq!(rows("shared"), rows("one-host"));
}

#[test]
#[ignore = "minutes, root and Slurm"]
fn a_full_disk_of_the_experiment_ends_the_block_and_resume_completes_it() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    fs::create_dir(cluster.path("state")).unwrap();
    cluster.kill(&[&cluster.pid("n1.pid")]);
    // Its port is free, and the node then sees what was mounted before its start.
    std::thread::sleep(Duration::from_secs(1));
    cluster.call("mount", &["-t", "tmpfs", "-o", "size=8m", "none", "state"]);
    cluster.start_node("n1");
    std::thread::sleep(Duration::from_secs(3));
    cluster.write_plan("state", 10, 1, "options = [\"--nodelist=n1\"]");
    cluster.experiment(&["slurm", "plan.toml"]);
    cluster.wait_until_running(1);
    let _ = fs::write(cluster.path("state/full"), vec![0; 8 << 20]);
    eventually(PATIENCE, "no job", || {
        let jobs = cluster.call("squeue", &["--noheader"]);
        jobs.is_empty().then_some(())
    });
    let job = cluster.call("scontrol", &["show", "job", "1_1"]);
    assert!(job.contains("ExitCode=1:0"), "{job}");
    let page = cluster.experiment(&["status", "state"]);
    assert!(page.contains("the disk is full"), "{page}");
    fs::remove_file(cluster.path("state/full")).unwrap();
    cluster.experiment(&["resume", "state"]);
    cluster.assert_all_count(2);
}
