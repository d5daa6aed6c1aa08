use super::{cells::slug, groups::by_key};
use crate::{
    measure::{self, Lifecycle, Span, Tps, WindowNumbers},
    run::{Run, Signal},
};
use faultline_stats::{
    Reliability,
    block_bootstrap::{self, Estimate, IntervalPlan},
};
use faultline_text::{number, utc};
use itertools::Itertools;
use std::collections::BTreeSet;

/// A recording and what was measured in it. The report calls it a run.
pub struct MeasuredRun {
    pub recording: Run,
    pub lifecycle: Lifecycle,
    pub tps: Tps,
    /// From the first second with an executed transaction to the end of the run; `None` without
    /// one.
    pub execution_window: Option<Span>,
    pub whole_run: WindowNumbers,
    /// Within `execution_window`; without one, equal to `whole_run`.
    pub since_first_transaction: WindowNumbers,
    pub from_tip: Option<WindowNumbers>,
    /// In the order of [`ESTIMATED_METRICS`].
    pub estimates: [Option<Estimate>; 4],
    pub input_index: usize,
    /// The name as an anchor of the page.
    pub id: String,
    pub name: String,
    pub arm: String,
}

pub const ESTIMATED_METRICS: [&str; 4] = [
    "Replay time per slot, p95",
    "TPS",
    "Misses per batch",
    "Program cache time per slot",
];

pub const MIN_TIP_SECONDS: f64 = 600.0;

pub struct MeasuredRuns {
    /// In the order of the arms, then of the input.
    pub all: Vec<MeasuredRun>,
    /// Without the arms of second runs (see [`AA_SUFFIX`]), because each repeats another arm.
    pub arms: Vec<String>,
    /// `--per-second`: values per slot are compared per second.
    pub compare_rates: bool,
}

/// An A/A pair is two runs of one arm at the same time on one host. The second run belongs to an
/// arm of its own, named with this suffix.
pub const AA_SUFFIX: &str = " (A/A)";

impl MeasuredRuns {
    /// `arm_order` has the arms in the order of an experiment's plan, or is empty.
    pub fn new(
        recordings: impl IntoIterator<Item = Run>,
        bootstrap: &IntervalPlan,
        arm_order: &[String],
    ) -> Self {
        let recordings = recordings.into_iter().enumerate();
        let by_arm = by_key(
            recordings
                .map(|(input_index, recording)| (arm_of(&recording), (input_index, recording))),
        );
        let by_arm = sorted_arms(by_arm, arm_order);
        let mut arms = by_arm.iter().map(|(arm, _)| arm.clone()).collect_vec();
        if !arms.iter().all(|arm| arm.ends_with(AA_SUFFIX)) {
            arms.retain(|arm| !arm.ends_with(AA_SUFFIX));
        }
        let mut all = Vec::new();
        let mut used_ids = BTreeSet::new();
        for (arm, recordings) in by_arm {
            let count = recordings.len();
            for (index, (input_index, recording)) in recordings.into_iter().enumerate() {
                let name = run_name(&recording, &arm, index, count);
                let (mut id, mut unique_name) = (slug(&name), name.clone());
                for number in 2.. {
                    if used_ids.insert(id.clone()) {
                        break;
                    }
                    id = format!("{}-{number}", slug(&name));
                    unique_name = format!("{name} ({number})");
                }
                all.push(measured_run(
                    recording,
                    bootstrap,
                    input_index,
                    id,
                    unique_name,
                    arm.clone(),
                ));
            }
        }
        Self {
            all,
            arms,
            compare_rates: false,
        }
    }

    /// The reference is the first arm for which `can_be_reference` is true, or the first arm if
    /// there is none. The others are all other arms.
    pub fn reference_and_others(
        &self,
        can_be_reference: impl Fn(&str) -> bool,
    ) -> Option<(&str, Vec<&str>)> {
        let reference = self
            .arms
            .iter()
            .find(|arm| can_be_reference(arm))
            .or(self.arms.first())?;
        let others = self.arms.iter().filter(|arm| *arm != reference);
        Some((reference, others.map(String::as_str).collect()))
    }

    pub fn has_no_validator(&self) -> bool {
        let runs = || self.all.iter();
        runs().any(|run| !run.recording.processes.is_empty())
            && !runs().any(|run| run.lifecycle.has_validator || run.recording.is_offline_replay())
    }

