use super::{measure_dependence, measure_dependence_at_one_scale};
use serde_json::Value;

fn cases() -> Vec<Value> {
    let fixture: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/block_length.json")).unwrap();
    fixture["cases"].as_array().unwrap().clone()
}

fn centered(values: &Value) -> Vec<f64> {
    let values: Vec<f64> = values
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|v| v - mean).collect()
}

#[test]
fn block_lengths_match_a_python_implementation_of_the_paper() {
    for case in cases() {
        let found = measure_dependence_at_one_scale(&centered(&case["values"]));
        let (length, long_run_variance) = (
            case["length"].as_f64().unwrap(),
            case["long_run"].as_f64().unwrap(),
        );
        assert!(
            (found.best_block_length - length).abs() < 1e-8 * length,
            "{}: {} {length}",
            case["name"],
            found.best_block_length
        );
        assert!(
            (found.long_run_variance - long_run_variance).abs() < 1e-8 * long_run_variance,
            "{}: {}",
            case["name"],
            found.long_run_variance
        );
        assert!(!found.exceeds_series);
    }
}

#[test]
fn block_lengths_are_near_those_of_the_package_arch() {
    for case in cases() {
        let found = measure_dependence_at_one_scale(&centered(&case["values"])).best_block_length;
        let arch = case["arch"].as_f64().unwrap();
        assert!(
            (found / arch - 1.0).abs() < 0.3,
            "{}: {found} {arch}",
            case["name"]
        );
    }
}

#[test]
fn coarser_blocks_find_the_same_long_run_variance() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut x = 0.0;
    let series: Vec<f64> = (0..65_536)
        .map(|_| {
            x = 0.995 * x + random.f64() - 0.5;
            x
        })
        .collect();
    // Uniform noise has variance 1/12, and the mean of an autoregression that of noise over (1 - rho)^2.
    let truth = 1.0 / 12.0 / (0.005 * 0.005);
    let found = measure_dependence(&series);
    assert!(
        measure_dependence_at_one_scale(&series).exceeds_series,
        "otherwise no coarser scale is examined"
    );
    assert!(!found.exceeds_series);
    assert!(
        (found.long_run_variance / truth - 1.0).abs() < 0.35,
        "{} {truth}",
        found.long_run_variance
    );
    let best = (1.5 * (2.0 * 0.995 / (1.0 - 0.995_f64.powi(2))).powi(2) * 65_536.0).cbrt();
    assert!(
        (found.best_block_length / best - 1.0).abs() < 0.35,
        "{} {best}",
        found.best_block_length
    );
}

#[test]
fn the_autocorrelation_of_a_ramp_exceeds_the_measurable_length() {
    let ramp: Vec<f64> = (0..43_200).map(|i| f64::from(i) - 21_599.5).collect();
    assert!(measure_dependence(&ramp).exceeds_series);
}
