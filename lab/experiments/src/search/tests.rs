use super::*;
use plant::{Plant, seconds};

mod again;
mod plant;
mod silence;

const MIB: u64 = 1 << 20;

fn rules() -> MemorySearchRules {
    MemorySearchRules {
        first_headroom: 400 * MIB,
        settle_time: seconds(20),
        dwell: seconds(60),
        max_interval_width: 0.1,
        max_duration: seconds(8 * 3600),
        growth_horizon: seconds(24 * 3600),
    }
}

/// Runs a search to its end. Returns its answer and its journal lines.
fn search(plant: &mut Plant) -> (SearchAnswer, Vec<SearchEvent>) {
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    let mut lines = Vec::new();
    for _ in 0..4 * 9 * 3600 {
        let reading = plant.read();
        for action in machine.poll(&reading) {
            match action {
                Action::SetLimit(limit) => plant.limit(limit),
                Action::Journal(line) => lines.push(line),
                Action::Over(answer) => return (*answer, lines),
            }
        }
    }
    panic!("no end: {lines:#?}");
}

fn dwells(lines: &[SearchEvent]) -> Vec<(Option<u64>, Verdict, &DwellEvidence)> {
    let mut all = Vec::new();
    for line in lines {
        if let SearchEvent::Dwell(DwellResult {
            headroom,
            verdict,
            evidence,
            ..
        }) = line
        {
            all.push((*headroom, *verdict, &**evidence));
        }
    }
    all
}

#[track_caller]
fn assert_interval_contains(answer: &SearchAnswer, knee: u64) {
    let SearchOutcome::Found(HeadroomInterval { low, middle, high }) = answer.outcome else {
        panic!("{answer:#?}")
    };
    assert!(
        low <= knee && knee <= high,
        "{} to {} MiB, knee {}",
        low / MIB,
        high / MIB,
        knee / MIB
    );
    assert!(low <= middle && middle <= high);
    assert!((high as f64) <= 1.1 * low as f64, "{low} to {high}");
}

#[test]
fn a_knee_is_found_within_ten_percent() {
    for (seed, knee) in [(1, 90), (2, 145), (3, 251), (4, 330), (5, 380)] {
        let mut plant = Plant::new(knee * MIB, seed);
        let (answer, lines) = search(&mut plant);
        assert_interval_contains(&answer, knee * MIB);
        assert_eq!(plant.killed, 0);
        let confirmed = answer.confirmed.expect("it was confirmed");
        assert!(confirmed.agrees(), "{confirmed:?}");
        assert_eq!(
            (answer.is_stable, answer.sufficient_sizes.len()),
            (Some(true), 1),
            "{answer:#?}"
        );
        let dwells = dwells(&lines);
        assert!(dwells.len() <= 75, "{}", dwells.len());
        let references: Vec<usize> = dwells
            .iter()
            .enumerate()
            .filter(|(_, d)| d.0.is_none())
            .map(|(i, _)| i)
            .collect();
        assert_eq!(
            references.get(..3),
            Some(&[0, 1, 5][..]),
            "every fourth: {references:?}"
        );
    }
}

#[test]
fn leaking_memory_never_settles_but_the_headroom_is_found() {
    let mut plant = Plant::new(200 * MIB, 1);
    plant.leak = 5 * MIB;
    let (answer, _) = search(&mut plant);
    // The limit is set once a second, so memory that leaks in this second shifts the result.
    let SearchOutcome::Found(HeadroomInterval { middle, .. }) = answer.outcome else {
        panic!("{answer:#?}")
    };
    assert!(middle > 190 * MIB && middle < 215 * MIB, "{middle}");
    assert_eq!((answer.is_stable, plant.killed), (Some(false), 0));
    let grows = answer.growth_bytes_per_hour.expect("it was read") / (5.0 * 3600.0 * MIB as f64);
    assert!((0.98..1.02).contains(&grows), "{grows}");
    let hours: Vec<f64> = answer
        .sufficient_sizes
        .iter()
        .map(|size| size.hours)
        .collect();
    assert_eq!(hours, [1.0, 12.0, 24.0]);
    let day = answer.sufficient_sizes.last().expect("24 h").bytes;
    let leaked = 5 * MIB * 24 * 3600;
    assert!(day > leaked && day < leaked + leaked / 20, "{day}");
}

