use crate::socket::Peer;
use faultline_catalog::Reading;
use faultline_catalog::metrics::daemon::AUTH_FAILURES;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const LOG_EVERY: Duration = Duration::from_secs(60);

/// Failures of one listener. Clones share the counts.
#[derive(Debug, Clone)]
pub struct AuthFailures(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    listener: &'static str,
    count: AtomicU64,
    logged: Mutex<Option<(Duration, u64)>>,
}

impl AuthFailures {
    /// `listener` is `metrics` or `ingest`.
    pub fn new(listener: &'static str) -> Self {
        AuthFailures(Arc::new(Counts {
            listener,
            count: AtomicU64::new(0),
            logged: Mutex::default(),
        }))
    }

    pub(crate) fn note(&self, peer: Peer, now: Duration) {
        let count = self.0.count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(failures) = self.to_log(count, now) {
            let (listener, within) = (self.0.listener, LOG_EVERY.as_secs());
            tracing::warn!(
                listener,
                %peer,
                failures,
                "authentication failed; further failures are logged together after {within} s"
            );
        }
    }

    fn to_log(&self, count: u64, now: Duration) -> Option<u64> {
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *logged {
            Some((at, _)) if now.saturating_sub(at) < LOG_EVERY => return None,
            Some((_, before)) => before,
            None => 0,
        };
        *logged = Some((now, count));
        Some(count.saturating_sub(before))
    }

    pub fn reading(&self) -> Reading {
        Reading::counter(
            &AUTH_FAILURES,
            [self.0.listener.into()],
            self.0.count.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_counts_and_a_line_a_minute_tells_how_many_there_were() {
        let failures = AuthFailures::new("metrics");
        let at = Duration::from_secs;
        let told = [(1, 5), (2, 6), (3, 64), (9, 65), (10, 130)]
            .map(|(count, second)| failures.to_log(count, at(second)));
        assert_eq!(told, [Some(1), None, None, Some(8), Some(1)]);
        for _ in 0..3 {
            failures.note(Peer::LOCAL, at(200));
        }
        assert_eq!(failures.reading().value.number(), Some(3.0));
    }
}
