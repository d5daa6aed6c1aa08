mod tables;
mod untrusted;

pub use tables::{PresentTables, check_recording_tables, excerpt, schema_objects};
use untrusted::HEADER_BYTES;
pub use untrusted::{UntrustedDatabase, detect_truncation};

use crate::{
    error::{AttachPath, Error, Result},
    schema::{APPLICATION_ID, FORMAT},
    side_files::{SIDE_FILE_SUFFIXES, length, with_suffix},
};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs,
    io::{ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A kind of SQLite database, identified by two numbers in the first page.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseKind {
    pub application_id: i32,
    /// The newest readable `PRAGMA user_version`; the first is 1.
    pub format: i32,
}

pub const RECORDING_KIND: DatabaseKind = DatabaseKind {
    application_id: APPLICATION_ID,
    format: FORMAT,
};

/// SQLite's page cache in KiB: a tick touches a dozen pages, and the daemon should stay small.
const CACHE_KIB: i64 = 512;

pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection's file, which may be a copy of `path`.
fn opened_path(conn: &Connection, path: &Path) -> PathBuf {
    conn.path().map_or_else(|| path.to_owned(), PathBuf::from)
}

/// Fails if the WAL next to `path` is of another file: SQLite would apply it, or delete it next to
/// an empty file.
///
/// Opens and closes the file itself, which drops SQLite's locks of this process on it.
pub fn check_wal(path: &Path) -> Result<()> {
    // SQLite follows links.
    let wal = with_suffix(&fs::canonicalize(path).at(path)?, "-wal");
    if length(&wal) == 0 {
        return Ok(());
    }
    let mut header = [0; 20];
    let mut file = fs::File::open(path).at(path)?;
    let what = match file.read(&mut header).at(path)? {
        0 => "belongs to a recording that is not here: the file next to it is empty",
        // Not in WAL mode.
        _ if header[18..] == [1, 1] => "does not belong to this finished recording",
        _ => return Ok(()),
    };
    // A writer may have finished meanwhile: it removes the WAL first.
    if length(&wal) == 0 {
        return Ok(());
    }
    Err(Error::LeftoverJournal { path: wal, what })
}

/// Opens one of this program's own files for writing.
pub fn open_to_write(path: &Path, kind: &DatabaseKind) -> Result<Connection> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, path, kind)?;
    tune(&conn).at(path)?;
    Ok(conn)
}

pub fn open_to_read(path: &Path, kind: &DatabaseKind) -> Result<UntrustedDatabase> {
    open_untrusted(path, OpenFlags::SQLITE_OPEN_READ_ONLY, path, kind)
}

/// Opens an untrusted file that SQLite may have to write before it reads. Errors name the file
/// `error_path`, because `path` may be a copy.
pub fn open_to_recover(
    path: &Path,
    error_path: &Path,
    kind: &DatabaseKind,
) -> Result<UntrustedDatabase> {
    open_untrusted(path, OpenFlags::SQLITE_OPEN_READ_WRITE, error_path, kind)
}

fn open_untrusted(
    path: &Path,
    flags: OpenFlags,
    error_path: &Path,
    kind: &DatabaseKind,
) -> Result<UntrustedDatabase> {
    let conn = connect(path, flags, error_path, kind)?;
    let database = UntrustedDatabase::new(conn, error_path, length(path))?;
    tune(database.connection()).at(error_path)?;
    Ok(database)
}

fn connect(
    path: &Path,
    flags: OpenFlags,
    error_path: &Path,
    kind: &DatabaseKind,
) -> Result<Connection> {
    // Absolute, because SQLite treats a name that begins with `file:` as a URI.
    let absolute = std::path::absolute(path).at(error_path)?;
    check_kind(&absolute, error_path, kind)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(absolute, flags).at(error_path)?;
    untrusted::harden(&conn).at(error_path)?;
    Ok(conn)
}

/// Rejects other kinds before SQLite creates a WAL for the file. Reads through SQLite: closing
/// another descriptor of the file would drop the locks of a writer in this process.
fn check_kind(absolute: &Path, path: &Path, kind: &DatabaseKind) -> Result<()> {
    if length(absolute) < HEADER_BYTES as u64 {
        return Ok(());
    }
    let conn = open_immutable(absolute).at(path)?;
    let application = conn.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    // The newest header may be only in the WAL or journal.
    let has_side_files = SIDE_FILE_SUFFIXES
        .iter()
        .any(|suffix| length(&with_suffix(absolute, suffix)) > 0);
    if has_side_files || application == Ok(kind.application_id) {
        return Ok(());
    }
    application.at(path)?;
    check_application_and_format(&conn, path, kind)
}

