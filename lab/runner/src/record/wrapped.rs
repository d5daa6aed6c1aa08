use super::exec_shim;
use anyhow::{Context, Result};
use faultline_common::signals::ReceivedSignal;
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, kill_process},
};
use std::{
    ffi::OsString,
    fs::File,
    io::Write,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::Path,
    process::{Child, ExitStatus},
};

/// A command that waits at its gate. If it is dropped before [`Self::go`], the command never runs.
pub struct GatedCommand {
    child: Child,
    pub name: String,
    gate: Option<File>,
    _read_end: OwnedFd,
    ended: Option<ExitStatus>,
}

impl GatedCommand {
    pub fn start(command: &[OsString]) -> Result<GatedCommand> {
        let (program, arguments) = command.split_first().context("no command")?;
        let (read_end, gate) = pipe_with(PipeFlags::CLOEXEC).context("no pipe")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), read_end.as_raw_fd());
        let child =
            exec_shim::gated(Path::new(program), arguments, Some(Path::new(&path)))?.spawn();
        let child = child.with_context(|| program.to_string_lossy().into_owned())?;
        let name = Path::new(program)
            .file_name()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        Ok(GatedCommand {
            child,
            name,
            gate: Some(gate.into()),
            _read_end: read_end,
            ended: None,
        })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Executes the command with these variables. Fails if the child was killed meanwhile.
    pub fn go(&mut self, variables: &[(String, String)]) -> Result<()> {
        let Some(mut gate) = self.gate.take() else {
            return Ok(());
        };
        gate.write_all(&exec_shim::gate_text(variables))
            .context("the command cannot be started")
    }

    /// Exit code in shell convention; `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<u8>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| self.name.clone())?;
        }
        Ok(self.ended.map(exit_code))
    }

    /// Forwards a signal, unless the terminal has sent it to the command as well.
    pub fn forward_signal(&self, signal: ReceivedSignal) {
        if let (false, None, Some(number)) = (
            signal.from_terminal,
            self.ended,
            Signal::from_named_raw(signal.number),
        ) {
            // The command may have ended just now, as most signals intend.
            let _ = kill_process(self.pid(), number);
        }
    }
}

impl Drop for GatedCommand {
    fn drop(&mut self) {
        // A closed gate makes a held command give up; a running one gets the parent-death signal.
        self.gate = None;
        if self.ended.is_none() {
            let _ = kill_process(self.pid(), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// 128 + N if signal N ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// Replaces the value of `p=` in `host=...,db=...,u=...,p=...`.
pub fn without_password(config: &str) -> String {
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
    fn the_exit_code_follows_shell_convention() {
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
