//! Fits the costs of the program cache to the times of one run: per load, byte of code, transaction
//! and miss.
//!
//! The compile time of a load is linear in its bytes, unless the trace has the measured time. The
//! rest of the cache's time is linear in the numbers of transactions and misses. No cost is
//! negative. The uncertainty comes from a circular block bootstrap (Politis and Romano 1992): each
//! resample draws blocks of successive slots with replacement, and gets its own costs.

use crate::{cache::Counts, trace::Trace};
use fastrand::Rng;

/// What the validator reported about the program cache for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecordedSlot {
    pub slot: u64,
    pub transactions: u64,
    pub misses: u64,
    pub evictions: u64,
    pub reloads: u64,
    pub insertions: u64,
    pub compile_us: Option<u64>,
    /// Program cache time in replay, including `compile_us`.
    pub cache_us: Option<u64>,
}

/// Costs in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct CostModel {
    /// Compile time, without the part that depends on size.
    pub per_load: f64,
    /// Compile time of a byte of code, in addition to `per_load`.
    pub per_byte: f64,
    /// Every transaction takes this time, even without a miss.
    pub per_transaction: f64,
    /// Time of a miss in addition to its compile time.
    pub per_miss: f64,
}

impl CostModel {
    /// If the trace has measured loads, the compile time is that of `counts`.
    pub fn time_us(&self, trace: &Trace, counts: &Counts) -> f64 {
        let compile_us = match trace.measured_loads() {
            [] => self.per_load * counts.loads as f64 + self.per_byte * counts.loaded_bytes as f64,
            _ => counts.compile_us as f64,
        };
        self.per_transaction * counts.transactions as f64
            + self.per_miss * counts.misses as f64
            + compile_us
    }

    pub fn compile_us(&self, bytes: Option<u64>) -> u64 {
        (self.per_load + self.per_byte * bytes.unwrap_or(0) as f64).round() as u64
    }
}

