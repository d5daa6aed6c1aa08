//! A recording in numbers.

use super::phases::{Gap, times};
use crate::measure::timeline;
use crate::run::load_evidence;
use faultline_recording::{Error, EventKind, EventRow, Info, ProblemRow, Recording, TickRow};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What `info --json` prints. Times are nanoseconds since 1970, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub file: PathBuf,
    /// The version of the format.
    pub format: i32,
    /// Whether the last session was ended in order.
    pub finished: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the log beside it, which belongs to it.
    pub log_bytes: u64,
    /// What the run is called.
    pub labels: BTreeMap<String, String>,
    /// Remarks of the recorder.
    pub meta: BTreeMap<String, String>,
    /// The first tick; `None` if there is none.
    pub first_unix_ns: Option<i64>,
    /// The last tick; `None` if there is none.
    pub last_unix_ns: Option<i64>,
    /// From the first tick to the last: by the daemon's monotonic clock, between two sessions by the wall clock.
    pub seconds: f64,
    /// One for each time the daemon wrote into it.
    pub sessions: Vec<Session>,
    pub processes: Vec<Process>,
    /// In the order in which they came first.
    pub phases: Vec<PhaseTime>,
    pub events: Vec<Event>,
    /// Where ticks are missing.
    pub gaps: Vec<Gap>,
    /// Rows of each table, in the order of the file.
    pub tables: Vec<Table>,
    /// What the daemon could not read when the recording ended.
    pub problems: Vec<Problem>,
    /// What a reader of the recording should know, in words.
    pub missing: Vec<String>,
}

/// One life of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    /// As other rows name it.
    pub id: i64,
    pub started_unix_ns: i64,
    /// `None` while it lasts, and if the daemon was killed.
    pub ended_unix_ns: Option<i64>,
    /// From tick to tick.
    pub interval_seconds: f64,
    pub version: String,
    pub ticks: u64,
    /// Host, kernel, disks, configuration.
    pub manifest: Value,
}

/// A process that was followed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    /// As other rows name it.
    pub id: i64,
    pub session: i64,
    pub pid: u32,
    /// `None` if unknown.
    pub started_unix_ns: Option<i64>,
    /// When the daemon found it.
    pub seen_unix_ns: i64,
    /// Version, binary, arguments, limits.
    pub manifest: Value,
}

/// How long a phase lasted, all its times together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTime {
    /// `None` where no evidence shows one.
    pub phase: Option<String>,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub unix_ns: i64,
    pub kind: &'static str,
    /// Whose; `None` while no process was followed.
    pub process: Option<i64>,
    /// Null if there is no detail.
    pub detail: Value,
}

/// How much is in a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    pub name: &'static str,
    pub rows: u64,
}

/// What a source could not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub source: String,
    /// absent, forbidden, gone or broken.
    pub status: String,
    pub what: String,
}

impl Summary {
    /// Looks at everything but samples and points, of which only the number is told.
    ///
    /// # Errors
    /// The recording is damaged, or a later version wrote rows that this one does not know.
    pub fn of(recording: &Recording) -> Result<Summary, Error> {
        let info = recording.info()?;
        let ticks = recording.ticks()?;
        let phases = timeline(&load_evidence(recording)?).phases;
        let times = times(&ticks, &info.sessions, &phases);
        let phases = times.phases.into_iter().map(|(phase, sum)| PhaseTime {
            phase: phase.map(|phase| phase.name().to_owned()),
            seconds: sum.as_secs_f64(),
        });
        let mut summary = Summary {
            file: recording.path().to_owned(),
            format: info.format,
            finished: info.finished,
            bytes: info.bytes,
            log_bytes: info.log_bytes,
            labels: info.labels.iter().cloned().collect(),
            meta: info.meta.clone(),
            first_unix_ns: info.first_tick.as_ref().map(|tick| tick.unix_ns),
            last_unix_ns: info.last_tick.as_ref().map(|tick| tick.unix_ns),
            seconds: times.length.as_secs_f64(),
            sessions: sessions(&info, &ticks),
            processes: processes(&info),
            phases: phases.collect(),
            events: recording.events()?.into_iter().map(event).collect(),
            gaps: times.gaps,
            tables: info
                .tables
                .iter()
                .map(|table| Table {
                    name: table.name,
                    rows: table.rows,
                })
                .collect(),
            problems: recording
                .last_problems()?
                .into_iter()
                .map(problem)
                .collect(),
            missing: Vec::new(),
        };
        summary.missing = missing(&summary);
        Ok(summary)
    }

    /// Rows of a table; 0 for one that there is not.
    pub fn rows(&self, table: &str) -> u64 {
        self.tables
            .iter()
            .find(|found| found.name == table)
            .map_or(0, |found| found.rows)
    }
}

fn nanos(since: Duration) -> i64 {
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn sessions(info: &Info, ticks: &[TickRow]) -> Vec<Session> {
    let ticks_of = |id: i64| ticks.iter().filter(|tick| tick.session == id).count() as u64;
    let of = info.sessions.iter().map(|session| Session {
        id: session.id,
        started_unix_ns: nanos(session.started),
        ended_unix_ns: session.ended.map(nanos),
        interval_seconds: session.interval.as_secs_f64(),
        version: session.version.clone(),
        ticks: ticks_of(session.id),
        manifest: session.manifest.clone(),
    });
    of.collect()
}

fn processes(info: &Info) -> Vec<Process> {
    let of = info.processes.iter().map(|process| Process {
        id: process.id,
        session: process.session,
        pid: process.pid,
        started_unix_ns: process.started.map(nanos),
        seen_unix_ns: nanos(process.seen),
        manifest: process.manifest.clone(),
    });
    of.collect()
}

fn event(row: EventRow) -> Event {
    Event {
        unix_ns: nanos(row.unix),
        kind: row.kind.name(),
        process: row.process,
        detail: row.detail,
    }
}

fn problem(row: ProblemRow) -> Problem {
    Problem {
        source: row.source,
        status: row.status.unwrap_or_default(),
        what: row.what.unwrap_or_default(),
    }
}

/// What is not there and could have been.
fn missing(summary: &Summary) -> Vec<String> {
    let mut all = Vec::new();
    if !summary.finished {
        all.push("the end: it is still being written, or its daemon was killed".to_owned());
    }
    if summary.first_unix_ns.is_none() {
        all.push("ticks: nothing was measured".to_owned());
        return all;
    }
    let missed: u64 = summary.gaps.iter().filter_map(|gap| gap.missed).sum();
    if missed > 0 {
        all.push(format!("{missed} ticks in {} gaps", summary.gaps.len()));
    }
    if summary.processes.is_empty() {
        all.push("a process: none was followed".to_owned());
    }
    let empty = |what: &str| {
        let names = summary
            .tables
            .iter()
            .filter(|table| table.name.ends_with(what) && table.rows == 0);
        names.map(|table| table.name).collect::<Vec<_>>().join(", ")
    };
    let (samples, points) = (empty("_sample"), empty("_point"));
    if !samples.is_empty() {
        all.push(format!("samples: {samples}"));
    }
    if !points.is_empty() {
        all.push(format!(
            "datapoints of the validator: {points}; set its SOLANA_METRICS_CONFIG, see docs/CONFIGURATION.md"
        ));
    }
    let killed = summary
        .events
        .iter()
        .filter(|event| event.kind == EventKind::OomKill.name())
        .count();
    if killed > 0 {
        all.push(format!(
            "what the validator had not pushed when it was OOM-killed ({killed} times)"
        ));
    }
    all
}
