//! What rows become.

use crate::rows::EventKind;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// One life of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// Counted from 1 in a new recording.
    pub id: i64,
    /// Since 1970.
    pub started: Duration,
    /// Since 1970; `None` while it lasts, and for ever if the daemon was killed: then the last tick is the end.
    pub ended: Option<Duration>,
    /// From tick to tick.
    pub interval: Duration,
    /// The daemon's version.
    pub version: String,
    /// Host, kernel, disks, configuration.
    pub manifest: Value,
}

/// A process that was followed.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow {
    /// Counted from 1 in a new recording.
    pub id: i64,
    /// By which session.
    pub session: i64,
    /// Its number.
    pub pid: u32,
    /// Since 1970; `None` if unknown.
    pub started: Option<Duration>,
    /// When the daemon found it, since 1970.
    pub seen: Duration,
    /// Version, binary, arguments without secrets, limits.
    pub manifest: Value,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// In the order in which they were written.
    pub id: i64,
    /// Of which session.
    pub session: i64,
    /// When, since 1970.
    pub unix: Duration,
    /// When, since the session's daemon started.
    pub uptime: Duration,
    /// What.
    pub kind: EventKind,
    /// Whose; `None` while no process was followed.
    pub process: Option<i64>,
    /// A JSON object; null if there is no detail, a string if it is no JSON.
    pub detail: Value,
}

/// One tick.
#[derive(Debug, Clone, PartialEq)]
pub struct TickRow {
    /// Ascending over all sessions; what sample rows point at.
    pub id: i64,
    /// Of which session.
    pub session: i64,
    /// Counted by the daemon; a gap is a missed tick.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub unix_ns: i64,
    /// Nanoseconds since the session's daemon started: never jumps.
    pub uptime_ns: i64,
    /// Who was followed; `None` for nobody.
    pub process: Option<i64>,
    /// The validator's phase; `None` if it was not told.
    pub phase: Option<Arc<str>>,
}

/// Columns of a wide sample table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns {
    /// `tick.id` of each row, ascending. Not every tick has a row.
    pub ticks: Vec<i64>,
    /// As many as names were asked for, each as long as `ticks`. `None` where the value was not read.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A thread pool's totals, from this tick on until its next row, within the same session and process.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRow {
    /// `tick.id`.
    pub tick: i64,
    /// Its name.
    pub pool: Arc<str>,
    /// Living threads; with all others `None` when the pool is gone.
    pub threads: Option<u64>,
    /// Total.
    pub major_faults: Option<u64>,
    /// Total.
    pub minor_faults: Option<u64>,
    /// Total, in seconds.
    pub cpu_user: Option<f64>,
    /// Total, in seconds.
    pub cpu_system: Option<f64>,
    /// Total, in seconds.
    pub run_queue: Option<f64>,
    /// Total, in seconds.
    pub block_io_delay: Option<f64>,
}

/// A block device's totals, from this tick on until its next row, within the same session and process.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// `tick.id`.
    pub tick: i64,
    /// Its name.
    pub device: Arc<str>,
    /// Total; `None` when it is gone.
    pub read_bytes: Option<u64>,
    /// Total; `None` when it is gone.
    pub write_bytes: Option<u64>,
}

/// A value of a series without a column of its own, from this tick on until its next row, within the same session and
/// process.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesRow {
    /// `tick.id`.
    pub tick: i64,
    /// The metric's name; `_count` and `_sum` of a histogram.
    pub metric: Arc<str>,
    /// Labels as a JSON object.
    pub labels: Arc<str>,
    /// `None` when it is gone.
    pub value: Option<f64>,
}

/// What a source could not read from this tick on: all rows of its next tick replace all rows of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRow {
    /// `tick.id`.
    pub tick: i64,
    /// Who.
    pub source: String,
    /// absent, forbidden, gone or broken; `None` when nothing is wrong any more.
    pub status: Option<String>,
    /// In words.
    pub what: Option<String>,
}
