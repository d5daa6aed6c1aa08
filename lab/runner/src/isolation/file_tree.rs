//! Walks the files below a folder by descriptors, never over a symbolic link or onto another mount.

use crate::isolation::launch::WithPath;
use anyhow::{Result, bail};
use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2,
        statat,
    },
    io::Errno,
};
use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// A walk has an open descriptor and a list of names for each level. Ledgers have fewer levels.
pub const MAX_DEPTH: usize = 64;

pub const OTHER_MOUNT: &str = "another file system, or a mount point";

const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Non-blocking: a FIFO may have replaced a file.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub struct Folder {
    pub fd: OwnedFd,
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
}

pub enum OpenResult<T> {
    Open(T),
    OtherMount,
    /// The entry is gone or was replaced.
    Changed,
}

impl Folder {
    /// Fails on a symbolic link.
    pub fn open(path: &Path) -> Result<Self> {
        match openat(CWD, path, FOLDER_FLAGS, Mode::empty())
            .and_then(|fd| Self::new(fd, path.to_owned()))
        {
            Err(Errno::LOOP | Errno::NOTDIR) if path.is_symlink() => {
                let advice = path
                    .canonicalize()
                    .map(|to| format!(": name {} instead", to.display()))
                    .unwrap_or_default();
                bail!(
                    "{} is a symbolic link, which is not followed{advice}",
                    path.display()
                )
            }
            opened => opened.with_path(path),
        }
    }

    fn new(fd: OwnedFd, path: PathBuf) -> Result<Self, Errno> {
        let stat = fstat(&fd)?;
        Ok(Self {
            fd,
            path,
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    pub fn join(&self, name: &CStr) -> PathBuf {
        self.path.join(os_str(name))
    }

    pub fn names(&self) -> Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).with_path(&self.path)? {
            let entry = entry.with_path(&self.path)?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        Ok(names)
    }

    /// Does not follow links; `None` if the entry is gone.
    pub fn stat(&self, name: &CStr) -> Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            stat => stat.map(Some).with_path(&self.join(name)),
        }
    }

    pub fn enter(&self, name: &CStr) -> Result<OpenResult<Self>> {
        self.open_below(name, FOLDER_FLAGS, |fd| {
            let folder = Self::new(fd, self.join(name))?;
            Ok(if folder.device == self.device {
                OpenResult::Open(folder)
            } else {
                OpenResult::OtherMount
            })
        })
    }

    /// Opens a regular file for reading. Another kind of entry is `Changed`.
    pub fn open_file(&self, name: &CStr) -> Result<OpenResult<(OwnedFd, Stat)>> {
        self.open_below(name, FILE_FLAGS, |fd| {
            let stat = fstat(&fd)?;
            Ok(if kind(&stat) == FileType::RegularFile {
                OpenResult::Open((fd, stat))
            } else {
                OpenResult::Changed
            })
        })
    }

    /// The beginning of a regular file, up to `max_bytes` bytes. `None` if it is gone or mounted, and
    /// for any other kind of entry.
    pub fn read(&self, name: &CStr, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let OpenResult::Open((file, _)) = self.open_file(name)? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        File::from(file)
            .take(max_bytes)
            .read_to_end(&mut text)
            .with_path(&self.join(name))?;
        Ok(Some(text))
    }

    fn open_below<T>(
        &self,
        name: &CStr,
        flags: OFlags,
        inspect: impl FnOnce(OwnedFd) -> Result<OpenResult<T>, Errno>,
    ) -> Result<OpenResult<T>> {
        let resolve_flags =
            ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let opened = match openat2(&self.fd, name, flags, Mode::empty(), resolve_flags) {
            // `openat2` is missing before Linux 5.6 and under some seccomp filters. A second mount
            // of the same file system then looks like a folder.
            Err(Errno::NOSYS | Errno::PERM) => openat(&self.fd, name, flags, Mode::empty()),
            opened => opened,
        };
        match opened.and_then(inspect) {
            Err(Errno::XDEV) => Ok(OpenResult::OtherMount),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => {
                Ok(OpenResult::Changed)
            }
            opened => opened.with_path(&self.join(name)),
        }
    }
}

pub enum WalkEntry<'a> {
    File(&'a OwnedFd, &'a Stat, PathBuf),
    /// A folder, and the reason.
    NotEntered(PathBuf, &'static str),
}

/// Visits every regular file, and each folder that is not entered.
pub fn walk_files(
    folder: &Folder,
    visit: &mut dyn FnMut(WalkEntry<'_>) -> Result<()>,
) -> Result<()> {
    walk_at_depth(folder, 0, visit)
}

fn walk_at_depth(
    folder: &Folder,
    depth: usize,
    visit: &mut dyn FnMut(WalkEntry<'_>) -> Result<()>,
) -> Result<()> {
    for name in folder.names()? {
        let Some(stat) = folder.stat(&name)? else {
            continue;
        };
        match kind(&stat) {
            FileType::Directory if depth >= MAX_DEPTH => {
                visit(WalkEntry::NotEntered(folder.join(&name), "nested too deep"))?
            }
            FileType::Directory => match folder.enter(&name)? {
                OpenResult::Open(inside) => walk_at_depth(&inside, depth + 1, visit)?,
                OpenResult::OtherMount => {
                    visit(WalkEntry::NotEntered(folder.join(&name), OTHER_MOUNT))?
                }
                OpenResult::Changed => {}
            },
            FileType::RegularFile => {
                if let OpenResult::Open((file, stat)) = folder.open_file(&name)? {
                    visit(WalkEntry::File(&file, &stat, folder.join(&name)))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub fn allocated_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512)
}

/// Disk space of one name of the file: its space divided by the number of hard links.
pub fn disk_bytes(stat: &Stat) -> u64 {
    allocated_bytes(stat) / u64::from(stat.st_nlink as u32).max(1)
}

pub fn os_str(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

pub fn canonical_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
