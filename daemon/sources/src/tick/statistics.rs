//! Statistics of the ticks, and of each source: up, duration and problems.

use faultline_core::clock::{ClockStepDetector, DueTick};
use faultline_metrics::{
    AddReadings, Batch, Histogram, LATENESS_BOUNDS, Problem, ProblemKind, Reading, Source, Stamp,
    Value, metrics::daemon as d,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[derive(Default)]
struct SourceStatistics {
    up: bool,
    duration: Duration,
    last_success: Option<Stamp>,
    last_poll: Option<Stamp>,
    /// By [`ProblemKind`].
    problem_counts: [u64; ProblemKind::ALL.len()],
    current_problems: Vec<Problem>,
    /// Start of the current minute, and the new problems in it.
    logged_this_minute: (Stamp, u32),
}

pub struct Statistics {
    by_source: BTreeMap<Source, SourceStatistics>,
    ticks: u64,
    missed_ticks: u64,
    lateness: Histogram,
    step_detector: ClockStepDetector,
    clock_steps: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            by_source: BTreeMap::new(),
            ticks: 0,
            missed_ticks: 0,
            lateness: Histogram::new(&LATENESS_BOUNDS),
            step_detector: ClockStepDetector::default(),
            clock_steps: 0,
        }
    }
}

impl Statistics {
    pub fn count_tick(&mut self, due: DueTick) {
        self.ticks += 1;
        self.missed_ticks += due.missed;
        self.lateness.observe(due.lateness.as_secs_f64());
    }

    /// True if the wall clock was set. Counts and logs that step.
    pub fn detect_clock_step(&mut self, at: Stamp, suspended: Duration) -> bool {
        let Some(step) = self.step_detector.detect(at, suspended) else {
            return false;
        };
        self.clock_steps += 1;
        let direction = if step > 0.0 { "forward" } else { "back" };
        let seconds = format!("{:.1}", step.abs());
        tracing::warn!(
            seconds,
            direction,
            "the system clock was set; rates and delays use the monotonic clock"
        );
        true
    }

    /// Absent and forbidden are states, which count when they begin. Gone and broken are events,
    /// which count each time, unless `repeats_problems` or a sample repeats the poll received at
    /// `received_at`. Logs new problems and changes of `up`.
    pub fn record(&mut self, batch: &Batch, repeats_problems: bool, received_at: Option<Stamp>) {
        let source_stats = self.by_source.entry(batch.source).or_default();
        if source_stats.up != batch.up {
            tracing::info!(
                source = batch.source.name(),
                up = batch.up,
                "source changed"
            );
        }
        source_stats.up = batch.up;
        source_stats.duration = batch.duration;
        if batch.up {
            source_stats.last_success = received_at.or(Some(batch.at));
        }
        let repeats_poll =
            received_at.is_some_and(|at| source_stats.last_poll.replace(at) == Some(at));
        for (index, problem) in batch.problems.iter().enumerate() {
            // Two requests may have the same problem.
            let mut before = source_stats
                .current_problems
                .iter()
                .chain(batch.problems.iter().take(index));
            let is_new = !before.any(|known| known == problem);
            if is_new {
                source_stats.log_problem(batch.source, problem, batch.at);
            }
            let is_event = !repeats_problems
                && !repeats_poll
                && matches!(problem.kind, ProblemKind::Gone | ProblemKind::Broken);
            if is_new || is_event {
                source_stats.problem_counts[problem.kind as usize] += 1;
            }
        }
        if source_stats.current_problems != batch.problems {
            source_stats.current_problems.clone_from(&batch.problems);
        }
    }

    pub fn batch(&self, at: Stamp) -> Batch {
        let mut readings = Vec::with_capacity(self.by_source.len() * 8);
        for (source, source_stats) in &self.by_source {
            let name = || source.name().into();
            readings.flag(&d::SOURCE_UP, [name()], source_stats.up);
            let seconds = source_stats.duration.as_secs_f64();
            readings.real(&d::SOURCE_DURATION, [name()], seconds);
            let last_success = source_stats.last_success.map(Stamp::unix_seconds);
            readings.real(&d::SOURCE_LAST_SUCCESS, [name()], last_success);
            for kind in ProblemKind::ALL {
                let count = source_stats.problem_counts[kind as usize];
                readings.integer(&d::SOURCE_PROBLEMS, [name(), kind.name().into()], count);
            }
        }
        readings.integer(&d::TICKS, [], self.ticks);
        readings.integer(&d::MISSED_TICKS, [], self.missed_ticks);
        readings.integer(&d::CLOCK_STEPS, [], self.clock_steps);
        let lateness = Value::Histogram(Arc::new(self.lateness.clone()));
        readings.push(Reading::new(&d::LATENESS, [], lateness));
        Batch {
            readings,
            up: true,
            ..Batch::empty(Source::Daemon, at)
        }
    }
}

