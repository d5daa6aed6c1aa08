use super::{
    LEDGER_LOCK, has_marker, lock_ledger, names_without_marker_and_lock, open_marked,
    processes_using,
};
use crate::isolation::{
    file_tree::{Folder, MAX_DEPTH, OTHER_MOUNT, OpenResult, disk_bytes, kind},
    launch::WithPath,
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
pub const MAX_LISTED: usize = 10_000;

/// A keypair file with each number on an indented line is smaller.
const MAX_KEYPAIR_BYTES: u64 = 4096;

const KEYPAIR_LENGTH: usize = 64;

#[derive(Debug, Default, PartialEq)]
pub struct ClearSummary {
    /// Includes links, sockets and the like, but not folders.
    pub files: u64,
    /// Disk space in bytes.
    pub bytes: u64,
    /// The first [`MAX_LISTED`] files. [`clear`] lists none.
    pub listed: Vec<PathBuf>,
    /// Entries that stayed. The marker, the ledger's lock and `lost+found` also stay, but are not
    /// listed.
    pub retained: Vec<SkippedEntry>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SkippedEntry {
    pub path: PathBuf,
    pub reason: &'static str,
}

/// Deletes the contents of a marked folder. These stay: keypairs and tower files with their
/// folders, other mounts, and folders with their own marker. Symbolic links are deleted, not their
/// targets. Locks all ledgers meanwhile. Deletes nothing if the folder is not marked, a validator
/// has locked a ledger in it, or a process has a file open in it.
pub fn clear(folder: &Path, root: &HostRoot) -> Result<ClearSummary> {
    let top = open_unused(folder, root)?;
    let mut inspection = ClearWalk::default();
    inspection.visit_folder(&top, 0)?;
    let mut walk = ClearWalk {
        deletes: true,
        locks: inspection.locks,
        ..ClearWalk::default()
    };
    walk.visit_folder(&top, 0)?;
    Ok(walk.summary)
}

pub fn would_clear(folder: &Path, root: &HostRoot) -> Result<ClearSummary> {
    let top = open_unused(folder, root)?;
    let mut walk = ClearWalk {
        max_listed: MAX_LISTED,
        ..ClearWalk::default()
    };
    walk.visit_folder(&top, 0)?;
    Ok(walk.summary)
}

fn open_unused(folder: &Path, root: &HostRoot) -> Result<Folder> {
    let processes = processes_using(root, folder);
    if let Some(first) = processes.first() {
        let more = if processes.len() > 1 {
            format!(", and {} more", processes.len() - 1)
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
struct ClearWalk {
    /// False in a dry run, and in the pass that inspects and locks before anything is deleted.
    deletes: bool,
    max_listed: usize,
    summary: ClearSummary,
    /// Locks of all ledgers in the folder.
    locks: Vec<OwnedFd>,
}

impl ClearWalk {
    fn visit_folder(&mut self, folder: &Folder, depth: usize) -> Result<()> {
        if !self.deletes {
            self.locks.extend(lock_ledger(folder)?);
        }
        for name in names_without_marker_and_lock(folder, depth)? {
            let Some(stat) = folder.stat(&name)? else {
                continue;
            };
            match kind(&stat) {
                FileType::Directory => self.visit_subfolder(folder, &name, depth + 1)?,
                _ => self.visit_file(folder, &name, &stat)?,
            }
        }
        Ok(())
    }

    fn visit_subfolder(&mut self, folder: &Folder, name: &CStr, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return self.retain(folder, name, "nested too deep");
        }
        let subfolder = match folder.enter(name)? {
            OpenResult::Open(subfolder) => subfolder,
            OpenResult::OtherMount => return self.retain(folder, name, OTHER_MOUNT),
            OpenResult::Changed => {
                return self.retain(folder, name, "it changed while it was inspected");
            }
        };
        if has_marker(&subfolder)? {
            return self.retain(
                folder,
                name,
                "it is marked as a folder of experiments itself",
            );
        }
        let retained_before = self.summary.retained.len();
        let has_lock = subfolder.stat(LEDGER_LOCK)?.is_some();
        self.visit_folder(&subfolder, depth)?;
        if !self.deletes {
            return Ok(());
        }
        match unlinkat(&folder.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // It contains the ledger's lock, which is never listed, or retained entries, which are
            // listed already.
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if has_lock || self.summary.retained.len() > retained_before =>
            {
                Ok(())
            }
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
                self.retain(folder, name, "a new entry appeared while it was cleared")
            }
            Err(Errno::BUSY) => self.retain(folder, name, OTHER_MOUNT),
            Err(errno) => Err(errno).with_path(&folder.join(name)),
        }
    }

    fn visit_file(&mut self, folder: &Folder, name: &CStr, stat: &Stat) -> Result<()> {
        if let Some(reason) = protection(folder, name, stat)? {
            return self.retain(folder, name, reason);
        }
        if self.deletes {
            match unlinkat(&folder.fd, name, AtFlags::empty()) {
                Ok(()) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::ISDIR) => {
                    return self.retain(folder, name, "it changed while it was inspected");
                }
                Err(Errno::BUSY) => return self.retain(folder, name, OTHER_MOUNT),
                Err(errno) => return Err(errno).with_path(&folder.join(name)),
            }
        }
        self.summary.files += 1;
        if self.summary.listed.len() < self.max_listed {
            self.summary.listed.push(folder.join(name));
        }
        self.summary.bytes = self.summary.bytes.saturating_add(disk_bytes(stat));
        Ok(())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "callers return its result directly"
    )]
    fn retain(&mut self, folder: &Folder, name: &CStr, reason: &'static str) -> Result<()> {
        self.summary.retained.push(SkippedEntry {
            path: folder.join(name),
            reason,
        });
        Ok(())
    }
}

/// Why a file is not deleted; `None` if it may be deleted. `stat` is of the entry itself. Fails if
/// a small file cannot be read, because it may be a keypair.
pub fn protection(folder: &Folder, name: &CStr, stat: &Stat) -> Result<Option<&'static str>> {
    if let Some(reason) = protection_by_name(name.to_bytes()) {
        return Ok(Some(reason));
    }
    let is_small =
        u64::try_from(stat.st_size).is_ok_and(|size| (1..=MAX_KEYPAIR_BYTES).contains(&size));
    if kind(stat) != FileType::RegularFile || !is_small {
        return Ok(None);
    }
    let text = folder.read(name, MAX_KEYPAIR_BYTES)?;
    Ok(text
        .is_some_and(|text| is_keypair(&text))
        .then_some("a keypair"))
}

fn protection_by_name(name: &[u8]) -> Option<&'static str> {
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
