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

/// In nanoseconds. Sums and differences of i128 cannot overflow, whatever the times are.
const SECOND: i128 = 1_000_000_000;

/// A second is settled (no more points are expected for it) once a push is this many seconds newer.
/// Points are written shortly after their creation.
const SETTLE_SECONDS: i128 = 2;

/// In nanoseconds. A gap that exceeds the reported age by more than this is a missed push. The
/// agent reports whole seconds and wakes irregularly.
const MAX_INTERVAL_ERROR: i128 = 3 * SECOND;

/// Maximum delay of a push in nanoseconds. The validator gives up a push that takes longer.
const MAX_PUSH_DELAY: i128 = 5 * SECOND;

const PUSH_INTERVAL: i128 = 10 * SECOND;

/// The wall clock may drift from the monotonic clock by one part in this many without being set.
const MAX_DRIFT_DIVISOR: i128 = 100;

/// Maximum unsettled seconds (over an hour).
const MAX_UNSETTLED_SECONDS: usize = 4096;

#[derive(Clone, Copy)]
pub struct PushTimes {
    /// By the validator's clock, in Unix nanoseconds.
    pub created: i128,
    /// By the monotonic clock, in nanoseconds since the daemon started; negative before that.
    pub arrived: i128,
}

impl PushTimes {
    pub fn new(created: i64, at: Stamp) -> Self {
        PushTimes {
            created: created.into(),
            arrived: at.uptime.as_nanos() as i128,
        }
    }
}

/// The last push that an earlier run of the daemon received.
#[derive(Clone, Copy)]
pub struct LastPush {
    pub process: ProcessId,
    pub at: PushTimes,
}

#[derive(Clone, Copy)]
pub struct PushEnd {
    pub at: PushTimes,
    /// Seconds since the validator's previous push, by its own monotonic clock.
    pub since: u64,
    /// False if the push cannot show transactions, because they are filtered out.
    pub unfiltered: bool,
}

