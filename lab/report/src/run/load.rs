use super::{
    ClockStep, Event, Points, Pool, PoolRow, Process, Run, Session, Signal, SystemFacts, Tick,
    clock::{Clock, nanoseconds},
    levels::binding_levels,
};
use faultline_metrics::metrics::{
    cgroup::FROZEN,
    process::STATE,
    validator::{CONSENSUS, SLOT_SECONDS},
};
use faultline_phase::Rules;
use faultline_recording::{
    Cell, Error, EventRow, ProblemRow, ProcessRow, Recording, SessionRow, TickRow,
    schema::column_of,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Start times of one process can differ by this much: they are derived from the wall clock.
const MAX_START_TIME_DIFFERENCE: Duration = Duration::from_secs(2);

/// Older recordings lack the first three.
const EVIDENCE_SIGNALS: [Signal; 6] = [
    Signal::EvidenceSlot,
    Signal::EvidenceTip,
    Signal::EvidenceStopped,
    Signal::Processed,
    Signal::Behind,
    Signal::RpcUp,
];

pub fn load(path: &Path) -> Result<Run, Error> {
    let recording = Recording::open(path)?;
    let sessions = recording.sessions()?;
    let rows = recording.ticks()?;
    let clock = Clock::new(&sessions, &rows);
    let processes = recording.processes()?;
    let first_rows = first_rows(&processes);
    let ticks = ticks(&rows, &clock, &first_rows);
    let index_of = index_of(&rows);
    let mut run = Run {
        consensus: consensus(&recording, &index_of, &ticks)?,
        file: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        labels: recording.labels().to_vec(),
        finished: sessions
            .last()
            .is_some_and(|session| session.ended.is_some()),
        salvaged: recording.info()?.meta.remove("salvaged_from"),
        origin_unix_ns: clock.origin,
        facts: SystemFacts::of(&sessions, &processes),
        ticks,
        stopped: stopped(&recording, &rows)?,
        binding_levels: binding_levels(&recording, &rows)?,
        signals: signals(&recording, &rows, &index_of, Signal::ALL)?,
        pools: pools(&recording, &index_of)?,
        points: points(&recording, &clock, &rows)?,
        slot_times: slot_times(&recording, &index_of)?,
        ..Run::default()
    };
    run.sessions = sessions.iter().map(|row| session(row, &run)).collect();
    run.processes = processes
        .iter()
        .filter(|row| first_rows.get(&row.id) == Some(&row.id) && !is_wrapper(row, &processes))
        .map(|row| Process {
            pid: i64::from(row.pid),
            seen: seen(row, &run),
            started: row
                .started
                .map(|started| run.at(clock.by_first_clock(nanoseconds(started), None))),
        })
        .collect();
    run.target_problems = target_problems(&recording, &rows)?;
    run.events = recording
        .events()?
        .iter()
        .map(|row| event(row, &clock))
        .collect();
    run.clock_steps = clock_steps(&clock, &run.events);
    Ok(run)
}

/// Whether the process started the validator: the daemon follows it until it finds the child.
fn is_wrapper(process: &ProcessRow, all: &[ProcessRow]) -> bool {
    let next = all
        .iter()
        .find(|other| other.session == process.session && other.id > process.id);
    !process.manifest["validator"].is_object()
        && next.is_some_and(|next| next.manifest["found_by"] == "descendant")
}

fn target_problems(recording: &Recording, ticks: &[TickRow]) -> Result<Vec<String>, Error> {
    /// A foreign recording may have any number.
    const MAX: usize = 4;
    let followed: HashSet<i64> = ticks
        .iter()
        .filter(|tick| tick.process.is_some())
        .map(|tick| tick.id)
        .collect();
    let of_target = |row: &ProblemRow| row.source == "target" && followed.contains(&row.tick);
    let rows: Vec<ProblemRow> = recording
        .problems()?
        .into_iter()
        .filter(of_target)
        .collect();
    let last = rows.last().map(|row| row.tick);
    Ok(rows
        .into_iter()
        .filter(|row| Some(row.tick) == last)
        .filter_map(|row| row.what)
        .take(MAX)
        .collect())
}

/// Loads only sessions, ticks and the signals for the phases.
pub fn load_evidence(recording: &Recording) -> Result<Run, Error> {
    let (sessions, rows) = (recording.sessions()?, recording.ticks()?);
    let (clock, index_of) = (Clock::new(&sessions, &rows), index_of(&rows));
    let mut run = Run {
        origin_unix_ns: clock.origin,
        ticks: ticks(&rows, &clock, &first_rows(&recording.processes()?)),
        stopped: stopped(recording, &rows)?,
        signals: signals(recording, &rows, &index_of, &EVIDENCE_SIGNALS)?,
        slot_times: slot_times(recording, &index_of)?,
        ..Run::default()
    };
    run.sessions = sessions.iter().map(|row| session(row, &run)).collect();
    Ok(run)
}

fn seen(row: &ProcessRow, run: &Run) -> f64 {
    let first = run.ticks.iter().find(|tick| tick.process == Some(row.id));
    first.map_or_else(|| run.at(nanoseconds(row.seen)), |tick| tick.at)
}

fn clock_steps(clock: &Clock, events: &[Event]) -> Vec<ClockStep> {
    /// A step and an event within this many seconds are the same.
    const NEAR: f64 = 5.0;
    let mut steps = clock.steps();
    for event in events.iter().filter(|event| event.kind == "clock_step") {
        let Some(seconds) = event.detail["seconds"].as_f64() else {
            continue;
        };
        if !steps.iter().any(|step| (step.at - event.at).abs() < NEAR) {
            steps.push(ClockStep {
                at: event.at,
                seconds,
            });
        }
    }
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    steps
}

fn points(recording: &Recording, clock: &Clock, ticks: &[TickRow]) -> Result<Points, Error> {
    let mut points = Points {
        cache: recording.program_cache_points()?,
        replay: recording.replay_slot_points()?,
        roots: recording.set_root_points()?,
        cache_times: recording.cache_times_points()?,
        costs: recording.cost_tracker_points()?,
    };
    if clock.steps().is_empty() {
        return Ok(points);
    }
    let written: HashMap<i64, i64> = ticks
        .iter()
        .map(|row| (row.id, clock.on_axis(row)))
        .collect();
    macro_rules! to_first_clock {
        ($points:expr, $table:literal) => {
            let seen = written_at(recording, $table, &written)?;
            for (point, seen) in $points.iter_mut().zip(seen) {
                point.time_unix_ns = clock.by_first_clock(point.time_unix_ns, seen);
            }
            $points.sort_by_key(|point| point.time_unix_ns);
        };
    }
    to_first_clock!(points.cache, "program_cache_point");
    to_first_clock!(points.replay, "replay_slot_point");
    to_first_clock!(points.roots, "set_root_point");
    to_first_clock!(points.cache_times, "cache_times_point");
    to_first_clock!(points.costs, "cost_tracker_point");
    Ok(points)
}

/// When each point was written, in nanoseconds of the axis. Ordered by the points' own times.
fn written_at(
    recording: &Recording,
    table: &str,
    ticks: &HashMap<i64, i64>,
) -> Result<impl Iterator<Item = Option<i64>>, Error> {
    const CHUNK: usize = 4096;
    let mut rows: Vec<(i64, Option<i64>)> = Vec::new();
    recording.rows(table, CHUNK, |chunk| {
        rows.extend(chunk.iter().filter_map(|row| match row.as_slice() {
            [_, Cell::Integer(tick), Cell::Integer(time), ..] => {
                Some((*time, ticks.get(tick).copied()))
            }
            [_, _, Cell::Integer(time), ..] => Some((*time, None)),
            _ => None,
        }));
        Ok::<(), Error>(())
    })?;
    rows.sort_by_key(|(time, _)| *time);
    Ok(rows.into_iter().map(|(_, seen)| seen))
}

/// From each row's id to that of its process's first row. A restart of the daemon or a merge
/// repeats rows.
fn first_rows(processes: &[ProcessRow]) -> HashMap<i64, i64> {
    let is_same_process = |a: &ProcessRow, b: &ProcessRow| {
        a.pid == b.pid
            && match (a.started, b.started) {
                (Some(a), Some(b)) => a.abs_diff(b) < MAX_START_TIME_DIFFERENCE,
                _ => a.session != b.session,
            }
    };
    processes
        .iter()
        .map(|row| {
            (
                row.id,
                processes
                    .iter()
                    .find(|first| is_same_process(first, row))
                    .map_or(row.id, |first| first.id),
            )
        })
        .collect()
}

fn ticks(rows: &[TickRow], clock: &Clock, first_rows: &HashMap<i64, i64>) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::with_capacity(rows.len());
    for row in rows {
        let at = clock.at(row.session, row.uptime_ns, row.unix_ns);
        // A wall clock set back between two sessions would make time decrease.
        let at = ticks.last().map_or(at, |last| at.max(last.at));
        let process = row
            .process
            .map(|process| first_rows.get(&process).copied().unwrap_or(process));
        ticks.push(Tick {
            at,
            session: row.session,
            process,
            phase: row.phase.clone(),
        });
    }
    ticks
}

