//! The folders of an experiment. Files are deleted or written only in a folder with the [`MARKER`].
//! Only [`init`] sets it, on a folder that it creates or finds empty.

mod clear;
mod restore;

pub use clear::{ClearSummary, MAX_LISTED, SkippedEntry, clear, would_clear};
pub use restore::{Restored, SourceSize, UserAndGroup, measure, restore, set_folder_owner};

use super::{
    file_tree::{Folder, OpenResult, canonical_or_same},
    launch::WithPath,
};
use anyhow::{Result, anyhow, bail};
use faultline_common::lock::flock_with_retries;
use faultline_kernel::{HostRoot, trimmed_text};
use faultline_text::shell_quoted;
use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fsync, mkdir, openat, unlinkat},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CStr, CString, OsString},
    fmt,
    fs::{self, File, read_dir, read_link},
    io::Write,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

pub const MARKER: &str = ".faultline-experiment";

const MARKER_CSTR: &CStr = c".faultline-experiment";

/// Created by `mkfs` on some file systems.
const LOST_AND_FOUND: &CStr = c"lost+found";

const MARKER_KIND: &str = "faultline-experiment";

const MARKER_TEXT: &str = "faultline experiment deletes everything in this folder before each run, except keypairs and tower \
                     files. Without this file it deletes nothing here. A copy of this file in another folder has no \
                     effect.";

const MAX_MARKER_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Marker {
    kind: String,
    about: String,
    created_unix: u64,
    inode: u64,
}

#[derive(Debug, PartialEq)]
pub enum InitResult {
    Created,
    Marked,
    AlreadyMarked,
}

/// Marks a folder for experiments. Creates it if its parent exists; an existing folder must be
/// empty except for `lost+found`. `now` is the time since 1970. Fails on a symbolic link, and on a
/// marker that was copied from another folder.
pub fn init(folder: &Path, now: Duration) -> Result<InitResult> {
    let result = match mkdir(folder, Mode::from_raw_mode(0o755)) {
        Ok(()) => InitResult::Created,
        Err(Errno::EXIST) => InitResult::Marked,
        Err(Errno::NOENT) => {
            let shown = folder.display();
            bail!("{shown} cannot be made: the folder above it is missing; make that first");
        }
        Err(errno) => return Err(errno).with_path(folder),
    };
    let opened = Folder::open(folder)?;
    if has_valid_marker(&opened)? {
        return Ok(InitResult::AlreadyMarked);
    }
    refuse_unless_empty(&opened)?;
    write_marker(&opened, now)?;
    // An entry may have been added meanwhile.
    if let Err(error) = refuse_unless_empty(&opened) {
        let _ = unlinkat(&opened.fd, MARKER_CSTR, AtFlags::empty());
        return Err(error);
    }
    Ok(result)
}

/// Whether a folder may be cleared. The error says what to do.
pub fn check(folder: &Path) -> Result<()> {
    open_marked(folder).map(drop)
}

fn open_marked(folder: &Path) -> Result<Folder> {
    let opened = Folder::open(folder)?;
    if has_valid_marker(&opened)? {
        return Ok(opened);
    }
    let (shown, quoted) = (folder.display(), shell_quoted(folder));
    bail!(
        "{shown} is not marked as a folder of experiments: nothing is deleted or written there. Empty it, then mark it with \
         `faultline experiment init {quoted}`"
    )
}

fn has_marker(folder: &Folder) -> Result<bool> {
    Ok(folder.stat(MARKER_CSTR)?.is_some())
}

/// Names of all entries except the marker and the ledger's lock. In the marked folder itself
/// (`depth` 0), `lost+found` is left out, too.
fn names_without_marker_and_lock(folder: &Folder, depth: usize) -> Result<Vec<CString>> {
    let mut names = folder.names()?;
    names.retain(|name| {
        let name = name.as_c_str();
        name != MARKER_CSTR && name != LEDGER_LOCK && (depth > 0 || name != LOST_AND_FOUND)
    });
    Ok(names)
}

fn has_valid_marker(folder: &Folder) -> Result<bool> {
    if !has_marker(folder)? {
        return Ok(false);
    }
    let path = folder.join(MARKER_CSTR);
    let invalid_marker = |reason: &str| {
        anyhow!(
            "{} is no marker of this folder ({reason}); remove it, then mark the folder",
            path.display()
        )
    };
    let Some(text) = folder.read(MARKER_CSTR, MAX_MARKER_BYTES)? else {
        return Err(invalid_marker("it is not a file"));
    };
    match serde_json::from_slice::<Marker>(&text) {
        Ok(marker) if marker.kind != MARKER_KIND => {
            Err(invalid_marker("it is another kind of file"))
        }
        Ok(marker) if marker.inode != folder.inode => {
            Err(invalid_marker("it was copied here from another folder"))
        }
        Ok(_) => Ok(true),
        Err(_) => Err(invalid_marker("its text is damaged")),
    }
}

fn refuse_unless_empty(folder: &Folder) -> Result<()> {
    let mut names = folder.names()?;
    names.retain(|name| ![MARKER_CSTR, LOST_AND_FOUND].contains(&name.as_c_str()));
    let Some(first) = names.first() else {
        return Ok(());
    };
    let shown = folder.path.display();
    let first = first.to_string_lossy();
    bail!(
        "{shown} is not empty ({first:?} and {} more): a marked folder is cleared before each run. Use a folder that is empty or does not exist yet",
        names.len() - 1
    )
}

