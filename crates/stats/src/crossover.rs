//! From which size on one of two is the better one, and how sure that is.
//!
//! At each of several sizes two were measured again and again, once a round; the difference of the two is positive where the
//! reference is better. Between neighbouring sizes the mean difference is taken to be a straight line. How sure the place is
//! where it becomes negative follows from resampling blocks of rounds, the same of all sizes, because what disturbs one size in
//! a round disturbs the others.

use crate::block::{self, Plan};
use serde::Serialize;

/// Where the difference changes its sign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Crossover {
    /// The size at which the mean difference of all rounds passes from positive to negative; `None` unless it does so exactly
    /// once and never the other way round.
    pub at: Option<f64>,
    /// Lower end of the interval of the size. A resample in which the other is better at every size counts as a size below the
    /// smallest, and one whose signs change otherwise as both. `None` if the end is below the smallest size, or of too few blocks.
    pub low: Option<f64>,
    /// Upper end; resamples in which the reference is better at every size count as a size above the largest. `None` if the end is
    /// above the largest size, or of too few blocks.
    pub high: Option<f64>,
    /// Confidence that was asked for, between 0 and 1.
    pub level: f64,
    /// Share of resamples in which there is such a size.
    pub once: f64,
    /// Share in which the reference is better at every size.
    pub never: f64,
    /// Share in which the other is.
    pub always: f64,
    /// Independent blocks of rounds; of fewer than [`FEWEST_BLOCKS`] there is no interval.
    pub blocks: usize,
}

/// Blocks that an interval needs.
pub const FEWEST_BLOCKS: usize = 12;

/// What the signs of mean differences over ascending sizes say.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crossing {
    At(f64),
    Never,
    Always,
    Unclear,
}

/// The crossover over `sizes`, which ascend, of the differences at each of them, by round. Rounds of which a value is missing or
/// not finite at any size are left out, for all sizes. `None` of fewer than two sizes or 20 whole rounds, or of a level that is
/// not between 0 and 1.
#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
pub fn crossover(
    sizes: &[f64],
    differences: &[Vec<Option<f64>>],
    plan: &Plan,
) -> Option<Crossover> {
    let rounds = whole_rounds(sizes.len(), differences);
    let count = rounds.first().map_or(0, Vec::len);
    if sizes.len() < 2
        || differences.len() != sizes.len()
        || count < 20
        || !(0.0..1.0).contains(&plan.level)
    {
        return None;
    }
    let blocks = rounds.iter().map(|series| {
        let series: Vec<Option<f64>> = series.iter().copied().map(Some).collect();
        block::mean(
            &series,
            &Plan {
                resamples: 1000,
                ..*plan
            },
        )
        .map_or(1, |estimate| estimate.block_length)
    });
    let block = blocks.max().unwrap_or(1).clamp(1, count / 2);
    let sums: Vec<Vec<f64>> = rounds
        .iter()
        .map(|series| block_sums(series, block))
        .collect();
    let means: Vec<f64> = rounds.iter().map(|series| series.iter().sum()).collect();
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let (mut drawn_crossings, mut drawn) = (Vec::new(), vec![0.0; sizes.len()]);
    let resamples = plan.resamples.max(1000);
    for _ in 0..resamples {
        drawn.fill(0.0);
        for _ in 0..count / block {
            let from = random.usize(..count);
            drawn
                .iter_mut()
                .zip(&sums)
                .for_each(|(sum, sums)| *sum += sums[from]);
        }
        drawn_crossings.push(crossing(sizes, &drawn));
    }
    let share = |is: &dyn Fn(&Crossing) -> bool| {
        drawn_crossings
            .iter()
            .filter(|crossing| is(crossing))
            .count() as f64
            / resamples as f64
    };
    let tail = (1.0 - plan.level) / 2.0;
    let blocks = count / block;
    let end = |p: f64, unclear: f64| {
        let place = |crossing: &Crossing| match crossing {
            Crossing::At(place) => *place,
            Crossing::Never => f64::INFINITY,
            Crossing::Always => f64::NEG_INFINITY,
            Crossing::Unclear => unclear,
        };
        let mut places: Vec<f64> = drawn_crossings.iter().map(place).collect();
        places.sort_unstable_by(f64::total_cmp);
        let rank = (p * (resamples - 1) as f64).round() as usize;
        places
            .get(rank)
            .copied()
            .filter(|place| place.is_finite() && blocks >= FEWEST_BLOCKS)
    };
    let at = match crossing(sizes, &means) {
        Crossing::At(place) => Some(place),
        _ => None,
    };
    let (low, high) = (end(tail, f64::NEG_INFINITY), end(1.0 - tail, f64::INFINITY));
    let once = share(&|crossing| matches!(crossing, Crossing::At(_)));
    let [never, always] =
        [Crossing::Never, Crossing::Always].map(|all| share(&|crossing| *crossing == all));
    Some(Crossover {
        at,
        low,
        high,
        level: plan.level,
        once,
        never,
        always,
        blocks,
    })
}

