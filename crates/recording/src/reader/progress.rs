//! How far a run has come, while it is being recorded.

use super::Recording;
use super::types::TickRow;
use crate::error::Error;
use crate::file::{self, duration};
use crate::rows::EventKind;
use std::time::Duration;

/// How far a run has come. Each is `None` or false until the recording says so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The newest tick.
    pub last_tick: Option<TickRow>,
    /// Whether a process was ever followed.
    pub process: bool,
    /// Whether the last process that was followed has ended.
    pub ended: bool,
    /// When the first bank with a transaction was made, by the validator's clock, in ns since 1970. Where there are no
    /// points of banks, the first replayed slot with one counts.
    pub first_transaction_unix_ns: Option<i64>,
    /// The highest slot that was processed, or of which a point tells.
    pub newest_slot: Option<u64>,
    /// Whether it was ever at the tip of the cluster.
    pub at_tip: bool,
}

/// Where slots are told.
const SLOTS: [(&str, &str); 4] = [
    ("cost_tracker_point", "bank_slot"),
    ("replay_slot_point", "slot"),
    ("program_cache_point", "slot"),
    ("validator_sample", "slot_processed"),
];

/// Where executed transactions are told, the better first.
const TRANSACTIONS: [(&str, &str); 2] = [
    ("cost_tracker_point", "transaction_count"),
    ("replay_slot_point", "total_transactions"),
];

/// Where it is told when something arrived.
const POINTS: [&str; 4] = [
    "program_cache_point",
    "replay_slot_point",
    "set_root_point",
    "cost_tracker_point",
];

/// Points arrive nearly in order: the first and the last one are among so many rows.
const NEAR: u32 = 256;

impl Recording {
    /// How far the run has come; some milliseconds even where hours are recorded.
    pub fn progress(&self) -> Result<Progress, Error> {
        let last_tick = self.ticks_where("ORDER BY id DESC LIMIT 1")?.pop();
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
            // A start that comes after an end is of another process.
            ended: ended.is_some() && ended > followed,
            first_transaction_unix_ns: self.first_transaction()?,
            newest_slot: self.newest_slot()?,
            at_tip: last(&format!("'{tip}'"))?.is_some() || last_tick_at_tip(last_tick.as_ref()),
            last_tick,
        })
    }

    /// The last tick, and when the newest push of its session arrived, since 1970; `None` if none did. A push that came after
    /// that tick counts if it brought a point that is kept.
    pub fn last_push(&self) -> Result<Option<(TickRow, Duration)>, Error> {
        let Some(tick) = self.ticks_where("ORDER BY id DESC LIMIT 1")?.pop() else {
            return Ok(None);
        };
        let mut newest = None;
        if self.has("daemon_sample") {
            let column = file::list(
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
                    "SELECT unix_ns FROM {table} WHERE {column} > 0 ORDER BY rowid LIMIT {NEAR}"
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

    /// The one number that a query gives.
    pub(crate) fn number(&self, sql: &str) -> Result<Option<i64>, Error> {
        self.conn.number(sql)
    }
}

fn last_tick_at_tip(tick: Option<&TickRow>) -> bool {
    tick.and_then(|tick| tick.phase.as_deref()) == Some("at_tip")
}
