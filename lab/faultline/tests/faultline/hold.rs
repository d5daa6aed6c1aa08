//! `faultline hold`: what a program is in its group until it may begin.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_runner::isolation::{
    CgroupName, DirectLauncher, DirectLauncherPaths, End, Job, Launcher, Limits,
};
use faultline_testkit::{eventually::eventually, proc::is_alive};
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
const PATIENCE: Duration = Duration::from_secs(60);

fn fifo(folder: &Path) -> OsString {
    let path = folder.join("gate");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &path,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .unwrap();
    path.into()
}

#[test]
fn hold_execs_the_program_as_another_user_in_a_limited_group() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can make cgroups here");
    }
    let launcher = match DirectLauncher::new(&DirectLauncherPaths::default()) {
        Ok(launcher) => launcher,
        Err(error) => return eprintln!("SKIPPED: no cgroups can be made by hand: {error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where this was built may be nobody else's to see.
    let program = folder.path().join("faultline");
    fs::copy(FAULTLINE, &program).unwrap();
    let job = job(folder.path(), program);

    let mut launched = launcher.launch(&job).unwrap();
    assert_eq!(launched.poll_end().unwrap(), None);
    launched.open_exec_gate(b"TOLD=to=ld\0open").unwrap();
    let end = eventually(PATIENCE, "its end", || launched.poll_end().unwrap());
    let output = fs::read_to_string(&job.output).unwrap();
    assert_eq!(end, End::Code(7), "{output}");
    assert_eq!(
        output,
        format!("given, to=ld, {}, nobody\n", launched.pid())
    );
    launched.close().unwrap();
    assert_eq!(launcher.leftovers(&job.name.experiment).unwrap(), [""; 0]);
}

fn job(folder: &Path, program: PathBuf) -> Job {
    let gate = folder.join("gate");
    let mut command: Vec<OsString> = vec![
        program.into(),
        "hold".into(),
        "--gate".into(),
        gate.clone().into(),
    ];
    command.extend(["--parent".into(), std::process::id().to_string().into()]);
    command.extend(
        [
            "--",
            "sh",
            "-c",
            "echo \"$GIVEN, $TOLD, $$, $(id -un)\"; exit 7",
        ]
        .map(OsString::from),
    );
    Job {
        name: CgroupName {
            experiment: format!("hold_{}", std::process::id()),
            run: "r001_a1".to_owned(),
            role: "validator".to_owned(),
        },
        command,
        environment: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("GIVEN".into(), "given".into()),
        ],
        user: Some("nobody".to_owned()),
        folder: None,
        output: folder.join("output"),
        limits: Limits {
            memory_max: Some(256 << 20),
            ..Limits::default()
        },
        open_files: None,
        exec_gate: Some(gate),
        max_duration: None,
        grace: PATIENCE,
    }
}

#[test]
fn hold_pins_to_the_given_cpus_and_reports_unavailable_ones() {
    let held = |cpus: &str| {
        let words = [
            "hold",
            "--cpus",
            cpus,
            "--",
            "grep",
            "Cpus_allowed_list",
            "/proc/self/status",
        ];
        Command::new(FAULTLINE).args(words).output().unwrap()
    };
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim()
        .to_owned();
    let last = own.rsplit([',', '-']).next().unwrap();
    let said = String::from_utf8(held(last).stdout).unwrap();
    assert_eq!(said.split_whitespace().last(), Some(last), "{said}");
    let refused = held("8000");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("CPUs 8000 cannot be used"),
        "{said}"
    );
}

#[test]
fn hold_without_a_parent_option_outlives_its_starter() {
    let folder = tempfile::tempdir().unwrap();
    let script = "\"$1\" hold --gate \"$2\" -- sh -c 'echo \"$TOLD\"' >\"$3\" & echo $!";
    let mut starter = Command::new("sh");
    let output = folder.path().join("output");
    let gate = fifo(folder.path());
    starter
        .args(["-c", script, "sh", FAULTLINE])
        .arg(&gate)
        .arg(&output)
        .stderr(Stdio::null());
    let said = starter.output().unwrap();
    let holder: u32 = String::from_utf8(said.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // Opening for writing waits for it to come.
    fs::write(&gate, b"TOLD=told\0open").unwrap();
    eventually(PATIENCE, "its end", || (!is_alive(holder)).then_some(()));
    assert_eq!(fs::read_to_string(output).unwrap(), "told\n");
}

#[test]
fn hold_exits_if_the_given_parent_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Command::new(FAULTLINE);
    holder
        .args(["hold", "--parent", "1", "--gate"])
        .arg(fifo(folder.path()))
        .args(["--", "true"]);
    assert_eq!(holder.status().unwrap().code(), Some(125));
}
