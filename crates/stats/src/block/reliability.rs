//! Whether an interval may be relied on.

use serde::{Deserialize, Serialize};

/// Whether an interval keeps its promise, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Checked by simulation: intervals for 95 % cover 93 to 97 %.
    Reliable,
    /// The run is short beside how long its samples remember: it covers less than it says.
    TooShort {
        /// Independent values that the run is worth.
        n_eff: f64,
    },
    /// What is counted happened in too few stretches of the run.
    TooRare,
    /// The series drifts, or remembers longer than can be told: there may be no mean to estimate.
    Drifts,
    /// Every value is the same, so that nothing shows how far off it may be.
    Constant,
}

impl Reliability {
    /// Whether the interval keeps its promise.
    pub fn is_reliable(&self) -> bool {
        *self == Reliability::Reliable
    }

    /// That of the ratio of two numbers, which is given with its ends, for a change that is larger than the `margin`.
    pub fn of_ratio(
        before: Reliability,
        after: Reliability,
        [value, low, high]: [f64; 3],
        margin: f64,
    ) -> Reliability {
        let weaker = if before.is_reliable() { after } else { before };
        // Short runs cover less than they say, but more than half of what is as far from the ratio as twice the interval.
        let clear = low * low / value > 1.0 + margin || high * high / value < 1.0 - margin;
        match weaker {
            Reliability::TooShort { .. } if clear => Reliability::Reliable,
            other => other,
        }
    }
}
