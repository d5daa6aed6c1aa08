use super::*;
use faultline_metrics::Reading;
use proptest::prelude::*;
use std::time::Duration;

mod repeated_slots;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(1_700_000_000 + seconds),
    }
}

fn intake() -> Intake {
    let intake = Intake::new(&Datapoints::default());
    intake.follow_validator(None);
    intake
}

fn with_allowed_gauge(name: &str, field: &str) -> Intake {
    Intake::new(&Datapoints {
        allow: vec![faultline_core::config::AllowedDatapoint {
            name: name.into(),
            field: field.into(),
            kind: faultline_core::config::DatapointKind::Level,
            tags: Vec::new(),
        }],
        max_series: 1,
    })
}

fn push(intake: &Intake, now: u64, lines: &[String]) {
    let mut push = intake.begin_trusted(at(now));
    lines.iter().for_each(|line| push.add_line(line.as_bytes()));
    intake.commit(push, at(now));
}

fn cache(host: &str, misses: u64, nanos: u64) -> String {
    format!(
        "loaded-programs-cache-stats,host_id={host} slot=1i,hits=9i,misses={misses}i,evictions=1i,reloads=1i,insertions=1i,lost_insertions=0i,replace_entry=0i,one_hit_wonders=0i,prunes_orphan=0i,prunes_environment=0i,empty_entries=0i,water_level=461i {nanos}"
    )
}

fn value(intake: &Intake, now: u64, name: &str, label: Option<&str>) -> Option<f64> {
    let mut readings = Vec::new();
    intake.add_readings(at(now), &mut readings);
    let wanted = |r: &&Reading| {
        r.metric.name == name
            && r.label_values
                .first()
                .map(faultline_metrics::LabelText::as_str)
                == label
    };
    readings.iter().find(wanted).and_then(|r| r.value.number())
}

fn misses(intake: &Intake) -> f64 {
    value(intake, 1, "agave_program_cache_misses_total", None).unwrap()
}

fn lines(intake: &Intake, result: &str) -> f64 {
    value(intake, 1, "faultline_ingest_lines_total", Some(result)).unwrap()
}

#[test]
fn deltas_are_summed_and_not_replaced() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(
        &intake,
        1,
        &[cache("A", 3, 10), cache("A", 4, 20), cache("A", 3, 30)],
    );
    assert_eq!(misses(&intake), 10.0);
    assert_eq!(
        value(&intake, 1, "agave_program_cache_loaded_entries", None),
        Some(461.0)
    );
    assert_eq!(
        value(
            &intake,
            1,
            "agave_program_cache_capacity_entries",
            Some("observed")
        ),
        Some(512.0)
    );
    assert_eq!(
        value(&intake, 1, "agave_program_cache_prunes_stale_total", None),
        None,
        "absent before 4.4.0"
    );
}

#[test]
fn pushes_of_a_second_validator_are_foreign_and_reported() {
    let intake = intake();
    push(
        &intake,
        1,
        &[
            cache("A", 3, 10),
            cache("B", 100, 10),
            "other,host_id=B x=1i 10".into(),
        ],
    );
    assert_eq!(misses(&intake), 0.0, "nobody is known yet");
    assert!(
        intake
            .problems(at(1))
            .iter()
            .any(|p| p.what.contains("waiting for the validator's identity"))
    );
    intake.set_reported_identity("A", at(1));
    assert_eq!(misses(&intake), 3.0);
    assert_eq!(lines(&intake, "foreign"), 2.0);
    push(
        &intake,
        2,
        &[cache("B", 100, 20), "stray,host=x value=1 20".into()],
    );
    assert_eq!((misses(&intake), lines(&intake, "foreign")), (3.0, 4.0));
    assert!(
        intake
            .problems(at(2))
            .iter()
            .any(|p| p.what.contains("not counted: B")),
        "{:?}",
        intake.problems(at(2))
    );
}

#[test]
fn one_bad_line_affects_no_other_line() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(
        &intake,
        1,
        &[
            cache("A", 1, 1),
            "garbage".into(),
            "loaded-programs-cache-stats,host_id=A misses= 3".into(),
            cache("A", 1, 2),
        ],
    );
    assert_eq!(misses(&intake), 2.0);
    assert!(lines(&intake, "bad") >= 1.0);
}

