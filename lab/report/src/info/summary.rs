use crate::{
    measure::timeline,
    run::{load_run_for_phases, nanoseconds},
};
use faultline_phase::Phase;
use faultline_recording::{Error, EventKind, EventRow, ProcessRow, Recording, SessionRow, TickRow};
use faultline_text::counted;
use itertools::Itertools;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The output of `info --json`.
#[derive(Debug, Serialize)]
pub struct RecordingSummary {
    pub file: PathBuf,
    pub format: i32,
    /// Copies and merges are finished.
    pub finished: bool,
    pub bytes: u64,
    /// Size of the write-ahead log of SQLite.
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

#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct Process {
    pub id: i64,
    pub session: i64,
    pub pid: u32,
    pub started_unix_ns: Option<i64>,
    /// First seen by the daemon.
    pub seen_unix_ns: i64,
    pub manifest: Value,
}

#[derive(Debug, Serialize)]
pub struct PhaseTime {
    pub phase: Option<String>,
    pub seconds: f64,
}

#[derive(Debug, Serialize)]
pub struct Event {
    pub unix_ns: i64,
    pub kind: String,
    pub process: Option<i64>,
    pub detail: Value,
}

#[derive(Debug, Serialize)]
pub struct Table {
    pub name: &'static str,
    pub rows: u64,
}

#[derive(Debug, Serialize)]
pub struct Problem {
    pub source: String,
    /// absent, forbidden, gone or broken.
    pub status: String,
    pub what: String,
}

