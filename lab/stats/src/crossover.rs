//! Crossover: the response size from which the other arm is better than the reference, with an
//! interval.
//!
//! A round measures both arms at every size. The values are differences between the arms: positive
//! where the reference is better. They are interpolated linearly between neighboring sizes.
//! Successive rounds form blocks. The ends of the interval are quantiles of the crossovers of many
//! random halves of the blocks. All sizes use the same halves, because a disturbance in a round
//! affects all sizes.

use crate::{
    arms::Direction,
    block_bootstrap::{self, HalfMeans, IntervalPlan, RandomHalves, drift_threshold_in_sds},
    decision::Decision,
    summary::ascending,
};
use itertools::Itertools;
use serde::Serialize;

#[derive(Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// Where the mean difference over all rounds changes from positive to negative. `None` without
    /// exactly one such change, or with an opposite change.
    pub at: Option<f64>,
    /// `None` if the end is below the smallest size, or with too few blocks. Halves in which the
    /// other arm is better at every size count as below it. Halves whose sign changes otherwise
    /// (`Crossing::Unclear`) count as beyond both ends.
    pub low: Option<f64>,
    /// `None` if the end is above the largest size, or with too few blocks. Halves in which the
    /// reference is better at every size count as above it.
    pub high: Option<f64>,
    pub level: f64,
    /// Share of halves with exactly one change from positive to negative.
    pub once: f64,
    /// Share of halves in which the reference is better at every size.
    pub never: f64,
    /// Share of halves in which the other arm is better at every size.
    pub always: f64,
    /// Independent blocks of rounds; with fewer than [`MIN_CROSSOVER_BLOCKS`] there is no interval.
    pub blocks: usize,
    pub smallest: Decision,
    pub largest: Decision,
}

pub const MIN_CROSSOVER_BLOCKS: usize = 12;

#[derive(PartialEq)]
enum Crossing {
    AtSize(f64),
    ReferenceBetter,
    OtherBetter,
    Unclear,
}

/// `sizes` ascend. `differences` has a series for each size, with one value per round. Rounds
/// without a finite value at every size are left out. `None` with fewer than two sizes or 20
/// complete rounds, or a level that is not between 0 and 1.
pub fn crossover(
    sizes: &[f64],
    differences: &[Vec<Option<f64>>],
    plan: &IntervalPlan,
) -> Option<Crossover> {
    let series_by_size = series_of_complete_rounds(sizes.len(), differences);
    let round_count = series_by_size.first().map_or(0, Vec::len);
    if sizes.len() < 2
        || differences.len() != sizes.len()
        || round_count < 20
        || !(0.0..1.0).contains(&plan.level)
    {
        return None;
    }
    let block_length = block_bootstrap::block_length(series_by_size.iter().map(Vec::as_slice));
    let halves = RandomHalves::new(round_count, block_length, plan);
    let means_of_size =
        |series: &Vec<f64>| HalfMeans::of(series, &halves, drift_threshold_in_sds(series), plan);
    let half_means: Vec<HalfMeans> = series_by_size
        .iter()
        .map(means_of_size)
        .collect::<Option<_>>()?;
    let means = half_means
        .iter()
        .map(|size| size.estimate.value)
        .collect_vec();
    let at = match crossing(sizes, &means) {
        Crossing::AtSize(size) => Some(size),
        _ => None,
    };
    let blocks = round_count / block_length.min(round_count);
    let has_enough_blocks = blocks >= MIN_CROSSOVER_BLOCKS;
    let crossings = crossings_of_halves(sizes, &half_means);
    let interval_end =
        |p, unclear| interval_end(&crossings, p, unclear).filter(|_| has_enough_blocks);
    let share = |matches: &dyn Fn(&Crossing) -> bool| {
        crossings
            .iter()
            .filter(|crossing| matches(crossing))
            .count() as f64
            / crossings.len() as f64
    };
    let tail = (1.0 - plan.level) / 2.0;
    let decision = |size: &HalfMeans| size.estimate.decision(0.0..=0.0);
    Some(Crossover {
        at,
        low: interval_end(tail, f64::NEG_INFINITY),
        high: interval_end(1.0 - tail, f64::INFINITY),
        level: plan.level,
        once: share(&|crossing| matches!(crossing, Crossing::AtSize(_))),
        never: share(&|crossing| *crossing == Crossing::ReferenceBetter),
        always: share(&|crossing| *crossing == Crossing::OtherBetter),
        blocks,
        smallest: half_means.first().map(decision)?,
        largest: half_means.last().map(decision)?,
    })
}

