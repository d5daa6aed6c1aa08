use super::{TransactionState, Writer, keyed_samples::RowCounts, samples::Samples};
use crate::{
    error::{AttachPath, Error, Result},
    file::{self, PresentTables, RECORDING_KIND, UntrustedDatabase, nanos},
    reader::{Recording, read_labels},
    rows::{NewRecording, NewSession},
    schema::{APPLICATION_ID, FORMAT, TABLES},
    side_files::{SIDE_FILE_SUFFIXES, with_suffix},
};
use rusqlite::{Connection, params};
use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Without an explicit checkpoint, SQLite does one when the WAL has this many pages (16 MiB).
const AUTOCHECKPOINT_PAGES: i64 = 4096;

impl Writer {
    pub fn create(path: &Path, new_recording: &NewRecording) -> Result<Self> {
        check_side_files(path)?;
        let file = File::create_new(path).at(path)?;
        let created = lock(file, path).and_then(|lock| {
            let conn = file::open_to_write(path, &RECORDING_KIND)?;
            make_tables(&conn, &sorted(&new_recording.labels)).at(path)?;
            begin_session(lock, conn, path, &new_recording.session, RowCounts::new())
        });
        if created.is_err() {
            file::remove_with_side_files(path);
        }
        created
    }

    /// Creates a file, or adds a session to one with the same labels, as after a restart of the
    /// daemon.
    ///
    /// # Errors
    /// [`Error::OtherLabels`], [`Error::InUse`], and the errors of a reader. They change neither the
    /// file nor its WAL.
    pub fn append(path: &Path, new_recording: &NewRecording) -> Result<Self> {
        if !path.exists() {
            return Self::create(path, new_recording);
        }
        check_side_files(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .at(path)?;
        let lock = lock(file, path)?;
        file::check_wal(path)?;
        let mut connection = file::open_to_recover(path, path, &RECORDING_KIND)
            .map_err(|error| file::detect_truncation(path, error))?;
        match connection.check_not_truncated().and_then(|()| {
            file::check_application_and_format(connection.connection(), path, &RECORDING_KIND)
        }) {
            Err(Error::Empty { .. }) => {
                drop((connection, lock));
                file::remove_with_side_files(path);
                return Self::create(path, new_recording);
            }
            other => other?,
        }
        let present_tables = file::check_recording_tables(&connection, path)?;
        let counts = count_present_rows(&connection, &present_tables)?;
        let known_labels = read_labels(&connection)?;
        check_labels(path, &known_labels, &new_recording.labels)?;
        let conn = connection.remove_limits()?;
        upgrade_tables(&conn, &present_tables).at(path)?;
        begin_session(lock, conn, path, &new_recording.session, counts)
    }

    /// Fails if [`Self::append`] would refuse the file with its labels, or a side file. Only reads.
    pub fn check(path: &Path) -> Result<()> {
        check_side_files(path)?;
        Recording::open(path).map(drop)
    }

    /// The recording; on NFS, a file next to it.
    pub fn locked_file(&self) -> &File {
        &self.lock.file
    }
}

/// Refuses a device, which would be replaced as an empty recording. SQLite would overwrite or delete
/// a side file of a missing recording, and follow a link.
fn check_side_files(path: &Path) -> Result<()> {
    let exists = path.exists();
    if exists && !path.is_file() {
        return Err(Error::wrong_kind(path, "a folder or a device"));
    }
    for side_file in SIDE_FILE_SUFFIXES.map(|suffix| with_suffix(path, suffix)) {
        let what = match side_file.symlink_metadata() {
            Ok(_) if !exists => "belongs to a recording that is not here",
            Ok(metadata) if !metadata.is_file() => {
                "is a link, folder or device, not a WAL or journal of SQLite"
            }
            _ => continue,
        };
        return Err(Error::LeftoverJournal {
            path: side_file,
            what,
        });
    }
    Ok(())
}

/// Moves the WAL into the recording and removes it. No transaction may be open.
pub fn remove_wal(conn: &Connection, path: &Path) -> Result<()> {
    conn.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .at(path)?;
    let mode = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| {
        row.get::<_, String>(0)
    });
    match mode {
        Ok(mode) if mode == "delete" => Ok(()),
        Err(error) if error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) => {
            Err(Error::sqlite(path, error))
        }
        _ => Err(Error::BeingRead {
            path: path.to_owned(),
        }),
    }
}

