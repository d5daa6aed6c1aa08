//! Means of runs: Welch, Fieller, and two one-sided tests. Variances are never pooled.

use super::Interval;
use crate::distribution::{t_above, t_quantile};
use crate::summary::mean_and_variance;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    pub t: f64,
    pub freedom: f64,
    pub p: f64,
}

/// The means' contrast `other - factor * reference`, its standard error, and Satterthwaite's
/// degrees of freedom.
struct Contrast {
    value: f64,
    error: f64,
    freedom: f64,
}

impl Contrast {
    fn of(reference: &[f64], other: &[f64], factor: f64) -> Option<Contrast> {
        let ((mean_a, va), (mean_b, vb)) =
            (mean_and_variance(reference)?, mean_and_variance(other)?);
        let (na, nb) = (reference.len() as f64, other.len() as f64);
        let (a, b) = (factor * factor * va / na, vb / nb);
        let freedom = (a + b).powi(2) / (a * a / (na - 1.0) + b * b / (nb - 1.0));
        let contrast = Contrast {
            value: mean_b - factor * mean_a,
            error: (a + b).sqrt(),
            freedom,
        };
        (contrast.error > 0.0 && freedom.is_finite()).then_some(contrast)
    }
}

/// Test of equal means; `t` is positive if the other's is higher. `None` with fewer than two runs
/// in an arm, or if neither arm varies.
pub fn welch_test(reference: &[f64], other: &[f64]) -> Option<Welch> {
    let contrast = Contrast::of(reference, other, 1.0)?;
    let t = contrast.value / contrast.error;
    let p = (2.0 * t_above(t.abs(), contrast.freedom)?).min(1.0);
    Some(Welch {
        t,
        freedom: contrast.freedom,
        p,
    })
}

/// Mean of the other minus mean of the reference with Welch's interval. `None` as for [`welch_test`].
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

/// Mean of the other over mean of the reference, with the interval of Fieller (1954) and
/// Satterthwaite's degrees of freedom at the ratio itself. If no run is below 0 and the interval
/// would be, the variance of the other's mean grows with that mean instead. `None` as for
/// [`welch_test`], and if the reference's mean is not above 0 by more than its own interval.
pub fn ratio_of_means(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let ((a, va), (b, vb)) = (mean_and_variance(reference)?, mean_and_variance(other)?);
    if a <= 0.0 {
        return None;
    }
    let value = b / a;
    let freedom = Contrast::of(reference, other, value)
        .or_else(|| Contrast::of(reference, other, 1.0))?
        .freedom;
    let t = t_quantile(f64::midpoint(1.0, level), freedom)?;
    let (va, vb) = (va / reference.len() as f64, vb / other.len() as f64);
    let fieller_g = t * t * va / (a * a);
    if fieller_g >= 1.0 {
        return None;
    }
    let half_width = t / a * (vb + value * value * va - fieller_g * vb).sqrt();
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
    // Solves (b - r a)^2 = t^2 (r / value vb + r^2 va) for r: both solutions are positive.
    let half = value + t * t * vb / (2.0 * a * b);
    let root = (half * half - (1.0 - fieller_g) * value * value).sqrt();
    Some(Interval {
        value,
        low: value * value / (half + root),
        high: (half + root) / (1.0 - fieller_g),
        level,
    })
}

/// The larger p-value of two one-sided Welch tests that the ratio of means is above `1 - margin`
/// and below `1 + margin` (Schuirmann 1987; for a ratio Sasabuchi 1988). `None` as for
/// [`welch_test`], without a positive margin, or if the reference's mean is not positive.
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