impl Crossover {
    /// The reference is better at the smallest size and the other arm at the largest, with one
    /// change in between.
    pub fn is_established(&self) -> bool {
        self.at.is_some()
            && self.blocks >= MIN_CROSSOVER_BLOCKS
            && self.smallest.established() == Some(Direction::Higher)
            && self.largest.established() == Some(Direction::Lower)
    }
}

fn crossings_of_halves(sizes: &[f64], half_means: &[HalfMeans]) -> Vec<Crossing> {
    let halves = half_means.first().map_or(0, |size| size.means.len());
    (0..halves)
        .map(|half| {
            let means = half_means
                .iter()
                .filter_map(|size| size.means.get(half).copied())
                .collect_vec();
            crossing(sizes, &means)
        })
        .collect()
}

/// The `p`-quantile of the halves' crossovers, with `unclear` for [`Crossing::Unclear`]. `None` if
/// the quantile is infinite.
fn interval_end(crossings: &[Crossing], p: f64, unclear: f64) -> Option<f64> {
    let size = |crossing: &Crossing| match crossing {
        Crossing::AtSize(size) => *size,
        Crossing::ReferenceBetter => f64::INFINITY,
        Crossing::OtherBetter => f64::NEG_INFINITY,
        Crossing::Unclear => unclear,
    };
    let sizes = ascending(crossings.iter().map(size).collect());
    let rank = (p * sizes.len().saturating_sub(1) as f64).round() as usize;
    sizes.get(rank).copied().filter(|size| size.is_finite())
}

fn series_of_complete_rounds(size_count: usize, differences: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
    let mut series_by_size = vec![Vec::new(); size_count];
    let round_count = differences.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..round_count {
        let value_of =
            |series: &Vec<Option<f64>>| (*series.get(round)?).filter(|value| value.is_finite());
        let values: Option<Vec<f64>> = differences.iter().map(value_of).collect();
        for (series, value) in series_by_size.iter_mut().zip(values.into_iter().flatten()) {
            series.push(value);
        }
    }
    series_by_size
}

