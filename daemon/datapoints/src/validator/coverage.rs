//! Counts missed pushes, and seconds without transactions or without data.
//!
//! Points carry the validator's wall clock, which may be set. Monotonic clocks give the real time
//! between two pushes: the validator reports the age of its previous push, and the daemon stamps
//! each arrival. If the wall clock disagrees, it was set: counting restarts.

use super::tally::{add, delta_or_zero};
use faultline_agave::points::KnownPoint;
use faultline_kernel::ProcessId;
use faultline_metrics::Stamp;
use std::collections::BTreeMap;

/// In nanoseconds. Sums and differences of i128 cannot overflow, whatever the times are.
const SECOND: i128 = 1_000_000_000;

/// A second is settled (no more points are expected for it) once a push is this many seconds newer.
/// Points are written shortly after their creation.
const SETTLE_SECONDS: i128 = 2;

/// In nanoseconds. A push is missed if two pushes are further apart than the reported age plus
/// this time. The validator reports whole seconds, and does not push exactly every ten.
const MAX_INTERVAL_ERROR: i128 = 3 * SECOND;

/// Maximum delay of a push in nanoseconds. The validator gives up a push that takes longer.
const MAX_PUSH_DELAY: i128 = 5 * SECOND;

const PUSH_INTERVAL: i128 = 10 * SECOND;

/// The wall clock may drift from the monotonic clock by one second in this many seconds.
const MAX_DRIFT_DIVISOR: i128 = 100;

/// Maximum unsettled seconds (over an hour).
const MAX_UNSETTLED_SECONDS: usize = 4096;

/// When a push, or the newest line of the log, was created and received.
#[derive(Clone, Copy)]
pub struct PushTimes {
    /// By the validator's clock, in Unix nanoseconds.
    pub created: i128,
    /// By the monotonic clock, in nanoseconds since the daemon started; negative before that.
    pub arrived: i128,
}

impl PushTimes {
    pub fn new(created: i64, at: Stamp) -> Self {
        Self {
            created: created.into(),
            arrived: at.uptime.as_nanos() as i128,
        }
    }
}

/// The last push that an earlier run of the daemon received, and its sender.
#[derive(Clone, Copy)]
pub struct LastPush {
    pub process: ProcessId,
    pub times: PushTimes,
}

/// The last point of a push.
#[derive(Clone, Copy)]
pub struct PushEnd {
    pub times: PushTimes,
    /// By the validator's monotonic clock.
    pub seconds_since_previous: u64,
    /// False if the validator's log filter may have removed the transactions.
    pub unfiltered: bool,
}

#[derive(Clone, Default)]
pub struct Coverage {
    /// `None` before the first push of this process.
    first_push: Option<PushEnd>,
    newest: Option<PushTimes>,
    /// Minimum of arrival minus creation, in nanoseconds. A push with a much smaller difference
    /// shows that the wall clock was set forward.
    min_offset: Option<i128>,
    /// Transactions by unsettled second.
    unsettled: BTreeMap<i128, u64>,
    /// The next second to settle; `None` before the first transaction.
    next_second: Option<i128>,
    /// From the first transaction on.
    pub zero_seconds: u64,
    /// From the first transaction on.
    pub unknown_seconds: u64,
    pub pushes_missed: u64,
}

impl Coverage {
    /// A point created at `time`, in Unix nanoseconds.
    pub fn add_point(&mut self, known: &KnownPoint, time: i64) {
        let transactions = match known {
            KnownPoint::CostTracker(cost) => cost.transaction_count,
            KnownPoint::ReplaySlot(replay) => replay.total_transactions,
            _ => return,
        };
        self.add_transactions(time.into(), delta_or_zero(transactions));
    }

    pub fn add_transactions(&mut self, time: i128, count: u64) {
        let second = time.div_euclid(SECOND);
        // Settled seconds never change. Before the first transaction no second is settled.
        if count == 0 || self.next_second.is_some_and(|next| second < next) {
            return;
        }
        if self.unsettled.len() < MAX_UNSETTLED_SECONDS || self.unsettled.contains_key(&second) {
            add(self.unsettled.entry(second).or_default(), count);
        }
    }

    pub fn add_push(&mut self, push: PushEnd) {
        self.first_push.get_or_insert(push);
        let (times, age) = (push.times, i128::from(push.seconds_since_previous) * SECOND);
        let Some(previous) = self.newest else {
            self.advance_to(times);
            return self.settle_seconds(times.created, times.created, push.unfiltered);
        };
        if self.clock_was_set(previous, times, age) {
            let missing_time = times.arrived - previous.arrived - age;
            if missing_time > MAX_PUSH_DELAY {
                self.count_missed_pushes(missing_time);
            }
            return self.restart_counting(times);
        }
        if times.created <= previous.created {
            return;
        }
        self.advance_to(times);
        let interval_start = times.created - age;
        let missing_time = interval_start - previous.created;
        if missing_time > MAX_INTERVAL_ERROR {
            self.count_missed_pushes(missing_time);
            self.settle_seconds(previous.created, times.created, push.unfiltered);
            // Seconds up to `interval_start` are unknown, unless points arrived for them.
            let until = interval_start + SETTLE_SECONDS * SECOND;
            self.settle_seconds(until, interval_start, false);
        }
        self.settle_seconds(times.created, times.created, push.unfiltered);
    }

