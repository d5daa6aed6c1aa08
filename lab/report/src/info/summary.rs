use super::phases::{Gap, times};
use crate::{
    measure::timeline,
    run::{load_evidence, nanoseconds},
};
use faultline_recording::{Error, EventKind, EventRow, Recording, SessionRow, TickRow};
use faultline_text::counted;
use itertools::Itertools;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf};

/// The output of `info --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub file: PathBuf,
    pub format: i32,
    pub finished: bool,
    pub bytes: u64,
    /// Size of the log next to it.
    pub log_bytes: u64,
    pub labels: BTreeMap<String, String>,
    pub meta: BTreeMap<String, String>,
    pub first_unix_ns: Option<i64>,
    pub last_unix_ns: Option<i64>,
    pub seconds: f64,
    pub sessions: Vec<Session>,
    pub processes: Vec<Process>,
    pub phases: Vec<PhaseTime>,
    pub events: Vec<Event>,
    pub gaps: Vec<Gap>,
    pub tables: Vec<Table>,
    pub problems: Vec<Problem>,
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    pub id: i64,
    pub started_unix_ns: i64,
    /// `None` while it runs, and if the daemon was killed.
    pub ended_unix_ns: Option<i64>,
    pub interval_seconds: f64,
    pub version: String,
    pub ticks: u64,
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    pub id: i64,
    pub session: i64,
    pub pid: u32,
    pub started_unix_ns: Option<i64>,
    pub seen_unix_ns: i64,
    pub manifest: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTime {
    /// `None` without evidence.
    pub phase: Option<String>,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub unix_ns: i64,
    pub kind: &'static str,
    pub process: Option<i64>,
    pub detail: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    pub name: &'static str,
    pub rows: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub source: String,
    /// absent, forbidden, gone or broken.
    pub status: String,
    pub what: String,
}

impl Summary {
    /// Fails on rows of a later version.
    pub fn of(recording: &Recording) -> Result<Summary, Error> {
        let info = recording.info()?;
        let ticks = recording.ticks()?;
        let phases = timeline(&load_evidence(recording)?).phases;
        let times = times(&ticks, &info.sessions, &phases);
        let phases = times.phases.into_iter().map(|(phase, sum)| PhaseTime {
            phase: phase.map(|phase| phase.name().to_owned()),
            seconds: sum.as_secs_f64(),
        });
        let sessions = info.sessions.into_iter();
        let processes = info.processes.into_iter().map(|process| Process {
            id: process.id,
            session: process.session,
            pid: process.pid,
            started_unix_ns: process.started.map(nanoseconds),
            seen_unix_ns: nanoseconds(process.seen),
            manifest: process.manifest,
        });
        let tables = info.tables.into_iter().map(|table| Table {
            name: table.name,
            rows: table.rows,
        });
        let problems = recording.last_problems()?.into_iter();
        let problems = problems.map(|problem| Problem {
            source: problem.source,
            status: problem.status.unwrap_or_default(),
            what: problem.what.unwrap_or_default(),
        });
        let mut summary = Summary {
            file: recording.path().to_owned(),
            format: info.format,
            finished: info.finished,
            bytes: info.bytes,
            log_bytes: info.log_bytes,
            labels: info.labels.into_iter().collect(),
            meta: info.meta,
            first_unix_ns: info.first_tick.map(|tick| tick.unix_ns),
            last_unix_ns: info.last_tick.map(|tick| tick.unix_ns),
            seconds: times.length.as_secs_f64(),
            sessions: sessions.map(|row| session(row, &ticks)).collect(),
            processes: processes.collect(),
            phases: phases.collect(),
            events: recording.events()?.into_iter().map(event).collect(),
            gaps: times.gaps,
            tables: tables.collect(),
            problems: problems.collect(),
            missing: Vec::new(),
        };
        summary.missing = missing(&summary);
        Ok(summary)
    }
}

fn session(row: SessionRow, ticks: &[TickRow]) -> Session {
    let ticks = ticks.iter().filter(|tick| tick.session == row.id);
    Session {
        id: row.id,
        started_unix_ns: nanoseconds(row.started),
        ended_unix_ns: row.ended.map(nanoseconds),
        interval_seconds: row.interval.as_secs_f64(),
        version: row.version,
        ticks: ticks.count() as u64,
        manifest: row.manifest,
    }
}

fn event(row: EventRow) -> Event {
    Event {
        unix_ns: nanoseconds(row.unix),
        kind: row.kind.name(),
        process: row.process,
        detail: row.detail,
    }
}

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
        let (ticks, gaps) = (missed as f64, summary.gaps.len() as f64);
        all.push(format!(
            "{} in {}",
            counted(ticks, "tick"),
            counted(gaps, "gap")
        ));
    }
    if summary.processes.is_empty() {
        all.push("a process: none was followed".to_owned());
    }
    let empty = |what: &str| {
        let names = summary
            .tables
            .iter()
            .filter(|table| table.name.ends_with(what) && table.rows == 0);
        names.map(|table| table.name).join(", ")
    };
    let (samples, points) = (empty("_sample"), empty("_point"));
    if !samples.is_empty() {
        all.push(format!("samples: {samples}"));
    }
    if !points.is_empty() {
        let is_point = |table: &&Table| table.name.ends_with("_point");
        let advice = match summary
            .tables
            .iter()
            .filter(is_point)
            .any(|table| table.rows > 0)
        {
            true => "the validator sent other datapoints, but not these",
            false => "set its SOLANA_METRICS_CONFIG, see docs/CONFIGURATION.md",
        };
        all.push(format!("datapoints of the validator: {points}; {advice}"));
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
