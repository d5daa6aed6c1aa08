//! What arrived and what did not: missed pushes, and seconds without transactions or without data.
//!
//! Points carry the validator's wall clock, which may be set. How much time passed between two pushes is known on clocks
//! that cannot: the validator says how long ago its previous push was, and the daemon when each push arrived. Where the
//! wall clock does not fit them it was set, and the seconds are counted from there on anew.

use super::tally::{add, delta};
use faultline_agave::points::Known;
use faultline_catalog::Stamp;
use faultline_kernel::ProcessId;
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// A point is created shortly before it is written; a second is settled only when the push is this much younger.
const SETTLE: i64 = 2;

/// The agent says whole seconds and wakes at its own pace: a gap this much longer than it says is a missed push.
const SLACK: i64 = 3 * SECOND;

/// A push arrives at most this long after it was made, or the validator gives it up.
const DELAY: i64 = 5 * SECOND;

/// Pushes are about this far apart.
const PERIOD: i64 = 10 * SECOND;

/// The wall clock may run faster or slower than the monotonic one by one part in so many without being set.
const SLEW: i64 = 100;

/// At most this many seconds wait to be settled (over an hour).
const MOST_OPEN: usize = 4096;

/// When a push was made and when it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By the validator's clock, in Unix nanoseconds.
    pub made: i64,
    /// By the monotonic clock, in nanoseconds since the daemon started; negative before that.
    pub arrived: i64,
}

