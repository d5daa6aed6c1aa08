//! Compares two arms of runs. The statistical unit is the run: every function takes one number per
//! run, never the samples of a run.

mod rank;

use crate::{
    distribution::{t_above, t_quantile},
    holm,
    summary::{finite, mean_and_variance, total},
};
use itertools::Itertools;
pub use rank::{cliffs_delta, hodges_lehmann, mann_whitney_p};
use serde::Serialize;

/// A test needs this many runs in each arm.
pub const RUNS_FOR_A_TEST: usize = 3;

/// The significance level of tests is 1 minus this.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

#[derive(Debug, Clone, PartialEq)]
pub struct ArmSummary {
    pub runs: usize,
    /// `None` if the arm has no run.
    pub mean: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Actual confidence level. A rank-based interval of few runs can have less than requested.
    pub level: f64,
}

impl Interval {
    pub fn value_and_ends(&self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }
}

/// Pairs of runs ([`crate::hosts::compare`]) have no `shift`, `cliffs_delta` or `mann_whitney_p`.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub reference: ArmSummary,
    pub other: ArmSummary,
    /// Other mean minus reference mean. The interval is Welch's, or Student's for pairs. `None` with
    /// fewer than two runs in an arm, or if neither arm (for pairs, no difference) varies.
    pub difference: Option<Interval>,
    /// Other mean divided by reference mean, with Fieller's interval. For pairs it is the geometric
    /// mean of their ratios. `None` like [`Comparison::difference`], and if the reference mean is
    /// not clearly above 0 (for pairs, if a value is not).
    pub ratio: Option<Interval>,
    /// Hodges and Lehmann's shift of the other arm. `None` with fewer than two runs in an arm.
    pub shift: Option<Interval>,
    /// A value from -1 to 1; `None` with fewer than two runs in an arm.
    pub cliffs_delta: Option<f64>,
    /// Decides whether a difference is shown. The test is Welch's, or Student's for pairs. `None`
    /// with fewer than [`RUNS_FOR_A_TEST`] in an arm, or if the tested values do not vary.
    pub difference_p: Option<f64>,
    /// `None` with fewer than [`RUNS_FOR_A_TEST`] in an arm. With three runs in each arm it cannot
    /// be below 0.1.
    pub mann_whitney_p: Option<f64>,
    /// Decides whether equivalence is shown: the larger p-value of two one-sided tests of the ratio
    /// against the margin. `None` like [`Comparison::difference_p`], and if the margin, the
    /// reference's mean or, for pairs, a value is not positive.
    pub equivalence_p: Option<f64>,
    /// Runs per arm to detect a difference of the margin ([`runs_needed`]). `None` with fewer than
    /// two runs in an arm, if no arm varies, or if the margin or the reference's mean is not
    /// positive.
    pub runs_needed: Option<u64>,
    pub conclusion: Conclusion,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Lower,
    Higher,
}

/// A report says "better" or "worse" only for [`Conclusion::Differs`], and "no difference" only for
/// [`Conclusion::Equivalent`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Conclusion {
    NoValues,
    /// There are means, but no interval and no test: an arm has a single run.
    Described,
    /// The smaller arm has two runs: there is an interval, but no test.
    TwoRuns,
    /// The means are shown to differ, and equivalence is not shown.
    Differs {
        direction: Direction,
        /// P-value of the difference, adjusted if several metrics were tested.
        p: f64,
    },
    /// The means are shown to differ by less than the margin.
    Equivalent {
        /// P-value of equivalence, adjusted if several metrics were tested.
        p: f64,
        /// Set if a difference is shown, too. The difference is too small to matter.
        differs: Option<Direction>,
    },
    /// Neither a difference nor equivalence is shown.
    Inconclusive {
        /// P-value of the difference; `None` if the tested values do not vary.
        p: Option<f64>,
        /// P-value of equivalence; `None` if the test was impossible.
        equivalence_p: Option<f64>,
    },
}

/// `margin` is the smallest difference of interest, as a share of the reference's mean. Arms are
/// equivalent if the ratio of their means is shown to lie between `1 - margin` and `1 + margin`.
/// Ignores values that are not finite.
pub fn compare(reference: &[f64], other: &[f64], margin: f64) -> Comparison {
    let a = finite(reference);
    let b = finite(other);
    let runs = a.len().min(b.len());
    let has_two_runs = runs >= 2;
    let has_enough_runs = runs >= RUNS_FOR_A_TEST;
    let comparison = Comparison {
        reference: ArmSummary::of(&a),
        other: ArmSummary::of(&b),
        difference: mean_difference(&a, &b, CONFIDENCE_LEVEL),
        ratio: ratio_of_means(&a, &b, CONFIDENCE_LEVEL),
        shift: hodges_lehmann(&a, &b, CONFIDENCE_LEVEL).filter(|_| has_two_runs),
        cliffs_delta: cliffs_delta(&a, &b).filter(|_| has_two_runs),
        difference_p: welch_p(&a, &b).filter(|_| has_enough_runs),
        mann_whitney_p: mann_whitney_p(&a, &b).filter(|_| has_enough_runs),
        equivalence_p: equivalence_p(&a, &b, margin).filter(|_| has_enough_runs),
        runs_needed: runs_needed_of_pilot(&a, &b, margin),
        conclusion: Conclusion::NoValues,
    };
    comparison.concluded()
}

