//! Two runs of the same slots.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may")]

use faultline_stats::{IntervalPlan, block_bootstrap, paired::join};

/// A value for each slot.
type Run = Vec<(u64, f64)>;

/// Two runs under one load: what a slot costs is the load's share, which both see, and a run's own noise; the other run takes
/// `factor` times as long.
fn pair(n: u64, factor: f64, random: &mut fastrand::Rng) -> (Run, Run) {
    let mut load = 0.0;
    let mut noise = |spread: f64| spread * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
    let mut one = |slot| {
        load = 0.95 * load + noise(3.0);
        let cost = 100.0 + load;
        (
            (slot, cost + noise(2.0)),
            (slot, factor * cost + noise(2.0)),
        )
    };
    (0..n).map(&mut one).unzip()
}

#[test]
fn only_slots_present_in_both_runs_are_paired() {
    let pairs = join(
        [(5, 1.0), (1, 2.0), (9, f64::NAN), (7, 3.0)],
        [(7, 4.0), (5, 2.0), (8, 0.0)],
    );
    assert_eq!(
        (pairs.slots.as_slice(), pairs.reference.as_slice()),
        ([5, 7].as_slice(), [1.0, 3.0].as_slice())
    );
    assert_eq!(
        (
            pairs.other.as_slice(),
            pairs.only_reference,
            pairs.only_other
        ),
        ([2.0, 4.0].as_slice(), 1, 1)
    );
}

#[test]
fn pairing_removes_the_loads_variance() {
    let (a, b) = pair(20_000, 0.97, &mut fastrand::Rng::with_seed(1));
    let alone: Vec<Option<f64>> = b.iter().map(|(_, v)| Some(*v)).collect();
    let alone = block_bootstrap::mean(&alone, &IntervalPlan::default()).unwrap();
    let effect = join(a, b).effect(&IntervalPlan::default()).unwrap();
    let paired = effect.mean_difference;
    assert!(
        paired.high - paired.low < (alone.high - alone.low) / 5.0,
        "{paired:?} {alone:?}"
    );
    assert!(paired.high < 0.0, "three in a hundred are seen: {paired:?}");
    let ratio = effect.ratio_of_sums.unwrap();
    assert!(
        ratio.low < 0.97 && 0.97 < ratio.high && ratio.high - ratio.low < 0.003,
        "{ratio:?}"
    );
    assert!(effect.share_lower.value > 0.7, "{:?}", effect.share_lower);
}

#[test]
fn paired_effect_intervals_have_nominal_coverage() {
    const TIMES: usize = 400;
    let factor = 0.97;
    let mut random = fastrand::Rng::with_seed(2);
    let mut covered = [0.0; 4];
    // Of the stationary distribution: all normal, so quantiles are mean + 1.6449 sd.
    let sd = |scale: f64| (scale * scale * 9.0 / (1.0 - 0.95 * 0.95) + 4.0_f64).sqrt();
    let p95 = |scale: f64| 100.0 * scale + 1.644_853_6 * sd(scale);
    let truths = [-3.0, -3.0, factor, p95(factor) - p95(1.0)];
    for seed in 0..TIMES as u64 {
        let (a, b) = pair(20_000, factor, &mut random);
        let pairs = join(a, b);
        let plan = IntervalPlan {
            resamples: 1000,
            seed,
            ..IntervalPlan::default()
        };
        let effect = pairs.effect(&plan).unwrap();
        let found = [
            effect.mean_difference,
            effect.median_difference,
            effect.ratio_of_sums.unwrap(),
            pairs.quantile_difference(0.95, &plan).unwrap(),
        ];
        for ((covered, found), truth) in covered.iter_mut().zip(found).zip(truths) {
            *covered += if found.low <= truth && truth <= found.high {
                1.0 / TIMES as f64
            } else {
                0.0
            };
        }
    }
    // The standard error of a coverage of 95 % is 1.1 % with so few replications.
    assert!(
        covered.iter().all(|c| (0.92..=0.98).contains(c)),
        "mean, median, ratio, p95: {covered:?}"
    );
}

#[test]
fn runs_that_share_no_slot_have_no_effect() {
    let pairs = join([(1, 1.0), (2, 2.0)], [(3, 1.0), (4, 2.0)]);
    assert_eq!(pairs.effect(&IntervalPlan::default()), None);
    assert_eq!(
        pairs.quantile_difference(0.95, &IntervalPlan::default()),
        None
    );
}

#[test]
fn several_pairs_together_have_the_interval_of_student_s_t() {
    use faultline_stats::paired::mean_over_pairs;
    // t of 0.975 with 2 degrees of freedom is 4.302653 (any table); the mean is 2, its standard error 1 / sqrt(3).
    let together = mean_over_pairs(&[1.0, 2.0, 3.0, f64::NAN], 0.95).unwrap();
    assert!((together.value - 2.0).abs() < 1e-12);
    assert!(
        (together.high - 2.0 - 4.302_653 / 3.0_f64.sqrt()).abs() < 1e-5,
        "{together:?}"
    );
    assert_eq!(mean_over_pairs(&[1.0], 0.95), None);
}
