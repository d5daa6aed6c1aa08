//! The tick: samples every due source on one dedicated thread, and passes the result to the sinks.

mod statistics;

use statistics::Statistics;

use crate::discovery::{Target, TargetHandle, problem};
use faultline_core::{
    clock::{Clock, DueTick, Schedule},
    config::Config,
    publish::Sink,
    supervisor::Stop,
};
use faultline_kernel::{
    HostConstants, HostRoot, ProcessId, ReadError, Result, parse::pid_stat::State,
};
use faultline_metrics::{AddReadings, Batch, Metric, Problem, Reading, Source, Stamp, Tick};
use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
    time::Duration,
};

/// The first tick waits at most this long for the search, which a hanging file system may block for
/// ever.
const MAX_FIRST_TICK_DELAY: Duration = Duration::from_secs(1);

struct SourceEntry {
    source: Source,
    sampler: Box<dyn Sampler>,
    due_at: Duration,
    newest_batch: Arc<Batch>,
}

pub struct Ticker {
    clock: Clock,
    schedule: Schedule,
    target_handle: TargetHandle,
    root: HostRoot,
    host: HostConstants,
    entries: Vec<SourceEntry>,
    statistics: Statistics,
    sinks: Vec<Box<dyn Sink>>,
    followed_process: Option<ProcessId>,
    /// Cached: `/proc/stat` is slow to read on a machine with many processors.
    boot_time: Option<Result<u64>>,
}

impl Ticker {
    pub fn new(
        context: &BuildContext<'_>,
        host: HostConstants,
        samplers: Vec<(Source, Box<dyn Sampler>)>,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Self {
        let entry = |(source, sampler)| SourceEntry {
            newest_batch: Arc::new(Batch::empty(source, Stamp::default())),
            source,
            sampler,
            due_at: Duration::ZERO,
        };
        Self {
            clock: context.clock,
            schedule: Schedule::every(context.config.sampling.interval),
            target_handle: context.target_handle.clone(),
            root: context.root.clone(),
            host,
            entries: samplers.into_iter().map(entry).collect(),
            statistics: Statistics::default(),
            sinks,
            followed_process: None,
            boot_time: None,
        }
    }

    /// Starts after the first search for the process.
    pub fn run(mut self, stop: Stop) {
        let until_next = |ticker: &Self| {
            let now = ticker.clock.now().uptime;
            ticker.schedule.next_due().saturating_sub(now)
        };
        self.target_handle
            .wait_for_first_search(until_next(&self).min(MAX_FIRST_TICK_DELAY));
        if !until_next(&self).is_zero() && !stop.is_set() {
            self.tick(DueTick::START);
        }
        loop {
            if stop.sleep(until_next(&self)) {
                return;
            }
            if let Some(due) = self.schedule.advance_to(self.clock.now().uptime) {
                self.tick(due);
            }
        }
    }

    pub fn tick(&mut self, due: DueTick) -> Arc<Tick> {
        self.tick_at(
            self.clock.now(),
            due,
            self.target_handle.current().as_deref(),
        )
    }

    /// Reads clocks only for the durations of the sources and the time of suspension.
    pub fn tick_at(&mut self, at: Stamp, due: DueTick, target: Option<&Target>) -> Arc<Tick> {
        self.statistics.count_tick(due);
        let clock_was_set = self.statistics.detect_clock_step(at, Clock::suspended());
        let boot_time = self
            .boot_time
            .take()
            .filter(|cached| cached.is_ok() && !clock_was_set)
            .unwrap_or_else(|| self.root.boot_time_seconds());
        let followed = target.map(|target| target.process);
        // After a change of process, this tick samples every source, so that no series outlives its
        // process.
        let process_changed = std::mem::replace(&mut self.followed_process, followed) != followed;
        let context = SampleContext {
            now: at,
            target,
            root: &self.root,
            host: &self.host,
            boot_time: &boot_time,
            process_state: &ProcessState::default(),
        };
        let mut batches = Vec::with_capacity(self.entries.len() + 1);
        for entry in &mut self.entries {
            // Opening hundreds of thread files would delay the first response of /metrics.
            let is_deferred = due == DueTick::START && entry.source == Source::Threads;
            if !is_deferred && (process_changed || entry.due_at <= at.uptime) {
                entry.sample(&context, &self.clock, &mut self.statistics);
            }
            batches.push(Arc::clone(&entry.newest_batch));
        }
        self.boot_time = Some(boot_time);
        batches.push(Arc::new(self.statistics.batch(at)));
        let tick = Arc::new(Tick {
            number: due.number,
            at,
            batches,
        });
        for sink in &mut self.sinks {
            sink.receive(&tick);
        }
        tick
    }
}

impl SourceEntry {
    fn sample(&mut self, context: &SampleContext<'_>, clock: &Clock, statistics: &mut Statistics) {
        let (at, started) = (context.now, clock.now());
        let mut output = self.sampler.sample(context);
        // The last two ticks and the HTTP page share these readings, so spare capacity would stay
        // allocated.
        output.readings.shrink_to_fit();
        let duration = clock.now().since(started);
        if let Some(interval) = self.sampler.interval() {
            // An absolute schedule: a late sample does not shift the next one, and missed samples
            // are skipped.
            let intervals = at.uptime.as_nanos() / interval.as_nanos().max(1) + 1;
            self.due_at = interval * u32::try_from(intervals).unwrap_or(u32::MAX);
        }
        self.newest_batch = Arc::new(Batch {
            source: self.source,
            at,
            duration,
            readings: output.readings,
            problems: output.problems,
            up: output.up,
        });
        statistics.record(
            &self.newest_batch,
            output.repeats_problems,
            output.received_at,
        );
    }
}

#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    pub config: &'a Config,
    pub clock: Clock,
    pub root: &'a HostRoot,
    pub target_handle: &'a TargetHandle,
}

