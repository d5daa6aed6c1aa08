//! `faultline record` as its users run it, beside a stand-in for the daemon and beside the real one.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use crate::support::made;
use faultline_recording::{EventKind, PerTickTable, Recording};
use faultline_testkit::{
    eventually::{eventually, eventually_ok},
    proc::is_alive,
    process::{Program, Running, describe, signal},
};
use rustix::pty::OpenptFlags;
use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    time::Duration,
};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
const PATIENCE: Duration = Duration::from_secs(60);

/// Does what the daemon does, in a folder of its own: `args` has its arguments, `daemon` its number, `out.fltl` a recording
/// made before, its ready file names the process that it was told to follow, and after an orderly end there is `ended`.
const STAND_IN: &str = r#"#!/bin/sh
folder=$(dirname "$0")
echo "$@" > "$folder/args"
echo $$ > "$folder/daemon"
cp "$folder/made.fltl" "$folder/out.fltl"
while [ $# -gt 0 ]; do
    case $1 in
        --process-tree) pid=$2 ;;
        --ready-file) ready=$2 ;;
    esac
    shift
done
target="{\"pid\":$pid,\"start_ticks\":1}"
echo "{\"format\":1,\"pid\":$$,\"metrics\":[\"127.0.0.1:1\"],\"ingest\":[\"127.0.0.1:2\"],\"target\":$target}" > "$ready.part"
trap 'echo ended > "$folder/ended"; exit 0' TERM
mv "$ready.part" "$ready"
while :; do sleep 0.05; done
"#;