    /// Whether all runs replayed a fixed range of slots from a ledger, without a cluster.
    pub fn are_offline_replays(&self) -> bool {
        self.all.iter().all(|run| run.recording.is_offline_replay())
    }

    /// The runs that kept up (`Some(true)`), did not (`Some(false)`), or may have (`None`).
    pub fn runs_by_success(&self, passed: Option<bool>) -> impl Iterator<Item = &MeasuredRun> {
        self.all
            .iter()
            .filter(move |run| run.lifecycle.success.passed == passed)
    }

    pub fn single_run(&self) -> Option<&MeasuredRun> {
        self.all.iter().exactly_one().ok()
    }

    /// Means and comparisons leave out a run without an executed transaction, unless no run has
    /// one.
    pub fn is_counted(&self, run: &MeasuredRun) -> bool {
        run.has_executed_transaction()
            || !self.all.iter().any(MeasuredRun::has_executed_transaction)
    }

    /// The time at the tip if every counted run was there for [`MIN_TIP_SECONDS`] or half its time.
    /// Otherwise the time from the first executed transaction on.
    pub fn compared_part(&self) -> RunPart {
        let all_were_long_at_tip = self
            .all
            .iter()
            .filter(|run| self.is_counted(run))
            .all(|run| {
                let seconds = run.since_first_transaction.window.seconds();
                run.from_tip.as_ref().is_some_and(|numbers| {
                    numbers.window.seconds() >= MIN_TIP_SECONDS.min(seconds / 2.0)
                })
            });
        if !self.all.is_empty() && all_were_long_at_tip {
            RunPart::FromTip
        } else {
            RunPart::FromFirstTransaction
        }
    }

    /// In samples: `max_samples`, but at most a tenth of the shortest run, to show changes within
    /// each run.
    pub fn averaging_window_for_shortest_run(
        &self,
        max_samples: usize,
        count_samples: impl Fn(&MeasuredRun) -> usize,
    ) -> usize {
        let shortest = self
            .all
            .iter()
            .map(count_samples)
            .filter(|samples| *samples > 0)
            .min()
            .unwrap_or(0);
        max_samples.min(shortest / 10).max(1)
    }

    pub fn runs_of<'s>(&'s self, arm: &'s str) -> impl Iterator<Item = &'s MeasuredRun> {
        self.all.iter().filter(move |run| run.arm == arm)
    }

    pub fn counted_runs_of<'s>(&'s self, arm: &'s str) -> impl Iterator<Item = &'s MeasuredRun> {
        self.runs_of(arm).filter(|run| self.is_counted(run))
    }
}

fn measured_run(
    recording: Run,
    bootstrap: &IntervalPlan,
    input_index: usize,
    id: String,
    name: String,
    arm: String,
) -> MeasuredRun {
    let measured = measure::measure(&recording);
    let tps = &measured.tps;
    let numbers = |window| measure::numbers(&recording, tps, window);
    let (whole_run, from_tip) = (numbers(measured.all), measured.from_tip.map(numbers));
    let since_first_transaction = numbers(measured.execution_window.unwrap_or(measured.all));
    MeasuredRun {
        whole_run,
        from_tip,
        estimates: estimates(&recording, tps, &since_first_transaction, bootstrap),
        since_first_transaction,
        lifecycle: measured.lifecycle,
        tps: measured.tps,
        execution_window: measured.execution_window,
        recording,
        input_index,
        id,
        name,
        arm,
    }
}

fn estimates(
    recording: &Run,
    tps: &Tps,
    numbers: &WindowNumbers,
    bootstrap: &IntervalPlan,
) -> [Option<Estimate>; 4] {
    let tps = tps.counts(numbers.window);
    let points = &recording.points.cache;
    let misses =
        measure::point_values(recording, points, numbers.window, |point| point.misses, 1.0);
    let times = measure::cache_us_per_slot(recording, numbers.window);
    let p95 = numbers.replay_quantile(0.95);
    // The means are over seconds, over datapoints and over slots. An amount cannot be negative.
    [
        p95.and_then(|_| block_bootstrap::quantile(&numbers.replay_ms, 0.95, bootstrap)),
        block_bootstrap::mean_of_amounts(&tps, bootstrap),
        block_bootstrap::mean_of_amounts(&misses, bootstrap),
        block_bootstrap::mean_of_amounts(&times, bootstrap),
    ]
}

