//! A recording at a glance.

use super::types::{ProcessRow, SessionRow, TickRow};
use super::{Recording, TableInfo};
use crate::error::{At, Error};
use crate::file::{length, with_suffix};
use std::collections::BTreeMap;

/// A recording at a glance.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// The version of the format.
    pub format: i32,
    /// Whether the last session has ended: no more will be added.
    pub finished: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the log beside it; 0 for a finished recording.
    pub log_bytes: u64,
    /// What the run is called, by key.
    pub labels: Vec<(String, String)>,
    /// Further remarks: why a flight recording was saved, what a merge joined.
    pub meta: BTreeMap<String, String>,
    /// In the order of time.
    pub sessions: Vec<SessionRow>,
    /// In the order in which they were followed.
    pub processes: Vec<ProcessRow>,
    /// Every table with its rows.
    pub tables: Vec<TableInfo>,
    /// `None` if there is no tick.
    pub first_tick: Option<TickRow>,
    /// `None` if there is no tick.
    pub last_tick: Option<TickRow>,
}

impl Recording {
    /// The recording at a glance. Counts every row: a tenth of a second per 100 MiB.
    pub fn info(&self) -> Result<Info, Error> {
        let sessions = self.sessions()?;
        let meta = self.pairs("SELECT key, value FROM meta WHERE key <> 'rows'")?;
        Ok(Info {
            format: self
                .connection()
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .at(&self.path)?,
            finished: sessions
                .last()
                .is_some_and(|session| session.ended.is_some()),
            bytes: length(&self.path),
            log_bytes: length(&with_suffix(&self.path, "-wal")),
            labels: self.labels.clone(),
            meta,
            sessions,
            processes: self.processes()?,
            tables: self.tables()?,
            first_tick: self.tick_where("ORDER BY id LIMIT 1")?,
            last_tick: self.tick_where("ORDER BY id DESC LIMIT 1")?,
        })
    }

    fn pairs(&self, sql: &str) -> Result<BTreeMap<String, String>, Error> {
        Ok(self
            .all(sql, |row| Ok((row.get(0)?, row.get(1)?)))?
            .into_iter()
            .collect())
    }

    fn tick_where(&self, which: &str) -> Result<Option<TickRow>, Error> {
        Ok(self.ticks_where(which)?.pop())
    }
}
