//! What arrived and what did not: missed pushes, and seconds without transactions or without data.

use super::tally::add;
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// A point is created shortly before it is written; a second is settled only when the push is this much younger.
const SETTLE: i64 = 2;

/// The agent says whole seconds and wakes at its own pace: a gap this much longer than it says is a missed push.
const SLACK: i64 = 3 * SECOND;

/// Pushes are about this far apart.
const PERIOD: i64 = 10 * SECOND;

/// At most this many seconds wait to be settled (over an hour).
const MOST_OPEN: usize = 4096;

/// Follows the pushes of one process by their `metrics` points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// Timestamp of the newest `metrics` point.
    newest: Option<i64>,
    /// Transactions by second, of seconds not settled yet.
    open: BTreeMap<i64, u64>,
    /// The next second to settle; `None` before the first execution.
    next: Option<i64>,
    /// Seconds in which nothing is known to have happened; only from the first execution on.
    pub zero_seconds: u64,
    /// Seconds of which nothing arrived; only from the first execution on.
    pub unknown_seconds: u64,
    /// Pushes that never arrived.
    pub pushes_missed: u64,
}

impl Coverage {
    /// Transactions were executed at `time`, in Unix nanoseconds.
    pub fn transactions(&mut self, time: i64, count: u64) {
        let second = time.div_euclid(SECOND);
        // Before the first execution nothing is settled; after it, what is settled stays settled.
        if count == 0 || self.next.is_some_and(|next| second < next) {
            return;
        }
        if self.open.len() < MOST_OPEN || self.open.contains_key(&second) {
            add(self.open.entry(second).or_default(), count);
        }
    }

    /// A push ended: its `metrics` point was made at `time` and says that the push before was `since` seconds ago.
    /// `readable` is false if the push cannot tell whether there were transactions, because they are filtered out.
    pub fn push(&mut self, time: i64, since: u64, readable: bool) {
        let Some(before) = self.newest else {
            self.newest = Some(time);
            self.settle(time, time, readable);
            return;
        };
        if time <= before {
            return;
        }
        self.newest = Some(time);
        let begins = time.saturating_sub(i64::try_from(since).unwrap_or(i64::MAX).saturating_mul(SECOND));
        let gap = begins.saturating_sub(before);
        if gap > SLACK {
            add(&mut self.pushes_missed, u64::try_from(gap.saturating_add(PERIOD / 2) / PERIOD).unwrap_or(0).max(1));
            self.settle(before, time, readable);
            self.skip_to(begins);
        }
        self.settle(time, time, readable);
    }

    /// The log was read up to lines of `time`: it has no gaps of its own, since the follower tells of lost text.
    pub fn log_reached(&mut self, time: i64) {
        if self.newest.is_none_or(|newest| time > newest) {
            self.newest = Some(time);
            self.settle(time, time, true);
        }
    }

    /// Another process begins: what it has not executed yet is neither zero nor unknown. The counts stay.
    pub fn restart(&mut self) {
        (self.newest, self.next) = (None, None);
        self.open.clear();
    }

    /// Settles the seconds that lie wholly before `until`; `now` bounds where the first execution may lie.
    fn settle(&mut self, until: i64, now: i64, readable: bool) {
        let end = until.div_euclid(SECOND) - SETTLE;
        if self.next.is_none() {
            let first = self.open.keys().next().copied().filter(|first| *first <= now.div_euclid(SECOND));
            self.next = first;
        }
        let Some(next) = self.next else { return };
        if end <= next {
            return;
        }
        let busy = self.open.range(next..end).count() as u64;
        self.open = self.open.split_off(&end);
        let idle = u64::try_from(end - next).unwrap_or(0).saturating_sub(busy);
        if readable {
            add(&mut self.zero_seconds, idle);
        } else {
            add(&mut self.unknown_seconds, idle);
        }
        self.next = Some(end);
    }

    /// The seconds up to `begins` are unknown, but for those of which points came all the same.
    fn skip_to(&mut self, begins: i64) {
        self.settle(begins.saturating_add(SETTLE * SECOND), begins, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> i64 {
        second * SECOND
    }

    #[test]
    fn seconds_without_transactions_count_from_the_first_execution_on() {
        let mut coverage = Coverage::default();
        coverage.push(at(100), 10, true);
        coverage.transactions(at(104), 5);
        coverage.transactions(at(106), 5);
        coverage.push(at(110), 10, true);
        assert_eq!(coverage.zero_seconds, 2, "105 and 107; 108 and 109 are not settled yet");
        coverage.push(at(120), 10, true);
        assert_eq!(coverage.zero_seconds, 12);
        assert_eq!((coverage.unknown_seconds, coverage.pushes_missed), (0, 0));
    }

    #[test]
    fn a_missed_push_makes_its_seconds_unknown_and_not_zero() {
        let mut coverage = Coverage::default();
        coverage.push(at(100), 10, true);
        coverage.transactions(at(100), 1);
        coverage.push(at(110), 10, true);
        let zero = coverage.zero_seconds;
        coverage.push(at(140), 10, true);
        assert_eq!(coverage.pushes_missed, 2);
        assert_eq!(coverage.unknown_seconds, 22, "108 to 129");
        assert_eq!(coverage.zero_seconds, zero + 8, "130 to 137");
    }

    #[test]
    fn pushes_that_filter_transactions_out_say_nothing() {
        let mut coverage = Coverage::default();
        coverage.transactions(at(100), 1);
        coverage.push(at(110), 10, true);
        coverage.push(at(120), 10, false);
        assert_eq!((coverage.zero_seconds, coverage.unknown_seconds), (7, 10));
    }

    #[test]
    fn a_restart_begins_again_at_the_next_execution() {
        let mut coverage = Coverage::default();
        coverage.transactions(at(100), 1);
        coverage.push(at(110), 10, true);
        coverage.restart();
        coverage.push(at(500), 10, true);
        coverage.transactions(at(505), 1);
        coverage.push(at(510), 10, true);
        assert_eq!((coverage.zero_seconds, coverage.unknown_seconds, coverage.pushes_missed), (9, 0, 0));
    }

    proptest! {
        #[test]
        fn every_second_is_counted_at_most_once_and_counts_never_fall(
            pushes in proptest::collection::vec((0i64..400, 0u64..30, proptest::collection::vec((0i64..400, 0u64..3), 0..6)), 1..40)
        ) {
            let mut coverage = Coverage::default();
            let (mut zero, mut unknown, mut missed) = (0, 0, 0);
            for (time, since, points) in pushes {
                for (second, count) in points {
                    coverage.transactions(at(second), count);
                }
                coverage.push(at(time), since, true);
                prop_assert!(coverage.zero_seconds >= zero && coverage.unknown_seconds >= unknown && coverage.pushes_missed >= missed);
                (zero, unknown, missed) = (coverage.zero_seconds, coverage.unknown_seconds, coverage.pushes_missed);
                prop_assert!(zero + unknown <= 400);
            }
        }
    }
}
