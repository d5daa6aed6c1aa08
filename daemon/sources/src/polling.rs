//! Parts that several pollers share.

use crate::tick::{SampleContext, Sampler, SourceOutput};
use faultline_core::{
    clock::{Clock, Schedule},
    publish::Latest,
    supervisor::Stop,
};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, ProblemKind, Reading, Source, Stamp};
use itertools::Itertools;
use std::{pin::pin, time::Duration};

/// One lost poll must not remove a value.
const MIN_TTL: Duration = Duration::from_secs(10);

/// Lifetime of a response that is polled every `interval`.
pub fn response_ttl(interval: Duration) -> Duration {
    interval.saturating_mul(3).max(MIN_TTL)
}

/// Only two intervals, because an old slot is a wrong slot. One extra second covers the response
/// time.
pub fn slot_ttl(interval: Duration) -> Duration {
    interval
        .saturating_mul(2)
        .saturating_add(Duration::from_secs(1))
}

/// The last response and its time of arrival; `None` before the first.
#[derive(Debug, Clone)]
pub struct Timestamped<T>(Option<(T, Stamp)>);

impl<T> Default for Timestamped<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone> Timestamped<T> {
    pub fn set(&mut self, value: T, at: Stamp) {
        self.0 = Some((value, at));
    }

    pub fn received_at(&self) -> Option<Stamp> {
        self.0.as_ref().map(|(_, at)| *at)
    }

    pub fn fresh(&self, now: Stamp, ttl: Duration) -> Option<T> {
        self.0
            .as_ref()
            .filter(|(_, at)| now.since(*at) <= ttl)
            .map(|(value, _)| value.clone())
    }
}

pub struct PollTimer {
    clock: Clock,
    schedule: Schedule,
    stop: Stop,
}

impl PollTimer {
    pub fn new(clock: Clock, interval: Duration, stop: Stop) -> Self {
        Self {
            clock,
            schedule: Schedule::every(interval),
            stop,
        }
    }

    /// Waits for the next poll; false on the stop signal. Skips missed polls. Cancel-safe.
    pub async fn next(&mut self) -> bool {
        let due = tokio::time::Instant::from_std(self.clock.instant(self.schedule.next_due()));
        tokio::select! {
            biased;
            () = self.stop.wait() => return false,
            () = tokio::time::sleep_until(due) => {}
        }
        self.schedule.advance_to(self.clock.now().uptime);
        true
    }

    /// If a poll falls due during `exchange`, calls `on_due_poll`: the caller can then publish
    /// without expired responses. `None` on the stop signal.
    pub async fn wait_for<T>(
        &mut self,
        exchange: impl Future<Output = T>,
        mut on_due_poll: impl FnMut(),
    ) -> Option<T> {
        let mut exchange = pin!(exchange);
        loop {
            tokio::select! {
                done = &mut exchange => return Some(done),
                due = self.next() => if due { on_due_poll() } else { return None },
            }
        }
    }
}

pub struct PollResult {
    pub polled_at: Stamp,
    /// Readings of the machine, exported also after the end of the process: a full disk may have
    /// caused that end.
    pub output: SourceOutput,
    /// Readings of this process only.
    pub process_readings: Option<(ProcessId, Vec<Reading>)>,
}

/// Upper limit for the interval of a [`PollResultSampler`].
const MAX_SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Exports the latest result of a poller, while it is fresh.
pub struct PollResultSampler {
    poll_interval: Duration,
    latest: Latest<PollResult>,
}

impl PollResultSampler {
    pub fn new(poll_interval: Duration, latest: Latest<PollResult>) -> Self {
        Self {
            poll_interval,
            latest,
        }
    }
}

impl Sampler for PollResultSampler {
    fn interval(&self) -> Option<Duration> {
        Some(self.poll_interval.min(MAX_SAMPLE_INTERVAL))
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let result = self.latest.get().filter(|result| {
            context.now.since(result.polled_at) <= response_ttl(self.poll_interval)
        });
        let Some(result) = result else { return output };
        output.readings.clone_from(&result.output.readings);
        if let Some((owner, readings)) = &result.process_readings
            && context.process() == Some(*owner)
        {
            output.readings.extend_from_slice(readings);
        }
        output.report_poll(result.polled_at, result.output.up, &result.output.problems);
        output
    }
}

/// Logs a source's problems of the kinds `Absent` and `Gone` when their kinds or `up` change, but
/// not when they end. The ticker logs these two kinds only at level debug.
#[derive(Default)]
pub struct AbsenceLog(Vec<(bool, ProblemKind)>);

impl AbsenceLog {
    pub fn log_new_absences(&mut self, source: Source, up: bool, problems: &[Problem]) {
        let Some(texts) = self.change(up, problems) else {
            return;
        };
        let gone = problems
            .iter()
            .any(|problem| problem.kind == ProblemKind::Gone);
        let source = source.name();
        match up {
            true => tracing::info!(source, problems = texts, "answers in part"),
            false if gone => tracing::warn!(source, problems = texts, "does not answer"),
            false => tracing::info!(source, problems = texts, "does not answer"),
        }
    }

    fn change(&mut self, up: bool, problems: &[Problem]) -> Option<String> {
        let is_missing =
            |problem: &&Problem| matches!(problem.kind, ProblemKind::Absent | ProblemKind::Gone);
        let missing = problems.iter().filter(is_missing).collect_vec();
        let now = missing.iter().map(|problem| (up, problem.kind)).collect();
        let is_new = std::mem::replace(&mut self.0, now) != self.0;
        (is_new && !missing.is_empty()).then(|| missing.iter().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::ZERO,
        }
    }

    #[test]
    fn a_response_is_fresh_for_three_intervals_or_at_least_ten_seconds() {
        assert_eq!(
            [
                response_ttl(Duration::from_millis(100)).as_secs(),
                response_ttl(Duration::from_secs(5)).as_secs()
            ],
            [10, 15]
        );
        assert_eq!(response_ttl(Duration::MAX), Duration::MAX);
        let mut answer = Timestamped::default();
        assert_eq!(answer.fresh(at(0), Duration::MAX), None);
        answer.set(7, at(100));
        assert_eq!(answer.fresh(at(110), Duration::from_secs(10)), Some(7));
        assert_eq!(answer.fresh(at(111), Duration::from_secs(10)), None);
    }

    #[test]
    fn a_missing_source_is_logged_once_despite_other_errors() {
        let missing = Problem::absent_data("getBlockProduction is not offered");
        let broken = Problem::broken("no answer");
        let mut log = AbsenceLog::default();
        let both = [missing.clone(), broken];
        assert!(log.change(true, &both).is_some());
        assert_eq!(log.change(true, &both[..1]), None);
        assert_eq!(log.change(true, &both), None);
        assert_eq!(log.change(true, &[]), None);
        assert!(
            log.change(true, &[missing]).is_some(),
            "it is missing again"
        );
    }

    #[tokio::test]
    async fn the_wait_for_the_next_poll_ends_with_the_signal() {
        let stop = Stop::default();
        let mut timer = PollTimer::new(Clock::start(), Duration::from_millis(1), stop.clone());
        assert!(timer.next().await);
        stop.set();
        assert!(!timer.next().await);
    }
}