#[test]
fn a_batch_that_arrives_twice_counts_once() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    let batch = [cache("A", 3, 10), cache("A", 3, 20)];
    push(&intake, 1, &batch);
    push(&intake, 2, &batch);
    assert_eq!((misses(&intake), lines(&intake, "duplicate")), (6.0, 2.0));
}

#[test]
fn gauges_end_with_process_or_silence_while_counters_stay() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(&intake, 1, &[cache("A", 3, 10)]);
    assert_eq!(
        value(&intake, 100, "agave_program_cache_loaded_entries", None),
        None,
        "no push for a minute"
    );
    push(&intake, 101, &[cache("A", 3, 20)]);
    intake.follow_validator(None);
    assert_eq!(
        value(&intake, 101, "agave_program_cache_loaded_entries", None),
        None
    );
    assert_eq!(misses(&intake), 6.0);
}

/// If the listener requires no password, any user of the host can push under the validator's name.
#[test]
fn a_forged_line_is_refused_and_a_wrong_gauge_recovers() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    let slots = |now: u64, frozen: u64, optimistic: u64| {
        let frozen = format!("bank_frozen,host_id=A slot={frozen}i,hash=\"x\" {now}");
        push(
            &intake,
            now,
            &[
                frozen,
                format!("optimistic_slot,host_id=A slot={optimistic}i {now}"),
            ],
        );
        intake.facts().slots.and_then(|(_, slots)| slots.behind())
    };
    assert_eq!(slots(1, 100, 102), Some(2));
    push(
        &intake,
        2,
        &["optimistic_slot,host_id=A slot=9000000000i 2".into()],
    );
    push(
        &intake,
        3,
        &["bank-forks_set_root,host_id=A slot=9223372036854775807i,tx_count=1i 3".into()],
    );
    assert_eq!(
        (slots(4, 110, 111), lines(&intake, "implausible")),
        (Some(1), 2.0)
    );
    push(
        &intake,
        5,
        &["optimistic_slot,host_id=A slot=600i 5".into()],
    );
    assert_eq!(
        intake.facts().slots.and_then(|(_, slots)| slots.behind()),
        Some(490),
        "near enough to be believed"
    );
    assert_eq!(
        slots(14, 135, 137),
        Some(2),
        "and gone with the next true push"
    );
    assert_eq!(intake.facts().last_push, Some(at(14)));
}

#[test]
fn gauges_end_immediately_with_the_process() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(&intake, 1, &[cache("A", 3, 10)]);
    intake.validator_ended();
    assert_eq!(
        value(&intake, 2, "agave_program_cache_loaded_entries", None),
        None
    );
    assert_eq!(misses(&intake), 3.0);
}

#[test]
fn the_last_received_gauge_wins_regardless_of_its_timestamp() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(
        &intake,
        1,
        &["accounts_cache_size,host_id=A total_size=7i 9000000000000000000".into()],
    );
    push(
        &intake,
        2,
        &["accounts_cache_size,host_id=A total_size=5i 100".into()],
    );
    assert_eq!(
        value(&intake, 2, "agave_write_cache_bytes", None),
        Some(5.0)
    );
}

#[test]
fn a_wrong_observed_capacity_is_forgotten_after_enough_evictions() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    push(
        &intake,
        1,
        &[cache("A", 3, 1).replace("water_level=461i", "water_level=1i")],
    );
    let observed = || {
        value(
            &intake,
            2,
            "agave_program_cache_capacity_entries",
            Some("observed"),
        )
    };
    assert_eq!(observed(), Some(0.0));
    push(
        &intake,
        2,
        &(2..=257)
            .map(|nanos| cache("A", 3, nanos))
            .collect::<Vec<_>>(),
    );
    assert_eq!(observed(), Some(512.0));
}

/// With `RUST_LOG=solana=warn`, a validator pushes nothing. It looks like a validator without
/// SOLANA_METRICS_CONFIG.
#[test]
fn a_responding_validator_without_pushes_for_a_minute_is_reported() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    let silent = |second| {
        intake
            .problems(at(second))
            .iter()
            .any(|problem| problem.what.contains("SOLANA_METRICS_CONFIG"))
    };
    for second in 1..=61 {
        assert!(!silent(second - 1), "{second}");
        intake.set_rpc_slots(second, None, at(second));
    }
    assert!(silent(61));
    push(&intake, 62, &[cache("A", 3, 20)]);
    assert!(!silent(62));
    assert!(
        !silent(200),
        "a validator that no longer answers is somebody else's problem"
    );
    for second in 190..=200 {
        intake.set_rpc_slots(second, None, at(second));
    }
    let stopped = intake
        .problems(at(200))
        .into_iter()
        .map(|problem| problem.what)
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        stopped.contains("pushed before") && !stopped.contains("SOLANA_METRICS_CONFIG"),
        "{stopped}"
    );
    intake.follow_validator(None);
    intake.set_rpc_slots(7, None, at(201));
    assert!(!silent(201), "another process has its own minute");
}

