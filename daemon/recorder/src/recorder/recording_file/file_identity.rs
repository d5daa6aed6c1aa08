use faultline_recording::with_suffix;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

type Inode = (u64, u64);

#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    file: Option<Inode>,
    wal: Option<Inode>,
}

impl FileIdentity {
    pub(super) fn of(path: &Path) -> FileIdentity {
        FileIdentity {
            path: path.to_owned(),
            file: inode(path).ok(),
            wal: inode(&with_suffix(path, "-wal")).ok(),
        }
    }

    /// What happened to the file, as part of a sentence. `None` while it is at its path, or if it
    /// cannot be inspected.
    pub(super) fn changed(&self) -> Option<&'static str> {
        match inode(&self.path) {
            Ok(now) if Some(now) == self.file => None,
            Ok(_) => Some("replaced"),
            Err(error) if error.kind() == ErrorKind::NotFound => Some("removed or moved"),
            Err(_) => None,
        }
    }

    /// True if the write-ahead log at the path belongs to another file and must stay.
    pub(super) fn wal_belongs_to_replacement(&self) -> bool {
        inode(&with_suffix(&self.path, "-wal")).is_ok_and(|now| Some(now) != self.wal)
    }

    /// Removes our remaining write-ahead log: a file that replaced ours must not be read with it.
    /// Close the writer first.
    pub(super) fn remove_wal(&self) {
        if !self.wal_belongs_to_replacement() {
            for suffix in ["-wal", "-shm"] {
                // Usually SQLite has removed them.
                let _ = fs::remove_file(with_suffix(&self.path, suffix));
            }
        }
    }
}

fn inode(path: &Path) -> std::io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}
