use faultline_cache_prediction::prediction::Range;
use faultline_cache_sim::interval::{Halves, Interval};
use faultline_cache_sim::run::InitialContent;
use faultline_cache_sim::{Counts, Rule, Setting, Simulation, Trace};
use std::collections::BTreeSet;

const RUNS_PER_HALF: u64 = 4;
const MIN_HALVES: u64 = 8;

pub(crate) struct SimulationInput<'a> {
    pub(crate) rule: Rule,
    pub(crate) trace: &'a Trace,
    pub(crate) compile_us: &'a [u64],
    pub(crate) entries: u64,
    pub(crate) slots: BTreeSet<u64>,
    pub(crate) seeds: u64,
}

impl SimulationInput<'_> {
    fn run(&self, trace: &Trace, seed: u64) -> anyhow::Result<Counts> {
        let (setting, compile_us) = (Setting::agave(self.rule, self.entries), self.compile_us);
        let mut sum = Counts::default();
        let simulation = Simulation {
            trace,
            setting,
            start: InitialContent::Empty,
            first_slot: 0,
            compile_us,
            seed,
        };
        simulation.run(|slot, counts| {
            if self.slots.contains(&slot) {
                sum += counts;
            }
        })?;
        Ok(sum)
    }

    /// Runs of one half for each seed, but of at least [`MIN_HALVES`] halves, for a variance.
    fn halves(&self) -> anyhow::Result<Vec<Vec<Counts>>> {
        let of = |seed: u64| {
            let half = self.trace.half(seed)?;
            (0..RUNS_PER_HALF)
                .map(|run| self.run(&half, RUNS_PER_HALF * seed + run))
                .collect()
        };
        (1..=self.seeds.max(MIN_HALVES)).map(of).collect()
    }
}

pub(crate) struct PredictedRuns {
    runs: Vec<Counts>,
    other_blocks: Option<OtherBlocks>,
}

struct OtherBlocks {
    /// Transactions with programs of the other blocks, relative to the known blocks.
    size_ratio: f64,
    halves: Vec<Vec<Counts>>,
    /// Lookups of all known blocks, including those outside of `slots`.
    lookups: f64,
    blocks: f64,
}

impl PredictedRuns {
    /// `other_blocks`: the transactions with programs of other blocks, relative to the known ones.
    /// `None`: the prediction is for the known blocks.
    pub(crate) fn of(
        simulated: SimulationInput,
        other_blocks: Option<f64>,
    ) -> anyhow::Result<Self> {
        let runs = (1..=simulated.seeds)
            .map(|seed| simulated.run(simulated.trace, seed))
            .collect::<Result<_, _>>()?;
        let of_other = |size_ratio| {
            let trace = simulated.trace;
            let of_slot = |at| {
                trace
                    .calls_of(at)
                    .iter()
                    .map(|call| trace.set(call.set()).len() as f64)
                    .sum::<f64>()
            };
            let lookups = (0..trace.slots().len()).map(of_slot).sum();
            Ok::<_, anyhow::Error>(OtherBlocks {
                size_ratio,
                halves: simulated.halves()?,
                lookups,
                blocks: trace.blocks() as f64,
            })
        };
        Ok(PredictedRuns {
            runs,
            other_blocks: other_blocks.map(of_other).transpose()?,
        })
    }

    /// `number` gets the index of the run where costs vary with it. `None` for fewer than two runs.
    pub(crate) fn range(
        &self,
        number: impl Fn(&Counts, Option<usize>) -> f64,
        scale: f64,
    ) -> Option<Range> {
        let values: Vec<f64> = self
            .runs
            .iter()
            .enumerate()
            .map(|(at, counts)| number(counts, Some(at)))
            .collect();
        let best = mean(&self.runs, |counts| number(counts, None));
        let (interval, size_ratio) = match &self.other_blocks {
            None => (Interval::of_runs(&values)?, 1.0),
            Some(other) => {
                let halves = self.halves(other, |counts| number(counts, None))?;
                (
                    Interval::of_other_blocks(&values, &halves, other.size_ratio)?,
                    other.size_ratio,
                )
            }
        };
        Some(Range::of(&interval.centred(best), size_ratio * scale))
    }

    fn halves(&self, other: &OtherBlocks, number: impl Fn(&Counts) -> f64) -> Option<Halves> {
        let lookups = |counts: &Counts| counts.lookups as f64;
        let means = other
            .halves
            .iter()
            .map(|half| (mean(half, &number), mean(half, lookups)))
            .collect();
        let values: Vec<f64> = self.runs.iter().map(&number).collect();
        Some(Halves {
            means,
            runs: RUNS_PER_HALF as f64,
            blocks: other.blocks,
            draw_variance: Interval::of_runs(&values)?.sd.powi(2),
            counted_lookups: mean(&self.runs, lookups),
            all: other.lookups,
        })
    }
}

pub(crate) fn mean(runs: &[Counts], number: impl Fn(&Counts) -> f64) -> f64 {
    runs.iter().map(number).sum::<f64>() / runs.len().max(1) as f64
}
