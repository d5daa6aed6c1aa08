//! Predictive intervals of simulated counters and times.
//!
//! Simulated runs differ in their seed, which draws the candidates for evictions. For times, each
//! run also has its own resampled cost model ([`crate::cost::CostModel`]).
//! [`PredictiveInterval::of_runs`] covers one more run over the same blocks.
//! [`PredictiveInterval::of_other_blocks`] covers a run over other blocks of the same workload. It
//! adds the variance between blocks, by a delete-half jackknife (Shao and Wu 1989).
//! `docs/decisions/0022` has the method and how often the intervals cover.

use crate::cost::ratio_or_zero;
use serde::Serialize;

/// The mean of simulated runs, and the interval that contains one more run with 95 % probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictiveInterval {
    pub mean: f64,
    /// At least 0.
    pub low: f64,
    pub high: f64,
}

/// 97.5 % point of the standard normal distribution.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// Variance of independent runs; `None` for fewer than two.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() as f64 - 1.0))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl PredictiveInterval {
    /// Student's predictive interval of `n` non-negative values (Hahn and Meeker 1991):
    /// `mean ± t(n - 1) sd sqrt(1 + 1 / n)`. 1 is for the predicted run, `1 / n` for the error of
    /// the mean. `None` for fewer than two values.
    pub fn of_runs(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        Some(Self::from_moments(mean(values), variance(values)?, n))
    }

    /// Predicts a run over `size_ratio` times as many other blocks of the same workload. The
    /// interval is for the run's value divided by `size_ratio`, which compares with `values`.
    /// `values` and `halves` come from the known blocks. `None` if a variance is missing.
    ///
    /// Before the factor `1 + 1 / n`, the variance is
    /// `C + D / size_ratio + B (1 + 1 / size_ratio)`. `C` is due to the uncertain cost model, `D`
    /// to the seed. `B` is the variance between blocks (`HalfRuns::variance`), and counts for the
    /// known and for the other blocks.
    pub fn of_other_blocks(values: &[f64], halves: &HalfRuns, size_ratio: f64) -> Option<Self> {
        // The variance due to the seed is proportional to `size_ratio`. The variance due to the
        // cost model is proportional to the square of `size_ratio`, because a run has one model.
        // Both are divided by the square here.
        let cost_model_variance = (variance(values)? - halves.seed_variance).max(0.0);
        let variance = cost_model_variance
            + halves.seed_variance / size_ratio
            + halves.variance()? * (1.0 + 1.0 / size_ratio);
        // The degrees of freedom cannot exceed the number of groups.
        let n = (values.len() as f64).min(halves.slot_group_count);
        Some(Self::from_moments(mean(values), variance, n.max(2.0)))
    }

    /// An interval around `mean` with the same upper half-width. The low end is at least 0.
    pub fn with_mean(self, mean: f64) -> Self {
        Self::of_half_width(mean, self.high - self.mean)
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    fn from_moments(mean: f64, variance: f64, n: f64) -> Self {
        let sd = variance.sqrt();
        Self::of_half_width(mean, student_t_95(n - 1.0) * sd * (1.0 + 1.0 / n).sqrt())
    }

    fn of_half_width(mean: f64, half_width: f64) -> Self {
        Self {
            mean,
            low: (mean - half_width).max(0.0),
            high: mean + half_width,
        }
    }
}

/// A counter or time of simulated runs over random halves of the slots ([`crate::Trace::half`]).
pub struct HalfRuns {
    /// Each half has the means of its runs: (value, lookups in the summed slots).
    pub means: Vec<(f64, f64)>,
    pub runs_per_half: f64,
    /// [`crate::Trace::group_count`] of the whole trace.
    pub slot_group_count: f64,
    /// Variance between runs over the whole trace that differ only in their seed.
    pub seed_variance: f64,
    /// Lookups in the slots over which the value is summed. These slots have recorded counters.
    pub lookups_in_summed_slots: f64,
    pub lookups_in_all_slots: f64,
}

