//! Detects changes in a short history: releases in order, each with the values of some runs.
//!
//! The history is split into segments. The cost of a segment is the sum of the squared distances of
//! its releases from the mean of the segment. The split minimizes the sum of costs plus a penalty
//! for each change, as in PELT (Killick, Fearnhead and Eckley 2012). The unit of the penalty is the
//! variance of runs within a release. The penalty comes from simulated histories that have as many
//! runs and no change. In the share `FALSE_CHANGE_PROBABILITY` of them, a change would be found.

use crate::{distribution::normal_quantile, summary::total};
use fastrand::Rng;
use itertools::{Itertools, chain};
use std::collections::BTreeMap;

/// Histories with fewer releases have no change.
pub const MIN_RELEASES: usize = 6;
/// Only the newest releases of a longer history count.
pub const MAX_RELEASES: usize = 60;
/// Minimum releases of a segment, because a single release that differs is an outlier.
pub const MIN_SEGMENT: usize = 2;
const MAX_CHANGES: usize = 8;

/// Probability that a change is found in a history without one.
const FALSE_CHANGE_PROBABILITY: f64 = 0.006;
const SIMULATED_HISTORIES: u32 = 1999;
const SEED: u64 = 1;

#[derive(Debug, PartialEq)]
pub struct Change {
    pub first_release_after: usize,
    pub before: f64,
    pub after: f64,
}

#[derive(Default)]
pub struct Detector {
    /// The penalty: how much each change must reduce the cost, in variances of a run. The key is
    /// the number of runs of each release.
    required_gain: BTreeMap<Vec<usize>, f64>,
}