#[test]
fn external_load_only_voids_dwells() {
    let mut plant = Plant::new(200 * MIB, 3);
    plant.loaded = Some((seconds(200), seconds(400)));
    let (answer, lines) = search(&mut plant);
    assert_interval_contains(&answer, 200 * MIB);
    let void: Vec<_> = dwells(&lines)
        .into_iter()
        .filter(|(_, verdict, _)| *verdict == Verdict::Void)
        .collect();
    assert!(void.len() >= 3, "{void:#?}");
    for (headroom, verdict, evidence) in dwells(&lines) {
        // The working set varies up to half a percent above the knee.
        let low = headroom.is_some_and(|headroom| headroom < 202 * MIB);
        assert!(
            verdict != Verdict::Failed || low,
            "{headroom:?} {evidence:#?}"
        );
    }
}

#[test]
fn permanent_external_load_is_inconclusive_not_a_failure() {
    let mut plant = Plant::new(200 * MIB, 4);
    // The load begins after the references.
    plant.loaded = Some((seconds(600), seconds(100_000)));
    let (answer, lines) = search(&mut plant);
    assert!(
        matches!(answer.outcome, SearchOutcome::Inconclusive { .. }),
        "{answer:#?}"
    );
    let dwells = dwells(&lines);
    assert!(
        dwells
            .last()
            .is_some_and(|(_, verdict, _)| *verdict == Verdict::Void),
        "{dwells:#?}"
    );
    assert!(
        dwells
            .iter()
            .all(|(_, verdict, _)| *verdict != Verdict::Failed),
        "{dwells:#?}"
    );
    assert_eq!(answer.sufficient_sizes, []);
}

#[test]
fn late_wakeups_of_mostly_idle_threads_do_not_indicate_load() {
    let mut plant = Plant::new(251 * MIB, 3);
    plant.idle = true;
    let (answer, _) = search(&mut plant);
    assert_interval_contains(&answer, 251 * MIB);
}

#[test]
fn a_dwell_kept_up_above_its_limit_is_inconclusive() {
    let mut plant = Plant::new(200 * MIB, 3);
    plant.stuck = 600 * MIB;
    let (answer, lines) = search(&mut plant);
    assert!(
        matches!(answer.outcome, SearchOutcome::Inconclusive { .. }),
        "{answer:#?}"
    );
    assert!(
        dwells(&lines)
            .iter()
            .filter(|(headroom, ..)| headroom.is_some())
            .all(|(_, verdict, _)| *verdict == Verdict::Void)
    );
    assert_eq!(plant.killed, 0);
}

#[test]
fn an_insufficient_first_headroom_ends_the_search() {
    let (answer, _) = search(&mut Plant::new(700 * MIB, 5));
    assert_eq!(answer.outcome, SearchOutcome::FirstHeadroomTooSmall);
}

#[test]
fn a_validator_without_page_cache_need_never_fails_the_search() {
    let mut plant = Plant::new(MIB, 6);
    let (answer, _) = search(&mut plant);
    assert!(
        matches!(answer.outcome, SearchOutcome::NeverFailed { .. }),
        "{answer:#?}"
    );
    assert_eq!(plant.killed, 0);
}

#[test]
fn an_expired_search_ends_with_the_limit_lifted() {
    let mut plant = Plant::new(200 * MIB, 7);
    let mut machine = SearchMachine::new(
        MemorySearchRules {
            max_duration: seconds(1000),
            ..rules()
        },
        32,
        false,
    )
    .expect("rules");
    let over = (0..8000).find_map(|_| {
        let actions = machine.poll(&plant.read());
        actions.iter().for_each(|action| {
            if let Action::SetLimit(limit) = action {
                plant.limit(*limit);
            }
        });
        actions
            .into_iter()
            .find(|action| matches!(action, Action::Over(_)))
    });
    let Some(Action::Over(answer)) = over else {
        panic!("no end")
    };
    assert_eq!(
        (answer.outcome, plant.limit),
        (SearchOutcome::OutOfTime, None)
    );
}

