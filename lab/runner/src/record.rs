//! `faultline record`: runs a daemon for one command, or for a running process.

pub mod args;
mod daemon;
mod exec_shim;
pub mod recorder;

pub use daemon::record_demo;
pub use exec_shim::{
    doctor, exec_browser, exec_gate_message, run_to_end, success_and_stderr, wait_and_exec,
    wait_or_kill,
};

use crate::record::{
    args::RecordArgs,
    recorder::{
        Addresses, RecordingTarget, RecordingTask, in_path, metrics_config, metrics_variables,
        progress,
    },
};
use anyhow::{Context, Result, bail, ensure};
use daemon::{Daemon, describe_exit, has_ended, summary};
use exec_shim::GatedCommand;
use faultline_common::{args::UsageError, output::say, signals::Signals};
use faultline_recording::Recording;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    env,
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

/// Interval of daemon and process checks; signals and exits are handled at once.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the exit code. Fails if the recording cannot begin; the command then never runs. With
/// `--pid`, fails also if the recording cannot be finished.
pub fn run(args: &RecordArgs, now_ns: i64) -> Result<u8> {
    let daemon_program = recorder::find_program(args.faultlined.as_deref(), "--faultlined")?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| default_name(args, now_ns));
    if out.symlink_metadata().is_ok() {
        bail!(
            "{}: exists already; give another name, or remove it first",
            out.display()
        );
    }
    if let Some(folder) = out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        let text = format!(
            "--out {}: there is no folder {}",
            out.display(),
            folder.display()
        );
        return Err(UsageError(text).into());
    }
    if let Some(program) = args
        .command
        .first()
        .filter(|program| !program_exists(program))
    {
        say(&format!(
            "{}: there is no such program",
            Path::new(program).display()
        ));
        return Ok(exec_shim::NOT_FOUND);
    }
    let request = RecordRequest {
        args,
        daemon_program,
        out,
        signals: Signals::listen().context("signals cannot be received")?,
    };
    match args.pid.and_then(Pid::from_raw) {
        Some(pid) => request.record_process(pid),
        None => request.record_command(),
    }
}

struct RecordRequest<'a> {
    args: &'a RecordArgs,
    daemon_program: PathBuf,
    out: PathBuf,
    signals: Signals,
}

