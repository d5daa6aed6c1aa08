//! From a recording to a [`Run`].

use super::{Event, Facts, Points, Pool, PoolRow, Process, Run, Session, Signal, Tick};
use faultline_recording::schema::column_of;
use faultline_recording::{Error, EventRow, ProcessRow, Recording, SessionRow, TickRow};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The start of one process is told with this much difference at most: it is reckoned from the wall clock.
const START_TIMES_DIFFER: Duration = Duration::from_secs(2);

/// Reads a recording: finished, still being written, or cut off.
///
/// # Errors
/// Whatever [`Recording::open`] refuses, and rows that cannot be read.
pub fn load(path: &Path) -> Result<Run, Error> {
    let recording = Recording::open(path)?;
    let sessions = recording.sessions()?;
    let rows = recording.ticks()?;
    let clock = Clock::new(&sessions, &rows);
    let processes = recording.processes()?;
    let same = same(&processes);
    let ticks = ticks(&rows, &clock, &same);
    let place: HashMap<i64, usize> = rows.iter().enumerate().map(|(index, row)| (row.id, index)).collect();
    let mut run = Run {
        file: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        labels: recording.labels().to_vec(),
        finished: sessions.last().is_some_and(|session| session.ended.is_some()),
        salvaged: recording.info()?.meta.remove("salvaged_from"),
        origin_unix_ns: clock.origin,
        facts: Facts::of(&sessions, &processes),
        ticks,
        signals: signals(&recording, &rows)?,
        pools: pools(&recording, &place)?,
        points: Points {
            cache: recording.program_cache_points()?,
            replay: recording.replay_slot_points()?,
            roots: recording.set_root_points()?,
            costs: recording.cost_tracker_points()?,
        },
        ..Run::default()
    };
    run.sessions = sessions.iter().map(|row| session(row, &run)).collect();
    run.processes = processes
        .iter()
        .filter(|row| same.get(&row.id) == Some(&row.id))
        .map(|row| Process {
            id: row.id,
            pid: i64::from(row.pid),
            seen: run.at(nanoseconds(row.seen)),
            version: super::manifest::version(&row.manifest),
        })
        .collect();
    run.events = recording.events()?.iter().map(|row| event(row, &clock)).collect();
    Ok(run)
}

/// Where each session's monotonic clock lies on the wall clock: fixed at its first tick, so that a clock that is set
/// meanwhile moves nothing.
struct Clock {
    origin: i64,
    /// Unix time less uptime by session, in nanoseconds.
    offsets: BTreeMap<i64, i64>,
}

impl Clock {
    fn new(sessions: &[SessionRow], ticks: &[TickRow]) -> Self {
        let mut offsets = BTreeMap::new();
        for tick in ticks {
            offsets.entry(tick.session).or_insert(tick.unix_ns.saturating_sub(tick.uptime_ns));
        }
        let started = sessions.first().map(|session| nanoseconds(session.started));
        let origin = ticks.first().map(|tick| tick.unix_ns).or(started).unwrap_or(0);
        Clock { origin, offsets }
    }

    /// Seconds since the origin; by the wall clock in a session without ticks.
    fn at(&self, session: i64, uptime_ns: i64, unix_ns: i64) -> f64 {
        let unix = self.offsets.get(&session).map_or(unix_ns, |offset| offset.saturating_add(uptime_ns));
        unix.saturating_sub(self.origin) as f64 / 1e9
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Which row first told of each row's process: a daemon that was restarted, and a merge, tell of it again.
fn same(processes: &[ProcessRow]) -> HashMap<i64, i64> {
    let one = |a: &ProcessRow, b: &ProcessRow| {
        a.pid == b.pid
            && match (a.started, b.started) {
                (Some(a), Some(b)) => a.abs_diff(b) < START_TIMES_DIFFER,
                _ => a.session != b.session,
            }
    };
    processes
        .iter()
        .map(|row| (row.id, processes.iter().find(|first| one(first, row)).map_or(row.id, |first| first.id)))
        .collect()
}

fn ticks(rows: &[TickRow], clock: &Clock, same: &HashMap<i64, i64>) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::with_capacity(rows.len());
    for row in rows {
        let at = clock.at(row.session, row.uptime_ns, row.unix_ns);
        // A wall clock set back between two sessions would let time run backwards.
        let at = ticks.last().map_or(at, |last| at.max(last.at));
        let process = row.process.map(|process| same.get(&process).copied().unwrap_or(process));
        ticks.push(Tick { at, session: row.session, process, phase: row.phase.clone() });
    }
    ticks
}

fn session(row: &SessionRow, run: &Run) -> Session {
    Session {
        id: row.id,
        from: run.at(nanoseconds(row.started)),
        interval: row.interval.as_secs_f64(),
        version: row.version.clone(),
    }
}

fn event(row: &EventRow, clock: &Clock) -> Event {
    let detail = match &row.detail {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let at = clock.at(row.session, nanoseconds(row.uptime), nanoseconds(row.unix));
    Event { at, kind: row.kind.name().to_owned(), detail }
}

/// One value a tick; a tick without a row in the table has none.
fn signals(recording: &Recording, ticks: &[TickRow]) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let mut signals = vec![vec![None; ticks.len()]; Signal::ALL.len()];
    for table in faultline_recording::Table::ALL {
        let wanted: Vec<(usize, &str)> = (Signal::ALL.iter().enumerate())
            .filter_map(|(index, signal)| {
                let (metric, labels) = signal.metric();
                column_of(metric, labels).filter(|(of, _)| *of == table).map(|(_, column)| (index, column.name))
            })
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let names: Vec<&str> = wanted.iter().map(|(_, name)| *name).collect();
        let columns = recording.columns(table, &names)?;
        let places = places(ticks, &columns.ticks);
        for ((index, _), values) in wanted.iter().zip(columns.values) {
            for (place, value) in places.iter().zip(values) {
                if let (Some(place), Some(value)) = (place, value) {
                    signals[*index][*place] = Some(value);
                }
            }
        }
    }
    Ok(signals)
}

/// Where each row's tick is among all ticks; both ascend.
fn places(ticks: &[TickRow], rows: &[i64]) -> Vec<Option<usize>> {
    let mut next = 0;
    rows.iter()
        .map(|id| {
            while ticks.get(next).is_some_and(|tick| tick.id < *id) {
                next += 1;
            }
            ticks.get(next).filter(|tick| tick.id == *id).map(|_| next)
        })
        .collect()
}

fn pools(recording: &Recording, place: &HashMap<i64, usize>) -> Result<Vec<Pool>, Error> {
    let mut pools: BTreeMap<Arc<str>, Vec<PoolRow>> = BTreeMap::new();
    for row in recording.pools()? {
        let Some(&tick) = place.get(&row.tick) else { continue };
        pools.entry(row.pool).or_default().push(PoolRow {
            tick,
            threads: row.threads.map(|count| count as f64),
            major: row.major_faults.map(|count| count as f64),
            minor: row.minor_faults.map(|count| count as f64),
            cpu: row.cpu_user.zip(row.cpu_system).map(|(user, system)| user + system),
        });
    }
    Ok(pools.into_iter().map(|(name, rows)| Pool { name: name.to_string(), rows }).collect())
}