#[test]
fn a_log_without_datapoints_for_a_minute_is_reported_without_advice_on_pushes() {
    let intake = intake();
    intake.set_reads_log();
    (1..=61).for_each(|second| intake.set_rpc_slots(second, None, at(second)));
    let problem = intake.problems(at(61)).pop().unwrap().what;
    assert!(
        problem.contains("RUST_LOG=solana=info,agave=info, or"),
        "{problem}"
    );
    assert!(!problem.contains("SOLANA_METRICS_CONFIG"), "{problem}");
}

#[test]
fn missing_cache_points_while_slots_advance_are_reported() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    for n in 0..4u64 {
        intake.set_rpc_slots(100 + n * 25, None, at(n * 10));
        push(
            &intake,
            n * 10,
            &[format!(
                "metrics,host_id=A points_written=1i,num_points=1i,points_lost=0i,points_buffered=0i,secs_since_last_write=10i {}",
                (1000 + n * 10) * 1_000_000_000
            )],
        );
    }
    assert_eq!(
        value(&intake, 30, "faultline_pushes_filtered", None),
        Some(1.0)
    );
    assert!(
        intake
            .problems(at(30))
            .iter()
            .any(|p| p.what.contains("RUST_LOG"))
    );
    push(
        &intake,
        40,
        &[
            cache("A", 0, 5),
            format!(
                "metrics,host_id=A points_written=1i,secs_since_last_write=10i {}",
                1_040_000_000_000u64
            ),
        ],
    );
    assert_eq!(
        value(&intake, 40, "faultline_pushes_filtered", None),
        Some(0.0)
    );
}

#[test]
fn the_log_and_the_push_give_the_same_sums() {
    let pushed = intake();
    pushed.set_reported_identity("A", at(1));
    push(&pushed, 1, &[cache("A", 3, 10)]);
    let logged = intake();
    let mut stretch = logged.begin_trusted(at(1));
    stretch.add_log_line("[2025-03-01T12:00:00.123456789Z INFO  solana_metrics::metrics] datapoint: loaded-programs-cache-stats slot=1i hits=9i misses=3i evictions=1i reloads=1i insertions=1i lost_insertions=0i replace_entry=0i one_hit_wonders=0i prunes_orphan=0i prunes_environment=0i empty_entries=0i water_level=461i");
    stretch.add_log_line("[2025-03-01T12:00:00.123456789Z INFO  solana_core::x] bank frozen: 3");
    logged.commit(stretch, at(1));
    assert_eq!(misses(&logged), misses(&pushed));
    assert_eq!(
        value(&logged, 1, "agave_program_cache_loaded_entries", None),
        Some(461.0)
    );
}

