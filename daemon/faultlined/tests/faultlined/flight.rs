//! The flight recorder of the real program: which recordings it saves, when, and what happens to
//! the ring.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use crate::support::{limited::LimitedCgroup, small_disk::Small};
use faultline_recording::{EventKind, Recording};
use faultline_testkit::{
    Result,
    binaries::in_search_path,
    daemon::Daemon,
    eventually::eventually_ok,
    http,
    process::{Program, Running},
};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(90);

/// A variable in the environment of the followed process. No recording may contain it.
const SECRET: &str = "hunter2-in-the-environment";

/// A process that looks like a validator, and a folder for the flight recorder.
struct Scene {
    folder: tempfile::TempDir,
    flight: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            flight: folder.path().join("flight"),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A copy of `program` with a validator's name.
    fn validator(&self, program: &str, arguments: &[&str]) -> Running {
        let path = self.path("agave-validator");
        fs::copy(in_search_path(program).expect("a usual program"), &path).unwrap();
        let environment = [
            ("FAULTLINE_TEST_SECRET", SECRET),
            ("RUST_LOG", "solana=info"),
        ];
        Running::start(&Program {
            path,
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            environment: environment
                .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
                .to_vec(),
            output: self.path("validator.out"),
        })
        .unwrap()
    }

    fn config(&self, keys: &str) -> PathBuf {
        let file = self.path("c.toml");
        let folder = self.flight.display();
        fs::write(
            &file,
            format!("[sampling]\ninterval = \"100ms\"\n[flight]\nfolder = \"{folder}\"\n{keys}"),
        )
        .unwrap();
        file
    }

    fn daemon(&self, pid: u32, keys: &str) -> Result<Daemon> {
        let config = self.config(keys).display().to_string();
        let pid = pid.to_string();
        Daemon::start(
            FAULTLINED,
            &["--config", &config, "--pid", &pid],
            self.folder.path(),
        )
    }

    /// The saved recordings with `-REASON-` in their names.
    fn saved(&self, reason: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.flight)
            .map(|all| all.flatten().collect())
            .unwrap_or_else(|_| Vec::new());
        let paths = entries.into_iter().map(|entry| entry.path());
        // The name of an unfinished save has another ending.
        let wanted = |name: &str| name.contains(&format!("-{reason}-")) && name.ends_with(".fltl");
        paths
            .filter(|path| wanted(&path.display().to_string()))
            .collect()
    }

    fn ring(&self) -> Recording {
        Recording::open(&self.flight.join("ring.fltl")).unwrap()
    }
}

fn number(daemon: &Daemon, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    daemon.scrape().ok()?.get(name, labels)
}

/// Waits until the daemon has followed a process for some ticks. Its session in the ring has this
/// number.
fn wait_for_session(daemon: &Daemon, scene: &Scene, session: i64, count: usize) {
    eventually_ok(PATIENCE, "ticks in the ring", || {
        let ring =
            Recording::open(&scene.flight.join("ring.fltl")).map_err(|error| error.to_string())?;
        let ticks = ring.ticks().map_err(|error| error.to_string())?;
        let followed = ticks
            .iter()
            .filter(|tick| tick.process.is_some() && tick.session == session)
            .count();
        if followed >= count {
            Ok(())
        } else {
            Err(format!("{followed} ticks; {}", daemon.log()))
        }
    });
}

fn wait_for_ticks(daemon: &Daemon, scene: &Scene, count: usize) {
    wait_for_session(daemon, scene, 1, count);
}

fn wait_for_save(daemon: &Daemon, scene: &Scene, reason: &str) -> PathBuf {
    eventually_ok(PATIENCE, reason, || match &scene.saved(reason)[..] {
        [one] => Ok(one.clone()),
        other => Err(format!("{other:?}; {}", daemon.log())),
    })
}

/// Waits until one save is counted, which is a tick after the save.
fn wait_for_count(daemon: &Daemon, reason: &str) {
    eventually_ok(PATIENCE, "the count", || {
        let count = number(
            daemon,
            "faultline_flight_saves_total",
            &[("reason", reason)],
        );
        if count == Some(1.0) {
            Ok(())
        } else {
            Err(count)
        }
    });
}

/// This test is the parent of the killed process, so it must wait for it. Otherwise the process is
/// a zombie.
fn kill(mut validator: Running) {
    validator.kill().unwrap();
}

