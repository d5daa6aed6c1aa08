use std::time::Duration;

/// A token bucket: allows a burst of actions, then one per `interval`. Times are uptimes.
#[derive(Debug)]
pub struct RateLimit {
    burst: u32,
    interval: Duration,
    /// When the whole burst is available again.
    full_at: Duration,
}

impl RateLimit {
    /// `burst` is at least 1.
    pub const fn with_burst(burst: u32, interval: Duration) -> Self {
        Self {
            burst,
            interval,
            full_at: Duration::ZERO,
        }
    }

    /// Zero if the next action is allowed now.
    pub fn time_until_allowed(&self, now: Duration) -> Duration {
        let used = self.full_at.saturating_sub(now);
        used.saturating_sub(self.interval * (self.burst - 1))
    }

    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }

    /// Counts an action, whether it is allowed or not.
    pub fn count(&mut self, now: Duration) {
        self.full_at = self.full_at.max(now) + self.interval;
    }

    /// Counts an action only if it is allowed, and returns whether it is.
    pub fn try_take(&mut self, now: Duration) -> bool {
        let allowed = self.time_until_allowed(now).is_zero();
        if allowed {
            self.count(now);
        }
        allowed
    }

    /// Removes the last counted action.
    pub fn refund(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_the_rate_limit_allows_one_per_interval() {
        let at = Duration::from_secs;
        let mut limit = RateLimit::with_burst(2, at(30));
        let allowed = [1, 2, 3, 30, 31, 32, 61, 200, 201, 202].map(|now| limit.try_take(at(now)));
        let expected = [
            true, true, false, false, true, false, true, true, true, false,
        ];
        assert_eq!(allowed, expected);
        assert_eq!(limit.time_until_allowed(at(202)), at(28));
        limit.refund();
        assert_eq!(
            [203, 204].map(|now| limit.try_take(at(now))),
            [true, false],
            "one was given back"
        );
        assert!(!limit.is_full(at(259)) && limit.is_full(at(260)));
    }
}
