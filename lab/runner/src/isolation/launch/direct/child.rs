use super::program_cgroup::{self, ProgramCgroup};
use crate::isolation::launch::{
    CgroupState, End, Job, Launched, Limits, WithPath, program::ExecGate,
};
use anyhow::{Result, anyhow, bail};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::{
    ffi::OsString,
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

const SHELL: &str = "/bin/sh";
/// Reads a line, then executes `$@` if the shell is in a cgroup whose path contains `$0`. If the
/// launcher is killed before that, the shell reads EOF and exits.
const WAIT_SCRIPT: &str = r#"read -r go || exit 125
while read -r line; do case $line in *"$0"*) exec "$@" </dev/null ;; esac; done </proc/$$/cgroup
exit 125"#;
const EXEC_WORD: &[u8] = b"go\n";
/// Executes the program without the variables that the shell adds.
const ENV: &str = "/usr/bin/env";
const SHELL_VARIABLES: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

pub struct Child {
    child: std::process::Child,
    program_name: String,
    output_path: PathBuf,
    cgroup: ProgramCgroup,
    exec_gate: Option<ExecGate>,
}

impl Child {
    /// `executable`: executed with the arguments of `job.command`, in place of its first word.
    pub fn start(
        job: &Job,
        executable: &Path,
        user_switch_command: Vec<OsString>,
        cgroup: ProgramCgroup,
        exec_gate: Option<ExecGate>,
    ) -> Result<Self> {
        let output = job.open_output()?;
        #[expect(clippy::disallowed_methods, reason = "what a launcher is for")]
        let mut command = Command::new(SHELL);
        command
            .args(["-c", WAIT_SCRIPT, &cgroup.name])
            .args(&user_switch_command)
            .arg(ENV);
        if let Some(folder) = job
            .folder
            .as_ref()
            .filter(|_| !user_switch_command.is_empty())
        {
            // The shell enters the folder as the launcher's user. `env -C` enters it as the target
            // user, and fails if that user may not.
            command.arg("-C").arg(folder);
        }
        let unwanted_variables = SHELL_VARIABLES
            .iter()
            .filter(|variable| !job.environment.iter().any(|(name, _)| name == **variable));
        let child = command
            .args(unwanted_variables.flat_map(|variable| ["-u", variable]))
            .arg("--")
            .arg(executable)
            .args(job.command.iter().skip(1))
            .env_clear()
            .envs(job.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(job.folder.as_deref().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stderr(output.try_clone().with_path(&job.output)?)
            .stdout(output)
            // With its own process group, so that Ctrl-C reaches only the launcher.
            .process_group(0)
            .spawn()
            .map_err(|error| not_started(job, executable, &error))?;
        let mut started = Self {
            child,
            program_name: executable.display().to_string(),
            output_path: job.output.clone(),
            cgroup,
            exec_gate,
        };
        started.confine_and_exec(job.open_files)?;
        Ok(started)
    }

    fn confine_and_exec(&mut self, open_files: Option<u64>) -> Result<()> {
        let stdin = self.child.stdin.take();
        let error_with_name = |text: &str| anyhow!("{}: {text}", self.program_name);
        let pid = Pid::from_child(&self.child);
        self.cgroup.enter(self.child.id())?;
        if let Some(number) = open_files {
            let limit = Rlimit {
                current: Some(number),
                maximum: Some(number),
            };
            // The shell still has the launcher's user. Limits of another user need privilege.
            prlimit(Some(pid), Resource::Nofile, limit)
                .map_err(|error| error_with_name(&format!("{number} open files: {error}")))?;
        }
        stdin
            .map_or(Ok(()), |mut stdin| stdin.write_all(EXEC_WORD))
            .map_err(|error| {
                error_with_name(&format!("it was ended while it was being started: {error}"))
            })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>> {
        let waited = self.child.try_wait();
        waited.map_err(|error| anyhow!("{}: {error}", self.program_name))
    }

    fn kill_and_wait(&mut self) -> Result<()> {
        let _ = self.child.kill();
        self.cgroup.kill()?;
        let waited = self.child.wait().map(drop);
        waited.map_err(|error| anyhow!("{}: {error}", self.program_name))
    }
}

impl Launched for Child {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn open_exec_gate(&mut self, message: &[u8]) -> Result<()> {
        let Some(exec_gate) = self.exec_gate.take() else {
            return Ok(());
        };
        let name = self.program_name.clone();
        exec_gate.release(&name, message, || match self.status()? {
            Some(status) => bail!(
                "{name} ended ({status}) before its gate was opened; {} may say why",
                self.output_path.display()
            ),
            None => Ok(()),
        })
    }

    fn limits(&self) -> Result<Limits> {
        self.cgroup.limits()
    }

    fn set_memory_limit(&mut self, memory: Option<u64>) -> Result<Option<u64>> {
        self.cgroup.set_memory_limit(memory)
    }

    fn poll_end(&mut self) -> Result<Option<End>> {
        Ok(self.status()?.and_then(end))
    }

    fn has_no_process(&mut self) -> Result<bool> {
        Ok(self.status()?.is_some() && program_cgroup::is_empty(&self.cgroup.folders())?)
    }

    fn terminate(&mut self) -> Result<()> {
        program_cgroup::terminate(&self.cgroup.folders())
    }

    fn cgroup_state(&mut self) -> Result<CgroupState> {
        let end = self.poll_end()?;
        Ok(CgroupState {
            end,
            ..self.cgroup.state()?
        })
    }

    fn close(mut self: Box<Self>) -> Result<CgroupState> {
        self.kill_and_wait()?;
        let cgroup_state = self.cgroup_state()?;
        self.cgroup.remove()?;
        Ok(cgroup_state)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Dropping `cgroup` then removes it.
        let _ = self.kill_and_wait();
    }
}

fn end(status: ExitStatus) -> Option<End> {
    status
        .code()
        .map(End::Code)
        .or_else(|| status.signal().map(End::Signal))
}

fn not_started(job: &Job, file: &Path, error: &std::io::Error) -> anyhow::Error {
    let folder = job
        .folder
        .as_ref()
        .map(|folder| format!(" in {}", folder.display()))
        .unwrap_or_default();
    anyhow!("{} cannot be started{folder}: {error}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the script's exit code and output after `input`, which ends its standard input.
    fn run_wait_script(input: &[u8], cgroup: &str) -> (Option<i32>, String) {
        #[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
        let mut command = Command::new(SHELL);
        command
            .args(["-c", WAIT_SCRIPT, cgroup, ENV, "echo", "begun"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    #[test]
    fn a_program_outside_its_cgroup_is_never_executed() {
        assert_eq!(
            run_wait_script(EXEC_WORD, "faultline.x.r001_a1.validator"),
            (Some(125), String::new())
        );
        // Every line of `/proc/PID/cgroup` has a colon before the path.
        assert_eq!(
            run_wait_script(EXEC_WORD, ":"),
            (Some(0), "begun\n".to_owned())
        );
    }

    #[test]
    fn a_program_is_never_executed_if_its_launcher_has_exited() {
        assert_eq!(run_wait_script(b"", ":"), (Some(125), String::new()));
    }
}
