//! What one tick of the daemon yields.

use crate::Reading;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A moment, on both clocks: rates use the one that never jumps, people and recordings the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Since the daemon started, on the monotonic clock.
    pub uptime: Duration,
    /// Since 1970-01-01T00:00:00Z, on the wall clock.
    pub unix: Duration,
}

impl Stamp {
    /// Time passed since `earlier` on the monotonic clock; zero if `earlier` is later.
    pub fn since(self, earlier: Stamp) -> Duration {
        self.uptime.saturating_sub(earlier.uptime)
    }

    /// Seconds since 1970, as exported.
    pub fn unix_seconds(self) -> f64 {
        self.unix.as_secs_f64()
    }
}

/// Who took a reading. The names are label values of `faultline_source_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The search for the validator's process.
    Target,
    /// The process as a whole, from /proc.
    Process,
    /// Its threads by pool, from /proc.
    Threads,
    Cgroup,
    /// The machine around it.
    Host,
    /// What the node may run out of: file systems, disks, the network, processors.
    Resources,
    /// The validator's datapoints, pushed to the daemon or read from the validator's log.
    Datapoints,
    /// The validator's log, as the way in for datapoints.
    Log,
    /// JSON-RPC.
    Rpc,
    /// Votes, leader slots and the cluster, by JSON-RPC.
    Votes,
    AdminRpc,
    /// What the daemon concludes from the others: phase, distance to the tip.
    Conclusions,
    /// What is kept of all this: the recording and the flight recorder.
    Recorder,
    Daemon,
}

impl Source {
    /// Every source, in the order in which a tick lists them.
    pub const ALL: [Source; 14] = [
        Source::Target,
        Source::Process,
        Source::Threads,
        Source::Cgroup,
        Source::Host,
        Source::Resources,
        Source::Datapoints,
        Source::Log,
        Source::Rpc,
        Source::Votes,
        Source::AdminRpc,
        Source::Conclusions,
        Source::Recorder,
        Source::Daemon,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Source::Target => "target",
            Source::Process => "process",
            Source::Threads => "threads",
            Source::Cgroup => "cgroup",
            Source::Host => "host",
            Source::Resources => "resources",
            Source::Datapoints => "datapoints",
            Source::Log => "log",
            Source::Rpc => "rpc",
            Source::Votes => "votes",
            Source::AdminRpc => "admin_rpc",
            Source::Conclusions => "conclusions",
            Source::Recorder => "recorder",
            Source::Daemon => "daemon",
        }
    }
}

/// Why something could not be read. Four different outcomes: each asks something else of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Not offered here: this kernel, this cgroup version or this validator does not have it. Nothing to do.
    Absent,
    /// There, but the daemon may not read it: grant the right, or accept the gap.
    Forbidden,
    /// Was there and has vanished, as a process does when it ends.
    Gone,
    /// There, and not understood: text that does not parse, an answer that is no answer, a timeout.
    Broken,
}

impl Status {
    pub const ALL: [Status; 4] = [
        Status::Absent,
        Status::Forbidden,
        Status::Gone,
        Status::Broken,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Status::Absent => "absent",
            Status::Forbidden => "forbidden",
            Status::Gone => "gone",
            Status::Broken => "broken",
        }
    }
}

/// Something a source could not read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which of the four outcomes.
    pub status: Status,
    /// What was not read and what was found instead, in words for the operator.
    pub what: String,
}

impl Problem {
    /// A problem with its description.
    pub fn new(status: Status, what: impl fmt::Display) -> Self {
        Problem {
            status,
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.what)
    }
}

/// What one source found the last time it looked.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub source: Source,
    pub at: Stamp,
    /// How long it took.
    pub took: Duration,
    /// What was read. A value that could not be read is not here.
    pub readings: Vec<Reading>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Whether the source did its main job, problems or not.
    pub up: bool,
}

impl Batch {
    /// An empty batch of a source that has not looked yet.
    pub fn empty(source: Source, at: Stamp) -> Self {
        Batch {
            source,
            at,
            took: Duration::ZERO,
            readings: Vec::new(),
            problems: Vec::new(),
            up: false,
        }
    }
}

/// One tick: all sinks are handed the same one. A source that was not asked this time appears with its last batch, so
/// that `batch.at` tells its age.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Counted from 1 since the daemon started; a missed tick leaves a gap in the numbers.
    pub number: u64,
    /// When it was taken.
    pub at: Stamp,
    /// In the order of [`Source::ALL`].
    pub batches: Vec<Arc<Batch>>,
}

impl Tick {
    /// All readings, source by source.
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.batches.iter().flat_map(|batch| &batch.readings)
    }

    /// The number of the series `name{labels}`; `None` if this tick does not have it.
    pub fn number_of(&self, metric: &crate::Metric, labels: &[&str]) -> Option<f64> {
        self.readings()
            .find(|r| {
                std::ptr::eq(r.metric, metric)
                    && r.labels
                        .iter()
                        .map(crate::Text::as_str)
                        .eq(labels.iter().copied())
            })
            .and_then(|r| r.value.number())
    }
}
