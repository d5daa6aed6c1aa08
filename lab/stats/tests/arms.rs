//! What may be said of arms: the rules, and by simulation that tests err as rarely as they promise.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::arms::{self, Comparison, Conclusion, Direction, compare};

fn conclusion(a: &[f64], b: &[f64]) -> Conclusion {
    compare(a, b, 0.05).conclusion
}

#[test]
fn one_run_per_arm_is_described_however_far_apart_they_are() {
    let c = compare(&[40_363.97], &[13_984.30], 0.05);
    assert_eq!(c.conclusion, Conclusion::Described);
    assert_eq!(
        (c.difference, c.ratio, c.shift, c.cliffs_delta),
        (None, None, None, None)
    );
    assert_eq!(
        (
            c.difference_p,
            c.mann_whitney_p,
            c.equivalence_p,
            c.runs_needed
        ),
        (None, None, None, None)
    );
    assert_eq!(c.reference.mean, Some(40_363.97));
}

#[test]
fn one_run_in_one_arm_is_insufficient_for_a_test() {
    assert_eq!(
        conclusion(&[1.0], &[5.0, 5.1, 5.2, 5.3]),
        Conclusion::Described
    );
}

#[test]
fn two_runs_per_arm_give_an_estimate_and_no_test() {
    let c = compare(&[100.0, 101.0], &[50.0, 51.0], 0.05);
    assert_eq!(c.conclusion, Conclusion::TwoRuns);
    assert!(c.difference.is_some() && c.ratio.is_some() && c.shift.is_some());
    assert_eq!(
        (c.difference_p, c.mann_whitney_p, c.equivalence_p),
        (None, None, None)
    );
}

#[test]
fn three_runs_per_arm_can_differ() {
    let found = conclusion(&[40.0, 41.0, 40.4], &[14.0, 13.8, 14.3]);
    assert!(
        matches!(found, Conclusion::Differs { direction: Direction::Lower, p } if p < 0.001),
        "{found:?}"
    );
    let found = conclusion(&[14.0, 13.8, 14.3], &[40.0, 41.0, 40.4]);
    assert!(
        matches!(
            found,
            Conclusion::Differs {
                direction: Direction::Higher,
                ..
            }
        ),
        "{found:?}"
    );
}

#[test]
fn only_the_equivalence_test_concludes_no_difference() {
    let noisy = conclusion(&[100.0, 80.0, 120.0], &[99.0, 85.0, 118.0]);
    assert!(
        matches!(noisy, Conclusion::Inconclusive { p: Some(p), .. } if p > 0.05),
        "{noisy:?}"
    );
    let quiet = conclusion(&[100.0, 100.5, 99.5], &[100.2, 99.9, 100.4]);
    assert!(
        matches!(quiet, Conclusion::Equivalent { differs: None, p } if p < 0.05),
        "{quiet:?}"
    );
}

#[test]
fn a_difference_below_the_margin_is_reported_as_equivalent() {
    let found = conclusion(&[100.0, 100.1, 99.9, 100.0], &[101.0, 101.1, 100.9, 101.0]);
    assert!(
        matches!(
            found,
            Conclusion::Equivalent {
                differs: Some(Direction::Higher),
                ..
            }
        ),
        "{found:?}"
    );
}

#[test]
fn arms_without_variance_cannot_be_tested() {
    let c = compare(&[0.0; 3], &[0.0; 3], 0.05);
    assert_eq!(
        c.conclusion,
        Conclusion::Inconclusive {
            p: None,
            equivalence_p: None
        }
    );
    assert_eq!((c.difference_p, c.difference, c.ratio), (None, None, None));
    assert_eq!(
        conclusion(&[1.0; 3], &[2.0; 3]),
        Conclusion::Inconclusive {
            p: None,
            equivalence_p: None
        }
    );
}

#[test]
fn a_variation_by_rounding_is_none() {
    let c = compare(&[0.3, 0.1 + 0.2, 0.3], &[0.4; 3], 0.05);
    assert_eq!((c.difference_p, c.equivalence_p), (None, None));
    assert_eq!((c.difference, c.ratio, c.runs_needed), (None, None, None));
}

#[test]
fn a_run_without_a_finite_value_is_not_counted() {
    let c = compare(&[1.0, f64::NAN, 2.0, 3.0], &[f64::INFINITY], 0.05);
    assert_eq!((c.reference.runs, c.other.runs), (3, 0));
    assert_eq!(c.conclusion, Conclusion::NoValues);
}

#[test]
fn no_ratio_is_given_to_a_possibly_zero_mean() {
    assert_eq!(
        compare(&[-1.0, 0.5, 1.5], &[5.0, 6.0, 7.0], 0.05).ratio,
        None
    );
    assert_eq!(
        compare(&[0.0, 0.0, 0.0], &[5.0, 6.0, 7.0], 0.05).ratio,
        None
    );
    let fell_to_zero = compare(&[85_530.0, 84_012.0, 86_111.0], &[0.0; 3], 0.05);
    assert_eq!(
        fell_to_zero.ratio.map(|r| (r.value, r.low, r.high)),
        Some((0.0, 0.0, 0.0))
    );
    assert!(matches!(
        fell_to_zero.conclusion,
        Conclusion::Differs {
            direction: Direction::Lower,
            ..
        }
    ));
}

