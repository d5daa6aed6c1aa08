//! Moves the limit in small steps, because a large step reclaims more than necessary. Detects
//! dangers, at which the search lifts the limit at once.

use super::{Action, MAX_DATA_AGE, MAX_SLOTS_BEHIND, MAX_STALL_PERCENT, Reading, VALIDATOR_SILENT};
use std::{collections::VecDeque, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
/// A limit in effect is written again only this often: under systemd, each write is work for PID 1.
const REAPPLY_INTERVAL: Duration = Duration::from_secs(10);
/// If the limit is more than `headroom / RAISE_DIVISOR` below its target, it is raised at once.
const RAISE_DIVISOR: u64 = 32;
/// A step lowers the limit to at least this share of it.
const MIN_LOWERED_SHARE: f64 = 0.94;
/// The next step waits until memory is at most this multiple of the limit.
const RECLAIMED_RATIO: f64 = 1.005;
/// If memory exceeds this multiple of the target (unreclaimable memory plus headroom), the limit
/// does not hold memory down. The limit is still being lowered, cgroup v1 refused it, or the kernel
/// lets memory exceed `memory.high`.
const ABOVE_TARGET_RATIO: f64 = 1.02;
/// The process that writes the limit (PID 1 under systemd) has to reclaim the excess during the
/// write.
const MAX_STEP_BYTES: u64 = 1 << 30;
const STALL_WINDOW: Duration = Duration::from_secs(10);
/// Over a shorter time, no average is known.
const MIN_STALL_WINDOW: Duration = Duration::from_secs(2);
/// A shorter settle time of the search replaces this window.
const REFAULT_WINDOW: Duration = Duration::from_secs(10);
const PAGE_BYTES: u64 = 4096;

#[derive(Default)]
pub struct LimitControl {
    refault_window: Duration,
    pub limit: Option<u64>,
    headroom: Option<u64>,
    limit_set_at: Duration,
    /// Time of the last whole step down. Smaller changes only follow unreclaimable memory.
    pub lowered_at: Option<Duration>,
    /// When unreclaimable memory and slots behind were last both read. Starts with the first reading,
    /// and again when a limit is set after none.
    last_complete_at: Option<Duration>,
    not_silent_at: Duration,
    pub recent_unreclaimable: VecDeque<(Duration, u64)>,
    /// Largest rise of unreclaimable memory within a second. The search resets it after the
    /// validator's start.
    pub max_rise: u64,
    recent_refault_totals: VecDeque<(Duration, u64)>,
    /// Over [`STALL_WINDOW`]. Cleared when the limit changes from or to none.
    recent_stall_totals: VecDeque<(Duration, Duration)>,
}

impl LimitControl {
    pub fn new(settle_time: Duration) -> Self {
        Self {
            refault_window: REFAULT_WINDOW.min(settle_time),
            ..Self::default()
        }
    }

    fn record(&mut self, reading: &Reading) {
        let at = reading.at;
        push_recent(
            &mut self.recent_unreclaimable,
            SECOND,
            at,
            reading.unreclaimable,
        );
        push_recent(
            &mut self.recent_refault_totals,
            self.refault_window,
            at,
            reading.refaults,
        );
        self.recent_stall_totals
            .extend(reading.stalled.map(|stalled| (at, stalled)));
        while let Some((next_at, _)) = self.recent_stall_totals.get(1)
            && at.saturating_sub(*next_at) >= STALL_WINDOW
        {
            self.recent_stall_totals.pop_front();
        }
        if reading.unreclaimable.is_some() && reading.slots_behind.is_some()
            || self.last_complete_at.is_none()
        {
            self.last_complete_at = Some(at);
        }
        if !reading.is_silent() {
            self.not_silent_at = at;
        }
    }

    pub fn detect_danger(&mut self, reading: &Reading) -> Option<&'static str> {
        self.record(reading);
        let lowest = self
            .recent_unreclaimable
            .iter()
            .map(|(_, bytes)| *bytes)
            .min();
        let rise = reading
            .unreclaimable
            .zip(lowest)
            .map_or(0, |(now, lowest)| now.saturating_sub(lowest));
        self.max_rise = self.max_rise.max(rise);
        self.limit?;
        let is_too_old = |at| reading.at.saturating_sub(at) > MAX_DATA_AGE;
        if reading.out_of_memory {
            Some("the cgroup is out of memory")
        } else if reading.slots_behind > Some(MAX_SLOTS_BEHIND) {
            Some("it is too far behind")
        } else if self.stall_percent() > Some(MAX_STALL_PERCENT) {
            Some("it waits for memory too long")
        } else if self.headroom.is_some_and(|headroom| rise > headroom / 2) {
            Some("unreclaimable memory rose by half of the headroom within a second")
        } else if self.last_complete_at.is_some_and(is_too_old) {
            Some(if is_too_old(self.not_silent_at) {
                VALIDATOR_SILENT
            } else {
                "its memory or its distance to the tip could not be read"
            })
        } else {
            None
        }
    }

    /// Changes the limit at most once a second, but raises a much too low limit at once. Requests an
    /// unchanged limit again every ten seconds, or every second while the cgroup's limit differs
    /// from it. Returns whether the limit is at its target.
    pub fn adjust(
        &mut self,
        headroom: Option<u64>,
        reading: &Reading,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(headroom) = headroom else {
            if self.limit.is_some() {
                self.lift(actions);
            }
            return true;
        };
        let (Some(unreclaimable), Some(memory)) = (reading.unreclaimable, reading.memory) else {
            return false;
        };
        let target = page_aligned(unreclaimable.saturating_add(headroom));
        self.headroom = Some(headroom);
        if self.limit.is_none() {
            // Earlier stalls were not caused by the limit.
            self.recent_stall_totals.clear();
            (self.last_complete_at, self.not_silent_at) = (Some(reading.at), reading.at);
        }
        let next = match self.limit {
            None => target.max(page_aligned(memory)),
            Some(limit) if target > limit.saturating_add(headroom / RAISE_DIVISOR) => target,
            Some(limit) if reading.at.saturating_sub(self.limit_set_at) < SECOND => {
                return limit == target;
            }
            Some(limit) if target >= limit => target,
            // The kernel has not reclaimed the excess of the last step yet.
            Some(limit) if memory as f64 > RECLAIMED_RATIO * limit as f64 => limit,
            Some(limit) => {
                let step = page_aligned((limit as f64 * (1.0 - MIN_LOWERED_SHARE)) as u64)
                    .min(MAX_STEP_BYTES);
                let next = limit.saturating_sub(step);
                if next > target {
                    self.lowered_at = Some(reading.at);
                }
                target.max(next)
            }
        };
        if self.limit == Some(next)
            && reading.applied_limit == self.limit
            && reading.at.saturating_sub(self.limit_set_at) < REAPPLY_INTERVAL
        {
            return next == target;
        }
        self.limit = Some(next);
        self.limit_set_at = reading.at;
        actions.push(Action::SetLimit(self.limit));
        next == target
    }

    pub fn memory_exceeds_target(&self, reading: &Reading) -> bool {
        if let (Some(unreclaimable), Some(headroom), Some(memory)) =
            (reading.unreclaimable, self.headroom, reading.memory)
        {
            memory as f64 > ABOVE_TARGET_RATIO * unreclaimable.saturating_add(headroom) as f64
        } else {
            false
        }
    }

    pub fn lift(&mut self, actions: &mut Vec<Action>) {
        if self.limit.is_some() {
            actions.push(Action::SetLimit(None));
        }
        (self.limit, self.headroom, self.lowered_at) = (None, None, None);
        self.recent_stall_totals.clear();
    }

    /// PSI `full` of memory over [`STALL_WINDOW`].
    pub fn stall_percent(&self) -> Option<f64> {
        let ((then, before), (now, stalled)) = (
            self.recent_stall_totals.front()?,
            self.recent_stall_totals.back()?,
        );
        let passed = now
            .checked_sub(*then)
            .filter(|passed| *passed >= MIN_STALL_WINDOW)?;
        Some(100.0 * stalled.saturating_sub(*before).as_secs_f64() / passed.as_secs_f64())
    }

    pub fn refaults_per_second(&self) -> Option<f64> {
        let ((first, before), (last, now)) = (
            self.recent_refault_totals.front()?,
            self.recent_refault_totals.back()?,
        );
        let seconds = last.checked_sub(*first)?.as_secs_f64();
        (seconds > 0.0).then(|| now.saturating_sub(*before) as f64 / seconds)
    }
}

pub fn push_recent(
    values: &mut VecDeque<(Duration, u64)>,
    window: Duration,
    at: Duration,
    value: Option<u64>,
) {
    values.extend(value.map(|value| (at, value)));
    while let Some((oldest, _)) = values.front()
        && at.saturating_sub(*oldest) > window
    {
        values.pop_front();
    }
}

/// Rounds down.
pub fn page_aligned(bytes: u64) -> u64 {
    bytes / PAGE_BYTES * PAGE_BYTES
}
