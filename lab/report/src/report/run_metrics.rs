use super::{
    accounts,
    cells::gib,
    measured_run::{MeasuredRun, MeasuredRuns},
};
use crate::{
    measure::{WindowNumbers, signal_rates},
    run::Signal,
};

#[derive(Debug, Clone, Copy)]
pub enum Better {
    Lower,
    Higher,
    /// Neither direction is good by itself.
    Neither,
}

/// Decides whether a metric may compare arms whose slot times or consensus differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalesWith {
    /// A mean over batches: the validator sends one datapoint of the program cache (a batch) for
    /// each bank, so for each slot.
    Batch,
    ReplayedSlot,
    ReplayedSlotWithTransactions,
    /// A quantile of one value per slot, which has no sum.
    SlotQuantile,
    SlotDistance,
    /// Depends on the number of transactions, votes included.
    Transaction,
    /// A rate per second, a size, a duration or a ratio.
    Nothing,
}

/// A metric with one number per run.
#[derive(Debug)]
pub struct RunMetric {
    pub id: &'static str,
    pub title: &'static str,
    pub unit: &'static str,
    pub decimals: u8,
    pub better: Better,
    pub(crate) scales_with: ScalesWith,
    pub definition: &'static str,
    compute: fn(&MeasuredRun, &WindowNumbers) -> Option<f64>,
}

const METRICS_OF_ANY_PROCESS: [&str; 8] = [
    DEFAULT_PROCESS_METRIC,
    "anon-mean",
    "headroom-min",
    "major-faults",
    "minor-faults",
    "refaults",
    "memory-stall",
    "cpu",
];

pub fn run_metrics_of(runs: &MeasuredRuns) -> impl Iterator<Item = &'static RunMetric> {
    let has_validator = !runs.has_no_validator();
    RUN_METRICS
        .iter()
        .filter(move |run_metric| has_validator || METRICS_OF_ANY_PROCESS.contains(&run_metric.id))
}

impl RunMetric {
    /// `None` if the metric was not recorded, needs more values, or is not finite.
    pub(crate) fn value(&self, run: &MeasuredRun, numbers: &WindowNumbers) -> Option<f64> {
        (self.compute)(run, numbers).filter(|value| value.is_finite())
    }
}

pub const DEFAULT_METRIC: &str = "replay-p95";

/// The default for a process that is no validator.
pub const DEFAULT_PROCESS_METRIC: &str = "rss-mean";

/// Does not search [`RELEASE_ONLY_METRICS`].
pub fn run_metric(id: &str) -> Option<&'static RunMetric> {
    RUN_METRICS.iter().find(|run_metric| run_metric.id == id)
}

macro_rules! run_metrics {
    ($list:ident: $(
        $id:literal $title:literal in $unit:literal, $decimals:literal, $better:ident, $scales_with:ident:
        $definition:literal
        = $compute:expr;
    )*) => {
        pub static $list: &[RunMetric] = &[$(RunMetric {
            id: $id,
            title: $title,
            unit: $unit,
            decimals: $decimals,
            better: Better::$better,
            scales_with: ScalesWith::$scales_with,
            definition: $definition,
            compute: $compute,
        },)*];
    };
}

