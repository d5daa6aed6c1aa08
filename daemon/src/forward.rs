//! Passes pushes on to the Influx server that the operator already reports to: an Agave validator knows one sink only.
//!
//! * What is passed on: the body of every push that was answered 204, byte for byte, in the coding in which it came and
//!   with its precision; also points that the daemon itself has no use for, and those of other validators and tools.
//!   Path, database, user and password are the upstream's own.
//! * In order and one at a time. A push is sent again until the upstream has answered it, so that one whose answer got
//!   lost arrives twice; Influx overwrites a point with the same point.
//! * Connection errors, timeouts, 408, 429 and 5xx are tried again (after `Retry-After` if the upstream names a number of
//!   seconds, else 0.5 s doubling to 30 s, less up to half of it at random), until the push is `give_up_after` old. Any
//!   other answer but 2xx refuses the push for good; redirects are not followed.
//! * When the queue is full the oldest waiting push is dropped. A push that does not fit at all is not copied.
//! * Every push answered 204 while forwarding is on is counted exactly once, as sent, lost or refused, unless it still
//!   waits. Bodies that were cut or refused are no part of this.

mod client;
mod queue;
mod worker;

pub use client::Error;
pub use queue::Copy;
pub use worker::Forwarder;

use crate::clock::Clock;
use crate::config;
use crate::push_memory::Budget;
use client::Upstream;
use faultline_catalog::metrics::daemon::{FORWARD_BYTES, FORWARD_QUEUE, FORWARD_REQUESTS};
use faultline_catalog::{Reading, ReadingList, Status};
use parking_lot::Mutex;
use queue::{Queue, RESULTS};
use std::sync::Arc;
use std::time::Duration;

/// The unit of the timestamps in a body, as its `precision` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// `n` or `ns`, what Agave sends and what Influx assumes.
    #[default]
    Nanoseconds,
    /// `u`, `us` or `µ`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
    /// `m`.
    Minutes,
    /// `h`.
    Hours,
}

impl Precision {
    /// The precision a query names, with percent escapes undone; `None` for a word that Influx does not know either.
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

    /// The word for the upstream's query.
    pub const fn word(self) -> &'static str {
        match self {
            Precision::Nanoseconds => "n",
            Precision::Microseconds => "u",
            Precision::Milliseconds => "ms",
            Precision::Seconds => "s",
            Precision::Minutes => "m",
            Precision::Hours => "h",
        }
    }
}

/// How pushes get into the queue, and what can be said about it. Clones share it.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

/// What the handle and the task have in common.
#[derive(Debug)]
struct Shared {
    queue: Queue,
    health: Mutex<Health>,
    /// Scheme, host and port: what may be shown of the upstream's address.
    upstream: String,
    give_up_after: Duration,
}

/// What the last answer, or the lack of one, tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Health {
    /// Nothing was sent yet.
    #[default]
    Untried,
    Well,
    /// It cannot be reached or says that it cannot take pushes now; the reason.
    Failing(String),
    /// It says no.
    Refusing {
        /// The status it answered with.
        code: u16,
        /// The beginning of what it said.
        excerpt: String,
    },
}

impl Health {
    /// Takes the newer state's place and logs it if it is of another kind: reasons may vary from try to try.
    fn becomes(&mut self, newer: Health, upstream: &str) {
        let older = std::mem::replace(self, newer);
        match (&older, &*self) {
            (Health::Well, Health::Well)
            | (Health::Failing(_), Health::Failing(_))
            | (_, Health::Untried) => {}
            (Health::Refusing { code: old, .. }, Health::Refusing { code: new, .. })
                if old == new => {}
            (_, Health::Well) => tracing::info!(upstream, "upstream accepts pushes"),
            (_, Health::Failing(reason)) => {
                tracing::warn!(
                    upstream,
                    reason,
                    "upstream unreachable; pushes are queued and retried with backoff"
                );
            }
            (_, Health::Refusing { code, excerpt }) => {
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

/// Whether pushes can be forwarded as configured; connects to nothing.
pub fn check(config: &config::Forward) -> Result<(), Error> {
    Upstream::new(config).map(drop)
}

/// Prepares forwarding; connects to nothing.
///
/// # Errors
/// The address cannot be used, or it is https and this system has no root certificates.
pub fn build(
    config: &config::Forward,
    clock: Clock,
    budget: &Budget,
) -> Result<(Handle, Forwarder), Error> {
    let upstream = Upstream::new(config)?;
    let shared = Arc::new(Shared {
        queue: Queue::new(config.queue_bytes, clock, budget.clone()),
        health: Mutex::new(Health::default()),
        upstream: upstream.name().to_owned(),
        give_up_after: config.give_up_after,
    });
    Ok((
        Handle(Arc::clone(&shared)),
        Forwarder::new(shared, upstream),
    ))
}

impl Handle {
    /// Begins the copy of a body, which is queued when it is complete and forgotten when it is dropped before.
    pub fn copy(&self, precision: Precision, gzip: bool) -> Copy {
        Copy::new(self.clone(), precision, gzip)
    }

    /// `faultline_forward_*`.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        let queue = &self.0.queue;
        for result in RESULTS {
            let (requests, bytes) = queue.counted(result);
            out.counter(&FORWARD_BYTES, [result.name().into()], bytes);
            out.counter(&FORWARD_REQUESTS, [result.name().into()], requests);
        }
        out.whole(&FORWARD_QUEUE, [], queue.waiting().1);
    }

    /// What keeps the upstream from taking pushes; empty while nothing does.
    pub fn problems(&self) -> Vec<(Status, String)> {
        let health = self.0.health.lock().clone();
        match health {
            Health::Untried | Health::Well => Vec::new(),
            Health::Failing(reason) => vec![(
                Status::Broken,
                format!(
                    "upstream {} is unreachable: {reason}; pushes are queued for at most {} s",
                    self.0.upstream,
                    self.0.give_up_after.as_secs()
                ),
            )],
            Health::Refusing { code, excerpt } => {
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
pub(crate) mod tests;
