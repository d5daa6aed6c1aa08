//! Databases of other kinds that may come from anywhere, read with the guards of recordings.

use crate::error::Error;
use crate::file::{DatabaseKind, Guarded, ReturnedValues, is_table, shown};
use crate::reader::open::{self, Copied};
use rusqlite::{Params, Row};
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
