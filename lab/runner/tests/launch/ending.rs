//! From the running program to nothing.

use crate::scene::{PATIENCE, Scene, end_of, is_gone};
use faultline_runner::isolation::{CgroupName, End, Job, Launcher, Limits};
use faultline_testkit::{eventually::eventually, proc::is_alive};
use std::{
    env, fs,
    process::{Command, Stdio},
    time::Duration,
};

/// Variable with the launcher that the helper uses.
pub const HELPER: &str = "FAULTLINE_TEST_LAUNCHER";
/// Variable with the name of the experiment that the helper uses.
const EXPERIMENT: &str = "FAULTLINE_TEST_EXPERIMENT";

/// Processes that ignore SIGTERM. One is an orphan in its own session.
const FAMILY: &str = r#"setsid sh -c '(trap "" TERM; echo "grandchild $$"; while :; do sleep 1; done) & wait' &
trap "" TERM; sleep 1000 & echo "child $!"; echo "self $$"; while :; do sleep 1; done"#;

pub fn exit_code(scene: &Scene) {
    let mut launched = scene.launch(&scene.script("exit 7"));
    assert_eq!(end_of(&mut *launched), End::Code(7));
    assert_eq!(
        launched.poll_end().expect("its end is told"),
        Some(End::Code(7)),
        "and again"
    );
    assert_eq!(
        launched.close().expect("it is closed").end,
        Some(End::Code(7))
    );
}

pub fn signal(scene: &Scene) {
    let mut launched = scene.launch(&scene.script("kill -USR1 $$"));
    assert_eq!(end_of(&mut *launched), End::Signal(10));
    assert_eq!(
        launched.close().expect("it is closed").end,
        Some(End::Signal(10))
    );
}

pub fn asked(scene: &Scene) {
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut launched = scene.launch(&scene.script(script));
    scene.says("ready");
    launched.terminate().expect("it is asked");
    assert_eq!(end_of(&mut *launched), End::Code(3));
    scene.says("asked");
    launched.terminate().expect("nothing is asked");
    launched.close().expect("it is closed");
}

/// A shell that runs a validator ends at once. The validator must get the signal, too.
pub fn children_are_asked(scene: &Scene) {
    let child = "trap \"echo child asked\" TERM; echo ready; sleep 1000 & wait; echo child ended";
    let mut launched = scene.launch(&scene.script(&format!("sh -c '{child}'; exit 5")));
    scene.says("ready");
    launched.terminate().expect("it is asked");
    end_of(&mut *launched);
    scene.says("child asked");
    launched.close().expect("it is closed");
}

/// A start script that does not `exec` the validator, and the clean end of the validator.
pub fn children_have_time(scene: &Scene) {
    let end = format!(
        "echo asked; while ! [ -e {} ]; do sleep 0.05; done; echo clean; exit",
        scene.path("may").display()
    );
    let child = format!("trap \"{end}\" TERM; echo ready; while :; do sleep 0.05; done");
    let mut launched = scene.launch(&scene.script(&format!("sh -c '{child}'; echo never")));
    scene.says("ready");
    assert!(!launched.has_no_process().expect("it is told"));
    launched.terminate().expect("it is asked");
    assert_eq!(end_of(&mut *launched), End::Signal(15));
    scene.says("asked");
    assert!(
        !launched.has_no_process().expect("it is told"),
        "{}",
        scene.output()
    );
    fs::write(scene.path("may"), "").expect("a file");
    eventually(PATIENCE, "an empty cgroup", || {
        launched.has_no_process().expect("it is told").then_some(())
    });
    let output = scene.output();
    // A shell may print how its children ended.
    assert!(
        output.contains("clean") && !output.contains("never"),
        "{output}"
    );
    assert_eq!(
        launched.close().expect("it is closed").end,
        Some(End::Signal(15))
    );
}

