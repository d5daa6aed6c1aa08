//! A recording as the analysis sees it: one time axis, every signal aligned with the ticks, and what the manifest says.

mod clock;
mod from_experiment;
mod levels;
mod load;
mod manifest;
mod signal;

pub use from_experiment::{FromExperiment, Replayed, ReplayedSlot};
pub use levels::BindingLevel;
pub use load::load;
pub(crate) use load::load_evidence;
pub use manifest::{Drive, Interface, Mount, SystemFacts};
pub use signal::Signal;

use faultline_cache::prediction::{self, Prediction};
use faultline_phase::Rules;
use faultline_recording::{
    CacheTimesPoint, CostTrackerPoint, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One run. All times are seconds since [`Run::origin_unix_ns`], the run's first tick, unless they say otherwise.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The recording's file name, without its folder.
    pub file: String,
    /// As given when it was recorded.
    pub labels: Vec<(String, String)>,
    /// Whether the recording was ended in order; otherwise it is still being written or was cut off.
    pub finished: bool,
    /// The file that this recording was salvaged from; then rows are missing, those after its last tick above all. `None` if it
    /// is as it was written.
    pub salvaged: Option<String>,
    /// The first tick; the first session's start if there is no tick. Unix nanoseconds.
    pub origin_unix_ns: i64,
    /// One for each time the daemon wrote into the recording.
    pub sessions: Vec<Session>,
    /// The processes that were followed, in order; each once, however many sessions followed it.
    pub processes: Vec<Process>,
    /// What was wrong with the process when it was last followed.
    pub target_problems: Vec<String>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// When the wall clock was set, in order.
    pub clock_steps: Vec<ClockStep>,
    /// In order; times never decrease.
    pub ticks: Vec<Tick>,
    /// Whether the process was stopped by a signal or its cgroup frozen, one a tick.
    pub stopped: Vec<bool>,
    /// Which level had the least memory headroom; empty for recordings by the old rule.
    pub binding_levels: Vec<BindingLevel>,
    /// One value a tick for each of [`Signal::ALL`].
    pub signals: Vec<Vec<Option<f64>>>,
    /// Thread pools, by name.
    pub pools: Vec<Pool>,
    /// The validator's own points.
    pub points: Points,
    /// Seconds after the first tick, and the consensus protocol from then on. Empty if nothing proved one.
    pub consensus: Vec<(f64, String)>,
    /// The slot time from a tick on, by the tick's place in [`Run::ticks`].
    pub slot_times: BTreeMap<usize, Duration>,
    pub facts: SystemFacts,
    /// From the log of a workload that replayed a fixed range of slots; empty of any other.
    pub replayed: Replayed,
    /// From the experiment that made the run; `None` of any other.
    pub from_experiment: Option<FromExperiment>,
    /// The program cache at other sizes, or why that cannot be said; `None` without a trace.
    pub cache_sizes: Option<Result<Prediction, String>>,
}

/// One writing of the daemon.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    /// As the recording numbers it.
    pub id: i64,
    pub from: f64,
    /// From tick to tick, in seconds.
    pub interval: f64,
    pub version: String,
    /// By which it found the phase.
    pub rules: Rules,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// As the recording numbers it.
    pub id: i64,
    /// Its number on the machine.
    pub pid: i64,
    /// When it was first followed.
    pub seen: f64,
    /// When it started, by the kernel; `None` if that is not known.
    pub started: Option<f64>,
    /// The validator's version; `None` if nobody told.
    pub version: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    pub at: f64,
    /// As the recording names it.
    pub kind: String,
    /// What the recording says of it; JSON or empty.
    pub detail: String,
}

/// The wall clock was set. The axis does not move, and points are told by the clock as it was before its first step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClockStep {
    /// When it was first seen.
    pub at: f64,
    /// By how much, in seconds; positive if forward.
    pub seconds: f64,
}

/// One tick.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tick {
    /// When; by the monotonic clock within a session, by the wall clock between sessions.
    pub at: f64,
    /// [`Session::id`].
    pub session: i64,
    /// [`Process::id`], if one was followed.
    pub process: Option<i64>,
    /// The validator's phase, if it was known.
    pub phase: Option<Arc<str>>,
}

/// A thread pool over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pool {
    /// The threads' name without their number.
    pub name: String,
    /// When it changed, in order.
    pub rows: Vec<PoolRow>,
}

