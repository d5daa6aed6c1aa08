//! Files of SQLite next to a database.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

pub const SIDE_FILE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// `path` with a suffix after its file name, as in SQLite's `-wal` next to a database.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

pub fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}
