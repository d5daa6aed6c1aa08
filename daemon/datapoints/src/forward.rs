//! Forwards pushes to the operator's Influx server, because an Agave validator supports one sink
//! only.
//!
//! Forwards the body of every push that got 204, byte for byte, with its coding and precision. This
//! includes points that the daemon does not use. Path, database, user and password are those of the
//! upstream. Sends one push at a time, in order.
//!
//! A push whose response is lost arrives twice; Influx overwrites equal points. Connection errors,
//! timeouts, 408, 429 and 5xx are retried until the push is `give_up_after` old. The backoff starts
//! at 0.5 s and doubles to 30 s, with up to half of it as jitter. A longer `Retry-After` replaces
//! it. Any other non-2xx response rejects the push for good. Redirects are not followed.
//!
//! A full queue drops its oldest push that is not being sent. A push larger than the queue is not
//! copied. Every push with 204 counts once as sent, lost or refused when it leaves the queue. Other
//! pushes do not count.

mod client;
mod queue;

pub use client::Error;
pub use queue::Copy;

use client::{Attempt, Upstream};
use faultline_core::{clock::Clock, config, push_memory::PushMemory, supervisor::Stop};
use faultline_metrics::{
    Reading, ReadingList, Status,
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
        Some(match text {
            "" | "n" | "ns" => Precision::Nanoseconds,
            "u" | "us" | "µ" => Precision::Microseconds,
            "ms" => Precision::Milliseconds,
            "s" => Precision::Seconds,
            "m" => Precision::Minutes,
            "h" => Precision::Hours,
            _ => return None,
        })
    }
}

/// The sending half of the queue, with its state. Clones share it.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    queue: Queue,
    /// `None` before the first one.
    last_attempt: Mutex<Option<Attempt>>,
    /// Scheme, host and port: the part of the URL that may be shown.
    upstream: String,
    give_up_after: Duration,
}

