//! A recording prepared for analysis: one time axis, signals aligned with ticks.

mod event;
mod load;
mod manifest;
mod signal;
mod time_axis;

pub use event::Event;
pub(crate) use event::value_text;
pub use load::load;
pub(crate) use load::load_run_for_phases;
pub use manifest::SystemFacts;
pub(crate) use manifest::json_text;
pub use signal::Signal;
pub(crate) use time_axis::nanoseconds;

use faultline_cache_prediction::prediction::{self, Prediction};
use faultline_phase::Rules;
use faultline_recording::{
    CacheTimesPoint, CostTrackerPoint, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
};
use itertools::Itertools;
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// The recording of one run. Times are seconds since [`Run::origin_unix_ns`], unless a name says
/// otherwise.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub file: String,
    pub labels: Vec<(String, String)>,
    /// `false` while the recording is written, and if it was cut off.
    pub finished: bool,
    /// The damaged recording from which this one was salvaged. Rows of any time may be missing.
    pub salvaged: Option<String>,
    /// The first tick, or the start of the first session.
    pub origin_unix_ns: i64,
    pub sessions: Vec<Session>,
    /// Each process once, even across sessions.
    pub processes: Vec<Process>,
    pub target_problems: Vec<String>,
    pub events: Vec<Event>,
    pub clock_steps: Vec<ClockStep>,
    /// Times never decrease.
    pub ticks: Vec<Tick>,
    /// Per tick: suspended by a stop signal or a frozen cgroup.
    pub is_suspended: Vec<bool>,
    pub binding_levels: Vec<BindingLevel>,
    /// For each of [`Signal::ALL`], one value per tick.
    pub signals: Vec<Vec<Option<f64>>>,
    pub thread_pools: Vec<ThreadPool>,
    pub points: Points,
    /// (since when, consensus protocol), in order. Empty if none was reported.
    pub consensus: Vec<(f64, String)>,
    /// Measured by the daemon. Each is valid from its index in [`Run::ticks`] on.
    pub recorded_slot_durations: BTreeMap<usize, Duration>,
    pub facts: SystemFacts,
    pub offline_replay: OfflineReplay,
    pub experiment_outcome: Option<ExperimentOutcome>,
    /// For other cache sizes. `None` if there is no trace next to the recording.
    pub program_cache_prediction: Option<Result<Prediction, String>>,
}

#[derive(Debug, Clone, Default)]
pub struct Session {
    pub id: i64,
    /// By the wall clock, also after a step of it.
    pub from: f64,
    pub interval_seconds: f64,
    pub phase_rules: Rules,
}

#[derive(Debug, Clone, Default)]
pub struct Process {
    pub pid: i64,
    pub first_seen_at: f64,
    /// `None` if it was not recorded. May be before the first tick.
    pub started_at: Option<f64>,
}

/// A step of the wall clock. The time axis has no steps.
#[derive(Debug, Clone, Copy)]
pub struct ClockStep {
    pub at: f64,
    /// Positive if forward.
    pub seconds: f64,
}

#[derive(Debug, Clone, Default)]
pub struct Tick {
    /// Differences within a session are by the monotonic clock, between sessions by the wall clock.
    pub at: f64,
    /// [`Session::id`].
    pub session: i64,
    /// Row id of the process in the recording's table `process`: the first, if it has several.
    pub process: Option<i64>,
    pub phase: Option<Arc<str>>,
}

/// A level of memory limits that had the least headroom at some tick.
#[derive(Debug, Clone, Default)]
pub struct BindingLevel {
    /// The label `level`, as in `agave_memory_headroom_bytes`.
    pub level: String,
    /// The path of the cgroup, or the list of NUMA nodes. Empty for the machine.
    pub path: String,
    /// Among the ticks that have a binding level.
    pub share: f64,
}

#[derive(Debug, Clone, Default)]
pub struct ThreadPool {
    pub name: String,
    pub rows: Vec<ThreadPoolRow>,
}

