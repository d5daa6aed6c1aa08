use crate::summary::{finite_values, quantile_sorted, sorted};

#[derive(Default)]
pub struct Histogram {
    /// Class `i` counts `edges[i] <= value < edges[i + 1]`. The last class includes its upper edge.
    pub counts: Vec<u64>,
    pub above: u64,
}

/// `classes` of equal width; empty unless `low < high`, both finite, and there is a class.
pub fn linear_edges(low: f64, high: f64, classes: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && low < high && classes > 0) {
        return Vec::new();
    }
    let width = (high - low) / classes as f64;
    let mut edges: Vec<f64> = (0..classes).map(|i| low + i as f64 * width).collect();
    edges.push(high);
    // If a class is narrower than the distance between neighboring floats, edges can be equal.
    edges.dedup();
    if edges.len() < 2 { Vec::new() } else { edges }
}

/// At most `max_classes` classes over the values up to the quantile `max_quantile`. Their width is
/// `2 IQR / n^(1/3)` (Freedman and Diaconis 1981). If the quartiles are equal, there are
/// `1 + log2 n` classes (Sturges 1926). Equal values get one class, and no values
/// none.
pub fn freedman_diaconis_edges(
    values: &[Option<f64>],
    max_quantile: f64,
    max_classes: usize,
) -> Vec<f64> {
    let sorted = sorted(values);
    let (Some(low), Some(high)) = (
        sorted.first().copied(),
        quantile_sorted(&sorted, max_quantile),
    ) else {
        return Vec::new();
    };
    if low >= high {
        let half_width = if low == 0.0 { 0.5 } else { low.abs() / 2.0 };
        return linear_edges(low - half_width, low + half_width, 1);
    }
    let n = sorted.len() as f64;
    let quartile = |p| quantile_sorted(&sorted, p).unwrap_or(low);
    let width = 2.0 * (quartile(0.75) - quartile(0.25)) / n.cbrt();
    let classes = if width > 0.0 {
        ((high - low) / width).ceil()
    } else {
        1.0 + n.log2().ceil()
    };
    linear_edges(low, high, (classes as usize).clamp(1, max_classes.max(1)))
}

/// `edges` ascend. Values below the first are not counted. With fewer than two edges there is no
/// class, and all values count as above.
pub fn count(values: &[Option<f64>], edges: &[f64]) -> Histogram {
    let classes = edges.len().saturating_sub(1);
    let mut histogram = Histogram {
        counts: vec![0; classes],
        above: 0,
    };
    for value in finite_values(values) {
        let class = edges.partition_point(|edge| *edge <= value);
        match class.min(classes).checked_sub(1) {
            Some(class) if edges.last().is_some_and(|last| value <= *last) => {
                histogram.counts[class] += 1;
            }
            None if classes > 0 => {}
            _ => histogram.above += 1,
        }
    }
    histogram
}
