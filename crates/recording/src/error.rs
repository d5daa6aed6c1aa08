use crate::side_files::{length, with_suffix};
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{path}: exists already; give another name, or remove it first")]
    Exists { path: PathBuf },
    /// A WAL or journal without its recording, next to an empty file or to another recording, or a
    /// link, folder or device in its place.
    #[error("{path}: {what}; writing could destroy this file: move it away, or remove it")]
    LeftoverJournal { path: PathBuf, what: &'static str },
    #[error("{path}: no such file or folder")]
    Missing { path: PathBuf },
    /// Not the expected kind of database. [`Error::foreign_database_message`] replaces the message for
    /// other kinds than recordings.
    #[error(
        "{path}: not a recording of faultlined: {found}; name another file, or copy the recording again"
    )]
    WrongKind { path: PathBuf, found: String },
    #[error(
        "{path}: nothing was recorded: the writer was stopped while it made the file; remove it"
    )]
    Empty { path: PathBuf },
    #[error(
        "{path}: format {found}, and this version reads up to format {known}; use a newer faultline"
    )]
    Newer {
        path: PathBuf,
        found: i32,
        known: i32,
    },
    /// The end of the file is missing, for example after an aborted copy or a copy without its WAL.
    #[error(
        "{path}: cut off: {have} bytes of {want}; copy it again, or see \"A damaged recording\" in docs/RECORDING.md (`sqlite3 FILE .recover`)"
    )]
    Truncated {
        path: PathBuf,
        /// Bytes.
        have: u64,
        /// Bytes.
        want: u64,
    },
    /// The file's pages contradict each other.
    #[error(
        "{path}: damaged: {what}; copy it again, or see \"A damaged recording\" in docs/RECORDING.md (`sqlite3 FILE .recover`)"
    )]
    Damaged { path: PathBuf, what: String },
    /// The file has content that no recording has and that is unsafe to read.
    #[error("{path}: not read: {what}; take the file from where faultlined wrote it")]
    Refused { path: PathBuf, what: String },
    #[error(
        "{path}: was recorded with the labels {found}, not {wanted}; give another name, or the same labels"
    )]
    OtherLabels {
        path: PathBuf,
        /// As `key=value, ...`.
        found: String,
        wanted: String,
    },
    #[error("{path}: is being written by another program; wait for its end, or give another name")]
    InUse { path: PathBuf },
    /// Readers kept the WAL from being checkpointed, so a second file remains.
    #[error(
        "{path}: complete, but another program is reading it, so its -wal file remains; move both files together"
    )]
    BeingRead { path: PathBuf },
    /// No space on the disk, or the file's own limit is reached.
    #[error("{path}: no space left on its disk; free space, or record to another disk")]
    Full { path: PathBuf },
    /// SQLite reports an exceeded quota or file size limit as a failed write.
    #[error(
        "{path}: SQLite could not write: a quota or a limit of file sizes may be reached, or the disk is broken"
    )]
    WriteFailed { path: PathBuf },
    #[error("{path}: an earlier write failed; roll back first")]
    RollBackFirst { path: PathBuf },
    #[error("{path}: cannot be merged: {why}")]
    Unmergeable {
        /// The first file that does not fit, or the output.
        path: PathBuf,
        why: String,
    },
    #[error("no table or column {what} in a recording; docs/RECORDING.md lists them")]
    NoSuchTableOrColumn {
        /// `table.column`, or only the table.
        what: String,
    },
    /// A row with a value that this version cannot interpret.
    #[error("{path}: {what}")]
    BadRow {
        path: PathBuf,
        /// Table, row and value.
        what: String,
    },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}{}", sqlite_remedy(source))]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
}

