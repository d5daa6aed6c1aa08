//! The daemon that records: started, listened to, ended.

use super::signals::Signals;
use super::{hold, in_path};
use crate::cli::{RecordArgs, WrongUsage};
use anyhow::{Context, anyhow, bail};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

/// The daemon's file name.
const PROGRAM: &str = "faultlined";
/// Its exit code when it was told what cannot be done.
const USAGE: i32 = 64;
/// From look to look, while something is waited for.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Looks until the daemon must follow the process: half a minute at least.
const LOOKS_TO_START: u32 = 600;
/// Looks until the daemon must have ended: it gives each of its four stages seven seconds.
const LOOKS_TO_END: u32 = 800;
/// The same where nobody waits for a whole recording any more.
const LOOKS_TO_GIVE_UP: u32 = 100;
/// Its log is forgotten up to here once it is longer.
const LONGEST_LOG: u64 = 1 << 20;
/// Lines of its log that an error shows.
const SHOWN: usize = 12;

/// A running daemon. Dropping it ends it, in the end by force.
pub(super) struct Daemon {
    child: Child,
    log: Log,
    ended: Option<ExitStatus>,
}

/// Where the daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) metrics: String,
    pub(super) ingest: Option<String>,
}

/// The daemon's program: as given, beside this program, or in `PATH`.
///
/// # Errors
/// There is none.
pub(super) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        anyhow::ensure!(given.is_file(), "--faultlined {}: there is no such file", given.display());
        // Without a folder it would be looked for in PATH.
        return std::path::absolute(given).with_context(|| given.display().to_string());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let found = beside.filter(|file| file.is_file()).or_else(|| in_path(PROGRAM));
    found.with_context(|| {
        format!("{PROGRAM} is neither beside this program nor in PATH: name it with --faultlined FILE")
    })
}

impl Daemon {
    /// Starts it, on free ports unless a configuration file says where.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(program: &Path, args: &RecordArgs, out: &Path, pid: Pid) -> anyhow::Result<Daemon> {
        let log = Log::new().context("no room for the daemon's log")?;
        let mut command = hold::held(program, arguments(args, out, pid), None)?;
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
        let child = command.spawn().with_context(|| program.display().to_string())?;
        Ok(Daemon { child, log, ended: None })
    }

    /// Waits until it listens and follows the process.
    ///
    /// # Errors
    /// It ended (with [`WrongUsage`] if it says so), it takes too long, or a signal asks this program to end.
    pub(super) fn wait_until_following(&mut self, signals: &mut Signals) -> anyhow::Result<Addresses> {
        let mut addresses = None;
        let mut following = false;
        for _ in 0..LOOKS_TO_START {
            for line in self.log.news() {
                addresses = addresses.or_else(|| listening(&line));
                following |= line.contains(" following pid=");
            }
            if let (Some(addresses), true) = (&addresses, following) {
                return Ok(addresses.clone());
            }
            if let Some(status) = self.ended()? {
                let words = format!("{PROGRAM} ended ({status}) before it recorded:\n{}", self.log.tail());
                return Err(if status.code() == Some(USAGE) { WrongUsage(words).into() } else { anyhow!(words) });
            }
            if signals.wait(None, LOOK)?.iter().any(|signal| signal.asks_to_end()) {
                bail!("stopped by a signal before the recording began");
            }
        }
        bail!("{PROGRAM} does not follow the process after half a minute:\n{}", self.log.tail())
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    /// The system cannot say.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.ended = self.child.try_wait().context(PROGRAM)?.or(self.ended);
        Ok(self.ended)
    }

    /// Warnings and errors since the last call, in its words.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        let news = self.log.news();
        news.iter()
            .filter_map(|line| ["WARN ", "ERROR "].iter().find_map(|level| Some(line.split_once(level)?.1.to_owned())))
            .collect()
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
        for _ in 0..LOOKS_TO_END {
            match self.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{PROGRAM} ended with {status}:\n{}", self.log.tail()),
                // What comes now is for nobody.
                None => drop(signals.wait(None, LOOK)?),
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
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(args: &RecordArgs, out: &Path, pid: Pid) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["run".into()];
    match &args.config {
        // Who writes a file says there where to listen, or that there is a log to read instead.
        Some(config) => all.extend([OsString::from("--config"), config.into()]),
        None => all.extend(["--listen", "127.0.0.1:0", "--ingest", "127.0.0.1:0"].map(OsString::from)),
    }
    all.push("--pid".into());
    all.push(pid.as_raw_nonzero().to_string().into());
    all.extend([OsString::from("--record"), out.into()]);
    if let Some(interval) = args.interval {
        all.extend(["--interval".into(), OsString::from(format!("{}ms", interval.as_millis()))]);
    }
    for (key, value) in &args.labels {
        all.extend(["--label".into(), OsString::from(format!("{key}={value}"))]);
    }
    all
}

