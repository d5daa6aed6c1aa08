//! How runs end, told apart by what the kernel says.

use crate::scene::{Scene, said};
use faultline::experiment::outcome::Outcome;
use faultline_recording::Recording;
use faultline_rig::End;

/// One arm each for all that can become of a program.
const SCRIPT: &str = r#"
case "$1" in
    runs) sleep 1000 ;;
    stubborn) trap '' TERM; while :; do sleep 1; done ;;
    eats) exec tail /dev/zero ;;
    shell) tail /dev/zero; sleep 1000 ;;
    exits) exit 7 ;;
    killed) kill -9 $$ ;;
esac
"#;

#[test]
fn what_becomes_of_a_program_is_told_by_the_evidence() {
    let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nmemory_max = \"64M\"\n");
    let arms = ["runs", "stubborn", "eats", "shell", "exits", "killed"];
    let stop = "[stop]\nduration = \"1s\"\ncounted_from = \"start\"\ngrace = \"1s\"\n";
    let Some(scene) = Scene::new("outcomes", SCRIPT, 1, &(stop.to_owned() + &arms.map(arm).concat())) else { return };
    let output = scene.faultline(&["run", "plan.toml", "--launcher", "direct"]);
    assert!(output.status.success(), "{}", said(&output));
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
    ];
    assert_eq!(outcomes, expected);
    let evidence = |place: usize| &ends[place].1.evidence;
    assert_eq!([0, 1, 2].map(|place| evidence(place).end), [15, 9, 9].map(|signal| Some(End::Signal(signal))));
    let kills = |place: usize| evidence(place).memory_events["oom_kill"];
    assert_eq!([0, 1, 4, 5].map(kills), [0; 4]);
    assert!(kills(2) > 0 && kills(3) > 0);
    assert!(evidence(2).memory_peak.is_some_and(|peak| peak > 60 << 20 && peak <= 64 << 20), "{:?}", evidence(2));
    for (run, attempt, _) in scene.standing().counted() {
        let recording = Recording::open(&scene.folder().recording(run, attempt)).unwrap();
        let label = |key: &str| recording.labels().iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        let said = ["experiment", "arm", "run", "turn", "lane"].map(label);
        let turn = run.run.to_string();
        let expected = ["outcomes", &run.arm, "1", &turn, "main"].map(|value| Some(value.to_owned()));
        assert_eq!(said, expected);
        assert!(recording.info().unwrap().finished);
    }
    scene.assert_every_run_counts_once();
    scene.assert_nothing_is_left();
}
