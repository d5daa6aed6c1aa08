use super::{
    BindingLevel, ClockStep, Event, Process, Run, Session, Signal, SystemFacts, ThreadPool,
    ThreadPoolRow, Tick,
    time_axis::{TimeAxis, nanoseconds},
};
use faultline_metrics::metrics::{
    cgroup::FROZEN,
    memory::{BINDING, LEVEL_INFO},
    process::STATE,
    validator::{CONSENSUS, SLOT_SECONDS},
};
use faultline_phase::Rules;
use faultline_recording::{
    Error, PerTickTable, ProcessRow, Recording, SeriesRow, SessionRow, TickRow, schema::column_of,
};
use itertools::Itertools;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Start times of one process differ by up to this: they come from the wall clock.
const MAX_START_TIME_DIFFERENCE: Duration = Duration::from_secs(2);
/// For each pid.
const MAX_START_TIMES: usize = 8;

/// A recording from elsewhere may have any number of problems.
const MAX_TARGET_PROBLEMS: usize = 4;

/// A clock step between ticks and a clock-step event this close are the same step.
const MAX_STEP_TO_EVENT_SECONDS: f64 = 5.0;

/// Older recordings lack the first three signals.
const PHASE_EVIDENCE_SIGNALS: [Signal; 6] = [
    Signal::PhaseEvidenceSlot,
    Signal::PhaseEvidenceTip,
    Signal::PhaseEvidenceStopped,
    Signal::Processed,
    Signal::Behind,
    Signal::RpcUp,
];

pub fn load(path: &Path) -> Result<Run, Error> {
    let recording = Recording::open(path)?;
    let salvaged = recording.info()?.meta.remove("salvaged_from");
    let loader = Loader::new(&recording)?;
    let Loader {
        sessions,
        processes,
        time_axis,
        ..
    } = &loader;
    let run = loader.run_with(Signal::ALL)?;
    let events = recording
        .events()?
        .into_iter()
        .map(|row| Event {
            at: time_axis.axis_seconds(row.session, nanoseconds(row.uptime), nanoseconds(row.unix)),
            kind: row.kind,
            detail: row.detail,
        })
        .collect_vec();
    Ok(Run {
        file: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        labels: recording.labels().to_vec(),
        finished: sessions
            .last()
            .is_some_and(|session| session.ended.is_some()),
        salvaged,
        processes: loader.processes(&run),
        target_problems: loader.target_problems()?,
        clock_steps: clock_steps(time_axis, &events),
        events,
        binding_levels: loader.binding_levels()?,
        thread_pools: loader.thread_pools()?,
        points: time_axis.points(&recording, &loader.ticks)?,
        consensus: loader.consensus(&run.ticks)?,
        facts: SystemFacts::of(sessions, processes),
        ..run
    })
}

/// Loads only sessions, ticks and what the phases are derived from.
pub fn load_run_for_phases(recording: &Recording) -> Result<Run, Error> {
    Loader::new(recording)?.run_with(&PHASE_EVIDENCE_SIGNALS)
}

struct Loader<'r> {
    recording: &'r Recording,
    sessions: Vec<SessionRow>,
    processes: Vec<ProcessRow>,
    /// By row id: the id of the first row of the same process.
    first_row_ids: HashMap<i64, i64>,
    ticks: Vec<TickRow>,
    /// Index in `ticks` by the tick's id. If a damaged file repeats an id, the last index.
    tick_indices: HashMap<i64, usize>,
    time_axis: TimeAxis,
}

impl<'r> Loader<'r> {
    fn new(recording: &'r Recording) -> Result<Self, Error> {
        let (sessions, ticks) = (recording.sessions()?, recording.ticks()?);
        let processes = recording.processes()?;
        Ok(Loader {
            recording,
            time_axis: TimeAxis::new(&sessions, &ticks),
            tick_indices: (0..)
                .zip(&ticks)
                .map(|(index, row)| (row.id, index))
                .collect(),
            first_row_ids: first_row_ids(&processes),
            sessions,
            processes,
            ticks,
        })
    }

