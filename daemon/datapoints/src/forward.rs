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
mod worker;

pub use client::Error;
pub use queue::Copy;
pub use worker::Forwarder;

use client::{Attempt, Upstream};
use faultline_core::{clock::Clock, config, push_memory::PushMemory};
use faultline_metrics::{
    Reading, ReadingList, Status,
    metrics::daemon::{FORWARD_BYTES, FORWARD_QUEUE, FORWARD_REQUESTS},
    named_enum,
};
use parking_lot::Mutex;
use queue::{Outcome, Queue};
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
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

#[derive(Debug)]
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
    Ok((
        Handle(Arc::clone(&shared)),
        Forwarder::new(shared, upstream),
    ))
}

impl Handle {
    /// Starts to copy a body. A complete copy is queued; dropping it earlier discards it.
    pub fn copy(&self, precision: Precision, gzip: bool) -> Copy {
        Copy::new(self.clone(), precision, gzip)
    }

    pub fn readings(&self, out: &mut Vec<Reading>) {
        let queue = &self.0.queue;
        for result in Outcome::ALL {
            let (requests, bytes) = queue.count_of(result);
            out.counter(&FORWARD_BYTES, [result.name().into()], bytes);
            out.counter(&FORWARD_REQUESTS, [result.name().into()], requests);
        }
        out.whole(&FORWARD_QUEUE, [], queue.size().1);
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

#[cfg(test)]
pub mod tests;