    /// The log was read up to `times`. Assumes that no line is missing.
    pub fn add_log_time(&mut self, times: PushTimes) {
        if let Some(previous) = self.newest {
            if self.clock_was_set(previous, times, 0) {
                return self.restart_counting(times);
            }
            if times.created <= previous.created {
                return;
            }
        }
        self.advance_to(times);
        self.settle_seconds(times.created, times.created, true);
    }

    /// Forgets the times of a process that has ended. Counts stay. Seconds before the first
    /// transaction of its successor do not count.
    pub fn forget_process(&mut self) {
        *self = Self {
            zero_seconds: self.zero_seconds,
            unknown_seconds: self.unknown_seconds,
            pushes_missed: self.pushes_missed,
            ..Self::default()
        };
    }

    /// Continues after the last push that an earlier run of the daemon received. Pushes that are
    /// missing since then count as missed.
    pub fn resume(&mut self, last: PushTimes) {
        self.advance_to(last);
    }

    /// Merges data of a sender that was pending (see [`super::senders`]), if it is newer. Seconds
    /// without transactions before the first pending transaction do not count.
    pub fn merge_pending(&mut self, pending: Self) {
        let follows = |first: &PushEnd| {
            self.newest
                .is_none_or(|newest| newest.created < first.times.created)
        };
        let Some(first) = pending.first_push.filter(follows) else {
            return;
        };
        // Advances only to the first pending push, to count the pushes missing before it. The
        // pending data has the transactions since then.
        self.unsettled.clear();
        let next = self.next_second.take();
        self.add_push(first);
        *self = Self {
            zero_seconds: self.zero_seconds.saturating_add(pending.zero_seconds),
            unknown_seconds: self.unknown_seconds.saturating_add(pending.unknown_seconds),
            pushes_missed: self.pushes_missed.saturating_add(pending.pushes_missed),
            first_push: self.first_push,
            next_second: pending.next_second.or(next),
            ..pending
        };
    }

    /// True if the clock was set between two moments that are at least `age` nanoseconds apart.
    fn clock_was_set(&self, previous: PushTimes, times: PushTimes, age: i128) -> bool {
        let excess = times.created - previous.created - age;
        // Two pushes that are read together, as after a stall, may be read in the wrong order.
        let in_order = times.arrived - previous.arrived + MAX_PUSH_DELAY >= age;
        let set_back = excess < -MAX_INTERVAL_ERROR && in_order;
        let offset = times.arrived - times.created;
        let set_forward = excess > MAX_INTERVAL_ERROR
            && self
                .min_offset
                .is_some_and(|min_offset| offset - min_offset < -MAX_INTERVAL_ERROR);
        set_back || set_forward
    }

    fn count_missed_pushes(&mut self, missing_time: i128) {
        let missed = u64::try_from((missing_time + PUSH_INTERVAL / 2) / PUSH_INTERVAL);
        add(&mut self.pushes_missed, missed.unwrap_or(0).max(1));
    }

    fn advance_to(&mut self, times: PushTimes) {
        let offset = times.arrived - times.created;
        let elapsed = self
            .newest
            .map_or(0, |previous| (times.arrived - previous.arrived).max(0));
        // The minimum may grow slowly, because the wall clock may be slewed.
        self.min_offset = Some(self.min_offset.map_or(offset, |min_offset| {
            offset.min(min_offset + elapsed / MAX_DRIFT_DIVISOR)
        }));
        self.newest = Some(times);
    }

    /// Restarts counting after the clock was set: skipped seconds may not have existed, and others
    /// may come twice.
    fn restart_counting(&mut self, times: PushTimes) {
        let has_transactions = self.next_second.is_some() || !self.unsettled.is_empty();
        self.unsettled.clear();
        self.next_second = has_transactions.then(|| times.created.div_euclid(SECOND) + 1);
        (self.newest, self.min_offset) = (None, None);
        self.advance_to(times);
    }

    /// Settles all seconds up to [`SETTLE_SECONDS`] before `until`. Nothing is settled until the
    /// first transaction is not later than `begin_by`. Both are Unix nanoseconds.
    fn settle_seconds(&mut self, until: i128, begin_by: i128, unfiltered: bool) {
        let end = until.div_euclid(SECOND) - SETTLE_SECONDS;
        if self.next_second.is_none() {
            let first = self.unsettled.keys().next().copied();
            self.next_second = first.filter(|first| *first <= begin_by.div_euclid(SECOND));
        }
        let Some(next) = self.next_second else { return };
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
        self.next_second = Some(end);
    }
}

#[cfg(test)]
mod tests;