/// A folder with a stand-in that runs `script`.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("faultlined");
        fs::write(&program, script).unwrap();
        made::Plain::default().write(&folder.path().join("made.fltl"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// The daemon itself; `None` if it was not built beside this program, as for the tests of the whole workspace it is.
    fn with_the_real_daemon() -> Option<Self> {
        let daemon = Path::new(FAULTLINE).with_file_name("faultlined");
        if !daemon.is_file() {
            eprintln!(
                "SKIPPED: no {}; cargo build -p faultlined makes it",
                daemon.display()
            );
            return None;
        }
        let scene = Self::new("");
        fs::remove_file(scene.path("faultlined")).unwrap();
        std::os::unix::fs::symlink(daemon, scene.path("faultlined")).unwrap();
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u32 {
        eventually(PATIENCE, name, || self.text(name).trim().parse().ok())
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (program, out) = (self.path("faultlined"), self.path("out.fltl"));
        let first = [
            "record",
            "--interval",
            "100ms",
            "--faultlined",
            program.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ];
        first.iter().chain(more).map(ToString::to_string).collect()
    }

    fn run(&self, more: &[&str]) -> Output {
        let mut command = Command::new(FAULTLINE);
        command
            .env_remove("SOLANA_METRICS_CONFIG")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command.args(self.arguments(more)).output().unwrap()
    }

    fn start(&self, more: &[&str]) -> Running {
        let (path, arguments, output) =
            (FAULTLINE.into(), self.arguments(more), self.path("output"));
        Running::start(&Program {
            path,
            arguments,
            environment: Vec::new(),
            output,
        })
        .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn end(running: &mut Running) -> ExitStatus {
    eventually(PATIENCE, "it ends", || running.exit_status().unwrap())
}

fn gone(pid: u32) {
    eventually(PATIENCE, "the process is gone", || {
        (!is_alive(pid)).then_some(())
    });
}

#[test]
fn the_command_is_followed_from_start_and_its_exit_code_returned() {
    let scene = Scene::new(STAND_IN);
    let output = scene.run(&[
        "--label",
        "arm=a b",
        "--",
        "sh",
        "-c",
        "echo $$ $SOLANA_METRICS_CONFIG; echo no >&2; exit 7",
    ]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let (pid, config) = said.trim_end().split_once(' ').unwrap();
    assert_eq!(config, "host=http://127.0.0.1:2,db=faultline,u=any,p=any");
    let out = scene.path("out.fltl");
    let expected = format!(
        "run --listen 127.0.0.1:0 --ingest 127.0.0.1:0 --process-tree {pid} --record {0} --ready-file {0}.ready --interval 100ms \
         --label arm=a b",
        out.display()
    );
    assert_eq!(scene.text("args").trim_end(), expected);
    assert_eq!(scene.text("ended"), "ended\n");
    let said = text(&output.stderr);
    assert!(
        said.contains("http://127.0.0.1:1")
            && said.contains("\nno\n")
            && said.contains("10 samples over 9 s"),
        "{said}"
    );
    gone(scene.number("daemon"));
}

#[test]
fn a_command_killed_by_a_signal_exits_with_128_plus_the_signal() {
    let scene = Scene::new(STAND_IN);
    assert_eq!(
        scene.run(&["--", "sh", "-c", "kill -9 $$"]).status.code(),
        Some(137)
    );
    assert_eq!(scene.text("ended"), "ended\n");
}

#[test]
fn a_missing_command_exits_with_127_and_leaves_no_recording() {
    let scene = Scene::new(STAND_IN);
    let output = scene.run(&["--", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        text(&output.stderr).contains("no-such-program-anywhere"),
        "{}",
        text(&output.stderr)
    );
    assert!(!scene.path("out.fltl").exists());
    let file = scene.path("not-a-program");
    fs::write(&file, "").unwrap();
    assert_eq!(
        scene.run(&["--", file.to_str().unwrap()]).status.code(),
        Some(126)
    );
}

#[test]
fn an_existing_metrics_config_is_kept_and_not_shown() {
    let scene = Scene::new(STAND_IN);
    let config = "host=http://u:secret@h:1,db=d,u=u,p=x,secret";
    let mut command = Command::new(FAULTLINE);
    command
        .env("SOLANA_METRICS_CONFIG", config)
        .stdin(Stdio::null());
    let output = command
        .args(scene.arguments(&["--", "sh", "-c", "echo $SOLANA_METRICS_CONFIG"]))
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), format!("{config}\n"));
    let said = text(&output.stderr);
    assert!(
        said.contains("is set already") && !said.contains("secret"),
        "{said}"
    );

    let scene = Scene::new(STAND_IN);
    let output = scene.run(&[
        "--no-metrics",
        "--",
        "sh",
        "-c",
        "echo ${SOLANA_METRICS_CONFIG-none}",
    ]);
    assert_eq!(text(&output.stdout), "none\n");
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let scene = Scene::new(STAND_IN);
    let ready = scene.path("ready");
    let script = format!(
        "trap 'exit 3' USR1; echo $$ > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let mut running = scene.start(&["--", "sh", "-c", &script]);
    scene.number("ready");
    signal(running.pid(), "USR1").unwrap();
    assert_eq!(
        end(&mut running).code(),
        Some(3),
        "{}",
        scene.text("output")
    );
    assert_eq!(scene.text("ended"), "ended\n");
}

/// A process on a terminal of its own; killed when dropped.
struct OnTerminal {
    child: std::process::Child,
    terminal: fs::File,
}

impl OnTerminal {
    fn start(arguments: &[String]) -> Self {
        let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&terminal).unwrap();
        rustix::pty::unlockpt(&terminal).unwrap();
        let name = rustix::pty::ptsname(&terminal, Vec::new())
            .unwrap()
            .into_string()
            .unwrap();
        let other_end = fs::File::options()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", FAULTLINE])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        rustix::io::ioctl_fionbio(&terminal, true).unwrap();
        Self {
            child: command.stdin(other_end).spawn().unwrap(),
            terminal: terminal.into(),
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

#[test]
fn ctrl_c_is_not_forwarded_but_other_signals_are() {
    let scene = Scene::new(STAND_IN);
    // In a session of its own, so that only what is passed on reaches it.
    let script = format!(
        "n=0; trap 'n=$((n+1))' INT; trap 'exit $((40+n))' USR1; echo 1 > {}; while :; do sleep 0.05; done",
        scene.path("ready").display()
    );
    let mut running = OnTerminal::start(&scene.arguments(&["--", "setsid", "sh", "-c", &script]));
    scene.number("ready");
    running.terminal.write_all(b"\x03").unwrap();
    // The kernel shows the key after it has sent the signal.
    eventually(PATIENCE, "the echo", || {
        running
            .terminal
            .read(&mut [0; 16])
            .is_ok_and(|read| read > 0)
            .then_some(())
    });
    signal(running.child.id(), "USR1").unwrap();
    let ended = eventually(PATIENCE, "it ends", || running.child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(40));
}

#[test]
fn a_killed_recorder_leaves_no_process_and_a_finished_recording() {
    let scene = Scene::new(STAND_IN);
    let script = format!(
        "echo $$ > {}; exec sleep 1000",
        scene.path("command").display()
    );
    let mut running = scene.start(&["--", "sh", "-c", &script]);
    let (command, daemon) = (scene.number("command"), scene.number("daemon"));
    assert!(is_alive(command) && is_alive(daemon));
    running.kill().unwrap();
    gone(command);
    gone(daemon);
    assert_eq!(scene.text("ended"), "ended\n");
}

#[test]
fn a_recorder_killed_before_the_command_leaves_no_process() {
    // This stand-in never says that it follows anybody.
    let scene = Scene::new(
        "#!/bin/sh\necho $$ > \"$(dirname \"$0\")/daemon\"\necho \"$6\" > \"$(dirname \"$0\")/args\"\necho \"$7\" > \"$(dirname \"$0\")/command\"\nexec sleep 1000\n",
    );
    let mut running = scene.start(&["--", "touch", scene.path("ran").to_str().unwrap()]);
    let (command, daemon) = (scene.number("command"), scene.number("daemon"));
    assert_eq!(scene.text("args").trim(), "--process-tree");
    assert!(is_alive(command) && is_alive(daemon));
    running.kill().unwrap();
    gone(command);
    gone(daemon);
    assert!(!scene.path("ran").exists());
}

#[test]
fn without_a_daemon_the_command_is_not_run_and_an_error_printed() {
    let scene = Scene::new("#!/bin/sh\necho 'configuration: line 3: nonsense' >&2\nexit 64\n");
    let ran = scene.path("ran");
    let output = scene.run(&["--", "touch", ran.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.contains("line 3: nonsense") && said.contains("exit status: 64"),
        "{said}"
    );
    assert!(!ran.exists());

    let missing = scene.path("nowhere");
    let output = Command::new(FAULTLINE)
        .args([
            "record",
            "--faultlined",
            missing.to_str().unwrap(),
            "--",
            "touch",
            ran.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert!(
        text(&output.stderr).contains("there is no such file"),
        "{}",
        text(&output.stderr)
    );
    assert!(!ran.exists());
}

#[test]
fn the_command_survives_a_daemon_failure_and_the_exit_code_reports_it() {
    let failing = STAND_IN.replace(
        "while :",
        "echo '2026  ERROR the disk is gone' >&2\nexit 2\nwhile :",
    );
    for (wanted, code) in [("0", 1), ("5", 5)] {
        let scene = Scene::new(&failing);
        // Its number is free once it was noticed that it has ended.
        let daemon = scene.path("daemon");
        let script = format!(
            "while kill -0 $(cat {}); do sleep 0.05; done 2>/dev/null; echo done; exit {wanted}",
            daemon.display()
        );
        let output = scene.run(&["--", "sh", "-c", &script]);
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(code), "done\n"),
            "{said}"
        );
        assert!(
            said.contains("the disk is gone") && said.contains("has no end"),
            "{said}"
        );
    }
}

#[test]
fn an_unsupported_interval_or_unwritable_output_is_a_usage_error() {
    let scene = Scene::new(STAND_IN);
    let ran = scene.path("ran");
    let words = [
        "record",
        "--interval",
        "1ms",
        "--",
        "touch",
        ran.to_str().unwrap(),
    ];
    let output = Command::new(FAULTLINE).args(words).output().unwrap();
    assert!(
        output.status.code() == Some(64) && text(&output.stderr).contains("the minimum is 100ms"),
        "{output:?}"
    );
    let out = scene.path("nowhere/run.fltl");
    let program = scene.path("faultlined");
    let mut command = Command::new(FAULTLINE);
    command.args([
        "record",
        "--faultlined",
        program.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    let output = command
        .args(["--", "touch", ran.to_str().unwrap()])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.contains("there is no folder") && said.contains("/nowhere"),
        "{said}"
    );
    assert!(!ran.exists() && !scene.path("args").exists());
}

#[test]
fn an_existing_file_is_not_overwritten_by_a_recording() {
    let scene = Scene::new(STAND_IN);
    let (out, ran) = (scene.path("out.fltl"), scene.path("ran"));
    fs::write(&out, "mine").unwrap();
    let output = scene.run(&["--", "touch", ran.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("out.fltl: exists already"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(scene.text("out.fltl"), "mine");
    assert!(!ran.exists());
}

#[test]
fn an_attached_process_is_recorded_until_it_ends_or_until_an_interrupt() {
    for interrupted in [false, true] {
        let scene = Scene::new(STAND_IN);
        let sleep = Program {
            path: "/bin/sleep".into(),
            arguments: vec!["1000".to_owned()],
            environment: Vec::new(),
            output: scene.path("sleep"),
        };
        let mut other = Running::start(&sleep).unwrap();
        let mut running = scene.start(&["--pid", &other.pid().to_string()]);
        eventually_ok(PATIENCE, "it is announced", || {
            let said = scene.text("output");
            if said.contains("SOLANA_METRICS_CONFIG=\"host=http://127.0.0.1:2,") {
                Ok(())
            } else {
                Err(said)
            }
        });
        if interrupted {
            signal(running.pid(), "INT").unwrap();
        } else {
            other.kill().unwrap();
        }
        let ended = end(&mut running);
        assert_eq!(
            ended.code(),
            Some(0),
            "{}: {}",
            describe(ended),
            scene.text("output")
        );
        assert_eq!(scene.text("ended"), "ended\n");
        assert_eq!(other.exit_status().unwrap().is_none(), interrupted);
        gone(scene.number("daemon"));
    }
}

#[test]
fn a_killed_daemon_is_reported_with_the_recorded_time() {
    let scene = Scene::new(STAND_IN);
    let mut running = scene.start(&["--pid", &std::process::id().to_string()]);
    eventually_ok(PATIENCE, "it is announced", || {
        let said = scene.text("output");
        said.contains("recording process").then_some(()).ok_or(said)
    });
    signal(scene.number("daemon"), "KILL").unwrap();
    assert_eq!(end(&mut running).code(), Some(1));
    let said = scene.text("output");
    assert!(
        said.contains("faultlined was killed by signal 9\nusable until then: ")
            && said.contains("10 samples over 9 s"),
        "{said}"
    );
}

#[test]
fn attaching_to_a_missing_process_fails() {
    let scene = Scene::new(STAND_IN);
    let output = scene.run(&["--pid", "4194304"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("there is no process 4194304"),
        "{}",
        text(&output.stderr)
    );
    assert!(!Path::new(&scene.path("args")).exists());
}

#[test]
fn the_real_daemon_records_a_command_from_start_to_exit() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    // Pages that only this command touches.
    let stop = scene.path("stop");
    let script = format!(
        "x=$(head -c 20000000 /dev/zero | tr '\\0' a); while [ ! -e {} ]; do sleep 0.05; done; exit 6",
        stop.display()
    );
    let mut running = scene.start(&["--label", "arm=512G", "--", "sh", "-c", &script]);
    let out = scene.path("out.fltl");
    wait_for_faults_and_program(&out);
    fs::write(stop, "").unwrap();
    assert_eq!(
        end(&mut running).code(),
        Some(6),
        "{}",
        scene.text("output")
    );

    let recording = Recording::open(&out).unwrap();
    assert_eq!(recording.labels(), [("arm".to_owned(), "512G".to_owned())]);
    assert!(recording.info().unwrap().finished);
    starts_and_exits_once(&recording);
    let comms: Vec<_> = recording
        .processes()
        .unwrap()
        .iter()
        .map(|one| one.manifest["comm"].clone())
        .collect();
    assert_eq!(
        comms,
        ["sh"],
        "one process, called as the program that it became"
    );
    assert!(
        recording
            .ticks()
            .unwrap()
            .last()
            .is_some_and(|tick| tick.process.is_none()),
        "the end was seen"
    );
}

fn starts_and_exits_once(recording: &Recording) {
    let kinds: Vec<String> = recording
        .events()
        .unwrap()
        .into_iter()
        .map(|event| event.kind)
        .collect();
    let first = |kind: EventKind| kinds.iter().position(|found| *found == kind);
    let order = [
        EventKind::DaemonStart,
        EventKind::Start,
        EventKind::Exit,
        EventKind::DaemonStop,
    ]
    .map(first);
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{kinds:?}"
    );
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == EventKind::Start)
            .count(),
        1,
        "{kinds:?}"
    );
}

fn wait_for_faults_and_program(out: &Path) {
    eventually_ok(PATIENCE, "its page faults are recorded", || {
        let faults = Recording::open(out)
            .and_then(|recording| recording.columns(PerTickTable::Process, &["minor_faults"]));
        let most = faults.map(|faults| {
            faults.values[0]
                .iter()
                .flatten()
                .copied()
                .fold(0.0, f64::max)
        });
        // 20 MB are some 5,000 pages.
        if most.as_ref().is_ok_and(|most| *most > 4000.0) {
            Ok(())
        } else {
            Err(most)
        }
    });
    eventually_ok(PATIENCE, "the program that it became is noticed", || {
        let processes = Recording::open(out).and_then(|recording| recording.processes());
        let comm = processes.map(|all| {
            all.iter()
                .map(|one| one.manifest["comm"].clone())
                .collect::<Vec<_>>()
        });
        if comm
            .as_ref()
            .is_ok_and(|comms| comms.iter().any(|comm| comm == "sh"))
        {
            Ok(())
        } else {
            Err(comm)
        }
    });
}

#[test]
fn an_immediately_exiting_command_has_start_and_exit_in_the_recording() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let output = scene.run(&["--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", made::said(&output));
    let recording = Recording::open(&scene.path("out.fltl")).unwrap();
    assert_eq!(recording.processes().unwrap().len(), 1);
    let events = recording.events().unwrap();
    let has = |kind: EventKind| {
        events
            .iter()
            .any(|event| event.kind == kind && event.process.is_some())
    };
    assert!(has(EventKind::Start) && has(EventKind::Exit), "{events:?}");
}

#[test]
fn listen_addresses_come_from_the_configuration_file_and_its_errors_are_reported() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let file = scene.path("faultlined.toml");
    let config = [
        "--config",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "echo ${SOLANA_METRICS_CONFIG-none}",
    ];
    fs::write(&file, "[metrics]\nlisten = 3\n").unwrap();
    let output = scene.run(&config);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(64), "")
    );
    assert!(
        made::said(&output).contains("line 2: metrics.listen"),
        "{}",
        made::said(&output)
    );

    let log = scene.path("validator.log");
    fs::write(&log, "").unwrap();
    let good = format!(
        "[metrics]\nlisten = \"127.0.0.1:0\"\n[log]\nfile = \"{}\"\n",
        log.display()
    );
    fs::write(&file, good).unwrap();
    let output = scene.run(&config);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "none\n"),
        "{}",
        made::said(&output)
    );
}

#[test]
fn pushes_of_the_command_reach_the_real_daemon() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let push = "import os, urllib.request; \
                host = os.environ['SOLANA_METRICS_CONFIG'].split(',')[0].split('=', 1)[1]; \
                body = b'bank-forks_set_root,host_id=Mine elapsed_ms=1i 1800000000000000000'; \
                print(urllib.request.urlopen(host + '/write?db=faultline&u=any&p=any&precision=n', body).status)";
    let output = scene.run(&["--", "python3", "-c", push]);
    if output.status.code() == Some(127) {
        eprintln!("SKIPPED: no python3");
        return;
    }
    assert_eq!(
        text(&output.stdout).trim(),
        "204",
        "{}",
        made::said(&output)
    );
    assert!(
        Recording::open(&scene.path("out.fltl"))
            .unwrap()
            .info()
            .unwrap()
            .finished
    );
}

#[test]
fn the_real_daemon_finishes_a_recording_after_the_recorder_is_killed() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let script = format!(
        "echo $$ > {}; exec sleep 1000",
        scene.path("command").display()
    );
    let mut running = scene.start(&["--", "sh", "-c", &script]);
    let command = scene.number("command");
    running.kill().unwrap();
    gone(command);
    eventually_ok(PATIENCE, "the recording is finished", || {
        let info = Recording::open(&scene.path("out.fltl")).and_then(|recording| recording.info());
        if info.as_ref().is_ok_and(|info| info.finished) {
            Ok(())
        } else {
            Err(info.map(|info| info.sessions))
        }
    });
}

#[test]
fn signals_ignored_at_start_stay_ignored_in_the_command() {
    let scene = Scene::new(STAND_IN);
    let command = format!(
        "echo $$ > {}; exec sleep 1000",
        scene.path("command").display()
    );
    let mut arguments = vec![
        "-c".to_owned(),
        "trap '' HUP INT QUIT; exec \"$0\" \"$@\"".to_owned(),
        FAULTLINE.to_owned(),
    ];
    arguments.extend(scene.arguments(&["--", "sh", "-c", &command]));
    let mut running = Running::start(&Program {
        path: "/bin/sh".into(),
        arguments,
        environment: Vec::new(),
        output: scene.path("output"),
    })
    .unwrap();
    let command = scene.number("command");
    let ignored = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap() & 0b111
    };
    assert_eq!((ignored(running.pid()), ignored(command)), (0b111, 0b111));
    for name in ["HUP", "INT", "QUIT"] {
        signal(running.pid(), name).unwrap();
        signal(command, name).unwrap();
    }
    signal(running.pid(), "TERM").unwrap();
    assert_eq!(end(&mut running).code(), Some(128 + 15));
    assert_eq!(scene.text("ended"), "ended\n");
}

#[test]
fn a_zombie_cannot_be_attached_to_and_leaves_no_recording() {
    let scene = Scene::new(STAND_IN);
    let mut zombie = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", zombie.id());
    eventually(PATIENCE, "it is a zombie", || {
        let text = fs::read_to_string(&stat).unwrap();
        text.contains(") Z ").then_some(())
    });
    let output = scene.run(&["--pid", &zombie.id().to_string()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is a zombie"), "{said}");
    assert!(!scene.path("args").exists() && !scene.path("out.fltl").exists());
    zombie.wait().unwrap();
}

#[test]
fn a_process_exiting_before_discovery_stops_the_recorder_without_a_recording() {
    // This stand-in records, and never says that it follows anybody.
    let waiting = STAND_IN.replace("mv \"$ready.part\"", "true \"$ready.part\"");
    let scene = Scene::new(&waiting);
    fs::remove_file(scene.path("made.fltl")).unwrap();
    made::Plain {
        process: false,
        ..made::Plain::default()
    }
    .write(&scene.path("made.fltl"));
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut running = scene.start(&["--pid", &other.id().to_string()]);
    scene.number("daemon");
    other.kill().and_then(|()| other.wait()).unwrap();
    assert_eq!(end(&mut running).code(), Some(1));
    let said = scene.text("output");
    assert!(
        said.contains("the process ended before the recording began"),
        "{said}"
    );
    assert!(!scene.path("out.fltl").exists());
}

#[test]
fn the_real_daemon_records_the_validator_below_a_wrapper() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let validator = scene.path("agave-validator");
    std::os::unix::fs::symlink("/bin/sh", &validator).unwrap();
    let stop = scene.path("stop");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", stop.display());
    let command = [
        "timeout",
        "1000",
        validator.to_str().unwrap(),
        "-c",
        &script,
    ];
    let arguments = [&["--"], command.as_slice(), &["x", "--ledger", "/l"]].concat();
    let mut running = scene.start(&arguments);
    let out = scene.path("out.fltl");
    eventually_ok(PATIENCE, "the validator is recorded", || {
        let processes = Recording::open(&out).and_then(|recording| recording.processes());
        match &processes {
            Ok(all)
                if all
                    .iter()
                    .any(|one| one.manifest["found_by"] == "descendant") =>
            {
                Ok(())
            }
            _ => Err(processes),
        }
    });
    eventually_ok(PATIENCE, "it is told", || {
        let said = scene.text("output");
        if said.contains(" instead of ") {
            Ok(())
        } else {
            Err(said)
        }
    });
    fs::write(stop, "").unwrap();
    assert_eq!(
        end(&mut running).code(),
        Some(0),
        "{}",
        scene.text("output")
    );
    let run = faultline_report::run::load(&out).unwrap();
    let validators: Vec<i64> = run.processes.iter().map(|process| process.pid).collect();
    assert_eq!(validators.len(), 1, "{validators:?}");
    let exits: Vec<_> = run
        .events
        .iter()
        .filter(|event| event.kind == "exit")
        .collect();
    assert!(
        exits.len() == 1 && exits[0].detail["pid"] == validators[0],
        "{exits:?}"
    );
}

#[test]
fn the_real_daemon_accepts_pushes_below_another_users_wrapper() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return;
    }
    let folder = scene.path("");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let validator = scene.path("agave-validator");
    // Not one of the search path, which may be below another user's folder.
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        println!("SKIPPED: no {}", python.display());
        return;
    }
    std::os::unix::fs::symlink(python, &validator).unwrap();
    // From its first moment on, before the daemon looks again for a validator below the wrapper.
    let push = "import os, sys, time, urllib.request, urllib.error\n\
                host = os.environ['SOLANA_METRICS_CONFIG'].split(',')[0].split('=', 1)[1]\n\
                while not os.path.exists(sys.argv[1] + '/stop'):\n  \
                  body = b'bank-forks_set_root,host_id=Mine elapsed_ms=1i %d' % time.time_ns()\n  \
                  try: code = urllib.request.urlopen(host + '/write?db=a&u=a&p=a', body).status\n  \
                  except urllib.error.HTTPError as error: code = error.code\n  \
                  open(sys.argv[1] + '/codes', 'a').write('%d\\n' % code)\n  \
                  time.sleep(0.05)\n";
    let (validator, folder) = (validator.to_str().unwrap(), folder.to_str().unwrap());
    let wrapper = ["--", "runuser", "-u", "nobody", "--", validator, "-c", push];
    let mut running = scene.start(&[wrapper.as_slice(), &[folder, "--ledger", "/l"]].concat());
    eventually_ok(PATIENCE, "the validator is followed", || {
        let said = scene.text("output");
        if said.contains(" instead of ") {
            Ok(())
        } else {
            Err(said)
        }
    });
    let codes = || scene.text("codes").lines().count();
    let before = codes();
    eventually_ok(PATIENCE, "it goes on", || {
        let codes = codes();
        if codes > before + 10 {
            Ok(())
        } else {
            Err(codes)
        }
    });
    fs::write(scene.path("stop"), "").unwrap();
    assert_eq!(
        end(&mut running).code(),
        Some(0),
        "{}",
        scene.text("output")
    );
    let refused = |code: &&str| *code != "204";
    assert_eq!(scene.text("codes").lines().filter(refused).count(), 0);
}

