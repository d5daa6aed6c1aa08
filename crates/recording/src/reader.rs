//! Reads a recording: finished, still being written, or left behind by a kill.

mod export;
mod info;
mod live;
pub(crate) mod open;
mod progress;
mod rows;
mod types;

pub use export::{Cell, Row, TableInfo};
pub use info::Info;
pub use live::Live;
pub use progress::Progress;
pub(crate) use rows::read_labels;
pub use types::{
    Columns, DeviceRow, EventRow, PoolRow, ProblemRow, ProcessRow, SeriesRow, SessionRow, TickRow,
};

use crate::error::Error;
use crate::file::{Guarded, Present, RECORDING, present};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// A recording as it was when it was opened: rows that a writer adds later are not seen.
///
/// While it is open, the log of a recording that is being written cannot be cut: read, and drop it.
#[derive(Debug)]
pub struct Recording {
    // Closed before the copy that it may be of is removed.
    conn: Guarded,
    _copied: Option<open::Copied>,
    path: PathBuf,
    labels: Vec<(String, String)>,
    present: Present,
}

impl Recording {
    /// Opens to read only; nothing of the recording is changed. Where SQLite cannot read without writing (the log of a
    /// killed writer in a folder that may not be written), a temporary copy is read.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`], [`Error::NotARecording`], [`Error::Newer`], [`Error::Empty`], [`Error::Damaged`];
    /// [`Error::Refused`] if it has anything but plain tables as the format declares them. Whoever made the file, reading
    /// it takes time and memory that follow from its size: beyond that every method says [`Error::Refused`].
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let (conn, present, copied) = open::open(path, &RECORDING, present)?;
        let labels = read_labels(&conn, path)?;
        Ok(Recording {
            conn,
            _copied: copied,
            path: path.to_owned(),
            labels,
            present,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the run is called, by key.
    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    /// Whether the file has this table: an older one may not.
    fn has(&self, table: &str) -> bool {
        self.present.contains_key(table)
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.conn.connection()
    }
}
