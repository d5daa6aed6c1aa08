use super::{
    Recording, TableInfo,
    types::{ProcessRow, SessionRow, TickRow},
};
use crate::{
    error::{AttachPath, Error},
    file::{length, with_suffix},
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    pub format: i32,
    /// The last session has ended: no more will be added.
    pub finished: bool,
    pub bytes: u64,
    /// 0 for a finished recording.
    pub log_bytes: u64,
    pub labels: Vec<(String, String)>,
    /// Such as why a flight recording was saved, or what a merge joined.
    pub meta: BTreeMap<String, String>,
    /// By time.
    pub sessions: Vec<SessionRow>,
    /// By time.
    pub processes: Vec<ProcessRow>,
    pub tables: Vec<TableInfo>,
    pub first_tick: Option<TickRow>,
    pub last_tick: Option<TickRow>,
}

impl Recording {
    /// Counts every row: 0.1 s per 100 MiB.
    pub fn info(&self) -> Result<Info, Error> {
        let sessions = self.sessions()?;
        let meta = self.all("SELECT key, value FROM meta WHERE key <> 'rows'", |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
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
            meta: meta.into_iter().collect(),
            sessions,
            processes: self.processes()?,
            tables: self.tables()?,
            first_tick: self.ticks_where("ORDER BY id LIMIT 1")?.pop(),
            last_tick: self.last_tick()?,
        })
    }
}