impl Detector {
    /// `releases` are in order, each with the values of its runs. There is no change with fewer
    /// than [`MIN_RELEASES`] releases, a release without values or a value that is not finite, or
    /// if runs do not vary within any release.
    pub fn changes(&mut self, releases: &[&[f64]]) -> Vec<Change> {
        let first = releases.len().saturating_sub(MAX_RELEASES);
        let newest = &releases[first..];
        let is_invalid =
            |runs: &&[f64]| runs.is_empty() || runs.iter().any(|value| !value.is_finite());
        if newest.len() < MIN_RELEASES || newest.iter().any(is_invalid) {
            return Vec::new();
        }
        let counts = newest.iter().map(|runs| runs.len()).collect_vec();
        let means = newest
            .iter()
            .map(|runs| total(runs) / runs.len() as f64)
            .collect_vec();
        let degrees_of_freedom = counts.iter().sum::<usize>() - counts.len();
        let squares_within: f64 = newest
            .iter()
            .zip(&means)
            .map(|(runs, mean)| runs.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
            .sum();
        if degrees_of_freedom == 0 || squares_within <= 0.0 {
            return Vec::new();
        }
        let sums = CumulativeSums::of(&means, &counts);
        let required_gain = *self
            .required_gain
            .entry(counts)
            .or_insert_with_key(|counts| required_gain(counts, degrees_of_freedom));
        let starts = segment_starts(
            &sums,
            required_gain * squares_within / degrees_of_freedom as f64,
        );
        let boundaries = chain!([0], starts, [newest.len()]).collect_vec();
        boundaries
            .windows(3)
            .map(|window| Change {
                first_release_after: first + window[1],
                before: sums.segment_mean(window[0], window[1]),
                after: sums.segment_mean(window[1], window[2]),
            })
            .collect()
    }
}

/// The penalty, in variances of a run. It is infinite if too few histories are simulated for a
/// false change to be as rare as [`FALSE_CHANGE_PROBABILITY`].
fn required_gain(counts: &[usize], degrees_of_freedom: usize) -> f64 {
    let mut random = Rng::with_seed(SEED);
    let mut normal = || normal_quantile(random.f64().clamp(f64::EPSILON, 1.0 - f64::EPSILON));
    let mut gains = (0..SIMULATED_HISTORIES)
        .map(|_| {
            let means = counts
                .iter()
                .map(|runs| normal() / (*runs as f64).sqrt())
                .collect_vec();
            let variance = (0..degrees_of_freedom)
                .map(|_| normal().powi(2))
                .sum::<f64>()
                / degrees_of_freedom as f64;
            CumulativeSums::of(&means, counts).largest_gain() / variance
        })
        .collect_vec();
    gains.sort_by(f64::total_cmp);
    // `+ 1.0` counts the real history with the simulated ones (Davison and Hinkley 1997).
    let rank = ((1.0 - FALSE_CHANGE_PROBABILITY) * (gains.len() as f64 + 1.0)).ceil() as usize;
    rank.checked_sub(1)
        .and_then(|index| gains.get(index).copied())
        .unwrap_or(f64::INFINITY)
}

/// Index `i` has the sums over the first `i` releases. Two of them give the cost of a segment.
struct CumulativeSums {
    /// Subtracted from the means of all releases, so that squares lose no digits.
    offset: f64,
    /// Sums of the numbers of runs.
    weights: Vec<f64>,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl CumulativeSums {
    fn of(means: &[f64], counts: &[usize]) -> Self {
        let offset = total(means) / means.len() as f64;
        let mut cumulative = Self {
            offset,
            weights: vec![0.0],
            sums: vec![0.0],
            squares: vec![0.0],
        };
        let mut weight = 0.0;
        let mut sum = 0.0;
        let mut square = 0.0;
        for (mean, runs) in means.iter().zip(counts) {
            let deviation = mean - offset;
            let runs = *runs as f64;
            weight += runs;
            sum += runs * deviation;
            square += runs * deviation * deviation;
            cumulative.weights.push(weight);
            cumulative.sums.push(sum);
            cumulative.squares.push(square);
        }
        cumulative
    }

    fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Releases are weighted by their runs.
    fn segment_cost(&self, from: usize, to: usize) -> f64 {
        let sum = self.sums[to] - self.sums[from];
        (self.squares[to]
            - self.squares[from]
            - sum * sum / (self.weights[to] - self.weights[from]))
            .max(0.0)
    }

    fn segment_mean(&self, from: usize, to: usize) -> f64 {
        self.offset + (self.sums[to] - self.sums[from]) / (self.weights[to] - self.weights[from])
    }

    /// The smallest penalty with which these values have no change: the largest gain per change,
    /// over 1 to [`MAX_CHANGES`] changes.
    fn largest_gain(&self) -> f64 {
        let n = self.len();
        let mut least_costs = (0..=n)
            .map(|to| {
                if to < MIN_SEGMENT {
                    f64::INFINITY
                } else {
                    self.segment_cost(0, to)
                }
            })
            .collect_vec();
        let cost_without_change = least_costs[n];
        let mut largest = 0.0_f64;
        for changes in 1..=MAX_CHANGES.min(n / MIN_SEGMENT - 1) {
            let next = (0..=n)
                .map(|to| {
                    let from = MIN_SEGMENT..=to.saturating_sub(MIN_SEGMENT);
                    from.map(|from| least_costs[from] + self.segment_cost(from, to))
                        .fold(f64::INFINITY, f64::min)
                })
                .collect_vec();
            least_costs = next;
            largest = largest.max((cost_without_change - least_costs[n]) / changes as f64);
        }
        largest
    }
}

/// The starts of all segments but the first, for the least sum of costs and penalties. A gain that
/// exceeds the penalty only by rounding does not count.
fn segment_starts(sums: &CumulativeSums, penalty: f64) -> Vec<usize> {
    let n = sums.len();
    let penalty = penalty * (1.0 + 1e-9);
    let mut least_costs = vec![f64::INFINITY; n + 1];
    least_costs[0] = -penalty;
    let mut last_starts = vec![0; n + 1];
    for to in MIN_SEGMENT..=n {
        for from in 0..=to - MIN_SEGMENT {
            let cost = least_costs[from] + sums.segment_cost(from, to) + penalty;
            if cost < least_costs[to] {
                (least_costs[to], last_starts[to]) = (cost, from);
            }
        }
    }
    let mut starts = Vec::new();
    let mut start = last_starts[n];
    while start > 0 {
        starts.push(start);
        start = last_starts[start];
    }
    starts.reverse();
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(releases: &[Vec<f64>]) -> Vec<Change> {
        let releases: Vec<&[f64]> = releases.iter().map(Vec::as_slice).collect();
        Detector::default().changes(&releases)
    }

    #[test]
    fn short_flat_broken_or_noiseless_histories_have_no_change() {
        let step = |releases: usize, runs: &[f64]| -> Vec<Vec<f64>> {
            let level = |index: usize| if index < releases / 2 { 0.0 } else { 1.0 };
            (0..releases)
                .map(|index| runs.iter().map(|run| run + level(index)).collect())
                .collect()
        };
        let apart = [0.01, 0.0, -0.01];
        assert_eq!(found(&step(MIN_RELEASES, &apart)).len(), 1);
        assert_eq!(found(&step(MIN_RELEASES - 1, &apart)), []);
        assert_eq!(found(&step(12, &[0.0])), [], "one run each");
        assert_eq!(found(&step(12, &[0.0; 3])), [], "all equal");
        assert_eq!(found(&vec![apart.to_vec(); 12]), []);
        for broken in [vec![], vec![f64::NAN, 0.0, 0.0]] {
            let mut history = step(12, &apart);
            history[5] = broken;
            assert_eq!(found(&history), []);
        }
    }

    #[test]
    fn change_detection_locates_one_step_and_two_steps() {
        let runs = |index: usize, level: f64| -> Vec<f64> {
            (0..3)
                .map(|run| (index * 7 % 5 + run * 3 % 4) as f64 * 0.001 + level)
                .collect()
        };
        let one: Vec<Vec<f64>> = (0..12)
            .map(|index| runs(index, if index < 5 { 0.0 } else { 0.08 }))
            .collect();
        let found_one = found(&one);
        assert_eq!(
            found_one
                .iter()
                .map(|change| change.first_release_after)
                .collect::<Vec<_>>(),
            [5]
        );
        assert!(
            (found_one[0].after - found_one[0].before - 0.08).abs() < 0.002,
            "{found_one:?}"
        );
        let two: Vec<Vec<f64>> = (0..24)
            .map(|index| runs(index, [0.0, 0.08, -0.05][index / 8]))
            .collect();
        assert_eq!(
            found(&two)
                .iter()
                .map(|change| change.first_release_after)
                .collect::<Vec<_>>(),
            [8, 16]
        );
        // Only the newest releases of a longer history count.
        let long: Vec<Vec<f64>> = (0..MAX_RELEASES + 6)
            .map(|index| runs(index, if index < 30 { 0.0 } else { 0.08 }))
            .collect();
        assert_eq!(
            found(&long)
                .iter()
                .map(|change| change.first_release_after)
                .collect::<Vec<_>>(),
            [30]
        );
    }

    #[test]
    fn the_minimum_cost_equals_an_exhaustive_search() {
        let mut random = Rng::with_seed(3);
        for _ in 0..200 {
            let values: Vec<f64> = (0..9).map(|_| f64::from(random.u8(0..40))).collect();
            let counts: Vec<usize> = (0..9).map(|_| random.usize(1..7)).collect();
            let sums = CumulativeSums::of(&values, &counts);
            let penalty = f64::from(random.u8(1..200));
            let all = (0u32..1 << 8).map(|set| {
                (1..9)
                    .filter(|index| set >> (index - 1) & 1 == 1)
                    .collect::<Vec<usize>>()
            });
            let cost = |starts: &Vec<usize>| {
                let mut boundaries = vec![0];
                boundaries.extend(starts);
                boundaries.push(9);
                let parts: Vec<(usize, usize)> =
                    boundaries.windows(2).map(|two| (two[0], two[1])).collect();
                let fit = parts.iter().all(|(from, to)| to - from >= MIN_SEGMENT);
                fit.then(|| {
                    parts
                        .iter()
                        .map(|(a, b)| sums.segment_cost(*a, *b))
                        .sum::<f64>()
                        + penalty * starts.len() as f64
                })
            };
            let best = all
                .filter_map(|starts| cost(&starts))
                .fold(f64::INFINITY, f64::min);
            let found = cost(&segment_starts(&sums, penalty)).unwrap();
            assert!(
                (found - best).abs() < 1e-6,
                "{values:?}, {penalty}: {found} instead of {best}"
            );
        }
    }
}