/// A thread pool at one tick. Counters are totals since the process started.
#[derive(Debug, Clone, Copy)]
pub struct ThreadPoolRow {
    /// Index in [`Run::ticks`].
    pub tick_index: usize,
    pub threads: Option<f64>,
    pub major_faults: Option<f64>,
    pub minor_faults: Option<f64>,
    pub cpu_seconds: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub struct Points {
    pub cache: Vec<ProgramCachePoint>,
    pub replay: Vec<ReplaySlotPoint>,
    pub roots: Vec<SetRootPoint>,
    /// Datapoints `program-cache-times`, which only an instrumented build sends.
    pub cache_times: Vec<CacheTimesPoint>,
    pub costs: Vec<CostTrackerPoint>,
}

impl Points {
    /// Whether there are points that every version sends: not `cache_times`.
    pub fn has_standard_points(&self) -> bool {
        !self.cache.is_empty()
            || !self.replay.is_empty()
            || !self.costs.is_empty()
            || !self.roots.is_empty()
    }
}

/// From the journal of the run's experiment.
#[derive(Debug, Clone, Default)]
pub struct ExperimentOutcome {
    /// Whether the run replayed a fixed range of slots instead of following a cluster.
    pub is_offline_replay: bool,
    /// Whether the run succeeded, by the journal. If `None`, the report decides this by the
    /// recording.
    pub success: Option<bool>,
    pub success_reason: String,
    /// `killed by the kernel's OOM killer`.
    pub end_text: String,
    /// `exit code 1, oom_kill 0`.
    pub end_evidence: String,
    /// The wall clock at the start of the run, plus the time until a stop was requested or the end
    /// was seen.
    pub stopped_unix_ns: Option<i64>,
    pub was_oom_killed: bool,
    /// In bytes: `memory.max`, else `memory.high`.
    pub limit: Option<u64>,
    /// Time in which some task waited for I/O: PSI of the cgroup.
    pub io_stall_seconds: Option<f64>,
}

/// From the log. Empty if the run followed a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfflineReplay {
    /// In order of freezing; each slot once.
    pub slots: Vec<OfflineReplaySlot>,
    /// Over all slots, summed over threads.
    pub program_cache_us: Option<u64>,
    /// Slots that were not read, because there are too many.
    pub left_out: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfflineReplaySlot {
    pub slot: u64,
    /// From the previous bank's freezing, or the start of the replay, to this one's. `None` if the
    /// log lacks one of the times, or its clock stepped back.
    pub elapsed_ms: Option<f64>,
    /// Fingerprint of the bank hash: equal for equal replays.
    pub bank_fingerprint: Option<u64>,
    pub signatures: Option<u64>,
    /// Programs that were not usable in the cache at the first lookup for a transaction or batch.
    pub misses: Option<u64>,
    pub reloads: Option<u64>,
    pub evictions: Option<u64>,
    pub insertions: Option<u64>,
}

/// A datapoint of the validator. `TimeAxis` has converted its time to a clock without steps.
pub(crate) trait Point {
    fn steady_unix_ns(&self) -> i64;
}

macro_rules! point {
    ($($kind:ty),*) => {
        $(impl Point for $kind {
            fn steady_unix_ns(&self) -> i64 {
                self.time_unix_ns
            }
        })*
    };
}

point!(
    ProgramCachePoint,
    ReplaySlotPoint,
    SetRootPoint,
    CacheTimesPoint
);

impl Run {
    pub fn phase_rules(&self, tick: &Tick) -> Rules {
        self.session(tick.session)
            .map_or_else(Rules::default, |session| session.phase_rules)
    }

    pub fn session(&self, id: i64) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    pub fn is_offline_replay(&self) -> bool {
        let experiment = self.experiment_outcome.as_ref();
        !self.offline_replay.slots.is_empty()
            || experiment.is_some_and(|experiment| experiment.is_offline_replay)
    }

    /// Predicts only if there is a trace next to the recording. May take minutes.
    pub fn predict_program_cache(&mut self, recording_path: &Path) {
        self.program_cache_prediction = prediction::predict_from_adjacent_trace(recording_path)
            .map(|prediction| prediction.map_err(|error| format!("{error:#}")));
    }

    /// One value per tick; `None` where it was not read.
    pub fn signal(&self, signal: Signal) -> &[Option<f64>] {
        self.signals.get(signal as usize).map_or(&[], Vec::as_slice)
    }

    /// Seconds since the origin. `steady_unix_ns` is from `TimeAxis::without_clock_steps`.
    pub fn at(&self, steady_unix_ns: i64) -> f64 {
        steady_unix_ns.saturating_sub(self.origin_unix_ns) as f64 / 1e9
    }

    pub(crate) fn steady_unix_ns(&self, at: f64) -> i64 {
        self.origin_unix_ns.saturating_add((at * 1e9) as i64)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    pub fn host(&self) -> Option<&str> {
        self.label("host")
            .filter(|host| !host.is_empty())
            .or_else(|| {
                let mut facts = self.facts.host.iter();
                Some(&facts.find(|(fact, _)| *fact == "Host")?.1)
            })
    }

    pub fn tick_pairs(&self) -> impl Iterator<Item = (&Tick, &Tick)> {
        self.ticks.iter().tuple_windows()
    }

    pub fn end_seconds(&self) -> f64 {
        self.ticks.last().map_or(0.0, |tick| tick.at)
    }

    /// Whether `other` is a copy, a part or a merge of this run.
    pub fn shares_recording_with(&self, other: &Self) -> bool {
        let session_start = |recording: &Self, session: &Session| {
            recording
                .origin_unix_ns
                .saturating_add((session.from * 1e9).round() as i64)
        };
        let is_same_session = |(own, theirs)| {
            session_start(self, own).abs_diff(session_start(other, theirs)) < 1_000_000
        };
        let mut sessions = self.sessions.iter().cartesian_product(&other.sessions);
        let pids = |recording: &Self| {
            let processes = recording.processes.iter();
            processes.map(|process| process.pid).collect_vec()
        };
        let (own, theirs) = (pids(self), pids(other));
        // On the time axis of `other`.
        let own_begin = other.at(self.origin_unix_ns);
        sessions.any(is_same_session)
            && (own == theirs || own.iter().any(|pid| theirs.contains(pid)))
            && self.host() == other.host()
            && own_begin <= other.end_seconds()
            && own_begin + self.end_seconds() >= 0.0
            && self.shares_replay_points(other)
    }

    /// Whether more than half of the common points (same time and slot) are equal. If no points are
    /// common: whether one of the recordings has no replay points.
    fn shares_replay_points(&self, other: &Self) -> bool {
        let theirs = &other.points.replay;
        let (mut equal, mut common) = (0usize, 0usize);
        for own in &self.points.replay {
            let from = theirs.partition_point(|point| point.time_unix_ns < own.time_unix_ns);
            let mut candidates = theirs[from..]
                .iter()
                .take_while(|point| point.time_unix_ns == own.time_unix_ns)
                .filter(|point| point.slot == own.slot)
                .peekable();
            if candidates.peek().is_some() {
                common += 1;
                equal += usize::from(candidates.any(|point| point == own));
            }
        }
        match common {
            0 => self.points.replay.is_empty() || theirs.is_empty(),
            _ => 2 * equal > common,
        }
    }
}
