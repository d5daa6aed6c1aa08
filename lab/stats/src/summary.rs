use itertools::Itertools;

/// If there are no values, `n` and `sum` are 0, and all optional fields are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    pub n: usize,
    pub missing: usize,
    pub sum: f64,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub mean: Option<f64>,
    /// Sample standard deviation; `None` with fewer than two values.
    pub sd: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeansAndPeaks {
    pub mean_without_peaks: f64,
    pub mean_with_peaks: f64,
    pub peaks: usize,
    pub non_peaks: usize,
    /// Including the peaks.
    pub max: f64,
}

pub fn summary(values: &[Option<f64>]) -> Summary {
    let finite = finite_values(values);
    let n = finite.len();
    let sum = total(&finite);
    Summary {
        n,
        missing: values.len() - n,
        sum,
        min: finite.iter().copied().reduce(f64::min),
        max: finite.iter().copied().reduce(f64::max),
        mean: (n > 0).then(|| sum / n as f64),
        sd: mean_and_variance(&finite).map(|(_, variance)| variance.sqrt()),
    }
}

/// The `p`-quantile; `None` without values, or if `p` is not within 0 and 1.
///
/// Definition 7 of Hyndman and Fan (1996), the default of R, NumPy and Excel: position `1 + (n - 1)
/// p` among the ascending values, interpolated linearly.
pub fn quantile(values: &[Option<f64>], p: f64) -> Option<f64> {
    quantile_sorted(&sorted(values), p)
}

/// How many values it takes to expect one above the `p`-quantile: 20 for 0.95, 100 for 0.99. One is
/// enough for the maximum, and if `p` is at most 0.5.
pub fn min_values_for(p: f64) -> usize {
    if p > 0.5 && p < 1.0 {
        (1.0 / (1.0 - p) - 1e-6).ceil() as usize
    } else {
        1
    }
}

/// [`quantile`], but `None` with fewer values than [`min_values_for`].
pub fn quantile_if_enough(values: &[Option<f64>], p: f64) -> Option<f64> {
    let sorted = sorted(values);
    if sorted.len() < min_values_for(p) {
        None
    } else {
        quantile_sorted(&sorted, p)
    }
}

/// [`quantile`] of values that are already ascending and finite.
pub fn quantile_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&p) {
        return None;
    }
    let index = (sorted.len() - 1) as f64 * p;
    let below = index.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let share = index - below as f64;
    Some(sorted[below] + share * (sorted[above] - sorted[below]))
}

pub fn sorted(values: &[Option<f64>]) -> Vec<f64> {
    ascending(finite_values(values))
}

/// The rule of the paper that `docs/PAPER.md` describes.
const PEAK_FACTOR: f64 = 3.0;

/// A peak is more than three times the mean of all values, zeros included. The rule is not applied
/// again to the mean without peaks. `None` without values, or if all are peaks of a negative mean.
pub fn means_and_peaks(values: &[Option<f64>]) -> Option<MeansAndPeaks> {
    let finite = finite_values(values);
    if finite.is_empty() {
        return None;
    }
    let mean_with_peaks = total(&finite) / finite.len() as f64;
    let limit = PEAK_FACTOR * mean_with_peaks;
    let non_peaks = finite.iter().copied().filter(|v| *v <= limit).collect_vec();
    if non_peaks.is_empty() {
        return None;
    }
    Some(MeansAndPeaks {
        mean_without_peaks: total(&non_peaks) / non_peaks.len() as f64,
        mean_with_peaks,
        peaks: finite.len() - non_peaks.len(),
        non_peaks: non_peaks.len(),
        max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

pub(crate) fn ascending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

pub(crate) fn finite(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|v| v.is_finite()).collect()
}

pub(crate) fn finite_values(values: &[Option<f64>]) -> Vec<f64> {
    values
        .iter()
        .flatten()
        .copied()
        .filter(|v| v.is_finite())
        .collect()
}

/// A compensated sum: its error does not grow with the number of values (Neumaier 1974).
pub(crate) fn total(values: &[f64]) -> f64 {
    let mut sum = 0.0_f64;
    let mut compensation = 0.0_f64;
    for value in values {
        let next = sum + value;
        compensation += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + compensation
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// 0 without values.
pub(crate) fn largest_magnitude(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| value.abs().max(largest))
}

/// A standard deviation up to this share of the values comes from rounding.
const ROUNDING_SD: f64 = 1e-12;

/// Whether the values differ by more than rounding errors of numbers of this `magnitude`.
pub(crate) fn varies(values: &[f64], magnitude: f64) -> bool {
    mean_and_variance(values).is_some_and(|(_, variance)| variance.sqrt() > ROUNDING_SD * magnitude)
}

/// The variance divides by `n - 1`, and is 0 if it comes from rounding. `None` below two values.
pub fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = total(values) / n;
    let deviations = values.iter().map(|v| v - mean).collect_vec();
    let squares = deviations.iter().map(|d| d * d).collect_vec();
    // The mean is rounded, so the deviations do not quite sum to 0. `rest` corrects the squares.
    let rest = total(&deviations);
    let variance = (total(&squares) - rest * rest / n) / (n - 1.0);
    Some((
        mean,
        if variance > (ROUNDING_SD * mean).powi(2) {
            variance
        } else {
            0.0
        },
    ))
}
