//! Costs of transactions, misses and loads, fitted to the times that one run reported.
//!
//! A compilation costs `a + b x bytes`, or its measured time if the trace has it. The rest of the
//! cache's time is `alpha` per transaction and `gamma` per miss. No cost is negative. A bootstrap
//! over blocks of slots gives their uncertainty.

use crate::{cache::Counts, trace::Trace};
use fastrand::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    pub slot: u64,
    pub transactions: u64,
    pub misses: u64,
    pub evictions: u64,
    pub reloads: u64,
    pub insertions: u64,
    pub compile_us: Option<u64>,
    /// In replay, compiling included.
    pub cache_us: Option<u64>,
}

/// Costs in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Model {
    pub a: f64,
    /// Per compiled byte.
    pub b: f64,
    /// Per transaction, with or without a miss.
    pub alpha: f64,
    /// Per miss, beyond compiling.
    pub gamma: f64,
}

impl Model {
    /// With measured loads, the compile time is the counted one, from [`compile_times`].
    pub fn time_us(&self, trace: &Trace, counts: &Counts) -> f64 {
        let compile_us = match trace.loads() {
            [] => self.a * counts.loads as f64 + self.b * counts.loaded_bytes as f64,
            _ => counts.compile_us as f64,
        };
        self.alpha * counts.transactions as f64 + self.gamma * counts.misses as f64 + compile_us
    }

    pub fn compile_us(&self, bytes: Option<u64>) -> u64 {
        (self.a + self.b * bytes.unwrap_or(0) as f64).round() as u64
    }
}

/// By program number: the mean of its measured loads, else the model's time.
pub fn compile_times(trace: &Trace, model: &Model) -> Vec<u64> {
    let mut measured = vec![(0_u64, 0_u64); trace.programs().len()];
    for load in trace.loads() {
        if let Some((sum, loads)) = measured.get_mut(load.program as usize) {
            (*sum, *loads) = (sum.saturating_add(load.us), *loads + 1);
        }
    }
    trace
        .programs()
        .iter()
        .zip(measured)
        .map(|(program, (sum, loads))| {
            sum.checked_div(loads)
                .unwrap_or_else(|| model.compile_us(program.bytes))
        })
        .collect()
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    pub model: Model,
    pub resampled: Vec<Model>,
}

impl Fit {
    /// The resampled model of a simulated run; the best one if there is none.
    pub fn resample(&self, run: usize) -> &Model {
        let index = run % self.resampled.len().max(1);
        self.resampled.get(index).unwrap_or(&self.model)
    }
}

/// Slots in a block of the bootstrap: neighbouring slots depend on one another.
const BLOCK_SLOTS: usize = 20;

#[derive(Debug, Clone, Copy)]
struct Row {
    loads: f64,
    bytes: f64,
    compile_us: f64,
    transactions: f64,
    misses: f64,
    rest_us: f64,
}

/// `loaded` has (slot, loads, bytes) of a mean simulated run at the recorded size, in order. Only
/// its bytes per load are used, because the loads were recorded. `None` with fewer than two slots
/// that have both times and are in `loaded`.
pub fn fit(
    observed: &[Observed],
    loaded: &[(u64, f64, f64)],
    resamples: usize,
    seed: u64,
) -> Option<Fit> {
    let mean = bytes_of_a_load(loaded);
    let row = |o: &Observed| {
        let at = loaded
            .binary_search_by_key(&o.slot, |(slot, ..)| *slot)
            .ok()?;
        let (_, loads, bytes) = loaded[at];
        let compile_us = o.compile_us? as f64;
        let cache_us = o.cache_us? as f64;
        let recorded = o.insertions as f64 + o.reloads as f64;
        let bytes = recorded * if loads > 0.0 { bytes / loads } else { mean };
        let transactions = o.transactions as f64;
        let misses = o.misses as f64;
        Some(Row {
            loads: recorded,
            bytes,
            compile_us,
            transactions,
            misses,
            rest_us: cache_us - compile_us,
        })
    };
    let rows: Vec<Row> = observed.iter().filter_map(row).collect();
    if rows.len() < 2 {
        return None;
    }
    let mut rng = Rng::with_seed(seed);
    let blocks = rows.len().div_ceil(BLOCK_SLOTS);
    let mut resample = || {
        let mut drawn = Vec::with_capacity(blocks * BLOCK_SLOTS);
        for _ in 0..blocks {
            let begin = rng.usize(0..rows.len());
            drawn.extend((begin..begin + BLOCK_SLOTS).map(|at| rows[at % rows.len()]));
        }
        drawn.truncate(rows.len());
        model(&drawn)
    };
    let resampled = (0..resamples).map(|_| resample()).collect();
    Some(Fit {
        model: model(&rows),
        resampled,
    })
}

fn bytes_of_a_load(loaded: &[(u64, f64, f64)]) -> f64 {
    let (loads, bytes) = loaded
        .iter()
        .fold((0.0, 0.0), |sum, (_, l, b)| (sum.0 + l, sum.1 + b));
    if loads > 0.0 { bytes / loads } else { 0.0 }
}

