//! The ready file: listen addresses and target as JSON, for programs that start the daemon.
//!
//! The file is written after the bind of the listeners, and removed at the stop signal or when an
//! update fails. Each update renames a new file over it, so it is always complete. A symbolic link
//! in its place is replaced, never followed.

use faultline_sources::discovery::TargetHandle;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, renameat, statat, unlinkat},
    io::Errno,
};
use serde::Serialize;
use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

/// Incremented if keys change or are removed, but not if keys are added.
const FORMAT: u32 = 1;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("--ready-file {}: {source}; name a file in a folder that exists and that this user may write", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Error {
    /// False for a full disk or quota: a later attempt may succeed.
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self.source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        )
    }
}

#[derive(Debug, Serialize)]
struct ReadyFileContents {
    format: u32,
    pid: u32,
    /// Addresses with ports; paths for Unix sockets.
    metrics: Vec<String>,
    ingest: Option<Vec<String>>,
    target: Option<TargetProcess>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct TargetProcess {
    pid: u32,
    start_ticks: u64,
}

/// Dropping it removes the file.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
    /// Stays open, so that later files are in this folder even if its path changes.
    folder: OwnedFd,
    name: OsString,
    contents: ReadyFileContents,
    is_written: bool,
}

impl ReadyFile {
    /// Checks that the file can be written; does not change an existing one.
    ///
    /// # Errors
    /// The folder is missing or not writable, or the name belongs to something other than a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let with_path = |source: io::Error| Error {
            path: path.to_owned(),
            source,
        };
        let (folder, name) = open_folder(path).map_err(with_path)?;
        let contents = ReadyFileContents {
            format: FORMAT,
            pid: std::process::id(),
            metrics: Vec::new(),
            ingest: None,
            target: None,
        };
        let file = Self {
            path: path.to_owned(),
            folder,
            name,
            contents,
            is_written: false,
        };
        file.create_temp_file().map_err(with_path)?;
        file.remove(&file.temp_name());
        Ok(file)
    }

    pub fn create(
        &mut self,
        metrics: Vec<String>,
        ingest: Option<Vec<String>>,
    ) -> Result<(), Error> {
        (self.contents.metrics, self.contents.ingest) = (metrics, ingest);
        self.write().map_err(|source| Error {
            path: self.path.clone(),
            source,
        })?;
        self.is_written = true;
        Ok(())
    }

    /// Removes the file if it cannot be written: no file is better than one with the wrong process.
    fn update(&mut self, target: Option<TargetProcess>) {
        if self.is_written && self.contents.target == target {
            return;
        }
        self.contents.target = target;
        match self.write() {
            Ok(()) => self.is_written = true,
            Err(error) => {
                if std::mem::take(&mut self.is_written) {
                    tracing::warn!(
                        file = %self.path.display(),
                        %error,
                        "cannot write the ready file; it is removed until that works"
                    );
                    self.remove(&self.name);
                }
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.contents)?;
        text.push(b'\n');
        let temp_name = self.temp_name();
        let written = self.create_temp_file().and_then(|mut file| {
            file.write_all(&text)?;
            Ok(renameat(
                &self.folder,
                &temp_name,
                &self.folder,
                &self.name,
            )?)
        });
        written.inspect_err(|_| self.remove(&temp_name))
    }

    /// Creates the file that `write` renames. Never opens an existing file.
    fn create_temp_file(&self) -> io::Result<File> {
        let temp_name = self.temp_name();
        // A killed daemon may leave this file. In a container, the next one often has the same pid.
        self.remove(&temp_name);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &temp_name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    fn temp_name(&self) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{}.part", std::process::id()));
        name
    }

    fn remove(&self, name: &OsStr) {
        // Another process may have removed the file, or replaced it with a folder.
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if self.is_written {
            self.remove(&self.name);
        }
    }
}

/// Updates the file at every change of target. Never returns; dropping the future removes the file.
/// Writes block the daemon's main task, which delays signals, the watchdog and the check for ended
/// tasks.
pub async fn update_until_dropped(
    file: Option<ReadyFile>,
    target_handle: TargetHandle,
) -> Infallible {
    let Some(mut file) = file else {
        return std::future::pending().await;
    };
    let mut process = target_handle.watch_process();
    loop {
        let followed = *process.borrow_and_update();
        file.update(followed.map(|process| TargetProcess {
            pid: process.pid,
            start_ticks: process.start_ticks,
        }));
        tokio::select! {
            // The sender lives in `target_handle`: the channel cannot close.
            _ = process.changed() => {}
            () = tokio::time::sleep(RETRY_INTERVAL), if !file.is_written => {}
        }
    }
}

/// Returns the folder and the file name. Rejects existing names that are not files or links: a
/// rename would destroy a device.
fn open_folder(path: &Path) -> io::Result<(OwnedFd, OsString)> {
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
    let file_type = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileType::from_raw_mode(stat.st_mode));
    match file_type {
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
