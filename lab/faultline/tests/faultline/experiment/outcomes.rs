//! How runs end, told apart by what the kernel says.

use super::scene::{Scene, said};
use faultline_experiments::{
    folder::{OUTPUT, PROGRAM_FOLDER},
    journal::{Entry, Step},
    outcome::Outcome,
};
use faultline_recording::Recording;
use faultline_runner::isolation::End;
use std::fs;

/// One arm each for all that can become of a program.
const SCRIPT: &str = r#"
case "$1" in
    runs) sleep 1000 ;;
    stubborn) trap '' TERM; while :; do sleep 1; done ;;
    eats) exec tail /dev/zero ;;
    shell) tail /dev/zero; sleep 1000 ;;
    exits) exit 7 ;;
    killed) kill -9 $$ ;;
    wrapped) sh -c 'trap "sleep 0.3; echo clean; exit" TERM; echo ready; while :; do sleep 0.05; done'; echo never ;;
    beside) sleep 1000 & exit 8 ;;
esac
"#;

#[test]
fn the_run_outcome_is_derived_from_the_cgroup_state() {
    let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nmemory_max = \"64M\"\n");
    let arms = [
        "runs", "stubborn", "eats", "shell", "exits", "killed", "wrapped", "beside",
    ];
    // Long enough for what is to be killed meanwhile, also on a busy machine.
    let stop = "[stop]\nduration = \"4s\"\ncounted_from = \"start\"\ngrace = \"1s\"\n";
    let Some(scene) = Scene::new(
        "outcomes",
        SCRIPT,
        1,
        &(stop.to_owned() + &arms.map(arm).concat()),
    ) else {
        return;
    };
    let output = scene.faultline(&["run", "plan.toml", "--launcher", "direct"]);
    assert!(output.status.success(), "{}", said(&output));
    // The plan's check has warned of the disk once; the recorder of each run does not again.
    assert_eq!(
        said(&output).matches("on the same device").count(),
        1,
        "{}",
        said(&output)
    );
    assert!(
        !said(&output).contains("its writes can delay those of the validator"),
        "{}",
        said(&output)
    );
    let ends = scene.ends();
    let outcomes: Vec<&Outcome> = ends.iter().map(|(_, end)| &end.outcome).collect();
    let (code, signal) = (7, 9);
    let expected = [
        &Outcome::Completed,
        &Outcome::Completed,
        &Outcome::OutOfMemory,
        &Outcome::OutOfMemory,
        &Outcome::Exited { code },
        &Outcome::Killed { signal },
        &Outcome::Completed,
        &Outcome::Exited { code: 8 },
    ];
    assert_eq!(outcomes, expected);
    a_script_has_its_time(&scene);
    let notes = &ends[7].1.notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("left others running")),
        "{notes:?}"
    );
    cgroup_state_is_the_kernels(&scene);
    recordings_are_labelled(&scene);
    scene.assert_every_run_counts_once();
    let words = said(&scene.faultline(&["stop", "plan.toml"]));
    assert!(
        words.contains("is finished") && !words.contains("resume"),
        "{words}"
    );
    scene.assert_nothing_is_left();
}

fn cgroup_state_is_the_kernels(scene: &Scene) {
    let ends = scene.ends();
    let cgroup_state = |place: usize| &ends[place].1.cgroup_state;
    assert_eq!(
        [0, 1, 2].map(|place| cgroup_state(place).end),
        [15, 9, 9].map(|signal| Some(End::Signal(signal)))
    );
    let kills = |place: usize| cgroup_state(place).memory_events["oom_kill"];
    assert_eq!([0, 1, 4, 5].map(kills), [0; 4]);
    assert!(kills(2) > 0 && kills(3) > 0);
    assert!(
        cgroup_state(2)
            .memory_peak
            .is_some_and(|peak| peak > 60 << 20 && peak <= 64 << 20),
        "{:?}",
        cgroup_state(2)
    );
}

fn recordings_are_labelled(scene: &Scene) {
    for counted in scene.standing().completed_runs() {
        let (run, attempt) = (counted.scheduled, counted.attempt);
        let recording = Recording::open(&scene.folder().recording(run, attempt)).unwrap();
        let label = |key: &str| {
            recording
                .labels()
                .iter()
                .find(|(known, _)| known == key)
                .map(|(_, value)| value.clone())
        };
        let said = ["experiment", "arm", "run", "turn", "lane"].map(label);
        let turn = run.run.to_string();
        let expected =
            ["outcomes", &run.arm, "1", &turn, "main"].map(|value| Some(value.to_owned()));
        assert_eq!(said, expected);
        assert!(recording.info().unwrap().finished);
    }
}

fn a_script_has_its_time(scene: &Scene) {
    let wrapped = scene
        .standing()
        .completed_runs()
        .iter()
        .find(|counted| counted.scheduled.arm == "wrapped")
        .unwrap()
        .scheduled
        .clone();
    let output = fs::read_to_string(scene.folder().run(&wrapped, 1).join(OUTPUT)).unwrap();
    assert!(
        output.contains("clean") && !output.contains("never"),
        "behind its script it had its time: {output}"
    );
}

