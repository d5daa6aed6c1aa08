//! Blocks on several hosts, which are this one under several names.

use super::scene::{FAULTLINE, PATIENCE, Scene, said};
use faultline_testkit::{
    eventually::eventually,
    process::{Program, Running},
};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Output},
};

const RULES: &str = "[stop]\nduration = \"1h\"\ncounted_from = \"start\"\ngrace = \"5s\"\n\
                     [[arm]]\nname = \"a\"\nmemory_max = \"64M\"\n[[arm]]\nname = \"b\"\nmemory_max = \"96M\"\n";

/// The first word is a command, the second a path in the scene.
fn on(scene: &Scene, host: &str, words: &[&str]) -> Output {
    let mut command = Command::new(FAULTLINE);
    command
        .args(["experiment", words[0]])
        .arg(scene.path(words[1]))
        .args(&words[2..]);
    command.env("SLURMD_NODENAME", host).output().unwrap()
}

fn block(scene: &Scene, host: &str, number: &str) -> Output {
    on(scene, host, &["block", "state", number])
}

fn status(scene: &Scene) -> Value {
    serde_json::from_slice(&scene.faultline(&["status", "state", "--json"]).stdout).unwrap()
}

/// The host n1 dies in the second run of block 1.
fn die_in_block(scene: &Scene) {
    fs::write(scene.path("program.sh.slow"), "").unwrap();
    let mut first = Running::start(&Program {
        path: FAULTLINE.into(),
        arguments: [
            "experiment",
            "block",
            scene.path("state").to_str().unwrap(),
            "1",
        ]
        .map(str::to_owned)
        .to_vec(),
        environment: vec![("SLURMD_NODENAME".to_owned(), Some("n1".to_owned()))],
        output: scene.path("output"),
    })
    .unwrap();
    eventually(PATIENCE, "the second run", || {
        scene.path("program.sh.began").exists().then_some(())
    });
    let held = block(scene, "n2", "1");
    assert_eq!(held.status.code(), Some(75), "{}", said(&held));
    slurm_does_not_know_it(scene);
    first.kill().unwrap();
}

/// No job runs, and a runner does. The first call of each program fails.
fn slurm_does_not_know_it(scene: &Scene) {
    let script = scene.path("state/slurm.sh");
    fs::write(&script, "").unwrap();
    for program in ["scancel", "squeue"] {
        let stub = "#!/bin/sh\necho \"${0##*/} $1\" >>\"${0%/*}/calls\"\n\
                    [ -e \"$0.called\" ] && exit 0\n: >\"$0.called\"\nexit 1\n";
        fs::write(scene.path(program), stub).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(scene.path(program), executable).unwrap();
    }
    let mut command = Command::new(FAULTLINE);
    command
        .args(["experiment", "stop"])
        .arg(scene.path("state"))
        .env("PATH", scene.path(""));
    let stopped = command.output().unwrap();
    let message = said(&stopped);
    assert!(!stopped.status.success(), "{message}");
    assert!(
        message.contains("blocks/001/n1-0") && message.contains("scancel failed"),
        "{message}"
    );
    let calls = fs::read_to_string(scene.path("calls")).unwrap();
    let calls: Vec<_> = calls.lines().collect();
    let [steps @ .., last] = calls.as_slice() else {
        panic!("no calls")
    };
    assert!(last.starts_with("scancel --name="), "{calls:?}");
    assert_eq!(
        steps,
        [
            "scancel --state=PENDING",
            "scancel --state=RUNNING",
            "squeue --noheader",
            "squeue --noheader"
        ]
    );
    let again = scene.faultline(&["slurm", "plan.toml"]);
    assert!(
        !again.status.success() && said(&again).contains("slurm.sh exists"),
        "{}",
        said(&again)
    );
    fs::remove_file(script).unwrap();
}

fn an_attempt_is_stopped_on_its_host(scene: &Scene) {
    let attempt = "state/blocks/001/n1-0";
    let elsewhere = scene.faultline(&["stop", attempt]);
    assert_eq!(elsewhere.status.code(), Some(1), "{}", said(&elsewhere));
    assert!(
        said(&elsewhere).contains("ran on n1"),
        "{}",
        said(&elsewhere)
    );
    let targets = scene.path(attempt).join("targets.json");
    fs::write(&targets, "[1]").unwrap();
    let stopped = on(scene, "n1", &["stop", attempt]);
    let continues = format!(
        "`faultline experiment block {} 1` continues",
        scene.path("state").display()
    );
    assert!(
        stopped.status.success() && said(&stopped).contains(&continues),
        "{}",
        said(&stopped)
    );
    assert_eq!(fs::read_to_string(targets).unwrap(), "[]\n");
    let resumed = on(scene, "n1", &["resume", attempt]);
    assert!(
        !resumed.status.success() && said(&resumed).contains(&continues),
        "{}",
        said(&resumed)
    );
}

fn an_unreadable_journal_stops_no_other_block(scene: &Scene) {
    let journal = scene.path("state/blocks/001/n1-0/journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("broken\n{lines}")).unwrap();
    for output in [
        block(scene, "n1", "2"),
        scene.faultline(&["status", "state"]),
        scene.faultline(&["report", "state"]),
    ] {
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains("n1-0/journal.jsonl:1: this is no line"),
            "{said}"
        );
    }
    fs::write(&journal, lines).unwrap();
}

#[test]
fn a_block_runs_once_and_whole_on_one_host() {
    // Runs of the arm b wait once.
    let script = "sleep 1; [ \"$1\" = b ] && rm \"$0.slow\" && touch \"$0.began\" && exec sleep 1000; exit 0";
    let Some(scene) = Scene::new("blocks", script, 2, RULES) else {
        return;
    };
    let refused = scene.faultline(&["block", "plan.toml", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let prepared = scene.faultline(&["prepare", "plan.toml"]);
    assert!(prepared.status.success(), "{}", said(&prepared));
    assert_eq!(block(&scene, "n1", "3").status.code(), Some(64));

    die_in_block(&scene);
    let done = block(&scene, "n2", "1");
    assert!(done.status.success(), "{}", said(&done));
    // What is done is not repeated.
    let done = block(&scene, "n1", "1");
    assert!(
        done.status.success() && said(&done).contains("block 1 is done"),
        "{}",
        said(&done)
    );

    let status_now = status(&scene);
    let runs = status_now["runs"].as_array().unwrap();
    for run in runs.iter().filter(|run| run["replicate"] == 1) {
        let (host, outcome) = (&run["host"], &run["outcome"]["what"]);
        assert_eq!(
            (host, outcome),
            (&"n2".into(), &"exited".into()),
            "{status_now:#}"
        );
    }
    assert_eq!(
        (&status_now["done"], &status_now["of"]),
        (&2.into(), &4.into())
    );
    an_attempt_is_stopped_on_its_host(&scene);
    an_unreadable_journal_stops_no_other_block(&scene);
    assert_eq!(status(&scene)["state"]["is"], "finished");
    let report = scene.faultline(&["report", "state"]);
    assert!(report.status.success(), "{}", said(&report));
    let report = fs::read_to_string(scene.path("state/report/report.md")).unwrap();
    assert!(
        report.contains("attempt n2-1 has the results of this block that count; n1-0 is not used"),
        "{report}"
    );
    assert!(
        report.contains("All runs of a replicate ran on one host. The hosts: n1, n2."),
        "{report}"
    );
}
