//! The results that remain of a run if the program is killed or the disk is full.

use crate::{bench, mock_node::start};
use serde_json::json;
use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Environment variable with the command line of a child process, one argument a line.
const WORDS: &str = "FAULTLINE_BENCH_WORDS";
/// Even a busy machine needs only seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// The tests below run this test in a child process. Without `WORDS` it does nothing.
#[test]
fn a_child_runs_a_command_line() {
    if let Ok(words) = env::var(WORDS) {
        let words: Vec<&str> = words.lines().collect();
        bench(&words).unwrap();
    }
}

/// A child process that runs `bench`. Its standard error is piped.
fn program(words: &[&str]) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::a_child_runs_a_command_line",
            "--nocapture",
        ])
        .env(WORDS, words.join("\n"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A plan that takes minutes, with `rate` requests a second.
fn plan(folder: &Path, rate: u32) -> String {
    let node = start(|_, _| Ok(json!(7)));
    let path = folder.join("plan.toml");
    let text = format!(
        "rounds = 100000\nwarm_up = 0\nrate = {rate}\n\n[[arm]]\nname = \"node\"\nurl = \"{node}\"\n\n\
         [[request]]\nmethod = \"getSlot\"\nanswer = \"any\"\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Number of requests in the results at `out`.
fn requests(out: &str) -> u64 {
    let Ok((output, _)) = bench(&["report", out, "--format", "json"]) else {
        return 0;
    };
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    output["cells"][0]["successes"].as_u64().unwrap()
}

#[test]
fn a_killed_run_is_reported_up_to_its_last_sample() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.flb").display().to_string();
    let mut child = program(&["run", &plan(folder.path(), 50), "--out", &out]);
    let begun = Instant::now();
    while requests(&out) < 60 {
        assert!(begun.elapsed() < DEADLINE, "nothing is kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    let saved = requests(&out);
    assert!(saved >= 60, "{saved}");
    let (output, _) = bench(&["report", &out]).unwrap();
    assert!(
        output.contains(&format!(": {saved} requests in ")),
        "{output}"
    );
    assert!(output.contains("ended early by a kill"), "{output}");
    let again = bench(&["run", &plan(folder.path(), 50), "--out", &out]).unwrap_err();
    let again = again.to_string();
    assert!(
        again.contains("run.flb: exists already; give another name, or remove it first"),
        "{again}"
    );
}

/// A file system of 128 kB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` with a message if this process may not mount a file system.
    fn mount(path: &Path) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=128k", "none"])
            .arg(path)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path.to_owned()));
        }
        eprintln!("SKIPPED: a file system cannot be mounted here; that takes root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_results_continue_once_space_returns() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 64 << 10]).unwrap();
    let out = disk.0.join("run.flb").display().to_string();
    let mut child = program(&["run", &plan(folder.path(), 100), "--out", &out]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line = |what: &str| lines.find(|line| line.as_ref().unwrap().contains(what));
    let full = line("no space left on its disk")
        .expect("it is said")
        .unwrap();
    assert!(
        full.contains("run.flb: ") && full.contains("tried again"),
        "{full}"
    );
    assert_eq!(child.try_wait().unwrap(), None, "the run goes on");
    let before = requests(&out);
    fs::remove_file(&ballast).unwrap();
    line("writing works again, and nothing is missing")
        .expect("it is said")
        .unwrap();
    assert!(requests(&out) > before);
    child.kill().unwrap();
    child.wait().unwrap();
}
