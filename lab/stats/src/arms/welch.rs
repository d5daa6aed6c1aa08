//! Means of runs: Welch, Fieller, and two one-sided tests. Variances are never pooled.

use super::Interval;
use crate::{
    distribution::{t_above, t_quantile},
    summary::mean_and_variance,
};

/// Contrast of the means, `other - factor * reference`, with its standard error and Satterthwaite's
/// degrees of freedom.
struct Contrast {
    value: f64,
    error: f64,
    freedom: f64,
}

impl Contrast {
    fn of(reference: &[f64], other: &[f64], factor: f64) -> Option<Contrast> {
        let ((mean_a, variance_a), (mean_b, variance_b)) =
            (mean_and_variance(reference)?, mean_and_variance(other)?);
        let (runs_a, runs_b) = (reference.len() as f64, other.len() as f64);
        let (a, b) = (factor * factor * variance_a / runs_a, variance_b / runs_b);
        let freedom = (a + b).powi(2) / (a * a / (runs_a - 1.0) + b * b / (runs_b - 1.0));
        let contrast = Contrast {
            value: mean_b - factor * mean_a,
            error: (a + b).sqrt(),
            freedom,
        };
        (contrast.error > 0.0 && freedom.is_finite()).then_some(contrast)
    }
}

/// Welch's test of equal means. `None` with fewer than two runs in an arm, or if neither arm varies.
pub fn welch_p(reference: &[f64], other: &[f64]) -> Option<f64> {
    let contrast = Contrast::of(reference, other, 1.0)?;
    let t = contrast.value / contrast.error;
    Some((2.0 * t_above(t.abs(), contrast.freedom)?).min(1.0))
}

/// The other's mean minus the reference's, with Welch's interval. `None` as for [`welch_p`].
pub fn mean_difference(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let contrast = Contrast::of(reference, other, 1.0)?;
    let half_width = t_quantile(f64::midpoint(1.0, level), contrast.freedom)? * contrast.error;
    let value = contrast.value;
    Some(Interval {
        value,
        low: value - half_width,
        high: value + half_width,
        level,
    })
}

/// The other's mean over the reference's, with the interval of Fieller (1954). The degrees of
/// freedom are Satterthwaite's at the ratio itself. If the interval would be below 0 and no run is,
/// the variance of the other's mean is taken to grow with that mean. `None` as for [`welch_p`],
/// and if the reference's own interval reaches 0.
pub fn ratio_of_means(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let ((a, variance_a), (b, variance_b)) =
        (mean_and_variance(reference)?, mean_and_variance(other)?);
    if a <= 0.0 {
        return None;
    }
    let value = b / a;
    let freedom = Contrast::of(reference, other, value)
        .or_else(|| Contrast::of(reference, other, 1.0))?
        .freedom;
    let t = t_quantile(f64::midpoint(1.0, level), freedom)?;
    let (variance_a, variance_b) = (
        variance_a / reference.len() as f64,
        variance_b / other.len() as f64,
    );
    let fieller_g = t * t * variance_a / (a * a);
    if fieller_g >= 1.0 {
        return None;
    }
    let half_width =
        t / a * (variance_b + value * value * variance_a - fieller_g * variance_b).sqrt();
    let (low, high) = (
        (value - half_width) / (1.0 - fieller_g),
        (value + half_width) / (1.0 - fieller_g),
    );
    let is_non_negative = reference.iter().chain(other).all(|run| *run >= 0.0);
    if low >= 0.0 || b <= 0.0 || !is_non_negative {
        return Some(Interval {
            value,
            low,
            high,
            level,
        });
    }
    // Both solutions r of (b - r a)^2 = t^2 (r / value vb + r^2 va) are positive.
    let half_sum = value + t * t * variance_b / (2.0 * a * b);
    let root = (half_sum * half_sum - (1.0 - fieller_g) * value * value).sqrt();
    Some(Interval {
        value,
        low: value * value / (half_sum + root),
        high: (half_sum + root) / (1.0 - fieller_g),
        level,
    })
}

/// Two one-sided Welch tests of the ratio of means: above `1 - margin`, and below `1 + margin`
/// (Schuirmann 1987; for a ratio Sasabuchi 1988). Returns the larger p-value. `None` as for
/// [`welch_p`], without a positive margin, or if the reference's mean is not positive.
pub fn equivalence_p(reference: &[f64], other: &[f64], margin: f64) -> Option<f64> {
    if margin.is_nan() || margin <= 0.0 || mean_and_variance(reference)?.0 <= 0.0 {
        return None;
    }
    let above = Contrast::of(reference, other, 1.0 - margin)?;
    let below = Contrast::of(reference, other, 1.0 + margin)?;
    let above = t_above(above.value / above.error, above.freedom)?;
    let below = t_above(-below.value / below.error, below.freedom)?;
    Some(above.max(below))
}
