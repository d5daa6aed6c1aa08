//! Counts missed pushes, and seconds without transactions or without data.
//!
//! Points carry the validator's wall clock, which may be set. Monotonic clocks give the real time
//! between two pushes: the validator reports the age of its previous push, and the daemon stamps
//! each arrival. If the wall clock disagrees it was set, and counting restarts from there.

use super::tally::{add, delta};
use faultline_agave::points::KnownPoint;
use faultline_kernel::ProcessId;
use faultline_metrics::Stamp;
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// A point is created shortly before it is written. A second is settled once a push is this many
/// seconds newer.
const SETTLE: i64 = 2;

/// The agent reports whole seconds and wakes irregularly: a gap that exceeds the reported one by
/// this is a missed push.
const SLACK: i64 = 3 * SECOND;

/// Maximum delay of a push: then the validator gives it up.
const DELAY: i64 = 5 * SECOND;

const PERIOD: i64 = 10 * SECOND;

/// The wall clock may drift from the monotonic one by 1/SLEW without being set.
const SLEW: i64 = 100;

/// Maximum unsettled seconds (over an hour).
const MOST_OPEN: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushTimes {
    /// By the validator's clock, in Unix nanoseconds.
    pub made: i64,
    /// By the monotonic clock, in nanoseconds since the daemon started; negative before that.
    pub arrived: i64,
}

impl PushTimes {
    pub fn of_log(made: i64, at: Stamp) -> Self {
        PushTimes {
            made,
            arrived: i64::try_from(at.uptime.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The last push that an earlier run of the daemon received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastPush {
    pub process: ProcessId,
    pub at: PushTimes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushEnd {
    pub at: PushTimes,
    /// Seconds since the validator's previous push, by its own monotonic clock.
    pub since: u64,
    /// False if the push cannot show transactions, because they are filtered out.
    pub readable: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// `None` before the first push of this process.
    first: Option<PushEnd>,
    newest: Option<PushTimes>,
    /// Minimum of arrival minus creation. A push is only faster if the wall clock was set.
    least_delay: Option<i64>,
    /// Transactions by unsettled second.
    open: BTreeMap<i64, u64>,
    /// The next second to settle; `None` before the first execution.
    next: Option<i64>,
    /// Seconds without transactions, counted from the first execution on.
    pub zero_seconds: u64,
    /// Seconds without data, counted from the first execution on.
    pub unknown_seconds: u64,
    pub pushes_missed: u64,
}

impl Coverage {
    /// A point created at `time`, in Unix nanoseconds.
    pub fn point(&mut self, known: &KnownPoint, time: i64) {
        match known {
            KnownPoint::CostTracker(cost) => self.transactions(time, delta(cost.transaction_count)),
            KnownPoint::ReplaySlot(replay) => {
                self.transactions(time, delta(replay.total_transactions))
            }
            _ => {}
        }
    }

    pub fn transactions(&mut self, time: i64, count: u64) {
        let second = time.div_euclid(SECOND);
        // Nothing is settled before the first execution; settled seconds never change.
        if count == 0 || self.next.is_some_and(|next| second < next) {
            return;
        }
        if self.open.len() < MOST_OPEN || self.open.contains_key(&second) {
            add(self.open.entry(second).or_default(), count);
        }
    }

    /// True if the validator's clock was set since the previous push.
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

    /// The log was read up to this moment. It has no gaps of its own, because the follower reports
    /// lost text. True if the validator's clock was set since the previous lines.
    pub fn log_reached(&mut self, at: PushTimes) -> bool {
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

    /// For a new process: seconds before its first execution do not count. The counts stay.
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

    /// The process was followed before this daemon started, up to this push: pushes missing since
    /// then count as missed.
    pub fn resume(&mut self, last: PushTimes) {
        self.reach(last);
    }

    /// Merges data from before the sender was known to be the followed process. The seconds between
    /// both without execution do not count.
    pub fn adopt(&mut self, pending: Coverage) {
        let follows =
            |first: &PushEnd| self.newest.is_none_or(|newest| newest.made < first.at.made);
        let Some(first) = pending.first.filter(follows) else {
            return;
        };
        // Only up to its first push, to count what is missing before it. Its own seconds include
        // earlier executions.
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

    /// Compares two moments that are at least `since` nanoseconds apart.
    fn clock_was_set(&self, before: PushTimes, at: PushTimes, since: i64) -> bool {
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

    fn reach(&mut self, at: PushTimes) {
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

    /// After the clock was set, counting restarts: the skipped seconds may never have existed, or
    /// come twice.
    fn begin_anew(&mut self, at: PushTimes) {
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

    /// Seconds up to `begins` are unknown, unless points arrived for them.
    fn skip_to(&mut self, begins: i64) {
        self.settle(begins.saturating_add(SETTLE * SECOND), begins, false);
    }
}

#[cfg(test)]
mod tests;