    fn run_with(&self, signals: &[Signal]) -> Result<Run, Error> {
        let mut run = Run {
            origin_unix_ns: self.time_axis.origin_unix_ns,
            ticks: self.ticks(),
            is_suspended: self.is_suspended()?,
            signals: self.signals(signals)?,
            recorded_slot_durations: self.recorded_slot_durations()?,
            ..Run::default()
        };
        let sessions = self.sessions.iter().map(|row| Session {
            id: row.id,
            from: run.at(nanoseconds(row.started)),
            interval_seconds: row.interval.as_secs_f64(),
            phase_rules: phase_rules(row),
        });
        run.sessions = sessions.collect();
        Ok(run)
    }

    fn ticks(&self) -> Vec<Tick> {
        let mut latest = f64::NEG_INFINITY;
        let ticks = self.ticks.iter().map(|row| {
            // A wall clock set back between two sessions would make time decrease.
            latest = latest.max(self.time_axis.axis_seconds(
                row.session,
                row.uptime_ns,
                row.unix_ns,
            ));
            Tick {
                at: latest,
                session: row.session,
                process: row
                    .process
                    .map(|process| self.first_row_ids.get(&process).copied().unwrap_or(process)),
                phase: row.phase.clone(),
            }
        });
        ticks.collect()
    }

    fn processes(&self, run: &Run) -> Vec<Process> {
        let ticks = run.ticks.iter().rev();
        let first_ticks: HashMap<_, _> = ticks.map(|tick| (tick.process, tick.at)).collect();
        let mut next_rows = HashMap::new();
        let listed = self.processes.iter().rev().filter(|row| {
            let next = next_rows.insert(row.session, *row);
            self.first_row_ids.get(&row.id) == Some(&row.id) && !is_wrapper(row, next)
        });
        let processes = listed.map(|row| {
            let started = row.started.map(nanoseconds);
            let first_tick = first_ticks.get(&Some(row.id));
            Process {
                pid: i64::from(row.pid),
                first_seen_at: first_tick
                    .map_or_else(|| run.at(nanoseconds(row.seen)), |first_tick| *first_tick),
                started_at: started
                    .map(|started| run.at(self.time_axis.without_clock_steps(started, None))),
            }
        });
        let mut processes = processes.collect_vec();
        processes.reverse();
        processes
    }

    /// At the last tick that has a process and such problems.
    fn target_problems(&self) -> Result<Vec<String>, Error> {
        let followed: HashSet<i64> = self
            .ticks
            .iter()
            .filter(|tick| tick.process.is_some())
            .map(|tick| tick.id)
            .collect();
        let mut rows = self.recording.problems()?;
        rows.retain(|row| row.source == "target" && followed.contains(&row.tick));
        let last = rows.last().map(|row| row.tick);
        Ok(rows
            .into_iter()
            .filter(|row| Some(row.tick) == last)
            .filter_map(|row| row.what)
            .take(MAX_TARGET_PROBLEMS)
            .collect())
    }

    /// The most frequent level first. Empty in recordings of older versions.
    fn binding_levels(&self) -> Result<Vec<BindingLevel>, Error> {
        // `series_of` has one row for each change of a value.
        let mut info = self
            .recording
            .series_of(&LEVEL_INFO)?
            .into_iter()
            .peekable();
        let mut changes = self.recording.series_of(&BINDING)?.into_iter().peekable();
        let mut paths = BTreeMap::new();
        let mut binds = BTreeMap::new();
        let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
        for tick in &self.ticks {
            while let Some(row) = info.next_if(|row| row.tick <= tick.id) {
                if row.value.is_some() {
                    paths.insert(label(&row, "level"), label(&row, "path"));
                }
            }
            // A row is valid only within its session and process.
            let process = (tick.session, tick.process);
            while let Some(change) = changes.next_if(|change| change.tick <= tick.id) {
                let is_binding = change.value == Some(1.0);
                binds.insert(label(&change, "level"), (is_binding, process));
            }
            if let Some((level, _)) = binds.iter().find(|(_, binds)| **binds == (true, process)) {
                let path = paths.get(level).cloned().unwrap_or_default();
                *counts.entry((level.clone(), path)).or_default() += 1;
            }
        }
        let all = f64::from(counts.values().sum::<u32>());
        let mut levels = counts
            .into_iter()
            .map(|((level, path), count)| BindingLevel {
                path,
                level,
                share: f64::from(count) / all,
            })
            .collect_vec();
        levels.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(levels)
    }

