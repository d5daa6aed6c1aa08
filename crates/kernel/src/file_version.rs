use std::{fs::Metadata, io, os::unix::fs::MetadataExt, path::Path};

/// Identifies a state of a file. Differs after the file is written, replaced or renamed, after a
/// symbolic link in its path is changed, and after a change of owner, mode or number of hard links.
/// Two writes within one tick of the clock (10 ms, or what the file system's timestamps resolve)
/// can give the same version.
///
/// Modification time and length are not enough: a program can set the time back. No program can set
/// the change time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// When content or metadata changed.
    changed: (i64, i64),
}

impl FileVersion {
    /// Follows links.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for FileVersion {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests;
