use super::*;
use faultline_metrics::{Batch, Histogram, Reading, Source, Stamp, TIME_BOUNDS};
use std::sync::Arc;

const GIB: u64 = 1 << 30;

fn tick(second: u64, readings: Vec<Reading>) -> Tick {
    let at = Stamp {
        uptime: Duration::from_secs(second),
        unix: Duration::from_secs(1_790_000_000 + second),
    };
    let batch = Batch {
        readings,
        ..Batch::empty(Source::Datapoints, at)
    };
    Tick {
        number: second,
        at,
        batches: vec![Arc::new(batch)],
    }
}

fn trends(last: u64, readings: impl Fn(u64) -> Vec<Reading>) -> Trends {
    let mut trends = Trends::default();
    (0..=last).for_each(|second| trends.add(&tick(second, readings(second))));
    trends
}

/// The readings of `slots` slots that took `seconds` each.
fn times(slots: u64, seconds: f64) -> Value {
    let mut histogram = Histogram::new(&TIME_BOUNDS);
    (0..slots).for_each(|_| histogram.observe(seconds));
    Value::Histogram(Arc::new(histogram))
}

/// The total of ended processes.
fn ends(count: u64) -> Reading {
    Reading::integer(&p::ENDS, ["exit".into()], count)
}

#[test]
fn rates_per_slot_are_those_of_five_minutes() {
    // Two slots a second. In the last five minutes, each slot has six reloads.
    let trends = trends(600, |second| {
        let reloads = 12 * second.saturating_sub(290);
        vec![
            Reading::integer(&v::CACHE_RELOADS, [], reloads),
            Reading::new(&v::REPLAY_TIME, ["total".into()], times(2 * second, 0.02)),
            Reading::new(&v::CACHE_TIME, ["replay".into()], times(2 * second, 0.005)),
        ]
    });
    let inputs = trends.answer_inputs();
    assert_eq!(inputs.reloads_per_slot, Some(6.0));
    let milliseconds = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e3).round());
    assert_eq!(milliseconds(inputs.replay_seconds_per_slot), Some(20.0));
    assert_eq!(milliseconds(inputs.cache_seconds_per_slot), Some(5.0));
    let [reloads, cache, _] = trends.per_slot_series();
    assert_eq!((reloads.len(), cache.len()), (30, 30));
    assert_eq!(reloads.first(), Some(&(290.0, 6.0)));
    assert_eq!(trends.rows.len(), 31, "the ring is bounded");
}

#[test]
fn the_series_per_slot_begin_with_the_first_replayed_slots() {
    let trends = trends(90, |second| {
        let reloads = Reading::integer(&v::CACHE_RELOADS, [], 12 * second);
        let slots = (second >= 30).then(|| times(2 * second, 0.02));
        let slots = slots.map(|slots| Reading::new(&v::REPLAY_TIME, ["total".into()], slots));
        slots.into_iter().chain([reloads]).collect()
    });
    let [reloads, _, _] = trends.per_slot_series();
    assert_eq!(reloads.len(), 6);
    assert_eq!(reloads.first(), Some(&(50.0, 6.0)));
}

#[test]
fn without_replayed_slots_there_is_no_rate_per_slot() {
    let trends = trends(60, |_| vec![Reading::integer(&v::CACHE_RELOADS, [], 7)]);
    assert_eq!(trends.answer_inputs().reloads_per_slot, None);
}

