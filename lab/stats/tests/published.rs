//! Values that others published about data that they published.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::{arms, correlation, holm, summary};

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!(
        (found - expected).abs() <= within,
        "{found} is not within {within} of {expected}"
    );
}

/// NIST Statistical Reference Datasets, univariate: NumAcc1 to NumAcc4, made to break one-pass formulas. The error that is
/// allowed for the last is that of its data, which no float holds.
#[test]
fn mean_and_deviation_match_nists_certified_values() {
    let alternating = |first: f64, low: f64, high: f64| {
        let mut values = vec![first];
        values.extend((0..500).flat_map(|_| [low, high]));
        some(&values)
    };
    for (values, mean, sd, within) in [
        (
            some(&[10_000_001.0, 10_000_003.0, 10_000_002.0]),
            10_000_002.0,
            1.0,
            1e-15,
        ),
        (alternating(1.2, 1.1, 1.3), 1.2, 0.1, 1e-14),
        (
            alternating(1_000_000.2, 1_000_000.1, 1_000_000.3),
            1_000_000.2,
            0.1,
            1e-9,
        ),
        (
            alternating(10_000_000.2, 10_000_000.1, 10_000_000.3),
            10_000_000.2,
            0.1,
            1e-8,
        ),
    ] {
        let found = summary::summary(&values);
        near(found.mean.unwrap(), mean, 1e-15 * mean);
        near(found.sd.unwrap(), sd, within);
    }
}

/// Student (1908), the sleep data; p and the interval are those that R prints for `t.test(extra ~
/// group, data = sleep)`.
#[test]
fn welchs_test_of_students_sleep_data_matches_textbooks() {
    let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    near(arms::welch_p(&second, &first).unwrap(), 0.07939, 5e-6);
    let difference = arms::mean_difference(&second, &first, 0.95).unwrap();
    near(difference.low, -3.365_483_2, 5e-8);
    near(difference.high, 0.205_483_2, 5e-8);
}

/// Hollander and Wolfe (1973), page 69: permeability of the human chorioamnion. R's manual page of `wilcox.test` has the data;
/// Two-sided p = 0.2544, shift 0.305 with an interval from -0.15 to 0.76.
#[test]
fn the_rank_test_matches_hollander_and_wolfes_chorioamnion_example() {
    let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let before = [1.15, 0.88, 0.90, 0.74, 1.21];
    near(
        arms::mann_whitney_p(&before, &at_term).unwrap(),
        0.2544,
        5e-5,
    );
    let shift = arms::hodges_lehmann(&before, &at_term, 0.95).unwrap();
    near(shift.value, 0.305, 1e-12);
    near(shift.low, -0.15, 1e-12);
    near(shift.high, 0.76, 1e-12);
}

/// Anscombe (1973): four sets with one correlation.
#[test]
fn anscombes_quartet_has_one_correlation() {
    let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
    let last = [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 19.0, 8.0, 8.0, 8.0];
    for (x, y) in [
        (
            x,
            [
                8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
            ],
        ),
        (
            x,
            [
                9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74,
            ],
        ),
        (
            x,
            [
                7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73,
            ],
        ),
        (
            last,
            [
                6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89,
            ],
        ),
    ] {
        near(
            correlation::pearson(&some(&x), &some(&y)).unwrap(),
            0.816,
            0.0006,
        );
    }
}

/// Holm (1979), as the p-values 0.01, 0.04, 0.03 and 0.005 are worked in Wikipedia's article on his method: the first and the
/// last are rejected at 5 %, the others not.
#[test]
fn holms_worked_example_rejects_two_of_four() {
    let adjusted = holm::adjust(&[Some(0.01), Some(0.04), Some(0.03), Some(0.005)]);
    let rejected: Vec<bool> = adjusted.iter().map(|p| p.unwrap() <= 0.05).collect();
    assert_eq!(rejected, [true, false, false, true]);
    assert_eq!(adjusted, [Some(0.03), Some(0.06), Some(0.06), Some(0.02)]);
}

/// Cohen (1988), table 2.4.1, and Lehr (1992): to see an effect of half a standard deviation takes 64 in each group, of one 17
/// (the rule says 16), of a fifth 393 (the rule says 400).
#[test]
fn lehrs_rule_is_near_cohens_table() {
    for (effect, table) in [(0.5, 64.0), (1.0, 17.0), (0.2, 393.0)] {
        near(
            arms::runs_needed(1.0, effect).unwrap() as f64 / table,
            1.0,
            0.06,
        );
    }
}
