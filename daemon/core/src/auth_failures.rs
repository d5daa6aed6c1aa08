use crate::{rate_limit::RateLimit, socket::Peer};
use faultline_metrics::{Reading, metrics::daemon::AUTH_FAILURES};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Counts and logs failures of one listener. Clones share the counts.
#[derive(Debug, Clone)]
pub struct AuthFailures {
    listener: &'static str,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug)]
struct Counts {
    total: u64,
    /// The part of `total` that log lines have reported.
    logged: u64,
    log_limit: RateLimit,
}

impl AuthFailures {
    /// `listener` is `metrics` or `ingest`.
    pub fn new(listener: &'static str) -> Self {
        let counts = Counts {
            total: 0,
            logged: 0,
            log_limit: RateLimit::with_burst(1, LOG_INTERVAL),
        };
        Self {
            listener,
            counts: Arc::new(Mutex::new(counts)),
        }
    }

    pub fn record_failure(&self, peer: Peer, uptime: Duration) {
        // Logging may block, so the lock is released first.
        let failures = self.counts.lock().count(uptime);
        if let Some(failures) = failures {
            let seconds = LOG_INTERVAL.as_secs();
            tracing::warn!(
                listener = self.listener,
                %peer,
                failures,
                "authentication failed; at most one line in {seconds} s, with the failures since the last line"
            );
        }
    }

    pub fn reading(&self) -> Reading {
        Reading::integer(
            &AUTH_FAILURES,
            [self.listener.into()],
            self.counts.lock().total,
        )
    }
}

impl Counts {
    /// Counts one failure. Returns the failures since the last log line if a new line is allowed.
    fn count(&mut self, uptime: Duration) -> Option<u64> {
        self.total += 1;
        if !self.log_limit.try_take(uptime) {
            return None;
        }
        let failures = self.total - self.logged;
        self.logged = self.total;
        Some(failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth_failures_are_counted_and_logged_once_a_minute() {
        let failures = AuthFailures::new("metrics");
        let at = Duration::from_secs;
        let logged = [5, 6, 64, 64, 65, 130].map(|second| failures.counts.lock().count(at(second)));
        assert_eq!(logged, [Some(1), None, None, None, Some(4), Some(1)]);
        for _ in 0..3 {
            failures.record_failure(Peer::UNIX, at(200));
        }
        assert_eq!(failures.reading().value.number(), Some(9.0));
    }
}