#[test]
fn a_verdict_waits_for_a_minute_of_the_same_process() {
    let waits = |last, ended: fn(u64) -> u64| {
        let readings = |second| {
            let slots = (second >= 30).then(|| times(2 * second, 0.02));
            let slots = slots.map(|slots| Reading::new(&v::REPLAY_TIME, ["total".into()], slots));
            let start = Reading::integer(&p::START_TIME, [], 1);
            let process = [start, ends(ended(second))];
            slots.into_iter().chain(process).collect()
        };
        let inputs = trends(last, readings).answer_inputs();
        (
            inputs.seconds_to_enough_samples,
            inputs.seconds_to_enough_replay,
        )
    };
    assert_eq!(waits(0, |_| 0), (Some(60.0), Some(60.0)));
    assert_eq!(waits(50, |_| 0), (Some(10.0), Some(50.0)));
    assert_eq!(waits(60, |_| 0), (None, Some(40.0)));
    assert_eq!(waits(100, |_| 0), (None, None));
    let restarted = waits(120, |second| second / 100);
    assert_eq!(restarted, (Some(40.0), Some(50.0)));
}

/// The sums of datapoints outlive the process. The new process replays no slot before second 300.
#[test]
fn the_cache_of_a_new_process_is_not_judged_by_the_old_one() {
    let inputs = |last| {
        let readings = |second: u64| {
            let slots = 2 * (second.min(100) + second.saturating_sub(300));
            vec![
                Reading::integer(&p::START_TIME, [], 1),
                ends(second / 200),
                Reading::integer(&v::CACHE_RELOADS, [], 24 * slots.min(200)),
                Reading::new(&v::REPLAY_TIME, ["total".into()], times(slots, 0.02)),
            ]
        };
        trends(last, readings).answer_inputs()
    };
    let loads = inputs(290);
    assert_eq!(loads.seconds_to_enough_replay, Some(60.0));
    assert_eq!(loads.reloads_per_slot, None);
    let replays = inputs(370);
    assert_eq!(replays.seconds_to_enough_replay, None);
    assert_eq!(replays.reloads_per_slot, Some(0.0));
}

/// The start time of a process follows the host's clock.
#[test]
fn a_step_of_the_clock_starts_no_new_process() {
    let inputs = |last, bytes: fn(u64) -> u64| {
        let readings = |second: u64| {
            let mut readings = memory(bytes(second));
            readings[2] = Reading::integer(&p::START_TIME, [], 1 + second / 24_000 * 3600);
            let faults = Reading::integer(&p::PAGE_FAULTS, ["major".into()], 5 * second);
            let steps = Reading::integer(&daemon::CLOCK_STEPS, [], second / 24_000);
            readings.extend([faults, ends(0), steps]);
            readings
        };
        trends(last, readings).answer_inputs()
    };
    let stepped = inputs(24_010, |second| 50 * GIB + second * GIB / 3600);
    assert_eq!(stepped.seconds_to_enough_samples, None);
    assert_eq!(stepped.major_faults_per_second, Some(5.0));
    assert!(stepped.forecast.is_some());
    let was_higher = inputs(26_000, |second| {
        let before = if second < 23_000 { 95 * GIB } else { 50 * GIB };
        before + second * GIB / 3600
    });
    assert_eq!(was_higher.seconds_to_limit_by_half_hour_fit, None);
}

#[test]
fn a_validator_that_replaces_its_wrapper_is_another_process() {
    let major = |pool: &str, count| {
        let labels = [LabelText::from(pool.to_owned()), "major".into()];
        Reading::integer(&pools::PAGE_FAULTS, labels, count)
    };
    let trends = trends(120, |second| match second {
        0..60 => vec![
            Reading::integer(&p::START_TIME, [], 1),
            ends(0),
            major("sh", 3),
        ],
        _ => vec![
            Reading::integer(&p::START_TIME, [], 61),
            ends(0),
            major("solReplay", 5000),
        ],
    });
    let faults = trends.pool_faults();
    assert!(
        faults.iter().all(|(_, growth)| *growth == 0.0),
        "{faults:?}"
    );
}

fn memory(taken: u64) -> Vec<Reading> {
    vec![
        Reading::integer(&memory::UNRECLAIMABLE, [], taken),
        Reading::integer(&memory::EFFECTIVE_LIMIT, [], 100 * GIB),
        Reading::integer(&p::START_TIME, [], 1),
    ]
}

