//! What a tick asks of a source: it looks, and says what it read and what it could not. The tick adds how long that took.

use crate::discovery::Target;
use faultline_catalog::{Problem, Reading, ReadingList, Source, Stamp, Status};
use faultline_kernel::parse::pid_stat::State;
use faultline_kernel::{ErrorKind, HostConstants, HostRoot, ProcessId, ReadError};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::Duration;

/// What a source is given at a tick.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// When the tick began.
    pub now: Stamp,
    /// The followed process; `None` while there is none.
    pub target: Option<&'a Target>,
    /// Where the kernel's files are.
    pub root: &'a HostRoot,
    pub host: &'a HostConstants,
    /// When the machine started, by the wall clock as it is set now, in seconds since 1970.
    pub boot_time: &'a Result<u64, ReadError>,
    /// What earlier sources of this tick found of the process.
    pub condition: &'a Condition,
}

impl Look<'_> {
    /// When a process started, in seconds since 1970. `None` if the boot time is not known.
    pub fn start_time(&self, process: ProcessId) -> Option<f64> {
        let boot = *self.boot_time.as_ref().ok()? as f64;
        Some(boot + process.start_ticks as f64 / self.host.clock_ticks_per_second as f64)
    }
}

/// How the process stands at this tick: made anew for each tick, filled in by the sources that read it, for those that
/// are asked after them. A value that was not read at this tick is `None`.
#[derive(Debug, Default)]
pub struct Condition {
    /// What the main thread is doing, from the process source.
    pub state: Cell<Option<State>>,
    /// Major page faults of all its threads, ended ones included, from the process source.
    pub major_faults: Cell<Option<u64>>,
    /// CPU time of all its threads, ended ones included, from the process source: whole clock ticks.
    pub cpu: Cell<Option<CpuTime>>,
    /// Where its memory is accounted, as the kernel writes it, from the cgroup source. Of an exiting process this is
    /// where it was last.
    pub cgroup: OnceCell<Arc<str>>,
    /// Whether a freezer holds it, from the cgroup source.
    pub frozen: Cell<Option<bool>>,
}

/// CPU time in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// The part of it in the kernel; `None` before there is any.
    pub fn system_share(&self) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| self.system.as_secs_f64() / total)
    }

    /// Grows to `total`. The growth is split so that the part in the kernel comes near `system_share`; neither mode falls.
    pub fn grow_to(&mut self, total: Duration, system_share: f64) {
        let gained = total.saturating_sub(self.total());
        let wanted = total.mul_f64(system_share.clamp(0.0, 1.0));
        let system = wanted.saturating_sub(self.system).min(gained);
        self.system += system;
        self.user += gained - system;
    }
}

/// What a source found.
#[derive(Debug, Default)]
pub struct Finding {
    pub readings: Vec<Reading>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Whether the source did its main job.
    pub up: bool,
    /// Whether this was found before: a listening source has had no news since the last tick.
    pub repeated: bool,
    /// When what is told was heard, of a source that asks at its own times; `None` for one that looks within the tick.
    pub heard: Option<Stamp>,
}

impl Finding {
    /// An empty finding of a source that usually reads about so many values.
    pub(crate) fn with_room(readings: usize) -> Self {
        Finding {
            readings: Vec::with_capacity(readings),
            ..Self::default()
        }
    }

    /// Unwraps what was read; what was not becomes a problem.
    pub fn take<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        result.map_err(|error| self.problem(&error)).ok()
    }

    pub fn problem(&mut self, error: &ReadError) {
        let status = match error.kind() {
            ErrorKind::Absent => Status::Absent,
            ErrorKind::Forbidden => Status::Forbidden,
            ErrorKind::Gone => Status::Gone,
            ErrorKind::Broken => Status::Broken,
        };
        self.problems.push(Problem::new(status, error));
    }

    /// Adds a reading of a whole number if there is one.
    pub fn whole<const N: usize>(
        &mut self,
        metric: &'static faultline_catalog::Metric,
        labels: [&'static str; N],
        value: Option<u64>,
    ) {
        self.readings.whole(metric, labels.map(Into::into), value);
    }

    /// Adds a reading of seconds if there is one.
    pub fn seconds<const N: usize>(
        &mut self,
        metric: &'static faultline_catalog::Metric,
        labels: [&'static str; N],
        value: Option<Duration>,
    ) {
        self.readings.real(
            metric,
            labels.map(Into::into),
            value.map(|value| value.as_secs_f64()),
        );
    }
}

/// How often limits are read again: only an operator changes them.
pub const LIMITS_EVERY: Duration = Duration::from_secs(15);

/// Lets through one sample in each interval.
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    last: Option<Stamp>,
}

impl Throttle {
    /// The first sample is let through.
    pub fn every(interval: Duration) -> Self {
        let last = None;
        Throttle { interval, last }
    }

    /// Whether the interval is over; if so, the next one begins.
    pub fn is_due(&mut self, now: Stamp) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.since(last) >= self.interval);
        if due {
            self.last = Some(now);
        }
        due
    }
}

/// A source, as the tick sees it.
pub trait Poll: Send {
    fn source(&self) -> Source;

    /// From look to look; `None`: every tick.
    fn every(&self) -> Option<Duration> {
        None
    }

    /// Looks. Whatever happens is in the finding: a look never fails.
    fn look(&mut self, look: &Look<'_>) -> Finding;
}
