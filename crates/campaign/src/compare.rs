//! What differs between releases, and how sure that is.
//!
//! The runs of one replicate are a pair: release and baseline, one after the other on the same host. What is compared is their
//! ratio, so that what drifts with the host cancels. `mark` decides what a ratio shows.

use crate::mark::{Mark, Rounds};
use crate::store::{Conditions, RunRow, VerdictRow};
use faultline_analysis::report::{Better, Scalar, releases};
use faultline_stats::change::Detector;
use faultline_stats::holm;
use faultline_stats::paired::RatioTest;
use semver::Version;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A metric of a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    /// The ratio with interval and p.
    pub(crate) test: RatioTest,
    /// Adjusted over the metrics of the release.
    pub(crate) holm: Option<f64>,
    /// Mean over the baseline's runs, and over the release's.
    pub(crate) means: [f64; 2],
    /// Of each pair, by round.
    pub(crate) rounds: Rounds,
    /// What the pairs show.
    pub(crate) mark: Mark,
}

/// A release with its runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// What it is, for people; may be empty.
    pub(crate) name: String,
    /// In the order in which they were added, those of the baseline too.
    pub(crate) runs: Vec<RunRow>,
    /// One for each of [`releases::metrics`]; `None` if there are no two pairs.
    pub(crate) judged: Vec<Option<Judged>>,
}

impl Release {
    /// How many of its own runs ran their whole time, of how many.
    pub(crate) fn completed(&self) -> (usize, usize) {
        let own = || self.runs.iter().filter(|run| !run.of_baseline);
        (
            own().filter(|run| run.outcome == "completed").count(),
            own().count(),
        )
    }
}

/// At a release a metric changes against the releases before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shift {
    /// Which metric, by its place.
    pub(crate) metric: usize,
    /// The first release after the change.
    pub(crate) version: String,
    /// Mean ratio after it by that before it.
    pub(crate) ratio: f64,
    pub(crate) mark: Mark,
}

/// Releases that may be compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) conditions: Conditions,
    pub(crate) machine: String,
    pub(crate) releases: Vec<Release>,
    pub(crate) shifts: Vec<Shift>,
}

/// Runs by what may be compared, the newest group first.
pub(crate) fn groups(runs: &[RunRow], margin: f64) -> Vec<Group> {
    let mut groups: Vec<(Conditions, String, BTreeMap<String, Vec<RunRow>>)> = Vec::new();
    for run in runs {
        let same =
            |group: &(Conditions, String, _)| group.0 == run.conditions && group.1 == run.machine;
        let index = groups.iter().position(same).unwrap_or_else(|| {
            groups.push((run.conditions.clone(), run.machine.clone(), BTreeMap::new()));
            groups.len() - 1
        });
        groups[index]
            .2
            .entry(run.release.clone())
            .or_default()
            .push(run.clone());
    }
    let newest = |runs: &BTreeMap<String, Vec<RunRow>>| {
        runs.values().flatten().map(|run| run.began_unix_ns).max()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(newest(&group.2)));
    let group =
        |(conditions, machine, by_release): (Conditions, String, BTreeMap<String, Vec<RunRow>>)| {
            let mut releases: Vec<Release> = by_release
                .into_iter()
                .map(|(version, runs)| release(version, runs, margin))
                .collect();
            releases.sort_by(|a, b| by_version(&a.version, &b.version));
            let shifts = shifts(&releases, margin);
            Group {
                conditions,
                machine,
                releases,
                shifts,
            }
        };
    groups.into_iter().map(group).collect()
}

