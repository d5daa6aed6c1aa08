//! A folder with a plan, and what is left of it on the host.

use faultline_experiments::{
    folder::ExperimentFolder,
    journal::{self, Entry, JournalLine, JournalState, Planned},
    outcome::Ending,
};
use faultline_testkit::{
    eventually::eventually_ok,
    process::{Program, Running},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

pub const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An experiment in a folder of its own. Dropping it ends what it left.
pub struct Scene {
    root: tempfile::TempDir,
    folder: PathBuf,
}

impl Scene {
    /// With this plan, whose `{program}` is a script of this text. `None`, said, where no groups can be made or there is no
    /// daemon.
    pub fn new(name: &str, script: &str, replicates: u32, rest: &str) -> Option<Self> {
        let daemon = Path::new(FAULTLINE).with_file_name("faultlined");
        if !daemon.is_file() {
            eprintln!(
                "SKIPPED: no {}; cargo build -p faultlined makes it",
                daemon.display()
            );
            return None;
        }
        let launcher = faultline_experiments::command::create_launcher(
            faultline_experiments::args::LauncherKind::Direct,
        );
        if let Err(why) = launcher {
            eprintln!("SKIPPED: {why:#}");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("program.sh");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, executable).unwrap();
        fs::write(root.path().join("plan.toml"), plan(name, replicates, rest)).unwrap();
        let folder = root.path().join("state");
        let scene = Self { root, folder };
        let made = scene.faultline(&["init", scene.path("ledger").to_str().unwrap()]);
        assert!(made.status.success(), "{}", said(&made));
        Some(scene)
    }

    /// With the experiment's folder elsewhere.
    pub fn in_folder(mut self, folder: &Path) -> Self {
        let plan = fs::read_to_string(self.path("plan.toml")).unwrap();
        let line = format!("folder = {:?}\n", folder.to_str().unwrap());
        fs::write(
            self.path("plan.toml"),
            plan.replace("folder = \"state\"\n", &line),
        )
        .unwrap();
        folder.clone_into(&mut self.folder);
        self
    }

    /// Other users can reach what is in it.
    pub fn open_to_all(&self) {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.root.path(), all).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn folder(&self) -> ExperimentFolder {
        ExperimentFolder::new(&self.folder)
    }

    /// Runs `faultline experiment` with these words to its end.
    pub fn faultline(&self, words: &[&str]) -> Output {
        let mut command = Command::new(FAULTLINE);
        command
            .arg("experiment")
            .args(words)
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Starts `faultline experiment` with these words; its output goes to a file.
    pub fn start(&self, words: &[&str]) -> Running {
        let mut arguments = vec!["experiment".to_owned(), words[0].to_owned()];
        arguments.extend(
            words[1..]
                .iter()
                .map(|word| self.path(word).to_str().unwrap().to_owned()),
        );
        let output = self.path(&format!("output-of-{}", words[0]));
        Running::start(&Program {
            path: FAULTLINE.into(),
            arguments,
            environment: Vec::new(),
            output,
        })
        .unwrap()
    }

    pub fn lines(&self) -> Vec<JournalLine> {
        journal::read(&self.folder().journal()).unwrap_or_default()
    }

    pub fn standing(&self) -> JournalState {
        JournalState::of(&self.lines())
    }

    /// Waits until the journal has an entry like this.
    pub fn wait_for(&self, what: &str, is: impl Fn(&Entry) -> bool) {
        eventually_ok(PATIENCE, what, || {
            let lines = self.lines();
            if lines.iter().any(|line| is(&line.entry)) {
                Ok(())
            } else {
                Err(format!("{:?}", lines.last()))
            }
        });
    }

    /// The ends of the runs that count, by run.
    pub fn ends(&self) -> Vec<(u32, Ending)> {
        let standing = self.standing();
        let mut ends: Vec<_> = standing
            .completed_runs()
            .iter()
            .map(|counted| (counted.scheduled.run, counted.ending.clone()))
            .collect();
        ends.sort_by_key(|(run, _)| *run);
        ends
    }

    /// Nothing of the experiment is left: no group in any hierarchy, no process that was given its folder.
    pub fn assert_nothing_is_left(&self) {
        let unique_name = self.unique_name();
        eventually_ok(Duration::from_secs(30), "no group is left", || {
            none(groups(&unique_name))
        });
        let own = self.root.path().to_str().unwrap().to_owned();
        eventually_ok(Duration::from_secs(30), "no process is left", || {
            none(processes(&own))
        });
    }

    fn unique_name(&self) -> String {
        let plan = fs::read_to_string(self.path("plan.toml")).unwrap();
        let name = plan
            .lines()
            .next()
            .unwrap()
            .split('"')
            .nth(1)
            .unwrap()
            .to_owned();
        self.folder().unique_name(&name)
    }

    /// Every run of the schedule has exactly one result in the newest attempt at its turn, and no turn was begun again once
    /// it was done: by the lines alone.
    pub fn assert_every_run_counts_once(&self) {
        let lines = self.lines();
        let Some(Entry::Planned(Planned { turns, .. })) = lines.first().map(|line| &line.entry)
        else {
            panic!("no plan")
        };
        for turn in turns {
            let begun = |entry: &Entry| matches!(entry, Entry::TurnBegun { turn: number, .. } if *number == turn.number);
            let newest = lines
                .iter()
                .rposition(|line| begun(&line.entry))
                .expect("begun");
            for run in &turn.runs {
                let results = |lines: &[JournalLine]| {
                    let of_run = lines.iter().filter(|line| {
                        matches!(&line.entry, Entry::RunEnded { run: number, ending, .. }
                            if *number == run.run && ending.outcome.is_result())
                    });
                    of_run.count()
                };
                assert_eq!(
                    (results(&lines[..newest]), results(&lines[newest..])),
                    (0, 1),
                    "run {}: {lines:#?}",
                    run.run
                );
            }
        }
        assert_eq!(
            lines
                .iter()
                .filter(|line| line.entry == Entry::Finished)
                .count(),
            1
        );
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.faultline(&["stop", self.folder.to_str().unwrap_or_default()]);
    }
}

/// A plan of short runs, with the lines that differ behind it.
fn plan(name: &str, replicates: u32, rest: &str) -> String {
    format!(
        r#"name = "{name}"
folder = "state"
replicates = {replicates}
attempts = 2
[workload]
cluster = "localnet"
command = ["./program.sh", "{{arm}}"]
ledger = "ledger"
[begin]
how = "download"
[host]
cool_down = "0s"
patience = "0s"
busy_cpus = {{ at_most = 1000, otherwise = "ignore" }}
free_disk = {{ at_least = "0K", otherwise = "ignore" }}
swap = "ignore"
huge_pages = "ignore"
governor = "ignore"
[recorder]
interval = "100ms"
{rest}
"#
    )
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn none(found: Vec<String>) -> Result<(), Vec<String>> {
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn groups(unique_name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().contains(unique_name) {
                found.push(entry.path().display().to_string());
            }
            folders.push(entry.path());
        }
    }
    found
}

/// Processes with this in their arguments, environment or working folder.
fn processes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) || pid == std::process::id().to_string() {
            continue;
        }
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let all = [read("cmdline"), read("environ")].concat();
        let zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        if !zombie && String::from_utf8_lossy(&all).contains(text) {
            found.push(format!(
                "{pid}: {}",
                String::from_utf8_lossy(&read("cmdline")).replace('\0', " ")
            ));
        }
    }
    found
}
