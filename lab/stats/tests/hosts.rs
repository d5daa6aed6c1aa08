//! Arms on several hosts, by simulation: compared within blocks, a difference of hosts is none of arms, and hides none.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

#[path = "common/random.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod random;

use faultline_stats::{
    arms::{Comparison, Conclusion, compare},
    hosts,
};
use random::Random;

const TIMES: usize = 6000;
const BLOCKS: usize = 3;
/// Standard deviation of the logarithm of a run.
const OF_RUNS: f64 = 0.02;
const EFFECT: f64 = 1.08;

/// A run of each arm in every block, and each block on a host of its own.
fn blocks(random: &mut Random, effect: f64, of_hosts: f64) -> Vec<(f64, f64)> {
    let block = |_| {
        let host = of_hosts * random.normal();
        let mut run = |effect: f64| effect * (host + OF_RUNS * random.normal()).exp();
        (run(1.0), run(effect))
    };
    (0..BLOCKS).map(block).collect()
}

fn by_welch(blocks: &[(f64, f64)]) -> Comparison {
    let (a, b): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    compare(&a, &b, 0.05)
}

fn within_blocks(blocks: &[(f64, f64)]) -> Comparison {
    hosts::compare(blocks, 0.05)
}

/// Percent of comparisons that `shown` finds a difference in.
fn percent(mut is_shown: impl FnMut() -> bool) -> f64 {
    let shown = (0..TIMES).filter(|_| is_shown()).count();
    100.0 * shown as f64 / TIMES as f64
}

fn differs(comparison: &Comparison) -> bool {
    comparison.difference_p.is_some_and(|p| p <= 0.05)
}

/// Percent found of the effect, and percent of differences between equal arms.
fn found_and_false(of_hosts: f64, by: fn(&[(f64, f64)]) -> Comparison) -> [f64; 2] {
    let mut random = Random::new(33);
    [EFFECT, 1.0].map(|effect| percent(|| differs(&by(&blocks(&mut random, effect, of_hosts)))))
}

/// The standard error of a share is at most 0.65 %.
#[test]
fn a_difference_of_hosts_hides_an_effect_from_welch_and_not_within_blocks() {
    for (of_hosts, welch, paired) in [
        (0.0, [86.0, 3.5], [69.0, 5.0]),
        (0.03, [46.0, 1.0], [70.0, 5.0]),
        (0.1, [7.0, 0.1], [70.0, 5.0]),
    ] {
        for (name, by, expected) in [
            ("Welch", by_welch as fn(&[(f64, f64)]) -> Comparison, welch),
            ("within blocks", within_blocks, paired),
        ] {
            let found = found_and_false(of_hosts, by);
            println!("hosts {of_hosts}, {name}: {found:.1?}");
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 4.0,
                    "{of_hosts}, {name}: {found}"
                );
            }
        }
    }
}

/// Why a report refuses to compare such arms.
#[test]
fn equal_arms_on_different_hosts_differ_by_welch() {
    for (of_hosts, expected) in [(0.03, 32.0), (0.1, 73.0)] {
        let mut random = Random::new(33);
        let mut arm = || {
            let host = of_hosts * random.normal();
            [(); BLOCKS].map(|()| (host + OF_RUNS * random.normal()).exp())
        };
        let wrong = percent(|| differs(&compare(&arm(), &arm(), 0.05)));
        println!("arms on different hosts only, hosts {of_hosts}: {wrong:.1}");
        assert!((wrong - expected).abs() < 5.0, "{of_hosts}: {wrong}");
    }
}

#[test]
fn the_interval_of_the_ratio_of_hosts_has_nominal_coverage() {
    let mut random = Random::new(33);
    let covers = percent(|| {
        let blocks = blocks(&mut random, EFFECT, 0.0);
        let [first, second, _] = *blocks.as_slice() else {
            return false;
        };
        let found = hosts::host_ratio(&[first.0], &[second.0], &blocks).unwrap();
        found.low <= 1.0 && 1.0 <= found.high
    });
    println!("the ratio of hosts covers {covers:.1}");
    assert!((92.0..=98.0).contains(&covers), "{covers}");
}

#[test]
fn a_metric_that_is_0_is_compared_by_its_differences() {
    let blocks = [(5.0, 0.0), (6.0, 0.0), (5.5, 0.0)];
    let found = within_blocks(&blocks);
    assert!(matches!(found.conclusion, Conclusion::Differs { .. }));
    assert_eq!((found.ratio, found.equivalence_p), (None, None));
    assert_eq!(hosts::host_ratio(&[0.0], &[1.0], &blocks), None);
}

#[test]
fn blocks_of_equal_ratios_or_few_are_not_tested() {
    let untested = Conclusion::Inconclusive {
        p: None,
        equivalence_p: None,
    };
    let equal = within_blocks(&[(4.0, 6.0), (8.0, 12.0), (2.0, 3.0)]);
    // Their ratios differ by rounding.
    let tenths = [(1.0, 1.1), (2.0, 2.2), (3.0, 3.3)];
    let shifted = [(0.0, 0.1), (0.2, 0.3), (0.7, 0.8)];
    for found in [within_blocks(&tenths), within_blocks(&shifted), equal] {
        assert_eq!(found.conclusion, untested);
        assert_eq!((found.ratio, found.runs_needed), (None, None));
    }
    assert_eq!(within_blocks(&shifted).difference, None);
    assert_eq!(hosts::host_ratio(&[1.0], &[2.0], &tenths), None);
    let lost = within_blocks(&[(4.0, 6.0), (8.0, 13.0), (2.0, f64::NAN)]);
    let too_few = Conclusion::TwoRuns;
    assert_eq!((lost.conclusion, lost.runs_needed), (too_few, Some(11)));
    assert_eq!(within_blocks(&[]).conclusion, Conclusion::NoValues);
}

/// Student's distribution with three degrees of freedom has a closed form.
#[test]
fn the_tests_of_blocks_are_students() {
    let blocks = [(100.0, 101.0), (200.0, 203.0), (50.0, 50.1), (80.0, 80.5)];
    let found = within_blocks(&blocks);
    let p = [found.difference_p, found.equivalence_p];
    for (p, expected) in p.into_iter().zip([0.056_916_519_1, 0.000_335_529_7]) {
        assert!((p.unwrap() - expected).abs() < 1e-9, "{p:?}");
    }
}
