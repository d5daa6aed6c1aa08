//! `--ready-file` as the program reads it that starts the daemon.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_testkit::{
    Result,
    eventually::{eventually, eventually_ok},
    http,
    process::{Program, Running, signal},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with the ready file.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, more: &[&str]) -> Result<Running> {
        let file = self.path("ready").display().to_string();
        let first = [
            "run",
            "--ready-file",
            &file,
            "--interval",
            "100ms",
            "--listen",
            "127.0.0.1:0",
        ];
        Running::start(&Program {
            path: FAULTLINED.into(),
            arguments: first.iter().chain(more).map(ToString::to_string).collect(),
            environment: Vec::new(),
            output: self.path("log"),
        })
    }

    fn ready(&self) -> Option<Value> {
        let text = fs::read(self.path("ready")).ok()?;
        Some(serde_json::from_slice(&text).expect("it is whole whenever it is there"))
    }

    /// Waits until the content of the file is as wanted, and returns it.
    fn wait_for_content(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually_ok(PATIENCE, what, || match self.ready() {
            Some(content) if is(&content) => Ok(content),
            other => Err((other, fs::read_to_string(self.path("log")))),
        })
    }
}

fn end(mut daemon: Running) -> Result<Option<i32>> {
    signal(daemon.pid(), "TERM")?;
    Ok(eventually(PATIENCE, "it ends", || {
        daemon.exit_status().expect("a status")
    })
    .code())
}

fn sleep(folder: &Path) -> Result<Running> {
    Running::start(&Program {
        path: "/bin/sleep".into(),
        arguments: vec!["1000".to_owned()],
        environment: Vec::new(),
        output: folder.join("sleep"),
    })
}

/// Field 22 of the process's `stat`.
fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, fields) = stat.rsplit_once(')').expect("fields");
    fields
        .split_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .expect("a start")
}

#[test]
fn the_ready_file_names_addresses_and_process_until_exit() -> Result<()> {
    let scene = Scene::new();
    let mut followed = sleep(&scene.path(""))?;
    let daemon = scene.start(&[
        "--ingest",
        "127.0.0.1:0",
        "--pid",
        &followed.pid().to_string(),
    ])?;
    let content = scene.wait_for_content("the daemon", |content| {
        content["format"] == 1 && content["pid"] == daemon.pid()
    });
    let address = |key: &str| content[key][0].as_str().expect("an address").to_owned();
    assert_eq!(http::get(&address("metrics"), "/healthz")?.status, 200);
    assert!(
        std::net::TcpStream::connect(address("ingest")).is_ok(),
        "{content}"
    );
    let target = json!({ "pid": followed.pid(), "start_ticks": start_ticks(followed.pid()) });
    scene.wait_for_content("the process", |content| content["target"] == target);
    followed.kill()?;
    scene.wait_for_content("its end", |content| content["target"].is_null());
    assert_eq!(end(daemon)?, Some(0));
    assert_eq!(
        fs::read_dir(scene.path("")).expect("a folder").count(),
        2,
        "only the two logs are left"
    );
    Ok(())
}

#[test]
fn a_new_process_updates_the_ready_file_and_no_ingest_omits_addresses() -> Result<()> {
    let scene = Scene::new();
    let (program, config, log) = (
        scene.path("ready-sleeper"),
        scene.path("c.toml"),
        scene.path("validator.log"),
    );
    fs::copy("/bin/sleep", &program).expect("a copy");
    fs::write(&log, "").expect("a log");
    fs::write(
        &config,
        format!("[log]\nfile = {:?}\n", log.display().to_string()),
    )
    .expect("a file");
    let run = || {
        let (path, output) = (program.clone(), scene.path("sleep"));
        Running::start(&Program {
            path,
            arguments: vec!["1000".to_owned()],
            environment: Vec::new(),
            output,
        })
    };
    let daemon = scene.start(&[
        "--process-name",
        "ready-sleeper",
        "--config",
        &config.display().to_string(),
    ])?;
    let content = scene.wait_for_content("nobody", |content| content["target"].is_null());
    assert!(
        content["ingest"].is_null()
            && content["metrics"]
                .as_array()
                .is_some_and(|all| all.len() == 1),
        "{content}"
    );
    for _ in 0..2 {
        let mut process = run()?;
        scene.wait_for_content("the process", |content| {
            content["target"]["pid"] == process.pid()
        });
        process.kill()?;
    }
    assert_eq!(end(daemon)?, Some(0));
    assert!(scene.ready().is_none());
    Ok(())
}

#[test]
fn a_link_at_the_ready_file_path_is_replaced_not_followed() -> Result<()> {
    let scene = Scene::new();
    fs::write(scene.path("precious"), "precious").expect("a file");
    symlink(scene.path("precious"), scene.path("ready")).expect("a link");
    let own = std::process::id();
    let daemon = scene.start(&["--ingest", "127.0.0.1:0", "--pid", &own.to_string()])?;
    eventually(PATIENCE, "a file", || {
        (!scene.path("ready").is_symlink()).then_some(())
    });
    scene.wait_for_content("this process", |content| content["target"]["pid"] == own);
    assert_eq!(end(daemon)?, Some(0));
    assert_eq!(
        fs::read(scene.path("precious")).expect("a file"),
        b"precious"
    );
    assert!(!scene.path("ready").exists());
    Ok(())
}

#[test]
fn an_unwritable_ready_file_is_a_usage_error_without_a_recording() {
    let scene = Scene::new();
    fs::create_dir(scene.path("folder")).expect("a folder");
    let recording = scene.path("r.fltl").display().to_string();
    for name in ["none/ready", "folder"] {
        let file = scene.path(name).display().to_string();
        let mut command = Command::new(FAULTLINED);
        command.args([
            "run",
            "--pid",
            "1",
            "--listen",
            "127.0.0.1:0",
            "--ingest",
            "127.0.0.1:0",
        ]);
        command
            .args(["--record", &recording, "--ready-file", &file])
            .stdin(Stdio::null());
        let output = command.output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{stderr}");
        assert!(
            stderr.contains(&format!("--ready-file {file}: "))
                && stderr.contains("a folder that exists"),
            "{stderr}"
        );
        assert!(!scene.path("r.fltl").exists());
    }
}