#[test]
fn the_pace_of_four_minutes_tells_the_time_to_the_limit() {
    let grows = trends(300, |second| memory(70 * GIB + second * GIB / 30));
    assert_eq!(
        grows.answer_inputs().seconds_to_limit_at_present_pace,
        Some(600.0)
    );
    assert_eq!(
        trends(300, |_| memory(70 * GIB))
            .answer_inputs()
            .seconds_to_limit_at_present_pace,
        None
    );
    let starting = trends(300, |second| {
        let mut readings = memory(70 * GIB + second * GIB / 30);
        readings.push(Reading::flag(
            &v::PHASE,
            ["unpacking".into()],
            second == 100,
        ));
        readings
    });
    assert_eq!(
        starting.answer_inputs().seconds_to_limit_at_present_pace,
        None
    );
}

#[test]
fn half_hours_of_growth_make_a_forecast_until_the_process_ends() {
    let mut trends = Trends::default();
    let hours = |from: u64, to: u64| (from * 360..to * 360).map(|step| step * 10);
    for second in hours(0, 10) {
        let memory = memory(50 * GIB + second * GIB / 3600);
        trends.add(&tick(second, memory));
    }
    let forecast = trends.answer_inputs().forecast.unwrap();
    let met = 1_790_000_000.0 + 50.0 * 3600.0;
    assert!((forecast.expected - met).abs() < 60.0, "{forecast:?}");
    let unreadable = vec![Reading::integer(&p::START_TIME, [], 1)];
    trends.add(&tick(36_000, unreadable));
    assert_eq!(trends.answer_inputs().forecast, None);
    trends.add(&tick(36_010, memory(60 * GIB)));
    assert!(trends.answer_inputs().forecast.is_some());
    let mut other = memory(50 * GIB);
    other.push(ends(1));
    trends.add(&tick(36_020, other));
    assert_eq!(trends.answer_inputs().forecast, None);
}

#[test]
fn kills_count_for_fifteen_minutes_and_only_with_the_machine() {
    let kills = |cgroup: u64, host: u64, last: u64| {
        let trends = trends(last, |second| {
            let killed = u64::from(second > 120);
            vec![
                Reading::integer(&cgroup::EVENTS, ["oom_kill".into()], cgroup * killed),
                Reading::integer(&host::OOM_KILLS, [], host * killed),
            ]
        });
        trends.answer_inputs().oom_kills
    };
    assert_eq!(kills(1, 1, 600), Some(1.0));
    assert_eq!(kills(1, 0, 600), Some(0.0), "it moved to another cgroup");
    assert_eq!(kills(1, 1, 1200), Some(0.0));
}

#[test]
fn leader_slots_of_three_hours_add_up_over_epochs() {
    let trends = trends(3600, |second| {
        let passed = second % 1800 / 100;
        let slots =
            |metric, state: &'static str, slots| Reading::integer(metric, [state.into()], slots);
        vec![
            slots(&votes::LEADER_SLOTS, "passed", passed),
            slots(&votes::LEADER_SLOTS, "skipped", passed / 4),
        ]
    });
    let slots = trends.answer_inputs().leader_slots.unwrap();
    assert_eq!((slots.passed, slots.skipped), (34.0, 8.0));
    assert_eq!(slots.cluster_skipped_share, None);
}

#[test]
fn pools_that_fault_are_sorted_by_their_rate() {
    let trends = trends(100, |second| {
        let faults = |pool: &'static str, count| {
            Reading::integer(&pools::PAGE_FAULTS, [pool.into(), "major".into()], count)
        };
        vec![
            faults("solScHandler", 5 * second),
            faults("solReplayStage", 50 * second),
            faults("solRpc", 3),
        ]
    });
    let expected = [
        ("solReplayStage".to_owned(), 50.0),
        ("solScHandler".to_owned(), 5.0),
    ];
    assert_eq!(trends.pool_faults(), expected);
}

