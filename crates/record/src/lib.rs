//! `faultline record`: a daemon beside one command, from the command's first moment to its last, or beside a process that
//! runs already.

pub mod args;
mod daemon;
mod exec_shim;
mod file;
pub mod recorder;
mod wrapped;

pub use exec_shim::{asked, doctor, hold, opening, ran};

use crate::args::RecordArgs;
use crate::recorder::{Addresses, USUAL_INTERVAL, in_path, metrics_config, metrics_variables};
use anyhow::Context;
use daemon::Daemon;
use faultline_command::args::WrongUsage;
use faultline_command::output::say;
use faultline_command::signals::{Heard, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wrapped::Wrapped;

/// From look to look at daemon and process while they run; signals and ends are noticed at once.
const LOOK: Duration = Duration::from_millis(500);

/// Records until the command or process ends; the exit code.
///
/// # Errors
/// The recording could not begin (the command then never ran), or, without a command, it could not be finished.
pub fn run(args: &RecordArgs, now: SystemTime) -> anyhow::Result<u8> {
    let program = recorder::find(args.faultlined.as_deref(), "--faultlined")?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => usual_name(args, now),
    };
    if out.symlink_metadata().is_ok() {
        anyhow::bail!(
            "{}: exists already; give another name, or remove it first",
            out.display()
        );
    }
    if let Some(folder) = out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        let words = format!(
            "--out {}: there is no folder {}",
            out.display(),
            folder.display()
        );
        return Err(WrongUsage(words).into());
    }
    if let Some(program) = args.command.first().filter(|program| !is_there(program)) {
        say(&format!(
            "{}: there is no such program",
            Path::new(program).display()
        ));
        return Ok(exec_shim::NOT_FOUND);
    }
    let job = Job {
        args,
        program,
        out,
        signals: Signals::listen().context("signals cannot be heard")?,
    };
    match args.pid.and_then(Pid::from_raw) {
        Some(pid) => job.attach(pid),
        None => job.wrap(),
    }
}

/// One call of the program.
struct Job<'a> {
    args: &'a RecordArgs,
    program: PathBuf,
    out: PathBuf,
    signals: Signals,
}

impl Job<'_> {
    fn wrap(mut self) -> anyhow::Result<u8> {
        let mut command = Wrapped::start(&self.args.command)?;
        let mut daemon = Daemon::start(&self.program, self.args, &self.out, command.pid())?;
        let addresses = daemon.wait_until_following(&mut self.signals)?;
        self.announce(
            &addresses,
            &format!("{} (process {})", command.name(), command.pid()),
        );
        let variables = if self.args.no_metrics {
            Vec::new()
        } else {
            metrics_variables(&addresses, |name| {
                std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            })
        };
        file::wait_for_process(&self.out, self.interval(), &mut daemon, &mut self.signals)?;
        command.go(&variables)?;
        let mut complained = false;
        let code = loop {
            for signal in self.signals.wait(None, LOOK)? {
                command.pass_on(signal);
            }
            if let Some(code) = command.ended()? {
                break code;
            }
            look_after(&mut daemon, &mut complained);
        };
        match self.finish(daemon, complained) {
            Ok(()) => Ok(code),
            Err(error) => {
                say(&format!("{error:#}"));
                Ok(if code == 0 { 1 } else { code })
            }
        }
    }

    fn attach(mut self, pid: Pid) -> anyhow::Result<u8> {
        let gone = || format!("there is no process {}", pid.as_raw_nonzero());
        let process = pidfd_open(pid, PidfdFlags::empty()).with_context(gone)?;
        let mut daemon = Daemon::start(&self.program, self.args, &self.out, pid)?;
        let addresses = daemon.wait_until_following(&mut self.signals)?;
        self.announce(&addresses, &format!("process {}", pid.as_raw_nonzero()));
        let mut complained = false;
        loop {
            let heard = self.signals.wait(Some(process.as_fd()), LOOK)?;
            if has_ended(&process) || heard.iter().any(|signal: &Heard| signal.asks_to_end()) {
                break;
            }
            anyhow::ensure!(
                daemon.ended()?.is_none(),
                "faultlined has ended:\n{}",
                daemon.tail()
            );
            look_after(&mut daemon, &mut complained);
        }
        let ended = has_ended(&process);
        if ended {
            self.finish(daemon, complained)?
        } else {
            self.end(daemon)?
        }
        Ok(0)
    }

    fn interval(&self) -> Duration {
        self.args.interval.unwrap_or(USUAL_INTERVAL)
    }

    /// Where things are, for people.
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
        match (self.args.pid, std::env::var(recorder::METRICS_CONFIG)) {
            (Some(_), _) => say(&format!(
                "a validator's datapoints come here with {}=\"{value}\"",
                recorder::METRICS_CONFIG
            )),
            (None, Err(_)) if !self.args.no_metrics => {}
            (None, Ok(set)) if !self.args.no_metrics => say(&format!(
                "{} is set to {:?} and stays so: the command's datapoints are not recorded",
                recorder::METRICS_CONFIG,
                wrapped::without_password(&set),
            )),
            (None, _) => say(&format!(
                "no datapoints: they would come here with {}=\"{value}\"",
                recorder::METRICS_CONFIG
            )),
        }
    }

    /// Ends the daemon once the recording knows of the end of the process.
    fn finish(&mut self, mut daemon: Daemon, broken: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !broken,
            "the recording {} has no end: faultlined ended before the command",
            self.out.display()
        );
        file::wait_for_exit(&self.out, self.interval(), &mut daemon, &mut self.signals)?;
        self.end(daemon)
    }

    fn end(&mut self, daemon: Daemon) -> anyhow::Result<()> {
        daemon.end(&mut self.signals)?;
        say(&file::summary(&self.out)?);
        Ok(())
    }
}

/// Shows what the daemon complains about; sets `complained` once it has ended on its own.
fn look_after(daemon: &mut Daemon, complained: &mut bool) {
    for complaint in daemon.complaints() {
        say(&format!("faultlined: {complaint}"));
    }
    if let (false, Ok(Some(status))) = (*complained, daemon.ended()) {
        *complained = true;
        say(&format!(
            "faultlined ended ({status}); the command continues without it:\n{}",
            daemon.tail()
        ));
    }
}

/// Whether a shell would find the program.
fn is_there(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() == 1 && !program.as_encoded_bytes().contains(&b'/') {
        return in_path(program).is_some();
    }
    path.is_file()
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(ready) if ready > 0)
}

/// `NAME-20260131T235959Z.fltl`.
fn usual_name(args: &RecordArgs, now: SystemTime) -> PathBuf {
    let program = args
        .command
        .first()
        .and_then(|program| Path::new(program).file_name());
    let name = match (program, args.pid) {
        (Some(program), _) => program.to_string_lossy().into_owned(),
        (None, Some(pid)) => format!("pid-{pid}"),
        (None, None) => "run".to_owned(),
    };
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{name}-{}.fltl",
        faultline_text::stamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    )
    .into()
}