fn run(arguments: &[&str]) -> Output {
    Command::new(FAULTLINED)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("faultlined can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_process_exit_saves_surrounding_data_and_its_description() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "after = \"2s\"\npause = \"1s\"\n")?;
    wait_for_ticks(&daemon, &scene, 20);
    digest_is_recorded(&daemon, &scene);
    let pid = validator.pid();
    kill(validator);
    let path = wait_for_save(&daemon, &scene, "exit");
    assert!(
        !fs::exists(format!("{}-wal", path.display())).unwrap(),
        "a saved recording is one file"
    );
    let saved = Recording::open(&path).unwrap();
    assert!(saved.info().unwrap().finished);
    ticks_surround_the_exit(&daemon, &saved, pid);
    let process = &saved.processes().unwrap()[0].manifest;
    assert_eq!(process["arguments"][1], "1000");
    assert_eq!(process["environment"]["values"]["RUST_LOG"], "solana=info");
    assert!(
        text(process.to_string().as_bytes()).contains("FAULTLINE_TEST_SECRET"),
        "{process}"
    );
    let bytes = fs::read(&path).unwrap();
    assert!(
        !text(&bytes).contains(SECRET),
        "a secret of the environment was kept"
    );
    assert!(
        saved.sessions().unwrap()[0].manifest["host"]["memory"]["total_bytes"]
            .as_u64()
            .is_some()
    );
    wait_for_count(&daemon, "exit");
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

/// Waits for the digest of the validator's program and compares it with that of sha256sum.
fn digest_is_recorded(daemon: &Daemon, scene: &Scene) {
    let binary = |ring: &Recording| {
        ring.processes().unwrap()[0].manifest["binary"]["sha256"]
            .as_str()
            .map(str::to_owned)
    };
    let digest = eventually_ok(PATIENCE, "the program's digest", || {
        binary(&scene.ring()).ok_or_else(|| daemon.log())
    });
    let witness = Command::new("sha256sum")
        .arg(scene.path("agave-validator"))
        .output()
        .expect("sha256sum can be run");
    assert_eq!(
        text(&witness.stdout).split_whitespace().next(),
        Some(digest.as_str())
    );
}

fn ticks_surround_the_exit(daemon: &Daemon, saved: &Recording, pid: u32) {
    let events = saved.events().unwrap();
    let exit = events
        .iter()
        .find(|event| event.kind == EventKind::Exit)
        .expect("the end is an event");
    assert_eq!(exit.detail["pid"], pid);
    let ticks = saved.ticks().unwrap();
    let exit_ns = i64::try_from(exit.unix.as_nanos()).unwrap();
    let before = ticks
        .iter()
        .filter(|tick| tick.unix_ns < exit_ns && tick.process == exit.process)
        .count();
    let after: Vec<_> = ticks
        .iter()
        .filter(|tick| tick.unix_ns >= exit_ns)
        .collect();
    assert!(before >= 20, "{before} ticks before");
    // A busy machine skips ticks: 20 fit into the two seconds after the exit.
    assert!(
        after.len() >= 3 && after.iter().all(|tick| tick.process.is_none()),
        "{} ticks after: {}",
        after.len(),
        daemon.log()
    );
    assert!(
        !daemon.log().contains("does not keep up"),
        "no tick is dropped: {}",
        daemon.log()
    );
}

#[test]
fn signal_and_http_request_save_immediately_and_http_returns_the_path() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_ticks(&daemon, &scene, 5);
    daemon.signal("USR1")?;
    let path = wait_for_save(&daemon, &scene, "request");
    assert!(Recording::open(&path).unwrap().info().unwrap().finished);
    let answer = http::post(daemon.metrics(), "/flight/save?reason=../slow%20disk", b"")?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let path = PathBuf::from(answer.text().trim());
    assert_eq!(path.parent(), Some(scene.flight.as_path()));
    assert!(
        path.display()
            .to_string()
            .contains("-request____slow_disk-"),
        "{}",
        path.display()
    );
    let marks: Vec<_> = Recording::open(&path).unwrap().events().unwrap();
    let matching = marks
        .iter()
        .filter(|event| event.kind == EventKind::Mark && event.detail["text"] == "../slow disk");
    assert_eq!(matching.count(), 1);
    assert_eq!(http::get(daemon.metrics(), "/flight/save")?.status, 405);
    assert!(scene.saved("exit").is_empty());
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn with_flight_off_a_request_conflicts_and_the_signal_is_ignored() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let own = std::process::id().to_string();
    let daemon = Daemon::start(FAULTLINED, &["--pid", &own], folder.path())?;
    let answer = http::post(daemon.metrics(), "/flight/save", b"")?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    daemon.signal("USR1")?;
    eventually_ok(PATIENCE, "a word about it", || {
        let log = daemon.log();
        if log.contains("the flight recorder is disabled") {
            Ok(())
        } else {
            Err(log)
        }
    });
    assert_eq!(
        number(
            &daemon,
            "faultline_flight_saves_total",
            &[("reason", "exit")]
        ),
        None
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_restarted_daemon_continues_its_flight_ring() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_session(&daemon, &scene, 1, 5);
    assert_eq!(daemon.stop()?, Some(0));
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_session(&daemon, &scene, 2, 5);
    // After SIGKILL, the ring has its WAL next to it.
    drop(daemon);
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_session(&daemon, &scene, 3, 5);
    let answer = http::post(daemon.metrics(), "/flight/save", b"")?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let saved = Recording::open(Path::new(answer.text().trim())).unwrap();
    assert_eq!(saved.sessions().unwrap().len(), 3);
    let kinds: Vec<String> = saved
        .events()
        .unwrap()
        .into_iter()
        .map(|event| event.kind)
        .collect();
    let count = |wanted: EventKind| kinds.iter().filter(|kind| **kind == wanted).count();
    assert_eq!(
        (count(EventKind::DaemonStart), count(EventKind::DaemonStop)),
        (3, 1)
    );
    assert!(scene.saved("set_aside").is_empty());
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn creating_the_flight_folder_on_a_full_disk_is_retried_while_exporting() -> Result<()> {
    let mut scene = Scene::new();
    let Some(disk) = Small::mount(&scene.path("disk")) else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here; root may");
        return Ok(());
    };
    let filler = disk.fill();
    scene.flight = disk.0.join("flight");
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "")?;
    eventually_ok(PATIENCE, "the recorder is down and the rest is up", || {
        let found = ["recorder", "process"]
            .map(|source| number(&daemon, "faultline_source_up", &[("source", source)]));
        if found == [Some(0.0), Some(1.0)] {
            Ok(())
        } else {
            Err(daemon.log())
        }
    });
    assert_eq!(
        http::post(daemon.metrics(), "/flight/save", b"")?.status,
        500
    );
    fs::remove_file(filler).unwrap();
    wait_for_ticks(&daemon, &scene, 5);
    assert!(
        fs::metadata(scene.flight.join(".faultline-flight"))
            .unwrap()
            .len()
            > 0
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_corrupt_flight_ring_is_moved_aside_logged_and_replaced() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_ticks(&daemon, &scene, 5);
    assert_eq!(daemon.stop()?, Some(0));
    let ring = scene.flight.join("ring.fltl");
    let length = fs::metadata(&ring).unwrap().len();
    fs::OpenOptions::new()
        .write(true)
        .open(&ring)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    let daemon = scene.daemon(validator.pid(), "")?;
    wait_for_ticks(&daemon, &scene, 5);
    let aside = scene.saved("set_aside");
    assert_eq!(aside.len(), 1, "{}", daemon.log());
    assert_eq!(fs::metadata(&aside[0]).unwrap().len(), length / 2);
    assert!(daemon.log().contains("set aside"), "{}", daemon.log());
    assert_eq!(scene.ring().sessions().unwrap().len(), 1);
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn the_flight_ring_drops_old_data_and_stops_growing() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(
        validator.pid(),
        "keep = \"10s\"\nafter = \"1s\"\npause = \"1s\"\n",
    )?;
    let ticks = |least: f64| {
        eventually_ok(PATIENCE, "ticks", || {
            match number(&daemon, "faultline_ticks_total", &[]) {
                Some(count) if count >= least => Ok(()),
                other => Err(other),
            }
        });
    };
    ticks(130.0);
    let size = || fs::metadata(scene.flight.join("ring.fltl")).unwrap().len();
    let earlier = scene.ring().ticks().unwrap();
    let before = size();
    ticks(260.0);
    let later = scene.ring().ticks().unwrap();
    for ticks in [&earlier, &later] {
        let span = ticks.last().unwrap().uptime_ns - ticks[0].uptime_ns;
        // Ten seconds, a second until the next check, and the delay of a busy machine.
        assert!((9_000_000_000..20_000_000_000).contains(&span), "{span} ns");
    }
    assert!(
        later[0].number > earlier[0].number + 50,
        "{} and {}",
        later[0].number,
        earlier[0].number
    );
    assert!(
        size() < before.max(1 << 20) * 2,
        "{before} bytes have become {}",
        size()
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn an_oom_kill_saves_a_recording_named_after_it() -> Result<()> {
    const LIMIT: u64 = 48 << 20;
    // Declared before the validator, so that it is removed after it.
    let Some(cgroup) = LimitedCgroup::new(LIMIT) else {
        eprintln!("SKIPPED: no cgroup with a limit of memory can be made here");
        return Ok(());
    };
    let scene = Scene::new();
    let pipe = scene.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo can be run")
            .success()
    );
    // `tail` reads until there is a line, and there is none. So its memory grows.
    let mut validator = scene.validator("tail", &[&pipe.display().to_string()]);
    cgroup
        .write("cgroup.procs", validator.pid().into())
        .expect("a process can be moved");
    let daemon = scene.daemon(validator.pid(), "after = \"1s\"\npause = \"1s\"\n")?;
    wait_for_ticks(&daemon, &scene, 5);
    eventually_ok(PATIENCE, "the limit", || {
        let limit = number(&daemon, "agave_memory_effective_limit_bytes", &[]);
        if limit == Some(LIMIT as f64) {
            Ok(())
        } else {
            Err(limit)
        }
    });
    let mut feed = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let fed = (0..2000)
        .take_while(|_| feed.write_all(&piece).is_ok())
        .count();
    assert!(fed < 2000, "nobody was killed");
    eventually_ok(PATIENCE, "the kill", || {
        cgroup.kills().filter(|kills| *kills > 0).ok_or("none")
    });
    eventually_ok(PATIENCE, "the end", || {
        validator.exit_status().ok().flatten().ok_or("lives")
    });
    let saved = Recording::open(&wait_for_save(&daemon, &scene, "oom_kill")).unwrap();
    let killed = saved
        .events()
        .unwrap()
        .into_iter()
        .find(|event| event.kind == EventKind::OomKill);
    assert_eq!(
        killed.expect("the kill is an event").detail["reason"],
        "oom_kill"
    );
    let limits = &saved.processes().unwrap()[0].manifest["cgroup_limits"];
    assert!(limits.to_string().contains(&LIMIT.to_string()), "{limits}");
    wait_for_count(&daemon, "oom_kill");
    assert!(scene.saved("exit").is_empty());
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}

#[test]
fn a_pending_flight_save_is_written_at_shutdown() -> Result<()> {
    let scene = Scene::new();
    let validator = scene.validator("sleep", &["1000"]);
    let daemon = scene.daemon(validator.pid(), "after = \"9m\"\n")?;
    wait_for_ticks(&daemon, &scene, 5);
    kill(validator);
    eventually_ok(PATIENCE, "the end in the ring", || {
        let events = scene.ring().events().unwrap();
        if events.iter().any(|event| event.kind == EventKind::Exit) {
            Ok(())
        } else {
            Err(daemon.log())
        }
    });
    assert!(scene.saved("exit").is_empty());
    assert_eq!(daemon.stop()?, Some(0));
    let [path] = &scene.saved("exit")[..] else {
        panic!("{:?}", scene.saved("exit"))
    };
    assert!(
        Recording::open(path)
            .unwrap()
            .events()
            .unwrap()
            .iter()
            .any(|event| event.kind == EventKind::Exit)
    );
    assert!(scene.ring().info().unwrap().finished);
    Ok(())
}

#[test]
fn once_and_check_leave_no_flight_folder_and_foreign_ones_are_refused() {
    let scene = Scene::new();
    let config = scene.config("").display().to_string();
    let own = std::process::id().to_string();
    assert!(
        run(&["once", "--metrics", "--config", &config, "--pid", &own])
            .status
            .success()
    );
    assert!(
        run(&["once", "--config", &config, "--pid", &own])
            .status
            .code()
            .is_some_and(|code| code < 2)
    );
    assert!(run(&["check-config", "--config", &config]).status.success());
    assert!(!scene.flight.exists());
    fs::create_dir(&scene.flight).unwrap();
    fs::write(scene.flight.join("diary"), "mine").unwrap();
    for command in ["check-config", "run"] {
        let output = run(&[command, "--config", &config]);
        assert_eq!(output.status.code(), Some(64), "{command}");
        assert!(
            text(&output.stderr).contains("flight.folder"),
            "{}",
            text(&output.stderr)
        );
    }
    assert_eq!(fs::read_dir(&scene.flight).unwrap().count(), 1);
}

#[test]
fn the_units_state_directory_is_used_without_configuration() {
    let scene = Scene::new();
    let own = std::process::id().to_string();
    let run = |log: &str, arguments: &[&str]| {
        let usual = [
            "run",
            "--pid",
            &own,
            "--listen",
            "127.0.0.1:0",
            "--ingest",
            "127.0.0.1:0",
        ];
        let state = scene.folder.path().display().to_string();
        Running::start(&Program {
            path: FAULTLINED.into(),
            arguments: usual
                .iter()
                .chain(arguments)
                .map(|one| (*one).to_owned())
                .collect(),
            environment: vec![("STATE_DIRECTORY".to_owned(), Some(state))],
            output: scene.path(log),
        })
        .unwrap()
    };
    let off = scene.config("enabled = false\n").display().to_string();
    let assert_logged = |log: &str, words: &str| {
        eventually_ok(PATIENCE, words, || {
            let log = fs::read_to_string(scene.path(log)).unwrap();
            if log.contains(words) {
                Ok(())
            } else {
                Err(log)
            }
        });
    };
    let daemon = run("off.log", &["--config", &off]);
    assert_logged("off.log", "source=\"daemon\" up=true");
    drop(daemon);
    assert!(!scene.flight.exists());
    let _daemon = run("on.log", &[]);
    assert_logged("on.log", "flight recorder started");
    assert_eq!(scene.ring().sessions().unwrap().len(), 1);
}
