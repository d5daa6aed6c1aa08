//! When the next request may be sent: after the waits that nodes ask for, and not after the run was asked to end.

use crate::failure::Failure;
use faultline_command::clock;
use faultline_command::output::say;
use faultline_text::time;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// A request that is refused for its rate is tried so often again.
const MOST_REFUSALS: u32 = 8;
/// One that finds no connection or is answered with a server's error is tried so often again: it may be the request.
const MOST_ERRORS: u32 = 3;
/// A node that has refused all requests for so long when one is given up ends the run.
const MAX_REFUSAL_TIME: Duration = Duration::from_secs(60);
/// The first wait after a refusal; each further one is twice as long. What a node asks for is waited, if it is longer.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait that no node asked for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// A node that asks for a longer wait than this ends the run.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
/// The shortest pause that is reported.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// Whether the run is to end is looked at so often.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The runtime's timers are that exact; from there on who waits does so actively.
const TIMER: Duration = Duration::from_millis(2);

/// What all who send requests have in common.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nothing is sent before: a node asked for fewer requests.
    resume: Cell<Duration>,
    /// In an open loop, by node ([`Plan::node`](crate::plan::Plan::node)): nothing is sent there before.
    not_before: RefCell<BTreeMap<usize, Duration>>,
    /// By node: since when every request has been refused.
    refusing_since: RefCell<BTreeMap<usize, Duration>>,
    refusals: RefCell<BTreeMap<String, u64>>,
    ended_by: RefCell<Option<String>>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Attempted<T> {
    pub(crate) answer: Result<T, Failure>,
    /// When it was to be sent the last time.
    pub(crate) at: Duration,
    /// How often the node refused it before.
    pub(crate) refused: u32,
}

/// Which refusals are followed by the same request after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// All: in a closed loop.
    All,
    /// Those for the rate: where nothing is known yet of a node.
    Limits,
    /// None: in an open loop.
    None,
}

impl Pace {
    /// No further request is to be sent. The first reason stays.
    pub(crate) fn end(&self, by: String) {
        self.ended_by.borrow_mut().get_or_insert(by);
    }

    /// Why it ends early.
    pub(crate) fn ended_by(&self) -> Option<String> {
        self.ended_by.borrow().clone()
    }

    fn is_over(&self) -> bool {
        self.ended_by.borrow().is_some()
    }

    /// How often nodes refused requests, by kind.
    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        self.refusals.borrow().clone()
    }

    /// Whether a request that was to be sent to that node at `at` is not: the node wants none before a later moment.
    pub(crate) fn holds_back(&self, node: usize, at: Duration) -> bool {
        self.not_before
            .borrow()
            .get(&node)
            .is_some_and(|until| at < *until)
    }

    /// Waits for that moment; whether a request is still to be sent then.
    pub(crate) async fn until(&self, moment: Duration) -> bool {
        loop {
            let left = moment.saturating_sub(clock::uptime());
            if left.is_zero() || self.is_over() {
                return !self.is_over();
            }
            if left > TIMER {
                sleep((left - TIMER).min(POLL_INTERVAL)).await
            } else {
                tokio::task::yield_now().await
            }
        }
    }

    /// Waits for as long as nodes asked for.
    pub(crate) async fn resumed(&self) -> bool {
        self.until(self.resume.get()).await
    }

    /// Sends a request to that node that was to be sent at `at`, and again after a wait if the node refused it and it may be
    /// repeated. `None` if the run ends during the wait.
    pub(crate) async fn attempted<T>(
        &self,
        node: usize,
        mut at: Duration,
        repeat: Repeat,
        mut send: impl AsyncFnMut(Duration) -> Result<T, Failure>,
    ) -> Option<Attempted<T>> {
        let mut refused = 0;
        loop {
            let answer = send(at).await;
            if answer.as_ref().err().is_none_or(Failure::is_answer) {
                self.refusing_since.borrow_mut().remove(&node);
            }
            let Err(failure) = &answer else {
                return Some(Attempted {
                    answer,
                    at,
                    refused,
                });
            };
            let Some(retry_after) = failure.refusal() else {
                return Some(Attempted {
                    answer,
                    at,
                    refused,
                });
            };
            if !self.is_repeated(node, failure, (repeat, refused)) {
                return Some(Attempted {
                    answer,
                    at,
                    refused,
                });
            }
            let own = (FIRST_BACKOFF * 2_u32.pow(refused)).min(LONGEST_BACKOFF);
            let wait = retry_after.unwrap_or_default().max(own);
            self.resume.set(later(self.resume.get(), wait, failure));
            refused += 1;
            if !self.resumed().await {
                return None;
            }
            at = clock::uptime();
        }
    }

    /// Counts a refusal, and decides whether its request is sent again after so many others.
    fn is_repeated(&self, node: usize, failure: &Failure, (repeat, before): (Repeat, u32)) -> bool {
        *self
            .refusals
            .borrow_mut()
            .entry(failure.kind())
            .or_default() += 1;
        let retry_after = failure.refusal().flatten();
        if let Some(retry_after) = retry_after.filter(|retry_after| *retry_after > MAX_RETRY_AFTER)
        {
            self.end(format!(
                "a node that wants no requests for {}",
                time(retry_after)
            ));
            return false;
        }
        let now = clock::uptime();
        let is_limit = matches!(failure, Failure::RateLimited(_));
        let most = if is_limit { MOST_REFUSALS } else { MOST_ERRORS };
        match repeat {
            Repeat::None => {
                // Who names no wait wants none: what is due already was held up by the node, and is sent.
                if let Some(retry_after) = retry_after.filter(|retry_after| !retry_after.is_zero())
                {
                    let mut not_before = self.not_before.borrow_mut();
                    let known = not_before.entry(node).or_default();
                    *known = later(*known, retry_after, failure);
                }
                return false;
            }
            Repeat::Limits if !is_limit => return false,
            _ => {}
        }
        let since = *self.refusing_since.borrow_mut().entry(node).or_insert(now);
        if before >= most && now.saturating_sub(since) >= MAX_REFUSAL_TIME {
            self.end(format!(
                "a node that has refused all requests for {}: {failure}",
                time(now.saturating_sub(since))
            ));
        }
        before < most
    }
}

/// When requests may be sent again, after `known` and after another wait. The user is told of a wait that adds much.
fn later(known: Duration, wait: Duration, failure: &Failure) -> Duration {
    let now = clock::uptime();
    let until = known.max(now + wait);
    if until - known.max(now) >= LONG_PAUSE {
        say(&format!("{failure}: no requests for {}", time(wait)));
    }
    until
}