    /// Start of each consensus protocol. A protocol lasts until another is seen.
    fn consensus(&self, ticks: &[Tick]) -> Result<Vec<(f64, String)>, Error> {
        let mut protocols = Vec::new();
        for row in self.recording.series_of(&CONSENSUS)? {
            let index = self.tick_indices.get(&row.tick);
            let tick = index.and_then(|index| ticks.get(*index));
            let (Some(1.0), Some(tick)) = (row.value, tick) else {
                continue;
            };
            let protocol = label(&row, "protocol");
            if !protocol.is_empty() && protocols.last().is_none_or(|(_, last)| *last != protocol) {
                protocols.push((tick.at, protocol));
            }
        }
        Ok(protocols)
    }

    fn recorded_slot_durations(&self) -> Result<BTreeMap<usize, Duration>, Error> {
        let rows = self.recording.series_of(&SLOT_SECONDS)?;
        let by_tick = rows.iter().filter_map(|row| {
            let slot_time = Duration::try_from_secs_f64(row.value?).ok()?;
            Some((*self.tick_indices.get(&row.tick)?, slot_time))
        });
        Ok(by_tick.collect())
    }

    fn is_suspended(&self) -> Result<Vec<bool>, Error> {
        let mut changes = self.recording.series_of(&STATE)?;
        changes.retain(|row| row.labels.contains("stop"));
        changes.extend(self.recording.series_of(&FROZEN)?);
        changes.sort_by_key(|row| row.tick);
        let (mut changes, mut active) = (changes.into_iter().peekable(), BTreeMap::new());
        let is_suspended = self.ticks.iter().map(|tick| {
            let process = (tick.session, tick.process);
            while let Some(change) = changes.next_if(|change| change.tick <= tick.id) {
                let is_active = change.value == Some(1.0);
                active.insert((change.metric, change.labels), (is_active, process));
            }
            active.values().any(|active| *active == (true, process))
        });
        Ok(is_suspended.collect())
    }

    /// By signal and tick. `None` for ticks without a row, and for other signals.
    fn signals(&self, wanted_signals: &[Signal]) -> Result<Vec<Vec<Option<f64>>>, Error> {
        let mut signals = vec![vec![None; self.ticks.len()]; Signal::ALL.len()];
        for table in PerTickTable::ALL {
            let mut signal_indices = Vec::new();
            let mut names = Vec::new();
            for signal in wanted_signals {
                let (metric, labels) = signal.metric();
                if let Some((signal_table, column)) = column_of(metric, labels)
                    && signal_table == table
                {
                    signal_indices.push(*signal as usize);
                    names.push(column.name);
                }
            }
            if names.is_empty() {
                continue;
            }
            let columns = self.recording.columns(table, &names)?;
            let tick_indices = columns
                .ticks
                .iter()
                .map(|id| self.tick_indices.get(id))
                .collect_vec();
            for (signal_index, values) in signal_indices.into_iter().zip(columns.values) {
                for (tick_index, value) in tick_indices.iter().zip(values) {
                    if let (Some(tick_index), Some(value)) = (tick_index, value) {
                        signals[signal_index][**tick_index] = Some(value);
                    }
                }
            }
        }
        Ok(signals)
    }

    fn thread_pools(&self) -> Result<Vec<ThreadPool>, Error> {
        let mut pools: BTreeMap<Arc<str>, Vec<ThreadPoolRow>> = BTreeMap::new();
        for row in self.recording.pools()? {
            let Some(&tick_index) = self.tick_indices.get(&row.tick) else {
                continue;
            };
            let cpu = row.cpu_user.zip(row.cpu_system);
            pools.entry(row.pool).or_default().push(ThreadPoolRow {
                tick_index,
                threads: row.threads.map(|count| count as f64),
                major_faults: row.major_faults.map(|count| count as f64),
                minor_faults: row.minor_faults.map(|count| count as f64),
                cpu_seconds: cpu.map(|(user, system)| user + system),
            });
        }
        let pools = pools.into_iter().map(|(name, rows)| ThreadPool {
            name: name.to_string(),
            rows,
        });
        Ok(pools.collect())
    }
}

