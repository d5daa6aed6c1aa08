//! What the difference between an arm and the reference is worth: an interval first, then a test.
//!
//! The unit is the round, in which both were asked at nearly the same time. Rounds that follow one another depend on one another,
//! and are resampled in blocks. A round of which one request failed is left out.

use crate::results::Results;
use faultline_stats::block::{self, Estimate, Method, Plan};
use faultline_stats::crossover::{Crossover, crossover};
use faultline_stats::paired::{Pairs, join};
use serde::Serialize;
use std::collections::BTreeMap;

/// An arm against the reference on one subject: latencies in milliseconds, positive where the reference is faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Compared {
    /// The subject's name.
    pub(crate) subject: String,
    /// Its decoded bytes, if known.
    pub(crate) size: Option<u64>,
    /// The arm that is compared with the reference.
    pub(crate) arm: String,
    /// Rounds in which both were answered.
    pub(crate) rounds: usize,
    /// Difference of means.
    pub(crate) mean: Estimate,
    /// Difference of medians.
    pub(crate) median: Option<Estimate>,
    /// Difference of 95th percentiles.
    pub(crate) p95: Option<Estimate>,
    /// Of the hypothesis that the means are equal.
    pub(crate) p: Option<f64>,
}

/// The least p-value of a family of comparisons must be able to be this after it was multiplied by their number.
const WANTED: f64 = 0.025;

/// How the intervals are made.
pub(crate) fn plan() -> Plan {
    Plan::default()
}

/// All arms against the first, subject by subject.
pub(crate) fn compared(results: &Results) -> Vec<Compared> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for arm in others {
        for (subject, size) in results.subjects() {
            all.extend(one(results, (reference, arm), (subject, size), 1));
        }
    }
    all
}

/// An arm against another on one subject, as one of so many comparisons whose p-values are adjusted together.
pub(crate) fn one(
    results: &Results,
    (reference, arm): (&str, &str),
    (subject, size): (&str, Option<u64>),
    family: usize,
) -> Option<Compared> {
    let pairs = pairs(
        results,
        results.cell(reference, subject)?,
        results.cell(arm, subject)?,
    );
    let differences: Vec<Option<f64>> = pairs
        .reference
        .iter()
        .zip(&pairs.other)
        .map(|(a, b)| Some(b - a))
        .collect();
    let plan = plan();
    Some(Compared {
        subject: subject.to_owned(),
        size,
        arm: arm.to_owned(),
        rounds: differences.len(),
        mean: block::mean(&differences, &plan)?,
        median: pairs.quantile_difference(0.5, &plan),
        p95: pairs
            .quantile_difference(0.95, &plan)
            .filter(|_| differences.len() >= 100),
        p: p_of_zero(&differences, &plan, family),
    })
}

