mod export;
pub mod open;
mod progress;
mod rows;

pub use export::{Cell, Row, TableInfo};
pub use progress::{LiveStatus, Progress, RecordingInfo};
pub use rows::read_labels;

use crate::{
    error::Result,
    file::{PresentTables, RECORDING_KIND, UntrustedDatabase, check_recording_tables, check_wal},
};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// A snapshot of a recording from the moment when it was opened.
///
/// While it is open, the WAL of a live recording cannot be truncated: drop it soon.
#[derive(Debug)]
pub struct Recording {
    // First, so that it closes before the copy is removed.
    conn: UntrustedDatabase,
    _copied: Option<open::TempCopy>,
    path: PathBuf,
    labels: Vec<(String, String)>,
    present_tables: PresentTables,
}

impl Recording {
    /// Opens read-only. Where SQLite cannot read without writing (a killed writer's WAL in a
    /// read-only folder), it uses a temporary copy.
    ///
    /// # Errors
    /// [`Refused`](crate::Error::Refused) if it has anything but plain tables and indexes. The file
    /// may be untrusted: its size limits time and memory, and a method that exceeds a limit returns
    /// `Refused`.
    pub fn open(path: &Path) -> Result<Self> {
        // The check would wait for a writer of a pipe.
        if path.is_file() {
            check_wal(path)?;
        }
        Self::open_own(path)
    }

    /// Opens a file that this process may be writing: keeps SQLite's locks.
    pub(crate) fn open_own(path: &Path) -> Result<Self> {
        let (conn, present_tables, copied) =
            open::open(path, &RECORDING_KIND, check_recording_tables)?;
        let labels = read_labels(&conn)?;
        Ok(Self {
            conn,
            _copied: copied,
            path: path.to_owned(),
            labels,
            present_tables,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    fn has(&self, table: &str) -> bool {
        self.present_tables.contains_key(table)
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.conn.connection()
    }
}
