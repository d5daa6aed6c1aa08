use super::*;
use proptest::prelude::*;

fn at(second: i64) -> i128 {
    i128::from(second) * SECOND
}

/// Counting restarts there if the clock was set to `created`.
fn second_after(created: i128) -> i128 {
    created.div_euclid(SECOND) + 1
}

/// Adds a push that arrives when it is created.
fn push(coverage: &mut Coverage, second: i64, since: u64, unfiltered: bool) {
    let at = PushTimes {
        created: at(second),
        arrived: at(second),
    };
    coverage.add_push(PushEnd {
        times: at,
        seconds_since_previous: since,
        unfiltered,
    });
    assert_ne!(coverage.next_second, Some(second_after(at.created)));
}

#[test]
fn seconds_without_transactions_count_from_the_first_executed_transaction() {
    let mut coverage = Coverage::default();
    push(&mut coverage, 100, 10, true);
    coverage.add_transactions(at(104), 5);
    coverage.add_transactions(at(106), 5);
    push(&mut coverage, 110, 10, true);
    assert_eq!(
        coverage.zero_seconds, 2,
        "105 and 107; 108 and 109 are not settled yet"
    );
    push(&mut coverage, 120, 10, true);
    assert_eq!(coverage.zero_seconds, 12);
    assert_eq!((coverage.unknown_seconds, coverage.pushes_missed), (0, 0));
}

#[test]
fn seconds_of_a_missed_push_are_unknown_not_zero() {
    let mut coverage = Coverage::default();
    push(&mut coverage, 100, 10, true);
    coverage.add_transactions(at(100), 1);
    push(&mut coverage, 110, 10, true);
    let zero = coverage.zero_seconds;
    push(&mut coverage, 140, 10, true);
    assert_eq!(coverage.pushes_missed, 2);
    assert_eq!(coverage.unknown_seconds, 22, "108 to 129");
    assert_eq!(coverage.zero_seconds, zero + 8, "130 to 137");
}

#[test]
fn seconds_of_a_stopped_process_are_zero_not_unknown() {
    let mut coverage = Coverage::default();
    coverage.add_transactions(at(100), 1);
    push(&mut coverage, 110, 10, true);
    push(&mut coverage, 308, 198, true);
    assert_eq!(
        (coverage.zero_seconds, coverage.unknown_seconds),
        (7 + 198, 0)
    );
}

#[test]
fn pushes_without_transaction_counts_make_seconds_unknown() {
    let mut coverage = Coverage::default();
    coverage.add_transactions(at(100), 1);
    push(&mut coverage, 110, 10, true);
    push(&mut coverage, 120, 10, false);
    assert_eq!((coverage.zero_seconds, coverage.unknown_seconds), (7, 10));
}

#[test]
fn after_a_restart_coverage_begins_at_the_next_executed_transaction() {
    let mut coverage = Coverage::default();
    coverage.add_transactions(at(100), 1);
    push(&mut coverage, 110, 10, true);
    coverage.forget_process();
    push(&mut coverage, 500, 10, true);
    coverage.add_transactions(at(505), 1);
    push(&mut coverage, 510, 10, true);
    assert_eq!(
        (
            coverage.zero_seconds,
            coverage.unknown_seconds,
            coverage.pushes_missed
        ),
        (9, 0, 0)
    );
}

#[test]
fn pushes_missing_since_an_earlier_daemon_count_without_their_seconds() {
    let mut coverage = Coverage::default();
    coverage.resume(PushTimes {
        created: at(100),
        arrived: at(-40),
    });
    let end = |second| PushEnd {
        times: PushTimes {
            created: at(second),
            arrived: at(second - 140),
        },
        seconds_since_previous: 10,
        unfiltered: true,
    };
    coverage.add_transactions(at(145), 1);
    coverage.add_push(end(150));
    coverage.add_transactions(at(155), 1);
    coverage.add_push(end(160));
    assert_eq!(
        (coverage.pushes_missed, coverage.unknown_seconds),
        (4, 0),
        "at 110, 120, 130 and 140"
    );
    assert_eq!(coverage.zero_seconds, 11, "146 to 157, but for 155");
}

#[test]
fn a_clock_step_during_downtime_does_not_inflate_missed_pushes() {
    for step in [3600, -3600] {
        let mut coverage = Coverage::default();
        coverage.resume(PushTimes {
            created: at(10_100),
            arrived: at(-40),
        });
        let at = PushTimes {
            created: at(10_150 + step),
            arrived: at(10),
        };
        coverage.add_push(PushEnd {
            times: at,
            seconds_since_previous: 10,
            unfiltered: true,
        });
        assert_eq!(coverage.pushes_missed, 4, "{step}");
    }
}

