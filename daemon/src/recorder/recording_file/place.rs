//! Whether a file is still where it was made.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

type Inode = (u64, u64);

/// A recording and its log, as they are in their folder.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    file: Option<Inode>,
    log: Option<Inode>,
}

impl FileIdentity {
    /// As it is now.
    pub(super) fn of(path: &Path) -> FileIdentity {
        FileIdentity {
            path: path.to_owned(),
            file: inode(path).ok(),
            log: inode(&beside(path, "-wal")).ok(),
        }
    }

    /// What became of the file, in words; `None` while it is there, or cannot be looked at.
    pub(super) fn changed(&self) -> Option<&'static str> {
        match inode(&self.path) {
            Ok(now) if Some(now) == self.file => None,
            Ok(_) => Some("replaced"),
            Err(error) if error.kind() == ErrorKind::NotFound => Some("removed or moved"),
            Err(_) => None,
        }
    }

    /// Whether the log beside the path is somebody else's, which must stay.
    pub(super) fn log_is_foreign(&self) -> bool {
        inode(&beside(&self.path, "-wal")).is_ok_and(|now| Some(now) != self.log)
    }

    /// Removes a log of ours that is left: another file in the place of ours must not be read with it. The writer is closed.
    pub(super) fn remove_log(&self) {
        if !self.log_is_foreign() {
            for end in ["-wal", "-shm"] {
                // Mostly there is none any more.
                let _ = fs::remove_file(beside(&self.path, end));
            }
        }
    }
}

fn inode(path: &Path) -> std::io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
