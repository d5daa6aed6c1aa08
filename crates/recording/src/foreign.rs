//! Untrusted databases of other kinds, read with the limits of recordings.

use crate::error::{AttachPath, Error};
use crate::file::{self, BoundedConnection, DatabaseKind, ReturnedValues, excerpt, objects};
use crate::reader::open::{self, TempCopy};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Params, Row};
use std::fs::File;
use std::path::Path;

/// An SQLite database that is not a recording. Its size bounds the time and memory of reads.
#[derive(Debug)]
pub struct ForeignDatabase {
    // Closed before the copy that it may use is removed.
    conn: BoundedConnection,
    _copied: Option<TempCopy>,
}

impl ForeignDatabase {
    /// Opens a read-only snapshot. Each of `tables` must exist with exactly this statement.
    pub fn open(path: &Path, kind: &DatabaseKind, tables: &[&str]) -> Result<Self, Error> {
        let (conn, (), copied) = open::open(path, kind, |guarded, path| {
            check_tables(guarded, path, tables)
        })?;
        Ok(ForeignDatabase {
            conn,
            _copied: copied,
        })
    }

    /// Opens for writing, and creates the tables if the file is new or empty. A value may have at
    /// most `longest_value` bytes.
    pub fn open_to_write(
        path: &Path,
        kind: &DatabaseKind,
        tables: &[&str],
        longest_value: i32,
    ) -> Result<Connection, Error> {
        let is_new = file::length(path) == 0;
        if is_new {
            let file = File::options().create(true).append(true).open(path);
            drop(file.at(path)?);
        } else {
            Self::open(path, kind, tables)?.check_pages(path)?;
        }
        let mut conn = file::open_to_write(path, kind)?;
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest_value)
            .at(path)?;
        if is_new {
            make(&mut conn, kind, tables).at(path)?;
        }
        Ok(conn)
    }

    /// A writing connection has no limits, so pages with several references would be endless.
    fn check_pages(&self, path: &Path) -> Result<(), Error> {
        let sql = "PRAGMA quick_check(1)";
        let of = |row: &Row<'_>| row.get::<_, String>(0);
        let found = self.conn.collect(ReturnedValues::Texts, sql, [], of)?;
        match found.into_iter().find(|found| found != "ok") {
            Some(found) => Err(Error::Damaged {
                path: path.to_owned(),
                what: excerpt(&found),
            }),
            None => Ok(()),
        }
    }

    /// Passes each row to `each`, whose error ends the walk. The statement must not sort.
    ///
    /// # Errors
    /// [`Error::Refused`] if the result or the work exceeds the file's size.
    pub fn walk<E: From<Error>>(
        &self,
        returned_values: ReturnedValues,
        sql: &str,
        parameters: impl Params,
        each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.conn.walk(returned_values, sql, parameters, each)
    }
}

impl Error {
    /// Message for a file that should be another kind of database: `mismatch` if it is not,
    /// `remedy` for damage. `None` if the error does not depend on the kind.
    pub fn of_foreign_database(&self, mismatch: &str, remedy: &str) -> Option<String> {
        let what = match self {
            Error::NotARecording { found, .. } => format!("{mismatch}: {found}"),
            Error::Empty { .. } => "it is empty: remove it".to_owned(),
            Error::Newer { found, known, .. } => {
                format!(
                    "format {found}: this version reads up to format {known}; use a newer faultline"
                )
            }
            Error::Truncated { have, want, .. } => {
                format!("cut off: {have} bytes of {want}; {remedy}")
            }
            Error::Damaged { what, .. } => format!("damaged: {what}; {remedy}"),
            Error::Refused { what, .. } => format!("not read: {what}; {remedy}"),
            _ => return None,
        };
        Some(what)
    }
}

fn make(conn: &mut Connection, kind: &DatabaseKind, tables: &[&str]) -> rusqlite::Result<()> {
    let transaction = conn.transaction()?;
    transaction.pragma_update(None, "application_id", kind.application_id)?;
    transaction.pragma_update(None, "user_version", kind.format)?;
    for table in tables {
        transaction.execute_batch(table)?;
    }
    transaction.commit()
}

fn check_tables(guarded: &BoundedConnection, path: &Path, tables: &[&str]) -> Result<(), Error> {
    let mut found = Vec::new();
    for object in objects(guarded)? {
        let (kind, sql) = (object.kind.as_str(), object.sql.as_str());
        if object.is_table() {
            found.push(object.sql);
        } else if kind != "index" || !sql.is_empty() {
            let what = format!(
                "`{}` is a {} and no plain table",
                excerpt(&object.name),
                excerpt(kind)
            );
            return Err(Error::refused(path, what));
        }
    }
    match tables
        .iter()
        .find(|table| !found.iter().any(|sql| sql == *table))
    {
        Some(table) => Err(Error::refused(
            path,
            format!("it has no table made by `{}`", excerpt(table)),
        )),
        None => Ok(()),
    }
}