pub fn make_tables(conn: &Connection, labels: &[(String, String)]) -> rusqlite::Result<()> {
    conn.pragma_update(None, "page_size", 4096)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", FORMAT)?;
    for table in TABLES.iter() {
        conn.execute_batch(&table.create_sql())?;
    }
    for (key, value) in labels {
        conn.execute("INSERT INTO label(key, value) VALUES(?, ?)", [key, value])?;
    }
    conn.execute_batch("COMMIT")
}

/// Adds tables and columns that an older version did not write.
fn upgrade_tables(conn: &Connection, present_tables: &PresentTables) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    for table in TABLES.iter() {
        let Some(columns) = present_tables.get(table.name) else {
            conn.execute_batch(&table.create_sql())?;
            continue;
        };
        for column in table
            .columns
            .iter()
            .filter(|column| !columns.contains(column.name))
        {
            conn.execute_batch(&format!(
                "ALTER TABLE {} ADD COLUMN {} {}",
                table.name,
                column.name,
                column.kind.sql()
            ))?;
        }
    }
    conn.execute_batch("COMMIT")
}

/// The lock is the first parameter, because the last one is dropped first.
fn begin_session(
    lock: WriterLock,
    conn: Connection,
    path: &Path,
    session: &NewSession,
    counts: RowCounts,
) -> Result<Writer> {
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).at(path);
    conn.pragma_update(None, "journal_mode", "WAL").at(path)?;
    conn.pragma_update(None, "synchronous", "NORMAL").at(path)?;
    conn.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)
        .at(path)?;
    let next_tick = number("SELECT coalesce(max(id), 0) + 1 FROM tick")?;
    let sql =
        "INSERT INTO session(started_unix_ns, interval_ns, version, manifest) VALUES(?,?,?,?)";
    let (started, interval) = (nanos(session.started.unix), nanos(session.interval));
    conn.execute(
        sql,
        params![
            started,
            interval,
            session.version,
            session.manifest.to_string()
        ],
    )
    .at(path)?;
    let id = conn.last_insert_rowid();
    let mut current = TransactionState {
        next_tick,
        last_process_id: None,
        counts,
    };
    *current.counts.entry("session").or_default() += 1;
    Ok(Writer {
        conn,
        lock,
        path: path.to_owned(),
        session: id,
        followed_process: None,
        samples: Samples::new(),
        written_problems: Default::default(),
        committed: current.clone(),
        current,
        uncommitted_rows: 0,
        has_failed: false,
    })
}

fn sorted(labels: &[(String, String)]) -> Vec<(String, String)> {
    BTreeMap::from_iter(labels.iter().cloned())
        .into_iter()
        .collect()
}

fn check_labels(
    path: &Path,
    found: &[(String, String)],
    wanted: &[(String, String)],
) -> Result<()> {
    let wanted = sorted(wanted);
    if found == wanted {
        return Ok(());
    }
    Err(Error::OtherLabels {
        path: path.to_owned(),
        found: label_list(found),
        wanted: label_list(&wanted),
    })
}

pub fn label_list(labels: &[(String, String)]) -> String {
    let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
    match pairs.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "(none)".into(),
        list => list,
    }
}

/// Excludes other writers until dropped. Not an SQLite lock, because those are short.
#[derive(Debug)]
pub struct WriterLock {
    file: File,
    /// On NFS, a file next to the recording.
    separate: Option<PathBuf>,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        if let Some(path) = &self.separate
            && is_file_at(&self.file, path)
        {
            let _ = fs::remove_file(path);
        }
        // A child process has a copy of the descriptor until its exec.
        let _ = self.file.unlock();
    }
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let inode = |metadata: std::io::Result<Metadata>| metadata.ok().map(|metadata| metadata.ino());
    inode(path.metadata()) == inode(file.metadata())
}

fn lock(file: File, path: &Path) -> Result<WriterLock> {
    let file_system = rustix::fs::fstatfs(&file).map_err(|errno| Error::io(path, errno.into()))?;
    // NFS makes `flock` a lock of all bytes of the file, which blocks SQLite's own locks.
    if file_system.f_type == rustix::fs::NFS_SUPER_MAGIC {
        return lock_separate_file(path);
    }
    Ok(WriterLock {
        file: try_lock(file, path)?,
        separate: None,
    })
}

