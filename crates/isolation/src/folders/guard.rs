//! Who uses a folder.

use crate::Error;
use crate::tree::{Entered, Folder};
use faultline_kernel::HostRoot;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Locked by a validator as long as it lives.
pub(super) const LOCK: &CStr = c"ledger.lock";

/// More are not listed.
const MOST: usize = 16;

/// A process that uses a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    pub pid: u32,
    /// Its name, as the kernel cuts it.
    pub name: String,
    /// What it has open there.
    pub path: PathBuf,
}

impl fmt::Display for Use {
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

/// Processes with a file open in a folder, or whose program lies in it; 16 at most, each with one file. Who only stands in it
/// or lists it, as a shell or `du` does, does not use it. By the paths that the kernel gives: processes of other users are
/// not seen without a right to, nor files that are only mapped, nor those of a process that sees the folder by another name.
pub fn users(root: &HostRoot, folder: &Path) -> Vec<Use> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut pids = root.pids().unwrap_or_default();
    pids.sort_unstable();
    pids.into_iter()
        .filter_map(|pid| used(root, pid, &folder))
        .take(MOST)
        .collect()
}

fn used(root: &HostRoot, pid: u32, folder: &Path) -> Option<Use> {
    let process = root.procfs.join(pid.to_string());
    let descriptors = std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let below = |path: &PathBuf| path.starts_with(folder) && !path.is_dir();
    let mut links = std::iter::once(process.join("exe")).chain(descriptors);
    let path = links.find_map(|link| std::fs::read_link(link).ok().filter(below))?;
    let name = root.read_proc(&format!("{pid}/comm"), |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    });
    Some(Use {
        pid,
        name: name.unwrap_or_else(|_| "gone".to_owned()),
        path,
    })
}

/// The lock of a ledger, taken, so that no validator begins on it while it is held; `None` if the folder has no such file.
pub(super) fn lock(folder: &Folder) -> Result<Option<OwnedFd>, Error> {
    let Entered::Open((file, _)) = folder.file(LOCK)? else {
        return Ok(None);
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            let path = folder.join(LOCK);
            Err(Error::Refused(format!(
                "{} is locked: a validator runs on this ledger; end it first",
                path.display()
            )))
        }
        Err(errno) => Err(crate::tree::failed(&folder.join(LOCK), errno)),
    }
}