impl Shared {
    /// Logs the attempt if its kind or HTTP status differs from the last one's. The reason may
    /// differ between attempts.
    fn record(&self, attempt: &Attempt) {
        let upstream = &self.upstream;
        let last = self.last_attempt.lock().replace(attempt.clone());
        match (last, attempt) {
            (Some(Attempt::Sent), Attempt::Sent)
            | (Some(Attempt::Failed { .. }), Attempt::Failed { .. }) => {}
            (Some(Attempt::Refused { code: old, .. }), Attempt::Refused { code, .. })
                if old == *code => {}
            (_, Attempt::Sent) => tracing::info!(upstream, "upstream accepts pushes"),
            (_, Attempt::Failed { reason, .. }) => {
                tracing::warn!(
                    upstream,
                    reason,
                    "upstream unreachable; pushes are queued and retried with backoff"
                );
            }
            (_, Attempt::Refused { code, excerpt }) => {
                tracing::warn!(
                    upstream,
                    status = code,
                    answer = excerpt,
                    "upstream rejects pushes; they are dropped"
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
    push_memory: &PushMemory,
) -> Result<(Handle, Forwarder), Error> {
    let upstream = Upstream::new(config)?;
    let shared = Arc::new(Shared {
        queue: Queue::new(config.queue_bytes, clock, push_memory.clone()),
        last_attempt: Mutex::default(),
        upstream: upstream.name.clone(),
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
    pub fn readings(&self, out: &mut Vec<Reading>) {
        let queue = &self.0.queue;
        for result in Outcome::ALL {
            let (requests, bytes) = queue.count_of(result);
            out.counter(&FORWARD_BYTES, [result.name().into()], bytes);
            out.counter(&FORWARD_REQUESTS, [result.name().into()], requests);
        }
        out.whole(&FORWARD_QUEUE, [], queue.bytes());
    }

    pub fn problems(&self) -> Vec<(Status, String)> {
        let attempt = self.0.last_attempt.lock().clone();
        match attempt {
            None | Some(Attempt::Sent) => Vec::new(),
            Some(Attempt::Failed { reason, .. }) => vec![(
                Status::Broken,
                format!(
                    "upstream {} is unreachable: {reason}; pushes are queued for at most {} s",
                    self.0.upstream,
                    self.0.give_up_after.as_secs()
                ),
            )],
            Some(Attempt::Refused { code, excerpt }) => {
                let (status, remedy) = match code {
                    401 | 403 => (
                        Status::Forbidden,
                        "; check db, user and password in [forward]",
                    ),
                    404 => (Status::Broken, "; check url and db in [forward]"),
                    _ => (Status::Broken, ""),
                };
                vec![(
                    status,
                    format!(
                        "upstream {} rejects pushes with {code}: {excerpt}{remedy}",
                        self.0.upstream
                    ),
                )]
            }
        }
    }
}

#[derive(Clone, Copy)]
pub struct RetryTimes {
    /// Pause after the first failure. It doubles with each further failure, up to the maximum.
    pub first: Duration,
    pub max_pause: Duration,
    /// Timeout of one attempt: connect, send and response.
    pub attempt: Duration,
    /// Maximum time to empty the queue after the stop signal.
    pub drain: Duration,
}

const RETRY_TIMES: RetryTimes = RetryTimes {
    first: Duration::from_millis(500),
    max_pause: Duration::from_secs(30),
    attempt: Duration::from_secs(30),
    drain: Duration::from_secs(5),
};

pub struct Forwarder {
    shared: Arc<Shared>,
    upstream: Upstream,
    retry_times: RetryTimes,
}

impl Forwarder {
    #[cfg(test)]
    fn at(self, retry_times: RetryTimes) -> Self {
        Forwarder {
            retry_times,
            ..self
        }
    }

    /// Sends until `stop`, then drains for at most 5 s; the rest counts as lost and is logged. Stop
    /// the listener first: later pushes would stay in the queue.
    pub async fn run(self, stop: Stop) {
        let grace = async {
            stop.wait().await;
            tokio::time::sleep(self.retry_times.drain).await;
        };
        tokio::select! {
            () = self.send_all(&stop) => {}
            () = grace => {}
        }
        let (pushes, bytes) = self.shared.queue.clear();
        if pushes > 0 {
            let upstream = &self.shared.upstream;
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
        let mut stopping = false;
        while let Some(push) = self.next(stop).await {
            let Some(wait) = self.attempt(&push, failures).await else {
                failures = 0;
                continue;
            };
            // The queue may drop the push during the pause: then its memory must be free.
            drop(push);
            failures = failures.saturating_add(1);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.wait(), if !stopping => {
                    stopping = true;
                    failures = 0;
                }
            }
        }
    }

    async fn next(&self, stop: &Stop) -> Option<Arc<QueuedPush>> {
        tokio::select! {
            biased;
            push = self.shared.queue.first() => Some(push),
            () = stop.wait() => None,
        }
    }

    /// Returns the pause before the next attempt; `None` if the push is done.
    async fn attempt(&self, push: &Arc<QueuedPush>, failures: u32) -> Option<Duration> {
        let queue = &self.shared.queue;
        let attempt = self.upstream.send(push, self.retry_times.attempt).await;
        self.shared.record(&attempt);
        match attempt {
            Attempt::Sent => {
                queue.finish_first(Outcome::Sent);
                None
            }
            Attempt::Refused { .. } => {
                queue.finish_first(Outcome::Refused);
                None
            }
            Attempt::Failed { retry_after, .. } => {
                queue.failed(self.shared.give_up_after);
                let backoff = pause(self.retry_times, failures, fastrand::f64());
                Some(retry_after.unwrap_or_default().max(backoff))
            }
        }
    }
}

/// The pause after `failures` earlier failures, less up to half of it: `random` is from 0 to 1.
fn pause(retry_times: RetryTimes, failures: u32, random: f64) -> Duration {
    let doubled = retry_times
        .first
        .saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX))
        .min(retry_times.max_pause);
    doubled.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
pub mod tests;