#[test]
fn a_search_timing_out_in_confirmation_reports_an_unconfirmed_range() {
    let mut plant = Plant::new(200 * MIB, 8);
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    let answer = (0..200_000).find_map(|_| {
        let actions = machine.poll(&plant.read());
        if matches!(
            machine.stage,
            Stage::Dwelling(DwellPurpose::Confirm { .. }, _)
        ) {
            machine.rules.max_duration = Duration::ZERO;
        }
        actions.into_iter().find_map(|action| match action {
            Action::SetLimit(limit) => {
                plant.limit(limit);
                None
            }
            Action::Over(answer) => Some(answer),
            Action::Journal(_) => None,
        })
    });
    let answer = answer.expect("an end");
    let SearchOutcome::Unconfirmed(HeadroomInterval { low, middle, high }) = answer.outcome else {
        panic!("{answer:?}")
    };
    assert!(low < middle && middle < high, "{answer:?}");
    assert!(
        high as f64 / low as f64 - 1.0 <= rules().max_interval_width,
        "{answer:?}"
    );
    assert!(answer.confirmed.is_some() && !answer.sufficient_sizes.is_empty());
    assert_eq!(plant.limit, None);
}

/// A search machine in its first dwell under a limit, and its simulated validator.
fn machine_in_limited_dwell() -> (SearchMachine, Plant) {
    let (mut machine, mut plant) = (
        SearchMachine::new(rules(), 32, false).expect("rules"),
        Plant::new(200 * MIB, 8),
    );
    while !matches!(machine.stage, Stage::Dwelling(DwellPurpose::Probe(_), _)) {
        for action in machine.poll(&plant.read()) {
            if let Action::SetLimit(limit) = action {
                plant.limit(limit);
            }
        }
    }
    assert!(plant.limit.is_some());
    (machine, plant)
}

#[test]
fn every_danger_lifts_the_limit_in_the_same_poll() {
    let dangers: [fn(&mut Reading); 4] = [
        |reading| reading.slots_behind = Some(21),
        |reading| reading.stalled = reading.stalled.map(|stalled| stalled + seconds(3)),
        |reading| reading.out_of_memory = true,
        |reading| reading.unreclaimable = reading.unreclaimable.map(|bytes| bytes + 250 * MIB),
    ];
    for danger in dangers {
        let (mut machine, mut plant) = machine_in_limited_dwell();
        let mut reading = plant.read();
        danger(&mut reading);
        let actions = machine.poll(&reading);
        assert_eq!(
            actions.first(),
            Some(&Action::SetLimit(None)),
            "{actions:?}"
        );
        let is_failed_dwell = |action: &Action| {
            matches!(
                action,
                Action::Journal(SearchEvent::Dwell(DwellResult {
                    verdict: Verdict::Failed,
                    ..
                }))
            )
        };
        assert!(actions.iter().any(is_failed_dwell), "{actions:#?}");
        assert!(matches!(machine.stage, Stage::Recovering(_)));
    }
}

#[test]
fn the_limit_is_lifted_when_memory_cannot_be_read() {
    let (mut machine, mut plant) = machine_in_limited_dwell();
    let mut lifted = None;
    for poll in 0..60 {
        let reading = Reading {
            unreclaimable: None,
            ..plant.read()
        };
        if machine.poll(&reading).contains(&Action::SetLimit(None)) {
            lifted = Some(poll);
            break;
        }
    }
    assert!(lifted.is_some_and(|poll| poll <= 4 * 6), "{lifted:?}");
}