#[test]
fn coverage_of_a_pending_sender_is_merged_once() {
    let mut pending = Coverage::default();
    push(&mut pending, 150, 10, true);
    pending.add_transactions(at(155), 1);
    push(&mut pending, 160, 10, true);
    let mut coverage = Coverage {
        zero_seconds: 7,
        ..Coverage::default()
    };
    coverage.resume(PushTimes {
        created: at(130),
        arrived: at(130),
    });
    coverage.merge_pending(pending.clone());
    assert_eq!(
        (coverage.pushes_missed, coverage.zero_seconds),
        (1, 9),
        "at 140; 156 and 157"
    );
    coverage.merge_pending(pending);
    push(&mut coverage, 170, 10, true);
    assert_eq!((coverage.pushes_missed, coverage.zero_seconds), (1, 19));
}

#[test]
fn pushes_under_a_new_identity_continue_the_coverage() {
    let (mut coverage, mut pending) = (Coverage::default(), Coverage::default());
    for second in 101..=140 {
        let pushes = if second <= 120 {
            &mut coverage
        } else {
            &mut pending
        };
        pushes.add_transactions(at(second), 1);
        if second % 10 == 0 {
            push(pushes, second, 10, true);
        }
    }
    coverage.merge_pending(pending.clone());
    push(&mut coverage, 150, 10, true);
    assert_eq!(
        (coverage.pushes_missed, coverage.zero_seconds),
        (0, 7),
        "141 to 147"
    );
    coverage.merge_pending(pending);
    assert_eq!(
        (coverage.pushes_missed, coverage.zero_seconds),
        (0, 7),
        "earlier pushes count only once"
    );
}

#[test]
fn log_lines_jumping_in_time_do_not_count_skipped_seconds() {
    for step in [3600, -3600] {
        let mut coverage = Coverage::default();
        let line = |second: i64, step: i64| PushTimes {
            created: at(10_000 + second + step),
            arrived: at(second),
        };
        coverage.add_log_time(line(1, 0));
        coverage.add_transactions(at(10_001), 1);
        coverage.add_log_time(line(9, 0));
        assert_eq!(coverage.zero_seconds, 5, "10,002 to 10,006");
        coverage.add_log_time(line(10, step));
        let restart = second_after(line(10, step).created);
        assert_eq!(coverage.next_second, Some(restart));
        coverage.add_log_time(line(20, step));
        assert_eq!(
            (coverage.zero_seconds, coverage.unknown_seconds),
            (12, 0),
            "{step}: 11 to 17 after the step"
        );
    }
}

#[test]
fn a_slewed_clock_is_not_a_clock_step() {
    let mut coverage = Coverage::default();
    for n in 0..20_000 {
        // The clock is off by 500 parts in a million, a kernel's maximum. It gets 50 s ahead, and
        // comes back.
        let arrived = at(n * 10);
        let created = at(1_000_000)
            + arrived
            + if n < 10_000 {
                arrived / 2000
            } else {
                at(100) - arrived / 2000
            };
        coverage.add_transactions(created, 1);
        coverage.add_push(PushEnd {
            times: PushTimes { created, arrived },
            seconds_since_previous: 10,
            unfiltered: true,
        });
        assert_ne!(coverage.next_second, Some(second_after(created)), "{n}");
    }
    assert_eq!(coverage.pushes_missed, 0);
}

proptest! {
    #[test]
    fn coverage_counts_never_decrease_or_exceed_elapsed_seconds(
        pushes in proptest::collection::vec((-400i64..400, 0u64..30, 0i64..40, proptest::collection::vec((0i64..4000, 0u64..3), 0..6)), 1..40)
    ) {
        let mut coverage = Coverage::default();
        let (mut zero, mut unknown, mut missed, mut arrived) = (0, 0, 0, 0);
        let count = pushes.len() as i64;
        for (set, since, waited, points) in pushes {
            for (second, count) in points {
                coverage.add_transactions(at(second), count);
            }
            arrived += waited;
            coverage.add_push(PushEnd { times: PushTimes { created: at(2000 + arrived + set), arrived: at(arrived) }, seconds_since_previous: since, unfiltered: true });
            prop_assert!(coverage.zero_seconds >= zero && coverage.unknown_seconds >= unknown && coverage.pushes_missed >= missed);
            (zero, unknown, missed) = (coverage.zero_seconds, coverage.unknown_seconds, coverage.pushes_missed);
        }
        // All seconds before the first push may count, and `MAX_INTERVAL_ERROR` for each push.
        prop_assert!((zero + unknown) as i64 <= 2400 + arrived + 400 + count * 33, "{zero} + {unknown} in {arrived} s");
    }
}