fn crossing(sizes: &[f64], differences: &[f64]) -> Crossing {
    if differences.iter().all(|difference| *difference > 0.0) {
        return Crossing::ReferenceBetter;
    }
    if differences.iter().all(|difference| *difference < 0.0) {
        return Crossing::OtherBetter;
    }
    let mut changes = (1..differences.len())
        .filter(|next| (differences[next - 1] > 0.0) != (differences[*next] > 0.0));
    match (changes.next(), changes.next()) {
        (Some(next), None) if differences[next - 1] > 0.0 => {
            let before = differences[next - 1];
            let share = before / (before - differences[next]);
            Crossing::AtSize(sizes[next - 1] + share * (sizes[next] - sizes[next - 1]))
        }
        _ => Crossing::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 5] = [1000.0, 3000.0, 5000.0, 7000.0, 9000.0];

    /// Differences on a line that is 0 at `zero`. A part of the noise is common to all sizes of a
    /// round and autocorrelated over rounds.
    fn measured(zero: f64, noise: f64, seed: u64) -> Vec<Vec<Option<f64>>> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut differences = vec![Vec::new(); SIZES.len()];
        let mut shared = 0.0;
        for _ in 0..400 {
            shared = 0.7 * shared + noise * (random.f64() - 0.5);
            for (series, size) in differences.iter_mut().zip(SIZES) {
                series.push(Some(
                    (zero - size) / 1000.0 + shared + noise * (random.f64() - 0.5),
                ));
            }
        }
        differences
    }

    #[test]
    fn a_known_crossover_is_found_and_its_interval_covers_it() {
        let plan = IntervalPlan {
            resamples: 1000,
            ..IntervalPlan::default()
        };
        let covered = (0..100).filter(|seed| {
            let found = crossover(&SIZES, &measured(4200.0, 3.0, *seed), &plan).unwrap();
            assert!((found.at.unwrap() - 4200.0).abs() < 1000.0, "{found:?}");
            found.low.is_none_or(|low| low <= 4200.0)
                && found.high.is_none_or(|high| 4200.0 <= high)
        });
        assert!((88..=100).contains(&covered.count()));
    }

    #[test]
    fn without_a_crossover_none_is_reported_with_explaining_shares() {
        let plan = IntervalPlan::default();
        let never = crossover(&SIZES, &measured(20_000.0, 1.0, 1), &plan).unwrap();
        assert_eq!(
            (never.at, never.low, never.never, never.once),
            (None, None, 1.0, 0.0)
        );
        let always = crossover(&SIZES, &measured(0.0, 0.1, 1), &plan).unwrap();
        assert_eq!((always.at, always.always), (None, 1.0));
        let mut ascending: Vec<Vec<Option<f64>>> = measured(4200.0, 0.1, 1);
        ascending.reverse();
        let reversed = crossover(&SIZES, &ascending, &plan).unwrap();
        assert_eq!((reversed.at, reversed.once), (None, 0.0));
    }

    #[test]
    fn halves_without_a_crossover_widen_the_interval_and_few_blocks_have_none() {
        let plan = IntervalPlan {
            resamples: 1000,
            ..IntervalPlan::default()
        };
        // Near the largest size, the reference is better at every size in some halves.
        let found = crossover(&SIZES, &measured(8900.0, 6.0, 5), &plan).unwrap();
        assert!(found.never > 0.05 && found.once > 0.3, "{found:?}");
        assert!(
            found.low.is_some_and(|low| low < 9000.0) && found.high.is_none(),
            "{found:?}"
        );
        let mut few = measured(4200.0, 0.1, 5);
        few.iter_mut().for_each(|series| series.truncate(20));
        // Steps of ten rounds: two independent blocks at most.
        for (index, series) in few.iter_mut().enumerate() {
            for (round, value) in series.iter_mut().enumerate() {
                *value =
                    Some((4200.0 - SIZES[index]) / 1000.0 + if round < 10 { 0.2 } else { -0.2 });
            }
        }
        let found = crossover(&SIZES, &few, &plan).unwrap();
        assert!(
            found.blocks < MIN_CROSSOVER_BLOCKS && found.at.is_some(),
            "{found:?}"
        );
        assert_eq!((found.low, found.high), (None, None), "{found:?}");
    }

    #[test]
    fn a_crossover_needs_enough_rounds_and_skips_missing_ones() {
        let plan = IntervalPlan {
            resamples: 1000,
            ..IntervalPlan::default()
        };
        let mut all = measured(4200.0, 1.0, 3);
        assert_eq!(crossover(&SIZES[..1], &all[..1], &plan), None);
        all.iter_mut().for_each(|series| series.truncate(19));
        assert_eq!(crossover(&SIZES, &all, &plan), None);
        let mut all = measured(4200.0, 1.0, 3);
        all[2][7] = None;
        all[4][9] = Some(f64::NAN);
        let found = crossover(&SIZES, &all, &plan).unwrap();
        assert!(found.at.is_some() && found.low.unwrap() < found.high.unwrap());
    }
}