fn model(rows: &[Row]) -> Model {
    let of =
        |number: fn(&Row) -> (f64, f64, f64)| costs(&rows.iter().map(number).collect::<Vec<_>>());
    let (a, b) = of(|row| (row.loads, row.bytes, row.compile_us));
    let (alpha, gamma) = of(|row| (row.transactions, row.misses, row.rest_us));
    Model { a, b, alpha, gamma }
}

const REWEIGHTINGS: usize = 8;

/// The two non-negative costs that bring `x * first + y * second` nearest to `z`, by iteratively
/// reweighted least squares.
///
/// The weight of a row is 1 over its expected value, because the variance of a sum grows with the
/// sum. So the fitted total equals the sum of `z`. Rows with an expected value of 0 are left out,
/// with their time. Plain least squares would follow the slots with most loads, whose loads take
/// longer or shorter than others.
fn costs(rows: &[(f64, f64, f64)]) -> (f64, f64) {
    let sum = |number: fn(&(f64, f64, f64)) -> f64| rows.iter().map(number).sum::<f64>();
    let [x, y] =
        [sum(|row| row.0), sum(|row| row.1)].map(|sum| if sum > 0.0 { 1.0 / sum } else { 0.0 });
    let mut found = (x, y);
    for _ in 0..REWEIGHTINGS {
        let (first, second) = found;
        let weighted = rows.iter().filter_map(|(x, y, z)| {
            let expected = first * x + second * y;
            (expected > 0.0).then(|| (*x, *y, *z, 1.0 / expected))
        });
        found = least_squares(weighted);
        if found == (0.0, 0.0) {
            break;
        }
    }
    found
}

/// Rows are (`x`, `y`, `z`, weight). Neither result is negative.
fn least_squares(rows: impl Iterator<Item = (f64, f64, f64, f64)>) -> (f64, f64) {
    let (mut xx, mut xy, mut yy, mut xz, mut yz) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y, z, weight) in rows {
        xx += weight * x * x;
        xy += weight * x * y;
        yy += weight * y * y;
        xz += weight * x * z;
        yz += weight * y * z;
    }
    let determinant = xx * yy - xy * xy;
    // The columns are proportional if the determinant is about 0: loads and bytes, if all programs
    // have one size.
    if determinant > 1e-9 * xx * yy {
        let first = (xz * yy - yz * xy) / determinant;
        let second = (yz * xx - xz * xy) / determinant;
        if first >= 0.0 && second >= 0.0 {
            return (first, second);
        }
    }
    let single_cost = |square: f64, product: f64| {
        if square > 0.0 {
            (product / square).max(0.0)
        } else {
            0.0
        }
    };
    let first = single_cost(xx, xz);
    let second = single_cost(yy, yz);
    if first * xz >= second * yz {
        (first, 0.0)
    } else {
        (0.0, second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_load_time_takes_precedence_over_the_model() {
        use crate::trace::{Load, Meta, Program, Source};
        let mut trace = Trace::new(Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        });
        for bytes in [Some(100), Some(200), None] {
            trace
                .add_program(Program {
                    address: None,
                    loader: None,
                    bytes,
                    has_code: true,
                })
                .unwrap();
        }
        [5, 8].iter().for_each(|us| {
            trace
                .add_load(Load {
                    slot: 1,
                    program: 0,
                    us: *us,
                })
                .unwrap()
        });
        let model = Model {
            a: 3.0,
            b: 0.5,
            ..Model::default()
        };
        assert_eq!(compile_times(&trace, &model), [6, 103, 3]);
        let counts = Counts {
            loads: 2,
            loaded_bytes: 100,
            compile_us: 109,
            ..Counts::default()
        };
        assert_eq!(model.time_us(&trace, &counts), 109.0);
        let unmeasured = Trace::new(trace.meta().clone());
        assert_eq!(model.time_us(&unmeasured, &counts), 56.0);
    }

    #[test]
    fn the_cost_fit_finds_two_non_negative_costs() {
        let (first, second) = costs(&[(1.0, 0.0, 3.0), (0.0, 1.0, 5.0), (1.0, 1.0, 8.0)]);
        assert!((first - 3.0).abs() < 1e-9 && (second - 5.0).abs() < 1e-9);
        let (first, second) = costs(&[(1.0, 1.0, 2.0), (2.0, 1.0, 5.0)]);
        assert!(first > 0.0 && second == 0.0);
        assert_eq!(costs(&[(1.0, 2.0, 3.0), (2.0, 4.0, 6.0)]), (3.0, 0.0));
        assert_eq!(costs(&[]), (0.0, 0.0));
        assert_eq!(costs(&[(0.0, 0.0, 5.0), (1.0, 0.0, 0.0)]), (0.0, 0.0));
    }

    #[test]
    fn the_fitted_total_cost_equals_the_observed_total() {
        // A load takes longer where many are at the same time.
        let rows: Vec<(f64, f64, f64)> = (1..50_u32)
            .map(f64::from)
            .map(|loads| {
                (
                    loads,
                    loads * (7.0 + loads % 3.0),
                    loads * (300.0 + 2.0 * loads),
                )
            })
            .collect();
        let (first, second) = costs(&rows);
        let told: f64 = rows
            .iter()
            .map(|(loads, bytes, _)| first * loads + second * bytes)
            .sum();
        let real: f64 = rows.iter().map(|(_, _, us)| us).sum();
        assert!((told / real - 1.0).abs() < 1e-3, "{told} {real}");
    }
}
