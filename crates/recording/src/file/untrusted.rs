use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rusqlite::{Connection, Params, Row, config::DbConfig, limits::Limit, types::ValueRef};

use super::opened_path;
use crate::error::{AttachPath, Error, Result};
use crate::side_files::{length, with_suffix};

/// Enough for a manifest with 512 arguments of 4,096 bytes, all escaped in JSON.
const MAX_VALUE_BYTES: usize = 16 << 20;

const MAX_ROW_BYTES: usize = 128 << 20;

/// For CREATE statements. The longest has some thousand bytes.
const MAX_STATEMENT_BYTES: usize = 64 << 10;

/// Bytes of an empty row: two for its pointer, one each for length and number, two for a header.
const MIN_ROW_BYTES: u64 = 6;

/// Limit of SQLite VM instructions per byte of the file. Reading a recording takes fewer than two
/// per byte.
const STEPS_PER_BYTE: u64 = 8;
/// VM instructions that are allowed in addition for any file.
const BASE_STEPS: u64 = 1 << 20;

const CHECK_INTERVAL_STEPS: u16 = 1000;

/// A reading connection to an untrusted file.
///
/// Pages with several references could make a small file an endless table. So a statement returns
/// no more rows and text than the file can hold. Its limit of instructions also depends on the
/// file's size. A statement must not sort, because SQLite sorts before it returns the first row.
#[derive(Debug)]
pub struct UntrustedDatabase {
    conn: Connection,
    path: PathBuf,
    step_counter: Arc<StepCounter>,
    bytes: u64,
}

#[derive(Debug)]
struct StepCounter {
    steps_done: AtomicU64,
    max_steps: AtomicU64,
}

/// Disables everything that objects of the file could trigger.
pub fn harden(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(())
}

impl UntrustedDatabase {
    /// Takes an unused connection. `path` is for errors, `bytes` is the length of the file.
    pub fn new(mut conn: Connection, path: &Path, bytes: u64) -> Result<Self> {
        let step_counter = Arc::new(StepCounter {
            steps_done: AtomicU64::new(0),
            max_steps: AtomicU64::new(max_steps(bytes)),
        });
        let counter = Arc::clone(&step_counter);
        let check = move || {
            counter
                .steps_done
                .fetch_add(CHECK_INTERVAL_STEPS.into(), Relaxed)
                >= counter.max_steps.load(Relaxed)
        };
        conn.progress_handler(CHECK_INTERVAL_STEPS.into(), Some(check))
            .at(path)?;
        let database = Self {
            conn,
            path: path.to_owned(),
            step_counter,
            bytes,
        };
        database.limit_value_bytes(MAX_STATEMENT_BYTES)?;
        let conn = &database.conn;
        conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).at(path)?;
        conn.pragma_update(None, "cell_size_check", true).at(path)?;
        // A file that is then refused must stay as it is.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .at(path)?;
        Ok(database)
    }

    /// Fails if the file is truncated. Then sets the size to that of the database, including its
    /// WAL.
    pub fn check_not_truncated(&mut self) -> Result<()> {
        self.bytes = check_not_truncated(&self.conn, &self.path)?;
        self.step_counter
            .max_steps
            .store(max_steps(self.bytes), Relaxed);
        Ok(())
    }

    pub fn query_integer(&self, sql: &str) -> Result<Option<i64>> {
        let mut numbers = self.collect(sql, [], |row| row.get(0))?;
        Ok(numbers.pop().flatten())
    }

    /// Uses `sum(1)`, because `count(*)` would follow a cycle of pages forever.
    pub fn count_rows(&self, table: &str) -> Result<u64> {
        let rows = self.query_integer(&format!("SELECT sum(1) FROM {table}"))?;
        Ok(rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }

    /// Removes the limits of work and length, for a file that was found to be a recording. Closing
    /// then checkpoints it.
    pub fn remove_limits(mut self) -> Result<Connection> {
        self.conn
            .progress_handler(0, None::<fn() -> bool>)
            .at(&self.path)?;
        self.conn
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)
            .at(&self.path)?;
        self.conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .at(&self.path)?;
        Ok(self.conn)
    }

    pub fn connection(&self) -> &Connection {
        &self.conn
    }

    /// Passes each row to `on_row`, whose error ends the walk.
    ///
    /// # Errors
    /// [`Error::Refused`] if the result or the work exceeds what a recording of this size needs, or
    /// a value is too long.
    pub fn walk<E: From<Error>>(
        &self,
        sql: &str,
        parameters: impl Params,
        on_row: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk_counting(sql, parameters, text_bytes, on_row)
    }

    fn walk_counting<E: From<Error>>(
        &self,
        sql: &str,
        parameters: impl Params,
        text_bytes: fn(&Row<'_>, usize) -> u64,
        mut on_row: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement = self.conn.prepare_cached(sql).at(&self.path)?;
        let columns = statement.column_count();
        self.limit_value_bytes(MAX_VALUE_BYTES.min(MAX_ROW_BYTES / columns.max(1)))?;
        self.step_counter.steps_done.store(0, Relaxed);
        let mut rows = statement.query(parameters).at(&self.path)?;
        let mut remaining = self.bytes;
        while let Some(row) = rows.next().at(&self.path)? {
            remaining = remaining
                .checked_sub(MIN_ROW_BYTES + text_bytes(row, columns))
                .ok_or_else(|| Error::refused(&self.path, TOO_MANY_ROWS))?;
            on_row(row)?;
        }
        Ok(())
    }

    pub fn collect<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.collect_counting(sql, parameters, text_bytes, read)
    }

    /// Like [`Self::collect`], but `read` must fail at a value that is neither a number nor NULL.
    /// Then no row has text, and the walk saves the quarter of its time that counting text takes.
    pub fn collect_numbers<T>(
        &self,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.collect_counting(sql, [], |_, _| 0, read)
    }

    fn collect_counting<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        text_bytes: fn(&Row<'_>, usize) -> u64,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut out = Vec::new();
        self.walk_counting(sql, parameters, text_bytes, |row| {
            out.push(read(row).at(&self.path)?);
            Ok::<(), Error>(())
        })?;
        Ok(out)
    }

    fn limit_value_bytes(&self, bytes: usize) -> Result<()> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.conn
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)
            .map(drop)
            .at(&self.path)
    }
}