#[derive(Clone, Default)]
pub struct Coverage {
    /// `None` before the first push of this process.
    first: Option<PushEnd>,
    newest: Option<PushTimes>,
    /// Minimum of arrival minus creation, in nanoseconds. A much smaller value means that the wall
    /// clock was set.
    min_delay: Option<i128>,
    /// Transactions by unsettled second.
    unsettled: BTreeMap<i128, u64>,
    /// The next second to settle; `None` before the first execution.
    next: Option<i128>,
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
            KnownPoint::CostTracker(cost) => {
                self.transactions(time.into(), delta(cost.transaction_count))
            }
            KnownPoint::ReplaySlot(replay) => {
                self.transactions(time.into(), delta(replay.total_transactions))
            }
            _ => {}
        }
    }

    pub fn transactions(&mut self, time: i128, count: u64) {
        let second = time.div_euclid(SECOND);
        // Settled seconds never change. Before the first execution no second is settled.
        if count == 0 || self.next.is_some_and(|next| second < next) {
            return;
        }
        if self.unsettled.len() < MAX_UNSETTLED_SECONDS || self.unsettled.contains_key(&second) {
            add(self.unsettled.entry(second).or_default(), count);
        }
    }

    /// Counts a push. Returns true if the validator's clock was set since the previous one.
    pub fn push(&mut self, push: PushEnd) -> bool {
        self.first.get_or_insert(push);
        let (at, since) = (push.at, i128::from(push.since) * SECOND);
        let Some(before) = self.newest else {
            self.advance_to(at);
            self.settle_seconds(at.created, at.created, push.unfiltered);
            return false;
        };
        if self.clock_was_set(before, at, since) {
            let waited = at.arrived - before.arrived - since;
            if waited > MAX_PUSH_DELAY {
                self.count_missed_pushes(waited);
            }
            self.restart_counting(at);
            return true;
        }
        if at.created <= before.created {
            return false;
        }
        self.advance_to(at);
        let interval_start = at.created - since;
        let gap = interval_start - before.created;
        if gap > MAX_INTERVAL_ERROR {
            self.count_missed_pushes(gap);
            self.settle_seconds(before.created, at.created, push.unfiltered);
            // Seconds up to `interval_start` are unknown, unless points arrived for them.
            let until = interval_start + SETTLE_SECONDS * SECOND;
            self.settle_seconds(until, interval_start, false);
        }
        self.settle_seconds(at.created, at.created, push.unfiltered);
        false
    }

    /// Call it when the log was read up to `at`. The log has no gaps, because the follower reports
    /// lost text. Returns true if the validator's clock was set since the previous lines.
    pub fn log_reached(&mut self, at: PushTimes) -> bool {
        if self
            .newest
            .is_some_and(|before| self.clock_was_set(before, at, 0))
        {
            self.restart_counting(at);
            return true;
        }
        if self.newest.is_none_or(|newest| at.created > newest.created) {
            self.advance_to(at);
            self.settle_seconds(at.created, at.created, true);
        }
        false
    }

    /// Starts a new process but keeps the counts. Seconds before its first execution do not count.
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

    /// Continues after the last push that an earlier run of the daemon received. Pushes that are
    /// missing since then count as missed.
    pub fn resume(&mut self, last: PushTimes) {
        self.advance_to(last);
    }

    /// Merges data of the time before the sender was known to be the followed process. Seconds
    /// without execution between the two do not count.
    pub fn merge_pending(&mut self, pending: Coverage) {
        let follows = |first: &PushEnd| {
            self.newest
                .is_none_or(|newest| newest.created < first.at.created)
        };
        let Some(first) = pending.first.filter(follows) else {
            return;
        };
        // Advances only to the first pending push, to count the pushes missing before it. The
        // pending data already has the earlier executions.
        self.unsettled.clear();
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

    /// True if the clock was set between two moments that are at least `since` nanoseconds apart.
    fn clock_was_set(&self, before: PushTimes, at: PushTimes, since: i128) -> bool {
        let passed = at.created - before.created - since;
        // Two pushes that are read together, as after a stall, may be read in the wrong order.
        let in_order = at.arrived - before.arrived + MAX_PUSH_DELAY >= since;
        let back = passed < -MAX_INTERVAL_ERROR && in_order;
        let delay = at.arrived - at.created;
        let forward = passed > MAX_INTERVAL_ERROR
            && self
                .min_delay
                .is_some_and(|least| delay - least < -MAX_INTERVAL_ERROR);
        back || forward
    }

    fn count_missed_pushes(&mut self, gap: i128) {
        let missed = u64::try_from((gap + PUSH_INTERVAL / 2) / PUSH_INTERVAL);
        add(&mut self.pushes_missed, missed.unwrap_or(0).max(1));
    }

    fn advance_to(&mut self, at: PushTimes) {
        let delay = at.arrived - at.created;
        let waited = self
            .newest
            .map_or(0, |before| (at.arrived - before.arrived).max(0));
        // The minimum may grow slowly, because the wall clock may be slewed.
        self.min_delay = Some(
            self.min_delay
                .map_or(delay, |least| delay.min(least + waited / MAX_DRIFT_DIVISOR)),
        );
        self.newest = Some(at);
    }

    /// Restarts counting after the clock was set: skipped seconds may not have existed, and others
    /// may come twice.
    fn restart_counting(&mut self, at: PushTimes) {
        let executed = self.next.is_some() || !self.unsettled.is_empty();
        self.unsettled.clear();
        self.next = executed.then(|| at.created.div_euclid(SECOND) + 1);
        (self.newest, self.min_delay) = (None, None);
        self.advance_to(at);
    }

    /// Settles the seconds that end before `until`. The first execution may not be later than
    /// `now`. Both are Unix nanoseconds.
    fn settle_seconds(&mut self, until: i128, now: i128, unfiltered: bool) {
        let end = until.div_euclid(SECOND) - SETTLE_SECONDS;
        if self.next.is_none() {
            let first = self.unsettled.keys().next().copied();
            self.next = first.filter(|first| *first <= now.div_euclid(SECOND));
        }
        let Some(next) = self.next else { return };
        if end <= next {
            return;
        }
        let busy = self.unsettled.range(next..end).count() as u64;
        self.unsettled = self.unsettled.split_off(&end);
        let idle = u64::try_from(end - next).unwrap_or(0).saturating_sub(busy);
        let idle_seconds = if unfiltered {
            &mut self.zero_seconds
        } else {
            &mut self.unknown_seconds
        };
        add(idle_seconds, idle);
        self.next = Some(end);
    }
}

#[cfg(test)]
mod tests;