/// The p-value of the hypothesis that the mean is 0: one minus the highest level at which the interval of blocks of rounds leaves 0
/// out. Not below ten over the number of resamples, where their tails end: a large family needs more of them to show anything. `None` of fewer than two values, or if all are the same.
fn p_of_zero(values: &[Option<f64>], plan: &Plan, family: usize) -> Option<f64> {
    let with = |p: f64, resamples: usize| {
        let estimate = block::mean(
            values,
            &Plan {
                level: 1.0 - p,
                resamples,
                ..*plan
            },
        )?;
        (estimate.method != Method::None).then_some(estimate.low > 0.0 || estimate.high < 0.0)
    };
    let leaves_out = |p: f64| with(p, plan.resamples);
    let least = 10.0 / plan.resamples.max(1000) as f64;
    if leaves_out(least)? {
        let of_family = WANTED / family.max(1) as f64;
        let shown = of_family < least && with(of_family, (10.0 / of_family).ceil() as usize)?;
        return Some(if shown { of_family } else { least });
    }
    // The interval of a higher level holds those of lower ones, so there is one level at which 0 gets out.
    let (mut inside, mut outside) = (least, 1.0);
    while outside / inside > 1.02 {
        let middle = f64::sqrt(inside * outside);
        if leaves_out(middle)? {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    Some(outside)
}

fn pairs(results: &Results, reference: usize, other: usize) -> Pairs {
    let numbered = |cell| {
        let latencies = results.by_round(cell).into_iter().enumerate();
        latencies.filter_map(|(round, latency)| Some((round as u64, latency?)))
    };
    join(numbered(reference), numbered(other))
}

/// From which size on an arm is faster than the reference over that link; `None` of fewer than two sizes or too few rounds.
pub(crate) fn crossing(results: &Results, arm: &str, link: Option<&str>) -> Option<Crossover> {
    let reference = results.header.arms.first()?;
    let mut sizes: BTreeMap<u64, Vec<Vec<Option<f64>>>> = BTreeMap::new();
    for (subject, size) in results.subjects_over(link) {
        let (a, b) = (
            results.cell(reference, subject)?,
            results.cell(arm, subject)?,
        );
        let both = results.by_round(a).into_iter().zip(results.by_round(b));
        sizes
            .entry(size?)
            .or_default()
            .push(both.map(|(a, b)| Some(b? - a?)).collect());
    }
    let differences: Vec<Vec<Option<f64>>> =
        sizes.values().map(|accounts| means(accounts)).collect();
    let sizes: Vec<f64> = sizes.keys().map(|size| *size as f64).collect();
    crossover(&sizes, &differences, &plan())
}

/// The mean difference of accounts of one size, round by round, where all have one.
fn means(accounts: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    let rounds = accounts.iter().map(Vec::len).max().unwrap_or(0);
    let at = |round: usize| {
        accounts
            .iter()
            .map(|series| series.get(round).copied().flatten())
            .sum::<Option<f64>>()
    };
    (0..rounds)
        .map(|round| at(round).map(|sum| sum / accounts.len() as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{Pretended, results};

    #[test]
    fn the_test_agrees_with_the_interval() {
        let mut random = fastrand::Rng::with_seed(4);
        let noise: Vec<f64> = (0..400).map(|_| random.f64() - 0.5).collect();
        let shifted = |by: f64| {
            noise
                .iter()
                .map(|value| Some(value + by))
                .collect::<Vec<_>>()
        };
        let mean = noise.iter().sum::<f64>() / 400.0;
        assert!(p_of_zero(&shifted(-mean), &plan(), 1).unwrap() > 0.9);
        assert!(p_of_zero(&shifted(0.2), &plan(), 1).unwrap() <= 0.001);
        for by in [0.01, 0.02, 0.03, 0.04] {
            let values = shifted(by - mean);
            let interval = block::mean(&values, &plan()).unwrap();
            let p = p_of_zero(&values, &plan(), 1).unwrap();
            assert_eq!(p < 0.05, interval.low > 0.0, "{p} {interval:?}");
        }
        assert_eq!(p_of_zero(&[Some(1.0); 50], &plan(), 1), None);
    }

    #[test]
    fn a_known_difference_and_crossover_are_found_and_failed_rounds_left_out() {
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u64> = (0..600).map(|_| random.u64(0..3_000_000)).collect();
        let at = |base: u64, cell: u64| {
            let noise = &noise;
            move |round: u64| base + noise[((round * 7 + cell * 131) % 600) as usize]
        };
        let slow = [at(20_000_000, 0), at(20_000_000, 1), at(20_000_000, 2)];
        let fast = [at(24_000_000, 3), at(21_000_000, 4), at(17_000_000, 5)];
        let cells: [Pretended<'_>; 6] = [
            ("base64", 1000, &slow[0]),
            ("zstd", 1000, &fast[0]),
            ("base64", 3000, &slow[1]),
            ("zstd", 3000, &fast[1]),
            ("base64", 5000, &slow[2]),
            ("zstd", 5000, &fast[2]),
        ];
        let mut results = results(500, &cells);
        results.samples[6 * 9].phases = None;
        let compared = compared(&results);
        assert_eq!(
            compared.iter().map(|one| one.rounds).collect::<Vec<_>>(),
            [499, 500, 500]
        );
        for (one, is) in compared.iter().zip([4.0, 1.0, -3.0]) {
            assert!(
                one.mean.low < is && is < one.mean.high && one.p.unwrap() <= 0.001,
                "{one:?}"
            );
        }
        let found = crossing(&results, "zstd", None).unwrap();
        assert!(
            found.low.unwrap() < 3500.0 && 3500.0 < found.high.unwrap() && found.once > 0.99,
            "{found:?}"
        );
    }

    #[test]
    fn accounts_of_one_size_are_one_size_and_none_is_dropped() {
        let noise = |round: u64, cell: u64| (round * 7919 + cell * 104_729) % 1_000_000;
        let made = |base: u64, cell: u64| move |round: u64| base + noise(round, cell);
        let slow = [
            made(20_000_000, 0),
            made(20_000_000, 1),
            made(20_000_000, 2),
        ];
        // Two accounts of 1,000 bytes: one is 8 ms slower, the other 2 ms faster; 3 ms together.
        let fast = [
            made(28_000_000, 3),
            made(18_000_000, 4),
            made(17_000_000, 5),
        ];
        let cells: [Pretended<'_>; 6] = [
            ("base64", 1000, &slow[0]),
            ("zstd", 1000, &fast[0]),
            ("base64", 1001, &slow[1]),
            ("zstd", 1001, &fast[1]),
            ("base64", 3000, &slow[2]),
            ("zstd", 3000, &fast[2]),
        ];
        let mut results = results(100, &cells);
        results
            .cells
            .iter_mut()
            .filter(|cell| cell.size == Some(1001))
            .for_each(|cell| cell.size = Some(1000));
        let at = crossing(&results, "zstd", None).unwrap().at.unwrap();
        assert!((1900.0..2100.0).contains(&at), "{at}");
        let label = results.label("account of 1001", Some(1000));
        assert_eq!(
            (label.as_str(), results.label("x", Some(3000)).as_str()),
            ("1,000 bytes account ", "3,000 bytes")
        );
    }
}
