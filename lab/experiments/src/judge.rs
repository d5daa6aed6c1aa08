//! Derives a run's outcome and validity from its cgroup's state and its recording.

use super::{
    outcome::{Outcome, Validity},
    plan::{StopRules, WorkloadKind},
};
use faultline_common::clock::{from_nanoseconds, nanoseconds};
use faultline_recording::{ProgramCachePoint, TickRow};
use faultline_runner::isolation::{CgroupState, End};
use faultline_text::{count, duration};
use itertools::{Itertools, chain};
use std::time::Duration;

const SHELL_SIGNAL_BASE: i32 = 128;
const MAX_SIGNAL: i32 = 64;
/// A pass of the program cache evicts down to this percentage of the capacity.
const EVICTION_TARGET_PERCENT: u64 = 90;
/// Concurrent batches can exceed the target by this.
const BATCH_OVERSHOOT: u64 = 32;
const MAX_MISSING_SHARE: f64 = 0.05;
/// With a larger share of samples missing, a recording proves nothing.
const USELESS_SHARE: f64 = 0.5;
/// Less missing time is normal: a busy host may delay any process.
const MIN_MISSING_TIME: Duration = Duration::from_secs(2);
/// Between two samples; or [`GAP_INTERVALS`] sampling intervals, if these are longer.
const MAX_GAP: Duration = Duration::from_secs(10);
const GAP_INTERVALS: u32 = 3;

#[derive(Default)]
pub struct EndFacts {
    /// [`Outcome::Completed`] if the planned duration was over, `None` if the run ended by itself.
    pub stop_reason: Option<Outcome>,
    pub state_at_stop: CgroupState,
    pub final_state: CgroupState,
    /// The first process exited and left others in the cgroup.
    pub has_survivors: bool,
}

/// Also true if only a child was OOM-killed: a shell may survive it.
pub fn was_oom_killed(cgroup_state: &CgroupState) -> bool {
    let kills = cgroup_state.memory_events.get("oom_kill");
    kills.is_some_and(|kills| *kills > 0) || cgroup_state.result.as_deref() == Some("oom-kill")
}

pub fn outcome(kind: WorkloadKind, stop: &StopRules, facts: &EndFacts) -> (Outcome, Vec<String>) {
    let failed = |why: &str| Outcome::Failed {
        why: why.to_owned(),
    };
    let mut notes = Vec::new();
    let final_state = &facts.final_state;
    let is_oom_killed = was_oom_killed(final_state);
    let outcome = match (&facts.stop_reason, final_state.end) {
        _ if was_oom_killed(&facts.state_at_stop) => Outcome::OutOfMemory,
        (Some(reason), _) => {
            if is_oom_killed {
                notes.push("it was OOM-killed while it was being stopped".to_owned());
            }
            if (reason, kind) == (&Outcome::Completed, WorkloadKind::Replay) {
                failed(&format!(
                    "its work was not done within {}: give it a longer `stop.duration`",
                    duration(stop.duration)
                ))
            } else {
                reason.clone()
            }
        }
        _ if is_oom_killed => Outcome::OutOfMemory,
        _ if final_state.result.as_deref() == Some("timeout") => {
            failed("systemd stopped it: it ran longer than any run of this plan may")
        }
        // The exit code is probably that of a start script.
        (None, Some(End::Code(0))) if facts.has_survivors && kind == WorkloadKind::Validator => {
            failed(
                "its command ended with exit code 0 while what it had started was still running: a start-up \
             script has to stay until the validator ends (`exec` it, or `wait` for it)",
            )
        }
        (None, end) => {
            if facts.has_survivors {
                notes.push(
                    "its first process ended and left others running, which were ended as well"
                        .to_owned(),
                );
            }
            match end {
                Some(End::Code(0)) if kind == WorkloadKind::Replay => Outcome::Completed,
                Some(End::Code(code)) => {
                    let signal = code - SHELL_SIGNAL_BASE;
                    if (1..=MAX_SIGNAL).contains(&signal) {
                        notes.push(format!(
                            "a shell exits with {code} if signal {signal} killed its child"
                        ));
                    }
                    Outcome::Exited { code }
                }
                Some(End::Signal(signal)) => Outcome::Killed { signal },
                None => failed("it has ended, and its exit status is unknown"),
            }
        }
    };
    (outcome, notes)
}

/// Sums over a run's datapoints of the program cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramCacheTotals {
    pub points: u64,
    /// Highest number of compiled entries at the start of a pass. A pass follows each load of a
    /// program, even if it evicts nothing.
    pub water_level: u64,
    /// Like `water_level`, but only of points with evictions.
    pub water_level_evicting: u64,
    pub insertions: u64,
    pub evictions: u64,
}

impl ProgramCacheTotals {
    pub fn of(points: &[ProgramCachePoint]) -> Self {
        let mut totals = Self::default();
        for point in points {
            totals.add(point.water_level, point.insertions, point.evictions);
        }
        totals
    }