#[test]
fn a_script_that_backgrounds_its_validator_is_not_a_valid_run() {
    let rest = "[stop]\nduration = \"20s\"\ncounted_from = \"start\"\ngrace = \"10s\"\n[[arm]]\nname = \"a\"\n";
    let Some(scene) = Scene::new("background", "sleep 1000 & exit 0", 1, rest) else {
        return;
    };
    let output = scene.faultline(&["run", "plan.toml", "--launcher", "direct"]);
    assert!(
        !output.status.success() && said(&output).contains("`exec` it"),
        "{}",
        said(&output)
    );
    let lines = scene.lines();
    let ends = lines.iter().filter_map(|line| match &line.entry {
        Entry::RunEnded { ending, .. } => Some(&ending.outcome),
        _ => None,
    });
    assert!(
        ends.clone()
            .all(|outcome| matches!(outcome, Outcome::Failed { .. }))
            && ends.count() == 2,
        "{lines:#?}"
    );
    scene.assert_nothing_is_left();
}

/// All lanes at the same moment, with a killed one in their middle, and as another user where there is one.
#[test]
fn concurrent_arms_start_together_and_survive_anothers_kill() {
    let Some(scene) = three_lanes() else { return };
    let output = scene.faultline(&["run", "plan.toml"]);
    assert!(output.status.success(), "{}", said(&output));
    let standing = scene.standing();
    let turn = &standing.turns[0];
    let attempt = standing.newest_attempt(turn).unwrap();
    let time = |run: u32, step: Step| {
        attempt.runs[&run]
            .steps
            .iter()
            .find(|(known, _)| *known == step)
            .unwrap()
            .1
    };
    let runs: Vec<u32> = turn.runs.iter().map(|run| run.run).collect();
    let last = |step| runs.iter().map(|run| time(*run, step)).max().unwrap();
    let first = |step| runs.iter().map(|run| time(*run, step)).min().unwrap();
    assert!(last(Step::Record) < first(Step::Begin) && last(Step::Begin) < first(Step::Watch));
    let ended = |run: u32| attempt.runs[&run].ended.clone().unwrap();
    for run in &turn.runs {
        let (ending, at) = ended(run.run);
        if run.arm == "killed" {
            assert_eq!(ending.outcome, Outcome::Killed { signal: 9 });
        } else {
            assert_eq!(ending.outcome, Outcome::Completed);
            let killed = turn
                .runs
                .iter()
                .find(|other| other.arm == "killed")
                .unwrap();
            assert!(at > ended(killed.run).1, "the others go on");
        }
        let who = fs::read_to_string(scene.folder().run(run, 1).join(PROGRAM_FOLDER).join("who"))
            .unwrap();
        let ledger = scene.path(&format!("ledger-{}", run.lane));
        assert!(
            who.starts_with(&format!("{} nobody ", ledger.display())),
            "{who}"
        );
        assert!(ledger.join("mine").exists());
    }
    assert_eq!(
        turn.runs
            .iter()
            .filter(|run| run.is_second_aa_run && run.arm == "runs")
            .count(),
        1
    );
    scene.assert_every_run_counts_once();
    scene.assert_nothing_is_left();
}

fn three_lanes() -> Option<Scene> {
    let script = r#"echo "$FAULTLINE_LEDGER $(id -un) $HOME" > "$FAULTLINE_RUN_FOLDER/who"; touch "$FAULTLINE_LEDGER/mine"
case "$1" in killed) kill -9 $$ ;; *) sleep 1000 ;; esac"#;
    let lane = |name: &str| {
        format!("[[lane]]\nname = \"{name}\"\nledger = \"ledger-{name}\"\ncpus = \"0\"\n")
    };
    let rest = "[stop]\nduration = \"3s\"\ncounted_from = \"start\"\ngrace = \"5s\"\n[concurrent]\nshared_device = \"warn\"\ntwice = \"runs\"\n\
                [[arm]]\nname = \"runs\"\nmemory_max = \"64M\"\n[[arm]]\nname = \"killed\"\nmemory_max = \"64M\"\n";
    let scene = Scene::new(
        "together",
        script,
        1,
        &(rest.to_owned() + &["x", "y", "z"].map(lane).concat()),
    )?;
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap();
    let plan = plan
        .replace("ledger = \"ledger\"\n", "user = \"nobody\"\n")
        .replace("cpus = \"0\"\n", "");
    fs::write(scene.path("plan.toml"), plan).unwrap();
    scene.open_to_all();
    for name in ["x", "y", "z"] {
        let made = scene.faultline(&["init", &format!("ledger-{name}")]);
        assert!(made.status.success(), "{}", said(&made));
    }
    Some(scene)
}

/// The daemon does not write the file again, because a script is no validator.
#[test]
fn the_ready_file_of_a_run_lasts_as_long_as_its_recorder() {
    let script = "cd \"${0%/*}\"\nsleep 1\ncp state/runs/*/a1/run.fltl.ready during.json\nexit 7\n";
    let rest = "[stop]\nduration = \"1m\"\ncounted_from = \"start\"\n[[arm]]\nname = \"copies\"\n";
    let Some(scene) = Scene::new("ready", script, 1, rest) else {
        return;
    };
    let output = scene.faultline(&["run", "plan.toml", "--launcher", "direct"]);
    let during = fs::read_to_string(scene.path("during.json"));
    let during = during.unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    let during: serde_json::Value = serde_json::from_str(&during).unwrap();
    assert!(during["metrics"][0].is_string(), "{during}");
    let run = scene.path("state/runs/001-copies-r1/a1");
    assert!(run.join("run.fltl").exists());
    assert!(!run.join("run.fltl.ready").exists());
}
