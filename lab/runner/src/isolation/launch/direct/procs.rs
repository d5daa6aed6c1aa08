use super::folder::folders;
use crate::isolation::launch::at;
use anyhow::{Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

pub(super) fn list(folder: &Path) -> Result<BTreeSet<i32>> {
    let path = folder.join("cgroup.procs");
    let text = match fs::read_to_string(&path) {
        Err(error) if is_gone(&error) => return Ok(BTreeSet::new()),
        // A threaded cgroup: its parent lists the processes.
        Err(error) if error.kind() == ErrorKind::Unsupported => String::new(),
        text => text.map_err(at(&path))?,
    };
    // 0 is a process outside of this PID namespace.
    let mut all: BTreeSet<i32> = text
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| *pid > 0)
        .collect();
    for inner in folders(folder)? {
        all.extend(list(&inner)?);
    }
    Ok(all)
}

/// Sends a signal to every process of the cgroup. Pids may be reused, so each gets a pidfd before
/// the list is read again.
pub(super) fn signal(folder: &Path, signal: Signal) -> Result<()> {
    let listed = list(folder)?.into_iter().filter_map(Pid::from_raw);
    let current: Vec<_> = listed
        .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        .collect();
    let listed_again = list(folder)?;
    for (pid, descriptor) in current
        .iter()
        .filter(|(pid, _)| listed_again.contains(&pid.as_raw_pid()))
    {
        match pidfd_send_signal(descriptor, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                let words = format!(
                    "process {} in {} cannot be ended: {error}",
                    pid.as_raw_pid(),
                    folder.display()
                );
                bail!(words);
            }
        }
    }
    Ok(())
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}
