//! Clearing: a walk by descriptors, which deletes or only counts.

use super::{guard, keep, marker};
use crate::Error;
use crate::tree::{DEEPEST, ELSEWHERE, Entered, Folder, disk_bytes, failed, kind};
use faultline_kernel::HostRoot;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Files that [`would_clear`] lists at most: a ledger may have a million.
pub const LISTED: usize = 10_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Files that went: links, sockets and the like too, folders not.
    pub files: u64,
    /// The room they had on disk, in bytes.
    pub bytes: u64,
    /// Of [`would_clear`]: the files that would go, the first [`LISTED`] that were found.
    pub listed: Vec<PathBuf>,
    /// What stayed, with its reason, but for the marker, the lock of the ledger and a `lost+found`.
    pub retained: Vec<RetainedEntry>,
}

/// Something that was not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedEntry {
    pub path: PathBuf,
    pub why: &'static str,
}

/// Deletes what is in a marked folder. Keypairs and tower files stay, with the folders that they are in; so do other
/// mounts, and folders with a marker of their own. A symbolic link goes, what it leads to does not. The ledger's lock is
/// held meanwhile.
///
/// # Errors
/// The folder is not marked, a validator holds a ledger's lock in it, a process has a file open in it: nothing was deleted
/// then. The file system refuses: some may be.
pub fn clear(folder: &Path, root: &HostRoot) -> Result<Cleared, Error> {
    let top = ready(folder, root)?;
    let first = Walk::new(false, 0).all(&top)?;
    let mut walk = Walk::new(true, 0);
    walk.locks = first.locks;
    walk.all(&top).map(|walk| walk.cleared)
}

/// What [`clear`] would do now; deletes nothing.
pub fn would_clear(folder: &Path, root: &HostRoot) -> Result<Cleared, Error> {
    let top = ready(folder, root)?;
    Walk::new(false, LISTED).all(&top).map(|walk| walk.cleared)
}

fn ready(folder: &Path, root: &HostRoot) -> Result<Folder, Error> {
    let users = guard::users(root, folder);
    if let Some(first) = users.first() {
        let more = if users.len() > 1 {
            format!(", and {} more processes", users.len() - 1)
        } else {
            String::new()
        };
        return Err(Error::Refused(format!(
            "{} is in use: {first}{more}; end it first",
            folder.display()
        )));
    }
    marker::open_marked(folder)
}

struct Walk {
    really: bool,
    /// Files that are listed at most.
    lists: usize,
    cleared: Cleared,
    /// Held until all is done.
    locks: Vec<OwnedFd>,
}

impl Walk {
    fn new(really: bool, lists: usize) -> Self {
        Walk {
            really,
            lists,
            cleared: Cleared::default(),
            locks: Vec::new(),
        }
    }

    fn all(mut self, top: &Folder) -> Result<Self, Error> {
        self.folder(top, 0)?;
        Ok(self)
    }

    fn folder(&mut self, folder: &Folder, depth: usize) -> Result<(), Error> {
        if !self.really {
            self.locks.extend(guard::lock(folder)?);
        }
        for name in folder.names()? {
            let stays = name.as_c_str() == guard::LOCK
                || (depth == 0
                    && [marker::NAME, marker::LOST_AND_FOUND].contains(&name.as_c_str()));
            if stays {
                continue;
            }
            let Some(stat) = folder.stat(&name)? else {
                continue;
            };
            match kind(&stat) {
                FileType::Directory => self.below(folder, &name, depth + 1)?,
                _ => self.file(folder, &name, &stat)?,
            }
        }
        Ok(())
    }

    fn below(&mut self, folder: &Folder, name: &CStr, depth: usize) -> Result<(), Error> {
        if depth > DEEPEST {
            return self.keep(folder, name, "nested too deep");
        }
        let below = match folder.enter(name)? {
            Entered::Open(below) => below,
            Entered::Elsewhere => return self.keep(folder, name, ELSEWHERE),
            Entered::Changed => {
                return self.keep(folder, name, "it changed while it was looked at");
            }
        };
        if marker::has_name(&below)? {
            return self.keep(folder, name, "a folder of experiments of its own");
        }
        let retained = self.cleared.retained.len();
        let locked = below.stat(guard::LOCK)?.is_some();
        self.folder(&below, depth)?;
        if !self.really {
            return Ok(());
        }
        match rustix::fs::unlinkat(folder.fd(), name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // It holds what was kept, which has been told.
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if locked || self.cleared.retained.len() > retained =>
            {
                Ok(())
            }
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
                self.keep(folder, name, "something came while it was cleared")
            }
            Err(Errno::BUSY) => self.keep(folder, name, ELSEWHERE),
            Err(errno) => Err(failed(&folder.join(name), errno)),
        }
    }

    fn file(&mut self, folder: &Folder, name: &CStr, stat: &Stat) -> Result<(), Error> {
        if let Some(why) = keep::reason(folder, name, stat)? {
            return self.keep(folder, name, why);
        }
        if self.really {
            match rustix::fs::unlinkat(folder.fd(), name, AtFlags::empty()) {
                Ok(()) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::ISDIR) => {
                    return self.keep(folder, name, "it changed while it was looked at");
                }
                Err(Errno::BUSY) => return self.keep(folder, name, ELSEWHERE),
                Err(errno) => return Err(failed(&folder.join(name), errno)),
            }
        }
        self.cleared.files += 1;
        if self.cleared.listed.len() < self.lists {
            self.cleared.listed.push(folder.join(name));
        }
        self.cleared.bytes = self.cleared.bytes.saturating_add(disk_bytes(stat));
        Ok(())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the end of functions that return it"
    )]
    fn keep(&mut self, folder: &Folder, name: &CStr, why: &'static str) -> Result<(), Error> {
        self.cleared.retained.push(RetainedEntry {
            path: folder.join(name),
            why,
        });
        Ok(())
    }
}