/// Concludes again from p-values adjusted for the number of tests (Holm). Tests of differences and
/// of equivalence are two families. A metric chosen before the runs and tested once needs no
/// adjustment.
pub fn conclude_family<'c>(family: impl IntoIterator<Item = &'c mut Comparison>) {
    let family = family.into_iter().collect_vec();
    let adjusted = |p: fn(&Comparison) -> Option<f64>| {
        holm::adjust(&family.iter().map(|comparison| p(comparison)).collect_vec())
    };
    let difference_ps = adjusted(|comparison| comparison.difference_p);
    let equivalence_ps = adjusted(|comparison| comparison.equivalence_p);
    for ((comparison, difference_p), equivalence_p) in
        family.into_iter().zip(difference_ps).zip(equivalence_ps)
    {
        comparison.conclude(difference_p, equivalence_p);
    }
}

/// Runs per arm to detect a difference `delta` with a power of 80 % in a test at 5 %:
/// `16 (sd / delta)^2` (Lehr 1992) rounded up, at least [`RUNS_FOR_A_TEST`]. `sd` is the standard
/// deviation between runs of a pilot. `None` unless both are positive and finite.
pub fn runs_needed(sd: f64, delta: f64) -> Option<u64> {
    let runs = (16.0 * (sd / delta) * (sd / delta)).ceil();
    (sd > 0.0 && delta > 0.0 && delta.is_finite() && runs.is_finite())
        .then(|| (runs as u64).max(RUNS_FOR_A_TEST as u64))
}

fn runs_needed_of_pilot(a: &[f64], b: &[f64], margin: f64) -> Option<u64> {
    let ((mean_a, variance_a), (_, variance_b)) = (mean_and_variance(a)?, mean_and_variance(b)?);
    runs_needed(
        f64::midpoint(variance_a, variance_b).sqrt(),
        margin * mean_a,
    )
}

impl ArmSummary {
    pub fn of(runs: &[f64]) -> Self {
        Self {
            runs: runs.len(),
            mean: (!runs.is_empty()).then(|| total(runs) / runs.len() as f64),
        }
    }
}

impl Comparison {
    pub(crate) fn concluded(mut self) -> Self {
        self.conclude(self.difference_p, self.equivalence_p);
        self
    }

    fn conclude(&mut self, difference_p: Option<f64>, equivalence_p: Option<f64>) {
        let alpha = 1.0 - CONFIDENCE_LEVEL + 1e-12;
        let runs = self.reference.runs.min(self.other.runs);
        let differs = difference_p.filter(|p| *p <= alpha).zip(self.direction());
        self.conclusion = match (runs, equivalence_p.filter(|p| *p <= alpha), differs) {
            (0, ..) => Conclusion::NoValues,
            (1, ..) => Conclusion::Described,
            (2, ..) => Conclusion::TwoRuns,
            (_, Some(p), differs) => Conclusion::Equivalent {
                p,
                differs: differs.map(|(_, direction)| direction),
            },
            (_, None, Some((p, direction))) => Conclusion::Differs { direction, p },
            (_, None, None) => Conclusion::Inconclusive {
                p: difference_p,
                equivalence_p,
            },
        };
    }

    /// Direction of the ratio or, without a ratio, of the difference. It may be insignificant. `None`
    /// if the means are equal.
    pub fn direction(&self) -> Option<Direction> {
        let mean_difference = || Some(self.other.mean? - self.reference.mean?);
        let change = self
            .ratio
            .map(|ratio| ratio.value - 1.0)
            .or_else(mean_difference)?;
        match change {
            0.0 => None,
            change if change < 0.0 => Some(Direction::Lower),
            _ => Some(Direction::Higher),
        }
    }
}

/// Mean of the other arm minus `factor` times the mean of the reference. The degrees of freedom are
/// Satterthwaite's (1946).
struct Contrast {
    value: f64,
    standard_error: f64,
    degrees_of_freedom: f64,
}