impl RecordRequest<'_> {
    fn record_command(mut self) -> Result<u8> {
        let mut command = GatedCommand::start(&self.args.command)?;
        let pidfd = pidfd_open(command.pid(), PidfdFlags::empty()).context("the command")?;
        let (mut daemon, addresses, followed_pid) = self.start_daemon(command.pid(), &pidfd)?;
        self.announce(
            &addresses,
            &format!("{} (process {})", command.name, command.pid()),
        );
        let variables = if self.args.no_metrics {
            Vec::new()
        } else {
            metrics_variables(&addresses, |name| {
                env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            })
        };
        daemon.wait_for_process(&mut self.signals)?;
        command.open_gate(&variables)?;
        let mut monitor = Monitor {
            followed_pid,
            ..Monitor::default()
        };
        let code = loop {
            for signal in self.signals.wait(None, CHECK_INTERVAL)? {
                command.forward_signal(signal);
            }
            if let Some(code) = command.exit_code()? {
                break code;
            }
            monitor.check(&mut daemon);
        };
        match self.end_after_exit(daemon, monitor.daemon_ended) {
            Ok(()) => Ok(code),
            Err(error) => {
                say(&format!("{error:#}"));
                Ok(if code == 0 { 1 } else { code })
            }
        }
    }

    fn record_process(mut self, pid: Pid) -> Result<u8> {
        let number = pid.as_raw_nonzero();
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .with_context(|| format!("there is no process {number}"))?;
        ensure!(
            !has_ended(&pidfd),
            "process {number} has ended and is a zombie until its parent waits for it: nothing to record"
        );
        let (mut daemon, addresses, followed_pid) = self.start_daemon(pid, &pidfd)?;
        let mut name = format!("process {followed_pid}");
        if followed_pid != number.get().unsigned_abs() {
            name.push_str(&format!(", a descendant of {number},"));
        }
        self.announce(&addresses, &name);
        let mut monitor = Monitor {
            followed_pid,
            ..Monitor::default()
        };
        loop {
            let is_stopped = self
                .signals
                .wait_for_end_request(Some(pidfd.as_fd()), CHECK_INTERVAL)?;
            if is_stopped || has_ended(&pidfd) {
                break;
            }
            if let Some(status) = daemon.exit_status()? {
                let usable = summary(&self.out).map(|text| format!("\nusable until then: {text}"));
                bail!(
                    "{}{}",
                    describe_exit(status, &daemon.log),
                    usable.unwrap_or_default()
                );
            }
            monitor.check(&mut daemon);
        }
        if has_ended(&pidfd) {
            self.end_after_exit(daemon, monitor.daemon_ended)?
        } else {
            self.end(daemon)?
        }
        Ok(0)
    }

    /// Returns also the pid that the daemon follows. An error removes the recording, unless the
    /// recording already has a process.
    fn start_daemon(&mut self, pid: Pid, pidfd: &OwnedFd) -> Result<(Daemon, Addresses, u32)> {
        let task = RecordingTask {
            target: RecordingTarget::Pid(pid.as_raw_nonzero().get().unsigned_abs()),
            out: &self.out,
            cache_entries: None,
            labels: &self.args.labels,
            interval: self.args.interval,
            config: self.args.config.as_deref(),
            // A configuration file defines the ports, or has a log instead of pushes.
            free_ports: self.args.config.is_none(),
        };
        let mut daemon = Daemon::start(&self.daemon_program, &task)?;
        match daemon.wait_until_following(Some(pidfd), &mut self.signals) {
            Ok((addresses, followed_pid)) => Ok((daemon, addresses, followed_pid)),
            Err(error) => {
                drop(daemon);
                if progress(&self.out).is_ok_and(|progress| !progress.was_followed) {
                    let _ = std::fs::remove_file(&self.out);
                }
                Err(error)
            }
        }
    }

    fn announce(&self, addresses: &Addresses, process: &str) {
        say(&format!("recording {process} into {}", self.out.display()));
        say(&format!(
            "metrics and a page at http://{}",
            addresses.metrics
        ));
        let Some(ingest) = &addresses.ingest else {
            return;
        };
        let value = metrics_config(ingest);
        match (self.args.pid, env::var(recorder::METRICS_CONFIG)) {
            (Some(_), _) => say(&format!(
                "a validator with {}=\"{value}\" sends its datapoints to this daemon",
                recorder::METRICS_CONFIG
            )),
            (None, Err(_)) if !self.args.no_metrics => {}
            (None, Ok(_)) if !self.args.no_metrics => say(&format!(
                "{} is set already: the command's datapoints are not recorded",
                recorder::METRICS_CONFIG
            )),
            (None, _) => say(&format!(
                "datapoints are not recorded, unless the command sends them with {}=\"{value}\"",
                recorder::METRICS_CONFIG
            )),
        }
    }

    /// First waits until the exit of the process is in the recording.
    fn end_after_exit(&mut self, mut daemon: Daemon, daemon_ended: bool) -> Result<()> {
        ensure!(
            !daemon_ended,
            "the recording {} has no end: faultlined ended before the command",
            self.out.display()
        );
        daemon.wait_for_exit(&mut self.signals)?;
        self.end(daemon)
    }

    fn end(&mut self, daemon: Daemon) -> Result<()> {
        daemon.end(&mut self.signals)?;
        say(&summary(&self.out)?);
        Ok(())
    }
}

/// Reports the daemon's warnings and end, and the problems in its recording.
#[derive(Default)]
struct Monitor {
    followed_pid: u32,
    daemon_ended: bool,
    checks: u32,
    problems: Vec<String>,
    reported: Vec<String>,
}

impl Monitor {
    const CHECKS_PER_READ: u32 = 4;
    /// Bounded, because problem texts may change forever.
    const MAX_REPORTED: usize = 20;
    /// Problems of other sources are normal on some machines.
    const SOURCES: [&str; 2] = ["target", "datapoints"];

