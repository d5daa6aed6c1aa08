//! Where a short history changes: one value a release, in order.
//!
//! Segments of constant mean with the least squared distances and a penalty for each change: what PELT finds (Killick,
//! Fearnhead and Eckley 2012), whose pruning saves nothing in histories this short. What a change must gain to be one comes from the history itself: of its values in random order, the share that
//! [`Rules::level`] leaves has a smaller one. A flat history therefore has a change with that probability, whatever its noise.

use crate::summary::total;
use fastrand::Rng;

/// Histories of fewer values have no change: too few orders of them exist for one to be rare. A step with k of n values on one side
/// of it, and its mirror image, are at least 2 of the n over k orders: about four values on each side are needed to find one, fewer in a
/// longer history.
pub const FEWEST: usize = 11;
/// Of a longer history the newest values count.
pub const MOST: usize = 60;
/// Values of a segment at least: one that differs is an outlier, and no change.
const SHORTEST: usize = 2;
/// Changes that a random order is searched for at most.
const MOST_CHANGES: usize = 8;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Probability of a change in a flat history.
    pub level: f64,
    /// Random orders.
    pub orders: u32,
    /// Of the random orders: the same history and seed give the same changes.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { level: 0.008, orders: 1999, seed: 1 }
    }
}

/// A change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Place of the first value after it.
    pub at: usize,
    /// Mean of the segment before it.
    pub before: f64,
    /// Mean of the segment after it.
    pub after: f64,
}

/// The changes of a history in their order; none if it has fewer than [`FEWEST`] values or one that is not finite.
pub fn changes(values: &[f64], rules: &Rules) -> Vec<Change> {
    let first = values.len().saturating_sub(MOST);
    let newest = &values[first..];
    if newest.len() < FEWEST || newest.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let costs = Costs::of(newest);
    let mean = |from: usize, to: usize| total(&newest[from..to]) / (to - from) as f64;
    let mut edges = vec![0, newest.len()];
    // Changes that are found are noise to others no more: they are taken out, until no further one is found.
    loop {
        let means = edges.windows(2).flat_map(|two| std::iter::repeat_n(mean(two[0], two[1]), two[1] - two[0]));
        let rest: Vec<f64> = newest.iter().zip(means).map(|(value, mean)| value - mean).collect();
        // What is left has lost a degree of freedom with each.
        let lost = newest.len() as f64 / (newest.len() + 2 - edges.len()) as f64;
        let Some(penalty) = penalty(&rest, rules) else { break };
        let found = partition(&costs, lost * penalty);
        if found.len() + 2 <= edges.len() {
            break;
        }
        edges = std::iter::once(0).chain(found).chain([newest.len()]).collect();
    }
    edges
        .windows(3)
        .map(|three| Change { at: first + three[1], before: mean(three[0], three[1]), after: mean(three[1], three[2]) })
        .collect()
}

/// Costs of segments, by sums.
struct Costs {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Costs {
    fn of(values: &[f64]) -> Self {
        // Around the mean, so that squares lose no digits.
        let mean = total(values) / values.len() as f64;
        let mut costs = Costs { sums: vec![0.0], squares: vec![0.0] };
        let (mut sum, mut square) = (0.0, 0.0);
        for value in values {
            let away = value - mean;
            sum += away;
            square += away * away;
            costs.sums.push(sum);
            costs.squares.push(square);
        }
        costs
    }

    fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Of the values from `from` to before `to`.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let sum = self.sums[to] - self.sums[from];
        (self.squares[to] - self.squares[from] - sum * sum / (to - from) as f64).max(0.0)
    }

    /// The smallest penalty with which these values have no change: the largest gain of some number of changes, by change.
    fn largest_gain(&self) -> f64 {
        let n = self.len();
        let mut best: Vec<f64> =
            (0..=n).map(|to| if to < SHORTEST { f64::INFINITY } else { self.cost(0, to) }).collect();
        let whole = best[n];
        let mut largest = 0.0_f64;
        for changes in 1..=MOST_CHANGES.min(n / SHORTEST - 1) {
            let with = |to: usize| {
                let from = SHORTEST..=to.saturating_sub(SHORTEST);
                from.map(|from| best[from] + self.cost(from, to)).fold(f64::INFINITY, f64::min)
            };
            let next: Vec<f64> = (0..=n).map(with).collect();
            best = next;
            largest = largest.max((whole - best[n]) / changes as f64);
        }
        largest
    }
}

