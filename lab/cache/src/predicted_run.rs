//! Counts of the program cache that are predicted for a run, with their intervals.

use faultline_cache_sim::{
    Counts, Error, Simulation, Trace,
    interval::{HalfRuns, PredictiveInterval, variance},
};
use faultline_text::number;
use itertools::Itertools;
use std::collections::BTreeSet;

const RUNS_PER_HALF: u64 = 4;

/// Random halves of the trace, for the variance between them.
const MIN_HALF_SAMPLES: u64 = 8;

pub struct PredictedRuns {
    simulated_runs: Vec<Counts>,
    block_variation: Option<BlockVariation>,
}

/// This widens the interval of a run whose slots are not in the trace.
struct BlockVariation {
    /// Transactions with programs in the predicted run, divided by those in the trace.
    transaction_ratio: f64,
    /// For each random half of the trace ([`Trace::half`]), simulations with several seeds.
    runs_by_half: Vec<Vec<Counts>>,
    /// Simulated lookups in all slots of the trace.
    lookups: f64,
    /// [`Trace::group_count`].
    slot_group_count: f64,
}

impl PredictedRuns {
    /// Simulates runs with the seeds 1 to `seeds`, and sums the counts of `slots` in each.
    /// `transaction_ratio` is `None` if the prediction is for slots of the trace.
    pub fn of(
        simulation: &Simulation,
        slots: &BTreeSet<u64>,
        seeds: u64,
        transaction_ratio: Option<f64>,
    ) -> Result<Self, Error> {
        let whole_trace = simulation.trace;
        let run = |trace: &Trace, seed: u64| {
            let mut sum = Counts::default();
            let simulation = Simulation {
                trace,
                seed,
                ..*simulation
            };
            simulation.run(|slot, counts| {
                if slots.contains(&slot) {
                    sum += counts;
                }
            })?;
            Ok(sum)
        };
        let runs_of_half = |seed: u64| {
            let half = whole_trace.half(seed)?;
            (0..RUNS_PER_HALF)
                .map(|index| run(&half, RUNS_PER_HALF * seed + index))
                .collect()
        };
        let block_variation = |transaction_ratio| {
            Ok::<_, Error>(BlockVariation {
                transaction_ratio,
                runs_by_half: (1..=seeds.max(MIN_HALF_SAMPLES))
                    .map(runs_of_half)
                    .collect::<Result<_, Error>>()?,
                lookups: simulation.run(|_, _| {})?.counts.lookups as f64,
                slot_group_count: whole_trace.group_count() as f64,
            })
        };
        Ok(Self {
            simulated_runs: (1..=seeds)
                .map(|seed| run(whole_trace, seed))
                .collect::<Result<_, Error>>()?,
            block_variation: transaction_ratio.map(block_variation).transpose()?,
        })
    }

    /// `value` computes a result from a simulation's counts. It also gets the simulation's index,
    /// to use the cost model resampled for it, or `None`, to use the fitted model. The interval is
    /// multiplied by `unit_factor`. Returns `None` for fewer than two simulations.
    pub fn interval(
        &self,
        value: impl Fn(&Counts, Option<usize>) -> f64,
        unit_factor: f64,
    ) -> Option<PredictiveInterval> {
        let values = self
            .simulated_runs
            .iter()
            .enumerate()
            .map(|(index, run)| value(run, Some(index)))
            .collect_vec();
        let at_fitted_costs = |run: &Counts| value(run, None);
        let (interval, transaction_ratio) = match &self.block_variation {
            None => (PredictiveInterval::of_runs(&values)?, 1.0),
            Some(variation) => {
                let lookups = |run: &Counts| run.lookups as f64;
                let fitted_values = self
                    .simulated_runs
                    .iter()
                    .map(at_fitted_costs)
                    .collect_vec();
                let halves = HalfRuns {
                    means: variation
                        .runs_by_half
                        .iter()
                        .map(|runs| (mean(runs, at_fitted_costs), mean(runs, lookups)))
                        .collect(),
                    runs_per_half: RUNS_PER_HALF as f64,
                    slot_group_count: variation.slot_group_count,
                    seed_variance: variance(&fitted_values)?,
                    lookups_in_summed_slots: mean(&self.simulated_runs, lookups),
                    lookups_in_all_slots: variation.lookups,
                };
                let ratio = variation.transaction_ratio;
                (
                    PredictiveInterval::of_other_blocks(&values, &halves, ratio)?,
                    ratio,
                )
            }
        };
        Some(
            interval
                .with_mean(mean(&self.simulated_runs, at_fitted_costs))
                .scaled(transaction_ratio * unit_factor),
        )
    }
}

pub fn mean(runs: &[Counts], value: impl Fn(&Counts) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
}

pub fn number_or_dash(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| number(value, decimals))
}

/// `3,580 (3,507 to 3,653)`.
pub fn interval_text(interval: PredictiveInterval, decimals: usize) -> String {
    let [mean, low, high] =
        [interval.mean, interval.low, interval.high].map(|value| number(value, decimals));
    if low == high {
        mean
    } else {
        format!("{mean} ({low} to {high})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_cache_sim::{
        CacheRules, Setting,
        run::InitialContent,
        trace::{Meta, Program, Slot, SlotKind, Source, TransactionCall},
    };

    /// Each slot calls some of 40 programs, and has `fees_only` more transactions that only paid
    /// fees.
    fn trace(fees_only: usize) -> Trace {
        let mut trace = Trace::new(Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        });
        let program = Program {
            address: None,
            loader: None,
            bytes: None,
            has_code: true,
        };
        for number in 0..40 {
            trace.add_program(program).unwrap();
            trace.add_set(&[number]).unwrap();
        }
        let mut rng = fastrand::Rng::with_seed(7);
        for slot in 1..200 {
            let mut calls: Vec<TransactionCall> = (0..rng.usize(2..9))
                .map(|_| TransactionCall::new(rng.u32(0..40), false).unwrap())
                .collect();
            calls.extend((0..fees_only).map(|_| TransactionCall::new(0, true).unwrap()));
            let slot = Slot {
                slot,
                parent: slot - 1,
                transactions: 100,
                kind: SlotKind::Replayed,
            };
            trace.add_slot(slot, &calls).unwrap();
        }
        trace
    }

    #[test]
    fn transactions_that_a_release_does_not_look_up_do_not_narrow_an_interval() {
        let misses = |fees_only: usize| {
            let trace = trace(fees_only);
            let simulation = Simulation {
                trace: &trace,
                setting: Setting::agave(CacheRules::of("3.1.0").unwrap(), 20),
                initial_content: InitialContent::Empty,
                first_slot: 0,
                compile_us: &[],
                seed: 0,
            };
            PredictedRuns::of(&simulation, &(1..200).collect(), 8, Some(1.0))
                .unwrap()
                .interval(|counts, _| counts.misses as f64, 1.0)
                .unwrap()
        };
        let (without, with) = (misses(0), misses(5));
        assert!(without.low < without.high, "{without:?}");
        assert_eq!(without, with);
    }
}
