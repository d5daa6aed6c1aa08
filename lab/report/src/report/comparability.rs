//! Decides which metrics of two arms are comparable. If slot times differ, metrics per slot are
//! not: a shorter slot has less work. If consensus differs, metrics per slot or transaction are
//! not: votes of Alpenglow are no transactions.

use super::{
    groups::distinct,
    measured_run::{MeasuredRun, MeasuredRuns},
    model::Caveat,
    run_metrics::{RunMetric, ScalesWith},
};
use crate::{measure::lifecycle::lifecycle, run::Run};
use faultline_text::number;
use itertools::Itertools;

/// Slot times within this ratio count as equal. The planned reductions of mainnet-beta are larger.
const MAX_SLOT_TIME_RATIO: f64 = 1.1;

/// Consensus and slot time of one run or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterConditions {
    /// Protocols in the order of their first evidence; empty without evidence.
    pub consensus: Vec<String>,
    /// Smallest and largest median slot time of the runs.
    pub slot_seconds: Option<(f64, f64)>,
}

/// Why metrics of two arms may not be comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    Consensus,
    SlotTime,
}

impl ClusterConditions {
    pub fn of_recording(recording: &Run) -> Self {
        Self::new(recording, lifecycle(recording).slot_seconds)
    }

    fn new(recording: &Run, slot_seconds: Option<f64>) -> Self {
        Self {
            consensus: distinct(recording.consensus.iter().map(|(_, name)| name.clone())),
            slot_seconds: slot_seconds.map(|seconds| (seconds, seconds)),
        }
    }

    pub(crate) fn of_run(run: &MeasuredRun) -> Self {
        Self::new(&run.recording, run.lifecycle.slot_seconds)
    }

    fn of_arm(runs: &MeasuredRuns, arm: &str) -> Self {
        runs.runs_of(arm).map(Self::of_run).collect()
    }

    /// A difference of the protocols comes first. Unknown values do not differ. A run whose
    /// protocol changed differs from every other run.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let changed = self.consensus.len() > 1 || other.consensus.len() > 1;
        let is_known = !self.consensus.is_empty() && !other.consensus.is_empty();
        if changed || is_known && self.consensus != other.consensus {
            return Some(Difference::Consensus);
        }
        let (own_range, other_range) = (self.slot_seconds?, other.slot_seconds?);
        let (min, max) = (
            own_range.0.min(other_range.0),
            own_range.1.max(other_range.1),
        );
        (max > MAX_SLOT_TIME_RATIO * min).then_some(Difference::SlotTime)
    }

    /// `0.20 s`, `0.20 to 0.40 s`; `None` if it was not measured.
    pub fn slot_time(&self) -> Option<String> {
        let (min, max) = self.slot_seconds?;
        let [min, max] = [min, max].map(|seconds| number(seconds, 2));
        Some(if min == max {
            format!("{min} s")
        } else {
            format!("{min} to {max} s")
        })
    }

    fn consensus_text(&self, unknown: &str) -> String {
        match self.consensus.as_slice() {
            [] => unknown.to_owned(),
            known => known.join(" and "),
        }
    }
}

impl FromIterator<Self> for ClusterConditions {
    fn from_iter<I: IntoIterator<Item = Self>>(clusters: I) -> Self {
        let clusters = clusters.into_iter().collect_vec();
        let slot_seconds = clusters.iter().filter_map(|cluster| cluster.slot_seconds);
        Self {
            slot_seconds: slot_seconds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))),
            consensus: distinct(clusters.into_iter().flat_map(|cluster| cluster.consensus)),
        }
    }
}

impl RunMetric {
    /// With `--per-second`.
    pub fn needs_slot_time(&self) -> bool {
        matches!(
            self.scales_with,
            ScalesWith::SlotQuantile | ScalesWith::SlotDistance
        )
    }

    fn is_per_slot(&self) -> bool {
        !matches!(
            self.scales_with,
            ScalesWith::SlotDistance | ScalesWith::Transaction | ScalesWith::Nothing
        )
    }

    pub fn is_affected_by(&self, difference: Difference) -> bool {
        match self.scales_with {
            ScalesWith::Nothing => false,
            ScalesWith::Transaction => difference == Difference::Consensus,
            _ => true,
        }
    }
}