#[test]
fn allowed_datapoints_become_gauges_and_counters_with_a_series_limit() {
    let allowed = |field: &str, kind| faultline_core::config::AllowedDatapoint {
        name: "cf".into(),
        field: field.into(),
        kind,
        tags: vec!["cf_name".into()],
    };
    use faultline_core::config::DatapointKind::{Delta, Level};
    let intake = Intake::new(&Datapoints {
        allow: vec![allowed("size", Level), allowed("hits", Delta)],
        max_series: 4,
    });
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(1));
    for n in 0..3 {
        let line =
            |cf: &str, t: u64| format!("cf,host_id=A,cf_name={cf} size={}i,hits=2i {t}", 10 + n);
        push(
            &intake,
            n,
            &[line("one", n), line("two", n), line("three", n)],
        );
    }
    let mut readings = Vec::new();
    intake.add_readings(at(3), &mut readings);
    let of = |name: &str| {
        readings
            .iter()
            .filter(|r| r.metric.name == name)
            .map(|r| (r.tags[0].1.to_string(), r.value.number().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("agave_datapoint"),
        [("one".to_owned(), 12.0), ("two".to_owned(), 12.0)]
    );
    assert_eq!(
        of("agave_datapoint_sum_total"),
        [("one".to_owned(), 6.0), ("two".to_owned(), 6.0)]
    );
    assert_eq!(
        value(&intake, 3, "faultline_datapoint_overflow_total", None),
        Some(6.0)
    );
}

/// Events in the life of a daemon that sums.
#[derive(Debug, Clone)]
enum Event {
    Batch(Vec<(u8, u64, u64)>),
    Again,
    Restart,
    Carries(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let batch =
        proptest::collection::vec((0u8..3, 0u64..50, 0u64..1000), 0..8).prop_map(Event::Batch);
    let event = prop_oneof![4 => batch, 1 => Just(Event::Again), 1 => Just(Event::Restart), 2 => (0u8..3).prop_map(Event::Carries)];
    proptest::collection::vec(event, 0..40)
}

proptest! {
    #[test]
    fn no_sequence_of_events_decreases_a_counter(events in events()) {
        let intake = intake();
        let mut last_batch: Vec<String> = Vec::new();
        let mut seen: Vec<Reading> = Vec::new();
        for (second, event) in events.into_iter().enumerate() {
            match event {
                Event::Batch(points) => {
                    last_batch = points.iter().map(|(host, misses, time)| cache(["A", "B", "C"][*host as usize], *misses, *time)).collect();
                    push(&intake, second as u64, &last_batch);
                }
                Event::Again => push(&intake, second as u64, &last_batch),
                Event::Restart => intake.follow_validator(None),
                Event::Carries(host) => intake.set_reported_identity(["A", "B", "C"][host as usize], at(second as u64)),
            }
            let mut readings = Vec::new();
            intake.add_readings(at(second as u64), &mut readings);
            for old in seen.iter().filter(|r| r.metric.kind == faultline_metrics::Kind::Counter) {
                let new = readings.iter().find(|r| r.metric == old.metric && r.label_values == old.label_values);
                let new = new.and_then(|r| r.value.number());
                prop_assert!(new >= old.value.number(), "{} fell from {:?} to {new:?}", old.metric.name, old.value);
            }
            seen = readings;
        }
    }
}

#[test]
fn a_counter_never_decreases_for_any_pushes() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    let mut before = 0.0;
    for (second, misses_now) in [
        (1, 7),
        (2, u64::MAX),
        (3, i64::MAX as u64),
        (4, (1 << 53) + 1),
        (5, 1 << 53),
        (6, 1 << 53),
    ] {
        push(&intake, second, &[cache("A", misses_now, second)]);
        let now = misses(&intake);
        assert!(now >= before, "{misses_now}: {now} after {before}");
        before = now;
    }
    assert_eq!(
        before,
        (7_u64 + (1 << 54)) as f64,
        "what is no count is left out"
    );
}

#[test]
fn foreign_sender_names_are_sanitized_and_truncated() {
    let intake = intake();
    let long = "\u{7}".repeat(60_000);
    let strangers: Vec<String> = ["B", "C", "D", "E", "F", "\u{202e}x", &long]
        .map(|id| cache(id, 1, 1))
        .into();
    push(&intake, 1, &strangers);
    intake.set_reported_identity("A", at(1));
    let problems = intake.problems(at(1));
    assert!(
        problems
            .iter()
            .any(|problem| problem.what.ends_with("not counted: B, C, D and 3 more")),
        "{problems:?}"
    );
    assert!(
        problems
            .iter()
            .all(|problem| problem.what.len() < 300 && problem.what.is_ascii())
    );
}

/// One push of a validator whose clock shows `clock`: a transaction in each of the last ten
/// seconds, and a gauge.
fn busy_push(intake: &Intake, now: u64, clock: u64, gauge: u64) {
    let nanos = |seconds: u64| seconds * 1_000_000_000;
    let mut lines: Vec<String> = (clock - 10..clock)
        .map(|second| {
            format!(
                "cost_tracker_stats,host_id=A bank_slot=1i,transaction_count=1i {}",
                nanos(second)
            )
        })
        .collect();
    lines.push(cache("A", 1, nanos(clock) - 1));
    lines.push(format!(
        "accounts_cache_size,host_id=A total_size={gauge}i {}",
        nanos(clock) - 1
    ));
    lines.push(format!(
        "metrics,host_id=A points_written=1i,secs_since_last_write=10i {}",
        nanos(clock)
    ));
    push(intake, now, &lines);
}

/// Missed pushes, seconds at 0 TPS, unknown seconds.
fn covered(intake: &Intake, now: u64) -> [f64; 3] {
    [
        "faultline_pushes_missed_total",
        "agave_zero_tps_seconds_total",
        "agave_tps_unknown_seconds_total",
    ]
    .map(|name| value(intake, now, name, None).unwrap())
}

#[test]
fn a_clock_step_loses_no_push_and_no_second_of_transactions() {
    for step in [3600, 600, 20, -20, -600, -3600_i64] {
        let intake = with_allowed_gauge("accounts_cache_size", "total_size");
        intake.follow_validator(None);
        intake.set_reported_identity("A", at(1));
        for n in 1..=20 {
            let (now, step) = (n * 10, if n > 10 { step } else { 0 });
            busy_push(
                &intake,
                now,
                (10_000 + now).checked_add_signed(step).unwrap(),
                n,
            );
            assert_eq!(covered(&intake, now), [0.0; 3], "{step} s, push {n}");
            let gauges = [
                value(&intake, now, "agave_write_cache_bytes", None),
                value(&intake, now, "agave_datapoint", Some("accounts_cache_size")),
            ];
            assert_eq!(gauges, [Some(n as f64); 2], "{step} s, push {n}");
        }
    }
}

#[test]
fn pushes_missed_across_a_clock_step_count_by_elapsed_time() {
    for step in [3600, -3600_i64] {
        let intake = intake();
        intake.set_reported_identity("A", at(1));
        (1..=3).for_each(|n| busy_push(&intake, n * 10, 10_000 + n * 10, 1));
        let later = |now: u64| (10_000 + now).checked_add_signed(step).unwrap();
        busy_push(&intake, 70, later(70), 1);
        busy_push(&intake, 80, later(80), 1);
        assert_eq!(covered(&intake, 80), [3.0, 0.0, 0.0], "{step} s");
    }
}

#[test]
fn pushes_read_late_by_a_stalled_daemon_are_no_clock_step() {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    busy_push(&intake, 10, 10_010, 1);
    busy_push(&intake, 20, 10_020, 1);
    // The daemon stood still for a minute. Two pushes waited in their sockets, and the validator
    // gave up four.
    busy_push(&intake, 81, 10_030, 1);
    busy_push(&intake, 81, 10_040, 1);
    busy_push(&intake, 90, 10_090, 1);
    assert_eq!(covered(&intake, 90), [4.0, 0.0, 40.0], "10,040 to 10,079");
}

#[test]
fn pushes_missed_during_downtime_count_for_the_same_process() {
    let process = |start_ticks| ProcessId {
        pid: 7,
        start_ticks,
    };
    let seconds = |count: i128| count * 1_000_000_000;
    for (last_followed, missed) in [(Some(1), 4.0), (Some(2), 0.0), (None, 0.0)] {
        let intake = Intake::new(&Datapoints::default());
        if let Some(start_ticks) = last_followed {
            // At the start of this run, the validator's clock showed 10,040.
            let at = PushTimes {
                created: seconds(10_000),
                arrived: seconds(-40),
            };
            intake.set_previous_run_push(LastPush {
                process: process(start_ticks),
                times: at,
            });
        }
        intake.follow_validator(None);
        intake.resume_after_previous_run(process(1));
        // The sender's identity is not known yet.
        busy_push(&intake, 10, 10_050, 1);
        assert_eq!(covered(&intake, 10), [0.0; 3]);
        intake.set_reported_identity("A", at(11));
        busy_push(&intake, 20, 10_060, 1);
        assert_eq!(
            covered(&intake, 20),
            [missed, 0.0, 0.0],
            "{last_followed:?}"
        );
        busy_push(&intake, 30, 10_070, 1);
        intake.follow_validator(None);
        intake.resume_after_previous_run(process(1));
        intake.set_reported_identity("A", at(31));
        busy_push(&intake, 500, 10_540, 1);
        assert_eq!(covered(&intake, 500), [missed, 0.0, 0.0], "only once");
    }
}

#[test]
fn pushes_of_an_exited_process_are_not_attributed_to_its_successor() {
    let intake = intake();
    busy_push(&intake, 10, 10_010, 1);
    intake.follow_validator(None);
    busy_push(&intake, 100, 10_100, 1);
    intake.set_reported_identity("A", at(101));
    busy_push(&intake, 110, 10_110, 1);
    assert_eq!(covered(&intake, 110), [0.0; 3]);
}

/// `has_wrapper`: the validator is found again among the descendants of a wrapper.
fn gauges_and_facts_of_an_exited_process_end(has_wrapper: bool) {
    let intake = with_allowed_gauge("cf", "size");
    intake.follow_validator(None);
    let reports = [
        "cf,host_id=A size=1i 1",
        "bank_frozen,host_id=A slot=7i 2",
        "validator-new,host_id=A version=\"4.3.0\" 3",
        "event_handler_stats,host_id=A ignored=0i 4",
    ];
    push(&intake, 1, &reports.map(str::to_owned));
    if has_wrapper {
        intake.wait_for_validator();
    }
    intake.follow_validator(None);
    intake.set_reported_identity("A", at(2));
    let facts = intake.facts();
    assert!(facts.slots.is_none());
    assert_eq!(facts.version, None);
    assert_eq!(facts.migration, MigrationReports::default());
    push(&intake, 3, &[cache("A", 1, 5)]);
    assert_eq!(value(&intake, 3, "agave_datapoint", Some("cf")), None);
}

#[test]
fn gauges_and_facts_of_an_exited_process_end_for_a_pending_sender() {
    gauges_and_facts_of_an_exited_process_end(false);
    gauges_and_facts_of_an_exited_process_end(true);
}

#[test]
fn a_set_identity_datapoint_switches_identity_without_losing_lines() {
    let intake = intake();
    let set = |second: u64| {
        format!(
            "validator-set_identity,host_id=B old_id=\"A\",new_id=\"B\",version=\"4.4.0\" {second}"
        )
    };
    let mut sent = 0.0;
    for (second, id) in (0..7)
        .map(|n| (n * 10, "A"))
        .chain((7..20).map(|n| (n * 10, "B")))
    {
        let mut push_lines = vec![
            cache(id, 10, second),
            format!("other,host_id={id} v=1i {second}"),
        ];
        push_lines.extend((second == 70).then(|| set(second)));
        sent += push_lines.len() as f64;
        push(&intake, second, &push_lines);
        intake.assume_identity(at(second));
        let pending = value(&intake, 1, "faultline_ingest_lines_pending", None).unwrap();
        let counted = [
            "used",
            "ignored",
            "bad",
            "foreign",
            "duplicate",
            "implausible",
        ];
        let counted: f64 = counted.iter().map(|result| lines(&intake, result)).sum();
        assert_eq!(
            counted + pending,
            sent,
            "every line is in some counter, or waits"
        );
    }
    assert_eq!(misses(&intake), 200.0);
    assert_eq!(lines(&intake, "used"), 21.0);
    let revisions = value(&intake, 1, "faultline_identity_revisions_total", None);
    assert_eq!(revisions, Some(1.0));
    assert_eq!(intake.facts().identity.as_deref(), Some("B"));
    assert_eq!(intake.facts().version.as_deref(), Some("4.4.0"));
}

#[test]
fn the_newest_gauge_stays_when_a_pending_sender_becomes_ours() {
    let intake = with_allowed_gauge("cf", "size");
    intake.follow_validator(Some("hash".into()));
    let report = |host: &str, now: u64, size: u64| {
        let lines = [
            format!("cf,host_id={host} size={size}i {now}"),
            format!("accounts_cache_size,host_id={host} total_size={size}i {now}"),
            format!("accounts_db_active,host_id={host} clean={size}i {now}"),
        ];
        push(&intake, now, &lines);
    };
    let gauges = || {
        [
            ("agave_datapoint", Some("cf")),
            ("agave_write_cache_bytes", None),
            ("agave_accounts_jobs_running", Some("clean")),
        ]
        .map(|(name, label)| value(&intake, 40, name, label))
    };
    report("hash", 1, 7);
    report("A", 11, 5);
    intake.set_reported_identity("A", at(12));
    report("A", 21, 4);
    intake.set_reported_identity("A", at(26));
    assert_eq!(gauges(), [Some(4.0); 3], "the start-up id is older");
    report("B", 31, 3);
    intake.set_reported_identity("B", at(32));
    assert_eq!(gauges(), [Some(3.0); 3], "the new identity is newer");
}

#[test]
fn the_newest_gauge_stays_when_two_pending_senders_become_ours() {
    for last_push in [None, Some(20)] {
        let intake = with_allowed_gauge("cf", "size");
        intake.follow_validator(None);
        if let Some(now) = last_push {
            intake.lock().last_push = Some(at(now));
        }
        // The same identity with a password and by the socket's user.
        for (user, now) in [(None, 1), (Some(7), 2), (None, 3)] {
            let mut push = match user {
                Some(user) => intake.begin_from_user(user, at(now)),
                None => intake.begin_trusted(at(now)),
            };
            for name in ["cf", "accounts_cache_size"] {
                let field = if name == "cf" { "size" } else { "total_size" };
                push.add_line(format!("{name},host_id=A {field}={now}i {now}").as_bytes());
            }
            intake.commit(push, at(now));
        }
        intake.set_reported_identity("A", at(22));
        // Without a recent push there are no gauges.
        intake.lock().last_push = Some(at(22));
        let gauges = [
            ("agave_datapoint", Some("cf")),
            ("agave_write_cache_bytes", None),
        ];
        let gauges = gauges.map(|(name, label)| value(&intake, 22, name, label));
        assert_eq!(gauges, [Some(3.0); 2], "{last_push:?}");
    }
}

#[test]
fn a_second_pending_sender_makes_no_received_push_a_missed_one() {
    let intake = with_allowed_gauge("cf", "size");
    intake.follow_validator(None);
    for now in (10..=100).step_by(10) {
        let metrics = format!(
            "metrics,host_id=A points_written=1i,secs_since_last_write=10i {}",
            (10_000 + now) * 1_000_000_000
        );
        // One push is by the socket's user.
        let mut one = match now {
            50 => intake.begin_from_user(7, at(now)),
            _ => intake.begin_trusted(at(now)),
        };
        one.add_line(metrics.as_bytes());
        intake.commit(one, at(now));
    }
    intake.set_reported_identity("A", at(105));
    busy_push(&intake, 110, 10_110, 1);
    assert_eq!(covered(&intake, 110)[0], 1.0);
}

#[test]
fn the_migration_is_detected_from_points_or_log_until_exit() {
    use crate::validator::reports::MigrationReports;
    let intake = Intake::new(&Datapoints::default());
    intake.follow_validator(None);
    intake.set_reported_identity("A", Stamp::default());
    let mut push = intake.begin_trusted(Stamp::default());
    for line in [
        "migration-started,host_id=A migration_slot=900i 1",
        "optimistic_slot,host_id=A slot=890i 2",
        "migration-complete,host_id=A genesis_slot=899i 3",
        "event_handler_stats,host_id=A ignored=0i,leader_window_replaced=0i,set_root_count=9i,timeout_set=3i 4",
        "event_handler_stats,host_id=B ignored=0i 5",
    ] {
        push.add_line(line.as_bytes());
    }
    intake.commit(push, Stamp::default());
    let expected = MigrationReports {
        has_event_handler: true,
        is_complete: true,
        genesis_slot: Some(899),
        migration_slot: Some(900),
        optimistic_at: Some(Stamp::default()),
    };
    assert_eq!(intake.facts().migration, expected);
    intake.follow_validator(None);
    assert_eq!(intake.facts().migration, MigrationReports::default());
    let mut log = intake.begin_trusted(Stamp::default());
    log.add_log_line("[2026-10-21T12:00:00.1Z INFO  solana_metrics::metrics] datapoint: migration-started migration_slot=900i");
    log.add_log_line(
        "[2026-10-21T12:00:00.2Z INFO  agave_votor_messages::migration] A: Alpenglow enabled!",
    );
    intake.commit(log, Stamp::default());
    let expected = MigrationReports {
        is_complete: true,
        migration_slot: Some(900),
        ..MigrationReports::default()
    };
    assert_eq!(intake.facts().migration, expected);
}

#[test]
fn migration_points_of_a_pending_sender_count_once_it_is_ours() {
    let intake = Intake::new(&Datapoints::default());
    intake.follow_validator(None);
    let mut push = intake.begin_trusted(Stamp::default());
    push.add_line(b"event_handler_stats,host_id=A ignored=0i 1");
    intake.commit(push, Stamp::default());
    assert!(!intake.facts().migration.has_event_handler);
    intake.set_reported_identity("A", Stamp::default());
    assert!(intake.facts().migration.has_event_handler);
}
