use faultline_phase::Phase;
use faultline_recording::{SessionRow, TickRow};
use serde::Serialize;
use std::time::Duration;

/// A longer step between ticks, in intervals, is a gap.
const GAP_INTERVALS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gap {
    pub from_unix_ns: i64,
    pub to_unix_ns: i64,
    /// By the monotonic clock; between two sessions by the wall clock.
    pub seconds: f64,
    /// `None` between two sessions.
    pub missed: Option<u64>,
}

impl Gap {
    pub fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// In order of first appearance; `None` without evidence. Gaps belong to no phase.
    pub phases: Vec<(Option<Phase>, Duration)>,
    pub gaps: Vec<Gap>,
    /// From first to last tick, by the same clocks as [`Gap::seconds`].
    pub length: Duration,
}

/// The time between two ticks belongs to the phase of the earlier one.
pub fn times(ticks: &[TickRow], sessions: &[SessionRow], phases: &[Option<Phase>]) -> Times {
    let mut times = Times::default();
    for (pair, phase) in ticks.windows(2).zip(phases) {
        let [before, after] = pair else { continue };
        let one_session = before.session == after.session;
        let (from, to) = if one_session {
            (before.uptime_ns, after.uptime_ns)
        } else {
            (before.unix_ns, after.unix_ns)
        };
        let passed = Duration::from_nanos(u64::try_from(to.saturating_sub(from)).unwrap_or(0));
        times.length += passed;
        let gap = |missed| Gap {
            from_unix_ns: before.unix_ns,
            to_unix_ns: after.unix_ns,
            seconds: passed.as_secs_f64(),
            missed,
        };
        if !one_session {
            times.gaps.push(gap(None));
            continue;
        }
        let interval = sessions
            .iter()
            .find(|session| session.id == after.session)
            .map(|session| session.interval);
        let missed = after.number.saturating_sub(before.number).saturating_sub(1);
        if missed > 0 || interval.is_some_and(|interval| passed > interval * GAP_INTERVALS) {
            times.gaps.push(gap(Some(missed)));
            continue;
        }
        match times.phases.iter_mut().find(|(of, _)| of == phase) {
            Some((_, sum)) => *sum += passed,
            None => times.phases.push((*phase, passed)),
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn tick(session: i64, number: u64) -> TickRow {
        let at = i64::try_from(number).unwrap() * SECOND;
        let unix_ns = session * 1000 * SECOND + at;
        TickRow {
            id: 0,
            session,
            number,
            unix_ns,
            uptime_ns: at,
            process: None,
            phase: None,
        }
    }

    fn session(id: i64) -> SessionRow {
        SessionRow {
            id,
            started: Duration::ZERO,
            ended: None,
            interval: Duration::from_secs(1),
            version: String::new(),
            manifest: serde_json::Value::Null,
        }
    }

    #[test]
    fn time_counts_for_the_phase_at_its_start_and_gaps_for_none() {
        let ticks = [
            tick(1, 1),
            tick(1, 2),
            tick(1, 3),
            tick(1, 4),
            tick(1, 7),
            tick(2, 1),
            tick(2, 2),
        ];
        let (starting, at_tip) = (Some(Phase::Starting), Some(Phase::AtTip));
        let phases = [None, starting, at_tip, at_tip, at_tip, at_tip, starting];
        let found = times(&ticks, &[session(1), session(2)], &phases);
        let seconds: Vec<_> = found
            .phases
            .iter()
            .map(|(phase, sum)| (*phase, sum.as_secs()))
            .collect();
        assert_eq!(seconds, [(None, 1), (starting, 1), (at_tip, 2)]);
        let gaps: Vec<_> = found
            .gaps
            .iter()
            .map(|gap| (gap.length().as_secs(), gap.missed))
            .collect();
        assert_eq!(gaps, [(3, Some(2)), (994, None)]);
    }

    #[test]
    fn a_clock_step_does_not_change_durations() {
        for jump in [3600, -3600] {
            let mut ticks: Vec<TickRow> = [1, 2, 3, 7, 8].map(|number| tick(1, number)).into();
            ticks
                .iter_mut()
                .skip(3)
                .for_each(|tick| tick.unix_ns += jump * SECOND);
            let found = times(&ticks, &[session(1)], &[None; 5]);
            assert_eq!(
                (found.gaps[0].length().as_secs(), found.length.as_secs()),
                (4, 7),
                "{jump}"
            );
        }
    }

    #[test]
    fn a_stalled_daemon_leaves_a_gap_despite_continuous_tick_numbers() {
        let mut late = tick(1, 2);
        late.uptime_ns += 3 * SECOND;
        late.unix_ns += 3 * SECOND;
        let found = times(&[tick(1, 1), late], &[session(1)], &[None; 2]);
        assert_eq!((found.phases.len(), found.gaps.len()), (0, 1));
        assert_eq!(times(&[], &[], &[]), Times::default());
    }
}
