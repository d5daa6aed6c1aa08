use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// In simulations, intervals of 95 % contain the true value in 93 to 97 % of the runs.
    Reliable,
    /// The interval is too narrow: few independent values, or an end beyond all values.
    TooShort { n_eff: f64 },
    /// The measured events happen in a few stretches of the run only, and these decide the result.
    TooRare,
    /// The series drifts, or its autocorrelation is longer than a series of this length can show.
    /// There may be no mean to estimate.
    Drifts,
    /// Every value is the same, so the standard error is unknown.
    Constant,
}

impl Reliability {
    pub fn is_reliable(&self) -> bool {
        *self == Self::Reliable
    }

    /// Reliability of the claim that the ratio of two runs differs from 1 by more than `margin`.
    /// `before` and `after` are the reliabilities of both runs.
    pub fn of_ratio(before: Self, after: Self, [value, low, high]: [f64; 3], margin: f64) -> Self {
        // Intervals of short runs are too narrow. A change counts if an interval twice as wide (in
        // logarithms) excludes the margin.
        let is_clear = low * low / value > 1.0 + margin || high * high / value < 1.0 - margin;
        let is_short = |run: &Self| matches!(run, Self::TooShort { .. });
        let mut unreliable = [before, after]
            .into_iter()
            .filter(|run| !(run.is_reliable() || is_clear && is_short(run)));
        unreliable.next().unwrap_or(Self::Reliable)
    }
}

#[cfg(test)]
mod tests {
    use super::Reliability::{self, Reliable, TooRare, TooShort};

    #[test]
    fn a_clear_change_compensates_only_for_short_runs() {
        let short = TooShort { n_eff: 12.0 };
        let (clear, slight) = ([2.0, 1.8, 2.2], [1.2, 1.1, 1.3]);
        let of = |before, after, ratio| Reliability::of_ratio(before, after, ratio, 0.05);
        assert_eq!(of(short, short, clear), Reliable);
        assert_eq!(of(Reliable, short, slight), short);
        assert_eq!(of(short, TooRare, clear), TooRare);
        assert_eq!(of(TooRare, short, clear), TooRare);
    }
}
