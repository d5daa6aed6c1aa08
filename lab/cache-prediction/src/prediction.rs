//! Predicts the program cache of a recorded run at other sizes, for the command and for reports.

use crate::{
    recorded::{Recorded, agave},
    trace_file::{self, path_of},
};
use anyhow::{Context, Result};
use clap::Args;
use faultline_cache_sim::{
    Rule,
    cost::{self, Fit, Model, Observed},
    predict::{Coverage, Curve, Plan, RecordingStart, loaded, predict, self_test},
    trace::Trace,
};
pub use faultline_cache_sim::{
    interval::Range,
    predict::{Counter, Size},
};
use faultline_common::{clock, files::AtPath, output::say, progress::Progress};
use faultline_text::{count, counted, time};
use serde::Serialize;
use std::path::{Path, PathBuf};

const COST_RESAMPLES: usize = 200;
/// Fixed, so that the same input gives the same answer.
const SEED: u64 = 1;
/// Slots of an epoch of the public clusters.
const SLOTS_PER_EPOCH: u64 = 432_000;

/// From the smallest default of any release to enough for all programs of a day.
const SIZES: [u64; 11] = [
    256, 384, 512, 640, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 8_192,
];
/// Simulated runs of each size in a report. Long traces get fewer, so that a report takes some
/// minutes at most.
const SEEDS: u64 = 64;
const MIN_SEEDS: u64 = 8;
const LOOKUP_BUDGET: u64 = 10_000_000_000;

/// What predictions are made from.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// The trace [default: RUN with the extension .trace].
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Version of Agave whose rules apply, such as 2.1.14 [default: the recorded one].
    #[arg(long, value_name = "V")]
    pub version: Option<String>,
    /// Entries of the recorded cache [default: the recorded AGAVE_PROGRAM_CACHE_ENTRIES, otherwise those of a stock build].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    pub entries: Option<u64>,
    /// Simulated runs of each size [default: 64, and fewer, at least 8, over a long trace].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub seeds: Option<u64>,
}

#[derive(Debug)]
pub struct Prepared {
    pub recorded: Recorded,
    pub trace: Trace,
    pub coverage: Coverage,
    pub version: String,
    pub rule: Rule,
    pub entries: u64,
    pub begin: RecordingStart,
    assumed_entries: bool,
    pub seeds: u64,
}

#[derive(Debug)]
pub struct SelfTestRun {
    pub counters: Vec<Counter>,
    pub fit: Option<Fit>,
    pub compile_us: Vec<u64>,
}

impl SelfTestRun {
    pub fn passed(&self) -> bool {
        self.counters.iter().all(Counter::is_close)
    }
}

