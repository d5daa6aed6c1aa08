//! Both ends of an interval are tried again, three times each: what contradicts it is data like the rest.

use super::answer::Confirmed;
use super::approach::page;
use faultline_stats::staircase::Interval;

/// Of each end.
const TIMES: u32 = 3;
/// An interval that is no answer any more with these trials is searched again, once.
const ROUNDS: u32 = 2;

/// Trials of the ends of the newest interval.
#[derive(Debug, Default)]
pub(super) struct Confirmation {
    rounds: u32,
    newest: Option<Confirmed>,
}

impl Confirmation {
    /// The first trial of an interval; `None` if enough were confirmed.
    pub(super) fn begin(&mut self, interval: &Interval) -> Option<(u64, bool)> {
        if self.rounds > 0 && self.newest.is_some_and(|newest| newest.agrees()) || self.rounds >= ROUNDS {
            return None;
        }
        self.rounds += 1;
        let (high, low) = (page(interval.high as u64), page(interval.low as u64));
        self.newest = Some(Confirmed { high, low, ..Confirmed::default() });
        self.next()
    }

    /// The next headroom to be tried, and whether it is the upper end.
    pub(super) fn next(&self) -> Option<(u64, bool)> {
        let newest = self.newest.as_ref()?;
        let high = newest.high_kept_up + newest.high_failed;
        let low = newest.low_kept_up + newest.low_failed;
        match high <= low {
            true if high < TIMES => Some((newest.high, true)),
            false if low < TIMES => Some((newest.low, false)),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, high: bool, kept_up: bool) {
        let Some(newest) = &mut self.newest else { return };
        let count = match (high, kept_up) {
            (true, true) => &mut newest.high_kept_up,
            (true, false) => &mut newest.high_failed,
            (false, true) => &mut newest.low_kept_up,
            (false, false) => &mut newest.low_failed,
        };
        *count += 1;
    }

    pub(super) fn confirmed(&self) -> Option<Confirmed> {
        self.newest
    }
}

impl Confirmed {
    /// Whether the upper end mostly kept up and the lower one mostly failed.
    pub fn agrees(&self) -> bool {
        self.high_kept_up > self.high_failed && self.low_failed > self.low_kept_up
    }
}
