//! The time of a slot, measured by the tip while the validator is near it.

use std::collections::VecDeque;
use std::time::Duration;

/// The first value spans at least this time ...
const MIN_SPAN: Duration = Duration::from_secs(5);

/// ... and a value that decides a phase, or replaces such a value, at least this time.
const SETTLED_SPAN: Duration = Duration::from_secs(30);

/// Older samples are dropped, so that a value follows a change of pace.
const MAX_SPAN: Duration = Duration::from_secs(60);

/// Time between two samples that are kept.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// A change below 0.5 % is ignored: each new value costs a sample in recordings and pages.
const MIN_CHANGE: u32 = 200;

/// The tip was reported again without an advance for this long. The cluster halts, or the validator hears nothing new. Four
/// skipped slots of 1 s are no halt.
const MAX_STANDSTILL: Duration = Duration::from_secs(8);

/// A tip that is further ahead than slots of this time can make, and than [`MAX_LATE_SLOTS`] more, jumped: another node or
/// cluster answers.
const MIN_SLOT_TIME: Duration = Duration::from_millis(10);

/// Slots that can become known at once.
const MAX_LATE_SLOTS: u128 = 64;

/// Measures the time of a slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotTimeMeter {
    /// Tips and when they were reported first, oldest first.
    samples: VecDeque<(u64, Duration)>,
    newest: Option<(u64, Duration)>,
    settled: Option<Duration>,
    first: Option<Duration>,
}

impl SlotTimeMeter {
    /// Takes a value that was measured elsewhere.
    pub(crate) fn set(&mut self, slot_time: Duration) {
        self.settled = Some(slot_time).filter(|time| !time.is_zero());
    }

    /// The newest value; `None` before the first.
    pub(crate) fn value(&self) -> Option<Duration> {
        self.settled.or(self.first)
    }

    /// A value over at least [`SETTLED_SPAN`].
    pub(crate) fn settled(&self) -> Option<Duration> {
        self.settled
    }

    /// The samples so far say nothing of the next ones. Values stay.
    pub(crate) fn interrupt(&mut self) {
        self.samples.clear();
        self.newest = None;
    }

    /// Takes a tip that the validator was near when it was reported.
    pub(crate) fn report(&mut self, tip: u64, now: Duration) {
        match self.newest {
            Some((slot, at)) if tip == slot => {
                if now.saturating_sub(at) >= MAX_STANDSTILL {
                    // The next sample is that of the next advance.
                    self.samples.clear();
                }
                return;
            }
            Some((slot, at)) if tip < slot || is_jump(tip - slot, now.saturating_sub(at)) => {
                self.interrupt();
            }
            _ => {}
        }
        self.newest = Some((tip, now));
        let last = self.samples.back();
        if last.is_none_or(|(_, at)| now.saturating_sub(*at) >= SAMPLE_EVERY) {
            self.samples.push_back((tip, now));
        }
        while { self.samples.get(1) }.is_some_and(|(_, at)| now.saturating_sub(*at) >= MAX_SPAN) {
            self.samples.pop_front();
        }
        self.measure(tip, now);
    }

    fn measure(&mut self, tip: u64, now: Duration) {
        let Some((slot, at)) = self.samples.front() else {
            return;
        };
        let span = now.saturating_sub(*at);
        let slots = u32::try_from(tip.saturating_sub(*slot)).unwrap_or(u32::MAX);
        let Some(slot_time) = span.checked_div(slots).filter(|time| !time.is_zero()) else {
            return;
        };
        let value = if span >= SETTLED_SPAN {
            &mut self.settled
        } else if span >= MIN_SPAN {
            &mut self.first
        } else {
            return;
        };
        let is_new = |old: Duration| slot_time.abs_diff(old) > old / MIN_CHANGE;
        if value.is_none_or(is_new) {
            *value = Some(slot_time);
        }
    }
}

fn is_jump(slots: u64, time: Duration) -> bool {
    u128::from(slots) > MAX_LATE_SLOTS + time.as_millis() / MIN_SLOT_TIME.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    /// Reports a tip each second, which makes so many slots in 10 s.
    fn run(meter: &mut SlotTimeMeter, seconds: std::ops::Range<u64>, first: u64, in_ten: u64) {
        for second in seconds.clone() {
            meter.report(first + (second - seconds.start) * in_ten / 10, at(second));
        }
    }

    fn millis(time: Option<Duration>) -> Option<u128> {
        time.map(|time| time.as_millis())
    }

    #[test]
    fn it_is_absent_for_five_seconds_and_settled_after_thirty() {
        for (in_ten, expected) in [(50, 200), (25, 400), (10, 1_000)] {
            let mut meter = SlotTimeMeter::default();
            run(&mut meter, 0..5, 1_000, in_ten);
            assert_eq!(meter.value(), None, "{expected}");
            run(&mut meter, 0..31, 1_000, in_ten);
            assert_eq!(millis(meter.value()), Some(expected));
            assert_eq!(meter.settled(), meter.value());
        }
    }

    #[test]
    fn it_follows_a_change_of_pace_within_a_minute() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 25);
        run(&mut meter, 100..170, 1_250, 50);
        assert_eq!(millis(meter.settled()), Some(200));
    }

    #[test]
    fn a_halt_an_interruption_and_slots_that_go_backwards_change_no_value() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 25);
        let before = meter.value();
        run(&mut meter, 100..700, 1_250, 0);
        run(&mut meter, 700..800, 1_250, 25);
        assert_eq!(meter.value(), before, "a halt is no slow slot");
        meter.interrupt();
        run(&mut meter, 800..820, 9_000, 200);
        assert_eq!(meter.value(), before, "too short to replace a value");
        run(&mut meter, 900..920, 2_000, 200);
        assert_eq!(meter.value(), before, "slots went backwards");
    }

    #[test]
    fn a_jump_is_no_fast_slot() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 50);
        run(&mut meter, 100..140, 14_500, 50);
        assert_eq!(millis(meter.settled()), Some(200));
    }

    #[test]
    fn pushes_every_ten_seconds_suffice() {
        let mut meter = SlotTimeMeter::default();
        for push in 0..5 {
            meter.report(1_000 + push * 50, at(push * 10));
        }
        assert_eq!(millis(meter.settled()), Some(200));
    }
}
