//! The ready file: where the daemon listens and which process it follows, as JSON, for programs that start the daemon.
//!
//! It is there from the moment the listeners are bound until the daemon is told to stop, and whole at any time: a new file
//! in the same folder takes its name. What had the name is replaced and never written through, so that a symbolic link
//! leads a privileged daemon nowhere.

use crate::discovery::Following;
use faultline_kernel::ProcessId;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Of the contents. Keys may be added to a format; one that changes or goes makes another format.
const FORMAT: u32 = 1;
/// From try to try to write it once that has failed.
const RETRY: Duration = Duration::from_secs(1);

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("--ready-file {}: {source}; name a file in a folder that exists and that this user may write", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Error {
    /// Whether it will not go away by itself, as a full disk may.
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self.source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        )
    }
}

#[derive(Debug, Serialize)]
struct Contents {
    format: u32,
    pid: u32,
    /// Addresses with their ports; a socket in the file system by its path.
    metrics: Vec<String>,
    /// The same; `None` if no pushes are accepted.
    ingest: Option<Vec<String>>,
    target: Option<Target>,
}

/// One life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Target {
    pid: u32,
    start_ticks: u64,
}

impl From<ProcessId> for Target {
    fn from(process: ProcessId) -> Self {
        Target {
            pid: process.pid,
            start_ticks: process.start_ticks,
        }
    }
}

/// The file. Dropping it removes it.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
    /// Held open: later files are in this folder, whatever becomes of the names on the way to it.
    folder: OwnedFd,
    name: OsString,
    contents: Contents,
    there: bool,
}

impl ReadyFile {
    /// Finds out whether it can be written, and leaves what has its name as it is.
    ///
    /// # Errors
    /// It cannot: its folder is not there or may not be written, or something else than a file has its name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let with_path = |source: io::Error| Error {
            path: path.to_owned(),
            source,
        };
        let (folder, name) = place(path).map_err(with_path)?;
        let contents = Contents {
            format: FORMAT,
            pid: std::process::id(),
            metrics: Vec::new(),
            ingest: None,
            target: None,
        };
        let file = ReadyFile {
            path: path.to_owned(),
            folder,
            name,
            contents,
            there: false,
        };
        file.new_part().map_err(with_path)?;
        file.remove(&file.part());
        Ok(file)
    }

    /// Writes it for the first time: no process is followed yet.
    pub fn appear(
        &mut self,
        metrics: Vec<String>,
        ingest: Option<Vec<String>>,
    ) -> Result<(), Error> {
        (self.contents.metrics, self.contents.ingest) = (metrics, ingest);
        self.write().map_err(|source| Error {
            path: self.path.clone(),
            source,
        })?;
        self.there = true;
        Ok(())
    }

    /// Keeps up with the followed process. Never ends by itself; dropped, it removes the file. Each file is written at
    /// once: on the daemon's main task that delays signals, and neither ticks nor answers.
    pub async fn keep(mut self, following: Following) -> Infallible {
        let mut process = following.process();
        loop {
            let followed = *process.borrow_and_update();
            self.update(followed.map(Target::from));
            tokio::select! {
                // The sender lives in `following`: the channel cannot close.
                _ = process.changed() => {}
                () = tokio::time::sleep(RETRY), if !self.there => {}
            }
        }
    }

    /// A file that cannot be written is removed: rather none than one that names the wrong process.
    fn update(&mut self, target: Option<Target>) {
        if self.there && self.contents.target == target {
            return;
        }
        self.contents.target = target;
        match self.write() {
            Ok(()) => self.there = true,
            Err(error) => {
                if std::mem::take(&mut self.there) {
                    tracing::warn!(file = %self.path.display(), %error, "cannot write the ready file; it is removed until that works");
                    self.remove(&self.name);
                }
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.contents)?;
        text.push(b'\n');
        let part = self.part();
        let written = self.new_part().and_then(|mut file| {
            file.write_all(&text)?;
            Ok(renameat(&self.folder, &part, &self.folder, &self.name)?)
        });
        written.inspect_err(|_| self.remove(&part))
    }

    /// A new file, as nothing but one that is not there yet can be.
    fn new_part(&self) -> io::Result<File> {
        let part = self.part();
        // In a container every daemon has the same pid: one that was killed may have left this.
        self.remove(&part);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &part, flags, Mode::from_raw_mode(0o644))?.into())
    }

    fn part(&self) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{}.part", std::process::id()));
        name
    }

    fn remove(&self, name: &OsStr) {
        // What is not there, or not ours any more, is as good as removed.
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if self.there {
            self.remove(&self.name);
        }
    }
}

/// Keeps the file if there is one; see [`ReadyFile::keep`].
pub async fn keep(file: Option<ReadyFile>, following: Following) -> Infallible {
    match file {
        Some(file) => file.keep(following).await,
        None => std::future::pending().await,
    }
}

/// The folder and the name in it, which a file, a symbolic link or nothing has: a device would be lost to the system.
fn place(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = openat(
        CWD,
        folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileType::from_raw_mode(stat.st_mode));
    match there {
        Ok(FileType::RegularFile | FileType::Symlink) | Err(Errno::NOENT) => {
            Ok((folder, name.to_owned()))
        }
        Ok(FileType::Directory) => Err(Errno::ISDIR.into()),
        Ok(_) => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