impl MeasuredRun {
    /// From the first executed transaction until the validator was near the tip, in seconds.
    pub fn catch_up(&self) -> Option<f64> {
        let first = self.execution_window?.from;
        Some((self.lifecycle.near_tip_since? - first).max(0.0))
    }

    /// Wall-clock time of the first tick; `None` if nothing was recorded.
    pub fn begun(&self) -> Option<String> {
        let unix_ns = self.recording.origin_unix_ns;
        (unix_ns > 0).then(|| utc(unix_ns))
    }

    fn has_executed_transaction(&self) -> bool {
        self.execution_window.is_some() || !self.recording.offline_replay.slots.is_empty()
    }

    pub fn why_no_quantile(&self) -> &'static str {
        if self
            .since_first_transaction
            .replay_ms
            .iter()
            .any(Option::is_some)
        {
            "too few slots: a p95 needs 20, a p99 needs 100"
        } else {
            self.why_no_datapoints()
        }
    }

    pub fn unreliable_estimates(&self) -> impl Iterator<Item = (&'static str, Reliability)> {
        ESTIMATED_METRICS
            .into_iter()
            .zip(&self.estimates)
            .filter_map(|(metric, estimate)| Some((metric, estimate.as_ref()?.reliability)))
            .filter(|(_, reliability)| !reliability.is_reliable())
    }

    pub fn why_no_datapoints(&self) -> &'static str {
        if !self.recording.points.has_standard_points() {
            "no datapoints were recorded"
        } else {
            "no such datapoint in this part of the run"
        }
    }

    pub fn why_no_samples(&self) -> &'static str {
        match (
            self.recording.ticks.is_empty(),
            self.recording.processes.is_empty(),
        ) {
            (true, _) => "nothing was recorded",
            (false, true) => "no process was followed",
            (false, false) => "not readable on this host, or not in this part of the run",
        }
    }

    /// In bytes: the experiment's planned limit, else that of most samples.
    pub fn limit(&self) -> Option<f64> {
        let experiment = self.recording.experiment_outcome.as_ref();
        if let Some(limit) = experiment.and_then(|experiment| experiment.limit) {
            return Some(limit as f64);
        }
        let limits = self.recording.signal(Signal::Limit);
        measure::values_within(&self.recording, limits, self.whole_run.window)
            .into_iter()
            .flatten()
            .counts_by(|limit| limit as u64)
            .into_iter()
            .max_by_key(|(limit, ticks)| (*ticks, *limit))
            .map(|(limit, _)| limit as f64)
    }
}

/// The label `arm`, else the name of the file. The label `second` marks the second run of an A/A
/// pair.
fn arm_of(recording: &Run) -> String {
    let arm = recording
        .label("arm")
        .filter(|arm| !arm.is_empty())
        .unwrap_or_else(|| file_stem(&recording.file));
    match recording.label("second") {
        Some("1") => format!("{arm}{AA_SUFFIX}"),
        _ => arm.to_owned(),
    }
}

fn file_stem(file: &str) -> &str {
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    }
}

/// In the planned `arm_order`. Without one, names equal up to their first number (`512 GB`,
/// `1024 GB`) are sorted by this number, others by the input.
fn sorted_arms<T>(mut arms: Vec<(String, T)>, arm_order: &[String]) -> Vec<(String, T)> {
    if !arm_order.is_empty() {
        arms.sort_by_cached_key(|(arm, _)| {
            let name = arm.trim_end_matches(AA_SUFFIX);
            let index = arm_order.iter().position(|planned| planned == name);
            (index.unwrap_or(arm_order.len()), arm.ends_with(AA_SUFFIX))
        });
        return arms;
    }
    let number = |arm: &str| split_at_number(arm).map_or(0.0, |(_, number)| number);
    let mut prefixes = arms.iter().map(|(arm, _)| Some(split_at_number(arm)?.0));
    if prefixes
        .all_equal_value()
        .is_ok_and(|prefix| prefix.is_some())
    {
        arms.sort_by(|(a, _), (b, _)| number(a).total_cmp(&number(b)));
    }
    arms
}