#[test]
fn a_limit_falls_at_most_six_percent_per_step_and_rises_immediately() {
    let (mut machine, mut plant) = (
        SearchMachine::new(rules(), 32, false).expect("rules"),
        Plant::new(200 * MIB, 9),
    );
    let mut last: Option<u64> = None;
    let mut lowered = 0;
    for _ in 0..4 * 2000 {
        let reading = plant.read();
        for action in machine.poll(&reading) {
            let Action::SetLimit(limit) = action else {
                continue;
            };
            plant.limit(limit);
            match (last, limit) {
                (None, Some(first)) => {
                    assert!(
                        reading.memory.is_some_and(|memory| first + 4096 > memory),
                        "{first} {reading:?}"
                    );
                }
                (Some(before), Some(now)) => {
                    assert!(now as f64 >= 0.9399 * before as f64, "{before} to {now}");
                    lowered += usize::from(now < before);
                }
                _ => {}
            }
            last = limit;
        }
        assert!(
            plant
                .limit
                .zip(reading.unreclaimable)
                .is_none_or(|(limit, least)| limit > least)
        );
    }
    assert!(lowered > 10, "{lowered}");
}

#[test]
fn a_large_limit_falls_one_gibibyte_per_second_before_its_dwell() {
    const GIB: u64 = 1 << 30;
    let rules = MemorySearchRules {
        first_headroom: 100 * GIB,
        settle_time: seconds(2),
        ..rules()
    };
    let mut machine = SearchMachine::new(rules, 32, false).expect("rules");
    let (mut limit, mut steps) = (None, 0);
    for poll in 0..4 * 3600_u64 {
        let memory = limit.unwrap_or(400 * GIB);
        let at = Duration::from_millis(250 * poll);
        let (behind, tip) = (Some(0), Some(poll));
        let reading = Reading {
            at,
            unreclaimable: Some(200 * GIB),
            memory: Some(memory),
            slots_behind: behind,
            tip_slot: tip,
            ..Reading::default()
        };
        for action in machine.poll(&reading) {
            if let Action::SetLimit(now) = action {
                let step = memory.saturating_sub(now.unwrap_or(u64::MAX));
                assert!(step <= GIB, "{} MiB at once", step / MIB);
                steps += usize::from(step > 0);
                limit = now;
            }
        }
        if matches!(machine.stage, Stage::Dwelling(DwellPurpose::Probe(_), _)) {
            assert_eq!(limit, Some(300 * GIB));
            assert_eq!(steps, 100);
            return;
        }
    }
    panic!("no dwell under a limit");
}

#[test]
fn stalls_under_a_lifted_limit_do_not_end_a_later_one() {
    let (mut machine, mut plant) = machine_in_limited_dwell();
    let stalled = |reading: Reading| Reading {
        stalled: reading.stalled.map(|before| before + seconds(9)),
        ..reading
    };
    let reading = stalled(plant.read());
    assert!(machine.poll(&reading).contains(&Action::SetLimit(None)));
    plant.limit(None);
    // If the next limit is set at once, the stall under the previous limit must not count.
    let mut actions = Vec::new();
    machine
        .limit_control
        .adjust(Some(100 * MIB), &reading, &mut actions);
    for _ in 0..4 * 12 {
        assert_eq!(
            machine.limit_control.detect_danger(&stalled(plant.read())),
            None
        );
    }
}

#[test]
fn replay_of_slots_before_a_dwell_does_not_count_for_it() {
    let reading = |at: u64, replays: &[(u64, f64)]| Reading {
        at: seconds(at),
        slots_behind: Some(0),
        unreclaimable: Some(MIB),
        replays: replays
            .iter()
            .map(|(at, us)| ReplayedSlot {
                at: seconds(*at),
                replay_us: *us,
            })
            .collect(),
        ..Reading::default()
    };
    let mut dwell = Dwell::begin(&reading(100, &[]), seconds(10));
    dwell.add(&reading(101, &[(95, 9000.0), (99, 8000.0), (100, 1000.0)]));
    dwell.add(&reading(111, &[(110, 2000.0)]));
    let (_, evidence) = dwell.verdict(32, &References::default(), None);
    assert_eq!(evidence.replay_p95_us, Some(2000.0));
}