impl Contrast {
    fn of(reference: &[f64], other: &[f64], factor: f64) -> Option<Self> {
        let ((mean_a, variance_a), (mean_b, variance_b)) =
            (mean_and_variance(reference)?, mean_and_variance(other)?);
        let runs_a = reference.len() as f64;
        let runs_b = other.len() as f64;
        let squared_error_a = factor * factor * variance_a / runs_a;
        let squared_error_b = variance_b / runs_b;
        let degrees_of_freedom = (squared_error_a + squared_error_b).powi(2)
            / (squared_error_a * squared_error_a / (runs_a - 1.0)
                + squared_error_b * squared_error_b / (runs_b - 1.0));
        let contrast = Self {
            value: mean_b - factor * mean_a,
            standard_error: (squared_error_a + squared_error_b).sqrt(),
            degrees_of_freedom,
        };
        (contrast.standard_error > 0.0 && degrees_of_freedom.is_finite()).then_some(contrast)
    }
}

/// Two-sided p-value of Welch's test (1947) of equal means. `None` with fewer than two runs in an
/// arm, or if neither arm varies.
pub fn welch_p(reference: &[f64], other: &[f64]) -> Option<f64> {
    let contrast = Contrast::of(reference, other, 1.0)?;
    let t = contrast.value / contrast.standard_error;
    Some((2.0 * t_above(t.abs(), contrast.degrees_of_freedom)?).min(1.0))
}

/// Other mean minus reference mean, with Welch's interval. `None` as for [`welch_p`].
pub fn mean_difference(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let contrast = Contrast::of(reference, other, 1.0)?;
    let half_width = t_quantile(f64::midpoint(1.0, level), contrast.degrees_of_freedom)?
        * contrast.standard_error;
    let value = contrast.value;
    Some(Interval {
        value,
        low: value - half_width,
        high: value + half_width,
        level,
    })
}

/// Other mean divided by reference mean, with the interval of Fieller (1954). The degrees of
/// freedom are those of the contrast with the ratio as its factor. `None` as for [`welch_p`], and
/// if the interval of the reference's mean reaches 0.
///
/// Fieller's interval can reach below 0 although no run does. Then the variance of the other arm's
/// mean is assumed to be proportional to that mean, as in Wilson's score interval (1927).
pub fn ratio_of_means(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let ((mean_a, variance_a), (mean_b, variance_b)) =
        (mean_and_variance(reference)?, mean_and_variance(other)?);
    if mean_a <= 0.0 {
        return None;
    }
    let value = mean_b / mean_a;
    let degrees_of_freedom = Contrast::of(reference, other, value)
        .or_else(|| Contrast::of(reference, other, 1.0))?
        .degrees_of_freedom;
    let t = t_quantile(f64::midpoint(1.0, level), degrees_of_freedom)?;
    let squared_error_a = variance_a / reference.len() as f64;
    let squared_error_b = variance_b / other.len() as f64;
    let fieller_g = t * t * squared_error_a / (mean_a * mean_a);
    if fieller_g >= 1.0 {
        return None;
    }
    let half_width = t / mean_a
        * (squared_error_b + value * value * squared_error_a - fieller_g * squared_error_b).sqrt();
    let low = (value - half_width) / (1.0 - fieller_g);
    let high = (value + half_width) / (1.0 - fieller_g);
    let is_non_negative = reference.iter().chain(other).all(|run| *run >= 0.0);
    if low >= 0.0 || mean_b <= 0.0 || !is_non_negative {
        return Some(Interval {
            value,
            low,
            high,
            level,
        });
    }
    // The ends are both solutions `r` of the equation
    // `(mean_b - r mean_a)^2 = t^2 (r / value squared_error_b + r^2 squared_error_a)`. They are
    // positive. Without the factor `r / value`, the solutions are Fieller's ends.
    let half_sum = value + t * t * squared_error_b / (2.0 * mean_a * mean_b);
    let root = (half_sum * half_sum - (1.0 - fieller_g) * value * value).sqrt();
    Some(Interval {
        value,
        low: value * value / (half_sum + root),
        high: (half_sum + root) / (1.0 - fieller_g),
        level,
    })
}

/// Two one-sided Welch tests of the ratio of means: above `1 - margin`, and below `1 + margin`
/// (Schuirmann 1987; for a ratio Sasabuchi 1988). Returns the larger p-value. `None` in the cases
/// of [`welch_p`], and if the margin or the reference's mean is not positive.
pub fn equivalence_p(reference: &[f64], other: &[f64], margin: f64) -> Option<f64> {
    if margin.is_nan() || margin <= 0.0 || mean_and_variance(reference)?.0 <= 0.0 {
        return None;
    }
    let above = Contrast::of(reference, other, 1.0 - margin)?;
    let below = Contrast::of(reference, other, 1.0 + margin)?;
    let p_above = t_above(above.value / above.standard_error, above.degrees_of_freedom)?;
    let p_below = t_above(
        -below.value / below.standard_error,
        below.degrees_of_freedom,
    )?;
    Some(p_above.max(p_below))
}
