use std::{collections::BTreeMap, time::Duration};

use super::{Recording, TableInfo};
use crate::{
    error::{AttachPath, Result},
    file::{self, duration},
    rows::{EventKind, ProcessRow, SessionRow, TickRow},
    schema::POINT_TABLES,
    side_files::{length, with_suffix},
};

/// Progress of a run. Values are `None` or false until they are recorded.
#[derive(Debug, Default, PartialEq)]
pub struct Progress {
    pub last_tick: Option<TickRow>,
    /// The recorder has followed a process.
    pub was_followed: bool,
    pub process_has_ended: bool,
    /// When the first bank with a transaction was frozen, in Unix ns of the validator's clock. If
    /// `cost_tracker_point` has no rows: when the first slot with a transaction was replayed.
    pub first_transaction_unix_ns: Option<i64>,
    /// Highest slot in the newest rows of samples and points.
    pub newest_slot: Option<u64>,
    pub has_reached_tip: bool,
}

const SLOT_COLUMNS: [(&str, &str); 4] = [
    ("cost_tracker_point", "bank_slot"),
    ("replay_slot_point", "slot"),
    ("program_cache_point", "slot"),
    ("validator_sample", "slot_processed"),
];

/// Sources of executed transactions, the preferred one first.
const TRANSACTION_COLUMNS: [(&str, &str); 2] = [
    ("cost_tracker_point", "transaction_count"),
    ("replay_slot_point", "total_transactions"),
];

/// Points arrive nearly in order: the earliest is within this many first rows, the latest within
/// this many last rows.
const MAX_DISORDER_ROWS: u32 = 256;

impl Recording {
    /// Takes some milliseconds even for hours of recording.
    pub fn progress(&self) -> Result<Progress> {
        let last_tick = self.last_tick()?;
        let last_phase = last_tick.as_ref().and_then(|tick| tick.phase.as_deref());
        let (exit, oom) = (EventKind::Exit.name(), EventKind::OomKill.name());
        let (start, tip) = (EventKind::Start.name(), EventKind::AtTip.name());
        let last_event_id = |kinds: &str| {
            self.query_integer(&format!(
                "SELECT max(id) FROM event WHERE kind IN ({kinds})"
            ))
        };
        let last_end_id = last_event_id(&format!("'{exit}', '{oom}'"))?;
        let last_start_id = last_event_id(&format!("'{start}', '{}'", EventKind::Restart.name()))?;
        Ok(Progress {
            was_followed: self.query_integer("SELECT max(id) FROM process")?.is_some(),
            // A start after an end is of another process.
            process_has_ended: last_end_id.is_some() && last_end_id > last_start_id,
            first_transaction_unix_ns: self.first_transaction()?,
            newest_slot: self.newest_slot()?,
            has_reached_tip: last_event_id(&format!("'{tip}'"))?.is_some()
                || last_phase == Some("at_tip"),
            last_tick,
        })
    }

    /// Returns the last tick, and the Unix time of the newest push in its session. The push may be
    /// later than the tick if it brought a recorded point. `None` without a tick or a push.
    pub fn last_push(&self) -> Result<Option<(TickRow, Duration)>> {
        let Some(tick) = self.last_tick()? else {
            return Ok(None);
        };
        let mut newest = None;
        if self.has("daemon_sample") {
            let column = self.column_or_null("daemon_sample", "last_push_timestamp_seconds");
            let push_sql = format!(
                "SELECT CAST({column} * 1e9 AS INTEGER) FROM daemon_sample WHERE tick = {}",
                tick.id
            );
            newest = self.query_integer(&push_sql)?;
        }
        let point_tables = POINT_TABLES.iter().map(|spec| spec.name);
        for table in point_tables.filter(|table| self.has(table)) {
            let last_row = format!(
                "SELECT session, received_unix_ns FROM {table} ORDER BY rowid DESC LIMIT 1"
            );
            let session_sql = format!(
                "SELECT max(received_unix_ns) FROM ({last_row}) WHERE session = {}",
                tick.session
            );
            newest = newest.max(self.query_integer(&session_sql)?);
        }
        Ok(newest.map(|push| (tick, duration(push))))
    }

    fn first_transaction(&self) -> Result<Option<i64>> {
        for (table, column) in TRANSACTION_COLUMNS {
            let last_rowid = format!("SELECT max(rowid) FROM {table}");
            if self.has(table) && self.query_integer(&last_rowid)?.is_some() {
                let column = self.column_or_null(table, column);
                let first = format!(
                    "SELECT unix_ns FROM {table} WHERE {column} > 0 ORDER BY rowid LIMIT {MAX_DISORDER_ROWS}"
                );
                return self.query_integer(&format!("SELECT min(unix_ns) FROM ({first})"));
            }
        }
        Ok(None)
    }

