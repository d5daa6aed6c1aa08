//! Measures the slot time from the tip while the validator is near it.

use std::{collections::VecDeque, time::Duration};

/// Minimum span of a provisional value.
const MIN_SPAN: Duration = Duration::from_secs(5);

/// Minimum span of a stable value: only such a value decides a phase.
const MIN_STABLE_SPAN: Duration = Duration::from_secs(30);

/// Older samples are dropped, except the newest of them: a value must follow a change of pace.
const MAX_SPAN: Duration = Duration::from_secs(60);

const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// A change below 1/200 is ignored: each new value costs a row in recordings and a point in pages.
const CHANGE_DIVISOR: u32 = 200;

/// If the reported tip does not advance for this long, the cluster halts or the validator
/// receives nothing new. Four skipped slots of 1 s are no halt.
const MAX_STANDSTILL: Duration = Duration::from_secs(8);

/// Between two reports the tip may advance by this many slots more than the fastest pace allows. A
/// larger step is a jump: another node or cluster answers.
const MAX_EXTRA_SLOTS: u128 = 16;

/// Fastest pace relative to the measured one. Before a measurement, it is one slot per
/// [`MIN_SLOT_TIME`].
const MAX_SPEEDUP: u128 = 8;
const MIN_SLOT_TIME: Duration = Duration::from_millis(10);

/// After this many consecutive jumps, the measurement begins again: another cluster answers.
const MAX_JUMPS: u8 = 3;

#[derive(Debug, Clone, Default)]
pub struct SlotTimeMeter {
    /// (tip, first reported at), oldest first.
    samples: VecDeque<(u64, Duration)>,
    /// (tip, reported at).
    last_change: Option<(u64, Duration)>,
    /// Measured over at least [`MIN_STABLE_SPAN`], or given to `set_stable`.
    stable: Option<Duration>,
    /// Measured over at least [`MIN_SPAN`]; used until there is a stable value.
    provisional: Option<Duration>,
    /// Consecutive reports that were jumps.
    jumps: u8,
}

impl SlotTimeMeter {
    pub fn set_stable(&mut self, slot_time: Duration) {
        self.stable = Some(slot_time).filter(|time| !time.is_zero());
    }

    /// `None` until a measurement or `set_stable`.
    pub fn value(&self) -> Option<Duration> {
        self.stable.or(self.provisional)
    }

    pub fn stable(&self) -> Option<Duration> {
        self.stable
    }

    /// Drops the samples, because later ones do not continue them. Measured values stay.
    pub fn clear_samples(&mut self) {
        self.samples.clear();
        self.last_change = None;
    }

    /// Takes a `tip` that was reported while the validator was near it.
    pub fn update(&mut self, tip: u64, now: Duration) {
        match self.last_change {
            Some((slot, at)) if tip == slot => {
                if now.saturating_sub(at) >= MAX_STANDSTILL {
                    self.samples.clear();
                }
                return;
            }
            Some((slot, _)) if tip < slot => {
                self.clear_samples();
                self.jumps = 0;
            }
            Some((slot, at)) if self.is_jump(tip - slot, now.saturating_sub(at)) => {
                self.handle_jump()
            }
            _ => self.jumps = 0,
        }
        self.last_change = Some((tip, now));
        let last = self.samples.back();
        if last.is_none_or(|(_, at)| now.saturating_sub(*at) >= SAMPLE_INTERVAL) {
            self.samples.push_back((tip, now));
        }
        while { self.samples.get(1) }.is_some_and(|(_, at)| now.saturating_sub(*at) >= MAX_SPAN) {
            self.samples.pop_front();
        }
        self.measure(tip, now);
    }

    fn is_jump(&self, slots: u64, time: Duration) -> bool {
        let min_slot_time = self.value().map_or(MIN_SLOT_TIME.as_nanos(), |slot_time| {
            slot_time.as_nanos() / MAX_SPEEDUP
        });
        u128::from(slots) > MAX_EXTRA_SLOTS + time.as_nanos() / min_slot_time.max(1)
    }

    fn handle_jump(&mut self) {
        self.clear_samples();
        self.jumps += 1;
        if self.jumps >= MAX_JUMPS {
            *self = Self::default();
        }
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
        let value = if span >= MIN_STABLE_SPAN {
            &mut self.stable
        } else if span >= MIN_SPAN {
            &mut self.provisional
        } else {
            return;
        };
        let is_new = |old: Duration| slot_time.abs_diff(old) > old / CHANGE_DIVISOR;
        if value.is_none_or(is_new) {
            *value = Some(slot_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    /// Reports a tip each second, with `in_ten` slots in 10 s.
    fn run(meter: &mut SlotTimeMeter, seconds: std::ops::Range<u64>, first: u64, in_ten: u64) {
        for second in seconds.clone() {
            meter.update(first + (second - seconds.start) * in_ten / 10, at(second));
        }
    }

    fn millis(time: Option<Duration>) -> Option<u128> {
        time.map(|time| time.as_millis())
    }

    #[test]
    fn the_slot_time_is_absent_for_five_seconds_and_stable_after_thirty() {
        for (in_ten, expected) in [(50, 200), (25, 400), (10, 1_000)] {
            let mut meter = SlotTimeMeter::default();
            run(&mut meter, 0..5, 1_000, in_ten);
            assert_eq!(meter.value(), None, "{expected}");
            run(&mut meter, 0..31, 1_000, in_ten);
            assert_eq!(millis(meter.value()), Some(expected));
            assert_eq!(meter.stable(), meter.value());
        }
    }

    #[test]
    fn the_slot_time_follows_a_rate_change_within_a_minute() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 25);
        run(&mut meter, 100..170, 1_250, 50);
        assert_eq!(millis(meter.stable()), Some(200));
    }

    #[test]
    fn halts_interruptions_and_backward_slots_do_not_change_slot_time() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 25);
        let before = meter.value();
        run(&mut meter, 100..700, 1_250, 0);
        run(&mut meter, 700..800, 1_250, 25);
        assert_eq!(meter.value(), before, "a halt is no slow slot");
        meter.clear_samples();
        run(&mut meter, 800..820, 9_000, 200);
        assert_eq!(meter.value(), before, "too short to replace a value");
        run(&mut meter, 900..920, 2_000, 200);
        assert_eq!(meter.value(), before, "slots went backwards");
    }

    #[test]
    fn a_slot_jump_is_not_a_fast_slot() {
        for jump in [64, 13_000] {
            let mut meter = SlotTimeMeter::default();
            run(&mut meter, 0..100, 1_000, 50);
            run(&mut meter, 100..140, 1_500 + jump, 50);
            assert_eq!(millis(meter.stable()), Some(200), "{jump}");
        }
    }

    #[test]
    fn slot_time_is_measured_again_for_a_cluster_with_shorter_slots() {
        let mut meter = SlotTimeMeter::default();
        run(&mut meter, 0..100, 1_000, 10);
        run(&mut meter, 100..140, 1_100, 400);
        assert_eq!(millis(meter.stable()), Some(25));
    }

    #[test]
    fn pushes_every_ten_seconds_suffice_for_the_slot_time() {
        let mut meter = SlotTimeMeter::default();
        for push in 0..5 {
            meter.update(1_000 + push * 50, at(push * 10));
        }
        assert_eq!(millis(meter.stable()), Some(200));
    }
}
