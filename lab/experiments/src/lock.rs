//! An experiment has at most one runner, whose pid is in the lock file. At most one experiment
//! locks a work folder.

use super::plan::Plan;
use anyhow::{Context, Result};
use faultline_common::{
    files::{AtPath, open_regular},
    lock::flock_with_retries,
};
use faultline_kernel::{
    HostRoot,
    parse::pid_stat::{self, State},
};
use faultline_runner::isolation::folders::{FolderLock, InUse, Purpose, lock_folder};
use faultline_text::shell_quoted;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The lock is released when this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The next holder has the lock for a moment before it writes its own pid.
        let _ = self.0.set_len(0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Holder {
    Free,
    /// `None` if the process has not written its pid yet.
    Process(Option<u32>),
}

impl Lock {
    /// Fails if another runner has the lock for longer than a second.
    pub fn take(path: &Path) -> Result<Self> {
        let folder = shell_quoted(path.parent().unwrap_or(path));
        Self::take_with_message(path, |process| {
            format!(
                "this experiment is being run already{process}; `faultline experiment stop {folder}` stops it"
            )
        })
    }

    /// `message` returns the text of the error. Its argument is ` (process N)`, or empty if the pid
    /// is unknown.
    pub fn take_with_message(path: &Path, message: impl FnOnce(String) -> String) -> Result<Self> {
        // Not truncated: the file may have the pid of another process. A symbolic link is an error.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .at(path)?;
        match flock_with_retries(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let process = read_pid(path).map(|pid| format!(" (process {pid})"));
                return Err(InUse(message(process.unwrap_or_default())).into());
            }
            Err(error) => return Err(error).at(path),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .at(path)?;
        Ok(Self(file))
    }
}

/// No other experiment may change the folders between runs.
pub fn lock_folders(plan: &Plan) -> Result<Vec<FolderLock>> {
    let lock = |folder, purpose| lock_folder(folder, purpose, &HostRoot::default());
    let source = plan.restored_from().map(|from| lock(from, Purpose::Source));
    plan.work_folders()
        .map(|folder| lock(folder, Purpose::Work))
        .chain(source)
        .collect()
}

pub fn holder(path: &Path) -> Result<Holder> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Holder::Free),
        open => open.at(path)?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Holder::Free),
        Err(Errno::WOULDBLOCK) => Ok(Holder::Process(read_pid(path))),
        Err(error) => Err(error).at(path),
    }
}

/// Sends SIGTERM to the holder with this pid. Returns false if it has ended.
pub fn terminate_holder(path: &Path, pid: u32) -> Result<bool> {
    let process = Pid::from_raw(pid.cast_signed())
        .ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    // After the holder's end, another process may get its pid. The second query shows that the
    // holder had not ended when `pidfd_open` opened the process.
    if holder(path)? != Holder::Process(Some(pid)) {
        return Ok(false);
    }
    match process.and_then(|process| pidfd_send_signal(process, Signal::TERM)) {
        Err(Errno::SRCH) => Ok(false),
        sent => sent
            .map(|()| true)
            .with_context(|| format!("process {pid}")),
    }
}

pub fn is_suspended(pid: u32) -> bool {
    let stat = HostRoot::default().read_proc(&format!("{pid}/stat"), pid_stat::parse);
    stat.is_ok_and(|stat| matches!(stat.state, State::Stopped | State::TracingStop))
}

fn read_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path)
        .ok()?
        .trim()
        .parse()
        .ok()
        .filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_until_dropped_and_its_owner_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(holder(&path).unwrap(), Holder::Free);
        let lock = Lock::take(&path).unwrap();
        let own = std::process::id();
        assert_eq!(holder(&path).unwrap(), Holder::Process(Some(own)));
        assert!(
            Lock::take(&path)
                .unwrap_err()
                .to_string()
                .contains(&format!("process {own}"))
        );
        drop(lock);
        assert_eq!(holder(&path).unwrap(), Holder::Free);
        assert!(Lock::take(&path).is_ok());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test ends the process itself"
    )]
    fn a_process_that_does_not_hold_the_lock_gets_no_signal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _lock = Lock::take(&path).unwrap();
        let mut other = std::process::Command::new("sleep");
        let mut other = other.arg("60").spawn().unwrap();
        let pid = other.id();
        assert!(!terminate_holder(&path, pid).unwrap());
        assert_eq!(other.try_wait().unwrap(), None);
        std::fs::write(&path, pid.to_string()).unwrap();
        assert!(terminate_holder(&path, pid).unwrap());
        assert!(!other.wait().unwrap().success());
        assert!(!terminate_holder(&path, pid).unwrap(), "it has ended");
    }

    #[test]
    fn a_device_in_place_of_the_lock_is_not_opened() {
        let error = format!("{:#}", holder(Path::new("/dev/null")).unwrap_err());
        assert!(
            error.starts_with("/dev/null: is not a regular file"),
            "{error}"
        );
    }

    #[test]
    fn a_released_lock_has_no_pid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        drop(Lock::take(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