#[test]
fn startup_memory_is_the_maximum_before_staying_at_tip() {
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    for second in 0..30_u64 {
        // At first near an old tip, then far behind, then at the tip.
        let behind = Some(if (5..8).contains(&second) { 50 } else { 4 });
        let unreclaimable = Some((100 + second.min(20)) * MIB);
        machine.poll(&Reading {
            at: seconds(second),
            slots_behind: behind,
            unreclaimable,
            ..Reading::default()
        });
    }
    assert_eq!(machine.startup_peak_bytes, 120 * MIB);
}

#[test]
fn a_busier_host_is_detected_despite_a_high_baseline_wait() {
    let reading = |at: u64, waited: u64, us: f64| Reading {
        at: seconds(at),
        slots_behind: Some(0),
        unreclaimable: Some(MIB),
        replay_cpu: Some((seconds(waited), seconds(at))),
        replays: vec![ReplayedSlot {
            at: seconds(at),
            replay_us: us,
        }],
        ..Reading::default()
    };
    let dwell = |waits: u64, us: f64| {
        let mut dwell = Dwell::begin(&reading(0, 0, us), seconds(40));
        (1..=40).for_each(|second| dwell.add(&reading(second, waits * second, us)));
        dwell
    };
    let mut references = References::default();
    // Two seconds waited for each that they ran.
    references.0.push(
        dwell(2, 1000.0)
            .reference_verdict(32, &References::default())
            .1,
    );
    let verdict = |waits: u64| dwell(waits, 5000.0).verdict(32, &references, None).0;
    assert_eq!((verdict(3), verdict(9)), (Verdict::Failed, Verdict::Void));
}

#[test]
fn a_dwell_with_permanently_slow_replay_is_not_extended() {
    let reading = |at: u64, us: f64, waited: u64| Reading {
        at: seconds(at),
        slots_behind: Some(0),
        unreclaimable: Some(MIB),
        replay_cpu: Some((seconds(waited), seconds(at))),
        replays: vec![ReplayedSlot {
            at: seconds(at),
            replay_us: us,
        }],
        ..Reading::default()
    };
    let mut references = References::default();
    let mut dwell = Dwell::begin(&reading(0, 1000.0, 0), seconds(200));
    (1..=200).for_each(|at| dwell.add(&reading(at, 1000.0, 0)));
    assert!(!dwell.has_failed(&references), "slower than what?");
    references
        .0
        .push(dwell.reference_verdict(32, &References::default()).1);
    // Of 200 slots 10 may be slow, and one more for safety.
    let busy = |slow: u64, until: u64, waits: u64| {
        let mut dwell = Dwell::begin(&reading(0, 1000.0, 0), seconds(200));
        (1..=until).for_each(|at| {
            dwell.add(&reading(
                at,
                if at <= slow { 1500.0 } else { 1000.0 },
                waits * at,
            ))
        });
        (
            dwell.has_failed(&references),
            dwell.verdict(32, &references, None).0,
        )
    };
    let slow = |slow: u64, until: u64| busy(slow, until, 0);
    assert_eq!(
        busy(60, 100, 1),
        (false, Verdict::Void),
        "the host may be busy no more when it is over"
    );
    assert!(!slow(20, 29).0, "the cluster's slots are not known yet");
    assert_eq!(
        (slow(11, 60).0, slow(12, 60), slow(12, 200).1),
        (false, (true, Verdict::Failed), Verdict::Failed)
    );
    assert_eq!(slow(10, 200), (false, Verdict::KeptUp));
}

#[test]
fn the_maximum_search_time_counts_from_the_tip() {
    let over = |tip: u64| {
        let mut machine = SearchMachine::new(
            MemorySearchRules {
                max_duration: seconds(1000),
                ..rules()
            },
            32,
            false,
        )
        .expect("rules");
        (0..4000_u64).find(|at| {
            let behind = Some(if *at < tip { 100 } else { 0 });
            let (unreclaimable, memory) = (Some(100 * MIB), Some(100 * MIB));
            let reading = Reading { at: seconds(*at), slots_behind: behind, unreclaimable, memory, ..Reading::default() };
            let out_of_time = |action: &Action| matches!(action, Action::Over(answer) if answer.outcome == SearchOutcome::OutOfTime);
            machine.poll(&reading).iter().any(out_of_time)
        })
    };
    // The validator counts as at the tip after `settle_time` near it.
    assert_eq!(over(900), Some(1920));
    assert_eq!(over(100_000), Some(1000));
}