/// `tower, migrating after 12 min, alpenglow after 15 min`; `None` without evidence of a protocol.
pub(crate) fn consensus_timeline(recording: &Run) -> Option<String> {
    let ((_, first), changes) = recording.consensus.split_first()?;
    let changes = changes
        .iter()
        .map(|(at, protocol)| format!(", {protocol} after {}", faultline_text::duration_f64(*at)));
    Some(format!("{first}{}", changes.format("")))
}

/// Why the two arms are not compared by the metric; `None` if they are.
pub(crate) fn refusal(
    runs: &MeasuredRuns,
    reference: &str,
    other: &str,
    run_metric: &RunMetric,
) -> Option<String> {
    let [reference_cluster, other_cluster] =
        [reference, other].map(|arm| ClusterConditions::of_arm(runs, arm));
    let has_rate = run_metric.scales_with != ScalesWith::Transaction;
    let difference = reference_cluster.difference(&other_cluster)?;
    if has_rate && runs.compare_rates || !run_metric.is_affected_by(difference) {
        return None;
    }
    let (with_other, with_reference) = match difference {
        Difference::Consensus => (
            other_cluster.consensus_text("an unknown consensus"),
            reference_cluster.consensus_text("an unknown consensus"),
        ),
        Difference::SlotTime => (
            format!("slots of {}", other_cluster.slot_time()?),
            format!("of {}", reference_cluster.slot_time()?),
        ),
    };
    let remedy = if has_rate {
        "; --per-second compares rates"
    } else {
        ""
    };
    Some(format!(
        "not compared: {with_other} with {other} and {with_reference} with {reference}{remedy}"
    ))
}

/// In the compared part of the run. With `--per-second`, a mean per slot or batch becomes the sum
/// divided by the known seconds, a quantile is divided by the slot time, and a distance in slots
/// becomes a time.
pub(crate) fn compared_value(
    runs: &MeasuredRuns,
    run_metric: &RunMetric,
    run: &MeasuredRun,
) -> Option<f64> {
    let numbers = runs.compared_part().numbers(run)?;
    let value = run_metric.value(run, numbers)?;
    if !runs.compare_rates {
        return Some(value);
    }
    let slot_seconds = run.lifecycle.slot_seconds;
    // Neither faults nor datapoints are known in gaps and between processes.
    let known = numbers.minor_faults.seconds;
    let seconds = if known > 0.0 {
        known
    } else {
        numbers.window.seconds()
    };
    let rate = |count: usize| Some(value * count as f64 / seconds);
    match run_metric.scales_with {
        ScalesWith::Batch => rate(numbers.cache.misses.n),
        ScalesWith::ReplayedSlot => rate(numbers.replay_ms.len()),
        ScalesWith::ReplayedSlotWithTransactions => rate(numbers.cache.time_us.n),
        ScalesWith::SlotQuantile => Some(value / slot_seconds?),
        ScalesWith::SlotDistance => Some(value * slot_seconds?),
        ScalesWith::Transaction | ScalesWith::Nothing => Some(value),
    }
}

pub(crate) fn compared_title(run_metric: &RunMetric, compare_rates: bool) -> String {
    if !compare_rates || !run_metric.is_per_slot() {
        return run_metric.title.to_owned();
    }
    let title = run_metric.title.replace(" per slot", " per second");
    title.replace(" per batch", " per second")
}

pub(crate) fn compared_unit(run_metric: &RunMetric, compare_rates: bool) -> String {
    match run_metric.scales_with {
        ScalesWith::SlotDistance if compare_rates => "s".to_owned(),
        _ if compare_rates && run_metric.is_per_slot() => format!("{}/s", run_metric.unit),
        _ => run_metric.unit.to_owned(),
    }
}