fn write_marker(folder: &Folder, now: Duration) -> Result<()> {
    let path = folder.join(MARKER_CSTR);
    let marker = Marker {
        kind: MARKER_KIND.to_owned(),
        about: MARKER_TEXT.to_owned(),
        created_unix: now.as_secs(),
        inode: folder.inode,
    };
    let mut text = serde_json::to_vec_pretty(&marker).with_path(&path)?;
    text.push(b'\n');
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder.fd, MARKER_CSTR, flags, Mode::from_raw_mode(0o644));
    let mut file = File::from(file.with_path(&path)?);
    file.write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(fsync(&folder.fd)?))
        .inspect_err(|_| _ = unlinkat(&folder.fd, MARKER_CSTR, AtFlags::empty()))
        .with_path(&path)
}

/// A validator locks this file while it runs.
const LEDGER_LOCK: &CStr = c"ledger.lock";

const MAX_LISTED_PROCESSES: usize = 16;

pub struct FolderProcess {
    pub pid: u32,
    pub name: String,
    pub path: PathBuf,
}

impl fmt::Display for FolderProcess {
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
/// Compares the paths in `/proc`. Without privilege, finds only processes of this user. Does not
/// find files that are only mapped, or processes that see the folder under another path.
pub fn processes_using(root: &HostRoot, folder: &Path) -> Vec<FolderProcess> {
    let folder = canonical_or_same(folder);
    let mut pids = root.pids().unwrap_or_default();
    pids.sort_unstable();
    pids.into_iter()
        .filter_map(|pid| folder_process(root, pid, &folder))
        .take(MAX_LISTED_PROCESSES)
        .collect()
}

fn folder_process(root: &HostRoot, pid: u32, folder: &Path) -> Option<FolderProcess> {
    let process = root.procfs.join(pid.to_string());
    let path = read_link(process.join("exe"))
        .into_iter()
        .chain(open_files(&process).map(|(_, path)| path))
        .find(|path| path.starts_with(folder) && !path.is_dir())?;
    let name = root.read_proc(&format!("{pid}/comm"), trimmed_text);
    Some(FolderProcess {
        pid,
        name: name.unwrap_or_else(|_| "gone".to_owned()),
        path,
    })
}

/// The descriptors of a process, each with its path.
fn open_files(process: &Path) -> impl Iterator<Item = (OsString, PathBuf)> {
    read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name(), read_link(entry.path()).ok()?)))
}

/// Locks the ledger, so that no validator starts on it; `None` if the folder has no lock file.
fn lock_ledger(folder: &Folder) -> Result<Option<OwnedFd>> {
    let OpenResult::Open((file, _)) = folder.open_file(LEDGER_LOCK)? else {
        return Ok(None);
    };
    let path = folder.join(LEDGER_LOCK);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => bail!(
            "{} is locked: a validator runs on this ledger; end it first",
            path.display()
        ),
        locked => locked.map(|()| Some(file)).with_path(&path),
    }
}

pub enum Purpose {
    /// Exclusive: to clear, fill and run in the folder.
    Work,
    /// Shared: to copy from the folder.
    Source,
}

/// Lasts until the drop or the end of the process. Executed programs do not inherit the lock.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "the open file has the lock")] File);

/// Another process has the lock.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InUse(pub String);

/// Locks a folder, marked or not. All paths of one folder share the lock. The error names the
/// process that has the lock, if that process is visible.
pub fn lock_folder(folder: &Path, purpose: Purpose, root: &HostRoot) -> Result<FolderLock> {
    let file = File::open(folder).with_path(folder)?;
    let operation = match purpose {
        Purpose::Work => FlockOperation::NonBlockingLockExclusive,
        Purpose::Source => FlockOperation::NonBlockingLockShared,
    };
    match flock_with_retries(&file, operation) {
        Err(Errno::WOULDBLOCK) => {
            let holder = lock_holder(root, folder)
                .unwrap_or("a process that cannot be seen from here".to_owned());
            let folder = folder.display();
            let text = format!("{folder} is in use by another experiment: {holder}; wait for it");
            Err(InUse(text).into())
        }
        locked => locked.map(|()| FolderLock(file)).with_path(folder),
    }
}

fn lock_holder(root: &HostRoot, folder: &Path) -> Option<String> {
    let folder = canonical_or_same(folder);
    let holds = |process: &Path| {
        open_files(process)
            .filter(|(_, path)| *path == folder)
            .any(|(descriptor, _)| {
                let info = fs::read_to_string(process.join("fdinfo").join(descriptor));
                info.is_ok_and(|info| {
                    info.lines()
                        .any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
                })
            })
    };
    let pid = root
        .pids()
        .ok()?
        .into_iter()
        .find(|pid| holds(&root.procfs.join(pid.to_string())))?;
    let command = fs::read(root.procfs.join(format!("{pid}/cmdline"))).unwrap_or_default();
    let command = String::from_utf8_lossy(
        command
            .trim_ascii_end()
            .strip_suffix(b"\0")
            .unwrap_or(&command),
    )
    .replace('\0', " ");
    Some(if command.is_empty() {
        format!("process {pid}")
    } else {
        format!("process {pid} (`{command}`)")
    })
}