/// A pool at one tick. Counters are totals of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoolRow {
    /// Index of the tick in [`Run::ticks`].
    pub tick: usize,
    pub threads: Option<f64>,
    /// Major page faults.
    pub major: Option<f64>,
    /// Minor page faults.
    pub minor: Option<f64>,
    /// CPU seconds, user and system.
    pub cpu: Option<f64>,
}

/// The validator's points, each in order of the validator's time.
#[derive(Debug, Clone, Default)]
pub struct Points {
    /// `loaded-programs-cache-stats`.
    pub cache: Vec<ProgramCachePoint>,
    /// `replay-slot-stats`.
    pub replay: Vec<ReplaySlotPoint>,
    /// `bank-forks_set_root`.
    pub roots: Vec<SetRootPoint>,
    /// `program-cache-times`, of an instrumented build.
    pub cache_times: Vec<CacheTimesPoint>,
    /// `cost_tracker_stats`.
    pub costs: Vec<CostTrackerPoint>,
}

impl Run {
    /// By which the daemon found the phase at a tick.
    pub fn rules(&self, tick: &Tick) -> Rules {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| session.id == tick.session);
        session.map_or_else(Rules::default, |session| session.rules)
    }

    /// Whether it did the same work as others and ended by itself, and had no tip to keep up with.
    pub fn is_replay(&self) -> bool {
        !self.replayed.slots.is_empty()
            || self
                .from_experiment
                .as_ref()
                .is_some_and(|ending| ending.replay)
    }

    /// Predicts the program cache at other sizes, if a trace is next to the recording. This may take minutes, and says so on
    /// standard error.
    pub fn predict_cache(&mut self, recording: &Path) {
        self.cache_sizes = prediction::next_to(recording)
            .map(|message| message.map_err(|error| format!("{error:#}")));
    }

    /// A signal, one value a tick; `None` where it was not read.
    pub fn signal(&self, signal: Signal) -> &[Option<f64>] {
        self.signals.get(signal as usize).map_or(&[], Vec::as_slice)
    }

    /// When something of this Unix time happened on the run's axis, by the clock as it was before its first step.
    pub fn at(&self, unix_ns: i64) -> f64 {
        unix_ns.saturating_sub(self.origin_unix_ns) as f64 / 1e9
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// When the last tick was; 0 without ticks.
    pub fn end(&self) -> f64 {
        self.ticks.last().map_or(0.0, |tick| tick.at)
    }

    /// Whether both hold some of the same time of the same process: a copy, a part, or a merge of one with others.
    pub fn overlaps(&self, other: &Run) -> bool {
        let begun = |run: &Run, session: &Session| {
            run.origin_unix_ns
                .saturating_add((session.from * 1e9).round() as i64)
        };
        let same =
            |one: &Session, two: &Session| begun(self, one).abs_diff(begun(other, two)) < 1_000_000;
        let session = self
            .sessions
            .iter()
            .any(|one| other.sessions.iter().any(|two| same(one, two)));
        let pids = |run: &Run| {
            run.processes
                .iter()
                .map(|process| process.pid)
                .collect::<Vec<_>>()
        };
        let (own, theirs) = (pids(self), pids(other));
        let process = own == theirs || own.iter().any(|pid| theirs.contains(pid));
        let begins = other.at(self.origin_unix_ns);
        session
            && process
            && begins <= other.end()
            && begins + self.end() >= 0.0
            && self.shares_points(other)
    }

    /// Whether slots that both replayed at the same moment took the same time, to the microsecond, most of the time; true if
    /// there are none, as then nothing speaks against it.
    fn shares_points(&self, other: &Run) -> bool {
        let theirs = &other.points.replay;
        let (mut same, mut all) = (0usize, 0usize);
        for own in &self.points.replay {
            let from = theirs.partition_point(|point| point.time_unix_ns < own.time_unix_ns);
            let there = theirs[from..]
                .iter()
                .take_while(|point| point.time_unix_ns == own.time_unix_ns);
            let mut there = there.filter(|point| point.slot == own.slot).peekable();
            if there.peek().is_some() {
                all += 1;
                same += usize::from(there.any(|point| point == own));
            }
        }
        let both = !self.points.replay.is_empty() && !theirs.is_empty();
        if all == 0 { !both } else { 2 * same > all }
    }

    /// From tick to tick, in seconds, as the daemon was told; of the first session, 1 if there is none.
    pub fn interval(&self) -> f64 {
        self.sessions
            .first()
            .map(|session| session.interval)
            .filter(|&interval| interval > 0.0)
            .unwrap_or(1.0)
    }
}