impl HalfRuns {
    /// Variance between blocks, without the variance due to the seed. `None` for fewer than three
    /// halves, or halves without lookups.
    ///
    /// A linear regression corrects the value of each half for its lookups. `residual_variance` is
    /// the variance of the residuals. The variance for the whole trace is `whole_per_half` times as
    /// large. `seed_variance / runs_per_half` is subtracted, because the value of a half is a mean
    /// of runs.
    ///
    /// Halves share blocks, so they differ less than independent samples. Therefore the result is
    /// divided by `left_out_share`, the share of all lookups that are not in the summed slots of a
    /// half.
    fn variance(&self) -> Option<f64> {
        let n = self.means.len() as f64;
        let sum = |term: &dyn Fn(&(f64, f64)) -> f64| self.means.iter().map(term).sum::<f64>();
        let mean = sum(&|half| half.0) / n;
        let lookups = sum(&|half| half.1) / n;
        if n < 3.0 || lookups <= 0.0 {
            return None;
        }
        let product = sum(&|half| (half.0 - mean) * (half.1 - lookups));
        let square = sum(&|half| (half.1 - lookups).powi(2));
        // If all halves have equally many lookups, the slope of the regression is undefined.
        let slope = ratio_or_zero(product, square);
        let residual_variance =
            sum(&|half| (half.0 - mean - slope * (half.1 - lookups)).powi(2)) / (n - 2.0);
        let whole_per_half = self.lookups_in_summed_slots / lookups;
        let left_out_share = 1.0 - lookups / self.lookups_in_all_slots;
        let uncorrected_variance =
            whole_per_half * residual_variance - self.seed_variance / self.runs_per_half;
        Some(ratio_or_zero(uncorrected_variance, left_out_share).max(0.0))
    }
}

/// Student's two-sided 95 % point. Exact for 1 and 2 degrees of freedom. From 3 on it is the series
/// in `1 / degrees_of_freedom` of Abramowitz and Stegun (1964, 26.7.5), which is within 1 %.
fn student_t_95(degrees_of_freedom: f64) -> f64 {
    if degrees_of_freedom < 1.5 {
        return 12.706_204_736;
    }
    if degrees_of_freedom < 2.5 {
        return 4.302_652_730;
    }
    let z3 = NORMAL_975.powi(3);
    let z5 = NORMAL_975.powi(5);
    let z7 = NORMAL_975.powi(7);
    NORMAL_975
        + (z3 + NORMAL_975) / (4.0 * degrees_of_freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * NORMAL_975) / (96.0 * degrees_of_freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * NORMAL_975)
            / (384.0 * degrees_of_freedom.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        for (freedom, table) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (63.0, 1.998)] {
            assert!(
                (student_t_95(freedom) / table - 1.0).abs() < 0.01,
                "{freedom}"
            );
        }
        assert_eq!(variance(&[10.0, 12.0, 14.0]), Some(4.0));
        let interval = PredictiveInterval::of_runs(&[10.0, 12.0, 14.0]).unwrap();
        assert_eq!(interval.mean, 12.0);
        assert!((interval.high - 12.0 - 4.3027 * 2.0 * (4.0_f64 / 3.0).sqrt()).abs() < 1e-3);
        assert!(interval.low > 2.0 && interval.high < 30.0);
        assert_eq!(PredictiveInterval::of_runs(&[1.0]), None);
        assert_eq!(
            PredictiveInterval::of_runs(&[0.0, 0.0, 5.0]).unwrap().low,
            0.0
        );
    }

    #[test]
    fn seed_variance_grows_linearly_and_cost_variance_quadratically() {
        let halves = |seed_variance| HalfRuns {
            means: vec![(6.0, 50.0); 4],
            runs_per_half: 4.0,
            slot_group_count: 8.0,
            seed_variance,
            lookups_in_summed_slots: 100.0,
            lookups_in_all_slots: 100.0,
        };
        for size_ratio in [0.25, 1.0, 4.0] {
            // Splits the variance 4 of the values into parts due to the seed and the cost model.
            for (seed_variance, cost_model_variance) in [(4.0, 0.0), (1.0, 3.0)] {
                let values = [10.0, 12.0, 14.0];
                let interval = PredictiveInterval::of_other_blocks(
                    &values,
                    &halves(seed_variance),
                    size_ratio,
                )
                .unwrap();
                let half_width = interval.high - interval.mean;
                let sd = half_width / (student_t_95(2.0) * (4.0_f64 / 3.0).sqrt());
                let whole = (size_ratio * sd).powi(2);
                let expected =
                    seed_variance * size_ratio + cost_model_variance * size_ratio.powi(2);
                assert!(
                    (whole - expected).abs() < 1e-9,
                    "{size_ratio}: {whole} {expected}"
                );
            }
        }
    }
}