/// In microseconds, by program number: the mean of its measured loads, or else the model's time.
pub fn compile_times(trace: &Trace, model: &CostModel) -> Vec<u64> {
    let mut measured = vec![(0_u64, 0_u64); trace.programs().len()];
    for load in trace.measured_loads() {
        if let Some((sum, loads)) = measured.get_mut(load.program as usize) {
            (*sum, *loads) = (sum.saturating_add(load.compile_us), *loads + 1);
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

pub struct Fit {
    /// Fitted to all slots.
    pub model: CostModel,
    pub resampled: Vec<CostModel>,
}

impl Fit {
    /// The cost model of a simulated run; `model` if there are no resampled models.
    pub fn resampled_model(&self, run: usize) -> &CostModel {
        let index = run % self.resampled.len().max(1);
        self.resampled.get(index).unwrap_or(&self.model)
    }
}

/// Slots in a block of the bootstrap: neighboring slots depend on one another.
const BLOCK_SLOTS: usize = 20;

/// Two equations of a slot, as rows for [`fit_two_costs`]: (loads, bytes, compile time) and
/// (transactions, misses, the rest of the cache's time).
type SlotEquations = [(f64, f64, f64); 2];

/// `loads_by_slot` are (slot, loads, bytes), means over simulated runs at the recorded size, in
/// order. They give the bytes per load; the loads were recorded. `None` if fewer than two slots have
/// both times and are in `loads_by_slot`.
pub fn fit(
    recorded: &[RecordedSlot],
    loads_by_slot: &[(u64, f64, f64)],
    resamples: usize,
    seed: u64,
) -> Option<Fit> {
    let mean_bytes = mean_bytes_per_load(loads_by_slot);
    let equations = |slot: &RecordedSlot| {
        let index = loads_by_slot
            .binary_search_by_key(&slot.slot, |(number, ..)| *number)
            .ok()?;
        let (_, simulated_loads, simulated_bytes) = loads_by_slot[index];
        let bytes_per_load = if simulated_loads > 0.0 {
            simulated_bytes / simulated_loads
        } else {
            mean_bytes
        };
        let compile_us = slot.compile_us? as f64;
        let rest_us = slot.cache_us? as f64 - compile_us;
        let loads = slot.insertions as f64 + slot.reloads as f64;
        Some([
            (loads, loads * bytes_per_load, compile_us),
            (slot.transactions as f64, slot.misses as f64, rest_us),
        ])
    };
    let rows = Vec::from_iter(recorded.iter().filter_map(equations));
    if rows.len() < 2 {
        return None;
    }
    let mut rng = Rng::with_seed(seed);
    let blocks = rows.len().div_ceil(BLOCK_SLOTS);
    let mut resample = || {
        let mut drawn = Vec::with_capacity(blocks * BLOCK_SLOTS);
        for _ in 0..blocks {
            let begin = rng.usize(0..rows.len());
            drawn.extend((begin..begin + BLOCK_SLOTS).map(|index| rows[index % rows.len()]));
        }
        drawn.truncate(rows.len());
        fit_model(&drawn)
    };
    let resampled = (0..resamples).map(|_| resample()).collect();
    Some(Fit {
        model: fit_model(&rows),
        resampled,
    })
}

fn mean_bytes_per_load(loads_by_slot: &[(u64, f64, f64)]) -> f64 {
    let (loads, bytes) = loads_by_slot
        .iter()
        .fold((0.0, 0.0), |sum, (_, loads, bytes)| {
            (sum.0 + loads, sum.1 + bytes)
        });
    ratio_or_zero(bytes, loads)
}

pub fn ratio_or_zero(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 {
        dividend / divisor
    } else {
        0.0
    }
}

fn fit_model(rows: &[SlotEquations]) -> CostModel {
    let fit_equation =
        |index: usize| fit_two_costs(&Vec::from_iter(rows.iter().map(|row| row[index])));
    let (per_load, per_byte) = fit_equation(0);
    let (per_transaction, per_miss) = fit_equation(1);
    CostModel {
        per_load,
        per_byte,
        per_transaction,
        per_miss,
    }
}

const REWEIGHTINGS: usize = 8;

/// The two non-negative costs that bring `first * x + second * y` nearest to `z`, by iteratively
/// reweighted least squares. Rows are (`x`, `y`, `z`).
///
/// The weight of a row is 1 divided by its expected value `e = first * x + second * y`, because the
/// variance of a sum grows with the sum: the quasi-likelihood of counts (McCullagh and Nelder
/// 1989). The solution has `sum of x (z - e) / e = 0`, and the same for `y`. Times the costs, these
/// add up to `sum of (z - e) = 0`, so the fitted total equals the sum of `z`.
///
/// Rows with an expected value of 0 are left out.
fn fit_two_costs(rows: &[(f64, f64, f64)]) -> (f64, f64) {
    let sum = |term: fn(&(f64, f64, f64)) -> f64| rows.iter().map(term).sum::<f64>();
    let mut costs = (
        ratio_or_zero(1.0, sum(|row| row.0)),
        ratio_or_zero(1.0, sum(|row| row.1)),
    );
    for _ in 0..REWEIGHTINGS {
        let (first, second) = costs;
        let weighted = rows.iter().filter_map(|(x, y, z)| {
            let expected = first * x + second * y;
            (expected > 0.0).then(|| (*x, *y, *z, 1.0 / expected))
        });
        costs = least_squares(weighted);
        if costs == (0.0, 0.0) {
            break;
        }
    }
    costs
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
    // About 0 if the columns are proportional: loads and bytes are, if all programs have one size.
    if determinant > 1e-9 * xx * yy {
        let first = (xz * yy - yz * xy) / determinant;
        let second = (yz * xx - xz * xy) / determinant;
        if first >= 0.0 && second >= 0.0 {
            return (first, second);
        }
    }
    let first = ratio_or_zero(xz, xx).max(0.0);
    let second = ratio_or_zero(yz, yy).max(0.0);
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
        use crate::trace::{MeasuredLoad, Meta, Program, Source};
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
                .add_measured_load(MeasuredLoad {
                    slot: 1,
                    program: 0,
                    compile_us: *us,
                })
                .unwrap()
        });
        let model = CostModel {
            per_load: 3.0,
            per_byte: 0.5,
            ..CostModel::default()
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
        let (first, second) = fit_two_costs(&[(1.0, 0.0, 3.0), (0.0, 1.0, 5.0), (1.0, 1.0, 8.0)]);
        assert!((first - 3.0).abs() < 1e-9 && (second - 5.0).abs() < 1e-9);
        let (first, second) = fit_two_costs(&[(1.0, 1.0, 2.0), (2.0, 1.0, 5.0)]);
        assert!(first > 0.0 && second == 0.0);
        assert_eq!(
            fit_two_costs(&[(1.0, 2.0, 3.0), (2.0, 4.0, 6.0)]),
            (3.0, 0.0)
        );
        assert_eq!(fit_two_costs(&[]), (0.0, 0.0));
        assert_eq!(
            fit_two_costs(&[(0.0, 0.0, 5.0), (1.0, 0.0, 0.0)]),
            (0.0, 0.0)
        );
    }

    #[test]
    fn the_fitted_total_cost_equals_the_observed_total() {
        // A load takes longer in a slot with many loads.
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
        let (first, second) = fit_two_costs(&rows);
        let fitted: f64 = rows
            .iter()
            .map(|(loads, bytes, _)| first * loads + second * bytes)
            .sum();
        let observed: f64 = rows.iter().map(|(_, _, us)| us).sum();
        assert!(
            (fitted / observed - 1.0).abs() < 1e-3,
            "{fitted} {observed}"
        );
    }
}
