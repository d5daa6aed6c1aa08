//! A connection that reads a file which anybody may have made: what one statement may cost is bounded by the file's size.

use super::whole;
use crate::error::{At, Error};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest value of a recording, in bytes: a manifest with 512 arguments of 4,096 bytes, each byte escaped in JSON.
const LONGEST_VALUE: usize = 16 << 20;

/// All values of one row, in bytes.
const LONGEST_ROW: usize = 128 << 20;

/// Longest statement in the list of tables, in bytes; the longest of the format has some thousand.
const LONGEST_STATEMENT: usize = 64 << 10;

/// A row in the file, in bytes, at least: its place in the page, its length, its number, and a header of two.
const SMALLEST_ROW: u64 = 6;

/// Instructions of SQLite's virtual machine that a statement may take, for each byte of the file and beside that. To read
/// a recording takes fewer than two for each byte.
const STEPS_PER_BYTE: u64 = 8;
const STEPS: u64 = 1 << 20;

/// Instructions between two looks at how many there were.
const CHECK_EVERY: u16 = 1000;

/// A connection to a file that anybody may have made.
///
/// Pages that refer to one another more than once would make a small file an endless table. So a statement gives no more
/// rows and text than the file can hold, and ends after a number of instructions that follows from the file's size. It must
/// need no sorting, which SQLite does before it gives the first row.
#[derive(Debug)]
pub(crate) struct Guarded {
    conn: Connection,
    path: PathBuf,
    work: Arc<Work>,
    /// Of the database.
    bytes: u64,
}

/// What a statement gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedValues {
    /// Numbers: whoever reads them keeps no text.
    Numbers,
    /// Texts as well, which are counted.
    Texts,
}

/// Instructions of the statement under way.
#[derive(Debug)]
struct Work {
    done: AtomicU64,
    most: AtomicU64,
}

/// No object of a file makes a connection do anything.
pub(crate) fn distrust(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(())
}

impl Guarded {
    /// Takes a connection that has read nothing yet. `path` is named in errors, `bytes` is the length of its file.
    pub(crate) fn new(mut conn: Connection, path: &Path, bytes: u64) -> Result<Guarded, Error> {
        let work = Arc::new(Work {
            done: AtomicU64::new(0),
            most: AtomicU64::new(steps(bytes)),
        });
        let watched = Arc::clone(&work);
        let check = move || {
            watched.done.fetch_add(CHECK_EVERY.into(), Relaxed) >= watched.most.load(Relaxed)
        };
        conn.progress_handler(CHECK_EVERY.into(), Some(check))
            .at(path)?;
        let guarded = Guarded {
            conn,
            path: path.to_owned(),
            work,
            bytes,
        };
        guarded.limit(LONGEST_STATEMENT)?;
        guarded
            .conn
            .set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)
            .at(path)?;
        guarded
            .conn
            .pragma_update(None, "cell_size_check", true)
            .at(path)?;
        Ok(guarded)
    }

    /// Fails if the file is cut off. From here on the size is that of the database, with what its log has.
    pub(crate) fn measure(&mut self) -> Result<(), Error> {
        self.bytes = whole::check_whole(&self.conn, &self.path)?;
        self.work.most.store(steps(self.bytes), Relaxed);
        Ok(())
    }

    /// The one number that a statement gives; `None` if it gives none, or NULL.
    pub(crate) fn number(&self, sql: &str) -> Result<Option<i64>, Error> {
        let mut number = None;
        self.walk(ReturnedValues::Numbers, sql, [], |row| {
            number = row.get(0).at(&self.path)?;
            Ok::<(), Error>(())
        })?;
        Ok(number)
    }

    /// The connection without its bounds, to go on with a file that was found to be a recording.
    pub(crate) fn release(mut self) -> Result<Connection, Error> {
        self.conn
            .progress_handler(0, None::<fn() -> bool>)
            .at(&self.path)?;
        self.conn
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)
            .at(&self.path)?;
        // VACUUM needs one.
        self.conn
            .set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)
            .at(&self.path)?;
        Ok(self.conn)
    }

    /// The connection itself, for what reads no rows.
    pub(crate) fn connection(&self) -> &Connection {
        &self.conn
    }

    /// Gives every row that a statement finds to `each`, whose error ends it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it finds more than the file can hold, works longer than for any recording of this size, or
    /// meets a value that no recording has.
    pub(crate) fn walk<E: From<Error>>(
        &self,
        gives: ReturnedValues,
        sql: &str,
        parameters: impl Params,
        mut each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement = self.conn.prepare_cached(sql).at(&self.path)?;
        let columns = statement.column_count();
        self.limit(LONGEST_VALUE.min(LONGEST_ROW / columns.max(1)))?;
        self.work.done.store(0, Relaxed);
        let mut rows = statement.query(parameters).at(&self.path)?;
        let mut remaining = self.bytes;
        while let Some(row) = rows.next().at(&self.path)? {
            let size = SMALLEST_ROW
                + if gives == ReturnedValues::Texts {
                    text(row, columns)
                } else {
                    0
                };
            let left = remaining
                .checked_sub(size)
                .ok_or_else(|| Error::refused(&self.path, MORE_THAN_FITS))?;
            remaining = left;
            each(row)?;
        }
        Ok(())
    }

    fn limit(&self, bytes: usize) -> Result<(), Error> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.conn
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)
            .map(|_| ())
            .at(&self.path)
    }
}

const MORE_THAN_FITS: &str = "one of its tables has more rows than a file of its size can hold";

fn steps(bytes: u64) -> u64 {
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS)
}

/// Bytes of text in a row.
fn text(row: &Row<'_>, columns: usize) -> u64 {
    let length = |i| match row.get_ref(i) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len() as u64,
        _ => 0,
    };
    (0..columns).map(length).sum()
}
