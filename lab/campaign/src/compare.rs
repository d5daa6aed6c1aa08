//! Compares releases. The runs of one replicate are a pair: release and baseline, one after the
//! other on the same host. Their ratio is compared, so that the host's drift cancels.

use crate::{
    comparability::Comparability,
    store::{Conditions, RunRow, VerdictRow},
    verdict::{PairRatios, Verdict},
};
use faultline_pages::groups::by_key;
use faultline_report::report::{Better, RunMetric, comparability::Difference, releases};
use faultline_stats::{change::Detector, holm, paired::RatioTest, summary::mean};
use itertools::Itertools;
use semver::Version;
use std::cmp::{Ordering, Reverse};

#[derive(Debug, Clone)]
pub struct MetricTest {
    pub metric: &'static RunMetric,
    /// Has no p if the metric is not comparable or no test is possible.
    pub ratio_test: RatioTest,
    /// p, adjusted by Holm over the metrics of the release.
    pub adjusted_p: Option<f64>,
    /// Baseline, release.
    pub means: [f64; 2],
    pub pair_ratios: PairRatios,
    pub verdict: Verdict,
}

/// A version with results, from its runs and those of the baseline next to them.
#[derive(Debug, Clone)]
pub struct Release {
    pub version: String,
    /// The description in the list of versions; `page::shown_groups` fills it in.
    pub name: String,
    pub runs: Vec<RunRow>,
    pub comparability: Comparability,
    /// In the order of [`releases::metrics`], without metrics of fewer than two pairs.
    pub tests: Vec<MetricTest>,
}

impl Release {
    /// The report of the newest run, relative to the page.
    pub fn report_path(&self) -> String {
        self.runs
            .last()
            .map(|run| run.report.clone())
            .unwrap_or_default()
    }

    pub fn test(&self, metric: &RunMetric) -> Option<&MetricTest> {
        self.tests.iter().find(|test| test.metric.id == metric.id)
    }

    pub fn completed_and_all_runs(&self) -> (usize, usize) {
        let own = || self.runs.iter().filter(|run| !run.is_baseline);
        (
            own().filter(|run| run.outcome == "completed").count(),
            own().count(),
        )
    }

    pub fn no_ratio_reason(&self, metric: &RunMetric) -> Option<NoRatioReason> {
        NoRatioReason::of(metric, &self.runs).filter(|_| self.comparability.allows(metric))
    }

    /// Whether the ratios of both releases to the baseline can be compared.
    pub fn is_comparable_with(&self, other: &Self, metric: &RunMetric) -> bool {
        let [own, theirs] = [self, other].map(|release| &release.comparability);
        let is_affected =
            self.has_other_consensus(other) && metric.is_affected_by(Difference::Consensus);
        own.allows(metric) && theirs.allows(metric) && !is_affected
    }

    pub fn has_other_consensus(&self, other: &Self) -> bool {
        let [own, theirs] = [self, other].map(|release| &release.comparability.cluster);
        own.difference(theirs) == Some(Difference::Consensus)
    }
}

/// A change in the history of a metric.
pub struct Shift {
    pub metric: &'static RunMetric,
    pub version: String,
    /// The geometric mean after the change, divided by the mean before it.
    pub ratio: f64,
    pub verdict: Verdict,
}

/// Releases that were measured under the same conditions.
pub struct ReleaseGroup {
    pub conditions: Conditions,
    pub machine: String,
    pub releases: Vec<Release>,
    pub shifts: Vec<Shift>,
}

pub fn release_groups(runs: &[RunRow], margin: f64) -> Vec<ReleaseGroup> {
    let mut groups = by_key(
        runs.iter()
            .map(|run| ((&run.conditions, &run.machine), run)),
    );
    groups.sort_by_key(|(_, runs)| Reverse(runs.iter().map(|run| run.began_unix_ns).max()));
    let groups = groups
        .into_iter()
        .map(|((conditions, machine), group_runs)| {
            let group_runs = group_runs
                .into_iter()
                .map(|run| (&run.version, run.clone()));
            let mut releases = by_key(group_runs)
                .into_iter()
                .map(|(version, own)| release(version.clone(), own, runs, margin))
                .collect_vec();
            releases.sort_by(|a, b| compare_versions(&a.version, &b.version));
            ReleaseGroup {
                conditions: conditions.clone(),
                machine: machine.clone(),
                shifts: shifts(&releases, margin),
                releases,
            }
        });
    groups.collect()
}

/// Texts that are no versions come last.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let [a, b] = [a, b].map(|text| {
        let version = Version::parse(text).ok();
        (version.is_none(), version, text)
    });
    a.cmp(&b)
}

/// `all_runs` has also runs of other conditions and machines.
fn release(version: String, runs: Vec<RunRow>, all_runs: &[RunRow], margin: f64) -> Release {
    let has_round_elsewhere = all_runs.iter().any(|run| {
        runs.iter().all(|own| {
            run.version == version
                && run.conditions == own.conditions
                && run.machine != own.machine
                && !run.is_void()
                && run.round != own.round
        })
    });
    let comparability = Comparability::of(&runs);
    let mut tests = releases::metrics()
        .filter_map(|metric| metric_test(metric, &runs))
        .collect_vec();
    for test in tests
        .iter_mut()
        .filter(|test| !comparability.allows(test.metric))
    {
        test.ratio_test.p = None;
        test.verdict = Verdict::NotComparable;
    }
    let adjusted = holm::adjust(&tests.iter().map(|test| test.ratio_test.p).collect_vec());
    for (test, adjusted_p) in tests.iter_mut().zip(adjusted) {
        test.adjusted_p = adjusted_p;
        if test.verdict != Verdict::NotComparable {
            test.verdict = test
                .pair_ratios
                .verdict(test.metric.better, adjusted_p, margin);
        }
        if test.verdict == Verdict::Unconfirmed && has_round_elsewhere {
            test.verdict = Verdict::OtherMachine;
        }
    }
    Release {
        version,
        name: String::new(),
        runs,
        comparability,
        tests,
    }
}

