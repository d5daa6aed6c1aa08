//! Arms of runs. The unit is the run: every function takes one number per run, never samples.

mod rank;
mod welch;

use crate::{
    holm,
    summary::{finite, mean_and_variance, total},
};
pub use rank::{cliffs_delta, hodges_lehmann, mann_whitney_p};
use serde::Serialize;
pub use welch::{equivalence_p, mean_difference, ratio_of_means, welch_p};

/// Minimum runs of an arm for a test.
pub const RUNS_FOR_A_TEST: usize = 3;

/// Confidence of intervals; tests use the remainder.
pub const LEVEL: f64 = 0.95;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Arm {
    pub runs: usize,
    /// `None` without a run.
    pub mean: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Actual confidence: a rank-based interval of few runs has less than requested.
    pub level: f64,
}

impl Interval {
    /// The value, then the ends of its interval.
    pub fn ends(&self) -> [f64; 3] {
        [self.value, self.low, self.high]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub reference: Arm,
    pub other: Arm,
    /// Mean of the other minus mean of the reference (Welch; within blocks Student); `None` with
    /// fewer than two runs in an arm or no spread at all.
    pub difference: Option<Interval>,
    /// Mean of the other over mean of the reference (Fieller; within blocks by logarithms); `None`
    /// likewise, and if the reference's mean is not clearly above 0.
    pub ratio: Option<Interval>,
    /// Shift of the other's runs (Hodges and Lehmann); `None` with fewer than two runs in an arm.
    pub shift: Option<Interval>,
    /// From -1 to 1; `None` with fewer than two runs in an arm.
    pub cliffs_delta: Option<f64>,
    /// Of Welch's test, or of that of the blocks. Decides about a difference; `None` with fewer than
    /// [`RUNS_FOR_A_TEST`] in an arm or no spread at all.
    pub difference_p: Option<f64>,
    /// `None` with fewer than [`RUNS_FOR_A_TEST`] in an arm. With three runs in each it cannot be
    /// below 0.1.
    pub mann_whitney_p: Option<f64>,
    /// The larger p-value of two one-sided tests of the ratio against the margin. Decides about
    /// equivalence; `None` like [`Comparison::difference_p`], and if the reference's mean is not
    /// positive.
    pub equivalence_p: Option<f64>,
    /// Runs per arm to see a difference of the margin four times in five ([`runs_needed`]); `None`
    /// without a spread or a margin.
    pub runs_needed: Option<u64>,
    pub conclusion: Conclusion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Lower,
    Higher,
}

/// Only [`Conclusion::Differs`] allows "better" or "worse", only [`Conclusion::Equivalent`] "no
/// difference".
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Conclusion {
    NoValues,
    /// An arm has a single run: how much runs differ by themselves is unknown.
    Described,
    /// The smaller arm has two runs: a wide interval and no test.
    TooFewRuns {
        runs: usize,
        needed: usize,
    },
    /// The means differ, and a difference below the margin is not shown.
    Differs {
        direction: Direction,
        /// Of the difference, adjusted where several metrics were tested.
        p: f64,
    },
    /// The means differ by less than the margin.
    Equivalent {
        /// Of the equivalence test, adjusted where several metrics were tested.
        p: f64,
        /// Set if a difference too small to matter is shown as well.
        differs: Option<Direction>,
    },
    /// Neither a difference nor equivalence is shown.
    Inconclusive {
        /// Of the difference; `None` if no run differs from another of its arm.
        p: Option<f64>,
        /// Of the equivalence test; `None` where it could not be made.
        equivalence_p: Option<f64>,
    },
}

/// `margin` is the smallest difference of interest, as a share of the reference's mean. Arms are
/// equivalent if the ratio of their means is shown to lie between `1 - margin` and `1 + margin`.
/// Ignores values that are not finite.
pub fn compare(reference: &[f64], other: &[f64], margin: f64) -> Comparison {
    let (a, b) = (finite(reference), finite(other));
    let runs = a.len().min(b.len());
    let (some, has_enough_runs) = (runs >= 2, runs >= RUNS_FOR_A_TEST);
    let comparison = Comparison {
        reference: Arm::of(&a),
        other: Arm::of(&b),
        difference: mean_difference(&a, &b, LEVEL),
        ratio: ratio_of_means(&a, &b, LEVEL),
        shift: hodges_lehmann(&a, &b, LEVEL).filter(|_| some),
        cliffs_delta: cliffs_delta(&a, &b).filter(|_| some),
        difference_p: welch_p(&a, &b).filter(|_| has_enough_runs),
        mann_whitney_p: mann_whitney_p(&a, &b).filter(|_| has_enough_runs),
        equivalence_p: equivalence_p(&a, &b, margin).filter(|_| has_enough_runs),
        runs_needed: runs_needed_of_pilot(&a, &b, margin),
        conclusion: Conclusion::NoValues,
    };
    comparison.concluded()
}

/// Concludes again for a family of metrics, by Holm-adjusted p-values: differences and equivalences
/// are a family each. The primary metric, named before the runs, is not in it.
pub fn conclude_family<'c>(family: impl IntoIterator<Item = &'c mut Comparison>) {
    let family: Vec<&mut Comparison> = family.into_iter().collect();
    let adjusted = |p: fn(&Comparison) -> Option<f64>| {
        holm::adjust(&family.iter().map(|one| p(one)).collect::<Vec<_>>())
    };
    let differences = adjusted(|one| one.difference_p);
    let equivalences = adjusted(|one| one.equivalence_p);
    for ((comparison, difference), equivalence) in
        family.into_iter().zip(differences).zip(equivalences)
    {
        comparison.conclude(difference, equivalence);
    }
}

