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
            (whole.due_ticks, whole.missing_ticks, whole.longest_gap),
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
    let words = "its recorder stalled: 12 of 1,000 samples are missing, the longest gap is 13 s";
    assert_eq!(long.coverage_doubt().as_deref(), Some(words));
    assert_eq!(long.checked_outcome(Outcome::Completed), Outcome::Completed);
}

#[test]
fn a_hung_or_silent_recorder_does_not_yield_a_completed_run() {
    let hung = recorded(|at| at > 3, 10, 0);
    assert_eq!(
        (hung.missing_ticks, hung.longest_gap),
        (7, Duration::from_secs(7))
    );
    assert!(matches!(
        hung.checked_outcome(Outcome::Completed),
        Outcome::Failed { .. }
    ));
    // An outcome that the kernel reported does not change.
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