    fn newest_slot(&self) -> Result<Option<u64>> {
        let mut newest = None;
        for (table, column) in SLOT_COLUMNS {
            if self.has(table) {
                let column = self.column_or_null(table, column);
                let sql = format!(
                    "SELECT max({column}) FROM (SELECT {column} FROM {table} ORDER BY rowid DESC LIMIT {MAX_DISORDER_ROWS})"
                );
                newest = newest.max(self.query_integer(&sql)?);
            }
        }
        Ok(newest.and_then(|slot| u64::try_from(slot).ok()))
    }

    fn column_or_null(&self, table: &str, column: &str) -> String {
        file::column_list(&self.present_tables, table, std::iter::once(column))
    }

    pub(crate) fn query_integer(&self, sql: &str) -> Result<Option<i64>> {
        self.conn.query_integer(sql)
    }
}

#[derive(Debug)]
pub struct RecordingInfo {
    pub format: i32,
    /// The last session has an end. Its recorder wrote it, or a copy or a merge did.
    pub finished: bool,
    pub bytes: u64,
    /// 0 for a finished recording.
    pub wal_bytes: u64,
    pub labels: Vec<(String, String)>,
    /// Remarks about the file, such as `merged_from` and `saved_reason`.
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
    pub fn info(&self) -> Result<RecordingInfo> {
        let sessions = self.sessions()?;
        // `rows`, the row counts at the last checkpoint, is for repairs.
        let sql = "SELECT key, value FROM meta WHERE key <> 'rows'";
        let meta = self.query_rows(sql, |row| row.try_into())?;
        Ok(RecordingInfo {
            format: self
                .connection()
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .at(&self.path)?,
            finished: sessions
                .last()
                .is_some_and(|session| session.ended.is_some()),
            bytes: length(&self.path),
            wal_bytes: length(&with_suffix(&self.path, "-wal")),
            labels: self.labels.clone(),
            meta: meta.into_iter().collect(),
            sessions,
            processes: self.processes()?,
            tables: self.tables()?,
            first_tick: self.ticks_with("ORDER BY id LIMIT 1")?.pop(),
            last_tick: self.last_tick()?,
        })
    }
}

/// Maximum number of replays in a [`LiveStatus`]. The next status has the rest.
const MAX_LIVE_REPLAYS: u32 = 4096;

/// The newest values that show whether a validator keeps up. Values that were not recorded are
/// absent.
#[derive(Debug, Default, PartialEq)]
pub struct LiveStatus {
    /// Source of `slots_behind` and `newest_shred_slot`.
    pub tick: Option<TickRow>,
    /// Of the process followed last, which may have ended.
    pub pid: Option<u32>,
    pub slots_behind: Option<u64>,
    /// The newest slot of which the validator has all shreds.
    pub newest_shred_slot: Option<u64>,
    /// New replays: end in Unix ns of the validator's clock, duration in microseconds.
    pub replays: Vec<(i64, f64)>,
    /// `after_rowid` of the next [`Recording::live_status`].
    pub last_point_rowid: i64,
}

impl Recording {
    /// Returns replays in rows after `after_rowid`: 0 in the first call, then
    /// [`LiveStatus::last_point_rowid`].
    pub fn live_status(&self, after_rowid: i64) -> Result<LiveStatus> {
        let mut status = LiveStatus {
            tick: self.last_tick()?,
            pid: self
                .query_integer("SELECT pid FROM process ORDER BY id DESC LIMIT 1")?
                .and_then(|pid| u32::try_from(pid).ok()),
            last_point_rowid: after_rowid,
            ..LiveStatus::default()
        };
        if let Some(tick) = status
            .tick
            .as_ref()
            .filter(|_| self.has("validator_sample"))
        {
            let value_at_tick = |name: &str| -> Result<Option<u64>> {
                let column = self.column_or_null("validator_sample", name);
                let value = self.query_integer(&format!(
                    "SELECT {column} FROM validator_sample WHERE tick = {}",
                    tick.id
                ))?;
                Ok(value.and_then(|value| u64::try_from(value).ok()))
            };
            (status.slots_behind, status.newest_shred_slot) =
                (value_at_tick("slots_behind")?, value_at_tick("slot_shred")?);
        }
        let column = self.column_or_null("replay_slot_point", "replay_total_elapsed_us");
        // Row ids begin again in a file that replaced the recording.
        let sql = format!(
            "SELECT rowid, unix_ns, {column} FROM replay_slot_point
             WHERE rowid > iif((SELECT max(rowid) FROM replay_slot_point) < {after_rowid}, 0, {after_rowid})
             ORDER BY rowid LIMIT {MAX_LIVE_REPLAYS}"
        );
        let replays = self.query_numbers_if_present("replay_slot_point", &sql, |row| {
            status.last_point_rowid = row.get(0)?;
            let duration: Option<f64> = row.get(2)?;
            Ok(duration.zip(row.get(1)?).map(|(us, unix_ns)| (unix_ns, us)))
        })?;
        status.replays = replays.into_iter().flatten().collect();
        Ok(status)
    }
}
