use super::*;
use proptest::prelude::*;

fn config() -> SearchConfig {
    SearchConfig {
        first_value: 1000.0,
        max_width: 0.1,
        max_trials: 40,
    }
}

#[test]
fn each_interval_end_is_confirmed_three_times_or_rejected() {
    for contradict in [false, true] {
        let mut staircase = Staircase::new(config()).unwrap();
        let mut ends = Vec::new();
        let outcome = loop {
            match staircase.next_trial() {
                Next::Try(h) => staircase.add_trial(h, h > 400.0),
                Next::Confirm {
                    value: h,
                    is_upper: high,
                } => {
                    ends.push(high);
                    staircase.add_end_trial(h, high, contradict != high);
                }
                Next::Over(outcome) => break outcome,
            }
        };
        let confirmed = staircase.end_trials().unwrap();
        assert_eq!(ends[..6], [true, false, true, false, true, false]);
        assert_eq!(confirmed.agrees(), !contradict);
        match outcome {
            Outcome::Found(interval) => {
                assert!(
                    !contradict && interval.low < 400.0 && interval.high > 400.0,
                    "{interval:?}"
                )
            }
            outcome => assert!(contradict && outcome == Outcome::Noisy, "{outcome:?}"),
        }
    }
}

#[test]
fn an_invalid_search_configuration_is_refused() {
    for bad in [
        SearchConfig {
            first_value: 0.0,
            ..config()
        },
        SearchConfig {
            first_value: -1.0,
            ..config()
        },
        SearchConfig {
            first_value: f64::NAN,
            ..config()
        },
        SearchConfig {
            first_value: f64::INFINITY,
            ..config()
        },
        SearchConfig {
            max_width: 0.01,
            ..config()
        },
        SearchConfig {
            max_width: f64::NAN,
            ..config()
        },
        SearchConfig {
            max_trials: 0,
            ..config()
        },
    ] {
        assert!(Staircase::new(bad).is_none(), "{bad:?}");
    }
}

#[test]
fn the_staircase_falls_eight_percent_per_step_until_a_failure() {
    let mut staircase = Staircase::new(config()).unwrap();
    let mut expected = 1000.0;
    for _ in 0..5 {
        let Next::Try(h) = staircase.next_trial() else {
            panic!("{staircase:?}")
        };
        assert!((h - expected).abs() < 1e-9, "{h}");
        staircase.add_trial(h, true);
        expected *= 0.92;
    }
    staircase.add_trial(expected, false);
    let Next::Try(h) = staircase.next_trial() else {
        panic!("{staircase:?}")
    };
    assert!(
        h < 1000.0 && h > expected * 0.9,
        "{h} after {expected} failed"
    );
}

#[test]
fn searches_that_never_or_always_fail_have_no_interval() {
    let mut never = Staircase::new(config()).unwrap();
    let mut always = never.clone();
    let outcome = loop {
        match never.next_trial() {
            Next::Try(h) => never.add_trial(h, true),
            Next::Over(outcome) => break outcome,
            Next::Confirm { .. } => panic!("nothing to confirm"),
        }
    };
    assert_eq!(never.trials, 40);
    let Outcome::NeverFailed { lowest } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        (lowest / (1000.0 * 0.92_f64.powi(39)) - 1.0).abs() < 1e-9,
        "{lowest}"
    );
    let outcome = loop {
        match always.next_trial() {
            Next::Try(h) => always.add_trial(h, false),
            Next::Over(outcome) => break outcome,
            Next::Confirm { .. } => panic!("nothing to confirm"),
        }
    };
    assert_eq!(outcome, Outcome::AboveStart);
    assert!(always.trials < 10, "{}", always.trials);
}

proptest! {
    #[test]
    fn search_trials_stay_between_the_start_and_just_below_sufficient_values(ends in proptest::collection::vec(any::<bool>(), 60)) {
        let mut staircase = Staircase::new(config()).unwrap();
        let mut lowest: f64 = 1000.0;
        // The lower end of an interval that is confirmed is at most the start.
        let highest = config().first_value * (1.0 + config().max_width);
        for passed in ends {
            let h = match staircase.next_trial() {
                Next::Try(h) => {
                    staircase.add_trial(h, passed);
                    h
                }
                Next::Confirm { value: h, is_upper: high } => {
                    staircase.add_end_trial(h, high, passed);
                    h
                }
                Next::Over(_) => break,
            };
            prop_assert!(h <= highest && h >= lowest * 0.85 * 0.999_999, "{} after {}", h, lowest);
            if passed {
                lowest = lowest.min(h);
            }
            let interval = staircase.interval();
            prop_assert!(interval.low <= interval.middle && interval.middle <= interval.high, "{:?}", interval);
            prop_assert!(interval.low.is_finite() && interval.high.is_finite());
        }
        prop_assert!(staircase.trials <= 40);
    }

    #[test]
    fn the_staircase_never_panics_for_any_results(values in proptest::collection::vec((any::<f64>(), any::<bool>()), 0..20)) {
        let mut staircase = Staircase::new(config()).unwrap();
        for (h, passed) in values {
            staircase.add_trial(h, passed);
        }
        let interval = staircase.interval();
        prop_assert!(interval.low.is_finite() && interval.low > 0.0, "{:?}", interval);
        let _ = staircase.next_trial();
    }
}
