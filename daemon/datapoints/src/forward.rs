//! Forwards pushes to the operator's Influx server, because an Agave validator supports one sink
//! only.
//!
//! Forwards the body of every push that got 204, byte for byte, with its coding and precision. This
//! includes points that the daemon does not use. Path, database, user and password are those of the
//! upstream. Sends one push at a time, in order.
//!
//! A push whose response is lost arrives twice; Influx overwrites equal points. Connection errors,
//! timeouts, 408, 429 and 5xx are retried until the push is `give_up_after` old. The backoff starts
//! at 0.5 s and doubles to 30 s, less up to half of it as jitter. A longer `Retry-After` replaces
//! the backoff. Any other non-2xx response refuses the push for good. Redirects are not followed.
//!
//! A full queue drops its oldest push that is not being sent. A push that does not fit beside the
//! one being sent is lost. Every push with 204 and a body counts once as sent, lost or refused.
//! Other pushes do not count.

mod client;
mod queue;

pub use client::Error;
pub use queue::PushCopy;

use client::{AttemptResult, Upstream};
use faultline_core::{clock::Clock, config, push_memory::PushMemoryBudget, supervisor::Stop};
use faultline_metrics::{
    AddReadings, Problem, ProblemKind, Reading,
    metrics::daemon::{FORWARD_BYTES, FORWARD_QUEUE, FORWARD_REQUESTS},
    named_enum,
};
use parking_lot::Mutex;
use queue::{Outcome, Queue, QueuedPush};
use std::{sync::Arc, time::Duration};

named_enum! {
    #[derive(Default)]
    pub enum Precision {
        /// `n` or `ns`: Agave's unit and Influx's default.
        #[default]
        Nanoseconds = "n",
        /// `u`, `us` or `µ`.
        Microseconds = "u",
        Milliseconds = "ms",
        Seconds = "s",
        Minutes = "m",
        Hours = "h",
    }
}

impl Precision {
    /// The percent-decoded precision of a query; `None` if Influx does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "ns" => Some(Self::Nanoseconds),
            "us" | "µ" => Some(Self::Microseconds),
            name => Self::named(name),
        }
    }
}

/// Adds pushes to the queue, and reports the forwarder's state. Clones share both.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    queue: Queue,
    /// `None` before the first attempt.
    last_result: Mutex<Option<AttemptResult>>,
    /// Scheme, host and port of the URL, without its secrets.
    upstream_origin: String,
    give_up_after: Duration,
}

impl Shared {
    /// Logs a result if its kind, or the HTTP status of a refusal, differs from the last one.
    fn record_result(&self, result: &AttemptResult) {
        let upstream = &self.upstream_origin;
        let last = self.last_result.lock().replace(result.clone());
        match (last, result) {
            (Some(AttemptResult::Sent), AttemptResult::Sent)
            | (Some(AttemptResult::Failed { .. }), AttemptResult::Failed { .. }) => {}
            (
                Some(AttemptResult::Refused { code: old, .. }),
                AttemptResult::Refused { code, .. },
            ) if old == *code => {}
            (_, AttemptResult::Sent) => tracing::info!(upstream, "upstream accepts pushes"),
            (_, AttemptResult::Failed { reason, .. }) => {
                tracing::warn!(
                    upstream,
                    reason,
                    "upstream does not accept pushes; they are queued and retried with backoff"
                );
            }
            (_, AttemptResult::Refused { code, excerpt }) => {
                tracing::warn!(
                    upstream,
                    status = code,
                    answer = excerpt,
                    "upstream refuses pushes; they are dropped"
                );
            }
        }
    }
}

pub fn check(config: &config::Forward) -> Result<(), Error> {
    Upstream::new(config).map(drop)
}

/// Does not connect.
///
/// # Errors
/// The URL is unusable, or it is https and this system has no root certificates.
pub fn build(
    config: &config::Forward,
    clock: Clock,
    push_memory: &PushMemoryBudget,
) -> Result<(Handle, Forwarder), Error> {
    let upstream = Upstream::new(config)?;
    let shared = Arc::new(Shared {
        queue: Queue::new(config.queue_bytes, clock, push_memory.clone()),
        last_result: Mutex::default(),
        upstream_origin: upstream.origin.clone(),
        give_up_after: config.give_up_after,
    });
    let handle = Handle(Arc::clone(&shared));
    let forwarder = Forwarder {
        shared,
        upstream,
        retry_times: RETRY_TIMES,
    };
    Ok((handle, forwarder))
}

