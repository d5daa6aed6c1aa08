//! Saves a copy of what is recorded so far.

use super::{Writer, open};
use crate::error::{At, Error};
use crate::file::{self, Part};
use rusqlite::{Connection, params};
use std::path::Path;

impl Writer {
    /// A consistent, finished recording of what is committed, in a new file: written under another name, synced, and
    /// given its own at the end. Readers and this writer go on.
    pub fn save_as(&mut self, path: &Path) -> Result<(), Error> {
        self.save_as_with(path, &[])
    }

    /// The same with further entries of `meta`, such as why it was saved.
    pub fn save_as_with(&mut self, path: &Path, meta: &[(&str, &str)]) -> Result<(), Error> {
        let part = Part::new(path)?;
        // A connection of its own sees what is committed, whatever transaction is open here.
        let from = file::open_to_read(&self.path)?.release()?;
        let to = part.path().to_string_lossy();
        from.execute("VACUUM INTO ?1", [&to]).at(path)?;
        drop(from);
        let copy = file::open_to_write(part.path())?;
        end(&copy, meta).at(path)?;
        drop(copy);
        part.publish()
    }
}

/// Makes a copy a recording of its own: its sessions end with their last tick.
pub(crate) fn end(conn: &Connection, meta: &[(&str, &str)]) -> rusqlite::Result<()> {
    conn.execute_batch(
        "BEGIN;
         UPDATE session SET ended_unix_ns =
             coalesce((SELECT max(unix_ns) FROM tick WHERE tick.session = session.id), started_unix_ns)
         WHERE ended_unix_ns IS NULL AND id = (SELECT max(id) FROM session)",
    )?;
    let put = "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value";
    let rows = serde_json::to_string(&open::counts(conn)?).unwrap_or_default();
    conn.execute(put, params!["rows", rows])?;
    for (key, value) in meta {
        conn.execute(put, params![key, value])?;
    }
    conn.execute_batch("COMMIT")
}