pub(crate) fn caveats(runs: &MeasuredRuns) -> Vec<Caveat> {
    let arms = runs.arms.iter();
    let clusters = arms
        .map(|arm| ClusterConditions::of_arm(runs, arm))
        .collect_vec();
    let with_arms = |text: fn(&ClusterConditions) -> Option<String>| {
        clusters
            .iter()
            .zip(&runs.arms)
            .filter_map(|(cluster, arm)| Some(format!("{} with {arm}", text(cluster)?)))
            .join(", ")
    };
    let mut caveats = Vec::new();
    let all_arms: ClusterConditions = clusters.iter().cloned().collect();
    let are_different = |(min, max)| max > MAX_SLOT_TIME_RATIO * min;
    if all_arms.slot_seconds.is_some_and(are_different) {
        let slot_times = with_arms(ClusterConditions::slot_time);
        caveats.push(Caveat::new(
            format!(
                "A slot took {slot_times}. A longer slot has more work: metrics per slot cannot be compared."
            ),
            if runs.compare_rates {
                "Read the comparison, which shows rates, or run all arms on one cluster at the same time."
            } else {
                "Compare rates (--per-second), or run all arms on one cluster at the same time."
            },
        ));
    }
    let consensus = with_arms(|cluster| Some(cluster.consensus_text("not known")));
    let known = clusters
        .iter()
        .map(|cluster| &cluster.consensus)
        .filter(|consensus| !consensus.is_empty())
        .collect_vec();
    if !known.iter().all_equal() {
        caveats.push(Caveat::new(
            format!(
                "The consensus was {consensus}. Votes of Alpenglow are no transactions: neither metrics per transaction nor metrics per slot can be compared."
            ),
            "Run all arms on one cluster at the same time, or compare memory and rates (--per-second).",
        ));
    } else if (1..clusters.len()).contains(&known.len()) {
        caveats.push(Caveat::new(
            format!("The consensus was {consensus}. The arms are compared as if all had the same."),
            "Record with JSON-RPC or with the datapoints that the validator pushes: they show which protocol it runs.",
        ));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::{Itertools, compared_value};
    use crate::{
        report::{
            Options, build,
            measured_run::MeasuredRuns,
            model::{Block, Cell, Report},
            run_metric,
            run_metrics::RUN_METRICS,
        },
        run::{Run, Signal, Tick},
    };
    use faultline_recording::{ProgramCachePoint, ReplaySlotPoint};
    use faultline_stats::block_bootstrap::IntervalPlan;

    const SECONDS: usize = 120;

    /// A run at the tip whose slots take `slot_ms` and whose replay takes a quarter of that.
    fn recording(arm: &str, number: u64, slot_ms: i64) -> Run {
        let origin = 1_800_000_000_000_000_000_i64;
        let mut signals = vec![vec![None; SECONDS]; Signal::ALL.len()];
        for (second, at) in (0..SECONDS).zip(0_i64..) {
            let slot = Some((1_000 + at * 1_000 / slot_ms) as f64);
            signals[Signal::PhaseEvidenceSlot as usize][second] = slot;
            signals[Signal::PhaseEvidenceTip as usize][second] = slot;
            signals[Signal::PhaseEvidenceStopped as usize][second] = Some(0.0);
            signals[Signal::MinorFaults as usize][second] = Some(at as f64);
        }
        let mut recording = Run {
            file: format!("{arm}-{number}.fltl"),
            labels: vec![("arm".to_owned(), arm.to_owned())],
            finished: true,
            origin_unix_ns: origin + number as i64 * 1_000_000_000_000,
            ticks: (0..SECONDS)
                .map(|at| Tick {
                    at: at as f64,
                    session: 1,
                    process: Some(1),
                    phase: Some("at_tip".into()),
                })
                .collect(),
            signals,
            ..Run::default()
        };
        let slots = SECONDS as i64 * 1_000 / slot_ms;
        recording.points.replay = (0..slots)
            .map(|index| ReplaySlotPoint {
                time_unix_ns: recording.origin_unix_ns + index * slot_ms * 1_000_000,
                slot: Some(number * 100_000 + index as u64),
                total_transactions: Some(1_000),
                total_entries: Some(64),
                total_shreds: Some(900),
                replay_total_elapsed_us: Some((slot_ms * 250 + index % 7 + number as i64) as u64),
                ..ReplaySlotPoint::default()
            })
            .collect();
        recording
    }

    fn report(slot_ms: [i64; 2], compare_rates: bool) -> Report {
        let arms = ["old", "new"].into_iter().zip(slot_ms);
        let recordings: Vec<Run> = arms
            .flat_map(|(arm, slot_ms)| (1..=3).map(move |number| recording(arm, number, slot_ms)))
            .collect();
        let options = Options {
            compare_rates,
            ..Options::default()
        };
        build(recordings, &options)
    }

    /// The cells of the primary metric's only row.
    fn primary(report: &Report) -> Vec<Cell> {
        let blocks = report.sections.iter().flat_map(|section| &section.blocks);
        let mut rows = blocks.filter_map(|block| match block {
            Block::Table(table) if table.id == "primary" => table.rows.first(),
            _ => None,
        });
        rows.next().unwrap().clone()
    }

    #[test]
    fn arms_of_different_slot_times_are_not_compared_by_slot() {
        let report = report([400, 200], false);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("slots of 0.20 s with new and of 0.40 s with old"),
            "{headline}"
        );
        let has_caveat = |text: &str| {
            report
                .caveats
                .iter()
                .any(|caveat| caveat.what.contains(text))
        };
        assert!(has_caveat("A slot took 0.40 s with old, 0.20 s with new."));
        assert!(!format!("{report:?}").contains("runs in each arm, and a spread"));
    }

    #[test]
    fn a_rate_is_the_sum_divided_by_the_time_though_slots_are_skipped() {
        let mut run = recording("old", 1, 400);
        // Four of five slots have a bank; half of these have a transaction.
        let banks = run.points.replay.drain(..).enumerate();
        run.points.replay = banks
            .filter(|(index, _)| index % 5 != 0)
            .map(|(index, point)| ReplaySlotPoint {
                total_transactions: Some(index as u64 % 2),
                program_cache_us: Some(1_000 * (index as u64 % 2)),
                load_us: Some(100),
                ..point
            })
            .collect();
        run.points.cache = run.points.replay.iter().map(batch).collect();
        let mut runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        runs.compare_rates = true;
        let run = &runs.all[0];
        let seconds = runs.compared_part().numbers(run).unwrap().window.seconds();
        for (id, sum) in [
            ("cache-misses", 2_400.0),
            ("cache-time", 120_000.0),
            ("account-load", 24_000.0),
        ] {
            let rate = compared_value(&runs, run_metric(id).unwrap(), run).unwrap();
            assert!(
                (rate * seconds / sum - 1.0).abs() < 0.02,
                "{id}: {rate} for {sum} in {seconds} s"
            );
        }
    }

    #[test]
    fn a_rate_has_neither_gaps_nor_the_time_between_processes() {
        let is_known = |second: usize| !(30..60).contains(&second) && !(70..90).contains(&second);
        let mut run = recording("old", 1, 400);
        let origin = run.origin_unix_ns;
        let second = |time: i64| ((time - origin) / 1_000_000_000) as usize;
        let points = &mut run.points.replay;
        points.retain(|point| is_known(second(point.time_unix_ns)));
        let loads = points.iter_mut().map(|point| &mut point.load_us);
        loads.for_each(|load| *load = Some(100));
        run.points.cache = points.iter().map(batch).collect();
        run.signals[Signal::ReadCacheMisses as usize] = (0..SECONDS)
            .map(|at| is_known(at).then_some(7.0 * at as f64))
            .collect();
        // The daemon misses ticks from 30 s on. The first process ends at 70 s.
        for (at, tick) in run.ticks.iter_mut().enumerate().skip(70) {
            tick.process = is_known(at).then_some(2);
            run.signals[Signal::MinorFaults as usize][at] = tick.process.map(|_| at as f64);
        }
        run.ticks.drain(30..60);
        for column in &mut run.signals {
            column.drain(30..60);
        }
        let mut runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        runs.compare_rates = true;
        for (id, expected) in [
            ("cache-misses", 25.0),
            ("account-load", 250.0),
            ("read-cache-misses", 7.0),
        ] {
            let rate = compared_value(&runs, run_metric(id).unwrap(), &runs.all[0]).unwrap();
            assert!((rate / expected - 1.0).abs() < 0.06, "{id}: {rate}");
        }
    }

    #[test]
    fn a_recording_without_samples_of_the_process_has_rates() {
        let mut run = recording("old", 1, 400);
        run.signals[Signal::MinorFaults as usize].fill(None);
        run.points.cache = run.points.replay.iter().map(batch).collect();
        let mut runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        runs.compare_rates = true;
        let misses = run_metric("cache-misses").unwrap();
        let rate = compared_value(&runs, misses, &runs.all[0]);
        assert!(
            rate.is_some_and(|rate| (rate / 25.0 - 1.0).abs() < 0.02),
            "{rate:?}"
        );
    }

    fn batch(replayed: &ReplaySlotPoint) -> ProgramCachePoint {
        ProgramCachePoint {
            time_unix_ns: replayed.time_unix_ns,
            slot: replayed.slot,
            misses: Some(10),
            ..ProgramCachePoint::default()
        }
    }

    #[test]
    fn without_a_slot_time_a_metric_is_not_said_to_be_missing() {
        let arms = ["old", "new"].into_iter();
        let mut recordings: Vec<Run> = arms
            .flat_map(|arm| (1..=3).map(move |number| recording(arm, number, 400)))
            .collect();
        for run in &mut recordings[3..] {
            run.signals = vec![vec![None; SECONDS]; Signal::ALL.len()];
        }
        let report = report_of(&recordings, true);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("it or the slot time, which --per-second needs, is not known"),
            "{headline}"
        );
        let by_slot = report_of(&recordings, false).verdict.headline;
        assert!(by_slot.contains("equivalent"), "{by_slot}");
    }

    #[test]
    fn a_rate_of_sums_that_was_not_recorded_is_not_said_to_need_the_slot_time() {
        let mut recordings = [("old", 1), ("old", 2), ("new", 3)]
            .map(|(arm, number)| recording(arm, number, 400))
            .to_vec();
        for run in &mut recordings[..2] {
            run.points.cache = run.points.replay.iter().map(batch).collect();
        }
        let options = Options {
            compare_rates: true,
            primary: run_metric("cache-misses").unwrap(),
            ..Options::default()
        };
        let slot_time_metrics = RUN_METRICS.iter().filter(|metric| metric.needs_slot_time());
        assert_eq!(
            slot_time_metrics.map(|metric| metric.id).collect_vec(),
            ["replay-p95", "replay-p50", "replay-p99", "behind-p95"]
        );
        let headline = build(recordings, &options).verdict.headline;
        assert!(
            headline.ends_with("misses per second: it was not recorded in both."),
            "{headline}"
        );
    }

    #[test]
    fn arms_of_different_slot_times_are_compared_by_second() {
        let report = report([400, 200], true);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("equivalent"),
            "a quarter of the time of each: {headline}"
        );
        let row = format!("{:?}", primary(&report));
        assert!(row.contains("25"), "{row}");
        assert!(!format!("{:?}", report.caveats).contains("--per-second"));
    }

    fn report_of(recordings: &[Run], compare_rates: bool) -> Report {
        let options = Options {
            compare_rates,
            ..Options::default()
        };
        build(recordings.to_vec(), &options)
    }

    #[test]
    fn an_arm_with_differing_slot_times_among_runs_is_not_compared() {
        let runs = (1..=3).flat_map(|number| ["old", "new"].map(|arm| recording(arm, number, 400)));
        let mut recordings: Vec<Run> = runs.collect();
        recordings[4] = recording("old", 3, 200);
        let headline = report_of(&recordings, false).verdict.headline;
        assert!(
            headline.contains("slots of 0.40 s with new and of 0.20 to 0.40 s with old"),
            "{headline}"
        );
    }

    #[test]
    fn arms_of_different_consensus_are_not_compared_by_slot_or_transaction() {
        let recordings: Vec<Run> = ["old", "old", "old", "new", "new", "new"]
            .into_iter()
            .zip(1..)
            .map(|(arm, number)| Run {
                consensus: vec![(
                    0.0,
                    if arm == "old" { "tower" } else { "alpenglow" }.to_owned(),
                )],
                ..recording(arm, number, 400)
            })
            .collect();
        let headline = report_of(&recordings, false).verdict.headline;
        assert!(
            headline.contains("alpenglow with new and tower with old"),
            "{headline}"
        );
        let by_second = report_of(&recordings, true);
        assert!(!by_second.verdict.headline.contains("not compared"));
        let blocks = by_second
            .sections
            .iter()
            .flat_map(|section| &section.blocks);
        let refused = blocks
            .filter_map(|block| match block {
                Block::Table(table) if table.id == "other-metrics" => Some(&table.rows),
                _ => None,
            })
            .flatten()
            .filter(|row| format!("{row:?}").contains("not compared"))
            .count();
        assert_eq!(refused, 2, "TPS and its zeros");
    }

    #[test]
    fn the_headline_names_an_arm_without_values_next_to_a_refused_one() {
        let mut recordings: Vec<Run> = [("old", 400), ("new", 200), ("third", 400)]
            .into_iter()
            .flat_map(|(arm, slot_ms)| (1..=3).map(move |number| recording(arm, number, slot_ms)))
            .collect();
        for run in &mut recordings[6..] {
            let points = run.points.replay.iter_mut();
            points.for_each(|point| point.replay_total_elapsed_us = None);
        }
        let headline = report_of(&recordings, false).verdict.headline;
        let is_named = |text| headline.contains(text);
        assert!(is_named("0.20 s with new") && is_named("no values to compare third with old"));
    }

    /// Arms whose three runs have these protocols, each for 40 s.
    fn recordings_of(protocols: [&[&str]; 2]) -> Vec<Run> {
        let mut recordings = Vec::new();
        for (arm, protocols) in ["old", "new"].into_iter().zip(protocols) {
            for number in 1..=3 {
                let spans = (0..).map(|span| f64::from(40 * span)).zip(protocols);
                recordings.push(Run {
                    consensus: spans.map(|(at, name)| (at, (*name).to_owned())).collect(),
                    ..recording(arm, number, 400)
                });
            }
        }
        recordings
    }

    #[test]
    fn a_migrated_arm_is_not_compared_with_an_unmigrated_one() {
        let migrated = ["tower", "migrating", "alpenglow"];
        let report = report_of(&recordings_of([&["tower"], &migrated]), false);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("tower and migrating and alpenglow with new and tower with old"),
            "{headline}"
        );
    }

    #[test]
    fn a_migrated_arm_is_not_compared_with_an_unknown_one() {
        let migrated = ["tower", "migrating", "alpenglow"];
        let report = report_of(&recordings_of([&[], &migrated]), false);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("with new and an unknown consensus with old"),
            "{headline}"
        );
    }

    #[test]
    fn an_unknown_consensus_is_compared_and_named() {
        let has_caveat = |arms: [&[&str]; 2]| {
            let report = report_of(&recordings_of(arms), false);
            assert!(!report.verdict.headline.contains("not compared"));
            let wanted = "The consensus was not known with old, tower with new.";
            report
                .caveats
                .iter()
                .any(|caveat| caveat.what.contains(wanted))
        };
        assert!(has_caveat([&[], &["tower"]]));
        assert!(!has_caveat([&[], &[]]) && !has_caveat([&["tower"], &["tower"]]));
    }

    #[test]
    fn arms_that_both_migrated_are_not_compared() {
        let migrated = ["tower", "migrating", "alpenglow"];
        let report = report_of(&recordings_of([&migrated, &migrated]), false);
        assert!(report.verdict.headline.contains("not compared"));
    }

    #[test]
    fn a_run_with_a_migration_reports_its_consensus_protocols() {
        let migrated = ["tower", "migrating", "alpenglow"];
        let recordings = &recordings_of([&migrated, &[]])[..1];
        let report = report_of(recordings, false);
        let wanted = "tower, migrating after 40 s, alpenglow after 1 min 20 s";
        let caveats = report.caveats.iter().map(|caveat| &caveat.what);
        assert!(
            caveats.clone().any(|what| what.contains(wanted)),
            "{caveats:?}"
        );
        let facts = &report.runs[0].facts;
        assert!(
            facts.contains(&("Consensus".to_owned(), wanted.to_owned())),
            "{facts:?}"
        );
        assert!(
            facts.contains(&("Slot time".to_owned(), "0.40 s".to_owned())),
            "{facts:?}"
        );
    }

    #[test]
    fn an_outlier_is_described_by_its_rate() {
        let mut recordings: Vec<Run> = (1..=8)
            .map(|number| recording("old", number, 400))
            .collect();
        for point in &mut recordings[7].points.replay {
            point.replay_total_elapsed_us = Some(300_000);
        }
        let caveats = format!("{:?}", report_of(&recordings, true).caveats);
        let wanted = "replay time per second, p95 750.0 ms/s where";
        assert!(caveats.contains(wanted), "{caveats}");
    }

    #[test]
    fn arms_with_equal_slot_times_are_compared() {
        let report = report([400, 390], false);
        assert!(!report.verdict.headline.contains("not compared"));
    }
}
