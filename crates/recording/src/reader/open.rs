use crate::{
    error::{AttachPath, Error, Result},
    file::{self, DatabaseKind, UntrustedDatabase},
    side_files::{length, with_suffix},
};
use rusqlite::ErrorCode;
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Opens the database and starts a read transaction, so that all reads see one moment. Also returns
/// the result of `check`, which inspects the tables.
pub fn open<T>(
    path: &Path,
    kind: &DatabaseKind,
    check: impl Fn(&UntrustedDatabase, &Path) -> Result<T>,
) -> Result<(UntrustedDatabase, T, Option<TempCopy>)> {
    let begin = |conn| begin(conn, path, kind, &check);
    let meta = std::fs::metadata(path).at(path)?;
    if !meta.is_file() {
        return Err(Error::wrong_kind(path, "a folder or a device"));
    }
    if meta.len() == 0 {
        return Err(Error::Empty {
            path: path.to_owned(),
        });
    }
    match file::open_to_read(path, kind).and_then(begin) {
        Err(Error::Sqlite { source, .. }) if needs_write(&source) => {
            let copied = TempCopy::new(path)?;
            let (conn, checked) = begin(file::open_to_recover(&copied.database(), path, kind)?)?;
            Ok((conn, checked, Some(copied)))
        }
        opened => {
            let (conn, checked) = opened.map_err(|error| file::detect_truncation(path, error))?;
            Ok((conn, checked, None))
        }
    }
}

fn begin<T>(
    mut conn: UntrustedDatabase,
    path: &Path,
    kind: &DatabaseKind,
    check: &impl Fn(&UntrustedDatabase, &Path) -> Result<T>,
) -> Result<(UntrustedDatabase, T)> {
    conn.connection().execute_batch("BEGIN").at(path)?;
    // Reads the header, which begins the transaction.
    conn.check_not_truncated()?;
    file::check_application_and_format(conn.connection(), path, kind)?;
    let checked = check(&conn, path)?;
    Ok((conn, checked))
}

/// Whether SQLite cannot read because it may not write: it must recover the WAL or journal of a
/// killed writer first.
fn needs_write(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure
        )
    )
}

/// A copy of the database, its WAL and its journal in a writable folder; removed with the reader.
#[derive(Debug)]
pub struct TempCopy(TempDir);

impl TempCopy {
    fn new(path: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("faultline-").tempdir();
        let copied = Self(folder.at(&std::env::temp_dir())?);
        copy(path, &copied.database())?;
        for suffix in ["-wal", "-journal"] {
            let from = with_suffix(path, suffix);
            if length(&from) > 0 {
                copy(&from, &with_suffix(&copied.database(), suffix))?;
            }
        }
        Ok(copied)
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("recording")
    }
}

/// Does not copy permissions: the copy must be writable even if the original is not.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).at(from)?;
    let mut target = File::create_new(to).at(to)?;
    std::io::copy(&mut source, &mut target).at(to)?;
    Ok(())
}
