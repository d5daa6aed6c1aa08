//! How a recording is opened, whoever opens it.

mod guarded;
mod tables;
mod whole;

pub(crate) use guarded::Guarded;
pub use guarded::ReturnedValues;
pub(crate) use tables::{Present, is_table, present, shown};
use whole::HEADER;
pub(crate) use whole::cut_off;

use crate::error::{At, Error};
use crate::schema::{APPLICATION_ID, FORMAT};
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which databases are of one kind: by two numbers in their first page.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseKind {
    /// `PRAGMA application_id`.
    pub application_id: i32,
    /// The newest `PRAGMA user_version` that can be read; the first is 1.
    pub format: i32,
}

pub(crate) const RECORDING: DatabaseKind = DatabaseKind {
    application_id: APPLICATION_ID,
    format: FORMAT,
};

/// SQLite's page cache, in KiB: a tick touches a dozen pages, and memory is the daemon's.
const CACHE_KIB: i64 = 512;

/// How long another connection's short lock is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The names SQLite gives to the files beside a database.
pub(crate) const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// `path` with `suffix` behind its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The length of a file; 0 if it is not there.
pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The file that a connection has open: a copy of `path`, perhaps.
fn opened(conn: &Connection, path: &Path) -> PathBuf {
    conn.path().map_or_else(|| path.to_owned(), PathBuf::from)
}

/// A connection that may write, to a file of this program's own.
pub(crate) fn open_to_write(path: &Path, kind: &DatabaseKind) -> Result<Connection, Error> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, kind)?;
    tune(&conn).at(path)?;
    Ok(conn)
}

/// A connection that only reads, to a file from anywhere.
pub(crate) fn open_to_read(path: &Path, kind: &DatabaseKind) -> Result<Guarded, Error> {
    guarded(path, OpenFlags::SQLITE_OPEN_READ_ONLY, path, kind)
}

/// The same to a file that SQLite may write before it reads it. Errors name the file `named`, of which it may be a copy.
pub(crate) fn open_to_recover(
    path: &Path,
    named: &Path,
    kind: &DatabaseKind,
) -> Result<Guarded, Error> {
    guarded(path, OpenFlags::SQLITE_OPEN_READ_WRITE, named, kind)
}

fn guarded(
    path: &Path,
    flags: OpenFlags,
    named: &Path,
    kind: &DatabaseKind,
) -> Result<Guarded, Error> {
    let guarded = Guarded::new(connect(path, flags, kind)?, named, length(path))?;
    tune(guarded.connection()).at(named)?;
    Ok(guarded)
}

fn connect(path: &Path, flags: OpenFlags, kind: &DatabaseKind) -> Result<Connection, Error> {
    // Absolute, as SQLite takes a name that begins with `file:` for an address.
    let absolute = std::path::absolute(path).at(path)?;
    check_kind(&absolute, path, kind)?;
    let conn =
        Connection::open_with_flags(absolute, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).at(path)?;
    guarded::distrust(&conn).at(path)?;
    Ok(conn)
}

/// Fails if the file is somebody else's, before SQLite lays a log beside it, as it does where the file asks for one. Read
/// through SQLite all the same: closing a descriptor of our own would drop the locks that a writer in this process has.
fn check_kind(absolute: &Path, path: &Path, kind: &DatabaseKind) -> Result<(), Error> {
    if length(absolute) < HEADER as u64 {
        return Ok(());
    }
    let mut address = String::from("file:");
    for byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(char::from(*byte))
            }
            _ => address.push_str(&format!("%{byte:02x}")),
        }
    }
    address.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(address, flags).at(path)?;
    let application = conn.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    // With a log or a journal, that tells: a recording may be only there yet.
    let more = SIDE_FILES
        .iter()
        .any(|suffix| length(&with_suffix(absolute, suffix)) > 0);
    if more || application == Ok(kind.application_id) {
        return Ok(());
    }
    application.at(path)?;
    check_format(&conn, path, kind)
}

fn tune(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(PATIENCE)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Fails unless the database is of that kind, of a format that this version knows.
pub(crate) fn check_format(
    conn: &Connection,
    path: &Path,
    kind: &DatabaseKind,
) -> Result<(), Error> {
    let number = |pragma: &str| {
        conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0))
            .at(path)
    };
    let application = number("application_id")?;
    if application != kind.application_id {
        if number("page_count")? == 0 {
            // SQLite takes a file of a few bytes for an empty one; it may be anybody's.
            let found = "too short for an SQLite database".to_owned();
            let (empty, path) = (length(&opened(conn, path)) == 0, path.to_owned());
            return Err(if empty {
                Error::Empty { path }
            } else {
                Error::NotARecording { path, found }
            });
        }
        let found = format!("another program's SQLite database (application id {application:#x})");
        return Err(Error::NotARecording {
            path: path.to_owned(),
            found,
        });
    }
    let found = number("user_version")?;
    if found > kind.format {
        return Err(Error::Newer {
            path: path.to_owned(),
            found,
            known: kind.format,
        });
    }
    if found < 1 {
        let found = format!("format {found}");
        return Err(Error::NotARecording {
            path: path.to_owned(),
            found,
        });
    }
    Ok(())
}

/// The columns as a list for SELECT; NULL for one that the file does not have.
pub(crate) fn list<'a>(
    present: &Present,
    table: &str,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let has = |name: &str| {
        present
            .get(table)
            .is_some_and(|columns| columns.contains(name))
    };
    names
        .map(|name| if has(name) { name } else { "NULL" })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Nanoseconds since 1970; beyond the year 2262 the last one that fits.
pub(crate) fn nanos(since: Duration) -> i64 {
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The reverse; a negative number, which no recording has, is 1970.
pub(crate) fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A new file that gets its name when it is complete; removed if it is given up.
#[derive(Debug)]
pub(crate) struct Part {
    whole: PathBuf,
    part: PathBuf,
}

impl Part {
    /// Fails if there is a file of that name already.
    pub(crate) fn new(path: &Path) -> Result<Part, Error> {
        if path.exists() {
            return Err(Error::Exists {
                path: path.to_owned(),
            });
        }
        let part = Part {
            whole: path.to_owned(),
            part: with_suffix(path, ".part"),
        };
        // What an earlier attempt left that was killed.
        part.remove();
        Ok(part)
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.part
    }

    /// Makes it durable, then gives it its name; never in place of another file.
    pub(crate) fn publish(self) -> Result<(), Error> {
        std::fs::File::open(&self.part)
            .and_then(|file| file.sync_all())
            .at(&self.part)?;
        match std::fs::hard_link(&self.part, &self.whole) {
            // A file system without hard links.
            Err(error)
                if error.kind() != std::io::ErrorKind::AlreadyExists && !self.whole.exists() =>
            {
                std::fs::rename(&self.part, &self.whole).at(&self.whole)?;
            }
            other => other.at(&self.whole)?,
        }
        let folder = self
            .whole
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(Path::new(".")))
            .and_then(|folder| folder.sync_all())
            .at(&self.whole)
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.part);
        for suffix in SIDE_FILES {
            let _ = std::fs::remove_file(with_suffix(&self.part, suffix));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}
