use super::{Recording, types::TickRow};
use crate::{
    error::Error,
    file::{self, duration},
    rows::EventKind,
};
use std::time::Duration;

/// Progress of a run. Values are `None` or false until they are recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub last_tick: Option<TickRow>,
    /// Whether a process was followed.
    pub process: bool,
    /// Whether the process that was followed last has exited.
    pub ended: bool,
    /// When the first bank with a transaction was created, in Unix ns of the validator's clock.
    /// Without bank points, the first replayed slot with a transaction.
    pub first_transaction_unix_ns: Option<i64>,
    /// Highest processed slot, or highest slot in a point.
    pub newest_slot: Option<u64>,
    pub at_tip: bool,
}

const SLOTS: [(&str, &str); 4] = [
    ("cost_tracker_point", "bank_slot"),
    ("replay_slot_point", "slot"),
    ("program_cache_point", "slot"),
    ("validator_sample", "slot_processed"),
];

/// Sources of executed transactions, the preferred one first.
const TRANSACTIONS: [(&str, &str); 2] = [
    ("cost_tracker_point", "transaction_count"),
    ("replay_slot_point", "total_transactions"),
];

const POINTS: [&str; 4] = [
    "program_cache_point",
    "replay_slot_point",
    "set_root_point",
    "cost_tracker_point",
];

/// Points arrive nearly in order: the first and the last are within this many rows.
const MAX_DISORDER_ROWS: u32 = 256;

impl Recording {
    /// Takes some milliseconds even for hours of recording.
    pub fn progress(&self) -> Result<Progress, Error> {
        let last_tick = self.last_tick()?;
        let (exit, oom) = (EventKind::Exit.name(), EventKind::OomKill.name());
        let (start, tip) = (EventKind::Start.name(), EventKind::AtTip.name());
        let last = |kinds: &str| {
            self.number(&format!(
                "SELECT max(id) FROM event WHERE kind IN ({kinds})"
            ))
        };
        let ended = last(&format!("'{exit}', '{oom}'"))?;
        let followed = last(&format!("'{start}', '{}'", EventKind::Restart.name()))?;
        Ok(Progress {
            process: self.number("SELECT max(id) FROM process")?.is_some(),
            // A start after an end is of another process.
            ended: ended.is_some() && ended > followed,
            first_transaction_unix_ns: self.first_transaction()?,
            newest_slot: self.newest_slot()?,
            at_tip: last(&format!("'{tip}'"))?.is_some() || last_tick_at_tip(last_tick.as_ref()),
            last_tick,
        })
    }

    /// The last tick, and when its session's newest push arrived, since 1970; `None` without one. A
    /// push after that tick counts if it brought a recorded point.
    pub fn last_push(&self) -> Result<Option<(TickRow, Duration)>, Error> {
        let Some(tick) = self.last_tick()? else {
            return Ok(None);
        };
        let mut newest = None;
        if self.has("daemon_sample") {
            let column = file::column_list(
                &self.present,
                "daemon_sample",
                ["last_push_timestamp_seconds"].into_iter(),
            );
            let of_tick = format!(
                "SELECT CAST({column} * 1e9 AS INTEGER) FROM daemon_sample WHERE tick = {}",
                tick.id
            );
            newest = self.number(&of_tick)?;
        }
        for table in POINTS.into_iter().filter(|table| self.has(table)) {
            let last = format!(
                "SELECT session, received_unix_ns FROM {table} ORDER BY rowid DESC LIMIT 1"
            );
            let of_session = format!(
                "SELECT max(received_unix_ns) FROM ({last}) WHERE session = {}",
                tick.session
            );
            newest = newest.max(self.number(&of_session)?);
        }
        Ok(newest.map(|push| (tick, duration(push))))
    }

    fn first_transaction(&self) -> Result<Option<i64>, Error> {
        for (table, column) in TRANSACTIONS {
            if self.has_rows(table)? {
                let first = format!(
                    "SELECT unix_ns FROM {table} WHERE {column} > 0 ORDER BY rowid LIMIT {MAX_DISORDER_ROWS}"
                );
                return self.number(&format!("SELECT min(unix_ns) FROM ({first})"));
            }
        }
        Ok(None)
    }

    fn newest_slot(&self) -> Result<Option<u64>, Error> {
        let mut newest = None;
        for (table, column) in SLOTS {
            if self.has(table) {
                let order = if table.ends_with("_sample") {
                    "tick"
                } else {
                    "rowid"
                };
                let sql = format!(
                    "SELECT max({column}) FROM (SELECT {column} FROM {table} ORDER BY {order} DESC LIMIT 256)"
                );
                newest = newest.max(self.number(&sql)?);
            }
        }
        Ok(newest.and_then(|slot| u64::try_from(slot).ok()))
    }

    fn has_rows(&self, table: &str) -> Result<bool, Error> {
        Ok(self.has(table)
            && self
                .number(&format!("SELECT max(rowid) FROM {table}"))?
                .is_some())
    }

    pub(crate) fn number(&self, sql: &str) -> Result<Option<i64>, Error> {
        self.conn.number(sql)
    }
}

fn last_tick_at_tip(tick: Option<&TickRow>) -> bool {
    tick.and_then(|tick| tick.phase.as_deref()) == Some("at_tip")
}
