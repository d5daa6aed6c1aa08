//! Real processes: a shell that is started under a validator's name and reads a FIFO.

use super::{finder::RunningFinder, *};
use faultline_testkit::{
    eventually::eventually,
    proc::is_alive,
    process::{Program, Running, signal},
};
use std::{fs, path::Path};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path("ledger")).unwrap();
        for name in ["fifo", "never"] {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                folder.path(name),
                rustix::fs::FileType::Fifo,
                mode,
                0,
            )
            .unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A link to the shell. A copy cannot be executed while another test's child has it open.
    fn shell(&self, name: &str) -> PathBuf {
        let link = self.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        }
        link
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Running {
        let arguments = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        let program = Program {
            path: program.into(),
            arguments,
            environment: Vec::new(),
            output: self.path("out"),
        };
        Running::start(&program).unwrap()
    }

    /// A process that looks like a validator.
    fn validator(&self) -> Running {
        let (never, ledger) = (self.text("never"), self.text("ledger"));
        self.run(
            &self.shell("agave-validator"),
            &["-c", "read line <$0", &never, "--ledger", &ledger],
        )
    }
}

#[test]
fn exit_and_successor_of_a_killed_validator_are_detected() {
    let folder = Folder::new();
    let mut first = folder.validator();
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Ledger(folder.path("ledger")),
        HostRoot::default(),
    ));
    let target = running_finder.wait_for("the first", |target| target.process.pid == first.pid());
    assert_eq!(target.exe, fs::canonicalize("/bin/sh").ok());
    assert_eq!(target.ledger, Some(folder.path("ledger")));
    first.kill().unwrap();
    running_finder.wait_for_problem("waiting for a new one");
    assert_eq!(
        (
            running_finder.target_handle.current(),
            running_finder.restarts()
        ),
        (None, [0, 0, 0])
    );
    let second = folder.validator();
    running_finder.wait_for("the second", |target| target.process.pid == second.pid());
    // Another test may cause an OOM kill meanwhile. In any case the pidfd reports the end.
    let [exit, oom_kill, unknown] = running_finder.restarts();
    assert_eq!((exit + oom_kill, unknown), (1, 0));
}

#[test]
fn a_shell_that_execs_the_validator_is_the_same_process() {
    let folder = Folder::new();
    let (fifo, never, ledger) = (
        folder.text("fifo"),
        folder.text("never"),
        folder.text("ledger"),
    );
    let validator = folder.shell("agave-validator").display().to_string();
    let script = "read line <$0; exec $1 -c 'read line <$0' $2 --ledger $3";
    let shell = folder.run(
        &folder.shell("start"),
        &["-c", script, &fifo, &validator, &never, &ledger],
    );
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Pid(shell.pid()),
        HostRoot::default(),
    ));
    let before = running_finder.wait_for("the shell", |target| target.comm == "start");
    assert_eq!((&before.validator, &before.ledger), (&None, &None));
    running_finder.wait_for_problem("not known as a validator");
    fs::write(&fifo, "go\n").unwrap();
    let after = running_finder.wait_for("the validator", |target| target.validator.is_some());
    assert_eq!(
        (after.process, after.ledger.clone()),
        (before.process, Some(folder.path("ledger")))
    );
    assert_eq!(running_finder.target_handle.report().problems, []);
    assert_eq!(running_finder.restarts(), [0, 0, 0]);
}

#[test]
fn a_process_is_found_by_name_and_its_exit_reported_before_reaping() {
    let folder = Folder::new();
    let name = format!("long-name-test-{}", std::process::id());
    let fifo = folder.text("fifo");
    let running = folder.run(
        &folder.shell(&name),
        &["-c", "read line <$0; exit 3", &fifo],
    );
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::ProcessName(name),
        HostRoot::default(),
    ));
    let target =
        running_finder.wait_for("the process", |target| target.process.pid == running.pid());
    assert_eq!(target.found_by, "process_name");
    fs::write(&fifo, "go\n").unwrap();
    // The parent has not waited for the process, so it is a zombie.
    eventually(Duration::from_secs(60), "its end", || {
        running_finder
            .target_handle
            .current()
            .is_none()
            .then_some(())
    });
    assert!(!is_alive(running.pid()));
    running_finder.wait_for_problem("no process is called");
}

