//! Files and processes of a cgroup's folder.

use super::WithPath;
use anyhow::{Result, bail};
use faultline_kernel::ParseError;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    collections::BTreeSet,
    fmt::Display,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

pub fn read(folder: &Path, file: &str) -> Result<String> {
    let path = folder.join(file);
    fs::read_to_string(&path).with_path(&path)
}

/// `None` if this kernel or this cgroup does not have the file.
pub fn read_optional(folder: &Path, file: &str) -> Result<Option<String>> {
    let path = folder.join(file);
    match fs::read_to_string(&path) {
        // With psi=0 pressure files exist, but reading them fails with "unsupported".
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
            Ok(None)
        }
        text => text.map(Some).with_path(&path),
    }
}

pub fn parse_optional<T>(
    folder: &Path,
    file: &str,
    parse: fn(&[u8]) -> Result<T, ParseError>,
) -> Result<Option<T>> {
    let text = read_optional(folder, file)?;
    Ok(text
        .map(|text| parse(text.as_bytes()))
        .transpose()
        .map_err(|error| error.at(folder.join(file)))?)
}

pub fn write(folder: &Path, file: &str, value: impl Display) -> Result<()> {
    let path = folder.join(file);
    fs::write(&path, value.to_string()).with_path(&path)
}

pub fn has_word(folder: &Path, file: &str, word: &str) -> bool {
    fs::read_to_string(folder.join(file))
        .unwrap_or_default()
        .split_whitespace()
        .any(|other| other == word)
}

pub fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_path(folder)?,
    };
    Ok(entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect())
}

/// Processes of the cgroup and of all cgroups below it.
pub fn processes(folder: &Path) -> Result<BTreeSet<i32>> {
    let path = folder.join("cgroup.procs");
    let text = match fs::read_to_string(&path) {
        Err(error) if is_gone(&error) => return Ok(BTreeSet::new()),
        // A threaded cgroup: its parent lists the processes.
        Err(error) if error.kind() == ErrorKind::Unsupported => String::new(),
        text => text.with_path(&path)?,
    };
    // 0 is a process outside of this PID namespace.
    let mut all: BTreeSet<i32> = text
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| *pid > 0)
        .collect();
    for inner in subfolders(folder)? {
        all.extend(processes(&inner)?);
    }
    Ok(all)
}

/// Signals every process of the cgroup but `skipped`, since several v1 cgroups list a process;
/// returns the signalled ones. A pid may be reused before its pidfd is open, so the cgroup must
/// still list the pid afterwards.
pub fn signal(folder: &Path, signal: Signal, skipped: &BTreeSet<i32>) -> Result<BTreeSet<i32>> {
    let open = |pid: i32| {
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty());
        Some((pid, process.ok()?))
    };
    let current: Vec<_> = processes(folder)?
        .difference(skipped)
        .copied()
        .filter_map(open)
        .collect();
    let listed_again = processes(folder)?;
    let mut signalled = BTreeSet::new();
    for (pid, process) in current {
        if !listed_again.contains(&pid) {
            continue;
        }
        match pidfd_send_signal(&process, signal) {
            Ok(()) | Err(Errno::SRCH) => signalled.insert(pid),
            Err(error) => {
                let folder = folder.display();
                bail!("process {pid} in {folder} cannot be ended: {error}");
            }
        };
    }
    Ok(signalled)
}

pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}
