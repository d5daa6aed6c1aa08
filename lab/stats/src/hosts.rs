//! Compares arms on several hosts. A block is a pair of runs on one host, one of each arm. The
//! effect of the host cancels in the ratio of the two runs.

use crate::{
    arms::{
        ArmSummary, CONFIDENCE_LEVEL, Comparison, Conclusion, Interval, RUNS_FOR_A_TEST,
        runs_needed,
    },
    distribution::{t_above, t_quantile},
    paired::{mean_over_pairs, ratio_test, student_p},
    summary::{largest_magnitude, mean, mean_and_variance, varies},
};
use itertools::Itertools;

/// Student's test of the logarithms of the ratios within blocks or, if a value is not positive, of
/// the differences. Without variation there is no test and no interval. A block is (reference,
/// other). Blocks with a value that is not finite are ignored.
pub fn compare(blocks: &[(f64, f64)], margin: f64) -> Comparison {
    let blocks = blocks
        .iter()
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .copied()
        .collect_vec();
    let (a, b): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    let differences = blocks.iter().map(|(a, b)| b - a).collect_vec();
    let ratios = log_ratios(&blocks);
    let magnitude = largest_magnitude(&a).max(largest_magnitude(&b));
    let varying_ratios = ratios.as_deref().filter(|ratios| varies(ratios, 1.0));
    let varying_differences = Some(&*differences).filter(|values| varies(values, magnitude));
    let tested = if ratios.is_some() {
        varying_ratios
    } else {
        varying_differences
    };
    let comparison = Comparison {
        reference: ArmSummary::of(&a),
        other: ArmSummary::of(&b),
        difference: varying_differences
            .and_then(|values| mean_over_pairs(values, CONFIDENCE_LEVEL)),
        ratio: varying_ratios
            .and_then(|ratios| ratio_test(ratios, CONFIDENCE_LEVEL))
            .map(|test| test.ratio),
        shift: None,
        cliffs_delta: None,
        difference_p: tested.and_then(student_p),
        mann_whitney_p: None,
        equivalence_p: varying_ratios.and_then(|ratios| equivalence_p(ratios, margin)),
        runs_needed: varying_ratios
            .and_then(sd_of_runs)
            .and_then(|sd| runs_needed(sd, margin)),
        conclusion: Conclusion::NoValues,
    };
    comparison.concluded()
}

/// An arm's geometric mean on the other host divided by that on the first host. The interval comes
/// from the variation of single runs, estimated from the ratios within `blocks`. `None` if a value
/// is not positive, with fewer than two blocks, or if all ratios are equal.
pub fn host_ratio(first: &[f64], other: &[f64], blocks: &[(f64, f64)]) -> Option<Interval> {
    let mean_logarithm = |runs: &[f64]| mean(&logarithms(runs.iter().copied())?);
    let value = mean_logarithm(other)? - mean_logarithm(first)?;
    let inverse_runs = 1.0 / first.len() as f64 + 1.0 / other.len() as f64;
    let log_ratios = log_ratios(blocks)?;
    let standard_error =
        sd_of_runs(&log_ratios).filter(|_| varies(&log_ratios, 1.0))? * inverse_runs.sqrt();
    let half_width = t_quantile(
        f64::midpoint(1.0, CONFIDENCE_LEVEL),
        blocks.len() as f64 - 1.0,
    )? * standard_error;
    let [value, low, high] = [value, value - half_width, value + half_width].map(f64::exp);
    Some(Interval {
        value,
        low,
        high,
        level: CONFIDENCE_LEVEL,
    })
}

/// Two one-sided tests (Schuirmann 1987), with Student's distribution.
fn equivalence_p(log_ratios: &[f64], margin: f64) -> Option<f64> {
    let (mean, variance) = mean_and_variance(log_ratios)?;
    let block_count = log_ratios.len() as f64;
    let standard_error = (variance / block_count).sqrt();
    let p_above = |distance| t_above(distance / standard_error, block_count - 1.0);
    let p = p_above(mean - (1.0 - margin).ln())?.max(p_above((1.0 + margin).ln() - mean)?);
    let is_tested = log_ratios.len() >= RUNS_FOR_A_TEST && standard_error > 0.0 && margin > 0.0;
    is_tested.then_some(p)
}

/// A log ratio is the difference of two runs, so its variance is twice that of one run.
fn sd_of_runs(log_ratios: &[f64]) -> Option<f64> {
    mean_and_variance(log_ratios).map(|(_, variance)| (variance / 2.0).sqrt())
}

fn log_ratios(blocks: &[(f64, f64)]) -> Option<Vec<f64>> {
    logarithms(blocks.iter().map(|(a, b)| b / a.max(0.0)))
}

fn logarithms(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    values
        .map(|value| (value > 0.0 && value.is_finite()).then(|| value.ln()))
        .collect()
}