/// Whether the process is a command that started the validator. The daemon follows the command
/// until the validator is found. `next` is the next process of its session.
fn is_wrapper(process: &ProcessRow, next: Option<&ProcessRow>) -> bool {
    !process.manifest["validator"].is_object()
        && next.is_some_and(|next| next.manifest["found_by"] == "descendant")
}

/// A restart of the daemon or a merge adds another row for a process. Compares with the last rows
/// of the pid that differ in start time: the clock may have been stepped and stepped back.
fn first_row_ids(processes: &[ProcessRow]) -> HashMap<i64, i64> {
    let (mut first_ids, mut rows_by_pid) = (HashMap::new(), HashMap::<_, Vec<&ProcessRow>>::new());
    for row in processes {
        let rows = rows_by_pid.entry(row.pid).or_default();
        let same = rows.iter().enumerate().position(|(index, other)| {
            match other.started.zip(row.started) {
                Some((a, b)) => a.abs_diff(b) < MAX_START_TIME_DIFFERENCE,
                None => index == 0 && other.session != row.session,
            }
        });
        let first_id = same.map_or(row.id, |index| first_ids[&rows.remove(index).id]);
        first_ids.insert(row.id, first_id);
        rows.insert(0, row);
        rows.truncate(MAX_START_TIMES);
    }
    first_ids
}

/// Steps between ticks, and steps that only events report.
fn clock_steps(time_axis: &TimeAxis, events: &[Event]) -> Vec<ClockStep> {
    let mut steps = time_axis.steps();
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    for event in events {
        let at = event.at;
        let index = steps.partition_point(|step| step.at < at);
        let mut neighbors = steps.iter().skip(index.saturating_sub(1)).take(2);
        if event.kind == "clock_step"
            && let Some(seconds) = event.detail["seconds"].as_f64()
            && !neighbors.any(|step| (step.at - at).abs() < MAX_STEP_TO_EVENT_SECONDS)
        {
            steps.insert(index, ClockStep { at, seconds });
        }
    }
    steps
}

fn phase_rules(row: &SessionRow) -> Rules {
    let (phase, default) = (&row.manifest["daemon"]["phase"], Rules::default());
    let slots = |key, default| phase[key].as_u64().unwrap_or(default);
    let seconds = |key, default| {
        let seconds = phase[key].as_f64().map(Duration::try_from_secs_f64);
        seconds.and_then(Result::ok).unwrap_or(default)
    };
    Rules {
        at_tip_slots: slots("at_tip_slots", default.at_tip_slots),
        at_tip_for: seconds("at_tip_seconds", default.at_tip_for),
        behind_slots: slots("behind_slots", default.behind_slots),
        behind_for: seconds("behind_seconds", default.behind_for),
        tick_interval: row.interval,
    }
}