/// The differences of rounds that have one at every size.
fn whole_rounds(sizes: usize, differences: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
    let mut rounds = vec![Vec::new(); sizes];
    let most = differences.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..most {
        let at = |series: &Vec<Option<f64>>| {
            series
                .get(round)
                .copied()
                .flatten()
                .filter(|value| value.is_finite())
        };
        let values: Option<Vec<f64>> = differences.iter().map(at).collect();
        for (series, value) in rounds.iter_mut().zip(values.into_iter().flatten()) {
            series.push(value);
        }
    }
    rounds
}

/// Sums of the blocks that begin at each round; after the last round comes the first.
fn block_sums(series: &[f64], block: usize) -> Vec<f64> {
    let mut sum: f64 = series.iter().take(block).sum();
    let mut sums = Vec::with_capacity(series.len());
    for (from, first) in series.iter().enumerate() {
        sums.push(sum);
        sum += series[(from + block) % series.len()] - first;
    }
    sums
}

fn crossing(sizes: &[f64], differences: &[f64]) -> Crossing {
    if differences.iter().all(|difference| *difference > 0.0) {
        return Crossing::Never;
    }
    if differences.iter().all(|difference| *difference < 0.0) {
        return Crossing::Always;
    }
    let mut changes = (1..differences.len())
        .filter(|next| (differences[next - 1] > 0.0) != (differences[*next] > 0.0));
    match (changes.next(), changes.next()) {
        (Some(next), None) if differences[next - 1] > 0.0 => {
            let (before, after) = (differences[next - 1], differences[next]);
            let share = before / (before - after);
            Crossing::At(sizes[next - 1] + share * (sizes[next] - sizes[next - 1]))
        }
        _ => Crossing::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 5] = [1000.0, 3000.0, 5000.0, 7000.0, 9000.0];

    /// Differences of a line that is 0 at `zero`, with noise that rounds share in part and that remembers.
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
        let plan = Plan {
            resamples: 1000,
            ..Plan::default()
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
    fn without_a_crossover_there_is_none_and_the_shares_say_why() {
        let plan = Plan::default();
        let never = crossover(&SIZES, &measured(20_000.0, 1.0, 1), &plan).unwrap();
        assert_eq!(
            (never.at, never.low, never.never, never.once),
            (None, None, 1.0, 0.0)
        );
        let always = crossover(&SIZES, &measured(0.0, 0.1, 1), &plan).unwrap();
        assert_eq!((always.at, always.always), (None, 1.0));
        let mut back: Vec<Vec<Option<f64>>> = measured(4200.0, 0.1, 1);
        back.reverse();
        let wrong_way = crossover(&SIZES, &back, &plan).unwrap();
        assert_eq!((wrong_way.at, wrong_way.once), (None, 0.0));
    }

    #[test]
    fn resamples_without_a_crossover_widen_the_interval_and_few_blocks_have_none() {
        let plan = Plan {
            resamples: 1000,
            ..Plan::default()
        };
        // Near the largest size: some resamples have the reference better at every size.
        let found = crossover(&SIZES, &measured(8900.0, 6.0, 5), &plan).unwrap();
        assert!(found.never > 0.05 && found.once > 0.3, "{found:?}");
        assert!(
            found.low.is_some_and(|low| low < 9000.0) && found.high.is_none(),
            "{found:?}"
        );
        let mut few = measured(4200.0, 0.1, 5);
        few.iter_mut().for_each(|series| series.truncate(20));
        // Steps of ten rounds: two independent blocks at most.
        for (place, series) in few.iter_mut().enumerate() {
            for (round, value) in series.iter_mut().enumerate() {
                *value =
                    Some((4200.0 - SIZES[place]) / 1000.0 + if round < 10 { 0.2 } else { -0.2 });
            }
        }
        let found = crossover(&SIZES, &few, &plan).unwrap();
        assert!(
            found.blocks < FEWEST_BLOCKS && found.at.is_some(),
            "{found:?}"
        );
        assert_eq!((found.low, found.high), (None, None), "{found:?}");
    }

    #[test]
    fn too_little_is_no_answer_and_missing_rounds_are_left_out() {
        let plan = Plan {
            resamples: 1000,
            ..Plan::default()
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
