//! Two experiments that want the same folder.

use super::scene::{PATIENCE, Scene, said};
use faultline_experiments::journal::{Entry, Step};
use faultline_testkit::{eventually::eventually, process::signal};
use std::fs;

const LONG: &str = "[stop]\nduration = \"1h\"\ncounted_from = \"start\"\ngrace = \"5s\"\n[[arm]]\nname = \"a\"\nmemory_max = \"64M\"\n";

#[test]
fn a_second_runner_is_refused_a_folder_in_use_naming_the_first() {
    let Some(scene) = Scene::new("sharing", "sleep 1000", 1, LONG) else {
        return;
    };
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap();
    let other = plan
        .replace("name = \"sharing\"", "name = \"other\"")
        .replace("folder = \"state\"", "folder = \"theirs\"");
    fs::write(scene.path("other.toml"), &other).unwrap();
    let as_is = other
        .replace("how = \"download\"", "how = \"as-is\"")
        .replace("\"theirs\"", "\"as-is\"");
    fs::write(scene.path("as-is.toml"), as_is).unwrap();
    fs::write(scene.path("ledger/theirs"), "").unwrap();
    let mut runner = scene.start(&["run", "plan.toml"]);
    // Before any program has a file open there.
    scene.wait_for("its beginning", |entry| {
        matches!(entry, Entry::TurnBegun { .. })
    });
    let ledger = scene.path("ledger");
    let calls: [&[&str]; 4] = [
        &["run", "other.toml"],
        &["run", "as-is.toml"],
        &["run", "other.toml", "--dry-run"],
        &["init", ledger.to_str().unwrap()],
    ];
    for call in calls {
        let output = scene.faultline(call);
        let said = said(&output);
        let who = format!("process {} (`", runner.pid());
        assert!(
            !output.status.success() && said.contains(&who) && said.contains("plan.toml"),
            "{call:?}: {said}"
        );
    }
    assert!(!scene.path("theirs/journal.jsonl").exists());
    scene.wait_for("the first run", |entry| {
        matches!(
            entry,
            Entry::Step {
                step: Step::Watch,
                ..
            }
        )
    });
    fs::write(scene.path("ledger/ours"), "").unwrap();
    assert!(!scene.faultline(&["run", "other.toml"]).status.success());
    assert!(scene.path("ledger/ours").exists());
    signal(runner.pid(), "TERM").unwrap();
    eventually(PATIENCE, "it ends", || runner.exit_status().unwrap());
    let output = scene.faultline(&["run", "other.toml", "--dry-run"]);
    assert!(output.status.success(), "{}", said(&output));
    scene.assert_nothing_is_left();
}
