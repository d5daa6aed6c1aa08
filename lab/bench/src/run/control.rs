//! Repeats refused requests after a wait. Ends the run if a node refuses for too long. A refusal is
//! a rate limit, a server error or a failed connection.

use crate::{failure::Failure, stream::TIMER_PRECISION};
use faultline_common::{clock, output::say};
use faultline_text::duration;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::Duration,
};
use tokio::time::sleep;

const MAX_RATE_LIMIT_RETRIES: u32 = 8;
/// Other refusals get fewer retries, because the request itself may cause them.
const MAX_ERROR_RETRIES: u32 = 3;
/// After the last retry, a node that has refused everything for this long ends the run.
const MAX_REFUSAL_TIME: Duration = Duration::from_secs(60);
/// The backoff doubles with each retry. A longer `Retry-After` takes precedence.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// A longer `Retry-After` ends the run.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
const MIN_REPORTED_PAUSE: Duration = Duration::from_secs(2);
pub const END_CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct RunControl {
    /// In a closed loop, a refusal pauses all requests until this time.
    pub refusal_pause_end: Cell<Duration>,
    /// In an open loop, `Retry-After` pauses a node's requests until this time. By
    /// `Plan::node_index`.
    node_paused_until: RefCell<BTreeMap<usize, Duration>>,
    /// Time since which every request was refused, by node index.
    refusing_since: RefCell<BTreeMap<usize, Duration>>,
    pub refusals: RefCell<BTreeMap<String, u64>>,
    ended_by: RefCell<Option<String>>,
}

pub struct LastAttempt<T> {
    pub answer: Result<T, Failure>,
    /// When the latency begins: after a retry, at the end of the wait.
    pub counted_from: Duration,
    pub retries: u32,
}

/// Which refusals are retried.
#[derive(Clone, Copy)]
pub enum RetryPolicy {
    /// In a closed loop.
    All,
    /// During preparation.
    RateLimits,
    /// In an open loop.
    None,
}

impl RunControl {
    pub fn end(&self, by: String) {
        self.ended_by.borrow_mut().get_or_insert(by);
    }

    pub fn ended_by(&self) -> Option<String> {
        self.ended_by.borrow().clone()
    }

    pub fn ended_early_message(&self) -> String {
        let by = self.ended_by().unwrap_or_default();
        format!("nothing was measured: ended by {by}")
    }

    /// Text for the progress line; names the limit while a node refuses all requests.
    pub fn refusals_suffix(&self) -> String {
        let count: u64 = self.refusals.borrow().values().sum();
        match count {
            0 => String::new(),
            _ if self.refusing_since.borrow().is_empty() => format!(", {count} refused"),
            _ => format!(
                ", {count} refused; the run ends if a node refuses all requests for {}",
                duration(MAX_REFUSAL_TIME)
            ),
        }
    }

    fn is_over(&self) -> bool {
        self.ended_by.borrow().is_some()
    }

    /// Whether the delay that the node requested is not over at `time`.
    pub fn is_within_retry_after(&self, node_index: usize, time: Duration) -> bool {
        self.node_paused_until
            .borrow()
            .get(&node_index)
            .is_some_and(|until| time < *until)
    }

    /// False if the run ends before.
    pub async fn wait_until(&self, moment: Duration) -> bool {
        loop {
            let left = moment.saturating_sub(clock::uptime());
            if left.is_zero() || self.is_over() {
                return !self.is_over();
            }
            if left > TIMER_PRECISION {
                sleep((left - TIMER_PRECISION).min(END_CHECK_INTERVAL)).await
            } else {
                tokio::task::yield_now().await
            }
        }
    }

    /// `None` if the run ends during a wait.
    pub async fn send_with_retries<T>(
        &self,
        node_index: usize,
        mut counted_from: Duration,
        policy: RetryPolicy,
        mut send: impl AsyncFnMut(Duration) -> Result<T, Failure>,
    ) -> Option<LastAttempt<T>> {
        let mut retries = 0;
        loop {
            let answer = send(counted_from).await;
            // A timeout does not prove that the node refuses no longer.
            if answer
                .as_ref()
                .err()
                .is_none_or(Failure::is_unexpected_answer)
            {
                self.refusing_since.borrow_mut().remove(&node_index);
            }
            if let Err(failure) = &answer
                && failure.is_refusal()
                && self.handle_refusal(node_index, failure, policy, retries)
            {
                let backoff = (FIRST_BACKOFF * 2_u32.pow(retries)).min(MAX_BACKOFF);
                let wait = failure.retry_after().unwrap_or_default().max(backoff);
                let refusal_pause_end = extend_pause(self.refusal_pause_end.get(), wait, failure);
                self.refusal_pause_end.set(refusal_pause_end);
                retries += 1;
                if !self.wait_until(refusal_pause_end).await {
                    return None;
                }
                counted_from = clock::uptime();
                continue;
            }
            return Some(LastAttempt {
                answer,
                counted_from,
                retries,
            });
        }
    }

    /// Counts the refusal; may pause requests or end the run. Returns whether to retry.
    fn handle_refusal(
        &self,
        node_index: usize,
        failure: &Failure,
        policy: RetryPolicy,
        retries: u32,
    ) -> bool {
        *self
            .refusals
            .borrow_mut()
            .entry(failure.kind())
            .or_default() += 1;
        let retry_after = failure.retry_after();
        if let Some(retry_after) = retry_after
            && retry_after > MAX_RETRY_AFTER
        {
            self.end(format!(
                "a node that wants no requests for {}",
                duration(retry_after)
            ));
            return false;
        }
        match policy {
            RetryPolicy::None => {
                // Without a requested delay, later requests are sent on schedule.
                if let Some(retry_after) = retry_after
                    && !retry_after.is_zero()
                {
                    let mut node_paused_until = self.node_paused_until.borrow_mut();
                    let paused_until = node_paused_until.entry(node_index).or_default();
                    *paused_until = extend_pause(*paused_until, retry_after, failure);
                }
                return false;
            }
            RetryPolicy::RateLimits if !matches!(failure, Failure::RateLimited(_)) => return false,
            _ => {}
        }
        let max_retries = match failure {
            Failure::RateLimited(_) => MAX_RATE_LIMIT_RETRIES,
            _ => MAX_ERROR_RETRIES,
        };
        let now = clock::uptime();
        let since = *self
            .refusing_since
            .borrow_mut()
            .entry(node_index)
            .or_insert(now);
        if retries >= max_retries && now.saturating_sub(since) >= MAX_REFUSAL_TIME {
            self.end(format!(
                "a node that has refused all requests for {}: {failure}",
                duration(now.saturating_sub(since))
            ));
        }
        retries < max_retries
    }
}

/// Reports a pause that grows by [`MIN_REPORTED_PAUSE`] or more.
fn extend_pause(paused_until: Duration, wait: Duration, failure: &Failure) -> Duration {
    let now = clock::uptime();
    let until = paused_until.max(now + wait);
    if until - paused_until.max(now) >= MIN_REPORTED_PAUSE {
        say(&format!("{failure}: no requests for {}", duration(wait)));
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_names_the_end_of_a_run_that_is_refused() {
        let control = RunControl::default();
        assert_eq!(control.refusals_suffix(), "");
        control.handle_refusal(0, &Failure::RateLimited(None), RetryPolicy::None, 0);
        assert_eq!(control.refusals_suffix(), ", 1 refused");
        control.handle_refusal(0, &Failure::RateLimited(None), RetryPolicy::All, 0);
        assert_eq!(
            control.refusals_suffix(),
            ", 2 refused; the run ends if a node refuses all requests for 1 min"
        );
    }
}
