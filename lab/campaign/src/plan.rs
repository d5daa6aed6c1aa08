//! `campaign plan`: the versions to run, the duration of a round, and the smallest change that the
//! runs can detect. The change comes from simulated releases.

use crate::{
    compare,
    round::{self, CampaignExperiment},
    settings::Campaign,
    store::{RunRow, Store},
    verdict::{PairRatios, Verdict},
    work,
};
use anyhow::Result;
use fastrand::Rng;
use faultline_experiments::{plan_command::estimate, schedule::schedule};
use faultline_report::report::{Better, RunMetric, releases};
use faultline_stats::summary::mean_and_variance;
use faultline_text::{counted, duration, lines, number, table};
use itertools::Itertools;
use std::{
    f64::consts::{SQRT_2, TAU},
    time::Duration,
};

/// Noise of a run, as a fraction, if nothing was measured.
const ASSUMED_NOISE: [f64; 3] = [0.01, 0.02, 0.05];

pub fn overview(campaign: &Campaign, store: &Store) -> Result<String> {
    let experiments = round::example_experiments(campaign)?;
    let has_search = experiments
        .iter()
        .any(|experiment| experiment.search.is_some());
    let metrics = releases::metrics()
        .filter(|metric| (metric.id == releases::LEAST_RAM) == has_search)
        .collect_vec();
    let rule = MarkingRule {
        pairs: pair_count(&experiments),
        metrics: metrics.len(),
        margin: campaign.margin,
    };
    let mut text = versions_text(campaign, store)?;
    text += &format!(
        "each version: a round of {} of runs, which takes {}; a second round if the first shows a difference\n\n",
        counted(rule.pairs as f64, "pair"),
        duration_text(&experiments)
    );
    text += &format!(
        "The smallest change that is marked in {} of 100 releases (margin {} %, Holm over {}):\n",
        number(100.0 * POWER, 0),
        number(100.0 * rule.margin, 1),
        counted(rule.metrics as f64, "metric")
    );
    text += &detectable_changes(rule, &measured_noise(&store.runs()?, &metrics));
    Ok(text)
}

pub fn versions_text(campaign: &Campaign, store: &Store) -> Result<String> {
    let listed = work::sync_listed_versions(campaign, store)?;
    let under_test = listed
        .iter()
        .filter(|version| !version.removed && !work::is_baseline(campaign, version));
    let mut waiting = Vec::new();
    for version in under_test {
        if version.error.is_some()
            || work::pending_round(campaign, store, version, &listed)?.is_some()
        {
            waiting.push(version.program.version.as_str());
        }
    }
    let waiting = match waiting.as_slice() {
        [] => "none".to_owned(),
        versions => versions.join(", "),
    };
    Ok(format!(
        "{}: against {}; still to run: {waiting}\n{}",
        campaign.name,
        campaign.baseline.version,
        lines(work::duplicate(&listed).as_slice())
    ))
}

fn pair_count(experiments: &[CampaignExperiment]) -> usize {
    match experiments {
        [experiment] if experiment.search.is_none() => experiment.plan.replicates as usize,
        searches => searches.len() / 2,
    }
}

fn duration_text(experiments: &[CampaignExperiment]) -> String {
    let (mut shortest, mut longest) = (0, 0);
    for CampaignExperiment { plan, .. } in experiments {
        let estimate = estimate(plan, schedule(plan).len());
        shortest += estimate.shortest_seconds;
        longest += estimate.longest_seconds;
    }
    let [shortest, longest] =
        [shortest, longest].map(|seconds| duration(Duration::from_secs(seconds)));
    format!("{shortest} to {longest}")
}

fn detectable_changes(rule: MarkingRule, measured_noise: &[(&str, f64)]) -> String {
    let doubled = MarkingRule {
        pairs: 2 * rule.pairs,
        ..rule
    };
    let assumed_noise = ASSUMED_NOISE.map(|noise| ("not measured, assumed", noise));
    let noise = if measured_noise.is_empty() {
        &assumed_noise
    } else {
        measured_noise
    };
    let rows = noise.iter().map(|(name, noise)| {
        let [planned, doubled] = [rule, doubled].map(|rule| match rule.detectable(*noise) {
            Some(change) => format!("{} %", number(100.0 * change, 1)),
            None => "above 100 %".to_owned(),
        });
        vec![
            (*name).to_owned(),
            format!("{} %", number(100.0 * noise, 2)),
            planned,
            doubled,
        ]
    });
    let [planned, doubled] = [rule, doubled].map(|rule| format!("WITH {} PAIRS", rule.pairs));
    table(
        &["METRIC", "NOISE OF A RUN", &planned, &doubled],
        rows.collect(),
    )
}

/// Share of releases in which a detectable change is marked.
pub const POWER: f64 = 0.8;
/// Upper end of the bisection: a metric that is twice the baseline's.
const LARGEST_CHANGE: f64 = 1.0;
const SIMULATED_RELEASES: u32 = 1000;
const BISECTIONS: u32 = 9;

/// What decides whether a change is marked ([`PairRatios::verdict`]).
#[derive(Clone, Copy)]
pub struct MarkingRule {
    pub pairs: usize,
    pub metrics: usize,
    pub margin: f64,
}