impl Error {
    /// True if a retry may succeed once there is space or the quota is raised.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::WriteFailed { .. } => true,
            Self::Io { source, .. } => is_disk_full(source),
            _ => false,
        }
    }

    /// True if another try fails, too: an operator must first move or replace the file, or change
    /// rights.
    pub fn is_permanent(&self) -> bool {
        use Error::*;
        use io::ErrorKind::*;
        match self {
            WrongKind { .. }
            | Newer { .. }
            | Truncated { .. }
            | Damaged { .. }
            | Refused { .. }
            | OtherLabels { .. }
            | BadRow { .. }
            | LeftoverJournal { .. } => true,
            Io { source, .. } => matches!(
                source.kind(),
                PermissionDenied | ReadOnlyFilesystem | NotADirectory | InvalidInput
            ),
            // `CannotOpen` may be a lack of inodes, quota or file descriptors.
            Sqlite { source, .. } => source.sqlite_error_code() == Some(ErrorCode::ReadOnly),
            _ => false,
        }
    }

    pub(crate) fn refused(path: &Path, what: impl Into<String>) -> Self {
        Self::Refused {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn wrong_kind(path: &Path, found: impl Into<String>) -> Self {
        Self::WrongKind {
            path: path.to_owned(),
            found: found.into(),
        }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            io::ErrorKind::NotFound => Self::Missing { path },
            _ if is_disk_full(&source) => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }

    pub fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error().map(|error| error.extended_code) {
            // The WAL's index could not grow, which only lack of space causes.
            Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => return Self::Full { path },
            Some(rusqlite::ffi::SQLITE_IOERR_WRITE) => return Self::WriteFailed { path },
            _ => {}
        }
        if let rusqlite::Error::InvalidColumnType(_, column, kind) = &source {
            let what = format!(
                "a value of its column {column} is of type {kind}, which no version of faultlined writes; use a copy that no other program changed"
            );
            return Self::BadRow { path, what };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged {
                what: damage(&path, &source),
                path,
            },
            // Readers limit length and work, writers of foreign databases only length.
            Some(ErrorCode::TooBig) => Self::refused(
                &path,
                "one of its values is longer than any that faultline writes",
            ),
            Some(ErrorCode::OperationInterrupted) => {
                Self::refused(&path, "it takes more work to read than its size explains")
            }
            Some(ErrorCode::NotADatabase) => {
                Self::wrong_kind(&path, "not an SQLite database, or its beginning is damaged")
            }
            _ => Self::Sqlite { path, source },
        }
    }
}

fn sqlite_remedy(source: &rusqlite::Error) -> &'static str {
    use ErrorCode::*;
    match source.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked | CannotOpen | ReadOnly | PermissionDenied) => {
            "; if another program uses it, wait for its end or stop it; otherwise check the rights of the file and its folder"
        }
        Some(SystemIoFailure) => "; check the disk of the file",
        _ => "",
    }
}

/// Mentions a WAL, because that of another recording makes a sound file seem damaged.
fn damage(path: &Path, source: &rusqlite::Error) -> String {
    let wal = with_suffix(path, "-wal");
    if length(&wal) == 0 {
        return source.to_string();
    }
    let wal = wal.display();
    format!("{source} (if {wal} is of another recording, move it away)")
}

fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

pub trait AttachPath<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> AttachPath<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::sqlite(path, source))
    }
}

impl<T> AttachPath<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::io(path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn sqlite_error(code: i32) -> Error {
        let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        Error::sqlite(Path::new("run.fltl"), source)
    }

    #[test]
    fn a_file_that_sqlite_cannot_open_may_be_opened_later() {
        assert!(!sqlite_error(ffi::SQLITE_CANTOPEN).is_permanent());
        assert!(sqlite_error(ffi::SQLITE_READONLY).is_permanent());
    }

    #[test]
    fn the_remedy_of_an_sqlite_error_fits_its_cause() {
        let rights = Some("otherwise check the rights of the file and its folder");
        for (code, remedy) in [
            (ffi::SQLITE_BUSY, rights),
            (ffi::SQLITE_CANTOPEN, rights),
            (ffi::SQLITE_READONLY, rights),
            (ffi::SQLITE_IOERR_READ, Some("check the disk of the file")),
            (ffi::SQLITE_ERROR, None),
        ] {
            let text = sqlite_error(code).to_string();
            let found = text.rsplit_once("; ").map(|(_, found)| found);
            assert_eq!(found, remedy, "{text}");
        }
    }
}