/// Round, then the values of baseline and release in a pair of usable runs; `None` if not recorded.
type PairValues = (u32, Option<f64>, Option<f64>);

fn pair_values(run_metric: &RunMetric, runs: &[RunRow]) -> Vec<PairValues> {
    let value = |run: &RunRow| {
        run.values
            .iter()
            .find(|(metric, _)| metric == run_metric.id)
            .map(|(_, value)| *value)
    };
    runs.iter()
        .filter(|run| !run.is_baseline && run.is_usable())
        .filter_map(|run| {
            let is_its_pair = |other: &&RunRow| {
                other.is_baseline
                    && other.is_usable()
                    && (other.round, other.replicate) == (run.round, run.replicate)
                    && (&other.kernel, &other.machine) == (&run.kernel, &run.machine)
            };
            Some((run.round, value(runs.iter().find(is_its_pair)?), value(run)))
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoRatioReason {
    /// One side of a pair is 0, the other is larger.
    Zero { always_worse: bool },
    /// The baseline has values in each pair of usable runs, the release in none.
    Missing,
}

impl NoRatioReason {
    /// `None` if each pair that differs has a ratio.
    fn of(run_metric: &RunMetric, runs: &[RunRow]) -> Option<Self> {
        let values = pair_values(run_metric, runs);
        let is_missing = |(_, baseline, own): &PairValues| baseline.is_some() && own.is_none();
        if !values.is_empty() && values.iter().all(is_missing) {
            return Some(Self::Missing);
        }
        let known = values
            .iter()
            .filter_map(|(_, baseline, own)| baseline.zip(*own))
            .collect_vec();
        let has_no_ratio =
            |(baseline, own): &(f64, f64)| baseline != own && (*baseline == 0.0 || *own == 0.0);
        let is_worse = |(baseline, own): &(f64, f64)| match run_metric.better {
            Better::Lower => own > baseline,
            Better::Higher => own < baseline,
            Better::Neither => false,
        };
        known.iter().any(has_no_ratio).then(|| Self::Zero {
            always_worse: known.iter().all(is_worse),
        })
    }

    pub fn is_worse(self) -> bool {
        matches!(self, Self::Missing | Self::Zero { always_worse: true })
    }
}

fn metric_test(metric: &'static RunMetric, runs: &[RunRow]) -> Option<MetricTest> {
    let mut pair_ratios = PairRatios::default();
    let mut baseline_values = Vec::new();
    let mut release_values = Vec::new();
    for (round, baseline, own) in pair_values(metric, runs) {
        let pair = baseline.zip(own);
        if let Some((baseline, own)) = pair.filter(|(baseline, own)| *baseline > 0.0 && *own > 0.0)
        {
            pair_ratios.add(round, (own / baseline).ln());
            baseline_values.push(baseline);
            release_values.push(own);
        }
    }
    Some(MetricTest {
        metric,
        ratio_test: pair_ratios.test()?,
        adjusted_p: None,
        means: [mean(&baseline_values)?, mean(&release_values)?],
        pair_ratios,
        verdict: Verdict::NothingShown,
    })
}

/// A history has only releases that are comparable with the newest one.
fn shifts(releases: &[Release], margin: f64) -> Vec<Shift> {
    let mut shifts = Vec::new();
    let mut detector = Detector::default();
    for metric in releases::metrics() {
        let newest = releases
            .iter()
            .rev()
            .find(|release| release.comparability.allows(metric));
        let history = releases
            .iter()
            .filter(|release| {
                newest.is_some_and(|newest| newest.is_comparable_with(release, metric))
            })
            .filter_map(|release| {
                Some((
                    release,
                    release.test(metric)?.pair_ratios.logarithms.as_slice(),
                ))
            })
            .collect_vec();
        let values = history.iter().map(|(_, values)| *values).collect_vec();
        for change in detector.changes(&values) {
            let ratio = (change.after - change.before).exp();
            let Some((release, _)) = history
                .get(change.first_release_after)
                .filter(|_| (ratio - 1.0).abs() > margin)
            else {
                continue;
            };
            shifts.push(Shift {
                metric,
                version: release.version.clone(),
                ratio,
                verdict: Verdict::direction(metric.better, ratio),
            });
        }
    }
    shifts
}

pub fn verdict_rows(groups: &[ReleaseGroup]) -> Vec<VerdictRow> {
    let mut rows = Vec::new();
    for group in groups {
        for release in &group.releases {
            for test in &release.tests {
                rows.push(VerdictRow {
                    conditions: group.conditions.clone(),
                    machine: group.machine.clone(),
                    version: release.version.clone(),
                    metric: test.metric.id.to_owned(),
                    pairs: test.ratio_test.pairs,
                    ratio: test.ratio_test.ratio.value_and_ends(),
                    p: [test.ratio_test.p, test.adjusted_p],
                    verdict: test.verdict.name().to_owned(),
                });
            }
        }
    }
    rows
}

#[cfg(test)]
pub mod tests;
