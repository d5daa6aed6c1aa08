//! Predicts the program cache of a recorded run at other sizes, for the command and for reports.

use crate::{
    recorded::{Recorded, agave_version},
    trace_file::{self, trace_path},
};
use anyhow::{Context, Result};
use clap::Args;
use faultline_cache_sim::{
    CacheRules,
    cost::{self, CostModel, Fit, RecordedSlot},
    predict::{Coverage, Curve, PredictionPlan, mean_loads_by_slot, predict, self_test},
    trace::Trace,
};
pub use faultline_cache_sim::{
    interval::PredictiveInterval,
    predict::{CounterPrediction, SizePrediction},
};
use faultline_common::{clock, files::AtPath, output::say, progress::Progress};
use faultline_text::{count, counted, duration};
use serde::Serialize;
use std::path::{Path, PathBuf};

const COST_RESAMPLES: usize = 200;
/// Fixed, so that the same input gives the same answer.
const SEED: u64 = 1;
/// On public clusters.
const SLOTS_PER_EPOCH: u64 = 432_000;

/// In entries: from the smallest default of any release to a size that fits all programs of a day.
const SIZES: [u64; 11] = [
    256, 384, 512, 640, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 8_192,
];
/// Per size, for a short trace. A long trace gets fewer.
const MAX_SIMULATED_RUNS: u64 = 64;
const MIN_SIMULATED_RUNS: u64 = 8;
/// Simulated lookups, over all runs.
const LOOKUP_BUDGET: u64 = 10_000_000_000;

#[derive(Default, Args)]
pub struct PredictionInputArgs {
    /// The trace [default: RUN with the extension .trace].
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Version of Agave whose rules apply, such as 2.1.14 [default: the recorded one].
    #[arg(long, value_name = "V")]
    pub version: Option<String>,
    /// Entries of the recorded cache
    /// [default: the recorded AGAVE_PROGRAM_CACHE_ENTRIES, otherwise those of a stock build].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    pub entries: Option<u64>,
    /// Simulated runs of each size [default: 64, and fewer, at least 8, over a long trace].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub seeds: Option<u64>,
}

pub struct PredictionInput {
    pub recorded: Recorded,
    pub trace: Trace,
    pub coverage: Coverage,
    pub version: String,
    pub rules: CacheRules,
    pub entries: u64,
    pub first_slot: u64,
    /// Whether `entries` is unknown, and a stock build's is assumed.
    has_assumed_entries: bool,
    pub simulated_run_count: u64,
}

pub struct Calibration {
    pub self_test: Vec<CounterPrediction>,
    pub fit: Option<Fit>,
    pub compile_us: Vec<u64>,
}

impl Calibration {
    pub fn passes_self_test(&self) -> bool {
        self.self_test.iter().all(CounterPrediction::is_close)
    }
}

