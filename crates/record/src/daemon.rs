//! The daemon that records: started, listened to, ended.

use super::exec_shim;
use crate::args::RecordArgs;
use crate::recorder::{
    Addresses, Log, POLL_EVERY, POLLS_TO_END, POLLS_TO_START, PROGRAM, ReadyFile, Target, Task,
    USAGE,
};
use anyhow::{Context, anyhow, bail};
use faultline_command::args::WrongUsage;
use faultline_command::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

/// Looks until the daemon must have ended where nobody waits for a whole recording any more.
const LOOKS_TO_GIVE_UP: u32 = 100;

/// A running daemon. Dropping it ends it, in the end by force.
pub(super) struct Daemon {
    child: Child,
    log: Log,
    ready: ReadyFile,
    ended: Option<ExitStatus>,
}

impl Daemon {
    /// Starts it, on free ports unless a configuration file says where, to follow the process `pid`.
    pub(super) fn start(
        program: &Path,
        args: &RecordArgs,
        out: &Path,
        pid: Pid,
    ) -> anyhow::Result<Daemon> {
        let log = Log::in_memory().context("no space for the daemon's log")?;
        let ready = ReadyFile::of(out)?;
        let pid = pid.as_raw_nonzero().get().unsigned_abs();
        let mut command = exec_shim::gated(program, task(args, out, pid).arguments(), None)?;
        command
            .env("FAULTLINE_LOG", "info")
            // Who watches this program is not to be told by that one.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            // Ctrl-C is for the command; the daemon ends after it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.to_write()?);
        let child = command
            .spawn()
            .with_context(|| program.display().to_string())?;
        Ok(Daemon {
            child,
            log,
            ready,
            ended: None,
        })
    }

    /// Waits until it listens and follows `process` or its descendant: the addresses and the followed process.
    ///
    /// # Errors
    /// The daemon ended (with [`WrongUsage`] if it says so) or takes too long, the process ended, or a signal asks this program
    /// to end.
    pub(super) fn wait_until_following(
        &mut self,
        process: &OwnedFd,
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
                return Err(if status.code() == Some(USAGE) {
                    WrongUsage(words).into()
                } else {
                    anyhow!(words)
                });
            }
            if has_ended(process) {
                bail!("the process ended before the recording began");
            }
            if signals
                .wait(None, POLL_EVERY)?
                .iter()
                .any(|signal| signal.asks_to_end())
            {
                bail!("stopped by a signal before the recording began");
            }
        }
        bail!(
            "{PROGRAM} does not follow the process after half a minute:\n{}",
            self.log.tail()
        )
    }

    /// The process that it follows now; `None` if there is none, or its ready file cannot be read.
    pub(super) fn followed(&self) -> Option<u32> {
        self.ready.read().ok()??.target()
    }

    /// How it ended; `None` while it runs.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.ended = self.child.try_wait().context(PROGRAM)?.or(self.ended);
        Ok(self.ended)
    }

    /// Warnings and errors since the last call, in its words.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        self.log.complaints()
    }

    /// The end of its log.
    pub(super) fn tail(&self) -> String {
        self.log.tail()
    }

    /// Asks it to end and waits.
    ///
    /// # Errors
    /// It does not end, and was killed; or it ended otherwise than well.
    pub(super) fn end(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).context(PROGRAM)?;
        }
        for _ in 0..POLLS_TO_END {
            match self.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{PROGRAM} ended with {status}:\n{}", self.log.tail()),
                // What comes now is for nobody.
                None => drop(signals.wait(None, POLL_EVERY)?),
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
        for _ in 0..LOOKS_TO_GIVE_UP {
            if let Ok(Some(_)) | Err(_) = self.ended() {
                return;
            }
            std::thread::sleep(POLL_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the process of a pidfd has ended; a zombie has.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(ready) if ready > 0)
}

fn task<'a>(args: &'a RecordArgs, out: &'a Path, pid: u32) -> Task<'a> {
    Task {
        target: Target::Pid(pid),
        out,
        cache_entries: None,
        labels: &args.labels,
        interval: args.interval,
        config: args.config.as_deref(),
        // Who writes a file says there where to listen, or that there is a log to read instead.
        free_ports: args.config.is_none(),
    }
}
