use super::{
    Shared,
    client::{Attempt, Upstream},
    queue::{Outcome, QueuedPush},
};
use faultline_core::supervisor::Stop;
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, Copy)]
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
    pub(super) fn new(shared: Arc<Shared>, upstream: Upstream) -> Self {
        Forwarder {
            shared,
            upstream,
            retry_times: RETRY_TIMES,
        }
    }

    #[cfg(test)]
    pub(super) fn at(self, retry_times: RetryTimes) -> Self {
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
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_the_maximum_with_jitter() {
        let seconds = |failures, random| pause(RETRY_TIMES, failures, random).as_secs_f64();
        assert_eq!(
            [
                seconds(0, 0.0),
                seconds(1, 0.0),
                seconds(5, 0.0),
                seconds(6, 0.0)
            ],
            [0.5, 1.0, 16.0, 30.0]
        );
        assert_eq!(
            [seconds(31, 0.0), seconds(32, 0.0), seconds(u32::MAX, 0.0)],
            [30.0; 3]
        );
        assert_eq!([seconds(0, 1.0), seconds(40, 1.0)], [0.25, 15.0]);
    }
}