/// Mean time of a load over the slots that have it; all other costs are 0.
pub fn mean_load(observed: &[Observed]) -> Model {
    let (us, loads) = observed
        .iter()
        .fold((0.0, 0.0), |(us, loads), o| match o.compile_us {
            Some(more) => (us + more as f64, loads + (o.insertions + o.reloads) as f64),
            None => (us, loads),
        });
    Model {
        a: if loads > 0.0 { us / loads } else { 0.0 },
        ..Model::default()
    }
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// As many runs as [`LOOKUP_BUDGET`] allows. It uses no clock, so that the same files give the same
/// report.
fn seeds(lookups: u64, begin: RecordingStart) -> u64 {
    (LOOKUP_BUDGET / (lookups.max(1) * runs(begin))).clamp(MIN_SEEDS, SEEDS)
}

/// Simulated runs for one seed: those of each default size and of the recorded one, and two more of
/// the recorded size in the self-test.
fn runs(begin: RecordingStart) -> u64 {
    let starts = if begin == RecordingStart::ValidatorStart {
        1
    } else {
        2
    };
    starts * (SIZES.len() as u64 + 1) + 2
}

impl Prepared {
    /// Fails if the files do not belong together, the version is unknown, or the trace covers too
    /// little.
    pub fn read(run: &Path, args: &SourceArgs) -> Result<Self> {
        let recorded = Recorded::read(run)?;
        recorded.require_public_blocks(run)?;
        let given = args
            .version
            .as_deref()
            .map(agave)
            .or_else(|| recorded.agave());
        let version = given.with_context(|| {
            format!(
                "{} does not have the validator's version: set it with --version, as in --version 2.1.14",
                run.display()
            )
        })?;
        let rule = Rule::of(&version)?;
        let path = path_of(run, args.trace.as_deref());
        let trace = trace_file::read(run, &path)?;
        let coverage = Coverage::of(&trace, &recorded.slots);
        coverage.require().at(&path)?;
        let known = args.entries.or(recorded.entries);
        let entries = known.unwrap_or(rule.capacity);
        let assumed_entries = known.is_none();
        let first = recorded.slots.first().map_or(0, |(slot, _)| *slot);
        let begin = if recorded.from_start {
            RecordingStart::ValidatorStart
        } else {
            RecordingStart::Slot(first)
        };
        let seeds = args.seeds.unwrap_or_else(|| seeds(trace.lookups(), begin));
        Ok(Prepared {
            recorded,
            trace,
            coverage,
            version,
            rule,
            entries,
            begin,
            assumed_entries,
            seeds,
        })
    }

    pub fn plan<'a>(
        &'a self,
        sizes: &'a [u64],
        compile_us: &'a [u64],
        fit: Option<&'a Fit>,
    ) -> Plan<'a> {
        Plan {
            trace: &self.trace,
            rule: self.rule,
            sizes,
            seeds: self.seeds,
            seed: SEED,
            threads: threads(),
            begin: self.begin,
            compile_us,
            fit,
        }
    }

    pub fn test(&self) -> Result<SelfTestRun> {
        let observed = &self.recorded.observed;
        // Some rules evict by compile time, so the first simulation uses the mean of a load.
        let first = cost::compile_times(&self.trace, &mean_load(observed));
        let fit = cost::fit(
            observed,
            &loaded(&self.plan(&[], &first, None), self.entries)?,
            COST_RESAMPLES,
            SEED,
        );
        let compile_us = fit
            .as_ref()
            .map_or(first, |fit| cost::compile_times(&self.trace, &fit.model));
        let plan = self.plan(&[], &compile_us, None);
        Ok(SelfTestRun {
            counters: self_test(&plan, self.entries, observed)?,
            fit,
            compile_us,
        })
    }

    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let missing = self.coverage.missing.len();
        if missing > 0 {
            let covered = self.coverage.percent().unwrap_or(0.0);
            reasons.push(format!(
                "the trace covers {covered:.2} % of the transactions and lacks {}",
                counted(missing as f64, "slot")
            ));
        }
        let own = self.recorded.own.len();
        if own > 0 {
            reasons.push(format!(
                "the validator produced {} itself, and then looks programs up in another order",
                counted(own as f64, "block")
            ));
        }
        if self.recorded.serves_rpc {
            reasons.push(
                "the validator serves JSON-RPC: simulated transactions look programs up, too"
                    .to_owned(),
            );
        }
        let first = self.recorded.slots.first();
        let last = self.recorded.slots.last();
        if let (Some((first, _)), Some((last, _))) = (first, last)
            && first / SLOTS_PER_EPOCH != last / SLOTS_PER_EPOCH
        {
            reasons.push(
                "an epoch begins within the recording; programs may be compiled again before it"
                    .to_owned(),
            );
        }
        if self.begin != RecordingStart::ValidatorStart {
            let before = self
                .trace
                .slots()
                .iter()
                .take_while(|slot| RecordingStart::Slot(slot.slot) != self.begin)
                .count();
            reasons.push(format!(
                "the recording began in the middle; the simulated cache is warmed by {} before it",
                counted(before as f64, "slot")
            ));
        }
        if let Some(recorded) = self.recorded.agave()
            && recorded != self.version
        {
            reasons.push(format!(
                "the rule is that of {}, and the validator reported {recorded}",
                self.version
            ));
        }
        if self.assumed_entries {
            reasons.push(format!(
                "the size of the recorded cache is assumed to be {}: the recording does not have it",
                self.entries
            ));
        }
        reasons
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    pub version: String,
    pub recorded_entries: u64,
    pub coverage_percent: Option<f64>,
    pub seeds: u64,
    pub self_test: Vec<Counter>,
    /// Whether each counter is predicted within 10 %. If not, `sizes` is empty.
    pub self_test_passed: bool,
    /// Visible causes of wrong predictions.
    pub reasons: Vec<String>,
    /// Program cache time, summed over threads; `None` if a slot of the trace does not have it.
    pub recorded_seconds: Option<f64>,
    /// Recorded slots of the trace, over which seconds are summed.
    pub slots: u64,
    pub sizes: Vec<Size>,
    /// Sizes without a prediction, because the cache's content at the start decides.
    pub unknown: Vec<u64>,
    /// The smallest size from which no larger one saves 1 % of the replay time.
    pub enough_entries: Option<u64>,
}