fn lock_separate_file(path: &Path) -> Result<WriterLock> {
    let separate = with_suffix(path, "-lock");
    let open = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&separate);
    let file = try_lock(open.at(&separate)?, path)?;
    // The previous writer may have removed the file after it was opened here.
    if !is_file_at(&file, &separate) {
        return Err(Error::InUse {
            path: path.to_owned(),
        });
    }
    Ok(WriterLock {
        file,
        separate: Some(separate),
    })
}

fn try_lock(file: File, path: &Path) -> Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(Error::io(path, error)),
    }
}

fn count_present_rows(
    conn: &UntrustedDatabase,
    present_tables: &PresentTables,
) -> Result<RowCounts> {
    let count = |name: &'static str| {
        let rows = match present_tables.contains_key(name) {
            true => conn.count_rows(name)?,
            false => 0,
        };
        Ok((name, rows))
    };
    counted_tables().map(count).collect()
}

/// Ends the last session with its last tick, and stores `meta` and the row counts. Returns the row
/// counts.
pub fn finish_recording(conn: &Connection, meta: &[(&str, &str)]) -> rusqlite::Result<RowCounts> {
    conn.execute_batch(
        "BEGIN;
         UPDATE session SET ended_unix_ns =
             coalesce((SELECT unix_ns FROM tick WHERE tick.session = session.id ORDER BY id DESC LIMIT 1),
                      started_unix_ns)
         WHERE ended_unix_ns IS NULL AND id = (SELECT max(id) FROM session)",
    )?;
    let counts = count_rows(conn)?;
    let rows = serde_json::to_string(&counts).unwrap_or_default();
    put_meta(conn, "rows", &rows)?;
    for (key, value) in meta {
        put_meta(conn, key, value)?;
    }
    conn.execute_batch("COMMIT")?;
    Ok(counts)
}

pub fn put_meta(conn: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta(key, value) VALUES(?1, ?2)
               ON CONFLICT(key) DO UPDATE SET value = excluded.value";
    conn.prepare_cached(sql)?.execute([key, value]).map(drop)
}

fn count_rows(conn: &Connection) -> rusqlite::Result<RowCounts> {
    let count = |name: &'static str| {
        let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| {
            row.get(0)
        })?;
        Ok((name, u64::try_from(rows).unwrap_or(0)))
    };
    counted_tables().map(count).collect()
}

fn counted_tables() -> impl Iterator<Item = &'static str> {
    TABLES
        .iter()
        .map(|table| table.name)
        .filter(|name| !["meta", "label"].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::Stamp;
    use std::time::Duration;

    #[test]
    fn a_separate_lock_file_is_exclusive_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let lock = lock_separate_file(&path).unwrap();
        assert!(matches!(
            lock_separate_file(&path),
            Err(Error::InUse { .. })
        ));
        drop(lock);
        assert!(folder.path().read_dir().unwrap().next().is_none());
        drop(lock_separate_file(&path).unwrap());
    }

    #[test]
    fn a_copy_of_the_descriptor_keeps_no_dropped_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let lock = || super::lock(File::create(&path).unwrap(), &path);
        let first = lock().unwrap();
        let copy = first.file.try_clone().unwrap();
        drop(first);
        drop(lock().unwrap());
        drop(copy);
    }

    #[test]
    fn a_link_at_the_journal_is_refused_also_next_to_a_wal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let session = NewSession {
            started: Stamp::default(),
            interval: Duration::from_secs(1),
            version: String::new(),
            manifest: serde_json::Value::Null,
        };
        let labels = Vec::new();
        let recording = NewRecording { labels, session };
        drop(Writer::create(&path, &recording).unwrap());
        fs::write(with_suffix(&path, "-wal"), "").unwrap();
        let journal = with_suffix(&path, "-journal");
        std::os::unix::fs::symlink("elsewhere", &journal).unwrap();
        let error = Writer::append(&path, &recording).unwrap_err();
        assert!(
            matches!(&error, Error::LeftoverJournal { path, .. } if *path == journal),
            "{error}"
        );
    }
}
