//! Databases of other kinds that may come from anywhere, read with the guards of recordings.

use crate::error::{At, Error};
use crate::file::{self, DatabaseKind, Guarded, ReturnedValues, is_table, shown};
use crate::reader::open::{self, Copied};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Params, Row};
use std::fs::File;
use std::path::Path;

/// An SQLite database that is no recording. Whoever made it, to read it takes time and memory that follow from its size.
#[derive(Debug)]
pub struct ForeignDatabase {
    // Closed before the copy that it may be of is removed.
    conn: Guarded,
    _copied: Option<Copied>,
}

impl ForeignDatabase {
    /// Opens to read only, at one moment. Each of `tables` must be there, made by exactly that statement.
    ///
    /// # Errors
    ///
    /// Those of [`Recording::open`](crate::Recording::open).
    pub fn open(path: &Path, kind: &DatabaseKind, tables: &[&str]) -> Result<Self, Error> {
        let (conn, (), copied) = open::open(path, kind, |guarded, path| {
            check_tables(guarded, path, tables)
        })?;
        Ok(ForeignDatabase {
            conn,
            _copied: copied,
        })
    }

    /// Opens to write, and makes the tables where the file is new or empty. Each value that is read has at most
    /// `longest_value` bytes.
    ///
    /// # Errors
    ///
    /// Those of [`ForeignDatabase::open`]; its pages contradict each other.
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

    /// A connection that writes has no bounds: pages that are referred to twice would be endless to it.
    fn check_pages(&self, path: &Path) -> Result<(), Error> {
        let mut found = String::new();
        let sql = "PRAGMA quick_check(1)";
        self.walk(ReturnedValues::Texts, sql, [], |row| {
            found = row.get(0).at(path)?;
            Ok::<(), Error>(())
        })?;
        if found == "ok" {
            return Ok(());
        }
        Err(Error::Damaged {
            path: path.to_owned(),
            what: shown(&found),
        })
    }

    /// Gives every row that a statement finds to `each`, whose error ends it. The statement must need no sorting.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the statement finds more than the file can hold, or takes too much work for its size.
    pub fn walk<E: From<Error>>(
        &self,
        gives: ReturnedValues,
        sql: &str,
        parameters: impl Params,
        each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.conn.walk(gives, sql, parameters, each)
    }
}

impl Error {
    /// What is wrong with a file that is to be another database than a recording. `mismatch` says that it is none, `remedy`
    /// what to do about damage. `None` if the error does not depend on the kind.
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

fn check_tables(guarded: &Guarded, path: &Path, tables: &[&str]) -> Result<(), Error> {
    let mut found = Vec::new();
    guarded.walk(
        ReturnedValues::Texts,
        "SELECT type, name, rootpage, sql FROM sqlite_schema",
        [],
        |row| {
            let text = |column: usize| row.get::<_, Option<String>>(column);
            let read = || {
                let root = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
                Ok((text(0)?, text(1)?, root, text(3)?.unwrap_or_default()))
            };
            let (kind, name, root, sql) = read().map_err(|error| Error::sqlite(path, error))?;
            if kind.as_deref() == Some("table") && root > 0 && is_table(&sql) {
                found.push(sql);
                return Ok::<(), Error>(());
            }
            // SQLite's own, of a key.
            if kind.as_deref() == Some("index") && sql.is_empty() {
                return Ok(());
            }
            let [name, kind] = [name, kind].map(|text| shown(&text.unwrap_or_default()));
            let what = format!("`{name}` is a {kind} and no plain table");
            Err(Error::refused(path, what))
        },
    )?;
    match tables
        .iter()
        .find(|table| !found.iter().any(|sql| sql == *table))
    {
        Some(table) => Err(Error::refused(
            path,
            format!("it has no table made by `{}`", shown(table)),
        )),
        None => Ok(()),
    }
}
