use crate::Reading;
use std::{fmt, sync::Arc, time::Duration};

/// One time on two clocks. Rates use the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Monotonic clock, since the daemon's start.
    pub uptime: Duration,
    /// Wall clock, since 1970-01-01T00:00:00Z.
    pub unix: Duration,
}

impl Stamp {
    pub fn since(self, earlier: Self) -> Duration {
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
    /// Why a source could not read something.
    pub enum ProblemKind {
        /// This kernel, cgroup version or validator does not have it, or no process matches. An
        /// operator need not act in most cases.
        Absent = "absent",
        /// The daemon has no right to read it.
        Forbidden = "forbidden",
        /// It vanished after the daemon had found it.
        Gone = "gone",
        /// Not understood: unparsable text, an invalid answer, a timeout.
        Broken = "broken",
    }
}

/// First word of the problem that a search found several targets. A text such as
/// `2 validators found: 77 agave-validator, ...` follows.
pub const AMBIGUOUS_PREFIX: &str = "ambiguous: ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    pub what: String,
}

impl Problem {
    pub fn new(kind: ProblemKind, what: impl fmt::Display) -> Self {
        Self {
            kind,
            what: what.to_string(),
        }
    }

    /// Also for a process that is not there.
    pub fn absent_data(what: impl fmt::Display) -> Self {
        Self::new(ProblemKind::Absent, what)
    }

    pub fn broken(what: impl fmt::Display) -> Self {
        Self::new(ProblemKind::Broken, what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

/// Result of one sampling of a source.
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
        Self {
            source,
            at,
            duration: Duration::ZERO,
            readings: Vec::new(),
            problems: Vec::new(),
            up: false,
        }
    }
}

/// One tick, for all sinks. If a source was not sampled, its last batch is here, with an older
/// [`Batch::at`].
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Counts from 0 at the start of the daemon, missed ticks included.
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

    /// [`Self::value_of`] from the readings of one source.
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
