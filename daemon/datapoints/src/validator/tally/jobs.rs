//! The background jobs of the accounts database: how many of each kind run, and for how long at
//! least one of them ran.

use faultline_agave::points::AccountsActive;
use faultline_metrics::{AddReadings, Reading, metrics::validator as v};
use std::time::Duration;

/// Reads a field of `accounts_db_active`: the number of running jobs.
type ReadRunning = fn(&AccountsActive) -> Option<u64>;

const JOB_KINDS: [(&str, ReadRunning); 5] = [
    ("clean", |a| a.clean),
    ("shrink", |a| a.shrink),
    ("squash_ancient", |a| a.squash_ancient),
    ("flush", |a| a.flush),
    ("hash", |a| a.hash),
];

/// Maximum difference between a job's duration by the validator's clock and by ours. A point may
/// arrive this late (push interval plus delay). A larger difference means that the clock was set.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Default)]
struct JobTally {
    /// Number of running jobs; `None` until the validator reported it.
    running: Option<u64>,
    /// Start of the first running job by the validator's clock in Unix nanoseconds, and the uptime
    /// when the report arrived.
    started: Option<(i64, Duration)>,
    total_run_time: Duration,
}

impl JobTally {
    fn update(&mut self, running: u64, unix_ns: i64, received_at: Duration) {
        let before = self.running.replace(running);
        let started = self.started.take();
        if running > 0 {
            // The start stays while several jobs run, and when one of them ends. If one job
            // ran before and one is reported again, an end was lost: the time starts again.
            let continues = running > 1 || before > Some(running);
            self.started = started
                .filter(|_| continues)
                .or(Some((unix_ns, received_at)));
            return;
        }
        let Some((started, first_received_at)) = started else {
            return;
        };
        let run_time = u64::try_from(unix_ns.saturating_sub(started)).unwrap_or(0);
        let run_time = Duration::from_nanos(run_time);
        // The validator's clock may have been set meanwhile.
        let by_our_clock = received_at.saturating_sub(first_received_at);
        if run_time.abs_diff(by_our_clock) <= MAX_CLOCK_DIFFERENCE {
            self.total_run_time = self.total_run_time.saturating_add(run_time);
        }
    }
}

/// In the order of [`JOB_KINDS`].
#[derive(Default)]
pub struct Jobs([JobTally; JOB_KINDS.len()]);

impl Jobs {
    /// A background job began or ended at `unix_ns`. The report arrived at the uptime
    /// `received_at`.
    pub fn add(&mut self, active: &AccountsActive, unix_ns: i64, received_at: Duration) {
        for (job, (_, read_running)) in self.0.iter_mut().zip(JOB_KINDS) {
            if let Some(running) = read_running(active) {
                job.update(running, unix_ns, received_at);
            }
        }
    }

    pub fn merge(&mut self, newer: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(newer.0) {
            if theirs.running.is_some() {
                (mine.running, mine.started) = (theirs.running, theirs.started);
            }
            mine.total_run_time = mine.total_run_time.saturating_add(theirs.total_run_time);
        }
    }

    /// No job runs any more, because the process has ended.
    pub fn forget_gauges(&mut self) {
        for job in &mut self.0 {
            (job.running, job.started) = (job.running.map(|_| 0), None);
        }
    }

    pub fn add_readings(&self, with_gauges: bool, out: &mut Vec<Reading>) {
        for (job, (name, _)) in self.0.iter().zip(JOB_KINDS) {
            let Some(running) = job.running else { continue };
            if with_gauges {
                out.integer(&v::ACCOUNTS_JOBS, [name.into()], running);
            }
            out.real(
                &v::ACCOUNTS_JOB_TIME,
                [name.into()],
                job.total_run_time.as_secs_f64(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_agave::{line::Point, points::KnownPoint};

    /// Field, count, second by the validator's clock, second at which it was heard.
    type TestPoint = (&'static str, u64, u64, u64);

    fn add(jobs: &mut Jobs, points: &[TestPoint]) {
        for (field, count, second, received_at) in points {
            let time = second * 1_000_000_000;
            let line = format!("accounts_db_active,host_id=A {field}={count}i {time}");
            let known = KnownPoint::parse(&Point::parse(line.as_bytes()).unwrap());
            let KnownPoint::AccountsActive(active) = known.unwrap().unwrap() else {
                panic!("another kind")
            };
            jobs.add(
                &active,
                i64::try_from(time).unwrap(),
                Duration::from_secs(*received_at),
            );
        }
    }

    fn run_time(jobs: &Jobs) -> f64 {
        let mut readings = Vec::new();
        jobs.add_readings(false, &mut readings);
        readings.iter().filter_map(|r| r.value.number()).sum()
    }

    fn after(points: &[TestPoint]) -> f64 {
        let mut jobs = Jobs::default();
        add(&mut jobs, points);
        run_time(&jobs)
    }

    #[test]
    fn an_end_in_later_reports_ends_a_job_of_earlier_reports() {
        let (mut jobs, mut later) = (Jobs::default(), Jobs::default());
        add(&mut jobs, &[("clean", 1, 100, 110)]);
        add(&mut later, &[("clean", 0, 105, 110)]);
        jobs.merge(&later);
        add(&mut jobs, &[("clean", 0, 120, 120)]);
        assert_eq!(run_time(&jobs), 0.0, "the end is counted once");
    }

    #[test]
    fn a_background_jobs_time_is_its_elapsed_duration() {
        assert_eq!(
            after(&[
                ("clean", 1, 100, 110),
                ("flush", 1, 101, 110),
                ("flush", 0, 103, 110),
                ("clean", 0, 130, 130)
            ]),
            32.0
        );
        assert_eq!(
            after(&[
                ("shrink", 1, 100, 110),
                ("shrink", 2, 105, 110),
                ("shrink", 1, 110, 110)
            ]),
            0.0
        );
        let both = [
            ("shrink", 1, 100, 110),
            ("shrink", 2, 105, 110),
            ("shrink", 1, 110, 110),
            ("shrink", 0, 120, 120),
        ];
        assert_eq!(after(&both), 20.0, "one of two ended");
        assert_eq!(
            after(&[
                ("clean", 1, 100, 110),
                ("clean", 1, 200, 210),
                ("clean", 0, 201, 210)
            ]),
            1.0,
            "a lost end"
        );
        assert_eq!(
            after(&[("clean", 0, 100, 110)]),
            0.0,
            "it began before the daemon"
        );
        assert_eq!(
            after(&[("clean", 1, 100, 110), ("clean", 0, 3705, 110)]),
            0.0,
            "the clock was set"
        );
    }
}
