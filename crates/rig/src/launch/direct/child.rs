//! The program in its group, as a child of this one.

use super::group::Group;
use crate::launch::gate::Gate;
use crate::launch::program::User;
use crate::launch::wait::wait;
use crate::launch::{End, Error, Evidence, Job, Launched, Limits};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, prlimit, waitid};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// A shell that stops itself before it becomes the program, which begins in the group `$0` or never: if this program is
/// killed in between, the kernel may let the shell go on.
const SHELL: &str = "/bin/sh";
const STOPPED: &str = r#"kill -STOP $$
while read -r line; do case $line in *"$0"*) exec "$@" </dev/null ;; esac; done </proc/$$/cgroup
exit 125"#;
/// Takes what the shell adds out of the environment again.
const ENV: &str = "/usr/bin/env";
const SHELLS_OWN: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

/// Of a holder, to come to its gate.
const TO_THE_GATE: Duration = Duration::from_secs(120);

/// See [`Launched`].
pub(super) struct Child {
    child: std::process::Child,
    name: String,
    ended: Option<ExitStatus>,
    group: Group,
    gate: Option<Gate>,
}

impl Child {
    /// Starts it in its group, without supplementary groups if it is another user's; on an error the group is gone as well.
    pub(super) fn start(
        job: &Job,
        file: &Path,
        user: Option<User>,
        group: Group,
        gate: Option<Gate>,
    ) -> Result<Child, Error> {
        let output = OpenOptions::new().append(true).create(true).open(&job.output).map_err(Error::at(&job.output))?;
        #[expect(clippy::disallowed_methods, reason = "what a launcher is for")]
        let mut command = Command::new(SHELL);
        command.args(["-c", STOPPED, group.name(), ENV]);
        let own = SHELLS_OWN.iter().filter(|own| !job.environment.iter().any(|(name, _)| name == **own));
        command.args(own.flat_map(|own| ["-u", own])).arg("--").arg(file).args(job.command.iter().skip(1));
        command.env_clear().envs(job.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(job.folder.as_deref().unwrap_or(Path::new("/")));
        command.stdin(Stdio::null()).stderr(output.try_clone().map_err(Error::at(&job.output))?).stdout(output);
        // What the terminal sends is for this program, which then decides.
        command.process_group(0);
        if let Some(User { uid, gid }) = user {
            command.uid(uid).gid(gid);
        }
        let child = command.spawn().map_err(|error| not_started(job, file, &error))?;
        let started = Child { child, name: file.display().to_string(), ended: None, group, gate };
        started.prepare(job.open_files)?;
        Ok(started)
    }

    /// Puts it into its group once it has stopped, and lets it become the program.
    fn prepare(&self, open_files: Option<u64>) -> Result<(), Error> {
        let words = |what: &str| Error::Refused(format!("{}: {what}", self.name));
        let pid = Pid::from_child(&self.child);
        let told = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let stopped = waitid(WaitId::Pid(pid), told).map_err(|error| words(&error.to_string()))?;
        if !stopped.is_some_and(|status| status.stopped()) {
            return Err(words("it was ended while it was being started"));
        }
        self.group.enter(self.child.id())?;
        if let Some(most) = open_files {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            prlimit(Some(pid), Resource::Nofile, limit)
                .map_err(|error| words(&format!("{most} open files: {error}; fs.nr_open is the most")))?;
        }
        kill_process(pid, Signal::CONT).map_err(|error| words(&error.to_string()))
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() {
            let waited = self.child.try_wait();
            self.ended = waited.map_err(|error| Error::Refused(format!("{}: {error}", self.name)))?;
        }
        Ok(self.ended)
    }

    /// Kills everything and waits for it.
    fn finish(&mut self) -> Result<(), Error> {
        if self.status()?.is_none() {
            // It is in the group, unless it could not be put there.
            let _ = self.child.kill();
        }
        self.group.kill()?;
        if self.ended.is_none() {
            let waited = self.child.wait();
            self.ended = Some(waited.map_err(|error| Error::Refused(format!("{}: {error}", self.name)))?);
        }
        Ok(())
    }
}

impl Launched for Child {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn go(&mut self, told: &[u8]) -> Result<(), Error> {
        let Some(gate) = self.gate.take() else { return Ok(()) };
        let opened = wait(TO_THE_GATE, || match (self.status()?, gate.open()?) {
            (Some(status), _) => Err(Error::Refused(format!("{} ended ({status}) before it was let go", self.name))),
            (None, opened) => Ok(opened),
        })?;
        match opened {
            Some(mut file) => file.write_all(told).map_err(Error::at(gate.path())),
            None => Err(Error::Refused(format!("{} does not come to its gate {}", self.name, gate.path().display()))),
        }
    }

    fn limits(&self) -> Result<Limits, Error> {
        self.group.limits()
    }

    fn ended(&mut self) -> Result<Option<End>, Error> {
        Ok(self.status()?.and_then(end))
    }

    fn ask_to_end(&mut self) -> Result<(), Error> {
        self.group.ask_to_end()
    }

    fn evidence(&mut self) -> Result<Evidence, Error> {
        let end = self.ended()?;
        Ok(Evidence { end, ..self.group.evidence()? })
    }

    fn close(mut self: Box<Self>) -> Result<Evidence, Error> {
        self.finish()?;
        let evidence = self.evidence()?;
        self.group.remove()?;
        Ok(evidence)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The group's own drop removes it.
        let _ = self.finish();
    }
}

fn end(status: ExitStatus) -> Option<End> {
    status.code().map(End::Code).or_else(|| status.signal().map(End::Signal))
}

fn not_started(job: &Job, file: &Path, error: &std::io::Error) -> Error {
    let folder = job.folder.as_ref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
    let user = job.user.as_ref().map(|user| format!(" as {user} (who must be able to reach it)")).unwrap_or_default();
    Error::Refused(format!("{} cannot be started{folder}{user}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_testkit::eventually::eventually;
    use faultline_testkit::proc::state;

    fn let_go_in(group: &str) -> (Option<i32>, String) {
        #[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
        let mut command = Command::new(SHELL);
        command.args(["-c", STOPPED, group, ENV, "echo", "begun"]).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        eventually(Duration::from_secs(60), "a stop", || (state(child.id()).ok()? == 'T').then_some(()));
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn let_go_outside_of_its_group_a_program_never_begins() {
        assert_eq!(let_go_in("faultline.x.r001_a1.validator"), (Some(125), String::new()));
        // Every process is in a group that has a colon before its path.
        assert_eq!(let_go_in(":"), (Some(0), "begun\n".to_owned()));
    }
}