impl Handle {
    pub fn add_readings(&self, out: &mut Vec<Reading>) {
        let queue = &self.0.queue;
        for outcome in Outcome::ALL {
            let (requests, bytes) = queue.totals(outcome);
            out.integer(&FORWARD_BYTES, [outcome.name().into()], bytes);
            out.integer(&FORWARD_REQUESTS, [outcome.name().into()], requests);
        }
        out.integer(&FORWARD_QUEUE, [], queue.bytes());
    }

    pub fn problem(&self) -> Option<Problem> {
        let result = self.0.last_result.lock().clone();
        let (kind, what) = match result? {
            AttemptResult::Sent => return None,
            AttemptResult::Failed { reason, .. } => (
                ProblemKind::Broken,
                format!(
                    "does not accept pushes: {reason}; they are queued for about {} s",
                    self.0.give_up_after.as_secs()
                ),
            ),
            AttemptResult::Refused { code, excerpt } => {
                let (kind, remedy) = match code {
                    401 | 403 => (
                        ProblemKind::Forbidden,
                        "; check db, user and password in [forward]",
                    ),
                    404 => (ProblemKind::Broken, "; check url and db in [forward]"),
                    _ => (ProblemKind::Broken, ""),
                };
                (
                    kind,
                    format!("refuses pushes with {code}: {excerpt}{remedy}"),
                )
            }
        };
        let origin = &self.0.upstream_origin;
        Some(Problem {
            kind,
            what: format!("upstream {origin} {what}"),
        })
    }
}

#[derive(Clone, Copy)]
pub struct RetryTimes {
    /// Pause after the first failure.
    pub first_pause: Duration,
    pub max_pause: Duration,
    /// Timeout of one attempt: connect, send and response.
    pub attempt_timeout: Duration,
    /// Maximum time to empty the queue after the stop signal.
    pub drain_timeout: Duration,
}

const RETRY_TIMES: RetryTimes = RetryTimes {
    first_pause: Duration::from_millis(500),
    max_pause: Duration::from_secs(30),
    attempt_timeout: Duration::from_secs(30),
    drain_timeout: Duration::from_secs(5),
};

pub struct Forwarder {
    shared: Arc<Shared>,
    upstream: Upstream,
    retry_times: RetryTimes,
}

impl Forwarder {
    /// Sends until `stop`, then drains for at most 5 s; the rest counts as lost and is logged. Stop
    /// the listener first: later pushes would stay in the queue.
    pub async fn run(self, stop: Stop) {
        let grace = async {
            stop.wait().await;
            tokio::time::sleep(self.retry_times.drain_timeout).await;
        };
        tokio::select! {
            () = self.send_all(&stop) => {}
            () = grace => {}
        }
        let (pushes, bytes) = self.shared.queue.clear();
        if pushes > 0 {
            let upstream = &self.shared.upstream_origin;
            tracing::warn!(
                upstream,
                pushes,
                bytes,
                "stopped before the upstream accepted all queued pushes; the rest is lost"
            );
        }
    }

    async fn send_all(&self, stop: &Stop) {
        let mut failures = 0;
        let mut is_stopping = false;
        while let Some(push) = self.next_push(stop).await {
            let Some(wait) = self.send_once(&push, failures).await else {
                failures = 0;
                continue;
            };
            // This reference would keep the memory if the queue drops the push during the pause.
            drop(push);
            failures = failures.saturating_add(1);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.wait(), if !is_stopping => {
                    is_stopping = true;
                    failures = 0;
                }
            }
        }
    }

    async fn next_push(&self, stop: &Stop) -> Option<Arc<QueuedPush>> {
        tokio::select! {
            biased;
            push = self.shared.queue.begin_first() => Some(push),
            () = stop.wait() => None,
        }
    }

    /// Returns the pause before the next attempt; `None` if the push is done.
    async fn send_once(&self, push: &Arc<QueuedPush>, failures: u32) -> Option<Duration> {
        let queue = &self.shared.queue;
        let result = self
            .upstream
            .send(push, self.retry_times.attempt_timeout)
            .await;
        self.shared.record_result(&result);
        let outcome = match result {
            AttemptResult::Sent => Outcome::Sent,
            AttemptResult::Refused { .. } => Outcome::Refused,
            AttemptResult::Failed { retry_after, .. } => {
                queue.fail_first(self.shared.give_up_after);
                let backoff = retry_pause(self.retry_times, failures, fastrand::f64());
                return Some(retry_after.unwrap_or_default().max(backoff));
            }
        };
        queue.finish_first(outcome);
        None
    }
}

/// The pause after `failures` earlier failures, less up to half of it: `random` is from 0 to 1.
fn retry_pause(retry_times: RetryTimes, failures: u32, random: f64) -> Duration {
    let doubled = retry_times
        .first_pause
        .saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX))
        .min(retry_times.max_pause);
    doubled.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
pub mod tests;