#[test]
fn faults_before_the_first_reading_of_the_threads_are_no_growth() {
    let rates = |last| {
        let readings = |second| {
            let start = Reading::integer(&p::START_TIME, [], 1);
            let faults = 90_000 * (2 - second / 100) + 5 * second;
            let labels = ["solReplayStage".into(), "major".into()];
            let faults = Reading::integer(&pools::PAGE_FAULTS, labels, faults);
            let process = [start, ends(second / 100)];
            process.into_iter().chain((second > 0).then_some(faults))
        };
        trends(last, |second| readings(second).collect()).pool_faults()
    };
    let five = [("solReplayStage".to_owned(), 5.0)];
    assert_eq!(rates(10), []);
    assert_eq!(rates(90), five);
    assert_eq!(rates(190), five, "after a restart");
}

/// The cgroup has no pressure after second 150: the process ended, or its cgroup is unreadable.
#[test]
fn the_stalls_of_the_machine_are_no_growth_of_those_of_the_cgroup() {
    for has_ended in [true, false] {
        let trends = trends(300, |second| {
            let stalled =
                |metric, seconds| Reading::real(metric, ["memory".into(), "some".into()], seconds);
            let is_late = second >= 150;
            let start = Reading::integer(&p::START_TIME, [], 1);
            let start = (!has_ended || !is_late).then_some(start);
            let cgroup = (!is_late).then(|| stalled(&cgroup::PRESSURE, 1.0));
            let host = stalled(&host::PRESSURE, 900.0);
            start.into_iter().chain(cgroup).chain([host]).collect()
        });
        assert_eq!(trends.answer_inputs().memory_stalled_share, Some(0.0));
    }
}

#[test]
fn growth_of_half_an_hour_tells_the_time_to_the_limit() {
    let grows = trends(3600, |second| memory(70 * GIB + second * GIB / 360));
    let seconds = grows
        .answer_inputs()
        .seconds_to_limit_by_half_hour_fit
        .unwrap();
    assert!((seconds - 7200.0).abs() < 60.0, "{seconds}");
    let was_higher = trends(3600, |second| {
        let before = if second < 600 { 95 * GIB } else { 70 * GIB };
        memory(before + second * GIB / 360)
    });
    assert_eq!(
        was_higher.answer_inputs().seconds_to_limit_by_half_hour_fit,
        None
    );
    let restarted = trends(3600, |second| {
        let is_old = second < 600;
        let mut readings = memory(if is_old { 95 * GIB } else { 70 * GIB } + second * GIB / 360);
        readings.push(ends(u64::from(!is_old)));
        readings
    });
    assert!(
        restarted
            .answer_inputs()
            .seconds_to_limit_by_half_hour_fit
            .is_some()
    );
    let falls = trends(3600, |second| memory(90 * GIB - second * GIB / 360));
    assert_eq!(
        falls.answer_inputs().seconds_to_limit_by_half_hour_fit,
        None
    );
}

#[test]
fn after_a_migration_votes_settle_for_fifteen_minutes() {
    let migrates = |second| Reading::flag(&v::CONSENSUS, ["migrating".into()], second < 300);
    let distance = |second| {
        let slots = if second == 1000 { 2 } else { 9 };
        Reading::integer(&votes::CERTIFICATE_DISTANCE, ["reward".into()], slots)
    };
    let after = |last| {
        trends(last, |second| {
            vec![migrates(second), distance(second / 60 * 60)]
        })
    };
    assert!(after(600).answer_inputs().has_migrated_lately);
    assert!(!after(1800).answer_inputs().has_migrated_lately);
    assert_eq!(
        after(600).answer_inputs().fewest_slots_since_certified_vote,
        Some(9.0)
    );
    let counted = trends(600, |second| {
        vec![
            distance(second),
            Reading::integer(&consensus::VOTES_MISSED, ["late".into()], 0),
        ]
    });
    assert_eq!(
        counted.answer_inputs().fewest_slots_since_certified_vote,
        None
    );
}