run_metrics! {
    RUN_METRICS:
    "replay-p95" "Replay time per slot, p95" in "ms", 1, Lower, SlotQuantile:
        "replay_total_elapsed of replay-slot-stats, own leader slots left out; needs 20 slots"
        = |_, numbers| numbers.replay_quantile(0.95);
    "replay-p50" "Replay time per slot, median" in "ms", 1, Lower, SlotQuantile:
        "replay_total_elapsed of replay-slot-stats, own leader slots left out"
        = |_, numbers| numbers.replay_quantile(0.5);
    "replay-p99" "Replay time per slot, p99" in "ms", 1, Lower, SlotQuantile:
        "replay_total_elapsed of replay-slot-stats, own leader slots left out; needs 100 slots"
        = |_, numbers| numbers.replay_quantile(0.99);
    "cache-misses" "Program cache misses per batch" in "", 4, Lower, Batch:
        "mean of misses over the points of loaded-programs-cache-stats, which are the batches: about one per slot"
        = |_, numbers| numbers.cache.misses.mean;
    "cache-evictions" "Program cache evictions per batch" in "", 4, Lower, Batch:
        "mean of evictions over the points of loaded-programs-cache-stats, which are the batches"
        = |_, numbers| numbers.cache.evictions.mean;
    "cache-reloads" "Program cache reloads per batch" in "", 4, Lower, Batch:
        "mean of reloads over the points of loaded-programs-cache-stats, which are the batches"
        = |_, numbers| numbers.cache.reloads.mean;
    "cache-time" "Program cache time per slot" in "µs", 1, Lower, ReplayedSlotWithTransactions:
        "program_cache_us (a sum over threads), mean over replayed slots with transactions"
        = |_, numbers| numbers.cache.time_us.mean;
    "read-cache-hits" "Read cache hit ratio" in "%", 3, Higher, Nothing:
        "accounts found in the read cache, of those looked up in it"
        = accounts::read_cache_hit_percent;
    "read-cache-misses" "Read cache misses per slot" in "", 3, Lower, ReplayedSlot:
        "accounts not found in the read cache, divided by replayed slots"
        = accounts::misses_per_slot;
    "account-load" "Account load time per slot" in "µs", 1, Lower, ReplayedSlot:
        "load_us of replay-slot-stats (a sum over threads), mean over replayed slots"
        = accounts::load_time_per_slot;
    "tps" "Transactions per second" in "/s", 1, Higher, Transaction:
        "all transactions divided by all known seconds, zeros included"
        = |_, numbers| numbers.tps.over_known_seconds.map(|tps| tps.mean_with_peaks);
    "zero-tps" "Share of seconds at zero TPS" in "%", 2, Lower, Transaction:
        "of the seconds with a known number of transactions"
        = |_, numbers| {
            let known = numbers.tps.known_seconds;
            let zero = numbers.tps.zero_seconds.filter(|_| known > 0)?;
            Some(100.0 * zero as f64 / known as f64)
        };
    "behind-p95" "Slots behind the tip, p95" in "slots", 0, Lower, SlotDistance:
        "over the samples for which it is known"
        = |_, numbers| faultline_stats::summary::quantile_if_enough(&numbers.slots_behind, 0.95);
    "catch-up" "Catch-up time" in "s", 0, Lower, Nothing:
        "from the first executed transaction until the distance to the tip was small and stayed so"
        = |run, _| run.catch_up();
    "rss-mean" "RSS, mean" in "GiB", 3, Lower, Nothing:
        "anonymous, file and shared resident memory, mean over samples"
        = |_, numbers| numbers.gauges.rss.mean.map(gib);
    "anon-mean" "Anonymous RSS, mean" in "GiB", 3, Lower, Nothing:
        "mean over samples"
        = |_, numbers| numbers.gauges.anon.mean.map(gib);
    "headroom-min" "Memory headroom, smallest" in "GiB", 3, Higher, Nothing:
        "effective limit less unreclaimable memory"
        = |_, numbers| numbers.gauges.headroom.min.map(gib);
    "major-faults" "Major faults per second" in "/s", 3, Lower, Nothing:
        "all faults divided by all seconds"
        = |_, numbers| numbers.major_faults.mean();
    "minor-faults" "Minor faults per second" in "/s", 1, Lower, Nothing:
        "all faults divided by all seconds"
        = |_, numbers| numbers.minor_faults.mean();
    "refaults" "File refaults per second" in "/s", 2, Lower, Nothing:
        "of the cgroup"
        = |run, numbers| signal_rates(&run.recording, Signal::RefaultFile, numbers.window).mean();
    "memory-stall" "Time some task waited for memory" in "%", 3, Lower, Nothing:
        "PSI of the cgroup"
        = |run, numbers| {
            let stalls = signal_rates(&run.recording, Signal::MemorySome, numbers.window);
            stalls.mean().map(|share| 100.0 * share)
        };
    "cpu" "CPU cores in use" in "cores", 2, Neither, Nothing:
        "CPU seconds per second"
        = |_, numbers| numbers.cpu_cores;
}

// Only a campaign, which compares releases, uses these metrics. It also uses some of `RUN_METRICS`.
// The campaign itself takes the least RAM from the result of a search.
run_metrics! {
    RELEASE_ONLY_METRICS:
    "rss-at-tip" "RSS at the tip, mean" in "GiB", 3, Lower, Nothing:
        "anonymous, file and shared resident memory, mean over samples from the first at the tip on"
        = |run, _| run.from_tip.as_ref()?.gauges.rss.mean.map(gib);
    "anon-at-tip" "Anonymous RSS at the tip, mean" in "GiB", 3, Lower, Nothing:
        "anonymous resident memory, mean over samples from the first at the tip on"
        = |run, _| run.from_tip.as_ref()?.gauges.anon.mean.map(gib);
    "least-ram" "Least RAM" in "GiB", 2, Lower, Nothing:
        "memory that a search found to be enough; only searches have it"
        = |_, _| None;
    "index-memory" "Accounts index in memory, max" in "MiB", 1, Lower, Nothing:
        "largest size as the validator reports it"
        = |run, numbers| accounts::index_bytes(run, numbers).map(|bytes| bytes / 1_048_576.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_any_process_exist() {
        for id in METRICS_OF_ANY_PROCESS {
            assert!(run_metric(id).is_some(), "{id}");
        }
    }

    #[test]
    fn ids_are_unique_and_the_default_is_one_of_them() {
        assert!(run_metric(DEFAULT_METRIC).is_some());
        for (index, one) in RUN_METRICS.iter().enumerate() {
            assert!(
                RUN_METRICS
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.id != one.id),
                "{}",
                one.id
            );
        }
    }
}
