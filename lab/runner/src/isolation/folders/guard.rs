//! Who uses a folder: validators, other processes, and other experiments.

use crate::isolation::{
    launch::at,
    tree::{Folder, OpenResult, canonical_or_same},
};
use anyhow::{Result, bail};
use faultline_common::lock::flock_with_retries;
use faultline_kernel::{HostRoot, only_line};
use rustix::{fs::FlockOperation, io::Errno};
use std::{
    ffi::{CStr, OsString},
    fmt,
    fs::{self, File, read_dir, read_link},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// A validator locks this file while it runs.
pub const LOCK: &CStr = c"ledger.lock";

const MAX_USERS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderUser {
    pub pid: u32,
    pub name: String,
    pub path: PathBuf,
}

impl fmt::Display for FolderUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} ({}) has {} open",
            self.pid,
            self.name,
            self.path.display()
        )
    }
}

/// Processes with a file open in the folder, or whose program lies in it; at most 16, each with one
/// file. A current directory or a directory listing (a shell, `du`) does not count.
///
/// Uses the kernel's paths. It does not find other users' processes without privilege, files that
/// are only mapped, or processes that see the folder under another path.
pub fn users(root: &HostRoot, folder: &Path) -> Vec<FolderUser> {
    let folder = canonical_or_same(folder);
    let mut pids = root.pids().unwrap_or_default();
    pids.sort_unstable();
    pids.into_iter()
        .filter_map(|pid| folder_user(root, pid, &folder))
        .take(MAX_USERS)
        .collect()
}

fn folder_user(root: &HostRoot, pid: u32, folder: &Path) -> Option<FolderUser> {
    let process = root.procfs.join(pid.to_string());
    let open = open_files(&process).map(|(_, path)| path);
    let path = read_link(process.join("exe"))
        .into_iter()
        .chain(open)
        .find(|path| path.starts_with(folder) && !path.is_dir())?;
    let name = root.read_proc(&format!("{pid}/comm"), only_line);
    Some(FolderUser {
        pid,
        name: name.unwrap_or_else(|_| "gone".to_owned()),
        path,
    })
}

/// The descriptors of a process, each with its path.
fn open_files(process: &Path) -> impl Iterator<Item = (OsString, PathBuf)> {
    let descriptors = read_dir(process.join("fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| Some((entry.file_name(), read_link(entry.path()).ok()?)))
}

/// Locks the ledger, so that no validator starts on it; `None` if the folder has no lock file.
pub fn lock(folder: &Folder) -> Result<Option<OwnedFd>> {
    let OpenResult::Open((file, _)) = folder.file(LOCK)? else {
        return Ok(None);
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            let path = folder.join(LOCK);
            bail!(
                "{} is locked: a validator runs on this ledger; end it first",
                path.display()
            )
        }
        Err(errno) => Err(at(&folder.join(LOCK))(errno)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Exclusive: to clear, fill and run in the folder.
    Work,
    /// Shared: to copy from the folder.
    Source,
}

/// Held until it is dropped or the process ends. Executed programs do not inherit it.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held, not used")] File);

/// Another process has the lock.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InUse(pub String);

/// Locks a folder, marked or not, under any of its paths. The error names the holder if it can be
/// seen.
pub fn lock_folder(folder: &Path, purpose: Purpose, root: &HostRoot) -> Result<FolderLock> {
    let file = File::open(folder).map_err(at(folder))?;
    let operation = match purpose {
        Purpose::Work => FlockOperation::NonBlockingLockExclusive,
        Purpose::Source => FlockOperation::NonBlockingLockShared,
    };
    match flock_with_retries(&file, operation) {
        Ok(()) => Ok(FolderLock(file)),
        Err(Errno::WOULDBLOCK) => {
            let who = holder(root, folder)
                .unwrap_or_else(|| "a process that cannot be seen from here".to_owned());
            let folder = folder.display();
            let what = format!("{folder} is in use by another experiment: {who}; wait for it");
            Err(InUse(what).into())
        }
        Err(errno) => Err(at(folder)(errno)),
    }
}

fn holder(root: &HostRoot, folder: &Path) -> Option<String> {
    let folder = canonical_or_same(folder);
    let holds = |process: &Path| {
        open_files(process)
            .filter(|(_, path)| *path == folder)
            .any(|(descriptor, _)| {
                let info = fs::read_to_string(process.join("fdinfo").join(descriptor));
                let is_lock = |line: &str| line.starts_with("lock:") && line.contains("FLOCK");
                info.is_ok_and(|info| info.lines().any(is_lock))
            })
    };
    let pid = root
        .pids()
        .ok()?
        .into_iter()
        .find(|pid| holds(&root.procfs.join(pid.to_string())))?;
    let words = fs::read(root.procfs.join(format!("{pid}/cmdline"))).unwrap_or_default();
    let words =
        String::from_utf8_lossy(words.trim_ascii_end().strip_suffix(b"\0").unwrap_or(&words))
            .replace('\0', " ");
    Some(if words.is_empty() {
        format!("process {pid}")
    } else {
        format!("process {pid} (`{words}`)")
    })
}
