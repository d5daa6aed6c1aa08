//! A distribution over thresholds, scales and lapses, as a grid of weights. Values and thresholds
//! are logarithms.

use std::{iter::zip, sync::LazyLock};

/// Distance of neighboring thresholds in the logarithm: about 1 %.
const STEP: f64 = 0.01;
/// Thresholds above and below the first value of the search.
const ROWS_ABOVE: usize = 40;
const ROWS_BELOW: usize = 400;
const ROWS: usize = ROWS_BELOW + ROWS_ABOVE + 1;
/// Scales of the logistic, as shares of the threshold. Few trials cannot distinguish a small scale
/// from a large one, and an interval for a scale below 3 % could be too narrow.
const SCALES: [f64; 7] = [0.03, 0.04, 0.05, 0.065, 0.085, 0.12, 0.16];
const LAPSES: [f64; 3] = [0.0, 0.02, 0.05];
const CELLS_PER_ROW: usize = SCALES.len() * LAPSES.len();
/// Thresholds below this weight are ignored when the next trial is chosen.
const MIN_WEIGHT: f64 = 1e-5;
/// Rows between the first candidates for the next trial. Rows around the best one follow.
const COARSE_STEP: usize = 4;
/// Steps of the table of entropies, which is interpolated linearly.
const ENTROPY_STEPS: usize = 2048;

/// Probability, for each scale, that a trial without a lapse fails. Index 0 is a trial `ROWS` rows
/// above the threshold, each further index one row less.
static FAILURE_TABLE: LazyLock<Vec<[f64; SCALES.len()]>> = LazyLock::new(|| {
    (0..=2 * ROWS)
        .map(|row| SCALES.map(|scale| logistic((row as f64 - ROWS as f64) * STEP / scale)))
        .collect()
});

static ENTROPY_TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..=ENTROPY_STEPS)
        .map(|step| entropy(step as f64 / ENTROPY_STEPS as f64))
        .collect()
});

/// Weights are probabilities and sum to 1.
#[derive(Debug, Clone)]
pub struct Grid {
    lowest_threshold: f64,
    /// One row per threshold, ascending. Cells of a row are ordered by scale, then by lapse.
    weights: Vec<[f64; CELLS_PER_ROW]>,
    row_weights: Vec<f64>,
}

struct LikelyThreshold {
    row: usize,
    weight: f64,
    /// See [`terms_by_scale`].
    failure_terms: [[f64; 2]; SCALES.len()],
}

impl Grid {
    pub fn new(first_value: f64) -> Self {
        let weight = 1.0 / (ROWS * CELLS_PER_ROW) as f64;
        Self {
            lowest_threshold: first_value - ROWS_BELOW as f64 * STEP,
            weights: vec![[weight; CELLS_PER_ROW]; ROWS],
            row_weights: vec![weight * CELLS_PER_ROW as f64; ROWS],
        }
    }

    fn threshold(&self, row: usize) -> f64 {
        self.lowest_threshold + row as f64 * STEP
    }

    /// Bayes' rule for the result of a trial at `value`.
    pub fn update(&mut self, value: f64, failed: bool) {
        let lowest_threshold = self.lowest_threshold;
        let mut sum = 0.0;
        for (row, weights) in self.weights.iter_mut().enumerate() {
            let distance = lowest_threshold + row as f64 * STEP - value;
            for (cells, scale) in zip(weights.chunks_exact_mut(LAPSES.len()), SCALES) {
                let failure_without_lapse = logistic(distance / scale);
                for (weight, lapse) in zip(cells, LAPSES) {
                    let failure = lapse + (1.0 - 2.0 * lapse) * failure_without_lapse;
                    *weight *= if failed { failure } else { 1.0 - failure };
                    sum += *weight;
                }
            }
        }
        // Cells with a lapse keep the sum above 0.
        for (weights, row_weight) in zip(&mut self.weights, &mut self.row_weights) {
            weights.iter_mut().for_each(|weight| *weight /= sum);
            *row_weight = weights.iter().sum();
        }
    }

    pub fn quantile(&self, share: f64) -> f64 {
        let mut below = 0.0;
        for (row, weight) in self.row_weights.iter().enumerate() {
            if below + weight >= share && *weight > 0.0 {
                return self.threshold(row) + STEP * ((share - below) / weight - 0.5);
            }
            below += weight;
        }
        self.threshold(ROWS - 1)
    }

