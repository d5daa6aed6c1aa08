//! What can go wrong with a recording, and what to do about it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a recording cannot be written, read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A new recording would replace a file.
    #[error("{path}: exists already; give another name, or remove it first")]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// A log or journal without its recording, or one that SQLite would follow elsewhere.
    #[error("{path}: {what}, so that writing could lose it; move it away, or remove it")]
    Leftover {
        /// The file in the way.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is no such file.
    #[error("{path}: no such file")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{path}: not a recording of faultlined: {found}")]
    NotARecording {
        /// Which file.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// The writer was stopped before the first row.
    #[error(
        "{path}: nothing was recorded: the writer was stopped while it made the file; remove it"
    )]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// A later version of faultline wrote it.
    #[error(
        "{path}: format {found}, and this version reads up to format {known}; use a newer faultline"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The newest format this version knows.
        known: i32,
    },
    /// The end of the file is missing, as after a copy that was broken off or a copy without its log.
    #[error(
        "{path}: cut off: {have} bytes of {want}; copy it again, or see \"A damaged recording\" in docs/RECORDING.md (`sqlite3 FILE .recover`)"
    )]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Bytes that are there.
        have: u64,
        /// Bytes that belong there.
        want: u64,
    },
    /// The file's pages contradict each other.
    #[error(
        "{path}: damaged: {what}; copy it again, or see \"A damaged recording\" in docs/RECORDING.md (`sqlite3 FILE .recover`)"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// The file has what no recording has, and what it would be harmful to read.
    #[error("{path}: not read: {what}; take the file from where faultlined wrote it")]
    Refused {
        /// Which file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A recording of another run.
    #[error(
        "{path}: was recorded with the labels {found}, not {wanted}; give another name, or the same labels"
    )]
    OtherLabels {
        /// Which file.
        path: PathBuf,
        /// Its labels, as `key=value, ...`.
        found: String,
        /// Those asked for.
        wanted: String,
    },
    /// Another program writes it now.
    #[error("{path}: is being written by another program; wait for its end, or give another name")]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// Readers kept the log from being taken in, so that a second file stays beside the recording.
    #[error(
        "{path}: complete, but another program is reading it, so its -wal file remains; move both files together"
    )]
    BeingRead {
        /// Which file.
        path: PathBuf,
    },
    /// No room on the disk, or in the file's own limit.
    #[error("{path}: no space left on its disk; free space, or record to another disk")]
    Full {
        /// Which file.
        path: PathBuf,
    },
    /// An earlier error left a transaction undone.
    #[error("{path}: an earlier write failed; roll back first")]
    RollBackFirst {
        /// Which file.
        path: PathBuf,
    },
    /// Recordings that cannot be joined.
    #[error("{path}: cannot be merged: {why}")]
    Unmergeable {
        /// The first file that does not fit.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A table or column that no recording has.
    #[error("no column {what} in a recording; docs/RECORDING.md lists them")]
    NoSuchColumn {
        /// `table.column`, or the table alone.
        what: String,
    },
    /// A row that no version of faultlined writes.
    #[error("{path}: {what}")]
    BadRow {
        /// Which file.
        path: PathBuf,
        /// Table, row and value.
        what: String,
    },
    /// The file system refuses.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Anything else that SQLite says.
    #[error("{path}: {source}")]
    Sqlite {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl Error {
    /// Whether there was no room: worth another try later.
    pub fn is_full(&self) -> bool {
        match self {
            Error::Full { .. } => true,
            Error::Io { source, .. } => is_disk_full(source),
            _ => false,
        }
    }

    pub(crate) fn refused(path: &Path, what: impl Into<String>) -> Self {
        Error::Refused {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path },
            std::io::ErrorKind::NotFound => Error::Missing { path },
            _ if is_disk_full(&source) => Error::Full { path },
            _ => Error::Io { path, source },
        }
    }

    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        // The log's index could not grow: it has nothing but room to want.
        if source
            .sqlite_error()
            .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
        {
            return Error::Full { path };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::Full { path },
            Some(ErrorCode::DatabaseCorrupt) => Error::Damaged {
                what: damage(&path, &source),
                path,
            },
            // Only readers have limits of length and of work.
            Some(ErrorCode::TooBig) => Error::Refused {
                path,
                what: "one of its values is longer than any that is written there".into(),
            },
            Some(ErrorCode::OperationInterrupted) => Error::Refused {
                path,
                what: "it takes more work to read than its size explains".into(),
            },
            Some(ErrorCode::NotADatabase) => Error::NotARecording {
                path,
                found: "no SQLite database, or the beginning of one is damaged".into(),
            },
            _ => Error::Sqlite { path, source },
        }
    }
}

/// The log of another recording damages what is read, although the file itself is sound.
fn damage(path: &Path, source: &rusqlite::Error) -> String {
    let mut log = OsString::from(path);
    log.push("-wal");
    match std::fs::metadata(&log) {
        Ok(meta) if meta.len() > 0 => format!(
            "{source} (if {} is of another recording, move it away)",
            log.display()
        ),
        _ => source.to_string(),
    }
}

fn is_disk_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Names the file in errors of SQLite.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::sqlite(path, source))
    }
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::io(path, source))
    }
}