/// The part of a name before its first number, and the number: `1,024 entries`, `cache-512`,
/// `1.5 TB`. Numbers of T or M are converted to G.
fn split_at_number(arm: &str) -> Option<(&str, f64)> {
    let (prefix, rest) = arm.split_at(arm.find(|c: char| c.is_ascii_digit())?);
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .unwrap_or(rest.len());
    let (number, unit) = rest.split_at(end);
    let number: f64 = number.replace(',', "").trim_end_matches('.').parse().ok()?;
    let scale = match unit.trim_start().chars().next() {
        Some('T' | 't') => 1024.0,
        Some('M' | 'm') => 1.0 / 1024.0,
        _ => 1.0,
    };
    Some((prefix, number * scale))
}

fn run_name(recording: &Run, arm: &str, index: usize, runs: usize) -> String {
    match recording.label("run").filter(|label| !label.is_empty()) {
        Some(label) if recording.label("arm").is_some() => format!("{arm}, run {label}"),
        _ if runs > 1 => format!("{arm}, run {}", number((index + 1) as f64, 0)),
        _ => arm.to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPart {
    WholeRun,
    FromFirstTransaction,
    FromTip,
}

impl RunPart {
    pub fn numbers(self, run: &MeasuredRun) -> Option<&WindowNumbers> {
        match self {
            Self::WholeRun => Some(&run.whole_run),
            Self::FromFirstTransaction => Some(&run.since_first_transaction),
            Self::FromTip => run.from_tip.as_ref(),
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Self::WholeRun => "Over the whole run, to the end of its process.",
            Self::FromFirstTransaction => {
                "From the first executed transaction on (the whole run if none was recorded), to the end of its process."
            }
            Self::FromTip => {
                "From the first sample at the tip on, to the end of its process: start and catching up are left out."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(file: &str, labels: &[(&str, &str)]) -> Run {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Run {
            file: file.to_owned(),
            labels,
            ..Run::default()
        }
    }

    #[test]
    fn numeric_arms_are_sorted_ascending_in_any_file_order() {
        let recordings =
            ["1.5 TB", "512 GB", "1 TB", "512 GB"].map(|arm| recording("x.fltl", &[("arm", arm)]));
        assert_eq!(
            MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]).arms,
            ["512 GB", "1 TB", "1.5 TB"]
        );
        let recordings =
            ["cache-1,024", "cache-512"].map(|arm| recording("x.fltl", &[("arm", arm)]));
        assert_eq!(
            MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]).arms,
            ["cache-512", "cache-1,024"]
        );
        let recordings = ["b-2", "a-1"].map(|arm| recording("x.fltl", &[("arm", arm)]));
        assert_eq!(
            MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]).arms,
            ["b-2", "a-1"]
        );
        let recordings = ["b", "a"].map(|arm| recording("x.fltl", &[("arm", arm)]));
        assert_eq!(
            MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]).arms,
            ["b", "a"]
        );
    }

    #[test]
    fn arms_are_listed_in_plan_order() {
        let mut recordings = ["oom", "big", "small", "512"]
            .map(|arm| recording("x.fltl", &[("arm", arm)]))
            .to_vec();
        recordings.insert(0, recording("x.fltl", &[("arm", "small"), ("second", "1")]));
        let order = ["small", "none", "big", "oom", "512"].map(str::to_owned);
        let runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &order);
        assert_eq!(runs.arms, ["small", "big", "oom", "512"]);
        assert_eq!(
            runs.all.iter().map(|run| &run.arm).nth(1).unwrap(),
            "small (A/A)"
        );
        let (reference, others) = runs.reference_and_others(|_| true).unwrap();
        assert_eq!((reference, others), ("small", vec!["big", "oom", "512"]));
        let (reference, others) = runs
            .reference_and_others(|arm| arm.starts_with(['b', 'o']))
            .unwrap();
        assert_eq!((reference, others), ("big", vec!["small", "oom", "512"]));
        assert_eq!(runs.reference_and_others(|_| false).unwrap().0, "small");
    }

    #[test]
    fn names_and_anchors_are_unique_for_any_labels() {
        let recordings = [
            recording("a.fltl", &[]),
            recording("a.fltl", &[("arm", "a"), ("run", "")]),
            recording("a!", &[]),
            recording("a?", &[]),
            recording("a 2", &[]),
        ];
        let runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]);
        let mut ids: Vec<&str> = runs.all.iter().map(|run| run.id.as_str()).collect();
        let mut names: Vec<&str> = runs.all.iter().map(|run| run.name.as_str()).collect();
        ids.sort_unstable();
        names.sort_unstable();
        ids.dedup();
        names.dedup();
        assert_eq!((ids.len(), names.len()), (5, 5));
    }
}