#[test]
fn runs_needed_are_sixteen_times_the_square_of_noise_over_effect() {
    assert_eq!(arms::runs_needed(2.0, 1.0), Some(64));
    assert_eq!(arms::runs_needed(0.001, 1.0), Some(3));
    assert_eq!(arms::runs_needed(0.0, 1.0), None);
    assert_eq!(arms::runs_needed(1.0, 0.0), None);
    // 10 % between runs, a margin of 5 %: 16 * 2^2.
    assert_eq!(
        compare(&[90.0, 100.0, 110.0], &[90.0, 100.0, 110.0], 0.05).runs_needed,
        Some(64)
    );
}

#[test]
fn testing_many_metrics_raises_the_significance_threshold() {
    let near = compare(&[100.0, 101.0, 102.0], &[104.0, 105.0, 103.2], 0.01);
    assert!(
        matches!(near.conclusion, Conclusion::Differs { .. }),
        "{near:?}"
    );
    let mut family: Vec<Comparison> = vec![near.clone(); 10];
    arms::conclude_family(&mut family);
    for member in &family {
        let Conclusion::Inconclusive { p: Some(p), .. } = member.conclusion else {
            panic!("{:?}", member.conclusion)
        };
        assert!((p - 10.0 * near.difference_p.unwrap()).abs() < 1e-12);
        assert_eq!(
            member.difference_p, near.difference_p,
            "the raw p-value stays"
        );
    }
}

#[test]
fn an_untestable_metric_does_not_count_in_the_multiple_test_correction() {
    let tested = compare(&[100.0, 101.0, 102.0], &[104.0, 105.0, 103.2], 0.05);
    let described = compare(&[1.0], &[2.0], 0.05);
    let mut family = vec![tested.clone(), described.clone()];
    arms::conclude_family(&mut family);
    assert_eq!(family, [tested, described]);
}

#[test]
fn a_rank_interval_of_three_runs_states_ninety_percent() {
    let shift = arms::hodges_lehmann(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.5], 0.95).unwrap();
    assert!((shift.level - 0.9).abs() < 1e-12, "{shift:?}");
    assert_eq!((shift.low, shift.high), (8.0, 12.5));
}

/// Shares of simulated comparisons of three runs each.
struct Shares {
    differs: f64,
    equivalent: f64,
    ratio_covers: f64,
    difference_covers: f64,
}

fn simulate(ratio: f64, spread: (f64, f64), runs: usize) -> Shares {
    const TIMES: usize = 10_000;
    let mut random = fastrand::Rng::with_seed(5);
    let mut normal = || {
        // Twelve uniforms less six: near enough to normal for a test of tests.
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    };
    let mut s = Shares {
        differs: 0.0,
        equivalent: 0.0,
        ratio_covers: 0.0,
        difference_covers: 0.0,
    };
    let covers =
        |i: Option<arms::Interval>, truth: f64| i.is_none_or(|i| i.low <= truth && truth <= i.high);
    let count = |yes: bool| if yes { 1.0 / TIMES as f64 } else { 0.0 };
    for _ in 0..TIMES {
        let a: Vec<f64> = (0..runs).map(|_| 100.0 + spread.0 * normal()).collect();
        let b: Vec<f64> = (0..runs)
            .map(|_| 100.0 * ratio + spread.1 * normal())
            .collect();
        s.differs += count(arms::welch_p(&a, &b).unwrap() <= 0.05);
        s.equivalent += count(arms::equivalence_p(&a, &b, 0.05).unwrap() <= 0.05);
        s.ratio_covers += count(covers(arms::ratio_of_means(&a, &b, 0.95), ratio));
        s.difference_covers += count(covers(
            arms::mean_difference(&a, &b, 0.95),
            100.0 * ratio - 100.0,
        ));
    }
    s
}

#[test]
fn equal_arms_are_called_different_in_about_5_percent() {
    for spread in [(1.0, 1.0), (10.0, 10.0), (1.0, 5.0)] {
        for runs in [3, 6] {
            let found = simulate(1.0, spread, runs);
            // Welch's test of three runs whose spreads differ fivefold errs a little more often than one time in twenty.
            assert!(
                found.differs < 0.068,
                "{spread:?}, {runs} runs: {}",
                found.differs
            );
            assert!(
                (0.932..0.98).contains(&found.difference_covers),
                "{spread:?}: {}",
                found.difference_covers
            );
            assert!(
                (0.93..0.98).contains(&found.ratio_covers),
                "{spread:?}: {}",
                found.ratio_covers
            );
        }
    }
}

#[test]
fn arms_at_the_margin_are_called_equivalent_at_most_5_percent() {
    for ratio in [0.95, 1.05] {
        for runs in [3, 6] {
            let found = simulate(ratio, (1.0, 1.5), runs);
            assert!(
                found.equivalent < 0.056,
                "{ratio}, {runs} runs: {}",
                found.equivalent
            );
            assert!(
                (0.93..0.98).contains(&found.ratio_covers),
                "{ratio}: {}",
                found.ratio_covers
            );
        }
    }
}

#[test]
fn the_recommended_number_of_runs_detects_the_margin_at_80_percent() {
    let needed = arms::runs_needed(4.0, 5.0).unwrap() as usize;
    assert_eq!(needed, 11);
    let found = simulate(1.05, (4.0, 4.0), needed);
    assert!((0.74..0.86).contains(&found.differs), "{}", found.differs);
}