    fn check(&mut self, daemon: &mut Daemon) {
        for warning in daemon.log.new_warnings_and_errors() {
            say(&format!("faultlined: {warning}"));
        }
        if let (false, Ok(Some(status))) = (self.daemon_ended, daemon.exit_status()) {
            self.daemon_ended = true;
            say(&format!(
                "faultlined ended ({status}); the command continues without it:\n{}",
                daemon.log.tail()
            ));
        }
        self.checks = self.checks.wrapping_add(1);
        if self.checks.is_multiple_of(Self::CHECKS_PER_READ) {
            if let Some(followed_pid) = daemon
                .followed_pid()
                .filter(|pid| *pid != self.followed_pid)
            {
                say(&format!(
                    "recording process {followed_pid} instead of {}",
                    self.followed_pid
                ));
                self.followed_pid = followed_pid;
            }
            self.report_problems(recorded_problems(&daemon.out));
        }
    }

    /// Reports a problem once, if two successive reads have it.
    fn report_problems(&mut self, problems: Vec<String>) {
        let previous = std::mem::replace(&mut self.problems, problems);
        for problem in &self.problems {
            if previous.contains(problem)
                && !self.reported.contains(problem)
                && self.reported.len() < Self::MAX_REPORTED
            {
                say(&format!("faultlined: {problem}"));
                self.reported.push(problem.clone());
            }
        }
    }
}

/// Empty also if the recording cannot be read, because the daemon reports that error.
fn recorded_problems(out: &Path) -> Vec<String> {
    Recording::open(out)
        .and_then(|recording| recording.problems_at_end())
        .unwrap_or_default()
        .into_iter()
        .filter(|row| Monitor::SOURCES.contains(&row.source.as_str()))
        .filter_map(|row| row.what)
        .collect()
}

fn program_exists(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        Path::new(program).is_file()
    } else {
        in_path(program).is_some()
    }
}

/// `512G-20260131T235959Z.fltl` with the label `arm=512G`, else named after the command or pid.
fn default_name(args: &RecordArgs, now_ns: i64) -> PathBuf {
    // Characters with a meaning for shells are replaced.
    let is_plain = |letter: char| letter.is_alphanumeric() || "._+=-".contains(letter);
    let plain = |text: &str| {
        let text = text.replace(|letter| !is_plain(letter), "_");
        let text = text.trim_start_matches(['-', '.']);
        (!text.is_empty()).then(|| text.to_owned())
    };
    let arm = args
        .labels
        .iter()
        .find(|(key, _)| key == "arm")
        .and_then(|(_, arm)| plain(arm));
    let program = args
        .command
        .first()
        .and_then(|program| Path::new(program).file_name())
        .and_then(|program| plain(&program.to_string_lossy()));
    let name = match (arm, program, args.pid) {
        (Some(name), ..) | (None, Some(name), _) => name,
        (None, None, Some(pid)) => format!("pid-{pid}"),
        (None, None, None) => "run".to_owned(),
    };
    format!("{name}-{}.fltl", faultline_text::file_time(now_ns)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn a_recording_is_named_after_its_arm_or_else_its_command() {
        let named = |words: &[&str]| {
            let command = RecordArgs::augment_args(Command::new("record"));
            let matches = command.get_matches_from(["record"].iter().chain(words));
            let args = RecordArgs::from_arg_matches(&matches).unwrap();
            let name = default_name(&args, 0);
            name.display()
                .to_string()
                .replace("-19700101T000000Z.fltl", "")
        };
        let labelled = |label| named(&["--label", "run=1", "--label", label, "--", "/bin/true"]);
        assert_eq!(labelled("arm=512G"), "512G");
        assert_eq!(labelled("arm=-a/b $c-1"), "a_b__c-1");
        assert_eq!(labelled("arm="), "true");
        assert_eq!(labelled("host=h"), "true");
        assert_eq!(named(&["--", "./a $b"]), "a__b");
        assert_eq!(named(&["--", "./-a"]), "a");
        assert_eq!(named(&["--label", "arm=-", "--", "./-"]), "run");
        assert_eq!(named(&["--label", "arm=A", "--pid", "7"]), "A");
        assert_eq!(named(&["--pid", "7"]), "pid-7");
    }
}
