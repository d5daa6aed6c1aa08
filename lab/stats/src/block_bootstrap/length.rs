/// Neighboring values are added up in pairs only if there are at least this many pairs.
const MIN_COARSE_LENGTH: usize = 256;

#[derive(Clone, Copy)]
pub struct Dependence {
    /// Best block length for the circular block bootstrap of the mean, in samples, at least 1.
    pub best_block_length: f64,
    /// Whether the dependence is longer than the series can show.
    pub exceeds_series: bool,
    pub variance: f64,
    /// Variance of the mean times the number of samples (flat-top lag window).
    pub long_run_variance: f64,
}

/// `series` must have mean 0. If its dependence is longer than the examined lags, neighbors are
/// added up in pairs and the sums are examined. The sums have twice the long-run variance and half
/// the best block length.
pub fn measure_dependence(series: &[f64]) -> Dependence {
    let first = measure_dependence_at_one_scale(series);
    let mut coarsest = first;
    let mut scale = 1.0;
    let mut coarse = Vec::new();
    while coarsest.exceeds_series
        && series.len().max(1) as f64 / (2.0 * scale) >= MIN_COARSE_LENGTH as f64
    {
        let finer = if scale > 1.0 { &coarse } else { series };
        coarse = finer.chunks(2).map(|pair| pair.iter().sum()).collect();
        scale *= 2.0;
        coarsest = measure_dependence_at_one_scale(&coarse);
    }
    Dependence {
        best_block_length: coarsest.best_block_length * scale,
        long_run_variance: coarsest.long_run_variance / scale,
        variance: first.variance,
        ..coarsest
    }
}

/// Politis and White (2004), corrected by Patton, Politis and White (2009): autocovariances up to
/// the last significant lag, and a flat-top lag window. The block length with the least error of
/// the variance is `(3/2 (lag_weighted_sum / long_run_variance)^2 n)^(1/3)` for `n` samples.
fn measure_dependence_at_one_scale(series: &[f64]) -> Dependence {
    let n = series.len();
    let size = n as f64;
    let significance_limit = 2.0 * (size.log10() / size).sqrt();
    let insignificant_lags = (size.log10().sqrt().ceil() as usize).max(5);
    let max_lag = ((size.sqrt().ceil() as usize) + insignificant_lags).min(n.saturating_sub(1));
    let variance = covariance(series, 0);
    let mut covariances = vec![variance];
    let mut insignificant_run = 0;
    let mut last_significant = None;
    for lag in 1..=max_lag {
        covariances.push(covariance(series, lag));
        insignificant_run = if covariances[lag].abs() < significance_limit * variance {
            insignificant_run + 1
        } else {
            0
        };
        if insignificant_run == insignificant_lags {
            last_significant = Some(lag - insignificant_lags);
            break;
        }
    }
    let window = last_significant
        .map_or(max_lag, |last_significant| 2 * last_significant.max(1))
        .min(n.saturating_sub(1));
    for lag in covariances.len()..=window {
        covariances.push(covariance(series, lag));
    }
    let mut long_run_variance = variance;
    let mut lag_weighted_sum = 0.0;
    for (lag, covariance) in covariances.iter().enumerate().take(window + 1).skip(1) {
        let share = lag as f64 / window as f64;
        let weight = if share <= 0.5 {
            1.0
        } else {
            2.0 * (1.0 - share)
        };
        long_run_variance += 2.0 * weight * covariance;
        lag_weighted_sum += 2.0 * weight * lag as f64 * covariance;
    }
    let max_length = (3.0 * size.sqrt()).min(size / 3.0).ceil().max(1.0);
    let best_length = (1.5 * (lag_weighted_sum / long_run_variance).powi(2) * size).cbrt();
    let best_length = if best_length.is_finite() {
        best_length
    } else {
        1.0
    };
    let exceeds_series =
        best_length > max_length || (last_significant.is_none() && n > 2 * insignificant_lags);
    Dependence {
        best_block_length: best_length.clamp(1.0, max_length),
        exceeds_series,
        variance,
        long_run_variance: long_run_variance.max(0.0),
    }
}

fn covariance(series: &[f64], lag: usize) -> f64 {
    let a = &series[..series.len() - lag];
    let b = &series[lag..];
    let mut sums = [0.0; 8];
    let chunks_a = a.chunks_exact(8);
    let chunks_b = b.chunks_exact(8);
    let rest: f64 = chunks_a
        .remainder()
        .iter()
        .zip(chunks_b.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    (sums.iter().sum::<f64>() + rest) / series.len() as f64
}

#[cfg(test)]
mod tests;
