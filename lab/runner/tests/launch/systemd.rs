//! Behavior of the launcher of systemd alone.

use crate::scene::{PATIENCE, Scene, end_of};
use faultline_runner::isolation::{End, Job, Limits, SystemdLauncher};
use faultline_testkit::eventually::eventually;
use std::{process::Command, time::Duration};

/// Whether systemd knows a unit of this experiment.
fn units(experiment: &str) -> String {
    let pattern = format!("faultline.{experiment}.*");
    let list = ["list-units", "--all", "--plain", "--no-legend", &pattern];
    let output = Command::new("systemctl")
        .args(list)
        .output()
        .expect("systemctl runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// systemd ends a run after its maximum duration, even if its launcher has exited.
pub fn longest(launcher: &SystemdLauncher) {
    let scene = Scene::new(launcher);
    let job = Job {
        max_duration: Some(Duration::from_secs(1)),
        ..scene.job(&["sleep", "1000"])
    };
    let mut launched = scene.launch(&job);
    assert_eq!(end_of(&mut *launched), End::Signal(15));
    assert_eq!(
        launched.close().expect("it is closed").result.as_deref(),
        Some("timeout")
    );
    assert_eq!(units(&scene.experiment), "");
}

/// The slice has the limits, so that limits and counters outlive the service.
pub fn slice_and_service(launcher: &SystemdLauncher) {
    let scene = Scene::new(launcher);
    let limits = Limits {
        memory_max: Some(64 << 20),
        ..Limits::default()
    };
    let launched = scene.run_limited("sleep 1000", limits);
    let name = format!("faultline.{}.r001_a1.validator", scene.experiment);
    let units = units(&scene.experiment);
    assert!(
        units.contains(&format!("{name}.slice")) && units.contains(&format!("{name}.service")),
        "{units}"
    );
    let text =
        std::fs::read_to_string(format!("/proc/{}/cgroup", launched.pid())).expect("a cgroup");
    assert_eq!(text.trim(), format!("0::/{name}.slice/{name}.service"));
    let max = |unit: &str| {
        let output = Command::new("systemctl")
            .args(["show", "--value", "-p", "MemoryMax", unit])
            .output();
        String::from_utf8_lossy(&output.expect("systemctl runs").stdout)
            .trim()
            .to_owned()
    };
    assert_eq!(max(&format!("{name}.slice")), (64 << 20).to_string());
    assert_eq!(max(&format!("{name}.service")), "infinity");
    launched.close().expect("it is closed");
    assert_eq!(self::units(&scene.experiment), "");
}

/// An upgrade may make systemd reload its units, or execute itself again, during a run.
pub fn outlives_reloads(launcher: &SystemdLauncher) {
    let scene = Scene::new(launcher);
    let limits = Limits {
        memory_max: Some(64 << 20),
        ..Limits::default()
    };
    let mut launched = scene.run_limited("echo begun; exec sleep 1000", limits.clone());
    scene.says("begun");
    for command in ["daemon-reload", "daemon-reexec"] {
        let mut renewal = Command::new("systemctl")
            .arg(command)
            .spawn()
            .expect("systemctl runs");
        let done = eventually(PATIENCE, command, || {
            assert_eq!(launched.poll_end().expect("its end is told"), None);
            renewal.try_wait().expect("systemctl ends")
        });
        assert!(done.success(), "{command}");
        assert_eq!(
            limits.differences(&launched.limits().expect("limits are read back")),
            [""; 0]
        );
    }
    launched.terminate().expect("it is asked");
    assert_eq!(end_of(&mut *launched), End::Signal(15));
    assert_eq!(
        launched.close().expect("it is closed").end,
        Some(End::Signal(15))
    );
    assert_eq!(units(&scene.experiment), "");
}

/// The error for a user who may not start units.
pub fn refused(launcher: &SystemdLauncher) {
    let scene = Scene::new(launcher);
    let error = scene.refused(&scene.job(&["true"]));
    assert!(error.contains("run this as root"), "{error}");
}
