use super::exec_shim;
use crate::record::recorder::{
    Addresses, Log, POLL_INTERVAL, POLLS_TO_END, POLLS_TO_START, PROGRAM, ReadyFile, Task,
    USAGE_EXIT_CODE,
};
use anyhow::{Context, anyhow, bail};
use faultline_common::args::UsageError;
use faultline_common::files::AtPath;
use faultline_common::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

/// Polls for the daemon's end if a complete recording is not needed any more.
const POLLS_TO_GIVE_UP: u32 = 100;

pub(super) struct Daemon {
    child: Child,
    log: Log,
    ready: ReadyFile,
    ended: Option<ExitStatus>,
}

impl Daemon {
    pub(super) fn start(program: &Path, task: &Task<'_>) -> anyhow::Result<Daemon> {
        let log = Log::in_memory().context("no space for the daemon's log")?;
        let ready = ReadyFile::of(task.out)?;
        let mut command = exec_shim::gated(program, task.arguments(), None)?;
        command
            .env("FAULTLINE_LOG", "info")
            // A service manager of this program must not get the daemon's notifications.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            // Ctrl-C is for the command; the daemon ends after it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.to_write()?);
        let child = command.spawn().at(program)?;
        Ok(Daemon {
            child,
            log,
            ready,
            ended: None,
        })
    }

    /// Waits until the daemon listens and follows `process` or a descendant. Returns its addresses
    /// and the followed pid. Fails on a timeout, a stop signal, or the end of daemon or process
    /// ([`UsageError`] if the daemon reports it). The demo's process is not known before: `None`.
    pub(super) fn wait_until_following(
        &mut self,
        process: Option<&OwnedFd>,
        signals: &mut Signals,
    ) -> anyhow::Result<(Addresses, u32)> {
        for _ in 0..POLLS_TO_START {
            if let Some(ready) = self.ready.read()?
                && let Some(pid) = ready.target()
            {
                return Ok((ready.addresses(), pid));
            }
            if let Some(status) = self.ended()? {
                let words = format!(
                    "{PROGRAM} ended ({status}) before it recorded:\n{}",
                    self.log.tail()
                );
                return Err(if status.code() == Some(USAGE_EXIT_CODE) {
                    UsageError(words).into()
                } else {
                    anyhow!(words)
                });
            }
            if process.is_some_and(has_ended) {
                bail!("the process ended before the recording began");
            }
            if signals
                .wait(None, POLL_INTERVAL)?
                .iter()
                .any(|signal| signal.is_end_request())
            {
                bail!("stopped by a signal before the recording began");
            }
        }
        bail!(
            "{PROGRAM} does not follow the process after half a minute:\n{}",
            self.log.tail()
        )
    }

    pub(super) fn followed(&self) -> Option<u32> {
        self.ready.read().ok()??.target()
    }

    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.ended = self.child.try_wait().context(PROGRAM)?.or(self.ended);
        Ok(self.ended)
    }

    pub(super) fn warnings(&mut self) -> Vec<String> {
        self.log.warnings()
    }

    pub(super) fn tail(&self) -> String {
        self.log.tail()
    }

    /// Sends SIGTERM and waits. Fails on a bad exit status, and on a timeout, after which the
    /// daemon was killed.
    pub(super) fn end(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).context(PROGRAM)?;
        }
        for _ in 0..POLLS_TO_END {
            match self.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{PROGRAM} ended with {status}:\n{}", self.log.tail()),
                // Discards signals meanwhile.
                None => drop(signals.wait(None, POLL_INTERVAL)?),
            }
        }
        bail!("{PROGRAM} does not end and is killed:\n{}", self.log.tail())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.ended() {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        for _ in 0..POLLS_TO_GIVE_UP {
            if let Ok(Some(_)) | Err(_) = self.ended() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True for a zombie.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(ready) if ready > 0)
}
