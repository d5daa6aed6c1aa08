//! The command that is recorded.

use super::exec_shim;
use anyhow::Context;
use faultline_command::signals::ReceivedSignal;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};

/// The command: first held back, then let go. Dropping it while it is held back ends it, and it never ran.
pub(super) struct Wrapped {
    child: Child,
    name: String,
    gate: Option<File>,
    /// What the child opens by name.
    _far_end: OwnedFd,
    ended: Option<ExitStatus>,
}

impl Wrapped {
    /// Starts it, held back.
    ///
    /// # Errors
    /// The system has no room for it.
    pub(super) fn start(command: &[OsString]) -> anyhow::Result<Wrapped> {
        let (program, arguments) = command.split_first().context("no command")?;
        let (far_end, gate) = pipe_with(PipeFlags::CLOEXEC).context("no pipe")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), far_end.as_raw_fd());
        let child =
            exec_shim::gated(Path::new(program), arguments, Some(Path::new(&path)))?.spawn();
        let child = child.with_context(|| program.to_string_lossy().into_owned())?;
        let name = Path::new(program)
            .file_name()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        Ok(Wrapped {
            child,
            name,
            gate: Some(gate.into()),
            _far_end: far_end,
            ended: None,
        })
    }

    /// Its number, from now to its end.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its program's file name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Lets it become the command, with these variables in its environment.
    ///
    /// # Errors
    /// It has been killed in the meantime.
    pub(super) fn go(&mut self, variables: &[(String, String)]) -> anyhow::Result<()> {
        let Some(mut gate) = self.gate.take() else {
            return Ok(());
        };
        gate.write_all(&exec_shim::opening(variables))
            .context("the command cannot be started")
    }

    /// Its exit code as shells tell it, once it has ended.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<u8>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| self.name.clone())?;
        }
        Ok(self.ended.map(exit_code))
    }

    /// Passes a signal on, unless the terminal has sent it to the command as well.
    pub(super) fn pass_on(&self, signal: ReceivedSignal) {
        if let (false, None, Some(number)) = (
            signal.from_terminal,
            self.ended,
            Signal::from_named_raw(signal.number),
        ) {
            // It may have ended in this moment, which is what most signals want.
            let _ = kill_process(self.pid(), number);
        }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        // Closed, the gate tells a command that is held back to give up; one that runs is ended with this program.
        self.gate = None;
        if self.ended.is_none() {
            let _ = kill_process(self.pid(), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// The code, or 128 + N if signal N ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// `host=...,db=...,u=...,p=...` without what follows `p=`.
pub(super) fn without_password(config: &str) -> String {
    let hidden = config.split(',').map(|pair| {
        if pair.starts_with("p=") {
            "p=..."
        } else {
            pair
        }
    });
    hidden.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_one_a_shell_tells() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(
            without_password("host=http://h:1,db=d,u=u,p=secret"),
            "host=http://h:1,db=d,u=u,p=..."
        );
    }
}
