use super::exec_shim;
use crate::record::recorder::{
    Addresses, DAEMON_NAME, DEFAULT_SAMPLING_INTERVAL, Log, POLL_INTERVAL, POLLS_TO_END,
    POLLS_TO_START, ReadyFile, RecordingTask, USAGE_EXIT_CODE, polls_to_write, progress,
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use faultline_common::{args::UsageError, clock, files::AtPath, signals::Signals};
use faultline_recording::{Progress, Recording};
use faultline_text::{counted, duration};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};
use std::{
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

/// Polls until a dropped daemon that does not end is killed.
const POLLS_TO_GIVE_UP: u32 = 100;

pub struct Daemon {
    child: Child,
    pub log: Log,
    pub out: PathBuf,
    ready_file: ReadyFile,
    requested_interval: Option<Duration>,
}

impl Daemon {
    pub fn start(program: &Path, task: &RecordingTask<'_>) -> Result<Self> {
        let log = Log::in_memory().context("no space for the daemon's log")?;
        let ready_file = ReadyFile::new(task.out)?;
        let child = exec_shim::shim_command(program, task.arguments(), None)?
            .env("FAULTLINE_LOG", "info")
            // A service manager of this program must not get the daemon's notifications.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            // Ctrl-C is for the command; the daemon ends after it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.stdio()?)
            .spawn()
            .at(program)?;
        Ok(Self {
            child,
            log,
            out: task.out.to_owned(),
            ready_file,
            requested_interval: task.interval,
        })
    }

    /// Waits until the daemon listens and follows the process of `pidfd` (`None` in the demo) or a
    /// descendant. Returns its addresses and the followed pid. Fails on a timeout, a stop signal,
    /// or the end of daemon or process ([`UsageError`] if the daemon reports wrong usage).
    pub fn wait_until_following(
        &mut self,
        pidfd: Option<&OwnedFd>,
        signals: &mut Signals,
    ) -> Result<(Addresses, u32)> {
        for _ in 0..POLLS_TO_START {
            if let Some(ready) = self.ready_file.read()?
                && let Some(pid) = ready.followed_pid()
            {
                return Ok((ready.addresses(), pid));
            }
            if let Some(status) = self.exit_status()? {
                let text = format!(
                    "{DAEMON_NAME} ended ({status}) before it recorded:\n{}",
                    self.log.tail()
                );
                return Err(if status.code() == Some(USAGE_EXIT_CODE) {
                    UsageError(text).into()
                } else {
                    anyhow!(text)
                });
            }
            if pidfd.is_some_and(has_ended) {
                bail!("the process ended before the recording began");
            }
            ensure!(
                !signals.wait_for_end_request(None, POLL_INTERVAL)?,
                "stopped by a signal before the recording began"
            );
        }
        bail!(
            "{DAEMON_NAME} did not follow a process in time:\n{}",
            self.log.tail()
        )
    }

    pub fn followed_pid(&self) -> Option<u32> {
        self.ready_file.read().ok()??.followed_pid()
    }

    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context(DAEMON_NAME)
    }

    /// Waits until the process is in the recording, so that a short-lived command is recorded from
    /// start to end. Gives up after some intervals. Fails if a signal asks to end.
    pub fn wait_for_process(&mut self, signals: &mut Signals) -> Result<()> {
        for _ in 0..self.polls_to_write() {
            if self.progress().was_followed || self.exit_status()?.is_some() {
                break;
            }
            ensure!(
                !signals.wait_for_end_request(None, POLL_INTERVAL)?,
                "stopped by a signal before the command began"
            );
        }
        Ok(())
    }

    /// Waits until the exit of the process is in the recording. Gives up after some intervals.
    pub fn wait_for_exit(&mut self, signals: &mut Signals) -> Result<()> {
        for _ in 0..self.polls_to_write() {
            if self.progress().process_has_ended || self.exit_status()?.is_some() {
                break;
            }
            signals.wait(None, POLL_INTERVAL)?;
        }
        Ok(())
    }

    fn polls_to_write(&self) -> u32 {
        let interval = recorded_interval(&self.out).or(self.requested_interval);
        polls_to_write(interval.unwrap_or(DEFAULT_SAMPLING_INTERVAL))
    }

    fn progress(&self) -> Progress {
        progress(&self.out).unwrap_or_default()
    }

    /// Sends SIGTERM and waits. Fails on a bad exit status. Kills the daemon and fails after a
    /// timeout.
    pub fn end(mut self, signals: &mut Signals) -> Result<()> {
        if self.exit_status()?.is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).context(DAEMON_NAME)?;
        }
        for _ in 0..POLLS_TO_END {
            match self.exit_status()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{DAEMON_NAME} ended with {status}:\n{}", self.log.tail()),
                // Discards signals meanwhile.
                None => drop(signals.wait(None, POLL_INTERVAL)?),
            }
        }
        bail!(
            "{DAEMON_NAME} does not end and is killed:\n{}",
            self.log.tail()
        )
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.exit_status() {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        for _ in 0..POLLS_TO_GIVE_UP {
            if let Ok(Some(_)) | Err(_) = self.exit_status() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Records the simulated validator of daemon `program`. Passes the page's address to
/// `on_started`. Returns a summary, or `None` after a stop signal.
pub fn record_demo(
    program: &Path,
    task: &RecordingTask<'_>,
    duration: Duration,
    signals: &mut Signals,
    on_started: impl FnOnce(&str),
) -> Result<Option<String>> {
    let mut daemon = Daemon::start(program, task)?;
    let (addresses, _) = daemon.wait_until_following(None, signals)?;
    on_started(&addresses.metrics);
    let start = clock::uptime();
    let mut is_stopped = false;
    while !is_stopped && clock::uptime().saturating_sub(start) < duration {
        if let Some(status) = daemon.exit_status()? {
            bail!(describe_exit(status, &daemon.log));
        }
        is_stopped = signals.wait_for_end_request(None, POLL_INTERVAL)?;
    }
    let log = daemon.log.tail();
    daemon.end(signals)?;
    if is_stopped {
        return Ok(None);
    }
    let path = task.out.display();
    let info = Recording::open(task.out).and_then(|recording| recording.info());
    ensure!(
        info.is_ok_and(|info| info.first_tick.is_some()),
        "{path} has no sample: {DAEMON_NAME} could not write it:\n{log}"
    );
    summary(task.out).map(Some)
}

/// The log of a killed daemon does not show why it ended.
pub fn describe_exit(status: ExitStatus, log: &Log) -> String {
    match status.signal() {
        Some(signal) => format!("{DAEMON_NAME} was killed by signal {signal}"),
        None => format!("{DAEMON_NAME} ended ({status}):\n{}", log.tail()),
    }
}

/// Only the daemon reads the interval in a configuration file.
fn recorded_interval(out: &Path) -> Option<Duration> {
    Some(Recording::open(out).ok()?.sessions().ok()?.last()?.interval)
}

pub fn summary(out: &Path) -> Result<String> {
    let info = Recording::open(out)?.info()?;
    let ticks = info
        .tables
        .iter()
        .find(|table| table.name == "tick")
        .map_or(0, |table| table.rows);
    let nanos = info
        .first_tick
        .zip(info.last_tick)
        .map_or(0, |(first, last)| {
            // The wall clock may have been set during the recording.
            if first.session == last.session {
                last.uptime_ns.saturating_sub(first.uptime_ns)
            } else {
                last.unix_ns.saturating_sub(first.unix_ns)
            }
        });
    Ok(format!(
        "{}: {} over {}",
        out.display(),
        counted(ticks as f64, "sample"),
        duration(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    ))
}

/// A zombie has ended.
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(ready) if ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::{NewRecording, NewSession, Writer};

    #[test]
    fn the_log_is_shown_unless_the_daemon_was_killed() {
        let log = Log::in_memory().unwrap();
        let of = |status| describe_exit(ExitStatus::from_raw(status), &log);
        assert_eq!(of(9), "faultlined was killed by signal 9");
        assert_eq!(of(1 << 8), "faultlined ended (exit status: 1):\n");
    }

    #[test]
    fn the_interval_comes_from_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run.fltl");
        assert_eq!(recorded_interval(&out), None);
        let interval = Duration::from_secs(30);
        let session = NewSession {
            started: Default::default(),
            interval,
            version: String::new(),
            manifest: serde_json::Value::Null,
        };
        let labels = Vec::new();
        drop(Writer::create(&out, &NewRecording { labels, session }).unwrap());
        assert_eq!(recorded_interval(&out), Some(interval));
    }
}
