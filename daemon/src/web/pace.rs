//! A rate limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum actions per span, for all clients together.
#[derive(Debug)]
pub(super) struct RateLimit {
    most: u32,
    span: Duration,
    /// Start of the span, and the actions in it.
    done: Mutex<(Duration, u32)>,
}

impl RateLimit {
    pub(super) fn new(most: u32, span: Duration) -> Self {
        RateLimit {
            most,
            span,
            done: Mutex::new((Duration::ZERO, 0)),
        }
    }

    /// Counts the action if true.
    pub(super) fn allows(&self, now: Duration) -> bool {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(done.0) >= self.span {
            *done = (now, 0);
        }
        let allowed = done.1 < self.most;
        done.1 += u32::from(allowed);
        allowed
    }

    /// Refunds a permitted action that was not done.
    pub(super) fn give_back(&self) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.1 = done.1.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_often_in_a_span_and_then_again_in_the_next() {
        let at = Duration::from_secs;
        let pace = RateLimit::new(2, at(60));
        let allowed = [1, 2, 3, 59, 60, 61, 119, 120].map(|second| pace.allows(at(second)));
        assert_eq!(allowed, [true, true, false, false, true, true, false, true]);
        pace.give_back();
        assert_eq!(
            [
                pace.allows(at(121)),
                pace.allows(at(122)),
                pace.allows(at(123))
            ],
            [true, true, false]
        );
    }
}