#[derive(Clone, Copy)]
pub struct SampleContext<'a> {
    pub now: Stamp,
    pub target: Option<&'a Target>,
    pub root: &'a HostRoot,
    pub host: &'a HostConstants,
    /// By the current wall clock, in Unix seconds.
    pub boot_time: &'a Result<u64>,
    pub process_state: &'a ProcessState,
}

impl SampleContext<'_> {
    pub fn process(&self) -> Option<ProcessId> {
        self.target.map(|target| target.process)
    }

    /// In Unix seconds. `None` without a boot time.
    pub fn start_time(&self, process: ProcessId) -> Option<f64> {
        let boot = *self.boot_time.as_ref().ok()? as f64;
        Some(boot + process.start_ticks as f64 / self.host.clock_ticks_per_second as f64)
    }
}

/// A sampler sets a field for the samplers that run later in the tick. `None` means not read at
/// this tick.
#[derive(Default)]
pub struct ProcessState {
    /// Of the main thread.
    pub state: Cell<Option<State>>,
    /// Of all its threads, ended ones included.
    pub major_faults: Cell<Option<u64>>,
    /// Like `major_faults`, in whole clock ticks.
    pub cpu: Cell<Option<CpuTime>>,
    /// Path of the memory cgroup, or else of the cgroup of version 2. For an exiting process, its
    /// last one.
    pub cgroup: OnceCell<Arc<str>>,
    /// The freezer's state.
    pub frozen: Cell<Option<bool>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// `None` if the total is 0.
    pub fn system_share(&self) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| self.system.as_secs_f64() / total)
    }

    /// The split of the growth brings the kernel's share near `system_share`. Neither mode falls.
    pub fn grow_to(&mut self, total: Duration, system_share: f64) {
        let gained = total.saturating_sub(self.total());
        let system = total
            .mul_f64(system_share.clamp(0.0, 1.0))
            .saturating_sub(self.system)
            .min(gained);
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
    /// Each sample repeats a problem until it is solved, so a problem of the last tick does not count
    /// again.
    pub repeats_problems: bool,
    /// When the background poller received the data. The problems of one poll count once. `None`
    /// for a source that reads within the tick.
    pub received_at: Option<Stamp>,
}

impl SourceOutput {
    pub fn with_capacity(readings: usize) -> Self {
        Self {
            readings: Vec::with_capacity(readings),
            ..Self::default()
        }
    }

    pub fn report_poll(&mut self, polled_at: Stamp, up: bool, problems: &[Problem]) {
        self.received_at = Some(polled_at);
        self.up = up;
        self.problems = problems.to_vec();
    }

    pub fn value_or_problem<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add_problem(&error)).ok()
    }

    pub fn add_problem(&mut self, error: &ReadError) {
        self.problems.push(problem(error));
    }

    pub fn integer<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        value: impl Into<Option<u64>>,
    ) {
        self.readings.integer(metric, labels.map(Into::into), value);
    }

    /// An error becomes a problem of the output.
    pub fn try_integer<const N: usize>(
        &mut self,
        metric: &'static Metric,
        labels: [&'static str; N],
        result: Result<impl Into<Option<u64>>>,
    ) {
        let value = self.value_or_problem(result).and_then(Into::into);
        self.integer(metric, labels, value);
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

/// Limits and settings rarely change.
pub const LIMITS_INTERVAL: Duration = Duration::from_secs(15);

pub struct Throttle {
    interval: Duration,
    last: Option<Stamp>,
}

impl Throttle {
    pub fn every(interval: Duration) -> Self {
        Self {
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
    /// `None`: every tick.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Never fails: an error becomes a problem of the output.
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput;
}
