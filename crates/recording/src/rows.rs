use std::{sync::Arc, time::Duration};

use faultline_metrics::Stamp;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct NewRecording {
    /// Such as `arm=512`, `run=1`. If a key occurs twice, the last value counts.
    pub labels: Vec<(String, String)>,
    pub session: NewSession,
}

/// One daemon from start to end.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub started: Stamp,
    pub interval: Duration,
    pub version: String,
    /// Host, kernel, disks, configuration: a JSON object.
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewProcess {
    pub pid: u32,
    /// Since 1970; `None` if unknown.
    pub started_unix: Option<Duration>,
    pub seen: Stamp,
    /// Version, binary, arguments without secrets, limits: a JSON object.
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub at: Stamp,
    pub kind: EventKind,
    /// A JSON object, or empty.
    pub detail: String,
}

faultline_metrics::named_enum! {
    /// Kind of an event, with its name in the file.
    pub enum EventKind {
        DaemonStart = "daemon_start",
        DaemonStop = "daemon_stop",
        Start = "start",
        Exit = "exit",
        /// The followed process ended after an OOM kill of it or of another process of its cgroup.
        OomKill = "oom_kill",
        Restart = "restart",
        /// The detail has `from` and `to`.
        Phase = "phase",
        AtTip = "at_tip",
        Behind = "behind",
        /// The validator was at the tip, and its slot stopped advancing.
        Stall = "stall",
        /// The wall clock was set; the detail has the step in seconds, positive if forward.
        ClockStep = "clock_step",
        /// Nothing was recorded for a while; the detail has the reason.
        Gap = "gap",
        Mark = "mark",
    }
}

impl PartialEq<EventKind> for String {
    fn eq(&self, kind: &EventKind) -> bool {
        self == kind.name()
    }
}

#[derive(Debug, PartialEq)]
pub struct SessionRow {
    pub id: i64,
    /// Since 1970.
    pub started: Duration,
    /// Since 1970; `None` while it runs, and after a kill: the last tick is then the end. A copy
    /// has the time of the last tick.
    pub ended: Option<Duration>,
    pub interval: Duration,
    pub version: String,
    pub manifest: Value,
}

#[derive(Debug)]
pub struct ProcessRow {
    pub id: i64,
    pub session: i64,
    pub pid: u32,
    /// Since 1970; `None` if unknown.
    pub started: Option<Duration>,
    /// When the daemon found it, since 1970.
    pub seen: Duration,
    pub manifest: Value,
}

#[derive(Debug)]
pub struct EventRow {
    pub id: i64,
    pub session: i64,
    /// Since 1970.
    pub unix: Duration,
    /// Since the start of the session's daemon.
    pub uptime: Duration,
    /// Name of an [`EventKind`], or a kind of a later version.
    pub kind: String,
    /// `None` while no process was followed.
    pub process: Option<i64>,
    /// A JSON object; null without detail, a string if it is not JSON.
    pub detail: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TickRow {
    /// Ascending over all sessions; referenced by sample rows.
    pub id: i64,
    pub session: i64,
    /// Counted by the daemon; a skipped number is a tick that was missed or not written.
    pub number: u64,
    /// Since 1970.
    pub unix_ns: i64,
    /// Since the start of the session's daemon: never jumps.
    pub uptime_ns: i64,
    pub process: Option<i64>,
    /// `None` if it was not reported.
    pub phase: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Columns {
    /// `tick.id` of each row, ascending. Not every tick has a row.
    pub ticks: Vec<i64>,
    /// One vector per requested name, each as long as `ticks`. `None` if the value was not read.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A thread pool's totals, valid until its next row within the same session and process. Times are
/// in seconds.
#[derive(Debug, PartialEq)]
pub struct PoolRow {
    pub tick: i64,
    pub pool: Arc<str>,
    /// Living threads; `None`, as all other values, if the pool is gone.
    pub threads: Option<u64>,
    pub major_faults: Option<u64>,
    pub minor_faults: Option<u64>,
    pub cpu_user: Option<f64>,
    pub cpu_system: Option<f64>,
    pub run_queue: Option<f64>,
    pub block_io_delay: Option<f64>,
}

/// A value of a series without its own column, valid until its next row within the same session and
/// process. `None` if the series is gone.
#[derive(Debug)]
pub struct SeriesRow {
    pub tick: i64,
    /// For a histogram with suffix `_count` or `_sum`.
    pub metric: Arc<str>,
    pub labels: Arc<str>,
    pub value: Option<f64>,
}

/// What a source could not read. A source's rows of one tick replace its earlier rows of the
/// session.
#[derive(Debug)]
pub struct ProblemRow {
    pub tick: i64,
    pub source: String,
    /// absent, forbidden, gone or broken; `None` if the problems are over.
    pub status: Option<String>,
    pub what: Option<String>,
}
