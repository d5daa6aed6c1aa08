//! The tick: polls every due source on one dedicated thread, and passes the result to the hub.

mod source;
mod statistics;

pub use source::{
    BuildContext, CpuTime, LIMITS_INTERVAL, ProcessState, SampleContext, Sampler, SourceOutput,
    Throttle,
};
use statistics::Statistics;

use crate::discovery::{Target, TargetHandle};
use faultline_core::{
    clock::{Clock, DueTick, Schedule},
    hub::Hub,
    supervisor::Stop,
};
use faultline_kernel::{HostConstants, HostRoot, ProcessId, ReadError};
use faultline_metrics::{Batch, Source, Stamp, Tick};
use std::{sync::Arc, time::Duration};

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
    following: TargetHandle,
    root: HostRoot,
    host: HostConstants,
    entries: Vec<SourceEntry>,
    statistics: Statistics,
    hub: Hub,
    followed_process: Option<ProcessId>,
    /// Cached: `/proc/stat` is slow to read on a machine with many processors.
    boot_time: Option<Result<u64, ReadError>>,
}

impl Ticker {
    pub fn new(
        context: &BuildContext<'_>,
        host: HostConstants,
        samplers: Vec<(Source, Box<dyn Sampler>)>,
        hub: Hub,
    ) -> Self {
        let entry = |(source, sampler)| SourceEntry {
            newest_batch: Arc::new(Batch::empty(source, Stamp::default())),
            source,
            sampler,
            due_at: Duration::ZERO,
        };
        Ticker {
            clock: context.clock,
            schedule: Schedule::every(context.config.sampling.interval),
            following: context.following.clone(),
            root: context.root.clone(),
            host,
            entries: samplers.into_iter().map(entry).collect(),
            statistics: Statistics::default(),
            hub,
            followed_process: None,
            boot_time: None,
        }
    }

    /// Starts after the first search for the process, then follows the schedule.
    pub fn run(mut self, stop: Stop) {
        let until_next = |ticker: &Self| {
            let now = ticker.clock.now().uptime;
            ticker.schedule.next_due().saturating_sub(now)
        };
        let timeout = until_next(&self).min(MAX_FIRST_TICK_DELAY);
        self.following.wait_for_first_search(timeout);
        if !until_next(&self).is_zero() && !stop.is_set() {
            self.tick(DueTick::START);
        }
        loop {
            if stop.sleep(until_next(&self)) {
                return;
            }
            if let Some(due) = self.schedule.due_tick(self.clock.now().uptime) {
                self.tick(due);
            }
        }
    }

    pub fn tick(&mut self, due: DueTick) -> Arc<Tick> {
        self.tick_at(self.clock.now(), due, self.following.current().as_deref())
    }

    /// One tick at `at` for `target`. Only the measured durations of the sources use the clock.
    pub fn tick_at(&mut self, at: Stamp, due: DueTick, target: Option<&Target>) -> Arc<Tick> {
        self.statistics.count_tick(due);
        let clock_was_set = self.statistics.detect_clock_step(at, Clock::suspended());
        let known = self.boot_time.take();
        let boot_time = known
            .filter(|known| known.is_ok() && !clock_was_set)
            .unwrap_or_else(|| self.root.boot_time_seconds());
        let followed = target.map(|target| target.process);
        // After a change of process every source is polled at once, so that no series outlives its
        // process.
        let changed = std::mem::replace(&mut self.followed_process, followed) != followed;
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
            // To open hundreds of thread files would delay the first page, so the next tick does
            // it.
            let is_deferred = due == DueTick::START && entry.source == Source::Threads;
            if !is_deferred && (changed || entry.due_at <= at.uptime) {
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
        self.hub.publish(&tick);
        tick
    }
}

impl SourceEntry {
    fn sample(&mut self, context: &SampleContext<'_>, clock: &Clock, statistics: &mut Statistics) {
        let (at, began) = (context.now, clock.now());
        let mut output = self.sampler.sample(context);
        // Two ticks and the HTTP page hold the readings, so they keep no excess capacity.
        output.readings.shrink_to_fit();
        let took = clock.now().since(began);
        if let Some(every) = self.sampler.interval() {
            // An absolute schedule: a late poll does not shift the next one, missed ones are
            // skipped.
            let intervals = at.uptime.as_nanos() / every.as_nanos().max(1) + 1;
            self.due_at = every * u32::try_from(intervals).unwrap_or(u32::MAX);
        }
        self.newest_batch = Arc::new(Batch {
            source: self.source,
            at,
            took,
            readings: output.readings,
            problems: output.problems,
            up: output.up,
        });
        let received_at = output.received_at.unwrap_or(at);
        statistics.record(&self.newest_batch, output.repeated, received_at);
    }
}
