#![expect(
    clippy::disallowed_methods,
    reason = "this module is where clocks are read"
)]

use faultline_metrics::Stamp;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// A wall clock before 1970 reads as 1970. The uptime is `CLOCK_MONOTONIC`: it stops while the
    /// machine is suspended, as the validator does.
    pub fn now(&self) -> Stamp {
        let (uptime, unix) = read_both(|| self.origin.elapsed(), SystemTime::now);
        Stamp {
            uptime,
            unix: unix.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO),
        }
    }

    /// Time suspended since boot.
    pub fn suspended() -> Duration {
        let read = |clock| move || Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        let (monotonic, boot) = read_both(read(ClockId::Monotonic), read(ClockId::Boottime));
        boot.saturating_sub(monotonic)
    }

    /// Negative for a time before the daemon's start.
    pub fn uptime_from_monotonic_ns(&self, nanos: i64) -> i64 {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
        let signed = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        nanos.saturating_sub(signed(now.saturating_sub(self.origin.elapsed())))
    }

    /// Wall clock minus `CLOCK_MONOTONIC`, in nanoseconds. Converts the timestamps of other tools.
    pub fn wall_minus_monotonic_ns() -> i64 {
        let [real, monotonic] = [ClockId::Realtime, ClockId::Monotonic].map(|clock| {
            let now = clock_gettime(clock);
            now.tv_sec
                .saturating_mul(1_000_000_000)
                .saturating_add(now.tv_nsec)
        });
        real.saturating_sub(monotonic)
    }

    pub fn instant(&self, uptime: Duration) -> Instant {
        self.origin + uptime
    }
}

/// Reads two clocks at one moment. Reads again if the thread was descheduled in between.
fn read_both<A, B>(first: impl Fn() -> A, second: impl Fn() -> B) -> (A, B) {
    const MAX_READ_TIME: Duration = Duration::from_millis(50);
    let mut attempts = 0;
    loop {
        let started = Instant::now();
        let read = (first(), second());
        attempts += 1;
        if started.elapsed() < MAX_READ_TIME || attempts == 10 {
            return read;
        }
    }
}

/// Detects that the wall clock was set: its change differs from the passed time by more than one
/// second plus the largest slew. Suspension does not count.
#[derive(Default)]
pub struct ClockStepDetector {
    /// Time of the last call, and the total suspended time at that time.
    last_call: Option<(Stamp, Duration)>,
}

impl ClockStepDetector {
    /// Seconds by which the clock was set since the last call; positive is forward. `suspended` is
    /// the total suspended time.
    pub fn detect(&mut self, now: Stamp, suspended: Duration) -> Option<f64> {
        /// Seconds of slew per second: time services slew by at most a tenth.
        const MAX_SLEW: f64 = 0.1;
        let (before, suspended_before) = self.last_call.replace((now, suspended))?;
        let passed = now.since(before).as_secs_f64();
        let step = now.unix.as_secs_f64() - before.unix.as_secs_f64() - passed;
        let step = step - suspended.saturating_sub(suspended_before).as_secs_f64();
        (step.abs() > 1.0 + passed * MAX_SLEW).then_some(step)
    }
}

/// An absolute schedule: tick n is due after n intervals, so lateness does not accumulate. Missed
/// ticks are skipped.
pub struct Schedule {
    interval: Duration,
    last_tick: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DueTick {
    pub number: u64,
    pub lateness: Duration,
    /// Ticks skipped since the last one.
    pub missed: u64,
}

impl DueTick {
    pub const START: Self = Self {
        number: 0,
        lateness: Duration::ZERO,
        missed: 0,
    };
}

impl Schedule {
    /// The first tick is due one `interval` after uptime zero. An interval of zero counts as 1 ms.
    pub fn every(interval: Duration) -> Self {
        Self {
            interval: interval.max(Duration::from_millis(1)),
            last_tick: 0,
        }
    }

    pub fn next_due(&self) -> Duration {
        tick_time(self.interval, self.last_tick + 1)
    }

    /// `None` if no tick is due yet.
    pub fn advance_to(&mut self, uptime: Duration) -> Option<DueTick> {
        let number =
            u64::try_from(uptime.as_nanos() / self.interval.as_nanos()).unwrap_or(u64::MAX);
        if number <= self.last_tick {
            return None;
        }
        let due = DueTick {
            number,
            lateness: uptime.saturating_sub(tick_time(self.interval, number)),
            missed: number - self.last_tick - 1,
        };
        self.last_tick = number;
        Some(due)
    }
}

fn tick_time(interval: Duration, n: u64) -> Duration {
    let nanos = interval.as_nanos().saturating_mul(u128::from(n));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn tick_lateness_does_not_accumulate() {
        let mut schedule = Schedule::every(ms(100));
        assert_eq!(schedule.advance_to(ms(99)), None);
        assert_eq!(
            schedule.advance_to(ms(130)),
            Some(DueTick {
                number: 1,
                lateness: ms(30),
                missed: 0
            })
        );
        assert_eq!(schedule.next_due(), ms(200));
        assert_eq!(
            schedule.advance_to(ms(200)),
            Some(DueTick {
                number: 2,
                lateness: ms(0),
                missed: 0
            })
        );
    }

    #[test]
    fn only_a_wall_clock_step_is_reported_not_slew_or_suspend() {
        let mut steps = ClockStepDetector::default();
        // Uptime, wall clock, suspended; the step.
        for (uptime, unix, suspended, step) in [
            (1_000, 5_000_000, 0, None),
            (2_000, 5_001_000, 0, None),
            (3_000, 8_602_000, 0, Some(3600.0)),
            (4_000, 8_603_000, 0, None),
            (5_000, 5_004_000, 0, Some(-3600.0)),
            (6_000, 5_005_900, 0, None),
            (66_000, 5_070_000, 0, None),
            (67_000, 8_671_000, 3_600_000, None),
            (68_000, 8_674_500, 3_600_000, Some(2.5)),
            (129_000, 8_735_500, 3_600_000, None),
        ] {
            let found = steps.detect(
                Stamp {
                    uptime: ms(uptime),
                    unix: ms(unix),
                },
                ms(suspended),
            );
            assert_eq!(
                found.map(|step| (step * 1e3).round() / 1e3),
                step,
                "{uptime}"
            );
        }
    }

    #[test]
    fn a_kernel_monotonic_time_converts_to_the_daemons_clock() {
        let clock = Clock::start();
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap();
        let before = clock.now().uptime;
        let monotonic = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let found = clock.uptime_from_monotonic_ns(nanos(monotonic));
        assert!(
            found >= nanos(before) - 1_000_000 && found <= nanos(clock.now().uptime) + 1_000_000,
            "{found}"
        );
    }

    #[test]
    fn missed_ticks_are_skipped_and_counted() {
        let mut schedule = Schedule::every(ms(100));
        assert_eq!(
            schedule.advance_to(ms(450)),
            Some(DueTick {
                number: 4,
                lateness: ms(50),
                missed: 3
            })
        );
        assert_eq!(schedule.advance_to(ms(460)), None);
        assert_eq!(schedule.next_due(), ms(500));
    }
}