/// A script that starts the validator in the background and exits: the caller decides what this means.
pub fn left_alone(scene: &Scene) {
    let wait = format!(
        "while ! [ -e {} ]; do sleep 0.05; done; echo lives",
        scene.path("may").display()
    );
    let child =
        format!("trap \"echo asked; exit\" TERM; echo ready; {wait}; while :; do sleep 0.05; done");
    let mut launched = scene.launch(&scene.script(&format!("sh -c '{child}' & exit 4")));
    assert_eq!(end_of(&mut *launched), End::Code(4));
    scene.says("ready");
    fs::write(scene.path("may"), "").expect("a file");
    scene.says("lives");
    assert_eq!(scene.output(), "ready\nlives\n");
    assert!(!launched.has_no_process().expect("it is told"));
    launched.terminate().expect("it is asked");
    eventually(PATIENCE, "an empty cgroup", || {
        launched.has_no_process().expect("it is told").then_some(())
    });
    scene.says("asked");
    assert_eq!(
        launched.close().expect("it is closed").end,
        Some(End::Code(4))
    );
}

fn family(scene: &Scene) -> [u32; 3] {
    ["self ", "child ", "grandchild "].map(|word| scene.number(word))
}

pub fn close_ends_all(scene: &Scene) {
    let launched = scene.launch(&scene.script(FAMILY));
    let family = family(scene);
    assert!(family.into_iter().all(is_alive), "{family:?}");
    let cgroup_state = launched.close().expect("it is closed");
    assert_eq!(cgroup_state.end, Some(End::Signal(9)));
    family.into_iter().for_each(is_gone);
}

pub fn drop_ends_all(scene: &Scene) {
    let launched = scene.launch(&scene.gated(scene.script(FAMILY)));
    scene.says("waiting");
    let locked = launched.pid();
    drop(launched);
    is_gone(locked);
    let launched = scene.launch(&scene.script(FAMILY));
    let family = family(scene);
    drop(launched);
    family.into_iter().for_each(is_gone);
    assert!(!scene.path("gate").exists());
}

pub fn sweep(scene: &Scene) {
    // An experiment that begins with the same letters.
    let neighbour = CgroupName {
        experiment: format!("{}_2", scene.experiment),
        ..scene.name()
    };
    let neighbour = scene.launch(&Job {
        name: neighbour,
        ..scene.job(&["sleep", "1000"])
    });
    let mut helper = Command::new(env::current_exe().expect("this program"));
    helper.args(["--exact", "helper", "--nocapture"]);
    helper
        .env(HELPER, scene.launcher.name())
        .env(EXPERIMENT, &scene.experiment)
        .env("FAULTLINE_TEST_OUTPUT", scene.path("output"));
    let mut helper = helper
        .stdout(Stdio::null())
        .spawn()
        .expect("this program starts");
    let family = family(scene);
    helper.kill().expect("it is killed");
    helper.wait().expect("it ends");
    assert!(family.into_iter().all(is_alive), "{family:?}");
    assert_eq!(
        scene
            .launcher
            .leftovers(&scene.experiment)
            .expect("cgroups are listed")
            .len(),
        1
    );

    let swept = scene
        .launcher
        .sweep(&scene.experiment, Duration::ZERO)
        .expect("it is swept");
    assert_eq!(swept.len(), 1, "{swept:?}");
    family.into_iter().for_each(is_gone);
    assert!(is_alive(neighbour.pid()));
    assert_eq!(
        scene
            .launcher
            .sweep(&scene.experiment, Duration::ZERO)
            .expect("it is swept"),
        [""; 0]
    );
    neighbour.close().expect("it is closed");
}

/// The helper runs this until it is killed.
pub fn launch_and_wait_for_the_end(launcher: &dyn Launcher) {
    let mut job = Scene::new(launcher).script(FAMILY);
    job.name.experiment = env::var(EXPERIMENT).expect("the name of an experiment");
    job.output = env::var_os("FAULTLINE_TEST_OUTPUT").expect("a file").into();
    let mut launched = launcher.launch(&job).expect("it is launched");
    eventually(PATIENCE, "its own end", || {
        launched.poll_end().expect("its end is told")
    });
}

pub fn sweep_with_grace(scene: &Scene) {
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let limits = Limits {
        memory_max: Some(256 << 20),
        ..Limits::default()
    };
    let mut launched = scene.run_limited(script, limits);
    scene.says("ready");
    let swept = scene
        .launcher
        .sweep(&scene.experiment, PATIENCE)
        .expect("it is swept");
    assert_eq!(swept.len(), 1, "{swept:?}");
    assert_eq!(end_of(&mut *launched), End::Code(3));
    assert!(scene.output().contains("asked"), "{}", scene.output());
}
