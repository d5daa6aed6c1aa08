//! When the next request may be sent: after the waits that nodes ask for, and not after the run was asked to end.

use crate::failure::Failure;
use faultline_command::clock;
use faultline_text::time;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::time::sleep;

/// A request that is refused for its rate is tried so often again.
const MOST_REFUSALS: u32 = 8;
/// The first wait after a refusal; each further one is twice as long. What a node asks for is waited, if it is longer.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait that no node asked for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// A node that asks for a longer wait than this ends the run.
const LONGEST_WISH: Duration = Duration::from_secs(300);
/// Whether the run is to end is looked at so often.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The runtime's timers are that exact; from there on who waits does so actively.
const TIMER: Duration = Duration::from_millis(2);

/// What all who send requests have in common.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nothing is sent before: a node asked for fewer requests.
    resume: Cell<Duration>,
    refused: Cell<u64>,
    ended_by: RefCell<Option<String>>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    pub(crate) answer: Result<T, Failure>,
    /// When it was to be sent the last time.
    pub(crate) at: Duration,
    /// How often the node refused it for its rate before.
    pub(crate) refused: u32,
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

    /// How often nodes refused requests for their rate.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Waits for that moment; whether a request is still to be sent then.
    pub(crate) async fn until(&self, moment: Duration) -> bool {
        loop {
            let left = moment.saturating_sub(clock::uptime());
            if left.is_zero() || self.is_over() {
                return !self.is_over();
            }
            if left > TIMER { sleep((left - TIMER).min(LOOK)).await } else { tokio::task::yield_now().await }
        }
    }

    /// Waits for as long as nodes asked for.
    pub(crate) async fn resumed(&self) -> bool {
        self.until(self.resume.get()).await
    }

    /// Sends a request that was to be sent at `at`, and again after a wait if the node refused it for its rate and it may be
    /// repeated. `None` if the run ends during the wait.
    pub(crate) async fn asked<T>(
        &self,
        mut at: Duration,
        may_repeat: bool,
        mut send: impl AsyncFnMut(Duration) -> Result<T, Failure>,
    ) -> Option<Asked<T>> {
        let mut refused = 0;
        loop {
            let answer = send(at).await;
            let Err(Failure::RateLimited(wish)) = answer else { return Some(Asked { answer, at, refused }) };
            self.refused.set(self.refused.get() + 1);
            if let Some(wish) = wish.filter(|wish| *wish > LONGEST_WISH) {
                self.end(format!("a node that wants no requests for {}", time(wish)));
                return Some(Asked { answer, at, refused });
            }
            if !may_repeat || refused == MOST_REFUSALS {
                return Some(Asked { answer, at, refused });
            }
            let own = (FIRST_BACKOFF * 2_u32.pow(refused)).min(LONGEST_BACKOFF);
            let wait = wish.unwrap_or_default().max(own);
            self.resume.set(self.resume.get().max(clock::uptime() + wait));
            refused += 1;
            if !self.resumed().await {
                return None;
            }
            at = clock::uptime();
        }
    }
}
