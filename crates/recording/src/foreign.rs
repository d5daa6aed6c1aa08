//! Untrusted databases of other kinds, read with the limits of recordings.

use crate::{
    error::{AttachPath, Error, Result},
    file::{self, DatabaseKind, UntrustedDatabase, excerpt, schema_objects},
    reader::open::{self, TempCopy},
    side_files,
};
use rusqlite::{Connection, Params, Row, TransactionBehavior, limits::Limit};
use std::{fs::File, path::Path};

/// An SQLite database that is not a recording. Its size bounds the time and memory of reads.
#[derive(Debug)]
pub struct ForeignDatabase {
    // First, so that it closes before its copy is removed.
    conn: UntrustedDatabase,
    _copied: Option<TempCopy>,
}

/// An older format that [`ForeignDatabase::open_to_write`] upgrades.
#[derive(Debug, Clone, Copy)]
pub struct OlderFormat<'a> {
    /// `PRAGMA user_version`.
    pub format: i32,
    pub table_statements: &'a [&'a str],
    /// Converts the tables to the newest format.
    pub upgrade_sql: &'a str,
}

impl ForeignDatabase {
    /// Opens a read-only snapshot. For each of `table_statements`, the file must have a table
    /// that exactly this statement made.
    pub fn open(path: &Path, kind: &DatabaseKind, table_statements: &[&str]) -> Result<Self> {
        let (conn, (), copied) = open::open(path, kind, |database, path| {
            check_tables(database, path, table_statements)
        })?;
        Ok(Self {
            conn,
            _copied: copied,
        })
    }

    pub fn is_older(path: &Path, kind: &DatabaseKind) -> Result<bool> {
        Ok(
            side_files::length(path) > 0
                && Self::open(path, kind, &[])?.format(path)? < kind.format,
        )
    }

    /// Opens for writing, and creates the tables if the file is new or empty. Upgrades a file of
    /// one of the `older` formats. A value may have at most `longest_value` bytes.
    pub fn open_to_write(
        path: &Path,
        kind: &DatabaseKind,
        table_statements: &[&str],
        older: &[OlderFormat<'_>],
        longest_value: i32,
    ) -> Result<Connection> {
        let is_new = side_files::length(path) == 0;
        let mut older_format = None;
        if is_new {
            let file = File::options().create(true).append(true).open(path);
            drop(file.at(path)?);
        } else {
            let format = Self::open(path, kind, &[])?.format(path)?;
            older_format = older.iter().find(|older| older.format == format);
            let table_statements =
                older_format.map_or(table_statements, |older| older.table_statements);
            Self::open(path, kind, table_statements)?.check_pages(path)?;
        }
        let mut conn = file::open_to_write(path, kind)?;
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest_value)
            .at(path)?;
        if is_new {
            create_tables(&mut conn, kind, table_statements).at(path)?;
        }
        if let Some(older) = older_format {
            older.upgrade(&mut conn, kind).at(path)?;
        }
        Ok(conn)
    }

    fn format(&self, path: &Path) -> Result<i32> {
        user_version(self.conn.connection()).at(path)
    }

    /// Rejects a crafted file in which several pages refer to one page. A writing connection has no
    /// limit of work, so it would read such a file endlessly.
    fn check_pages(&self, path: &Path) -> Result<()> {
        let sql = "PRAGMA quick_check(1)";
        let read_text = |row: &Row<'_>| row.get::<_, String>(0);
        let results = self.conn.collect(sql, [], read_text)?;
        match results.into_iter().find(|result| result != "ok") {
            Some(result) => Err(Error::Damaged {
                path: path.to_owned(),
                what: excerpt(&result),
            }),
            None => Ok(()),
        }
    }

    /// Passes each row to `each`, whose error ends the walk. The statement must not sort.
    ///
    /// # Errors
    /// [`Error::Refused`] if the result or the work is more than a file of this size explains.
    pub fn walk<E: From<Error>>(
        &self,
        sql: &str,
        parameters: impl Params,
        each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.conn.walk(sql, parameters, each)
    }
}

impl Error {
    /// Message about a foreign database: it begins with `mismatch` if the file is something else,
    /// and ends with `remedy` if it is unreadable. `None` if the error is not about the file's content.
    pub fn foreign_database_message(&self, mismatch: &str, remedy: &str) -> Option<String> {
        let what = match self {
            Self::WrongKind { found, .. } => format!("{mismatch}: {found}"),
            Self::Empty { .. } => "it is empty: remove it".to_owned(),
            Self::Newer { found, known, .. } => {
                format!(
                    "format {found}: this version reads up to format {known}; use a newer faultline"
                )
            }
            Self::Truncated { have, want, .. } => {
                format!("cut off: {have} bytes of {want}; {remedy}")
            }
            Self::Damaged { what, .. } => format!("damaged: {what}; {remedy}"),
            Self::Refused { what, .. } => format!("not read: {what}; {remedy}"),
            _ => return None,
        };
        Some(what)
    }
}

impl OlderFormat<'_> {
    fn upgrade(&self, conn: &mut Connection, kind: &DatabaseKind) -> rusqlite::Result<()> {
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have upgraded the file meanwhile.
        if user_version(&transaction)? == self.format {
            transaction.execute_batch(self.upgrade_sql)?;
            transaction.pragma_update(None, "user_version", kind.format)?;
        }
        transaction.commit()
    }
}

fn user_version(conn: &Connection) -> rusqlite::Result<i32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn create_tables(
    conn: &mut Connection,
    kind: &DatabaseKind,
    table_statements: &[&str],
) -> rusqlite::Result<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created them meanwhile.
    if user_version(&transaction)? == 0 {
        transaction.pragma_update(None, "application_id", kind.application_id)?;
        transaction.pragma_update(None, "user_version", kind.format)?;
        for statement in table_statements {
            transaction.execute_batch(statement)?;
        }
    }
    transaction.commit()
}

fn check_tables(
    database: &UntrustedDatabase,
    path: &Path,
    table_statements: &[&str],
) -> Result<()> {
    let mut found_statements = Vec::new();
    for object in schema_objects(database)? {
        let (object_kind, sql) = (object.kind.as_str(), object.sql.as_str());
        if object.is_plain_table() {
            found_statements.push(object.sql);
        } else if object_kind != "index" || !sql.is_empty() {
            let what = format!(
                "`{}` ({}) is not a plain table",
                excerpt(&object.name),
                excerpt(object_kind)
            );
            return Err(Error::refused(path, what));
        }
    }
    match table_statements
        .iter()
        .find(|statement| !found_statements.iter().any(|sql| sql == *statement))
    {
        Some(statement) => Err(Error::refused(
            path,
            format!("it has no table made by `{}`", excerpt(statement)),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_may_create_the_same_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let (application_id, format) = (7, 1);
        let kind = DatabaseKind {
            application_id,
            format,
        };
        let statements = ["CREATE TABLE t(x INTEGER)"];
        // Both have found the file empty.
        for _ in 0..2 {
            let mut conn = Connection::open(&path).unwrap();
            create_tables(&mut conn, &kind, &statements).unwrap();
        }
        ForeignDatabase::open(&path, &kind, &statements).unwrap();
    }
}
