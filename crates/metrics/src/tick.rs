use crate::Reading;
use std::{fmt, sync::Arc, time::Duration};

/// A time on both clocks: rates use the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Monotonic clock, since the daemon's start.
    pub uptime: Duration,
    /// Wall clock, since 1970-01-01T00:00:00Z.
    pub unix: Duration,
}

impl Stamp {
    /// On the monotonic clock; zero if `earlier` is later.
    pub fn since(self, earlier: Stamp) -> Duration {
        self.uptime.saturating_sub(earlier.uptime)
    }

    pub fn unix_seconds(self) -> f64 {
        self.unix.as_secs_f64()
    }
}

crate::named_enum! {
    /// Source of a reading; its name is a label value of `faultline_source_*`.
    pub enum Source {
        Target = "target",
        Process = "process",
        Threads = "threads",
        Cgroup = "cgroup",
        Host = "host",
        /// Interrupts and softirqs by CPU.
        Interrupts = "interrupts",
        Resources = "resources",
        /// The validator's datapoints, pushed to the daemon or read from the validator's log.
        Datapoints = "datapoints",
        Log = "log",
        Rpc = "rpc",
        Votes = "votes",
        AdminRpc = "admin_rpc",
        /// Derived from the other sources: phase, distance to the tip.
        Conclusions = "conclusions",
        Recorder = "recorder",
        Daemon = "daemon",
    }
}

crate::named_enum! {
    /// Why something could not be read. It decides what an operator can do.
    pub enum ProblemKind {
        /// This kernel, cgroup version or validator does not have it, or no process matches. In
        /// most cases nothing to do.
        Absent = "absent",
        /// The daemon may not read it: grant the right, or accept the gap.
        Forbidden = "forbidden",
        /// It vanished after the daemon had found it.
        Gone = "gone",
        /// Not understood: unparsable text, an invalid answer, a timeout.
        Broken = "broken",
    }
}

/// Prefix of the problem that a search found several targets. `2 validators found:` and their list
/// follow.
pub const AMBIGUOUS_PREFIX: &str = "ambiguous: ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    pub what: String,
}

impl Problem {
    pub fn new(kind: ProblemKind, what: impl fmt::Display) -> Self {
        Problem {
            kind,
            what: what.to_string(),
        }
    }

    pub fn absent_data(what: impl fmt::Display) -> Self {
        Problem::new(ProblemKind::Absent, what)
    }

    pub fn broken(what: impl fmt::Display) -> Self {
        Problem::new(ProblemKind::Broken, what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

#[derive(Debug, PartialEq)]
pub struct Batch {
    pub source: Source,
    pub at: Stamp,
    pub duration: Duration,
    pub readings: Vec<Reading>,
    pub problems: Vec<Problem>,
    /// Whether the source worked, despite any problems.
    pub up: bool,
}

impl Batch {
    pub fn empty(source: Source, at: Stamp) -> Self {
        Batch {
            source,
            at,
            duration: Duration::ZERO,
            readings: Vec::new(),
            problems: Vec::new(),
            up: false,
        }
    }
}

/// One tick, shared by all sinks. A source that was not sampled keeps its last batch; `batch.at`
/// gives its age.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// From 1 since the daemon started; a missed tick leaves a gap.
    pub number: u64,
    pub at: Stamp,
    /// In the order of [`Source::ALL`].
    pub batches: Vec<Arc<Batch>>,
}

impl Tick {
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.batches.iter().flat_map(|batch| &batch.readings)
    }

    /// Value of the series `name{labels}`; `None` if this tick does not have it.
    pub fn value_of(&self, metric: &crate::Metric, label_values: &[&str]) -> Option<f64> {
        value_of(self.readings(), metric, label_values)
    }

    /// As [`Self::value_of`], but searches the readings of one source.
    pub fn value_from(
        &self,
        source: Source,
        metric: &crate::Metric,
        label_values: &[&str],
    ) -> Option<f64> {
        value_of(self.readings_from(source), metric, label_values)
    }

    pub fn readings_from(&self, source: Source) -> impl Iterator<Item = &Reading> {
        let batches = self
            .batches
            .iter()
            .filter(move |batch| batch.source == source);
        batches.flat_map(|batch| &batch.readings)
    }
}

fn value_of<'a>(
    mut readings: impl Iterator<Item = &'a Reading>,
    metric: &crate::Metric,
    label_values: &[&str],
) -> Option<f64> {
    let reading = readings.find(|reading| {
        std::ptr::eq(reading.metric, metric)
            && reading
                .label_values
                .iter()
                .map(crate::LabelText::as_str)
                .eq(label_values.iter().copied())
    });
    reading?.value.number()
}