const TOO_MANY_ROWS: &str = "one of its tables has more rows than a file of its size can hold";

fn max_steps(bytes: u64) -> u64 {
    bytes
        .saturating_mul(STEPS_PER_BYTE)
        .saturating_add(BASE_STEPS)
}

fn text_bytes(row: &Row<'_>, columns: usize) -> u64 {
    let length = |i| match row.get_ref(i) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len() as u64,
        _ => 0,
    };
    (0..columns).map(length).sum()
}

pub const HEADER_BYTES: usize = 100;

const WAL_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Returns the bytes of the database. Fails if the file ends before its last page, unless the WAL
/// has the missing pages. SQLite itself would read a missing page as zeros.
fn check_not_truncated(conn: &Connection, path: &Path) -> Result<u64> {
    let read_pragma =
        |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = match read_pragma("page_count") {
        Ok(pages) => u64::try_from(pages).unwrap_or(0),
        Err(error) => return Err(detect_truncation(path, Error::sqlite(path, error))),
    };
    let size = u64::try_from(read_pragma("page_size").at(path)?).unwrap_or(0);
    let file = opened_path(conn, path);
    let (have, want) = (length(&file), pages.saturating_mul(size));
    if have >= want || size == 0 {
        return Ok(want);
    }
    let logged = logged_pages(&with_suffix(&file, "-wal"), size).unwrap_or_default();
    let missing = (have / size + 1..=pages).any(|page| !logged.contains(&page));
    if missing {
        Err(truncated(path, have, want))
    } else {
        Ok(want)
    }
}

/// Converts [`Error::Damaged`] to [`Error::Truncated`] if the file is too short.
///
/// Opens and closes the file itself, which drops SQLite's locks of this process. So call it only
/// while SQLite has no lock on the file.
pub fn detect_truncation(path: &Path, error: Error) -> Error {
    let (Error::Damaged { .. }, Ok(want)) = (&error, declared_bytes(path)) else {
        return error;
    };
    let have = length(path);
    if have < want {
        truncated(path, have, want)
    } else {
        error
    }
}

fn truncated(path: &Path, have: u64, want: u64) -> Error {
    Error::Truncated {
        path: path.to_owned(),
        have,
        want,
    }
}

fn declared_bytes(path: &Path) -> io::Result<u64> {
    let mut header = [0; 32];
    File::open(path)?.read_exact(&mut header)?;
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Ok(u64::from(pages).saturating_mul(page_size))
}

/// Pages in the frames of the WAL's current generation.
fn logged_pages(wal: &Path, page_size: u64) -> io::Result<HashSet<u64>> {
    let mut wal = BufReader::with_capacity(1 << 16, File::open(wal)?);
    let mut header = [0; WAL_HEADER_BYTES];
    wal.read_exact(&mut header)?;
    let mut pages = HashSet::new();
    let mut frame = [0; FRAME_HEADER_BYTES];
    while wal.read_exact(&mut frame).is_ok() && frame[8..16] == header[16..24] {
        pages.insert(u64::from(u32::from_be_bytes([
            frame[0], frame[1], frame[2], frame[3],
        ])));
        wal.seek_relative(i64::try_from(page_size).unwrap_or(i64::MAX))?;
    }
    Ok(pages)
}
