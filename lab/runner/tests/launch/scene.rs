//! A folder, the name of an experiment, and jobs in them.

use faultline_runner::isolation::{CgroupName, Job, Launched, Launcher, Limits};
use faultline_testkit::eventually::{eventually, eventually_ok};
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Stands for the exec shim: reads the gate, its first argument, into `GATE_TEXT`, then executes the rest.
const GATE_SCRIPT: &str = r#"gate=$1; shift; echo waiting
GATE_TEXT=$(cat "$gate") && [ -n "$GATE_TEXT" ] || exit 125
export GATE_TEXT; exec "$@""#;

static SCENES: AtomicU32 = AtomicU32::new(0);

pub struct Scene<'a> {
    pub launcher: &'a dyn Launcher,
    pub experiment: String,
    folder: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    pub fn new(launcher: &'a dyn Launcher) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Programs of other users need access.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let experiment = format!(
            "t{}_{}",
            std::process::id(),
            SCENES.fetch_add(1, Ordering::Relaxed)
        );
        Scene {
            launcher,
            experiment,
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The output of the program.
    pub fn output(&self) -> String {
        fs::read_to_string(self.path("output")).unwrap_or_default()
    }

    /// Waits until the output has this text.
    pub fn says(&self, text: &str) {
        eventually_ok(PATIENCE, text, || {
            if self.output().contains(text) {
                Ok(())
            } else {
                Err(self.output())
            }
        });
    }

    /// The number that follows this word in the output.
    pub fn number(&self, word: &str) -> u32 {
        eventually(PATIENCE, word, || {
            let text = self.output();
            text.lines()
                .find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
        })
    }

    pub fn name(&self) -> CgroupName {
        CgroupName {
            experiment: self.experiment.clone(),
            run: "r001_a1".to_owned(),
            role: "validator".to_owned(),
        }
    }

    /// A job without a gate and limits.
    pub fn job(&self, command: &[&str]) -> Job {
        Job {
            name: self.name(),
            command: command.iter().map(OsString::from).collect(),
            environment: vec![("PATH".into(), PATH.into())],
            user: None,
            folder: None,
            output: self.path("output"),
            limits: Limits::default(),
            open_files: None,
            exec_gate: None,
            max_duration: Some(Duration::from_secs(600)),
            grace: PATIENCE,
        }
    }

    pub fn script(&self, script: &str) -> Job {
        self.job(&["/bin/sh", "-c", script])
    }

    /// The same job, behind a gate.
    pub fn gated(&self, job: Job) -> Job {
        let gate = self.path("gate");
        let shell = ["/bin/sh", "-c", GATE_SCRIPT, "gate"].map(OsString::from);
        let command = shell
            .into_iter()
            .chain([gate.clone().into()])
            .chain(job.command)
            .collect();
        Job {
            command,
            exec_gate: Some(gate),
            ..job
        }
    }

    pub fn launch(&self, job: &Job) -> Box<dyn Launched> {
        self.launcher
            .launch(job)
            .unwrap_or_else(|error| unreachable!("{job:?}: {error}"))
    }

    /// Launches the job under limits, and opens its gate.
    pub fn run_limited(&self, script: &str, limits: Limits) -> Box<dyn Launched> {
        let mut launched = self.launch(&self.gated(Job {
            limits,
            ..self.script(script)
        }));
        launched.open_exec_gate(b"go").expect("its gate is opened");
        launched
    }

    /// Asserts that this job cannot be launched and leaves nothing behind. Returns the error.
    pub fn refused(&self, job: &Job) -> String {
        let error = match self.launcher.launch(job) {
            Ok(_) => unreachable!("this was to be refused: {job:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            self.launcher
                .leftovers(&self.experiment)
                .expect("cgroups are listed"),
            [""; 0],
            "{error}"
        );
        assert!(!self.path("gate").exists(), "the gate is left: {error}");
        error
    }
}

/// Waits until the first process has ended, and returns how it ended.
pub fn end_of(launched: &mut dyn Launched) -> faultline_runner::isolation::End {
    eventually(PATIENCE, "the end of the program", || {
        launched.poll_end().expect("its end is told")
    })
}

/// Waits until a process has exited.
pub fn is_gone(pid: u32) {
    eventually(PATIENCE, "the end of a process", || {
        (!faultline_testkit::proc::is_alive(pid)).then_some(())
    });
}