/// Of an id that a damaged file repeats, the last index.
fn index_of(rows: &[TickRow]) -> HashMap<i64, usize> {
    (0..)
        .zip(rows)
        .map(|(index, row)| (row.id, index))
        .collect()
}

/// Start of each consensus protocol. A protocol lasts until another is seen.
fn consensus(
    recording: &Recording,
    index_of: &HashMap<i64, usize>,
    ticks: &[Tick],
) -> Result<Vec<(f64, String)>, Error> {
    let mut protocols: Vec<(f64, String)> = Vec::new();
    for row in recording.series_of(&CONSENSUS)? {
        let labels: Value = serde_json::from_str(&row.labels).unwrap_or_default();
        let protocol = labels["protocol"].as_str();
        let tick = index_of.get(&row.tick).and_then(|index| ticks.get(*index));
        let (Some(1.0), Some(protocol), Some(tick)) = (row.value, protocol, tick) else {
            continue;
        };
        if protocols.last().is_none_or(|(_, last)| last != protocol) {
            protocols.push((tick.at, protocol.to_owned()));
        }
    }
    Ok(protocols)
}

fn slot_times(
    recording: &Recording,
    index_of: &HashMap<i64, usize>,
) -> Result<BTreeMap<usize, Duration>, Error> {
    let rows = recording.series_of(&SLOT_SECONDS)?;
    let of_tick = rows.iter().filter_map(|row| {
        let slot_time = Duration::try_from_secs_f64(row.value?).ok()?;
        Some((*index_of.get(&row.tick)?, slot_time))
    });
    Ok(of_tick.collect())
}

