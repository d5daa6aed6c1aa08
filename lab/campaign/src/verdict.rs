//! Marks a release as worse or better than the baseline in a metric, if all conditions are met:
//!
//! * Student's test of the log ratios of all pairs has p < 0.05, adjusted by Holm over
//!   the release's metrics;
//! * the ratio is beyond the margin;
//! * the first round showed it: p < 0.05 unadjusted or, untested, in each pair;
//! * the second round is beyond the margin in the same direction.
//!
//! No test is possible with fewer than three pairs, or if all ratios are equal, such as the ratios
//! of program-cache counts. If all pairs then differ in one direction, the direction is reported.

use faultline_report::report::Better;
use faultline_stats::{
    paired::{RatioTest, ratio_test},
    summary::mean,
};

const CONFIDENCE_LEVEL: f64 = 0.95;
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    NothingShown,
    /// The metric depends on consensus or slot time, and these changed or are not the baseline's.
    NotComparable,
    /// No test is possible, and the pairs do not all differ in one direction beyond the margin.
    Untested,
    /// Beyond the margin with p < 0.05 in a first round: needs a second round.
    Unconfirmed,
    /// Like [`Verdict::Unconfirmed`], but the other round ran on another machine.
    OtherMachine,
    /// No test is possible; the ratio is beyond the margin, and every pair is worse.
    WorseUntested,
    BetterUntested,
    Worse,
    Better,
}

impl Verdict {
    /// The text for pages, feeds and badges; empty without a difference.
    pub fn label(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::WorseUntested => "worse in every pair, not tested",
            Self::BetterUntested => "better in every pair, not tested",
            Self::NotComparable => "not comparable",
            Self::OtherMachine => "not confirmed: another machine",
            Self::NothingShown | Self::Untested | Self::Unconfirmed => "",
        }
    }

    /// The text for the database and `campaign check`; never empty.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingShown => "nothing shown",
            Self::Untested => "not tested",
            Self::Unconfirmed => "not repeated yet",
            other => other.label(),
        }
    }

    pub fn direction(better: Better, ratio: f64) -> Self {
        match (better, ratio > 1.0) {
            (Better::Lower, true) | (Better::Higher, false) => Self::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Self::Better,
            (Better::Neither, _) => Self::NothingShown,
        }
    }

    pub fn direction_beyond(better: Better, ratio: f64, margin: f64) -> Self {
        if (ratio - 1.0).abs() > margin {
            Self::direction(better, ratio)
        } else {
            Self::NothingShown
        }
    }

    pub fn untested(self) -> Self {
        match self {
            Self::Worse => Self::WorseUntested,
            Self::Better => Self::BetterUntested,
            _ => Self::Untested,
        }
    }

    pub fn is_worse(self) -> bool {
        matches!(self, Self::Worse | Self::WorseUntested)
    }

    pub fn is_difference(self) -> bool {
        matches!(
            self,
            Self::WorseUntested | Self::BetterUntested | Self::Worse | Self::Better
        )
    }

    pub fn needs_confirmation(self) -> bool {
        matches!(
            self,
            Self::Unconfirmed | Self::WorseUntested | Self::BetterUntested
        )
    }
}

/// Log ratios of a metric's pairs, those of the first round before those of the second.
#[derive(Debug, Clone, Default)]
pub struct PairRatios {
    pub logarithms: Vec<f64>,
    pairs_in_first_round: usize,
}

impl PairRatios {
    pub fn add(&mut self, round: u32, logarithm: f64) {
        if round == 1 {
            self.logarithms.insert(self.pairs_in_first_round, logarithm);
            self.pairs_in_first_round += 1;
        } else {
            self.logarithms.push(logarithm);
        }
    }

    /// Both rounds; `None` with fewer than two pairs.
    pub fn test(&self) -> Option<RatioTest> {
        ratio_test(&self.logarithms, CONFIDENCE_LEVEL)
    }

    pub fn verdict(&self, better: Better, adjusted_p: Option<f64>, margin: f64) -> Verdict {
        let (first, second) = self.logarithms.split_at(self.pairs_in_first_round);
        let unadjusted = unadjusted_verdict(&self.logarithms, better, margin);
        if !matches!(unadjusted, Verdict::Worse | Verdict::Better) {
            return unadjusted;
        }
        if first.is_empty() || second.is_empty() {
            return Verdict::Unconfirmed;
        }
        // Another metric may have caused the second round, so the first round of this metric must
        // show a difference too.
        let first_verdict = unadjusted_verdict(first, better, margin);
        let second_verdict =
            mean(second).map(|mean| Verdict::direction_beyond(better, mean.exp(), margin));
        let confirmed = second_verdict == Some(unadjusted)
            && adjusted_p.is_some_and(|p| p < SIGNIFICANCE_LEVEL);
        if confirmed && (first_verdict == unadjusted || first_verdict == unadjusted.untested()) {
            unadjusted
        } else {
            Verdict::NothingShown
        }
    }
}

fn unadjusted_verdict(logarithms: &[f64], better: Better, margin: f64) -> Verdict {
    let Some(test) = ratio_test(logarithms, CONFIDENCE_LEVEL) else {
        return Verdict::Untested;
    };
    let direction = Verdict::direction_beyond(better, test.ratio.value, margin);
    let is_one_sided = |sign: f64| logarithms.iter().all(|value| value * sign > 0.0);
    match test.p {
        Some(p) if p < SIGNIFICANCE_LEVEL => direction,
        Some(_) => Verdict::NothingShown,
        None if is_one_sided(1.0) || is_one_sided(-1.0) => direction.untested(),
        None => Verdict::Untested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(ratios: &[&[f64]]) -> PairRatios {
        let mut rounds = PairRatios::default();
        for (round, ratios) in (1..).zip(ratios) {
            ratios
                .iter()
                .for_each(|ratio| rounds.add(round, ratio.ln()));
        }
        rounds
    }

    fn verdict(ratios: &[&[f64]]) -> Verdict {
        let rounds = rounds(ratios);
        let p = rounds.test().and_then(|test| test.p);
        rounds.verdict(Better::Lower, p, 0.05)
    }

    #[test]
    fn one_directional_pairs_without_variance_are_marked_as_untested() {
        assert_eq!(verdict(&[&[2.0; 3], &[2.0; 3]]), Verdict::WorseUntested);
        assert_eq!(verdict(&[&[2.0; 3]]), Verdict::WorseUntested);
        assert_eq!(verdict(&[&[0.5; 3], &[0.5; 3]]), Verdict::BetterUntested);
        assert_eq!(verdict(&[&[1.9, 2.1]]), Verdict::WorseUntested, "two pairs");
        assert_eq!(verdict(&[&[0.9, 2.1]]), Verdict::Untested, "two directions");
        assert_eq!(
            verdict(&[&[1.0; 3], &[1.0; 3]]),
            Verdict::Untested,
            "no difference"
        );
        assert_eq!(
            verdict(&[&[1.04; 3]]),
            Verdict::Untested,
            "within the margin"
        );
    }

    #[test]
    fn a_first_round_without_variance_is_confirmed_by_a_second_with_some() {
        assert_eq!(verdict(&[&[2.0; 3], &[2.0, 2.01, 1.99]]), Verdict::Worse);
        assert_eq!(verdict(&[&[2.0, 2.01, 1.99], &[2.0; 3]]), Verdict::Worse);
        assert_eq!(
            verdict(&[&[2.0; 3], &[1.0, 1.01, 0.99]]),
            Verdict::NothingShown
        );
    }
}
