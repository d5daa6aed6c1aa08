//! What is known, as a grid of thresholds, slopes and lapses.

/// From threshold to threshold, as a share of it.
const STEP: f64 = 0.01;
/// Thresholds that are thought of, from the first value on: so many steps above it, and below.
const ABOVE: usize = 40;
const BELOW: usize = 400;
/// Slopes that are thought of, as a share of the threshold.
const SLOPES: [f64; 7] = [0.01, 0.016, 0.025, 0.04, 0.063, 0.1, 0.16];
/// Lapses that are thought of.
const LAPSES: [f64; 3] = [0.0, 0.02, 0.05];
/// Slopes and lapses of one threshold.
const CELLS: usize = SLOPES.len() * LAPSES.len();
/// Thresholds that are less likely are left out where the next trial is chosen.
const UNLIKELY: f64 = 1e-6;

/// Weights, which sum to 1.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// Logarithm of the lowest threshold.
    first: f64,
    /// By threshold, ascending; in it by slope, in it by lapse.
    weights: Vec<[f64; CELLS]>,
}

impl Grid {
    /// All as likely, around a first value.
    pub(super) fn new(from: f64) -> Self {
        let rows = BELOW + ABOVE + 1;
        let each = 1.0 / (rows * CELLS) as f64;
        Grid { first: from - BELOW as f64 * STEP, weights: vec![[each; CELLS]; rows] }
    }

    fn threshold(&self, row: usize) -> f64 {
        self.first + row as f64 * STEP
    }

    /// Takes what a trial came to.
    pub(super) fn update(&mut self, value: f64, failed: bool) {
        let first = self.first;
        let mut sum = 0.0;
        for (row, weights) in self.weights.iter_mut().enumerate() {
            let above = first + row as f64 * STEP - value;
            for (cells, slope) in weights.chunks_exact_mut(LAPSES.len()).zip(SLOPES) {
                let sharp = logistic(above / slope);
                for (weight, lapse) in cells.iter_mut().zip(LAPSES) {
                    let fails = lapse + (1.0 - 2.0 * lapse) * sharp;
                    *weight *= if failed { fails } else { 1.0 - fails };
                    sum += *weight;
                }
            }
        }
        // With lapses nothing is impossible.
        self.weights.iter_mut().flatten().for_each(|weight| *weight /= sum);
    }

    fn rows(&self) -> impl Iterator<Item = f64> {
        self.weights.iter().map(|weights| weights.iter().sum())
    }

    /// The threshold below which the true one is with this probability.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut below = 0.0;
        for (row, weight) in self.rows().enumerate() {
            if below + weight >= share && weight > 0.0 {
                return self.threshold(row) + STEP * ((share - below) / weight - 0.5);
            }
            below += weight;
        }
        self.threshold(self.weights.len() - 1)
    }

    /// How likely a threshold above this value is.
    pub(super) fn above(&self, value: f64) -> f64 {
        self.rows().enumerate().filter(|(row, _)| self.threshold(*row) > value).map(|(_, weight)| weight).sum()
    }

    /// How likely a slope above this one is.
    pub(super) fn flatter_than(&self, slope: f64) -> f64 {
        let flat = |weights: &[f64; CELLS]| {
            weights
                .chunks_exact(LAPSES.len())
                .zip(SLOPES)
                .filter(|(_, one)| *one > slope)
                .flat_map(|(cells, _)| cells)
                .sum::<f64>()
        };
        self.weights.iter().map(flat).sum()
    }

    /// The value from `low` to `high` whose trial leaves the least entropy of the threshold.
    pub(super) fn best(&self, low: f64, high: f64) -> f64 {
        let likely: Vec<(f64, f64, [[f64; 2]; SLOPES.len()])> = (self.weights.iter().enumerate())
            .map(|(row, weights)| (self.threshold(row), weights.iter().sum(), by_slope(weights)))
            .filter(|(_, weight, _)| *weight > UNLIKELY)
            .collect();
        let (Some(first), Some(last)) = (likely.first(), likely.last()) else { return high };
        // What is far from every likely threshold is known beforehand.
        let (low, high) = (low.max(first.0).min(high), high.min(last.0).max(low));
        let mut best = (f64::NEG_INFINITY, high);
        for step in 0..=((high - low) / STEP).floor().max(0.0) as usize {
            let value = high - step as f64 * STEP;
            let (mut fails, mut within) = (0.0, 0.0);
            for (threshold, weight, slopes) in &likely {
                let joint = slopes
                    .iter()
                    .zip(SLOPES)
                    .map(|([lapsed, sharp], slope)| lapsed + sharp * logistic((threshold - value) / slope));
                let joint: f64 = joint.sum();
                fails += joint;
                within += weight * entropy(joint / weight);
            }
            let learnt = entropy(fails) - within;
            if learnt > best.0 {
                best = (learnt, value);
            }
        }
        best.1
    }
}

/// What a trial's failing depends on, lapses summed up: of each slope what fails anyway, and what fails as the slope says.
fn by_slope(weights: &[f64; CELLS]) -> [[f64; 2]; SLOPES.len()] {
    let mut all = [[0.0; 2]; SLOPES.len()];
    for (sums, cells) in all.iter_mut().zip(weights.chunks_exact(LAPSES.len())) {
        for (weight, lapse) in cells.iter().zip(LAPSES) {
            sums[0] += weight * lapse;
            sums[1] += weight * (1.0 - 2.0 * lapse);
        }
    }
    all
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Of an event with this probability, in nats.
fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    part(p) + part(1.0 - p)
}
