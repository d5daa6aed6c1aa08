use super::Interval;
use crate::{
    correlation::ranks,
    distribution::{normal_above, normal_quantile},
    summary::{ascending, quantile_sorted},
};
use itertools::Itertools;

const MAX_EXACT_RUNS: usize = 60;

/// Two-sided p-value of Mann and Whitney's test (1947): whether runs of one arm tend to be higher.
/// Exact for up to 60 runs, even with ties. For more, the normal approximation, corrected for ties
/// and continuity (Lehmann 1975). `None` if an arm has no run.
pub fn mann_whitney_p(reference: &[f64], other: &[f64]) -> Option<f64> {
    let m = other.len();
    if m == 0 || reference.is_empty() {
        return None;
    }
    let all = other.iter().chain(reference).copied().collect_vec();
    let ranks = ranks(&all);
    let rank_sum: f64 = ranks.iter().take(m).sum();
    Some(if all.len() <= MAX_EXACT_RUNS {
        exact_p(&ranks, m, rank_sum)
    } else {
        normal_p(&ranks, m, rank_sum)
    })
}

/// Exact p-value over all assignments of `m` ranks to an arm: twice the share with a rank sum as
/// far out as `rank_sum`. Ranks are doubled to integers.
fn exact_p(ranks: &[f64], m: usize, rank_sum: f64) -> f64 {
    let doubled = ranks
        .iter()
        .map(|r| (2.0 * r).round() as usize)
        .collect_vec();
    let counts = counts_of_sums(&doubled, m);
    let rank_sum = (2.0 * rank_sum).round() as usize;
    let all: f64 = counts.iter().sum();
    let low: f64 = counts.iter().take(rank_sum + 1).sum();
    let high: f64 = counts.iter().skip(rank_sum).sum();
    (2.0 * low.min(high) / all).min(1.0)
}

/// Number of choices of `m` ranks that give each sum.
fn counts_of_sums(ranks: &[usize], m: usize) -> Vec<f64> {
    let max_sum: usize = ranks.iter().sum();
    let mut counts = vec![vec![0.0_f64; max_sum + 1]; m + 1];
    counts[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=m).rev() {
            let (fewer, more) = counts.split_at_mut(chosen);
            for sum in *rank..=max_sum {
                more[0][sum] += fewer[chosen - 1][sum - rank];
            }
        }
    }
    counts.pop().unwrap_or_default()
}

fn normal_p(ranks: &[f64], m: usize, rank_sum: f64) -> f64 {
    let size = ranks.len() as f64;
    let (m, n) = (m as f64, size - m as f64);
    let ties: f64 = ascending(ranks.to_vec())
        .chunk_by(|a, b| a == b)
        .map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64)
        .sum();
    let variance = m * n / 12.0 * ((size + 1.0) - ties / (size * (size - 1.0)));
    let distance = ((rank_sum - m * (size + 1.0) / 2.0).abs() - 0.5).max(0.0);
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * normal_above(distance / variance.sqrt())).min(1.0)
}

/// Share of pairs of runs in which the other arm's run is higher, minus the share in which it is
/// lower (Cliff 1993). `None` if an arm has no run.
pub fn cliffs_delta(reference: &[f64], other: &[f64]) -> Option<f64> {
    let pairs = reference.len() * other.len();
    let score = |a: &f64, b: &f64| b.partial_cmp(a).map_or(0.0, |order| f64::from(order as i8));
    let sum: f64 = reference
        .iter()
        .flat_map(|a| other.iter().map(move |b| score(a, b)))
        .sum();
    (pairs > 0).then(|| sum / pairs as f64)
}

/// The median over all pairs of a run of the other arm minus a run of the reference (Hodges and
/// Lehmann 1963). The interval inverts the rank test for values without ties. Its level is the
/// smallest possible one not below `level`. If no level is that high, the interval spans all
/// differences. `None` if an arm has no run.
pub fn hodges_lehmann(reference: &[f64], other: &[f64], level: f64) -> Option<Interval> {
    let differences = ascending(
        reference
            .iter()
            .flat_map(|a| other.iter().map(move |b| b - a))
            .collect(),
    );
    let value = quantile_sorted(&differences, 0.5)?;
    let (skip, level) = differences_outside(reference.len(), other.len(), 1.0 - level);
    let low = *differences.get(skip)?;
    let high = *differences.get(differences.len() - 1 - skip)?;
    Some(Interval {
        value,
        low,
        high,
        level,
    })
}

/// Number of sorted differences to leave out at each end so that at most `alpha` is outside, and
/// the resulting level.
fn differences_outside(n: usize, m: usize, alpha: f64) -> (usize, f64) {
    if n + m > MAX_EXACT_RUNS {
        let n = n as f64;
        let m = m as f64;
        let half_width = normal_quantile(1.0 - alpha / 2.0) * (n * m * (n + m + 1.0) / 12.0).sqrt();
        return (
            (n * m / 2.0 - half_width - 0.5).max(0.0).floor() as usize,
            1.0 - alpha,
        );
    }
    // Mann and Whitney's U is the rank sum minus the smallest possible rank sum.
    let ranks = (1..=n + m).collect_vec();
    let counts = counts_of_sums(&ranks, m).split_off(m * (m + 1) / 2);
    let all: f64 = counts.iter().sum();
    let mut tail = counts.first().copied().unwrap_or(0.0) / all;
    let mut best = (0, tail);
    for (u, count) in counts
        .iter()
        .enumerate()
        .skip(1)
        .take((n * m / 2).saturating_sub(1))
    {
        tail += count / all;
        if tail > alpha / 2.0 {
            break;
        }
        best = (u, tail);
    }
    let (skip, tail) = best;
    (skip, 1.0 - 2.0 * tail)
}