fn label(row: &SeriesRow, name: &str) -> String {
    let labels: Value = serde_json::from_str(&row.labels).unwrap_or_default();
    labels[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Source, Stamp, Tick as RecordedTick};
    use faultline_recording::{NewProcess, NewRecording, NewSession, Writer};

    #[test]
    fn series_of_an_earlier_process_do_not_last_into_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let stamp = |second| Stamp {
            uptime: Duration::from_secs(second),
            unix: Duration::from_secs(1_790_000_000 + second),
        };
        let session = NewSession {
            started: stamp(0),
            interval: Duration::from_secs(1),
            version: "0.1.0".to_owned(),
            manifest: Value::Null,
        };
        let labels = Vec::new();
        let mut writer = Writer::create(&path, &NewRecording { labels, session }).unwrap();
        for second in 0..4 {
            if second % 2 == 0 {
                let process = NewProcess {
                    pid: second as u32 + 1,
                    started_unix: None,
                    seen: stamp(second),
                    manifest: Value::Null,
                };
                writer.begin_process(&process).unwrap();
            }
            let of_first = [
                Reading::flag(&BINDING, ["0".into()], true),
                Reading::flag(&FROZEN, [], true),
            ];
            let readings = match second {
                0 | 1 => of_first.to_vec(),
                _ => vec![Reading::flag(&BINDING, ["machine".into()], true)],
            };
            let batch = Batch {
                readings,
                up: true,
                ..Batch::empty(Source::Conclusions, stamp(second))
            };
            let tick = RecordedTick {
                number: second + 1,
                at: stamp(second),
                batches: vec![Arc::new(batch)],
            };
            writer.tick(&tick).unwrap();
        }
        writer.commit().unwrap();
        let run = load(&path).unwrap();
        let levels = run.binding_levels.iter();
        let shares = levels.map(|level| (level.level.as_str(), level.share));
        assert_eq!(shares.collect_vec(), [("0", 0.5), ("machine", 0.5)]);
        assert_eq!(run.is_suspended, [true, true, false, false]);
    }

    fn process_row(id: i64, session: i64, pid: u32, started: Option<Duration>) -> ProcessRow {
        ProcessRow {
            id,
            session,
            pid,
            started,
            seen: Duration::ZERO,
            manifest: Value::Null,
        }
    }

    #[test]
    fn a_process_without_start_time_is_listed_once_over_sessions() {
        let rows = [1, 2, 3].map(|id| process_row(id, id, 7, None));
        let rows = first_row_ids(&rows);
        assert_eq!(rows, HashMap::from([(1, 1), (2, 1), (3, 1)]));
    }

    #[test]
    fn a_later_process_with_the_same_pid_is_another_one() {
        let rows = [(7, 10), (8, 10), (7, 10), (7, 90), (7, 91), (8, 10)];
        let rows = (1..)
            .zip(rows)
            .map(|(id, (pid, second))| process_row(id, id, pid, Some(Duration::from_secs(second))));
        let ids = first_row_ids(&rows.collect_vec());
        let expected = [(1, 1), (2, 2), (3, 1), (4, 4), (5, 4), (6, 2)];
        assert_eq!(ids, HashMap::from(expected));
    }

    #[test]
    fn a_process_is_found_again_after_the_clock_was_stepped_and_stepped_back() {
        let rows = [10, 4_000, 10, 9_000, 4_001].map(Duration::from_secs);
        let rows = (1..)
            .zip(rows)
            .map(|(id, started)| process_row(id, id, 7, Some(started)));
        let ids = first_row_ids(&rows.collect_vec());
        let expected = [(1, 1), (2, 2), (3, 1), (4, 4), (5, 2)];
        assert_eq!(ids, HashMap::from(expected));
    }

    #[test]
    fn without_start_times_only_the_last_row_of_a_pid_is_compared() {
        let rows = [(1, 1), (2, 1), (3, 2), (4, 2)];
        let rows = rows.map(|(id, session)| process_row(id, session, 7, None));
        let expected = [(1, 1), (2, 2), (3, 2), (4, 4)];
        assert_eq!(first_row_ids(&rows), HashMap::from(expected));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test measures the time")]
    fn the_time_for_many_process_rows_grows_with_their_number() {
        for pids in [1, 100_000] {
            let rows = (0..100_000).map(|id| {
                process_row(
                    id,
                    1,
                    id as u32 % pids,
                    Some(Duration::from_secs(60 * id as u64)),
                )
            });
            let rows = rows.collect_vec();
            let began = std::time::Instant::now();
            assert!(first_row_ids(&rows).iter().all(|(id, first)| id == first));
            let took = began.elapsed();
            assert!(took < Duration::from_secs(5), "{pids} pids: {took:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test measures the time")]
    fn each_step_of_the_clock_is_listed_once_in_linear_time() {
        let time_axis = TimeAxis::new(&[], &[]);
        let event = |at: u32| Event {
            at: f64::from(at),
            kind: "clock_step".to_owned(),
            detail: serde_json::json!({ "seconds": 5.0 }),
        };
        let far = MAX_STEP_TO_EVENT_SECONDS as u32 + 1;
        let mut events = (0..100_000).map(|i| event(far * i)).collect_vec();
        events.extend([event(far * 500), event(far * 500 + 1)]);
        let began = std::time::Instant::now();
        let steps = clock_steps(&time_axis, &events);
        let took = began.elapsed();
        assert_eq!(steps.len(), 100_000);
        assert!(steps.is_sorted_by(|a, b| a.at < b.at));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