fn session(row: &SessionRow, run: &Run) -> Session {
    Session {
        id: row.id,
        from: run.at(nanoseconds(row.started)),
        interval: row.interval.as_secs_f64(),
        rules: rules(row),
    }
}

/// From the manifest; missing fields have defaults.
fn rules(row: &SessionRow) -> Rules {
    let (phase, default) = (&row.manifest["daemon"]["phase"], Rules::default());
    let slots = |key: &str, default| phase[key].as_u64().unwrap_or(default);
    let seconds = |key: &str, default| {
        let seconds = phase[key].as_f64().map(Duration::try_from_secs_f64);
        seconds.and_then(Result::ok).unwrap_or(default)
    };
    Rules {
        at_tip_slots: slots("at_tip_slots", default.at_tip_slots),
        at_tip_for: seconds("at_tip_seconds", default.at_tip_for),
        behind_slots: slots("behind_slots", default.behind_slots),
        behind_for: seconds("behind_seconds", default.behind_for),
        interval: row.interval,
    }
}

/// For each tick, whether a stop signal held the process, or its cgroup was frozen.
fn stopped(recording: &Recording, ticks: &[TickRow]) -> Result<Vec<bool>, Error> {
    let mut changes = recording.series_of(&STATE)?;
    changes.retain(|row| row.labels.contains("stop"));
    changes.extend(recording.series_of(&FROZEN)?);
    changes.sort_by_key(|row| row.tick);
    let (mut changes, mut active) = (changes.into_iter().peekable(), BTreeMap::new());
    let stopped = ticks.iter().map(|tick| {
        while let Some(change) = changes.next_if(|change| change.tick <= tick.id) {
            active.insert((change.metric, change.labels), change.value == Some(1.0));
        }
        active.values().any(|active| *active)
    });
    Ok(stopped.collect())
}

fn event(row: &EventRow, clock: &Clock) -> Event {
    let at = clock.at(row.session, nanoseconds(row.uptime), nanoseconds(row.unix));
    Event {
        at,
        kind: row.kind.name().to_owned(),
        detail: row.detail.clone(),
    }
}

/// One value per signal and tick. `None` if the tick has no row in its table, or the signal is
/// not wanted.
fn signals(
    recording: &Recording,
    rows: &[TickRow],
    index_of: &HashMap<i64, usize>,
    wanted_signals: &[Signal],
) -> Result<Vec<Vec<Option<f64>>>, Error> {
    let mut signals = vec![vec![None; rows.len()]; Signal::ALL.len()];
    for table in faultline_recording::Table::ALL {
        let wanted: Vec<(usize, &str)> = (Signal::ALL.iter().enumerate())
            .filter(|(_, signal)| wanted_signals.contains(signal))
            .filter_map(|(index, signal)| {
                let (metric, labels) = signal.metric();
                column_of(metric, labels)
                    .filter(|(of, _)| *of == table)
                    .map(|(_, column)| (index, column.name))
            })
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let names: Vec<&str> = wanted.iter().map(|(_, name)| *name).collect();
        let columns = recording.columns(table, &names)?;
        let ticks: Vec<Option<&usize>> = columns.ticks.iter().map(|id| index_of.get(id)).collect();
        for ((index, _), values) in wanted.iter().zip(columns.values) {
            for (tick, value) in ticks.iter().zip(values) {
                if let (Some(tick), Some(value)) = (tick, value) {
                    signals[*index][**tick] = Some(value);
                }
            }
        }
    }
    Ok(signals)
}

fn pools(recording: &Recording, index_of: &HashMap<i64, usize>) -> Result<Vec<Pool>, Error> {
    let mut pools: BTreeMap<Arc<str>, Vec<PoolRow>> = BTreeMap::new();
    for row in recording.pools()? {
        let Some(&tick) = index_of.get(&row.tick) else {
            continue;
        };
        pools.entry(row.pool).or_default().push(PoolRow {
            tick,
            threads: row.threads.map(|count| count as f64),
            major: row.major_faults.map(|count| count as f64),
            minor: row.minor_faults.map(|count| count as f64),
            cpu: row
                .cpu_user
                .zip(row.cpu_system)
                .map(|(user, system)| user + system),
        });
    }
    Ok(pools
        .into_iter()
        .map(|(name, rows)| Pool {
            name: name.to_string(),
            rows,
        })
        .collect())
}