/// New problems of one source. Some contain text of other programs, which could flood the log.
const MAX_LOGGED_PER_MINUTE: u32 = 20;

impl SourceStatistics {
    fn log_problem(&mut self, source: Source, problem: &Problem, now: Stamp) {
        let (minute_start, logged) = &mut self.logged_this_minute;
        if now.since(*minute_start) >= Duration::from_secs(60) {
            (*minute_start, *logged) = (now, 0);
        }
        *logged = logged.saturating_add(1);
        if *logged <= MAX_LOGGED_PER_MINUTE {
            log_problem(source, problem);
        } else if *logged == MAX_LOGGED_PER_MINUTE + 1 {
            tracing::warn!(
                source = source.name(),
                "problems change too often: no more are logged in this minute"
            );
        }
    }
}

/// Missing data is normal on some machines; forbidden or broken needs an operator.
fn log_problem(source: Source, problem: &Problem) {
    let (source, what) = (source.name(), problem.what.as_str());
    match problem.kind {
        ProblemKind::Absent | ProblemKind::Gone => tracing::debug!(source, what, "not found"),
        ProblemKind::Forbidden => tracing::warn!(source, what, "permission denied"),
        ProblemKind::Broken => tracing::warn!(source, what, "broken"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(problems: &[(ProblemKind, &str)]) -> Batch {
        let problems = problems
            .iter()
            .map(|(kind, what)| Problem::new(*kind, what))
            .collect();
        Batch {
            problems,
            up: true,
            ..Batch::empty(Source::Cgroup, Stamp::default())
        }
    }

    fn count(statistics: &Statistics, kind: ProblemKind) -> u64 {
        statistics.by_source[&Source::Cgroup].problem_counts[kind as usize]
    }

    #[test]
    fn a_problem_state_counts_once_and_an_error_event_each_time() {
        let mut statistics = Statistics::default();
        for _ in 0..3 {
            statistics.record(
                &batch(&[
                    (ProblemKind::Absent, "memory.high"),
                    (ProblemKind::Broken, "memory.stat"),
                ]),
                false,
                None,
            );
        }
        assert_eq!(
            (
                count(&statistics, ProblemKind::Absent),
                count(&statistics, ProblemKind::Broken)
            ),
            (1, 3)
        );
        statistics.record(&batch(&[]), false, None);
        statistics.record(&batch(&[(ProblemKind::Absent, "memory.high")]), false, None);
        assert_eq!(count(&statistics, ProblemKind::Absent), 2);
    }

    #[test]
    fn a_problem_shared_by_two_requests_is_logged_once() {
        let mut statistics = Statistics::default();
        for _ in 0..2 {
            statistics.record(
                &batch(&[(ProblemKind::Broken, "one"), (ProblemKind::Broken, "one")]),
                false,
                None,
            );
        }
        assert_eq!(
            statistics.by_source[&Source::Cgroup].logged_this_minute.1,
            1
        );
    }

    #[test]
    fn constantly_changing_problems_do_not_flood_the_log() {
        let mut source_stats = SourceStatistics::default();
        let at = |seconds| Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::ZERO,
        };
        for (second, logged) in [
            (0, 1),
            (1, 2),
            (59, 3),
            (60, 1),
            (61, 2),
            (119, 3),
            (121, 1),
        ] {
            source_stats.log_problem(Source::Datapoints, &Problem::broken("x"), at(second));
            assert_eq!(source_stats.logged_this_minute.1, logged, "{second}");
        }
    }

    #[test]
    fn a_repeated_problem_is_not_a_new_event() {
        let mut statistics = Statistics::default();
        let poll = Some(Stamp::default());
        for (repeats_problems, received_at) in [(false, poll), (false, poll), (true, None)] {
            statistics.record(
                &batch(&[(ProblemKind::Broken, "no answer")]),
                repeats_problems,
                received_at,
            );
        }
        assert_eq!(count(&statistics, ProblemKind::Broken), 1);
    }

    #[test]
    fn a_success_has_the_age_of_its_received_data() {
        let at = |seconds| Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::from_secs(1_000 + seconds),
        };
        let mut statistics = Statistics::default();
        statistics.record(
            &Batch {
                at: at(9),
                ..batch(&[])
            },
            false,
            Some(at(7)),
        );
        let readings = statistics.batch(at(9)).readings;
        let last_success = readings
            .iter()
            .find(|reading| reading.metric.name == d::SOURCE_LAST_SUCCESS.name);
        assert_eq!(
            last_success.map(|reading| reading.value.clone()),
            Some(Value::Real(1_007.0))
        );
    }
}