/// The daemon's line `listening metrics=ADDRESS ingest=ADDRESS`.
fn listening(line: &str) -> Option<Addresses> {
    let words = line.split_once(" listening ")?.1;
    let word = |key: &str| words.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
    Some(Addresses { metrics: word("metrics=")?, ingest: word("ingest=") })
}

/// The daemon's log: a file in memory. A pipe would break in the daemon's hands if this program were killed, while it
/// finishes the recording.
struct Log {
    file: File,
    read: u64,
}

impl Log {
    fn new() -> std::io::Result<Self> {
        let file = memfd_create(PROGRAM, MemfdFlags::CLOEXEC)?;
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::APPEND)?;
        Ok(Log { file: file.into(), read: 0 })
    }

    fn to_write(&self) -> std::io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// Whole lines that were not there at the last call.
    fn news(&mut self) -> Vec<String> {
        let text = self.text(self.read);
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = text[..whole].lines().map(str::to_owned).collect();
        if self.read > LONGEST_LOG && self.file.set_len(0).is_ok() {
            self.read = 0;
        }
        lines
    }

    fn tail(&self) -> String {
        let text = self.text(0);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }

    fn text(&self, from: u64) -> String {
        let length = self.file.metadata().map_or(0, |meta| meta.len()).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, from) {
            // What is not UTF-8 keeps its length in bytes, since the place to go on from is counted in them.
            Ok(()) => bytes.into_iter().map(|byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect(),
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn addresses_are_read_from_the_log() {
        let line = "2026-01-01T00:00:00.000000Z  INFO listening metrics=127.0.0.1:4 ingest=127.0.0.1:5";
        let found = Addresses { metrics: "127.0.0.1:4".to_owned(), ingest: Some("127.0.0.1:5".to_owned()) };
        assert_eq!(listening(line), Some(found));
        assert_eq!(listening("INFO listening metrics=[::1]:4").unwrap().ingest, None);
        assert_eq!(listening("INFO following pid=4"), None);
    }

    #[test]
    fn the_log_is_read_line_by_line_and_does_not_grow_without_end() {
        let mut log = Log::new().unwrap();
        let mut daemon = log.file.try_clone().unwrap();
        daemon.write_all("one\ntwo \u{fc}\nhal".as_bytes()).unwrap();
        assert_eq!(log.news(), ["one", "two ??"]);
        daemon.write_all(b"f\n").unwrap();
        assert_eq!(log.news(), ["half"]);
        assert_eq!(log.tail(), "one\ntwo ??\nhalf");
        let line = [b"x".repeat(99).as_slice(), b"\n"].concat();
        for _ in 0..20_000 {
            daemon.write_all(&line).unwrap();
        }
        assert_eq!(log.news().len(), 20_000);
        daemon.write_all(b"after\n").unwrap();
        assert_eq!((log.news(), log.tail().as_str()), (vec!["after".to_owned()], "after"));
    }
}