    /// Quantile of the part of the distribution above `value`.
    pub fn quantile_above(&self, value: f64, share: f64) -> f64 {
        let above = self.probability_above(value);
        self.quantile(1.0 - above + above * share)
    }

    pub fn probability_above(&self, value: f64) -> f64 {
        self.row_weights
            .iter()
            .enumerate()
            .filter(|(row, _)| self.threshold(*row) > value)
            .map(|(_, weight)| weight)
            .sum()
    }

    pub fn probability_of_scale_above(&self, scale: f64) -> f64 {
        self.weights
            .iter()
            .map(|weights| {
                zip(weights.chunks_exact(LAPSES.len()), SCALES)
                    .filter(|(_, cell_scale)| *cell_scale > scale)
                    .flat_map(|(cells, _)| cells)
                    .sum::<f64>()
            })
            .sum()
    }

    pub fn most_informative_trial(&self, low: f64, high: f64) -> f64 {
        let likely: Vec<LikelyThreshold> = zip(&self.weights, &self.row_weights)
            .enumerate()
            .filter(|(_, (_, weight))| **weight > MIN_WEIGHT)
            .map(|(row, (weights, weight))| LikelyThreshold {
                row,
                weight: *weight,
                failure_terms: terms_by_scale(weights),
            })
            .collect();
        let (Some(first), Some(last)) = (likely.first(), likely.last()) else {
            return high;
        };
        // Rounding errors must not exclude `low` and `high`.
        let fractional_row =
            |value: f64| ((value - self.lowest_threshold) / STEP).clamp(0.0, (ROWS - 1) as f64);
        let low = (fractional_row(low) - 1e-6).ceil() as usize;
        let high = (fractional_row(high) + 1e-6).floor() as usize;
        // A trial far from every likely threshold has a known result, so it gives no information.
        let (low, high) = (low.max(first.row).min(high), high.min(last.row).max(low));
        let best = |rows: &mut dyn Iterator<Item = usize>| {
            rows.map(|row| (expected_information(&likely, row), row))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map_or(high, |(_, row)| row)
        };
        let coarse_best = best(&mut (low..=high).rev().step_by(COARSE_STEP));
        let from = coarse_best.saturating_sub(COARSE_STEP - 1).max(low);
        let to = (coarse_best + COARSE_STEP - 1).min(high);
        self.threshold(best(&mut (from..=to)))
    }
}

/// Information about the threshold, in nats: the entropy of the result minus its mean entropy for a
/// known threshold (Prins 2013).
fn expected_information(likely: &[LikelyThreshold], trial_row: usize) -> f64 {
    let mut failure = 0.0;
    let mut conditional_entropy = 0.0;
    for LikelyThreshold {
        row,
        weight,
        failure_terms,
    } in likely
    {
        let Some(failure_without_lapse) = FAILURE_TABLE.get(row + ROWS - trial_row) else {
            continue;
        };
        let joint: f64 = zip(failure_terms, failure_without_lapse)
            .map(|([constant_term, logistic_term], failure_without_lapse)| {
                constant_term + logistic_term * failure_without_lapse
            })
            .sum();
        failure += joint;
        conditional_entropy += weight * interpolated_entropy(joint / weight);
    }
    interpolated_entropy(failure) - conditional_entropy
}

/// For each scale, `[a, b]`: the joint weight of the scale and a failure is `a + b * p`. Here `p`
/// is the probability of a failure without a lapse. `a` and `b` are weighted sums over lapses.
fn terms_by_scale(weights: &[f64; CELLS_PER_ROW]) -> [[f64; 2]; SCALES.len()] {
    let mut terms = [[0.0; 2]; SCALES.len()];
    for (sums, cells) in zip(&mut terms, weights.chunks_exact(LAPSES.len())) {
        for (weight, lapse) in zip(cells, LAPSES) {
            sums[0] += weight * lapse;
            sums[1] += weight * (1.0 - 2.0 * lapse);
        }
    }
    terms
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Entropy, in nats, of a result with probability `p`.
fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    part(p) + part(1.0 - p)
}

fn interpolated_entropy(p: f64) -> f64 {
    let position = p.clamp(0.0, 1.0) * ENTROPY_STEPS as f64;
    let below = position as usize;
    match ENTROPY_TABLE.get(below..) {
        Some([low, high, ..]) => low + (position - below as f64) * (high - low),
        _ => 0.0,
    }
}