/// Versions in their order; what is none comes after those that are.
pub(crate) fn by_version(a: &str, b: &str) -> Ordering {
    match (Version::parse(a), Version::parse(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

fn release(version: String, runs: Vec<RunRow>, margin: f64) -> Release {
    let mut judged: Vec<Option<Judged>> = releases::metrics()
        .map(|scalar| judged(scalar, &runs))
        .collect();
    let adjusted = holm::adjust(
        &judged
            .iter()
            .map(|one| one.as_ref()?.test.p)
            .collect::<Vec<_>>(),
    );
    for ((one, holm), scalar) in judged.iter_mut().zip(adjusted).zip(releases::metrics()) {
        if let Some(one) = one {
            one.holm = holm;
            one.mark = one.rounds.mark(scalar.better, holm, margin);
        }
    }
    Release {
        version,
        name: String::new(),
        runs,
        judged,
    }
}

/// A value of the baseline and one of the release, of one pair; `None` where it was not recorded.
type PairValues = (u32, Option<f64>, Option<f64>);

/// The values of all pairs, by round.
fn pair_values(scalar: &Scalar, runs: &[RunRow]) -> Vec<PairValues> {
    let value = |run: &RunRow| {
        let known = run.values.iter().find(|(metric, _)| metric == scalar.id);
        known.map(|(_, value)| *value)
    };
    let own = runs.iter().filter(|run| !run.of_baseline);
    own.filter_map(|run| {
        let alike = |one: &&RunRow| {
            one.of_baseline
                && (one.round, one.replicate) == (run.round, run.replicate)
                && (&one.kernel, &one.machine) == (&run.kernel, &run.machine)
        };
        Some((run.round, value(runs.iter().find(alike)?), value(run)))
    })
    .collect()
}

/// The pairs of which there is a ratio: round, value of the baseline, value of the release.
fn pairs(scalar: &Scalar, runs: &[RunRow]) -> Vec<(u32, f64, f64)> {
    let both = |(round, baseline, own): PairValues| {
        let is_positive = |value: &f64| *value > 0.0;
        Some((
            round,
            baseline.filter(is_positive)?,
            own.filter(is_positive)?,
        ))
    };
    pair_values(scalar, runs)
        .into_iter()
        .filter_map(both)
        .collect()
}

/// Why pairs of a metric have no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutRatio {
    /// A run of one side had 0 where the other had more.
    Zero {
        /// Whether the release is worse in every pair.
        worse: bool,
    },
    /// The baseline has values in each pair, and the release in none.
    Missing,
}

impl WithoutRatio {
    /// `None` where each pair that differs has a ratio.
    pub(crate) fn of(scalar: &Scalar, runs: &[RunRow]) -> Option<Self> {
        let values = pair_values(scalar, runs);
        let has_run = runs.iter().any(|run| !run.of_baseline && run.is_whole());
        let is_missing = |(_, baseline, own): &PairValues| baseline.is_some() && own.is_none();
        if has_run && !values.is_empty() && values.iter().all(is_missing) {
            return Some(WithoutRatio::Missing);
        }
        let known: Vec<(f64, f64)> = values
            .iter()
            .filter_map(|(_, baseline, own)| Some(((*baseline)?, (*own)?)))
            .collect();
        let differs =
            |(baseline, own): &(f64, f64)| baseline != own && (*baseline == 0.0 || *own == 0.0);
        let is_worse = |(baseline, own): &(f64, f64)| match scalar.better {
            Better::Lower => own > baseline,
            Better::Higher => own < baseline,
            Better::Neither => false,
        };
        known.iter().any(differs).then(|| WithoutRatio::Zero {
            worse: known.iter().all(is_worse),
        })
    }

    /// Whether the release cannot pass.
    pub(crate) fn is_worse(self) -> bool {
        matches!(
            self,
            WithoutRatio::Missing | WithoutRatio::Zero { worse: true }
        )
    }
}

fn judged(scalar: &Scalar, runs: &[RunRow]) -> Option<Judged> {
    let pairs = pairs(scalar, runs);
    let mut rounds = Rounds::default();
    for (round, baseline, own) in &pairs {
        rounds.add(*round, (own / baseline).ln());
    }
    let mean =
        |of: fn(&(u32, f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    Some(Judged {
        test: rounds.test()?,
        holm: None,
        means: [mean(|pair| pair.1), mean(|pair| pair.2)],
        rounds,
        mark: Mark::Nothing,
    })
}

/// Changes over the log ratios of the releases, beyond the margin.
fn shifts(all: &[Release], margin: f64) -> Vec<Shift> {
    let (mut shifts, mut detector) = (Vec::new(), Detector::default());
    for (metric, scalar) in releases::metrics().enumerate() {
        let known: Vec<(&Release, &[f64])> = all
            .iter()
            .filter_map(|release| {
                Some((release, release.judged.get(metric)?.as_ref()?.rounds.all()))
            })
            .collect();
        let values: Vec<&[f64]> = known.iter().map(|(_, values)| *values).collect();
        for found in detector.changes(&values) {
            let ratio = (found.after - found.before).exp();
            let Some((release, _)) = known.get(found.at).filter(|_| (ratio - 1.0).abs() > margin)
            else {
                continue;
            };
            shifts.push(Shift {
                metric,
                version: release.version.clone(),
                ratio,
                mark: Mark::of(scalar.better, ratio),
            });
        }
    }
    shifts
}

/// What is said of every release and metric, as rows of the database.
pub(crate) fn rows(groups: &[Group]) -> Vec<VerdictRow> {
    let mut rows = Vec::new();
    for group in groups {
        for release in &group.releases {
            for (scalar, one) in releases::metrics().zip(&release.judged) {
                let Some(one) = one else { continue };
                let ratio = one.test.ratio;
                rows.push(VerdictRow {
                    conditions: group.conditions.clone(),
                    machine: group.machine.clone(),
                    release: release.version.clone(),
                    metric: scalar.id.to_owned(),
                    pairs: one.test.pairs,
                    ratio: [ratio.value, ratio.low, ratio.high],
                    p: [one.test.p, one.holm],
                    verdict: one.mark.verdict().to_owned(),
                });
            }
        }
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests;