#[test]
fn the_validator_below_a_configured_wrapper_and_its_successor_are_followed() {
    let folder = Folder::new();
    let (fifo, never, ledger) = (
        folder.text("fifo"),
        folder.text("never"),
        folder.text("ledger"),
    );
    let validator = folder.shell("agave-validator").display().to_string();
    let script = "while read line <$0; do $1 -c 'read line <$0' $2 --ledger $3; done";
    let wrapper = folder.run(
        &folder.shell("start"),
        &["-c", script, &fifo, &validator, &never, &ledger],
    );
    let find = config::TargetSelector::ProcessTree(wrapper.pid());
    let running_finder = RunningFinder::start(finder(find.clone(), HostRoot::default()));
    running_finder.wait_for("the wrapper", |target| target.comm == "start");
    fs::write(&fifo, "go\n").unwrap();
    let first = running_finder.wait_for("the validator", |target| target.validator.is_some());
    assert_eq!(
        (first.found_by, first.ledger.clone()),
        ("descendant", Some(folder.path("ledger")))
    );
    assert_eq!(
        (running_finder.ends(), running_finder.restarts()),
        ([0, 0, 0], [0, 0, 0])
    );
    let at_once = finder(find, HostRoot::default()).find_once();
    assert_eq!(at_once.map(|target| target.process), Some(first.process));
    signal(first.process.pid, "KILL").unwrap();
    running_finder.wait_for_problem("no validator runs below process");
    assert_eq!(running_finder.target_handle.current(), None);
    fs::write(&fifo, "go\n").unwrap();
    let second = running_finder.wait_for("its successor", |target| target.process != first.process);
    assert!(second.validator.is_some());
    // Another test may cause an OOM kill meanwhile.
    let [exit, oom_kill, unknown] = running_finder.restarts();
    assert_eq!((exit + oom_kill, unknown), (1, 0));
    // The end of the wrapper does not end the validator.
    signal(second.process.pid, "KILL").unwrap();
}

#[test]
fn a_configured_wrapper_is_reported_with_its_largest_descendant() {
    let folder = Folder::new();
    let fifo = folder.text("fifo");
    let script = "$1 -c 'x=$(head -c 60000000 /dev/zero | tr \"\\0\" a); read line <$0' $0; true";
    let shell = folder.shell("memory").display().to_string();
    let wrapper = folder.run(&folder.shell("start"), &["-c", script, &fifo, &shell]);
    let find = config::TargetSelector::ProcessTree(wrapper.pid());
    let running_finder = RunningFinder::start(finder(find, HostRoot::default()));
    running_finder.wait_for_problem("of anonymous memory; its descendants have");
    running_finder.wait_for_problem("(memory)");
    let target = running_finder.target_handle.current();
    assert_eq!(target.map(|target| target.process.pid), Some(wrapper.pid()));
    fs::write(&fifo, "end\n").unwrap();
}

#[test]
fn forked_children_sharing_memory_are_not_reported_as_largest_descendants() {
    let folder = Folder::new();
    let fifo = folder.text("fifo");
    let script = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); for i in 1 2 3 4; do (read line <$0) & done; wait";
    let parent = folder.run(&folder.shell("parent"), &["-c", script, &fifo]);
    let children = || {
        let root = HostRoot::default();
        let descendants = descendants::Descendants::read(&root, parent.pid())?;
        (descendants.descendants.len() == 4).then_some(descendants)
    };
    let descendants = eventually(Duration::from_secs(60), "four children", children);
    assert_eq!(descendants.memory_problem(&HostRoot::default()), None);
    for child in &descendants.descendants {
        signal(child.pid, "KILL").unwrap();
    }
}

/// The main thread ends, and another thread with the name of a validator's thread continues.
const MAIN_THREAD_ENDS: &str = "
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
def run():
    libc.prctl(15, b'solReplayStage')
    while True: time.sleep(1)
threading.Thread(target=run).start()
time.sleep(0.5)
libc.syscall({'x86_64': 60, 'aarch64': 93}[__import__('platform').machine()], 0)
";

#[test]
fn a_validator_without_main_thread_is_found_and_followed_until_exit() {
    let folder = Folder::new();
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .iter()
        .find(|path| Path::new(path).exists())
    else {
        eprintln!("SKIPPED: no python3 here");
        return;
    };
    let program = folder.path("agave-validator");
    std::os::unix::fs::symlink(python, &program).unwrap();
    let ledger = folder.text("ledger");
    let running = folder.run(&program, &["-c", MAIN_THREAD_ENDS, "--ledger", &ledger]);
    let pid = running.pid();
    let root = HostRoot::default();
    eventually(
        Duration::from_secs(60),
        "the end of the main thread",
        || {
            let stat = root.read_proc(
                &format!("{pid}/stat"),
                faultline_kernel::parse::pid_stat::parse,
            );
            let state = stat
                .ok()
                .map(|stat| (stat.state.name(), stat.all_threads_ended()));
            (state == Some((Some("zombie"), false))).then_some(())
        },
    );
    for find in [
        config::TargetSelector::Pid(pid),
        config::TargetSelector::Ledger(folder.path("ledger")),
    ] {
        let found = finder(find.clone(), root.clone()).find_once();
        let target = found.unwrap_or_else(|| panic!("not found: {find:?}"));
        assert_eq!(target.process.pid, pid);
        assert_eq!(target.ledger, Some(folder.path("ledger")), "{find:?}");
        assert_eq!(target.exe, fs::canonicalize(python).ok());
    }
    let mut files = faultline_kernel::ProcessFiles::open(&root, pid).unwrap();
    let status = files.sample(true, &mut Vec::new()).status.unwrap();
    assert!(status.rss_anon > Some(0), "{status:?}");
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Pid(pid),
        HostRoot::default(),
    ));
    running_finder.wait_for("the validator", |target| target.validator.is_some());
    drop(running);
    running_finder.wait_for_problem("exited");
}
