use crate::summary::total;

/// Pearson's correlation of samples that have both values. `None` with fewer than two such samples,
/// for a constant, and for different lengths.
pub fn pearson(a: &[Option<f64>], b: &[Option<f64>]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let pairs = a.iter().zip(b).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
    let (a, b): (Vec<f64>, Vec<f64>) = pairs
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .unzip();
    let is_constant = |values: &[f64]| values.iter().all(|v| Some(v) == values.first());
    let n = a.len() as f64;
    if a.len() < 2 || is_constant(&a) || is_constant(&b) {
        return None;
    }
    let mean_a = total(&a) / n;
    let mean_b = total(&b) / n;
    let (mut aa, mut bb, mut ab, mut rest_a, mut rest_b) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(&b) {
        let a = a - mean_a;
        let b = b - mean_b;
        aa += a * a;
        bb += b * b;
        ab += a * b;
        rest_a += a;
        rest_b += b;
    }
    // Means are rounded, so the distances from them do not quite sum to 0.
    (aa, bb, ab) = (
        aa - rest_a * rest_a / n,
        bb - rest_b * rest_b / n,
        ab - rest_a * rest_b / n,
    );
    let r = ab / (aa.sqrt() * bb.sqrt());
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

/// Correlations of all pairs of series, in rows. The diagonal is 1, or `None` for a constant.
pub fn matrix(series: &[&[Option<f64>]]) -> Vec<Vec<Option<f64>>> {
    series
        .iter()
        .map(|a| series.iter().map(|b| pearson(a, b)).collect())
        .collect()
}

/// Ranks from 1. Equal values all get the mean of their ranks.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order = Vec::from_iter(0..values.len());
    order.sort_unstable_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for tied in order.chunk_by(|i, j| values[*i] == values[*j]) {
        let shared = from as f64 + (tied.len() as f64 + 1.0) / 2.0;
        for i in tied {
            ranks[*i] = shared;
        }
        from += tied.len();
    }
    ranks
}