    pub(crate) fn add(
        &mut self,
        water_level: Option<u64>,
        insertions: Option<u64>,
        evictions: Option<u64>,
    ) {
        let [level, insertions, evictions] =
            [water_level, insertions, evictions].map(Option::unwrap_or_default);
        self.points += 1;
        self.water_level = self.water_level.max(level);
        if evictions > 0 {
            self.water_level_evicting = self.water_level_evicting.max(level);
        }
        self.insertions = self.insertions.saturating_add(insertions);
        self.evictions = self.evictions.saturating_add(evictions);
    }
}

/// Whether the program cache had a capacity of `entries`. A stock binary silently ignores the
/// environment variable for the capacity.
///
/// The water level of a pass that evicts is nine tenths of the capacity or slightly above. If no pass
/// evicts, a larger capacity would not have changed the run.
pub fn program_cache_validity(entries: u32, totals: &ProgramCacheTotals) -> Validity {
    let ProgramCacheTotals {
        points,
        water_level,
        water_level_evicting,
        insertions,
        evictions,
    } = *totals;
    let capacity = u64::from(entries);
    let target = capacity * EVICTION_TARGET_PERCENT / 100;
    let with_counts = |finding: &str| {
        format!(
            "{finding}: the highest water level is {water_level}, with {insertions} insertions and {evictions} evictions"
        )
    };
    if points == 0 {
        Validity::Unproven("nothing was recorded of the program cache".to_owned())
    } else if water_level > capacity.max(target + BATCH_OVERSHOOT) {
        Validity::Invalid(with_counts(&format!(
            "the program cache was larger than {entries} entries"
        )))
    } else if evictions > 0 && water_level_evicting == 0
        || evictions == 0 && water_level == 0 && insertions > target
    {
        Validity::Unproven(with_counts("the program cache's capacity is unknown"))
    } else if evictions > 0 && water_level_evicting < target {
        Validity::Invalid(with_counts(&format!(
            "the program cache was smaller than {entries} entries"
        )))
    } else {
        Validity::Valid
    }
}

#[derive(Clone, Copy)]
pub struct RunPeriod {
    pub from_unix_ns: i64,
    /// By the monotonic clock.
    pub length: Duration,
}

/// How many of the expected ticks (samples) a recording has. A stalled recorder leaves no other
/// trace than missing ticks.
pub struct TickCoverage {
    pub due_ticks: u64,
    pub missing_ticks: u64,
    pub longest_gap: Duration,
    pub interval: Duration,
}

impl TickCoverage {
    /// `ticks` are those of one recorder, in order. The wall clock may jump, so it only determines
    /// where the run begins.
    pub fn of(ticks: &[TickRow], run_period: RunPeriod, interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        let due_ticks =
            u64::try_from(run_period.length.as_nanos() / interval.as_nanos()).unwrap_or(u64::MAX);
        // Searches forward: as the wall clock may jump back during the run, a later tick may have an
        // earlier time than the run.
        let first = ticks
            .iter()
            .position(|tick| tick.unix_ns > run_period.from_unix_ns)
            .unwrap_or(ticks.len());
        let from_uptime_ns = ticks.get(first.saturating_sub(1)).map_or(0, |before| {
            before
                .uptime_ns
                .saturating_add(run_period.from_unix_ns.saturating_sub(before.unix_ns))
        });
        let to_uptime_ns = from_uptime_ns.saturating_add(nanoseconds(run_period.length));
        let recorded = ticks
            .iter()
            .map(|tick| tick.uptime_ns)
            .filter(|uptime_ns| *uptime_ns > from_uptime_ns && *uptime_ns <= to_uptime_ns);
        let gaps = chain!([from_uptime_ns], recorded.clone(), [to_uptime_ns])
            .tuple_windows()
            .map(|(last, next)| next - last);
        Self {
            due_ticks,
            // A period of n intervals has at least n ticks, whenever its first tick comes.
            missing_ticks: due_ticks.saturating_sub(recorded.count() as u64),
            longest_gap: from_nanoseconds(gaps.max().unwrap_or(0)),
            interval,
        }
    }

    /// `None` if the recording can prove a result.
    pub fn coverage_doubt(&self) -> Option<String> {
        let is_long = self.longest_gap > MAX_GAP.max(self.interval * GAP_INTERVALS);
        (is_long || self.misses_more_than(MAX_MISSING_SHARE)).then(|| {
            format!(
                "its recorder stalled: {} of {} samples are missing, the longest gap is {}",
                count(self.missing_ticks),
                count(self.due_ticks),
                duration(self.longest_gap)
            )
        })
    }

    fn misses_more_than(&self, share: f64) -> bool {
        let time = self
            .interval
            .saturating_mul(u32::try_from(self.missing_ticks).unwrap_or(u32::MAX));
        time >= MIN_MISSING_TIME && self.missing_ticks as f64 > share * self.due_ticks as f64
    }

    /// If most samples are missing, a completed run becomes a failed one, which is repeated. The
    /// state of the cgroup proves any other outcome.
    pub fn checked_outcome(&self, outcome: Outcome) -> Outcome {
        match self.coverage_doubt() {
            Some(why) if outcome == Outcome::Completed && self.misses_more_than(USELESS_SHARE) => {
                Outcome::Failed { why }
            }
            _ => outcome,
        }
    }
}

#[cfg(test)]
mod tests;