/// Opens a database without locks, and ignores its WAL.
pub fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
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
    Connection::open_with_flags(address, flags)
}

fn tune(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(LOCK_TIMEOUT)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

pub fn check_application_and_format(
    conn: &Connection,
    path: &Path,
    kind: &DatabaseKind,
) -> Result<()> {
    let number = |pragma: &str| {
        conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0))
            .at(path)
    };
    let application = number("application_id")?;
    if application != kind.application_id {
        if number("page_count")? > 0 {
            let found =
                format!("another program's SQLite database (application id {application:#x})");
            return Err(Error::wrong_kind(path, found));
        }
        if length(&opened_path(conn, path)) == 0 {
            let path = path.to_owned();
            return Err(Error::Empty { path });
        }
        // SQLite treats a file of a few bytes as empty.
        return Err(Error::wrong_kind(path, "too short for an SQLite database"));
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
        return Err(Error::wrong_kind(path, format!("format {found}")));
    }
    Ok(())
}

/// For SELECT, with NULL for each column that the file lacks.
pub fn column_list<'a>(
    present_tables: &PresentTables,
    table: &str,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let has = |name: &str| {
        present_tables
            .get(table)
            .is_some_and(|columns| columns.contains(name))
    };
    names
        .map(|name| if has(name) { name } else { "NULL" })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Unix nanoseconds, saturated at the year 2262.
pub fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A negative number, which no recording has, gives 1970.
pub fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A new file that gets its name when it is complete. An incomplete one is removed.
#[derive(Debug)]
pub struct TempFile {
    target: PathBuf,
    temporary: PathBuf,
}

impl TempFile {
    pub fn create(path: &Path) -> Result<(Self, Connection)> {
        if path.exists() {
            return Err(Error::Exists {
                path: path.to_owned(),
            });
        }
        // Another process may write the same recording, or may have left its file.
        let mut number = 0;
        let temporary = loop {
            let name = with_suffix(path, &format!(".{}-{number}.part", std::process::id()));
            match fs::File::create_new(&name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                created => break created.at(path).map(|_| name)?,
            }
        };
        let part = Self {
            target: path.to_owned(),
            temporary,
        };
        let conn = open_to_write(&part.temporary, &RECORDING_KIND)?;
        Ok((part, conn))
    }

    /// Closes and syncs the file, then gives it its name. Without hard links, it may replace a file
    /// that is created at the same moment.
    pub fn publish(self, conn: Connection) -> Result<()> {
        conn.close()
            .map_err(|(_, error)| Error::sqlite(&self.target, error))?;
        fs::File::open(&self.temporary)
            .and_then(|file| file.sync_all())
            .at(&self.temporary)?;
        match fs::hard_link(&self.temporary, &self.target) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists && !self.target.exists() => {
                fs::rename(&self.temporary, &self.target).at(&self.target)?;
            }
            other => other.at(&self.target)?,
        }
        let folder = self
            .target
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        fs::File::open(folder.unwrap_or(Path::new(".")))
            .and_then(|folder| folder.sync_all())
            .at(&self.target)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        remove_with_side_files(&self.temporary);
    }
}

pub fn remove_with_side_files(path: &Path) {
    let _ = fs::remove_file(path);
    for suffix in SIDE_FILE_SUFFIXES {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_a_copy_name_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let (copy, original) = (folder.path().join("copy"), Path::new("run.fltl"));
        std::fs::write(&copy, [1; 200]).unwrap();
        let error = open_to_recover(&copy, original, &RECORDING_KIND).unwrap_err();
        assert!(error.to_string().starts_with("run.fltl: "), "{error}");
    }

    #[test]
    fn a_writer_that_finishes_during_the_check_of_the_wal_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let wal = with_suffix(&path, "-wal");
        fs::write(&wal, "x").unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        std::thread::scope(|scope| {
            let check = scope.spawn(|| check_wal(&path));
            // Waits for the reader, which has measured the WAL before.
            let mut header = fs::OpenOptions::new().write(true).open(&path).unwrap();
            fs::remove_file(&wal).unwrap();
            std::io::Write::write_all(&mut header, &[1; 20]).unwrap();
            check.join().unwrap().unwrap();
        });
    }

    #[test]
    fn two_files_of_one_name_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let [first, second] = [1, 2].map(|version| {
            let (file, conn) = TempFile::create(&path).unwrap();
            conn.pragma_update(None, "user_version", version).unwrap();
            (file, conn)
        });
        first.0.publish(first.1).unwrap();
        let error = second.0.publish(second.1).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        let conn = Connection::open(&path).unwrap();
        let version = conn.query_row("PRAGMA user_version", [], |row| row.get(0));
        assert_eq!(version, Ok(1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
