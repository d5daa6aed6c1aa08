//! Finds missing ticks: the recording of a stalled daemon looks complete.

use crate::outcome::Outcome;
use faultline_common::clock::{from_nanoseconds, nanoseconds};
use faultline_recording::TickRow;
use faultline_text::{count, time};
use std::time::Duration;

/// Tolerated share of missing ticks.
const MAX_MISSING_SHARE: f64 = 0.05;
/// With a larger share missing, a recording proves nothing.
const USELESS_SHARE: f64 = 0.5;
/// Less missing time is normal: a busy host delays any process this long.
const MIN_MISSING_TIME: Duration = Duration::from_secs(2);
/// Maximum gap, or this many intervals if longer.
const MAX_GAP: Duration = Duration::from_secs(10);
const GAP_INTERVALS: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub struct RunPeriod {
    pub from_unix_ns: i64,
    /// By the monotonic clock.
    pub length: Duration,
}

impl RunPeriod {
    pub fn until_unix_ns(self) -> i64 {
        self.from_unix_ns.saturating_add(nanoseconds(self.length))
    }
}

#[derive(Debug)]
pub struct TickCoverage {
    pub due: u64,
    pub missing: u64,
    pub longest: Duration,
    pub interval: Duration,
}

impl TickCoverage {
    /// Ticks of one daemon, in order. The wall clock may jump, so only the beginning uses it.
    pub fn of(ticks: &[TickRow], run_period: RunPeriod, interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        let due =
            u64::try_from(run_period.length.as_nanos() / interval.as_nanos()).unwrap_or(u64::MAX);
        // The wall clock may jump back later.
        let after = ticks
            .iter()
            .position(|tick| tick.unix_ns > run_period.from_unix_ns)
            .unwrap_or(ticks.len());
        let Some(before) = ticks.get(after.saturating_sub(1)) else {
            return TickCoverage {
                due,
                missing: due,
                longest: run_period.length,
                interval,
            };
        };
        let from = before
            .uptime_ns
            .saturating_add(run_period.from_unix_ns.saturating_sub(before.unix_ns));
        let to = from.saturating_add(nanoseconds(run_period.length));
        let (mut seen, mut last, mut longest) = (0_u64, from, 0);
        for at in ticks
            .iter()
            .map(|tick| tick.uptime_ns)
            .filter(|at| *at > from && *at <= to)
        {
            seen += 1;
            longest = longest.max(at - last);
            last = at;
        }
        longest = longest.max(to - last);
        // The first tick is due within an interval after the beginning.
        let missing = due.saturating_sub(seen);
        TickCoverage {
            due,
            missing,
            longest: from_nanoseconds(longest),
            interval,
        }
    }

    pub fn coverage_doubt(&self) -> Option<String> {
        let gap = self.longest > MAX_GAP.max(self.interval * GAP_INTERVALS);
        (gap || self.misses_more_than(MAX_MISSING_SHARE)).then(|| {
            format!(
                "its recorder stood still: {} of {} ticks are missing, the longest gap is {}",
                count(self.missing),
                count(self.due),
                time(self.longest)
            )
        })
    }

    fn misses_more_than(&self, share: f64) -> bool {
        let time = self
            .interval
            .saturating_mul(u32::try_from(self.missing).unwrap_or(u32::MAX));
        time >= MIN_MISSING_TIME && self.missing as f64 > share * self.due as f64
    }

    /// A completed run fails, and is repeated, if most of its recording is missing. Any other end
    /// has its own evidence.
    pub fn checked_outcome(&self, outcome: Outcome) -> Outcome {
        match (
            outcome,
            self.coverage_doubt()
                .filter(|_| self.misses_more_than(USELESS_SHARE)),
        ) {
            (Outcome::Completed, Some(why)) => Outcome::Failed { why },
            (outcome, _) => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// A tick each second but for those left out; the daemon began at second 100, the run at 110.
    fn recorded(left_out: impl Fn(i64) -> bool, seconds: i64, jump: i64) -> TickCoverage {
        let row = |at: i64| TickRow {
            id: at,
            session: 1,
            number: at as u64,
            unix_ns: (100 + at + if at > 15 { jump } else { 0 }) * SECOND,
            uptime_ns: at * SECOND + 3,
            process: None,
            phase: None,
        };
        let ticks: Vec<TickRow> = (0..10 + seconds + 1)
            .filter(|at| !left_out(*at - 10))
            .map(row)
            .collect();
        let run_period = RunPeriod {
            from_unix_ns: 110 * SECOND,
            length: Duration::from_secs(seconds as u64),
        };
        TickCoverage::of(&ticks, run_period, Duration::from_secs(1))
    }

    #[test]
    fn a_complete_recording_has_no_gaps_despite_clock_steps() {
        for jump in [0, 3600, -3600] {
            let whole = recorded(|_| false, 60, jump);
            assert_eq!(
                (whole.due, whole.missing, whole.longest),
                (60, 0, Duration::from_secs(1)),
                "{jump}"
            );
            assert_eq!(whole.coverage_doubt(), None);
        }
    }

    #[test]
    fn a_short_recorder_gap_is_accepted_but_many_or_long_are_not() {
        assert_eq!(recorded(|at| at == 3, 8, 0).coverage_doubt(), None);
        assert_eq!(
            recorded(|at| (3..6).contains(&at), 100, 0).coverage_doubt(),
            None
        );
        assert!(
            recorded(|at| at % 10 == 3, 100, 0)
                .coverage_doubt()
                .is_some()
        );
        let long = recorded(|at| (500..512).contains(&at), 1000, 0);
        let words =
            "its recorder stood still: 12 of 1,000 ticks are missing, the longest gap is 13 s";
        assert_eq!(long.coverage_doubt().as_deref(), Some(words));
        assert_eq!(long.checked_outcome(Outcome::Completed), Outcome::Completed);
    }

    #[test]
    fn a_hung_or_silent_recorder_does_not_yield_a_completed_run() {
        let hung = recorded(|at| at > 3, 10, 0);
        assert_eq!((hung.missing, hung.longest), (7, Duration::from_secs(7)));
        assert!(matches!(
            hung.checked_outcome(Outcome::Completed),
            Outcome::Failed { .. }
        ));
        // What the kernel says stays.
        assert_eq!(
            hung.checked_outcome(Outcome::OutOfMemory),
            Outcome::OutOfMemory
        );
        let nothing = TickCoverage::of(
            &[],
            RunPeriod {
                from_unix_ns: 0,
                length: Duration::from_secs(9),
            },
            Duration::from_secs(1),
        );
        assert!(matches!(
            nothing.checked_outcome(Outcome::Completed),
            Outcome::Failed { .. }
        ));
    }
}