/// The mean time of a load, over slots with compile times. All other costs are 0.
pub fn mean_load_model(slots: &[RecordedSlot]) -> CostModel {
    let (mut us, mut loads) = (0.0, 0.0);
    for slot in slots {
        if let Some(compile_us) = slot.compile_us {
            us += compile_us as f64;
            loads += slot.insertions as f64 + slot.reloads as f64;
        }
    }
    CostModel {
        per_load: cost::ratio_or_zero(us, loads),
        ..CostModel::default()
    }
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// [`LOOKUP_BUDGET`] limits the runs, not a clock, so that the same files give the same report.
fn default_run_count(lookups: u64, starts_empty: bool) -> u64 {
    (LOOKUP_BUDGET / (lookups.max(1) * simulations_per_seed(starts_empty)))
        .clamp(MIN_SIMULATED_RUNS, MAX_SIMULATED_RUNS)
}

/// One simulation of each default size and of the recorded size, or two if the content at the start
/// is unknown. [`PredictionInput::calibrate`] adds two.
fn simulations_per_seed(starts_empty: bool) -> u64 {
    let starts = 1 + u64::from(!starts_empty);
    starts * (SIZES.len() as u64 + 1) + 2
}

impl PredictionInput {
    /// Fails for the demo, an unknown version, and a trace that covers too little of the run.
    pub fn read(run: &Path, args: &PredictionInputArgs) -> Result<Self> {
        let recorded = Recorded::read(run)?;
        recorded.refuse_demo(run)?;
        let version = args
            .version
            .as_deref()
            .map(agave_version)
            .or_else(|| recorded.agave_version());
        let version = version.with_context(|| {
            format!(
                "{} does not have the validator's version: set it with --version, as in --version 2.1.14",
                run.display()
            )
        })?;
        let rules = CacheRules::of(&version)?;
        let path = trace_path(run, args.trace.as_deref());
        let trace = trace_file::read(run, &path, &recorded)?;
        let coverage = Coverage::of(&trace, &recorded.transactions_by_slot);
        coverage.require().at(&path)?;
        let known_entries = args.entries.or(recorded.entries);
        let first_slot = recorded.transactions_by_slot.keys().next().copied();
        let simulated_run_count = args
            .seeds
            .unwrap_or_else(|| default_run_count(trace.lookup_count(), recorded.from_start));
        Ok(Self {
            recorded,
            trace,
            coverage,
            version,
            rules,
            entries: known_entries.unwrap_or(rules.stock_entries),
            first_slot: first_slot.unwrap_or(0),
            has_assumed_entries: known_entries.is_none(),
            simulated_run_count,
        })
    }

    pub fn plan<'a>(
        &'a self,
        sizes: &'a [u64],
        compile_us: &'a [u64],
        fit: Option<&'a Fit>,
    ) -> PredictionPlan<'a> {
        PredictionPlan {
            trace: &self.trace,
            rules: self.rules,
            sizes,
            simulated_run_count: self.simulated_run_count,
            base_seed: SEED,
            threads: threads(),
            first_slot: self.first_slot,
            starts_empty: self.recorded.from_start,
            compile_us,
            fit,
        }
    }

    pub fn calibrate(&self) -> Result<Calibration> {
        let recorded = &self.recorded.slots_with_counters;
        // Some releases evict by compile time, which is fitted only after a simulation. So the
        // first simulation uses the mean of all loads.
        let mean_us = cost::compile_times(&self.trace, &mean_load_model(recorded));
        let fit = cost::fit(
            recorded,
            &mean_loads_by_slot(&self.plan(&[], &mean_us, None), self.entries)?,
            COST_RESAMPLES,
            SEED,
        );
        let compile_us = fit
            .as_ref()
            .map_or(mean_us, |fit| cost::compile_times(&self.trace, &fit.model));
        let plan = self.plan(&[], &compile_us, None);
        Ok(Calibration {
            self_test: self_test(&plan, self.entries, recorded)?,
            fit,
            compile_us,
        })
    }

    pub fn counted_slots(&self) -> usize {
        let slots = self.trace.slots().iter();
        slots.filter(|slot| slot.slot >= self.first_slot).count()
    }

    /// Known facts that make the prediction less accurate.
    fn weaknesses(&self) -> Vec<String> {
        let mut weaknesses = Vec::new();
        let missing = self.coverage.missing_slots.len();
        if missing > 0 {
            let covered = self.coverage.percent().unwrap_or(0.0);
            weaknesses.push(format!(
                "the trace covers {covered:.2} % of the transactions and lacks {}",
                counted(missing as f64, "slot")
            ));
        }
        let own_slots = self.recorded.own_slots.len();
        if own_slots > 0 {
            weaknesses.push(format!(
                "the validator produced {} itself, and then looks programs up in another order",
                counted(own_slots as f64, "block")
            ));
        }
        if self.recorded.has_full_rpc_api {
            weaknesses.push(
                "the validator serves JSON-RPC: simulated transactions look programs up, too"
                    .to_owned(),
            );
        }
        let cluster = (self.recorded.genesis_hash.as_ref()).unwrap_or(&self.trace.meta().cluster);
        let last_slot = self.recorded.transactions_by_slot.keys().next_back();
        let last_slot = last_slot.copied().unwrap_or(0);
        if epoch(cluster, self.first_slot) != epoch(cluster, last_slot) {
            weaknesses.push(
                "an epoch begins within the recording; programs may be compiled again before it"
                    .to_owned(),
            );
        }
        if !self.recorded.from_start {
            let warmup_slots = self.trace.slots().len() - self.counted_slots();
            weaknesses.push(format!(
                "the recording began after the validator's start; the simulated cache is warmed by {} before the recording",
                counted(warmup_slots as f64, "slot")
            ));
        }
        if let Some(recorded) = self.recorded.agave_version()
            && recorded != self.version
        {
            weaknesses.push(format!(
                "the prediction is for version {}, but the validator reported {recorded}",
                self.version
            ));
        }
        if self.has_assumed_entries {
            weaknesses.push(format!(
                "the size of the recorded cache is assumed to be {}: the recording does not have it",
                self.entries
            ));
        }
        weaknesses
    }
}

/// Counted from the first epoch of full length. `cluster` is a genesis hash.
fn epoch(cluster: &str, slot: u64) -> u64 {
    // The epochs of testnet grow from 32 slots.
    let is_testnet = cluster == "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY";
    let first_slot = if is_testnet { 524_256 } else { 0 };
    slot.saturating_sub(first_slot) / SLOTS_PER_EPOCH
}

#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    pub version: String,
    /// Capacity of the cache in the recorded run.
    pub recorded_entries: u64,
    pub coverage_percent: Option<f64>,
    #[serde(rename = "seeds")]
    pub simulated_run_count: u64,
    pub self_test: Vec<CounterPrediction>,
    /// Whether all counters are close ([`CounterPrediction::is_close`]). If not, `sizes` is empty.
    pub self_test_passed: bool,
    #[serde(rename = "reasons")]
    pub weaknesses: Vec<String>,
    /// Program cache time, summed over threads. `None` if a slot lacks it.
    pub recorded_seconds: Option<f64>,
    /// Recorded slots that the trace has. `recorded_seconds` is the sum over these slots.
    pub slots: u64,
    pub sizes: Vec<SizePrediction>,
    /// Not in `sizes`, because misses depend on the cache's unknown content at the start.
    #[serde(rename = "unknown")]
    pub sizes_with_unknown_start: Vec<u64>,
    /// The smallest size such that no larger size saves 1 % of the replay time.
    pub enough_entries: Option<u64>,
}

