//! Compares arms, such as nodes or encodings, with the first one, the reference.
//!
//! The unit of comparison is the round, in which both arms are requested at nearly the same time.
//! Rounds are correlated, so they are resampled in blocks. A round with a failed request is left
//! out. The intervals of means hold simultaneously for all comparisons of a run.

use crate::results::Results;
use faultline_stats::{
    arms::Interval,
    block_bootstrap::{Estimate, IntervalPlan, Reliability},
    crossover::{Crossover, crossover},
    decision::Decision,
    paired::join,
};
use faultline_text::number;
use itertools::Itertools;
use serde::Serialize;
use std::collections::BTreeMap;

/// Differences are in ms, and positive if the reference is faster.
#[derive(Debug, Serialize)]
pub struct Comparison {
    #[serde(rename = "subject")]
    pub request: String,
    /// Decoded, if known.
    #[serde(rename = "size")]
    pub answer_bytes: Option<u64>,
    pub arm: String,
    pub rounds: usize,
    pub mean: Estimate,
    /// `None` if the reference's mean is not clearly above 0.
    pub ratio: Option<Interval>,
    pub median: Option<Estimate>,
    pub p95: Option<Estimate>,
    /// The p-value of the mean difference, multiplied by the number of comparisons (Bonferroni).
    pub p: Option<f64>,
    pub decision: Decision,
}

pub fn interval_label(comparisons: usize) -> String {
    match comparisons {
        0 | 1 => "95 % interval".to_owned(),
        many => format!("interval (95 % for all {many} comparisons together)"),
    }
}

pub fn comparison_count(results: &Results) -> usize {
    results.requests().len() * results.header.arms.len().saturating_sub(1)
}

pub fn comparisons(results: &Results) -> Vec<Comparison> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let count = comparison_count(results);
    others
        .iter()
        .cartesian_product(results.requests())
        .filter_map(|(arm, request)| compare_arms(results, [reference, arm], request, count))
        .collect()
}

/// `None` with too few rounds.
pub fn compare_arms(
    results: &Results,
    [reference, arm]: [&str; 2],
    (request, answer_bytes): (&str, Option<u64>),
    simultaneous_comparisons: usize,
) -> Option<Comparison> {
    let latencies = |arm| {
        let by_round = results.latencies_by_round(results.case_index(arm, request)?);
        let numbered = (0..).zip(by_round);
        Some(numbered.filter_map(|(round, latency)| Some((round, latency?))))
    };
    let pairs = join(latencies(reference)?, latencies(arm)?);
    let plan = IntervalPlan::default();
    let means = pairs.mean_difference(&plan.for_one_of(simultaneous_comparisons))?;
    let rounds = pairs.reference.len();
    Some(Comparison {
        request: request.to_owned(),
        answer_bytes,
        arm: arm.to_owned(),
        rounds,
        mean: means.difference,
        ratio: means.ratio,
        median: pairs.quantile_difference(0.5, &plan),
        p95: pairs
            .quantile_difference(0.95, &plan)
            .filter(|_| rounds >= 100),
        p: means
            .p
            .map(|p| (p * simultaneous_comparisons.max(1) as f64).min(1.0)),
        decision: means.decision,
    })
}

/// Smallest and largest distance from 0 of an interval that does not contain 0.
pub fn absolute_bounds(interval: [f64; 2], decimals: usize) -> [String; 2] {
    let [a, b] = interval.map(f64::abs);
    [a.min(b), a.max(b)].map(|size| number(size, decimals))
}

pub fn caveat_text(reliability: Reliability) -> &'static str {
    match reliability {
        Reliability::Reliable => "",
        Reliability::TooShort { .. } => {
            "too few independent rounds: the interval may be too narrow"
        }
        Reliability::TooRare => "a few rounds decide the result",
        Reliability::Drifts => "the values drift during the run",
        Reliability::Constant => "all rounds are the same",
    }
}

/// The size from which on the arm is faster than the reference, over one `link_shape` or none.
/// `None` with fewer than two sizes, an unknown size or too few rounds.
pub fn arm_crossover(results: &Results, arm: &str, link_shape: Option<&str>) -> Option<Crossover> {
    let reference = results.header.arms.first()?;
    // By size, request and round.
    let mut sizes: BTreeMap<u64, Vec<Vec<Option<f64>>>> = BTreeMap::new();
    for (request, size) in results.requests_over(link_shape) {
        let [a, b] = [reference, arm].map(|arm| results.case_index(arm, request));
        let differences = results
            .latencies_by_round(a?)
            .into_iter()
            .zip(results.latencies_by_round(b?))
            .map(|(a, b)| Some(b? - a?));
        sizes.entry(size?).or_default().push(differences.collect());
    }
    // By round; `None` if a request has no difference.
    let means = |requests: &Vec<Vec<Option<f64>>>| {
        let mean = |round| {
            let differences = requests.iter().map(|request| request[round]);
            Some(differences.sum::<Option<f64>>()? / requests.len() as f64)
        };
        (0..results.rounds()).map(mean).collect()
    };
    let differences = sizes.values().map(means).collect_vec();
    let sizes = sizes.keys().map(|size| *size as f64).collect_vec();
    crossover(&sizes, &differences, &IntervalPlan::default())
}

