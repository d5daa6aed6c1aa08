use crate::isolation::launch::at;
use crate::isolation::tree::{Folder, OpenResult, canonical_or_same};
use anyhow::{Result, bail};
use faultline_kernel::{HostRoot, only_line};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A validator locks this file while it runs.
pub(super) const LOCK: &CStr = c"ledger.lock";

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
    let descriptors = std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let below = |path: &PathBuf| path.starts_with(folder) && !path.is_dir();
    let mut links = std::iter::once(process.join("exe")).chain(descriptors);
    let path = links.find_map(|link| std::fs::read_link(link).ok().filter(below))?;
    let name = root.read_proc(&format!("{pid}/comm"), only_line);
    Some(FolderUser {
        pid,
        name: name.unwrap_or_else(|_| "gone".to_owned()),
        path,
    })
}

/// Locks the ledger, so that no validator starts on it; `None` if the folder has no lock file.
pub(super) fn lock(folder: &Folder) -> Result<Option<OwnedFd>> {
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
