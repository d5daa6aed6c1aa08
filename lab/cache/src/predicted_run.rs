use faultline_cache_sim::{
    Counts, Error, Simulation, Trace,
    interval::{HalfRuns, Range, variance},
};
use faultline_text::number;
use std::collections::BTreeSet;

const RUNS_PER_HALF: u64 = 4;
const MIN_HALVES: u64 = 8;

pub struct PredictedRuns {
    runs: Vec<Counts>,
    other_blocks: Option<OtherBlocks>,
}

struct OtherBlocks {
    /// Transactions with programs of the other blocks, relative to the known blocks.
    size_ratio: f64,
    /// The runs of each half.
    halves: Vec<Vec<Counts>>,
    /// Of all known blocks, also outside of the counted slots.
    lookups: f64,
    blocks: f64,
}

impl PredictedRuns {
    /// Counts `slots` in a run for each of `seeds`. `size_ratio` is [`OtherBlocks::size_ratio`]; `None` if
    /// the prediction is for the known blocks.
    pub fn of(
        simulation: &Simulation,
        slots: &BTreeSet<u64>,
        seeds: u64,
        size_ratio: Option<f64>,
    ) -> Result<Self, Error> {
        let known = simulation.trace;
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
            let half = known.half(seed)?;
            let runs = 0..RUNS_PER_HALF;
            runs.map(|index| run(&half, RUNS_PER_HALF * seed + index))
                .collect()
        };
        // A variance needs some halves, even with few seeds.
        let halves = || {
            (1..=seeds.max(MIN_HALVES))
                .map(runs_of_half)
                .collect::<Result<_, Error>>()
        };
        let other_blocks = |size_ratio| {
            Ok::<_, Error>(OtherBlocks {
                size_ratio,
                halves: halves()?,
                lookups: known.lookup_count() as f64,
                blocks: known.block_count() as f64,
            })
        };
        Ok(PredictedRuns {
            runs: (1..=seeds)
                .map(|seed| run(known, seed))
                .collect::<Result<_, Error>>()?,
            other_blocks: size_ratio.map(other_blocks).transpose()?,
        })
    }

    /// `value` gets the run's index for its resampled costs, or `None` for the best costs. `None` for fewer
    /// than two runs.
    pub fn range(
        &self,
        value: impl Fn(&Counts, Option<usize>) -> f64,
        scale: f64,
    ) -> Option<Range> {
        let values: Vec<f64> = self
            .runs
            .iter()
            .enumerate()
            .map(|(index, run)| value(run, Some(index)))
            .collect();
        let best = |run: &Counts| value(run, None);
        let (range, size_ratio) = match &self.other_blocks {
            None => (Range::of_runs(&values)?, 1.0),
            Some(other) => {
                let lookups = |run: &Counts| run.lookups as f64;
                let draws: Vec<f64> = self.runs.iter().map(best).collect();
                let halves = HalfRuns {
                    means: other
                        .halves
                        .iter()
                        .map(|half| (mean(half, best), mean(half, lookups)))
                        .collect(),
                    runs_per_half: RUNS_PER_HALF as f64,
                    blocks: other.blocks,
                    draw_variance: variance(&draws)?,
                    counted_lookups: mean(&self.runs, lookups),
                    all_lookups: other.lookups,
                };
                let ratio = other.size_ratio;
                (Range::of_other_blocks(&values, &halves, ratio)?, ratio)
            }
        };
        Some(
            range
                .centred(mean(&self.runs, best))
                .scaled(size_ratio * scale),
        )
    }
}

pub fn mean(runs: &[Counts], value: impl Fn(&Counts) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
}

/// `3,580 (3,507 to 3,653)`.
pub fn range_text(range: Range, decimals: usize) -> String {
    let [mean, low, high] =
        [range.mean, range.low, range.high].map(|value| number(value, decimals));
    if low == high {
        mean
    } else {
        format!("{mean} ({low} to {high})")
    }
}