impl MarkingRule {
    /// Share of simulated releases that are marked if one metric is larger than the baseline by
    /// `change`, a fraction. `noise` is the standard deviation of a run, also a fraction. This
    /// metric's p is assumed to be the smallest, so Holm multiplies it by the number of metrics.
    pub fn power(&self, change: f64, noise: f64) -> f64 {
        let mut random = Rng::with_seed(1);
        let marked = (0..SIMULATED_RELEASES).filter(|_| {
            let mut ratios = PairRatios::default();
            for round in [1, 2] {
                for _ in 0..self.pairs {
                    let logarithm = change.ln_1p() + SQRT_2 * noise * normal(&mut random);
                    ratios.add(round, logarithm);
                }
            }
            let p = ratios.test().and_then(|test| test.p);
            let adjusted_p = p.map(|p| (p * self.metrics as f64).min(1.0));
            ratios
                .verdict(Better::Lower, adjusted_p, self.margin)
                .is_worse()
        });
        marked.count() as f64 / f64::from(SIMULATED_RELEASES)
    }

    /// The smallest change with at least [`POWER`], as a fraction; `None` above [`LARGEST_CHANGE`].
    pub fn detectable(&self, noise: f64) -> Option<f64> {
        let is_enough = |change| self.power(change, noise) >= POWER;
        if !is_enough(LARGEST_CHANGE) {
            return None;
        }
        let mut low = self.margin;
        let mut high = LARGEST_CHANGE;
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if is_enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

/// (title of the metric, noise of a run): the standard deviation of log ratios around the mean of
/// their release, divided by the square root of two. A ratio has the noise of two runs.
pub fn measured_noise(runs: &[RunRow], metrics: &[&'static RunMetric]) -> Vec<(&'static str, f64)> {
    let groups = compare::release_groups(runs, 0.0);
    let noise = |metric: &&'static RunMetric| {
        let tests = groups
            .iter()
            .flat_map(|group| &group.releases)
            .filter_map(|release| release.test(metric));
        let mut squares = 0.0;
        let mut degrees_of_freedom = 0.0;
        for test in tests.filter(|test| test.verdict != Verdict::NotComparable) {
            let logarithms = &test.pair_ratios.logarithms;
            let (_, variance) = mean_and_variance(logarithms)?;
            let degrees = logarithms.len() as f64 - 1.0;
            squares += variance * degrees;
            degrees_of_freedom += degrees;
        }
        let noise = (squares / degrees_of_freedom).sqrt() / SQRT_2;
        (degrees_of_freedom > 0.0).then_some((metric.title, noise))
    };
    metrics.iter().filter_map(noise).collect()
}

/// Box and Muller 1958.
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::tests::{metric, runs},
        settings::RESULTS,
    };

    const RULE: MarkingRule = MarkingRule {
        pairs: 3,
        metrics: 11,
        margin: 0.05,
    };

    #[test]
    fn marking_power_grows_with_pairs_and_less_noise_without_false_positives() {
        let power = |pairs, noise| MarkingRule { pairs, ..RULE }.power(0.08, noise);
        assert!(power(3, 0.01) > power(3, 0.02) && power(3, 0.02) > power(3, 0.05));
        assert!(power(6, 0.02) > power(3, 0.02));
        assert!(RULE.power(0.0, 0.02) < 0.01);
        let detectable = RULE.detectable(0.02).unwrap();
        assert!(
            (RULE.power(detectable, 0.02) - POWER).abs() < 0.05,
            "{detectable}"
        );
        assert_eq!(RULE.detectable(5.0), None);
        let exact = RULE.detectable(0.0).unwrap();
        assert!(exact < 0.052, "{exact}: without noise the margin decides");
    }

    #[test]
    fn run_noise_is_estimated_from_the_pairs_of_each_release() {
        let all = [runs("1.1.0", 1.0, 2), runs("1.2.0", 1.5, 2)].concat();
        let metrics: Vec<_> = releases::metrics().collect();
        let noise: std::collections::BTreeMap<_, _> =
            measured_noise(&all, &metrics).into_iter().collect();
        let p95 = noise["Replay time per slot, p95"];
        // The pairs scatter by 0.4 %: a step between releases is no noise.
        assert!(p95 > 0.001 && p95 < 0.004, "{p95}");
        assert!(
            !noise.contains_key("Resident memory at the tip"),
            "{noise:?}"
        );
    }

    #[test]
    fn a_plan_that_searches_shows_the_noise_of_its_own_metric_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (campaign, _) = round::tests::search_round(folder.path());
        let mut store = Store::open(&folder.path().join(RESULTS)).unwrap();
        let mut measured = runs("1.1.0", 1.0, 1);
        for (run, gib) in measured.iter_mut().zip(1..) {
            let memory = 300.0 + f64::from(gib);
            run.values.push((releases::LEAST_RAM.to_owned(), memory));
        }
        store.add_runs(&measured).unwrap();
        let text = overview(&campaign, &store).unwrap();
        assert!(text.contains("Holm over 1 metric)"), "{text}");
        assert!(text.contains(metric(releases::LEAST_RAM).title), "{text}");
        assert!(!text.contains("Replay time"), "{text}");
    }

    /// The table of docs/CAMPAIGN.md:
    /// `cargo test -p faultline-campaign --lib -- --ignored --nocapture power`.
    #[test]
    #[ignore = "prints the table of docs/CAMPAIGN.md"]
    fn report_power_of_a_releases_mark() {
        for pairs in [3, 5, 8] {
            for noise in [0.01, 0.02, 0.05] {
                let rule = MarkingRule { pairs, ..RULE };
                let detectable = rule.detectable(noise).map(|change| 100.0 * change);
                let [eight, flat] = [0.08, 0.0].map(|change| 100.0 * rule.power(change, noise));
                println!(
                    "| {pairs} | {:.0} % | {eight:.0} | {flat:.1} | {detectable:.1?} |",
                    100.0 * noise
                );
            }
        }
    }
}