#[test]
fn the_real_daemon_reports_a_foreign_wrapper_and_pending_points() {
    let Some(scene) = Scene::with_the_real_daemon() else {
        return;
    };
    let stop = scene.path("stop");
    let push = "import os, sys, time, urllib.request; \
                host = os.environ['SOLANA_METRICS_CONFIG'].split(',')[0].split('=', 1)[1]; \
                body = b'bank-forks_set_root,host_id=Mine elapsed_ms=1i 1800000000000000000'; \
                urllib.request.urlopen(host + '/write?db=faultline&u=any&p=any&precision=n', body); \
                memory = bytearray(b'x' * 60000000); \
                exec('while not os.path.exists(sys.argv[1]): time.sleep(0.05)')";
    let stop_path = stop.to_str().unwrap();
    let mut running = scene.start(&["--", "timeout", "1000", "python3", "-c", push, stop_path]);
    eventually_ok(PATIENCE, "both are reported", || {
        let said = scene.text("output");
        if said.contains("points are kept apart: Mine")
            && said.contains("(timeout) is followed and has")
            && said.contains("(python3)")
        {
            Ok(())
        } else {
            Err(said)
        }
    });
    fs::write(&stop, "").unwrap();
    assert_eq!(end(&mut running).code(), Some(0));
    let problems = Recording::open(&scene.path("out.fltl"))
        .and_then(|recording| recording.problems())
        .unwrap();
    let recorded = |words: &str| {
        problems
            .iter()
            .any(|row| row.what.as_ref().is_some_and(|what| what.contains(words)))
    };
    assert!(
        recorded("points are kept apart: Mine") && recorded("its descendants have"),
        "{problems:?}"
    );
}
