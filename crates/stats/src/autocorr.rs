//! How much samples repeat one another.

/// The autocorrelation at a lag of so many samples; `None` for a constant, and where no two samples are so far apart.
///
/// `r(k) = sum (x(t) - m)(x(t+k) - m) / sum (x(t) - m)^2`, the usual (biased) estimate, which keeps the sequence positive
/// definite. Of a series with missing samples: the mean product of the pairs that are there, brought to the same scale.
pub fn at_lag(values: &[Option<f64>], lag: usize) -> Option<f64> {
    let there = crate::summary::present(values);
    let n = there.len() as f64;
    if there.is_empty() || lag >= values.len() {
        return None;
    }
    let mean = crate::summary::total(&there) / n;
    let square = there.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let (mut product, mut pairs) = (0.0, 0.0);
    for (a, b) in values.iter().zip(values.iter().skip(lag)) {
        if let (Some(a), Some(b)) = (finite(*a), finite(*b)) {
            product += (a - mean) * (b - mean);
            pairs += 1.0;
        }
    }
    let whole = (values.len() - lag) as f64 / values.len() as f64;
    let r = product / pairs * whole / square;
    r.is_finite().then_some(r)
}

/// The autocorrelation of neighbours; see [`at_lag`].
pub fn lag_one(values: &[Option<f64>]) -> Option<f64> {
    at_lag(values, 1)
}

/// How many independent samples would tell as much about the mean: `n (1 - r) / (1 + r)` with the lag-one autocorrelation
/// `r`, within 1 and `n`. Right for a first-order autoregression; [`crate::Estimate::n_eff`] does not assume one. `None` as
/// for [`lag_one`].
pub fn effective_n(values: &[Option<f64>]) -> Option<f64> {
    let r = lag_one(values)?;
    let n = crate::summary::present(values).len() as f64;
    Some((n * (1.0 - r) / (1.0 + r)).clamp(1.0, n))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}
