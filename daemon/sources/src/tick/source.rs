//! The interface of a source: it returns readings and problems. The tick adds the duration.

use crate::discovery::{Target, TargetHandle, problem};
use faultline_core::{clock::Clock, config::Config};
use faultline_kernel::{HostConstants, HostRoot, ProcessId, ReadError, parse::pid_stat::State};
use faultline_metrics::{Metric, Problem, Reading, ReadingList, Stamp};
use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
    time::Duration,
};

#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    pub config: &'a Config,
    pub clock: Clock,
    pub root: &'a HostRoot,
    pub following: &'a TargetHandle,
}

#[derive(Clone, Copy)]
pub struct SampleContext<'a> {
    pub now: Stamp,
    pub target: Option<&'a Target>,
    pub root: &'a HostRoot,
    pub host: &'a HostConstants,
    /// Boot time by the current wall clock, in Unix seconds.
    pub boot_time: &'a Result<u64, ReadError>,
    pub process_state: &'a ProcessState,
}

impl SampleContext<'_> {
    pub fn process(&self) -> Option<ProcessId> {
        self.target.map(|target| target.process)
    }

    /// A process's start in Unix seconds. `None` without a boot time.
    pub fn start_time(&self, process: ProcessId) -> Option<f64> {
        let boot = *self.boot_time.as_ref().ok()? as f64;
        Some(boot + process.start_ticks as f64 / self.host.clock_ticks_per_second as f64)
    }
}

/// The process's state at this tick. A source fills it for later sources. `None` means not read at
/// this tick.
#[derive(Default)]
pub struct ProcessState {
    /// Of the main thread, from the process source.
    pub state: Cell<Option<State>>,
    /// Of all its threads, ended ones included, from the process source.
    pub major_faults: Cell<Option<u64>>,
    /// Of all its threads, ended ones included, from the process source, in whole clock ticks.
    pub cpu: Cell<Option<CpuTime>>,
    /// The memory cgroup as the kernel writes it, from the cgroup source. For an exiting process,
    /// its last one.
    pub cgroup: OnceCell<Arc<str>>,
    /// The freezer's state, from the cgroup source.
    pub frozen: Cell<Option<bool>>,
}

/// CPU time in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// Kernel time divided by total time. `None` if the total is 0.
    pub fn system_share(&self) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| self.system.as_secs_f64() / total)
    }

    /// Grows to `total`. The split of the growth brings the kernel's share near `system_share`.
    /// Neither mode falls.
    pub fn grow_to(&mut self, total: Duration, system_share: f64) {
        let gained = total.saturating_sub(self.total());
        let wanted_system = total.mul_f64(system_share.clamp(0.0, 1.0));
        let system = wanted_system.saturating_sub(self.system).min(gained);
        self.system += system;
        self.user += gained - system;
    }
}

#[derive(Debug, Default)]
pub struct SourceOutput {
    pub readings: Vec<Reading>,
    pub problems: Vec<Problem>,
    /// The source did its main job.
    pub up: bool,
    /// A source with a poller has no new result since the last tick.
    pub repeated: bool,
    /// When a source with its own schedule received the data. `None` for a source that reads within
    /// the tick.
    pub received_at: Option<Stamp>,
}

impl SourceOutput {
    pub fn with_capacity(readings: usize) -> Self {
        SourceOutput {
            readings: Vec::with_capacity(readings),
            ..Self::default()
        }
    }

    /// Copies the state of a result that a poller received at `at`.
    pub fn set_poll_result(
        &mut self,
        last_reported: &mut Option<Stamp>,
        at: Stamp,
        up: bool,
        problems: &[Problem],
    ) {
        self.repeated = last_reported.replace(at) == Some(at);
        self.received_at = Some(at);
        self.up = up;
        self.problems = problems.to_vec();
    }

    /// Unwraps a value. An error becomes a problem of the output.
    pub fn value_or_problem<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        result.map_err(|error| self.add_problem(&error)).ok()
    }

    pub fn add_problem(&mut self, error: &ReadError) {
        self.problems.push(problem(error));
    }

    pub fn whole<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        value: impl Into<Option<u64>>,
    ) {
        self.readings.whole(metric, labels.map(Into::into), value);
    }

    /// An error becomes a problem of the output.
    pub fn try_whole<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        result: Result<impl Into<Option<u64>>, ReadError>,
    ) {
        let value = self.value_or_problem(result).and_then(Into::into);
        self.whole(metric, labels, value);
    }

    pub fn real<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        value: impl Into<Option<f64>>,
    ) {
        self.readings.real(metric, labels.map(Into::into), value);
    }

    pub fn flag<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        value: impl Into<Option<bool>>,
    ) {
        self.readings.flag(metric, labels.map(Into::into), value);
    }

    pub fn seconds<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        value: Option<Duration>,
    ) {
        self.real(metric, labels, value.map(|value| value.as_secs_f64()));
    }
}

/// Read interval of limits and settings, which rarely change.
pub const LIMITS_INTERVAL: Duration = Duration::from_secs(15);

pub struct Throttle {
    interval: Duration,
    last: Option<Stamp>,
}

impl Throttle {
    pub fn every(interval: Duration) -> Self {
        Throttle {
            interval,
            last: None,
        }
    }

    /// Starts the next interval if it returns true.
    pub fn is_due(&mut self, now: Stamp) -> bool {
        let is_recent = |last| now.since(last) < self.interval;
        if self.last.is_some_and(is_recent) {
            return false;
        }
        self.last = Some(now);
        true
    }
}

pub trait Sampler: Send {
    /// Poll interval; `None`: every tick.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Never fails: an error becomes a problem of the output.
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput;
}