/// `None` if no trace is next to the recording. Reports progress on standard error.
pub fn predict_from_adjacent_trace(run: &Path) -> Option<Result<Prediction>> {
    let trace = trace_path(run, None);
    trace.symlink_metadata().ok()?;
    let args = PredictionInputArgs {
        trace: Some(trace),
        ..PredictionInputArgs::default()
    };
    Some(PredictionInput::read(run, &args).and_then(|input| {
        let started = clock::uptime();
        let sizes = sizes(&[], input.entries);
        say(&format!(
            "{}: predicting the program cache at {} sizes from its trace, {} simulated runs each",
            run.display(),
            sizes.len(),
            input.simulated_run_count
        ));
        let prediction = Prediction::of(&input, &sizes)?;
        say(&format!(
            "{}: predicted in {}",
            run.display(),
            duration(clock::uptime().saturating_sub(started))
        ));
        Ok(prediction)
    }))
}

/// The requested sizes or `SIZES`, with the recorded size and the largest of `SIZES`,
/// ascending, each once. [`Prediction::enough_entries`] compares each size with the larger ones.
pub fn sizes(requested: &[u64], recorded: u64) -> Vec<u64> {
    let mut sizes = match requested {
        [] => SIZES.to_vec(),
        _ => requested.to_vec(),
    };
    sizes.extend(SIZES.last());
    sizes.push(recorded);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Prediction {
    /// `sizes` contain the recorded size. Fails if no size can be predicted, like [`predict`].
    pub fn of(input: &PredictionInput, sizes: &[u64]) -> Result<Self> {
        // Both the self-test and the prediction simulate the recorded size.
        let mut progress = Progress::new(sizes.len() as u64 + 1, "sizes");
        let calibration = input.calibrate()?;
        progress.show(1, "");
        let self_test_passed = calibration.passes_self_test();
        let curve = if self_test_passed {
            let plan = input.plan(sizes, &calibration.compile_us, calibration.fit.as_ref());
            let mut done = 1;
            predict(&plan, |entries| {
                done += 1;
                progress.show(done, &format!(", last {}", count(entries)));
            })?
        } else {
            Curve::default()
        };
        drop(progress);
        let slots: Vec<_> = (input.recorded.slots_with_counters.iter())
            .filter(|slot| input.trace.slot_index(slot.slot).is_some())
            .collect();
        let recorded_seconds = (slots.iter())
            .map(|slot| Some(slot.cache_us? as f64 * 1e-6))
            .sum();
        let replay_us = input.recorded.replay_us;
        Ok(Self {
            version: input.version.clone(),
            recorded_entries: input.entries,
            coverage_percent: input.coverage.percent(),
            simulated_run_count: input.simulated_run_count,
            self_test: calibration.self_test,
            self_test_passed,
            weaknesses: input.weaknesses(),
            recorded_seconds,
            slots: slots.len() as u64,
            enough_entries: replay_us.and_then(|us| curve.enough_entries(input.entries, us)),
            sizes: curve.sizes,
            sizes_with_unknown_start: curve.sizes_with_unknown_start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_cache_sim::trace::MAX_LOOKUPS;

    #[test]
    fn epochs_of_testnet_begin_after_its_shorter_ones() {
        // Slot 207,170,348 of testnet has index 150,092 in its epoch.
        let first = 207_170_348 - 150_092;
        let epochs = |cluster: &str| [first - 1, first].map(|slot| epoch(cluster, slot));
        let [before, after] = epochs("4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY");
        assert_eq!(after, before + 1);
        let [before, after] = epochs("");
        assert_eq!(after, before);
        assert_eq!([431_999, 432_000].map(|slot| epoch("", slot)), [0, 1]);
    }

    #[test]
    fn a_long_trace_has_fewer_runs_and_never_less_than_a_few() {
        let of = |lookups: u64| default_run_count(lookups, true);
        let runs = [of(0), of(18_000), of(20_000_000), of(500_000_000)];
        assert_eq!(runs, [64, 64, 35, 8]);
    }

    #[test]
    fn the_longest_accepted_trace_needs_under_112_billion_lookups() {
        let lookups = |of_trace: u64| {
            of_trace * simulations_per_seed(false) * default_run_count(of_trace, false)
        };
        let most = (0..=29).map(|bits| lookups(1 << bits)).max();
        assert_eq!(most, Some(lookups(MAX_LOOKUPS)));
        assert_eq!(lookups(MAX_LOOKUPS), 111_669_149_696);
    }
}