impl Moment {
    /// Made at `made` and heard at `at`.
    pub fn heard(made: i64, at: Stamp) -> Self {
        Moment {
            made,
            arrived: i64::try_from(at.uptime.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The last push that an earlier run of the daemon took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastPush {
    pub process: ProcessId,
    pub at: Moment,
}

/// The end of a push, as its `metrics` point tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushEnd {
    pub at: Moment,
    /// How many seconds before that the validator sent the previous push, by its own monotonic clock.
    pub since: u64,
    /// False if the push cannot tell whether there were transactions, because they are filtered out.
    pub readable: bool,
}

/// Follows the pushes of one process by their `metrics` points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// The first push of this process; `None` before it.
    first: Option<PushEnd>,
    /// The newest push or line of the log.
    newest: Option<Moment>,
    /// Arrival minus making of the push that took least: no push takes less unless the wall clock was set.
    least_delay: Option<i64>,
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
    /// A point came that was made at `time`, in Unix nanoseconds.
    pub fn point(&mut self, known: &Known, time: i64) {
        match known {
            Known::CostTracker(cost) => self.transactions(time, delta(cost.transaction_count)),
            Known::ReplaySlot(replay) => self.transactions(time, delta(replay.total_transactions)),
            _ => {}
        }
    }

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

    /// A push ended. True if the validator's clock was set since the push before.
    pub fn push(&mut self, push: PushEnd) -> bool {
        self.first.get_or_insert(push);
        let (at, since) = (
            push.at,
            i64::try_from(push.since)
                .unwrap_or(i64::MAX)
                .saturating_mul(SECOND),
        );
        let Some(before) = self.newest else {
            self.reach(at);
            self.settle(at.made, at.made, push.readable);
            return false;
        };
        if self.clock_was_set(before, at, since) {
            let waited = at
                .arrived
                .saturating_sub(before.arrived)
                .saturating_sub(since);
            if waited > DELAY {
                self.miss(waited);
            }
            self.begin_anew(at);
            return true;
        }
        if at.made <= before.made {
            return false;
        }
        self.reach(at);
        let begins = at.made.saturating_sub(since);
        let gap = begins.saturating_sub(before.made);
        if gap > SLACK {
            self.miss(gap);
            self.settle(before.made, at.made, push.readable);
            self.skip_to(begins);
        }
        self.settle(at.made, at.made, push.readable);
        false
    }

    /// The log was read up to lines of that moment: it has no gaps of its own, since the follower tells of lost text. True
    /// if the validator's clock was set since the lines before.
    pub fn log_reached(&mut self, at: Moment) -> bool {
        if self
            .newest
            .is_some_and(|before| self.clock_was_set(before, at, 0))
        {
            self.begin_anew(at);
            return true;
        }
        if self.newest.is_none_or(|newest| at.made > newest.made) {
            self.reach(at);
            self.settle(at.made, at.made, true);
        }
        false
    }

    /// Another process begins: what it has not executed yet is neither zero nor unknown. The counts stay.
    pub fn restart(&mut self) {
        let Coverage {
            zero_seconds,
            unknown_seconds,
            pushes_missed,
            ..
        } = *self;
        *self = Coverage {
            zero_seconds,
            unknown_seconds,
            pushes_missed,
            ..Coverage::default()
        };
    }

    /// The followed process was followed before this daemon started, up to a push of that moment: pushes missing since
    /// then are missed.
    pub fn resume(&mut self, last: Moment) {
        self.reach(last);
    }

    /// Takes over what came before it was known that the sender is the followed process. It goes on where this ends: the seconds
    /// between them in which it executed nothing do not count.
    pub fn adopt(&mut self, pending: Coverage) {
        let follows =
            |first: &PushEnd| self.newest.is_none_or(|newest| newest.made < first.at.made);
        let Some(first) = pending.first.filter(follows) else {
            return;
        };
        // Up to its first push, for what is missing before it. What was executed until then is among its own seconds.
        self.open.clear();
        let next = self.next.take();
        self.push(first);
        let sum = |mine: u64, theirs: u64| mine.saturating_add(theirs);
        *self = Coverage {
            zero_seconds: sum(self.zero_seconds, pending.zero_seconds),
            unknown_seconds: sum(self.unknown_seconds, pending.unknown_seconds),
            pushes_missed: sum(self.pushes_missed, pending.pushes_missed),
            first: self.first,
            next: pending.next.or(next),
            ..pending
        };
    }

    /// Whether the wall clock was set between two moments, `since` nanoseconds apart or more.
    fn clock_was_set(&self, before: Moment, at: Moment, since: i64) -> bool {
        let passed = at.made.saturating_sub(before.made).saturating_sub(since);
        // Two pushes that are read together, as after a stall, may be read in the wrong order.
        let in_order = at
            .arrived
            .saturating_sub(before.arrived)
            .saturating_add(DELAY)
            >= since;
        let back = passed < -SLACK && in_order;
        let delay = at.arrived.saturating_sub(at.made);
        let forward = passed > SLACK
            && self
                .least_delay
                .is_some_and(|least| delay.saturating_sub(least) < -SLACK);
        back || forward
    }

    fn miss(&mut self, gap: i64) {
        add(
            &mut self.pushes_missed,
            u64::try_from(gap.saturating_add(PERIOD / 2) / PERIOD)
                .unwrap_or(0)
                .max(1),
        );
    }

    fn reach(&mut self, at: Moment) {
        let delay = at.arrived.saturating_sub(at.made);
        let waited = self
            .newest
            .map_or(0, |before| at.arrived.saturating_sub(before.arrived).max(0));
        // It may grow slowly, as a wall clock does that is slewed.
        self.least_delay = Some(self.least_delay.map_or(delay, |least| {
            delay.min(least.saturating_add(waited / SLEW))
        }));
        self.newest = Some(at);
    }

    /// The clock was set: seconds from now on are counted, those that it was set over are not, for they may never have been
    /// or come twice.
    fn begin_anew(&mut self, at: Moment) {
        let executed = self.next.is_some() || !self.open.is_empty();
        self.open.clear();
        self.next = executed.then(|| at.made.div_euclid(SECOND).saturating_add(1));
        (self.newest, self.least_delay) = (None, None);
        self.reach(at);
    }

    /// Settles the seconds that lie wholly before `until`; `now` bounds where the first execution may lie.
    fn settle(&mut self, until: i64, now: i64, readable: bool) {
        let end = until.div_euclid(SECOND) - SETTLE;
        if self.next.is_none() {
            let first = self
                .open
                .keys()
                .next()
                .copied()
                .filter(|first| *first <= now.div_euclid(SECOND));
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
mod tests;