/// Predicts from the trace next to the recording; `None` if there is no trace. Reports progress and
/// duration on standard error.
pub fn predict_from_adjacent_trace(run: &Path) -> Option<Result<Prediction>> {
    let trace = path_of(run, None);
    trace.symlink_metadata().ok()?;
    let args = SourceArgs {
        trace: Some(trace),
        version: None,
        entries: None,
        seeds: None,
    };
    Some(Prepared::read(run, &args).and_then(|prepared| {
        let begun = clock::uptime();
        let sizes = sizes(&[], prepared.entries);
        say(&format!(
            "{}: predicting the program cache at {} sizes from its trace, {} simulated runs each",
            run.display(),
            sizes.len(),
            prepared.seeds
        ));
        let prediction = Prediction::of(&prepared, &sizes)?;
        say(&format!(
            "{}: predicted in {}",
            run.display(),
            time(clock::uptime().saturating_sub(begun))
        ));
        Ok(prediction)
    }))
}

/// Always with the largest of [`SIZES`]: whether a size is enough depends on what larger ones save.
pub fn sizes(requested: &[u64], recorded: u64) -> Vec<u64> {
    let mut sizes = if requested.is_empty() {
        SIZES.to_vec()
    } else {
        requested.to_vec()
    };
    sizes.extend(SIZES.last());
    sizes.push(recorded);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Prediction {
    /// `sizes` contain the recorded one. Fails if the recording began in the middle and no size can
    /// be predicted.
    pub fn of(prepared: &Prepared, sizes: &[u64]) -> Result<Self> {
        // The recorded size is simulated first, and again with the others.
        let mut progress = Progress::new(sizes.len() as u64 + 1, "sizes");
        let tested = prepared.test()?;
        progress.at(1, "");
        let passed = tested.passed();
        let curve = if passed {
            let plan = prepared.plan(sizes, &tested.compile_us, tested.fit.as_ref());
            let mut done = 1;
            predict(&plan, |entries| {
                done += 1;
                progress.at(done, &format!(", last {}", count(entries)));
            })?
        } else {
            Curve::default()
        };
        drop(progress);
        let in_trace = |slot: u64| prepared.trace.slot_index(slot).is_some();
        let observed = prepared.recorded.observed.iter();
        let observed: Vec<_> = observed.filter(|o| in_trace(o.slot)).collect();
        let recorded_seconds = { observed.iter() }
            .map(|o| Some(o.cache_us? as f64 * 1e-6))
            .sum();
        let replay_us = prepared.recorded.replay_us;
        Ok(Prediction {
            version: prepared.version.clone(),
            recorded_entries: prepared.entries,
            coverage_percent: prepared.coverage.percent(),
            seeds: prepared.seeds,
            self_test: tested.counters,
            self_test_passed: passed,
            reasons: prepared.reasons(),
            recorded_seconds,
            slots: observed.len() as u64,
            enough_entries: replay_us.and_then(|us| curve.knee(prepared.entries, us)),
            sizes: curve.sizes,
            unknown: curve.unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_cache_sim::trace::MAX_LOOKUPS;

    #[test]
    fn a_long_trace_has_fewer_runs_and_never_less_than_a_few() {
        let of = |lookups: u64| seeds(lookups, RecordingStart::ValidatorStart);
        let seeds = [of(0), of(18_000), of(20_000_000), of(500_000_000)];
        assert_eq!(seeds, [64, 64, 35, 8]);
    }

    #[test]
    fn the_longest_accepted_trace_needs_under_112_billion_lookups() {
        let lookups = |of_trace: u64| {
            let begin = RecordingStart::Slot(7);
            of_trace * runs(begin) * seeds(of_trace, begin)
        };
        let most = (0..=29).map(|bits| lookups(1 << bits)).max();
        assert_eq!(most, Some(lookups(MAX_LOOKUPS)));
        assert_eq!(lookups(MAX_LOOKUPS), 111_669_149_696);
    }
}