#[test]
fn a_safe_limit_is_lifted_after_its_dwell_is_journaled() {
    let mut plant = Plant::new(200 * MIB, 10);
    let mut machine = SearchMachine::new(rules(), 32, false).expect("rules");
    let (mut lifted, mut dangers) = (0, 0);
    for _ in 0..4 * 3600 {
        let actions = machine.poll(&plant.read());
        if let Some(lifted_at) = actions
            .iter()
            .position(|action| *action == Action::SetLimit(None))
        {
            let danger = actions.iter().any(
                |action| matches!(action, Action::Journal(SearchEvent::Dwell(DwellResult { evidence, .. })) if evidence.why.iter().any(|why| why.starts_with("it is too far"))),
            );
            let is_lifted_event = |action: &Action| {
                matches!(
                    action,
                    Action::Journal(SearchEvent::Limit { headroom: None, .. })
                )
            };
            assert!(
                danger || actions[..lifted_at].iter().any(is_lifted_event),
                "{actions:?}"
            );
            lifted += 1;
            dangers += usize::from(danger);
        }
        for action in actions {
            if let Action::SetLimit(limit) = action {
                plant.limit(limit);
            }
        }
    }
    assert!(lifted > dangers && lifted > 5, "{lifted} {dangers}");
}

#[test]
fn a_hard_limit_leaves_space_for_the_largest_previous_rise() {
    let mut plant = Plant::new(20 * MIB, 11);
    let mut machine = SearchMachine::new(
        MemorySearchRules {
            first_headroom: 100 * MIB,
            ..rules()
        },
        32,
        true,
    )
    .expect("rules");
    let mut lines = Vec::new();
    let over = (0..4 * 9 * 3600_u64).find_map(|poll| {
        // A burst of 30 MiB for a moment, now and then.
        let burst = if poll % 2000 == 1999 { 30 * MIB } else { 0 };
        let mut reading = plant.read();
        reading.unreclaimable = reading.unreclaimable.map(|bytes| bytes + burst);
        for action in machine.poll(&reading) {
            match action {
                Action::SetLimit(limit) => {
                    assert!(
                        poll < 2000 || limit.is_none_or(|limit| limit >= 360 * MIB),
                        "{limit:?}"
                    );
                    plant.limit(limit);
                }
                Action::Journal(line) => lines.push(line),
                Action::Over(answer) => return Some(*answer),
            }
        }
        None
    });
    let Some(SearchAnswer {
        outcome: SearchOutcome::Found(HeadroomInterval { low, high, .. }),
        ..
    }) = over
    else {
        panic!("{over:#?} {lines:#?}")
    };
    assert!(low <= 60 * MIB && 60 * MIB <= high, "{low} to {high}");
    // No dwell is spent on a headroom whose result is known.
    assert!(dwells(&lines).len() < 30, "{}", dwells(&lines).len());
    assert!(
        dwells(&lines)
            .iter()
            .any(|(_, _, evidence)| evidence.why.iter().any(|why| why.starts_with("not tried")))
    );
}

#[test]
fn growth_is_the_trend_despite_jumps() {
    let mut growth = Growth::default();
    for second in 0..5000_u64 {
        let jump = if second % 97 == 0 { 500 * MIB } else { 0 };
        growth.add(&Reading {
            at: seconds(second),
            unreclaimable: Some(1000 * MIB + 1000 * second + jump),
            ..Reading::default()
        });
    }
    let trend = growth.trend().expect("samples");
    assert!((trend.slope - 1000.0).abs() < 20.0, "{trend:?}");
    assert!((trend.bytes_after(10_000.0) / (1000.0 * MIB as f64 + 1e7) - 1.0).abs() < 0.01);
}