/// Runs per arm to see a difference `delta` four times in five at 5 %: `16 (sd / delta)^2` (Lehr
/// 1992) rounded up, at least [`RUNS_FOR_A_TEST`]. `sd` is the standard deviation between runs of a
/// pilot. `None` unless both are positive and finite.
pub fn runs_needed(sd: f64, delta: f64) -> Option<u64> {
    let good = |v: f64| v.is_finite() && v > 0.0;
    let runs = (16.0 * (sd / delta) * (sd / delta)).ceil();
    (good(sd) && good(delta) && runs.is_finite()).then(|| (runs as u64).max(RUNS_FOR_A_TEST as u64))
}

fn runs_needed_of_pilot(a: &[f64], b: &[f64], margin: f64) -> Option<u64> {
    let ((mean, va), (_, vb)) = (mean_and_variance(a)?, mean_and_variance(b)?);
    runs_needed(f64::midpoint(va, vb).sqrt(), margin * mean)
}

impl Arm {
    pub fn of(runs: &[f64]) -> Arm {
        Arm {
            runs: runs.len(),
            mean: (!runs.is_empty()).then(|| total(runs) / runs.len() as f64),
        }
    }
}

impl Comparison {
    pub(crate) fn concluded(mut self) -> Self {
        self.conclude(self.difference_p, self.equivalence_p);
        self
    }

    fn conclude(&mut self, difference: Option<f64>, equivalence: Option<f64>) {
        let alpha = 1.0 - LEVEL + 1e-12;
        let runs = self.reference.runs.min(self.other.runs);
        let differs = difference.filter(|p| *p <= alpha).zip(self.direction());
        self.conclusion = match (runs, equivalence.filter(|p| *p <= alpha), differs) {
            (0, ..) => Conclusion::NoValues,
            (1, ..) => Conclusion::Described,
            (2, ..) => Conclusion::TooFewRuns {
                runs,
                needed: RUNS_FOR_A_TEST,
            },
            (_, Some(p), differs) => Conclusion::Equivalent {
                p,
                differs: differs.map(|(_, direction)| direction),
            },
            (_, None, Some((p, direction))) => Conclusion::Differs { direction, p },
            (_, None, None) => Conclusion::Inconclusive {
                p: difference,
                equivalence_p: equivalence,
            },
        };
    }

    /// Of the ratio or the means, shown or not. `None` if they are equal.
    pub fn direction(&self) -> Option<Direction> {
        let of_means = || Some(self.other.mean? - self.reference.mean?);
        let change = self
            .ratio
            .map(|ratio| ratio.value - 1.0)
            .or_else(of_means)?;
        match change {
            0.0 => None,
            change if change < 0.0 => Some(Direction::Lower),
            _ => Some(Direction::Higher),
        }
    }
}