impl RecordingSummary {
    pub fn of(recording: &Recording) -> Result<Self, Error> {
        // First, because it reads manifests, too, and drops them.
        let phases = timeline(&load_run_for_phases(recording)?).phases;
        let info = recording.info()?;
        let ticks = recording.ticks()?;
        let times = times(&ticks, &info.sessions, &phases);
        let phases = times.phases.into_iter().map(|(phase, sum)| PhaseTime {
            phase: phase.map(|phase| phase.name().to_owned()),
            seconds: sum.as_secs_f64(),
        });
        let sessions = info.sessions.into_iter().map(|row| Session {
            id: row.id,
            started_unix_ns: nanoseconds(row.started),
            ended_unix_ns: row.ended.map(nanoseconds),
            interval_seconds: row.interval.as_secs_f64(),
            version: row.version,
            ticks: ticks.iter().filter(|tick| tick.session == row.id).count() as u64,
            manifest: row.manifest,
        });
        let tables = info.tables.into_iter().map(|table| Table {
            name: table.name,
            rows: table.rows,
        });
        let problems = recording.problems_at_end()?.into_iter();
        let problems = problems.map(|row| Problem {
            source: row.source,
            status: row.status.unwrap_or_default(),
            what: row.what.unwrap_or_default(),
        });
        let mut summary = Self {
            file: recording.path().to_owned(),
            format: info.format,
            finished: info.finished,
            bytes: info.bytes,
            log_bytes: info.wal_bytes,
            labels: info.labels.into_iter().collect(),
            meta: info.meta,
            first_unix_ns: info.first_tick.map(|tick| tick.unix_ns),
            last_unix_ns: info.last_tick.map(|tick| tick.unix_ns),
            seconds: times.length.as_secs_f64(),
            sessions: sessions.collect(),
            processes: info.processes.into_iter().map(process).collect(),
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

fn process(row: ProcessRow) -> Process {
    Process {
        id: row.id,
        session: row.session,
        pid: row.pid,
        started_unix_ns: row.started.map(nanoseconds),
        seen_unix_ns: nanoseconds(row.seen),
        manifest: row.manifest,
    }
}

fn event(row: EventRow) -> Event {
    Event {
        unix_ns: nanoseconds(row.unix),
        kind: row.kind,
        process: row.process,
        detail: row.detail,
    }
}

fn missing(summary: &RecordingSummary) -> Vec<String> {
    let mut all = Vec::new();
    if !summary.finished {
        all.push(
            "the end: the recording is still being written, or its daemon was killed".to_owned(),
        );
        if summary.log_bytes == 0 && !summary.meta.contains_key("salvaged_from") {
            let file = summary.file.display();
            all.push(format!(
                "perhaps the newest samples: if the recording was copied without {file}-wal, copy it again with it"
            ));
        }
    }
    if summary.first_unix_ns.is_none() {
        all.push("samples: the file has none".to_owned());
        return all;
    }
    all.extend(missed_ticks(&summary.gaps));
    if summary.processes.is_empty() {
        all.push("a process: none was followed".to_owned());
    }
    let tables = |suffix| {
        summary
            .tables
            .iter()
            .filter(move |table| table.name.ends_with(suffix))
    };
    let empty = |suffix| {
        tables(suffix)
            .filter(|table| table.rows == 0)
            .map(|table| table.name)
            .join(", ")
    };
    let (samples, points) = (empty("_sample"), empty("_point"));
    if !samples.is_empty() {
        all.push(format!("tables of samples: {samples}"));
    }
    if !points.is_empty() {
        let advice = if tables("_point").any(|table| table.rows > 0) {
            "the validator sent other datapoints, but not these"
        } else {
            "set its SOLANA_METRICS_CONFIG, see docs/CONFIGURATION.md"
        };
        all.push(format!("datapoints of the validator: {points}; {advice}"));
    }
    let is_kill = |event: &&Event| event.kind == EventKind::OomKill;
    let killed = summary.events.iter().filter(is_kill).count();
    if killed > 0 {
        all.push(format!(
            "datapoints that the validator had not yet sent when it was OOM-killed ({})",
            counted(killed as f64, "time")
        ));
    }
    let is_unknown = |event: &Event| EventKind::named(&event.kind).is_none();
    if summary.events.iter().any(is_unknown) {
        all.push("the meaning of some events: a newer version wrote them".to_owned());
    }
    all
}

/// `2 samples in 1 gap`; `None` if none was missed.
fn missed_ticks(gaps: &[Gap]) -> Option<String> {
    let missed = gaps.iter().filter_map(|gap| gap.missed);
    let missed = missed.filter(|ticks| *ticks > 0).collect_vec();
    let ticks = counted(missed.iter().sum::<u64>() as f64, "sample");
    let gaps = counted(missed.len() as f64, "gap");
    (!missed.is_empty()).then(|| format!("{ticks} in {gaps}"))
}

/// A step of more than this many intervals is a gap, even if no tick was missed.
const GAP_INTERVALS: u32 = 3;

#[derive(Debug, PartialEq, Serialize)]
pub struct Gap {
    pub from_unix_ns: i64,
    pub to_unix_ns: i64,
    /// By the monotonic clock; between two sessions by the wall clock.
    pub seconds: f64,
    /// Number of missed ticks; `None` between two sessions.
    pub missed: Option<u64>,
}

#[derive(Debug, Default, PartialEq)]
struct Times {
    /// In order of first appearance; `None` if not known. Gaps belong to no phase.
    phases: Vec<(Option<Phase>, Duration)>,
    gaps: Vec<Gap>,
    /// From first to last tick, by the same clocks as [`Gap::seconds`].
    length: Duration,
}

/// The time between two ticks belongs to the phase of the earlier one.
fn times(ticks: &[TickRow], sessions: &[SessionRow], phases: &[Option<Phase>]) -> Times {
    let mut times = Times::default();
    for ((before, after), phase) in ticks.iter().tuple_windows().zip(phases) {
        let is_one_session = before.session == after.session;
        let (from, to) = if is_one_session {
            (before.uptime_ns, after.uptime_ns)
        } else {
            (before.unix_ns, after.unix_ns)
        };
        let passed = Duration::from_nanos(u64::try_from(to.saturating_sub(from)).unwrap_or(0));
        times.length += passed;
        let gap = |missed| Gap {
            from_unix_ns: before.unix_ns,
            to_unix_ns: after.unix_ns,
            seconds: passed.as_secs_f64(),
            missed,
        };
        if !is_one_session {
            times.gaps.push(gap(None));
            continue;
        }
        let session = sessions.iter().find(|session| session.id == after.session);
        let missed = after.number.saturating_sub(before.number).saturating_sub(1);
        if missed > 0 || session.is_some_and(|session| passed > session.interval * GAP_INTERVALS) {
            times.gaps.push(gap(Some(missed)));
            continue;
        }
        match times.phases.iter_mut().find(|(known, _)| known == phase) {
            Some((_, sum)) => *sum += passed,
            None => times.phases.push((*phase, passed)),
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::{NewRecording, NewSession, Writer};

    #[test]
    fn a_copy_without_its_wal_may_have_lost_its_samples() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["run.fltl", "copy.fltl"].map(|name| folder.path().join(name));
        let session = NewSession {
            started: faultline_metrics::Stamp::default(),
            interval: Duration::from_secs(1),
            version: String::new(),
            manifest: Value::Null,
        };
        let labels = Vec::new();
        let writer = Writer::create(&path, &NewRecording { labels, session }).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        for (path, expected) in [(path, 0), (copy, 1)] {
            let mut summary = RecordingSummary::of(&Recording::open(&path).unwrap()).unwrap();
            let remark = format!(
                "perhaps the newest samples: if the recording was copied without {}-wal",
                path.display()
            );
            let count = |missing: &[String]| {
                let found = missing.iter().filter(|text| text.starts_with(&remark));
                found.count()
            };
            let all = &summary.missing;
            assert_eq!(count(all), expected, "{all:?}");
            assert!(
                all.iter().any(|text| text == "samples: the file has none"),
                "{all:?}"
            );
            let key = "salvaged_from".to_owned();
            summary.meta.insert(key, "damaged.fltl".to_owned());
            assert_eq!(count(&missing(&summary)), 0);
        }
        drop(writer);
    }

    #[test]
    fn events_of_an_unknown_kind_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let session = NewSession {
            started: faultline_metrics::Stamp::default(),
            interval: Duration::from_secs(1),
            version: String::new(),
            manifest: Value::Null,
        };
        let labels = Vec::new();
        drop(Writer::create(&path, &NewRecording { labels, session }).unwrap());
        let mut summary = RecordingSummary::of(&Recording::open(&path).unwrap()).unwrap();
        summary.first_unix_ns = Some(0);
        summary.events = ["mark", "later", "later"]
            .map(|kind| Event {
                unix_ns: 0,
                kind: kind.to_owned(),
                process: None,
                detail: Value::Null,
            })
            .into();
        let remarks = missing(&summary);
        let remarks = remarks
            .iter()
            .filter(|text| text.starts_with("the meaning of some events"));
        assert_eq!(remarks.count(), 1);
    }

    const SECOND: i64 = 1_000_000_000;

    fn tick(session: i64, number: u64) -> TickRow {
        let at = i64::try_from(number).unwrap() * SECOND;
        let unix_ns = session * 1000 * SECOND + at;
        TickRow {
            id: 0,
            session,
            number,
            unix_ns,
            uptime_ns: at,
            process: None,
            phase: None,
        }
    }

    fn session(id: i64) -> SessionRow {
        SessionRow {
            id,
            started: Duration::ZERO,
            ended: None,
            interval: Duration::from_secs(1),
            version: String::new(),
            manifest: serde_json::Value::Null,
        }
    }

    #[test]
    fn time_counts_for_the_phase_at_its_start_and_gaps_for_none() {
        let ticks = [
            tick(1, 1),
            tick(1, 2),
            tick(1, 3),
            tick(1, 4),
            tick(1, 7),
            tick(2, 1),
            tick(2, 2),
        ];
        let (starting, at_tip) = (Some(Phase::Starting), Some(Phase::AtTip));
        let phases = [None, starting, at_tip, at_tip, at_tip, at_tip, starting];
        let found = times(&ticks, &[session(1), session(2)], &phases);
        let seconds: Vec<_> = found
            .phases
            .iter()
            .map(|(phase, sum)| (*phase, sum.as_secs()))
            .collect();
        assert_eq!(seconds, [(None, 1), (starting, 1), (at_tip, 2)]);
        let gaps: Vec<_> = found
            .gaps
            .iter()
            .map(|gap| (gap.seconds as u64, gap.missed))
            .collect();
        assert_eq!(gaps, [(3, Some(2)), (994, None)]);
        assert_eq!(
            missed_ticks(&found.gaps).as_deref(),
            Some("2 samples in 1 gap")
        );
    }

    #[test]
    fn a_clock_step_does_not_change_durations() {
        for jump in [3600, -3600] {
            let mut ticks: Vec<TickRow> = [1, 2, 3, 7, 8].map(|number| tick(1, number)).into();
            ticks
                .iter_mut()
                .skip(3)
                .for_each(|tick| tick.unix_ns += jump * SECOND);
            let found = times(&ticks, &[session(1)], &[None; 5]);
            assert_eq!(
                (found.gaps[0].seconds as u64, found.length.as_secs()),
                (4, 7),
                "{jump}"
            );
        }
    }

    #[test]
    fn a_stalled_daemon_leaves_a_gap_despite_continuous_tick_numbers() {
        let mut late = tick(1, 2);
        late.uptime_ns += 3 * SECOND;
        late.unix_ns += 3 * SECOND;
        let found = times(&[tick(1, 1), late], &[session(1)], &[None; 2]);
        assert_eq!((found.phases.len(), found.gaps.len()), (0, 1));
        assert_eq!(times(&[], &[], &[]), Times::default());
    }
}