/// What a change must gain; `None` of values that are all equal, which have none.
fn penalty(values: &[f64], rules: &Rules) -> Option<f64> {
    let spread = values.iter().any(|value| *value != values[0]);
    if !spread || !(0.0..1.0).contains(&rules.level) {
        return None;
    }
    let mut random = Rng::with_seed(rules.seed);
    let mut shuffled = values.to_vec();
    let mut gains: Vec<f64> = (0..rules.orders)
        .map(|_| {
            random.shuffle(&mut shuffled);
            Costs::of(&shuffled).largest_gain()
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    // The history's own order is one of them: with too few of them, none is rare.
    let place = ((1.0 - rules.level) * (gains.len() as f64 + 1.0)).ceil() as usize;
    gains.get(place.checked_sub(1)?).copied()
}

/// Places of the first values of all segments but the first, with the least cost and penalty together. A change that gains
/// no more than the penalty, rounding apart, is none.
fn partition(costs: &Costs, penalty: f64) -> Vec<usize> {
    let n = costs.len();
    let penalty = penalty * (1.0 + 1e-9);
    let mut least = vec![f64::INFINITY; n + 1];
    least[0] = -penalty;
    let mut last = vec![0; n + 1];
    for to in SHORTEST..=n {
        for from in 0..=to - SHORTEST {
            let cost = least[from] + costs.cost(from, to) + penalty;
            if cost < least[to] {
                (least[to], last[to]) = (cost, from);
            }
        }
    }
    let mut found = Vec::new();
    let mut to = last[n];
    while to > 0 {
        found.push(to);
        to = last[to];
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_short_flat_or_broken_histories_have_no_change() {
        for values in [
            &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0][..],
            &[1.0; 12],
            &[0.0, 0.0, 0.0, 0.0, 0.0, f64::NAN, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        ] {
            assert_eq!(changes(values, &Rules::default()), []);
        }
    }

    #[test]
    fn a_step_is_where_it_is_and_two_are_two() {
        let noise = |place: usize| (place * 7 % 5) as f64 * 0.001;
        let one: Vec<f64> = (0..12).map(|place| noise(place) + if place < 5 { 0.0 } else { 0.08 }).collect();
        let found = changes(&one, &Rules::default());
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [5]);
        assert!((found[0].after - found[0].before - 0.08).abs() < 0.002, "{found:?}");
        let two: Vec<f64> = (0..24).map(|place| noise(place) + [0.0, 0.08, -0.05][place / 8]).collect();
        let found = changes(&two, &Rules::default());
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [8, 16]);
    }

    #[test]
    fn the_least_cost_is_found_as_if_all_were_tried_and_() {
        let mut random = Rng::with_seed(3);
        for _ in 0..200 {
            let values: Vec<f64> = (0..9).map(|_| f64::from(random.u8(0..40))).collect();
            let costs = Costs::of(&values);
            let penalty = f64::from(random.u8(1..200));
            let all =
                (0u32..1 << 8).map(|set| (1..9).filter(|place| set >> (place - 1) & 1 == 1).collect::<Vec<usize>>());
            let cost = |places: &Vec<usize>| {
                let mut edges = vec![0];
                edges.extend(places);
                edges.push(9);
                let parts: Vec<(usize, usize)> = edges.windows(2).map(|two| (two[0], two[1])).collect();
                let fit = parts.iter().all(|(from, to)| to - from >= SHORTEST);
                fit.then(|| parts.iter().map(|(a, b)| costs.cost(*a, *b)).sum::<f64>() + penalty * places.len() as f64)
            };
            let best = all.filter_map(|places| cost(&places)).fold(f64::INFINITY, f64::min);
            let found = cost(&partition(&costs, penalty)).unwrap();
            assert!((found - best).abs() < 1e-6, "{values:?}, {penalty}: {found} instead of {best}");
        }
    }
}
