//! What NumPy, SciPy and statsmodels say about the same data: `tests/witness/make.py` wrote the fixtures.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::{arms, correlation, histogram, holm, paired, smooth, summary};
use serde_json::Value;

const CLOSE: f64 = 1e-9;

fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(fixture: &Value) -> impl Iterator<Item = (&str, &Value)> {
    fixture["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (case["name"].as_str().unwrap_or(""), case))
}

fn series(value: &Value) -> Vec<Option<f64>> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_f64)
        .collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

#[track_caller]
fn same(what: &str, found: Option<f64>, expected: &Value) {
    match (found, expected.as_f64()) {
        (None, None) => {}
        (Some(found), Some(expected)) => {
            let near = CLOSE * expected.abs().max(1e-6);
            assert!(
                (found - expected).abs() <= near,
                "{what}: {found}, the witness says {expected}"
            );
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

#[test]
fn summaries_and_quantiles_match_numpy() {
    for (name, case) in cases(&fixture("series")) {
        let values = series(&case["values"]);
        let s = summary::summary(&values);
        assert_eq!(s.n as u64, case["n"].as_u64().unwrap(), "{name}");
        assert_eq!(s.n + s.missing, values.len(), "{name}");
        same(&format!("{name}: sum"), Some(s.sum), &case["sum"]);
        for (key, found) in [
            ("min", s.min),
            ("max", s.max),
            ("mean", s.mean),
            ("sd", s.sd),
        ] {
            same(&format!("{name}: {key}"), found, &case[key]);
        }
        for (p, expected) in numbers(&case["ps"])
            .into_iter()
            .zip(case["quantiles"].as_array().unwrap())
        {
            same(
                &format!("{name}: p {p}"),
                summary::quantile(&values, p),
                expected,
            );
        }
        let without = summary::means_and_peaks(&values);
        same(
            &format!("{name}: without peaks"),
            without.map(|means| means.mean_without_peaks),
            &case["without_peaks"],
        );
        if let Some(without) = without {
            assert_eq!(
                without.peaks as u64,
                case["left_out"].as_u64().unwrap(),
                "{name}"
            );
        }
    }
}

#[test]
fn histograms_have_numpys_bins_and_counts() {
    let mut compared = 0;
    for (name, case) in cases(&fixture("series")) {
        let values = series(&case["values"]);
        let s = summary::summary(&values);
        for (key, edges) in [
            (
                "linear",
                histogram::linear_edges(s.min.unwrap(), s.max.unwrap(), 12),
            ),
            (
                "freedman_diaconis",
                histogram::freedman_diaconis_edges(&values, 1.0, usize::MAX),
            ),
        ] {
            if case[key].is_null() {
                continue;
            }
            let expected = numbers(&case[key]["edges"]);
            assert_eq!(edges.len(), expected.len(), "{name}: {key}");
            for (found, expected) in edges.iter().zip(&expected) {
                same(
                    &format!("{name}: {key}"),
                    Some(*found),
                    &Value::from(*expected),
                );
            }
            // Its own edges: a value on an edge must not fall to the other side by the last bit of ours.
            let counted = histogram::count(&values, &expected);
            let counts: Vec<u64> = case[key]["counts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c.as_u64().unwrap())
                .collect();
            assert_eq!(counted.counts, counts, "{name}: {key}");
            assert_eq!(counted.above, 0, "{name}: {key}");
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared} histograms");
}

#[test]
fn moving_averages_match_their_definition() {
    for (name, case) in cases(&fixture("series")) {
        let values = series(&case["values"]);
        for (key, window) in [("centred_5", 5), ("centred_4", 4)] {
            let found = smooth::moving_average(&values, window);
            assert_eq!(found.len(), values.len());
            for (i, (found, expected)) in
                found.iter().zip(case[key].as_array().unwrap()).enumerate()
            {
                same(&format!("{name}: {key} at {i}"), *found, expected);
            }
        }
    }
}

#[test]
fn correlations_match_scipy() {
    for (name, case) in cases(&fixture("correlation")) {
        let (a, b) = (series(&case["a"]), series(&case["b"]));
        same(
            &format!("{name}: Pearson"),
            correlation::pearson(&a, &b),
            &case["pearson"],
        );
    }
}

#[test]
fn tests_and_intervals_of_arms_match_scipy() {
    for (name, case) in cases(&fixture("arms")) {
        let (a, b) = (numbers(&case["reference"]), numbers(&case["other"]));
        let say = |what: &str| format!("{name}: {what}");
        same(&say("p"), arms::welch_p(&a, &b), &case["welch"]["p"]);
        let difference = arms::mean_difference(&a, &b, 0.95).unwrap();
        same(&say("low"), Some(difference.low), &case["difference"][0]);
        same(&say("high"), Some(difference.high), &case["difference"][1]);
        let ratio = arms::ratio_of_means(&a, &b, 0.95);
        same(
            &say("ratio's low"),
            ratio.map(|r| r.low),
            &case["fieller"][0],
        );
        same(
            &say("ratio's high"),
            ratio.map(|r| r.high),
            &case["fieller"][1],
        );
        same(
            &say("equivalence"),
            arms::equivalence_p(&a, &b, 0.05),
            &case["equivalence_p"],
        );
        same(&say("p of U"), arms::mann_whitney_p(&a, &b), &case["u_p"]);
        let shift = arms::hodges_lehmann(&a, &b, 0.95).unwrap();
        for (i, found) in [shift.value, shift.low, shift.high, shift.level]
            .into_iter()
            .enumerate()
        {
            same(
                &say("Hodges and Lehmann"),
                Some(found),
                &case["hodges_lehmann"][i],
            );
        }
        same(
            &say("Cliff's delta"),
            arms::cliffs_delta(&a, &b),
            &case["cliffs_delta"],
        );
    }
}

#[test]
fn the_comparison_equals_its_individual_statistics() {
    for (name, case) in cases(&fixture("arms")) {
        let (a, b) = (numbers(&case["reference"]), numbers(&case["other"]));
        let c = arms::compare(&a, &b, 0.05);
        let tested = a.len().min(b.len()) >= arms::RUNS_FOR_A_TEST;
        assert_eq!(c.difference, arms::mean_difference(&a, &b, 0.95), "{name}");
        assert_eq!(c.ratio, arms::ratio_of_means(&a, &b, 0.95), "{name}");
        assert_eq!(c.shift, arms::hodges_lehmann(&a, &b, 0.95), "{name}");
        assert_eq!(
            c.difference_p,
            arms::welch_p(&a, &b).filter(|_| tested),
            "{name}"
        );
        assert_eq!(
            c.mann_whitney_p,
            arms::mann_whitney_p(&a, &b).filter(|_| tested),
            "{name}"
        );
        assert_eq!(
            c.equivalence_p,
            arms::equivalence_p(&a, &b, 0.05).filter(|_| tested),
            "{name}"
        );
    }
}

#[test]
fn the_rank_test_of_many_runs_with_ties_matches_scipy() {
    let fixture = fixture("arms");
    let (a, b) = (
        numbers(&fixture["large"]["reference"]),
        numbers(&fixture["large"]["other"]),
    );
    let found = arms::mann_whitney_p(&a, &b);
    same("p", found, &fixture["large"]["p"]);
}

#[test]
fn intervals_of_amounts_satisfy_their_equations_and_stay_above_zero() {
    let fixture = fixture("amounts");
    let near = |what: String, found: arms::Interval, expected: &Value| {
        for (found, expected) in [found.value, found.low, found.high]
            .into_iter()
            .zip(numbers(expected))
        {
            assert!(
                (found - expected).abs() <= 1e-6 * expected,
                "{what}: {found}, the witness says {expected}"
            );
        }
        assert!(found.low > 0.0, "{what}: {found:?}");
    };
    for case in fixture["pairs"].as_array().unwrap() {
        let (values, level) = (numbers(&case["values"]), case["level"].as_f64().unwrap());
        let found = paired::nonnegative_mean_over_pairs(&values, level).unwrap();
        near(format!("{values:?}"), found, &case["interval"]);
    }
    for case in fixture["ratios"].as_array().unwrap() {
        let (a, b) = (numbers(&case["reference"]), numbers(&case["other"]));
        near(
            format!("{a:?} {b:?}"),
            arms::ratio_of_means(&a, &b, 0.95).unwrap(),
            &case["interval"],
        );
    }
}

#[test]
fn holms_adjustment_matches_statsmodels() {
    for (_, case) in cases(&fixture("holm")) {
        let p: Vec<Option<f64>> = series(&case["p"]);
        for (found, expected) in holm::adjust(&p)
            .into_iter()
            .zip(case["adjusted"].as_array().unwrap())
        {
            same("adjusted", found, expected);
        }
    }
}
