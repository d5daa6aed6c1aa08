use super::{LEDGER_LOCK, contents, has_marker, lock_ledger, open_marked, users};
use crate::isolation::{
    launch::path_error,
    tree::{Folder, MAX_DEPTH, OTHER_MOUNT, OpenResult, disk_bytes, kind},
};
use anyhow::{Result, bail};
use faultline_kernel::HostRoot;
use rustix::{
    fs::{AtFlags, FileType, Stat, unlinkat},
    io::Errno,
};
use std::{
    ffi::CStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Limit of [`would_clear`]'s list: a ledger may have a million files.
pub const LISTED: usize = 10_000;

/// Larger than a keypair file with each of its 64 numbers on an indented line.
const MAX_KEYPAIR_BYTES: u64 = 4096;

const KEYPAIR_LENGTH: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Includes links, sockets and the like, but not folders.
    pub files: u64,
    /// Disk space in bytes.
    pub bytes: u64,
    /// Only from [`would_clear`]: the first [`LISTED`] files.
    pub listed: Vec<PathBuf>,
    /// Entries that stayed, with the reason. Does not include the marker, the ledger's lock and
    /// `lost+found`.
    pub retained: Vec<RetainedEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedEntry {
    pub path: PathBuf,
    pub why: &'static str,
}

/// Deletes the contents of a marked folder. Keypairs and tower files stay, with their folders; so
/// do other mounts and folders with their own marker. Symbolic links are deleted, not their
/// targets. Holds the ledger's lock meanwhile.
///
/// # Errors
/// Nothing was deleted if the folder is not marked, a validator holds a ledger's lock in it, or a
/// process has a file open in it. Some files may be deleted after an error of the file system.
pub fn clear(folder: &Path, root: &HostRoot) -> Result<Cleared> {
    let top = open_unused(folder, root)?;
    let mut inspection = Walk::default();
    inspection.folder(&top, 0)?;
    let mut walk = Walk {
        deletes: true,
        locks: inspection.locks,
        ..Walk::default()
    };
    walk.folder(&top, 0)?;
    Ok(walk.cleared)
}

pub fn would_clear(folder: &Path, root: &HostRoot) -> Result<Cleared> {
    let top = open_unused(folder, root)?;
    let mut walk = Walk {
        max_listed: LISTED,
        ..Walk::default()
    };
    walk.folder(&top, 0)?;
    Ok(walk.cleared)
}

fn open_unused(folder: &Path, root: &HostRoot) -> Result<Folder> {
    let users = users(root, folder);
    if let Some(first) = users.first() {
        let more = if users.len() > 1 {
            format!(", and {} more", users.len() - 1)
        } else {
            String::new()
        };
        bail!(
            "{} is in use: {first}{more}; end it first",
            folder.display()
        );
    }
    open_marked(folder)
}

#[derive(Default)]
struct Walk {
    deletes: bool,
    max_listed: usize,
    cleared: Cleared,
    locks: Vec<OwnedFd>,
}

impl Walk {
    fn folder(&mut self, folder: &Folder, depth: usize) -> Result<()> {
        if !self.deletes {
            self.locks.extend(lock_ledger(folder)?);
        }
        for name in contents(folder, depth)? {
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

    fn below(&mut self, folder: &Folder, name: &CStr, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return self.keep(folder, name, "nested too deep");
        }
        let below = match folder.enter(name)? {
            OpenResult::Open(below) => below,
            OpenResult::OtherMount => return self.keep(folder, name, OTHER_MOUNT),
            OpenResult::Changed => {
                return self.keep(folder, name, "it changed while it was inspected");
            }
        };
        if has_marker(&below)? {
            return self.keep(folder, name, "a folder of experiments of its own");
        }
        let retained = self.cleared.retained.len();
        let locked = below.stat(LEDGER_LOCK)?.is_some();
        self.folder(&below, depth)?;
        if !self.deletes {
            return Ok(());
        }
        match unlinkat(&folder.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // It contains retained entries, which are reported already.
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if locked || self.cleared.retained.len() > retained =>
            {
                Ok(())
            }
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
                self.keep(folder, name, "a new entry appeared while it was cleared")
            }
            Err(Errno::BUSY) => self.keep(folder, name, OTHER_MOUNT),
            Err(errno) => Err(path_error(&folder.join(name))(errno)),
        }
    }

    fn file(&mut self, folder: &Folder, name: &CStr, stat: &Stat) -> Result<()> {
        if let Some(why) = protection(folder, name, stat)? {
            return self.keep(folder, name, why);
        }
        if self.deletes {
            match unlinkat(&folder.fd, name, AtFlags::empty()) {
                Ok(()) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::ISDIR) => {
                    return self.keep(folder, name, "it changed while it was looked at");
                }
                Err(Errno::BUSY) => return self.keep(folder, name, OTHER_MOUNT),
                Err(errno) => return Err(path_error(&folder.join(name))(errno)),
            }
        }
        self.cleared.files += 1;
        if self.cleared.listed.len() < self.max_listed {
            self.cleared.listed.push(folder.join(name));
        }
        self.cleared.bytes = self.cleared.bytes.saturating_add(disk_bytes(stat));
        Ok(())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the end of functions that return it"
    )]
    fn keep(&mut self, folder: &Folder, name: &CStr, why: &'static str) -> Result<()> {
        self.cleared.retained.push(RetainedEntry {
            path: folder.join(name),
            why,
        });
        Ok(())
    }
}

/// Why a file is not deleted; `None` if it may be deleted. `stat` is of the entry itself. Fails if a small
/// file cannot be read, because it may be a keypair.
pub fn protection(folder: &Folder, name: &CStr, stat: &Stat) -> Result<Option<&'static str>> {
    if let Some(why) = by_name(name.to_bytes()) {
        return Ok(Some(why));
    }
    let small =
        u64::try_from(stat.st_size).is_ok_and(|size| (1..=MAX_KEYPAIR_BYTES).contains(&size));
    if kind(stat) != FileType::RegularFile || !small {
        return Ok(None);
    }
    let text = folder.read(name, MAX_KEYPAIR_BYTES)?;
    Ok(text
        .is_some_and(|text| is_keypair(&text))
        .then_some("a keypair"))
}

fn by_name(name: &[u8]) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    if name.starts_with(b"tower") {
        Some("a tower file")
    } else if name.ends_with(b".json") && (has(b"keypair") || has(b"identity")) {
        Some("a keypair by its name")
    } else {
        None
    }
}

fn is_keypair(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
        && serde_json::from_slice::<Vec<u8>>(text)
            .is_ok_and(|numbers| numbers.len() == KEYPAIR_LENGTH)
}