#[derive(Serialize)]
pub struct ArmCrossover<'a> {
    pub arm: &'a str,
    #[serde(rename = "link")]
    pub link_shape: Option<&'a str>,
    #[serde(flatten)]
    pub crossover: Crossover,
}

pub fn arm_crossovers(results: &Results) -> Vec<ArmCrossover<'_>> {
    results
        .link_shapes()
        .into_iter()
        .cartesian_product(results.header.arms.iter().skip(1))
        .filter_map(|(link_shape, arm)| {
            Some(ArmCrossover {
                arm,
                link_shape,
                crossover: arm_crossover(results, arm, link_shape)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{FakeCase, results};

    #[test]
    fn interval_p_value_and_decision_agree_for_any_number_of_comparisons() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut both = [0, 0];
        for step in 0..40 {
            let noise: Vec<u64> = (0..400).map(|_| random.u64(0..1_000_000)).collect();
            let (a, b) = (
                |round: u64| 2_000_000 + noise[round as usize],
                |round: u64| 2_000_000 + step * 5_000 + noise[(round as usize + 200) % 400],
            );
            let results = results(200, &[("a", 1, &a), ("b", 1, &b)]);
            for comparisons in [1, 20] {
                let request = ("account of 1", None);
                let one = compare_arms(&results, ["a", "b"], request, comparisons).unwrap();
                let beyond = |low: f64, high: f64, bound: f64| low > bound || high < bound;
                let ratio = one.ratio.unwrap();
                let shown = beyond(one.mean.low, one.mean.high, 0.0);
                assert_eq!(beyond(ratio.low, ratio.high, 1.0), shown, "{one:?}");
                assert_eq!(one.p.unwrap() < 0.05, shown, "{one:?}");
                assert_eq!(one.decision != Decision::Inconclusive, shown, "{one:?}");
                both[usize::from(shown)] += 1;
            }
        }
        assert!(both.iter().all(|count| *count > 10), "{both:?}");
    }

    #[test]
    fn a_known_difference_and_crossover_are_found_without_failed_rounds() {
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u64> = (0..600).map(|_| random.u64(0..3_000_000)).collect();
        let at = |base: u64, case: u64| {
            let noise = &noise;
            move |round: u64| base + noise[((round * 7 + case * 131) % 600) as usize]
        };
        let slow = [at(20_000_000, 0), at(20_000_000, 1), at(20_000_000, 2)];
        let fast = [at(24_000_000, 3), at(21_000_000, 4), at(17_000_000, 5)];
        let cases: [FakeCase<'_>; 6] = [
            ("base64", 1000, &slow[0]),
            ("zstd", 1000, &fast[0]),
            ("base64", 3000, &slow[1]),
            ("zstd", 3000, &fast[1]),
            ("base64", 5000, &slow[2]),
            ("zstd", 5000, &fast[2]),
        ];
        let mut results = results(500, &cases);
        results.samples[6 * 9].result = Err("timeout".to_owned());
        let compared = comparisons(&results);
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
        let found = arm_crossover(&results, "zstd", None).unwrap();
        assert!(
            found.low.unwrap() < 3500.0 && 3500.0 < found.high.unwrap() && found.once > 0.99,
            "{found:?}"
        );
    }

    #[test]
    fn accounts_of_equal_size_form_one_group_without_dropping_any() {
        let noise = |round: u64, case: u64| (round * 7919 + case * 104_729) % 1_000_000;
        let made = |base: u64, case: u64| move |round: u64| base + noise(round, case);
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
        let cases: [FakeCase<'_>; 6] = [
            ("base64", 1000, &slow[0]),
            ("zstd", 1000, &fast[0]),
            ("base64", 1001, &slow[1]),
            ("zstd", 1001, &fast[1]),
            ("base64", 3000, &slow[2]),
            ("zstd", 3000, &fast[2]),
        ];
        let mut results = results(100, &cases);
        results
            .cases
            .iter_mut()
            .filter(|case| case.answer_bytes == Some(1001))
            .for_each(|case| case.answer_bytes = Some(1000));
        let at = arm_crossover(&results, "zstd", None).unwrap().at.unwrap();
        assert!((1900.0..2100.0).contains(&at), "{at}");
        let label = results.short_label("account of 1001", Some(1000));
        assert_eq!(
            (
                label.as_str(),
                results.short_label("x", Some(3000)).as_str()
            ),
            ("1,000 bytes account ", "3,000 bytes")
        );
    }
}
